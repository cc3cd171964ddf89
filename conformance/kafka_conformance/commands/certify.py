"""`kafkaproof certify`: run the corpus against codecs and judge their answers."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from kafka_conformance import deviations, keeping
from kafka_conformance.cli import CANNOT_RUN
from kafka_conformance.commands.releases import certify_history
from kafka_conformance.commands.saying import say_json
from kafka_conformance.commands.several import Settings, certify_several, exit_code
from kafka_conformance.connect import BadConnect, CannotRun, check
from kafka_conformance.connect.known import OURS, Known, everyone, find
from kafka_conformance.hostile import printable
from kafka_conformance.keeping import DEFAULT_HELP
from kafka_conformance.selection import select
from kafka_corpus.case import Case
from kafka_corpus.vectors import CODEC_OPS, load_vectors

FORMATS: Final = ("html", "json", "junit", "sarif", "badge", "markdown")


def named(formats: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """What reads `--format`: names with commas in between, each of them one of *formats*."""

    def read(_ctx: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        for name in names:
            if name not in formats:
                raise click.BadParameter(f"{name!r} is none of {', '.join(formats)}")
        return names

    return read


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
    "--format", "formats", callback=named(FORMATS), default="json", metavar="NAME,…", help=f"{', '.join(FORMATS)}."
)


@click.command()
@click.argument("testees", nargs=-1, metavar="TESTEE…")
@click.option("--all", "everything", is_flag=True, help="Every known testee that can run here.")
@click.option(
    "--history", "last", type=click.IntRange(min=1), metavar="N",
    help="The last N releases of one known testee: since when is each finding there?",
)  # fmt: skip
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule; may be repeated.")
@click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", show_default=DEFAULT_HELP,
    help="Where results go, one directory for each testee.",
)  # fmt: skip
@declared_option
@click.option(
    "--write-deviations", "draft", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write all findings into FILE as known deviations, to start from.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Testees at work at once.  [default: processors]")
@formats_option
@click.option("--memory", type=click.IntRange(min=64), metavar="MIB", help="Address space of a testee.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
def certify(
    testees: tuple[str, ...], everything: bool, last: int | None, folder: Path | None, jobs: int | None, as_json: bool,
    **options: Any,
) -> NoReturn:  # fmt: skip
    """Run the corpus against each TESTEE and judge the answers.

    A TESTEE is a known name (kafkaproof testees), direct:MODULE,
    process:COMMAND LINE, container:IMAGE, or fetch:COMMAND LINE for a client
    that consumes.  Several run side by side.
    """
    folder = keeping.directory(folder, part=bool(options["only"]))
    settings = Settings(folder=folder, jobs=jobs or os.cpu_count() or 1, as_json=as_json, **options)
    if everything == bool(testees):
        raise click.UsageError("say which testees to certify, or --all")
    if settings.draft and len(testees) != 1:
        raise click.UsageError("--write-deviations is for one testee")
    if settings.draft and settings.only and settings.draft.exists():
        raise click.UsageError(f"--write-deviations: {settings.draft} is there, and --only sees only a part of it")
    cases = _cases(settings.only)
    for name in testees:
        _check_name(name)
    if last is not None:
        sys.exit(certify_history(_one_known(testees), last, cases, settings))
    done = certify_several(list(testees) or _everyone(), cases, settings)
    if as_json:
        say_json({"testees": [each.document for each in done]})
    sys.exit(exit_code(done, lenient=everything))


def _one_known(testees: tuple[str, ...]) -> Known:
    known = find(testees[0]) if len(testees) == 1 and ":" not in testees[0] and "@" not in testees[0] else None
    if known is None or (known.module and known.distribution == OURS):
        raise click.UsageError("--history takes the name of one known testee that has releases")
    return known


def _everyone() -> list[str]:
    try:
        return [known.name for known in everyone()]
    except CannotRun as error:
        click.echo(printable(str(error), 2000), err=True)
        sys.exit(CANNOT_RUN)


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
    gc.freeze()  # they are there to the end: nobody has to look through them for garbage again
    return cases
