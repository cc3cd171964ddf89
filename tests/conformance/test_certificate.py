"""Scores and certificates: nothing but a codec can earn them."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from kafka_conformance.judge.grade import PROFILES
from kafka_conformance.judge.observation import Observation
from kafka_conformance.judge.verdict import OUTCOMES, Outcome, judge
from kafka_conformance.reports import summary
from kafka_conformance.reports.profiles import certify_profiles
from kafka_conformance.reports.summary import NULLS, Certificate, certify, null_scores, score
from kafka_conformance.runner.results import ResultFooter, ResultHeader, ResultLine, Results, result_line
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors


def line(outcome: Outcome, expected: str = "valid", area: str = "a", name: str = "x") -> ResultLine:
    """A line with this outcome."""
    return ResultLine(case=f"{area}.{name}", outcome=outcome, area=area, op="decode", expected=expected, rules=())


def results(lines: list[ResultLine], only: tuple[str, ...] = (), *, complete: bool = True) -> Results:
    """A result with these lines."""
    header = ResultHeader(testee={}, corpus="", cases=len(lines), only=list(only), settings={})
    footer = ResultFooter(counts={}, seconds=0, waited=0, starts=1, strays=0, sha256="") if complete else None
    return Results(header, tuple(lines), footer)


def run_of(valid: str, invalid: str) -> list[ResultLine]:
    """Lines by their outcomes: `a` agree, `h` half a credit, `x` nothing, `s` skipped."""
    names: dict[str, Outcome] = {"a": "agree", "h": "lossy", "x": "wrong_data", "s": "skipped"}
    lines = [line(names[char], "valid", name=f"v{at}") for at, char in enumerate(valid)]
    return lines + [line(names[char], "invalid", name=f"i{at}") for at, char in enumerate(invalid)]


GOOD = run_of("aaaa", "aaaa")


@pytest.mark.parametrize(
    ("valid", "invalid", "expected"),
    [
        ("aaaa", "aaaa", 1.0),
        ("aaaa", "xxxx", 0.0),
        ("xxxx", "aaaa", 0.0),
        ("ssss", "ssss", 0.0),
        ("aaax", "aaaa", 0.75),
        ("aaxx", "aaxx", 0.0),
        ("aaah", "aaah", 0.75),
        ("aaas", "aaaa", 0.75),
        ("aaaa", "", 0.0),
        ("", "aaaa", 0.0),
        ("", "", 0.0),
    ],
)
def test_score_is_balanced(valid: str, invalid: str, expected: float) -> None:
    """Both sides count alike, and one of them alone is worth nothing."""
    assert score(run_of(valid, invalid)) == pytest.approx(expected)


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("side", ["valid", "invalid"])
def test_one_answer_to_everything_scores_nothing(outcome: Outcome, side: str) -> None:
    """Whatever one answer amounts to on one side, it is worth nothing without the other."""
    lines = [line(outcome, side, name=str(at)) for at in range(5)]
    other = "invalid" if side == "valid" else "valid"

    assert score([*lines, line("wrong_data", other)]) == 0.0


def test_acceptable_cases_count_on_no_side() -> None:
    """A case that may go either way changes no score."""
    assert score([*GOOD, line("agree", "acceptable"), line("wrong_data", "acceptable")]) == 1.0


def test_an_area_with_one_side_takes_the_other_from_the_whole() -> None:
    """An area of invalid cases alone cannot be won by refusing everything."""
    refused = [line("agree", "invalid", "only_invalid"), line("rejects_valid", "valid", "other")]
    areas = summary.scores_by_area(refused)

    assert areas["only_invalid"] == 0.0
    assert summary.scores_by_area([line("agree", "invalid", "only_invalid"), *GOOD])["only_invalid"] == 1.0


def test_an_area_whose_invalid_cases_are_skipped_shows_the_rest() -> None:
    """A side of an area that was skipped whole is taken from the whole run; in the whole it counts."""
    lines = [line("agree", "valid", "half"), line("skipped", "invalid", "half"), *GOOD]

    assert summary.scores_by_area(lines)["half"] == pytest.approx(0.8)
    assert score(lines) == pytest.approx(0.8)


@pytest.mark.parametrize("name", NULLS)
def test_null_testees_score_nothing(name: str, corpus: list[Case]) -> None:
    """Each null testee is judged on the same cases, and gets nothing."""
    assert null_scores(corpus)[name] == 0.0


def null_lines(cases: list[Case], answer: Callable[[Case], Observation]) -> list[ResultLine]:
    """The lines of a testee that answers with *answer*."""
    return [result_line(case, judge(case, answer(case)), {}, 0.0, 0) for case in cases]


FULL = {
    "magics": [0, 1, 2],
    "compressions": ["none", "gzip", "snappy", "lz4", "zstd"],
}


def certificate(
    lines: list[ResultLine], corpus: list[Case], known: frozenset[str] = frozenset(), stale: tuple[str, ...] = (),
    only: tuple[str, ...] = (), *, complete: bool = True,
) -> Certificate:  # fmt: skip
    """The certificate of a codec that announces everything."""
    done = results(lines, only, complete=complete)
    header = msgspec.structs.replace(done.header, testee={"name": "codec", "decode": FULL, "encode": FULL})
    done = replace(done, header=header)
    profiled = certify_profiles(done, {case.id: case for case in corpus}, known=known)
    return certify(done, corpus, profiled, stale)


def agreeing(corpus: list[Case], other: Outcome = "agree", of: str = "", why: str = "") -> list[ResultLine]:
    """A line for each case that agrees, but for the case *of*."""
    return [
        ResultLine(
            case=case.id, outcome=other if case.id == of else "agree", area=case.area, op=case.op,
            expected=case.expect.verdict, rules=case.rules, why=why,
        )
        for case in corpus
    ]  # fmt: skip


PLAIN = "gzip.several_members[in-a-value]"


@pytest.fixture(scope="module")
def whole() -> list[Case]:
    """Every case of codecs."""
    return load_vectors(ops=("decode", "encode"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NULLS)
def test_null_testees_are_not_certified(name: str, whole: list[Case]) -> None:
    """No null testee is certified for any profile, not even with every finding declared."""
    lines = null_lines(whole, NULLS[name])
    everything = frozenset(each.case for each in lines)

    assert certificate(lines, whole).certified_for == ()
    made = certificate(lines, whole, everything)
    assert (made.certified, made.certified_for) == (False, ())


def test_a_good_run_is_certified(whole: list[Case]) -> None:
    """A run in which all agree is certified for every profile, without a reason against it."""
    made = certificate(agreeing(whole), whole)

    assert made.certified_for == PROFILES
    assert (made.certified, made.score, made.answered_score, made.skipped, made.reasons) == (True, 1.0, 1.0, 0.0, ())


@pytest.mark.parametrize(
    ("outcome", "certified"),
    [("crash", False), ("hang", False), ("rejects_valid", False), ("lossy", True), ("skipped", False)],
)
def test_what_keeps_from_a_certificate(outcome: Outcome, certified: bool, whole: list[Case]) -> None:
    """One grave finding in a required case is enough, unless it is declared; so is one that is not answered."""
    lines = agreeing(whole, outcome, PLAIN)
    made = certificate(lines, whole)

    assert made.certified is certified
    assert ("consumer" in made.certified_for) is certified
    assert {"producer", "integrity"} <= set(made.certified_for)
    if not certified:
        assert made.reasons[0].startswith("consumer: 1 ")
    assert certificate(lines, whole, frozenset({PLAIN})).certified is (outcome != "skipped")


def test_declared_findings_are_bounded(whole: list[Case]) -> None:
    """A testee with deviations for all of a profile is not certified for it."""
    lines = [
        msgspec.structs.replace(each, outcome="rejects_valid") if each.op == "encode" else each
        for each in agreeing(whole)
        if each.expected == "valid"
    ]
    made = certificate(lines, whole, frozenset(each.case for each in lines))

    assert "producer" not in made.certified_for
    assert "producer: deviations are declared for more than 10% of the required cases" in made.reasons


def test_parts_and_pieces_are_not_certified(whole: list[Case]) -> None:
    """An incomplete run, a selection of cases, and a stale deviation each keep from a certificate."""
    lines = agreeing(whole)
    for made in (
        certificate(lines, whole, complete=False),
        certificate(lines, whole, only=("a.*",)),
        certificate(lines, whole, stale=("a.gone",)),
        certificate([], whole),
    ):
        assert (made.certified, made.certified_for) == (False, ())


def test_a_case_for_each_side(corpus: list[Case]) -> None:
    """The small corpus has both sides in both directions, or the tests above say little."""
    assert {(case.op, case.expect.verdict) for case in corpus} == {
        ("decode", "valid"), ("decode", "invalid"), ("encode", "valid"), ("encode", "invalid"),
    }  # fmt: skip
