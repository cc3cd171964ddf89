"""`kafkaproof pipeline pack` and `pipeline doctor`: the environment of executors, made and looked at."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from kafka_conformance.cli import CANNOT_RUN, DISAGREEMENTS, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.pipeline.options import exits, opener, spark_options


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def pack(file: Path) -> None:
    """Write FILE (.tar.gz): Kafkaproof and what it needs, for `--environment`.

    Driver and executors need the same Python at the same place; Spark brings PySpark.
    """
    with exits():
        from kafka_corpus.pipeline import pack as packing

        if not file.name.endswith(packing.SUFFIXES):
            raise click.UsageError(f"the name of an environment ends with {' or '.join(packing.SUFFIXES)}")
        count = packing.pack(file)
    click.echo(f"{count:,} files, {file.stat().st_size / 2**20:,.0f} MiB in {file}", err=True)


@click.command()
@click.option("--tasks", type=click.IntRange(min=1), default=8, show_default=True, metavar="N", help="Tasks that look.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@spark_options
@click.pass_context
def doctor(
    ctx: click.Context, tasks: int, as_json: bool, master: str, conf: tuple[str, ...], environment: Path | None
) -> None:
    """Say what executors have: their Python, and where Kafkaproof comes from there.

    Exit codes: 0 every task found Kafkaproof and the driver's Python, 1 one did not, 3 Spark does not run.
    """
    with exits():
        open_session = opener(master, conf, environment)
        from kafka_corpus.pipeline.probe import here, places

        with open_session() as spark:
            found = places(spark, tasks)
    wrong = [place for place in found if place.python != here().python or not all(place.packages.values())]
    if as_json:
        say_json({"places": [msgspec.to_builtins(place) for place in found]})
    else:
        for line in sorted({f"{each.host}  {each.python}  {each.packages['kafka_records']}" for each in found}):
            click.echo(line)
    if not found:
        sys.exit(CANNOT_RUN)
    ctx.exit(DISAGREEMENTS if wrong else OK)
