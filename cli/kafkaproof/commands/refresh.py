"""`kafkaproof refresh`: bring everything derived from the cases up to date."""

from __future__ import annotations

import fcntl
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from kafka_conformance.runner.results import Unusable
from kafka_conformance.runner.run import Interrupted
from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import find_testee
from kafka_corpus.vectors import package_root
from kafka_fuzz.campaign.known_findings import PACKAGED_CORPUS
from kafkaproof.cli import INTERRUPTED, OK, say_json
from kafkaproof.refresh import CannotDo, CheckoutPlaces, RefreshState, RefreshTask, corpus, results

SCRATCH: Final = Path("kafkaproof-results") / "refresh"


@dataclass(frozen=True, slots=True)
class RefreshOptions:
    """Steps and testees that are wanted, testees that are run on all cases again, and those that a dry run planned."""

    steps: tuple[str, ...]
    testees: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()


# In order: each is planned when those before it are done.
STEPS: Final[dict[str, Callable[[RefreshState, RefreshOptions], Iterator[RefreshTask]]]] = {
    corpus.CLIENTS: lambda state, _: corpus.client_tasks(state),
    corpus.BROKERS: lambda state, _: corpus.broker_tasks(state),
    results.RESULTS: lambda state, options: results.result_tasks(state, options.again),
    corpus.MEASUREMENTS: lambda state, _: corpus.measurement_tasks(state, results.cases_with_findings(state)),
    results.KNOWN_FINDINGS: lambda state, _: results.known_finding_tasks(state),
    results.MATRIX: lambda state, options: results.matrix_tasks(state, options.pending),
}
STEP_NAMES: Final = (corpus.VECTORS, *STEPS)


def _known_names(_ctx: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        try:
            find_testee(name)
        except BadConnect as error:
            raise click.BadParameter(str(error)) from error
    return names


@click.command()
@click.option("--dry-run", is_flag=True, help="Print the tasks, and do nothing.")
@click.option(
    "--step", "steps", multiple=True, type=click.Choice(STEP_NAMES), metavar="STEP",
    help=f"Only this step; may be repeated. Steps: {', '.join(STEP_NAMES)}.",
)  # fmt: skip
@click.option(
    "--testee", "testees", multiple=True, callback=_known_names, metavar="NAME",
    help="Run only this testee; may be repeated.",
)  # fmt: skip
@click.option(
    "--again", multiple=True, callback=_known_names, metavar="NAME",
    help="Run this testee on all cases, also on those with a kept result; may be repeated.",
)  # fmt: skip
@click.option(
    "--keep", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="RESULT",
    help="First keep this full result, a result.ndjson of `kafkaproof certify`; may be repeated.",
)  # fmt: skip
@click.option(
    "--root", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="The checkout.  [default: the one that this package is installed from]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def refresh(
    dry_run: bool, steps: tuple[str, ...], testees: tuple[str, ...], again: tuple[str, ...], keep: tuple[Path, ...],
    root: Path | None, as_json: bool,
) -> NoReturn:  # fmt: skip
    """Bring everything derived from the cases up to date, and do only what is new.

    The steps, in this order: compile vectors; record answers of the Java client and of broker releases; run testees
    and keep their results; measure what brokers do with large inputs of findings; list known findings, which campaigns
    do not report; draw the matrix. A case is new to a release that has no answer to its present content. A refresh
    that was stopped continues when it is called again. Tasks that this machine cannot run are skipped, with the reason.

    Exit codes: 0 done, except for tasks that are skipped, 2 usage, or a case cannot be compiled, 130 interrupted.
    """
    # SIGTERM ends it as ctrl-C does: answers that are there are kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = RefreshOptions(steps or STEP_NAMES, (*testees, *again), again)
    places = checkout_places(root or package_root().parents[1])
    log = RefreshLog(as_json)
    try:
        if dry_run:
            _plan_only(places, options, log)
        else:
            with _alone(places.scratch):
                for line in results.keep_results(keep, RefreshState(places)):
                    log.line(line)
                _do(places, options, log)
    except (ValueError, Unusable) as error:
        raise click.UsageError(str(error)) from error
    except (KeyboardInterrupt, Interrupted):
        click.echo("stopped; answers that came are kept, the same command continues", err=True)
        sys.exit(INTERRUPTED)
    log.end(dry_run=dry_run)
    sys.exit(OK)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of *folder*; the system releases it when the process dies.

    Raises:
        click.UsageError: another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.UsageError("another refresh of this checkout is running") from None
        yield


def checkout_places(root: Path) -> CheckoutPlaces:
    """The places of the checkout at *root*.

    Raises:
        click.UsageError: it is none.
    """
    package = root / "corpus" / package_root().name
    if not (root / "tox.ini").exists() or not (package / "vectors").is_dir():
        raise click.UsageError(f"{root} is no checkout of this project: name one with --root")
    known = root / "fuzz" / PACKAGED_CORPUS.relative_to(PACKAGED_CORPUS.parents[2])
    return CheckoutPlaces(package, root / "results", root / "docs", known, root / SCRATCH)


@dataclass
class RefreshLog:
    """Prints tasks as they are planned or done, or collects them for one JSON document."""

    as_json: bool
    tasks: list[dict[str, Any]] = field(default_factory=list)

    def line(self, line: str) -> None:
        """Print *line*."""
        if not self.as_json:
            click.echo(line)

    def add(self, task: RefreshTask, outcome: str = "", why_not: str = "") -> None:
        """A task that was planned, done with *outcome*, or turned out to be impossible."""
        document = task.document() | ({"outcome": outcome} if outcome else {})
        self.tasks.append(document | ({"skipped": why_not} if why_not else {}))
        end = f"; skipped: {why_not}" if why_not else f"; {outcome}" if outcome else ""
        self.line(f"{task.line()}{end}")

    def end(self, *, dry_run: bool) -> None:
        """Print the number of tasks that were done and skipped."""
        skipped = sum("skipped" in task for task in self.tasks)
        if self.as_json:
            say_json({"dry_run": dry_run, "tasks": self.tasks})
        elif not self.tasks:
            click.echo("everything is up to date")
        else:
            done = len(self.tasks) - skipped
            click.echo(f"{done} tasks {'to do' if dry_run else 'done'}, {skipped} skipped")


def _plan_only(places: CheckoutPlaces, options: RefreshOptions, log: RefreshLog) -> None:
    cases = None
    if corpus.VECTORS in options.steps:
        made = corpus.compile_in_memory(places.package)
        for task in corpus.vector_tasks(made, places.package):
            log.add(task)
        cases = made.cases
    state = RefreshState(places, cases, options.testees)
    for name, plan in STEPS.items():
        for task in plan(state, options) if name in options.steps else ():
            log.add(task)
            if task.testee and not task.why_not:
                options = replace(options, pending=options.pending | {task.testee})


def _do(places: CheckoutPlaces, options: RefreshOptions, log: RefreshLog) -> None:
    if corpus.VECTORS in options.steps:
        for task in corpus.vector_tasks(corpus.compile_in_memory(places.package), places.package):
            _run(task, log)
    for name, plan in STEPS.items():
        for task in plan(RefreshState(places, testees=options.testees), options) if name in options.steps else ():
            _run(task, log)


def _run(task: RefreshTask, log: RefreshLog) -> None:
    if task.why_not:
        log.add(task)
        return
    try:
        log.add(task, outcome=task.run())
    except CannotDo as error:
        log.add(task, why_not=str(error))
