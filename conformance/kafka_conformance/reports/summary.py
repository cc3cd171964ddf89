"""A run as plain data: counts, profiles, causes, findings, coverage, and the certificate.

**Certified.** A codec is certified for the profiles that it passes
(`profiles.py`), if

- the run is complete and every case of the corpus was selected;
- no declared deviation (`deviations.py`) has gone stale.

It is certified as a whole if these are all the profiles of the formats that it
announces, `hostile` aside.

**Informedness.** For a set of cases, `v` is the credit on valid cases and `i` on
invalid ones, each between 0 and 1: a case that agrees counts 1, `lossy` and
`wrong_error` (right in the main thing) count 1/2, everything else 0, skipped
cases too.  Cases whose verdict is `acceptable` count on neither side.

    informedness = max(0, v + i - 1)

This is Youden's index.  A testee that answers all cases alike has 0: one that
refuses everything has v = 0, one that accepts everything has i = 0, one that
skips or stays mute has both 0; so v + i never exceeds 1.  Where a set has no
valid (or no invalid) cases, that side is taken from the whole run, so that no
area can be won by one answer either.  It decides nothing.  The null testees are
judged here by the judge itself, on the same cases, and theirs is published beside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_conformance.judge.observation import (
    Decoded,
    Encoded,
    Hung,
    Observation,
    Refused,
    ScenarioAnswers,
    Skipped,
    observation_summary,
)
from kafka_conformance.judge.verdict import OPEN, OUTCOMES, SEVERITIES, Outcome, judge, outcome_rank
from kafka_conformance.reports.profiles import (
    DEFAULT_CRITERIA,
    MAX_DECLARED,
    CaseProfile,
    Certification,
    PassCriteria,
    ProfileResult,
    certify_profiles,
    finding_causes,
)
from kafka_conformance.runner.deviations import NO_CAUSES, Applied, Deviation, apply_deviations
from kafka_conformance.runner.requests import is_relevant
from kafka_conformance.runner.results import ResultLine, Results, result_line
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, once_per_case
from kafka_corpus.scenario import Scenario, StepAnswer

CREDIT: Final[Mapping[Outcome, float]] = {"agree": 1.0, "lossy": 0.5, "wrong_error": 0.5}

TAKEN: Final = StepAnswer(base_offset=0)
CORRUPT: Final = StepAnswer(error_code=2)


def _accepting(case: Case) -> Observation:
    if isinstance(case.input, Scenario):
        return ScenarioAnswers((TAKEN,) * len(case.input.steps))
    return Decoded(()) if case.op == "decode" else Encoded(b"")


def _refusing(case: Case) -> Observation:
    if isinstance(case.input, Scenario):
        return ScenarioAnswers((CORRUPT,) * len(case.input.steps))
    return Refused(Refusal("corrupt", "refused"))


NULLS: Final[Mapping[str, Callable[[Case], Observation]]] = {
    "mute": lambda _: Hung(0.0),
    "accept-all": _accepting,
    "refuse-all": _refusing,
    "skip-all": lambda _: Skipped("skipped"),
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Credit on valid and on invalid cases; None where there are none."""

    valid: float | None
    invalid: float | None

    def score(self, whole: Rates) -> float:
        """Youden's index, a missing side taken from *whole*, 0 where that has none either."""
        valid = whole.valid if self.valid is None else self.valid
        invalid = whole.invalid if self.invalid is None else self.invalid
        return max(0.0, (valid or 0.0) + (invalid or 0.0) - 1.0)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The profiles that a run is certified for, and its informedness.

    Attributes:
        certified_for: the profiles that it passes; empty unless the run is whole.
        unfit: why the run itself can certify nothing, one line each.
        reasons: these, and why it does not pass each of the profiles that it announces.
        score: informedness over all cases, those skipped counting nothing.
        answered_score: the same over the cases that were not skipped.
        areas: informedness by area.
        nulls: informedness of the null testees on the same cases.
        skipped: share of the cases that were skipped.
    """

    certified_for: tuple[CaseProfile, ...]
    unfit: tuple[str, ...]
    reasons: tuple[str, ...]
    score: float
    answered_score: float
    areas: Mapping[str, float]
    nulls: Mapping[str, float]
    skipped: float

    @property
    def certified(self) -> bool:
        """Whether it is certified for every profile of the formats that it announces, `hostile` aside."""
        return not self.reasons


def rates(lines: Iterable[ResultLine]) -> Rates:
    """The credit of *lines* on each side."""
    sides: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        sides[line.expected].append(CREDIT.get(line.outcome, 0.0))
    return Rates(_mean(sides["valid"]), _mean(sides["invalid"]))


def _mean(credits: Sequence[float]) -> float | None:
    return sum(credits) / len(credits) if credits else None


def score(lines: Sequence[ResultLine]) -> float:
    """The score of *lines*, taken as a whole run."""
    whole = rates(lines)
    return whole.score(whole)


def scores_by_area(lines: Sequence[ResultLine]) -> dict[str, float]:
    """The score in each area."""
    whole = rates(lines)
    areas: dict[str, list[ResultLine]] = defaultdict(list)
    for line in lines:
        areas[line.area].append(line)
    return {area: _rates_of_area(areas[area]).score(whole) for area in sorted(areas)}


def _rates_of_area(lines: Sequence[ResultLine]) -> Rates:
    """As `rates`, but a side that was skipped whole is none; over a whole run it counts against it."""
    answered = {line.expected for line in lines if line.outcome not in OPEN}
    return rates(line for line in lines if line.expected in answered)


def null_scores(cases: Sequence[Case]) -> dict[str, float]:
    """The score of each null testee on *cases*."""
    return {name: score([null_line(case, name) for case in cases]) for name in NULLS}


@once_per_case
def null_line(case: Case, name: str) -> ResultLine:
    """The line of a result for *case* of the null testee *name*."""
    given = NULLS[name](case)
    return result_line(case, judge(case, given), observation_summary(given), 0.0, 0)


def certify(results: Results, cases: Sequence[Case], profiled: Certification, stale: Sequence[str]) -> Certificate:
    """The certificate of *results* on *cases*.

    Args:
        results: one run.
        cases: the cases that were selected for it.
        profiled: the profiles of the run.
        stale: declared deviations that no longer happen.
    """
    lines = results.lines
    answered = [line for line in lines if line.outcome not in OPEN]
    skipped = 1 - len(answered) / len(lines) if lines else 1.0
    unfit = (
        *_incomplete(results),
        *(f"a declared deviation no longer happens: {entry}" for entry in stale),
    )
    passed = () if unfit else tuple(each.profile for each in profiled.profiles if each.grade == "pass")
    reasons = (*unfit, *_not_passed(profiled.deciding()))
    nulls = null_scores(cases)
    return Certificate(passed, unfit, reasons, score(lines), score(answered), scores_by_area(lines), nulls, skipped)


def _incomplete(results: Results) -> Iterable[str]:
    if not results.complete:
        yield f"the run is incomplete: {len(results.lines)} of {results.header.cases} cases"
    if unlike := unlike_variants(results):
        yield f"{len(unlike):,} variants are not answered as their cases, as that of {printable(next(iter(unlike)))}"
    if not_sent := results.counts()["not_asked"]:
        yield f"{not_sent:,} cases were not sent: the testee did not answer"
    if results.header.only:
        yield "only a part of the corpus was run"


def unlike_variants(results: Results) -> dict[str, str]:
    """The cases whose variants were answered worse, with how, by id; none if the run is incomplete or had none."""
    return {} if results.footer is None or results.footer.variants is None else results.footer.variants.unlike


def _not_passed(profiles: Sequence[ProfileResult]) -> Iterable[str]:
    if not profiles:
        yield "no format is announced"
    for each in profiles:
        if each.grade == "fail" and not each.fail_causes:
            yield f"{each.profile}: deviations are declared for more than {MAX_DECLARED:.0%} of the required cases"
        elif each.grade == "fail":
            yield f"{each.profile}: {each.fail_causes:,} FAIL cause{'' if each.fail_causes == 1 else 's'}"
        elif each.grade == "incomplete":
            yield f"{each.profile}: {sum(each.missing.values()):,} of {each.required:,} required cases are not answered"


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that disagrees; `known` if it is a declared deviation."""

    line: ResultLine
    known: bool


