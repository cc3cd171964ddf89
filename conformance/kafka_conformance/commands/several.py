"""Several testees against the corpus, side by side; what `kafkaproof certify` does once it knows what is wanted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from kafka_conformance import deviations, keeping, report, results
from kafka_conformance.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK
from kafka_conformance.connect import MIB, CannotRun, connect
from kafka_conformance.hostile import printable
from kafka_conformance.progress import Progress, progress_of
from kafka_conformance.report import Report
from kafka_conformance.reporting import terminal
from kafka_conformance.reporting.names import folder_name
from kafka_conformance.runner import Interrupted, Outcome, Run, Together
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash

# With more testees than this the tables of each stay in their files.
MOST_TABLES: Final = 3


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
    draft: Path | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """How it went with one testee.

    Attributes:
        name: as it was asked for.
        document: what JSON says of it.
        code: the exit code that it alone would have; `CANNOT_RUN` if it was not run.
        made: its report, if it came to its end.
    """

    name: str
    document: dict[str, Any]
    code: int
    made: Report | None = None

    @property
    def why(self) -> str:
        """Why it was not run, or not to its end."""
        return str(self.document.get("error", ""))


def certify_several(names: Sequence[str], cases: Sequence[Case], settings: Settings) -> list[Done]:
    """Run all of *names*, write what they amount to, show it; in the order of *names*.

    One that cannot be run is among them, with the reason.
    """
    done: dict[str, Done] = {}
    with progress_of(names) as told:
        plans = {
            name: plan for name in dict.fromkeys(names) if (plan := _plan(name, cases, settings, told(name), done))
        }
        asked = list(plans)
        together = Together(list(plans.values()), settings.jobs)
        with _interruptible(together.stop):
            for at, outcome in together.outcomes():
                done[asked[at]] = _ended(asked[at], plans[asked[at]], outcome, settings, together)
    ordered = [done[name] for name in dict.fromkeys(names)]
    _write_together(ordered, settings)
    if not settings.as_json:
        _show(ordered, settings)
    return ordered


def exit_code(done: Sequence[Done], *, lenient: bool) -> int:
    """The worst of all; if *lenient*, those that cannot be run here count only when nobody can."""
    codes = [each.code for each in done]
    ran = [code for code in codes if code != CANNOT_RUN]
    return max(ran if lenient and ran else codes, default=CANNOT_RUN)


def _plan(name: str, cases: Sequence[Case], settings: Settings, told: Progress, done: dict[str, Done]) -> Run | None:
    """What is to be run, or None and the reason in *done*."""
    path = settings.folder / folder_name(name) / results.FILE
    memory = None if settings.memory is None else settings.memory * MIB
    try:
        connection = connect(name, memory=memory)
        keeping.check_covers(path, settings.only, len(cases))
        path.parent.mkdir(parents=True, exist_ok=True)
    except keeping.WouldReplace as error:
        raise click.UsageError(str(error)) from error
    except (CannotRun, OSError) as error:
        done[name] = _cannot_run(name, error)
        return None
    if not settings.resume:
        _keep_what_was_earned(path)
    return Run(
        connection=connection,
        cases=cases,
        corpus=corpus_hash(),
        path=path,
        only=settings.only,
        resume=settings.resume,
        progress=told,
    )


def _ended(name: str, plan: Run, outcome: Outcome, settings: Settings, together: Together) -> Done:
    match outcome:
        case results.Results():
            made = report.make(outcome, plan.cases, settings.declared, plan.path)
            write_report(made, settings.formats, plan.path.parent)
            _write_draft(made, settings)
            return Done(name, report.document(made), OK if made.agrees else DISAGREEMENTS, made)
        case Interrupted():
            return _stopped(name, plan.path, outcome)
        case CannotRun() | OSError():
            return _cannot_run(name, outcome)
        case results.Unusable():
            together.stop()
            raise click.UsageError(f"--resume: {outcome}") from outcome
    raise outcome


@contextmanager
def _interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM do *stop*, so that what was earned is kept; the second time they end everything."""
    signals = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(_number: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.default_int_handler)
        stop()

    before = [signal.signal(each, first) for each in signals]
    try:
        yield
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


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


def _cannot_run(name: str, error: CannotRun | OSError) -> Done:
    hint = getattr(error, "hint", "")
    text = printable(str(error), 2000)
    click.echo(f"{text}\n  hint: {hint}" if hint else text, err=True)
    document = {"testee": {"connect": name}, "error": text, "hint": hint, "agrees": False, "certified": False}
    return Done(name, document, CANNOT_RUN)


def _stopped(name: str, path: Path, stopped: Interrupted) -> Done:
    click.echo(f"{name}: {stopped}; what was earned is in {path}, --resume goes on with it", err=True)
    if (before := results.previous(path)).exists():
        click.echo(f"{name}: the complete result from before is {before}", err=True)
    counts = results.read(path).counts() if path.exists() else {}
    document = {"testee": {"connect": name}, "complete": False, "agrees": False, "certified": False, "counts": counts}
    return Done(name, document | {"error": str(stopped), "result": str(path)}, INTERRUPTED)


def _write_draft(made: Report, settings: Settings) -> None:
    if settings.draft:
        settings.draft.write_text(deviations.draft(made.results.lines, settings.declared), encoding="utf-8")
        click.echo(f"all findings are declared in {settings.draft}; now say there why each is tolerable", err=True)


def write_report(made: Report, formats: Sequence[str], folder: Path) -> None:
    """Write what was asked for into *folder*."""
    terminal.write_summary(made, folder / "summary.txt")
    if formats:
        # The page needs a template engine, a plain run does not.
        from kafka_conformance.reporting.output import write_formats

        write_formats(made, formats, folder)


def _write_together(done: Sequence[Done], settings: Settings) -> None:
    """Several testees in one matrix, beside the directories of each."""
    made = [each.made for each in done if each.made]
    if len(done) > 1 and made:
        from kafka_conformance.reporting.output import write_together

        not_run = {each.name: each.why for each in done if each.code == CANNOT_RUN}
        write_together(made, settings.formats, settings.folder, not_run)


def _show(done: Sequence[Done], settings: Settings) -> None:
    made = [each.made for each in done if each.made]
    if len(made) <= MOST_TABLES:
        for each in made:
            terminal.show(each, terminal.console())
    if len(done) > 1 and made:
        not_run = {each.name: each.why for each in done if each.made is None}
        terminal.show_together(made, not_run, settings.folder, terminal.console())
