"""The column buffers of one chunk, and how kernels see them."""

from __future__ import annotations

import sys
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_pipeline.columnar.memory import VIEW

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
ALIGNMENT: Final = 64
# Between columns: the rows of all would otherwise share an address within a page, and evict one another from the cache.
APART: Final = 11 * ALIGNMENT
KEPT: Final = 128 * 1024 * 1024  # bytes of unused memory that a pool keeps


class Out(NamedTuple):
    """Where kernels write: the addresses of a chunk's columns, and for how many rows there is room."""

    position: int
    offset: int
    timestamp: int
    key: int
    value: int
    header_end: int
    header_key: int
    header_value: int
    key_bits: int
    value_bits: int
    header_bits: int
    batch_position: int
    batch_row: int
    rows: int
    headers: int
    batches: int


class FillCounts(NamedTuple):
    """How much of a chunk is filled."""

    rows: int = 0
    headers: int = 0
    batches: int = 0


class MemoryPool:
    """Memory that is reused when no view of it is left: fresh pages cost more than what is written to them."""

    def __init__(self) -> None:
        self.arrays: list[Bytes] = []

    def take(self, size: int) -> Bytes:
        """So many bytes, with whatever is in them; they come back by themselves, when the last view of them is gone."""
        for array in self.arrays:
            # One reference is the list's, one `array`, one the question itself.
            if array.size == size and sys.getrefcount(array) == 3:
                return array
        array = np.empty(size, np.uint8)
        kept, room = [array], KEPT - size
        for older in reversed(self.arrays):
            room -= older.size
            if room < 0:
                break
            kept.insert(0, older)
        self.arrays = kept if size <= KEPT else self.arrays
        return array


# Threads may share it: an array that another looks at has one reference more.
POOL: Final = MemoryPool()


class ColumnPlace(NamedTuple):
    """Position of a column in the memory of its chunk."""

    start: int
    end: int


@lru_cache(maxsize=64)
def column_places(room: FillCounts) -> dict[str, ColumnPlace]:
    """The places of all columns for so many rows, headers and batches; bitmaps follow one another."""
    rows, headers, batches = room
    # In the order of `Out`.
    sizes = {
        "position": 8 * rows,
        "offset": 8 * rows,
        "timestamp": 8 * rows,
        "key": VIEW * rows,
        "value": VIEW * rows,
        "header_end": 4 * (rows + 1),
        "header_key": VIEW * headers,
        "header_value": VIEW * headers,
        "key_bits": (rows + 7) // 8,
        "value_bits": (rows + 7) // 8,
        "header_bits": (headers + 7) // 8,
        "batch_position": 8 * batches,
        "batch_row": 8 * batches,
    }
    starts = accumulate((size + -size % ALIGNMENT + APART for size in sizes.values()), initial=0)
    return {name: ColumnPlace(start, start + size) for (name, size), start in zip(sizes.items(), starts, strict=False)}


class ChunkColumns:
    """Memory for so many rows, so many headers of theirs, and so many batches.

    Making it runs with cold caches, so there is little to run: arrays are made when somebody wants one.
    """

    def __init__(self, room: FillCounts, pool: MemoryPool) -> None:
        self.room = room
        self.places = places = column_places(room)
        memory = pool.take(places["batch_row"].end + ALIGNMENT)
        address = int(memory.ctypes.data)
        skipped = -address % ALIGNMENT
        self.memory = memory[skipped:]
        # The byte in front of each bitmap is one of them: zero once anything is null.
        self.memory[places["key_bits"].start - 1 : places["header_bits"].end] = 0xFF
        first = places["header_end"].start
        self.memory[first : first + 4] = 0
        start = address + skipped
        self.out = Out._make((*(start + place.start for place in places.values()), *room))

    @cached_property
    def whole(self) -> pa.Buffer:
        """All columns, as Arrow takes them."""
        return pa.py_buffer(self.memory)

    def array(self, name: str) -> Bytes:
        """The bytes of a column, to read and to write."""
        start, end = self.places[name]
        return self.memory[start:end]

    def buffer(self, name: str) -> pa.Buffer:
        """A column as Arrow takes it."""
        start, end = self.places[name]
        return self.whole.slice(start, end - start)

    def bitmap(self, name: str, count: int) -> pa.Buffer | None:
        """The first *count* bits, unless nothing is null."""
        start = self.places[name].start
        return None if self.memory[start - 1] else self.whole.slice(start, (count + 7) // 8)

    def clear(self, name: str, row: int) -> None:
        """A zero in a bitmap, as kernels write it (`store_null`)."""
        start = self.places[name].start
        self.memory[start - 1] = 0
        self.memory[start + row // 8] &= ~(1 << row % 8) & 0xFF

    def numbers(self, name: str) -> Numbers:
        """A column of int64."""
        return self.array(name).view(np.int64)


def buffer_bytes(buffer: pa.Buffer) -> memoryview:
    """The bytes of a buffer, to read, or to write where it is our own."""
    return memoryview(buffer).cast("B")
