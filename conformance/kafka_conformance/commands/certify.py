"""`kafkaproof certify`: run the corpus against codecs and judge their answers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import click
import msgspec

from kafka_conformance import deviations, render, report, results
from kafka_conformance.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK
from kafka_conformance.connect import MIB, BadConnect, CannotRun, check, connect
from kafka_conformance.hostile import printable
from kafka_conformance.progress import progress
from kafka_conformance.report import Report
from kafka_conformance.reporting.names import folder_name
from kafka_conformance.runner import Interrupted, Run, run
from kafka_conformance.selection import select
from kafka_corpus.case import Case
from kafka_corpus.vectors import CODEC_OPS, corpus_hash, load_vectors

DEFAULT_REPORT: Final = "kafkaproof-results"
FORMATS: Final = ("html", "json", "junit", "sarif", "badge", "markdown")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line said."""

    only: tuple[str, ...]
    folder: Path
    declared: tuple[deviations.Deviation, ...]
    jobs: int
    formats: tuple[str, ...]
    memory: int | None
    resume: bool
    as_json: bool


def _formats(_ctx: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in FORMATS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(FORMATS)}")
    return names


def _declared(_ctx: click.Context, _parameter: click.Parameter, path: Path | None) -> tuple[deviations.Deviation, ...]:
    try:
        return () if path is None else deviations.load(path)
    except deviations.BadDeviations as error:
        raise click.BadParameter(str(error)) from error


declared_option = click.option(
    "--deviations", "declared", type=click.Path(path_type=Path, dir_okay=False), callback=_declared, metavar="FILE",
    help="Known deviations (TOML); strict, one that no longer happens fails the run.",
)  # fmt: skip
formats_option = click.option(
    "--format", "formats", callback=_formats, default="json", metavar="NAME,…", help=f"{', '.join(FORMATS)}."
)


@click.command()
@click.argument("testees", nargs=-1, required=True, metavar="TESTEE…")
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule; may be repeated.")
@click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_REPORT, metavar="DIR",
    show_default=True, help="Where results go, one directory for each testee.",
)  # fmt: skip
@declared_option
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Testees at once.  [default: processors]")
@formats_option
@click.option("--memory", type=click.IntRange(min=64), metavar="MIB", help="Address space of a testee.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
def certify(testees: tuple[str, ...], jobs: int | None, as_json: bool, **options: Any) -> NoReturn:
    """Run the corpus against each TESTEE and judge the answers.

    A TESTEE is a known name (kafkaproof testees), direct:MODULE,
    process:COMMAND LINE, container:IMAGE, or fetch:COMMAND LINE for a client
    that consumes.
    """
    settings = Settings(jobs=jobs or os.cpu_count() or 1, as_json=as_json, **options)
    cases = _cases(settings.only)
    for name in testees:
        _check_name(name)
    _end_on_terminate()
    documents, codes = [], []
    for name in testees:
        document, code = _certify_one(name, cases, settings)
        documents.append(document)
        codes.append(code)
        if code == INTERRUPTED:
            break
    _write_together([name for name, code in zip(testees, codes, strict=False) if code in (OK, DISAGREEMENTS)], settings)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode({"testees": documents}), indent=2))
    sys.exit(max(codes))


def _check_name(name: str) -> None:
    """End at once on a name that is wrong; one that cannot run here is told when its turn comes."""
    try:
        check(name)
    except BadConnect as error:
        raise click.UsageError(str(error)) from error


def _cases(only: Sequence[str]) -> list[Case]:
    try:
        cases = select(load_vectors(ops=(*CODEC_OPS, "append")), only)
    except (OSError, ValueError) as error:
        click.echo(f"the corpus cannot be read: {error}", err=True)
        sys.exit(CANNOT_RUN)
    if not cases:
        raise click.UsageError(f"no case matches --only {' '.join(only)}; kafkaproof corpus list shows them")
    return cases


def _end_on_terminate() -> None:
    # SIGTERM is ctrl-C by other means: what was earned is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _certify_one(name: str, cases: Sequence[Case], settings: Settings) -> tuple[dict[str, Any], int]:
    path = settings.folder / folder_name(name) / results.FILE
    try:
        made = _run(name, cases, settings, path)
    except results.Unusable as error:
        raise click.UsageError(f"--resume: {error}") from error
    except (CannotRun, OSError) as error:
        return _cannot_run(name, error)
    except Interrupted as stopped:
        return _stopped(name, path, stopped)
    write_report(made, settings.formats, path.parent)
    if not settings.as_json:
        render.show(made, render.console())
    return report.document(made), OK if made.agrees else DISAGREEMENTS


def _run(name: str, cases: Sequence[Case], settings: Settings, path: Path) -> Report:
    memory = None if settings.memory is None else settings.memory * MIB
    connection = connect(name, memory=memory)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not settings.resume:
        _keep_what_was_earned(path)
    with progress(name) as told:
        plan = Run(
            connection=connection,
            cases=cases,
            corpus=corpus_hash(),
            path=path,
            only=settings.only,
            jobs=settings.jobs,
            resume=settings.resume,
            progress=told,
        )
        done = run(plan)
    return report.make(done, cases, settings.declared, path)


def _keep_what_was_earned(path: Path) -> None:
    """Move an incomplete result aside: somebody may have meant `--resume`."""
    try:
        incomplete = path.exists() and not results.read(path).complete
    except results.Unusable:
        incomplete = False
    if incomplete:
        aside = path.with_name(f"incomplete-{path.name}")
        path.replace(aside)
        click.echo(f"an incomplete result was there: now {aside}; --resume would have gone on with it", err=True)


def _cannot_run(name: str, error: CannotRun | OSError) -> tuple[dict[str, Any], int]:
    hint = getattr(error, "hint", "")
    text = printable(str(error), 2000)
    click.echo(f"{text}\n  hint: {hint}" if hint else text, err=True)
    return {"testee": {"connect": name}, "error": text, "hint": hint, "agrees": False, "certified": False}, CANNOT_RUN


def _stopped(name: str, path: Path, stopped: Interrupted) -> tuple[dict[str, Any], int]:
    click.echo(f"{name}: {stopped}; what was earned is in {path}, --resume goes on with it", err=True)
    counts = results.read(path).counts() if path.exists() else {}
    document = {"testee": {"connect": name}, "complete": False, "agrees": False, "certified": False, "counts": counts}
    return document | {"error": str(stopped), "result": str(path)}, INTERRUPTED


def write_report(made: Report, formats: Sequence[str], folder: Path) -> None:
    """Write what was asked for into *folder*."""
    render.write_summary(made, folder / "summary.txt")
    if formats:
        # The page needs a template engine, a plain run does not.
        from kafka_conformance.reporting.output import write_formats

        write_formats(made, formats, folder)


def _write_together(names: Sequence[str], settings: Settings) -> None:
    """Several testees in one matrix, beside the directories of each."""
    if len(names) > 1:
        from kafka_conformance.reporting.output import write_together

        paths = [settings.folder / folder_name(name) / results.FILE for name in names]
        write_together(paths, settings.formats, settings.declared, settings.folder)
