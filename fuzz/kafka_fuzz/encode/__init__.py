"""Encoders under fuzzing: batches with one unusual value each, written by testees, compared with what Kafka writes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from random import Random
from typing import Any, Final

import msgspec

import kafka_records
from kafka_conformance.judge.observation import Crashed, Exceeded, Garbled, Hung, Observation, Refused
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.requests import CaseRequest, unsupported
from kafka_conformance.runner.results import sanitize_hello
from kafka_conformance.runner.run import trivial_decodes
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.protocol import HelloReply
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import WireBatch, from_wire, to_wire
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.entries import draw_base
from kafka_fuzz.mutate.faults.batches import EDGES_16, EDGES_32, EDGES_64
from kafka_fuzz.mutate.model import PLACES, pick
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell
from kafka_fuzz.shrink.search import DEFAULT, NOT_REPRODUCED, Budget, NotShown, Verdicts
from kafka_fuzz.shrink.worker import Done
from kafka_fuzz.targets.codecs import TOLERATED
from kafka_fuzz.targets.outcome import ENDINGS, Outcome, OutcomeClass, ending_cause, normalized_message, value_relation
from kafka_records import KINDS, Batch, Header, Record, RecordFormatError
from kafka_records.constants import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    MAGIC_VALUE_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from kafka_records.primitives import wrap_int64

# The share of batches without an unusual value: an encoder that refuses those is wrong, too.
TRUTHS: Final = 0.1
# Keys, values and header keys that an encoder of text does not expect.
CONTENT: Final[Mapping[str, bytes]] = {
    "empty": b"",
    "NUL": b"a\0b",
    "lone surrogate": b"\xed\xa0\x80",
    "overlong": b"\xc0\xaf",
    "beyond Unicode": b"\xf5\x80\x80\x80",
    "beyond the BMP": "😀".encode(),
    "byte order mark": b"\xef\xbb\xbfx",
    "63 bytes": b"x" * 63,
    "64 bytes": b"x" * 64,
    "8191 bytes": b"x" * 8191,
    "8192 bytes": b"x" * 8192,
}
HEADERS: Final[Mapping[str, tuple[Header, ...]]] = {
    "none": (),
    "null value": (Header(b"h", None), Header(b"g", b"")),
    "repeated": (Header(b"h", b"1"), Header(b"g", b"2"), Header(b"h", b"3")),
    "repeated alike": (Header(b"h", b"1"), Header(b"h", b"1")),
    "in no order": (Header(b"z", b"1"), Header(b"a", None), Header(b"m", b""), Header(b"2", b"2"), Header(b"1", b"3")),
    "named like properties": (Header(b"__proto__", b"1"), Header(b"constructor", b"2"), Header(b"length", b"3")),
    "seventy": tuple(Header(b"h%d" % at, b"") for at in range(70)),
}
EDGES: Final[Mapping[str, Mapping[str, int]]] = {
    "partition_leader_epoch": EDGES_32,
    "producer_id": EDGES_64,
    "producer_epoch": EDGES_16,
    "base_sequence": EDGES_32,
}
TIMES: Final[Mapping[str, int]] = {
    **EDGES_64,
    "minus two": -2,
    "before 1970": -86_400_000,
    "one": 1,
    "2^31": 2**31,
    "2^32": 2**32,
    "beyond a double": 2**53 + 1,
    "nanoseconds of an int64": INT64_MAX // 1_000_000 + 1,
    "year 10000": 253_402_300_800_000,
}
OFFSETS: Final[Mapping[str, int]] = {
    "smallest": INT64_MIN,
    "minus one": -1,
    "beyond int32": INT32_MAX + 1,
    "beyond a double": 2**53 + 1,
    "near the end": INT64_MAX - 200,
    "largest": INT64_MAX,
}
GAPS: Final[Mapping[str, int]] = {
    "back": -5,
    "none": 0,
    "a day of them": 86_400_000,
    "largest": INT32_MAX,
    "beyond int32": INT32_MAX + 1,
}

Change = Callable[[Batch, Random, Any], Batch]


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One unusual value: its name, the function that sets it, and the variants."""

    name: str
    change: Change
    variants: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Writing:
    """A batch to encode.

    Attributes:
        batch: the batch to encode.
        value, variant: the unusual value, `truth` if there is none.
        case: the request with its right answer, for the judge.
        rule: the rule by which the reference refuses it; empty if it has to be encoded.
    """

    batch: Batch
    value: str
    variant: str
    case: Case
    rule: str = ""

    @property
    def cell(self) -> MutantCell:
        """The cell of the request."""
        return MutantCell(
            self.batch.magic, self.batch.compression, self.value, self.variant, self.value, "entry", "only"
        )


