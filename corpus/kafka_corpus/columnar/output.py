"""Numbers and byte strings into the bytes of an entry, for kernels.

A writer may write up to `SLACK` bytes behind what it writes, so there have to be so many.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_corpus.columnar.fields import INLINE, VIEW
from kafka_corpus.columnar.jit import inlined, part
from kafka_corpus.columnar.memory import (
    copy_64,
    load_u8,
    raw_i64,
    raw_u32,
    shift_right,
    store_8,
    store_16,
    store_32,
    store_64,
)

NULL = -1  # the size of what is null


class Strings(NamedTuple):
    """A column of byte strings: addresses of its views and its bitmap, 0 if nothing is null.

    *shift* is the bit of the first row; at *buffers* there are for each data
    buffer its address, and where it ends.
    """

    views: int
    bits: int
    shift: int
    buffers: int


class Table(NamedTuple):
    """The columns of records: addresses, and byte strings."""

    offset: int
    timestamp: int
    key: Strings
    value: Strings
    header_end: int
    header_key: Strings
    header_value: Strings


@inlined
def size_of(strings: Strings, row: int) -> int:
    """Bytes in *row*, or `NULL`."""
    if strings.bits:
        bit = row + strings.shift
        if not load_u8(strings.bits + (bit >> 3)) >> (bit & 7) & 1:
            return NULL
    return raw_u32(strings.views + VIEW * row)


@inlined
def zigzag(value: int) -> int:
    """A signed number as one without a sign, its bits those of a uint64 (VAR-02)."""
    return value << 1 ^ value >> 63


@part
def long_width(raw: int) -> int:
    """Bytes of any varint."""
    width = 1
    while shift_right(raw, 7):
        raw = shift_right(raw, 7)
        width += 1
    return width


@inlined
def width_of(raw: int) -> int:
    """Bytes of the varint that holds a zig-zag number."""
    if 0 <= raw < 0x4000:
        return 1 + (raw >= 0x80)
    return long_width(raw)


@part
def write_long(to: int, raw: int) -> int:
    """Any varint; where it ends."""
    while shift_right(raw, 7):
        store_8(to, raw & 0x7F | 0x80)
        raw = shift_right(raw, 7)
        to += 1
    store_8(to, raw)
    return to + 1


@inlined
def write_raw(to: int, raw: int) -> int:
    """The varint of a zig-zag number, in its shortest form (VAR-04); where it ends."""
    if 0 <= raw < 0x80:
        store_8(to, raw)
        return to + 1
    if 0 <= raw < 0x4000:
        store_16(to, raw & 0x7F | 0x80 | raw >> 7 << 8)
        return to + 2
    return write_long(to, raw)


@part
def copy_to_the_end(to: int, at: int, size: int) -> None:
    """Exactly these bytes, for what lies at the end of its memory."""
    while size >= 8:
        store_64(to, raw_i64(at))
        to, at, size = to + 8, at + 8, size - 8
    for byte in range(size):
        store_8(to + byte, load_u8(at + byte))


@inlined
def write_bytes(to: int, strings: Strings, row: int, size: int) -> int:
    """The *size* bytes in *row*; where they end."""
    view = strings.views + VIEW * row
    if size <= INLINE:
        store_64(to, raw_i64(view + 4))
        store_32(to + 8, raw_u32(view + 12))
        return to + size
    buffer = strings.buffers + 16 * raw_u32(view + 8)
    at = raw_i64(buffer) + raw_u32(view + 12)
    if at + size + 64 > raw_i64(buffer + 8):
        copy_to_the_end(to, at, size)
        return to + size
    copy_64(to, at)
    for done in range(64, size, 64):
        copy_64(to + done, at + done)
    return to + size
