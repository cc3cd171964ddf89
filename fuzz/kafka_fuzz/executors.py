"""Executors for shrinking and replay: a target in its own process, or testees, with co-testees.

They are asked as seldom as can be: about candidates only that show the find
itself.  Who cannot be had on this machine, or answers otherwise each time, is
left out, and that is said.

with asking("kafka-python") as who:
    done = who.reduced(data)
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
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import msgspec

from kafka_conformance.runner.results import sanitize_hello
from kafka_conformance.testees.connection import BadConnect, CannotRun, connect
from kafka_fuzz.differential.compare import grade_answer
from kafka_fuzz.differential.feed import BATCH, Feed
from kafka_fuzz.differential.outcome_tuples import Grader, Prepared
from kafka_fuzz.encode.testees import Writers
from kafka_fuzz.findings import TargetMode as How
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.shrink.search import DEFAULT, Budget, NotShown, Verdicts, as_mutant, shrink_input, with_reference
from kafka_fuzz.shrink.worker import WAIT, Done, ShrinkTask
from kafka_fuzz.targets.named import NAMES
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass

FLAKY: Final = "it answers otherwise each time"


class CoTestees:
    """The verdicts of some testees on one input.

    Attributes:
        kinds: the class of each, which has to stay.
        left_out: those whose verdict need not, and why.
    """

    def __init__(self, feeds: Mapping[str, Feed], data: bytes) -> None:
        """Ask each of *feeds* twice about *data*."""
        self._feeds = dict(feeds)
        self.left_out: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        (first,), (again,) = self._outcome_kinds([data]), self._outcome_kinds([data])
        flaky = [name for name in first if first[name] != again.get(name, first[name])]
        for name in flaky:
            self._leave_out(name, FLAKY)
        self.kinds = {name: kind for name, kind in first.items() if name in self._feeds}

    def stays(self, many: Sequence[bytes], shows: Sequence[bool]) -> list[bool]:
        """Of *many*, those that show the find, and of which all make what they made of the first input."""
        kinds = iter(self._outcome_kinds([data for data, shown in zip(many, shows, strict=True) if shown]))
        return [shown and self._is_same(next(kinds)) for shown in shows]

    def _is_same(self, kinds: Mapping[str, str]) -> bool:
        return all(self.kinds[name] == kind for name, kind in kinds.items())

    def _outcome_kinds(self, many: Sequence[bytes]) -> list[dict[str, str]]:
        """The class of everybody's answer to each; who ends for good is left out from then on."""
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
    """The testee called *name*, or why it cannot be had here."""
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
        CannotRun: one of them does not run any more.
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


# Candidates that show what is so dear cost seconds each, and the first that does is enough.
EXPENSIVE: Final[frozenset[OutcomeClass]] = frozenset({"hang", "memory", "amplification"})
FEW: Final = 2
WORKER: Final = (sys.executable, "-m", "kafka_fuzz.shrink.worker")
# Wall-clock seconds: until a target is imported, and beside what a task itself may take.
START: Final = 60.0
ANSWER_GRACE: Final = 2 * WAIT
CHUNK: Final = 1 << 20


class NoTarget(ValueError):
    """There is no such target, or it cannot be run here."""


class Executor(Protocol):
    """Somebody who can be asked about inputs; *version* is of the target."""

    version: str

    def shrink(self, data: bytes, *, budget: Budget = DEFAULT, co_testees: Sequence[str] = ()) -> Done:
        """*data* as small as it gets, and what is then made of it.

        Testees of *co_testees* keep their verdicts on it, as far as they can be had here and answer alike each time.

        Raises:
            NotShown: nothing is wrong with what is made of *data*.
            NoTarget: the target does not run any more.
        """


class InProcessExecutor:
    """Targets of `kafka_fuzz.targets`, in a child process; they have no company."""

    def __init__(self, name: str, others: Sequence[str] = (), *, worker: Sequence[str] = WORKER) -> None:
        self._command = [*worker, name, *others]
        self._start()

    def _start(self) -> None:
        # What a dying target writes may be more than a pipe holds.
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
        """*data* as small as it gets; where a candidate kills the process, each gets one of its own."""
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
            raise NotShown(done.error or "it shows nothing any more")
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
        """The next line of the child; nothing where it ended, or said none in that time."""
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
        """End the child, whatever it is at."""
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
    """Programs that speak the protocol: the one that is asked, and others whose verdict has to stay."""

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
        """The outcome of *mutant* on the first testee; a cost that its size does not explain is a finding."""
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
        """*data* as small as it gets; company is asked about those candidates only that show the same to all others."""
        try:
            ((outcome, wanted),) = self.verdicts([data])
            if not outcome.is_finding:
                raise NotShown("it shows nothing any more")
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
        """Those of *co_testees* that can be had, started when they are first asked for."""
        for name in co_testees:
            if name not in self._co_testees:
                self._co_testees[name] = start_feed(name)
        return {name: feed for name in co_testees if isinstance(feed := self._co_testees[name], Feed)}

    def close(self) -> None:
        """End them."""
        for feed in (*self.feeds, *self._co_testees.values()):
            if isinstance(feed, Feed):
                feed.close()


@contextmanager
def open_executor(name: str, others: Sequence[str] = (), *, mode: How = "") -> Iterator[Executor]:
    """The target called *name*, or a testee as `certify` takes it; *others* of the same sort keep their verdicts.

    *mode* is as in `finds.Find`: a testee may have the name of a target in process, and is asked to read or to write.

    Raises:
        NoTarget: one cannot be had.
    """
    if name.partition(":")[0] == "broker":
        raise NoTarget("it is about a broker, which no reducer starts: its own target made it small when it was found")
    try:
        who = _make_executor((name, *others), mode)
    except (BadConnect, CannotRun) as error:
        raise NoTarget(str(error)) from error
    try:
        yield who
    finally:
        who.close()


def _make_executor(names: Sequence[str], mode: How) -> InProcessExecutor | TesteeExecutor | Writers:
    if mode == "encode":
        return Writers(names)
    inside = not mode and all(each in NAMES for each in names)
    return InProcessExecutor(names[0], names[1:]) if inside else TesteeExecutor(names)
