"""`kafkaproof fuzz bench`: what fuzzing costs and finds, measured by anyone."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec

from kafka_conformance.cli import CANNOT_RUN
from kafka_fuzz.bench import tables
from kafka_fuzz.bench.outcomes import Measured


@click.command()
@click.option("--repeats", type=click.IntRange(min=1), default=10, show_default=True, metavar="N")
@click.option(
    "--seconds", type=click.FloatRange(min=0.5), default=12.0, show_default=True, metavar="S",
    help="CPU-seconds of each repeat of each profile.",
)  # fmt: skip
@click.option("--target", "targets", multiple=True, default=tables.TARGETS, show_default=True, metavar="NAME")
@click.option(
    "--profile", "profiles", multiple=True, type=click.Choice(tables.COLUMNS), default=tables.COLUMNS,
    help="One of them, as often as you like; all of them unless given.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Repeats at a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, every repeat in it.")
def bench(
    repeats: int, seconds: float, targets: tuple[str, ...], profiles: tuple[str, ...], jobs: int, as_json: bool
) -> None:
    """Compare the profiles on Python codecs: what they find, lines, executions by CPU-second.

    Unexpected ends (leaked exceptions by type and line, hangs and exhausted memory by function) are what a fuzzer
    finds that has no reference; outcome buckets hold what is read wrongly, too.  Profiles and targets take turns
    within each repeat.  `mix` is all profiles, each as often as a campaign runs it.
    """
    made: list[Measured] = []
    try:
        for each in tables.outcomes(repeats, seconds, targets, profiles, jobs):
            made.append(each)
            click.echo(f"{len(made)} of {repeats * len(targets) * len(profiles)} repeats", err=True)
    except tables.CannotMeasure as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_RUN)
    say(made, as_json=as_json)


def say(made: Sequence[Measured], *, as_json: bool) -> None:
    """The medians as a table, or everything as JSON."""
    if as_json:
        click.echo(msgspec.json.encode({"repeats": made}))
    else:
        click.echo("\n".join(tables.outcome_lines(made)))
