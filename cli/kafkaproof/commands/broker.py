"""`kafkaproof broker`: real brokers, their jars, how to start one, a judge of any broker.

`record` and `compare` keep what brokers answer to the corpus, and set it side by side.
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from kafka_brokers import jars
from kafka_brokers.external import ExternalBroker, StartedBroker
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker, find_java
from kafka_brokers.progress import progress
from kafka_brokers.releases import NEWEST, RELEASES, Release, find_release
from kafka_brokers.scenarios import recorder as answer_recorder
from kafka_brokers.wire.client import parse_address
from kafka_conformance.judge.reach import replay_cases
from kafka_conformance.reports import summary, terminal
from kafka_conformance.reports.collection import folder_name
from kafka_conformance.runner import broker as certifying
from kafka_conformance.runner import deviations, keeping, results
from kafka_conformance.runner.keeping import DEFAULT_HELP, reserved
from kafka_conformance.runner.requests import select, unmatched_pattern
from kafka_conformance.sanitize import printable
from kafka_corpus import evidence
from kafka_corpus.case import Case
from kafka_corpus.evidence import brokers
from kafka_corpus.vectors import corpus_hash, load_vectors, package_root
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK, need_own_sources, say_json
from kafkaproof.commands.certify import declared_option, formats_option, write_report

# Seconds between two looks at a broker that runs in the foreground.
LOOK: Final = 0.5
DEFAULT_FOLDER: Final = "kafkaproof-results/brokers"
MOST_SHOWN: Final = 40

only_option = click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule; may be repeated.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
root_option = click.option(
    "--root", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="The folder that contains `evidence`.  [default: the package]",
)  # fmt: skip


@click.group()
def broker() -> None:
    """List, start and prepare real Kafka brokers."""


@broker.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def list_(as_json: bool) -> None:
    """List the releases, whether their jars are here, and which Java would run them."""
    listed = [_described(release) for release in RELEASES]
    if as_json:
        say_json({"releases": listed})
    else:
        _show(listed)


def _described(release: Release) -> dict[str, Any]:
    try:
        version, missing = find_java(release).version, ""
    except NoBroker as error:
        version, missing = None, str(error)
    return {
        "release": release.name,
        "mode": release.mode,
        "magics": list(release.magics),
        "jars_cached": jars.is_cached(release),
        "jars_locked": release.name in jars.locked(),
        "java": version,
        "missing": missing,
    }


def _show(listed: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from kafka_conformance.reports import terminal

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("release", "metadata", "stores", "jars", "java"):
        table.add_column(heading, no_wrap=True)
    for each in listed:
        found = Text(str(each["java"]), style="green") if each["java"] else Text(each["missing"], style="yellow")
        stores = ", ".join(f"v{magic}" for magic in each["magics"])
        kept = "cached" if each["jars_cached"] else "to be fetched" if each["jars_locked"] else "not locked"
        table.add_row(each["release"], each["mode"], stores, kept, found)
    terminal.console().print(table)


def _settings(_ctx: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` options as a dictionary."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter("has the form NAME=VALUE")
    return {name: value for name, _, value in pairs}


@broker.command("start")
@click.argument("release")
@click.option("--config", multiple=True, callback=_settings, metavar="NAME=VALUE", help="A setting of the broker's.")
@click.option("--container", "contained", is_flag=True, help="In a container, from the image that `build` made.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a line.")
def start_command(release: str, config: dict[str, str], contained: bool, as_json: bool) -> None:
    """Start RELEASE in the foreground, until ctrl-C ends it and removes what it left."""
    from kafka_brokers import container, jvm

    # `kill` and the end of a CI job must clean up as ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start_it: Callable[..., JvmBroker] = container.start_container if contained else jvm.start_jvm
    try:
        with start_it(release, config=config) as running:
            _announce(running, as_json)
            while not running.has_ended():
                time.sleep(LOOK)
            raise NoBroker(f"Kafka {release} ended by itself", log=running.tail())
    except KeyboardInterrupt:
        # The way in which this command is meant to end.
        sys.exit(OK)


def _announce(running: JvmBroker, as_json: bool) -> None:
    where = str(running.data_directory)
    if as_json:
        say_json({"release": running.release, "bootstrap": running.bootstrap, "data_directory": where})
    else:
        click.echo(f"Kafka {running.release} at {running.bootstrap}, logs in {where}; ctrl-C ends it")
    sys.stdout.flush()


@broker.command("lock")
@click.argument("release", nargs=-1)
def lock_command(release: tuple[str, ...]) -> None:
    """Fetch the jars of each RELEASE, or of all, and write their SHA-256 into the lock file of this package."""
    need_own_sources("kafkaproof broker lock", "the lock file of this release stays as it is")
    for each in [find_release(name) for name in release] or RELEASES:
        entries = jars.lock_jars([each])[each.name]
        click.echo(f"{each.name}: {len(entries)} jars")


@broker.command("schemas")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if the table is not what the jars have.")
def schemas_command(check: bool) -> None:
    """Write the table of the records of internal topics, from the message schemas in the jars of releases."""
    from kafka_brokers.message_schemas import schemas_text

    need_own_sources("kafkaproof broker schemas", "the table of this release stays as it is")
    path = package_root().parents[1] / "reference" / "kafka_records" / "internal_topics.json"
    text = schemas_text()
    if not check:
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        raise click.ClickException(
            "internal_topics.json is not what the jars have; `kafkaproof broker schemas` writes it"
        )


@broker.command("build")
@click.argument("release")
@click.option(
    "--base",
    envvar="KAFKAPROOF_BASE_IMAGE",
    show_envvar=True,
    help="The image to build on; it must have `java` on its path.  [default: a public JRE image]",
)
def build_command(release: str, base: str | None) -> None:
    """Build the image from which RELEASE runs in a container."""
    from kafka_brokers import container

    click.echo(container.build_image(release, base or container.DEFAULT_BASE))


def _address(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


def _command(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> list[str] | None:
    try:
        words = None if text is None else shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}") from error
    if words == []:
        raise click.BadParameter("names no program")
    return words


@click.command("certify")
@click.option(
    "--bootstrap", callback=_address, metavar="HOST:PORT",
    help="A broker that runs; it has to lead all partitions.",
)  # fmt: skip
@click.option(
    "--start", callback=_command, metavar="'COMMAND {port}'",
    help="Start the broker, and start it again when it ends; {data} is an empty folder.",
)  # fmt: skip
@click.option("--against", default=NEWEST, show_default=True, metavar="RELEASE", help="Whose answers are right.")
@click.option("--name", metavar="TEXT", help="What the report calls it.  [default: HOST:PORT or program]")
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule; may be repeated.")
@click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", show_default=DEFAULT_HELP,
    help="Where results go, one directory for each broker.",
)  # fmt: skip
@declared_option
@formats_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
def certify_broker(
    bootstrap: str | None,
    start: list[str] | None,
    against: str,
    name: str | None,
    only: tuple[str, ...],
    folder: Path | None,
    declared: tuple[deviations.Deviation, ...],
    formats: tuple[str, ...],
    as_json: bool,
) -> NoReturn:
    """Run the produce and fetch cases on any Kafka-compatible broker, and judge it by Apache Kafka's answers.

    A broker of --start is started again after a crash: one crash costs one case.
    Topics are created for it, and deleted at the end where the broker can do that.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if (bootstrap is None) == (start is None):
        raise click.UsageError("one of --bootstrap and --start is needed")
    where = bootstrap or start or []
    name = name or (where if isinstance(where, str) else Path(where[0]).name)
    cases = _cases(against, only)
    path = keeping.result_directory(folder, part=bool(only)) / folder_name(name) / results.FILE
    try:
        keeping.check_covers_result(path, only, len(cases))
        click.get_current_context().with_resource(keeping.reserved(path.parent))
    except keeping.WouldReplace as error:
        raise click.UsageError(str(error)) from error
    except keeping.InUse:
        raise
    except OSError as error:
        raise click.UsageError(f"--report: {error}") from error
    began = _file_number(path)
    try:
        done = _run(where, name, against, cases, only, path)
    except KeyboardInterrupt:
        earned = _file_number(path) != began and results.count_lines(path)
        click.echo(f"stopped; what was earned is in {path}" if earned else "stopped before any answer", err=True)
        if (before := results.previous_result(path)).exists():
            click.echo(f"the complete result from before is {before}", err=True)
        sys.exit(INTERRUPTED)
    made = summary.make(done, cases, declared, path)
    write_report(made, formats, path.parent)
    if as_json:
        say_json(summary.report_document(made))
    else:
        terminal.show_result(made, terminal.console(), details=True)
    sys.exit(OK if made.agrees else DISAGREEMENTS)


