"""Runs cases through testees in parallel; every verdict is on disk as soon as it is known.

Workers are threads, each with a testee of its own; they only wait for pipes.
A testee has more workers than there are processors, but only as many are at
work at once (`slots.py`): the others wait for cases that hang, or are not
needed and never start.  The thread that runs a testee judges and writes.
Several testees run side by side on the same processors (`Together`), the slowest
in front, so that none is idle while another starts, waits or ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from kafka_brokers.progress import Progress
from kafka_conformance.judge.observation import Skipped, observation_summary
from kafka_conformance.judge.verdict import judge
from kafka_conformance.process.cpu_permits import CpuPermit, CpuPermits
from kafka_conformance.runner import results
from kafka_conformance.runner.requests import TOGETHER, group_cases, is_relevant, request_for, unsupported
from kafka_conformance.runner.results import ResultHeader, ResultLine, Results, Unusable
from kafka_conformance.runner.sandbox import Sandbox, TimedObservation
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connect import CannotRun, ConnectionSpec
from kafka_conformance.testees.protocol import Capability, HelloReply
from kafka_corpus.case import Case
from kafka_records import Batch, Record, encode

# How long workers get to notice that a run is stopped.
STOP_SECONDS: Final = 5.0
# How long until a run that has nothing to do looks whether it is stopped.
LOOK_SECONDS: Final = 0.2
# Workers of one testee that may wait for hangs, beside those at work.
WAITING: Final = 14
# How much of what a testee says of itself is kept: characters, and entries of a list.
MAX_NAME: Final = 100
MAX_CLAIMS: Final = 16


class Interrupted(Exception):
    """The user stopped the run; what was earned is in the file."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"stopped after {done} of {total} cases")


@dataclass(slots=True)
class StopSignal:
    """How to end a run from another thread; its testees are ended with it.

    Attributes:
        event: set when its workers have to end.
        asked: whether somebody asked for that; else the run failed.
        sandboxes: its testees.
    """

    event: threading.Event = field(default_factory=threading.Event)
    asked: bool = False
    sandboxes: list[Sandbox] = field(default_factory=list)

    def stop(self, slots: CpuPermits) -> None:
        """Once may be too early for a testee that is about to start: repeat it until the run has ended."""
        slots.stop(self.event)
        for sandbox in self.sandboxes:
            sandbox.interrupt()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One testee, the cases to ask it, and where the results go.

    Attributes:
        connection: how to start the testee.
        cases: what to ask.
        corpus: the hash of the corpus that they come from.
        path: the result file.
        only: the patterns that chose the cases, for the header.
        jobs: how many of the testee work at once.
        resume: go on with an incomplete file at *path*.
        progress: told about every group of cases.
        slots: the places at work, where several runs share them; else there are *jobs* of them.
        rank: who gets a place first, among those that share them.
        stop: how it is ended from outside.
    """

    connection: ConnectionSpec
    cases: Sequence[Case]
    corpus: str
    path: Path
    only: Sequence[str] = ()
    jobs: int = 1
    resume: bool = False
    progress: Progress = lambda *_: None
    slots: CpuPermits | None = None
    rank: int = 0
    stop: StopSignal = field(default_factory=StopSignal)


@dataclass(slots=True)
class _State:
    """What the threads share: groups to ask, groups answered, whether to stop, and whom they ask."""

    todo: deque[list[Case]]
    stop: threading.Event
    committed: bool
    done: SimpleQueue[_Answer | BaseException | None] = field(default_factory=SimpleQueue)


_Answer = tuple[Case, TimedObservation]


def trivial_decodes() -> list[bytes]:
    """What the time limit is calibrated on: one small batch of each magic that anybody reads, again and again."""
    record = Record(0, 1_700_000_000_000, b"key", b"value")
    batch = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=record.timestamp, records=(record,))
    return [encode(batch)] * 6


def run(plan: RunPlan) -> Results:
    """Ask, judge and write everything; then read the file back.

    Raises:
        CannotRun: the testee does not start.
        Interrupted: ctrl-C.
        Unusable: resuming, and the file is of another run.
    """
    slots = plan.slots or CpuPermits(plan.jobs)
    turn = CpuPermit(slots, (plan.rank, 0), plan.stop.event)
    first = Sandbox(plan.connection, turn=turn)
    plan.stop.sandboxes.append(first)
    try:
        turn.take()
        hello = first.hello()
        plan = replace(plan, slots=slots, cases=relevant_cases(plan.cases, hello))
        first.calibrate(trivial_decodes())
        header = _header(plan, hello, first.seconds)
        earned = _earned(plan, header)
        if earned is not None and earned.complete:
            return earned
        _ask_the_rest(plan, header, hello, first, earned.lines if earned else ())
        _check_stopped(plan.stop.event)
    except (KeyboardInterrupt, CannotRun) as error:
        if isinstance(error, CannotRun) and not plan.stop.asked:
            raise
        raise Interrupted(_lines_in(plan.path), len(plan.cases)) from None
    finally:
        first.close()
        turn.give()
    return results.read_results(plan.path)


Outcome = Results | Exception


def _slowness(plan: RunPlan) -> tuple[int, bool]:
    """A virtual machine takes longest, then Python; what is known of that is the memory that it needs."""
    return plan.connection.memory, plan.connection.nest


class ParallelRuns:
    """Some runs side by side on *jobs* processors, the slowest in front, so that none is left alone at the end."""

    def __init__(self, plans: Sequence[RunPlan], jobs: int) -> None:
        self._slots = CpuPermits(jobs)
        front = sorted(range(len(plans)), key=lambda at: _slowness(plans[at]), reverse=True)
        ranks = {at: rank for rank, at in enumerate(front)}
        self._plans = [replace(plan, slots=self._slots, jobs=jobs, rank=ranks[at]) for at, plan in enumerate(plans)]
        self._left = set(range(len(plans)))
        self._ended: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Start them; give the place of each in *plans* when it has ended, and its results or what `run` raised."""
        for at, plan in enumerate(self._plans):
            threading.Thread(target=self._run, args=(at, plan), daemon=True).start()
        while self._left:
            at, outcome = self._ended.get()
            if at in self._left:
                self._left.discard(at)
                yield at, outcome

    def stop(self) -> None:
        """End them, from any thread; each that was not done ends as `Interrupted`."""
        threading.Thread(target=self._stop, daemon=True).start()

    def _run(self, at: int, plan: RunPlan) -> None:
        try:
            self._ended.put((at, run(plan)))
        except Exception as error:  # told where the run was asked for
            self._ended.put((at, error))

    def _stop(self) -> None:
        end = time.monotonic() + STOP_SECONDS
        while self._left and time.monotonic() < end:
            for at in tuple(self._left):
                self._plans[at].stop.asked = True
                self._plans[at].stop.stop(self._slots)
            time.sleep(LOOK_SECONDS / 4)
        for at in tuple(self._left):
            plan = self._plans[at]
            self._ended.put((at, Interrupted(_lines_in(plan.path), len(plan.cases))))


