"""`kafkaproof audit`, and `kafkaproof pipeline audit`: a log directory judged here, or wherever Spark runs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import click

from kafka_brokers.progress import progress
from kafka_conformance.sanitize import printable
from kafka_pipeline.spark import PipelineError
from kafkaproof.cli import DISAGREEMENTS, OK, say_json
from kafkaproof.commands.pipeline import exits, opener, spark_options, steps

if TYPE_CHECKING:
    from kafka_pipeline.audit.findings import AuditFinding
    from kafka_pipeline.audit.joining import AuditReport
    from kafka_pipeline.segments.listing import SegmentFile

MIB: Final = 1 << 20
# Lines of findings, and findings of one kind, in the summary; the rest is in the report.
MOST_LINES, MOST_OF_A_KIND_SHOWN = 22, 3
KindOfFinding = tuple[str, str, str]
"""Severity, rule and title."""

_NOW = click.option(
    "--now", type=int, metavar="MS", help="The time that timestamps are compared with; by default the clock's."
)
_CONTIGUOUS = click.option(
    "--contiguous", is_flag=True, help="Missing offsets are errors: for logs without compaction."
)
_SPLIT = click.option("--split", type=click.IntRange(min=1), default=256, show_default=True, metavar="MIB",
                      help="A segment that is larger is judged in pieces of this size.")  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
_METRICS = click.option("--metrics", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                        help="Write counts and times there, as Prometheus reads them.")  # fmt: skip


def _finite(seconds: float) -> float:
    """*seconds*, if a thread can wait for so long."""
    # No comparison with NaN is true.
    if not seconds <= threading.TIMEOUT_MAX:
        raise click.BadParameter(f"{seconds} is no time that it can wait.")
    return seconds


class AuditOptions(NamedTuple):
    """The command line of an audit, wherever it runs."""

    path: str
    out: Path | None
    contiguous: bool
    now: int | None
    split: int
    as_json: bool
    metrics: Path | None = None

    @property
    def clock(self) -> int:
        """The time that timestamps are compared with."""
        return self.now if self.now is not None else int(time.time() * 1000)


@click.command("audit")
@click.argument("path")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write the report there: one folder for each audit.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes; by default one for each core.")
@_CONTIGUOUS
@_NOW
@_SPLIT
@_JSON
@_METRICS
@click.option("--follow", is_flag=True, help="Go on with batches that are new, until SIGINT or SIGTERM.")
@click.option("--interval", type=click.FloatRange(min=0.05), default=10.0, show_default=True, metavar="SECONDS",
              callback=lambda _ctx, _param, value: _finite(value),
              help="With --follow: the time between two rounds.")  # fmt: skip
@click.option("--spark", is_flag=True, help="Judge on Spark, as `kafkaproof pipeline audit` does (needs --out).")
@spark_options(default=None)
@click.pass_context
def audit_command(
    ctx: click.Context,
    path: str,
    out: Path | None,
    jobs: int | None,
    contiguous: bool,
    now: int | None,
    split: int,
    as_json: bool,
    metrics: Path | None,
    follow: bool,
    interval: float,
    spark: bool,
    master: str | None,
    conf: tuple[str, ...],
    environment: Path | None,
) -> None:
    """Judge a segment file, or all segments below a directory: every rule that data at rest can break.

    A partition's directory is one log: its offsets, producers and transactions are followed from segment to segment,
    and its indexes are compared with it.  Every entry is read, nothing is written there.  It needs neither Java nor
    Spark, and no broker.  With --out, DIR gets index.html, report.json, findings.parquet, segments.parquet and a
    manifest, and a run that was stopped goes on.

    --follow prints a line for each new finding, once, and needs no --out.

    Exit codes: 0 clean (notes aside), 1 errors or warnings, or a directory that cannot be listed, 2 usage, 3 could
    not be run, 130 interrupted.
    """
    options = AuditOptions(path, out, contiguous, now, split, as_json, metrics)
    on_spark = spark or master is not None
    if (conf or environment) and not on_spark:
        raise click.UsageError("--conf and --environment are for --spark")
    if on_spark and (follow or jobs):
        raise click.UsageError(f"{'--follow' if follow else '--jobs'} is for this machine, not for Spark")
    if on_spark and out is None:
        raise click.UsageError("--spark needs --out: a folder that all executors reach")
    if follow and (out is not None or as_json):
        raise click.UsageError(f"--follow prints findings as lines; it takes no {'--json' if as_json else '--out'}")
    with exits(resumes=out is not None):
        _refuse_outputs(options)
        if follow:
            ctx.exit(_followed(options, jobs or cores(), interval))
        if on_spark:
            assert out is not None
            audit_on_spark(ctx, options, out, master or "local[*]", conf, environment)
        audit_locally(ctx, options, jobs or cores())


@click.command("audit")
@click.argument("path")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR",
              help="The output: one folder for each audit.")  # fmt: skip
@_CONTIGUOUS
@_NOW
@_SPLIT
@_JSON
@spark_options()
@click.pass_context
def pipeline_audit(
    ctx: click.Context,
    path: str,
    out: Path,
    contiguous: bool,
    now: int | None,
    split: int,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
    environment: Path | None,
) -> None:
    """Judge a segment file, or all segments below a directory, on Spark: for logs that take more than one machine.

    `kafkaproof audit` does the same in processes on this machine, with the same files to the byte.  A partition's
    directory is one log.  Every entry is read, nothing is written there.  DIR gets index.html, report.json,
    findings.parquet, segments.parquet and a manifest.  A run that was stopped goes on.

    Exit codes: 0 clean (notes aside), 1 errors or warnings, or a directory that cannot be listed, 2 usage, 3 could
    not be run, 130 interrupted.
    """
    options = AuditOptions(path, out, contiguous, now, split, as_json)
    with exits():
        _refuse_outputs(options)
        audit_on_spark(ctx, options, out, master, conf, environment)


def _refuse_outputs(options: AuditOptions) -> None:
    """Raise `click.UsageError` where an output would be among what is audited, or replace what is no output."""
    from kafka_pipeline.segments.listing import local_path

    here = local_path(options.path)
    for name, output in (("--out", options.out), ("--metrics", options.metrics)):
        if output is None:
            continue
        # A link at the end is replaced; one above leads elsewhere.
        place = output.parent.resolve() / output.name if name == "--metrics" else output.resolve()
        if here is not None and place.is_relative_to(here.resolve()):
            raise click.UsageError(f"{name} is inside of the audited path: {printable(str(output), 200)}")
    if options.metrics is not None:
        from kafka_pipeline.audit.follow import refused_metrics

        if why := refused_metrics(options.metrics):
            raise click.UsageError(f"--metrics does not replace {printable(str(options.metrics), 200)}: {why}")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def audit_on_spark(
    ctx: click.Context,
    options: AuditOptions,
    out: Path,
    master: str,
    conf: tuple[str, ...],
    environment: Path | None,
) -> NoReturn:
    """Judge on Spark, print, and exit."""
    open_spark = opener(master, conf, environment, sql=False)
    from kafka_pipeline.segments.listing import CannotRead, find_segments, local_path
    from kafka_pipeline.spark.manifest import MANIFEST
    from kafka_pipeline.spark.session import at_once

    clock, began = options.clock, time.monotonic()
    here = local_path(options.path)
    if here is None:
        raise click.UsageError("audit takes a path of this machine, or of a mount that all executors share")
    place = here.absolute().as_posix()
    try:
        unlisted: list[str] = []
        total = sum(segment.size for segment in find_segments([place], unlisted.append))
        _say_what_is_not_listed(unlisted)
        # A whole output needs no Spark.
        with nullcontext(open_spark) if (out / MANIFEST).exists() else at_once(open_spark) as open_session:
            from kafka_pipeline.audit import job

            settings = job.Audit(
                path=place,
                out=out.resolve(),
                now_ms=clock,
                split=options.split * MIB,
                contiguous=options.contiguous,
            )
            if options.now is None:
                settings = job.as_before(settings)
            with steps(options.split, -(-total // MIB), "MiB") as show:
                report = job.audit(open_session, settings, show)
    except CannotRead as error:
        raise PipelineError(str(error)) from None
    _end_with(ctx, options, report, time.monotonic() - began, whole=not unlisted)


def audit_locally(ctx: click.Context, options: AuditOptions, jobs: int) -> NoReturn:
    """Judge in processes on this machine, print, and exit."""
    from kafka_pipeline.segments.listing import CannotRead, find_segments

    began = time.monotonic()
    try:
        try:
            from kafka_pipeline.audit.local import WorkerDied, audited_place
        except ModuleNotFoundError as error:
            raise PipelineError(f"audit needs {error.name}: pip install 'kafkaproof[columnar]'") from None
        place = audited_place(options.path)
        unlisted: list[str] = []
        segments = find_segments([place], unlisted.append)
        _say_what_is_not_listed(unlisted)
        _say_what_is_read(place, segments, options)
        try:
            with progress("audit", "errors and warnings", "MiB") as on_progress:
                report = _judged(options, place, segments, jobs, on_progress)
        except WorkerDied as error:
            raise PipelineError(str(error)) from None
    except CannotRead as error:
        raise PipelineError(str(error)) from None
    _end_with(ctx, options, report, time.monotonic() - began, whole=not unlisted)


def _judged(
    options: AuditOptions,
    place: str,
    segments: list[SegmentFile],
    jobs: int,
    on_progress: Callable[[int, int, int], None],
) -> AuditReport:
    from kafka_pipeline.audit import job
    from kafka_pipeline.audit.local import audit_segments

    def on_bytes(done: int, total: int, findings: int) -> None:
        on_progress(done // MIB, -(-total // MIB), findings)

    if options.out is None:
        seen = job.Seen(sum(segment.size for segment in segments), on_bytes)
        return audit_segments(
            place,
            segments,
            now_ms=options.clock,
            contiguous=options.contiguous,
            processes=jobs,
            split_bytes=options.split * MIB,
            on_summary=seen.add,
        )
    settings = job.Audit(
        path=place,
        out=options.out.resolve(),
        now_ms=options.clock,
        split=options.split * MIB,
        contiguous=options.contiguous,
    )
    if options.now is None:
        settings = job.as_before(settings)
    report = job.audit_here(settings, jobs, on_bytes)
    if not options.as_json and (missing := job.left_out()):
        click.echo(missing, err=True)
    return report


def _say_what_is_not_listed(unlisted: list[str]) -> None:
    """A line for each directory that cannot be listed."""
    for line in unlisted:
        click.echo(printable(f"{line}; it is not judged", 400), err=True)


def _say_what_is_read(place: str, segments: list[SegmentFile], options: AuditOptions) -> None:
    """A first line at once, where what follows takes a while."""
    total = sum(segment.size for segment in segments)
    if total < 64 * MIB or options.as_json:
        return
    logs = len({segment.log for segment in segments})
    said = f"{place}: {_many(logs, 'log')}, {_many(len(segments), 'segment')}, {total:,} bytes"
    click.echo(printable(said, 300), err=True)


def _followed(options: AuditOptions, jobs: int, interval: float) -> int:
    from kafka_pipeline.audit.follow import Follower, stop_signals
    from kafka_pipeline.audit.local import audited_place
    from kafka_pipeline.segments.listing import CannotRead

    def on_finding(finding: AuditFinding) -> None:
        click.echo(_line(finding, place, with_severity=True))

    try:
        place = audited_place(options.path)
        follower = Follower(
            place,
            now_ms=options.now,
            contiguous=options.contiguous,
            processes=jobs,
            split_bytes=options.split * MIB,
            metrics=options.metrics,
            on_finding=on_finding,
            on_note=lambda text: click.echo(printable(text, 400), err=True),
        )
        with stop_signals() as stopped:
            follower.follow(interval, stopped)
    except CannotRead as error:
        raise PipelineError(str(error)) from None
    click.echo(f"{_severities(follower.severities)}; {follower.totals()}", err=True)
    found = follower.severities["error"] or follower.severities["warning"] or follower.unlisted
    return DISAGREEMENTS if found else OK


def _end_with(
    ctx: click.Context, options: AuditOptions, report: AuditReport, seconds: float, *, whole: bool
) -> NoReturn:
    """Print the report, write metrics, and exit with its code; *whole*: all directories could be listed."""
    if options.as_json:
        say_json({"out": str(options.out) if options.out else None, **_numbers(report)})
    else:
        for line in summary_lines(report, options.out, seconds):
            click.echo(line)
    if options.metrics is not None:
        from kafka_pipeline.audit.follow import AuditTotals, write_metrics

        sys.stdout.flush()
        write_metrics(options.metrics, AuditTotals.of(report, seconds))
    ctx.exit(DISAGREEMENTS if report.severities["error"] or report.severities["warning"] or not whole else OK)


def _numbers(report: AuditReport) -> dict[str, object]:
    import msgspec

    return {
        "path": report.path,
        "logs": [
            {
                "path": log.path,
                "found": log.found,
                "numbers": log.counts.numbers,
                "listed": [msgspec.structs.asdict(finding) for finding in log.listed],
            }
            for log in report.logs
        ],
        "severities": report.severities,
    }


def summary_lines(report: AuditReport, out: Path | None, seconds: float) -> Iterator[str]:
    """Findings by kind with file, byte, offset and rule, then totals: thirty lines at most."""
    kinds = _kinds(report)
    shown = _shown(kinds)
    for (severity, of_rule, title), number in shown.items():
        count, listed = kinds[severity, of_rule, title]
        head = f"{severity:8} {of_rule:7} {title}"
        if count == 1 and listed:
            yield printable(f"{head}: {_line(listed[0], report.path)}", 300)
            continue
        yield f"{head}: {count:,}"
        for finding in listed[:number]:
            yield f"         {_line(finding, report.path)}"
    if len(kinds) > len(shown):
        yield f"and {len(kinds) - len(shown):,} more kinds of findings"
    yield from _totals(report, seconds)
    if out is not None:
        yield f"report   {out / 'index.html'}"


def _shown(kinds: Mapping[KindOfFinding, tuple[int, list[AuditFinding]]]) -> dict[KindOfFinding, int]:
    """The kinds that there is room for, and how many findings of each: one, then more of the worst."""
    room, shown = MOST_LINES, {}
    for kind, (count, listed) in kinds.items():
        first = 1 if count > 1 and listed else 0
        if room < 1 + first:
            break
        shown[kind], room = first, room - 1 - first
    for kind, first in list(shown.items()):
        if first and kind[0] != "note":
            more = min(MOST_OF_A_KIND_SHOWN, len(kinds[kind][1]), room + 1) - first
            shown[kind], room = first + more, room - more
    return shown


def _kinds(report: AuditReport) -> dict[KindOfFinding, tuple[int, list[AuditFinding]]]:
    """All findings by severity, rule and title, worst first."""
    from kafka_pipeline.audit.findings import SEVERITIES, title_of

    counts: dict[KindOfFinding, int] = {}
    listed: dict[KindOfFinding, list[AuditFinding]] = {}
    for log in report.logs:
        for name, number in log.found.items():
            kind, of_rule, severity = name.split(" ")
            key = severity, of_rule, title_of(kind)
            counts[key] = counts.get(key, 0) + number
        for finding in log.listed:
            listed.setdefault((finding.severity, finding.rule, finding.title), []).append(finding)
    ordered = sorted(counts, key=lambda key: (SEVERITIES.index(key[0]), -counts[key], key))
    return {key: (counts[key], listed.get(key, [])) for key in ordered}


def _line(finding: AuditFinding, top: str, *, with_severity: bool = False) -> str:
    """A finding in one line: file, byte, offset, and what is wrong."""
    file = finding.file.removeprefix(f"{top}/") if finding.file != top else finding.file.rpartition("/")[2]
    place = f"{file} byte {finding.position:,}" if finding.position >= 0 else file
    place += f" offset {finding.offset}" if finding.offset != -1 else ""
    if with_severity:
        return printable(f"{finding.severity:8} {finding.rule:7} {place}: {finding.title}: {finding.message}", 400)
    return printable(f"{place}: {finding.message}", 200)


def _totals(report: AuditReport, seconds: float) -> Iterator[str]:
    segments = [segment for log in report.logs for segment in log.segments]
    size, read = (sum(getattr(segment, name) for segment in segments) for name in ("bytes", "read"))
    numbers: dict[str, int] = {}
    formats: dict[str, int] = {}
    for log in report.logs:
        for name, number in log.counts.numbers.items():
            numbers[name] = numbers.get(name, 0) + number
        for name, (batches, _, _) in log.counts.formats.items():
            formats[name] = formats.get(name, 0) + batches
    yield _severities(report.severities)
    yield f"logs     {len(report.logs):,}, {_many(len(segments), 'segment')}, {size:,} bytes" + (
        f", of which {size - read:,} were not read" if size > read else ""
    )
    yield (
        f"batches  {numbers.get('entries', 0):,}, {_many(numbers.get('records', 0), 'record')}"
        f"; {', '.join(f'{name} {count:,}' for name, count in sorted(formats.items())) or 'none'}"
    )
    missing, gaps = (sum(getattr(log, name) for log in report.logs) for name in ("missing", "gaps"))
    producers, left_open = (sum(getattr(log, name) for log in report.logs) for name in ("producers", "open"))
    yield f"offsets  {missing:,} missing, in {_many(gaps, 'gap')}"
    yield f"producers {producers:,}; {_many(left_open, 'transaction')} open at the end"
    yield f"time     {seconds:.2f} s, {size / 1e6 / max(seconds, 1e-9):,.1f} MB/s"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _severities(severities: dict[str, int]) -> str:
    return ", ".join(_many(number, name) for name, number in severities.items())
