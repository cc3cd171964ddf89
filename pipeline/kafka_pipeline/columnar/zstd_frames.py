"""How large the output of a Zstandard frame can be, for kernels (RFC 8878, as the reference reads it)."""

from __future__ import annotations

from typing import Final

from kafka_pipeline.columnar.jit import part
from kafka_pipeline.columnar.memory import load_u8, raw_i64, raw_u32
from kafka_records.compression.zstd import MAGIC, MAX_BLOCK_SIZE, MAX_WINDOW_SIZE

FRAME_MAGIC = int.from_bytes(MAGIC, "little")
UNKNOWN: Final = -1
# Frame header: magic, descriptor, window, dictionary id, content size.
LONGEST_HEADER = 18


@part
def content_size_of(descriptor: int, at: int) -> int:
    """The content size at *at*; `UNKNOWN` where the frame does not say."""
    code = descriptor >> 6
    if code == 0:
        return load_u8(at) if descriptor & 0x20 else UNKNOWN
    if code == 1:
        return load_u8(at) + (load_u8(at + 1) << 8) + 256
    return raw_u32(at) if code == 2 else raw_i64(at)


@part
def blocks_bound(at: int, end: int, block_size: int, trailer: int) -> int:
    """The most output of the blocks from *at*, which with the trailer have to end at *end*; 0 if they do not."""
    bound = 0
    while at + 3 <= end:
        header = raw_u32(at - 1) >> 8
        size, kind = header >> 3, header >> 1 & 3
        at += 3 + (1 if kind == 1 else size)
        if size > block_size or kind == 3:
            return 0
        bound += block_size if kind == 2 else size
        if header & 1:
            return bound if at + trailer == end else 0
    return 0


@part
def zstd_output_bound(at: int, size: int) -> int:
    """The most bytes that a single usual frame can give; 0 for anything else, and for a frame without output."""
    if size < LONGEST_HEADER or raw_u32(at) != FRAME_MAGIC:
        return 0
    descriptor = load_u8(at + 4)
    single = descriptor & 0x20
    # No reserved bit, and no dictionary.
    if descriptor & 0x0B:
        return 0
    sized = at + (5 if single else 6)
    content = content_size_of(descriptor, sized)
    if single:
        window = content
    else:
        exponent = load_u8(at + 5) >> 3
        window = (1 << (10 + exponent)) + ((1 << (10 + exponent)) >> 3) * (load_u8(at + 5) & 7)
    if window < 0 or window > MAX_WINDOW_SIZE:
        return 0
    code = descriptor >> 6
    used = (1 if single else 0) if code == 0 else 1 << code
    bound = blocks_bound(sized + used, at + size, min(window, MAX_BLOCK_SIZE), 4 if descriptor & 4 else 0)
    if content == UNKNOWN:
        return bound
    return content if 0 < content <= bound else 0
