"""Workers of one run: threads that send groups of cases, each to a sandbox of its own.

Workers only wait for pipes.  A testee has more workers than the machine has CPUs, but a
worker needs a CPU permit to work (`process/cpu_permits.py`).  The others wait for cases
that hang, or never start because no group is left for them.

A hang or exhausted memory may be the doing of a busy machine.  Such a case is repeated in a
fresh process; a hang, while the runner does no other work.  If the outcome is the same, it counts.
If not, one more repeat decides: what two lone repeats agree on counts, and what still varies
is `flaky`, which is no finding.  Memory that a heavy case made a fresh process of one thread take
is not doubted: nothing else had a part in it, and its limit of time is one of CPU time.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from kafka_conformance.judge.observation import Crashed, Exceeded, Hung, Observation
from kafka_conformance.judge.verdict import Verdict, judge
from kafka_conformance.process.child import ReadFailure
from kafka_conformance.process.cpu_permits import CpuPermit, CpuPermits
from kafka_conformance.runner.requests import TOO_MUCH, Tally, TimedObservation, request_for
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.protocol import HelloReply
from kafka_corpus.case import Case

# Seconds in which workers have to notice that a run is stopped.
STOP_SECONDS: Final = 5.0
# Seconds between two checks of an idle run for a stop.
LOOK_SECONDS: Final = 0.2
# Workers of one testee that may wait for hangs, in addition to those at work.
WAITING: Final = 14
# Added to the rank of repeats: they come after all other work of all runs.
LAST: Final = 1 << 20
# Repeats of a case whose first repeat differs.
MOST_REPEATS: Final = 2
# Signals by which limits end a process: of memory by the runner or the kernel, of CPU time by the kernel.
BY_LIMITS: Final = frozenset({signal.SIGKILL, signal.SIGXCPU})


ObservedCase = tuple[Case, TimedObservation]


def needs_repeat(timed: TimedObservation) -> bool:
    """Whether the case has to be repeated before its outcome counts."""
    return depends_on_limits(timed.observation) and not (timed.lone and isinstance(timed.observation, Exceeded))


def depends_on_limits(observation: Observation) -> bool:
    """Whether *observation* depends on a limit of time or memory."""
    match observation:
        case Hung(stderr=stderr):
            return not stderr  # what a runtime calls a deadlock does not depend on time
        case Exceeded(what=what):
            return what != TOO_MUCH[ReadFailure.TOO_LONG]
        case Crashed(signal=number):
            return number in BY_LIMITS
    return False


def is_settled(case: Case, found: Sequence[TimedObservation]) -> bool:
    """Whether no further repeat is needed; *found* has the first observation and its repeats."""
    outcomes = [judge(case, each.observation).outcome for each in found]
    return len(found) > MOST_REPEATS or (len(found) > 1 and outcomes[-1] == outcomes[-2])


def verdict_of_repeats(case: Case, found: Sequence[TimedObservation]) -> Verdict:
    """The verdict on the last of *found*; `flaky` if it differs from the one before."""
    verdicts = [judge(case, each.observation) for each in found]
    if len(verdicts) < 2 or verdicts[-1].outcome == verdicts[-2].outcome:
        return verdicts[-1]
    return Verdict("flaky", why=", then ".join(verdict.outcome.replace("_", " ") for verdict in verdicts))


@dataclass(slots=True)
class StopSignal:
    """Ends a run and its testees from another thread.

    Attributes:
        event: set when the workers of the run have to end.
        by_user: whether the user stopped the run; if not, the run failed.
        sandboxes: the testees of the run.
    """

    event: threading.Event = field(default_factory=threading.Event)
    by_user: bool = False
    sandboxes: list[Sandbox] = field(default_factory=list)

    def stop(self, permits: CpuPermits) -> None:
        """Stop workers and testees.  Repeat it until the run has ended: a testee that is about to start is missed."""
        permits.stop(self.event)
        for sandbox in self.sandboxes:
            sandbox.interrupt()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if the run was stopped."""
        if self.event.is_set():
            raise KeyboardInterrupt


