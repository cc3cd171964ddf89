"""Producing under faults: each client's producer against brokers that fail in one way, and what becomes of the records.

For each situation a program in the client's language (`producers/COLUMN.*.txt`) sends twenty records,
ten and after a moment ten more, to one partition, as a user would write it: with default
settings, without retries of its own.  It prints a line for each record, with the error that the
library reported or none.  rskafka has one way to produce, which its adapter calls.

`judge` is a pure function of the requests that came, the records that are stored, and
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
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from kafka_brokers.faulty_broker import Fault, FaultyCluster, ProduceRequest
from kafka_brokers.wire.errors import error_name
from kafka_conformance.edges import EdgeCell, EdgeGrade, EdgeRow, said
from kafka_conformance.edges.running import CannotRunEdges
from kafka_conformance.testees.connection import import_path
from kafka_conformance.testees.known import KnownTestee, find_testee
from kafka_conformance.testees.recipe import BuildError, BuildRecipe, build_testee, built_command
from kafka_records import Batch, RecordFormatError, decode
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS

TOPIC: Final = "faults"
PARTITION: Final = 0
GROUP: Final = 10
COUNT: Final = 2 * GROUP
# Seconds between the groups: time for the first one to be answered.
PAUSE: Final = 0.4
# Seconds in which an answer of a request is awaited while a second one is sent.
IN_FLIGHT: Final = 1.0
# Seconds after which a producer that has not reported each record hangs: more than `delivery.timeout.ms` of Java's.
LIMIT: Final = 150.0
VALUE_SIZE: Final = 100
HEADER_SIZE: Final = 61
# Requests whose outline is kept with a result.
MOST_OUTLINES: Final = 12

Expected = Literal["sent", "split", "reported", "paused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One row: the fault, what the records are compressed with, and what has to become of them.

    Attributes:
        expected: `sent`: all records are stored; `split`: in smaller batches; `reported`: those of the batch are reported
            as failed; `paused`: as `sent`, and nothing is sent during the throttle time.
        idempotent: whether only idempotent producers can meet it.
    """

    fault: Fault
    compression: Literal["none", "gzip"] = "none"
    expected: Expected = "sent"
    idempotent: bool = False


SITUATIONS: Final[Mapping[str, Situation]] = {
    "disconnect-before": Situation(fault=Fault(hangs_up=True)),
    "disconnect-after": Situation(fault=Fault(hangs_up=True, stores=True)),
    "disconnect-in-flight": Situation(fault=Fault(hangs_up=True, stores=True, seconds=IN_FLIGHT)),
    "answer-late": Situation(fault=Fault(stores=True, seconds=45)),
    "throttle": Situation(fault=Fault(stores=True, throttle_ms=2000), expected="paused"),
    "leader-moves": Situation(fault=Fault(error=6, moves=True), compression="gzip"),
    "corrupt-message": Situation(fault=Fault(error=2)),
    "unknown-topic": Situation(fault=Fault(error=3)),
    "leader-not-available": Situation(fault=Fault(error=5)),
    "request-timed-out": Situation(fault=Fault(error=7, stores=True)),
    "not-enough-replicas": Situation(fault=Fault(error=19)),
    "not-enough-replicas-after-append": Situation(fault=Fault(error=20, stores=True), compression="gzip"),
    "storage-error": Situation(fault=Fault(error=56)),
    "three-errors": Situation(fault=Fault(error=19, times=3), compression="gzip"),
    "error-in-flight": Situation(fault=Fault(error=19, seconds=IN_FLIGHT)),
    "rejected": Situation(fault=Fault(error=87), expected="reported"),
    "too-large": Situation(fault=Fault(times=0, most_bytes=700), expected="split"),
    "too-large-gzip": Situation(fault=Fault(times=0, most_bytes=400), compression="gzip", expected="split"),
    "unknown-producer-id": Situation(fault=Fault(error=59, forgets=True, after=GROUP), idempotent=True),
    "out-of-order": Situation(fault=Fault(error=45, after=GROUP), idempotent=True),
    "duplicate-sequence": Situation(fault=Fault(error=46, stores=True, after=GROUP), idempotent=True),
}


# ---- what was seen ----


