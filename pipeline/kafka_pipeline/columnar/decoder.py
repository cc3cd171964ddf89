"""Record batches to columns: kernels do what is plainly right, the reference judges all the rest."""

from __future__ import annotations

import mmap
from collections.abc import Generator, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from kafka_pipeline.columnar.buffers import POOL, ChunkColumns, FillCounts, MemoryPool, buffer_bytes
from kafka_pipeline.columnar.chunk import Chunk, view_of
from kafka_pipeline.columnar.entries import (
    BROKEN,
    EDGE,
    END,
    PACKED,
    PACKED_FIELDS,
    READY_FIELDS,
    EntrySource,
    find_packed,
    read_entries,
)
from kafka_pipeline.columnar.inflate import Inflater
from kafka_pipeline.columnar.memory import SLACK, VIEW
from kafka_pipeline.columnar.records import NO_HEADERS, NO_ROOM, REFUSED
from kafka_pipeline.reading import Broken
from kafka_records import DEFAULT, Batch, Limits, RecordFormatError
from kafka_records import decode as decode_by_reference
from kafka_records.constants import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD

# A chunk: about so many records, and so much inflated memory.
ROWS: Final = 128 * 1024
INFLATED: Final = 32 * 1024 * 1024
ERRORS: Final = 8192
# How far ahead compressed entries are looked for.
PACKED_ROWS, PACKED_BYTES = 256, 1024 * 1024
# Less than this is copied, so that there is slack after it.
SMALL: Final = 64 * 1024
LEAST: Final = 64
PAGE: Final = mmap.PAGESIZE
NO_ROWS: Final = np.zeros((0, READY_FIELDS), np.int64)


