"""Variable-length fields, for kernels: zig-zag varints, and byte strings as Arrow views.

A reader may look up to `SLACK` bytes behind what it reads, so there have to be so many.
"""

from __future__ import annotations

from typing import Final

from kafka_corpus.columnar.jit import inlined, part
from kafka_corpus.columnar.memory import load_u8, prefetch, raw_u32, shift_right, store_8, store_64, store_short

SLACK: Final = 64
# A page: the processor itself sees that a log is read in order, but not where in memory the next page is.
AHEAD: Final = 4096
FAR: Final = 24 * 1024  # more than this would push out of the first cache what is still to be read
CACHE_LINE: Final = 64
INLINE: Final = 12  # bytes that a view holds itself
VIEW: Final = 16  # bytes of a view
NO_VARINT: Final = 1 << 40  # more than any size


@part
def long_varint(at: int, most: int) -> tuple[int, int, bool]:
    """Groups from up to *most* bytes: the zig-zag number, where it ends, and whether it does not end."""
    value = shift = 0
    for _ in range(most):
        byte = load_u8(at)
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if most == 5:
                value &= 0xFFFFFFFF  # VAR-07
            return shift_right(value, 1) ^ -(value & 1), at, False
    return 0, at, True


@part
def long_raw(at: int) -> tuple[int, int]:
    """The same as `read_raw`, of up to 5 bytes."""
    value, at, bad = long_varint(at, 5)
    return NO_VARINT if bad else (value << 1 ^ value >> 63), at


@inlined
def read_varint(at: int) -> tuple[int, int, bool]:
    """A zig-zag int32 of 1 to 5 bytes: the number, where it ends, and whether it is none (VAR-06)."""
    first = load_u8(at)
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1, False
    second = load_u8(at + 1)
    if second < 0x80:
        value = first & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), at + 2, False
    return long_varint(at, 5)


@inlined
def read_varlong(at: int) -> tuple[int, int, bool]:
    """A zig-zag int64 of 1 to 10 bytes: the number, where it ends, and whether it is none (VAR-08)."""
    first = load_u8(at)
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1, False
    second = load_u8(at + 1)
    if second < 0x80:
        value = first & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), at + 2, False
    return long_varint(at, 10)


@inlined
def read_raw(at: int) -> tuple[int, int]:
    """A zig-zag int32 as it stands, odd for what is below 0, and where it ends; `NO_VARINT` if it is none (VAR-06)."""
    first = load_u8(at)
    if first < 0x80:
        return first, at + 1
    second = load_u8(at + 1)
    if second < 0x80:
        return first & 0x7F | second << 7, at + 2
    return long_raw(at)


@inlined
def fetch_ahead(at: int, stop: int, ahead: int) -> None:
    """Have what lies *ahead* bytes behind these bytes fetched: a checksum is soon to run over it at full speed."""
    prefetch(at + ahead)
    line = at + ahead + CACHE_LINE
    while line < stop + ahead:
        prefetch(line)
        line += CACHE_LINE


@inlined
def store_view(to: int, at: int, size: int, buffer: int, base: int) -> None:
    """The view of *size* bytes at *at*, which lie in the column's data buffer number *buffer*, from *base* on."""
    if size > INLINE:
        store_64(to, size | raw_u32(at) << 32)
        store_64(to + 8, buffer | (at - base) << 32)
    else:
        store_short(to, at, size)


@inlined
def store_null(to: int, bits: int, row: int) -> None:
    """No value in *row*: an empty view, a zero in the bitmap, and one in front of it, which says that there are any."""
    store_64(to, 0)
    store_64(to + 8, 0)
    store_8(bits - 1, 0)
    at = bits + (row >> 3)
    store_8(at, load_u8(at) & ~(1 << (row & 7)))


@part
def make_valid(bits: int, first: int, end: int) -> None:
    """Ones in the bitmap again, for rows that are taken back."""
    for row in range(first, end):
        at = bits + (row >> 3)
        store_8(at, load_u8(at) | 1 << (row & 7))
