"""Run the same inputs on several testees; answers are judged, and inputs with a new outcome tuple are kept.

The main thread makes inputs and their right answers.  A thread for each testee
sends them and grades the answers, so a testee that hangs does not delay others;
a slow testee misses batches.  After a crash, inputs with the same cause are
skipped, except for a sample that shows when the testee changes.

The skips of `Differential` depend on the time at which answers arrive.
`SequentialDifferential` sends each batch to one testee after another and measures
no cost, so a round can be repeated on another machine.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Final

from kafka_conformance.runner.requests import CaseRequest, unsupported_bytes
from kafka_conformance.runner.results import sanitize_hello
from kafka_conformance.testees.connection import CannotRun, ConnectionSpec
from kafka_conformance.testees.protocol import HelloReply
from kafka_fuzz.differential.feed import AHEAD, BATCH, Feed, FeedStopped, MeasuredAnswer
from kafka_fuzz.differential.outcome_tuples import NOT_RUN, Grade, Grader, OutcomeTuple, OutcomeTuples, Prepared
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import MutantCell
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass, memory_message, time_message

# Batches that may wait for one testee.
MAX_QUEUED: Final = 4
# Failures of a testee before inputs with the same cause are skipped, by outcome; expensive ones count more.
STEPS: Final[dict[OutcomeClass, int]] = {"hang": 1, "memory": 2, "amplification": 1, "crash": 4}
# One of so many skipped inputs is sent nevertheless.
SAMPLE: Final = 32
# Seconds that testees may continue after the last input.
WIND_UP: Final = 5.0
LONG: Final = 1e6
# Seconds between polls.
PAUSE: Final = 0.01
# Batches that may wait for an answer; of more, the oldest are closed with gaps in their outcome tuples.
MOST_OPEN: Final = 64
EVERYTHING: Final = 5  # compressions

Batch = list[Prepared]


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """Grades of one testee's answers to a batch; None where the input was skipped."""

    number: int
    batch: Batch
    place: int
    grades: list[Grade | None]


@dataclass(slots=True)
class TesteeSession:
    """A testee with its queue, its grader and the causes that it skips."""

    place: int
    feed: Feed
    hello: HelloReply
    judge: Grader
    todo: Queue[tuple[int, Batch] | None] = field(default_factory=lambda: Queue(MAX_QUEUED))
    skip_weights: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    skipped: Counter[str] = field(default_factory=Counter)
    out: deque[tuple[int, Batch, list[int]]] = field(default_factory=deque)
    ended: bool = False

    def accepts(self, prepared: Prepared) -> bool:
        """Whether the testee supports the input and does not skip its cause."""
        if self.hello.consumer and prepared.unfollowable:
            return False
        limited = len(self.hello.decode.magics) < 3 or len(self.hello.decode.compressions) < EVERYTHING
        if limited and unsupported_bytes(prepared.mutant.data, self.hello):
            return False
        cause = skip_cause(prepared)
        if self.skip_weights[cause] < 1.0:
            return True
        self.skipped[cause] += 1
        return self.skipped[cause] % SAMPLE == 0

    def learn(self, prepared: Prepared, grade: Grade) -> None:
        """Count a failure towards skipping its cause."""
        if grade.kind in STEPS:
            self.skip_weights[skip_cause(prepared)] += 1.0 / STEPS[grade.kind]


def skip_cause(prepared: Prepared) -> str:
    """The cause under which inputs like *prepared* are skipped after crashes."""
    return prepared.cause or " ".join(prepared.mutant.labels)


@dataclass(frozen=True, slots=True)
class InputResult:
    """The result of one input: findings once a testee has answered, the outcome tuple once all have.

    Attributes:
        mutant: the input.
        outcome_tuple: a class for each testee; empty while some have not answered.
        outcomes: the findings.
        new: the reason to keep the input, `cell` or `vector`; empty if it is not kept.
    """

    mutant: Mutant
    outcome_tuple: OutcomeTuple = ()
    outcomes: tuple[Outcome, ...] = ()
    new: str = ""


@dataclass(slots=True)
class _Open:
    """A batch that not all testees have answered."""

    batch: Batch
    classes: list[dict[str, str]]
    expected: int = 0
    answered: int = 0