def _lines_in(path: Path) -> int:
    try:
        return len(results.read_results(path).lines)
    except Unusable:
        return 0


def relevant_cases(cases: Sequence[Case], hello: HelloReply) -> list[Case]:
    """Those of *cases* that are for whoever says *hello*."""
    deaf = hello.consumer and not hello.committed
    return [case for case in cases if is_relevant(case, append=hello.append, deaf=deaf)]


def _header(plan: RunPlan, hello: HelloReply, seconds: float) -> ResultHeader:
    testee = msgspec.to_builtins(sanitize_hello(hello)) | {"connect": plan.connection.name}
    settings = {"jobs": plan.jobs, "memory": plan.connection.memory, "seconds": round(seconds, 3)}
    return ResultHeader(
        testee=testee, corpus=plan.corpus, cases=len(plan.cases), only=list(plan.only), settings=settings
    )


def sanitize_hello(hello: HelloReply) -> HelloReply:
    """What a testee says of itself, fit to be kept and shown."""
    said = {name: printable(getattr(hello, name), MAX_NAME) for name in ("name", "version", "language", "runtime")}
    return msgspec.structs.replace(hello, decode=_cut(hello.decode), encode=_cut(hello.encode), **said)


def _cut(capability: Capability) -> Capability:
    compressions = [printable(name, MAX_NAME) for name in capability.compressions[:MAX_CLAIMS]]
    return Capability(capability.magics[:MAX_CLAIMS], compressions)


def _earned(plan: RunPlan, header: ResultHeader) -> Results | None:
    """What an earlier run left at *plan.path*, if this one goes on with it."""
    if not plan.resume or not plan.path.exists():
        return None
    try:
        old = results.read_results(plan.path)
    except Unusable as error:
        if "there is no header" in str(error):
            return None
        raise
    results.check_same_run(old.header, header)
    return old


def _ask_the_rest(
    plan: RunPlan, header: ResultHeader, hello: HelloReply, first: Sandbox, earned: Sequence[ResultLine]
) -> None:
    known = {line.case for line in earned}
    rest = [case for case in plan.cases if case.id not in known]
    skipped = {case.id: reason for case in rest if (reason := unsupported(case, hello))}
    asked = [case for case in rest if case.id not in skipped]
    writer = results.ResultWriter(plan.path, header, earned)
    began = time.monotonic()
    try:
        writer.write(_skip(case, skipped[case.id]) for case in rest if case.id in skipped)
        sandboxes = _ask(plan, asked, first, writer, hello)
        _finish(writer, plan, sandboxes, time.monotonic() - began)
    finally:
        writer.close()


