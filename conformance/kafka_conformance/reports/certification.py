"""Certification by profile: the grade of each profile of a testee, and the causes of its findings; pure.

`certified_profiles` and `found_causes` of `Certification` are what `certify --json`
writes as `profiles` and `causes`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, get_args

import msgspec

from kafka_conformance.causes.reviewed import CauseKey, ReviewedCause, cause_key, causes_of
from kafka_conformance.judge.grade import REACHES, UNSAFE, Effect, Grade, Reach, grade_rank
from kafka_conformance.judge.grading import FindingGrade, grade_finding
from kafka_conformance.judge.profiles import (
    PROFILES,
    Announced,
    AnswerCounts,
    CaseProfile,
    CaseRole,
    ProfileGrade,
    case_compression,
    case_role,
    deciding_profiles,
    profile_grade,
)
from kafka_conformance.judge.reach import CaseReach, case_reach
from kafka_conformance.judge.supported import SUPPORTED, SupportedReleases
from kafka_conformance.runner.results import ResultLine, Results
from kafka_corpus.case import Case, Recipe, Verdict
from kafka_corpus.scenario import Scenario
from kafka_corpus.vectors import content_hash
from kafka_records import Batch

_EXPECTATIONS: Final[tuple[Verdict, ...]] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class GradedFinding:
    """A finding with its grade, the profile that it counts in, and its cause."""

    case: Case
    line: ResultLine
    graded: FindingGrade
    profile: CaseProfile
    cause: CauseKey

    @property
    def fails(self) -> bool:
        """Whether its profile cannot be passed with it."""
        if self.profile == "hostile":
            return self.graded.grade == "HOSTILE" and self.graded.effect in UNSAFE
        return self.graded.grade == "FAIL"


class CompressionResult(msgspec.Struct, frozen=True):
    """One compression of a profile: a column of the matrix.

    `passed` of `required` cases were answered without a finding that fails the profile.
    """

    compression: str
    grade: ProfileGrade
    fail_causes: int
    required: int
    passed: int


class ProfileResult(msgspec.Struct, frozen=True):
    """The result of one profile: see `kafka_conformance.judge.profiles`.

    `missing` has the number of required cases without an answer by reason.
    """

    profile: CaseProfile
    grade: ProfileGrade
    compressions: list[CompressionResult]
    fail_causes: int
    non_strict_causes: int
    info: int
    asked: int
    answered: int
    skipped: int
    missing: dict[str, int]
    required: int
    passed: int


class FoundCause(msgspec.Struct, frozen=True):
    """One cause, and the findings that it explains; `cases` are ids, the smallest first."""

    id: str
    title: str
    grade: Grade
    profile: CaseProfile
    effect: Effect
    reach: Reach
    cases: list[str]
    smallest: str
    source: str
    upstream: str
    reviewed: bool


@dataclass(frozen=True)
class Certification:
    """The profiles and causes of one testee."""

    announced: Announced
    findings: tuple[GradedFinding, ...]
    counts: Mapping[CaseProfile, Mapping[str, AnswerCounts]] = field(repr=False)

    @cached_property
    def profiles(self) -> tuple[ProfileResult, ...]:
        """The results of the profiles that the testee plays, in order."""
        plays: list[CaseProfile] = [*self.announced.profiles()]
        plays += ["broker"] if "broker" in self.counts else []
        return tuple(self._profile(profile) for profile in plays)

    def _profile(self, profile: CaseProfile) -> ProfileResult:
        columns = self.counts.get(profile, {})
        total = _total(columns.values())
        found = [finding for finding in self.findings if finding.profile == profile]
        fail, others = _causes_by_weight(found)
        names = self.announced.compressions(profile) if profile != "broker" else ("none",)
        return ProfileResult(
            profile=profile,
            grade=profile_grade(total, len(fail)),
            compressions=[_column(name, columns.get(name, AnswerCounts()), found) for name in names],
            fail_causes=len(fail),
            non_strict_causes=len(others),
            info=sum(finding.graded.grade == "INFO" for finding in found),
            asked=total.asked,
            answered=total.answered,
            skipped=total.skipped,
            missing=total.missing,
            required=total.required,
            passed=total.passed,
        )

    @cached_property
    def causes(self) -> tuple[FoundCause, ...]:
        """All causes but those of INFO alone, the gravest first."""
        grouped: dict[tuple[Grade, str], list[GradedFinding]] = defaultdict(list)
        for finding in self.findings:
            if finding.graded.grade != "INFO":
                grouped[finding.graded.grade, finding.cause.id].append(finding)
        made = [_found_cause(findings) for findings in grouped.values()]
        order = {name: index for index, name in enumerate((*PROFILES, "broker"))}
        return tuple(
            sorted(made, key=lambda each: (grade_rank(each.grade), order[each.profile], -len(each.cases), each.id))
        )

    def failed(self, chosen: Sequence[str] = (), *, strict: bool = False) -> tuple[CaseProfile, ...]:
        """The profiles that make the exit code 1: those *chosen*, or all that decide; *strict* counts NON_STRICT."""
        deciding: set[str] = {*deciding_profiles(self.announced, chosen), *(() if chosen else ("broker",))}
        return tuple(
            each.profile
            for each in self.profiles
            if each.profile in deciding and (each.fail_causes or (strict and each.non_strict_causes))
        )


def certify(
    done: Results, cases: Mapping[str, Case], supported: SupportedReleases = SUPPORTED, testee: str = ""
) -> Certification:
    """Grade the findings of *done*, and count its cases by profile.

    Args:
        done: the result of one testee.
        cases: the corpus, by id.
        supported: the releases that count as supported.
        testee: the row's name; empty for that in the result.
    """
    row = testee or str(done.header.testee.get("name", ""))
    causes = causes_of(row)
    announced = Announced.of(done.header.testee)
    findings: list[GradedFinding] = []
    counts: dict[CaseProfile, dict[str, AnswerCounts]] = defaultdict(lambda: defaultdict(AnswerCounts))
    for line in done.lines:
        case = cases.get(line.case)
        if case is None or is_left_out(line):
            continue
        reach, role = placed_case(case, supported)
        finding = _graded(case, line, reach, role, supported, row, causes)
        if finding is not None:
            findings.append(finding)
        fails = finding is not None and finding.fails
        skipped = (line.why or "no reason") if line.outcome == "skipped" else ""
        counts[role.profile][role.compression].add(required=role.required or fails, skipped=skipped, failed=fails)
    return Certification(announced, tuple(findings), counts)


def is_left_out(line: ResultLine) -> bool:
    """Whether the runner did not send the case, since the testee does not announce it or cannot follow it."""
    return line.outcome == "skipped" and bool(line.observation.get("by_runner"))


_placed: dict[tuple[str, str, SupportedReleases], tuple[CaseReach, CaseRole]] = {}


def placed_case(case: Case, supported: SupportedReleases) -> tuple[CaseReach, CaseRole]:
    """Reach and role of *case*; they are worked out once for each content."""
    key = case.id, content_hash(case), supported
    if key not in _placed:
        reach = case_reach(case, supported)
        _placed[key] = reach, case_role(case, reach.reach)
    return _placed[key]


def _graded(
    case: Case,
    line: ResultLine,
    reach: CaseReach,
    role: CaseRole,
    supported: SupportedReleases,
    row: str,
    causes: Sequence[ReviewedCause],
) -> GradedFinding | None:
    graded = grade_finding(case, line, supported, reach)
    if graded is None:
        return None
    profile: CaseProfile = "hostile" if graded.grade == "HOSTILE" and role.profile != "broker" else role.profile
    return GradedFinding(case, line, graded, profile, cause_key(causes, row, case.id, line, case.rules, graded.effect))


def _total(columns: Iterable[AnswerCounts]) -> AnswerCounts:
    total = AnswerCounts()
    for column in columns:
        total.asked += column.asked
        total.answered += column.answered
        total.skipped += column.skipped
        total.required += column.required
        total.failed += column.failed
        for reason, count in column.missing.items():
            total.missing[reason] = total.missing.get(reason, 0) + count
    return total


def _column(name: str, counts: AnswerCounts, found: Iterable[GradedFinding]) -> CompressionResult:
    fail, _ = _causes_by_weight([each for each in found if case_compression(each.case) == name])
    return CompressionResult(name, profile_grade(counts, len(fail)), len(fail), counts.required, counts.passed)


def _causes_by_weight(found: Iterable[GradedFinding]) -> tuple[set[str], set[str]]:
    """Ids of the causes that fail the profile, and of those that do not."""
    found = list(found)
    fail = {finding.cause.id for finding in found if finding.fails}
    return fail, {finding.cause.id for finding in found if finding.graded.grade != "INFO"} - fail


def _found_cause(findings: Sequence[GradedFinding]) -> FoundCause:
    ordered = sorted(findings, key=_smallness)
    first, reviewed = ordered[0], ordered[0].cause.reviewed
    return FoundCause(
        id=first.cause.id,
        title=first.cause.title,
        grade=first.graded.grade,
        profile=first.profile,
        effect=first.graded.effect,
        reach=first.graded.reach,
        cases=[finding.case.id for finding in ordered],
        smallest=first.case.id,
        source="" if reviewed is None else reviewed.source,
        upstream="" if reviewed is None else reviewed.upstream,
        reviewed=reviewed is not None,
    )


def _smallness(finding: GradedFinding) -> tuple[int, int, int, str]:
    """The order of the cases of a cause: reach, valid before invalid, size."""
    case = finding.case
    return (
        REACHES.index(finding.graded.reach),
        _EXPECTATIONS.index(case.expect.verdict),
        _size(case),
        case.id,
    )


def _size(case: Case) -> int:
    given: Any = case.input
    if isinstance(given, bytes):
        return len(given)
    if isinstance(given, Batch):
        return sum(len(record.key or b"") + len(record.value or b"") + 1 for record in given.records)
    return len(given.steps) if isinstance(given, Scenario) else 1 << 40 if isinstance(given, Recipe) else 0
