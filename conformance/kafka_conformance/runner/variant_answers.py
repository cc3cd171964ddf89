"""Variants that a run sends among its cases, and whether they are answered as these.

A codec answers a variant as it answers its case: it does not know one from the other.  A
testee that answers a case rightly and its variant wrongly, or not at all, has learned the
corpus, or has a defect that the values of the case do not show; both are unlike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kafka_conformance.judge.verdict import OPEN, SEVERITIES
from kafka_conformance.runner.results import ResultLine, VariantCheck
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Case
from kafka_corpus.variants import case_of, is_variant, variants


@dataclass(slots=True)
class VariantAnswers:
    """The variants of one run, and their lines, which go into no result file."""

    seed: str
    cases: Sequence[Case]
    lines: list[ResultLine] = field(default_factory=list)

    @classmethod
    def of(cls, cases: Sequence[Case], seed: str, count: int) -> VariantAnswers:
        """Variants of *count* of the *cases*, drawn from *seed*; none if it is empty."""
        return cls(seed, variants(cases, seed, count) if seed else ())

    def among(self, cases: Sequence[Case]) -> list[Case]:
        """*cases* with the variants between them."""
        return sorted((*cases, *self.cases), key=lambda case: case.id) if self.cases else list(cases)

    def kept_back(self, lines: Iterable[ResultLine]) -> list[ResultLine]:
        """*lines* without those of variants, which are kept here."""
        rest: list[ResultLine] = []
        for line in lines:
            (self.lines if is_variant(line.case) else rest).append(line)
        return rest

    def check(self, lines: Iterable[ResultLine]) -> VariantCheck | None:
        """The variants compared with the *lines* of their cases; None if there are none."""
        if not self.seed:
            return None
        own = {line.case: line for line in lines}
        pairs = [(own[case_of(line.case)], line) for line in self.lines]
        sent = [pair for pair in pairs if not pair[1].observation.get("by_runner")]
        unlike = {line.case: _difference(line, varied) for line, varied in sent if is_worse(line, varied)}
        return VariantCheck(seed=self.seed, drawn=len(self.cases), sent=len(sent), unlike=dict(sorted(unlike.items())))


def is_worse(line: ResultLine, varied: ResultLine) -> bool:
    """Whether a variant was answered wrongly where its case was not, or was skipped where its case was answered."""
    if varied.outcome in SEVERITIES:
        return line.outcome not in SEVERITIES
    return varied.outcome in OPEN and line.outcome not in OPEN


def _difference(line: ResultLine, varied: ResultLine) -> str:
    return printable(f"{line.outcome}, and of the variant {varied.outcome}: {varied.why}")
