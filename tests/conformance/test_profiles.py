"""Profiles: required cases, what passes them, and that an API of its own kind can pass them."""

from functools import cache
from pathlib import Path

import pytest

from kafka_brokers.releases import SUPPORTED
from kafka_conformance.judge.api_limits import limits_beyond
from kafka_conformance.judge.grade import PROFILES
from kafka_conformance.judge.verdict import judge
from kafka_conformance.reports.profiles import (
    NO_LIMIT,
    Announced,
    AnswerCounts,
    Certification,
    certify_profiles,
    deciding_profiles,
    is_left_out,
    placed_case,
    profile_grade,
)
from kafka_conformance.reports.summary import NULLS
from kafka_conformance.runner.kept_results import CorpusContents, kept_files, read_kept
from kafka_conformance.runner.results import ResultHeader, ResultLine, Results, result_line
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors

RESULTS = Path(__file__).parents[2] / "results"
KEPT = [file.stem for file in kept_files(RESULTS)]
FULL: dict[str, object] = {
    "decode": {"magics": [0, 1, 2], "compressions": ["none", "gzip", "snappy", "lz4", "zstd"]},
    "encode": {"magics": [0, 1, 2], "compressions": ["none", "gzip", "snappy", "lz4", "zstd"]},
}


@cache
def corpus() -> CorpusContents:
    return CorpusContents.of(load_vectors(ops=("decode", "encode")))


@cache
def by_id() -> dict[str, Case]:
    return {case.id: case for case in corpus().cases}


def kept(name: str) -> Results:
    """The kept result of this name."""
    return read_kept(RESULTS / f"{name}.ndjson").results(corpus())


def line(case: Case, outcome: str, why: str = "") -> ResultLine:
    return ResultLine(
        case=case.id, outcome=outcome, area=case.area, op=case.op, expected=case.expect.verdict,  # type: ignore[arg-type]
        rules=case.rules, why=why,
    )  # fmt: skip


def results_of(lines: list[ResultLine], testee: dict[str, object]) -> Results:
    header = ResultHeader(testee={"name": "a", **testee}, corpus="", cases=len(lines), only=[], settings={})
    return Results(header, tuple(lines), None)


def certified(outcome: str, why: str = "") -> Certification:
    """A testee that announces everything, and has the same outcome in each case."""
    return certify_profiles(results_of([line(case, outcome, why) for case in corpus().cases], FULL), by_id())


def test_agreement_passes_every_profile() -> None:
    """A testee that agrees in every case passes all profiles and columns."""
    found = certified("agree")
    assert [(each.profile, each.grade) for each in found.profiles] == [(name, "pass") for name in PROFILES]
    assert all(column.grade == "pass" for each in found.profiles for column in each.compressions if column.required)
    assert found.failed() == ()
    assert found.causes == ()


def test_a_testee_that_skips_everything_passes_nothing() -> None:
    """Skipped required cases leave each profile incomplete, with the reason."""
    found = certified("skipped", "I do nothing")
    assert {each.grade for each in found.profiles} == {"incomplete"}
    assert all(sum(each.missing.values()) > 0 == each.passed for each in found.profiles)
    assert {"I do nothing", f"{NO_LIMIT}: I do nothing"} <= {why for each in found.profiles for why in each.missing}
    assert all(each.answered == 0 < each.skipped + each.required == each.asked for each in found.profiles)


@pytest.mark.slow
@pytest.mark.parametrize("name", NULLS)
def test_a_null_testee_passes_nothing(name: str) -> None:
    """One that never answers, one that takes all, one that refuses all, one that skips all."""
    lines = [result_line(case, judge(case, NULLS[name](case)), {}, 0.0, 0) for case in corpus().cases]
    found = certify_profiles(results_of(lines, FULL), by_id())
    assert {each.profile for each in found.profiles if each.grade == "pass"} == set()


@pytest.mark.parametrize("name", KEPT)
def test_a_perfect_codec_with_the_same_api_passes(name: str) -> None:
    """The reference skips the cases that a known codec skips, and is right in all others.

    A codec that fails before it comes to what it skips elsewhere would skip there, too.  A profile that requires
    no case of its formats, as of a writer of v0 alone, is never passed.
    """
    done = kept(name)
    skipped = {each.case for each in done.lines if each.outcome == "skipped" and not is_left_out(each)}
    limits = frozenset().union(*(limits_beyond(by_id()[id_]) for id_ in skipped if by_id()[id_].op == "decode"))
    masked = [
        each if each.outcome == "skipped" else line(by_id()[each.case], "agree")
        for each in done.lines
        if each.outcome != "rejects_valid" or not limits & limits_beyond(by_id()[each.case])
    ]
    found = certify_profiles(Results(done.header, tuple(masked), None), by_id())
    assert {each.profile: each.missing for each in found.profiles if each.grade != "pass" and each.required} == {}


