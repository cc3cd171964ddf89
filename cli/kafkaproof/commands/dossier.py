"""`kafkaproof dossier`: reviewed causes of findings, each drafted as an issue for its maintainers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec

from kafka_brokers.releases import find_release
from kafka_conformance.dossiers import folder
from kafka_conformance.dossiers.grouping import LibraryDossier
from kafka_conformance.judge import reach
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import printable
from kafka_corpus.known_issues import BadIssueList
from kafkaproof.cli import DISAGREEMENTS, OK, say_json

MEASURED: Final = "kafkaproof-results/reach"


@click.command("dossier")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="RESULTS…", required=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where it is written.")
@click.option("--full", is_flag=True, help="Include the details of findings that are not disclosed yet.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail where DIR differs.")
@click.option(
    "--measure", multiple=True, metavar="RELEASE",
    help="Ask a broker of RELEASE what it does with inputs of which nothing is recorded; may be repeated.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def dossier(
    paths: tuple[Path, ...], out: Path | None, full: bool, only_check: bool, measure: tuple[str, ...], as_json: bool
) -> NoReturn:
    """Draft an issue for each reviewed cause of FAIL and HOSTILE findings in RESULTS.

    RESULTS are result.ndjson files, or directories as `certify --report` writes them.  Variants of one library
    share the page of a cause.  Findings without a reviewed cause are counted, and have no page.  A cause with
    the effect crash, stuck or memory stays a summary until it is disclosed (SECURITY.md); --full writes everything.

    Exit codes: 0 it is written or as it should be, 1 --check found a difference, 2 usage, 3 a broker cannot be run.
    """
    if (only_check or full) and out is None:
        raise click.UsageError("--check and --full need --out DIR")
    try:
        found = folder.read_dossiers(paths)
        if out is not None and not only_check:
            folder.check_covers_dossiers(found, out)
        requested = _measured(found, measure)
        written = {} if out is None else folder.build_pages(found, out, full=full)
    except (Unusable, BadIssueList) as error:
        raise click.UsageError(printable(str(error))) from error
    differing = [] if out is None or not only_check else folder.differing_pages(written, out)
    if out is not None and not only_check:
        folder.write_dossier_pages(written, out)
    _print_result(found, requested, [str(path) for path in differing], as_json)
    sys.exit(DISAGREEMENTS if differing else OK)


def _measured(found: Sequence[LibraryDossier], releases: Sequence[str]) -> dict[str, int]:
    """Run cases on brokers and keep the answers; the number of cases for each broker."""
    from kafka_conformance.judge.reach import measure
    from kafka_conformance.reports.collection import cases_by_id

    groups = [group for library in found for group in library.groups]
    ids = sorted({each.finding.case.id for group in groups for each in group.findings})
    requested = {}
    for release in (find_release(name).name for name in releases):
        todo = list(reach.unmeasured([cases_by_id()[id_] for id_ in ids], release))
        answers = measure(release, todo, Path(MEASURED)) if todo else {}
        reach.write_reach(reach.merge_reach(release, answers))
        requested[release] = len(todo)
    return requested


def _print_result(
    found: Sequence[LibraryDossier], requested: dict[str, int], differing: Sequence[str], as_json: bool
) -> None:
    if as_json:
        libraries = [msgspec.to_builtins(folder.findings_of(library)) for library in found]
        say_json({"libraries": libraries, "sent": requested, "differing": list(differing)})
        return
    for release, number in requested.items():
        click.echo(f"{release}: {number:,} cases sent")
    for library in found:
        rows = ", ".join(row.name for row in library.rows)
        unreviewed = sum(library.unreviewed.values())
        click.echo(f"{library.name} {library.release} ({rows}): {len(library.groups)} causes, {unreviewed} unreviewed")
        for group in library.groups:
            click.echo(f"  {group.grade:<8} {group.reach:<14} {len(group.findings):>4}  {group.cause.title}")
    for path in differing:
        click.echo(f"differs: {path}")