def record_at(batch: Batch, rng: Random, **fields: Any) -> Batch:
    """*batch* with other *fields* in one of its records; unchanged without records."""
    if not batch.records:
        return batch
    index = int(rng.random() * len(batch.records))
    records = (*batch.records[:index], batch.records[index]._replace(**fields), *batch.records[index + 1 :])
    return replace(batch, records=records)


def of_record(name: str, batch: Batch, rng: Random, value: Any) -> Batch:
    """One field of one record."""
    return record_at(batch, rng, **{name: value})


def of_batch(name: str, batch: Batch, rng: Random, value: Any) -> Batch:
    """One field of the header."""
    return replace(batch, **{name: value})


def header_key(batch: Batch, rng: Random, value: bytes) -> Batch:
    """A record with one header, whose key is *value*."""
    return record_at(batch, rng, headers=(Header(value, b"1"),))


def header_value(batch: Batch, rng: Random, value: bytes) -> Batch:
    """A record with one header, whose value is *value*."""
    return record_at(batch, rng, headers=(Header(b"h", value),))


def choose_timestamp(batch: Batch, rng: Random, value: int) -> Batch:
    """A record's timestamp, and the matching maximum timestamp of the batch."""
    changed = record_at(batch, rng, timestamp=value)
    return replace(changed, timestamp_type="create" if batch.magic else "none", max_timestamp=latest(changed.records))


def all_offsets(batch: Batch, rng: Random, value: int) -> Batch:
    """The batch with another base offset, and all its offsets moved with it."""
    return moved(batch, value - batch.base_offset)


def offset_gap(batch: Batch, rng: Random, value: int) -> Batch:
    """A gap of *value* offsets before the last record."""
    if len(batch.records) < 2:
        return batch
    last = wrap_int64(batch.records[-2].offset + value)
    records = (*batch.records[:-1], batch.records[-1]._replace(offset=last))
    return replace(batch, records=records, last_offset=max(last, batch.base_offset))


def choose_last_offset(batch: Batch, rng: Random, value: int) -> Batch:
    """A last offset that differs from that of the last record."""
    return replace(batch, last_offset=wrap_int64(batch.last_offset + value))


def repeated_headers(batch: Batch, rng: Random, value: int) -> Batch:
    """*value* copies of the first record in place of all records."""
    first = batch.records[0] if batch.records else Record(batch.base_offset, NO_TIMESTAMP, None, b"v")
    start = batch.base_offset
    records = tuple(first._replace(offset=wrap_int64(start + at)) for at in range(value))
    latest = first.timestamp if records else NO_TIMESTAMP
    return replace(batch, records=records, last_offset=wrap_int64(start + max(value, 1) - 1), max_timestamp=latest)


def flags(batch: Batch, rng: Random, value: Any) -> Batch:
    """Bits of the attributes without the fields that belong to them."""
    return replace(batch, **value)


