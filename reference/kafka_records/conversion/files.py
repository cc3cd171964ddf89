"""The entries of a segment file as a broker reads them: FileLogInputStream#nextBatch."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.constants import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from kafka_records.layout import ENTRY
from kafka_records.message import is_too_small
from kafka_records.primitives import wrap_int64


def file_entries(data: bytes) -> Iterator[Entry]:
    """Whole entries, of any magic (SEG-05), until 17 bytes or fewer are left, or one is cut off (SEG-03).

    Raises:
        Thrown: a size that cannot be (SEG-04).
    """
    at = 0
    while at < len(data) - HEADER_SIZE_UP_TO_MAGIC:
        size: int = ENTRY.struct.unpack_from(data, at)[1]
        if is_too_small(size):
            raise Thrown("CorruptRecordException", "SEG-04")
        end = at + LOG_OVERHEAD + size
        if end > len(data):
            return
        yield Entry(data[at:end])
        at = end


def last_offset_of(entry: Entry) -> int:
    """OFF-11 without the 1; a message's offset is its last (NST-26)."""
    base: int = ENTRY.struct.unpack_from(entry.data)[0]
    return wrap_int64(base + entry.number("last_offset_delta")) if entry.is_v2 else base
