"""An audit with an output folder: stretches of segments are judged anywhere, and their summaries joined here.

OUT/report.json          every log: findings by kind, the first of each, what is in it
OUT/findings.parquet     all findings that are listed
OUT/segments.parquet     a row for each segment
OUT/index.html           the same to look at
OUT/manifest.json        the settings, counts, every file with its hash

Processes on this machine and Spark's executors run the same functions and leave the same receipts, so all files are
the same, too.  Without Arrow, which the extra `columnar` has, the two tables are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from kafka_conformance.sanitize import indented_json
from kafka_pipeline.audit.findings import SEVERITIES
from kafka_pipeline.audit.joining import AuditReport, LogReport
from kafka_pipeline.audit.local import (
    AuditPool,
    audit_segments,
    kernels_installed,
    pack_bytes,
    quick_summaries,
    report_of,
    tasks_of,
)
from kafka_pipeline.audit.stretch import AuditTask, Judgement, Summary, judge_task
from kafka_pipeline.segments.files import SPLIT
from kafka_pipeline.segments.listing import SegmentFile, find_segments
from kafka_pipeline.spark.manifest import (
    MANIFEST,
    PLAN,
    FileReceipt,
    OutputManifest,
    complete,
    exclusive_run,
    read_manifest,
    read_plan,
    receipt_of,
    take_up,
    unsound,
    write_durably,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_pipeline.spark.shards import Job, ProgressFactory, Receipt

FORMAT: Final = "kafkaproof audit"
AUDITED: Final = "audited"
REPORT, PAGE, FINDINGS, SEGMENTS = "report.json", "index.html", "findings.parquet", "segments.parquet"
TABLES: Final = (FINDINGS, SEGMENTS)
_PLACE: Final = ("position", "offset")
_FOUND: Final = ("log", "kind", "rule", "severity", "file", *_PLACE, "message")
_NUMBERS: Final = ("bytes", "read", "first_offset", "last_offset")
_COUNTED: Final = ("entries", "records", "control", "transactional", "headers", "without_key", "without_value")

OnBytes = Callable[[int, int, int], None]
"""Called with the bytes that were judged, all bytes, and the errors and warnings up to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Settings of an audit job.

    Attributes:
        path: a segment, or a directory with segments below it, which every executor reaches.
        out: the folder, which every executor reaches.
        now_ms: the time that timestamps are compared with.
        split: bytes in one task.
        contiguous: whether missing offsets are errors, for logs without compaction.
    """

    path: str
    out: Path
    now_ms: int
    split: int = SPLIT
    contiguous: bool = False

    def plan(self, segments: Sequence[SegmentFile]) -> dict[str, Any]:
        """The settings that determine every byte of the output, besides the bytes of the segments."""
        return {
            "job": "audit",
            "path": self.path,
            "now_ms": self.now_ms,
            "split": self.split,
            "contiguous": self.contiguous,
            "segments": [[segment.path, segment.size] for segment in segments],
        }


def segments_of(settings: Audit) -> list[SegmentFile]:
    """The segments as the run that is under way has them, where it is the same; else those that are there.

    A log grows while it is audited, and a run that goes on must not read more of it than the one that was stopped.
    """
    earlier = read_plan(settings.out)
    # What cannot be listed is for the command to say.
    there = find_segments([settings.path], lambda _: None)
    if earlier is not None and {**earlier, "segments": []} == settings.plan([]):
        planned = [SegmentFile(path, size) for path, size in earlier["segments"]]
        sizes = {segment.path: segment.size for segment in there}
        if all(sizes.get(segment.path, -1) >= segment.size for segment in planned):
            return planned
    return there


def as_before(settings: Audit) -> Audit:
    """*settings* with the time of the earlier run in the folder, if the rest is equal."""
    manifest = read_manifest(settings.out)
    plan = read_plan(settings.out) or (manifest.plan if manifest else {})
    earlier = replace(settings, now_ms=plan["now_ms"]) if isinstance(plan.get("now_ms"), int) else settings
    return earlier if {**plan, "segments": []} == earlier.plan([]) else settings


def audit(
    open_session: Callable[[], Any], settings: Audit, show: ProgressFactory = lambda _: lambda *_: None
) -> AuditReport:
    """Judge on Spark what was not judged; a session is opened only if there is something to do.

    Raises:
        CannotRead: there is nothing to audit.
        OtherRun: the folder holds something else.
        ShardsFailed, PipelineError: what was earned is kept, and the same call goes on.
    """
    from kafka_pipeline.spark.shards import run

    def judge(segments: Sequence[SegmentFile]) -> AuditReport:
        tasks = tasks_of(segments, settings.split)
        job = audit_job(settings, dict(enumerate(tasks)))
        with open_session() as spark:
            run(spark, job, range(len(tasks)), show(AUDITED))
        return reported(settings, job, len(tasks))

    return _kept(settings, judge)


def audit_here(settings: Audit, processes: int, on_bytes: OnBytes = lambda *_: None) -> AuditReport:
    """Judge on this machine what was not judged: the same files, without Spark and Java.

    Raises:
        CannotRead: there is nothing to audit.
        OtherRun: the folder holds something else.
        ShardsFailed, WorkerDied: what was earned is kept, and the same call goes on.
    """

    def judge(segments: Sequence[SegmentFile]) -> AuditReport:
        how = Judgement(now_ms=settings.now_ms, contiguous=settings.contiguous)
        if (summaries := quick_summaries(segments, how)) is not None:
            return report_of(settings.path, summaries, settings.now_ms, contiguous=settings.contiguous)
        total = sum(segment.size for segment in segments)
        if kernels_installed():
            return _in_processes(settings, segments, processes, total, on_bytes)
        seen = Seen(total, on_bytes)
        return audit_segments(
            settings.path,
            segments,
            now_ms=settings.now_ms,
            contiguous=settings.contiguous,
            processes=processes,
            split_bytes=settings.split,
            on_summary=seen.add,
        )

    return _kept(settings, judge)


class Seen:
    """Adds up what summaries say, for a display."""

    def __init__(self, total: int, on_bytes: OnBytes) -> None:
        self.total, self.on_bytes = total, on_bytes
        self.done = self.findings = 0

    def add(self, summary: Summary) -> None:
        """One stretch more."""
        self.more(summary.end - summary.start, findings_in(summary))

    def more(self, size: int, findings: int) -> None:
        """So many bytes more, in which so many errors and warnings are."""
        self.done, self.findings = self.done + size, self.findings + findings
        self.on_bytes(min(self.done, self.total), self.total, self.findings)


def findings_in(summary: Summary) -> int:
    """The errors and warnings of a stretch."""
    return sum(number for name, number in summary.found.items() if not name.endswith(" note"))


def _in_processes(
    settings: Audit, segments: Sequence[SegmentFile], processes: int, total: int, on_bytes: OnBytes
) -> AuditReport:
    from kafka_pipeline.spark.shards import ShardsFailed, earned

    pack = pack_bytes(total, settings.split)
    # Shards of another size are others: receipts of one division say nothing about another.
    name = AUDITED if pack == settings.split else f"{AUDITED}-{pack}"
    seen = Seen(total, on_bytes)
    with AuditPool(processes, total) as pool:
        tasks = tasks_of(segments, settings.split, pack, pool.cutter(settings.split, kernels=True))
        job = audit_job(settings, dict(enumerate(tasks)), name)
        have = {receipt.shard: receipt for receipt in earned(job, range(len(tasks)))}
        for shard, receipt in have.items():
            seen.more(_size(tasks[shard]), receipt.counts.get("findings", 0))
        todo = [(shard, some) for shard, some in enumerate(tasks) if shard not in have]
        problems = {}
        for receipt in pool.map(partial(judge_shard, settings, name), todo):
            seen.more(_size(tasks[receipt.shard]), receipt.counts.get("findings", 0))
            if receipt.problem:
                problems[receipt.shard] = receipt.problem
        if problems:
            raise ShardsFailed(problems)
    return reported(settings, job, len(tasks))


def _size(tasks: Sequence[AuditTask]) -> int:
    return sum(task.stretch.end - task.stretch.start for task in tasks)


def judge_shard(settings: Audit, name: str, shard: tuple[int, Sequence[AuditTask]]) -> Receipt:
    """Judge one shard in another process, and leave its file and its receipt."""
    from kafka_pipeline.spark.shards import work

    number, tasks = shard
    return work(audit_job(settings, {number: tasks}, name), number)


def _kept(settings: Audit, judge: Callable[[Sequence[SegmentFile]], AuditReport]) -> AuditReport:
    """The report in the folder; where it is not whole, that of *judge*, written."""
    with exclusive_run(settings.out):
        segments = segments_of(settings)
        manifest = take_up(settings.out, settings.plan(segments))
        whole = manifest is not None and {REPORT, PAGE, *_tables_here()} <= {file.path for file in manifest.files}
        if manifest and whole and not unsound(settings.out, manifest):
            return msgspec.json.decode((settings.out / REPORT).read_bytes(), type=AuditReport)
        (settings.out / MANIFEST).unlink(missing_ok=True)
        write_durably(settings.out / PLAN, msgspec.json.encode(settings.plan(segments)))
        return _written(settings, segments, judge(segments))


def audit_job(settings: Audit, tasks: Mapping[int, Sequence[AuditTask]], name: str = AUDITED) -> Job:
    """A summary for each stretch."""
    import pyarrow as pa

    from kafka_pipeline.spark.shards import Job, required_schema

    schema = required_schema({"summary": pa.binary()})
    how = Judgement(now_ms=settings.now_ms, contiguous=settings.contiguous)

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        for task in tasks[shard]:
            summary = msgspec.msgpack.encode(judge_task(task, how))
            yield pa.RecordBatch.from_arrays([pa.array([summary], pa.binary())], schema=schema)

    return Job(name=name, read=read, schema=schema, out=settings.out, folder=name, count=_count)


def _count(batch: pa.RecordBatch) -> dict[str, int]:
    summaries = [msgspec.msgpack.decode(row, type=Summary) for row in batch.column("summary").to_pylist()]
    return {"rows": len(summaries), "findings": sum(map(findings_in, summaries))}


def reported(settings: Audit, job: Job, shards: int) -> AuditReport:
    """The summaries of all shards as a report; one log at a time is in memory."""
    from kafka_pipeline.spark.shards import read_batches

    paths = [settings.out / job.folder / f"part-{shard:06}.parquet" for shard in range(shards)]
    summaries = (
        msgspec.msgpack.decode(row, type=Summary)
        for batch in read_batches(paths)
        for row in batch.column("summary").to_pylist()
    )
    return report_of(settings.path, summaries, settings.now_ms, contiguous=settings.contiguous)


def _written(settings: Audit, segments: Sequence[SegmentFile], report: AuditReport) -> AuditReport:
    from kafka_pipeline.audit.page import audit_page

    files = [*_written_tables(settings.out, report)]
    write_durably(settings.out / REPORT, indented_json(report))
    write_durably(settings.out / PAGE, audit_page(report).encode())
    files += [receipt_of(settings.out, REPORT, len(report.logs)), receipt_of(settings.out, PAGE, 1)]
    counts = {"logs": len(report.logs), "segments": len(segments), **report.severities}
    complete(
        settings.out,
        OutputManifest(format=FORMAT, plan=settings.plan(segments), counts=counts, files=files),
        [path.name for path in settings.out.glob(f"{AUDITED}*") if path.is_dir()],
    )
    return report


def _tables_here() -> tuple[str, ...]:
    """The tables that can be written here."""
    return TABLES if find_spec("pyarrow") is not None else ()


def left_out() -> str:
    """The files that cannot be written here, and the remedy, as a line; empty if all can."""
    if _tables_here():
        return ""
    return f"{' and '.join(TABLES)} are left out, which need Arrow: pip install 'kafkaproof[columnar]'"


def _written_tables(out: Path, report: AuditReport) -> Iterator[FileReceipt]:
    if not _tables_here():
        return
    import pyarrow as pa

    from kafka_pipeline.spark.shards import put_table, required_schema

    found = required_schema({name: pa.int64() if name in _PLACE else pa.string() for name in _FOUND})
    numbers = dict.fromkeys((*_NUMBERS, *_COUNTED, *SEVERITIES), pa.int64())
    listed = required_schema({"log": pa.string(), "file": pa.string(), **numbers})
    findings = [{"log": log.path, **msgspec.structs.asdict(finding)} for log in report.logs for finding in log.listed]
    rows = [row for log in report.logs for row in _rows(log)]
    for name, schema, table in ((FINDINGS, found, findings), (SEGMENTS, listed, rows)):
        columns = [_column(field.type, [row[field.name] for row in table]) for field in schema]
        yield put_table(out, name, pa.Table.from_arrays(columns, schema=schema))


def _column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Numbers or texts as Arrow has them; made from buffers, since `pyarrow.array` imports pandas, if it is there."""
    import pyarrow as pa

    if kind == pa.int64():
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, np.int64))])
    texts = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])


def _rows(log: LogReport) -> Iterator[dict[str, Any]]:
    for segment in log.segments:
        yield {
            "log": log.path,
            "file": segment.path,
            **{name: getattr(segment, name) for name in _NUMBERS},
            **{name: segment.counts.numbers.get(name, 0) for name in _COUNTED},
            **{name: segment.findings.get(name, 0) for name in SEVERITIES},
        }
