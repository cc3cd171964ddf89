"""Sequences, epochs and transactions of each producer, by the headers of its batches (SEG-14).

Events are rows of an array: a producer's batches and markers.  What was known
of a producer before is put in front of its new events as rows that are not new,
so that one pass compares each with the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_pipeline.audit.findings import AuditFindings
from kafka_records.constants import INT32_MAX

PLAIN, TRANSACTIONAL, COMMIT, ABORT, UNREAD = range(5)
EVENT: Final = np.dtype(
    [
        *((name, np.int64) for name in ("producer", "epoch", "base_sequence", "last_sequence", "base", "last", "time")),
        *((name, np.int64) for name in ("position", "file", "missing", "first", "first_time", "coordinator")),
        ("kind", np.int8),
        ("new", np.bool_),
    ]
)
Events = npt.NDArray[Any]
# PID-09: how many batches a broker remembers.
REMEMBERED: Final = 5
# PID-19: producer.id.expiration.ms, by default.
EXPIRES_MS: Final = 86_400_000
NO_EPOCH: Final = -1


class AbortedRange(NamedTuple):
    """An aborted transaction: its first offset, as far as the data is there, and that of its marker."""

    producer: int
    first: int
    last: int
    file: int


def last_sequences(base: npt.NDArray[np.int64], delta: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """PID-10, PID-11: they wrap after 2^31 - 1; -1 stays -1."""
    last = base + delta
    last = np.where(last > INT32_MAX, last - INT32_MAX - 1, last)
    return np.where(base < 0, base, last)


class Producers:
    """Follows all producers of a log."""

    def __init__(self, found: AuditFindings, files: list[str]) -> None:
        self.found, self.files = found, files
        self.known: dict[int, Events] = {}
        self.heads: dict[int, list[Any]] = {}
        self.aborted: list[AbortedRange] = []

    def follow(self, events: Events) -> None:
        """Go over new events, in the order of the log."""
        if not len(events):
            return
        events["new"] = True
        names = np.unique(events["producer"])
        rows = np.concatenate([*(self.known[name] for name in names.tolist() if name in self.known), events])
        rows = rows[np.argsort(rows["producer"], kind="stable")]
        self._transactions(rows)
        self._descents(rows, "epoch", "epoch_back", "epoch")
        self._descents(rows[rows["kind"] > TRANSACTIONAL], "coordinator", "coordinator_back", "coordinator epoch")
        self._sequences(rows[rows["kind"] <= TRANSACTIONAL])
        self._note(rows, names)

    def join(self, later: Producers) -> None:
        """Add the state of the next stretch, *later*, which was judged without what comes before it."""
        begun = self._begun(later)
        moved = {name: begun.get(name) for name in later.known}
        for each in later.aborted:
            first, replaced = begun.get(each.producer, (None, 0, 0))[:2]
            self.aborted.append(each._replace(first=replaced) if first == each.first else each)
        for name, rows in later.known.items():
            if (run := moved[name]) is not None:
                same = (rows["kind"] == TRANSACTIONAL) & (rows["first"] == run[0])
                rows["first"][same], rows["first_time"][same] = run[1], run[2]
            self.known[name] = _remembered(np.concatenate([self.known.get(name, rows[:0]), rows]))

    def _begun(self, later: Producers) -> dict[int, tuple[int, int, int]]:
        """Compare the first events of *later* with what is known; of transactions that go on, where they began."""
        whole, data, markers = [], [], []
        begun = {}
        for name, head in sorted(later.heads.items()):
            known = self.known.get(name)
            if known is None:
                continue
            whole += [*known, head[0]]
            marks = known["kind"] > TRANSACTIONAL
            data += [*known[~marks], *(row for row in head if row["kind"] <= TRANSACTIONAL)]
            markers += [*known[marks], *(row for row in head if row["kind"] > TRANSACTIONAL)]
            if known[-1]["kind"] == TRANSACTIONAL == head[0]["kind"]:
                begun[name] = (int(head[0]["base"]), int(known[-1]["first"]), int(known[-1]["first_time"]))
        self._transactions(event_array(whole))
        self._descents(event_array(whole), "epoch", "epoch_back", "epoch")
        self._descents(event_array(markers), "coordinator", "coordinator_back", "coordinator epoch")
        self._sequences(event_array(data))
        return begun

    def _note(self, rows: Events, names: npt.NDArray[np.int64]) -> None:
        """Keep of each producer what the next events are compared with."""
        starts = np.searchsorted(rows["producer"], names)
        ends = np.searchsorted(rows["producer"], names, side="right")
        for name, start, end in zip(names.tolist(), starts.tolist(), ends.tolist(), strict=True):
            mine = rows[start:end]
            self._head(name, mine)
            self.known[name] = _remembered(mine)

    def _head(self, name: int, mine: Events) -> None:
        """The first batch of a producer and its first marker: what came before is compared with them."""
        head = self.heads.setdefault(name, [])
        kinds = {bool(each["kind"] > TRANSACTIONAL) for each in head}
        if len(kinds) == 2:
            return
        marks = mine["kind"] > TRANSACTIONAL
        for kind in {False, True} - kinds:
            head += list(mine[(marks == kind) & mine["new"]][:1])
        head.sort(key=lambda row: (int(row["file"]), int(row["position"])))

    def _pairs(self, rows: Events) -> tuple[Events, Events, npt.NDArray[np.int64]]:
        """New rows with a row of the same producer before them, those rows, and where the new ones are."""
        at = np.flatnonzero((rows["producer"][1:] == rows["producer"][:-1]) & rows["new"][1:]) + 1
        return rows[at], rows[at - 1], at

    def _descents(self, rows: Events, field: str, kind: str, title: str) -> None:
        """A finding of *kind* for each number in *field* that is below the one before it."""
        now, before, _ = self._pairs(rows)
        back = now[field] < before[field]
        if field == "coordinator":
            back &= now[field] >= 0  # others do not know their coordinator
        for at in _in_order(now, back):
            self.add(kind, now[at], f"{title} {now[at][field]} follows {before[at][field]}")

    def _sequences(self, data: Events) -> None:
        now, before, at = self._pairs(data)
        follows = np.where(before["last_sequence"] == INT32_MAX, 0, before["last_sequence"] + 1)
        same = now["epoch"] == before["epoch"]
        wrong = np.where(same, now["base_sequence"] != follows, now["base_sequence"] != 0)
        wrong &= (now["epoch"] >= before["epoch"]) & (before["epoch"] != NO_EPOCH)
        wrong &= (now["base_sequence"] >= 0) & (before["base_sequence"] >= 0)
        for place in at[_in_order(now, wrong)].tolist():
            self._sequence(data, place)

    def _sequence(self, data: Events, at: int) -> None:
        row, before = data[at], data[at - 1]
        said = f"base sequence {row['base_sequence']} follows {before['last_sequence']} of epoch {before['epoch']}"
        same = data[max(at - REMEMBERED, 0) : at]
        same = same[(same["producer"] == row["producer"]) & (same["epoch"] == row["epoch"])]
        twice = (same["base_sequence"] == row["base_sequence"]) & (same["last_sequence"] == row["last_sequence"])
        if twice.any():
            first = same[twice][-1]
            sequences = f"sequences {row['base_sequence']} to {row['last_sequence']}"
            self.add("duplicate", row, f"{sequences} are at offset {first['base']}, too")
        elif row["missing"] > before["missing"]:
            self.add("sequence_cleaned", row, said)
        elif row["time"] - before["time"] >= EXPIRES_MS:
            self.add("sequence_expired", row, said)
        elif row["epoch"] > before["epoch"]:
            self.add("epoch_start", row, said)
        else:
            self.add("sequence_break", row, said)

    def _transactions(self, rows: Events) -> None:
        """Where transactions begin goes into all rows of theirs; markers end them."""
        inside = rows["kind"] == TRANSACTIONAL
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (rows["producer"][1:] != rows["producer"][:-1]) | ~inside[:-1]
        start = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
        rows["first"] = np.where(inside, rows["first"][start], rows["first"])
        rows["first_time"] = np.where(inside, rows["first_time"][start], rows["first_time"])
        now, before, _ = self._pairs(rows)
        mixed = (now["kind"] == PLAIN) & (before["kind"] == TRANSACTIONAL)
        for at in _in_order(now, mixed):
            self.add("mixed_transaction", now[at], f"the transaction from offset {before[at]['first']} on is open")
        aborts = (now["kind"] == ABORT) & (before["kind"] == TRANSACTIONAL)
        self.aborted += [
            AbortedRange(int(row["producer"]), int(earlier["first"]), int(row["base"]), int(row["file"]))
            for row, earlier in ((now[at], before[at]) for at in _in_order(now, aborts))
        ]

    def add(self, kind: str, row: Any, said: str) -> None:
        """A finding about an event."""
        message = f"producer {row['producer']}: {said}"
        self.found.add(kind, self.files[int(row["file"])], int(row["position"]), int(row["base"]), message)

    def open(self) -> list[Any]:
        """The last event of each producer that has left a transaction open."""
        return [rows[-1] for _, rows in sorted(self.known.items()) if rows[-1]["kind"] == TRANSACTIONAL]


def _in_order(rows: Events, which: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Where *which* is true, in the order of the log: of many findings the first are listed, however a log is cut."""
    at = np.flatnonzero(which)
    return at[np.lexsort((rows["position"][at], rows["file"][at]))]


def _remembered(mine: Events) -> Events:
    """The last batches and the last marker among a producer's events."""
    kept = np.zeros(len(mine), np.bool_)
    kept[np.flatnonzero(mine["kind"] <= TRANSACTIONAL)[-REMEMBERED:]] = True
    kept[np.flatnonzero(mine["kind"] > TRANSACTIONAL)[-1:]] = True
    rows = mine[kept]
    rows["new"] = False
    return rows


def event_array(events: Iterable[Any]) -> Events:
    """Events as one array."""
    rows = list(events)
    return np.array(rows, EVENT) if rows else np.zeros(0, EVENT)