def _skip(case: Case, skipped: Skipped) -> ResultLine:
    return results.result_line(case, judge(case, skipped), observation_summary(skipped), 0.0, 0)


def _finish(writer: results.ResultWriter, plan: RunPlan, sandboxes: Sequence[Sandbox], seconds: float) -> None:
    tallies = [sandbox.tally for sandbox in sandboxes]
    writer.finish(
        counts=results.read_results(plan.path).counts(),
        seconds=round(seconds, 3),
        waited=round(sum(tally.waited for tally in tallies), 3),
        starts=sum(tally.starts for tally in tallies),
        strays=sum(tally.strays for tally in tallies),
        first_stray=next((tally.first_stray for tally in tallies if tally.first_stray), ""),
        late_ends=sum(tally.late_ends for tally in tallies),
        first_late_end=next((tally.first_late_end for tally in tallies if tally.first_late_end), ""),
    )


def _ask(
    plan: RunPlan, cases: Sequence[Case], first: Sandbox, writer: results.ResultWriter, hello: HelloReply
) -> list[Sandbox]:
    at_once = -(-len(cases) // (plan.jobs * 4))
    state = _State(deque(group_cases(cases, min(at_once, TOGETHER))), plan.stop.event, hello.committed)
    sandboxes = [first, *_others(plan, first, min(plan.jobs + WAITING, len(state.todo)))]
    plan.stop.sandboxes.extend(sandboxes[1:])
    threads = [threading.Thread(target=_work, args=(state, sandbox), daemon=True) for sandbox in sandboxes]
    for thread in threads:
        thread.start()
    done, findings = len(plan.cases) - len(cases), 0
    try:
        for answers in _collected(state, len(threads)):
            lines = [_judged(case, answered) for case, answered in answers]
            writer.write(lines)
            done += len(lines)
            findings += sum(line.outcome not in ("agree", "skipped") for line in lines)
            plan.progress(done, len(plan.cases), findings)
    except BaseException:
        _stop(state, plan, threads)
        raise
    for thread in threads:
        thread.join()
    return sandboxes


def _others(plan: RunPlan, first: Sandbox, workers: int) -> Iterator[Sandbox]:
    assert plan.slots is not None
    for number in range(1, workers):
        yield first.another(CpuPermit(plan.slots, (plan.rank, number), plan.stop.event))


def _check_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise KeyboardInterrupt


def _judged(case: Case, answered: TimedObservation) -> ResultLine:
    observation = answered.observation
    verdict = judge(case, observation)
    return results.result_line(case, verdict, observation_summary(observation), answered.seconds, answered.deaths)


def _collected(state: _State, workers: int) -> Iterator[list[_Answer]]:
    """Answers as they come, until every worker is done; raises what a worker raised."""
    while workers:
        answers: list[_Answer] = []
        for item in _available(state):
            if isinstance(item, BaseException):
                raise item
            if item is None:
                workers -= 1
            else:
                answers.append(item)
        yield answers


def _available(state: _State) -> Iterator[_Answer | BaseException | None]:
    """At least one item, and all that are there; none once the run is stopped."""
    while state.done.empty():
        try:
            yield state.done.get(timeout=LOOK_SECONDS)
            break
        except Empty:
            _check_stopped(state.stop)
    while not state.done.empty():
        yield state.done.get()


def _work(state: _State, sandbox: Sandbox) -> None:
    try:
        while sandbox.take_turn() and (group := _next(state.todo)):
            answers = sandbox.ask([request_for(case, committed=state.committed) for case in group])
            for case, answered in zip(group, answers, strict=True):
                # A testee that was ended because the run stops has not crashed.
                if state.stop.is_set():
                    return
                state.done.put((case, answered))
        sandbox.close()
        state.done.put(None)
    except BaseException as error:
        state.done.put(error)
    finally:
        sandbox.close()
        sandbox.give_turn()


def _next(todo: deque[list[Case]]) -> list[Case] | None:
    try:
        return todo.popleft()
    except IndexError:
        return None


def _stop(state: _State, plan: RunPlan, threads: Sequence[threading.Thread]) -> None:
    """End workers and testees; at the normal end there is nothing left to do."""
    state.todo.clear()
    end = time.monotonic() + STOP_SECONDS
    for thread in threads:
        while thread.is_alive() and time.monotonic() < end:
            assert plan.slots is not None
            plan.stop.stop(plan.slots)
            thread.join(0.05)
