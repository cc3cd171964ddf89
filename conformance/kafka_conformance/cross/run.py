"""Run producer by consumer: each testee writes, a broker stores, each testee reads.

Workers are threads with a testee each, one testee to a worker at a time; this
thread judges nothing twice and writes.  Equal bytes for one batch are sent once.

The column of the broker: written bytes are produced to it, each on a partition of
its own, and fetched back.  The bytes that Kafka's own writer would send, by the
reference, go first.  What the broker does with those is right, so a batch that no
client may send (a marker, say) is refused from every writer, and no side is to blame.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import msgspec

from kafka_brokers.interface import Broker
from kafka_brokers.releases import find_release
from kafka_brokers.scenarios.recorder import Recorder
from kafka_brokers.scenarios.runner import CannotPlay
from kafka_brokers.wire import UnsupportedVersion, WireError
from kafka_conformance.cross import results
from kafka_conformance.cross.results import CrossHeader, CrossResults, Line, ReadLine, StoredLine, WrittenLine, hash_of
from kafka_conformance.cross.verdict import of_broker, of_reader, of_writer, reading
from kafka_conformance.judge.observation import Encoded, Observation
from kafka_conformance.runner.requests import (
    CaseRequest,
    request_for,
    select,
    split_groups,
    unsupported,
    unsupported_bytes,
)
from kafka_conformance.runner.results import Unusable, sanitize_hello
from kafka_conformance.runner.run import Interrupted, trivial_decodes
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.runner.workers import STOP_SECONDS
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import CannotRun, ConnectionSpec
from kafka_conformance.testees.protocol import HelloReply
from kafka_corpus.case import Case, Op
from kafka_corpus.scenario import (
    FIRST_PRODUCE_OF_V2,
    NEWEST,
    AddPartitions,
    InitProducerId,
    Produce,
    Scenario,
    Step,
    StepAnswer,
    release_number,
)
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch, RecordFormatError, decode
from kafka_records.constants import MAGIC_VALUE_V2

# A topic takes any time; the setting came with 3.6 (KIP-937), and before there was no limit.
ANY_TIME: Final = {"message.timestamp.after.max.ms": str(2**63 - 1)}
FIRST_WITH_LIMIT: Final = (3, 6)
ALIAS: Final = "producer"


class Taker:
    """A broker that takes what producers wrote, and remembers what it makes of the right bytes."""

    def __init__(self, broker: Broker) -> None:
        self._recorder = Recorder(broker)
        self._release = broker.release
        self._magics = find_release(broker.release).magics
        self._right: dict[str, StepAnswer] = {}
        self.name = f"Kafka {broker.release}"

    def close(self) -> None:
        """Let go of the connection."""
        self._recorder.close()

    def take(self, case: Case, written: Mapping[str, bytes]) -> Iterator[StoredLine]:
        """The broker's result for each byte string in *written* for *case*, by hash."""
        for sha256, data in written.items():
            yield self._take(case, sha256, data)

    def _take(self, case: Case, sha256: str, data: bytes) -> StoredLine:
        assert isinstance(case.input, Batch)
        if case.input.magic not in self._magics:
            return StoredLine(batch=case.id, sha256=sha256, outcome="skipped", why=f"{self.name} takes no magic so old")
        assert case.expect.data is not None
        try:
            right = self._answer(case, case.expect.data)
            given = right if data == case.expect.data else self._scenario_answer(case, data)
        except (CannotPlay, UnsupportedVersion) as error:
            return StoredLine(batch=case.id, sha256=sha256, outcome="skipped", why=str(error))
        judged = asdict(of_broker(right, given, self.name))
        return StoredLine(batch=case.id, sha256=sha256, data=given.data, right=right.data, **judged)

    def _answer(self, case: Case, data: bytes) -> StepAnswer:
        if case.id not in self._right:
            self._right[case.id] = self._scenario_answer(case, data)
        return self._right[case.id]

    def _scenario_answer(self, case: Case, data: bytes) -> StepAnswer:
        try:
            return self._recorder.play(self._scenario(case, data))[-1]
        except UnsupportedVersion:
            raise
        except WireError:
            self._recorder.renew()
            return StepAnswer(ended=True)

    def _scenario(self, case: Case, data: bytes) -> Scenario:
        batch = case.input
        assert isinstance(batch, Batch)
        version = NEWEST if batch.magic >= MAGIC_VALUE_V2 else FIRST_PRODUCE_OF_V2 - 1
        steps: tuple[Step, ...] = (Produce(data=data, api_version=version),)
        # Bytes get the id and epoch of a real transaction, and a new checksum; broken ones stay as they are.
        if batch.transactional and not batch.control and not isinstance(reading(data), RecordFormatError):
            produce = Produce(data=data, api_version=version, producer=ALIAS, transactional=True)
            steps = (InitProducerId(ALIAS), AddPartitions(ALIAS), produce)
        limited = release_number(self._release) >= FIRST_WITH_LIMIT
        return Scenario(steps=steps, config=dict(ANY_TIME) if limited else {})


