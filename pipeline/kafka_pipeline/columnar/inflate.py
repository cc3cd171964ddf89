"""Decompress entries with the fastest library for each codec.

Functions of ISA-L, LZ4 and Zstandard are called by their addresses, which the
packages `isal`, `lz4` and `zstandard` do not promise to have.  Without them,
and for unusual frames, other decompressors are used (`inflate.py`).

Libraries and kernels handle the usual frames.  All others go to the reference's
own decompressor, and where that refuses, the reference decodes the whole
entry.  So bytes are accepted here only if the reference accepts them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from isal import isal_zlib
from llvmlite import ir
from numba import types
from zlib_ng import zlib_ng

from kafka_pipeline.columnar import gzip_frames, lz4_frames, snappy_blocks, zstd_frames
from kafka_pipeline.columnar.buffers import POOL, MemoryPool, Numbers, buffer_bytes
from kafka_pipeline.columnar.entries import READY_FIELDS
from kafka_pipeline.columnar.jit import called, kernel, part, primitive
from kafka_pipeline.columnar.memory import SLACK, Emit, load_u8
from kafka_records import RecordFormatError
from kafka_records.budget import BATCH_COST, PAYLOAD_COST, RECORD_COST, START
from kafka_records.compression import decompress, gzip
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


def symbol_address(found: ctypes.CDLL | None, name: str) -> int:
    """Address of a library's function; 0 if it has none of that name."""
    function = getattr(found, name, None)
    return (ctypes.cast(function, ctypes.c_void_p).value or 0) if function is not None else 0


class InflateContext:
    """Decompression state of Zstandard and ISA-L, reused for each frame; not thread-safe."""

    def __init__(self) -> None:
        found = zstandard_library()
        self.free: Any = getattr(found, "ZSTD_freeDCtx", None)
        create: Any = getattr(found, "ZSTD_createDCtx", None)
        self.address = 0
        if create is not None and self.free is not None:
            create.restype, self.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            self.address = create() or 0
        zstd = symbol_address(found, "ZSTD_decompressDCtx") if self.address else 0
        lz4 = symbol_address(library("lz4.block", "_block*.so"), "LZ4_decompress_safe")
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
        return symbol_address(found, "isal_inflate_stateless")

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


decompress_context: Callable[[int, int, int, int, int, int], int] = primitive(
    _decompress_context, called(*[ctypes.c_ssize_t] * 6)
)


@part
def bound_of(libraries: Libraries, at: int, size: int, codec: int, check_header: bool) -> int:
    """The most bytes that a payload can give, or `ODD` if it is unusual."""
    if codec == LZ4 and libraries.lz4:
        return lz4_frames.lz4_output_bound(at, size, check_header)
    if codec == SNAPPY:
        return snappy_blocks.snappy_output_bound(at, size)
    if codec == ZSTD and libraries.zstd:
        return zstd_frames.zstd_output_bound(at, size) or ODD
    if codec == GZIP and libraries.isal:
        return gzip_frames.gzip_output_bound(at, size)
    return ODD


@part
def inflate_row(
    libraries: Libraries, at: int, size: int, codec: int, check_header: bool, to: int, bound: int, floor: int
) -> int:
    """The output of a payload that gives at most *bound* bytes: its size, or `ODD`; memory starts at *floor*."""
    if codec == LZ4:
        return lz4_frames.inflate_lz4_frame(libraries.lz4, at, size, check_header, to)
    if codec == SNAPPY:
        return snappy_blocks.inflate_stream(at, size, to)
    if codec == GZIP:
        return gzip_frames.inflate_gzip_member(libraries.isal, libraries.state, at, size, to, bound, floor)
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


# In front of a block, for what checksums read there.
FRONT: Final = 64
BLOCK_SIZE: Final = 4 * 1024 * 1024
# Output that is made before any of it is read.
AT_ONCE: Final = 1024 * 1024
USUAL_GZIP: Final = gzip.HEADER.pack(gzip.MAGIC, gzip.DEFLATE, 0, 0, 0, 0)[:4]

Written = bytes | None
_ZLIB: Final[Any] = zlib_ng
_ISAL: Final[Any] = isal_zlib


def inflate_gzip(data: memoryview, most: int, plain: int) -> Written:
    """One member without extras, and no bytes after it that could be another; ISA-L is for *plain* ones."""
    if data[:4] != USUAL_GZIP:
        return None
    library = _ISAL if plain else _ZLIB
    inflater = library.decompressobj(31)
    try:
        output: bytes = inflater.decompress(data, most + 1)
    except library.error:
        return None
    # What follows the trailer is too short to be looked at (GZP-03).
    whole = inflater.eof and len(inflater.unused_data) <= gzip.SMALLEST_REST - gzip.TRAILER.size
    return output if whole and len(output) <= most else None


