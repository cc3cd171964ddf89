"""Compressed entries made plain, by the fastest library for each codec.

Libraries and kernels do what is usual.  For all else the reference's own
decompressor is asked, and where that refuses, the reference is asked for the
whole entry.  So bytes are accepted here only if the reference accepts them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from isal import isal_zlib
from zlib_ng import zlib_ng

from kafka_corpus.columnar import gzip_frames
from kafka_corpus.columnar.buffers import Numbers, Pool, bytes_of
from kafka_corpus.columnar.entries import READY_FIELDS
from kafka_corpus.columnar.fields import SLACK
from kafka_corpus.columnar.frames import GZIP, Block, Context, inflate_frames
from kafka_records import RecordFormatError
from kafka_records.budget import BATCH_COST, PAYLOAD_COST, RECORD_COST, START
from kafka_records.compression import decompress, gzip
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import MAGIC_OFFSET

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
    """One member without extras, and nothing that could be another behind it; ISA-L is for *plain* ones."""
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

    def __init__(self, pool: Pool) -> None:
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
        self.view = bytes_of(buffer)
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

    def __init__(self, start: int, view: memoryview, most_output: int, pool: Pool) -> None:
        self.start, self.view = start, view
        # What any entry may decompress to; large ones may more, and the reference knows.
        self.most = (START + most_output - BATCH_COST - RECORD_COST) // PAYLOAD_COST
        self.blocks = Blocks(pool)

    @cached_property
    def context(self) -> Context:
        """What libraries work on; most logs are all plain or all compressed."""
        return Context()

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
        """Usual frames from *row* on, as many as a block holds; the row behind the last."""
        blocks = self.blocks
        block = Block(blocks.at, blocks.end, len(blocks.buffers), blocks.base)
        end: int
        end, blocks.at, needed = inflate_frames(self.context.libraries, packed, plain, ready, row, self.most, block)
        if end == row and needed:
            blocks.add(needed)
            return self.inflate_frames(packed, plain, ready, row)
        return end

    def inflate_others(self, packed: Numbers, plain: Numbers, ready: Numbers, first: int, room: int) -> int:
        """Entries from row *first* on that no kernel makes plain, one at least; the row behind the last."""
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
