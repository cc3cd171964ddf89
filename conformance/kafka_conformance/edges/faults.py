"""Producing under faults: each client's producer against brokers that fail in one way, and what becomes of the records.

For each situation a program in the client's language (`producers/COLUMN.*.txt`) sends twenty
records to one partition: four that are stored, after a moment eight that the fault hits, and then
eight more.  It is as a user would write it, with default settings and without retries of its own,
and prints a line for each record, with the error that the library reported or none.  rskafka
has one way to produce, which its adapter calls.

`judge_fault` is a pure function of the requests that came, the records that are stored, and
the reports.  `NAME+idempotent` is a client with its option for idempotence on,
`NAME+plain` one whose default is on, with the option off.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.resources import files
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple

from kafka_brokers.faulty_broker import BrokerFault, FaultyCluster, ProduceRequest
from kafka_brokers.wire.errors import error_name
from kafka_conformance.edges import MAX_SAID, EdgeCell, EdgeGrade, EdgeRow, said
from kafka_conformance.edges.running import CannotRunEdges
from kafka_conformance.testees.connection import import_path
from kafka_conformance.testees.known import KnownTestee, find_testee
from kafka_conformance.testees.recipe import BuildError, BuildRecipe, build_testee, built_command
from kafka_records import Batch, RecordFormatError, decode
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS

TOPIC: Final = "faults"
PARTITION: Final = 0
# Records that are sent together: those that are stored first, those that the fault hits, and later ones.
GROUPS: Final = (range(4), range(4, 12), range(12, 20))
FIRST, HIT, LATER = GROUPS
COUNT: Final = LATER.stop
# Seconds between the groups: time for one to be answered.
PAUSE: Final = 0.8
# Of a situation whose groups left together, as on a crowded machine.
TRIES: Final = 3
# Seconds in which an answer of a request is awaited while a second one is sent.
IN_FLIGHT: Final = 2.0
# Seconds after which a producer that has not reported each record hangs: more than `delivery.timeout.ms` of Java's.
LIMIT: Final = 150.0
VALUE_SIZE: Final = 100
HEADER_SIZE: Final = 61
UNKNOWN_PRODUCER_ID: Final = 59
# Requests whose outline is kept with a result.
MOST_OUTLINES: Final = 12

Expected = Literal["sent", "split", "reported", "paused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One row: the fault, what the records are compressed with, and what has to become of them.

    Attributes:
        fault: what the brokers do.
        compression: what the records are compressed with.
        expected: `sent`: all records are stored; `split`: in smaller batches; `reported`: those of the batch are
            reported as failed; `paused`: as `sent`, and nothing is sent during the throttle time.
        idempotent: whether only idempotent producers can meet it.
        may_end: whether a library may stop for good, and say so.
    """

    fault: BrokerFault
    compression: Literal["none", "gzip"] = "none"
    expected: Expected = "sent"
    idempotent: bool = False
    may_end: bool = False


def _after_first(**fault: Any) -> BrokerFault:
    """A fault for the request after the first records are stored."""
    return BrokerFault(after=len(FIRST), **fault)


