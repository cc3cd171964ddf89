"""Targets in process: Python codecs with the expected answer to a mutant, and promises of the reference.

A promise is what a function of the reference holds for any bytes at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

import kafka_records
from kafka_conformance.judge.observation import Decoded, Observation
from kafka_conformance.judge.verdict import judge
from kafka_conformance.testees.interface import CodecError, load_testee
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import BATCH_FIELDS, WireBatch, WireRecord
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import NO_FAULT, first_entry_spans, known_fault
from kafka_fuzz.targets.base import Target, TargetResult, leak
from kafka_fuzz.targets.outcome import OutcomeClass
from kafka_records import Batch, Kind, Limits, LogState, Record, RecordFormatError, TopicConfig
from kafka_records.broker.releases import MINORS
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, NO_TIMESTAMP, RECORD_BATCH_OVERHEAD

if TYPE_CHECKING:
    from kafka_conformance.testees.interface import Testee

# Mutants are small; one with more output is a decompression bomb, for which any answer is accepted.
LIMITS: Final = Limits(max_output_bytes=16 * 1024 * 1024)
# Severities that are not findings of a fuzzer: they depend on the adapter and on the codec's API.
TOLERATED: Final[dict[str, OutcomeClass]] = {"agree": "ok", "skipped": "ok", "lossy": "ok", "wrong_error": "refused"}
OK: Final = TargetResult("ok")
_fields: Final = attrgetter(*(name for name in BATCH_FIELDS if name != "records"))


def right_answer(mutant: Mutant) -> tuple[Expectation, str]:
    """The right answer to *mutant*, by its known fault or by the reference, and the cause of a refusal.

    The cause is the fault, or the rule by which the reference refuses; empty for a valid input.
    """
    if mutant.expected is not None:
        fault = known_fault(mutant) or NO_FAULT
        return _either_way(mutant.expected, mutant.data), "" if fault == NO_FAULT else fault
    try:
        batches = kafka_records.decode(mutant.data, limits=LIMITS)
        return _either_way(Expectation(verdict="valid", batches=batches), mutant.data), ""
    except RecordFormatError as error:
        rule = error.rule or error.kind
        if error.kind == "limit":
            return Expectation(verdict="acceptable", batches=error.batches), rule
        return Expectation(verdict="invalid", batches=error.batches, why=rule), rule


def _either_way(expected: Expectation, data: bytes) -> Expectation:
    """*expected*, by which *data* may be refused, too, if Kafka's own readers differ on it."""
    kinds = open_kinds(expected.batches, data) if expected.verdict == "valid" else ()
    return Expectation(verdict="acceptable", batches=expected.batches, kinds=kinds) if kinds else expected


def open_kinds(batches: Sequence[Batch], data: bytes) -> tuple[Kind, ...]:
    """The kinds of error that are right beside the value, for a batch of v2 without records, as in the corpus.

    For one that names a codec, Java's `iterator` gives nothing; its `streamingIterator`, which the consumer calls,
    opens the codec, and fails for all but zstd.  Both skip bytes that are left over without a codec; other codecs may
    report these, but have nothing to decompress.
    """
    empty = [at for at, batch in enumerate(batches) if batch.magic == MAGIC_VALUE_V2 and not batch.records]
    if any(batches[at].compression != "none" for at in empty):
        return "decompression", "malformed", "truncated"
    spans = first_entry_spans(data) if empty else []
    left = any(end - start > RECORD_BATCH_OVERHEAD for start, end in (spans[at] for at in empty if at < len(spans)))
    return ("malformed", "truncated") if left else ()


def reference_agrees(mutant: Mutant) -> bool:
    """Whether the reference's answer is that of the fault in *mutant*; true if no fault is known."""
    expected = mutant.expected
    if expected is None:
        return True
    try:
        read = kafka_records.decode(mutant.data)
    except RecordFormatError as error:
        refused = expected.verdict != "valid" and error.kind in expected.kinds
        return refused and error.batches == expected.batches[: len(error.batches)]
    return expected.verdict != "invalid" and read == expected.batches


