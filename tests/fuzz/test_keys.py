"""Keys of findings: one key for each cause, whatever the input was, and never one for two."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kafka_conformance.judge.compare import Difference
from kafka_conformance.judge.observation import Crashed, Exceeded, Hung
from kafka_conformance.testees.protocol import CodecAnswer, Refusal
from kafka_corpus.wire import to_wire
from kafka_fuzz.differential.outcome_tuples import Grade, Grader, Prepared
from kafka_fuzz.mutate import Mutant, for_cell
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.mutate.model import AFTER_ODDITY, draw_oddity, reachable, with_fault
from kafka_fuzz.targets.outcome import Outcome, corpus_key, normalized_message, value_relation
from kafka_fuzz.triage.causes import heading_sentence


def prepared_for(fault: str) -> list[Prepared]:
    """A mutant of each magic and codec in which *fault* can occur."""
    cells = {(cell.magic, cell.codec): cell for cell in sorted(reachable()) if cell.fault == fault}
    return [Prepared(for_cell(Random(1), cell)) for cell in cells.values()]


def unlabelled(prepared: Prepared) -> Prepared:
    """The same bytes, without a label that names their mutation."""
    mutant = prepared.mutant
    return Prepared(Mutant(mutant.data, "bytes", ("seed",), None, mutant.cell))


def keys(some: list[Prepared], answer: object) -> set[str]:
    """The keys of finds if a testee gives *answer* to each."""
    judge = Grader("t")
    return {judge.outcome(each, judge.grade(each, answer)).key for each in some}  # type: ignore[arg-type]


TAKEN = CodecAnswer(batches=[])
REFUSED = CodecAnswer(error=Refusal("malformed", "index out of range"))


@pytest.mark.parametrize("fault", ["record_count_too_high", "varint_too_long", "inner_crc_wrong"])
def test_codecs_are_no_causes(fault: str) -> None:
    """One fault that a testee does not notice is one key for each rule it breaks, in all codecs.

    Without the fault's label the key has the rule alone; both have the same heading.
    """
    some = prepared_for(fault)
    assert len(some) > 3
    assert len(keys(some, TAKEN)) == len({each.rule for each in some}) == 1
    assert all(key.endswith(f" {fault}") for key in keys(some, TAKEN))
    assert {corpus_key(key) for key in keys(some, TAKEN)} == keys([*map(unlabelled, some)], TAKEN)


def test_an_oddity_before_a_fault_is_no_fault() -> None:
    """The key of a compound input names its last fault, not the odd entry before it; so does what is skipped."""
    cell = next(cell for cell in sorted(reachable()) if cell.fault == "varint_too_long" and cell.position == "last")
    rng = Random(1)
    compound = Prepared(with_fault(rng, FAULTS[cell.fault], cell, draw_oddity(rng)))
    assert compound.mutant.labels[0] == AFTER_ODDITY
    assert (compound.fault, compound.cause) == (cell.fault, cell.fault)
    assert keys([compound], CodecAnswer(batches=compound.wire)) == keys(prepared_for(cell.fault)[:1], TAKEN)


def test_rules_are_causes() -> None:
    """Inputs that break other rules have other keys."""
    some = [
        prepared_for(fault)[0]
        for fault in ("record_count_too_high", "varint_too_long", "inner_crc_wrong", "magic_unknown")
    ]
    assert len(keys(some, TAKEN)) == 4


def test_endings_are_never_refusals() -> None:
    """Taken, refused, crashed, hung and out of memory are five finds, over one valid or one invalid input."""
    endings = [TAKEN, REFUSED, Crashed(signal=11), Hung(1.0), Exceeded("it ran out of memory", "")]
    found = {key for ending in endings for key in keys(prepared_for("record_count_too_high")[:1], ending)}
    assert len({key.split("|")[1] for key in found}) == 5
    valid = {key for ending in endings for key in keys(prepared_for("base_offset_at_an_edge")[:1], ending)}
    assert {key.split("|")[1] for key in valid} == {"wrong_data", "rejects_valid", "crash", "hang", "memory"}


def test_a_stall_has_the_area_and_a_loop_its_class() -> None:
    """A consumer that deadlocks has the area of the rule in its key; a busy loop has the class of the fault."""
    some = [
        prepared_for(fault)[0] for fault in ("header_count_too_low", "record_length_too_large", "record_length_zero")
    ]
    assert keys(some, Hung(1.0, "fatal error: all goroutines are asleep - deadlock!")) == {"t|hang|deadlock|REC"}
    assert keys(some, Hung(1.0)) == {"t|hang||REC-03"}  # a length that is not the size, whatever is wrong about it
    assert keys([*some, *prepared_for("record_count_too_high")], Hung(1.0)) == {"t|hang||REC-03", "t|hang||HDR-13"}


def test_valid_inputs_over_which_a_testee_hangs_differ() -> None:
    """No rule is broken then, and the harmless fault distinguishes them."""
    some = [prepared_for(fault)[0] for fault in ("base_offset_at_an_edge", "base_timestamp_at_an_edge")]
    assert len(keys(some, Hung(1.0))) == 2


def test_wrong_data_have_a_key_by_difference() -> None:
    """A timestamp that is rounded is another defect than one that is none, in the same field of the same input."""
    (prepared, *_) = prepared_for("base_offset_at_an_edge")
    found = set()
    for change in (lambda time: time // 1000 * 1000, lambda _: -1, lambda time: time + 2**64):
        batches = list(map(to_wire, prepared.right.batches))
        records = batches[0].records
        assert isinstance(records, list)
        record = records[0]
        record.timestamp = change(record.timestamp)
        found |= keys([prepared], CodecAnswer(batches=batches))
    assert found == {
        f"t|wrong_data|batches.records.timestamp {how}|v2" for how in ("rounded", "none for a number", "beyond 64 bits")
    }


def test_a_codec_is_a_cause_only_of_what_unpacking_can_change() -> None:
    """A null that became empty is one finding for all codecs; lost records have the codec in their key."""
    faults = ("lz4_block_checksum_right", "snappy_raw", "snappy_of_two_blocks")
    valid = [
        each
        for fault in faults
        for each in prepared_for(fault)
        if each.right.verdict == "valid" and each.era(0) == "v2"
    ]
    assert {each.stream for each in valid} == {"lz4", "snappy"}
    judge = Grader("t")
    null = Grade("wrong_data", "batches.records.key null as empty")
    lost = Grade("wrong_data", "batches.records.length fewer")
    assert len({judge.outcome(each, null).key for each in valid}) == 1
    assert len({judge.outcome(each, lost).key for each in valid}) == len({each.stream for each in valid})


def test_order_of_co_testees_does_not_matter() -> None:
    """A judge that has seen much gives the same keys as one that has seen nothing, in any order."""
    some = [
        each
        for fault in ("record_count_too_high", "varint_too_long", "base_offset_at_an_edge")
        for each in prepared_for(fault)
    ]
    used = Grader("t")
    answers = (TAKEN, REFUSED, Hung(1.0))
    there = [used.outcome(each, used.grade(each, answer)).key for each in some for answer in answers]
    fresh = [Grader("t").outcome(each, Grader("t").grade(each, answer)).key for each in some for answer in answers]
    back = [used.outcome(each, used.grade(each, answer)).key for each in some[::-1] for answer in answers[::-1]]
    assert there == fresh == back[::-1]


@pytest.mark.parametrize(
    ("field", "right", "given", "how"),
    [
        ("offset", 108, 8589934700, "wraps"),
        ("offset", 108, 1 << 64, "beyond 64 bits"),
        ("records.length", 2, 3, "more"),
        ("records.length", 2, 1, "fewer"),
        ("records.length", 2, 0, "none"),
        ("records.length", 0, 2, "some for none"),
        ("key", b"a", None, "some as null"),
        ("key", b"a", b"", "some as empty"),
        ("key", b"12", b"13", "other"),
        ("compression", "gzip", "none", "other"),
        ("timestamp", -1, 0, "a number for none"),
        ("timestamp", 0, -1, "none for a number"),
        ("timestamp", 1700395339065, 1700395339001, "other"),
    ],
)
def test_relations(field: str, right: Any, given: Any, how: str) -> None:
    """Two values differ in one of a few ways."""
    assert value_relation(Difference(f"batches[0].{field}", right, given)) == how


def test_numbers_in_a_row_are_one() -> None:
    """A time with a part more or less is the same message."""
    assert normalized_message("bad datetime(2001, 2, 3, 4) given") == normalized_message(
        "bad datetime(2001, 2, 3, 4, 5, 6) given"
    )


def test_accepted_bytes_are_grouped_by_fault() -> None:
    """Accepted invalid bytes have one heading for each kind of fault; a crash has its function."""
    taken = Outcome("t", "accepts_invalid", "error", "REC-14", why="expected malformed, got 1 batch")
    assert heading_sentence(taken, "malformed REC-14") == heading_sentence(taken, "malformed REC-15")
    assert heading_sentence(taken, "malformed REC-14") != heading_sentence(taken, "corrupt CRC-07")
    crash = Outcome("t", "crash", "signal 11", "kafka.read")
    assert heading_sentence(crash, "malformed REC-14") == "Ends with SIGSEGV in kafka.read"
