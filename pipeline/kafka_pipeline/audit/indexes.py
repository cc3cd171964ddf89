"""Checks of the files beside a segment: indexes, epochs, producer snapshots.

Indexes are written beside the log and never together with it, so each entry is
held against the batches.  A preallocated index ends in zeros, which are none.

A snapshot is named by the offset that its log had reached.  What it says of a producer is what the last batch and
the last marker below that offset say, as far as they are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from kafka_pipeline.audit.entries import Looked
from kafka_pipeline.audit.findings import AuditFindings
from kafka_pipeline.audit.producers import TRANSACTIONAL, Events
from kafka_pipeline.reading import regular_file
from kafka_pipeline.segments.files import LARGEST, OFFSETS, Table, without_zeros

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


def entries_of(path: Path, kind: np.dtype[np.void], found: AuditFindings) -> Table | None:
    """The entries of an index file without the zeros at its end; None where it is not there."""
    data = small_file(path, found)
    if data is None:
        return None
    if len(data) % kind.itemsize:
        found.add("index_size", path.as_posix(), -1, -1, f"{len(data):,} bytes, entries of {kind.itemsize}")
    return without_zeros(data, kind)


def small_file(path: Path, found: AuditFindings) -> bytes | None:
    """The bytes of a small file beside a segment; None if it is not there, or cannot be read, which is a finding."""
    try:
        with regular_file(path) as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        found.add("not_read", path.as_posix(), -1, -1, error.strerror or str(error))
        return None
    if len(data) > LARGEST:
        found.add("not_read", path.as_posix(), -1, -1, f"it has more than {LARGEST:,} bytes")
        return None
    return data


def read_beside(segment: Path, found: AuditFindings) -> Beside:
    """The index files of *segment*, looked at by themselves."""
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


def _check_order(path: Path, table: Table, names: tuple[str, ...], found: AuditFindings) -> None:
    """Entries grow; a time index may begin with an entry of its base offset, which is zero."""
    for name in names:
        column = table[name].astype(np.int64)
        for at in np.flatnonzero(column[1:] <= column[:-1]).tolist():
            said = f"entry {at + 1}: {name} {column[at + 1]} follows {column[at]}"
            found.add("index_order", path.as_posix(), -1, -1, said)


class Held:
    """Holds the indexes of a segment against its batches, chunk by chunk."""

    def __init__(self, beside: Beside, segment: Path, base_offset: int, found: AuditFindings, start: int = 0) -> None:
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
        ends = [broken.position + (broken.size or 1) for broken in looked.broken]
        if len(looked.base):
            ends.append(int(looked.position[-1] + looked.size[-1]))
            self._times(looked)
        if ends:
            self._positions(looked, max(ends))

    def _positions(self, looked: Looked, end: int) -> None:
        # Where a batch cannot be read, one begins all the same.
        starts = np.union1d(looked.position, [broken.position for broken in looked.broken])
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
        """Add findings for index entries after the segment's *end*."""
        for entry in np.flatnonzero(self.positions >= end).tolist():
            said = f"entry {entry}: offset {self.offsets[entry]} at byte {self.positions[entry]} of {end:,}"
            self.found.add("index_beyond", self.index, int(self.positions[entry]), int(self.offsets[entry]), said)


def check_epochs(path: Path, found: AuditFindings) -> None:
    """The checkpoint of leader epochs: a version, a count, and lines that grow."""
    data = small_file(path, found)
    if data is None:
        return
    lines = data.decode("utf-8", "replace").splitlines()
    try:
        version, count, pairs = int(lines[0]), int(lines[1]), [tuple(map(int, line.split())) for line in lines[2:]]
    except (IndexError, ValueError):
        found.add("checkpoint_broken", path.as_posix(), -1, -1, "no version, count, and lines of two numbers")
        return
    ordered = all(one < other for one, other in pairwise(pairs))
    if version or count != len(pairs) or any(len(pair) != 2 for pair in pairs) or not ordered:
        said = f"version {version}, {count} entries, {len(pairs)} lines{'' if ordered else ' that do not grow'}"
        found.add("checkpoint_broken", path.as_posix(), -1, -1, said)


