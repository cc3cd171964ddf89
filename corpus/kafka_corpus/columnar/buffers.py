"""The column buffers of one chunk, and how kernels see them."""

from __future__ import annotations

import sys
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_corpus.columnar.fields import VIEW

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
ALIGNMENT: Final = 64
KEPT: Final = 128 * 1024 * 1024  # bytes in a pool that nobody may be using


class Out(NamedTuple):
    """Where kernels write: the addresses of a chunk's columns, and for how many rows there is room."""

    position: int
    offset: int
    timestamp: int
    key: int
    key_bits: int
    value: int
    value_bits: int
    header_end: int
    header_key: int
    header_value: int
    header_bits: int
    batch_position: int
    batch_row: int
    rows: int
    headers: int
    batches: int


class Counts(NamedTuple):
    """How much of a chunk is filled."""

    rows: int = 0
    headers: int = 0
    batches: int = 0


class Pool:
    """Memory that is used again once nobody looks at it: fresh pages cost more than what is written to them."""

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
POOL: Final = Pool()


class Columns:
    """Memory for so many rows, so many headers of theirs, and so many batches."""

    def __init__(self, room: Counts, pool: Pool) -> None:
        rows, headers, batches = self.room = room
        sizes = {
            "position": 8 * rows,
            "offset": 8 * rows,
            "timestamp": 8 * rows,
            "key": VIEW * rows,
            "key_bits": (rows + 7) // 8,
            "value": VIEW * rows,
            "value_bits": (rows + 7) // 8,
            "header_end": 4 * (rows + 1),
            "header_key": VIEW * headers,
            "header_value": VIEW * headers,
            "header_bits": (headers + 7) // 8,
            "batch_position": 8 * batches,
            "batch_row": 8 * batches,
        }
        ends = list(accumulate((size + -size % ALIGNMENT for size in sizes.values()), initial=0))
        memory = pool.take(ends[-1] + ALIGNMENT)
        address = int(memory.ctypes.data)
        skipped = -address % ALIGNMENT
        self.arrays = {
            name: memory[skipped + start : skipped + start + size]
            for (name, size), start in zip(sizes.items(), ends, strict=False)
        }
        for name in ("key_bits", "value_bits", "header_bits"):
            self.arrays[name][:] = 0xFF
        self.arrays["header_end"][:4] = 0
        addresses = {name: address + skipped + start for name, start in zip(sizes, ends, strict=False)}
        self.out = Out(**addresses, rows=rows, headers=headers, batches=batches)

    def buffer(self, name: str) -> pa.Buffer:
        """A column as Arrow takes it."""
        return pa.py_buffer(self.arrays[name])

    def numbers(self, name: str) -> Numbers:
        """A column of int64."""
        return self.arrays[name].view(np.int64)


def bytes_of(buffer: pa.Buffer) -> memoryview:
    """The bytes of a buffer, to read, or to write where it is our own."""
    return memoryview(buffer).cast("B")