# Every magic, codec and shape of a record, transactions and markers, and the mistakes that writers are known for.
USUAL: Final = (
    "writers",
    "v2_encode.create_time",
    "v2_encode.many_headers",
    "v2_encode.append_time",
    "v2_encode.gaps_after_compaction",
    "v2_encode.empty_batch",
    "v2_encode.end_marker",
    "v2_encode.largest_value_of_a_field",
    "v2_headers.key_is_written_as_utf_8",
    "v2_offsets.writer_takes_the_largest_delta",
    "timestamp.writer_takes_the_first_as_base",
    "timestamp.writer_takes_the_largest_as_max",
    "varint.writer_of_a_timestamp_delta",
    "transactions.write_*",
    "legacy_encode.message",
    "legacy_encode.several_messages",
    "legacy_encode.wrapper",
    "legacy_encode.absolute_offsets",
    "legacy_encode.relative_offsets",
    "legacy_encode.append_time_inside",
    "legacy_encode.timestamp_none",
)


def encode_requests(only: Sequence[str] = ()) -> list[Case]:
    """The valid encode cases that *only* names, or the `USUAL` ones.

    Raises:
        OSError, ValueError: the corpus cannot be read.
    """
    return select(_encode_cases(), only or USUAL)


@cache
def _encode_cases() -> tuple[Case, ...]:
    encode: tuple[Op, ...] = ("encode",)
    return tuple(case for case in load_vectors(ops=encode) if _can_be_read_back(case))


def _can_be_read_back(case: Case) -> bool:
    # What has to be refused, or may be, says nothing to a reader.
    return case.expect.verdict == "valid" and isinstance(case.input, Batch) and case.expect.data is not None


READ: Final = ("written", "stored")
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossRunPlan:
    """The testees, batches and broker of a cross run, and the place of its results.

    Attributes:
        connections: the testees, by the names that they have in the matrix.
        absent: those that cannot run here, and why.
        cases: the batches, as encode cases.
        corpus: the hash of the corpus that they come from.
        path: the result file.
        broker: a running broker, or None.
        read: whether consumers get what was `written`, or what the broker `stored` of it.
        jobs: how many testees run at once.
        resume: go on with an incomplete file at *path*.
        part: whether testees or batches were chosen.
        strict: whether a testee that does not start ends the run, and is not just absent.
        progress: called with the step, the number done and the total.
    """

    connections: Mapping[str, ConnectionSpec]
    absent: Mapping[str, str] = field(default_factory=dict)
    cases: Sequence[Case]
    corpus: str
    path: Path
    broker: Broker | None = None
    read: str = "written"
    jobs: int = 1
    resume: bool = False
    part: bool = False
    strict: bool = True
    progress: OnProgress = lambda *_: None


@dataclass(frozen=True, slots=True)
class Subject:
    """Bytes that consumers have to read, and the batch that they encode."""

    case: Case
    sha256: str
    data: bytes
    expected: tuple[Batch, ...]


@dataclass(slots=True)
class _Cast:
    """The testees that answered, with what they said of themselves."""

    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    hellos: dict[str, HelloReply] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        for sandbox in self.sandboxes.values():
            sandbox.close()


def run(plan: CrossRunPlan) -> CrossResults:
    """Ask, judge and write everything; then read the file back.

    Raises:
        CannotRun: a testee does not start.
        Interrupted: ctrl-C; what was earned is in the file.
        Unusable: resuming, and the file is of another run.
    """
    cast = _Cast(absent=dict(plan.absent))
    try:
        _say_hello(plan, cast)
        header = _header(plan, cast)
        earned = _earned(plan, header)
        if earned is None or not earned.complete:
            _run(plan, cast, header, earned)
    except KeyboardInterrupt:
        raise Interrupted(_lines_in(plan.path), len(plan.cases) * len(plan.connections)) from None
    finally:
        cast.close()
    return results.read_cross_results(plan.path)