def _file_number(path: Path) -> int | None:
    """A number that another file in the place of *path* does not have; None without a file."""
    return path.stat().st_ino if path.exists() else None


def _refuse_sparse(release: str) -> None:
    if release in brokers.SPARSE:
        others = ", ".join(each.name for each in RELEASES)
        raise click.UsageError(f"only a few answers of {release} are recorded; name one of {others}")


def _cases(against: str, only: Sequence[str]) -> list[Case]:
    _refuse_sparse(against)
    recorded = evidence.load_evidence(package_root())
    cases = list(certifying.judged_by(select(load_vectors(ops=certifying.OPS), only), recorded, against))
    if not cases:
        raise click.UsageError(_why_none(against, only, recorded))
    return cases


def _why_none(against: str, only: Sequence[str], recorded: evidence.Evidence) -> str:
    """Why *against* judges none of the cases that *only* chooses."""
    known = sorted(brokers.recorded_releases(recorded))
    if against not in known:
        near = get_close_matches(against, known, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"--against: nothing is recorded of {printable(against, 80)!r}; {meant}"
    if not any(case.op in certifying.OPS for case in _selected_cases(only)):
        return f"--only: a broker gets cases of {', '.join(certifying.OPS)}, and these are for codecs"
    return f"nothing is recorded of {against} for these cases; kafkaproof broker record does that"


def _run(
    where: str | list[str], name: str, against: str, cases: Sequence[Case], only: Sequence[str], path: Path
) -> results.Results:
    opened = ExternalBroker(where) if isinstance(where, str) else StartedBroker(where)
    with opened as broker, progress(name) as on_progress:
        plan = certifying.BrokerRunPlan(
            broker=broker,
            name=name,
            start="" if isinstance(where, str) else shlex.join(where),
            against=against,
            cases=cases,
            corpus=corpus_hash(),
            path=path,
            only=only,
            progress=on_progress,
        )
        return certifying.run(plan)


@click.command("record")
@click.argument("releases", nargs=-1, metavar="[RELEASE]…")
@only_option
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_FOLDER, metavar="DIR",
    show_default=True, help="Where answers go one by one; a run that was stopped goes on from there.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Ask what has a recorded answer as well.")
