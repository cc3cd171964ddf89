"""Executors for shrinking and replay: a target in its own process, or testees, with co-testees.

Co-testees get only those candidates that show the finding on the target.  A
co-testee that cannot run on this machine, or is flaky, is left out and reported.

with open_executor("kafka-python") as executor:
    done = executor.shrink(data)
    done.data, done.outcome
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final, Protocol

import msgspec

from kafka_conformance.runner.results import sanitize_hello
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.recipe import BuildError
from kafka_fuzz.differential.compare import grade_answer
from kafka_fuzz.differential.feed import BATCH, Feed
from kafka_fuzz.differential.outcome_tuples import Grader, Prepared
from kafka_fuzz.encode import Writers
from kafka_fuzz.findings import TargetMode
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.shrink.search import (
    DEFAULT,
    NOT_REPRODUCED,
    Budget,
    NotShown,
    Verdicts,
    as_mutant,
    shrink_input,
    with_reference,
)
from kafka_fuzz.shrink.worker import WAIT, Done, ShrinkTask
from kafka_fuzz.targets import ALL_NAMES
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass
from kafka_fuzz.targets.sanitized import SANITIZED, build_sanitized

FLAKY: Final = "its answers to the same input differ"


class CoTestees:
    """The outcome classes of some testees on one input.

    Attributes:
        kinds: the class of each, which has to stay equal.
        left_out: the testees that are left out, with the reason.
    """

    def __init__(self, feeds: Mapping[str, Feed], data: bytes) -> None:
        """Run *data* twice on each of *feeds*."""
        self._feeds = dict(feeds)
        self.left_out: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        (first,), (again,) = self._outcome_kinds([data]), self._outcome_kinds([data])
        flaky = [name for name in first if first[name] != again.get(name, first[name])]
        for name in flaky:
            self._leave_out(name, FLAKY)
        self.kinds = {name: kind for name, kind in first.items() if name in self._feeds}

    def stays(self, many: Sequence[bytes], shows: Sequence[bool]) -> list[bool]:
        """Whether each of *many* shows the finding (*shows*) and all classes are those of the first input."""
        kinds = iter(self._outcome_kinds([data for data, shown in zip(many, shows, strict=True) if shown]))
        return [shown and self._is_same(next(kinds)) for shown in shows]

    def _is_same(self, kinds: Mapping[str, str]) -> bool:
        return all(self.kinds[name] == kind for name, kind in kinds.items())

    def _outcome_kinds(self, many: Sequence[bytes]) -> list[dict[str, str]]:
        """The classes of each input; a testee that cannot run any more is left out from then on."""
        kinds: list[dict[str, str]] = [{} for _ in many]
        prepared = [Prepared(as_mutant(data)) for data in many]
        for name in [*self._feeds] if many else ():
            with self._or_left_out(name):
                self._feeds[name].post(list(many))
        for name in [*self._feeds] if many else ():
            with self._or_left_out(name):
                for each, outcome in zip(kinds, collect_outcomes(self._feeds[name], prepared), strict=True):
                    each[name] = outcome.kind
        return kinds

    @contextmanager
    def _or_left_out(self, name: str) -> Iterator[None]:
        try:
            yield
        except CannotRun as error:
            self._leave_out(name, str(error))

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out[name] = why
        self.kinds.pop(name, None)
        del self._feeds[name]


def start_feed(name: str) -> Feed | str:
    """The testee *name*, or the reason why it cannot run here."""
    feed = None
    try:
        feed = Feed(connect(name))
        feed.open()
    except (CannotRun, ValueError) as error:
        if feed is not None:
            feed.close()
        return str(error)
    return feed


def feed_outcomes(feeds: Sequence[Feed], many: Sequence[bytes]) -> list[list[Outcome]]:
    """Outcomes of each input on each of *feeds*; all inputs are posted before the first answer is awaited.

    Raises:
        CannotRun: a testee cannot run any more.
    """
    prepared = [Prepared(as_mutant(data)) for data in many]
    for feed in feeds:
        feed.post(list(many))
    return [collect_outcomes(feed, prepared) for feed in feeds]


def collect_outcomes(feed: Feed, prepared: Sequence[Prepared]) -> list[Outcome]:
    """Outcomes of the inputs that were posted to *feed*; `CannotRun` if it cannot run any more."""
    judge = Grader(feed.connection.name)
    return [
        judge.outcome(each, grade_answer(judge, each, seen))
        for each, seen in zip(prepared, feed.collect(), strict=True)
    ]


# Candidates with these outcomes take long, or a new process each, so they are sent in small batches.
EXPENSIVE: Final[frozenset[OutcomeClass]] = frozenset({"hang", "memory", "amplification", "crash"})
FEW: Final = 2
WORKER: Final = (sys.executable, "-m", "kafka_fuzz.shrink.worker")
# Wall-clock seconds: for the import of a target, and in addition to the limit of a task.
START: Final = 60.0
ANSWER_GRACE: Final = 2 * WAIT
CHUNK: Final = 1 << 20


class NoTarget(ValueError):
    """The target is unknown, or cannot run here."""


class Executor(Protocol):
    """Runs inputs on a target and shrinks them; *version* is the target's."""

    version: str

    def shrink(self, data: bytes, *, budget: Budget = DEFAULT, co_testees: Sequence[str] = ()) -> Done:
        """Shrink *data*; returns the smallest input with its outcome.

        The outcome classes of *co_testees* stay equal, unless a co-testee cannot run here or is flaky.

        Raises:
            NotShown: the outcome of *data* is not a finding.
            NoTarget: the target cannot run any more.
        """