SUFFIX: Final = ".snapshot"
VERSION: Final = 1
CRC_AT: Final = 2
COUNT_AT: Final = 6
ENTRIES_AT: Final = 10
ENTRY: Final = np.dtype(
    [
        ("producer", ">i8"),
        ("epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("first_offset", ">i8"),
    ]
)
# No batch, no open transaction, no marker.
NONE: Final = -1
Entries = npt.NDArray[Any]


class Snapshot(msgspec.Struct, array_like=True):
    """A snapshot that can be read: its file, the offset in its name, and its entries (`ENTRY`)."""

    path: str
    offset: int
    entries: bytes


def read_snapshot(path: Path, found: AuditFindings) -> Snapshot | None:
    """The snapshot at *path*; None, and a finding, if no broker would take it."""
    data = small_file(path, found)
    if data is None:
        return None
    if wrong := _wrong_in(data):
        found.add("snapshot_broken", path.as_posix(), -1, -1, wrong)
        return None
    return Snapshot(path.as_posix(), int(path.stem), data[ENTRIES_AT:])


def _wrong_in(data: bytes) -> str:
    """The defect in the frame of a snapshot; empty if there is none."""
    if len(data) < ENTRIES_AT:
        return f"{len(data)} bytes"
    version, crc, count = (
        int.from_bytes(data[start:end], "big")
        for start, end in ((0, CRC_AT), (CRC_AT, COUNT_AT), (COUNT_AT, ENTRIES_AT))
    )
    if version != VERSION:
        return f"version {version}"
    if crc != crc32c(data[COUNT_AT:]):
        return f"its CRC is {crc:#010x}, that of its bytes {crc32c(data[COUNT_AT:]):#010x}"
    if len(data) != ENTRIES_AT + count * ENTRY.itemsize:
        return f"{count:,} entries of {ENTRY.itemsize} bytes in {len(data) - ENTRIES_AT:,}"
    return ""


def snapshots_of(segment: Path, found: AuditFindings, *, last: bool) -> list[Snapshot]:
    """The snapshot of the offset that *segment* begins with; of the *last* segment those of higher offsets, too."""
    paths = [segment.with_suffix(SUFFIX)]
    if last:
        others = segment.parent.glob(f"*{SUFFIX}")
        paths += sorted(path for path in others if path.stem.isdigit() and path.stem > segment.stem)
    read = (read_snapshot(path, found) for path in paths if path.exists() and path.stem.isdigit())
    return [snapshot for snapshot in read if snapshot is not None]


def compare_snapshot(snapshot: Snapshot, known: dict[int, Events], missing: int, found: AuditFindings) -> None:
    """Hold a snapshot against what the log below its offset says of producers.

    Args:
        known: of each producer the last batches and the last marker.
        missing: how many offsets are not there so far.  Of a producer with missing offsets after its last event,
            nothing can be said: what is gone may have been its.
    """
    for entry in np.frombuffer(snapshot.entries, ENTRY):
        rows = known.get(int(entry["producer"]))
        if rows is None or int(rows[-1]["missing"]) != missing:
            continue
        for said in _contradictions(entry, rows):
            found.add("snapshot_state", snapshot.path, -1, snapshot.offset, f"producer {entry['producer']}: {said}")


def _contradictions(entry: Any, rows: Events) -> Iterator[str]:
    """Where an entry differs from the last events of its producer."""
    newest, data = rows[-1], rows[rows["kind"] <= TRANSACTIONAL]
    if entry["epoch"] != newest["epoch"]:
        yield f"epoch {entry['epoch']}, and {newest['epoch']} in the log"
        return
    if entry["last_offset"] != NONE and len(data) and data[-1]["epoch"] == entry["epoch"]:
        # Kafka 0.11 takes a marker for the last batch, but for its sequence.
        if entry["last_offset"] not in (data[-1]["last"], newest["last"]):
            yield f"last offset {entry['last_offset']}, and {data[-1]['last']} in the log"
        if entry["last_sequence"] != data[-1]["last_sequence"]:
            yield f"last sequence {entry['last_sequence']}, and {data[-1]['last_sequence']} in the log"
    is_open = newest["kind"] == TRANSACTIONAL
    if is_open and not NONE < entry["first_offset"] <= newest["first"]:
        yield f"no transaction from offset {newest['first']} on, which is open in the log"
    if not is_open and entry["first_offset"] != NONE:
        yield f"a transaction from offset {entry['first_offset']} on, which is not open in the log"