@dataclass(frozen=True)
class Report:
    """Everything that is said about one run; `profiled` has the grades of profiles and findings, and the causes."""

    results: Results
    certificate: Certificate
    applied: Applied
    findings: tuple[Finding, ...]
    path: Path
    profiled: Certification = field(repr=False)
    declared: tuple[Deviation, ...] = ()
    cases: Mapping[str, Case] = field(default_factory=dict, repr=False)
    criteria: PassCriteria = DEFAULT_CRITERIA

    @property
    def passes(self) -> bool:
        """Whether the exit code is 0: no FAIL in the profiles that decide.

        The run has to be complete, no declared deviation may be stale, and
        something has to be answered.
        """
        profiles, strict = self.criteria.profiles, self.criteria.strict
        if self.applied.stale or not self.results.complete or self.profiled.failed(profiles, strict=strict):
            return False
        if self.results.counts()["not_asked"] or unlike_variants(self.results):
            return False
        if not self.profiled.deciding(profiles):
            return False
        if self.results.header.only:
            counts = self.results.counts()
            return sum(counts[name] for name in OPEN) < len(self.results.lines)
        return any(each.answered for each in self.profiled.deciding(profiles))

    @property
    def fresh(self) -> list[Finding]:
        """The findings that are not declared."""
        return [finding for finding in self.findings if not finding.known]

    @property
    def agrees(self) -> bool:
        """Whether the run succeeded.

        Nothing may disagree but what is declared, no declaration may be stale,
        the run has to be complete and something has to agree; a run over the
        whole corpus has to be certified too, so that skips cannot pass.
        """
        if self.fresh or self.applied.stale or not self.results.complete:
            return False
        if self.results.header.only:
            return self.results.counts()["agree"] > 0 or bool(self.findings)
        return self.certificate.certified

    def by_area(self) -> dict[str, Counter[str]]:
        """How many cases had each outcome, by area."""
        areas: dict[str, Counter[str]] = defaultdict(Counter)
        for line in self.results.lines:
            areas[line.area][line.outcome] += 1
        return dict(sorted(areas.items()))

    def left_out(self) -> dict[str, int]:
        """How many agreeing cases each field was left out of, most first."""
        counter: Counter[str] = Counter()
        for line in self.results.lines:
            counter.update(line.left_out)
        return dict(counter.most_common())

    def case_ms(self) -> float:
        """The mean time of a case in milliseconds, pipe included; those that hang or are heavy stand apart."""
        apart = ("hang", *OPEN)
        spent = [line.ms for line in self.results.lines if line.outcome not in apart and not line.heavy]
        return sum(spent) / len(spent) if spent else 0.0

    def heavy_seconds(self) -> float:
        """The time of heavy cases that did not hang, in seconds of one worker."""
        return sum(line.ms for line in self.results.lines if line.heavy and line.outcome != "hang") / 1000


