"""Reading a segment file by offset: LogSegment and OffsetIndex."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_records.broker.entries import Entry, file_entries, last_offset_of
from kafka_records.broker.errors import Thrown

# LogConfig#DEFAULT_INDEX_INTERVAL_BYTES
INDEX_INTERVAL: Final = 4096


class IndexEntry(NamedTuple):
    """An entry of the offset index: the last offset of the append at *position*, a byte of the file."""

    offset: int
    position: int


class Slice(NamedTuple):
    """The part of a segment that was read.

    Attributes:
        position: of the batch that holds the offset, in bytes from the start of the file.
        data: from there on; the last batch may be cut off (FRM-07).
        incomplete: whether even the first batch is more than was allowed.
    """

    position: int
    data: bytes
    incomplete: bool


def offset_index(appended: Iterable[bytes], interval: int = INDEX_INTERVAL) -> tuple[IndexEntry, ...]:
    """The offset index after these appends, as LogSegment#append writes it: one entry every *interval* bytes or more.

    Raises:
        Thrown: an append that cannot be read (SEG-04).
    """
    found = []
    position = unindexed = 0
    for data in appended:
        if unindexed > interval:
            *_, last = file_entries(data)
            found.append(IndexEntry(last_offset_of(last), position))
            unindexed = 0
        position += len(data)
        unindexed += len(data)
    return tuple(found)


def recovered_index(stored: bytes) -> tuple[IndexEntry, ...]:
    """The index that LogSegment#recover makes, which is that of a log appended to batch by batch."""
    return offset_index(entry.data for entry in file_entries(stored))


def read_segment(
    stored: bytes, offset: int, most: int, end: int, index: Sequence[IndexEntry], *, whole_first: bool
) -> Slice | None:
    """LogSegment#read: from the batch that holds *offset*, or the next one, on (OFF-12, SEG-02, SIZ-08).

    Args:
        stored: the segment.
        offset: the offset to read from.
        most: bytes that the reader would like at most.
        end: position that must not be read beyond.
        index: the segment's offset index.
        whole_first: whether the first batch comes whole, however large it is (KIP-74).

    Returns:
        None where all stored offsets are below *offset*.

    Raises:
        Thrown: a size that cannot be (SEG-04), or a limit below 0.
    """
    if most < 0:
        raise Thrown("IllegalArgumentException", "OFF-12")
    first = _find(stored, offset, index)
    if first is None:
        return None
    position, size = first
    allowed = max(most, size) if whole_first else most
    return Slice(position, stored[position : min(end, position + allowed)], allowed < size)


def _find(stored: bytes, offset: int, index: Sequence[IndexEntry]) -> tuple[int, int] | None:
    """#translateOffset: position and size of the first batch whose last offset is not below *offset*."""
    start = max((each.position for each in index if each.offset <= offset), default=0)
    for position, entry in positions(stored, start):
        if last_offset_of(entry) >= offset:
            return position, len(entry.data)
    return None


def positions(stored: bytes, start: int = 0) -> Iterator[tuple[int, Entry]]:
    """Every whole entry from the byte *start* on, with the byte where it begins."""
    for entry in file_entries(stored[start:]):
        yield start, entry
        start += len(entry.data)


def position_of(stored: bytes, offset: int) -> int:
    """Where the batch that holds *offset* begins, or the end of the segment."""
    found = _find(stored, offset, ())
    return len(stored) if found is None else found[0]


def upper_bound(piece: Slice, index: Iterable[IndexEntry], log_end_offset: int) -> int:
    """#fetchUpperBoundOffset: an offset above all that was read, as near as the index allows."""
    end = piece.position + len(piece.data)
    return next((each.offset for each in index if each.position >= end), log_end_offset)
