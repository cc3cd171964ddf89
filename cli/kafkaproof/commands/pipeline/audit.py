"""`kafkaproof pipeline audit`: a log directory judged, wherever Spark runs."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafka_conformance.sanitize import printable
from kafka_pipeline.spark import PipelineError
from kafkaproof.cli import DISAGREEMENTS, OK, say_json
from kafkaproof.commands.pipeline.options import exits, opener, spark_options, steps

if TYPE_CHECKING:
    from kafka_pipeline.audit.job import Audit
    from kafka_pipeline.audit.joining import AuditReport

MOST_SHOWN: Final = 20
MIB: Final = 1 << 20


@click.command("audit")
@click.argument("path")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR",
              help="The output: one folder for each audit.")  # fmt: skip
@click.option("--contiguous", is_flag=True, help="Missing offsets are errors: for logs without compaction.")
@click.option(
    "--now", type=int, metavar="MS", help="The time that timestamps are compared with; by default the clock's."
)
@click.option("--split", type=click.IntRange(min=1), default=256, show_default=True, metavar="MIB",
              help="What one task reads.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@spark_options
@click.pass_context
def audit(
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
    """Judge a segment file, or all segments below a directory: every rule that data at rest can break.

    A partition's directory is one log: its offsets, producers and transactions are followed from segment to segment,
    and its indexes are compared with it.  Every entry is read, nothing is written there.  DIR gets index.html,
    report.json, findings.parquet, segments.parquet and a manifest.  A run that was stopped goes on.

    Exit codes: 0 clean (notes aside), 1 errors or warnings, 2 usage, 3 could not be run, 130 interrupted.
    """
    with exits():
        open_spark = opener(master, conf, environment, sql=False)
        from kafka_pipeline.segments.listing import CannotRead, find_segments, local_path
        from kafka_pipeline.spark.manifest import MANIFEST
        from kafka_pipeline.spark.session import at_once

        clock = now if now is not None else int(time.time() * 1000)
        here = local_path(path)
        if here is None:
            raise click.UsageError("audit takes a path of this machine, or of a mount that all executors share")
        place = here.absolute().as_posix()
        try:
            total = sum(segment.size for segment in find_segments([place]))
            # A whole output needs no Spark.
            with nullcontext(open_spark) if (out / MANIFEST).exists() else at_once(open_spark) as open_session:
                from kafka_pipeline.audit import job

                settings = job.Audit(
                    path=place, out=out.resolve(), now_ms=clock, split=split * MIB, contiguous=contiguous
                )
                if now is None:
                    settings = job.as_before(settings)
                with steps(split, -(-total // MIB), "MiB") as show:
                    report = job.audit(open_session, settings, show)
        except CannotRead as error:
            raise PipelineError(str(error)) from None
    if as_json:
        say_json({"out": str(out), **_numbers(settings, report)})
    else:
        print_audit(report, out)
    ctx.exit(DISAGREEMENTS if report.severities["error"] or report.severities["warning"] else OK)


def _numbers(settings: Audit, report: AuditReport) -> dict[str, object]:
    return {
        "path": settings.path,
        "logs": [{"path": log.path, "found": log.found, "numbers": log.counts.numbers} for log in report.logs],
        "severities": report.severities,
    }


def print_audit(report: AuditReport, out: Path) -> None:
    """Print the findings by kind and log, then the path of the full report."""
    from kafka_pipeline.audit.findings import SEVERITIES

    for log in report.logs:
        numbers = log.counts.numbers
        size = sum(segment.bytes for segment in log.segments)
        said = f"{numbers.get('records', 0):,} records in {len(log.segments):,} segments, {size:,} bytes"
        click.echo(printable(f"{log.path}: {said}", 300))
        shown = sorted(log.listed, key=lambda each: SEVERITIES.index(each.severity))
        shown = [each for each in shown if each.severity != "note"]
        for finding in shown[:MOST_SHOWN]:
            place = (
                f"{finding.file.rpartition('/')[2]} byte {finding.position}" if finding.position >= 0 else finding.file
            )
            line = f"  {finding.severity:8} {finding.rule:7} {place}: {finding.title}: {finding.message}"
            click.echo(printable(line, 200))
        left = sum(number for name, number in log.found.items() if not name.endswith(" note")) - len(shown[:MOST_SHOWN])
        if left > 0:
            click.echo(f"  and {left:,} more")
    counts = ", ".join(f"{number:,} {name}{'' if number == 1 else 's'}" for name, number in report.severities.items())
    click.echo(f"{counts}; the report is {out / 'index.html'}")
