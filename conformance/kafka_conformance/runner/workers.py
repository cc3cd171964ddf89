"""Workers of one run: threads that send groups of cases, each to a sandbox of its own.

Workers only wait for pipes.  A testee has more workers than the machine has CPUs, but a
worker needs a CPU permit to work (`process/cpu_permits.py`).  The others wait for cases
that hang, or never start because no group is left for them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final, Self

from kafka_conformance.process.cpu_permits import CpuPermit, CpuPermits
from kafka_conformance.runner.requests import Tally, TimedObservation, request_for
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

ObservedCase = tuple[Case, TimedObservation]


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
        self._done: SimpleQueue[ObservedCase | BaseException | None] = SimpleQueue()
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
        threads = [
            threading.Thread(target=self._work, args=(sandbox, committed), daemon=True) for sandbox in self._sandboxes
        ]
        for thread in threads:
            thread.start()
        try:
            yield from self._arrivals(len(threads))
        except BaseException:
            self._end(threads)
            raise
        for thread in threads:
            thread.join()

    def _work(self, sandbox: Sandbox, committed: bool) -> None:
        try:
            while sandbox.take_permit() and (group := self._next_group()):
                observed = sandbox.ask([request_for(case, committed=committed) for case in group])
                for case, timed in zip(group, observed, strict=True):
                    # A testee that was ended because the run stops has not crashed.
                    if self._stop.event.is_set():
                        return
                    self._done.put((case, timed))
            sandbox.close()
            self._done.put(None)
        except BaseException as error:
            self._done.put(error)
        finally:
            sandbox.close()
            sandbox.give_permit()

    def _next_group(self) -> Sequence[Case] | None:
        try:
            return self._todo.popleft()
        except IndexError:
            return None

    def _arrivals(self, workers: int) -> Iterator[list[ObservedCase]]:
        """Observations in lists, until all of *workers* have ended; raises the exception of a worker."""
        while workers:
            arrived: list[ObservedCase] = []
            for item in self._available():
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    workers -= 1
                else:
                    arrived.append(item)
            yield arrived

    def _available(self) -> Iterator[ObservedCase | BaseException | None]:
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