@click.option(
    "--check", "only_check", is_flag=True, help="Ask everything again, and fail where the recorded answers differ."
)
@click.option("--container", "contained", is_flag=True, help="Brokers in containers, from images that `build` made.")
@root_option
@json_option
def record_command(
    releases: tuple[str, ...],
    only: tuple[str, ...],
    folder: Path,
    again: bool,
    only_check: bool,
    contained: bool,
    root: Path | None,
    as_json: bool,
) -> NoReturn:
    """Ask each RELEASE, or all, every case of the corpus that has no recorded answer of it, and record the answers."""
    # SIGTERM is ctrl-C by other means: what was earned is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = _Run(
        _selected_cases(only), root or package_root(), folder, again or only_check, only_check, _starter(contained)
    )
    click.get_current_context().with_resource(reserved(folder, hint="--dir DIR writes into another directory"))
    if root is None and not only_check:
        need_own_sources("kafkaproof broker record", "--root DIR writes into a copy, --check only compares")
    code, said = OK, []
    try:
        for release in [find_release(name).name for name in releases] or [each.name for each in RELEASES]:
            said.append(run.release(release))
            if not as_json:
                _print_answers(said[-1])
    except NoBroker as error:
        click.echo(str(error), err=True)
        code = CANNOT_RUN
    except KeyboardInterrupt:
        click.echo(f"stopped; what was earned is in {folder}, the same command goes on with it", err=True)
        code = INTERRUPTED
    if as_json:
        say_json({"releases": said})
    sys.exit(code or (DISAGREEMENTS if any(each["differing"] for each in said) else OK))


