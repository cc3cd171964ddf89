"""Raw snappy blocks into memory, for kernels, and the xerial framing around them.

As in `records.py`, unusual input is only refused here: the reference's own
decompressor reads it then (`inflate.py`).
"""

from __future__ import annotations

from typing import Final

from kafka_pipeline.columnar.jit import inlined, part
from kafka_pipeline.columnar.memory import copy_16, load_i32, load_u8, raw_i64, raw_u32, store_8, store_64
from kafka_records.compression.snappy import HEADER, MAGIC, MOST_INFLATION

FRAME_MAGIC = int.from_bytes(MAGIC, "little", signed=True)
HEADER_SIZE = HEADER.size
ODD: Final = -1
SHORT: Final = 16  # as most elements are


@part
def claimed_size(at: int, end: int) -> tuple[int, int]:
    """The output size that the block at *at* claims, or `ODD`, and where its elements start."""
    value = 0
    for group in range(5):
        if at >= end:
            return ODD, at
        byte = load_u8(at)
        at += 1
        value |= (byte & 0x7F) << 7 * group
        if byte < 0x80:
            return value, at
    return ODD, at


@inlined
def copy_back(to: int, offset: int, length: int) -> None:
    """*length* bytes from *offset* before *to*, which may overlap; up to 15 more are written after them."""
    end = to + length
    if offset >= 16:
        copy_16(to, to - offset)
        while to + 16 < end:
            to += 16
            copy_16(to, to - offset)
    elif offset >= 8:
        while to < end:
            store_64(to, raw_i64(to - offset))
            to += 8
    else:
        while to < end:
            store_8(to, load_u8(to - offset))
            to += 1


@inlined
def copy_literal(to: int, at: int, length: int) -> None:
    """*length* bytes; up to 15 more are read and written after them."""
    copy_16(to, at)
    for done in range(16, length, 16):
        copy_16(to + done, at + done)


@part
def inflate_element(at: int, end: int, start: int, to: int, stop: int) -> tuple[int, int]:
    """Any element: where it ends, and its output from *to* on, which began at *start*; (`ODD`, 0) if it is wrong."""
    tag = load_u8(at)
    at += 1
    kind, length = tag & 3, (tag >> 2) + 1
    if kind == 0:
        if length > 60:
            more = length - 60
            length = (raw_u32(at) & ((1 << 8 * more) - 1)) + 1
            at += more
        if length > end - at or length > stop - to:
            return ODD, 0
        copy_literal(to, at, length)
        return at + length, to + length
    if kind == 1:
        length = (tag >> 2 & 7) + 4
        offset = (tag >> 5) << 8 | load_u8(at)
        at += 1
    elif kind == 2:
        offset = raw_u32(at) & 0xFFFF
        at += 2
    else:
        offset = raw_u32(at)
        at += 4
    if at > end or offset == 0 or offset > to - start or length > stop - to:
        return ODD, 0
    copy_back(to, offset, length)
    return at, to + length


@part
def inflate_block(at: int, end: int, to: int, size: int) -> bool:
    """The elements from *at* to *end*, which have to give exactly *size* bytes at *to*.

    A processor predicts the kind of the next element badly, so short elements are
    copied without a branch: their bytes come from one place or from the other.
    """
    start, stop = to, to + size
    while at < end:
        tag = load_u8(at)
        kind, word = tag & 3, raw_u32(at + 1)
        # All ones for a literal, for a copy with an offset of 11 bits, for one with 16 bits.
        literal, near, far = (kind - 1) >> 2, -(kind & 1), -(kind >> 1)
        length = (tag >> 2 & ~(near & 0x38)) + 1 + (near & 3)
        offset = near & (tag >> 5 << 8 | word & 0xFF) | far & word & 0xFFFF
        after = at + 1 + kind + (literal & (tag >> 2) + 1)  # not by way of `length`: the next element waits for this
        apart = (offset | literal & SHORT) >= length
        inside = (length <= SHORT) & (after <= end) & (length <= stop - to) & (offset <= to - start)
        if (kind != 3) & apart & inside:
            copy_16(to, literal & (at + 1) | ~literal & (to - offset))
            at, to = after, to + length
        else:
            at, to = inflate_element(at, end, start, to, stop)
            if at == ODD:
                return False
    return to == stop


@part
def snappy_output_bound(at: int, size: int) -> int:
    """Output bytes that the xerial blocks at *at* claim, or `ODD` if one is cut off or claims more than it can hold."""
    end = at + size
    if size < HEADER_SIZE or raw_i64(at) != FRAME_MAGIC:
        return ODD
    at += HEADER_SIZE
    bound = 0
    while at + 4 <= end:
        length = load_i32(at)
        at += 4
        if not 0 < length <= end - at:
            return ODD
        claimed, _ = claimed_size(at, at + length)
        if claimed == ODD or claimed > length * MOST_INFLATION:
            return ODD
        bound += claimed
        at += length
    return bound


@part
def inflate_stream(at: int, size: int, to: int) -> int:
    """The output of xerial blocks, whose bound is known to fit: its size, or `ODD`."""
    start, end = to, at + size
    at += HEADER_SIZE
    while at + 4 <= end:
        stop = at + 4 + load_i32(at)
        claimed, at = claimed_size(at + 4, stop)
        if not inflate_block(at, stop, to, claimed):
            return ODD
        to += claimed
        at = stop
    return to - start
