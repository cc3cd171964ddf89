"""`kafkaproof report`: results as pages and files, compared with older ones; and certificates checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from kafka_conformance.dossiers.reproduce import finding_program
from kafka_conformance.reports import certificate as statement
from kafka_conformance.reports import cross, output
from kafka_conformance.reports.collection import (
    Collection,
    absent,
    cases_by_id,
    collect,
    corpus_contents,
    counts,
    files,
    read_collection,
)
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.keeping import reserved
from kafka_conformance.runner.kept_results import read_any_results
from kafka_conformance.runner.results import Results, Unusable
from kafka_conformance.sanitize import printable
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, say_json
from kafkaproof.commands.certify import declared_option

existing = click.Path(path_type=Path, exists=True)


@click.command("report")
@click.argument("paths", nargs=-1, type=existing, metavar="RESULTS…")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where it is written.")
@click.option("--baseline", type=existing, metavar="OLD", help="Results from before, to say what is better or worse.")
@click.option(
    "--verify", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
    help="Check a certificate; its result is in the same folder, or is given.",
)  # fmt: skip
@declared_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def report_results(
    paths: tuple[Path, ...],
    out: Path | None,
    baseline: Path | None,
    verify: Path | None,
    declared: tuple[Deviation, ...],
    as_json: bool,
) -> NoReturn:
    """Write what RESULTS say: a page to look at, JSON, SARIF, JUnit, Markdown, badges and certificates.

    RESULTS are result.ndjson files, or directories as `certify --report` writes them; cross.ndjson of `cross` among
    them has a page of its own.  With --baseline, DIR/changes.md has tables of the profiles, causes and
    cases that changed, as a comment on a pull request.

    Exit codes: 0 it is written or holds, 1 something is worse than before or does not hold, 2 usage.
    """
    if verify is not None:
        if out or baseline or declared:
            raise click.UsageError("--verify goes with nothing but RESULTS and --json")
        sys.exit(_verify(verify, paths, as_json))
    if not paths or out is None:
        raise click.UsageError("give RESULTS and --out DIR, or --verify FILE")
    try:
        old = () if baseline is None else [read_any_results(path, corpus_contents) for path in files([baseline])]
        crossed = cross.cross_files(paths)
        beside = cross.write_cross_files(crossed, out)
        plain = _plain(paths, crossed)
        if not plain:
            _print_cross(beside, as_json)
        collection = _collected(plain, declared, old)
        output.check_outputs(collection, out)
    except Unusable as error:
        raise click.UsageError(printable(str(error))) from error
    pages = [path.name for path in beside if path.suffix == ".html"]
    with _file_errors(), reserved(out):
        written = beside + output.write_outputs(collection, out, pages, finding_program)
    _print_reports(collection, written, out, as_json)
    sys.exit(DISAGREEMENTS if any(_worse(collection)) else OK)


@contextmanager
def _file_errors() -> Iterator[None]:
    """Show a folder that is in use, or cannot be written to, as one line and exit code 3."""
    try:
        yield
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        click.echo(printable(f"{name}{error.strerror or error}", 2000), err=True)
        sys.exit(CANNOT_RUN)


def _plain(paths: Sequence[Path], crossed: Sequence[Path]) -> list[Path]:
    """Those of *paths* that hold more than cross runs."""
    return [path for path in paths if not crossed or (path not in crossed and _has_results(path))]


def _has_results(path: Path) -> bool:
    try:
        return bool(files([path]))
    except Unusable:
        return False


def _print_cross(written: Sequence[Path], as_json: bool) -> NoReturn:
    if as_json:
        say_json({"written": list(map(str, written))})
    else:
        click.echo(f"{len(written)} files; look at {written[0]}")
    sys.exit(OK)


def _collected(paths: Sequence[Path], declared: Sequence[Deviation], old: Sequence[Results]) -> Collection:
    collection = collect(read_collection(paths, declared), old, not_run=absent(paths))
    if old and all(entry.changes is None for entry in collection.entries):
        raise Unusable("--baseline: it is of none of these testees")
    return collection


def _worse(collection: Collection) -> list[bool]:
    return [any(change.kind == "worse" for change in entry.changes or ()) for entry in collection.entries]


def _print_reports(collection: Collection, written: Sequence[Path], out: Path, as_json: bool) -> None:
    if as_json:
        document = output.output_document(collection) | {"written": [str(path) for path in written]}
        say_json(document)
        return
    for entry in collection.entries:
        certificate = entry.report.certificate
        word = f"certified for {', '.join(certificate.certified_for)}" if certificate.certified_for else "not certified"
        click.echo(f"{entry.label} {entry.version}: {word}")
        if entry.changes is not None:
            changes = ", ".join(f"{number:,} {kind}" for kind, number in counts(entry.changes).items() if number)
            click.echo(f"  since the baseline: {changes or 'nothing changed'}")
        why = output.uncertifiable(entry, collection)
        if why:
            click.echo(f"  no certificate is written: {why}", err=True)
    click.echo(f"{len(written)} files; look at {out / 'index.html'}")


def _verify(path: Path, given: Sequence[Path], as_json: bool) -> int:
    if len(given) > 1:
        raise click.UsageError("a certificate has one result")
    try:
        content = statement.load_certificate(path)
        result = files(given)[0] if given else statement.result_of(content, path)
    except (statement.BadCertificate, Unusable) as error:
        raise click.UsageError(printable(str(error))) from error
    found = list(statement.problems(content, result, cases_by_id()))
    testee = content.get("testee")
    named = testee if isinstance(testee, dict) else {}
    name = printable(f"{named.get('name', 'testee')} {named.get('version', '')}", 100)
    if as_json:
        stated = {key: content.get(key) for key in ("certified", "certified_for", "origin", "variants")}
        document = {"holds": not found, "testee": name, **stated, "problems": found}
        say_json(document)
    else:
        _print_verdict(name, content, found)
    return DISAGREEMENTS if found else OK


def _print_verdict(name: str, content: Mapping[str, Any], found: Sequence[str]) -> None:
    if not found:
        word = "certified" if content.get("certified") is True else "not certified"
        click.echo(f"the certificate holds: {name} is {word}, as follows from the result and this corpus")
        checked = content.get("variants")
        varied = f"with {checked['sent']:,} variants of cases" if checked else "without variants of cases"
        click.echo(f"it is {content['origin']}, {varied}; only another run can show that the result was not made up")
        return
    click.echo(f"the certificate of {name} does not hold")
    for problem in found:
        click.echo(f"  {problem}")