SITUATIONS: Final[Mapping[str, Situation]] = {
    "disconnect-before": Situation(fault=_after_first(hangs_up=True)),
    "disconnect-after": Situation(fault=_after_first(hangs_up=True, stores=True)),
    "disconnect-in-flight": Situation(fault=_after_first(hangs_up=True, stores=True, seconds=IN_FLIGHT)),
    "answer-late": Situation(fault=_after_first(stores=True, seconds=45)),
    "throttle": Situation(fault=_after_first(stores=True, throttle_ms=2000), expected="paused"),
    "leader-moves": Situation(fault=_after_first(error=6, moves=True), compression="gzip"),
    "corrupt-message": Situation(fault=_after_first(error=2)),
    "unknown-topic": Situation(fault=_after_first(error=3)),
    "leader-not-available": Situation(fault=_after_first(error=5)),
    "request-timed-out": Situation(fault=_after_first(error=7, stores=True)),
    "not-enough-replicas": Situation(fault=_after_first(error=19)),
    "not-enough-replicas-after-append": Situation(fault=_after_first(error=20, stores=True), compression="gzip"),
    "seven-errors-after-append": Situation(fault=_after_first(error=20, stores=True, times=7)),
    "storage-error": Situation(fault=_after_first(error=56)),
    "three-errors": Situation(fault=_after_first(error=19, times=3), compression="gzip"),
    "error-in-flight": Situation(fault=_after_first(error=19, seconds=IN_FLIGHT)),
    "first-error-in-flight": Situation(fault=BrokerFault(error=19, seconds=IN_FLIGHT)),
    "rejected": Situation(fault=_after_first(error=87), expected="reported"),
    "too-large": Situation(fault=_after_first(times=0, most_bytes=700), expected="split"),
    "too-large-gzip": Situation(fault=_after_first(times=0, most_bytes=400), compression="gzip", expected="split"),
    "unknown-producer-id": Situation(fault=_after_first(error=59, forgets=True), idempotent=True, may_end=True),
    "out-of-order": Situation(fault=_after_first(error=45), idempotent=True, may_end=True),
    "duplicate-sequence": Situation(fault=_after_first(error=46, stores=True), idempotent=True),
}


# ---- what was seen ----


class SentRecord(NamedTuple):
    """A record in a request: which of the records it is by its key (-1 for none of them), its value and time."""

    number: int
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """The part of a produce request for one partition, decoded.

    Attributes:
        records: in their order; empty if they cannot be read.
        defect: why they cannot be read.
        producer: id, epoch and first sequence; None without a producer id.
        stored: whether the broker appended them.
        answered: whether an answer was sent.
    """

    at: float
    node: int
    topic: str
    partition: int
    records: tuple[SentRecord, ...]
    defect: str = ""
    compression: str = "none"
    producer: tuple[int, int, int] | None = None
    error: int = 0
    hit: bool = False
    stored: bool = True
    answered: bool = True

    def outline(self, since: float) -> str:
        """A line for a reader."""
        numbers = [record.number for record in self.records]
        listed = f"{numbers[0]}-{numbers[-1]}" if numbers else self.defect
        who = "" if self.producer is None else " producer {} epoch {} sequence {}".format(*self.producer)
        answer = (error_name(self.error) if self.error else "ok") if self.answered else "hung up"
        kept = "stored" if self.stored else "not stored"
        return f"{self.at - since:.2f} s, broker {self.node}: {listed}{who}; {kept}, {answer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceEvidence:
    """All that the judgement rests on.

    Attributes:
        values: of the records, by number; the key of a record is its number.
        sent: what came, in order.
        stored: the numbers of the stored records of the partition, in order.
        reports: the error of each record that was reported; None for a record reported as sent.
        idempotent: whether the producer is to be idempotent.
        ended: whether the program ended by itself (`done`), was ended (`hang`) or died.
        said: the end of its standard error.
    """

    values: Sequence[bytes]
    sent: Sequence[SentBatch]
    stored: Sequence[int]
    reports: Mapping[int, str | None]
    idempotent: bool
    ended: Literal["done", "hang", "died"] = "done"
    said: str = ""

    def failed(self) -> dict[int, str]:
        """The errors of the records that were reported as failed."""
        return {number: error for number, error in self.reports.items() if error is not None}

    def lost(self) -> list[int]:
        """Records that were reported as sent, and are not stored."""
        return sorted(n for n, error in self.reports.items() if error is None and n not in set(self.stored))

    def doubled(self) -> list[int]:
        """Records that are stored more than once."""
        return sorted(number for number, count in Counter(self.stored).items() if count > 1)

    def reordered(self) -> list[int]:
        """Records that are stored after a later one."""
        first = list(dict.fromkeys(self.stored))
        return [after for before, after in pairwise(first) if after < before]

    def resent(self) -> list[int]:
        """Records that were in more than one request."""
        counts = Counter(record.number for batch in self.sent for record in batch.records)
        return sorted(number for number, count in counts.items() if count > 1)


