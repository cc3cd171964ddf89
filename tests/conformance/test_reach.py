"""The reach of every case, and what it rests on."""

from collections import Counter

import pytest

from kafka_brokers.releases import parse_supported
from kafka_conformance.judge.grade import REACHES
from kafka_conformance.judge.grading import grade_finding
from kafka_conformance.judge.reach import (
    CaseReach,
    case_reach,
    has_bad_checksum,
    is_damaged,
    serving_releases,
)
from kafka_conformance.judge.usual_form import is_canonical, is_unusual
from kafka_conformance.judge.verdict import Outcome, Verdict
from kafka_conformance.runner.results import ResultLine, result_line
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch, Record, decode, encode
from kafka_records.checksum import checksum_v2


def judged(case: Case, outcome: Outcome) -> ResultLine:
    """A finding of *case*."""
    return result_line(case, Verdict(outcome, "error", "expected malformed"), {}, 0.001, 0)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.id: case for case in load_vectors()}


@pytest.fixture(scope="module")
def reaches(cases: dict[str, Case]) -> dict[str, CaseReach]:
    return {id_: case_reach(case) for id_, case in cases.items()}


@pytest.mark.slow
def test_every_case_has_a_reach_and_a_reason(reaches: dict[str, CaseReach]) -> None:
    """No case is without a reach and the source of it."""
    assert {found.reach for found in reaches.values()} == set(REACHES)
    assert [id_ for id_, found in reaches.items() if not found.reason] == []


