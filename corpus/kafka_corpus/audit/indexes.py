"""The files beside a segment: offset index, time index, aborted transactions, leader epochs.

Indexes are written beside the log and never together with it, so each entry is
held against the batches.  A preallocated index ends in zeros, which are none.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafka_corpus.audit.entries import Looked
from kafka_corpus.audit.findings import Found
from kafka_corpus.columnar.headers import SIZE
from kafka_corpus.segments.indexes import OFFSETS, Table, without_zeros

TIMES: Final = np.dtype([("time", ">i8"), ("offset", ">i4")])
ABORTS: Final = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)
NO_TIME: Final = -1


class Beside(NamedTuple):
    """The index files of a segment, as far as they are there and can be read."""

    offsets: Table
    times: Table
    aborts: Table | None
    present: tuple[str, ...]


def entries_of(path: Path, kind: np.dtype[np.void], found: Found) -> Table | None:
    """The entries of an index file without the zeros at its end; None where it is not there."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) % kind.itemsize:
        found.add("index_size", path.as_posix(), -1, -1, f"{len(data):,} bytes, entries of {kind.itemsize}")
    return without_zeros(data, kind)


def read_beside(segment: Path, found: Found) -> Beside:
    """The index files of *segment*, looked at by themselves.  Raises `OSError`."""
    tables = {
        suffix: entries_of(segment.with_suffix(suffix), kind, found)
        for suffix, kind in ((".index", OFFSETS), (".timeindex", TIMES), (".txnindex", ABORTS))
    }
    for suffix, names in (
        (".index", ("offset", "position")),
        (".timeindex", ("time", "offset")),
        (".txnindex", ("last",)),
    ):
        table = tables[suffix]
        if table is not None:
            _check_order(segment.with_suffix(suffix), table, names, found)
    offsets, times, aborts = tables.values()
    present = tuple(suffix for suffix, table in tables.items() if table is not None)
    none = np.zeros(0, OFFSETS), np.zeros(0, TIMES)
    return Beside(none[0] if offsets is None else offsets, none[1] if times is None else times, aborts, present)


def _check_order(path: Path, table: Table, names: tuple[str, ...], found: Found) -> None:
    """Entries grow; a time index may begin with an entry of its base offset, which is zero."""
    for name in names:
        column = table[name].astype(np.int64)
        for at in np.flatnonzero(column[1:] <= column[:-1]).tolist():
            said = f"entry {at + 1}: {name} {column[at + 1]} behind {column[at]}"
            found.add("index_order", path.as_posix(), -1, -1, said)


class Held:
    """Holds the indexes of a segment against its batches, chunk by chunk."""

    def __init__(self, beside: Beside, segment: Path, base_offset: int, found: Found, start: int = 0) -> None:
        self.found, self.base_offset = found, base_offset
        self.index, self.timeindex = (segment.with_suffix(suffix).as_posix() for suffix in (".index", ".timeindex"))
        self.positions = beside.offsets["position"].astype(np.int64)
        self.offsets = beside.offsets["offset"].astype(np.int64) + base_offset
        times = beside.times[np.argsort(beside.times["offset"], kind="stable")]
        self.times = times["time"].astype(np.int64)
        self.time_offsets = times["offset"].astype(np.int64) + base_offset
        self.at = start

    def follow(self, looked: Looked) -> None:
        """Compare the entries that are about a chunk's batches; each belongs to one chunk, however a log is cut."""
        ends = [broken.position + (broken.size or 1) for broken in looked.chunk.broken]
        if len(looked.base):
            ends.append(int(looked.position[-1] + looked.fields[SIZE, -1]))
            self._times(looked)
        if ends:
            self._positions(looked, max(ends))

    def _positions(self, looked: Looked, end: int) -> None:
        # Where a batch cannot be read, one begins all the same.
        starts = np.union1d(looked.position, [broken.position for broken in looked.chunk.broken])
        about = np.flatnonzero((self.positions >= self.at) & (self.positions < end))
        self.at = end
        for entry in about[~np.isin(self.positions[about], starts)].tolist():
            said = f"entry {entry}: offset {self.offsets[entry]} at byte {self.positions[entry]}, where no batch begins"
            self.found.add("index_boundary", self.index, int(self.positions[entry]), int(self.offsets[entry]), said)
        about = about[np.isin(self.positions[about], looked.position)]
        places = np.searchsorted(looked.position, self.positions[about])
        above = looked.base[places] > self.offsets[about]
        for entry, place in zip(about[above].tolist(), places[above].tolist(), strict=True):
            said = f"entry {entry}: offset {self.offsets[entry]} at a batch that begins at {looked.base[place]}"
            self.found.add("index_offset", self.index, int(self.positions[entry]), int(self.offsets[entry]), said)

    def _times(self, looked: Looked) -> None:
        first = np.searchsorted(self.time_offsets, looked.base)
        end = np.searchsorted(self.time_offsets, looked.last, side="right")
        for place in np.flatnonzero(first < end).tolist():
            for entry in range(int(first[place]), int(end[place])):
                if self.times[entry] not in (NO_TIME, looked.newest[place]):
                    said = f"{self.times[entry]} for offset {self.time_offsets[entry]}, "
                    said += f"whose batch says {looked.newest[place]}"
                    position = int(looked.position[place])
                    self.found.add("timeindex_time", self.timeindex, position, int(self.time_offsets[entry]), said)

    def finish(self, end: int) -> None:
        """Tell of entries behind the segment's *end*."""
        for entry in np.flatnonzero(self.positions >= end).tolist():
            said = f"entry {entry}: offset {self.offsets[entry]} at byte {self.positions[entry]} of {end:,}"
            self.found.add("index_beyond", self.index, int(self.positions[entry]), int(self.offsets[entry]), said)


def check_epochs(path: Path, found: Found) -> None:
    """The checkpoint of leader epochs: a version, a count, and lines that grow.  Raises `OSError`."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        version, count, pairs = int(lines[0]), int(lines[1]), [tuple(map(int, line.split())) for line in lines[2:]]
    except (IndexError, ValueError):
        found.add("checkpoint_broken", path.as_posix(), -1, -1, "no version, count, and lines of two numbers")
        return
    ordered = all(one < other for one, other in pairwise(pairs))
    if version or count != len(pairs) or any(len(pair) != 2 for pair in pairs) or not ordered:
        said = f"version {version}, {count} entries, {len(pairs)} lines{'' if ordered else ' that do not grow'}"
        found.add("checkpoint_broken", path.as_posix(), -1, -1, said)