class Differential:
    """A session with some testees; a context manager, whose testees end with it."""

    def __init__(self, connections: Sequence[ConnectionSpec], *, patient: bool = False) -> None:
        """Prepare a session; with *patient*, each batch is sent to all testees, however long they take."""
        self._connections = connections
        self._patient = patient
        self.posts = True
        self._number = 0
        self.testees: list[TesteeSession] = []
        self.cannot_run: dict[str, str] = {}
        self.cells: set[MutantCell] = set()
        self.outcome_tuples = OutcomeTuples(())
        self.inputs = 0
        self._done: Queue[JudgedBatch | BaseException] = Queue()
        self._open: dict[int, _Open] = {}
        self._stopped = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Differential:
        """Start the testees; those that do not start are in `cannot_run`.  Raises `CannotRun` if none starts."""
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
                hello = sanitize_hello(feed.open(posted=self.posts))
            except CannotRun as error:
                self.cannot_run[name] = str(error)
                feed.close()
                continue
            self.testees.append(TesteeSession(len(self.testees), feed, hello, Grader(name)))
        if not self.testees:
            raise CannotRun("; ".join(self.cannot_run.values()) or "there is no testee")
        # Testees that cannot run have a place, too, so that outcome tuples of all sessions agree.
        self.outcome_tuples.names = tuple(connection.name for connection in self._connections)
        self._threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in self.testees]
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        """End the testees and the threads."""
        self._end()
        for testee in self.testees:
            self._drop(testee)
            testee.todo.put(None)
        for thread in self._threads:
            thread.join(2.0)
        for testee in self.testees:
            testee.feed.close()

    @property
    def executions(self) -> int:
        """Inputs that were sent, summed over the testees."""
        return sum(testee.feed.executions for testee in self.testees)

    @property
    def cpu_seconds(self) -> float:
        """CPU-seconds of the testees."""
        return sum(testee.feed.cpu_seconds for testee in self.testees)

    def run(self, mutants: Iterator[Mutant], go_on: Callable[[], bool]) -> Iterator[InputResult]:
        """Run *mutants* batch by batch, until they end or *go_on* returns False.

        Raises:
            CannotRun: no testee is left that can be started.
        """
        while go_on() and (batch := prepare_batch(mutants)) and self._offer(self._number, batch):
            self._number += 1
            yield from self._heard(wait=False)
            while len(self._open) > MOST_OPEN:
                yield from self._close(next(iter(self._open)))
        for testee in () if self._patient else self.testees:
            self._drop(testee)
        timer = self.hurry(LONG if self._patient else WIND_UP)
        while self._open:
            yield from self._heard(wait=True)
        timer.cancel()

    def hurry(self, seconds: float) -> threading.Timer:
        """End testees that are still running after *seconds*; their open inputs count as not run."""
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        return timer

    def _end(self) -> None:
        self._stopped = True
        for testee in self.testees:
            testee.ended = True
            testee.feed.stop()

    def _offer(self, number: int, batch: Batch) -> bool:
        """Queue a batch for each testee that has room; wait until one has, or none is left."""
        opened = self._open[number] = _Open(batch, [{} for _ in batch])
        while not opened.expected and not self._stopped:
            running = [testee for testee in self.testees if not testee.ended]
            if not running:
                raise CannotRun("; ".join(self.cannot_run.values()))
            opened.expected = len(running)
            for testee in running:
                if not self._put(testee, number, batch):
                    opened.expected -= 1
            if not opened.expected:
                time.sleep(PAUSE)
        if opened.expected:
            self.inputs += len(batch)
        else:
            del self._open[number]
        return bool(opened.expected)

    def _put(self, testee: TesteeSession, number: int, batch: Batch) -> bool:
        """Whether the batch was queued; a patient session waits until there is room or the testee ends."""
        while True:
            try:
                testee.todo.put((number, batch), block=self._patient, timeout=PAUSE)
                return True
            except Full:
                if not self._patient or testee.ended:
                    return False

    def _heard(self, *, wait: bool) -> Iterator[InputResult]:
        """Results of the answers received so far, and of batches that are complete."""
        while True:
            try:
                judged = self._done.get(timeout=PAUSE if wait else 0.0)
            except Empty:
                for testee in self.testees:
                    if testee.ended:
                        self._drop(testee)
                return
            if isinstance(judged, BaseException):
                raise judged
            yield from self._findings(judged)
            opened = self._open.get(judged.number)
            if opened is not None:
                opened.answered += 1
                if opened.answered == opened.expected:
                    yield from self._close(judged.number)

    def _findings(self, judged: JudgedBatch) -> Iterator[InputResult]:
        judge, opened = self.testees[judged.place].judge, self._open.get(judged.number)
        for index, grade in enumerate(judged.grades):
            if grade is None or grade.detail == NOT_RUN:
                continue
            if opened is not None:
                opened.classes[index][judge.name] = grade.kind
            outcome = judge.outcome(judged.batch[index], grade)
            if outcome.is_finding:
                yield InputResult(judged.batch[index].mutant, outcomes=(outcome,))

    def _close(self, number: int) -> Iterator[InputResult]:
        """The outcome tuples of a batch, with gaps for testees that have not answered."""
        opened = self._open.pop(number)
        for prepared, classes in zip(opened.batch, opened.classes, strict=True):
            outcome_tuple = self.outcome_tuples.of(classes)
            yield InputResult(prepared.mutant, outcome_tuple, new=self.novelty(prepared.mutant, outcome_tuple))

    def novelty(self, mutant: Mutant, outcome_tuple: OutcomeTuple) -> str:
        """The reason to keep an input with this outcome tuple, `cell` or `vector`; empty if it is not kept."""
        new_vector = self.outcome_tuples.is_new(outcome_tuple)
        if mutant.cell not in self.cells:
            self.cells.add(mutant.cell)
            return "cell"
        return "vector" if new_vector else ""

    # In the thread of a testee

    def _work(self, testee: TesteeSession) -> None:
        try:
            self._feed(testee)
        except FeedStopped:
            pass
        except CannotRun as error:
            self.cannot_run[testee.judge.name] = str(error)
        except BaseException as error:
            self._done.put(error)
        finally:
            testee.ended = True
            for number, batch, _ in testee.out:
                self._done.put(JudgedBatch(number, batch, testee.place, [None] * len(batch)))
            self._drop(testee)

    def _feed(self, testee: TesteeSession) -> None:
        while not testee.ended:
            given = self._next(testee) if len(testee.out) < AHEAD else None
            if given is not None:
                number, batch = given
                accepted = [index for index, prepared in enumerate(batch) if testee.accepts(prepared)]
                testee.out.append((number, batch, accepted))
                testee.feed.post([batch[index].mutant.data for index in accepted])
            elif testee.out:
                seen = testee.feed.collect()
                number, batch, accepted = testee.out.popleft()
                self._judge(testee, number, batch, accepted, seen)

    def _next(self, testee: TesteeSession) -> tuple[int, Batch] | None:
        """The next batch; waits for one only if no answers are due."""
        try:
            return testee.todo.get(block=not testee.out)
        except Empty:
            return None

    def _drop(self, testee: TesteeSession) -> None:
        """Drop the batches that the testee has not begun."""
        with suppress(Empty):
            while True:
                if given := testee.todo.get_nowait():
                    self._done.put(JudgedBatch(*given, testee.place, [None] * len(given[1])))

    def _judge(
        self, testee: TesteeSession, number: int, batch: Batch, accepted: list[int], seen: list[MeasuredAnswer]
    ) -> None:
        grade: list[Grade | None] = [None] * len(batch)
        for index, each in zip(accepted, seen, strict=True):
            grade[index] = judged = grade_answer(testee.judge, batch[index], each)
            testee.learn(batch[index], judged)
        self._done.put(JudgedBatch(number, batch, testee.place, grade))


