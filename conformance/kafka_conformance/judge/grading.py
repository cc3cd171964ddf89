"""Grade a judged case: its effect, its reach, the strength of its rule, and the grade of the table.

The strength of a case's first rule is that of the table, with these exceptions:

    bytes that no writer makes, or times that no clock gives    should, at most
    broken bytes that are accepted with their one plain reading should, at most
    valid bytes that are refused                                must: how a field is shown may be
                                                                a recommendation, reading it is not
    memory, where CMP-10 (nothing limits it) is among the rules may
    memory, elsewhere                                           must
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_conformance.judge.canonical import has_usual_times, is_canonical
from kafka_conformance.judge.effect import JudgedLine, effect_of
from kafka_conformance.judge.grade import STRENGTHS, Effect, Grade, Reach, grade_row
from kafka_conformance.judge.plain_reading import plain_reading
from kafka_conformance.judge.reach import CaseReach, case_reach
from kafka_conformance.judge.supported import SUPPORTED, SupportedReleases
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vectors import input_of
from kafka_records import Batch
from kafka_records.rules import Strength, rule

UNLIMITED: Final = "CMP-10"


@dataclass(frozen=True, slots=True)
class FindingGrade:
    """The grade of a finding, and the four inputs of the table that it follows from."""

    grade: Grade
    effect: Effect
    reach: Reach
    strength: Strength
    reason: str


def grade_finding(
    case: Case, line: JudgedLine, supported: SupportedReleases = SUPPORTED, reach: CaseReach | None = None
) -> FindingGrade | None:
    """The grade of the judged *case*; None if it agrees or was skipped.

    Args:
        case: as judged.
        line: the result line.
        supported: the releases that count as supported.
        reach: that of the case, if it is known already.
    """
    effect = effect_of(case, line)
    if effect is None:
        return None
    found = case_reach(case, supported) if reach is None else reach
    strength = rule_strength(case, effect, lenient=is_lenient(case, line, found.reach))
    row = grade_row(strength, case.expect.verdict, found.reach, effect)
    return FindingGrade(row.grade, effect, found.reach, strength, row.reason)


def rule_strength(case: Case, effect: Effect, *, lenient: bool = False) -> Strength:
    """The strength that counts for *effect*: see the module's docstring."""
    if effect == "memory":
        return "may" if UNLIMITED in case.rules else "must"
    own = rule(case.rules[0]).strength or "may"
    if lenient or is_unusual(case):
        return weaker(own, "should")
    return "must" if effect == "rejects_valid" else own


def weaker(one: Strength, other: Strength) -> Strength:
    """The weaker of two strengths.

    >>> weaker("must", "should"), weaker("may", "should")
    ('should', 'may')
    """
    return max(one, other, key=STRENGTHS.index)


def is_unusual(case: Case) -> bool:
    """Whether no writer makes such bytes, or no clock gives such times."""
    if isinstance(case.input, Batch):
        return not has_usual_times((case.input,))
    if case.op != "decode" or case.expect.verdict != "valid" or isinstance(case.input, Recipe):
        return False
    data = input_of(case)
    assert isinstance(data, bytes)
    return not (has_usual_times(case.expect.batches) and is_canonical(data, case.expect.batches))


def is_lenient(case: Case, line: JudgedLine, reach: Reach) -> bool:
    """Whether invalid bytes were accepted with the records that they plainly contain; damage has to be detected."""
    if line.outcome != "accepts_invalid" or case.op != "decode" or reach == "rot" or isinstance(case.input, Recipe):
        return False
    data = input_of(case)
    assert isinstance(data, bytes)
    reading = plain_reading(data)
    if reading is None:
        return False
    given = line.observation
    if "records" in given:
        return bool(given["records"] == sum(map(len, reading)))
    return bool(given.get("batches") == len(reading))
