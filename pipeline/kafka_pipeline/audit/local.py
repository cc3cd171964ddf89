"""Audit the segments of a directory on this machine, without Spark.

A small log is judged in this process, by the reference: compiled kernels take longer to import than it has to read.
Other logs are judged by kernels, in this process or in several, and where these are not installed by the reference.
Summaries are joined in the order of the logs.  The Spark job divides segments and joins summaries with the same
functions, so all ways give one report.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from multiprocessing.connection import wait
from typing import Final, TypeVar

import msgspec

from kafka_pipeline.audit.entries import MoreThanQuick, QuickLimits
from kafka_pipeline.audit.findings import SEVERITIES
from kafka_pipeline.audit.joining import AuditReport, join_summaries
from kafka_pipeline.audit.stretch import AuditTask, Judgement, Summary, judge_task
from kafka_pipeline.segments.files import SPLIT, Stretch, pack_stretches, split_segment
from kafka_pipeline.segments.listing import CannotRead, SegmentFile, find_segments, local_path

# Bytes of a log that the reference judges before kernels are imported.
QUICK_BYTES: Final = 2 * 1024 * 1024
# Modules that the kernels need; the extra `columnar`.
KERNELS_NEED: Final = ("numba", "numpy", "pyarrow", "isal", "zlib_ng")
# How often a task is tried whose process dies, as Spark does.
TRIES: Final = 4
# A task has so many bytes at least, where there is more than one process.
LEAST_TASK: Final = 8 * 1024 * 1024
# Tasks that a log is divided into, if it is large enough and its segments are small enough.
TASKS: Final = 64

Tasks = Sequence[AuditTask]
Given = TypeVar("Given")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """A process that judged a task was killed each time; one line."""


def kernels_installed() -> bool:
    """Whether the extra `columnar` is here; imports nothing of it."""
    return all(find_spec(name) is not None for name in KERNELS_NEED)


def tasks_of(
    segments: Sequence[SegmentFile],
    most: int,
    pack: int | None = None,
    cut: Callable[[Sequence[SegmentFile]], list[list[Stretch]]] | None = None,
) -> list[list[AuditTask]]:
    """Divide segments into shards: stretches of about *most* bytes in their order, small ones together.

    Args:
        pack: bytes in a shard, if there are to be more shards than *most* gives.
        cut: gives the stretches of segments that are larger than *most*.
    """
    last = set({segment.log: segment.path for segment in segments}.values())
    sizes = {segment.path: segment.size for segment in segments}
    large = [segment for segment in segments if segment.size > most]
    pieces = dict(zip(large, (cut or partial(cut_segments, most=most))(large), strict=True))
    stretches = [
        stretch for segment in segments for stretch in pieces.get(segment, [Stretch(segment.path, 0, segment.size)])
    ]
    return [
        [AuditTask(each, sizes[each.path], each.path in last) for each in some]
        for some in pack_stretches(stretches, pack or most)
    ]


def pack_bytes(total: int, most: int) -> int:
    """Bytes in a shard of processes on this machine: at most *most*, and so few that all processes have some."""
    return min(most, max(LEAST_TASK, total // TASKS))


def cut_segments(segments: Sequence[SegmentFile], most: int) -> list[list[Stretch]]:
    """The stretches of each segment; the whole one if it cannot be read, which is found when it is judged."""
    return [_stretches(segment, most) for segment in segments]


def _stretches(segment: SegmentFile, most: int) -> list[Stretch]:
    try:
        return split_segment(segment, most)
    except OSError:
        return [Stretch(segment.path, 0, segment.size)]


def report_of(path: str, summaries: Iterable[Summary], now_ms: int, *, contiguous: bool = False) -> AuditReport:
    """Join the summaries of all stretches, in their order; the summaries of one log at a time are in memory."""
    logs = [
        join_summaries(log, some, now_ms, contiguous=contiguous)
        for log, some in groupby(summaries, key=lambda each: each.path.rpartition("/")[0])
    ]
    severities: dict[str, int] = {
        severity: sum(number for log in logs for name, number in log.found.items() if name.endswith(f" {severity}"))
        for severity in SEVERITIES
    }
    return AuditReport(path=path, now_ms=now_ms, severities=severities, logs=logs)


def audit_directory(
    path: str | os.PathLike[str],
    *,
    now_ms: int | None = None,
    contiguous: bool = False,
    processes: int = 1,
    split_bytes: int = SPLIT,
) -> AuditReport:
    """Judge a segment file, or all segments below a directory, and return the report document.

    Each entry is decoded and its CRC verified; offsets, producers and transactions are followed through each log;
    indexes and producer snapshots are compared with the batches.  Nothing is written, and a broker may be running:
    each segment is read up to the size that it had at the start.  Without the extra `columnar` all entries are read
    by the reference, which is slow.

    Args:
        path: a segment file, or a directory with segments (`<20 digits>.log`) below it, on this machine.
        now_ms: the time that timestamps are compared with, in milliseconds since 1970; by default the clock's.
        contiguous: whether missing offsets are errors, for topics that are not compacted; otherwise they are notes.
        processes: how many processes judge stretches.  With more than one, a script that calls this has to protect
            its own code with `if __name__ == "__main__"`, since new processes import the script.
        split_bytes: bytes of a segment that one process judges at a time.

    Returns:
        The report: `severities` counts findings (`error`, `warning`, `note`); `logs` has, for each partition's
        directory, `listed` findings with file, byte, offset and rule, and counts of what is in it.
        `msgspec.json.encode` makes it the `report.json` that `kafkaproof audit` writes.

    Raises:
        CannotRead: there is no segment at *path*, or it cannot be read.
        WorkerDied: a process was killed each time that it judged the same stretch, for its memory perhaps.
        ValueError: *processes* or *split_bytes* is below 1.
    """
    if processes < 1 or split_bytes < 1:
        raise ValueError(f"processes ({processes}) and split_bytes ({split_bytes}) have to be 1 or more")
    top = audited_place(path)
    clock = now_ms if now_ms is not None else int(time.time() * 1000)
    return audit_segments(
        top, find_segments([top]), now_ms=clock, contiguous=contiguous, processes=processes, split_bytes=split_bytes
    )


def audited_place(path: str | os.PathLike[str]) -> str:
    """The absolute path of what is to be audited.  Raises `CannotRead` if it is not on this machine."""
    place = local_path(os.fspath(path))
    if place is None:
        raise CannotRead(f"{os.fspath(path)}: only paths of this machine can be audited")
    return place.absolute().as_posix()


def audit_segments(
    path: str,
    segments: Sequence[SegmentFile],
    *,
    now_ms: int,
    contiguous: bool = False,
    processes: int = 1,
    split_bytes: int = SPLIT,
    on_summary: Callable[[Summary], None] = lambda _: None,
) -> AuditReport:
    """Judge *segments*; *on_summary* is called with each summary, in the order of the logs."""

    def seen(summaries: Iterable[Summary]) -> Iterator[Summary]:
        for summary in summaries:
            on_summary(summary)
            yield summary

    how = Judgement(now_ms=now_ms, contiguous=contiguous)
    if (summaries := quick_summaries(segments, how)) is not None:
        return report_of(path, seen(summaries), now_ms, contiguous=contiguous)
    how = msgspec.structs.replace(how, kernels=kernels_installed())
    with AuditPool(processes, sum(segment.size for segment in segments)) as pool:
        cut = pool.cutter(split_bytes, kernels=how.kernels)
        tasks = tasks_of(segments, split_bytes, pack_bytes(pool.total, split_bytes), cut)
        encoded = pool.map(partial(judge_tasks, how=how), tasks)
        decoder = msgspec.msgpack.Decoder(list[Summary])
        summaries_of_all = (summary for data in encoded for summary in decoder.decode(data))
        return report_of(path, seen(summaries_of_all), now_ms, contiguous=contiguous)


def quick_summaries(segments: Sequence[SegmentFile], how: Judgement) -> list[Summary] | None:
    """The summaries of a small log, by the reference; None if kernels are faster for it."""
    if sum(segment.size for segment in segments) > QUICK_BYTES:
        return None
    how = msgspec.structs.replace(how, kernels=False, quick=QuickLimits())
    try:
        return [judge_task(task, how) for shard in tasks_of(segments, QUICK_BYTES) for task in shard]
    except MoreThanQuick:
        return None


def judge_tasks(tasks: Tasks, how: Judgement) -> bytes:
    """The summaries of *tasks*, as MessagePack: what another process returns."""
    return msgspec.msgpack.encode([judge_task(task, how) for task in tasks])


class AuditPool:
    """Processes that judge stretches; none if one is enough, and then the work is done here.

    A new process takes a second to import the kernels, so all are forks of one that has imported them.  It is a new
    interpreter itself: the caller may have threads, which a fork does not copy.
    """

    def __init__(self, processes: int, total: int) -> None:
        self.processes = max(1, min(processes, total // LEAST_TASK))
        self.total = total
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> AuditPool:
        if self.processes > 1:
            self._pool = self._started(self.processes)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def cutter(self, most: int, *, kernels: bool) -> Callable[[Sequence[SegmentFile]], list[list[Stretch]]]:
        """Gives the stretches of large segments, which workers look for; without kernels they stay whole."""

        def cut(segments: Sequence[SegmentFile]) -> list[list[Stretch]]:
            if not kernels:
                return [[Stretch(segment.path, 0, segment.size)] for segment in segments]
            parts = self.map(partial(cut_segments, most=most), [[segment] for segment in segments])
            return [stretches for part in parts for stretches in part]

        return cut

    def map(self, function: Callable[[Given], Result], items: Sequence[Given]) -> Iterator[Result]:
        """The results of *function*, in the order of *items*; only a few wait at a time.

        Raises:
            WorkerDied: a process died `TRIES` times with the same item.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        ahead: deque[tuple[Given, Future[Result]]] = deque()
        for item in items:
            ahead.append((item, self._submit(function, item)))
            if len(ahead) > 2 * self.processes:
                yield self._result(function, ahead)
        while ahead:
            yield self._result(function, ahead)

    def _submit(self, function: Callable[[Given], Result], item: Given) -> Future[Result]:
        assert self._pool is not None
        try:
            return self._pool.submit(function, item)
        except BrokenProcessPool as error:
            # The results of those before it come first, and start the pool again.
            broken: Future[Result] = Future()
            broken.set_exception(error)
            return broken

    def _result(self, function: Callable[[Given], Result], ahead: deque[tuple[Given, Future[Result]]]) -> Result:
        item, future = ahead.popleft()
        try:
            return future.result()
        except BrokenProcessPool:
            # One process has died, and it is not known with which item: this one is tried alone, and the others again.
            self._stop()
            result = self._alone(function, item)
            self._pool = self._started(self.processes)
            for at, (later, waiting) in enumerate(ahead):
                if not waiting.done() or waiting.exception() is not None:
                    ahead[at] = later, self._submit(function, later)
            return result

    def _alone(self, function: Callable[[Given], Result], item: Given) -> Result:
        for _ in range(TRIES - 1):
            with self._started(1) as pool:
                try:
                    return pool.submit(function, item).result()
                except BrokenProcessPool:
                    continue
        raise WorkerDied(f"a process was killed {TRIES} times while it judged {_named(item)}: is there enough memory?")

    def _started(self, processes: int) -> ProcessPoolExecutor:
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            module = "kernels" if kernels_installed() else "stretch"
            context.set_forkserver_preload([f"kafka_pipeline.audit.{module}"])
        return ProcessPoolExecutor(processes, context, _begin)

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _named(item: object) -> str:
    """The first segment in an item, for a message."""
    while isinstance(item, list | tuple) and item:
        item = item[-1] if isinstance(item[0], int) else item[0]
    return item.stretch.path if isinstance(item, AuditTask) else str(getattr(item, "path", item))


def _begin() -> None:
    """A worker leaves interrupts to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
