"""The records of one v2 batch into columns, for kernels.

Whatever is not plainly right is only refused here, and the reference is asked
what it is.  So this has to refuse all that `kafka_records.record` refuses.
"""

from __future__ import annotations

from typing import Final

from kafka_corpus.columnar.buffers import Out
from kafka_corpus.columnar.fields import (
    AHEAD,
    FAR,
    VIEW,
    fetch_ahead,
    make_valid,
    read_raw,
    read_varint,
    read_varlong,
    store_null,
    store_view,
)
from kafka_corpus.columnar.jit import inlined, part
from kafka_corpus.columnar.memory import store_32, store_64

# What becomes of an entry.
FINE: Final = 0
REFUSED: Final = 1  # or at least not plainly right
NO_ROOM: Final = 2
NO_HEADERS: Final = 7  # no room for its headers


@inlined
def read_nullable(at: int, stop: int, to: int, bits: int, row: int, buffer: int, base: int) -> tuple[int, bool]:
    """A varint length and its bytes as the view in *row*: where they end, and whether they are right (REC-10)."""
    raw, at = read_raw(at)
    if raw & 1:
        store_null(to + VIEW * row, bits, row)
        return at, True
    size = raw >> 1
    if size > stop - at:
        return at, False
    store_view(to + VIEW * row, at, size, buffer, base)
    return at + size, True


@inlined
def read_headers(at: int, stop: int, count: int, buffer: int, base: int, out: Out, header: int) -> tuple[int, bool]:
    """*count* headers: where they end, and whether they are all right (REC-18, REC-20)."""
    for number in range(header, header + count):
        raw, at = read_raw(at)
        size = raw >> 1
        if raw & 1 or size > stop - at:
            return at, False
        store_view(out.header_key + VIEW * number, at, size, buffer, base)
        at, good = read_nullable(at + size, stop, out.header_value, out.header_bits, number, buffer, base)
        if not good:
            return at, False
    return at, True


@inlined
def read_body(at: int, stop: int, buffer: int, base: int, out: Out, row: int, header: int) -> tuple[int, int]:
    """Key, value and headers, which have to end at *stop*: what became of them, and how many headers there are now."""
    at, good = read_nullable(at, stop, out.key, out.key_bits, row, buffer, base)
    if not good:
        return REFUSED, header
    at, good = read_nullable(at, stop, out.value, out.value_bits, row, buffer, base)
    if not good:
        return REFUSED, header
    raw, at = read_raw(at)
    if raw:
        count = raw >> 1
        if raw & 1 or count > stop - at:
            return REFUSED, header  # REC-14, REC-15
        if header + count > out.headers:
            return NO_HEADERS, header
        at, good = read_headers(at, stop, count, buffer, base, out, header)
        header += count
        if not good:
            return REFUSED, header
    return FINE if at == stop else REFUSED, header


@inlined
def read_records(
    at: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append: bool,
    append_time: int,
    position: int,
    buffer: int,
    base: int,
    out: Out,
    row: int,
    header: int,
) -> tuple[int, int, int]:
    """Exactly *count* records, which fill the bytes from *at* to *end*: what became of them, rows, headers."""
    ahead = max(end - at, AHEAD)
    for _ in range(count):
        raw, start = read_raw(at)
        stop = start + (raw >> 1)
        if raw & 1 or stop > end:
            return REFUSED, row, header
        if ahead <= FAR:
            fetch_ahead(at, stop, ahead)
        timestamp_delta, at, bad_timestamp = read_varlong(start + 1)  # ATT-15: nobody looks at the attributes
        if bad_timestamp:
            return REFUSED, row, header
        offset_delta, at, bad_offset = read_varint(at)
        if bad_offset:
            return REFUSED, row, header
        status, header = read_body(at, stop, buffer, base, out, row, header)
        if status != FINE:
            return status, row + 1, header
        store_64(out.offset + 8 * row, base_offset + offset_delta)  # HDR-26: sums wrap
        store_64(out.timestamp + 8 * row, append_time if append else base_timestamp + timestamp_delta)
        row += 1
        store_32(out.header_end + 4 * row, header)
        at = stop
    for to in range(out.position + 8 * (row - count), out.position + 8 * row, 8):
        store_64(to, position)
    return FINE if at == end else REFUSED, row, header


@part
def take_back(out: Out, row: int, end_row: int, header: int, end_header: int) -> None:
    """Rows that are not to be there: only their nulls have left a trace."""
    make_valid(out.key_bits, row, end_row)
    make_valid(out.value_bits, row, end_row)
    make_valid(out.header_bits, header, end_header)