def make(
    results: Results,
    cases: Sequence[Case],
    deviations: Iterable[Deviation],
    path: Path,
    criteria: PassCriteria = DEFAULT_CRITERIA,
) -> Report:
    """The report on *results* over *cases*."""
    declared = tuple(deviations)
    append = bool(results.header.testee.get("append"))
    cases = [case for case in cases if results.header.testee.get("broker") or is_relevant(case, append=append)]
    by_id = {case.id: case for case in cases}
    by_cause = any(entry.cause for entry in declared)
    causes = finding_causes(results, by_id, criteria.supported) if by_cause else NO_CAUSES
    applied = apply_deviations(declared, results.lines, causes)
    profiled = certify_profiles(results, by_id, criteria.supported, known=applied.known)
    certificate = certify(results, cases, profiled, [entry.name for entry in applied.stale])
    wrong = [line for line in results.lines if line.outcome in SEVERITIES]
    findings = [Finding(line, line.case in applied.known) for line in wrong]
    findings.sort(key=lambda finding: (finding.known, outcome_rank(finding.line.outcome), finding.line.case))
    return Report(results, certificate, applied, tuple(findings), path, profiled, declared, by_id, criteria)


def report_document(report: Report) -> dict[str, Any]:
    """The report as JSON says it; one object."""
    results, certificate, profiled = report.results, report.certificate, report.profiled
    return {
        "testee": results.header.testee,
        "corpus": {"sha256": results.header.corpus, "cases": results.header.cases, "only": results.header.only},
        "complete": results.complete,
        "agrees": report.agrees,
        "passes": report.passes,
        "certified": certificate.certified,
        "certified_for": list(certificate.certified_for),
        "reasons": list(certificate.reasons),
        "informedness": round(certificate.score, 6),
        "answered_informedness": round(certificate.answered_score, 6),
        "skipped_share": round(certificate.skipped, 6),
        "nulls": {name: round(value, 6) for name, value in certificate.nulls.items()},
        "supported": str(report.criteria.supported),
        "profiles": msgspec.to_builtins(profiled.profiles),
        "causes": msgspec.to_builtins(profiled.causes),
        "counts": results.counts(),
        "areas": {area: _area(counts, certificate.areas[area]) for area, counts in report.by_area().items()},
        "left_out": report.left_out(),
        "findings": [_finding(each, profiled) for each in report.findings],
        "stale_deviations": [msgspec.to_builtins(entry) for entry in report.applied.stale],
        "cases": len(results.lines),
        "milliseconds_per_case": round(report.case_ms(), 4),
        "heavy_seconds": round(report.heavy_seconds(), 3),
        "waited_seconds": None if results.footer is None else results.footer.waited,
        "totals": None if results.footer is None else msgspec.to_builtins(results.footer),
        "result": str(report.path),
    }


def _finding(found: Finding, profiled: Certification) -> dict[str, Any]:
    graded = profiled.by_case.get(found.line.case)
    line: dict[str, Any] = msgspec.to_builtins(found.line)
    return line | {"known": found.known} | ({} if graded is None else graded.document())


def _area(counts: Counter[str], score: float) -> dict[str, Any]:
    return {outcome: counts[outcome] for outcome in OUTCOMES} | {"informedness": round(score, 6)}
