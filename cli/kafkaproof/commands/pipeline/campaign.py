"""`kafkaproof pipeline campaign`: fuzzing where Spark runs, and what it came to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import check_connect
from kafka_fuzz.campaign.known_findings import already_known, read_known_list
from kafka_fuzz.campaign.plan import OF_TESTEES
from kafka_fuzz.findings import read_findings
from kafka_fuzz.mutate import PROFILES
from kafka_fuzz.shrink import Budget
from kafka_fuzz.targets import NAMES
from kafka_fuzz.triage.deduplicate import FILE, FOLDER, TriagedFinding, read_triage
from kafka_fuzz.triage.draft import draft_document
from kafka_fuzz.triage.run import triage_and_write
from kafka_pipeline.jobs.space import MOST_SEED
from kafkaproof.cli import DISAGREEMENTS, OK, say_json
from kafkaproof.commands.fuzz.run import ProfileChoice, split_targets
from kafkaproof.commands.fuzz.triage import RUNS, print_causes
from kafkaproof.commands.pipeline import exits, opener, out_option, spark_options, steps

EXECUTIONS: Final = 100_000
DEFAULT: Final = "reference,roundtrip,explain,append,convert,decompress,kafka-python"


@click.command("campaign")
@out_option
@click.option(
    "--targets",
    default=DEFAULT,
    show_default=True,
    help="As for `fuzz run`, without brokers; testees by name.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=4, show_default=True, metavar="N")
@click.option(
    "--shards", type=click.IntRange(min=1), default=8, show_default=True, metavar="N", help="Of a target in a round."
)
@click.option(
    "--executions", type=click.IntRange(min=1), metavar="N", help=f"Inputs of a shard.  [default: {EXECUTIONS:,}]"
)
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True),
    help="Count time instead: what all rounds take if each shard has a processor.  No two runs are alike then.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, MOST_SEED - 1), default=1, show_default=True, metavar="N")
@click.option("--profile", type=ProfileChoice(["mixed", *PROFILES]), default="mixed", show_default=True)
@click.option("--known", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="A list of known findings (`fuzz known`).")  # fmt: skip
@click.option(
    "--triage/--no-triage",
    "triages",
    default=True,
    show_default=True,
    help="Deduplicate and shrink findings at the end.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@spark_options()
@click.pass_context
def campaign(
    ctx: click.Context,
    /,
    out: Path,
    targets: str,
    executions: int | None,
    minutes: float | None,
    known: Path | None,
    triages: bool,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
    environment: Path | None,
    **options: Any,
) -> None:
    """Fuzz targets on the executors, in rounds; what one shard learns, all have in the next round.

    DIR gets what every shard saw as Parquet, and at the end the folder that `fuzz run` would have written: `fuzz
    report`, `triage`, `known`, `promote` and `run` work on it.  A run that was stopped goes on.

    Exit codes: 0 nothing new, 1 new findings, 2 usage, 3 could not be run, 130 interrupted.
    """
    if executions and minutes:
        raise click.UsageError("--executions and --minutes exclude each other")
    names, text = names_of(targets), known_list_text(known)
    with exits():
        open_session = opener(master, conf, environment)
        from kafka_pipeline.jobs import campaign as job

        settings = job.CampaignSettings(
            out=out.resolve(),
            targets=names,
            executions=0 if minutes else executions or EXECUTIONS,
            minutes=minutes or 0.0,
            known=text,
            **options,
        )
        unit = "cases" if settings.executions else "shards"
        with steps(settings.executions or 1, (settings.executions or 1) * len(settings.tasks), unit) as show:
            manifest = job.campaign_on_spark(open_session, settings, show)
        found = deduplicated_findings(settings.out) if triages else []
    if as_json:
        drafts = [draft_document(finding) for finding in found]
        say_json({"out": str(out), "sha256": manifest.sha256, **manifest.counts, "triage": drafts})
    else:
        if triages:
            print_causes(found, settings.out / FOLDER, every=False)
        counts = ", ".join(f"{count:,} {name}" for name, count in manifest.counts.items())
        click.echo(f"{counts}  ·  sha256 {manifest.sha256}")
    news = already_known(settings.out)
    new = any(not news.reason(finding.key, finding.version) for finding in read_findings(settings.out))
    ctx.exit(DISAGREEMENTS if new else OK)


def names_of(text: str) -> tuple[str, ...]:
    """The targets in *text*; a usage error if one cannot run on an executor."""
    names = tuple(dict.fromkeys(split_targets(text)))
    for name in names:
        kind, _, testees = name.partition(":")
        if name not in NAMES and not (kind in OF_TESTEES and testees):
            raise click.UsageError(f"executors have no target {name!r}: {', '.join(NAMES)}, differential:A,B, encode:A")
        for testee in filter(None, testees.split(",")):
            try:
                check_connect(testee)
            except BadConnect as error:
                raise click.UsageError(str(error)) from None
    if not names:
        raise click.UsageError("there is no target named")
    return names


def known_list_text(path: Path | None) -> str:
    """The text of a list of known findings; a usage error if it is not one."""
    if path is None:
        return ""
    try:
        read_known_list(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return path.read_text(encoding="utf-8")


def deduplicated_findings(out: Path) -> list[TriagedFinding]:
    """The findings after triage, which runs only if it has not been done."""
    if not (out / FOLDER / FILE).is_file():
        triage_and_write([out], None, _print_line, budget=Budget(RUNS, 10.0), every=False, jobs=2)
    return read_triage(out)


def _print_line(line: str) -> None:
    if sys.stderr.isatty() or not line.startswith(" "):
        click.echo(line, err=True)
