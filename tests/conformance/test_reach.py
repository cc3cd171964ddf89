"""The reach of every case, and what it rests on."""

from collections import Counter

import pytest

from kafka_brokers.releases import parse_supported
from kafka_conformance.judge.grade import REACHES
from kafka_conformance.judge.reach import CaseReach, case_reach, has_bad_checksum, is_damaged
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch, Record, encode


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.id: case for case in load_vectors()}


@pytest.fixture(scope="module")
def reaches(cases: dict[str, Case]) -> dict[str, CaseReach]:
    return {id_: case_reach(case) for id_, case in cases.items()}


def test_every_case_has_a_reach_and_a_reason(reaches: dict[str, CaseReach]) -> None:
    assert {found.reach for found in reaches.values()} == set(REACHES)
    assert [id_ for id_, found in reaches.items() if not found.reason] == []


def test_reach_of_decode_cases_rests_on_brokers(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    """At most one in a thousand is predicted: the rest is recorded, measured, or follows from the bytes."""
    sources = Counter(reaches[id_].source for id_, case in cases.items() if case.op == "decode")
    assert sources["predicted"] <= 3
    assert sources["recorded"] > sources["shape"]


def test_what_producers_bring_names_the_releases(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    for id_, found in reaches.items():
        if found.reach == "old_logs" or (found.reach == "any_producer" and found.source in ("recorded", "measured")):
            assert found.releases, id_


def test_valid_bytes_are_no_damage(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    rot = [cases[id_] for id_, found in reaches.items() if found.reach == "rot" and cases[id_].op == "decode"]
    assert len(rot) > 100
    assert [case.id for case in rot if case.expect.verdict == "valid"] == []


def test_encoding_is_the_writers_own(cases: dict[str, Case], reaches: dict[str, CaseReach]) -> None:
    assert {found.reach for id_, found in reaches.items() if cases[id_].op == "encode"} == {"as_writer"}


def test_a_wider_range_brings_older_formats_back(cases: dict[str, Case]) -> None:
    case = cases["legacy_shapes.codecs_in_one_log[gzip]"]
    assert case_reach(case).reach == "old_logs"
    wider = case_reach(case, parse_supported("0.10.0..4.4"))
    assert wider.reach == "any_producer"
    assert wider.span() == "0.10.0.1 to 0.10.2.2"


def test_conversion_ends_with_the_last_release_that_converts(cases: dict[str, Case]) -> None:
    case = cases["conversion.down_converted_wrapper[gzip]"]
    assert case_reach(case).reach == "broker_itself"
    assert case_reach(case, parse_supported("4.0..4.4")).reach == "old_logs"


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_damage(magic: int) -> None:
    records = (Record(0, -1 if magic == 0 else 5, b"key", b"value"),)
    time = records[0].timestamp
    data = encode(Batch(magic=magic, base_offset=0, last_offset=0, max_timestamp=time, records=records))
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    assert not has_bad_checksum(data)
    assert has_bad_checksum(flipped)
    assert is_damaged(data + flipped, 1)
    assert not is_damaged(data + flipped, 2)
    assert is_damaged(data + bytes(12), 1)
    assert not is_damaged(data + flipped[:-1], 1)