class SentRecord(NamedTuple):
    """A record in a request: which of the records it is by its key (-1 for none of them), its value and time."""

    number: int
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """What a producer sent for one partition in one request.

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
    about = {
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


class Judgement(NamedTuple):
    """A grade, a few words for the table, and a sentence."""

    grade: EdgeGrade
    outcome: str
    detail: str


def judge(situation: Situation, seen: ProduceEvidence) -> Judgement:
    """The gravest thing that *seen* shows, or that all is well."""
    for found in (*_ended(seen), *_wrong_bytes(seen), *_wrong_log(seen), *_stuck(situation, seen)):
        return found
    for found in (*_changed_time(seen), *_documented(situation, seen)):
        return found
    return Judgement("PASS", _well(situation, seen), _summary(seen))


def _ended(seen: ProduceEvidence) -> Iterator[Judgement]:
    if seen.ended == "died":
        yield Judgement("HOSTILE", "dies", f"The process ended: {seen.said}")
    missing = [number for number in range(len(seen.values)) if number not in seen.reports]
    if seen.ended == "hang":
        yield Judgement("HOSTILE", "hangs", f"Nothing is reported of records {_listed(missing)} in {LIMIT:.0f} s.")
    if seen.ended == "done" and missing:
        yield Judgement(
            "FAIL", "never reports", f"Neither success nor an error was reported of records {_listed(missing)}."
        )


def _wrong_bytes(seen: ProduceEvidence) -> Iterator[Judgement]:
    for batch in seen.sent:
        if (batch.topic, batch.partition) != (TOPIC, PARTITION):
            where = f"{said(batch.topic)}, partition {batch.partition}"
            yield Judgement(
                "FAIL", "wrong partition", f"Records for {TOPIC}, partition {PARTITION}, were sent to {where}."
            )
        if batch.defect:
            outcome = batch.defect if batch.defect == "compressed twice" else "unreadable bytes"
            yield Judgement("FAIL", outcome, f"A request holds records that nobody can read: {batch.defect}.")
        for record in batch.records:
            if record.number < 0 or record.value != seen.values[record.number]:
                yield Judgement("FAIL", "other records", "A request holds a record that the application did not send.")
    yield from _reused_sequences(seen.sent)


def _reused_sequences(sent: Iterable[SentBatch]) -> Iterator[Judgement]:
    """Sequences of stored records that stand for other records later: the broker takes those for known ones."""
    stored: dict[tuple[int, int, int], int] = {}
    for batch in sent:
        for sequence, record in _sequences(batch):
            if stored.get(sequence, record.number) != record.number:
                what = f"Sequence {sequence[2]}, with which record {stored[sequence]} is stored"
                yield Judgement("FAIL", "reuses a sequence", f"{what}, was used again for record {record.number}.")
        if batch.stored:
            stored |= {sequence: record.number for sequence, record in _sequences(batch)}


def _sequences(batch: SentBatch) -> Iterator[tuple[tuple[int, int, int], SentRecord]]:
    if batch.producer is not None:
        who, epoch, first = batch.producer
        for index, record in enumerate(batch.records):
            yield (who, epoch, first + index), record


def _wrong_log(seen: ProduceEvidence) -> Iterator[Judgement]:
    if lost := seen.lost():
        yield Judgement("FAIL", "loses records", f"Records {_listed(lost)} were reported as sent, and are not stored.")
    if seen.idempotent and (doubled := seen.doubled()):
        what = f"Records {_listed(doubled)} are stored more than once, though the producer is idempotent."
        yield Judgement("FAIL", "doubles, though idempotent", what)
    if seen.idempotent and (late := seen.reordered()):
        what = f"Record {late[0]} is stored after later ones, though the producer is idempotent."
        yield Judgement("FAIL", "reorders, though idempotent", what)


def _stuck(situation: Situation, seen: ProduceEvidence) -> Iterator[Judgement]:
    """A producer that reports each record after the fault as failed has to be made anew by its user."""
    second = [number for number in seen.failed() if number >= GROUP]
    first_is_hit = situation.fault.times and not situation.fault.after and situation.expected != "split"
    if first_is_hit and len(second) == GROUP and not any(each.hit for each in seen.sent if _has_second(each)):
        what = f"All records after the fault are refused: {seen.failed()[second[0]]}"
        yield Judgement("FAIL", "stays broken", said(what))


def _has_second(batch: SentBatch) -> bool:
    return any(record.number >= GROUP for record in batch.records)


def _changed_time(seen: ProduceEvidence) -> Iterator[Judgement]:
    times: dict[int, int] = {}
    for batch in seen.sent:
        for record in batch.records:
            if times.setdefault(record.number, record.timestamp) != record.timestamp:
                what = f"Record {record.number} has another timestamp when it is sent again."
                yield Judgement("NON_STRICT", "changes timestamps", what)


def _documented(situation: Situation, seen: ProduceEvidence) -> Iterator[Judgement]:
    """What is no defect, but what a user has to know."""
    if late := seen.reordered():
        what = f"Record {late[0]} is stored after later ones; {_summary(seen)}"
        yield Judgement("INFO", "reorders", what)
    if situation.expected == "reported" and any(number >= GROUP for number in seen.failed()):
        yield Judgement(
            "INFO", "fails later records", f"Records of later batches are reported as failed. {_summary(seen)}"
        )
    if situation.expected != "reported" and (failed := seen.failed()):
        error = f"The first error: {next(iter(failed.values()))}"
        split = situation.expected == "split"
        outcome = "does not split" if split else "gives up" if seen.resent() else "does not retry"
        yield Judgement("INFO", outcome, said(f"{_summary(seen)} {error}"))
    if situation.expected == "paused" and (gap := _gap(seen.sent)) is not None:
        if gap < situation.fault.throttle_ms / 1000:
            yield Judgement("INFO", "does not pause", f"The next request came after {gap:.1f} s.")


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
    """What is kept of *seen* with a cell."""
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

    def question(self, cluster: FaultyCluster, situation: Situation, idempotent: bool | None) -> bytes:
        """What the command reads from standard input."""
        groups = [[value.decode() for value in each] for each in (values()[:GROUP], values()[GROUP:])]
        if self.is_adapter:
            return b"".join(_adapter_line(cluster.address, situation, index) for index in range(len(groups)))
        asked = {
            "bootstrap": cluster.address, "topic": TOPIC, "groups": groups, "pause": PAUSE,
            "compression": situation.compression, "idempotent": idempotent,
        }  # fmt: skip
        return json.dumps(asked).encode() + b"\n"

    def reports(self, output: bytes) -> dict[int, str | None]:
        """The reports in what the command printed; lines that are no reports are skipped."""
        found: dict[int, str | None] = {}
        lines = [answer for line in output.splitlines() if isinstance(answer := _object(line), dict)]
        if self.is_adapter:
            for index, answer in enumerate(lines):
                error = None if "error" not in answer else said(answer["error"])
                found |= dict.fromkeys(range(index * GROUP, (index + 1) * GROUP), error)
            return found
        for answer in lines:
            if isinstance(number := answer.get("record"), int) and number not in found:
                found[number] = None if answer.get("error") is None else said(answer["error"])
        return found


def values() -> list[bytes]:
    """The values of the records; they compress to about half."""
    return [f"{number:02}:{sha256(b'%d' % number).hexdigest() * 2}"[:VALUE_SIZE].encode() for number in range(COUNT)]


def _adapter_line(bootstrap: str, situation: Situation, group: int) -> bytes:
    numbers = range(group * GROUP, (group + 1) * GROUP)
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


def run_program(
    program: ProducerProgram, situation: Situation, *, idempotent: bool | None, expects: bool, limit: float = LIMIT
) -> ProduceEvidence:
    """Run the program against brokers with the fault, for *limit* seconds at most.

    Args:
        program: what is run.
        situation: what happens.
        idempotent: the option for idempotence; None leaves the default.
        expects: whether the producer is idempotent then.
        limit: seconds after which it hangs.
    """
    with (
        FaultyCluster(situation.fault, TOPIC) as cluster,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        process = subprocess.Popen(
            program.command, stdin=subprocess.PIPE, stdout=out, stderr=err,
            env=os.environ | program.environment, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        with suppress(OSError), process.stdin:
            process.stdin.write(program.question(cluster, situation, idempotent))
        ended: Literal["done", "hang", "died"] = "done"
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            ended = "hang"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reports = program.reports(_content_of(out))
        if ended == "hang" and len(reports) == COUNT:
            ended = "done"  # each record is reported; how the process ends is another matter
        if ended == "done" and process.returncode not in (0, -signal.SIGKILL):
            ended = "died"
        stored = [
            _number(record.key)
            for data in cluster.stored().get((TOPIC, PARTITION), [])
            for batch in decode(data)
            for record in batch.records
        ]
        sent = [batch for request in list(cluster.requests) for batch in sent_batches(request)]
        tail = said(_content_of(err)[-400:].decode(errors="replace"))
        return ProduceEvidence(
            values=values(), sent=sent, stored=stored, reports=reports, idempotent=expects, ended=ended, said=tail
        )


def _content_of(file: Any) -> bytes:
    file.seek(0)
    content: bytes = file.read()
    return content


# ---- the columns ----


class ProducerColumn(NamedTuple):
    """A producer: the testee whose library it is, whether it has an option for idempotence, and the option's default."""

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
    """An open column: runs one situation after the other, each with a process of its own."""

    program: ProducerProgram
    version: str
    option: bool | None
    idempotent: bool
    limit: float = LIMIT

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """The cell of a row."""
        situation = SITUATIONS[row.id]
        if situation.idempotent and not self.idempotent:
            detail = "A broker answers so to idempotent producers only."
            return EdgeCell(row=row.id, grade="not run", outcome="not idempotent", detail=detail)
        seen = run_program(self.program, situation, idempotent=self.option, expects=self.idempotent, limit=self.limit)
        found = judge(situation, seen)
        return EdgeCell(
            row=row.id, grade=found.grade, outcome=found.outcome, detail=said(found.detail), observed=figures(seen)
        )


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