class Blocks:
    """Memory for plain bytes, which becomes data buffers of the chunk's columns."""

    def __init__(self, pool: MemoryPool) -> None:
        self.pool = pool
        self.buffers: list[pa.Buffer] = []
        self.view = memoryview(b"")  # of the last one
        self.size = 0
        self.at = self.end = self.base = 0

    def add(self, least: int) -> None:
        """A new block, with room for *least* bytes."""
        buffer = pa.py_buffer(self.pool.take(FRONT + max(least, BLOCK_SIZE) + SLACK))
        self.buffers.append(buffer)
        self.size += buffer.size
        self.view = buffer_bytes(buffer)
        self.base = buffer.address
        self.at, self.end = self.base + FRONT, self.base + buffer.size

    def put(self, data: bytes) -> tuple[int, int, int, int]:
        """Copy *data* there: its address and size, the number of the data buffer, and where that starts."""
        if not self.buffers or self.at + len(data) + SLACK > self.end:
            self.add(len(data))
        at, size = self.at, len(data)
        start = at - self.base
        self.view[start : start + size] = data
        self.at = at + size
        return at, size, len(self.buffers), self.base

    def keep(self, ready: Numbers) -> None:
        """Only the blocks that *ready* still needs, with their new numbers in it."""
        if not self.buffers:
            return
        used = ready[:, 2] > 0
        first = int(ready[used, 3].min()) if used.any() else len(self.buffers) + 1
        ready[used, 3] -= first - 1
        self.buffers = self.buffers[first - 1 :]
        self.size = sum(buffer.size for buffer in self.buffers)
        if not self.buffers:
            self.at = self.end = self.base = 0


class Inflater:
    """Makes compressed entries plain, in blocks of memory."""

    def __init__(self, start: int, view: memoryview, most_output: int, pool: MemoryPool) -> None:
        self.start, self.view = start, view
        # What any entry may decompress to; large ones may more, and the reference knows.
        self.most = (START + most_output - BATCH_COST - RECORD_COST) // PAYLOAD_COST
        self.blocks = Blocks(pool)

    @cached_property
    def context(self) -> InflateContext:
        """Decompression state of the libraries, made on first use: logs without compression need none."""
        return InflateContext()

    def inflate(self, packed: Numbers) -> Numbers:
        """The rows of `entries.find_packed` as rows that are ready: as many as give `AT_ONCE` bytes, one at least."""
        ready = np.zeros((len(packed), READY_FIELDS), np.int64)
        plain = np.zeros(len(packed), np.int64)
        gzip_frames.find_plain(packed, GZIP, plain)
        row, room = 0, AT_ONCE
        while row < len(packed) and room > 0:
            end = self.inflate_frames(packed, plain, ready, row)
            if end == row:
                end = self.inflate_others(packed, plain, ready, row, room)
            room -= int(ready[row:end, 2].sum())
            row = end
        return ready[:row]

    def inflate_frames(self, packed: Numbers, plain: Numbers, ready: Numbers, row: int) -> int:
        """Usual frames from *row* on, as many as a block holds; the row after the last."""
        blocks = self.blocks
        block = Block(blocks.at, blocks.end, len(blocks.buffers), blocks.base)
        end: int
        end, blocks.at, needed = inflate_frames(self.context.libraries, packed, plain, ready, row, self.most, block)
        if end == row and needed:
            blocks.add(needed)
            return self.inflate_frames(packed, plain, ready, row)
        return end

    def inflate_others(self, packed: Numbers, plain: Numbers, ready: Numbers, first: int, room: int) -> int:
        """Entries from row *first* on that no kernel makes plain, one at least; the row after the last."""
        made: list[tuple[int, ...]] = []
        for row, is_plain in zip(packed[first:].tolist(), plain[first:].tolist(), strict=True):
            if made and (room <= 0 or row[3] > GZIP or is_plain):
                break
            made.append(self.inflate_one(row, is_plain))
            room -= made[-1][2]
        end = first + len(made)
        ready[first:end] = made
        return end

    def inflate_one(self, row: list[int], is_plain: int) -> tuple[int, ...]:
        """A row of `ready` for one of `packed`."""
        entry, at, size, codec = row
        if codec == 0 or size < 0:
            return entry, 0, min(size, 0), 0, 0
        data = self.view[at - self.start : at - self.start + size]
        output = inflate_gzip(data, self.most, is_plain) if codec == GZIP else None
        if output is None:
            output = self.by_reference(codec, data, self.view[entry - self.start + MAGIC_OFFSET])
        return (entry, 0, -1, 0, 0) if output is None else (entry, *self.blocks.put(output))

    def by_reference(self, codec: int, data: memoryview, magic: int) -> Written:
        """The output of what is unusual; None if the reference refuses it, or it is too much here."""
        try:
            return decompress(COMPRESSIONS[codec], bytes(data), magic=magic, most=self.most)
        except RecordFormatError:
            return None
