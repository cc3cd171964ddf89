"""The job: stretches of segments are judged on the executors, and their summaries joined here.

OUT/report.json          every log: findings by kind, the first of each, what is in it
OUT/findings.parquet     all findings that are listed
OUT/segments.parquet     a row for each segment
OUT/index.html           the same to look at
OUT/manifest.json        the settings, counts, every file with its hash
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from kafka_conformance.sanitize import indented_json
from kafka_pipeline.audit.findings import SEVERITIES
from kafka_pipeline.audit.joining import AuditReport, LogReport
from kafka_pipeline.audit.local import report_of, tasks_of
from kafka_pipeline.audit.page import audit_page
from kafka_pipeline.audit.stretch import AuditTask, Judgement, Summary, judge_task
from kafka_pipeline.segments.listing import SegmentFile, find_segments
from kafka_pipeline.segments.splits import SPLIT
from kafka_pipeline.spark.manifest import (
    MANIFEST,
    PLAN,
    OutputManifest,
    complete,
    exclusive_run,
    read_manifest,
    read_plan,
    take_up,
    unsound,
)
from kafka_pipeline.spark.shards import (
    Job,
    ProgressFactory,
    put_table,
    read_batches,
    receipt_of,
    required_schema,
    run,
    write_durably,
)

FORMAT: Final = "kafkaproof audit"
AUDITED: Final = "audited"
REPORT, PAGE, FINDINGS, SEGMENTS = "report.json", "index.html", "findings.parquet", "segments.parquet"
SCHEMA: Final = required_schema({"summary": pa.binary()})
_PLACE: Final = ("position", "offset")
_FOUND: Final = ("log", "kind", "rule", "severity", "file", *_PLACE, "message")
FOUND: Final = required_schema({name: pa.int64() if name in _PLACE else pa.string() for name in _FOUND})
_NUMBERS: Final = ("bytes", "read", "first_offset", "last_offset")
_COUNTED: Final = ("entries", "records", "control", "transactional", "headers", "without_key", "without_value")
LISTED: Final = required_schema(
    {"log": pa.string(), "file": pa.string(), **dict.fromkeys((*_NUMBERS, *_COUNTED, *SEVERITIES), pa.int64())}
)


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
    there = find_segments([settings.path])
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
    """Judge what was not judged; a session is opened only if there is something to do.

    Raises:
        CannotRead: there is nothing to audit.
        OtherRun: the folder holds something else.
        ShardsFailed, PipelineError: what was earned is kept, and the same call goes on.
    """
    with exclusive_run(settings.out):
        segments = segments_of(settings)
        manifest = take_up(settings.out, settings.plan(segments))
        if manifest and not unsound(settings.out, manifest):
            return msgspec.json.decode((settings.out / REPORT).read_bytes(), type=AuditReport)
        (settings.out / MANIFEST).unlink(missing_ok=True)
        write_durably(settings.out / PLAN, msgspec.json.encode(settings.plan(segments)))
        tasks = tasks_of(segments, settings.split)
        with open_session() as spark:
            run(spark, audit_job(settings, tasks), range(len(tasks)), show(AUDITED))
        return _written(settings, segments, reported(settings, len(tasks)))


def audit_job(settings: Audit, tasks: Sequence[Sequence[AuditTask]]) -> Job:
    """A summary for each stretch."""
    now_ms, contiguous = settings.now_ms, settings.contiguous

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        for task in tasks[shard]:
            summary = judge_stretch(task.stretch, task.size, last=task.last, now_ms=now_ms, contiguous=contiguous)
            yield pa.RecordBatch.from_arrays([pa.array([msgspec.msgpack.encode(summary)], pa.binary())], schema=SCHEMA)

    return Job(name=AUDITED, read=read, schema=SCHEMA, out=settings.out, folder=AUDITED)


def reported(settings: Audit, shards: int) -> AuditReport:
    """The summaries of all shards as a report; one log at a time is in memory."""
    paths = [settings.out / AUDITED / f"part-{shard:06}.parquet" for shard in range(shards)]
    summaries = (
        msgspec.msgpack.decode(row, type=Summary)
        for batch in read_batches(paths)
        for row in batch.column("summary").to_pylist()
    )
    return report_of(settings.path, summaries, settings.now_ms, contiguous=settings.contiguous)


def _written(settings: Audit, segments: Sequence[SegmentFile], report: AuditReport) -> AuditReport:
    findings = [{"log": log.path, **msgspec.structs.asdict(finding)} for log in report.logs for finding in log.listed]
    tables = {
        FINDINGS: pa.Table.from_pylist(findings, FOUND),
        SEGMENTS: pa.Table.from_pylist([row for log in report.logs for row in _rows(log)], LISTED),
    }
    files = [put_table(settings.out, name, table) for name, table in tables.items()]
    write_durably(settings.out / REPORT, indented_json(report))
    write_durably(settings.out / PAGE, audit_page(report).encode())
    files += [receipt_of(settings.out, REPORT, len(report.logs)), receipt_of(settings.out, PAGE, 1)]
    counts = {"logs": len(report.logs), "segments": len(segments), **report.severities}
    complete(
        settings.out,
        OutputManifest(format=FORMAT, plan=settings.plan(segments), counts=counts, files=files),
        (AUDITED,),
    )
    return report


def _rows(log: LogReport) -> Iterator[dict[str, Any]]:
    for segment in log.segments:
        yield {
            "log": log.path,
            "file": segment.path,
            **{name: getattr(segment, name) for name in _NUMBERS},
            **{name: segment.counts.numbers.get(name, 0) for name in _COUNTED},
            **{name: segment.findings.get(name, 0) for name in SEVERITIES},
        }
