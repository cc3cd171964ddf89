"""Scores and certificates: nothing but a codec can earn them."""

from collections.abc import Callable

import pytest

from kafka_conformance.judge.observation import Observation
from kafka_conformance.judge.verdict import OUTCOMES, Outcome, judge
from kafka_conformance.reports import summary
from kafka_conformance.reports.summary import MAX_SKIPPED, NULLS, certify, null_scores, score
from kafka_conformance.runner.results import ResultFooter, ResultHeader, ResultLine, Results, result_line
from kafka_corpus.case import Case


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


@pytest.mark.parametrize("name", NULLS)
def test_null_testees_are_not_certified(name: str, corpus: list[Case]) -> None:
    """No null testee is certified, not even with every finding declared."""
    lines = null_lines(corpus, NULLS[name])
    everything = frozenset(each.case for each in lines)

    assert not certify(results(lines), corpus, everything, []).certified


def test_a_good_run_is_certified(corpus: list[Case]) -> None:
    """A run in which all agree is certified, without a reason against it."""
    made = certify(results(GOOD), corpus, frozenset(), [])

    assert made.certified
    assert (made.score, made.answered_score, made.skipped, made.reasons) == (1.0, 1.0, 0.0, ())


@pytest.mark.parametrize(
    ("outcome", "certified"),
    [
        ("wrong_data", False),
        ("crash", False),
        ("hang", False),
        ("memory", False),
        ("accepts_invalid", False),
        ("rejects_valid", False),
        ("wrong_error", True),
        ("lossy", True),
        ("skipped", True),
    ],
)
def test_what_keeps_from_a_certificate(outcome: Outcome, certified: bool, corpus: list[Case]) -> None:
    """One serious finding among many agreeing cases is enough, unless it is declared."""
    lines = [*run_of("a" * 40, "a" * 40), line(outcome, name="bad")]

    assert certify(results(lines), corpus, frozenset(), []).certified is certified
    assert certify(results(lines), corpus, frozenset({"a.bad"}), []).certified


def test_skips_are_bounded(corpus: list[Case]) -> None:
    """More skipped cases than allowed keep from a certificate; as many as allowed do not."""
    most = [*run_of("aa", "aa"), *[line("skipped")] * 6]

    assert certify(results(most), corpus, frozenset(), []).skipped == MAX_SKIPPED
    assert certify(results(most), corpus, frozenset(), []).certified
    assert not certify(results([*most, line("skipped")]), corpus, frozenset(), []).certified


def test_declared_findings_are_bounded_by_the_score(corpus: list[Case]) -> None:
    """A testee with deviations for half of the corpus is not certified."""
    lines = run_of("aaxx", "aaaa")

    assert not certify(results(lines), corpus, frozenset(each.case for each in lines), []).certified


def test_parts_and_pieces_are_not_certified(corpus: list[Case]) -> None:
    """An incomplete run, a selection of cases, and a stale deviation each keep from a certificate."""
    assert not certify(results(GOOD, complete=False), corpus, frozenset(), []).certified
    assert not certify(results(GOOD, ("a.*",)), corpus, frozenset(), []).certified
    assert not certify(results(GOOD), corpus, frozenset(), ["a.gone"]).certified
    assert not certify(results([]), corpus, frozenset(), []).certified


def test_a_case_for_each_side(corpus: list[Case]) -> None:
    """The small corpus has both sides in both directions, or the tests above say little."""
    assert {(case.op, case.expect.verdict) for case in corpus} == {
        ("decode", "valid"), ("decode", "invalid"), ("encode", "valid"), ("encode", "invalid"),
    }  # fmt: skip
