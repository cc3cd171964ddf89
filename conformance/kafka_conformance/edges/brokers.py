"""Kafka-compatible brokers: their answers to the corpus' scenarios, judged by those recorded of Apache Kafka.

`broker_rows` makes the rows of the corpus.

A scenario is right if a broker answers it as one of `JUDGES` does.  What the
broker does not announce is `not run`.  In the answers these count:

    FAIL        other records stored or served; valid data refused; damage, a duplicate or a foreign epoch accepted
    HOSTILE     one request that Kafka refuses stops the broker, or makes the partition unreadable
    NON_STRICT  accepted although Kafka refuses it; refused in a way on which clients send again without end
    INFO        another error code, another form of the same records
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import UNSET

from kafka_brokers.external import ExternalBroker, StartedBroker
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import start_jvm
from kafka_brokers.scenarios.runner import CannotPlay
from kafka_brokers.wire import Client, GarbledResponse, Produced, TopicPartition, WireError, tables
from kafka_conformance.edges import BadEdgesError, EdgeCell, EdgeGrade, EdgeRow, edge_address, said
from kafka_conformance.edges.broker_rows import (
    ANSWERED_TIME,
    APACHE,
    FIRST_FETCH_OF_V2,
    FIRST_PRODUCE_OF_V2,
    GROUPS,
    IDEMPOTENCE,
    JUDGES,
    LEADER_EPOCH,
    ZERO_WAIT,
    cases_by_row,
    group_of,
    has_old_step,
    mode_of,
)
from kafka_conformance.edges.running import CannotRunEdges
from kafka_conformance.judge.grade import GRADES, Grade, grade_rank
from kafka_conformance.judge.observation import (
    Crashed,
    Garbled,
    Hung,
    Observation,
    ScenarioAnswers,
    Skipped,
    how_it_ended,
)
from kafka_conformance.runner.broker import ending_after, observe_scenario, scenario_recorder
from kafka_conformance.testees.recipe import (
    BuildError,
    BuildRecipe,
    build_testee,
    fill_recipe_command,
    read_recipes,
    shipped,
)
from kafka_corpus.authoring.build import put
from kafka_corpus.case import Case
from kafka_corpus.scenario import (
    FIRST_OF_V2,
    AddPartitions,
    EndTransaction,
    Fetch,
    InitProducerId,
    Produce,
    Scenario,
    Step,
    StepAnswer,
    WriteMarker,
)
from kafka_records import Batch, Header, Record, RecordFormatError, decode, encode
from kafka_records.layout import MAGIC_OFFSET
from kafka_records.log import split_entries

# KIP-890: before these versions the end of a transaction gives no epoch, and a batch does not add its partition.
FIRST_END_THAT_BUMPS, FIRST_PRODUCE_THAT_ADDS = 5, 12
# KIP-110: before these versions zstd is refused.
FIRST_PRODUCE_OF_ZSTD, FIRST_FETCH_OF_ZSTD = 7, 10
UNSUPPORTED_VERSION: Final = 35
# DUPLICATE_SEQUENCE_NUMBER: Kafka answers the offset of the first copy instead; 1.0 was the last to send this error.
# Producers take it for success without an offset (Sender.java, completeBatch).
DUPLICATE_SEQUENCE: Final = 46
# Cases of one grade that a cell names.
NAMED: Final = 6
LONGEST_WHY: Final = 140
# Errors on which Java's producer sends the same batch again (subclasses of RetriableException).
RETRIABLE: Final = frozenset({2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 74, 75, 78, 100})
MAGIC_OF_V2: Final = 2
# The first version of Fetch that may be answered with v0, v1 and v2.
FIRST_FETCHES: Final = (0, 2, FIRST_FETCH_OF_V2)
# The time of records that are not from the corpus.
TIME: Final = 1_524_709_879_130


# ---- judgement ----


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """How the answers to one scenario differ: a grade, one or two words, and the whole."""

    grade: Grade
    outcome: str
    why: str


# Markers take offsets, and offsets may have gaps.
NO_MARKER: Final = CaseFinding("INFO", "no marker", "no marker in a partition without data of the transaction")


def judge_answers(
    steps: Sequence[Step], want: Sequence[StepAnswer], have: Sequence[StepAnswer], *, strict: bool
) -> CaseFinding | None:
    """The gravest difference up to the first step after which the logs are not the same; None if there is none.

    After a marker that is missing offsets differ by one, so that only refusals are compared.
    """
    found: list[CaseFinding] = []
    written: set[str] = set()
    comparable = True
    for number, (step, right, given) in enumerate(zip(steps, want, have, strict=False), start=1):
        if _lacks_empty_marker(step, right, given, written):
            finding: CaseFinding | None = NO_MARKER
            comparable = False
        else:
            finding = _judge_step(step, right, given, strict=strict, comparable=comparable)
        if isinstance(step, Produce) and right.data:
            written.add(step.producer)
        elif isinstance(step, EndTransaction):
            written.discard(step.producer)
        if finding is not None:
            found.append(CaseFinding(finding.grade, finding.outcome, f"step {number}: {finding.why}"))
            if finding.grade != "INFO":
                break
    return min(found, key=lambda each: grade_rank(each.grade), default=None)


def _lacks_empty_marker(step: Step, want: StepAnswer, have: StepAnswer, written: Container[str]) -> bool:
    """Whether the end of a transaction without data in the partition left out its marker, which no consumer notices."""
    ends = isinstance(step, EndTransaction) and step.producer not in written
    accepted = not (have.error_code or have.closed or have.ended or have.silent)
    return ends and accepted and bool(want.data) and not have.data


def _judge_step(
    step: Step, want: StepAnswer, have: StepAnswer, *, strict: bool, comparable: bool
) -> CaseFinding | None:
    refuses = bool(want.error_code or want.closed or want.silent)
    if have.closed or have.ended:
        return _closed(want, refuses=refuses)
    if refuses and not have.error_code and not have.silent:
        return CaseFinding("FAIL" if strict else "NON_STRICT", "accepts", f"accepted, Kafka: {_refusal(want)}")
    if have.silent and not want.silent:
        return CaseFinding("HOSTILE" if refuses else "FAIL", "no answer", "no answer to the request")
    if have.error_code == DUPLICATE_SEQUENCE and _is_duplicate(step, want) and not have.data:
        what = f"error {have.error_code} for a duplicate, Kafka: offset {want.base_offset}"
        return CaseFinding("INFO", "duplicate error", what)
    if have.error_code and not refuses:
        return CaseFinding("FAIL", "refuses", f"error {have.error_code}, Kafka accepts")
    if have.error_code != want.error_code:
        endless = want.error_code not in RETRIABLE and have.error_code in RETRIABLE and not want.closed
        what = f"error {have.error_code}, Kafka: {_refusal(want)}"
        return CaseFinding("NON_STRICT" if endless else "INFO", "other error", what)
    if (want.beside or 0) != (have.beside or 0):
        return CaseFinding("FAIL", "other partition", f"the other partition gets {have.beside}, Kafka: {want.beside}")
    return _judge_content(step, want, have) if comparable and not refuses else None


def _is_duplicate(step: Step, want: StepAnswer) -> bool:
    """Whether Kafka stores nothing of *step*, and answers where the same batch of its producer is."""
    answered = want.base_offset >= 0 and not (want.error_code or want.closed or want.silent)
    return isinstance(step, Produce) and answered and not want.data


def _closed(want: StepAnswer, *, refuses: bool) -> CaseFinding | None:
    if want.closed or want.silent:
        return None
    if refuses:
        return CaseFinding("NON_STRICT", "closes", f"closes the connection, Kafka: {_refusal(want)}; clients try again")
    return CaseFinding("FAIL", "closes", "closes the connection, Kafka accepts")


def _refusal(answer: StepAnswer) -> str:
    return f"error {answer.error_code}" if answer.error_code else "closes the connection" if answer.closed else "silent"


def _judge_content(step: Step, want: StepAnswer, have: StepAnswer) -> CaseFinding | None:
    for name in ("base_offset", "log_append_time"):
        # A time where none belongs is in every answer: it has a row of its own.
        surplus = name == "log_append_time" and want.log_append_time < 0
        if getattr(want, name) != getattr(have, name) and not surplus:
            word = "other offset" if name == "base_offset" else "other time"
            return CaseFinding("FAIL", word, f"{name} is {getattr(have, name)}, Kafka: {getattr(want, name)}")
    same = without_epochs(want.data) == without_epochs(have.data)
    if not same and (finding := _other_bytes(step, want.data, have.data)) is not None:
        return finding
    committed = isinstance(step, Fetch) and step.isolation == "read_committed"
    if committed and set(want.aborted) != set(have.aborted):
        return CaseFinding("FAIL", "other aborted", f"aborted {have.aborted!r:.60}, Kafka: {want.aborted!r:.60}")
    if not same:
        return CaseFinding("INFO", "other form", "the same records in another form or compression")
    for name in ("record_errors", "high_watermark", "last_stable_offset"):
        if getattr(want, name) != getattr(have, name):
            return CaseFinding("INFO", name.replace("_", " "), f"{name} is {getattr(have, name)!r:.40}")
    return None


def _other_bytes(step: Step, want: bytes, have: bytes) -> CaseFinding | None:
    """The finding where the bytes differ; None if that is only the form of the same records."""
    if want and not _readable(want):
        return CaseFinding("NON_STRICT", "other bytes", "other bytes, from which no client reads records")
    timed = all(batch.magic >= MAGIC_OF_V2 for batch in (*_readable(want), *_readable(have)))
    if content_of(want, timed=timed) == content_of(have, timed=timed):
        newest = max((batch.magic for batch in _readable(have)), default=0)
        if isinstance(step, Fetch) and step.api_version < FIRST_FETCHES[newest]:
            return CaseFinding("FAIL", "newer format", f"v{newest}, which Fetch {step.api_version} does not know")
        return None
    if isinstance(step, Fetch) and _goes_on(want, have, step):
        return CaseFinding("INFO", "other amount", f"{len(have)} bytes, Kafka: {len(want)}")
    return CaseFinding("FAIL", "other data", _first_difference(want, have))


def without_epochs(data: bytes) -> bytes:
    """*data* with a partition leader epoch of 0 in each v2 batch; row `leader-epoch` is about these."""
    try:
        entries = [data[start:end] for start, end in split_entries(data)]
    except RecordFormatError:
        return data
    return b"".join(put(each, "partition_leader_epoch", 0) if each[MAGIC_OFFSET] == 2 else each for each in entries)


def content_of(data: bytes, *, timed: bool = True) -> object:
    """The records that consumers read of *data*, and its end; the bytes themselves if there are none.

    The maximal timestamp of a v2 batch counts if *timed*.
    """
    try:
        batches = decode(data)
    except RecordFormatError:
        return without_epochs(data)
    ends = [
        (header["last_offset"], timed and header["max_timestamp"])
        for header in map(_header_of, [batch for batch in batches if batch.records][-1:])
    ]
    return _records_of(batches) + ends


def _header_of(batch: Batch) -> dict[str, object]:
    """The fields of a header that consumers read: no epoch or time of a marker, no maximal time of v0 and v1."""
    return {
        "timestamp_type": batch.timestamp_type,
        "producer_id": batch.producer_id,
        "producer_epoch": -1 if batch.control else batch.producer_epoch,
        "transactional": batch.transactional,
        "control": batch.control,
        "last_offset": batch.last_offset,
        "max_timestamp": -1 if batch.control or batch.magic < MAGIC_OF_V2 else batch.max_timestamp,
    }


def _records_of(batches: Sequence[Batch]) -> list[tuple[object, ...]]:
    """The records with what consumers read of their batch; the epoch and the time of a marker are for brokers."""
    return [
        (
            _as_rebuilt(record._replace(timestamp=-1) if batch.control else record), batch.timestamp_type,
            batch.producer_id, -1 if batch.control else batch.producer_epoch, batch.transactional, batch.control,
        )
        for batch in batches
        for record in batch.records
    ]  # fmt: skip


def _goes_on(want: bytes, have: bytes, step: Fetch) -> bool:
    """Whether *have* is the same log cut at another place, under read_committed not beyond Kafka's end."""
    right, given = _records_of(_readable(want)), _records_of(_readable(have))
    some = min(len(right), len(given))
    beyond = len(given) > len(right) and step.isolation == "read_committed"
    return some > 0 and right[:some] == given[:some] and not beyond


