"""The same bytes through any number of testees, each answer judged by what is right, each combination by its novelty.

The main thread makes inputs and works out what is right about them, once.  A
thread for each testee feeds them to it and judges what comes back, so that one
that hangs keeps nobody waiting: who has fallen behind is not asked the batches
in between.  Causes over which a testee has fallen are stepped over from then on,
but for a sample that tells when that has changed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Final

from kafka_conformance.connect import CannotRun, Connection
from kafka_conformance.protocol import HelloReply
from kafka_conformance.questions import unread
from kafka_conformance.runner import tamed
from kafka_fuzz.cells import Cell
from kafka_fuzz.feed import AHEAD, BATCH, Feed, Seen
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.outcome import Outcome, OutcomeClass
from kafka_fuzz.prepared import Prepared
from kafka_fuzz.vector import NOT_ASKED, Judge, Vector, Vectors, Worth

# Batches that a testee may be behind.
BEHIND: Final = 4
# How often a testee falls over one cause before it is stepped over, by what that costs.
STEPS: Final[dict[OutcomeClass, int]] = {"hang": 1, "memory": 2, "amplification": 1, "crash": 4}
# One of so many is asked nevertheless.
SAMPLE: Final = 32
EVERYTHING: Final = 5  # compressions

Batch = list[Prepared]


@dataclass(frozen=True, slots=True)
class Judged:
    """What one testee made of a batch: the worth of each answer, None where it was not asked."""

    batch: int
    place: int
    told: list[Worth | None]


@dataclass(slots=True)
class Testee:
    """A testee, its thread's work, and what is known of it."""

    place: int
    feed: Feed
    hello: HelloReply
    judge: Judge
    todo: Queue[tuple[int, Batch] | None] = field(default_factory=lambda: Queue(BEHIND))
    fallen: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    stepped: Counter[str] = field(default_factory=Counter)
    skipped_batches: int = 0
    ended: bool = False

    def wants(self, prepared: Prepared) -> bool:
        """Whether it can be asked that, and need not be spared it."""
        if self.hello.consumer and prepared.unfollowable:
            return False
        limited = len(self.hello.decode.magics) < 3 or len(self.hello.decode.compressions) < EVERYTHING
        if limited and unread(prepared.mutant.data, self.hello):
            return False
        cause = cause_of(prepared)
        if self.fallen[cause] < 1.0:
            return True
        self.stepped[cause] += 1
        return self.stepped[cause] % SAMPLE == 0

    def learn(self, prepared: Prepared, told: Worth) -> None:
        """Take note of what it fell over."""
        if told.kind in STEPS:
            self.fallen[cause_of(prepared)] += 1.0 / STEPS[told.kind]


