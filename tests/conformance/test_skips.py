"""Skips: reasons from a closed list, which the judge checks, and nothing to be bought with them."""

from functools import cache
from pathlib import Path

import pytest

from kafka_conformance.judge.api_limits import LIMITS, contradicted, limits_beyond
from kafka_conformance.judge.observation import Skipped, observation_summary
from kafka_conformance.judge.verdict import SEVERITIES, judge
from kafka_conformance.reports.profiles import NO_LIMIT, certify_profiles, contradicted_skips, is_left_out
from kafka_conformance.runner.kept_results import CorpusContents, kept_files, read_kept
from kafka_conformance.runner.results import ResultLine, Results, result_line
from kafka_corpus.case import Case
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.vectors import load_vectors

RESULTS = Path(__file__).parents[2] / "results"
DOCS = Path(__file__).parents[2] / "docs" / "protocol.md"
KEPT = [file.stem for file in kept_files(RESULTS)]


@cache
def by_id() -> dict[str, Case]:
    """The codec cases of the corpus."""
    return {case.id: case for case in load_vectors(ops=CODEC_OPS)}


@cache
def kept(name: str) -> Results:
    """A kept result."""
    return read_kept(RESULTS / f"{name}.ndjson").results(CorpusContents.of(list(by_id().values())))


def skipped(id_: str, reason: str) -> ResultLine:
    """The line of a case that the testee skips."""
    case, observation = by_id()[id_], Skipped(reason)
    return result_line(case, judge(case, observation), observation_summary(observation), 0.0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.timeout(120)  # a whole result is graded twice
def test_skipping_what_fails_passes_no_profile(name: str) -> None:
    """A proxy that skips exactly the inputs that its codec fails passes no further profile of readers."""
    done = kept(name)
    lines = [skipped(line.case, "not supported") if line.outcome in SEVERITIES else line for line in done.lines]
    before = {each.profile: each.grade for each in certify_profiles(done, by_id()).profiles}
    bought = certify_profiles(Results(done.header, tuple(lines), done.footer), by_id()).profiles

    assert lines != list(done.lines) or name.startswith(("reference", "columnar", "java"))
    readers = [each for each in bought if not each.profile.startswith("producer")]
    assert {each.profile for each in readers if each.grade == "pass" != before[each.profile]} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_known_testees_skip_for_reasons(name: str) -> None:
    """Every skip of a kept result is beyond a limit of the list, and no answer contradicts it."""
    done = kept(name)
    own = [line for line in done.lines if line.outcome == "skipped" and not is_left_out(line)]

    assert [line.case for line in own if not limits_beyond(by_id()[line.case])] == []
    assert contradicted_skips(done.lines, by_id()) == frozenset()


@pytest.mark.slow
def test_a_limit_that_other_answers_lack_counts_as_missing() -> None:
    """A writer that skips some cases beyond a limit and does others leaves its profile incomplete."""
    done = kept("reference-0.1.0")
    beyond = [id_ for id_, case in by_id().items() if case.op == "encode" and "LogAppendTime" in limits_beyond(case)]
    some = {id_ for id_ in beyond if by_id()[id_].expect.verdict == "valid"}
    first = min(some)
    lines = [skipped(first, "no LogAppendTime") if line.case == first else line for line in done.lines]
    found = certify_profiles(Results(done.header, tuple(lines), done.footer), by_id())
    (producer,) = (each for each in found.profiles if each.missing)

    assert producer.grade == "incomplete"
    assert producer.missing == {f"{NO_LIMIT}: no LogAppendTime": 1}


def test_a_case_that_every_api_can_express_is_not_skipped() -> None:
    """To skip bytes of an announced format is no answer, whatever reason is given."""
    plain = next(case for case in by_id().values() if case.op == "decode" and not limits_beyond(case))

    for reason in (*LIMITS, "", "header keys are text in its API"):
        assert judge(plain, Skipped(reason)).outcome == "crash"
    assert judge(plain, Skipped("announces no decode of lz4", by_runner=True)).outcome == "skipped"


def test_each_limit_has_a_case() -> None:
    """The list names nothing that no case is about."""
    beyond = set().union(*map(limits_beyond, by_id().values()))

    assert beyond == set(LIMITS)


def test_the_protocol_names_each_limit() -> None:
    """The tables in the docs have the limits of the list, and no others."""
    section = DOCS.read_text(encoding="utf-8").partition("## Skips")[2].partition("\n## ")[0]
    cells = [row.split(" | ")[0].removeprefix("| ") for row in section.splitlines() if row.startswith("| ")]
    named = {name for cell in cells for limit in LIMITS if (name := limit) in cell}
    rest = [cell for cell in cells if not cell.startswith("to ") and any(limit not in LIMITS for limit in parts(cell))]

    assert named == set(LIMITS)
    assert rest == []


def parts(cell: str) -> list[str]:
    """The limits in a cell; "offsets 0, 1, 2" and "magics 0, 1, 2" have commas of their own."""
    return [each.replace(";", ",") for each in cell.replace("0, 1, 2", "0; 1; 2").split(", ")]


def test_a_refusal_contradicts_no_limit() -> None:
    """Invalid cases are refused by codecs with and without a limit."""
    beyond = [case for case in by_id().values() if "types of the fields" in limits_beyond(case)]

    assert beyond
    assert all(case.expect.verdict == "invalid" for case in beyond)
    assert contradicted(beyond[1:], beyond[:1]) == frozenset()