def _as_rebuilt(record: Record) -> Record:
    """Kafka replaces what is no UTF-8 in a header key when it rebuilds a batch; to keep it is no loss."""
    headers = [Header(_as_text(header.key or b""), header.value) for header in record.headers or ()]
    return record._replace(headers=tuple(headers))


def _first_difference(want: bytes, have: bytes) -> str:
    if not have:
        return f"nothing is stored or served, Kafka: {len(want)} bytes"
    try:
        right, given = decode(want), decode(have)
    except RecordFormatError:
        return f"{len(have)} bytes that are not Kafka's {len(want)} bytes"
    records = [[record for record, *_ in _records_of(batches)] for batches in (right, given)]
    for one, other in zip(*records, strict=False):
        for name in Record._fields:
            if getattr(one, name) != getattr(other, name):
                return f"{name} of a record is {getattr(other, name)!r:.40}, Kafka: {getattr(one, name)!r:.40}"
    if len(records[0]) != len(records[1]):
        return f"{len(records[1])} records, Kafka: {len(records[0])}"
    for batch, other_batch in zip(right, given, strict=False):
        for name, value in _header_of(batch).items():
            if value != (other_value := _header_of(other_batch)[name]):
                return f"{name} of a batch is {other_value}, Kafka: {value}"
    return f"{len(given)} batches, Kafka: {len(right)}"


