"""Numbers and byte strings into the bytes of an entry, for kernels.

A writer may write up to `SLACK` bytes behind what it writes, so there have to be so many.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_corpus.columnar.fields import AHEAD, INLINE, VIEW
from kafka_corpus.columnar.jit import inlined, part
from kafka_corpus.columnar.memory import (
    copy_64,
    load_u8,
    prefetch,
    raw_i64,
    raw_u32,
    shift_right,
    store_8,
    store_16,
    store_32,
    store_64,
)

NULL = -1  # the size of what is null
# The most that a varint of one byte says, and of two.
ONE_BYTE: Final = 0x3F
TWO_BYTES: Final = 0x1FFF


def varints() -> npt.NDArray[np.uint32]:
    """For each number that takes up to two bytes what these are (VAR-02, VAR-04); their bits in the upper half."""
    raw = np.arange(TWO_BYTES + 1, dtype=np.uint32) << 1
    return np.where(raw < 0x80, raw | 8 << 16, raw & 0x7F | 0x80 | raw >> 7 << 8 | 16 << 16).astype(np.uint32)


VARINTS: Final = varints()


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


@inlined
def short_varint(value: int) -> tuple[int, int]:
    """The varint of a number from 0 to `TWO_BYTES` as a little-endian one, and its bits: looked up, not worked out.

    Of the table only the entries of sizes and deltas that are there are ever in a cache.
    """
    entry = VARINTS[value & TWO_BYTES]
    return entry & 0xFFFF, entry >> 16


@part
def copy_to_the_end(to: int, at: int, size: int) -> None:
    """Exactly these bytes, for what lies at the end of its memory."""
    while size >= 8:
        store_64(to, raw_i64(at))
        to, at, size = to + 8, at + 8, size - 8
    for byte in range(size):
        store_8(to + byte, load_u8(at + byte))


@part
def copy_behind(to: int, at: int, size: int) -> None:
    """What of these bytes lies behind the first 128."""
    for done in range(128, size, 64):
        copy_64(to + done, at + done)


@inlined
def write_view(to: int, view: int, buffers: int, size: int) -> int:
    """The *size* bytes of a view; where they end."""
    if size <= INLINE:
        store_64(to, raw_i64(view + 4))
        store_32(to + 8, raw_u32(view + 12))
        return to + size
    buffer = buffers + 16 * raw_u32(view + 8)
    at = raw_i64(buffer) + raw_u32(view + 12)
    if at + size + 64 > raw_i64(buffer + 8):
        copy_to_the_end(to, at, size)
        return to + size
    # The next strings mostly lie behind this one, in order; a tenth faster where these are in no cache.
    prefetch(at + AHEAD)
    copy_64(to, at)
    # Written out, since LLVM makes much of a loop that mostly ends at once.
    if size > 64:
        copy_64(to + 64, at + 64)
        if size > 128:
            copy_behind(to, at, size)
    return to + size


@inlined
def write_bytes(to: int, strings: Strings, row: int, size: int) -> int:
    """The *size* bytes in *row*; where they end."""
    return write_view(to, strings.views + VIEW * row, strings.buffers, size)
