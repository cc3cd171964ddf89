"""v0 and v1 messages and wrappers built by hand, and the batches that they must decode to.

The bytes come from `build.raw_message` and `frames`; nothing here uses the
reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_corpus.authoring.build import TIMESTAMP, raw_message
from kafka_corpus.authoring.frames import codec_id, pack
from kafka_records import Batch, Record
from kafka_records.constants import NO_TIMESTAMP, Compression, TimestampType

# LEG-18: bit 3 of the attributes.
APPEND_BIT = 0x08


def record_of(
    magic: int,
    offset: int = 0,
    key: bytes | None = None,
    value: bytes | None = b"value",
    *,
    timestamp: int = TIMESTAMP,
) -> Record:
    """A record as *magic* can hold it: v0 has no timestamp (LEG-17)."""
    return Record(offset, timestamp if magic else NO_TIMESTAMP, key, value)


def numbered(magic: int, *offsets: int) -> list[Record]:
    """Records at *offsets*, a millisecond apart, with their index in keys and values."""
    return [
        record_of(magic, offset, b"k%d" % index, b"value %d" % index, timestamp=TIMESTAMP + index)
        for index, offset in enumerate(offsets)
    ]


def message_bytes(
    record: Record, magic: int, *, base: int = 0, attributes: int = 0, timestamp: int | None = None
) -> bytes:
    """*record* as one message, its offset counted from *base*."""
    return raw_message(
        magic,
        record.key,
        record.value,
        offset=record.offset - base,
        attributes=attributes,
        timestamp=record.timestamp if timestamp is None else timestamp,
    )


def set_of(records: Iterable[Record], magic: int, *, base: int = 0, attributes: int = 0) -> bytes:
    """*records* as messages end to end."""
    return b"".join(message_bytes(record, magic, base=base, attributes=attributes) for record in records)


def wrap(inner: bytes, magic: int, codec: Compression, **fields: Any) -> bytes:
    """A wrapper around the plain message set *inner*; *fields* as for `seal`."""
    return seal(pack(codec, inner, magic=magic), magic, codec, **fields)


def seal(
    packed: bytes | None,
    magic: int,
    codec: Compression,
    *,
    offset: int = 0,
    timestamp: int = TIMESTAMP,
    attributes: int = 0,
    key: bytes | None = None,
) -> bytes:
    """A wrapper around a value that is compressed already, or is invalid; *attributes* are added to the codec's."""
    return raw_message(magic, key, packed, offset=offset, attributes=codec_id(codec) | attributes, timestamp=timestamp)


def timestamp_type(magic: int, *, append: bool = False) -> TimestampType:
    """The timestamp type that bit 3 selects in *magic*."""
    if not magic:
        return "none"
    return "append" if append else "create"


def single_batch(record: Record, magic: int, *, append: bool = False) -> Batch:
    """The batch that an uncompressed message decodes to."""
    return Batch(
        magic=magic,
        base_offset=record.offset,
        last_offset=record.offset,
        timestamp_type=timestamp_type(magic, append=append),
        max_timestamp=record.timestamp,
        records=(record,),
    )


def single_batches(records: Iterable[Record], magic: int) -> tuple[Batch, ...]:
    """The batches that uncompressed messages end to end decode to (LEG-24)."""
    return tuple(single_batch(record, magic) for record in records)


def wrapper_batch(
    records: Iterable[Record],
    magic: int,
    codec: Compression,
    *,
    append: bool = False,
    offset: int | None = None,
    timestamp: int = TIMESTAMP,
) -> Batch:
    """The batch that a wrapper decodes to; *offset* and *timestamp* are those of the wrapper."""
    records = tuple(records)
    return Batch(
        magic=magic,
        base_offset=records[0].offset,
        last_offset=records[-1].offset if offset is None else offset,
        compression=codec,
        timestamp_type=timestamp_type(magic, append=append),
        max_timestamp=timestamp if magic else NO_TIMESTAMP,
        records=records,
    )


def wrapped(records: Iterable[Record], magic: int, codec: Compression) -> tuple[bytes, Batch]:
    """An ordinary wrapper: relative offsets in v1, absolute in v0, the time of the newest record."""
    records = tuple(records)
    newest = max(record.timestamp for record in records)
    inner = set_of(records, magic, base=records[0].offset if magic else 0)
    data = wrap(inner, magic, codec, offset=records[-1].offset, timestamp=newest)
    return data, wrapper_batch(records, magic, codec, timestamp=newest)