def judge_scenario_case(judged: Mapping[str, Case], observation: Observation, *, strict: bool) -> CaseFinding | None:
    """The mildest difference from one of the releases; None if the broker does as one of them.

    It is not `FAIL` where no producer sends such batches, unless they were damaged on their way.
    """
    found: list[CaseFinding] = []
    for case in judged.values():
        assert isinstance(case.input, Scenario)
        ordinary = is_ordinary(case.input.steps)
        accepts = not any(answer.error_code or answer.closed or answer.silent for answer in case.expect.answers)
        if isinstance(observation, ScenarioAnswers):
            finding = judge_answers(case.input.steps, case.expect.answers, observation.answers, strict=strict)
        else:
            finding = _stopped(observation, grade="FAIL" if accepts and ordinary else "HOSTILE")
        if finding is None:
            return None
        damaged = finding.outcome == "accepts" and has_wrong_checksum(case.input.steps)
        if finding.grade == "FAIL" and not ordinary and not damaged:
            finding = replace(finding, grade="NON_STRICT", why=f"{finding.why}; no producer sends such a batch")
        found.append(finding)
    # Of the first release if they are of one grade.
    return max(found, key=lambda each: (grade_rank(each.grade), each is found[0]))


def _without_old_versions(observation: Observation) -> bool:
    """Whether the broker refuses the version itself: Kafka 4 announces Produce 0, and closes the connection on it."""
    return isinstance(observation, ScenarioAnswers) and any(
        answer.closed or answer.error_code == UNSUPPORTED_VERSION for answer in observation.answers
    )


