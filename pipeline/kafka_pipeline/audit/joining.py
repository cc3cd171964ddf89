"""The summaries of a log's stretches joined in order, and the report document of an audit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np

from kafka_pipeline.audit.entries import LogPosition, Order, wrapped_int64
from kafka_pipeline.audit.findings import SEVERITIES, UNREADABLE, AuditFinding, AuditFindings
from kafka_pipeline.audit.indexes import Snapshot, compare_snapshot
from kafka_pipeline.audit.producers import EVENT, AbortedRange, Events, Producers
from kafka_pipeline.audit.stretch import ContentCounts, Summary
from kafka_pipeline.segments.listing import SegmentFile

# transaction.max.timeout.ms, by default.
LONGEST_TRANSACTION_MS: Final = 900_000


class SegmentReport(msgspec.Struct, kw_only=True):
    """A segment: its bytes, how far it could be read, what is in it, and how many findings it has of each severity."""

    path: str
    bytes: int
    read: int
    counts: ContentCounts
    first_offset: int
    last_offset: int
    findings: dict[str, int]
    beside: list[str]


class LogReport(msgspec.Struct, kw_only=True):
    """A partition's directory.

    Attributes:
        path: the directory.
        segments: in their order.
        counts: what is in all of them.
        found: how many findings there are, by kind, rule and severity.
        listed: findings, in the order of the log; of those that are many, the first.
        first_offset, last_offset: of the log; -1 where there is no entry.
        missing, gaps: offsets that are not there, and in how many places.
        producers: how many there are.
        open: transactions that are open at the end.
    """

    path: str
    segments: list[SegmentReport]
    counts: ContentCounts
    found: dict[str, int]
    listed: list[AuditFinding]
    first_offset: int
    last_offset: int
    missing: int
    gaps: int
    producers: int
    open: int

    def worst(self) -> str:
        """The worst severity; empty if nothing was found."""
        return next((each for each in SEVERITIES if any(name.endswith(f" {each}") for name in self.found)), "")


class Joining:
    """Joins the summaries of one log."""

    def __init__(self, path: str, now_ms: int, *, contiguous: bool = False) -> None:
        self.path, self.now_ms = path, now_ms
        self.found = AuditFindings()
        self.order = Order(self.found, "gap_in_contiguous" if contiguous else "gap")
        self.files: list[str] = []
        self.producers = Producers(self.found, self.files)
        self.segments: dict[str, SegmentReport] = {}
        self.aborts: dict[str, list[tuple[int, int, int]]] = {}
        self.first_offset = -1
        self.snapshots: list[Snapshot] = []
        self.whole = True

    def add(self, summary: Summary) -> None:
        """The next stretch."""
        if summary.path not in self.segments:
            self.files.append(summary.path)
            self.segments[summary.path] = SegmentReport(
                path=summary.path, bytes=0, read=0, counts=ContentCounts(), first_offset=-1, last_offset=-1,
                findings={}, beside=summary.beside,
            )  # fmt: skip
        segment = self.segments[summary.path]
        segment.bytes = summary.end
        segment.read += summary.read - summary.start
        segment.counts.add(summary.counts)
        if summary.aborts is not None:
            self.aborts[summary.path] = summary.aborts
        self._findings(summary)
        self.snapshots += summary.snapshots
        self._compare(SegmentFile(summary.path, 0).base_offset)
        if summary.first is not None:
            self._join(summary, segment)
        self.whole &= summary.read == summary.end and not any(name.startswith(UNREADABLE) for name in summary.found)

    def forget(self, path: str) -> None:
        """Leave out a segment that was deleted; what later segments need of it is known without it."""
        self.segments.pop(path, None)
        self.aborts.pop(path, None)
        if path in self.files:
            file = self.files.index(path)
            self.producers.aborted = [each for each in self.producers.aborted if each.file != file]

    def _compare(self, offset: int | None) -> None:
        """Hold the snapshots of an offset against what is below it, if that can be read and reaches up to it."""
        reached = self.order.reached
        for snapshot in self.snapshots if self.whole and reached.last + 1 == offset else ():
            if snapshot.offset == offset:
                compare_snapshot(snapshot, self.producers.known, reached.missing, self.found)
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot.offset != offset]

    def _findings(self, summary: Summary) -> None:
        for finding in summary.listed:
            self.found.put(finding)
        listed: dict[str, int] = {}
        for finding in summary.listed:
            name = f"{finding.kind} {finding.rule} {finding.severity}"
            listed[name] = listed.get(name, 0) + 1
        for name, number in summary.found.items():
            self.found.counts[name] += number - listed.get(name, 0)

    def _join(self, summary: Summary, segment: SegmentReport) -> None:
        assert summary.first is not None
        before = self.order.reached
        missing = self.order.join(summary.first, summary.path)
        if not before.begun:
            self.first_offset = summary.first.base
        if segment.first_offset < 0:
            segment.first_offset = summary.first.base
        segment.last_offset = summary.reached.last
        self.producers.join(self._later(summary, wrapped_int64(before.missing + missing)))
        self.order.reached = LogPosition(
            last=summary.reached.last,
            epoch=summary.reached.epoch if summary.reached.epoch >= 0 else before.epoch,
            missing=wrapped_int64(before.missing + missing + summary.reached.missing),
            gaps=before.gaps + (missing > 0) + summary.reached.gaps,
            begun=True,
        )

    def _later(self, summary: Summary, missing: int) -> Producers:
        """The producers of a stretch, in the numbers of the log."""
        later = Producers(self.found, self.files)
        file = len(self.files) - 1
        heads, known = (_events(data, missing, file) for data in (summary.heads, summary.known))
        heads["new"], known["new"] = True, False
        for row in heads:
            later.heads.setdefault(int(row["producer"]), []).append(row)
        for name in np.unique(known["producer"]).tolist():
            later.known[name] = known[known["producer"] == name]
        later.aborted = [AbortedRange(*each)._replace(file=file) for each in summary.aborted]
        return later

    def report(self) -> LogReport:
        """All of it, once every stretch was added."""
        self._check_aborted()
        self._compare(self.order.reached.last + 1)
        left = self.producers.open()
        newest = max((segment.counts.newest for segment in self.segments.values()), default=-1)
        for row in left:
            age = newest - int(row["first_time"])
            kind = "hanging" if age > LONGEST_TRANSACTION_MS else "open"
            said = f"from offset {row['first']} on, {age / 1000:,.0f} s before the newest record"
            self.producers.add(kind, row, said)
        counts = ContentCounts()
        for segment in self.segments.values():
            counts.add(segment.counts)
        for segment in self.segments.values():
            segment.counts = segment.counts.in_order()
        order = {path: number for number, path in enumerate(self.files)}
        listed = sorted(
            self.found.listed,
            key=lambda each: (order.get(each.file, len(order)), each.file, each.position, each.kind, each.offset),
        )
        for finding in listed:
            if finding.file in self.segments:
                findings = self.segments[finding.file].findings
                findings[finding.severity] = findings.get(finding.severity, 0) + 1
        return LogReport(
            path=self.path,
            segments=list(self.segments.values()),
            counts=counts.in_order(),
            found=dict(sorted(self.found.counts.items())),
            listed=listed,
            first_offset=self.first_offset,
            last_offset=self.order.reached.last,
            missing=self.order.reached.missing,
            gaps=self.order.reached.gaps,
            producers=len(self.producers.known),
            open=len(left),
        )

    def _check_aborted(self) -> None:
        """Transactions whose data is there, and whose marker aborts them, are in the index of the marker's segment."""
        for each in self.producers.aborted:
            path = self.files[each.file]
            index = self.aborts.get(path, [])
            if not any(producer == each.producer and last == each.last for producer, _, last in index):
                said = f"producer {each.producer}: offsets {each.first} to {each.last} were aborted"
                self.found.add("aborted_missing", path, -1, each.last, said)


def _events(data: bytes, missing: int, file: int) -> Events:
    events = np.frombuffer(data, EVENT).copy()
    events["missing"] += np.int64(missing)
    events["file"] = file
    return events


def join_summaries(path: str, summaries: Iterable[Summary], now_ms: int, *, contiguous: bool = False) -> LogReport:
    """The report of the log at *path*, from the summaries of its stretches in their order."""
    joining = Joining(path, now_ms, contiguous=contiguous)
    for summary in summaries:
        joining.add(summary)
    return joining.report()


class AuditReport(msgspec.Struct, kw_only=True):
    """Everything that was found.

    Attributes:
        path: what was audited.
        now_ms: the time that timestamps were compared with.
        severities: how many findings there are of each.
        logs: in the order of their paths.
    """

    path: str
    now_ms: int
    severities: dict[str, int]
    logs: list[LogReport]
