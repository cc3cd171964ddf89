"""Known deviations: findings that a person accepted, each with the reason.

    [[issue]]
    cause = "append-time-ignored"      # id of a cause, as the report and `certify --json` name it
    reason = "our consumer never shows timestamps"
    upstream = "https://example.org/123"  # optional

    [[issue]]
    cases = ["v2_batch.empty_*"]       # or case ids, or patterns of ids
    severity = "rejects_valid"
    reason = "our consumer never sees one"

The other fields are those of `KnownIssue`.  `kafkaproof certify TESTEE --write-deviations FILE`
writes the first such file, by cause.  Files of earlier releases are read, too: `[[deviation]]`
with `case` and `issue`.

A cause covers all of its findings, those in cases that are added to the corpus later included.
Deviations are strict: an entry that no longer happens fails the run, and an entry of cases covers
no severity but its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from kafka_conformance.judge.verdict import SEVERITIES, Outcome, Severity
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_corpus.known_issues import BadIssueList, KnownIssue, issue_list_text, load_issues
from kafka_corpus.vector_format import matches

MAX_REASON: Final = 160
FORMER: Final = {"deviation": {"case": "cases", "issue": "upstream"}}
_HEAD: Final = """\
# Known deviations: one that no longer happens fails the run.
# Each reason is the title of the cause; replace it by why the cause is tolerable, or fix the cause.
"""


class Deviation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An accepted cause, or an accepted finding of one case or of all cases that a pattern matches.

    Attributes:
        case: an id or a pattern; empty if there is a cause.
        severity: that of the findings; with a cause it may be left out.
        cause: id of a cause; unset if there is a case.
        reason: why it is accepted.
        issue: where it is discussed.
    """

    case: str = ""
    severity: Severity | None = None
    cause: Annotated[str, msgspec.Meta(min_length=1)] | UnsetType = UNSET
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    issue: str | None = None

    def __post_init__(self) -> None:
        """Check that it names a cause, or a case with a severity.  Raises ValueError."""
        if bool(self.case) == bool(self.cause):
            raise ValueError("a deviation names either a cause or cases")
        if self.case and self.severity is None:
            raise ValueError("a deviation of cases has a severity")

    @property
    def name(self) -> str:
        """The cause or the case that it names."""
        return self.cause or self.case

    @property
    def staleness(self) -> str:
        """That it no longer happens, in words."""
        if self.cause and self.severity is None:
            return f"cause {self.cause}: no finding any more"
        return f"{f'cause {self.cause}' if self.cause else self.case}: {self.severity} no longer happens"

    def covers(self, line: ResultLine, causes: Sequence[str] = ()) -> bool:
        """Whether *line*, a finding of the cause with any of these ids, is this deviation, happening."""
        right_severity = line.outcome == self.severity if self.severity else line.outcome in SEVERITIES
        return right_severity and (self.cause in causes if self.cause else self.is_about(line))

    def is_about(self, line: ResultLine) -> bool:
        """Whether *line* is of a case that this names."""
        return bool(self.case) and matches(self.case, line.case)


NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]


