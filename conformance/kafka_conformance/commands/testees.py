"""`kafkaproof testees` lists the known ones; `kafkaproof testee reference` is one."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click
import msgspec

from kafka_conformance.connect.container import ENGINE
from kafka_conformance.connect.known import KNOWN, Known


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def testees(as_json: bool) -> None:
    """List known testees, their versions and languages, and whether they can run here."""
    listed = [_described(known) for known in KNOWN]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode({"testees": listed, "miniatures": _miniatures()}), indent=2))
    else:
        _show(listed)


def _described(known: Known) -> dict[str, Any]:
    missing = known.missing()
    return {
        "name": known.name,
        "version": known.version(),
        "language": known.language,
        "runs_here": not missing,
        "missing": list(missing),
        "about": known.about,
    }


def _miniatures() -> list[dict[str, Any]]:
    from kafka_conformance.miniatures import MINIATURES

    return [
        {"name": f"miniature:{name}", "wrong": miniature.wrong, "caught_as": miniature.caught_as}
        for name, miniature in MINIATURES.items()
    ]


def _show(listed: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from kafka_conformance import render

    on = render.console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "version", "language", "runs here", "about"):
        table.add_column(heading, no_wrap=heading != "about")
    for each in listed:
        missing = ", ".join(each["missing"])
        runs = Text("yes", style="green") if each["runs_here"] else Text(f"no: needs {missing}", style="yellow")
        table.add_row(each["name"], each["version"] or "-", each["language"], runs, each["about"])
    on.print(table)
    engine = "an engine client is here" if shutil.which(ENGINE) else f"needs {ENGINE}, which is not here"
    on.print()
    on.print(Text("any other: direct:MODULE, process:COMMAND LINE, container:IMAGE " + f"({engine})", style="dim"))
    on.print(Text("wrong on purpose: miniature:NAME (kafkaproof testees --json lists them)", style="dim"))


@click.command()
@click.argument("name", type=click.Choice([known.name for known in KNOWN]))
def testee(name: str) -> None:
    """Serve the testee NAME over standard input and output, for whoever speaks the protocol."""
    from kafka_conformance import serve
    from kafka_conformance.testee import load

    known = next(known for known in KNOWN if known.name == name)
    if known.environment:
        raise click.UsageError(f"{name} needs an environment of its own: kafkaproof certify {name} makes it")
    try:
        found = load(known.module)
    except ImportError as error:
        click.echo(f"{name} cannot run: {error}", err=True)
        sys.exit(3)
    serve.serve(found, sys.stdin.buffer, sys.stdout.buffer)
