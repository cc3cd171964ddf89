"""Scan a segment file of any size, window by window."""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafka_pipeline.columnar.buffers import buffer_bytes
from kafka_pipeline.columnar.chunk import Chunk
from kafka_pipeline.columnar.decoder import read_chunks
from kafka_pipeline.columnar.entries import BROKEN, entry_end
from kafka_pipeline.columnar.headers import LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT, TIMESTAMP_AT
from kafka_pipeline.columnar.jit import Numbers, kernel, part
from kafka_pipeline.columnar.memory import SLACK, load_i32, load_i64, load_u8
from kafka_pipeline.reading import ALL, Bounds, ByteSource, regular_file
from kafka_records import DEFAULT, Limits
from kafka_records.constants import (
    HEADER_SIZE_UP_TO_MAGIC,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V2,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V1,
)
from kafka_records.layout import ENTRY, MAGIC_OFFSET

SMALLEST_V1: Final = LOG_OVERHEAD + RECORD_OVERHEAD_V1


# A row of `find_runs`: where a run of wanted entries starts, and where it ends.
RUN_FIELDS: Final = 2
RUNS: Final = 4096


@part
def is_wanted(at: int, end: int, bounds: Bounds) -> bool:
    """Whether the entry at *at* may hold records that are wanted."""
    magic, base = load_u8(at + MAGIC_OFFSET), load_i64(at)
    if magic == MAGIC_VALUE_V2:
        if end - at < RECORD_BATCH_OVERHEAD:
            return True
        last, newest = base + load_i32(at + LAST_OFFSET_DELTA_AT), load_i64(at + MAX_TIMESTAMP_AT)
        if last < base:  # HDR-26: no range at all
            return True
        return last >= bounds.first_offset and base <= bounds.last_offset and newest >= bounds.first_timestamp
    if base < bounds.first_offset:
        return False
    return magic == MAGIC_VALUE_V0 or end - at < SMALLEST_V1 or load_i64(at + TIMESTAMP_AT) >= bounds.first_timestamp


@kernel
def find_runs(at: int, end: int, bounds: Bounds, most: int, runs: Numbers) -> tuple[int, int, int]:
    """Runs of wanted entries, each of at most *most* bytes unless one entry is larger, while there is room for them.

    Gives how many there are, where it stopped, and why: BROKEN, or 0 where no
    whole entry follows; 1 where *runs* is full.
    """
    count, open_ = 0, False
    while True:
        stop = entry_end(at, end)
        if stop <= 0:
            return count, at, BROKEN if stop else 0
        wanted = is_wanted(at, stop, bounds)
        if open_ and (not wanted or stop - runs[count - 1, 0] > most):
            open_ = False
        if wanted:
            if not open_:
                if count == len(runs):
                    return count, at, 1
                runs[count, 0], open_ = at, True
                count += 1
            runs[count - 1, 1] = stop
        at = stop


class Runs(NamedTuple):
    """Runs of wanted entries by their places, how many bytes were looked at, and whether what follows cannot be."""

    places: list[tuple[int, int]]
    done: int
    broken: bool


def runs_in(data: object, bounds: Bounds = ALL, most: int = INT64_MAX) -> Runs:
    """The runs of *data*, which starts with an entry; a last entry that is not whole is left out."""
    memory = as_buffer(data)
    start, end = memory.address, memory.address + memory.size
    places: list[tuple[int, int]] = []
    found = np.empty((RUNS, RUN_FIELDS), np.int64)
    at, why = start, 1
    while why == 1:
        count, at, why = find_runs(at, end, bounds, most, found)
        places += [(first - start, stop - start) for first, stop in found[:count].tolist()]
    return Runs(places, at - start, why == BROKEN)


def as_buffer(data: object) -> pa.Buffer:
    """*data* as Arrow sees it."""
    return pa.py_buffer(data)


WINDOW: Final = 64 * 1024 * 1024
# A view counts its bytes from the start of a window in 31 bits, and an entry may reach beyond it.
LARGEST_WINDOW: Final = 1024 * 1024 * 1024

Reading = Generator[Chunk, None, tuple[int, bool]]
"""Gives chunks, then where it ended, and whether size or magic there cannot be."""


class Mapped:
    """A file that is mapped; it must not shrink meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def window(self, start: int, end: int) -> object:
        """A mapping, which is gone with the last view of it."""
        skipped = start % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self.descriptor, end - start + skipped, offset=start - skipped, access=mmap.ACCESS_READ)
        return memoryview(mapped)[skipped:]


@contextmanager
def mapped(path: Path) -> Iterator[Mapped]:
    """The file at *path*.  Raises `OSError`, also for what is no regular file: a pipe would wait."""
    with regular_file(path) as file:
        yield Mapped(file.fileno())


def scan(path: Path, *, window: int = WINDOW, limits: Limits = DEFAULT) -> Iterator[Chunk]:
    """Chunks of all complete entries in a file, which must not shrink meanwhile.

    The file is mapped *window* bytes at a time, more only for an entry that is
    larger; a mapping is gone with the last chunk that has views of it.

    Raises:
        OSError: the file cannot be read.
        ValueError: *window* is too large, or not above 0.
    """
    with mapped(path) as source:
        yield from scan_stretch(source, window=window, limits=limits)


def scan_stretch(
    source: ByteSource,
    start: int = 0,
    end: int | None = None,
    *,
    bounds: Bounds = ALL,
    window: int = WINDOW,
    limits: Limits = DEFAULT,
) -> Reading:
    """Chunks of the complete entries from *start*, where one begins, to *end*, or to that of the *source*.

    Entries outside of *bounds* are passed over by their headers, unread.

    Raises:
        OSError: the source cannot be read.
        ValueError: *window* is too large, or not above 0.
    """
    if not 0 < window <= LARGEST_WINDOW:
        raise ValueError(f"a window of {window} bytes, the most is {LARGEST_WINDOW}")
    end = source.size if end is None else end
    at, needed = start, window
    while at < end:
        stop = min(at + needed, end)
        data = source.window(at, stop)
        if bounds == ALL:
            done, broken = yield from read_chunks(data, position=at, limits=limits, final=stop == end)
        else:
            done, broken = yield from _read_wanted(data, at, bounds, limits, final=stop == end)
        at += done
        if broken or stop == end:
            return at, broken
        needed = window if done else _needed(source, at, end)
        if not needed:
            # No entry is whole; the reference still says whether one can be there, by the first bytes.
            first = source.window(at, min(at + HEADER_SIZE_UP_TO_MAGIC, end))
            return at, (yield from read_chunks(first, position=at, limits=limits))[1]
    return at, False


def _read_wanted(data: object, position: int, bounds: Bounds, limits: Limits, *, final: bool) -> Reading:
    view = buffer_bytes(as_buffer(data))
    runs = runs_in(data, bounds)
    for start, end in runs.places:
        yield from read_chunks(view[start:end], position=position + start, limits=limits)
    if not runs.broken:
        return runs.done, False
    # What cannot be is never skipped; after an unknown magic it goes on.
    done, broken = yield from read_chunks(view[runs.done :], position=position + runs.done, limits=limits, final=final)
    return runs.done + done, broken


def _needed(source: ByteSource, at: int, end: int) -> int:
    """How many bytes a window takes that the entry at *at* did not fit; 0 where there are not so many."""
    if end - at < LOG_OVERHEAD:
        return 0
    head = bytes(buffer_bytes(as_buffer(source.window(at, at + LOG_OVERHEAD))))
    whole = LOG_OVERHEAD + int(ENTRY.struct.unpack(head)[1])
    return whole + SLACK if whole <= end - at else 0