def judged_result(mutant: Mutant, expected: Expectation, observation: Observation) -> TargetResult:
    """The judge's verdict, as an outcome."""
    if is_right(expected, observation):
        return OK
    case = Case(id="fuzz", title="", rules=(), area="fuzz", op="decode", input=mutant.data, expect=expected)
    verdict = judge(case, observation)
    if verdict.outcome in TOLERATED:
        return TargetResult(TOLERATED[verdict.outcome])
    kind: OutcomeClass = verdict.outcome  # type: ignore[assignment]  # severities are outcome classes
    # Without a known fault, the broken rule is part of the key.
    rule = expected.why if kind == "accepts_invalid" else ""
    field = verdict.field and _without_indexes(verdict.field)
    return TargetResult(kind, field, verdict.why, rule, difference=verdict.difference)


def is_right(expected: Expectation, observation: Observation) -> bool:
    """Whether every exposed field is right, so that the judge certainly agrees.

    This saves a third of the time of an input.  It may return False for an answer with
    which the judge agrees, but never True for a wrong one.
    """
    if not isinstance(observation, Decoded) or observation.error is not None or expected.verdict == "invalid":
        return False
    given = observation.batches
    return len(given) == len(expected.batches) and all(map(_is_same, expected.batches, given))


def is_right_so_far(expected: Expectation, given: Sequence[WireBatch]) -> bool:
    """Whether an error is allowed, and the *given* batches before it are the first of the expected ones."""
    if expected.verdict == "valid" or len(given) > len(expected.batches):
        return False
    return all(map(_is_same, expected.batches, given))


def _is_same(batch: Batch, given: WireBatch) -> bool:
    for want, have in zip(_fields(batch), _fields(given), strict=True):
        if want != have and have is not UNSET:
            return False
    if given.records is UNSET:
        return True
    return len(given.records) == len(batch.records) and all(map(_is_same_record, batch.records, given.records))


def _is_same_record(record: Record, given: WireRecord) -> bool:
    offset, timestamp, key, value, headers = record
    return (
        (given.key == key or given.key is UNSET)
        and (given.value == value or given.value is UNSET)
        and (given.offset == offset or given.offset is UNSET)
        and (given.timestamp == timestamp or given.timestamp is UNSET)
        and (given.headers is UNSET or (given.headers == list(headers) if headers else not given.headers))
    )


def _without_indexes(path: str) -> str:
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))


@dataclass(frozen=True, slots=True)
class CodecTarget:
    """A testee in process.

    Attributes:
        testee: the adapter.
        packages: the packages of the codec itself.
        documented: the names of its documented exceptions.
    """

    testee: Testee
    packages: tuple[str, ...]
    documented: frozenset[str]

    def check(self, mutant: Mutant) -> TargetResult:
        """Decode *mutant* and judge the result."""
        expected, _ = right_answer(mutant)
        try:
            observed = Decoded(tuple(self.testee.decode(mutant.data)))
        except CodecError as error:
            cause = error.__cause__ or error
            documented = self.is_documented(cause)
            if not documented and is_right_so_far(expected, error.batches):
                return leak(cause, self.packages)
            result = judged_result(mutant, expected, Decoded(tuple(error.batches), Refusal(error.kind, str(error))))
            if documented:
                return result
            kind = result.kind if result.kind in ("rejects_valid", "wrong_data") else "leaked_exception"
            return leak(cause, self.packages, kind)
        return judged_result(mutant, expected, observed)

    def is_documented(self, error: BaseException) -> bool:
        """Whether *error* is a documented exception of the codec."""
        return any(cls.__name__ in self.documented for cls in type(error).__mro__)


def codec_target(name: str, module: str, packages: tuple[str, ...], documented: tuple[str, ...]) -> Target:
    """The testee *module* as a target; ImportError if its codec is not installed."""
    testee = load_testee(module)
    return Target(name, testee.VERSION, packages, CodecTarget(testee, packages, frozenset(documented)).check)