class WorkerPool:
    """The sandboxes of one testee and the threads that use them; a context manager that ends the testee."""

    def __init__(
        self, connection: ConnectionSpec, permits: CpuPermits, *, jobs: int, rank: int, stop: StopSignal
    ) -> None:
        self._permits, self._jobs, self._rank, self._stop = permits, jobs, rank, stop
        self._permit = CpuPermit(permits, (rank, 0), stop.event)
        self._sandboxes = [Sandbox(connection, permit=self._permit)]
        self._todo: deque[Sequence[Case]] = deque()
        self._done: SimpleQueue[Any] = SimpleQueue()
        stop.sandboxes.extend(self._sandboxes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sandboxes[0].close()
        self._permit.give()

    @property
    def seconds(self) -> float:
        """The time limit of a request, in seconds, after `start`."""
        return self._sandboxes[0].seconds

    @property
    def tallies(self) -> list[Tally]:
        """The events that each sandbox counted."""
        return [sandbox.tally for sandbox in self._sandboxes]

    def start(self, trivial: Sequence[bytes]) -> HelloReply:
        """Start one testee and calibrate its time limit with *trivial* batches.  Raises `CannotRun`."""
        self._permit.take()
        hello = self._sandboxes[0].hello()
        self._sandboxes[0].calibrate(trivial)
        return hello

    def observe(
        self, groups: Sequence[Sequence[Case]], *, committed: bool
    ) -> Generator[list[ObservedCase], None, None]:
        """Observations as they arrive, until every worker has ended.  Close the iterator to stop early.

        Args:
            groups: cases that are sent together, in the order in which they are sent.
            committed: whether the testee takes aborted transactions.

        Raises:
            KeyboardInterrupt: the run was stopped.
            CannotRun: the testee does not start any more.
        """
        self._todo.extend(groups)
        first = self._sandboxes[0]
        # A testee that left a trivial batch unanswered may have to be given up after few cases.
        waiting = 0 if first.is_doubtful else WAITING
        for number in range(1, min(self._jobs + waiting, len(groups))):
            self._sandboxes.append(first.another(CpuPermit(self._permits, (self._rank, number), self._stop.event)))
        self._stop.sandboxes.extend(self._sandboxes[1:])
        yield from self._run({sandbox: partial(self._work, sandbox, committed) for sandbox in self._sandboxes})

    def _run(self, works: Mapping[Sandbox, Callable[[], None]]) -> Generator[list[Any], None, None]:
        """Items that *works*, a thread for each sandbox, put into the queue, until all have ended."""
        threads = [threading.Thread(target=self._worker, args=each, daemon=True) for each in works.items()]
        for thread in threads:
            thread.start()
        try:
            yield from self._arrivals(len(threads))
        except BaseException:
            self._end(threads)
            raise
        for thread in threads:
            thread.join()

    def _worker(self, sandbox: Sandbox, work: Callable[[], None]) -> None:
        """Do *work*, then end *sandbox*; the end, or an exception, goes into the queue."""
        try:
            work()
            sandbox.close()
            self._done.put(None)
        except BaseException as error:
            self._done.put(error)
        finally:
            sandbox.close()
            sandbox.give_permit()

    def _work(self, sandbox: Sandbox, committed: bool) -> None:
        while sandbox.take_permit() and (group := self._next_group()):
            observed = sandbox.ask([request_for(case, committed=committed) for case in group])
            for case, timed in zip(group, observed, strict=True):
                # A testee that was ended because the run stops has not crashed.
                if self._stop.event.is_set():
                    return
                self._done.put((case, timed))
            sandbox.tidy()

    def repeat(
        self, observed: Sequence[ObservedCase], *, committed: bool
    ) -> Generator[list[tuple[Case, list[TimedObservation]]], None, None]:
        """Send cases again, each in a fresh process and after all other work; yield all observations of each.

        A case that hung has the machine to itself, as far as its testee works.  The memory that a testee takes does
        not depend on what else runs; how much it takes in a limit of CPU time hardly does.

        Args:
            observed: cases with their first observations.
            committed: whether the testee takes aborted transactions.

        Raises:
            KeyboardInterrupt: the run was stopped.
            CannotRun: the testee does not start any more.
        """
        by_memory = [(case, seen) for case, seen in observed if isinstance(seen.observation, Exceeded)]
        others = [(case, seen) for case, seen in observed if not isinstance(seen.observation, Exceeded)]
        yield from self._repeat_all(by_memory, committed=committed, alone=False)
        yield from self._repeat_all(others, committed=committed, alone=True)

    def _repeat_all(
        self, observed: Sequence[ObservedCase], *, committed: bool, alone: bool
    ) -> Generator[list[tuple[Case, list[TimedObservation]]], None, None]:
        first: Sandbox | None = None
        sandboxes = []
        for number in range(min(WAITING, len(observed))):
            permit = CpuPermit(self._permits, (LAST + self._rank, number), self._stop.event, alone=alone)
            # All of them forget known hangs, and share what they learn now.
            sandbox = first.another(permit) if first else self._sandboxes[0].another(permit, forget_hangs=True)
            first = first or sandbox
            sandboxes.append(sandbox)
        self._sandboxes += sandboxes
        self._stop.sandboxes.extend(sandboxes)
        todo = deque(observed)
        yield from self._run({sandbox: partial(self._repeat, sandbox, todo, committed) for sandbox in sandboxes})

    def _repeat(self, sandbox: Sandbox, todo: deque[ObservedCase], committed: bool) -> None:
        while todo and sandbox.take_permit():
            try:
                case, seen = todo.popleft()
            except IndexError:
                return
            found = [seen]
            while not is_settled(case, found):
                found.append(sandbox.ask_afresh(request_for(case, committed=committed)))
            # A testee that was ended because the run stops has not crashed.
            if self._stop.event.is_set():
                return
            self._done.put((case, found))

    @property
    def is_given_up(self) -> bool:
        """Whether the testee answered nothing, and gets no more requests."""
        return self._sandboxes[0].is_given_up

    def _next_group(self) -> Sequence[Case] | None:
        try:
            return self._todo.popleft()
        except IndexError:
            return None

    def _arrivals(self, workers: int) -> Iterator[list[Any]]:
        """Observations in lists, until all of *workers* have ended; raises the exception of a worker."""
        while workers:
            arrived: list[Any] = []
            for item in self._available():
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    workers -= 1
                else:
                    arrived.append(item)
            yield arrived

    def _available(self) -> Iterator[Any]:
        """At least one item, and all that are queued; none once the run is stopped."""
        while self._done.empty():
            try:
                yield self._done.get(timeout=LOOK_SECONDS)
                break
            except Empty:
                self._stop.check()
        while not self._done.empty():
            yield self._done.get()

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """End workers and testees within `STOP_SECONDS`."""
        self._todo.clear()
        end = time.monotonic() + STOP_SECONDS
        for thread in threads:
            while thread.is_alive() and time.monotonic() < end:
                self._stop.stop(self._permits)
                thread.join(0.05)