def is_ordinary(steps: Sequence[Step]) -> bool:
    """Whether producers send such batches, and clients such requests: plain offsets, times, ids and header keys."""
    begun: set[str] = set()
    if not _keeps_to_transactions(steps):
        return False
    for step in steps:
        if isinstance(step, WriteMarker):
            return False
        if not isinstance(step, Produce):
            continue
        # A payload that a recipe makes is too large to be read for this.
        if step.data is UNSET or step.again is not UNSET or not _is_written(step.data):
            return False
        if step.beside is not UNSET and not (_is_written(step.beside) and _is_of_no_producer(step.beside)):
            return False
        if not step.producer and not _is_of_no_producer(step.data):
            return False
        if step.producer and step.producer not in begun and any(each.base_sequence for each in _readable(step.data)):
            return False
        begun.add(step.producer)
    return True


def _keeps_to_transactions(steps: Sequence[Step]) -> bool:
    """Whether only initialised transactional ids are named, and producers send no plain data in their transactions."""
    initialised: set[str] = set()
    open_: set[str] = set()
    for step in steps:
        match step:
            case InitProducerId(producer, transactional):
                open_.discard(producer)
                if transactional:
                    initialised.add(producer)
            case AddPartitions(producer):
                open_.add(producer)
            case EndTransaction(producer):
                open_.discard(producer)
            case Produce(producer=producer, transactional=True):
                if producer not in initialised:
                    return False
                open_.add(producer)
            case Produce(producer=producer):
                if producer in open_:
                    return False
    return True


