"""An audit's 120 findings: what a maintainer accepts is FAIL or HOSTILE, what he calls pedantic is not.

`audited_findings.ndjson` has the findings as they were audited, drawn at random from the results of all
released codecs, with the auditor's verdict and reason.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_conformance.judge.grading import FindingGrade, grade_finding
from kafka_conformance.judge.reach import case_reach
from kafka_conformance.runner.results import ResultLine
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors

AUDITED: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("audited_findings.ndjson").read_text(encoding="utf-8").splitlines()
]
GRAVE = ("FAIL", "HOSTILE")
# Where the table differs from the auditor, by number of the finding, with the grade and the reason.
VALID_BUT_MILDER = {
    3: ("NON_STRICT", "the bytes need a hostile peer; the same defect is FAIL in transactions.a_transaction (19)"),
    7: ("NON_STRICT", "no release writes a marker with such a key, and another audit calls the finding pedantic"),
    27: ("NON_STRICT", "no clock shows 2286; the same defect is FAIL in writers.timestamps_far_apart[none-a month]"),
    30: (
        "NON_STRICT",
        "no clock of a broker says 0; the same defect is FAIL in timestamp.append_time_overrides[none-later]",
    ),
    81: ("NON_STRICT", "no broker writes an unknown type, and three other audits call it pedantic; markers are FAIL"),
    82: ("NON_STRICT", "no broker compresses a marker; the same defect is FAIL in control.golden_marker"),
    89: ("NON_STRICT", "a broker sends one whole batch at least (KIP-74); a partial tail after one is FAIL"),
    104: ("INFO", "error kinds are INFO, though the trap hides the cause"),
}
PEDANTIC_BUT_GRAVE = {
    # The auditor takes v0 for a format of 0.8.2 and 0.9.0 alone.  Recorded brokers from 0.11 to 4.4 serve its wrappers
    # from their disk: `log_messages.wrapper_becomes_a_batch[v0-lz4]`, `log_segments.mixed_formats[v0]`.
    76: ("FAIL", "old_logs", "3.9.2 to 4.4.0 serve v0 wrappers that 0.8.2 and 0.9.0 wrote"),
    80: ("FAIL", "old_logs", "3.9.2 to 4.4.0 serve v0 wrappers that 0.8.2 and 0.9.0 wrote"),
    87: ("FAIL", "old_logs", "3.9.2 to 4.4.0 serve v0 wrappers that 0.8.2 and 0.9.0 wrote"),
}


@pytest.fixture(scope="module")
def audited_cases() -> dict[str, Case]:
    wanted = {each["case"] for each in AUDITED}
    return {case.id: case for case in load_vectors() if case.id in wanted}


def graded(each: dict[str, Any], cases: dict[str, Case]) -> FindingGrade:
    """The grade of an audited finding."""
    case = cases[each["case"]]
    line = ResultLine(
        case=case.id, outcome=each["outcome"], area=case.area, op=case.op, expected=case.expect.verdict,
        rules=case.rules, field=each.get("field", ""), why=each.get("why", ""),
        also=tuple(each.get("also", ())), observation=each.get("observation", {}),
    )  # fmt: skip
    found = grade_finding(case, line)
    assert found is not None
    return found


def named(verdict: str) -> list[Any]:
    """The findings with this verdict, as parameters."""
    chosen = [each for each in AUDITED if each["verdict"] == verdict]
    return [pytest.param(each, id=f"{each['number']} {each['testee']} {each['case']}") for each in chosen]


def test_the_audit_is_whole() -> None:
    """All 120 audited findings are there, each with a judgement."""
    assert [each["number"] for each in AUDITED] == list(range(1, 121))
    verdicts = [each["verdict"] for each in AUDITED]
    assert {verdict: verdicts.count(verdict) for verdict in set(verdicts)} == {
        "valid": 38, "pedantic": 70, "wrong": 12,
    }  # fmt: skip


@pytest.mark.parametrize("each", named("valid"))
def test_what_a_maintainer_accepts(each: dict[str, Any], audited_cases: dict[str, Case]) -> None:
    """A finding that the audit calls valid is FAIL or HOSTILE, known exceptions aside."""
    found = graded(each, audited_cases)
    if each["number"] in VALID_BUT_MILDER:
        assert found.grade == VALID_BUT_MILDER[each["number"]][0]
    else:
        assert found.grade in GRAVE, found


@pytest.mark.parametrize("each", named("pedantic"))
def test_what_a_maintainer_calls_pedantic(each: dict[str, Any], audited_cases: dict[str, Case]) -> None:
    """A finding that the audit calls pedantic is NON_STRICT or INFO, known exceptions aside."""
    found = graded(each, audited_cases)
    if each["number"] in PEDANTIC_BUT_GRAVE:
        grade, reach, _ = PEDANTIC_BUT_GRAVE[each["number"]]
        assert (found.grade, found.reach) == (grade, reach)
    else:
        assert found.grade not in GRAVE, found


@pytest.mark.parametrize(
    ("number", "reach", "releases"),
    [
        (8, "any_producer", "3.9.2 to 4.4.0"),
        (6, "broker_itself", ""),
        (9, "old_logs", "0.8.2.2 to 0.9.0.1"),
        (85, "retired", ""),
        (77, "old_logs", "0.10.0.1 to 0.10.2.2"),
        (66, "rot", ""),
        (52, "hostile", ""),
        (27, "as_writer", ""),
    ],
)
def test_the_reach_of_each_kind(number: int, reach: str, releases: str, audited_cases: dict[str, Case]) -> None:
    """The reach of an audited case is the one that the auditor found."""
    found = case_reach(audited_cases[AUDITED[number - 1]["case"]])
    assert (found.reach, found.span()) == (reach, releases)
