"""Known deviations: findings that a person accepted, each with the reason.

    [[issue]]
    cases = ["v2_batch.empty_*"]       # case ids, or patterns of ids
    severity = "rejects_valid"
    reason = "our consumer never sees one"
    upstream = "https://example.org/123"  # optional

The other fields are those of `KnownIssue`.  `kafkaproof certify TESTEE --write-deviations FILE`
writes the first such file.  Files of earlier releases are read, too: `[[deviation]]` with `case`
and `issue`.

Deviations are strict: an entry that no longer happens fails the run, and an entry covers no
severity but its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES, Severity
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_corpus.known_issues import KnownIssue, issue_list_text, load_issues
from kafka_corpus.vector_format import matches

MAX_REASON: Final = 160
FORMER: Final = {"deviation": {"case": "cases", "issue": "upstream"}}
_HEAD: Final = """\
# Known deviations: one that no longer happens fails the run.
# Each reason is the finding's text; replace it by why the finding is tolerable, or fix the finding.
"""


class Deviation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An accepted finding of one case, or of all cases that a pattern matches."""

    case: Annotated[str, msgspec.Meta(min_length=1)]
    severity: Severity
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    issue: str | None = None

    def covers(self, line: ResultLine) -> bool:
        """Whether *line* is this deviation, happening."""
        return line.outcome == self.severity and self.is_about(line)

    def is_about(self, line: ResultLine) -> bool:
        """Whether *line* is of a case that this is about."""
        return matches(self.case, line.case)


NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]


class DeviationIssue(KnownIssue, frozen=True, kw_only=True):
    """An entry of a file of deviations: cases with one severity and one reason."""

    severity: Severity
    reason: NonEmpty
    cases: Annotated[tuple[NonEmpty, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of the deviations file on one run.

    Attributes:
        known: ids of the cases whose finding is declared.
        stale: entries about cases of this run, none of which happens.
    """

    known: frozenset[str]
    stale: tuple[Deviation, ...]


def load_deviations(path: Path) -> tuple[Deviation, ...]:
    """The deviations in *path*, one for each id or pattern.  Raises `BadIssueList`."""
    issues = load_issues(path, DeviationIssue, FORMER)
    return tuple(
        Deviation(case=case, severity=issue.severity, reason=issue.reason, issue=issue.upstream or None)
        for issue in issues
        for case in issue.cases
    )


def apply_deviations(deviations: Iterable[Deviation], lines: Sequence[ResultLine]) -> Applied:
    """Which findings in *lines* are declared, and which declarations are stale.

    An entry about none of the cases in *lines* is not stale: `--only` may have
    left them out.
    """
    known: set[str] = set()
    stale = []
    for deviation in deviations:
        happened = {line.case for line in lines if deviation.covers(line)}
        known |= happened
        if not happened and any(map(deviation.is_about, lines)):
            stale.append(deviation)
    return Applied(frozenset(known), tuple(stale))


def draft_deviations(lines: Sequence[ResultLine], known: Iterable[Deviation] = ()) -> str:
    """A file that declares every finding in *lines*, after those that are *known* already.

    Where all cases of a case function have the same finding, one entry names the function.
    """
    kept, lines = list(known), sorted(lines, key=lambda line: line.case)
    fresh = [line for line in lines if line.outcome in SEVERITIES and not any(entry.covers(line) for entry in kept)]
    drafted = [*kept]
    by_function = {name: {line.outcome for line in group} for name, group in groupby(lines, _function)}
    for name, group in groupby(fresh, _function):
        found = list(group)
        whole = len(by_function[name]) == 1 and not any(entry.is_about(found[0]) for entry in kept)
        drafted += [_declaring(line, name if whole else line.case) for line in (found[:1] if whole else found)]
    return issue_list_text(_HEAD, map(_as_issue, drafted))


def _function(line: ResultLine) -> str:
    return line.case.partition("[")[0]


def _declaring(line: ResultLine, case: str) -> Deviation:
    return msgspec.convert({"case": case, "severity": line.outcome, "reason": f"it did: {line.why}"}, Deviation)


def _as_issue(entry: Deviation) -> DeviationIssue:
    case, reason, upstream = (printable(text, MAX_REASON) for text in (entry.case, entry.reason, entry.issue or ""))
    return DeviationIssue(cases=(case,), severity=entry.severity, reason=reason, upstream=upstream)
