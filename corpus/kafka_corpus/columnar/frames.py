"""Compressed entries made plain one after the other, by one kernel.

Functions of ISA-L, LZ4 and Zstandard are called by their addresses, which the
packages `isal`, `lz4` and `zstandard` do not promise to have.  Without them,
and for frames that are unusual, others are asked (`inflate.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kafka_corpus.columnar import gzip_frames, lz4_frames, snappy_blocks, zstd_frames
from kafka_corpus.columnar.buffers import POOL
from kafka_corpus.columnar.fields import SLACK
from kafka_corpus.columnar.jit import Numbers, kernel, part
from kafka_corpus.columnar.memory import Emit, load_u8
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V0
from kafka_records.layout import MAGIC_OFFSET

SYSTEM_ZSTD: Final = ("libzstd.so.1", "libzstd.1.dylib")
# Since 1.5.2 it has a decoder in assembler.
OLDEST_ZSTD: Final = 10502
GZIP, SNAPPY, LZ4, ZSTD = map(COMPRESSIONS.index, ("gzip", "snappy", "lz4", "zstd"))
ODD: Final = -1  # not a frame that is read here


class Libraries(NamedTuple):
    """Addresses of functions, 0 where there is none, and of what they work on.

    `LZ4_decompress_safe`; `ZSTD_decompressDCtx` and its context; `isal_inflate_stateless` and its state.
    """

    lz4: int
    zstd: int
    context: int
    isal: int
    state: int


class Block(NamedTuple):
    """Where to write, where that memory ends, the number of the data buffer, and where that starts."""

    to: int
    end: int
    buffer: int
    base: int


@cache
def library(module: str, pattern: str) -> ctypes.CDLL | None:
    """The shared library that a package has; None if it has none such."""
    spec = find_spec(module)
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    for path in (path for folder in folders for path in folder.glob(pattern)):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


@cache
def zstandard_library() -> ctypes.CDLL | None:
    """The system's Zstandard, whose build has a faster Huffman decoder than wheels have; else the package's."""
    for name in SYSTEM_ZSTD:
        try:
            found = ctypes.CDLL(name)
            if found.ZSTD_versionNumber() >= OLDEST_ZSTD:
                return found
        except (OSError, AttributeError):
            continue
    return library("zstandard", "_cffi*.so")


def address(found: ctypes.CDLL | None, name: str) -> int:
    """Where a function of a library lies; 0 if it has none of that name."""
    function = getattr(found, name, None)
    return (ctypes.cast(function, ctypes.c_void_p).value or 0) if function is not None else 0


class Context:
    """What Zstandard and ISA-L need to decompress, used again for each frame; no two threads may use one."""

    def __init__(self) -> None:
        found = zstandard_library()
        self.free: Any = getattr(found, "ZSTD_freeDCtx", None)
        create: Any = getattr(found, "ZSTD_createDCtx", None)
        self.address = 0
        if create is not None and self.free is not None:
            create.restype, self.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            self.address = create() or 0
        zstd = address(found, "ZSTD_decompressDCtx") if self.address else 0
        lz4 = address(library("lz4.block", "_block*.so"), "LZ4_decompress_safe")
        self.state = POOL.take(gzip_frames.STATE_SIZE)
        self.libraries = Libraries(lz4, zstd, self.address, self.isal(), int(self.state.ctypes.data))

    def isal(self) -> int:
        """The address of ISA-L's function, its state ready."""
        found = library("isal", "igzip_lib*.so")
        init: Any = getattr(found, "isal_inflate_init", None)
        if init is None:
            return 0
        init.restype, init.argtypes = None, [ctypes.c_void_p]
        init(int(self.state.ctypes.data))
        return address(found, "isal_inflate_stateless")

    def __del__(self) -> None:
        if self.address:
            self.free(self.address)


def _decompress_context(
    _typing: Any, _function: Any, _context: Any, _target: Any, _capacity: Any, _source: Any, _size: Any
) -> tuple[Any, Emit]:
    """`ZSTD_decompressDCtx(context, target, capacity, source, size)`: bytes written, negative for an error."""

    def emit(_context: Any, builder: ir.IRBuilder, _signature: Any, args: list[ir.Value]) -> ir.Value:
        number = ir.IntType(64)
        # On every 64-bit machine an address is passed as such a number is.
        kind = ir.FunctionType(number, [number] * 5)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int64(*[types.int64] * 6), emit


decompress_context: Callable[[int, int, int, int, int, int], int] = cast(Any, intrinsic(_decompress_context))


@part
def bound_of(libraries: Libraries, at: int, size: int, codec: int, check_header: bool) -> int:
    """The most bytes that a payload can give, or `ODD` if it is unusual."""
    if codec == LZ4 and libraries.lz4:
        return lz4_frames.output_bound(at, size, check_header)
    if codec == SNAPPY:
        return snappy_blocks.output_bound(at, size)
    if codec == ZSTD and libraries.zstd:
        return zstd_frames.output_bound(at, size) or ODD
    if codec == GZIP and libraries.isal:
        return gzip_frames.output_bound(at, size)
    return ODD


@part
def inflate_row(
    libraries: Libraries, at: int, size: int, codec: int, check_header: bool, to: int, bound: int, floor: int
) -> int:
    """The output of a payload that gives at most *bound* bytes: its size, or `ODD`; memory starts at *floor*."""
    if codec == LZ4:
        return lz4_frames.inflate_frame(libraries.lz4, at, size, check_header, to)
    if codec == SNAPPY:
        return snappy_blocks.inflate_stream(at, size, to)
    if codec == GZIP:
        return gzip_frames.inflate_member(libraries.isal, libraries.state, at, size, to, bound, floor)
    written = decompress_context(libraries.zstd, libraries.context, to, bound, at, size)
    return written if 0 <= written <= bound else ODD


@kernel
def inflate_frames(
    libraries: Libraries, packed: Numbers, plain: Numbers, ready: Numbers, first: int, most: int, block: Block
) -> tuple[int, int, int]:
    """Payloads of *packed* from row *first* on, into a block of memory: the next row, and where output ends.

    Of gzip members only those are taken that are *plain* (`gzip_frames.find_plain`).

    The first row that is not a usual frame ends it, and one that does not fit:
    then the third number says how much it may take, else that is 0.
    """
    to, row = block.to, first
    while row < len(packed) and packed[row, 2] >= 0:
        if packed[row, 3] < GZIP or (packed[row, 3] == GZIP and not plain[row]):
            break
        entry, at, size, codec = packed[row, 0], packed[row, 1], packed[row, 2], packed[row, 3]
        check_header = load_u8(entry + MAGIC_OFFSET) > MAGIC_VALUE_V0
        bound = bound_of(libraries, at, size, codec, check_header)
        if bound == ODD or bound > most:
            break
        if to + bound + SLACK > block.end:
            return row, to, bound
        written = inflate_row(libraries, at, size, codec, check_header, to, bound, block.base)
        if written == ODD:
            break
        ready[row, 0], ready[row, 1], ready[row, 2] = entry, to, written
        ready[row, 3], ready[row, 4] = block.buffer, block.base
        to += written
        row += 1
    return row, to, 0