class InProcessExecutor:
    """A target of `kafka_fuzz.targets` in a child process, without co-testees."""

    def __init__(self, name: str, others: Sequence[str] = (), *, worker: Sequence[str] = WORKER) -> None:
        self._command = [*worker, name, *others]
        self._start()

    def _start(self) -> None:
        # A crashing target may write more than fits into a pipe.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        line = self._line(START)
        if not line:
            self.close()
            raise NoTarget(self._last_words)
        self.version = msgspec.json.decode(line, type=str)

    def shrink(self, data: bytes, *, budget: Budget = DEFAULT, co_testees: Sequence[str] = ()) -> Done:
        """Shrink *data*; after a candidate that ends the process, each one gets its own process."""
        del co_testees
        task = ShrinkTask(data, budget.runs, budget.seconds)
        line = self._run_task(task)
        if not line:
            self.close()
            self._start()
            line = self._run_task(msgspec.structs.replace(task, careful=True))
        if not line:
            self.close()
            raise NoTarget(self._last_words)
        done = msgspec.json.decode(line, type=Done)
        if done.error or done.outcome is None or not done.outcome.is_finding:
            raise NotShown(done.error or NOT_REPRODUCED)
        return done

    def _run_task(self, task: ShrinkTask) -> bytes:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(msgspec.json.encode(task) + b"\n")
            self._child.stdin.flush()
            return self._line(task.seconds + ANSWER_GRACE)
        except BrokenPipeError:
            return b""

    def _line(self, seconds: float) -> bytes:
        """The next line of the child; empty if it ended or wrote none within *seconds*."""
        pipe, kinds, ends = self._child.stdout, b"", time.monotonic() + seconds
        assert pipe is not None
        while not kinds.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], max(0.0, ends - time.monotonic()))
            chunk = os.read(pipe.fileno(), CHUNK) if ready else b""
            if not chunk:
                return b""
            kinds += chunk
        return kinds

    def close(self) -> None:
        """End the child."""
        self._child.kill()
        self._child.wait()
        if not self._errors.closed:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            self._last_words = lines[-1] if lines else "its process ended, or did not answer in time"
        for pipe in (self._child.stdin, self._child.stdout, self._errors):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class TesteeExecutor:
    """A testee, and others whose outcome classes have to stay equal."""

    def __init__(self, specs: Sequence[str]) -> None:
        self.feeds: list[Feed] = []
        self._co_testees: dict[str, Feed | str] = {}
        try:
            for spec in specs:
                self.feeds.append(Feed(connect(spec)))
            hellos = [sanitize_hello(feed.open()) for feed in self.feeds]
        except (CannotRun, ValueError) as error:
            self.close()
            raise NoTarget(str(error)) from error
        self.version = hellos[0].version

    def outcome(self, mutant: Mutant) -> Outcome:
        """The outcome of *mutant* on the first testee, including its cost."""
        feed = self.feeds[0]
        feed.post([mutant.data])
        (outcome,) = collect_outcomes(feed, [Prepared(mutant)])
        return outcome

    def verdicts(self, many: Sequence[bytes]) -> list[tuple[Outcome, Verdicts]]:
        """Outcomes and verdicts of all testees but the co-testees on each input."""
        first, *others = feed_outcomes(self.feeds, many)
        return [
            (outcome, with_reference(outcome, data, tuple(rest[at].kind for rest in others)))
            for at, (outcome, data) in enumerate(zip(first, many, strict=True))
        ]

    def shrink(self, data: bytes, *, budget: Budget = DEFAULT, co_testees: Sequence[str] = ()) -> Done:
        """Shrink *data*; co-testees get only those candidates that all other testees answer as before."""
        try:
            ((outcome, wanted),) = self.verdicts([data])
            if not outcome.is_finding:
                raise NotShown(NOT_REPRODUCED)
            beside = CoTestees(self._joined(co_testees), data)
            done = shrink_input(
                data,
                lambda many: beside.stays(many, [verdict == wanted for _, verdict in self.verdicts(many)]),
                budget=budget,
                batch=FEW if EXPENSIVE & {outcome.kind, *beside.kinds.values()} else BATCH // 8,
            )
            ((outcome, _),) = self.verdicts([done.data])
        except CannotRun as error:
            raise NoTarget(str(error)) from error
        left_out = {name: why for name in co_testees if isinstance(why := self._co_testees[name], str)}
        return Done(
            done.data, outcome, done.runs, done.seconds, done.complete,
            verdicts=beside.kinds, left_out=left_out | beside.left_out,
        )  # fmt: skip

    def _joined(self, co_testees: Sequence[str]) -> dict[str, Feed]:
        """Those of *co_testees* that can run, started at their first use."""
        for name in co_testees:
            if name not in self._co_testees:
                self._co_testees[name] = start_feed(name)
        return {name: feed for name in co_testees if isinstance(feed := self._co_testees[name], Feed)}

    def close(self) -> None:
        """End the testees."""
        for feed in (*self.feeds, *self._co_testees.values()):
            if isinstance(feed, Feed):
                feed.close()


@contextmanager
def open_executor(name: str, others: Sequence[str] = (), *, mode: TargetMode = "") -> Iterator[Executor]:
    """An executor for the target *name*, or for a testee as `certify` takes it; outcomes of *others* stay equal.

    *mode* is as in `findings.FuzzFinding`: a testee may have the name of a target in process.

    Raises:
        NoTarget: a target is unknown or cannot run.
    """
    if name.partition(":")[0] == "broker":
        raise NoTarget("findings of brokers are shrunk when they are found; they cannot be shrunk again")
    try:
        executor = _make_executor((name, *others), mode)
    except (BadConnect, BuildError, CannotRun) as error:
        raise NoTarget(str(error)) from error
    with closing(executor):
        yield executor


def _make_executor(names: Sequence[str], mode: TargetMode) -> InProcessExecutor | TesteeExecutor | Writers:
    if mode == "encode":
        return Writers(names)
    for name in names:
        if name in SANITIZED:
            build_sanitized(name)
    inside = not mode and all(each in ALL_NAMES for each in names)
    return InProcessExecutor(names[0], names[1:]) if inside else TesteeExecutor(names)