@pytest.mark.slow
def test_reach_of_decode_cases_rests_on_brokers(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    """At most one in a hundred is predicted: the rest is recorded, measured, or follows from the bytes."""
    sources = Counter(reaches[id_].source for id_, case in cases.items() if case.op == "decode")
    assert sources["predicted"] <= sources.total() // 100
    assert sources["recorded"] > sources["shape"]


@pytest.mark.slow
def test_what_producers_bring_names_the_releases(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    """Reach `any_producer` names the releases that store the bytes."""
    for id_, found in reaches.items():
        if found.reach == "old_logs" or (found.reach == "any_producer" and found.source in ("recorded", "measured")):
            assert found.releases, id_


def test_valid_bytes_are_no_damage(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    """A valid case has never reach `rot`."""
    rot = [cases[id_] for id_, found in reaches.items() if found.reach == "rot" and cases[id_].op == "decode"]
    assert len(rot) > 100
    assert [case.id for case in rot if case.expect.verdict == "valid"] == []


def test_encoding_is_the_writers_own(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    """Encode cases have reach `as_writer`."""
    assert {found.reach for id_, found in reaches.items() if cases[id_].op == "encode"} == {"as_writer"}


@pytest.mark.parametrize("magic", [0, 1])
def test_supported_brokers_serve_old_formats_from_their_disk(magic: int) -> None:
    """Recorded: each release since 0.11 serves a log with messages of v0 or v1 as it is."""
    found = serving_releases(magic)
    assert found[0] == "0.11.0.3"
    assert {"3.9.2", "4.0.2", "4.4.0"} <= set(found)


@pytest.mark.parametrize(
    ("name", "span"),
    [
        ("legacy_shapes.wrapper[v0-gzip-small-small]", "0.8.2.2 to 0.9.0.1"),
        ("legacy_shapes.message[v1-append-small-small]", "0.10.0.1 to 0.10.2.2"),
        ("message_set.append_time_overrides[gzip]", "0.10.0.1 to 0.10.2.2"),
        ("legacy_shapes.wrapper[v1-append-gzip-small-small]", "0.10.2.2"),
        ("legacy_shapes.wrappers_end_to_end[v1-gzip]", "0.10.0.1 to 0.10.2.2"),
        ("compaction.magics_after_cleaning[gzip]", "0.8.2.2 to 0.10.2.2"),
        ("framing.entries_follow_one_another[v2,v0,v2]", "0.8.2.2 to 0.9.0.1"),
        ("history.wrapper_converted_by_the_cleaner", "0.10.0.1"),
    ],
)
def test_logs_of_older_releases(name: str, span: str, cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    """v0, v1 with LogAppendTime, and mixed logs are old logs: the reason names the releases that serve them."""
    assert (reaches[name].reach, reaches[name].span()) == ("old_logs", span)
    has = "the messages" if any(batch.magic == 2 for batch in cases[name].expect.batches) else "the bytes"
    assert reaches[name].reason == f"A log that {span} wrote has {has}; 3.9.2 to 4.4.0 serve it."
    narrow = case_reach(cases[name], parse_supported("0.8.2..0.9.0"))
    assert narrow.reach != "old_logs" or "serve" not in narrow.reason


def test_a_partial_entry_is_of_a_broker(reaches: dict[str, CaseReach]) -> None:
    """Of a whole batch and a part of one a broker stores the first alone, so only its fetches end within a batch."""
    found = reaches["truncation.records_end_before_a_field[headers[0].value]"]
    assert (found.reach, found.source) == ("broker_itself", "shape")


def test_a_stall_at_a_low_size_is_hostile(cases: dict[str, Case]) -> None:
    """A broker answers a fetch that starts at a size below any entry's with an error; one that is accepted is rot."""
    case = cases["misread.low_size_over_a_sound_entry[v2--13]"]
    stalls, accepts = (grade_finding(case, judged(case, outcome)) for outcome in ("hang", "accepts_invalid"))
    assert stalls is not None
    assert accepts is not None
    assert (stalls.grade, stalls.reach) == ("HOSTILE", "hostile")
    assert (accepts.grade, accepts.reach) == ("FAIL", "rot")
    flipped = cases["v2_crc.record_byte_changed[none-first]"]
    again = grade_finding(flipped, judged(flipped, "hang"))
    assert again is not None
    assert (again.grade, again.reach) == ("FAIL", "rot")


@pytest.mark.parametrize(
    ("name", "reach"),
    [
        ("compaction.compressed_magics_in_one_segment[gzip]", "retired"),  # a batch is not after the wrapper before it
        ("wrapper_insides.offsets_beyond_a_double[gzip-2^53]", "retired"),  # old brokers took such offsets from anybody
        ("v2_offsets.gaps_after_compaction[none-one record of very many]", "hostile"),  # more than a batch can hold
        ("v2_batch.empty_batch[control]", "hostile"),  # the cleaner leaves a marker's batch, which is transactional
        ("kraft.control_batch_without_records", "hostile"),
    ],
)
def test_bytes_of_no_log(name: str, reach: str, reaches: dict[str, CaseReach]) -> None:
    """Valid bytes that no log has: offsets that overlap or that none gets to, and control batches that none writes."""
    assert reaches[name].reach == reach


@pytest.mark.parametrize(
    "name",
    [
        "v1_message.value_length_beyond_message[by-1]",  # broken, though 0.10 stored it
        "lz4_blocks.block_checksums[v0-stored]",  # no release wrote or kept such a frame in v0
        "message_set.inner_crc_wrong[gzip-first]",
    ],
)
def test_old_formats_that_no_sound_peer_wrote(name: str, reaches: dict[str, CaseReach]) -> None:
    """Invalid bytes of old formats are not in old logs."""
    assert reaches[name].reach == "retired"


@pytest.mark.parametrize(
    ("name", "reach"),
    [
        ("control.longer_key[longer]", "hostile"),
        ("read_committed.marker_with_a_newer_key", "hostile"),
        # Brokers list the offset that a transaction began with, and no transaction that was committed.
        ("read_committed.aborted_from_inside_a_batch[none]", "hostile"),
        ("read_committed.other_marker_inside_an_aborted_transaction[commit]", "hostile"),
        ("read_committed.listed_in_falling_order", "hostile"),
        # The cleaner computes the largest time of what it keeps.
        ("compaction.max_timestamp_of_a_removed_record", "hostile"),
        ("varint.offset_delta_at_the_edge_of_a_size[-2147483648]", "hostile"),
        ("v2_offsets.last_sequence_follows_the_last_offset[-1 stays]", "hostile"),  # the id has no sequence
        ("message_set.wrapper_offset_zero[gzip]", "retired"),
        ("message_set.wrapper_with_a_key[v0-gzip]", "retired"),  # brokers write the wrapper again, without the key
        ("message_set.relative_offsets_not_from_0[gzip-7]", "retired"),  # and its inner offsets from 0
        ("history.wrapper_of_a_client_that_left_offset_0", "retired"),
        ("message_set.inner_tail_cut_short[v0-to-the-prefix]", "retired"),  # and leave out a cut inner message
        ("wrapper_ends.size_of_the_last_inner_message_cut_short[v0]", "retired"),
    ],
)
def test_forms_that_no_release_writes(name: str, reach: str, reaches: dict[str, CaseReach]) -> None:
    """Valid bytes that neither a producer nor a broker makes do not reach users of supported releases."""
    assert reaches[name].reach == reach


@pytest.mark.parametrize("name", ["two_begin_in_one_batch", "first_offset_that_is_cleaned", "aborted_twice"])
def test_lists_of_aborted_transactions_that_brokers_make(name: str, reaches: dict[str, CaseReach]) -> None:
    """A transaction may begin with a batch, or before those that are left, and a producer may abort several."""
    assert reaches[f"read_committed.{name}"].reach == "broker_itself"


def test_raw_snappy_lengths_that_no_writer_makes() -> None:
    """A length before a raw block in more bytes than it needs is unusual; one that needs two bytes is not."""
    cases = {case.id: case for case in load_vectors()}
    assert is_unusual(cases["snappy.length_in_a_longer_form[v2-3 bytes]"])
    assert is_unusual(cases["snappy.length_in_a_longer_form[v1-5 bytes]"])
    raw = [case for case in cases.values() if case.id.startswith("snappy.raw_block[")]
    assert raw
    assert not any(map(is_unusual, raw))


@pytest.mark.parametrize("horizon", [True, False])
def test_append_time_under_a_horizon(*, horizon: bool) -> None:
    """Where the cleaner sets a horizon it has written each record with the append time; others hide any times."""
    shapes = [case for case in load_vectors() if case.id.startswith("v2_shapes.append_time[")]
    found = [case for case in shapes if ("delete horizon" in case.id) is horizon]
    assert found
    assert {is_unusual(case) for case in found} == {horizon}


@pytest.mark.parametrize(
    ("fields", "canonical"),
    [({}, True), ({"attributes": 0x80}, False), ({"attributes": 0x100}, False), ({"attributes": 0x40}, True)],
)
def test_unknown_attributes_are_not_canonical(fields: dict[str, int], *, canonical: bool) -> None:
    """No writer sets attributes that have no meaning; brokers and codecs leave them alone."""
    batch = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, None, b"v"),))
    data = encode(batch)
    data = data[:21] + fields.get("attributes", 0).to_bytes(2, "big") + data[23:]
    data = data[:17] + checksum_v2(data).to_bytes(4, "big") + data[21:]

    assert is_canonical(data, decode(data)) is canonical


def test_a_changed_magic_is_damage(reaches: dict[str, CaseReach]) -> None:
    """One byte that the checksum of v2 does not cover: brokers serve such a batch from their disk."""
    assert reaches["framing.unknown_magic[3]"].reach == "rot"


def test_a_wider_range_brings_older_formats_back(cases: dict[str, Case]) -> None:
    """Older supported releases make retired formats reachable."""
    case = cases["legacy_shapes.codecs_in_one_log[gzip]"]
    assert case_reach(case).reach == "old_logs"
    wider = case_reach(case, parse_supported("0.10.0..4.4"))
    assert wider.reach == "any_producer"
    assert wider.span() == "0.10.0.1 to 0.10.2.2"


def test_converted_forms_reach_clients_from_old_logs_only(cases: dict[str, Case]) -> None:
    """Brokers convert only for fetch versions that current clients do not send; a log may hold the same bytes."""
    assert case_reach(cases["conversion.down_converted_wrapper[gzip]"]).reach == "old_logs"
    gone = [
        case_reach(case) for id_, case in cases.items() if id_.startswith("conversion.down") and case.op == "decode"
    ]
    assert {each.reach for each in gone} <= {"old_logs", "retired"}


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_damage(magic: int) -> None:
    """Flipped and cut bytes are `rot`."""
    records = (Record(0, -1 if magic == 0 else 5, b"key", b"value"),)
    time = records[0].timestamp
    data = encode(Batch(magic=magic, base_offset=0, last_offset=0, max_timestamp=time, records=records))
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    assert not has_bad_checksum(data)
    assert has_bad_checksum(flipped)
    assert is_damaged(data + flipped, 1)
    assert not is_damaged(data + flipped, 2)
    assert is_damaged(data + bytes(18), 1)
    assert not is_damaged(data + bytes(17), 1)  # brokers do not look at them
    assert not is_damaged(data + flipped[:-1], 1)
    other = data[:16] + b"\x03" + data[17:]
    assert has_bad_checksum(other)
    assert not has_bad_checksum(other[:-1] + bytes([other[-1] ^ 1]))
