"""Send requests to a testee and return an observation for each, whatever the testee does.

Questions go out several at a time: in one `many` line if the testee announced
that, else as several lines ahead of the replies.  If `many` does not come back
whole, the process is replaced and the same questions go out as lines.  Replies
to lines come in order, so the first of which nothing came names the guilty case.
A testee that often crashes in `many` gets lines only.

A case in which the process died is sent again, alone, in a fresh
process, because a process may also be killed from outside, or crash because of what
an earlier case left in memory.  Only a second death counts, except when the
process was fresh already, or ended as fresh ones did often enough (the same
exit code, the same last words) where no earlier case can have a part in it:
`BehaviourProfile.counts` says when.  Heavy cases, and those that claim sizes, get a process of
their own where one is to be had at once, or where it holds much already, since how much memory
others left would decide over them; so one death of too little memory is enough for a heavy one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from msgspec import UNSET

from kafka_conformance.judge.observation import Crashed, Exceeded, Garbled, Hung, NotSent, Observation, observe
from kafka_conformance.process import time_limits
from kafka_conformance.process.child import Child, ReadFailure, await_hello, hello_limit, no_hello
from kafka_conformance.process.cpu_permits import CpuPermit
from kafka_conformance.process.cpu_time import Watch
from kafka_conformance.process.starting import Starter
from kafka_conformance.process.time_limits import TimeLimit
from kafka_conformance.runner.requests import (
    MAX_UNANSWERED,
    TOO_MUCH,
    BehaviourProfile,
    CaseRequest,
    Tally,
    TimedObservation,
    died,
    killed_from_outside,
    many_line,
    observe_reply,
    single_line,
)
from kafka_conformance.sanitize import printable
from kafka_conformance.testees import protocol
from kafka_conformance.testees.connection import CannotRun, ConnectionSpec, HelloRefused, NoHello
from kafka_conformance.testees.protocol import CodecReply, HelloReply, Misfit, Stray

STARTS: Final = 3
MAX_SECONDS: Final = 10.0
CALIBRATION_SECONDS: Final = 3.0
# A case may take this many times what a trivial decode takes.
FACTOR: Final = 100
# CPU seconds.  One that starts faster is restarted for each request that needs a fresh process: Node is, a JVM not.
QUICK: Final = 0.25
# Lines before a reply; after as many the testee is replaced.
MOST_OTHER_LINES: Final = 10_000
# Part of the memory limit; a testee that holds more is restarted before such a request.
MUCH: Final = 1 / 8

NOT_SENT: Final = "the testee had answered none of the requests before"


class Sandbox:
    """A testee that is replaced whenever it falls; not for more than one thread.

    With a *turn* it works only while it has a place, and does without while
    the testee does nothing.
    """

    def __init__(
        self,
        connection: ConnectionSpec,
        seconds: float = MAX_SECONDS,
        permit: CpuPermit | None = None,
        learnt: BehaviourProfile | None = None,
        starter: Starter | None = None,
    ) -> None:
        self.connection = connection
        self.seconds = seconds
        self.tally = Tally()
        self._permit = permit
        self._learnt = learnt or BehaviourProfile()
        self._starter = starter or Starter(connection)
        self._joined = False
        self._child: Child | None = None
        self._ids = map(str, count(1))

    def hello(self) -> HelloReply:
        """Start it if need be, and give its identity.  Raises `CannotRun`."""
        return self._start()

    def calibrate(self, trivial: Sequence[bytes], most: float = CALIBRATION_SECONDS) -> float:
        """Set the time limit from what *trivial* decodes take; gives it in seconds.

        The first answer may come late (a virtual machine warms up), and does
        not count.  If none comes within *most* seconds, the limit is the
        shortest.
        """
        spent: list[float] = []
        self.seconds = most
        for data in trivial:
            child = self._running()
            child.waits, watch = 0.0, Watch(child.pid)
            answered = self._once(CaseRequest(data))
            watch.look()
            self._learnt.doubtful = isinstance(answered.observation, Hung | Crashed | Exceeded | Garbled)
            if self._learnt.doubtful:
                break
            # Time in which it stood in line for a processor, or we did, is not its own.
            spent.append(min(answered.seconds, watch.own_seconds(waits=child.waits)))
        if self._child is not None:
            self._child.requests, self._child.waits = 0, None  # trivial batches leave the process fresh
        self.seconds = min(max(FACTOR * min(spent[1:] or spent or [0]), self.connection.seconds), MAX_SECONDS)
        return self.seconds

    def ask(self, questions: Sequence[CaseRequest]) -> Iterator[TimedObservation]:
        """The answers to *questions*, in their order, each as soon as it is there.

        Several have to be of one kind, all bytes, all batches or all payloads, and need no fresh process.
        """
        done = 0
        while done < len(questions):
            rest = questions[done:]
            if (
                len(rest) == 1
                or self._learnt.takes_rows is False
                or (self._learnt.doubtful and not self._learnt.answers)
            ):
                yield from map(self._alone, rest)
                return
            self._running()  # its hello announces `many`
            many = self._learnt.many and isinstance(rest[0].subject, bytes)
            for answer in self._at_once(rest) if many else self._in_a_row(rest):
                yield answer or self._again(questions[done])
                done += 1

    @property
    def is_given_up(self) -> bool:
        """Whether the testee answered nothing, and gets no more requests."""
        return self._learnt.is_given_up

    @property
    def is_doubtful(self) -> bool:
        """Whether the testee left a trivial batch unanswered."""
        return self._learnt.doubtful

    def close(self) -> None:
        """End the process, and what was kept for further starts unless another sandbox uses it."""
        if self._child is not None:
            if ending := self._child.dismiss():
                self.tally.late_end(ending)
            self._let_go()
        if self._joined:
            self._joined = False
            self._starter.leave()

    def tidy(self) -> None:
        """End the processes that the testee left in sessions or groups of their own while it worked."""
        if self._child is not None:
            self.tally.detached += self._child.end_detached()

    def interrupt(self) -> None:
        """End the process from another thread, so that the one that waits for it goes on."""
        child = self._child
        if child is not None:
            child.end_group()

    def take_permit(self) -> bool:
        """Wait for a CPU permit, after workers of lower rank; False if the run was stopped."""
        return self._permit is None or self._permit.pass_on()

    def give_permit(self) -> None:
        """Give the CPU permit to another sandbox."""
        if self._permit is not None:
            self._permit.give()

    def another(self, permit: CpuPermit | None = None, *, forget_hangs: bool = False) -> Sandbox:
        """A sandbox of its own for the same testee, with what was learnt about it, known hangs aside if wanted."""
        learnt = replace(self._learnt, hung=set()) if forget_hangs else self._learnt
        return Sandbox(self.connection, self.seconds, permit, learnt, self._starter)

    def ask_afresh(self, question: CaseRequest) -> TimedObservation:
        """The answer of a new process that has nothing else to do."""
        self._replace()
        return self._alone(question)

    # Starting

    def _running(self) -> Child:
        if self._child is None:
            self._start()
        assert self._child is not None
        return self._child

    def _start(self) -> HelloReply:
        problem = CannotRun(f"{self.connection.name} does not start")
        for _ in range(STARTS):
            try:
                return self._start_once()
            except CannotRun as error:
                problem = error
                if isinstance(error, (NoHello, HelloRefused)) and self._learnt.hello is None:
                    break
        raise problem

    def _start_once(self) -> HelloReply:
        name = self.connection.name
        if not self._joined:
            self._joined = True
            self._starter.join()
        try:
            child = Child(self.connection, self._starter)
        except OSError as error:
            raise CannotRun(f"{name} cannot be started: {error}") from error
        self.tally.starts += 1
        known = self._learnt.hello if child.known else None
        lines: list[str] = []
        limit = hello_limit(self.connection.hello_seconds)
        hello = known or await_hello(child, limit, lines.append)
        for line in lines:
            self.tally.stray(line)
        if isinstance(hello, ReadFailure):
            why = no_hello(child, hello, limit, lines[0] if lines else "")
            # One that ended without a line may have been killed, or lack a library.
            kind = CannotRun if hello is ReadFailure.ENDED and not lines else NoHello
            raise kind(f"{name} did not say hello: {why}", "kafkaproof smoke shows more")
        if isinstance(hello, protocol.HelloRefusal):
            child.kill()
            raise HelloRefused(f"{name} cannot run: {printable(hello.error.message)}")
        if hello.protocol != protocol.PROTOCOL:
            child.kill()
            raise CannotRun(f"{name} speaks protocol {hello.protocol}, we speak {protocol.PROTOCOL}")
        if problem := protocol.name_problem(hello):
            child.kill()
            raise CannotRun(f"{name}: {problem}")
        self._child = child
        child.keep_helpers()
        self._learnt.hello = hello
        self._learnt.quick = self._learnt.quick or ((used := child.usage()) is not None and used.seconds < QUICK)
        self._learnt.many = hello.many if self._learnt.many is None else self._learnt.many
        return hello

    # Several requests at once

    def _at_once(self, questions: Sequence[CaseRequest]) -> Iterator[TimedObservation | None]:
        """All in one `many` line; where that does not come back whole, in a row."""
        child = self._running()
        before = self._clock()
        name = next(self._ids)
        child.send(many_line(name, questions))
        child.requests += len(questions)
        reply = self._await(child, {name}, TimeLimit(self.seconds))
        if isinstance(reply, CodecReply) and reply.many is not UNSET and len(reply.many) == len(questions):
            each = (self._clock() - before) / len(questions)
            yield from (self._answered(observe(answer), each) for answer in reply.many)
            return
        # Now line by line: replies that come singly show where it falls.
        self._learnt.fell += 1
        if self._learnt.fell >= MAX_UNANSWERED:
            self._learnt.many = False
        self._replace()
        yield from self._in_a_row(questions)

    def _in_a_row(self, questions: Sequence[CaseRequest]) -> Iterator[TimedObservation | None]:
        """Several lines ahead of the replies; ends with the first that the testee does not answer.

        Replies come in order, so the first that is missing shows where it
        crashed.  None stands for a request that has to be sent again, alone.
        """
        child = self._running()
        fresh, single = not child.requests, child.is_single()
        ids = [next(self._ids) for _ in questions]
        child.send(b"".join(map(single_line, ids, questions)))
        child.requests += len(questions)
        for name, question in zip(ids, questions, strict=True):
            before = self._clock()
            reply = self._await(child, {name}, self._limit(question))
            spent = self._clock() - before
            if isinstance(reply, ReadFailure):
                yield self._fell(child, question, reply, spent, fresh=fresh, single=single)
                return
            yield self._answered(observe_reply(reply), spent)
            fresh = False

    def _fell(
        self, child: Child, question: CaseRequest, trouble: ReadFailure, spent: float, *, fresh: bool, single: bool
    ) -> TimedObservation | None:
        """The observation for the first request without a reply; None if it has to be sent again."""
        observation: Observation
        # With a part of a long reply received, the crash may belong to the next request.
        self._fell_by = None if child.has_begun() else trouble
        if self._fell_by is ReadFailure.LATE and self._learnt.takes_rows:
            observation = self._hung(question, spent)
        elif self._fell_by is ReadFailure.ENDED:
            observation = child.ending()
            if killed_from_outside(observation) or not self._learnt.counts(observation, fresh=fresh, single=single):
                self._suspect = observation
                self._let_go()
                return None
        else:
            self._replace()
            return None
        self._replace()
        return self._answered(observation, spent, question.size)

    def _answered(self, observation: Observation, spent: float, read: int = 0) -> TimedObservation:
        if isinstance(observation, Exceeded):
            observation = replace(observation, read=read)
        answered = not isinstance(observation, Crashed | Hung | Exceeded | Garbled)
        self._learnt.answers += answered
        self._learnt.unanswered += not answered
        self.tally.waited += spent if isinstance(observation, Hung) else 0.0
        return TimedObservation(observation, spent, int(died(observation)))

    def _limit(self, question: CaseRequest) -> TimeLimit:
        endless = question.timeout_group in time_limits.ENDLESS
        memory = self.connection.memory if self.connection.local and not endless else 0
        known = self._learnt.hangs_over(question)
        if question.heavy:
            return time_limits.heavy_limit(self.seconds, memory, known=known, factor=question.time_factor)
        return time_limits.plain_limit(self.seconds, memory, known=known)

    def _hung(self, question: CaseRequest, spent: float) -> Hung:
        if question.timeout_group:
            self._learnt.hung.add(question.timeout_group)
        return Hung(spent)

    def _await(self, child: Child, ids: set[str], limit: TimeLimit) -> CodecReply | Misfit | ReadFailure:
        """The next reply to one of *ids*; other lines are counted and dropped."""
        end = time.monotonic() + max(limit.seconds, limit.grows) * 4
        others = 0
        while True:
            line = child.read_line(limit, self._lull)
            self._go_on()
            if isinstance(line, ReadFailure):
                return line
            reply = protocol.parse_reply(line)
            if not isinstance(reply, Stray) and reply.id in ids:
                return reply
            self.tally.stray(reply.text if isinstance(reply, Stray) else f"a reply to {reply.id!r}")
            others += 1
            if others >= MOST_OTHER_LINES or time.monotonic() > end:
                return ReadFailure.LATE

    def _lull(self, memory: int) -> None:
        if self._permit is not None:
            self._permit.lend(memory)

    def _go_on(self) -> None:
        if self._permit is not None:
            self._permit.take()

    def _clock(self) -> float:
        """Seconds that go by, without those in which we stood in line for a place."""
        return time.monotonic() - (self._permit.waited if self._permit else 0.0)

    # One request

    _fell_by: ReadFailure | None = None
    _suspect: Observation | None = None

    def _again(self, question: CaseRequest) -> TimedObservation:
        """Ask alone what was not answered in a row; if it was late only there, do not ask in rows again.

        A testee may lose lines that are there before it replied, and would be
        blamed for hanging over each of them.
        """
        late = self._fell_by is ReadFailure.LATE
        answered = self._alone(question)
        self._clear(answered)
        if late and self._learnt.takes_rows is None:
            self._learnt.takes_rows = isinstance(answered.observation, Hung)
        return answered

    def _alone(self, question: CaseRequest) -> TimedObservation:
        if self._learnt.is_given_up:
            return TimedObservation(NotSent(NOT_SENT), 0.0)
        if question.fresh and not self._is_fit():
            self._replace()  # how much memory others left it would decide
        child = self._running()
        fresh, single = not child.requests, child.is_single()
        answered = self._once(question)
        conclusive = self.connection.local and question.heavy and isinstance(answered.observation, Exceeded)
        if conclusive or not died(answered.observation):
            return replace(answered, lone=fresh and single)
        if not killed_from_outside(answered.observation) and self._learnt.counts(
            answered.observation, fresh=fresh, single=single
        ):
            return answered
        self._suspect = answered.observation
        again = self._once(question)
        if died(again.observation):
            self._learnt.counts(again.observation, fresh=True)
        self._clear(again)
        return TimedObservation(again.observation, again.seconds, 1 + died(again.observation))

    def _is_fit(self) -> bool:
        """Whether the process can take a request for a fresh one: it is one, or starts slowly and holds little."""
        if self._child is None or not self._child.requests:
            return True
        used = self._child.usage()
        return not self._learnt.quick and (used is None or used.memory < self.connection.memory * MUCH)

    def _clear(self, again: TimedObservation) -> None:
        """Learn whether the last ending in doubt was what the same question does alone."""
        if self._suspect is not None and not died(again.observation):
            self._learnt.refute(self._suspect)
            self.tally.late_end(self._suspect)
        self._suspect = None

    def _once(self, question: CaseRequest) -> TimedObservation:
        child = self._running()
        name = next(self._ids)
        strays = self.tally.strays
        before = self._clock()
        child.send(single_line(name, question))
        child.requests += 1
        reply = self._await(child, {name}, self._limit(question))
        spent = self._clock() - before
        if reply is ReadFailure.LATE and self.tally.strays == strays:
            self._hung(question, spent)
        if question.fresh and child.requests == 1 and isinstance(reply, CodecReply) and child.passed_memory_limit():
            observation: Observation = child.too_much(child.stderr_tail())
            self._replace()
        else:
            observation = self._observe(child, reply, spent, self.tally.strays - strays)
        return self._answered(observation, spent, question.size)

    def _observe(
        self, child: Child, reply: CodecReply | Misfit | ReadFailure, spent: float, strays: int
    ) -> Observation:
        match reply:
            case CodecReply() | Misfit():
                return observe_reply(reply)
            case ReadFailure.ENDED:
                ending = child.ending()
                self._let_go()
                return ending
            case ReadFailure.LATE:
                self._replace()
                others = f"no reply, but {strays} other lines: {self.tally.last_stray}"
                return Garbled(others) if strays else Hung(spent)
            case ReadFailure.GREW | ReadFailure.TOO_LONG:
                self._replace()
                return Exceeded(TOO_MUCH[reply], taken=child.taken if reply is ReadFailure.GREW else 0)

    def _replace(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._let_go()

    def _let_go(self) -> None:
        """Forget a process that has ended, and count what it left."""
        if self._child is not None:
            self.tally.detached += self._child.left
            self._child = None
