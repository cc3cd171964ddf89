"""Pages from results: the static site (`kafkaproof site`), and issue drafts (`kafkaproof dossier`).

The site has results, cases, rules, errata and documentation.  A dossier has the reviewed causes of findings, each
drafted as an issue for its maintainers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec

from kafka_brokers.releases import find_release
from kafka_conformance.causes import ReviewedCause
from kafka_conformance.dossiers import folder
from kafka_conformance.dossiers.folder import is_state_open, load_states
from kafka_conformance.dossiers.grouping import LibraryDossier, is_sensitive
from kafka_conformance.dossiers.reproduce import finding_program
from kafka_conformance.judge import reach
from kafka_conformance.reports import site_build
from kafka_conformance.reports.edges import edge_tables
from kafka_conformance.reports.site import SiteContents, SitePage, read_documentation, site_pages
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import printable
from kafka_corpus.known_issues import BadIssueList
from kafka_corpus.vectors import package_root
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, say_json

# Differences that `--check` prints.
SHOWN: Final = 20
directory = click.Path(path_type=Path, file_okay=False)


@click.group("site")
def site() -> None:
    """The static site: results, cases, rules, errata, documentation, and bytes explained in the browser."""


@site.command("build")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="RESULTS…")
@click.option("--out", type=directory, default=Path("kafkaproof-site"), show_default=True, metavar="DIR",
              help="The site; an older one is replaced whole.")  # fmt: skip
@click.option("--check", "check_only", is_flag=True, help="Write nothing; exit code 1 if the site in DIR differs.")
@click.option("--pyodide", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="FOLDER",
              help="The npm package pyodide, unpacked.  [default: npm fetches it once]")  # fmt: skip
@click.option("--no-pyodide", is_flag=True, help="Build without it: `explain` then knows the headers of batches only.")
@click.option("--root", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
              help="The checkout with docs and results.  [default: this package's own]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def site_build_command(
    paths: tuple[Path, ...], out: Path, check_only: bool, pyodide: Path | None, no_pyodide: bool, root: Path | None,
    as_json: bool,
) -> NoReturn:  # fmt: skip
    """Build the site from RESULTS, or from the stored results of the checkout.

    RESULTS are as `kafkaproof report` takes them. Of each testee the last good result is shown; older releases are its
    history. The pages need no server: open index.html. Two builds of the same inputs are equal.

    Exit codes: 0 built, or --check finds no difference, 1 it differs, 2 usage, 3 the folder cannot be written.
    """
    if pyodide and no_pyodide:
        raise click.UsageError("--pyodide and --no-pyodide contradict each other")
    root = root or package_root().parents[1]
    chosen = paths or (root / "results",)
    if not paths and not chosen[0].is_dir():
        raise click.UsageError(f"there are no stored results in {root}; give RESULTS")
    try:
        if not check_only:
            site_build.check_replaceable(out)
        pages = _pages(chosen, root, _runtime(pyodide, wanted=not no_pyodide))
    except Unusable as error:
        raise click.UsageError(printable(str(error), 2000)) from error
    if check_only:
        sys.exit(_checked(pages, out, as_json))
    try:
        size = site_build.write_site(pages, out)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        click.echo(printable(f"{name}{error.strerror or error}", 2000), err=True)
        sys.exit(CANNOT_RUN)
    if as_json:
        say_json({"out": str(out), "files": size.files, "bytes": size.bytes})
    else:
        click.echo(f"{size.files:,} files, {size.bytes / 1e6:.1f} MB; look at {out / 'index.html'}")
    sys.exit(OK)


def _runtime(folder: Path | None, *, wanted: bool) -> dict[str, bytes]:
    """The scripts that explain bytes in the browser; none, and a line on standard error, where there is no Pyodide."""
    if not wanted:
        return {}
    try:
        return site_build.runtime_files(folder or site_build.fetched_pyodide())
    except site_build.PyodideMissing as error:
        if folder is not None:
            raise Unusable(str(error)) from error
        click.echo(f"without Pyodide, so `explain` knows the headers of batches only: {error}", err=True)
        return {}


def _pages(paths: tuple[Path, ...], root: Path, runtime: dict[str, bytes]) -> Iterator[SitePage]:
    collection, runs = site_build.last_good(paths)
    docs, pictures = site_build.rendered_docs(read_documentation(root), root)
    states = load_states(root)
    files = pictures | runtime | ({"assets/explain/LICENCES.txt": site_build.licence_file()} if runtime else {})

    def withheld(library: str, cause: ReviewedCause) -> bool:
        return is_sensitive(cause) and not is_state_open(states, f"{library}/{cause.id}")

    contents = SiteContents(
        collection=collection,
        runs=runs,
        programs=finding_program,
        withheld=withheld,
        docs=docs,
        files=files,
        runtime=tuple(runtime),
        edges=edge_tables(paths),
    )
    return _marked(contents)


def _marked(contents: SiteContents) -> Iterator[SitePage]:
    yield site_build.mark_of(contents.collection.corpus)
    yield from site_pages(contents)


def _checked(pages: Iterator[SitePage], out: Path, as_json: bool) -> int:
    differences = list(site_build.site_differences(pages, out))
    if as_json:
        say_json({"out": str(out), "differences": differences})
    else:
        for line in islice(differences, SHOWN):
            click.echo(line)
        if len(differences) > SHOWN:
            click.echo(f"and {len(differences) - SHOWN:,} more")
        if not differences:
            click.echo(f"{out} is up to date")
    return DISAGREEMENTS if differences else OK


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
