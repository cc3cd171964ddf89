"""`kafkaproof fuzz reach`: who can put the bytes of a find before a consumer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.releases import RELEASES, find_release
from kafka_conformance.cli import CANNOT_RUN, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.hostile import printable
from kafka_fuzz import reach as reaching
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.finds import Find, name_of, read_all


@click.command()
@click.argument("names", nargs=-1, metavar="[FIND]...")
@campaign_option("Where the finds of a campaign are.")
@click.option("--releases", default=",".join(reaching.RELEASES), show_default=True, help="Of brokers; `all` for all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def reach(names: tuple[str, ...], directory: Path, releases: str, as_json: bool) -> NoReturn:
    """Say of each find whether any producer can store it, or only a hostile broker can send it.

    FIND is the name of a find below DIR, or its first characters; all of them without one.  Their inputs are
    produced to a local broker of each release, and fetched back; answers are kept with the find, in reach.json.
    Of what a testee writes wrongly it is said that the question does not apply.

    Exit codes: 0 all were asked, 2 usage, 3 a broker could not be started.
    """
    finds = [find for find in read_all(directory) if not names or name_of(find.key).startswith(names)]
    if names and not finds:
        raise click.UsageError(f"there are no such finds in {directory}")
    found: dict[str, reaching.Reach] = {}
    try:
        for release in chosen(releases):
            found = reaching.measure(directory, finds, release)
    except NoBroker as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_RUN)
    say(finds, found, as_json=as_json)
    sys.exit(OK)


def chosen(text: str) -> list[str]:
    """The releases in *text*; a usage error for one that is not known."""
    if text == "all":
        return [each.name for each in RELEASES]
    try:
        return [find_release(name.strip()).name for name in text.split(",")]
    except NoBroker as error:
        raise click.UsageError(str(error)) from None


def say(finds: list[Find], found: dict[str, reaching.Reach], *, as_json: bool) -> None:
    """For people or for programs."""
    if as_json:
        say_json(
            {
                "finds": [
                    {"name": name_of(find.key), "key": find.key, "who": found[find.key].who, "reach": found[find.key]}
                    for find in finds
                ]
            }
        )
        return
    for find in finds:
        told = found[find.key]
        click.echo(printable(f"{name_of(find.key)}  {find.key}", 160))
        click.echo(f"    {told}")
        for release, tried in told.releases.items():
            click.echo(printable(f"      {release:9} {tried}", 160))