def _is_of_no_producer(payload: bytes) -> bool:
    return all(batch.producer_id == -1 and not batch.transactional for batch in _readable(payload))


def _readable(payload: bytes) -> Sequence[Batch]:
    try:
        return decode(payload)
    except RecordFormatError:
        return ()


def _is_written(payload: bytes) -> bool:
    batches = _readable(payload)
    try:
        ends = [end for _, end in split_entries(payload)]
    except RecordFormatError:
        return False
    whole = ends[-1:] == [len(payload)] and (len(ends) == 1 or payload[MAGIC_OFFSET] < MAGIC_OF_V2)
    return whole and bool(batches) and all(map(_is_plain, batches))


def has_wrong_checksum(steps: Sequence[Step]) -> bool:
    """Whether a step produces a batch with a wrong checksum."""
    for step in steps:
        if isinstance(step, Produce) and step.data is not UNSET:
            try:
                decode(step.data)
            except RecordFormatError as error:
                return error.kind == "corrupt"
    return False


def _is_plain(batch: Batch) -> bool:
    """Whether a producer writes *batch* so: offsets without gaps from 0, its own times, the right maximum."""
    count = len(batch.records)
    times = [record.timestamp for record in batch.records]
    return (
        not batch.control
        and count > 0
        and batch.delete_horizon is None
        and batch.base_timestamp in (None, times[0])
        and batch.timestamp_type != "append"
        and [record.offset - batch.base_offset for record in batch.records] == list(range(count))
        and batch.last_offset == batch.base_offset + count - 1
        and (batch.magic < MAGIC_OF_V2 or batch.base_offset == 0)
        and min(times, default=0) >= 0
        and (batch.magic < MAGIC_OF_V2 or batch.max_timestamp == max(times, default=-1))
        and all(_as_text(header.key or b"") == header.key for record in batch.records for header in record.headers)
    )


def _as_text(key: bytes) -> bytes:
    """*key* with what is no UTF-8 in it replaced."""
    return key.decode(errors="replace").encode()


def _stopped(observation: Observation, *, grade: Grade) -> CaseFinding:
    match observation:
        case Crashed():
            return CaseFinding(grade, "crash", f"the broker ended: {how_it_ended(observation)}")
        case Hung():
            return CaseFinding(grade, "hang", how_it_ended(observation))
        case Garbled(why):
            # Nothing stops: clients meet an answer that they cannot read.
            return CaseFinding("FAIL" if grade == "FAIL" else "NON_STRICT", "unreadable", why)
    raise AssertionError(observation)


def broker_cell(row: str, findings: Mapping[str, CaseFinding | None], not_run: Mapping[str, str]) -> EdgeCell:
    """The cell of *row*: findings by case, None where the broker does as Kafka, and why cases were not run."""
    if not findings:
        why = next(iter(not_run.values()), "no case")
        return EdgeCell(row=row, grade="not run", outcome="not announced", detail=said(why))
    bad = {id_: finding for id_, finding in findings.items() if finding is not None}
    grades = Counter(finding.grade for finding in bad.values())
    worst = min(grades, key=grade_rank, default=None)
    grade: EdgeGrade = worst or "PASS"
    outcomes = Counter(finding.outcome for finding in bad.values() if finding.grade == worst)
    outcome = outcomes.most_common(1)[0][0] if outcomes else "as Kafka"
    detail = f"{len(bad)} of {len(findings)} scenarios differ"
    if bad:
        id_, first = next((id_, each) for id_, each in bad.items() if (each.grade, each.outcome) == (grade, outcome))
        detail += f": {first.why}, in {id_}"
    observed: dict[str, object] = {"scenarios": len(findings), "differ": len(bad)}
    if not_run:
        observed["not run"] = len(not_run)
    for each in GRADES:
        of_grade = {id_: f"{one.outcome}: {one.why}"[:LONGEST_WHY] for id_, one in bad.items() if one.grade == each}
        if of_grade:
            observed[each] = {
                "scenarios": len(of_grade),
                "outcomes": dict(Counter(one.outcome for one in bad.values() if one.grade == each).most_common()),
                "first": dict(list(of_grade.items())[:NAMED]),
            }
    return EdgeCell(row=row, grade=grade, outcome=outcome, detail=said(detail), observed=observed)


