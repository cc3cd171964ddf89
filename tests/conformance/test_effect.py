"""The effect of a finding follows from its outcome and from the fields that differ."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kafka_conformance.judge.grade import Effect
from kafka_conformance.judge.grading import effect_of, grade_finding, plain_path, starts_with_skippable
from kafka_conformance.runner.results import ResultLine
from kafka_corpus.case import Case, Expectation, Op
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch, Record

FULL = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=1, records=(Record(0, 1, None, b"value"),))
EMPTY = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=1, records=())


def finding(outcome: Any, field: str = "", why: str = "", also: tuple[str, ...] = ()) -> ResultLine:
    return ResultLine(
        case="a.b", outcome=outcome, area="a", op="decode", expected="valid", rules=("HDR-01",),
        field=field, why=why, also=also,
    )  # fmt: skip


def case_of(op: Op = "decode", *batches: Batch) -> Case:
    return Case(
        id="a.b", title="", rules=("HDR-01",), area="a", op=op, input=b"",
        expect=Expectation(verdict="valid", batches=batches),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "effect"),
    [
        ("agree", None),
        ("skipped", None),
        ("crash", "crash"),
        ("hang", "stuck"),
        ("memory", "memory"),
        ("accepts_invalid", "accepts_invalid"),
        ("rejects_valid", "rejects_valid"),
        ("wrong_error", "wrong_error"),
        ("lossy", "equivalent"),
    ],
)
def test_effects_of_outcomes(outcome: str, effect: Effect | None) -> None:
    """Each outcome but wrong data has one effect."""
    assert effect_of(case_of(), finding(outcome)) == effect


@pytest.mark.parametrize(
    ("field", "effect"),
    [
        ("batches[0].records[1].timestamp", "wrong_data"),
        ("batches[0].records[1].headers[0].key", "wrong_data"),
        ("records[0].value", "wrong_data"),
        ("next_offset", "wrong_data"),
        ("batches[0].last_offset", "wrong_data"),
        ("batches[0].control", "wrong_data"),
        ("batches[0].max_timestamp", "equivalent"),
        ("batches[0].partition_leader_epoch", "equivalent"),
        ("batches[0].compression", "equivalent"),
    ],
)
def test_decoded_fields(field: str, effect: Effect) -> None:
    """A decoded field that differs is wrong data only if records or the position depend on it."""
    assert effect_of(case_of("decode", FULL), finding("wrong_data", field, f"{field}: expected 1, got 2")) == effect


def test_a_record_that_differs_further_on_counts() -> None:
    """A harmless first difference does not hide a record that differs later."""
    line = finding("wrong_data", "batches[0].max_timestamp", "…: expected 1, got 2", ("batches.records.timestamp",))
    assert effect_of(case_of("decode", FULL), line) == "wrong_data"


@pytest.mark.parametrize(
    ("field", "got", "effect"),
    [
        ("batches[0].records.length", 1, "lost_data"),
        ("batches[0].records.length", 3, "wrong_data"),
        ("batches[0].records[0].headers.length", 1, "wrong_data"),
        ("records.length", 0, "lost_data"),
    ],
)
def test_records_that_are_left_out_are_lost(field: str, got: int, effect: Effect) -> None:
    """Fewer records than Kafka delivers are lost data."""
    line = finding("wrong_data", field, f"{field}: expected 2, got {got}")
    assert effect_of(case_of("decode", FULL), line) == effect


def test_a_batch_without_records_may_be_left_out() -> None:
    """A batch without records that is not shown makes no difference."""
    line = finding("wrong_data", "batches.length", "batches.length: expected 2, got 1")
    assert effect_of(case_of("decode", FULL, EMPTY), line) == "equivalent"
    assert effect_of(case_of("decode", FULL, FULL), line) == "lost_data"


@pytest.mark.parametrize(
    ("field", "effect"),
    [
        ("batches[0].records[0].timestamp", "wrong_data"),
        ("batches[0].base_sequence", "wrong_data"),
        ("batches[0].last_offset", "wrong_data"),
        ("batches[0].max_timestamp", "equivalent"),
        ("decompressed[7]", "equivalent"),
    ],
)
def test_written_fields(field: str, effect: Effect) -> None:
    """A written field that differs is wrong data only if a reader depends on it."""
    assert effect_of(case_of("encode"), finding("wrong_data", field, f"{field}: expected 1, got 2")) == effect


def test_written_bytes_that_cannot_be_read_are_wrong() -> None:
    """Written bytes that Kafka refuses are wrong data."""
    line = finding("wrong_data", "data", "data: expected bytes that can be read, got a batch of 3 bytes")
    assert effect_of(case_of("encode"), line) == "wrong_data"


def test_plain_paths_keep_the_number_of_batches_apart() -> None:
    """A path without indexes does not confuse the number of batches with that of records."""
    assert plain_path("batches.length") == "batches.length"
    assert plain_path("batches[3].records.length") == "records.length"


@pytest.mark.parametrize(
    ("changes", "effect"),
    [
        ({"magic": 1}, "equivalent"),
        ({"magic": 0, "timestamp_type": "none"}, "equivalent"),
        ({"magic": 1, "compression": "gzip"}, "wrong_data"),
        ({"magic": 2}, "wrong_data"),
    ],
    ids=str,
)
def test_offsets_of_written_messages(changes: dict[str, Any], effect: Effect) -> None:
    """Brokers assign the offsets of messages without compression; kafkajs writes -1 there."""
    case = replace(case_of("encode"), input=replace(FULL, **changes))
    line = finding("wrong_data", "batches[0].base_offset", "", ("batches.last_offset", "batches.records.offset"))
    timestamp = finding("wrong_data", "batches[0].base_offset", "", ("batches.records.timestamp",))

    assert (effect_of(case, line), effect_of(case, timestamp)) == (effect, "wrong_data")


@pytest.fixture(scope="module")
def corpus_cases() -> dict[str, Case]:
    return {case.id: case for case in load_vectors()}


def result_of(case: Case, outcome: Any, **observation: Any) -> ResultLine:
    return ResultLine(
        case=case.id, outcome=outcome, area=case.area, op=case.op, expected=case.expect.verdict, rules=case.rules,
        observation=observation,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "outcome", "grade"),
    [
        ("lz4.not_a_frame[skippable-first]", "accepts_invalid", "NON_STRICT"),  # the frame format allows it
        ("lz4.not_a_frame[skippable-first]", "crash", "HOSTILE"),
        ("lz4.not_a_frame[legacy]", "accepts_invalid", "HOSTILE"),
    ],
)
def test_a_skippable_lz4_frame_may_be_read(name: str, outcome: str, grade: str, corpus_cases: dict[str, Case]) -> None:
    """A codec that reads past a skippable frame is lenient."""
    case = corpus_cases[name]
    assert starts_with_skippable(case) == ("skippable" in name)
    found = grade_finding(case, result_of(case, outcome, records=0))
    assert found is not None
    assert (found.grade, found.reach) == (grade, "hostile")


@pytest.mark.parametrize(
    ("name", "kind", "grade"),
    [
        ("legacy_shapes.wrapper[v0-lz4-null-small]", "unsupported_compression", "NON_STRICT"),
        ("legacy_shapes.wrapper[v0-lz4-null-small]", "decompression", "FAIL"),
        ("compaction.magics_after_cleaning[lz4]", "unsupported_compression", "FAIL"),  # its batch of v2 is read by all
    ],
)
def test_a_codec_may_decline_an_old_compression(
    name: str, kind: str, grade: str, corpus_cases: dict[str, Case]
) -> None:
    """A codec that reports that it does not read lz4 in v0 is not certified for it, and has no defect there."""
    case = corpus_cases[name]
    line = result_of(case, "rejects_valid", kind="refused", error={"kind": kind, "message": ""})
    found = grade_finding(case, line)
    assert found is not None
    assert (found.grade, found.reach) == (grade, "old_logs")


@pytest.mark.parametrize(
    ("name", "outcome", "grade"),
    [
        ("snappy.repeated_header[v1-middle]", "rejects_valid", "NON_STRICT"),
        ("snappy.repeated_header[v2-middle]", "rejects_valid", "NON_STRICT"),
        ("snappy.xerial_blocks[v2]", "rejects_valid", "FAIL"),
        ("snappy.raw_block[v2]", "rejects_valid", "FAIL"),
        ("kraft.golden[leader-change]", "wrong_data", "NON_STRICT"),
        ("control.golden_marker[commit]", "wrong_data", "FAIL"),
        ("v2_offsets.gaps_after_compaction[none-one record of very many]", "rejects_valid", "NON_STRICT"),
        ("v2_offsets.gaps_after_compaction[none-first removed]", "rejects_valid", "FAIL"),
    ],
)
def test_forms_that_consumers_do_not_meet(name: str, outcome: str, grade: str, corpus_cases: dict[str, Case]) -> None:
    """No writer repeats an xerial header or fills a batch with 2^30 records; consumers get no metadata log."""
    case = corpus_cases[name]
    line = replace_field(result_of(case, outcome), "batches[0].records[0].offset" if outcome == "wrong_data" else "")
    found = grade_finding(case, line)
    assert found is not None
    assert found.grade == grade


@pytest.mark.parametrize(
    ("name", "outcome", "grade"),
    [
        ("compression.more_records_than_compressed_bytes", "hang", "FAIL"),
        ("v2_headers.key_is_not_utf_8[0xff]", "crash", "FAIL"),
        ("v2_headers.key_is_not_utf_8[0xff]", "rejects_valid", "FAIL"),
        ("gzip.empty_member[first]", "crash", "HOSTILE"),
        ("compaction.empty_batch_offsets[two-billion]", "hang", "HOSTILE"),
        ("compaction.records_written_anew[none]", "hang", "FAIL"),
        ("timestamp.append_time_under_a_horizon[gzip]", "rejects_valid", "NON_STRICT"),
    ],
)
def test_valid_bytes_that_stop_a_codec(name: str, outcome: str, grade: str, corpus_cases: dict[str, Case]) -> None:
    """A codec that stops at what any producer stores is as wrong as one that refuses it."""
    found = grade_finding(corpus_cases[name], result_of(corpus_cases[name], outcome))
    assert found is not None
    assert found.grade == grade


def replace_field(line: ResultLine, field: str) -> ResultLine:
    return msgspec.structs.replace(line, field=field)


@pytest.mark.parametrize(
    ("name", "plain", "grade"),
    [
        ("framing.unknown_magic[127]", True, "NON_STRICT"),
        ("framing.unknown_magic[127]", False, "FAIL"),
        ("v2_crc.one_batch_of_three_is_corrupt[second]", True, "FAIL"),
    ],
)
def test_damage_that_no_checksum_covers(name: str, *, plain: bool, grade: str, corpus_cases: dict[str, Case]) -> None:
    """A codec may give the records of a batch whose magic alone is damaged; other damage has to be found."""
    case = corpus_cases[name]
    found = grade_finding(case, result_of(case, "accepts_invalid", plain=plain))
    assert found is not None
    assert (found.grade, found.reach) == (grade, "rot")


NOT_OF_A_PRODUCER = {
    "append time": {"timestamp_type": "append"},
    "a delete horizon": {"delete_horizon": 5},
    "a control batch of the metadata log": {"control": True},
    "a gap at the end": {"last_offset": 4},
    "a first record above the base": {"base_offset": 0, "records": (Record(1, 1, None, b"value"),), "last_offset": 1},
    "no time": {"records": (Record(0, -1, None, b"value"),)},
    "a year after 2100": {"records": (Record(0, 1 << 43, None, b"value"),)},
}


@pytest.mark.parametrize("fields", NOT_OF_A_PRODUCER.values(), ids=NOT_OF_A_PRODUCER)
def test_batches_that_no_producer_is_given(fields: dict[str, Any]) -> None:
    """Wrong records are a FAIL of a writer only where a producer can be given such a batch."""
    line = finding("wrong_data", "batches[0].records[0].value", "expected 0x76, got 0x77")
    ordinary = replace(case_of("encode"), input=FULL)
    grades = [grade_finding(replace(ordinary, input=batch), line) for batch in (FULL, replace(FULL, **fields))]
    assert [found.grade for found in grades if found is not None] == ["FAIL", "NON_STRICT"]