def grade_answer(judge: Grader, prepared: Prepared, seen: MeasuredAnswer) -> Grade:
    """Grade *seen*, including its cost."""
    grade, size = judge.grade(prepared, seen.answer), len(prepared.mutant.data)
    if grade.kind not in ("ok", "refused"):
        return grade
    # Filling memory takes time as well.
    if seen.grown:
        return Grade("amplification", "memory", memory_message(size, seen.grown))
    if seen.seconds:
        return Grade("amplification", "time", time_message(size, seen.seconds))
    return grade


def prepare_batch(mutants: Iterator[Mutant]) -> Batch:
    """The next of *mutants* with their right answers; empty when there are no more."""
    batch: Batch = []
    for mutant in mutants:
        batch.append(Prepared(mutant))
        if len(batch) == BATCH:
            break
    return batch


class SequentialDifferential(Differential):
    """A session that sends each batch to one testee after another."""

    def __init__(self, connections: Sequence[ConnectionSpec]) -> None:
        super().__init__(connections)
        self.posts = False

    def __enter__(self) -> SequentialDifferential:
        """Start the testees.  Raises `CannotRun` if one does not start, because a gap changes outcome tuples."""
        super().__enter__()
        if self.cannot_run:
            self.__exit__()
            raise CannotRun("; ".join(self.cannot_run.values()))
        return self

    def run(self, mutants: Iterator[Mutant], go_on: Callable[[], bool]) -> Iterator[InputResult]:
        """See `Differential`; the outcome tuples of a batch follow its findings."""
        while go_on() and (batch := prepare_batch(mutants)):
            self.inputs += len(batch)
            classes: list[dict[str, str]] = [{} for _ in batch]
            for testee in self.testees:
                yield from self._run_batch(testee, batch, classes)
            for prepared, each in zip(batch, classes, strict=True):
                outcome_tuple = self.outcome_tuples.of(each)
                yield InputResult(prepared.mutant, outcome_tuple, new=self.novelty(prepared.mutant, outcome_tuple))

    def _run_batch(self, testee: TesteeSession, batch: Batch, classes: list[dict[str, str]]) -> Iterator[InputResult]:
        """Run a batch on one testee: its findings, and the class of each answer."""
        accepted = [index for index, prepared in enumerate(batch) if testee.accepts(prepared)]
        answers = testee.feed.ask([CaseRequest(batch[index].mutant.data) for index in accepted])
        testee.feed.executions += len(accepted)
        for index, answered in zip(accepted, answers, strict=True):
            prepared = batch[index]
            grade = testee.judge.grade(prepared, answered.observation)
            testee.learn(prepared, grade)
            if grade.detail == NOT_RUN:
                continue
            classes[index][testee.judge.name] = grade.kind
            outcome = testee.judge.outcome(prepared, grade)
            if outcome.is_finding:
                yield InputResult(prepared.mutant, outcomes=(outcome,))
