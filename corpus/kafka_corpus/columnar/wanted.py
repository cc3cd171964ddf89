"""Which entries of a stretch are wanted, by their headers alone: for skipping, and for splitting."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafka_corpus.columnar.entries import BROKEN, frame
from kafka_corpus.columnar.headers import LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT, TIMESTAMP_AT
from kafka_corpus.columnar.jit import Numbers, kernel, part
from kafka_corpus.columnar.memory import load_i32, load_i64, load_u8
from kafka_records.constants import (
    INT64_MAX,
    INT64_MIN,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V2,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V1,
)
from kafka_records.layout import MAGIC_OFFSET

SMALLEST_V1: Final = LOG_OVERHEAD + RECORD_OVERHEAD_V1


class Bounds(NamedTuple):
    """What records are wanted, as far as headers tell: offsets from one to another, and timestamps from one on.

    A header says which offsets its batch ends with, and v2 where it begins; the
    largest timestamp, and never the least.  An entry whose header says nothing is wanted.
    """

    first_offset: int = INT64_MIN
    last_offset: int = INT64_MAX
    first_timestamp: int = INT64_MIN


ALL: Final = Bounds()
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
        stop = frame(at, end)
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
