"""Send a testee batches of inputs over a pipe, the next one before the last is answered.

A batch is sent as one `many` line.  If the answer is not complete, the sandbox of
certification sends its inputs one by one to a fresh process, and finds the input
that caused it.  If a batch took far more CPU time or memory than its size
explains, each input is measured, and those that are expensive twice are reported.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import UNSET

from kafka_conformance.judge.observation import Observation
from kafka_conformance.process import time_limits
from kafka_conformance.runner.requests import BehaviourProfile, CaseRequest
from kafka_conformance.runner.run import trivial_decodes
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees import protocol
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.protocol import CodecAnswer, CodecReply, DecodeRequest, HelloReply
from kafka_fuzz.targets.outcome import MOST_GROWTH, MOST_SECONDS, excess_cost

# Inputs in one line; more are no faster.
BATCH: Final = 256
# Batches sent ahead of the replies: one in work, one waiting.
AHEAD: Final = 2
# After so many expensive batches without an expensive input, the limits for measuring a batch double.
IN_VAIN: Final = 2
TICKS: Final = os.sysconf("SC_CLK_TCK")


class MeasuredAnswer(NamedTuple):
    """A testee's answer to one input, with its cost.

    Attributes:
        answer: its answer, or the observation of the sandbox.
        seconds: CPU-seconds if they are far more than the size explains, else 0.
        grown: bytes of memory, likewise.
    """

    answer: CodecAnswer | Observation
    seconds: float = 0.0
    grown: int = 0


@dataclass(slots=True)
class Cost:
    """CPU time and memory of a process, from Linux's /proc; zeros elsewhere."""

    seconds: float = 0.0
    memory: int = 0
    peak: int = 0

    @classmethod
    def of(cls, pid: int) -> Cost:
        """Of process *pid*; its peak of memory is counted from now on."""
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            held = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            Path(f"/proc/{pid}/clear_refs").write_text("5")
            return cls(
                (int(fields[11]) + int(fields[12])) / TICKS, _bytes(held.get("VmRSS")), _bytes(held.get("VmHWM"))
            )
        return cls()

    def since(self, before: Cost) -> tuple[float, int]:
        """CPU-seconds and growth of memory since *before*."""
        return self.seconds - before.seconds, self.peak - before.memory if before.memory else 0


def _bytes(kilobytes: str | None) -> int:
    # A process that has ended and was not reaped has no memory.
    return int(kilobytes.split()[0]) * 1024 if kilobytes else 0


class FeedStopped(Exception):
    """The feed was stopped by another thread."""


