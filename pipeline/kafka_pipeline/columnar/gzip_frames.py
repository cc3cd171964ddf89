"""gzip members into memory, for kernels, and which of them ISA-L may have (RFC 1951, RFC 1952).

ISA-L is twice as fast as zlib, but takes code tables that zlib refuses.  So it
is only given what both take: a single block whose codes are complete, and its
tables are looked at here.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int, c_void_p
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from kafka_pipeline.columnar.checksum import crc32
from kafka_pipeline.columnar.jit import Numbers, called, kernel, part, primitive
from kafka_pipeline.columnar.memory import SLACK, Emit, load_u8, raw_i64, raw_u32, store_32, store_64
from kafka_records.compression.gzip import DEFLATE, HEADER, MAGIC, TRAILER

# In which order the lengths of the code for lengths come.
ORDER: Final = np.array([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15], np.int64)
TABLE: Final = 128  # a code for lengths has 7 bits at most
LITERALS, DISTANCES = 286, 30
WHOLE: Final = 1 << 15  # what the codes of a complete table add up to
END_OF_BLOCK: Final = 256
HEADER_SIZE, TRAILER_SIZE = HEADER.size, TRAILER.size
USUAL_START = int.from_bytes(HEADER.pack(MAGIC, DEFLATE, 0, 0, 0, 0)[:4], "little")  # no flags
# Deflate gives at most so many bytes for one.
MOST_INFLATION: Final = 1032
ODD: Final = -1  # not a member that is read here
# `struct inflate_state` of ISA-L's igzip_lib.h is less than 90 KiB large, and begins with these.
STATE_SIZE: Final = 256 * 1024
NEXT_OUT, AVAIL_OUT, TOTAL_OUT, NEXT_IN, AVAIL_IN = 0, 8, 12, 16, 32


@part
def bits(at: int, position: int, count: int) -> int:
    """*count* bits from bit *position* on of the bytes at *at*."""
    return (raw_i64(at + (position >> 3)) >> (position & 7)) & ((1 << count) - 1)


@part
def make_table(at: int, position: int, count: int, table: Numbers, lengths: Numbers) -> bool:
    """The table of the code for lengths, each symbol with its length below it; whether it is complete."""
    lengths[:19] = 0
    for number in range(count):
        lengths[ORDER[number]] = bits(at, position + 3 * number, 3)
    code = 0
    for length in range(1, 8):
        for symbol in range(19):
            if lengths[symbol] == length:
                if code >= 1 << length:
                    return False
                turned = 0
                for bit in range(length):
                    turned |= (code >> bit & 1) << (length - 1 - bit)
                for entry in range(turned, TABLE, 1 << length):
                    table[entry] = symbol << 3 | length
                code += 1
        code <<= 1
    return code == TABLE << 1


@part
def read_lengths(at: int, position: int, end: int, count: int, table: Numbers, lengths: Numbers) -> bool:
    """*count* code lengths, run-length coded; whether that is what there is."""
    number = 0
    while number < count:
        if position > end:
            return False
        entry = table[bits(at, position, 7)]
        position += entry & 7
        symbol, times, value = entry >> 3, 1, entry >> 3
        if symbol == 16:
            if number == 0:
                return False
            times, value = 3 + bits(at, position, 2), lengths[number - 1]
            position += 2
        elif symbol == 17:
            times, value = 3 + bits(at, position, 3), 0
            position += 3
        elif symbol == 18:
            times, value = 11 + bits(at, position, 7), 0
            position += 7
        if number + times > count:
            return False
        lengths[number : number + times] = value
        number += times
    return True


@part
def code_space(lengths: Numbers, first: int, end: int) -> int:
    """Code space that codes of these lengths fill; `WHOLE` is a complete code."""
    total = 0
    for number in range(first, end):
        if lengths[number]:
            total += WHOLE >> lengths[number]
    return total


@part
def is_plain(at: int, size: int, table: Numbers, lengths: Numbers) -> bool:
    """Whether the member of *size* bytes at *at*, without extras, has one block, with tables that all take."""
    end = 8 * size
    at += HEADER_SIZE
    kind = load_u8(at) & 7
    if kind in (1, 3):
        return True  # stored, or with fixed codes
    if kind != 5:
        return False
    literals, distances = bits(at, 3, 5) + 257, bits(at, 8, 5) + 1
    used = bits(at, 13, 4) + 4
    if literals > LITERALS or distances > DISTANCES or not make_table(at, 17, used, table, lengths):
        return False
    count = literals + distances
    if not read_lengths(at, 17 + 3 * used, end, count, table, lengths) or lengths[END_OF_BLOCK] == 0:
        return False
    if code_space(lengths, 0, literals) != WHOLE:
        return False
    # No distance at all, or a single one, which is half a table.
    rest = code_space(lengths, literals, count)
    return rest in (WHOLE, 0) or (rest == WHOLE >> 1 and lengths[literals:count].max() == 1)


@kernel
def find_plain(packed: Numbers, codec: int, plain: Numbers) -> None:
    """Ones in *plain* for those rows of *packed* that have this codec and are so."""
    table, lengths = np.empty(TABLE, np.int64), np.empty(LITERALS + DISTANCES, np.int64)
    for row in range(len(packed)):
        if packed[row, 3] == codec and packed[row, 2] > HEADER_SIZE:
            plain[row] = is_plain(packed[row, 1], packed[row, 2], table, lengths)


def _inflate_stateless(_typing: Any, _function: Any, _state: Any) -> tuple[Any, Emit]:
    """`isal_inflate_stateless(state)`: 0, or an error."""

    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        # On every 64-bit machine an address is passed as such a number is.
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(64)])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:]), ir.IntType(64))

    return types.int64(types.int64, types.int64), emit


inflate_stateless: Callable[[int, int], int] = primitive(_inflate_stateless, called(c_int, c_void_p))


@part
def gzip_output_bound(at: int, size: int) -> int:
    """The size that the member at *at* claims, or `ODD` if it has extras, or is too small for that."""
    if size < HEADER_SIZE + TRAILER_SIZE or raw_u32(at) != USUAL_START:
        return ODD
    claimed = raw_u32(at + size - 4)
    return claimed if claimed <= MOST_INFLATION * size else ODD


@part
def inflate_gzip_member(function: int, state: int, at: int, size: int, to: int, claimed: int, floor: int) -> int:
    """The output of a member that is plain, verified by its trailer (GZP-04): its size, or `ODD`.

    Bytes in front of *to* may be read, from *floor* on.
    """
    store_64(state + NEXT_OUT, to)
    store_32(state + AVAIL_OUT, claimed + SLACK)
    store_64(state + NEXT_IN, at + HEADER_SIZE)
    store_32(state + AVAIL_IN, size - HEADER_SIZE)
    if inflate_stateless(function, state) != 0 or raw_u32(state + AVAIL_IN) != TRAILER_SIZE:
        return ODD
    whole = raw_u32(state + TOTAL_OUT) == claimed and raw_u32(at + size - TRAILER_SIZE) == crc32(to, claimed, floor)
    return claimed if whole else ODD
