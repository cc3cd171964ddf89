"""`kafkaproof fuzz triage` and `report`: deduplicate, shrink and publish findings."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_conformance.runner.keeping import reserved
from kafka_conformance.sanitize import printable
from kafka_fuzz.shrink import Budget
from kafka_fuzz.triage.deduplicate import (
    FILE,
    FOLDER,
    TriagedFinding,
    by_cause,
    is_stale,
    last_night,
    read_triage,
    smallest,
)
from kafka_fuzz.triage.draft import draft_document
from kafka_fuzz.triage.night import read_night
from kafka_fuzz.triage.report import write_reports
from kafka_fuzz.triage.run import triage_and_write
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, say_json
from kafkaproof.commands.fuzz.run import campaign_option, kept_results, results_option

RUNS: Final = 5000
# For shrinking all findings of a campaign: an evening's campaign is triaged while a person waits.
ALL_SECONDS: Final = 200.0
existing = click.Path(path_type=Path, exists=True)


@click.command("triage")
@click.option(
    "--dir", "directories", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A campaign; more of them are shards, and are merged into the first.  [default: kafkaproof-fuzz]",
)  # fmt: skip
@click.option("--against", type=existing, metavar="OLD", help="Last night's campaign, or the list of its triage.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(min=0.1), help="For shrinking one.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(min=1), help="Targets at a time.")
@click.option(
    "--all", "every", is_flag=True, help="Shrink and list all findings, known ones, too, and keep co-testees' outcomes."
)
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def triage(
    directories: tuple[Path, ...],
    against: Path | None,
    seconds: float,
    jobs: int,
    every: bool,
    results: Path | None,
    as_json: bool,
) -> NoReturn:
    """Deduplicate and shrink findings, and draft a case for each below DIR/triage.

    Prints a line for each cause: its number of findings, and its smallest input.  Findings that look like cases of
    the kept results have the reviewed cause of these, and are known.  Without --against, the findings are
    compared with the triage before the last rounds, which is kept as DIR/previous, or with a campaign that you put
    there.

    Exit codes: 0 nothing new, 1 new findings, 2 usage.
    """
    roots = directories or (Path("kafkaproof-fuzz"),)
    if not roots[0].is_dir():
        raise click.UsageError(f"there is no campaign in {roots[0]}")
    _reserve(*roots)
    try:
        old, printer = against or last_night(roots[0]), progress_printer(quiet=as_json)
        total = None if every else ALL_SECONDS
        budget = Budget(RUNS, seconds)
        findings = triage_and_write(
            roots, old, printer, budget=budget, every=every, jobs=jobs, results=results, total=total
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        say_json({"file": str(roots[0] / FOLDER / FILE), "findings": [draft_document(finding) for finding in findings]})
    else:
        print_causes(findings, roots[0] / FOLDER, every=every)
    sys.exit(DISAGREEMENTS if any(finding.state == "new" for finding in findings) else OK)


def _reserve(*folders: Path) -> None:
    """Keep other triages and reports out of *folders* until this command ends; raises `InUse` if one is there."""
    for folder in dict.fromkeys(path.resolve() for path in folders):
        click.get_current_context().with_resource(reserved(folder, hint="it can start when that one has ended"))


def progress_printer(*, quiet: bool) -> Callable[[str], None]:
    """Where lines on what is done go: to the standard error, each finding on a terminal only, none if *quiet*."""

    def summary(line: str) -> None:
        if not quiet and (sys.stderr.isatty() or not line.startswith(" ")):
            click.echo(printable(line, 160), err=True)

    return summary


def print_causes(findings: list[TriagedFinding], folder: Path, *, every: bool) -> None:
    """A line for each cause, with its smallest find, and how many of which state."""
    for (library, cause), some in by_cause(findings).items():
        open_ = [finding for finding in some if every or finding.state != "known"]
        if open_:
            new = sum(finding.state == "new" for finding in some)
            best = smallest(open_)
            line = f"  {best.state:5} {best.severity:16} {len(best.data):5} B  {best.name}  {library}: {cause}"
            click.echo(printable(line + (f"  ({len(some)} findings, {new} new)" if len(some) > 1 else ""), 220))
    keys = sum(len(finding.keys) for finding in findings)
    counts = Counter(finding.state for finding in findings)
    summary = ", ".join(f"{counts[state]} {state}" for state in ("new", "known", "gone") if counts[state]) or "none"
    causes = by_cause(findings).values()
    news = sum(any(finding.state == "new" for finding in some) for some in causes)
    reviewed = sum(bool(some[0].reviewed) for some in causes)
    click.echo(
        f"{len(findings)} findings from {keys} keys: {summary}; {len(causes)} causes: {news} new, {reviewed} reviewed"
        f"  ·  {folder / 'README.md'}"
    )


# Targets at a time.
JOBS: Final = 2


@click.command("report")
@campaign_option("The campaign.")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where it is written.")
@click.option("--against", type=click.Path(path_type=Path, exists=True), metavar="OLD", help="Last night's campaign.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def report_command(directory: Path, out: Path, against: Path | None, as_json: bool) -> NoReturn:
    """Write the report of the campaign in DIR: HTML, Markdown, JSON lines, JUnit and SARIF.

    Runs triage first, if there were rounds since the last triage, or with --against; findings that were shrunk stay
    so.

    Totals and failures are those of each target's last campaign; findings, cells and growth are those of all
    campaigns in DIR.

    Exit codes: 0 nothing new, 1 new findings, 2 usage, 3 the harness failed in some round of a target's last
    campaign.
    """
    if directory.is_dir():
        _reserve(directory)
    try:
        night = read_night(directory, [])
        if against is not None or is_stale(directory):
            old = against or last_night(directory)
            printer = progress_printer(quiet=as_json)
            settings = {"budget": Budget(RUNS, 10.0), "every": False, "jobs": JOBS, "total": ALL_SECONDS}
            triage_and_write([directory], old, printer, results=kept_results(), **settings)
        night = read_night(directory, read_triage(directory))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    _reserve(out)
    written = write_reports(night, out)
    totals = next(night.lines())
    if as_json:
        say_json(totals | {"written": list(map(str, written))})
    else:
        summary = ", ".join(f"{count:,} {state}" for state, count in totals["states"].items())
        click.echo(
            f"{summary}; {totals['cells']:,} of {totals['cells_reachable']:,} cells; {len(night.failures())} failures"
        )
        click.echo(f"{len(written)} files; look at {out / 'index.html'}")
    sys.exit(CANNOT_RUN if night.failures() else DISAGREEMENTS if totals["states"]["new"] else OK)
