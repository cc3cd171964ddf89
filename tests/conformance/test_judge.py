"""Case and observation in, verdict out: one row for each judgement."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from kafka_conformance.judge.observation import (
    Crashed,
    Decoded,
    Encoded,
    Exceeded,
    Garbled,
    Hung,
    Observation,
    Refused,
    Skipped,
)
from kafka_conformance.judge.verdict import Verdict, judge
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import WireBatch, WireRecord, to_wire
from kafka_records import Batch, Header, Record

RECORDS = (
    Record(0, 10, b"key", b"", (Header(b"h", None), Header(b"\xff", b"v"))),
    Record(1, 11, None, b"value"),
)
BATCH = Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=11, records=RECORDS)
HEADERS = "batches[0].records[0].headers"
CORRUPT = Refusal("corrupt", "the CRC does not match")


def decode_case(verdict: Any, *batches: Batch, **expect: Any) -> Case:
    """A decode case with this right answer."""
    expectation = Expectation(verdict=verdict, batches=batches, **expect)
    return Case(id="a.b", title="", rules=("X",), area="a", op="decode", input=b"", expect=expectation)


VALID = decode_case("valid", BATCH)
INVALID = decode_case("invalid", kinds=("corrupt", "malformed"))
INVALID_AFTER_ONE = decode_case("invalid", BATCH)
ACCEPTABLE = decode_case("acceptable", BATCH, kinds=("malformed",), why="they differ")


def given(**fields: Any) -> WireBatch:
    """BATCH as a testee gives it, with other *fields*."""
    return msgspec.structs.replace(to_wire(BATCH), **fields)


def given_record(index: int, **fields: Any) -> WireBatch:
    """BATCH as a testee gives it, with other fields in one record."""
    records = to_wire(BATCH).records
    assert isinstance(records, list)
    records[index] = msgspec.structs.replace(records[index], **fields)
    return given(records=records)


def headers(*pairs: tuple[bytes | None, bytes | None]) -> WireBatch:
    """BATCH with other headers in its first record."""
    return given_record(0, headers=list(pairs))


@pytest.mark.parametrize(
    ("case", "observation", "outcome", "field"),
    [
        # valid
        (VALID, Decoded((given(),)), "agree", ""),
        (VALID, Decoded(()), "wrong_data", "batches.length"),
        (VALID, Decoded((given(), given())), "wrong_data", "batches.length"),
        (VALID, Decoded((given(last_offset=2),)), "wrong_data", "batches[0].last_offset"),
        (VALID, Decoded((given(delete_horizon=0),)), "wrong_data", "batches[0].delete_horizon"),
        (VALID, Decoded((given(control=True, magic=1),)), "wrong_data", "batches[0].magic"),
        (VALID, Decoded((given(records=[]),)), "wrong_data", "batches[0].records.length"),
        (VALID, Decoded((given_record(1, timestamp=10),)), "wrong_data", "batches[0].records[1].timestamp"),
        (VALID, Decoded((given_record(1, key=b""),)), "wrong_data", "batches[0].records[1].key"),
        (VALID, Decoded((given_record(0, value=None),)), "wrong_data", "batches[0].records[0].value"),
        (VALID, Decoded((headers((b"h", None)),)), "wrong_data", f"{HEADERS}.length"),
        (VALID, Decoded((headers((b"h", b""), (b"\xff", b"v")),)), "wrong_data", f"{HEADERS}[0].value"),
        (VALID, Decoded((headers((b"h", None), (b"x", b"v")),)), "wrong_data", f"{HEADERS}[1].key"),
        (VALID, Decoded((headers((b"h", None), (b"\xef\xbf\xbd", b"v")),)), "lossy", f"{HEADERS}[1].key"),
        (VALID, Refused(CORRUPT), "rejects_valid", "error"),
        (VALID, Decoded((given(),), CORRUPT), "rejects_valid", "error"),
        (VALID, Decoded((given(magic=1),), CORRUPT), "wrong_data", "batches[0].magic"),
        # fields that are left out
        (VALID, Decoded((given(magic=UNSET),)), "agree", ""),
        (VALID, Decoded((given(records=UNSET),)), "agree", ""),
        (VALID, Decoded((given_record(0, timestamp=UNSET),)), "agree", ""),
        (VALID, Decoded((given(magic=UNSET, last_offset=5),)), "wrong_data", "batches[0].last_offset"),
        # invalid
        (INVALID, Refused(CORRUPT), "agree", ""),
        (INVALID, Decoded((), CORRUPT), "agree", ""),
        (INVALID, Refused(Refusal("limit")), "wrong_error", "error.kind"),
        (INVALID, Decoded(()), "accepts_invalid", "error"),
        (INVALID, Decoded((given(),)), "accepts_invalid", "error"),
        (INVALID, Decoded((given(),), CORRUPT), "wrong_data", "batches.length"),
        (INVALID_AFTER_ONE, Decoded((given(),), CORRUPT), "agree", ""),
        (INVALID_AFTER_ONE, Decoded((), CORRUPT), "agree", ""),
        (INVALID_AFTER_ONE, Refused(Refusal("anything")), "agree", ""),
        (INVALID_AFTER_ONE, Refused(Refusal("other")), "wrong_error", "error.kind"),
        (INVALID, Refused(Refusal("other", "IndexError: 5")), "wrong_error", "error.kind"),
        (INVALID_AFTER_ONE, Decoded((given(magic=0),), CORRUPT), "wrong_data", "batches[0].magic"),
        # acceptable
        (ACCEPTABLE, Decoded((given(),)), "agree", ""),
        (ACCEPTABLE, Refused(Refusal("malformed")), "agree", ""),
        (ACCEPTABLE, Refused(CORRUPT), "wrong_error", "error.kind"),
        (ACCEPTABLE, Decoded((given(magic=1),)), "wrong_data", "batches[0].magic"),
        # what the sandbox says
        (VALID, Skipped("no"), "crash", ""),
        (VALID, Skipped("announces no decode of magic 2", by_runner=True), "skipped", ""),
        (INVALID, Crashed(signal=11), "crash", ""),
        (INVALID, Crashed(exit_code=2, stderr="panic"), "crash", ""),
        (ACCEPTABLE, Hung(0.5), "hang", ""),
        (INVALID, Exceeded("too much"), "memory", ""),
        (VALID, Garbled("no reply"), "crash", ""),
        (VALID, Encoded(b""), "crash", ""),
    ],
    ids=str,
)  # fmt: skip
def test_verdicts(case: Case, observation: Observation, outcome: str, field: str) -> None:
    """Each observation gets the outcome, and names the field, that the contract says."""
    verdict = judge(case, observation)

    assert (verdict.outcome, verdict.field) == (outcome, field)
    assert verdict.why or verdict.outcome == "agree"


def test_why_shows_both_values() -> None:
    """The explanation names the path, what was right, and what came."""
    verdict = judge(VALID, Decoded((given_record(1, timestamp=-1),)))

    assert verdict.why == "batches[0].records[1].timestamp: expected 11, got -1"


def test_wrong_data_wins_over_lossy() -> None:
    """If one field is lossy and another is wrong, the case is wrong."""
    wrong = headers((b"h", None), (b"\xef\xbf\xbd", b"other"))

    assert judge(VALID, Decoded((wrong,))).field == "batches[0].records[0].headers[1].value"


def test_other_differing_fields_are_named() -> None:
    """Beside the first field, the others that differ are named without their indexes."""
    verdict = judge(VALID, Decoded((msgspec.structs.replace(given_record(1, timestamp=9), magic=1, control=True),)))

    assert (verdict.field, verdict.also) == ("batches[0].magic", ("batches.control", "batches.records.timestamp"))


def test_left_out_fields_are_named() -> None:
    """Fields that are not exposed are listed, in batches and in records."""
    verdict = judge(VALID, Decoded((msgspec.structs.replace(given_record(0, headers=UNSET), magic=UNSET),)))

    assert verdict == Verdict("agree", left_out=("magic", "records.headers"))


def test_records_alone() -> None:
    """With `compare: records` fields of the batch are not looked at, those of records are."""
    case = decode_case("valid", BATCH, compare="records")

    assert judge(case, Decoded((given(last_offset=99, magic=0),))).outcome == "agree"
    assert judge(case, Decoded((given_record(1, offset=99),))).outcome == "wrong_data"


@pytest.mark.parametrize("key", ["�".encode(), b"", "ÿ".encode()])
def test_keys_made_text_are_lossy(key: bytes) -> None:
    """A key that is not UTF-8 may come back replaced, dropped or as Latin-1: lossy."""
    assert judge(VALID, Decoded((headers((b"h", None), (key, b"v")),))).outcome == "lossy"


def test_a_key_that_is_text_must_be_right() -> None:
    """Where the key is UTF-8, a replacement character is wrong data."""
    assert judge(VALID, Decoded((headers(("�".encode(), None), (b"\xff", b"v")),))).outcome == "wrong_data"


def test_a_null_key_is_no_empty_one() -> None:
    """A header key of null is other data than an empty key."""
    empty = decode_case("valid", replace(BATCH, records=(Record(0, 10, b"key", b"", (Header(b"", b"v"),)), RECORDS[1])))

    assert judge(empty, Decoded((headers((b"", b"v")),))).outcome == "agree"
    assert judge(empty, Decoded((headers((None, b"v")),))).outcome == "wrong_data"


MIXED = (Header(b"a", b"1"), Header(b"b", b"2"), Header(b"a", b"3"))


@pytest.mark.parametrize(
    ("order", "outcome"),
    [
        ((0, 1, 2), "agree"),
        ((0, 2, 1), "lossy"),
        ((1, 0, 2), "wrong_data"),
        ((2, 0, 1), "wrong_data"),
        ((2, 1, 0), "wrong_data"),
    ],
)
def test_a_map_of_headers_loses_the_order_across_keys(order: tuple[int, ...], outcome: str) -> None:
    """A map of lists shows the headers of one key together, and in their order; any other order is wrong."""
    mixed = Record(0, 10, b"key", b"", MIXED)
    case = decode_case("valid", replace(BATCH, records=(mixed, RECORDS[1])))

    verdict = judge(case, Decoded((headers(*((MIXED[at].key, MIXED[at].value) for at in order)),)))

    assert verdict.outcome == outcome
    assert verdict.field.startswith(HEADERS) is (outcome != "agree")


@pytest.mark.parametrize(
    ("keys", "shown", "outcome"),
    [
        ("b a c", "a b c", "lossy"),  # a sorted map, of Rust
        ("x 10 9", "9 10 x", "lossy"),  # an object, of JavaScript
        ("x 09 9", "9 x 09", "lossy"),
        ("b a c", "c b a", "wrong_data"),
        ("b a c", "a b", "wrong_data"),
    ],
)
def test_a_map_of_another_language_has_its_own_order(keys: str, shown: str, outcome: str) -> None:
    """The order across keys is lost where the API is a map; a header that is missing is wrong data."""
    written = tuple(Header(key.encode(), b"v") for key in keys.split())
    case = decode_case("valid", replace(BATCH, records=(Record(0, 10, b"key", b"", written), RECORDS[1])))

    verdict = judge(case, Decoded((headers(*((key.encode(), b"v") for key in shown.split())),)))

    assert verdict.outcome == outcome


def test_a_wrong_answer_to_another_question() -> None:
    """Batches are no answer to encode."""
    case = replace(VALID, op="encode", input=BATCH)

    assert judge(case, Decoded((given(),))).outcome == "crash"


def test_hostile_values_are_shown_escaped_and_short() -> None:
    """Values in an explanation are bounded and hold no control characters."""
    record = WireRecord(0, 10, b"\x1b[2J" * 1000, b"", [])
    verdict = judge(VALID, Decoded((given(records=[record]),)))

    assert "\x1b" not in verdict.why
    assert len(verdict.why) < 200