FLAGS: Final = {
    "transactional": {"transactional": True},
    "control": {"control": True},
    "both": {"transactional": True, "control": True},
}
VALUES: Final[tuple[FieldValue, ...]] = (
    *(FieldValue(name, partial(of_record, name), {**CONTENT, "null": None}) for name in ("key", "value")),
    FieldValue("header.key", header_key, CONTENT),
    FieldValue("header.value", header_value, {**CONTENT, "null": None}),
    FieldValue("headers", partial(of_record, "headers"), HEADERS),
    FieldValue("timestamp", choose_timestamp, TIMES),
    *(FieldValue(name, partial(of_batch, name), edges) for name, edges in EDGES.items()),
    FieldValue("offsets", all_offsets, OFFSETS),
    FieldValue("offset gap", offset_gap, GAPS),
    FieldValue("last_offset", choose_last_offset, {"by one": 1, "less": -1, "far": 2**20}),
    FieldValue("records", repeated_headers, {"none": 0, "one": 1, "two": 2, "seventy": 70}),
    FieldValue("flags", flags, FLAGS),
    FieldValue("delete_horizon", partial(of_batch, "delete_horizon"), {"zero": 0, "minus one": -1, "some": 2**40}),
)


@cache
def cells() -> tuple[tuple[FieldValue, str], ...]:
    """Every value with every variant."""
    return tuple((value, variant) for value in VALUES for variant in value.variants)


def draw(rng: Random) -> Writing:
    """A batch to encode, of any magic and codec, with one unusual value or none."""
    magic, codec = pick(rng, PLACES)
    batch = draw_base(rng, magic, codec).batch
    if rng.random() < TRUTHS:
        return writing(batch, NO_FAULT, "")
    value = pick(rng, VALUES)
    variant = pick(rng, tuple(value.variants))
    return writing(value.change(batch, rng, value.variants[variant]), value.name, variant)


def writing(batch: Batch, value: str, variant: str) -> Writing:
    """*batch* with its right answer: the bytes of the reference, or any refusal."""
    try:
        data, rule = kafka_records.encode(batch), ""
        right = Expectation(verdict="valid", data=data, compare="exact" if batch.compression == "none" else "masked")
    except RecordFormatError as error:
        rule = error.rule or error.kind
        right = Expectation(verdict="invalid", kinds=KINDS, why=rule)
    case = Case(id="fuzz", title="", rules=(), area="fuzz", op="encode", input=batch, expect=right)
    return Writing(batch, value, variant, case, rule)


NO_PRODUCER: Final[dict[str, Any]] = {
    "producer_id": NO_PRODUCER_ID,
    "producer_epoch": NO_PRODUCER_EPOCH,
    "base_sequence": NO_SEQUENCE,
    "transactional": False,
}
PLAIN: Final[dict[str, Any]] = {
    "compression": "none",
    "control": False,
    "partition_leader_epoch": -1,
    "delete_horizon": None,
    **NO_PRODUCER,
}


def simpler(batch: Batch) -> Iterator[Batch]:
    """Batches like *batch* with fewer records or simpler values."""
    yield from _fewer(batch)
    for changes in (NO_PRODUCER, *({name: value} for name, value in PLAIN.items())):
        if any(getattr(batch, name) != value for name, value in changes.items()):
            yield replace(batch, **changes)
    if batch.base_offset:
        yield moved(batch, -batch.base_offset)
    for index, record in enumerate(batch.records):
        for plainer in _plainer(record):
            yield with_records(batch, (*batch.records[:index], plainer, *batch.records[index + 1 :]))


def _fewer(batch: Batch) -> Iterator[Batch]:
    """Batches with fewer records."""
    size = len(batch.records)
    while size:
        for at in range(0, len(batch.records), size):
            yield with_records(batch, batch.records[:at] + batch.records[at + size :])
        size //= 2


def with_records(batch: Batch, records: tuple[Record, ...]) -> Batch:
    """*batch* with other records; offsets and timestamps of the header follow them if they matched before."""
    old, changes = batch.records, {"records": records}
    if batch.max_timestamp == latest(old):
        changes["max_timestamp"] = latest(records)  # type: ignore[assignment]  # fields have types of their own
    if old and records and batch.base_offset == old[0].offset:
        changes["base_offset"] = records[0].offset  # type: ignore[assignment]
    if old and records and batch.last_offset == old[-1].offset:
        changes["last_offset"] = records[-1].offset  # type: ignore[assignment]
    return replace(batch, **changes)  # type: ignore[arg-type]