class Feed(Sandbox):
    """One testee, used by one thread.

    `post` sends a batch, `collect` returns the answers to the oldest one.
    """

    def __init__(self, connection: ConnectionSpec) -> None:
        super().__init__(connection, learnt=BehaviourProfile())
        self.executions = 0
        self.cpu_seconds = 0.0
        self._posted: deque[tuple[str, list[bytes]]] = deque()
        self._takes_many = False
        self._stopped = False
        self._before = Cost()
        self._names = map("b{}".format, count(1))
        self._vain_seconds, self._vain_growth = 0, 0

    def open(self, *, posted: bool = True) -> HelloReply:
        """Start the testee and calibrate its time limit; *posted* if batches follow by `post`.  Raises `CannotRun`."""
        hello = self.hello()
        self._takes_many = hello.many
        # The sandbox handles batches whose answers were incomplete; it needs one reply for each input.
        self._learnt.many = hello.many and not posted
        self.calibrate(trivial_decodes())
        self._before = Cost.of(self._running().pid)
        return hello

    def stop(self) -> None:
        """End the testee from another thread; `collect` then raises `FeedStopped`."""
        self._stopped = True
        self.interrupt()

    def _start(self) -> HelloReply:
        if self._stopped:
            raise FeedStopped
        return super()._start()

    @property
    def waiting(self) -> int:
        """Batches that were posted and not collected."""
        return len(self._posted)

    def post(self, batch: list[bytes]) -> None:
        """Send *batch*, even if earlier ones are not answered."""
        name = next(self._names)
        self._posted.append((name, batch))
        self._send(name, batch)

    def collect(self) -> list[MeasuredAnswer]:
        """Answers to the oldest posted batch, in input order.  Raises `CannotRun`, `FeedStopped`."""
        name, batch = self._posted.popleft()
        self.executions += len(batch)
        answers = self._whole(name, batch) if self._takes_many else None
        if answers is None:
            return self._singly(batch)
        seconds, grown = self._spent()
        seen = [MeasuredAnswer(answer) for answer in answers]
        if self._is_costly(seconds, grown):
            return self._measured(batch, seen)
        return seen

    def _send(self, name: str, batch: Sequence[bytes]) -> None:
        if not self._takes_many:
            return
        child = self._running()
        if not child.requests:
            child.widen()
            self._before = Cost.of(child.pid)
        child.requests += len(batch)
        child.send(protocol.request_line(DecodeRequest(id=name, many=list(batch))))
        child.flush()

    def _whole(self, name: str, batch: Sequence[bytes]) -> list[CodecAnswer] | None:
        """The answers, or None if they are not complete."""
        reply = self._await(self._running(), {name}, time_limits.plain_limit(self.seconds))
        if isinstance(reply, CodecReply) and reply.many is not UNSET and len(reply.many) == len(batch):
            return reply.many
        return None

    def _singly(self, batch: Sequence[bytes]) -> list[MeasuredAnswer]:
        """Send the inputs one by one to a fresh process."""
        if self._takes_many:
            self._replace()
        answered = self.ask([CaseRequest(data) for data in batch])
        seen = [MeasuredAnswer(each.observation) for each in answered]
        if self._posted and self._takes_many:
            self._replace()  # a late reply must not be taken for one to a later batch
        for name, later in self._posted:
            self._send(name, later)
        return seen

    # What it costs

    def _replace(self) -> None:
        if self._child is not None:
            self._spent()
        super()._replace()

    def _spent(self) -> tuple[float, int]:
        """CPU-seconds and growth of memory since the last call."""
        if self._child is None or not self.connection.local:
            return 0.0, 0
        now = Cost.of(self._child.pid)
        seconds, grown = now.since(self._before)
        self._before = now
        self.cpu_seconds += max(seconds, 0.0)
        return seconds, grown

    def _is_costly(self, seconds: float, grown: int) -> bool:
        # Runtimes with garbage collection grow in steps, and compile while they run.
        return seconds > MOST_SECONDS * 2.0 ** (self._vain_seconds // IN_VAIN) or grown > MOST_GROWTH * 2 ** (
            self._vain_growth // IN_VAIN
        )

    def _measured(self, batch: Sequence[bytes], seen: list[MeasuredAnswer]) -> list[MeasuredAnswer]:
        """*seen* with the cost of each expensive input."""
        costs = zip(batch, self._costs(batch), strict=True)
        costly = [index for index, (data, cost) in enumerate(costs) if any(excess_cost(len(data), *cost))]
        guilty = {}
        for index in costly:
            # Measured again in a fresh process: compilation and garbage collection are not the input's cost.
            self._replace()
            *_, cost = self._costs([*trivial_decodes(), batch[index]])
            if any(too_much := excess_cost(len(batch[index]), *cost)):
                guilty[index] = too_much
        self._vain_seconds = 0 if guilty else self._vain_seconds + 1
        self._vain_growth = 0 if guilty else self._vain_growth + 1
        self._replace()
        for name, later in self._posted:
            self._send(name, later)
        return [MeasuredAnswer(each.answer, *guilty.get(index, (0.0, 0))) for index, each in enumerate(seen)]

    def _costs(self, batch: Sequence[bytes]) -> Iterator[tuple[float, int]]:
        """CPU-seconds and growth of memory for each of *batch*, sent alone."""
        if self._posted:
            self._replace()
        for data in batch:
            self._before = Cost.of(self._running().pid)
            list(self.ask([CaseRequest(data)]))
            yield self._spent()