def _say_hello(plan: CrossRunPlan, cast: _Cast) -> None:
    for name, connection in plan.connections.items():
        sandbox = cast.sandboxes[name] = Sandbox(connection)
        try:
            cast.hellos[name] = sandbox.hello()
        except CannotRun as error:
            if plan.strict:
                raise
            cast.absent[name] = printable(str(error))
            continue
        sandbox.calibrate(trivial_decodes())


def _header(plan: CrossRunPlan, cast: _Cast) -> CrossHeader:
    testees: list[dict[str, Any]] = []
    for name, hello in cast.hellos.items():
        said = msgspec.to_builtins(sanitize_hello(hello))
        testees.append({"label": name, "connect": plan.connections[name].name, **said})
    release = "" if plan.broker is None else plan.broker.release
    batches = [case.id for case in plan.cases]
    return CrossHeader(
        testees=testees,
        absent=cast.absent,
        corpus=plan.corpus,
        batches=batches,
        broker=release,
        read=plan.read,
        part=plan.part,
    )


def _earned(plan: CrossRunPlan, header: CrossHeader) -> CrossResults | None:
    if not plan.resume or not plan.path.exists():
        return None
    old = results.read_cross_results(plan.path)
    results.check_same_cross_run(old.header, header)
    return old


def _lines_in(path: Path) -> int:
    try:
        found = results.read_cross_results(path)
    except Unusable:
        return 0
    return len(found.written) + len(found.read)


def _run(plan: CrossRunPlan, cast: _Cast, header: CrossHeader, earned: CrossResults | None) -> None:
    began = time.monotonic()
    writer = results.CrossWriter(plan.path, header, earned)
    try:
        written = {} if earned is None else dict(earned.written)
        for lines in _in_threads(plan, cast, _writing(plan, cast, written), "written"):
            writer.write(lines)
            written |= {(line.producer, line.batch): line for line in lines if isinstance(line, WrittenLine)}
        stored = {} if earned is None else dict(earned.stored)
        if plan.broker is not None:
            for number, line in enumerate(_storing(plan, plan.broker, written, stored), 1):
                writer.write([line])
                stored[line.batch, line.sha256] = line
                plan.progress("stored", number, 0)
        subjects = _subjects(plan, written, stored)
        known = set() if earned is None else set(earned.read)
        for lines in _in_threads(plan, cast, _reading(plan, cast, subjects, known), "read"):
            writer.write(lines)
        writer.finish(time.monotonic() - began)
    finally:
        writer.close()


# Writing

_Task = Callable[[], Iterator[list[Line]]]


def _writing(plan: CrossRunPlan, cast: _Cast, known: Mapping[tuple[str, str], WrittenLine]) -> dict[str, _Task]:
    todo = {name: [case for case in plan.cases if (name, case.id) not in known] for name in cast.hellos}
    return {name: _writer_task(name, cases, cast) for name, cases in todo.items() if cases}


def _writer_task(name: str, cases: Sequence[Case], cast: _Cast) -> _Task:
    def task() -> Iterator[list[Line]]:
        beyonds = {case.id: reason for case in cases if (reason := unsupported(case, cast.hellos[name]))}
        yield [_written(name, case, beyonds[case.id]) for case in cases if case.id in beyonds]
        sent = [case for case in cases if case.id not in beyonds]
        for group in split_groups(sent, lambda case: len(case.expect.data or b"")):
            answers = cast.sandboxes[name].ask([request_for(case) for case in group])
            yield [_written(name, case, each.observation) for case, each in zip(group, answers, strict=True)]

    return task


def _written(name: str, case: Case, observation: Observation) -> WrittenLine:
    judged = of_writer(case, observation)
    data = observation.data if isinstance(observation, Encoded) else b""
    # No bytes at all are bytes too, if the producer says that they are the batch.
    sha256 = hash_of(data) if isinstance(observation, Encoded) else ""
    return WrittenLine(producer=name, batch=case.id, data=data, sha256=sha256, **asdict(judged))


# Storing


def _storing(
    plan: CrossRunPlan,
    broker: Broker,
    written: Mapping[tuple[str, str], WrittenLine],
    known: Mapping[tuple[str, str], StoredLine],
) -> Iterator[StoredLine]:
    taker = Taker(broker)
    try:
        for case, found in _by_case(plan, written):
            yield from taker.take(case, {sha: data for sha, data in found.items() if (case.id, sha) not in known})
    finally:
        taker.close()


