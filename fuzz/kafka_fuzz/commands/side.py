"""`kafkaproof fuzz side`: other engines on other languages' codecs, on the same corpus."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from kafka_conformance.cli import CANNOT_RUN, DISAGREEMENTS, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.connect import CannotRun
from kafka_conformance.hostile import printable
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.side import TESTEES, run_side


@click.command()
@click.argument("engine", type=click.Choice(sorted(TESTEES)))
@click.option("--testee", help="Of the engine's language.  [default: the first]")
@click.option("--seconds", type=click.FloatRange(min=1), default=60.0, show_default=True, help="By the clock.")
@campaign_option("Of a campaign: its corpus goes in, new inputs and finds come out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def side(ctx: click.Context, engine: str, testee: str | None, seconds: float, directory: Path, as_json: bool) -> None:
    """Fuzz a codec with the engine of its own language: go (go test -fuzz) or jazzer.

    Both see coverage inside the codec and know nothing of the format; they live
    from the campaign's corpus, and what they keep goes back into it.
    """
    try:
        report = run_side(engine, testee or TESTEES[engine][0], seconds, directory.resolve())
    except CannotRun as error:
        click.echo(f"{error}{f'; {error.hint}' if error.hint else ''}", err=True)
        ctx.exit(CANNOT_RUN)
    if as_json:
        say_json(msgspec.to_builtins(report))
    else:
        click.echo(
            f"{report.testee}: {report.starts} starts, {report.executions:,} executions, {report.fed:,} inputs in, "
            f"{report.kept:,} new ones out, {report.suspects} over which the harness fell; "
            f"{len(report.finds)} new finds"
        )
        for key in report.finds:
            click.echo(f"  {key}")
    if report.failure:
        click.echo(printable(report.failure, 1000), err=True)
    ctx.exit(CANNOT_RUN if report.failure else DISAGREEMENTS if report.finds else OK)