# ---- columns ----


class BrokerColumn:
    """One broker, measured row by row."""

    def __init__(self, broker: ExternalBroker, version: str, *, release: str = "") -> None:
        """Use *broker*, whose topics are deleted by `close`; *release* is Apache Kafka's, if it is that."""
        self.version = version
        self._release = release
        self._broker = broker
        self._topics: list[str] = []
        self._recorder = scenario_recorder(broker, self._topics)

    def close(self) -> None:
        """Delete the topics that were created."""
        self._recorder.close()
        self._broker.delete_topics(self._topics)

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """Play the scenarios of *row*."""
        if row.id in (
            own := {
                LEADER_EPOCH: self._leader_epoch,
                ZERO_WAIT: self._zero_wait,
                IDEMPOTENCE: self._twice,
                ANSWERED_TIME: self._time,
            }
        ):
            return self._own_cell(row, own[row.id])
        group = next(group for group in GROUPS if row.id.startswith(f"{group.id}-"))
        findings: dict[str, CaseFinding | None] = {}
        not_run: dict[str, str] = {}
        for judged in cases_by_row()[row.id]:
            case = next(iter(judged.values()))
            observation = self._observed(judged)
            if has_old_step(case) and _without_old_versions(observation):
                not_run[case.id] = "Produce below 3 or Fetch below 4 is refused, as by Kafka 4"
            elif isinstance(observation, Skipped):
                not_run[case.id] = observation.reason
            else:
                findings[case.id] = judge_scenario_case(self._judges_of(judged), observation, strict=group.strict)
        return broker_cell(row.id, findings, not_run)

    def _own_cell(self, row: EdgeRow, measured: Callable[[], EdgeCell]) -> EdgeCell:
        """The cell of a row beside the corpus; ordinary requests that end a broker of ours are its defect."""
        try:
            cell = measured()
        except (WireError, NoBroker, CannotPlay) as error:
            cell = EdgeCell(row=row.id, grade="not run", outcome="not announced", detail=said(error))
        if self._broker.can_restart and ending_after(self._broker) is not None:
            self._recorder.renew()
            self._broker.restart()
            return EdgeCell(row=row.id, grade="FAIL", outcome="crash", detail=f"the broker ended; {cell.detail}")
        return cell

    def _observed(self, judged: Mapping[str, Case]) -> Observation:
        if why := self.not_announced(judged):
            return Skipped(why, by_runner=True)
        try:
            return observe_scenario(self._recorder, self._broker, next(iter(judged.values())))
        except WireError as error:
            # The broker cannot be reached any more, and is not ours to start.
            return Crashed(stderr=str(error))

    def _judges_of(self, judged: Mapping[str, Case]) -> Mapping[str, Case]:
        """The releases of *judged* that end transactions in the version of this broker: in older ones epochs stay."""
        case = next(iter(judged.values()))
        assert isinstance(case.input, Scenario)
        ends = any(isinstance(step, EndTransaction) for step in case.input.steps)
        bumps = self._broker.versions(tables.END_TXN.key)[1] >= FIRST_END_THAT_BUMPS
        return judged if bumps or not ends else {JUDGES[1]: judged[JUDGES[1]]} if JUDGES[1] in judged else {}

    def not_announced(self, judged: Mapping[str, Case]) -> str:
        """Why a case is not for this broker: a version that it does not announce; empty if it is."""
        case = next(iter(judged.values()))
        assert isinstance(case.input, Scenario)
        if self._release and self._release not in judged:
            return f"the scenario is not of Kafka {self._release}"
        produce, fetch = (self._broker.versions(api.key) for api in (tables.PRODUCE, tables.FETCH))
        for step in case.input.steps:
            if isinstance(step, Produce) and step.api_version < produce[0]:
                return f"Produce {step.api_version} is not announced"
            if isinstance(step, Fetch) and step.api_version < fetch[0]:
                return f"Fetch {step.api_version} is not announced"
            adds = isinstance(step, Produce) and step.api_version == FIRST_PRODUCE_THAT_ADDS
            if adds and produce[1] < FIRST_PRODUCE_THAT_ADDS and not self._release:
                return f"Produce {FIRST_PRODUCE_THAT_ADDS}, which adds partitions to transactions, is not announced"
        if not self._judges_of(judged):
            return f"EndTxn {FIRST_END_THAT_BUMPS}, which gives the next epoch, is not announced"
        if produce[1] < FIRST_PRODUCE_OF_V2 and group_of(case).id != "old":
            return f"Produce {FIRST_PRODUCE_OF_V2} is not announced"
        zstd = case.area == "produce_zstd" or mode_of(case) == "zstd" or "zstd" in case.id
        if zstd and (produce[1] < FIRST_PRODUCE_OF_ZSTD or fetch[1] < FIRST_FETCH_OF_ZSTD):
            return f"zstd: Produce {FIRST_PRODUCE_OF_ZSTD} and Fetch {FIRST_FETCH_OF_ZSTD} are not announced"
        return ""

    def _new_topic(self) -> TopicPartition:
        topic = f"kafkaproof-own-{len(self._topics)}-{id(self):x}"
        self._topics.append(topic)
        self._broker.create_topics({topic: 1})
        return TopicPartition(topic, 0)

    def _produced(self, client: Client, where: TopicPartition) -> Produced:
        client.metadata([where.topic])
        given = client.produce({where: _of_producer(-1)})
        if not isinstance(given, dict) or where not in given:
            raise GarbledResponse("no answer to a produce request")
        return given[where]

    def _stored(self) -> TopicPartition:
        """A partition with one batch."""
        where = self._new_topic()
        with self._broker.client() as client:
            self._produced(client, where)
        return where

    def _twice(self) -> EdgeCell:
        batches = [_of_producer(sequence) for sequence in (0, 0, 1, 5)]
        produces = [Produce(data=each, producer="p") for each in batches]
        steps: tuple[Step, ...] = (InitProducerId("p", transactional=False), *produces)
        _, first, again, second, early = self._recorder.play(Scenario(steps=steps, since=FIRST_OF_V2))
        codes = [answer.error_code for answer in (first, again, second, early)]
        offsets = [answer.base_offset for answer in (first, again, second)]
        observed = {"errors": codes, "offsets": offsets}
        duplicate, gap = again.data != b"" or offsets[2] != 1, not codes[3]
        if not duplicate and not gap and codes[:3] == [0, 0, 0] and offsets == [0, 0, 1]:
            return EdgeCell(row=IDEMPOTENCE, grade="PASS", outcome="as Kafka", observed=observed)
        outcome = "duplicates" if duplicate else "gaps" if gap else "refuses"
        grade: EdgeGrade = "FAIL" if duplicate or gap or codes[0] or codes[2] else "INFO"
        detail = f"first, again, next, and four too early: errors {codes}, offsets {offsets}"
        return EdgeCell(row=IDEMPOTENCE, grade=grade, outcome=outcome, detail=detail, observed=observed)

    def _fetched(self, where: TopicPartition, **fields: int) -> bytes:
        with self._broker.client() as client:
            client.metadata([where.topic])
            given = client.fetch({where: 0}, **fields)
        return given[where].records if isinstance(given, dict) and where in given else b""

    def _time(self) -> EdgeCell:
        with self._broker.client() as client:
            answer = self._produced(client, self._new_topic())
        observed = {"log_append_time": answer.log_append_time}
        if answer.log_append_time == -1:
            return EdgeCell(row=ANSWERED_TIME, grade="PASS", outcome="as Kafka", observed=observed)
        detail = f"it is {answer.log_append_time}, and Java's RecordMetadata has that as the record's time"
        return EdgeCell(row=ANSWERED_TIME, grade="FAIL", outcome="other time", detail=detail, observed=observed)

    def _zero_wait(self) -> EdgeCell:
        where = self._stored()
        waited, at_once = self._fetched(where, max_wait_ms=500), self._fetched(where, max_wait_ms=0)
        observed = {"bytes at once": len(at_once), "bytes within 500 ms": len(waited)}
        if at_once == waited:
            return EdgeCell(row=ZERO_WAIT, grade="PASS", outcome="as Kafka", observed=observed)
        detail = f"{len(at_once)} bytes with fetch.max.wait.ms=0, {len(waited)} bytes with 500"
        return EdgeCell(row=ZERO_WAIT, grade="FAIL", outcome="no records", detail=detail, observed=observed)

    def _leader_epoch(self) -> EdgeCell:
        where = self._stored()
        stored = decode(self._fetched(where, max_wait_ms=500))
        with self._broker.client() as client:
            (topic,) = client.metadata([where.topic])["topics"]
        epoch = topic["partitions"][0].get("leader_epoch", 0)
        has = stored[0].partition_leader_epoch if stored else None
        observed = {"stored": has, "metadata": epoch}
        if has == epoch:
            return EdgeCell(row=LEADER_EPOCH, grade="PASS", outcome="as Kafka", observed=observed)
        detail = f"the batch has {has}, Metadata says {epoch}; consumers then cannot notice a truncated log"
        return EdgeCell(row=LEADER_EPOCH, grade="INFO", outcome="other epoch", detail=detail, observed=observed)