class DeviationIssue(KnownIssue, frozen=True, kw_only=True):
    """An entry of a file of deviations: a cause, or cases with one severity; and a reason."""

    cause: str = ""
    severity: Severity | None = None
    reason: NonEmpty
    cases: tuple[NonEmpty, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingCauses:
    """The causes of the findings of one run.

    Attributes:
        by_case: the cause of a finding, by case id.
        titles: grade and title of each cause, the gravest first.
        foreign: reviewed causes of other libraries, which a run of this one cannot show.
        complete: whether all cases were run, so that a cause without a finding is gone.
        former: earlier ids of causes, by id.
    """

    by_case: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    foreign: AbstractSet[str] = frozenset()
    complete: bool = True
    former: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def names(self, line: ResultLine) -> Sequence[str]:
        """The id of the cause of *line*, and its earlier ones; none if there is no cause."""
        cause = self.by_case.get(line.case)
        return () if cause is None else (cause, *self.former.get(cause, ()))


NO_CAUSES: Final = FindingCauses()


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
    """The deviations in *path*, one for each cause, id or pattern.  Raises `BadIssueList`."""
    issues = load_issues(path, DeviationIssue, FORMER)
    return tuple(each for number, issue in enumerate(issues, 1) for each in _deviations(path, number, issue))


def _deviations(path: Path, number: int, issue: DeviationIssue) -> list[Deviation]:
    upstream = issue.upstream or None
    try:
        if issue.cause and not issue.cases:
            return [Deviation(cause=issue.cause, severity=issue.severity, reason=issue.reason, issue=upstream)]
        return [
            Deviation(
                case=case, severity=issue.severity, cause=issue.cause or UNSET, reason=issue.reason, issue=upstream
            )
            for case in issue.cases or ("",)
        ]
    except ValueError as error:
        raise BadIssueList(f"{path}: issue {number}: {error}") from None


def apply_deviations(
    deviations: Iterable[Deviation], lines: Sequence[ResultLine], causes: FindingCauses = NO_CAUSES
) -> Applied:
    """Which findings in *lines* are declared, and which declarations are stale.

    An entry about none of the cases in *lines* is not stale: `--only` may have
    left them out.  Neither is a cause in such a run, nor one of another library.
    """
    known: set[str] = set()
    stale = []
    for deviation in deviations:
        happened = {line.case for line in lines if deviation.covers(line, causes.names(line))}
        known |= happened
        if not happened and _is_due(deviation, lines, causes):
            stale.append(deviation)
    return Applied(frozenset(known), tuple(stale))


def _is_due(deviation: Deviation, lines: Sequence[ResultLine], causes: FindingCauses) -> bool:
    """Whether the run would show *deviation* if it still happened; a case that varies shows nothing."""
    if deviation.cause:
        return causes.complete and deviation.cause not in causes.foreign
    return any(deviation.is_about(line) and line.outcome != "flaky" for line in lines)


def draft_deviations(
    lines: Sequence[ResultLine], known: Iterable[Deviation] = (), causes: FindingCauses = NO_CAUSES
) -> str:
    """A file that declares every finding in *lines*, after those that are *known* already.

    There is an entry for each cause, the gravest first.  Findings without a cause have entries by case; where all
    cases of a case function have the same finding, one entry names the function.
    """
    drafted, lines = list(known), sorted(lines, key=lambda line: line.case)
    fresh = [line for line in lines if line.outcome in SEVERITIES and not _is_covered(line, drafted, causes)]
    found = {causes.by_case.get(line.case, "") for line in fresh}
    drafted += [_declaring_cause(id_, title) for id_, title in causes.titles.items() if id_ in found]
    others = [line for line in fresh if line.case not in causes.by_case]
    return issue_list_text(_HEAD, map(_as_issue, [*drafted, *_by_function(lines, others, drafted)]))


def _is_covered(line: ResultLine, deviations: Iterable[Deviation], causes: FindingCauses) -> bool:
    return any(each.covers(line, causes.names(line)) for each in deviations)


def _by_function(
    lines: Sequence[ResultLine], fresh: Iterable[ResultLine], kept: Sequence[Deviation]
) -> list[Deviation]:
    """Entries for the findings *fresh* by case function, or by case where the function has others; both are sorted."""
    outcomes: defaultdict[str, set[Outcome]] = defaultdict(set)
    for line in lines:
        outcomes[_function(line)].add(line.outcome)
    drafted: list[Deviation] = []
    for name, group in groupby(fresh, _function):
        found = list(group)
        whole = len(outcomes[name]) == 1 and not any(entry.is_about(found[0]) for entry in kept)
        drafted += [_declaring(line, name if whole else line.case) for line in (found[:1] if whole else found)]
    return drafted


def _function(line: ResultLine) -> str:
    return line.case.partition("[")[0]


def _declaring(line: ResultLine, case: str) -> Deviation:
    return msgspec.convert({"case": case, "severity": line.outcome, "reason": f"it did: {line.why}"}, Deviation)


def _declaring_cause(id_: str, title: str) -> Deviation:
    return Deviation(cause=id_, reason=title)


def _as_issue(entry: Deviation) -> DeviationIssue:
    case, reason, upstream = (printable(text, MAX_REASON) for text in (entry.case, entry.reason, entry.issue or ""))
    return DeviationIssue(
        cause=entry.cause or "",
        cases=(case,) if case else (),
        severity=entry.severity,
        reason=reason,
        upstream=upstream,
    )