def _by_case(
    plan: CrossRunPlan, written: Mapping[tuple[str, str], WrittenLine]
) -> Iterator[tuple[Case, dict[str, bytes]]]:
    """The different bytes that were written for each case, by their hash."""
    found: dict[str, dict[str, bytes]] = {case.id: {} for case in plan.cases}
    for line in written.values():
        if line.sha256 and line.batch in found:
            found[line.batch][line.sha256] = line.data
    return ((case, found[case.id]) for case in plan.cases)


# Reading


def _subjects(
    plan: CrossRunPlan, written: Mapping[tuple[str, str], WrittenLine], stored: Mapping[tuple[str, str], StoredLine]
) -> list[Subject]:
    found = (
        _subject(plan, case, sha256, data, stored)
        for case, each in _by_case(plan, written)
        for sha256, data in each.items()
    )
    return [subject for subject in found if subject is not None]


def _subject(
    plan: CrossRunPlan, case: Case, sha256: str, data: bytes, stored: Mapping[tuple[str, str], StoredLine]
) -> Subject | None:
    """The bytes that consumers read; None for those that the broker did not store."""
    right = case.expect.data or b""
    if plan.read == "stored":
        line = stored.get((case.id, sha256))
        if line is None or not line.data:
            return None
        right, data = line.right, line.data
        if isinstance(reading(right), RecordFormatError):
            return None
    return Subject(case, sha256, data, decode(right))


def _reading(
    plan: CrossRunPlan, cast: _Cast, subjects: Sequence[Subject], known: set[tuple[str, str, str]]
) -> dict[str, _Task]:
    tasks = {}
    for name in cast.hellos:
        rest = [each for each in subjects if (name, each.case.id, each.sha256) not in known]
        if rest and cast.hellos[name].decode.magics:
            tasks[name] = _reader_task(name, rest, cast)
    return tasks


def _reader_task(name: str, subjects: Sequence[Subject], cast: _Cast) -> _Task:
    def task() -> Iterator[list[Line]]:
        hello = cast.hellos[name]
        reasons = [unsupported_bytes(each.data, hello) for each in subjects]
        yield [_read(name, each, reason) for each, reason in zip(subjects, reasons, strict=True) if reason]
        sent = [each for each, reason in zip(subjects, reasons, strict=True) if not reason]
        for group in split_groups(sent, lambda each: len(each.data)):
            answers = cast.sandboxes[name].ask([CaseRequest(each.data) for each in group])
            yield [_read(name, each, answer.observation) for each, answer in zip(group, answers, strict=True)]

    return task


def _read(name: str, subject: Subject, observation: Observation) -> ReadLine:
    judged = of_reader(subject.expected, subject.data, observation)
    return ReadLine(consumer=name, batch=subject.case.id, sha256=subject.sha256, **asdict(judged))


# Threads


@dataclass(slots=True)
class _State:
    """State shared by the threads: tasks not begun, lines not written, and whether to stop."""

    todo: deque[tuple[str, _Task]]
    done: SimpleQueue[list[Line] | BaseException | None] = field(default_factory=SimpleQueue)
    stop: threading.Event = field(default_factory=threading.Event)


def _in_threads(plan: CrossRunPlan, cast: _Cast, tasks: Mapping[str, _Task], what: str) -> Iterator[list[Line]]:
    """The lines of all tasks as they come, one task to a testee; raises what a task raised."""
    state = _State(deque(tasks.items()))
    jobs = min(plan.jobs, len(tasks))
    threads = [threading.Thread(target=_work, args=(state, cast), daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    left = len(tasks)
    try:
        while left:
            item = state.done.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                left -= 1
                plan.progress(what, len(tasks) - left, len(tasks))
            else:
                yield item
    finally:
        _stop(state, cast, threads)


def _work(state: _State, cast: _Cast) -> None:
    try:
        while not state.stop.is_set() and state.todo:
            try:
                name, task = state.todo.popleft()
            except IndexError:
                return
            for lines in task():
                # A testee that was ended because the run stops has not crashed.
                if state.stop.is_set():
                    return
                state.done.put(lines)
            cast.sandboxes[name].close()
            state.done.put(None)
    except BaseException as error:
        state.done.put(error)


def _stop(state: _State, cast: _Cast, threads: Sequence[threading.Thread]) -> None:
    state.stop.set()
    state.todo.clear()
    end = time.monotonic() + STOP_SECONDS
    for thread in threads:
        while thread.is_alive() and time.monotonic() < end:
            for sandbox in cast.sandboxes.values():
                sandbox.interrupt()
            thread.join(0.05)
