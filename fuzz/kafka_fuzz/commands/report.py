"""`kafkaproof fuzz report`: a campaign as a page to look at, and as files for machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_conformance.cli import CANNOT_RUN, DISAGREEMENTS, OK
from kafka_conformance.commands.saying import say_json
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.commands.triage import RUNS, progress
from kafka_fuzz.reduce import Budget
from kafka_fuzz.reporting.files import write_all
from kafka_fuzz.reporting.night import read_night
from kafka_fuzz.triage.draft import write_pages
from kafka_fuzz.triage.folding import is_stale, last_night, read, write
from kafka_fuzz.triage.reducing import triaged

# Targets at a time.
JOBS: Final = 2


@click.command("report")
@campaign_option("The campaign.")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where it is written.")
@click.option("--against", type=click.Path(path_type=Path, exists=True), metavar="OLD", help="Last night's campaign.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def report(directory: Path, out: Path, against: Path | None, as_json: bool) -> NoReturn:
    """Write what the campaign in DIR came to: HTML, Markdown, JSON lines, JUnit and SARIF.

    Does triage first, if that was not done since the last round, or --against says with what to compare; what was
    reduced stays so.

    Totals and failures are those of each target's last campaign; finds, cells and growth are of all that DIR has
    seen.

    Exit codes: 0 nothing new, 1 new finds, 2 usage, 3 the harness failed in some round of a target's last
    campaign.
    """
    try:
        night = read_night(directory, [])
        if against is not None or is_stale(directory):
            old = against or last_night(directory)
            found = triaged(
                [directory], old, budget=Budget(RUNS, 10.0), every=False, jobs=JOBS, tell=progress(quiet=as_json)
            )
            write(directory, found)
            write_pages(directory, found)
        night = read_night(directory, read(directory))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    written = write_all(night, out)
    totals = next(night.lines())
    if as_json:
        say_json(totals | {"written": list(map(str, written))})
    else:
        told = ", ".join(f"{count:,} {state}" for state, count in totals["states"].items())
        click.echo(
            f"{told}; {totals['cells']:,} of {totals['cells_reachable']:,} cells; {len(night.failures())} failures"
        )
        click.echo(f"{len(written)} files; look at {out / 'index.html'}")
    sys.exit(CANNOT_RUN if night.failures() else DISAGREEMENTS if totals["states"]["new"] else OK)
