"""Who is asked while an input is reduced: a target in a process of its own, or testees in theirs.

with asking("kafka-python") as who:
    done = who.reduced(data)
    done.data, done.outcome
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import msgspec

from kafka_conformance.connect import BadConnect, CannotRun, connect
from kafka_fuzz.differential import worth
from kafka_fuzz.feed import BATCH, Feed
from kafka_fuzz.finds import Asked as How
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.outcome import Outcome, OutcomeClass
from kafka_fuzz.prepared import Prepared
from kafka_fuzz.reduce.predicates import Verdicts, as_mutant, with_reference
from kafka_fuzz.reduce.search import DEFAULT, Budget, NotShown, reduced
from kafka_fuzz.reduce.worker import Done, Task
from kafka_fuzz.targets.named import NAMES
from kafka_fuzz.vector import Judge
from kafka_fuzz.writing.asking import Writers

# Candidates that show what is so dear cost seconds each, and the first that does is enough.
DEAR: Final[frozenset[OutcomeClass]] = frozenset({"hang", "memory", "amplification"})
FEW: Final = 2


class NoTarget(ValueError):
    """There is no such target, or it cannot be run here."""


class Asked(Protocol):
    """Somebody who can be asked about inputs."""

    def reduced(self, data: bytes, *, budget: Budget = DEFAULT) -> Done:
        """*data* as small as it gets, and what is then made of it.

        Raises:
            NotShown: nothing is wrong with what is made of *data*.
            NoTarget: the target does not run any more.
        """


class InProcess:
    """Targets of `kafka_fuzz.targets`, in a child process."""

    def __init__(self, name: str, others: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "kafka_fuzz.reduce.worker", name, *others]
        self._start()

    def _start(self) -> None:
        # What a dying target writes may be more than a pipe holds.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def reduced(self, data: bytes, *, budget: Budget = DEFAULT) -> Done:
        """*data* as small as it gets; where a candidate kills the process, each gets one of its own."""
        task = Task(data, budget.runs, budget.seconds)
        line = self._asked(task)
        if not line:
            self.close()
            self._start()
            line = self._asked(msgspec.structs.replace(task, careful=True))
        if not line:
            raise NoTarget(self._said())
        done = msgspec.json.decode(line, type=Done)
        if done.error or done.outcome is None or not done.outcome.is_find:
            raise NotShown(done.error or "it shows nothing any more")
        return done

    def _asked(self, task: Task) -> bytes:
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(msgspec.json.encode(task) + b"\n")
            child.stdin.flush()
            return child.stdout.readline()
        except BrokenPipeError:
            return b""

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its process ended"

    def close(self) -> None:
        """End the child."""
        self._child.terminate()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._errors):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class Testees:
    """Programs that speak the protocol: the one that is asked, and others whose verdict has to stay."""

    def __init__(self, specs: Sequence[str]) -> None:
        self.feeds: list[Feed] = []
        try:
            for spec in specs:
                feed = Feed(connect(spec))
                self.feeds.append(feed)
                feed.open()
        except (CannotRun, ValueError) as error:
            self.close()
            raise NoTarget(str(error)) from error
        self.judges = [Judge(feed.connection.name) for feed in self.feeds]

    def outcome(self, mutant: Mutant) -> Outcome:
        """What the first makes of *mutant*, and of what it costs: more than its size explains is a find."""
        feed, judge, prepared = self.feeds[0], self.judges[0], Prepared(mutant)
        feed.post([mutant.data])
        (seen,) = feed.collect()
        return judge.outcome(prepared, worth(judge, prepared, seen))

    def verdicts(self, many: Sequence[bytes]) -> list[tuple[Outcome, Verdicts]]:
        """What everybody makes of each input."""
        prepared = [Prepared(as_mutant(data)) for data in many]
        for feed in self.feeds:
            feed.post(list(many))
        outcomes = [
            [
                judge.outcome(each, judge.told(each, seen.answer))
                for each, seen in zip(prepared, feed.collect(), strict=True)
            ]
            for feed, judge in zip(self.feeds, self.judges, strict=True)
        ]
        first, *others = outcomes
        return [
            (outcome, with_reference(outcome, data, tuple(rest[at].kind for rest in others)))
            for at, (outcome, data) in enumerate(zip(first, many, strict=True))
        ]

    def reduced(self, data: bytes, *, budget: Budget = DEFAULT) -> Done:
        """*data* as small as it gets."""
        ((outcome, wanted),) = self.verdicts([data])
        if not outcome.is_find:
            raise NotShown("it shows nothing any more")
        done = reduced(
            data,
            lambda many: [verdict == wanted for _, verdict in self.verdicts(many)],
            budget=budget,
            batch=FEW if outcome.kind in DEAR else BATCH // 8,
        )
        ((outcome, _),) = self.verdicts([done.data])
        return Done(done.data, outcome, done.runs, done.seconds, done.complete)

    def close(self) -> None:
        """End them."""
        for feed in self.feeds:
            feed.close()


@contextmanager
def asking(name: str, others: Sequence[str] = (), *, asked: How = "") -> Iterator[Asked]:
    """The target called *name*, or a testee as `certify` takes it; *others* of the same sort keep their verdicts.

    *asked* is as in `finds.Find`: a testee may have the name of a target in process, and is asked to read or to write.

    Raises:
        NoTarget: one cannot be had.
    """
    try:
        who = _who((name, *others), asked)
    except (BadConnect, CannotRun) as error:
        raise NoTarget(str(error)) from error
    try:
        yield who
    finally:
        who.close()


def _who(names: Sequence[str], asked: How) -> InProcess | Testees | Writers:
    if asked == "encode":
        return Writers(names)
    inside = not asked and all(each in NAMES for each in names)
    return InProcess(names[0], names[1:]) if inside else Testees(names)