def _of_producer(sequence: int) -> bytes:
    """A batch of one record with *sequence*, -1 for none; the runner writes id and epoch."""
    record = Record(offset=0, timestamp=TIME, key=None, value=b"%d" % sequence)
    return encode(
        Batch(
            magic=2,
            base_offset=0,
            last_offset=0,
            max_timestamp=TIME,
            records=(record,),
            producer_id=-1 if sequence < 0 else 1,
            producer_epoch=-1 if sequence < 0 else 0,
            base_sequence=sequence,
        )
    )


@cache
def broker_recipes() -> Mapping[str, BuildRecipe]:
    """The brokers that are built here, by name."""
    folder = shipped("kafka_conformance", installed="broker_recipes", checkout="brokers")
    found = [recipe for path in sorted(folder.glob("*/testee.toml")) for recipe in read_recipes(path)]
    return {recipe.name: recipe for recipe in found}


def columns() -> Sequence[str]:
    """The releases that judge, and the brokers that have a recipe."""
    return (*(f"{APACHE}{release}" for release in reversed(JUDGES)), *sorted(broker_recipes()))


def broker_command(recipe: BuildRecipe, built: Path) -> list[str]:
    """The command line that starts the broker; `{port}` and `{data}` are still in it."""
    return fill_recipe_command(recipe.run, build=built, version=recipe.version)


@contextmanager
def opened(column: str) -> Iterator[BrokerColumn]:
    """Start the broker *column*, or connect to it where it is `HOST:PORT`.

    Raises:
        BadEdgesError: it is neither a known broker nor `HOST:PORT`.
        CannotRunEdges: it cannot be built, started or reached.
    """
    try:
        with _broker(column) as (broker, version):
            measure = BrokerColumn(broker, version, release=version if column.startswith(APACHE) else "")
            try:
                yield measure
            finally:
                measure.close()
    except BadEdgesError:
        raise
    except (NoBroker, BuildError, ValueError) as error:
        raise CannotRunEdges(f"{column}: {said(error)}") from error


@contextmanager
def _broker(column: str) -> Iterator[tuple[ExternalBroker, str]]:
    if column.startswith(APACHE):
        release = column.removeprefix(APACHE)
        with start_jvm(release) as jvm, ExternalBroker(jvm.bootstrap) as broker:
            yield broker, release
        return
    recipe = broker_recipes().get(column)
    if recipe is None:
        edge_address(column)
        with ExternalBroker(column) as broker:
            yield broker, ""
        return
    with StartedBroker(broker_command(recipe, build_testee(recipe))) as broker:
        yield broker, recipe.version
