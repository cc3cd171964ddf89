"""Fixed fields, written from the tables in `kafka_records.layout`."""

from __future__ import annotations

from collections.abc import Callable

from kafka_records.explain.model import Group
from kafka_records.explain.pen import Pen
from kafka_records.explain.words import Words
from kafka_records.layout import FixedField, Layout

Values = dict[str, int]
Say = Callable[[str, int, Values], Words]

GROUPS: dict[str, Group] = {
    "offset": "offset",
    "base_offset": "offset",
    "last_offset_delta": "offset",
    "message_size": "framing",
    "batch_length": "framing",
    "record_count": "framing",
    "partition_leader_epoch": "producer",
    "magic": "format",
    "attributes": "format",
    "crc": "checksum",
    "timestamp": "time",
    "base_timestamp": "time",
    "max_timestamp": "time",
    "producer_id": "producer",
    "producer_epoch": "producer",
    "base_sequence": "producer",
}


def read_values(pen: Pen, layout: Layout) -> Values:
    """The values of those fields of *layout* that are all there, by name."""
    return {field.name: read_field(pen, field) for field in layout.fields if field.offset + field.width <= pen.left}


def read_field(pen: Pen, field: FixedField) -> int:
    """The value of a field of the layout that starts at the pen's next byte."""
    at = pen.at + field.offset
    return int.from_bytes(pen.data[at : at + field.width], "big", signed=not field.type.startswith("u"))


def write_fixed(pen: Pen, layout: Layout, say: Say, upto: int | None = None) -> Values:
    """Write the fields of *layout* that are all there, and end before byte *upto*; give their values."""
    values = read_values(pen, layout)
    for field in layout.fields:
        if field.name not in values or (upto is not None and field.offset + field.width > upto):
            break
        value = values[field.name]
        pen.field(field.name, field.width, say(field.name, value, values), GROUPS[field.name], value=value)
    return values