def sent_batches(request: ProduceRequest) -> list[SentBatch]:
    """The batches of a request; one that says why, if they cannot be read."""
    about: dict[str, Any] = {
        "at": request.at, "node": request.node, "topic": request.topic, "partition": request.partition,
        "error": request.error, "hit": request.hit, "stored": request.stored, "answered": request.answered,
    }  # fmt: skip
    try:
        batches = decode(request.data)
    except RecordFormatError as error:
        twice = compressed_twice(request.data)
        return [SentBatch(records=(), defect="compressed twice" if twice else said(error), **about)]
    return [SentBatch(**about, **_content(batch)) for batch in batches]


def _content(batch: Batch) -> dict[str, Any]:
    records = tuple(SentRecord(_number(each.key), each.value, each.timestamp) for each in batch.records)
    none = batch.producer_id == -1
    producer = None if none else (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return {"records": records, "compression": batch.compression, "producer": producer}


def _number(key: bytes | None) -> int:
    return int(key) if key is not None and key.isdigit() and int(key) < COUNT else -1


def compressed_twice(data: bytes) -> bool:
    """Whether the records of a v2 batch are still compressed after they were decompressed."""
    if len(data) <= HEADER_SIZE or data[16] != 2 or not (codec := data[22] & 7) or codec >= len(COMPRESSIONS):
        return False
    try:
        once = decompress(COMPRESSIONS[codec], data[HEADER_SIZE:], magic=2, most=1 << 24)
        return bool(decompress(COMPRESSIONS[codec], once, magic=2, most=1 << 24))
    except RecordFormatError:
        return False


# ---- the judgement ----


class FaultJudgement(NamedTuple):
    """A grade, a few words for the table, and a sentence."""

    grade: EdgeGrade
    outcome: str
    detail: str


def judge_fault(situation: Situation, seen: ProduceEvidence) -> FaultJudgement:
    """The gravest thing that *seen* shows, or that all is well."""
    gravest_first = (
        _ended(seen),
        _wrong_bytes(seen),
        _wrong_log(seen),
        _doubled_after_success(situation, seen),
        _reused_sequences(seen.sent),
        _stuck(situation, seen),
    )
    for found in chain.from_iterable(gravest_first):
        return found
    base = next(_documented(situation, seen), None)
    base = base or FaultJudgement("PASS", _well(situation, seen), _summary(seen))
    changed = _changed_time(seen.sent)
    if changed is None:
        return base
    also = f"{base.detail} Record {changed} has another timestamp when it is sent again."
    return FaultJudgement("NON_STRICT", f"{base.outcome}, restamped", also)


def _ended(seen: ProduceEvidence) -> Iterator[FaultJudgement]:
    if seen.ended == "died":
        yield FaultJudgement("HOSTILE", "dies", f"The process ended: {seen.said}")
    missing = [number for number in range(len(seen.values)) if number not in seen.reports]
    if seen.ended == "hang":
        yield FaultJudgement("HOSTILE", "hangs", f"Nothing is reported of records {_listed(missing)} in {LIMIT:.0f} s.")
    if seen.ended == "done" and missing:
        yield FaultJudgement(
            "FAIL", "never reports", f"Neither success nor an error was reported of records {_listed(missing)}."
        )


def _wrong_bytes(seen: ProduceEvidence) -> Iterator[FaultJudgement]:
    for batch in seen.sent:
        if (batch.topic, batch.partition) != (TOPIC, PARTITION):
            where = f"{said(batch.topic)}, partition {batch.partition}"
            yield FaultJudgement(
                "FAIL", "wrong partition", f"Records for {TOPIC}, partition {PARTITION}, were sent to {where}."
            )
        if batch.defect:
            outcome = batch.defect if batch.defect == "compressed twice" else "unreadable bytes"
            yield FaultJudgement(
                "FAIL", outcome, f"A request holds records that a consumer cannot read: {batch.defect}."
            )
        for record in batch.records:
            if record.number < 0 or record.value != seen.values[record.number]:
                yield FaultJudgement(
                    "FAIL", "other records", "A request holds a record that the application did not send."
                )


def _reused_sequences(sent: Iterable[SentBatch]) -> Iterator[FaultJudgement]:
    """Sequences of stored records that stand for other records later, and are not refused as out of order."""
    stored: dict[tuple[int, int, int], int] = {}
    for batch in sent:
        if batch.error == UNKNOWN_PRODUCER_ID:
            stored.clear()  # the broker has forgotten them
        for sequence, record in _sequences(batch):
            if not batch.error and stored.get(sequence, record.number) != record.number:
                what = f"Sequence {sequence[2]}, with which record {stored[sequence]} is stored"
                yield FaultJudgement("FAIL", "reuses a sequence", f"{what}, was used again for record {record.number}.")
        if batch.stored:
            stored |= {sequence: record.number for sequence, record in _sequences(batch)}


def _sequences(batch: SentBatch) -> Iterator[tuple[tuple[int, int, int], SentRecord]]:
    if batch.producer is not None:
        who, epoch, first = batch.producer
        for index, record in enumerate(batch.records):
            yield (who, epoch, first + index), record


def _wrong_log(seen: ProduceEvidence) -> Iterator[FaultJudgement]:
    if lost := seen.lost():
        yield FaultJudgement(
            "FAIL", "loses records", f"Records {_listed(lost)} were reported as sent, and are not stored."
        )
    if seen.idempotent and (doubled := seen.doubled()):
        what = f"Records {_listed(doubled)} are stored more than once, though the producer is idempotent."
        yield FaultJudgement("FAIL", "doubles, though idempotent", what)
    if seen.idempotent and (late := seen.reordered()):
        what = f"Record {late[0]} is stored after later ones, though the producer is idempotent."
        yield FaultJudgement("FAIL", "reorders, though idempotent", what)


def _doubled_after_success(situation: Situation, seen: ProduceEvidence) -> Iterator[FaultJudgement]:
    """Without an error nothing may be sent again, also without idempotence."""
    if situation.expected == "paused" and (doubled := seen.doubled()):
        what = f"Records {_listed(doubled)} were acknowledged without an error, and are stored more than once."
        yield FaultJudgement("FAIL", "doubles acknowledged records", what)


def _stuck(situation: Situation, seen: ProduceEvidence) -> Iterator[FaultJudgement]:
    """A producer that reports each record after the fault as failed: its user has to close it and start another."""
    refused = {*HIT, *LATER} <= set(seen.failed())
    if situation.expected != "split" and refused and not any(each.hit for each in _later(seen.sent)):
        what = said(f"All records after the fault are refused: {seen.failed()[LATER[0]]}")
        grade: EdgeGrade = "INFO" if situation.may_end else "FAIL"
        yield FaultJudgement(grade, "stops for good", what)


def _later(sent: Iterable[SentBatch]) -> Iterator[SentBatch]:
    return (batch for batch in sent if any(record.number in LATER for record in batch.records))


def _changed_time(sent: Iterable[SentBatch]) -> int | None:
    """A record that has another timestamp in a later request."""
    times: dict[int, int] = {}
    for batch in sent:
        for record in batch.records:
            if times.setdefault(record.number, record.timestamp) != record.timestamp:
                return record.number
    return None


def _documented(situation: Situation, seen: ProduceEvidence) -> Iterator[FaultJudgement]:
    """Behaviour that is no defect, but that a user has to know."""
    if late := seen.reordered():
        what = f"Record {late[0]} is stored after later ones; {_summary(seen)}"
        yield FaultJudgement("INFO", "reorders", what)
    if situation.expected == "reported" and any(number in LATER for number in seen.failed()):
        yield FaultJudgement(
            "INFO", "fails later records", f"Records of later batches are reported as failed. {_summary(seen)}"
        )
    if situation.expected != "reported" and (failed := seen.failed()):
        error = f"The first error: {next(iter(failed.values()))}"
        yield FaultJudgement("INFO", _gives_up(situation, seen), said(f"{_summary(seen)} {error}"))
    gap = _gap(seen.sent)
    if situation.expected == "paused" and gap is not None and gap < situation.fault.throttle_ms / 1000:
        yield FaultJudgement("INFO", "does not pause", f"The next request came after {gap:.1f} s.")


def _gives_up(situation: Situation, seen: ProduceEvidence) -> str:
    """The words for records that are reported as failed."""
    if situation.expected == "split":
        return "does not split"
    if set(seen.failed()) <= set(seen.stored):
        return "error, though stored"
    if set(seen.failed()) <= set(LATER):
        return "fails later records"
    return "gives up" if seen.resent() else "does not retry"


def _gap(sent: Sequence[SentBatch]) -> float | None:
    """Seconds between the request that was hit and the next one."""
    hit = next((index for index, batch in enumerate(sent) if batch.hit), None)
    return None if hit is None or hit + 1 >= len(sent) else sent[hit + 1].at - sent[hit].at


def _well(situation: Situation, seen: ProduceEvidence) -> str:
    """The words for a cell that passes."""
    if seen.doubled():
        return "retries, doubles"
    if situation.expected == "split":
        return "splits" if seen.resent() else "sends small batches"
    if situation.expected == "reported":
        return "reports the error" if seen.failed() else "retries"
    if situation.expected == "paused":
        return "pauses"
    return "retries" if seen.resent() else "counts as sent"


def _summary(seen: ProduceEvidence) -> str:
    """Counts of a cell, as a sentence."""
    sent = sum(error is None for error in seen.reports.values())
    parts = [
        f"{sent} of {len(seen.values)} records reported as sent",
        f"{len(set(seen.stored))} stored",
        *([f"{len(seen.doubled())} of them twice or more"] if seen.doubled() else []),
        *([f"{len(seen.resent())} sent again"] if seen.resent() else []),
    ]
    return ", ".join(parts) + "."


def _listed(numbers: Sequence[int]) -> str:
    """Numbers in a few characters.

    >>> _listed([0, 1, 2, 7])
    '0-2, 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def figures(seen: ProduceEvidence) -> dict[str, Any]:
    """The figures and outlines of *seen* that are kept with a cell."""
    since = seen.sent[0].at if seen.sent else 0.0
    failed = seen.failed()
    return {
        "requests": len(seen.sent),
        "reported_sent": sum(error is None for error in seen.reports.values()),
        "reported_failed": len(failed),
        "stored": len(seen.stored),
        "doubled": len(seen.doubled()),
        "order_kept": not seen.reordered(),
        "error": said(next(iter(failed.values()), "")),
        "seen": [batch.outline(since) for batch in seen.sent[:MOST_OUTLINES]],
    }


# ---- the programs ----


@dataclass(frozen=True, slots=True)
class ProducerProgram:
    """A command that sends records, and its environment on top of ours."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    is_adapter: bool = False

    def question(self, bootstrap: str, situation: Situation, idempotent: bool | None, pause: float) -> bytes:
        """The bytes for its standard input."""
        groups = [[values()[number].decode() for number in group] for group in GROUPS]
        if self.is_adapter:
            return b"".join(_adapter_line(bootstrap, situation, group) for group in GROUPS)
        request = {
            "bootstrap": bootstrap, "topic": TOPIC, "groups": groups, "pause": pause,
            "compression": situation.compression, "idempotent": idempotent,
        }  # fmt: skip
        return json.dumps(request).encode() + b"\n"

    def reports(self, output: bytes) -> dict[int, str | None]:
        """The reports in what the command printed; lines that are no reports are skipped."""
        found: dict[int, str | None] = {}
        lines = [answer for line in output.splitlines() if isinstance(answer := _object(line), dict)]
        if self.is_adapter:
            for group, answer in zip(GROUPS, lines, strict=False):
                found |= dict.fromkeys(group, None if "error" not in answer else said(answer["error"]))
            return found
        for answer in lines:
            if isinstance(number := answer.get("record"), int) and number not in found:
                found[number] = None if answer.get("error") is None else said(answer["error"])
        return found


def values() -> list[bytes]:
    """The values of the records; they compress to about half."""
    return [f"{number:02}:{sha256(b'%d' % number).hexdigest() * 2}"[:VALUE_SIZE].encode() for number in range(COUNT)]


def _adapter_line(bootstrap: str, situation: Situation, numbers: range) -> bytes:
    now = int(time.time() * 1000)
    texts = [(b64encode(b"%d" % n).decode(), b64encode(values()[n]).decode()) for n in numbers]
    records = [{"timestamp": now, "key": key, "value": value} for key, value in texts]
    batch = {"magic": 2, "compression": situation.compression, "records": records}
    where = {"bootstrap": bootstrap, "topic": TOPIC, "partition": PARTITION}
    return json.dumps({"op": "produce", **where, "batch": batch}).encode() + b"\n"


def _object(line: bytes) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(line)
    return None


def _content_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


# ---- the columns ----


class ProducerColumn(NamedTuple):
    """The testee whose library it is, whether that has an option for idempotence, and the option's default."""

    testee: str
    has_idempotence: bool = False
    default: bool = False


PRODUCERS: Final = (
    ProducerColumn("java-consumer", has_idempotence=True, default=True),
    ProducerColumn("kafka-python-client", has_idempotence=True, default=True),
    ProducerColumn("aiokafka-client", has_idempotence=True),
    ProducerColumn("confluent-kafka", has_idempotence=True),
    ProducerColumn("franz-go-client", has_idempotence=True, default=True),
    ProducerColumn("sarama-client", has_idempotence=True),
    ProducerColumn("kafka-go-reader"),
    ProducerColumn("kafkajs-client", has_idempotence=True),
    ProducerColumn("platformatic-kafka-client", has_idempotence=True),
    ProducerColumn("rskafka-client"),
)
OTHER: Final = {True: "+plain", False: "+idempotent"}


def columns() -> list[str]:
    """Each producer with its default, and with the other setting of idempotence where there is one."""
    return [
        f"{each.testee}{other}" for each in PRODUCERS for other in ("", *([OTHER[each.default]] * each.has_idempotence))
    ]


def _column(name: str) -> tuple[ProducerColumn, bool | None]:
    """The producer, and the option that is set; None leaves the default."""
    for each in PRODUCERS:
        if name == each.testee:
            return each, None
        if each.has_idempotence and name == f"{each.testee}{OTHER[each.default]}":
            return each, not each.default
    raise CannotRunEdges(f"no producer {said(name)!r}; there are {', '.join(columns())}")


@dataclass(frozen=True, slots=True)
class FaultyRuns:
    """An open column: runs one situation after the other, each with a process of its own.

    Attributes:
        option: the option for idempotence; None leaves the default.
        idempotent: whether the producer is idempotent then.
        limit: seconds after which it hangs.
        pause: seconds between the groups.
    """

    program: ProducerProgram
    version: str
    option: bool | None
    idempotent: bool
    limit: float = LIMIT
    pause: float = PAUSE

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """The cell of a row."""
        situation = SITUATIONS[row.id]
        if situation.idempotent and not self.idempotent:
            detail = "A broker answers so to idempotent producers only."
            return EdgeCell(row=row.id, grade="not run", outcome="not idempotent", detail=detail)
        seen = self.settled(situation)
        if situation.fault.times and seen.ended == "done" and not any(batch.hit for batch in seen.sent):
            detail = "No request came after the first records were stored, so that the fault hit none."
            return EdgeCell(row=row.id, grade="not run", outcome="fault not met", detail=detail)
        found = judge_fault(situation, seen)
        detail = said(found.detail)
        return EdgeCell(row=row.id, grade=found.grade, outcome=found.outcome, detail=detail, observed=figures(seen))

    def settled(self, situation: Situation) -> ProduceEvidence:
        """The evidence of a run in which the fault hit one group of records; of the last of several if none did."""
        seen = self.watch(situation)
        for attempt in range(1, TRIES):
            if _is_mixed(situation, seen):
                seen = replace(self, pause=self.pause * 2**attempt).watch(situation)
        return seen

    def watch(self, situation: Situation) -> ProduceEvidence:
        """Run the program against brokers with the fault, until it ends or its time is over."""
        with (
            FaultyCluster(situation.fault, TOPIC) as cluster,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            question = self.program.question(cluster.address, situation, self.option, self.pause)
            code = self._run(question, stdout, stderr)
            reports = self.program.reports(_content_of(stdout))
            said_last = said(_content_of(stderr)[-MAX_SAID:].decode(errors="replace"))
            return ProduceEvidence(
                values=values(),
                sent=[batch for request in list(cluster.requests) for batch in sent_batches(request)],
                stored=_stored_numbers(cluster),
                reports=reports,
                idempotent=self.idempotent,
                ended=_ending(code, reports),
                said=said_last,
            )

    def _run(self, question: bytes, stdout: IO[bytes], stderr: IO[bytes]) -> int | None:
        """The exit code; None if the time is over."""
        process = subprocess.Popen(
            self.program.command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr,
            env=os.environ | self.program.environment, start_new_session=True,
        )  # fmt: skip
        try:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(question, timeout=self.limit)
            return process.poll()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _is_mixed(situation: Situation, seen: ProduceEvidence) -> bool:
    """Whether groups left together that were to leave one after the other, so that the fault hit another, or none."""
    hit = {record.number for batch in seen.sent if batch.hit for record in batch.records}
    if seen.ended != "done" or not situation.fault.times:
        return False
    group = HIT if situation.fault.after else FIRST
    return not hit & set(group) or (situation.fault.times == 1 and not hit <= set(group))


def _ending(code: int | None, reports: Mapping[int, str | None]) -> Literal["done", "hang", "died"]:
    """How a program ended; if each record is reported by then, it does not hang."""
    if code is None:
        return "done" if len(reports) == COUNT else "hang"
    return "died" if code else "done"


def _stored_numbers(cluster: FaultyCluster) -> list[int]:
    batches = cluster.stored().get((TOPIC, PARTITION), [])
    return [_number(record.key) for data in batches for batch in decode(data) for record in batch.records]


@contextmanager
def opened(column: str) -> Iterator[FaultyRuns]:
    """The producer *column*, built if it has to be.  Raises `CannotRunEdges`."""
    producer, option = _column(column)
    known = find_testee(producer.testee)
    assert known is not None
    if missing := known.missing():
        raise CannotRunEdges(f"{column} cannot run: {known.reason(missing)}")
    with tempfile.TemporaryDirectory(prefix="kafkaproof-faults-") as folder:
        try:
            program = _program(known, Path(folder))
        except (BuildError, OSError) as error:
            raise CannotRunEdges(f"{column} cannot run: {error}") from error
        yield FaultyRuns(program, known.version() or "", option, producer.default if option is None else option)


def _program(known: KnownTestee, folder: Path) -> ProducerProgram:
    """The command of a producer; files that it needs are written to *folder*."""
    recipe = known.recipe
    if recipe is None:
        (folder / "send.py").write_text(_text(f"{known.name}.py.txt"))
        return ProducerProgram((sys.executable, str(folder / "send.py")), dict([import_path()]))
    if recipe.language == "go":
        (folder / "main.go").write_text(_text(f"{known.name}.go.txt"))
        return ProducerProgram(_go(recipe, folder / "main.go"))
    command = built_command(recipe, build := build_testee(recipe))
    if recipe.language == "java":
        return ProducerProgram(_java(command, folder, _text(f"{known.name}.java.txt")))
    if recipe.language == "javascript":
        (folder / "send.js").write_text(_text(f"{known.name}.js.txt"))
        return ProducerProgram((*command[:-1], str(folder / "send.js")), {"NODE_PATH": str(build / "node_modules")})
    return ProducerProgram(command, is_adapter=True)


def _text(name: str) -> str:
    return files(__package__).joinpath("producers", name).read_text(encoding="utf-8")


def _go(recipe: BuildRecipe, source: Path) -> list[str]:
    """The program, built with the modules of the adapter."""
    own = replace(
        recipe, project=f"{recipe.project}-producer", sources=(str(source), "go.mod", "go.sum"), run=("{build}/testee",)
    )
    return built_command(own, build_testee(own))


def _java(command: Sequence[str], folder: Path, text: str) -> list[str]:
    """The program, compiled into *folder* with the jars of the adapter."""
    (folder / "Send.java").write_text(text)
    path = command[command.index("-cp") + 1]
    compiled = subprocess.run(
        ("javac", "-cp", path, "-d", str(folder), str(folder / "Send.java")), capture_output=True, check=False
    )
    if compiled.returncode:
        raise BuildError(f"javac: {said(compiled.stderr.decode(errors='replace'))}")
    return [each.replace(path, f"{folder}:{path}") if each == path else each for each in command[:-1]] + ["Send"]
