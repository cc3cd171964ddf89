"""`kafkaproof site`: results, cases, rules, errata and documentation as a static site."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_conformance.causes import ReviewedCause
from kafka_conformance.dossiers.folder import is_state_open, load_states
from kafka_conformance.dossiers.grouping import is_sensitive
from kafka_conformance.dossiers.reproduce import finding_program
from kafka_conformance.reports import site_build
from kafka_conformance.reports.edges import edge_tables
from kafka_conformance.reports.site import SiteContents, SitePage, read_documentation, site_pages
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import printable
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