def latest(records: tuple[Record, ...]) -> int:
    """The largest timestamp of *records*."""
    return max((record.timestamp for record in records), default=NO_TIMESTAMP)


def moved(batch: Batch, offsets: int) -> Batch:
    """The batch with all its offsets moved."""
    records = tuple(record._replace(offset=wrap_int64(record.offset + offsets)) for record in batch.records)
    first, last = (wrap_int64(offset + offsets) for offset in (batch.base_offset, batch.last_offset))
    return replace(batch, base_offset=first, last_offset=last, records=records)


def _plainer(record: Record) -> Iterator[Record]:
    for key in _shorter(record.key):
        yield record._replace(key=key)
    for value in _shorter(record.value):
        yield record._replace(value=value)
    for index, header in enumerate(record.headers):
        before, after = record.headers[:index], record.headers[index + 1 :]
        yield record._replace(headers=before + after)
        for content in _shorter(header.value):
            yield record._replace(headers=(*before, Header(header.key, content), *after))
        for name in _shorter(header.key, null=False):
            yield record._replace(headers=(*before, Header(name or b"", header.value), *after))
    if record.timestamp:
        yield record._replace(timestamp=0)


def _shorter(content: bytes | None, *, null: bool = True) -> Iterator[bytes | None]:
    """Null, no bytes, either half, one byte less."""
    if content is None:
        return
    shorter = [content[:0], content[: len(content) // 2], content[len(content) // 2 :], content[:-1]]
    yield from dict.fromkeys([None] * null + [each for each in shorter if len(each) < len(content)])


# Crashes and hangs of a testee with one value before requests with it are skipped.
ENOUGH: Final = 2


@dataclass(slots=True)
class EncodeTestee:
    """A testee that encodes, with its crashes and hangs by value."""

    name: str
    sandbox: Sandbox
    hello: HelloReply
    fallen: Counter[str] = field(default_factory=Counter)
    executions: int = 0
    skipped: int = 0

    @property
    def writes(self) -> bool:
        """Whether the testee announces that it encodes."""
        return bool(self.hello.encode.magics)

    def observe(self, turn: Sequence[Writing]) -> list[tuple[Writing, Observation]]:
        """The observations of those requests of *turn* that the testee supports."""
        wanted = [each for each in turn if unsupported(each.case, self.hello) is None]
        spared = [each for each in wanted if self.fallen[each.value] < ENOUGH]
        self.skipped += len(wanted) - len(spared)
        self.executions += len(spared)
        answers = self.sandbox.ask([CaseRequest(to_wire(each.batch), timeout_group=each.value) for each in spared])
        return [(each, answered.observation) for each, answered in zip(spared, answers, strict=True)]


def started(name: str, stack: ExitStack) -> EncodeTestee:
    """The testee called *name*, until *stack* is closed.  Raises `BadConnect`, `CannotRun`."""
    sandbox = Sandbox(connect(name))
    stack.callback(sandbox.close)
    writer = EncodeTestee(name, sandbox, sanitize_hello(sandbox.hello()))
    if writer.writes:
        sandbox.calibrate(trivial_decodes())
    return writer


# A prefix of keys, so that findings of encoders differ from those of decoders.
WRITING: Final = "writing"


def encode_outcome(testee: str, writing: Writing, seen: Observation) -> Outcome:
    """The outcome of *testee* for one encode request."""
    era = "v2" if writing.batch.magic == MAGIC_VALUE_V2 else "legacy"
    if isinstance(seen, Crashed | Hung | Exceeded | Garbled):
        detail, function = ending_cause(seen)
        why = getattr(seen, "stderr", "") or getattr(seen, "why", "")
        return Outcome(testee, ENDINGS[type(seen)], f"{WRITING} {detail}".strip(), function, writing.value, why)
    verdict = judge(writing.case, seen)
    if verdict.outcome in TOLERATED:
        return Outcome(testee, "refused" if isinstance(seen, Refused) else "ok")
    kind: OutcomeClass = verdict.outcome  # type: ignore[assignment]  # severities are outcome classes
    field = normalized_message(verdict.field).replace("[#]", "")
    relation = value_relation(verdict.difference) if verdict.difference else ""
    detail, where = f"{field} {relation}".strip(), era
    if isinstance(seen, Refused):
        detail = normalized_message(seen.error.message or seen.error.kind)
    elif kind == "accepts_invalid":
        detail, where = "", writing.rule
    return Outcome(testee, kind, f"{WRITING} {detail}".strip(), where, writing.value, verdict.why)


def mutant_of(writing: Writing) -> Mutant:
    """*writing* as a mutant, with the batch as JSON of the protocol."""
    data = msgspec.json.encode(to_wire(writing.batch))
    return Mutant(data, "model", (writing.value, writing.variant), None, writing.cell)


# Candidates that are sent to a testee at once.
MANY: Final = 16


def finding_batch(data: bytes) -> Batch:
    """The batch in *data*, the input of an encoder's finding; ValueError if there is none."""
    try:
        return from_wire(msgspec.json.decode(data, type=WireBatch))
    except (msgspec.MsgspecError, RecordFormatError, TypeError, AttributeError) as error:
        raise ValueError(f"the input is not a batch to encode: {error}") from None


def data_of(batch: Batch) -> bytes:
    """*batch* as the input of a finding."""
    return msgspec.json.encode(to_wire(batch))


class Writers:
    """The encoder with the finding, and others whose outcomes have to stay equal."""

    def __init__(self, specs: Sequence[str]) -> None:
        """Start the testees.  Raises `BadConnect`, `CannotRun`."""
        self._stack = ExitStack()
        try:
            self.writers = [started(spec, self._stack) for spec in specs]
        except (BadConnect, CannotRun):
            self.close()
            raise
        self.version = self.writers[0].hello.version

    def verdicts(self, many: Sequence[Batch]) -> list[tuple[Outcome, Verdicts]]:
        """The outcomes of all testees for each request; a testee without the capability has no finding."""
        requests = [writing(batch, "", "") for batch in many]
        first, *others = ([*_outcomes(writer, requests)] for writer in self.writers)
        return [
            (outcome, Verdicts(each.rule, outcome.bucket, tuple(rest[at].kind for rest in others)))
            for at, (outcome, each) in enumerate(zip(first, requests, strict=True))
        ]

    def shrink(self, data: bytes, *, budget: Budget = DEFAULT, co_testees: Sequence[str] = ()) -> Done:
        """Shrink the batch in *data*; findings of encoders have no co-testees.

        Raises:
            NotShown: *data* is not a batch, or the finding is not reproduced.
        """
        del co_testees
        try:
            best = finding_batch(data)
        except ValueError as error:
            raise NotShown(str(error)) from None
        ((outcome, wanted),) = self.verdicts([best])
        if not outcome.is_finding:
            raise NotShown(NOT_REPRODUCED)
        began, runs, tried, complete = time.monotonic(), 1, {best}, True
        candidates = simpler(best)
        while some := list(islice((each for each in candidates if each not in tried), MANY)):
            if runs >= budget.runs or time.monotonic() - began > budget.seconds:
                complete = False
                break
            runs += len(some)
            tried.update(some)
            shown = [each for each, (_, verdict) in zip(some, self.verdicts(some), strict=True) if verdict == wanted]
            if shown:
                best, candidates = shown[0], simpler(shown[0])
                tried.difference_update(shown[1:])
        ((outcome, _),) = self.verdicts([best])
        return Done(data_of(best), outcome, runs, time.monotonic() - began, complete)

    def close(self) -> None:
        """End the testees."""
        self._stack.close()


def _outcomes(writer: EncodeTestee, requests: Sequence[Writing]) -> Iterator[Outcome]:
    seen = {id(each): observed for each, observed in writer.observe(requests)}
    for each in requests:
        yield encode_outcome(writer.name, each, seen[id(each)]) if id(each) in seen else Outcome(writer.name, "ok")
