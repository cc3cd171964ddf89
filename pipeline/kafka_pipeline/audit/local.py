"""Audit the segments of a directory on this machine, without Spark.

Stretches of segments are judged one after the other, or in a pool of processes,
and their summaries are joined in the order of the logs.  The Spark job divides
segments and joins summaries with the same functions, so both give one report.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import groupby
from multiprocessing import get_context

import msgspec

from kafka_pipeline.audit.findings import SEVERITIES
from kafka_pipeline.audit.joining import AuditReport, join_summaries
from kafka_pipeline.audit.stretch import Summary, judge_stretch
from kafka_pipeline.segments.listing import CannotRead, SegmentFile, find_segments, local_path
from kafka_pipeline.segments.splits import SPLIT, Stretch, pack_stretches, split_segment


class AuditTask(msgspec.Struct, frozen=True):
    """A stretch of a segment of *size* bytes; *last* if it is the last segment of its log."""

    stretch: Stretch
    size: int
    last: bool


def tasks_of(segments: Sequence[SegmentFile], most: int) -> list[list[AuditTask]]:
    """Divide segments into shards of about *most* bytes: stretches in their order, small ones together."""
    last = set({segment.log: segment.path for segment in segments}.values())
    sizes = {segment.path: segment.size for segment in segments}
    stretches = [stretch for segment in segments for stretch in _stretches(segment, most)]
    return [
        [AuditTask(each, sizes[each.path], each.path in last) for each in some]
        for some in pack_stretches(stretches, most)
    ]


def _stretches(segment: SegmentFile, most: int) -> list[Stretch]:
    """The stretches of a segment; the whole one if it cannot be read, which is found when it is judged."""
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
    each segment is read up to the size that it had at the start.

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
        `msgspec.json.encode` makes it the `report.json` that `kafkaproof pipeline audit` writes.

    Raises:
        CannotRead: there is no segment at *path*, or it cannot be read.
        ValueError: *processes* or *split_bytes* is below 1.
    """
    if processes < 1 or split_bytes < 1:
        raise ValueError(f"processes ({processes}) and split_bytes ({split_bytes}) have to be 1 or more")
    place = local_path(os.fspath(path))
    if place is None:
        raise CannotRead(f"{os.fspath(path)}: only paths of this machine can be audited")
    top = place.absolute().as_posix()
    clock = now_ms if now_ms is not None else int(time.time() * 1000)
    shards = tasks_of(find_segments([top]), split_bytes)
    summaries = _summaries(shards, partial(judge_tasks, now_ms=clock, contiguous=contiguous), processes)
    return report_of(top, summaries, clock, contiguous=contiguous)


def judge_tasks(tasks: Sequence[AuditTask], *, now_ms: int, contiguous: bool) -> bytes:
    """The summaries of *tasks*, as MessagePack: what another process returns."""
    summaries = [
        judge_stretch(task.stretch, task.size, last=task.last, now_ms=now_ms, contiguous=contiguous) for task in tasks
    ]
    return msgspec.msgpack.encode(summaries)


def _summaries(shards: Sequence[Sequence[AuditTask]], judged: partial[bytes], processes: int) -> Iterator[Summary]:
    decoder = msgspec.msgpack.Decoder(list[Summary])
    if processes == 1 or len(shards) <= 1:
        for tasks in shards:
            yield from decoder.decode(judged(tasks))
        return
    # New interpreters: the caller may have threads, which a fork does not copy.
    with ProcessPoolExecutor(min(processes, len(shards)), get_context("spawn")) as pool:
        for data in pool.map(judged, shards):
            yield from decoder.decode(data)
