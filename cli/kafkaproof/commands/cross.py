"""`kafkaproof cross`: what each testee writes, every other one reads, with a real broker in between."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_brokers.interface import Broker, NoBroker
from kafka_brokers.releases import NEWEST, find_release
from kafka_conformance.cross import results
from kafka_conformance.cross.results import cross_matrix, matrix_document
from kafka_conformance.cross.run import READ, CrossRunPlan, OnProgress, encode_requests, run
from kafka_conformance.reports import cross as cross_table
from kafka_conformance.reports import terminal
from kafka_conformance.runner import keeping
from kafka_conformance.runner.results import Unusable, previous_result
from kafka_conformance.runner.run import Interrupted
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect, CannotRun, ConnectionSpec
from kafka_conformance.testees.known import check_connect, connect, known_testees
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK, say_json
from kafkaproof.commands.certify import name_list_parser

NONE: Final = "none"
# Named here as well, so that a wrong option needs no template engine.
FORMATS: Final = ("html", "markdown", "json")


@dataclass(frozen=True, slots=True)
class Parties:
    """Testees that take part, and those that cannot."""

    connections: Mapping[str, ConnectionSpec]
    absent: Mapping[str, str]


@click.command("cross")
@click.argument("testees", nargs=-1, metavar="[TESTEE…]")
@click.option("--only", multiple=True, metavar="GLOB", help="Encode cases to write, by id, area or rule; '*' for all.")
@click.option("--broker", metavar="RELEASE", help=f"The broker in between, or none.  [default: {NEWEST}]")
@click.option(
    "--read", type=click.Choice(READ), default=READ[0], show_default=True,
    help="What consumers get: what producers wrote, or what the broker stored of it.",
)  # fmt: skip
@click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where results go.",
    show_default=f"{keeping.WHOLE}/cross; {keeping.PART}/cross with a TESTEE or --only",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Testees at once.  [default: processors]")
@click.option(
    "--format", "formats", callback=name_list_parser(FORMATS), default="html,markdown,json", metavar="NAME,…",
    show_default=True, help="What is written beside the result.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
def cross(
    testees: tuple[str, ...],
    only: tuple[str, ...],
    broker: str | None,
    read: str,
    folder: Path | None,
    jobs: int | None,
    formats: tuple[str, ...],
    resume: bool,
    as_json: bool,
) -> NoReturn:
    """Let every TESTEE write the same batches, and every other one read them.

    Without a TESTEE, all known ones that can run here.  A failure is the producer's or the
    consumer's, as the reference reads the bytes.
    """
    cases = _cases(only)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if read == "stored" and broker == NONE:
        raise click.UsageError("--read stored needs a broker")
    parties = _parties(testees)
    part = bool(testees or only)
    path = (folder or keeping.result_directory(None, part=part) / "cross") / results.FILE
    click.get_current_context().with_resource(keeping.reserved(path.parent))
    try:
        if part:
            results.check_covers_cross(path, parties.connections, [case.id for case in cases])
        with cross_progress() as on_progress, ExitStack() as stack:
            between = _broker(broker, read, stack)
            plan = CrossRunPlan(
                connections=parties.connections,
                absent=parties.absent,
                cases=cases,
                corpus=corpus_hash(),
                path=path,
                broker=between,
                read=read,
                part=part,
                jobs=jobs or os.cpu_count() or 1,
                resume=resume,
                strict=bool(testees),
                progress=on_progress,
            )
            done = run(plan)
    except (Unusable, OSError) as error:
        raise click.UsageError(printable(str(error))) from error
    except (Interrupted, KeyboardInterrupt) as stopped:
        click.echo(f"{str(stopped) or 'stopped'}; what was earned is in {path}, --resume goes on with it", err=True)
        if (before := previous_result(path)).exists():
            click.echo(f"the complete result from before is {before}", err=True)
        sys.exit(INTERRUPTED)
    _finish(done, path, formats, as_json)


def _finish(done: results.CrossResults, path: Path, formats: Sequence[str], as_json: bool) -> NoReturn:
    from kafka_conformance.reports.cross import write_cross

    made = cross_matrix(done)
    write_cross(done, path.parent, formats)
    if as_json:
        say_json(matrix_document(made, done))
    else:
        cross_table.show_cross(made, terminal.console(), path)
    sys.exit(OK if made.agrees else DISAGREEMENTS)


def _cases(only: Sequence[str]) -> list[Case]:
    try:
        cases = encode_requests(only)
    except (OSError, ValueError) as error:
        click.echo(f"the corpus cannot be read: {error}", err=True)
        sys.exit(CANNOT_RUN)
    if not cases:
        raise click.UsageError(f"no valid encode case matches --only {' '.join(only)}; kafkaproof corpus list has them")
    return cases


def _parties(testees: Sequence[str]) -> Parties:
    """The testees named, which all have to run; or all known ones that do."""
    if len(set(testees)) < len(testees):
        raise click.UsageError("a testee is named twice")
    try:
        names = testees or [known.name for known in known_testees()]
        for name in names:
            check_connect(name)
    except BadConnect as error:
        raise click.UsageError(str(error)) from error
    connections, absent = {}, {}
    for name in names:
        try:
            connections[name] = connect(name)
        except CannotRun as error:
            if testees:
                raise
            absent[name] = str(error)
    return Parties(connections, absent)


def _broker(release: str | None, read: str, stack: ExitStack) -> Broker | None:
    """The broker in between; None if none was requested and none can start."""
    from kafka_brokers import jvm

    if release == NONE:
        return None
    try:
        find_release(release or NEWEST)
    except NoBroker as error:
        raise click.UsageError(str(error)) from error
    try:
        return stack.enter_context(jvm.start_jvm(release or NEWEST))
    except NoBroker as error:
        if release or read == "stored":
            raise CannotRun(str(error)) from error
        click.echo(f"no broker in between: {error}", err=True)
        return None


@contextmanager
def cross_progress() -> Iterator[OnProgress]:
    """Progress: one changing line on a terminal, a line for each step elsewhere."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: click.echo(_step(what, done, total), err=True) if total else None
        return
    from rich.console import Console

    with Console(stderr=True).status("testees start") as status:
        yield lambda what, done, total: status.update(_step(what, done, total))


def _step(what: str, done: int, total: int) -> str:
    return f"{what}: {done:,} of {total:,} testees" if total else f"{what}: {done:,} payloads"
