"""Follow a live log directory: each round judges the batches that are new, and its numbers are written for Prometheus.

A broker appends to the last segment of a log, rolls a new one, deletes old ones, replaces those that it compacts, and
truncates a log after a change of its leader.  What a segment holds is judged once; a log whose judged bytes are gone
or replaced is read again from its start, and what was reported of it is not reported again.
"""

from __future__ import annotations

import copy
import signal
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from kafka_conformance import installed_version
from kafka_conformance.sanitize import printable
from kafka_pipeline.audit.entries import MoreThanQuick, QuickLimits
from kafka_pipeline.audit.findings import KINDS, SEVERITIES, UNREADABLE, AuditFinding, title_of
from kafka_pipeline.audit.joining import AuditReport, Joining
from kafka_pipeline.audit.local import (
    QUICK_BYTES,
    AuditPool,
    judge_tasks,
    kernels_installed,
    pack_bytes,
)
from kafka_pipeline.audit.stretch import AuditTask, Judgement, Summary, judge_task
from kafka_pipeline.segments.files import SPLIT, Stretch, pack_stretches
from kafka_pipeline.segments.listing import CannotRead, SegmentFile, find_segments
from kafka_pipeline.spark.manifest import write_durably

# Kinds that say how a log ends, which a live one does not.
OF_AN_END: Final = frozenset({"open"})
# Findings that are remembered so that none is printed twice.
MOST_REMEMBERED: Final = 200_000


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set while the block runs."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class SegmentState:
    """A segment that was judged: which file it is, and how far."""

    inode: int
    read: int = 0
    # Framing is broken there: nothing after it can be found.
    stuck: bool = False


@dataclass(slots=True)
class FollowedLog:
    """A log that is followed."""

    joining: Joining
    segments: dict[str, SegmentState] = field(default_factory=dict)


