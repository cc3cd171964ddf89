"""`kafkaproof fuzz recall`: of what the corpus shows of testees, how much a campaign found by itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from kafka_conformance.cli import CANNOT_RUN, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.hostile import printable
from kafka_fuzz.campaign.corpus_known import shown_in
from kafka_fuzz.campaign.recall import Recall, asked_in, lenient, recalled
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.finds import read_all


@click.command()
@campaign_option("The campaign, best one that was run with --blind.")
@click.option("--missed", is_flag=True, help="Name what it has not found, each with a case that shows it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def recall(directory: Path, missed: bool, as_json: bool) -> NoReturn:
    """Say how much of what cases of the corpus show of each testee a campaign found as well.

    After `fuzz run --blind`, which leaves the cases out, that is what may be expected of a campaign's mutators where
    there is no case.  Of a campaign that ran the cases, too, it says little.

    Exit codes: 0 it is told, 2 usage, 3 the campaign asked nobody that the corpus knows.
    """
    try:
        shown = shown_in(directory)
        found = recalled(list(read_all(directory)), shown, lenient(), asked_in(directory, shown))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        say_json({"testees": found, "shown": sum(each.shown for each in found), "found": sum(e.found for e in found)})
    else:
        click.echo("\n".join(printable(line, 300) for line in lines(found, missed=missed)))
    sys.exit(OK if found else CANNOT_RUN)


def lines(found: Sequence[Recall], *, missed: bool) -> list[str]:
    """A line for each testee, what it lacks if asked for, and the sum."""
    told = []
    for each in found:
        told.append(f"{each.testee:22} {each.found:4} of {each.shown:4}, and {each.beyond:4} that no case shows")
        told += [f"    {key}  {case}" for key, case in each.missed.items() if missed]
    shown, have = sum(each.shown for each in found), sum(each.found for each in found)
    share = f"{have / shown:.0%}" if shown else "nobody was asked"
    return [*told, f"{'all':22} {have:4} of {shown:4}: {share}"]
