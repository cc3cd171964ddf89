"""LZ4 frames into memory, for kernels: the framing is ours, the blocks are the library's (`frames.py`)."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int, c_void_p
from typing import Any, Final

from llvmlite import ir
from numba import types

from kafka_pipeline.columnar.jit import called, part, primitive
from kafka_pipeline.columnar.memory import Emit, load_u8, raw_u32, store_8
from kafka_records.compression.lz4 import (
    BLOCK_CHECKSUM,
    BLOCK_INDEPENDENCE,
    CONTENT_CHECKSUM,
    CONTENT_SIZE,
    MAGIC,
    RESERVED,
    STORED,
    VERSION,
)

FRAME_MAGIC = int.from_bytes(MAGIC, "little")
FIXED_FLAGS = 0xC0 | RESERVED | BLOCK_INDEPENDENCE | BLOCK_CHECKSUM
USUAL_FLAGS = VERSION | BLOCK_INDEPENDENCE
SIZE_MASK = STORED - 1
ODD: Final = -1  # not a frame that is read here
PRIME_1, PRIME_2, PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME_4, PRIME_5 = 0x27D4EB2F, 0x165667B1
MASK = 0xFFFFFFFF


def _decompress_safe(
    _typing: Any, _function: Any, _source: Any, _target: Any, _size: Any, _capacity: Any
) -> tuple[Any, Emit]:
    """`LZ4_decompress_safe(source, target, size, capacity)`: bytes written, negative if it is no LZ4 block."""

    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(number, [pointer, pointer, number, number])
        function = builder.inttoptr(args[0], kind.as_pointer())
        places = [builder.inttoptr(address, pointer) for address in args[1:3]]
        sizes = [builder.trunc(size, number) for size in args[3:]]
        return builder.sext(builder.call(function, [*places, *sizes]), ir.IntType(64))

    return types.int64(*[types.int64] * 5), emit


decompress_safe: Callable[[int, int, int, int, int], int] = primitive(
    _decompress_safe, called(c_int, c_void_p, c_void_p, c_int, c_int)
)


@part
def rotated(value: int, bits: int) -> int:
    """32 bits, turned to the left."""
    return (value << bits | value >> (32 - bits)) & MASK


@part
def xxh32(at: int, size: int) -> int:
    """XXH32 with seed 0, of fewer than 16 bytes."""
    value = (PRIME_5 + size) & MASK
    end = at + size
    while at + 4 <= end:
        value = rotated((value + raw_u32(at) * PRIME_3) & MASK, 17) * PRIME_4 & MASK
        at += 4
    while at < end:
        value = rotated((value + load_u8(at) * PRIME_5) & MASK, 11) * PRIME_1 & MASK
        at += 1
    value = (value ^ value >> 15) * PRIME_2 & MASK
    value = (value ^ value >> 13) * PRIME_3 & MASK
    return value ^ value >> 16


@part
def blocks_at(at: int, size: int, check_header: bool) -> tuple[int, int]:
    """Where the blocks of the frame start, and how large one may be; (`ODD`, 0) unless the header is a usual one."""
    if size < 11 or raw_u32(at) != FRAME_MAGIC:
        return ODD, 0
    flags, descriptor = load_u8(at + 4), load_u8(at + 5)
    if flags & FIXED_FLAGS != USUAL_FLAGS or descriptor & 0x8F or descriptor >> 4 < 4:
        return ODD, 0
    used = 14 if flags & CONTENT_SIZE else 6
    if used >= size:
        return ODD, 0
    if check_header and load_u8(at + used) != xxh32(at + 4, used - 4) >> 8 & 0xFF:
        return ODD, 0
    return at + used + 1, 1 << (2 * (descriptor >> 4) + 8)


@part
def lz4_output_bound(at: int, size: int, check_header: bool) -> int:
    """The most bytes that the frame at *at* can give, or `ODD`; it is whole if it is not odd."""
    end = at + size
    flags = load_u8(at + 4) if size > 4 else 0
    at, block_size = blocks_at(at, size, check_header)
    if at == ODD:
        return ODD
    bound = 0
    while at + 4 <= end:
        block = raw_u32(at)
        at += 4
        length = block & SIZE_MASK
        if length == 0:
            whole = not flags & CONTENT_CHECKSUM or at + 4 <= end
            return bound if whole else ODD
        if length > block_size or length > end - at:
            return ODD
        bound += length if block & STORED else block_size
        at += length
    return ODD


@part
def inflate_lz4_frame(function: int, at: int, size: int, check_header: bool, to: int) -> int:
    """The output of the frame at *at*, whose bound is known to fit: its size, or `ODD`."""
    at, block_size = blocks_at(at, size, check_header)
    start = to
    while True:
        block = raw_u32(at)
        at += 4
        length = block & SIZE_MASK
        if length == 0:
            return to - start
        if block & STORED:
            for byte in range(length):
                store_8(to + byte, load_u8(at + byte))
            written = length
        else:
            written = decompress_safe(function, at, to, length, block_size)
            if written <= 0:
                return ODD  # LZ4-11, LZ4-15
        to += written
        at += length
