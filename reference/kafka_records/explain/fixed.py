"""Fixed fields, from the tables in `kafka_records.layout`; attributes bit by bit, and checksums."""

from __future__ import annotations

from collections.abc import Callable

from kafka_records import attributes as bits
from kafka_records.constants import MAGIC_VALUE_V0, MAGIC_VALUE_V2
from kafka_records.errors import RecordFormatError
from kafka_records.explain.model import Group, Note
from kafka_records.explain.pen import Pen
from kafka_records.explain.words import Words, pattern, span
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


# Mask, meaning of the bit when set, and when not.
V2_FLAGS = (
    (bits.TRANSACTIONAL_FLAG_MASK, "transactional", "not transactional"),
    (bits.CONTROL_FLAG_MASK, "control batch", "no control batch"),
    (bits.DELETE_HORIZON_FLAG_MASK, "delete horizon in base_timestamp", "no delete horizon"),
)
# ATT-07, LEG-17, LEG-20: what readers ignore.
UNUSED = {0: 0xF8, 1: 0xF0, 2: 0xFF80}


def codec_of(attributes: int) -> str:
    """The codec's name, or the fault of its id."""
    try:
        codec = bits.compression_of(attributes, at=0, rule="ATT-02")
    except RecordFormatError as error:
        return error.message
    return "uncompressed" if codec == "none" else codec


def say_attributes(attributes: int, magic: int) -> Words:
    """A summary, and a note for each bit that the format knows."""
    unsigned, digits = (attributes & 0xFFFF, 4) if magic == MAGIC_VALUE_V2 else (attributes & 0xFF, 2)
    named = bit_meanings(unsigned, magic)
    summary = ", ".join(text for mask, text in named if unsigned & mask or mask <= bits.TIMESTAMP_TYPE_MASK)
    notes = tuple(Note(pattern(unsigned, mask, 4 * digits), text) for mask, text in named)
    rule = "ATT-01" if magic == MAGIC_VALUE_V2 else "LEG-13"
    return Words(f"0x{unsigned:0{digits}x}", summary, notes, rule)


def bit_meanings(attributes: int, magic: int) -> list[tuple[int, str]]:
    """The mask and meaning of each known bit, and of the unknown ones if any is set."""
    named = [(bits.COMPRESSION_CODEC_MASK, codec_of(attributes))]
    if magic > MAGIC_VALUE_V0:
        append = attributes & bits.TIMESTAMP_TYPE_MASK
        named.append((bits.TIMESTAMP_TYPE_MASK, "LogAppendTime" if append else "CreateTime"))
    if magic == MAGIC_VALUE_V2:
        named += [(mask, yes if attributes & mask else no) for mask, yes, no in V2_FLAGS]
    if attributes & UNUSED[magic]:
        named.append((UNUSED[magic], "unused bits, ignored"))
    return named


def say_crc(stored: int, computed: int, *, name: str, covers: tuple[int, int], rule: str) -> Words:
    """Whether a checksum is right; *covers* is the first byte that it covers, and the end."""
    first, end = covers
    what = f"{name} of bytes {span(first, end - 1)}"
    verdict = "matches" if stored == computed else f"stored 0x{stored:08x}, computed 0x{computed:08x}"
    return Words(f"0x{stored:08x}", f"{what}: {verdict}", rule=rule)
