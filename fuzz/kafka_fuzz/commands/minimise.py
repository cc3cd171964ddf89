"""`kafkaproof fuzz minimise`: an input made small, while it shows the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from kafka_conformance.cli import CANNOT_RUN, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.hostile import printable
from kafka_fuzz.asking import NoTarget, asking
from kafka_fuzz.commands.finding import Given, given_find
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.finds import Asked, put
from kafka_fuzz.reduce import Budget, NotShown
from kafka_fuzz.reduce.worker import Done
from kafka_fuzz.writing.asking import batch_of

MINIMAL = "minimal.bin"


@click.command("minimise")
@click.argument("given", metavar="FILE|FIND")
@click.option("--target", metavar="T", help="Whom to ask; a find knows its own.")
@click.option("--with", "others", multiple=True, metavar="T", help="Whose verdict has to stay, too; may be repeated.")
@campaign_option("Where the finds of a campaign are.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where it is written.")
@click.option("--seconds", default=60.0, type=click.FloatRange(min=0.1), help="How long it may take; 60.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def minimise(
    given: str, target: str | None, others: tuple[str, ...], directory: Path, out: Path | None, seconds: float,
    as_json: bool,
) -> NoReturn:  # fmt: skip
    """Cut FILE, or the input of FIND, down to the smallest one that shows the same.

    FIND is the name of a find below DIR, or its first characters.  T is a target of `fuzz run`, or a testee as
    `certify` takes it.  The reference's verdict stays the same, and that of everybody named with --with; of a find,
    also that of those who were asked beside its target, if they can be had here.  A batch that was to be written, as
    JSON, is made small and plain, and testees are asked to write it.

    Exit codes: 0 it is written, 2 usage, 3 the target cannot be run or shows nothing.
    """
    found = given_find(given, directory)
    asked = target or (found.find.outcome.target if found.find else None)
    if asked is None:
        raise click.UsageError("--target says whom to ask about a file")
    try:
        with asking(asked, others, asked=how(found, named=bool(target))) as who:
            done = who.reduced(found.data, budget=Budget(seconds=seconds), company=company(found, target, others))
    except (NoTarget, NotShown) as error:
        click.echo(f"{asked}: {error}", err=True)
        sys.exit(CANNOT_RUN)
    path = out or _beside(found)
    put(path, done.data)
    _tell(done, found.data, path, as_json)
    sys.exit(OK)


def how(found: Given, *, named: bool) -> Asked:
    """How who is asked is asked: a batch to be written can only be written; who is *named* may be a target."""
    try:
        batch_of(found.data)
    except ValueError:
        return found.find.asked if found.find and not named else ""
    return "encode"


def company(found: Given, target: str | None, others: tuple[str, ...]) -> list[str]:
    """Who was asked beside the find's own target when it was found; nobody, where another one is asked."""
    if found.find is None or target is not None:
        return []
    return [name for name in found.find.names if name not in (found.find.outcome.target, *others)]


def _beside(found: Given) -> Path:
    return found.path.with_name(MINIMAL) if found.find else found.path.with_name(f"{found.path.name}.min")


def _tell(done: Done, data: bytes, path: Path, as_json: bool) -> None:
    key = done.outcome.key if done.outcome else ""
    if as_json:
        say_json(
            {"key": key, "from": len(data), "to": len(done.data), "runs": done.runs, "seconds": round(done.seconds, 3),
             "complete": done.complete, "verdicts": done.verdicts, "left_out": done.left_out, "hex": done.data.hex(),
             "file": str(path)}
        )  # fmt: skip
        return
    more = "" if done.complete else "; stopped before it was done (--seconds)"
    click.echo(f"{key}\n{len(data):,} bytes to {len(done.data):,}, {done.runs:,} runs in {done.seconds:.2f} s{more}")
    if done.verdicts:
        click.echo(f"the same verdict of {', '.join(done.verdicts)}")
    for name, why in done.left_out.items():
        click.echo(printable(f"whatever is made of it by {name}: {why}"))
    click.echo(str(path) if done.data.startswith(b"{") else f"{path}: see kafkaproof explain {path}")
