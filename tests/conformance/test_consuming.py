"""The judge of deliveries: one row for each judgement."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafka_conformance.judge.consuming import (
    BELOW,
    IN_CONTROL,
    UNFOLLOWABLE,
    expected_records,
    too_few_before_an_error,
)
from kafka_conformance.judge.observation import ConsumedRecords, Skipped
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.kept_results import kept_files, read_kept
from kafka_conformance.runner.requests import unsupported
from kafka_conformance.testees.protocol import HelloReply, Refusal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.vectors import load_vectors
from kafka_corpus.wire import WireRecord, to_wire
from kafka_records import Batch, Record, encode
from kafka_records.checksum import checksum_v2
from kafka_records.compression import compress
from kafka_records.message import Message, encode_message

RESULTS = Path(__file__).resolve().parents[2] / "results"
FIRST = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, b"k", b"v"),))
# The last record of the second was compacted away.
SECOND = Batch(magic=2, base_offset=1, last_offset=2, max_timestamp=5, records=(Record(1, 5, None, b"w"),))
MARKER = replace(FIRST, control=True, transactional=True, producer_id=1, producer_epoch=0)
EMPTY = replace(FIRST, records=())


def records(*batches: Batch) -> tuple[WireRecord, ...]:
    """The records of *batches* as a consumer gives them."""
    return tuple(record for batch in batches for record in to_wire(batch).records or ())


def case(verdict: Any, *batches: Batch, data: bytes = b"", **expect: Any) -> Case:
    """A decode case with this right answer."""
    expectation = Expectation(verdict=verdict, batches=batches, **expect)
    return Case(id="a.b", title="", rules=("X",), area="a", op="decode", input=data, expect=expectation)


VALID = case("valid", FIRST, SECOND)
INVALID = case("invalid", FIRST, kinds=("corrupt",))
UNKNOWN = case("invalid", FIRST, kinds=("unsupported_compression",))
PART = case("valid", data=encode(FIRST)[:-1])
COMMITTED = replace(case("valid", FIRST, SECOND, committed=(0, 1)), aborted=())
BOTH = records(FIRST, SECOND)
OTHER = (BOTH[0], msgspec.structs.replace(BOTH[1], value=b"x"))
REFUSED = Refusal("corrupt", "bad")
UNTOLD = Refusal(message="bad")


@pytest.mark.parametrize(
    ("case", "consumed", "outcome", "field"),
    [
        (VALID, ConsumedRecords(BOTH, 3), "agree", ""),
        (VALID, ConsumedRecords(BOTH), "agree", ""),
        (VALID, ConsumedRecords(BOTH[:1], 3), "wrong_data", "records.length"),
        (VALID, ConsumedRecords((*BOTH, BOTH[1]), 3), "wrong_data", "records.length"),
        (VALID, ConsumedRecords(OTHER, 3), "wrong_data", "records[1].value"),
        (VALID, ConsumedRecords(BOTH, 7), "wrong_data", "next_offset"),
        (VALID, ConsumedRecords(BOTH, 2, stalled=True), "hang", "next_offset"),
        # What a codec only says it would fetch next is not played until it stalls.
        (COMMITTED, ConsumedRecords(BOTH, 3), "agree", ""),
        (COMMITTED, ConsumedRecords(BOTH, 2), "wrong_data", "next_offset"),
        (VALID, ConsumedRecords((), 0, stalled=True), "hang", "next_offset"),
        (VALID, ConsumedRecords(OTHER, 2, stalled=True), "wrong_data", "records[1].value"),
        (VALID, ConsumedRecords(BOTH[:1], error=REFUSED), "rejects_valid", "error"),
        (VALID, ConsumedRecords(BOTH, error=UNTOLD), "rejects_valid", "error"),
        (VALID, ConsumedRecords(OTHER, error=REFUSED), "wrong_data", "records[1].value"),
        # A batch without records and a control batch change only a consumer's position.
        (case("valid", MARKER), ConsumedRecords((), 1), "agree", ""),
        (case("valid", MARKER), ConsumedRecords(records(MARKER), 1), "wrong_data", "records.length"),
        (case("valid", EMPTY), ConsumedRecords((), 0, stalled=True), "hang", "next_offset"),
        (case("valid"), ConsumedRecords((), 0), "agree", ""),
        (case("valid"), ConsumedRecords((), error=UNTOLD), "rejects_valid", "error"),
        # KIP-74: a response with a part of a batch and nothing else is none that a broker sends.
        (case("valid", data=encode(FIRST)[:-1]), ConsumedRecords((), error=UNTOLD), "agree", ""),
        (case("valid", data=encode(FIRST)[:-1]), ConsumedRecords(BOTH[:1], error=UNTOLD), "rejects_valid", "error"),
        (PART, ConsumedRecords((), error=Refusal("other", "TypeError")), "wrong_error", "error.kind"),
        (PART, ConsumedRecords((), 0, stalled=True), "agree", ""),
        (PART, ConsumedRecords((), 1, stalled=True), "hang", "next_offset"),
        (PART, ConsumedRecords((), error=UNTOLD, stalled=True), "hang", "next_offset"),
        (INVALID, ConsumedRecords(BOTH[:1], error=REFUSED), "agree", ""),
        # The sound records before the damage are held back.
        (INVALID, ConsumedRecords((), error=REFUSED), "wrong_error", "records.length"),
        (INVALID, ConsumedRecords((), error=UNTOLD), "wrong_error", "records.length"),
        # Java's client holds them back itself where the codec is unknown.
        (UNKNOWN, ConsumedRecords((), error=Refusal("unsupported_compression")), "agree", ""),
        (INVALID, ConsumedRecords(BOTH[:1], error=UNTOLD), "agree", ""),
        (INVALID, ConsumedRecords((), error=Refusal("limit")), "wrong_error", "error.kind"),
        (INVALID, ConsumedRecords(BOTH, error=REFUSED), "agree", ""),
        (INVALID, ConsumedRecords(OTHER[1:], error=REFUSED), "wrong_data", "records[0].offset"),
        (INVALID, ConsumedRecords(BOTH[:1], 3), "accepts_invalid", "error"),
        (INVALID, ConsumedRecords((), 0, stalled=True), "hang", "next_offset"),
        (case("acceptable", FIRST, kinds=("malformed",), why="they differ"), ConsumedRecords(BOTH[:1], 1), "agree", ""),
    ],
    ids=str,
)  # fmt: skip
def test_verdicts(case: Case, consumed: ConsumedRecords, outcome: str, field: str) -> None:
    """Each thing that a consumer may do gets the outcome that the contract says."""
    verdict = judge(case, consumed)

    assert (verdict.outcome, verdict.field) == (outcome, field), verdict.why


def test_held_back_records_are_named_beside_the_kind_of_the_error() -> None:
    """A refusal that comes too early, and with another kind of error, has both in its reason."""
    verdict = judge(INVALID, ConsumedRecords((), error=Refusal("limit", "too large")))

    assert verdict.why == "expected 1 before the error, got 0; expected corrupt, got limit: too large"


def test_kafkas_own_consumer_holds_nothing_back() -> None:
    """The kept answers of the Java consumer have every record that others have to give before their error."""
    java = read_kept(next(file for file in kept_files(RESULTS) if file.name.startswith("java-consumer-")))
    count = 0
    for each in load_vectors():
        observation = java.lines[each.id].observation if each.id in java.lines else {}
        if each.op != "decode" or not observation.get("error") or each.expect.verdict != "invalid":
            continue
        records = expected_records(each)[: observation["records"]]
        consumed = ConsumedRecords(tuple(records), error=REFUSED)
        assert not too_few_before_an_error(each, consumed), each.id
        count += bool(expected_records(each))
    assert count > 50


def test_fields_a_consumer_does_not_expose_are_left_out() -> None:
    """Fields of batches count as not exposed, and so does an error of no kind."""
    assert {"base_offset", "producer_id"} <= set(judge(VALID, ConsumedRecords(BOTH, 3)).left_out)
    assert "error.kind" in judge(INVALID, ConsumedRecords((), error=UNTOLD)).left_out


# A control bit in less than a header: damage, and no control batch.
SHORT_CONTROL = encode(MARKER)[:8] + (14).to_bytes(4, "big") + encode(MARKER)[12:26]

# Three messages in a wrapper, of which the last has a wrong checksum.
WRAPPED = tuple(Record(at, 5, None, b"%d" % at) for at in range(3))
PACKED = [
    encode(Batch(magic=1, base_offset=at, last_offset=at, max_timestamp=5, records=(WRAPPED[at],))) for at in range(3)
]
BROKEN_WRAPPER = encode_message(
    Message(2, 1, 1, 5, None, compress("gzip", b"".join(PACKED)[:-1] + b"x", magic=1)),
)


@pytest.mark.parametrize(
    ("offsets", "outcome"),
    [((), "agree"), ((0,), "agree"), ((0, 1), "agree"), ((1, 2), "wrong_data"), ((0, 2), "wrong_data")],
)
def test_messages_before_a_wrong_inner_checksum(offsets: tuple[int, ...], outcome: str) -> None:
    """The sound messages of a wrapper have their own offsets, though the last one cannot be delivered (NST-18)."""
    sound = to_wire(Batch(magic=1, base_offset=0, last_offset=2, max_timestamp=5, records=WRAPPED)).records or ()
    given = tuple(msgspec.structs.replace(sound[at], offset=offset) for at, offset in enumerate(offsets))

    verdict = judge(case("invalid", data=BROKEN_WRAPPER, kinds=("corrupt",)), ConsumedRecords(given, error=REFUSED))

    assert verdict.outcome == outcome, verdict.why


# Two records, and a byte after them.
LONG = encode(Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=5, records=WRAPPED[:2]))
LONG = LONG[:8] + (len(LONG) - 11).to_bytes(4, "big") + LONG[12:] + b"\0"
LONG = LONG[:17] + checksum_v2(LONG).to_bytes(4, "big") + LONG[21:]


@pytest.mark.parametrize(("count", "outcome"), [(0, "agree"), (1, "agree"), (2, "wrong_error")])
def test_a_record_that_kafka_holds_back(count: int, outcome: str) -> None:
    """The last record of a batch with bytes after it is delivered before the error, and not by Kafka (HDR-14)."""
    given = records(Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=5, records=WRAPPED[:2]))[:count]

    verdict = judge(case("invalid", data=LONG, kinds=("corrupt",)), ConsumedRecords(given, error=REFUSED))

    assert verdict.outcome == outcome, verdict.why
    assert count < 2 or verdict.why == "expected at most 1 before the error, got 2"


HELLO = HelloReply(protocol=1, name="c", version="1", consumer=True)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (VALID, ""),
        (case("valid", SECOND, FIRST), UNFOLLOWABLE),
        (case("valid", FIRST, FIRST), UNFOLLOWABLE),
        (case("valid", replace(FIRST, base_offset=-1, records=(Record(-1, 5, None, None),))), UNFOLLOWABLE),
        (case("valid", replace(EMPTY, last_offset=(1 << 63) - 1)), UNFOLLOWABLE),
        (case("invalid", data=encode(MARKER), kinds=("malformed",)), IN_CONTROL),
        (case("invalid", data=encode(MARKER), kinds=("corrupt",)), ""),
        (case("invalid", data=SHORT_CONTROL, kinds=("malformed",)), ""),
        (case("invalid", data=encode(FIRST), kinds=("malformed",)), ""),
        (case("invalid", FIRST, data=encode(FIRST) + encode(SECOND), kinds=("malformed",)), ""),
        (case("invalid", FIRST, data=encode(FIRST) + encode(FIRST), kinds=("decompression", "corrupt")), BELOW),
        (case("invalid", FIRST, data=encode(FIRST) + encode(FIRST), kinds=("corrupt",)), ""),
        (case("invalid", FIRST, data=encode(FIRST) + encode(FIRST)[:20], kinds=("malformed",)), ""),
        (case("invalid", FIRST, data=encode(FIRST) + bytes(20), kinds=("malformed",)), ""),
    ],
    ids=str,
)
def test_cases_a_consumer_does_not_get(case: Case, reason: str) -> None:
    """Offsets that do not go up, and what a consumer need not look into, are left to decoders; damage is not."""
    assert unsupported(case, HELLO) == (Skipped(reason, by_runner=True) if reason else None)
    assert unsupported(case, msgspec.structs.replace(HELLO, consumer=False)) is None
