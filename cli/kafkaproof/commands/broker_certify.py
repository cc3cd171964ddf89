"""`kafkaproof broker certify`: judge any broker by what Apache Kafka answers."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from kafka_brokers.external import ExternalBroker
from kafka_brokers.progress import progress
from kafka_brokers.releases import NEWEST
from kafka_brokers.wire.client import parse_address
from kafka_conformance.reports import summary, terminal
from kafka_conformance.reports.collection import folder_name
from kafka_conformance.runner import broker as certifying
from kafka_conformance.runner import deviations, keeping, results
from kafka_conformance.runner.keeping import DEFAULT_HELP
from kafka_conformance.runner.requests import select
from kafka_corpus import evidence
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash, load_vectors, package_root
from kafkaproof.cli import DISAGREEMENTS, INTERRUPTED, OK, say_json
from kafkaproof.commands.certify import declared_option, formats_option, write_report


def _address(_ctx: click.Context, _parameter: click.Parameter, text: str) -> str:
    try:
        parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


@click.command("certify")
@click.option(
    "--bootstrap", required=True, callback=_address, metavar="HOST:PORT",
    help="The broker; it has to lead all partitions.",
)  # fmt: skip
@click.option("--against", default=NEWEST, show_default=True, metavar="RELEASE", help="Whose answers are right.")
@click.option("--name", metavar="TEXT", help="What the report calls it.  [default: HOST:PORT]")
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule; may be repeated.")
@click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", show_default=DEFAULT_HELP,
    help="Where results go, one directory for each broker.",
)  # fmt: skip
@declared_option
@formats_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
def certify_broker(
    bootstrap: str,
    against: str,
    name: str | None,
    only: tuple[str, ...],
    folder: Path | None,
    declared: tuple[deviations.Deviation, ...],
    formats: tuple[str, ...],
    as_json: bool,
) -> NoReturn:
    """Run the produce and fetch cases on any Kafka-compatible broker, and judge it by Apache Kafka's answers.

    Topics are created for it, and deleted at the end where the broker can do that.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cases = _cases(against, only)
    path = keeping.result_directory(folder, part=bool(only)) / folder_name(name or bootstrap) / results.FILE
    try:
        keeping.check_covers_result(path, only, len(cases))
        click.get_current_context().with_resource(keeping.reserved(path.parent))
    except keeping.WouldReplace as error:
        raise click.UsageError(str(error)) from error
    except keeping.InUse:
        raise
    except OSError as error:
        raise click.UsageError(f"--report: {error}") from error
    try:
        done = _run(bootstrap, name or bootstrap, against, cases, only, path)
    except KeyboardInterrupt:
        click.echo(f"stopped; what was earned is in {path}", err=True)
        if (before := results.previous_result(path)).exists():
            click.echo(f"the complete result from before is {before}", err=True)
        sys.exit(INTERRUPTED)
    made = summary.make(done, cases, declared, path)
    write_report(made, formats, path.parent)
    if as_json:
        say_json(summary.report_document(made))
    else:
        terminal.show_result(made, terminal.console(), details=True)
    sys.exit(OK if made.agrees else DISAGREEMENTS)


def _cases(against: str, only: Sequence[str]) -> list[Case]:
    recorded = evidence.load_evidence(package_root())
    cases = list(certifying.judged_by(select(load_vectors(ops=certifying.OPS), only), recorded, against))
    if not cases:
        raise click.UsageError(f"nothing is recorded of {against} for these cases; kafkaproof broker record does that")
    return cases


def _run(
    bootstrap: str, name: str, against: str, cases: Sequence[Case], only: Sequence[str], path: Path
) -> results.Results:
    with ExternalBroker(bootstrap) as broker, progress(name) as on_progress:
        plan = certifying.BrokerRunPlan(
            broker=broker,
            name=name,
            against=against,
            cases=cases,
            corpus=corpus_hash(),
            path=path,
            only=only,
            progress=on_progress,
        )
        return certifying.run(plan)
