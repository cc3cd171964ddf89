"""Snapshots of producers: what a broker had noted of them, held against the batches before it (SEG-15).

A snapshot is named by the offset that its log had reached.  What it says of a producer is what the last batch and
the last marker below that offset say, as far as they are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from kafka_corpus.audit.findings import Found
from kafka_corpus.audit.producers import TRANSACTIONAL, Events

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


def read_snapshot(path: Path, found: Found) -> Snapshot | None:
    """The snapshot at *path*; None, and a finding, if no broker would take it.  Raises `OSError`."""
    data = path.read_bytes()
    if wrong := _wrong_in(data):
        found.add("snapshot_broken", path.as_posix(), -1, -1, wrong)
        return None
    return Snapshot(path.as_posix(), int(path.stem), data[ENTRIES_AT:])


def _wrong_in(data: bytes) -> str:
    """What is wrong with the frame of a snapshot; empty if nothing is."""
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


def snapshots_of(segment: Path, found: Found, *, last: bool) -> list[Snapshot]:
    """The snapshot of the offset that *segment* begins with; of the *last* segment those of higher offsets, too."""
    paths = [segment.with_suffix(SUFFIX)]
    if last:
        others = segment.parent.glob(f"*{SUFFIX}")
        paths += sorted(path for path in others if path.stem.isdigit() and path.stem > segment.stem)
    read = (read_snapshot(path, found) for path in paths if path.exists() and path.stem.isdigit())
    return [snapshot for snapshot in read if snapshot is not None]


def compare(snapshot: Snapshot, known: dict[int, Events], missing: int, found: Found) -> None:
    """Hold a snapshot against what the log below its offset says of producers.

    Args:
        known: of each producer the last batches and the last marker.
        missing: how many offsets are not there so far.  Of a producer behind whose last event some are missing,
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