def test_the_reference_passes_every_profile() -> None:
    """The kept result of the reference passes."""
    found = certify_profiles(kept("reference-0.1.0"), by_id())
    assert {each.grade for each in found.profiles} == {"pass"}


def test_one_fail_fails_its_profile_and_column_only() -> None:
    """Other profiles and compressions are not affected by a FAIL."""
    id_ = "gzip.several_members[in-a-value]"
    lines = [line(case, "rejects_valid" if case.id == id_ else "agree") for case in corpus().cases]
    found = certify_profiles(results_of(lines, FULL), by_id())
    assert [each.profile for each in found.profiles if each.grade == "fail"] == ["consumer"]
    (consumer, *_) = found.profiles
    assert {column.compression: column.grade for column in consumer.compressions} == {
        "none": "pass", "gzip": "fail", "snappy": "pass", "lz4": "pass", "zstd": "pass",
    }  # fmt: skip
    assert consumer.passed == consumer.required - 1
    (cause,) = found.causes
    assert (cause.grade, cause.profile, cause.smallest, cause.reviewed) == ("FAIL", "consumer", id_, False)
    assert found.failed() == ("consumer",)
    assert found.failed(["producer"]) == ()


def test_what_stops_the_process_fails_the_hostile_profile() -> None:
    """A crash by forged bytes fails `hostile` only, which decides only if it is chosen."""
    id_ = "varint.high_bits_of_the_fifth_byte[offset_delta 0x70]"
    case = by_id()[id_]
    found = certify_profiles(results_of([line(case, "crash")], FULL), by_id())
    assert [each.grade for each in found.causes] == ["HOSTILE"]
    assert found.failed() == ()
    assert found.failed(["hostile"]) == ("hostile",)
    lenient = certify_profiles(
        results_of([line(by_id()["varint.fifth_byte_continues[none-offset_delta]"], "agree")], FULL), by_id()
    )
    assert lenient.failed(strict=True) == ()


def test_what_is_not_announced_counts_nowhere() -> None:
    """Cases beyond the announced formats are not counted as skipped."""
    testee: dict[str, object] = {"decode": {"magics": [2], "compressions": ["none"]}}
    lines = [
        ResultLine(
            case=case.id, outcome="skipped", area=case.area, op=case.op, expected=case.expect.verdict,
            rules=case.rules, why="announces no encode", observation={"kind": "skipped", "by_runner": True},
        )
        for case in corpus().cases[:50]
    ]  # fmt: skip
    assert all(map(is_left_out, lines))
    found = certify_profiles(results_of(lines, testee), by_id())
    assert [each.profile for each in found.profiles] == ["consumer", "consumer-transactions", "integrity", "hostile"]
    assert all(each.asked == 0 and each.grade == "incomplete" for each in found.profiles)


def test_default_profiles_leave_hostile_out() -> None:
    """Without a choice the announced profiles decide, but not `hostile`."""
    announced = Announced.of(FULL)
    assert deciding_profiles(announced) == tuple(name for name in PROFILES if name != "hostile")
    assert deciding_profiles(announced, ["hostile", "consumer"]) == ("consumer", "hostile")


def test_a_profile_without_required_cases_is_incomplete() -> None:
    """A profile needs a required case, and an answer to each of them."""
    assert profile_grade(AnswerCounts(), 0) == "incomplete"
    counts = AnswerCounts()
    counts.add(required=True)
    assert profile_grade(counts, 0) == "pass"
    assert profile_grade(counts, 1) == "fail"
    counts.add(required=True, skipped="cannot")
    assert (profile_grade(counts, 0), counts.missing, counts.passed) == ("incomplete", {"cannot": 1}, 1)


def test_each_case_of_a_codec_has_a_profile() -> None:
    """Every case belongs to a profile, and each profile has required cases."""
    roles = [placed_case(case, SUPPORTED)[1] for case in corpus().cases]
    assert {role.profile for role in roles} == set(PROFILES)
    for profile in PROFILES:
        assert sum(role.required for role in roles if role.profile == profile) >= 8, profile