class Region:
    """A stretch of memory that is read into chunks, from its first entry on.

    After `chunks` is exhausted, `at` is how far it came, and `why` says why not
    farther: END, EDGE, or BROKEN.
    """

    def __init__(
        self, memory: pa.Buffer, size: int, position: int, limits: Limits, pool: MemoryPool, *, final: bool
    ) -> None:
        start = memory.address
        self.memory = memory
        self.view = buffer_bytes(memory)
        readable = start + memory.size + slack_after(memory)
        self.source = EntrySource(start, start + size, readable, position, limits.max_output_bytes)
        self.limits = limits
        self.pool = pool
        self.final = final
        self.at = start
        self.why = END
        self.room = FillCounts(min(ROWS, max(size, LEAST)), min(ROWS, max(size, LEAST)), min(ROWS, max(size // 26, 1)))
        self.inflater = Inflater(start, self.view, limits.max_output_bytes, pool)
        self.packed = np.zeros((0, PACKED_FIELDS), np.int64)
        self.ready, self.cursor = NO_ROWS, 0

    @property
    def blocks(self) -> list[pa.Buffer]:
        """The inflated memory of the chunk at hand."""
        return self.inflater.blocks.buffers

    def chunks(self) -> Iterator[Chunk]:
        """All that can be read, chunk by chunk."""
        self.why = NO_ROOM
        while self.why in (NO_ROOM, NO_HEADERS):
            chunk = self.next_chunk()
            if chunk.counts.batches or chunk.broken:
                yield chunk
            elif self.why == NO_ROOM:
                # Not even one entry fits.
                self.room = FillCounts(2 * self.room.rows, self.room.headers, self.room.batches)
            if self.why == NO_HEADERS:
                self.room = FillCounts(self.room.rows, 2 * self.room.headers, self.room.batches)

    def next_chunk(self) -> Chunk:
        """The next chunk; empty if there was no room for even one entry, or nothing is left."""
        self.inflater.blocks.keep(self.ready[self.cursor :])
        columns = ChunkColumns(self.room, self.pool)
        counts = FillCounts()
        broken: list[Broken] = []
        while True:
            why, self.at, *filled, self.cursor = read_entries(
                self.source, self.at, columns.out, *counts, self.ready, self.cursor
            )
            counts = FillCounts(*filled)
            if why == PACKED:
                self.inflate()
            elif why == REFUSED:
                counts, why = self.ask(columns, counts, broken)
            elif why == BROKEN:
                why = self.ask_frame(broken)
            if why not in (PACKED, REFUSED) or self.is_full(counts, broken):
                break
        self.why = NO_ROOM if why in (PACKED, REFUSED) else why
        memory = (self.memory, *self.blocks)
        return Chunk(columns, counts, self.source, memory, tuple(broken))

    def is_full(self, counts: FillCounts, broken: list[Broken]) -> bool:
        """Whether the chunk is large enough, though there may be room for more rows."""
        return (counts.batches > 0 and self.inflater.blocks.size > INFLATED) or len(broken) >= ERRORS

    def inflate(self) -> None:
        """Make the next compressed entries plain."""
        if not len(self.packed):
            found = np.empty((PACKED_ROWS, PACKED_FIELDS), np.int64)
            count = find_packed(self.source, self.at, self.at + PACKED_BYTES, found)
            self.packed = found[:count]
        self.ready, self.cursor = self.inflater.inflate(self.packed), 0
        self.packed = self.packed[len(self.ready) :]

    def ask(self, columns: ChunkColumns, counts: FillCounts, broken: list[Broken]) -> tuple[FillCounts, int]:
        """Have the reference read the entry at hand: it becomes rows, or an error."""
        end = self.at + self.size_at(self.at)
        try:
            (batch,) = decode_by_reference(bytes(self.stretch(self.at, end)), limits=self.limits)
        except RecordFormatError as error:
            broken.append(self.broken(error, end - self.at))
        else:
            if (lacking := lacking_room(columns, counts, batch)) is not None:
                return counts, lacking
            counts = self.put(batch, columns, counts)
        if self.cursor < len(self.ready) and self.ready[self.cursor, 0] == self.at:
            self.cursor += 1
        self.at = end
        return counts, REFUSED

    def ask_frame(self, broken: list[Broken]) -> int:
        """Have the reference say what is wrong with size or magic; an unknown magic may be passed over."""
        try:
            decode_by_reference(bytes(self.stretch(self.at, self.at + HEADER_SIZE_UP_TO_MAGIC)), limits=self.limits)
        except RecordFormatError as error:
            size = self.size_at(self.at)
            passable = error.rule == "FRM-08"
            whole = passable and self.at + size <= self.source.end
            if passable and not whole and not self.final:
                return END
            broken.append(self.broken(error, size if whole else None))
            if whole:
                self.at += size
                return REFUSED
        return BROKEN

    def size_at(self, at: int) -> int:
        """The size that the entry at *at* claims, including its offset and size fields."""
        return int.from_bytes(self.stretch(at + 8, at + LOG_OVERHEAD), "big") + LOG_OVERHEAD

    def stretch(self, start: int, end: int) -> memoryview:
        """The bytes between two addresses, as far as there are any."""
        first = self.source.start
        return self.view[start - first : min(end, self.source.end) - first]

    def broken(self, error: RecordFormatError, size: int | None) -> Broken:
        """A row for the errors table."""
        position = self.at - self.source.start + self.source.position
        offset = position + error.offset
        return Broken(position, size, error.kind, error.path, offset, error.inner_offset, error.rule, error.message)

    def put(self, batch: Batch, columns: ChunkColumns, counts: FillCounts) -> FillCounts:
        """A batch that the reference read, as rows."""
        rows, headers, batches = counts
        position = self.at - self.source.start + self.source.position
        columns.numbers("batch_position")[batches] = position
        columns.numbers("batch_row")[batches] = rows
        for record in batch.records:
            columns.numbers("position")[rows] = position
            columns.numbers("offset")[rows] = record.offset
            columns.numbers("timestamp")[rows] = record.timestamp
            self.put_bytes(columns, "key", "key_bits", rows, record.key)
            self.put_bytes(columns, "value", "value_bits", rows, record.value)
            for key, value in record.headers:
                self.put_bytes(columns, "header_key", "header_bits", headers, key)
                self.put_bytes(columns, "header_value", "header_bits", headers, value)
                headers += 1
            rows += 1
            columns.array("header_end").view(np.int32)[rows] = headers
        return FillCounts(rows, headers, batches + 1)

    def put_bytes(self, columns: ChunkColumns, name: str, bits: str, row: int, data: bytes | None) -> None:
        """A view in *row*; its bytes are copied to inflated memory."""
        if data is None:
            columns.clear(bits, row)
            view = bytes(VIEW)
        else:
            at, _, number, base = self.inflater.blocks.put(data)
            view = view_of(data, number, at - base)
        columns.array(name)[VIEW * row : VIEW * row + VIEW] = np.frombuffer(view, np.uint8)


def lacking_room(columns: ChunkColumns, counts: FillCounts, batch: Batch) -> int | None:
    """The missing space, NO_ROOM or NO_HEADERS; None if *batch* fits."""
    if counts.rows + len(batch.records) > columns.room.rows or counts.batches == columns.room.batches:
        return NO_ROOM
    headers = sum(len(record.headers) for record in batch.records)
    return NO_HEADERS if counts.headers + headers > columns.room.headers else None


def slack_after(memory: pa.Buffer) -> int:
    """How many bytes after *memory* can be read safely: the rest of the page that it ends in."""
    return -int(memory.address + memory.size) % PAGE


def padded(data: memoryview) -> pa.Buffer:
    """A copy with slack after it."""
    buffer = pa.allocate_buffer(len(data) + SLACK)
    buffer_bytes(buffer)[: len(data)] = data
    buffer_bytes(buffer)[len(data) :] = bytes(SLACK)
    return buffer


def read_chunks(
    data: object, *, position: int = 0, limits: Limits = DEFAULT, pool: MemoryPool = POOL, final: bool = True
) -> Generator[Chunk, None, tuple[int, bool]]:
    """Chunks of the complete entries in *data*, which starts at *position* of its file.

    Returns how many bytes were read, and whether size or magic of what follows
    cannot be, so that no later entry can be found.  Unless this is *final*,
    an entry of unknown magic that is not whole is left to the next call.
    """
    memory = pa.py_buffer(data)
    view = buffer_bytes(memory)
    done = 0
    if memory.size > SMALL or slack_after(memory) >= SLACK:
        region = Region(memory, memory.size, position, limits, pool, final=final)
        yield from region.chunks()
        done = region.at - memory.address
        if region.why != EDGE:
            return done, region.why == BROKEN
    rest = view[done:]
    region = Region(padded(rest), len(rest), position + done, limits, pool, final=final)
    yield from region.chunks()
    return done + region.at - region.memory.address, region.why == BROKEN
