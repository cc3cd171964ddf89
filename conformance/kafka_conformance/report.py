"""A run as a report: counts, scores, findings and coverage, as plain data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kafka_conformance.certificate import Certificate, certify
from kafka_conformance.deviations import Applied, Deviation, apply
from kafka_conformance.judge import OUTCOMES, SEVERITIES, rank
from kafka_conformance.questions import concerns
from kafka_conformance.results import Line, Results
from kafka_corpus.case import Case


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that disagrees; `known` if it is a declared deviation."""

    line: Line
    known: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is said about one run."""

    results: Results
    certificate: Certificate
    applied: Applied
    findings: tuple[Finding, ...]
    path: Path
    declared: tuple[Deviation, ...] = ()

    @property
    def fresh(self) -> list[Finding]:
        """The findings that are not declared."""
        return [finding for finding in self.findings if not finding.known]

    @property
    def agrees(self) -> bool:
        """Whether the run succeeded.

        Nothing may disagree but what is declared, no declaration may be stale,
        the run has to be complete and something has to agree; a run over the
        whole corpus has to be certified too, so that nobody gets by on skips.
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
        apart = ("hang", "skipped")
        spent = [line.ms for line in self.results.lines if line.outcome not in apart and not line.heavy]
        return sum(spent) / len(spent) if spent else 0.0

    def heavy_seconds(self) -> float:
        """What heavy cases that did not hang took, in seconds of one worker."""
        return sum(line.ms for line in self.results.lines if line.heavy and line.outcome != "hang") / 1000


def make(results: Results, cases: Sequence[Case], deviations: Iterable[Deviation], path: Path) -> Report:
    """The report on *results* over *cases*."""
    declared = tuple(deviations)
    append = bool(results.header.testee.get("append"))
    cases = [case for case in cases if results.header.testee.get("broker") or concerns(case, append=append)]
    applied = apply(declared, results.lines)
    certificate = certify(results, cases, applied.known, [entry.case for entry in applied.stale])
    wrong = [line for line in results.lines if line.outcome in SEVERITIES]
    findings = [Finding(line, line.case in applied.known) for line in wrong]
    findings.sort(key=lambda finding: (finding.known, rank(finding.line.outcome), finding.line.case))
    return Report(results, certificate, applied, tuple(findings), path, declared)


def document(report: Report) -> dict[str, Any]:
    """The report as JSON says it; one object."""
    results, certificate = report.results, report.certificate
    return {
        "testee": results.header.testee,
        "corpus": {"sha256": results.header.corpus, "cases": results.header.cases, "only": results.header.only},
        "complete": results.complete,
        "agrees": report.agrees,
        "certified": certificate.certified,
        "reasons": list(certificate.reasons),
        "score": round(certificate.score, 6),
        "answered_score": round(certificate.answered_score, 6),
        "skipped_share": round(certificate.skipped, 6),
        "nulls": {name: round(value, 6) for name, value in certificate.nulls.items()},
        "counts": results.counts(),
        "areas": {area: _area(counts, certificate.areas[area]) for area, counts in report.by_area().items()},
        "left_out": report.left_out(),
        "findings": [msgspec.to_builtins(each.line) | {"known": each.known} for each in report.findings],
        "stale_deviations": [msgspec.to_builtins(entry) for entry in report.applied.stale],
        "cases": len(results.lines),
        "milliseconds_per_case": round(report.case_ms(), 4),
        "heavy_seconds": round(report.heavy_seconds(), 3),
        "waited_seconds": None if results.footer is None else results.footer.waited,
        "totals": None if results.footer is None else msgspec.to_builtins(results.footer),
        "result": str(report.path),
    }


def _area(counts: Counter[str], score: float) -> dict[str, Any]:
    return {outcome: counts[outcome] for outcome in OUTCOMES} | {"score": round(score, 6)}