def _selected_cases(only: Sequence[str]) -> list[Case]:
    corpus = load_vectors()
    if problem := unmatched_pattern(corpus, only):
        raise click.UsageError(f"--only: {problem}; kafkaproof corpus list shows them")
    return select(corpus, only)


def _starter(contained: bool) -> Callable[..., JvmBroker]:
    from kafka_brokers import container, jvm

    return container.start_container if contained else jvm.start_jvm


class _Run:
    """One call of the command."""

    def __init__(
        self,
        cases: Sequence[Case],
        root: Path,
        folder: Path,
        everything: bool,
        only_check: bool,
        start: Callable[..., JvmBroker],
    ) -> None:
        self._cases = cases
        self._root = root
        self._folder = folder / "check" if only_check else folder
        self._everything = everything
        self._only_check = only_check
        self._start = start

    def release(self, release: str) -> dict[str, Any]:
        """Ask one release; what came of it."""
        recorded = evidence.load_evidence(self._root)
        concerned = list(answer_recorder.scenario_requests(self._cases, release))
        requests = concerned if self._everything else answer_recorder.unanswered(concerned, recorded, release)
        lines = replay_cases(release, requests, self._folder, self._start) if requests else {}
        skipped = sorted(line.id for line in lines.values() if line.skipped)
        ended = sorted(line.id for line in lines.values() if any(step.ended for step in line.steps))
        differing = answer_recorder.differing(recorded, release, requests, lines) if self._only_check else []
        if not self._only_check:
            evidence.write_evidence(answer_recorder.merged(recorded, release, requests, lines), self._root)
        # The file of answers is done with once they are recorded or compared.
        answer_recorder.answer_file_of(self._folder, release).path.unlink(missing_ok=True)
        return {
            "release": release,
            "cases": len(concerned),
            "sent": len(requests),
            "skipped": skipped,
            "ended": ended,
            "differing": [{"case": change.id, "what": change.what} for change in differing],
        }


def _print_answers(said: dict[str, Any]) -> None:
    click.echo(f"{said['release']}: {said['sent']:,} of {said['cases']:,} cases sent")
    for what, ids in (("cannot be sent", said["skipped"]), ("ended the broker", said["ended"])):
        if ids:
            click.echo(f"  {len(ids):,} {what}: {', '.join(ids[:5])}{' …' if len(ids) > 5 else ''}")
    for each in said["differing"][:MOST_SHOWN]:
        click.echo(f"  {each['case']}: {each['what']}")


@click.command("compare")
@click.argument("old")
@click.argument("new")
@only_option
@root_option
@json_option
def compare_command(old: str, new: str, only: tuple[str, ...], root: Path | None, as_json: bool) -> NoReturn:
    """Show the cases that release NEW answers differently from release OLD, from the recorded answers."""
    recorded = evidence.load_evidence(root or package_root())
    known = brokers.recorded_releases(recorded)
    for name in (old, new):
        _refuse_sparse(name)
        if name not in known:
            raise click.UsageError(f"nothing is recorded of {name}; there are {', '.join(sorted(known)) or 'none'}")
    found = list(answer_recorder.changes(recorded, old, new, [case.id for case in _selected_cases(only)]))
    if as_json:
        say_json({"old": old, "new": new, "changes": [{"case": each.id, "what": each.what} for each in found]})
    else:
        for each in found:
            click.echo(f"{each.id}: {each.what}")
        click.echo(f"{len(found):,} cases changed from {old} to {new}")
    sys.exit(DISAGREEMENTS if found else OK)


broker.add_command(record_command)
broker.add_command(compare_command)
broker.add_command(certify_broker)