PACKAGES: Final = ("kafka_records",)
RELEASES: Final = tuple(f"{'.'.join(map(str, minor))}.0" for minor in sorted(MINORS))
MOST_OUT: Final = 1 << 20
NOW: Final = 1_795_000_000_000
CONFIGS: Final = tuple(
    TopicConfig.of(settings)
    for settings in (
        {},
        {"message.timestamp.type": "LogAppendTime"},
        {"cleanup.policy": "compact"},
        *({"compression.type": kind} for kind in ("uncompressed", "gzip", "snappy", "lz4", "zstd")),
    )
)


def round_trip_promise(mutant: Mutant) -> TargetResult:
    """Decoded batches encode to bytes that decode to equal batches, or encoding raises RecordFormatError."""
    try:
        batches = kafka_records.decode(mutant.data, limits=LIMITS)
        written = b"".join(map(kafka_records.encode, batches))
    except RecordFormatError:
        return TargetResult("refused")
    again = kafka_records.decode(written, limits=LIMITS)
    if len(again) != len(batches) or not all(map(is_same, again, batches)):
        return TargetResult("wrong_data", "round trip", "what was written is read as something else")
    return TargetResult("ok")


def is_same(written: Batch, read: Batch) -> bool:
    """Whether *written* is *read* again, as far as its magic has room for it.

    Wrappers of v0 may hold messages of v1, and the other way round: timestamps are lost, or made up.
    """
    wrapped = read.magic < MAGIC_VALUE_V2 and read.compression != "none"
    return timeless(written) == timeless(read) if wrapped or read.timestamp_type == "none" else written == read


def timeless(batch: Batch) -> Batch:
    """*batch* without its timestamps."""
    records = tuple(record._replace(timestamp=NO_TIMESTAMP) for record in batch.records)
    return replace(batch, records=records, max_timestamp=NO_TIMESTAMP)


def explain_promise(mutant: Mutant) -> TargetResult:
    """Every byte has exactly one field, whatever the bytes are."""
    found = kafka_records.explain(mutant.data)
    if any(b"".join(field.raw for field in section.fields) != section.data for section in found.sections):
        return TargetResult("wrong_data", "explain", "bytes without a field")
    return TargetResult("ok")


def append_promise(mutant: Mutant) -> TargetResult:
    """`append` answers every payload, in every release and with any settings."""
    rng = Random(len(mutant.data))
    release = rng.choice(RELEASES)
    version = rng.choice((2, 3, 7, 9))
    log = LogState(log_end_offset=rng.choice((0, 5)))
    result = kafka_records.append(
        log, mutant.data, rng.choice(CONFIGS), release=release, api_version=version, now_ms=NOW
    )
    if result.stored and result.error_code:
        return TargetResult("wrong_data", "append", "bytes are stored with an error")
    return TargetResult("ok" if not result.error_code else "refused")


def convert_promise(mutant: Mutant) -> TargetResult:
    """`convert` gives bytes, or refuses with our error."""
    rng = Random(len(mutant.data))
    try:
        kafka_records.convert(mutant.data, rng.randrange(3), release=rng.choice(RELEASES))
    except RecordFormatError:
        return TargetResult("refused")
    return TargetResult("ok")


def decompress_promise(mutant: Mutant) -> TargetResult:
    """Each decompressor gives no more than it may, or refuses with our error."""
    for codec in COMPRESSIONS:
        for magic in (0, 2):
            try:
                out = decompress(codec, mutant.data, magic=magic, most=MOST_OUT)
            except RecordFormatError:
                continue
            if codec != "none" and len(out) > MOST_OUT:
                return TargetResult("memory", codec, f"{len(out)} bytes out of {len(mutant.data)}")
    return TargetResult("ok")


PROMISES: Final[dict[str, Callable[[Mutant], TargetResult]]] = {
    "roundtrip": round_trip_promise,
    "explain": explain_promise,
    "append": append_promise,
    "convert": convert_promise,
    "decompress": decompress_promise,
}


def promise_target(name: str) -> Target:
    """The promise called *name*, held to any bytes; KeyError if there is none."""
    return Target(name, "", PACKAGES, PROMISES[name])