def cause_of(prepared: Prepared) -> str:
    """What a testee that falls over *prepared* is spared from then on."""
    return prepared.cause or " ".join(prepared.mutant.labels)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One input and what all made of it.

    Attributes:
        mutant: the input.
        vector: a class for each testee.
        outcomes: those that are finds.
        new: why it is kept, `cell` or `vector`; empty where it is not.
    """

    mutant: Mutant
    vector: Vector
    outcomes: tuple[Outcome, ...]
    new: str = ""


class Differential:
    """A session with some testees; a context manager, whose testees end with it."""

    def __init__(self, connections: Sequence[Connection], *, patient: bool = False) -> None:
        """Nothing is started yet; with *patient*, everybody is asked everything, however long that takes."""
        self._connections = connections
        self._patient = patient
        self.testees: list[Testee] = []
        self.cannot_run: dict[str, str] = {}
        self.cells: set[Cell] = set()
        self.vectors = Vectors(())
        self.inputs = 0
        self._done: Queue[Judged | BaseException] = Queue()
        self._open: dict[int, tuple[Batch, int, dict[int, list[Worth | None]]]] = {}
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Differential:
        """Start the testees; those that do not start are in `cannot_run`.  Raises `CannotRun` where none does."""
        feeds = [Feed(connection) for connection in self._connections]
        try:
            self._start(feeds)
        except BaseException:
            for feed in feeds:
                feed.close()
            raise
        return self

    def _start(self, feeds: Sequence[Feed]) -> None:
        for feed in feeds:
            name = feed.connection.name
            try:
                hello = tamed(feed.open())
            except CannotRun as error:
                self.cannot_run[name] = str(error)
                feed.close()
                continue
            self.testees.append(Testee(len(self.testees), feed, hello, Judge(name)))
        if not self.testees:
            raise CannotRun("; ".join(self.cannot_run.values()) or "there is no testee")
        self.vectors.names = tuple(testee.judge.name for testee in self.testees)
        self._threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in self.testees]
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        """End the testees, whatever they are at."""
        for testee in self.testees:
            testee.ended = True
            testee.feed.interrupt()
            while not testee.todo.empty():
                testee.todo.get_nowait()
            testee.todo.put(None)
        for thread in self._threads:
            thread.join(2.0)
        for testee in self.testees:
            testee.feed.close()

    @property
    def executions(self) -> int:
        """Inputs times those who were asked."""
        return sum(testee.feed.executions for testee in self.testees)

    @property
    def cpu_seconds(self) -> float:
        """Of the testees."""
        return sum(testee.feed.cpu_seconds for testee in self.testees)

    def run(self, mutants: Iterator[Mutant], go_on: Callable[[], bool]) -> Iterator[Judgement]:
        """What became of each of *mutants*, batch by batch, until they end or *go_on* says no.

        Raises:
            CannotRun: a testee that ran does not start any more.
        """
        number = 0
        while go_on() and (batch := _batch(mutants)):
            self._offer(number, batch)
            number += 1
            yield from self._finished(wait=False)
        self._drop()
        while self._open:
            yield from self._finished(wait=True)

    def _drop(self) -> None:
        """Forget what nobody has begun; with *patient* nothing is."""
        for testee in self.testees:
            while not self._patient:
                try:
                    given = testee.todo.get_nowait()
                except Empty:
                    break
                assert given is not None
                self._done.put(Judged(given[0], testee.place, [None] * len(given[1])))

    def _offer(self, number: int, batch: Batch) -> None:
        """Give it to everybody who can take it; wait until somebody can."""
        self.inputs += len(batch)
        answers: dict[int, list[Worth | None]] = {}
        asked = 0
        while not asked:
            for testee in self.testees:
                try:
                    testee.todo.put((number, batch), block=self._patient)
                    asked += 1
                except Full:
                    testee.skipped_batches += 1
            if not asked:
                time.sleep(0.005)
        self._open[number] = (batch, asked, answers)

    def _finished(self, *, wait: bool) -> Iterator[Judgement]:
        """Judgements on the batches that everybody has answered who was asked."""
        while self._open:
            try:
                judged = self._done.get(block=wait or len(self._open) > BEHIND * 4)
            except Empty:
                return
            if isinstance(judged, BaseException):
                raise judged
            batch, asked, answers = self._open[judged.batch]
            answers[judged.place] = judged.told
            if len(answers) == asked:
                del self._open[judged.batch]
                yield from self._judgements(batch, answers)
                if wait:
                    return

    def _judgements(self, batch: Batch, answers: dict[int, list[Worth | None]]) -> Iterator[Judgement]:
        for index, prepared in enumerate(batch):
            classes, outcomes = {}, []
            for place, told_all in answers.items():
                told = told_all[index]
                if told is None or told.detail == NOT_ASKED:
                    continue
                judge = self.testees[place].judge
                classes[judge.name] = told.kind
                outcome = judge.outcome(prepared, told)
                if outcome.is_find:
                    outcomes.append(outcome)
            vector = self.vectors.vector(classes)
            yield Judgement(prepared.mutant, vector, tuple(outcomes), self._novelty(prepared.mutant, vector))

    def _novelty(self, mutant: Mutant, vector: Vector) -> str:
        new_vector = self.vectors.is_new(vector)
        if mutant.cell not in self.cells:
            self.cells.add(mutant.cell)
            return "cell"
        return "vector" if new_vector else ""

    # In the thread of a testee

    def _work(self, testee: Testee) -> None:
        try:
            self._feed(testee)
        except BaseException as error:
            if not testee.ended:
                self._done.put(error)

    def _feed(self, testee: Testee) -> None:
        out: list[tuple[int, Batch, list[int]]] = []
        while not testee.ended:
            if len(out) < AHEAD:
                try:
                    given = testee.todo.get(block=not out)
                except Empty:
                    given = None
                if given is not None:
                    number, batch = given
                    asked = [index for index, prepared in enumerate(batch) if testee.wants(prepared)]
                    testee.feed.post([batch[index].mutant.data for index in asked])
                    out.append((number, batch, asked))
                    continue
            if out:
                number, batch, asked = out.pop(0)
                self._judge(testee, number, batch, asked, testee.feed.collect())

    def _judge(self, testee: Testee, number: int, batch: Batch, asked: list[int], seen: list[Seen]) -> None:
        told: list[Worth | None] = [None] * len(batch)
        for index, each in zip(asked, seen, strict=True):
            told[index] = judged = _worth(testee.judge, batch[index], each)
            testee.learn(batch[index], judged)
        if not testee.ended:
            self._done.put(Judged(number, testee.place, told))


def _worth(judge: Judge, prepared: Prepared, seen: Seen) -> Worth:
    told, size = judge.told(prepared, seen.answer), len(prepared.mutant.data)
    if told.kind not in ("ok", "refused"):
        return told
    if seen.seconds:
        return Worth("amplification", "time", f"{seen.seconds:.2f} s of processor time for {size} bytes")
    if seen.grown:
        return Worth("amplification", "memory", f"{seen.grown // 2**20} MiB for {size} bytes")
    return told


def _batch(mutants: Iterator[Mutant]) -> Batch:
    batch: Batch = []
    for mutant in mutants:
        batch.append(Prepared(mutant))
        if len(batch) == BATCH:
            break
    return batch