class Follower:
    """Judges what is new below a path, round by round.

    Attributes:
        severities: findings so far, by severity.
        unlisted: what could not be listed in any round.
    """

    def __init__(
        self,
        path: str,
        *,
        now_ms: int | None = None,
        contiguous: bool = False,
        processes: int = 1,
        split_bytes: int = SPLIT,
        metrics: Path | None = None,
        on_finding: Callable[[AuditFinding], None] = lambda _: None,
        on_note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.path, self.now_ms, self.contiguous = path, now_ms, contiguous
        self.processes, self.split_bytes, self.metrics = processes, split_bytes, metrics
        self.on_finding, self.on_note = on_finding, on_note
        self.logs: dict[str, FollowedLog] = {}
        self.numbers: Counter[str] = Counter()
        self.found: Counter[tuple[str, str]] = Counter()
        self.severities: dict[str, int] = dict.fromkeys(SEVERITIES, 0)
        self.unlisted: set[str] = set()
        self._unlisted_now: set[str] = set()
        # A dictionary keeps its order, so the oldest go first.
        self._seen: dict[tuple[str, str, str, int, int], None] = {}
        self._kernels = False

    def follow(self, interval: float, stopped: threading.Event) -> None:
        """Judge in rounds, until *stopped*.

        Raises:
            CannotRead: the first round finds nothing to judge.
            OSError: the metrics cannot be written.
        """
        self.round(self._listed(), stopped)
        while not stopped.wait(interval):
            self.round(self._listed(may_be_empty=True), stopped)

    def _listed(self, *, may_be_empty: bool = False) -> list[SegmentFile]:
        """The segments that are there; what cannot be listed is a note, unless the round before had it, too."""
        lines: list[str] = []
        try:
            segments = find_segments([self.path], lines.append)
        except CannotRead as error:
            if not may_be_empty:
                raise
            segments, lines = [], [str(error)]
        for line in lines:
            if line not in self._unlisted_now:
                self.on_note(f"{line}; it is not judged")
        self._unlisted_now = set(lines)
        self.unlisted |= self._unlisted_now
        return segments

    def round(self, segments: Sequence[SegmentFile], stopped: threading.Event | None = None) -> None:
        """Judge what is new in *segments*, report findings, and write the metrics."""
        began = time.monotonic()
        logs = {log: list(some) for log, some in groupby(segments, key=lambda each: each.log)}
        for log in set(self.logs) - set(logs):
            del self.logs[log]
        tasks = [task for log, some in logs.items() for task in self._tasks(log, some)]
        for summary in self._judged(tasks):
            self._add(summary)
            if stopped is not None and stopped.is_set():
                break
        for log in dict.fromkeys(task.stretch.path.rpartition("/")[0] for task in tasks):
            if log in self.logs:
                self._report(self.logs[log])
        self.numbers["rounds"] += 1
        if self.metrics is not None:
            write_metrics(self.metrics, self.metrics_of(len(segments), time.monotonic() - began))

    def totals(self) -> str:
        """Sums so far, in a few words."""
        return (
            f"{self.numbers['bytes']:,} bytes, {self.numbers['entries']:,} batches, "
            f"{self.numbers['records']:,} records in {self.numbers['rounds']:,} rounds"
        )

    def metrics_of(self, segments: int, seconds: float) -> AuditTotals:
        """The numbers after a round."""
        return AuditTotals(
            path=self.path,
            numbers=dict(self.numbers),
            found={**none_found(), **self.found},
            logs=len(self.logs),
            segments=segments,
            seconds=seconds,
        )

    def _tasks(self, log: str, segments: list[SegmentFile]) -> Iterator[AuditTask]:
        """New bytes of a log; all of it, if judged bytes are gone."""
        state = self.logs.get(log)
        if state is not None and (why := self._replaced(state, segments)):
            self.on_note(f"{log}: {why}; it is read again")
            state = None
        if state is None:
            state = self.logs[log] = FollowedLog(Joining(log, self._clock(), contiguous=self.contiguous))
        self._forget_deleted(state, segments)
        for segment in segments:
            last = segment is segments[-1]
            known = state.segments.setdefault(segment.path, SegmentState(_inode(segment.path)))
            if segment.size > known.read and not known.stuck:
                new = Stretch(segment.path, known.read, segment.size)
                yield AuditTask(new, segment.size, last, growing=last)

    def _replaced(self, state: FollowedLog, segments: list[SegmentFile]) -> str:
        """Why a log has to be read again; empty if it has only grown, or lost its oldest segments."""
        for segment in segments:
            known = state.segments.get(segment.path)
            if known is not None and segment.size < known.read:
                return f"{segment.name} was truncated from {known.read:,} to {segment.size:,} bytes"
            if known is not None and known.inode != _inode(segment.path):
                return f"{segment.name} was replaced"
        here = {segment.path for segment in segments}
        kept = [path for path in state.segments if path in here]
        gone = [path for path in state.segments if path not in here]
        if gone and kept and max(gone) > min(kept):
            return f"{Path(max(gone)).name} was removed from its middle"
        new = [segment.path for segment in segments if segment.path not in state.segments]
        if new and state.segments and min(new) < max(state.segments):
            return f"{Path(min(new)).name} is new before its end"
        return ""

    def _forget_deleted(self, state: FollowedLog, segments: list[SegmentFile]) -> None:
        here = {segment.path for segment in segments}
        gone = [path for path in state.segments if path not in here]
        for path in gone:
            del state.segments[path]
            state.joining.forget(path)

    def _judged(self, tasks: Sequence[AuditTask]) -> Iterator[Summary]:
        """The summaries of *tasks*, in their order: by the reference where little is new, else by kernels."""
        how = Judgement(now_ms=self._clock(), contiguous=self.contiguous, kernels=self._kernels)
        total = sum(task.stretch.end - task.stretch.start for task in tasks)
        quick = msgspec.structs.replace(how, kernels=False, quick=QuickLimits())
        if not self._kernels and total <= QUICK_BYTES:
            with suppress(MoreThanQuick):
                yield from [judge_task(task, quick) for task in tasks]
                return
        how = msgspec.structs.replace(how, kernels=kernels_installed())
        with AuditPool(self.processes, total) as pool:
            # In this process the kernels stay imported; a pool goes with its round.
            self._kernels = how.kernels and pool.processes == 1
            shards = _packed(tasks, pack_bytes(total, self.split_bytes))
            for data in pool.map(partial(judge_tasks, how=how), shards):
                yield from msgspec.msgpack.decode(data, type=list[Summary])

    def _add(self, summary: Summary) -> None:
        """Take a summary into its log; one of a segment that has changed meanwhile is left for the next round."""
        state = self.logs[summary.path.rpartition("/")[0]]
        known = state.segments.get(summary.path)
        unread = {finding.kind for finding in summary.listed} & {"gone", "not_read"}
        if known is None or (unread and _changed(summary.path, known, summary.end)):
            return
        if summary.read == summary.start and not summary.found:
            return  # the first batch is not whole yet
        known.read = summary.read
        # Whatever is wrong there stays wrong: it is reported once.
        known.stuck = summary.read < summary.end
        state.joining.add(summary)
        self.numbers["bytes"] += summary.read - summary.start
        for name in ("entries", "records"):
            self.numbers[name] += summary.counts.numbers.get(name, 0)

    def _report(self, state: FollowedLog) -> None:
        """Report the findings of a log that are new, and count all of them."""
        own = state.joining.found
        counts, listed = Counter(own.counts), set(own.listed)
        # What is wrong at the end is found in a copy: the log goes on.
        for finding in copy.deepcopy(state.joining).report().listed:
            name = f"{finding.kind} {finding.rule} {finding.severity}"
            key = (finding.kind, finding.rule, finding.file, finding.position, finding.offset)
            known = finding.kind in OF_AN_END or key in self._seen
            counts[name] += (finding not in listed) - known
            if not known:
                self._seen[key] = None
                self.on_finding(finding)
        while len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        for name, number in counts.items():
            kind, _, severity = name.split(" ")
            self.severities[severity] += number
            self.found[severity, kind] += number
        own.listed.clear()
        own.counts.clear()

    def _clock(self) -> int:
        return self.now_ms if self.now_ms is not None else int(time.time() * 1000)


def _packed(tasks: Sequence[AuditTask], most: int) -> list[list[AuditTask]]:
    """The same tasks in shards, in order."""
    by_stretch = {task.stretch: task for task in tasks}
    return [[by_stretch[stretch] for stretch in some] for some in pack_stretches(by_stretch, most)]


def _inode(path: str) -> int:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return 0


def _changed(path: str, known: SegmentState, end: int) -> bool:
    """Whether a segment was removed, replaced or truncated since the round began."""
    try:
        now = Path(path).stat()
    except OSError:
        return True
    return now.st_ino != known.inode or now.st_size < end


class AuditTotals(msgspec.Struct, kw_only=True):
    """The numbers of an audit for Prometheus.

    Attributes:
        path: what is audited.
        numbers: bytes, entries, records and rounds.
        found: findings by severity and kind.
        logs, segments: how many there are now.
        seconds: of the last run or round.
    """

    path: str
    numbers: dict[str, int]
    found: dict[tuple[str, str], int]
    logs: int
    segments: int
    seconds: float

    @classmethod
    def of(cls, report: AuditReport, seconds: float) -> AuditTotals:
        """The numbers of a whole audit."""
        numbers: Counter[str] = Counter(rounds=1)
        found = none_found()
        for log in report.logs:
            numbers["bytes"] += sum(segment.read for segment in log.segments)
            for name in ("entries", "records"):
                numbers[name] += log.counts.numbers.get(name, 0)
            for name, number in log.found.items():
                kind, _, severity = name.split(" ")
                found[severity, kind] += number
        return cls(
            path=report.path,
            numbers=dict(numbers),
            found=found,
            logs=len(report.logs),
            segments=sum(len(log.segments) for log in report.logs),
            seconds=seconds,
        )


def none_found() -> Counter[tuple[str, str]]:
    """Zero findings of every severity and kind, so that each has a series before there is one."""
    kinds = {(str(severity), kind): 0 for kind, (_, severity, _) in KINDS.items()}
    return Counter({("error", UNREADABLE): 0, **kinds})


PREFIX: Final = "kafkaproof_audit"
_COUNTERS: Final = (
    ("bytes", "read_bytes", "Bytes of segments that were read."),
    ("entries", "batches", "Record batches, and messages of v0 and v1, that were judged."),
    ("records", "records", "Records that were judged."),
    ("rounds", "rounds", "Rounds of --follow, or 1."),
)


def refused_metrics(path: Path) -> str:
    """Why the file at *path* is not to be replaced by metrics; empty if it may be.  Raises `OSError`."""
    begins = f"# HELP {PREFIX}_".encode()
    try:
        # What a link leads to would stay as it is.
        if not stat.S_ISREG(path.lstat().st_mode):
            return "it is no regular file"
    except (FileNotFoundError, NotADirectoryError):
        return ""
    with path.open("rb") as file:
        return "" if file.read(len(begins)) == begins else "it is there, and holds no metrics of Kafkaproof"


def write_metrics(path: Path, totals: AuditTotals) -> None:
    """Replace the file at *path*, all or nothing.  Raises `OSError`."""
    write_durably(path, metrics_text(totals, time.time()).encode())


def metrics_text(totals: AuditTotals, now: float) -> str:
    """The numbers in the text format of Prometheus; counters begin at 0 with the process."""
    lines = []

    def add(name: str, kind: str, about: str, values: Iterable[tuple[str, float]]) -> None:
        lines.append(f"# HELP {PREFIX}_{name} {about}")
        lines.append(f"# TYPE {PREFIX}_{name} {kind}")
        lines.extend(f"{PREFIX}_{name}{labels} {value}" for labels, value in values)

    about = _labels(path=totals.path, version=installed_version())
    add("info", "gauge", "What is audited, and by which version of Kafkaproof.", [(about, 1)])
    for name, title, said in _COUNTERS:
        add(f"{title}_total", "counter", said, [("", totals.numbers.get(name, 0))])
    rows = sorted(totals.found.items(), key=lambda each: (SEVERITIES.index(each[0][0]), each[0][1]))
    add(
        "findings_total",
        "counter",
        "Findings by severity and kind.",
        [(_labels(severity=severity, kind=kind, title=title_of(kind)), number) for (severity, kind), number in rows],
    )
    add("logs", "gauge", "Partition directories that are there.", [("", totals.logs)])
    add("segments", "gauge", "Segments that are there.", [("", totals.segments)])
    add("last_run_timestamp_seconds", "gauge", "When the last run or round ended.", [("", round(now, 3))])
    add("last_run_duration_seconds", "gauge", "How long it took.", [("", round(totals.seconds, 6))])
    return "\n".join(lines) + "\n"


def _labels(**values: str) -> str:
    escaped = (
        f'{name}="' + printable(value, 1000).replace("\\", "\\\\").replace('"', '\\"') + '"'
        for name, value in values.items()
    )
    return "{" + ",".join(escaped) + "}"
