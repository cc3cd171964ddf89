"""Releases of one codec beside each other: since when is each finding there, and which are gone?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES, Outcome, outcome_rank
from kafka_conformance.runner.keeping import REPORT_HINT, WouldReplace
from kafka_conformance.runner.results import Results
from kafka_conformance.sanitize import printable


@dataclass(frozen=True, slots=True)
class HistoryFinding:
    """A case that some release gets wrong.

    Attributes:
        case: its id.
        severity: the worst that a release made of it.
        since: the first release of those looked at that gets it wrong.
        gone: the first release that no longer does; empty while the newest still does.
        outcomes: what each release made of it, oldest first; None where it was not sent.
    """

    case: str
    severity: Outcome
    since: str
    gone: str
    outcomes: tuple[Outcome | None, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Releases, oldest first, why others are missing, and the findings, worst first."""

    name: str
    releases: tuple[str, ...]
    not_run: Mapping[str, str]
    findings: tuple[HistoryFinding, ...]

    def spans(self) -> list[tuple[str, list[HistoryFinding]]]:
        """The findings by when they came and went, in words; the longest known first."""
        grouped: dict[str, list[HistoryFinding]] = {}
        for finding in self.findings:
            grouped.setdefault(self.span(finding), []).append(finding)
        order = {release: at for at, release in enumerate(self.releases)}
        return sorted(grouped.items(), key=lambda pair: (bool(pair[1][0].gone), order[pair[1][0].since], pair[0]))

    def span(self, finding: HistoryFinding) -> str:
        """When *finding* came and went."""
        first = finding.since == self.releases[0]
        came = f"in {self.releases[0]} or before" if first else f"since {finding.since}"
        if finding.gone:
            return f"{came}, gone in {finding.gone}"
        return (f"in all {len(self.releases)}" if first else came) + self._changed(finding)

    def _changed(self, finding: HistoryFinding) -> str:
        """Earlier outcomes of a finding, if they differ."""
        wrong = [outcome for outcome in finding.outcomes if outcome in SEVERITIES]
        first, now = wrong[0], wrong[-1]
        if _alike(first, now):
            return ""
        at = max(at for at, outcome in enumerate(finding.outcomes) if not _alike(outcome, now))
        return f", {first} before {self.releases[at + 1]}, now {now}"


def _alike(one: Outcome | None, other: Outcome | None) -> bool:
    # Which limit is met first, of time or of memory, depends on the machine.
    return one == other or {one, other} == {"hang", "memory"}


def history(name: str, runs: Sequence[tuple[str, Results]], not_run: Mapping[str, str]) -> History:
    """The history of the codec *name* from *runs*, one for each release, oldest first."""
    releases = tuple(release for release, _ in runs)
    by_release = [{line.case: line.outcome for line in done.lines} for _, done in runs]
    cases = sorted({case for lines in by_release for case, outcome in lines.items() if outcome in SEVERITIES})
    found = [_finding(case, releases, tuple(lines.get(case) for lines in by_release)) for case in cases]
    return History(
        name, releases, not_run, tuple(sorted(found, key=lambda each: (outcome_rank(each.severity), each.case)))
    )


def _finding(case: str, releases: Sequence[str], outcomes: tuple[Outcome | None, ...]) -> HistoryFinding:
    wrong = [at for at, outcome in enumerate(outcomes) if outcome in SEVERITIES]
    worst = min((outcome for outcome in outcomes if outcome in SEVERITIES), key=outcome_rank)
    gone = releases[wrong[-1] + 1] if wrong[-1] + 1 < len(releases) else ""
    return HistoryFinding(case, worst, releases[wrong[0]], gone, outcomes)


def history_document(made: History) -> dict[str, Any]:
    """The history as JSON says it."""
    return {
        "name": made.name,
        "releases": list(made.releases),
        "not_run": dict(made.not_run),
        "findings": [
            {
                "case": each.case,
                "severity": each.severity,
                "since": each.since,
                "gone": each.gone or None,
                "releases": dict(zip(made.releases, each.outcomes, strict=True)),
            }
            for each in made.findings
        ],
    }


class _Written(msgspec.Struct):
    """The codec and the releases of a `history_document`."""

    name: str
    releases: list[str]
    not_run: dict[str, str]


def check_covers_history(path: Path, name: str, last: int) -> None:
    """Raise `WouldReplace` if *path* holds a history of the codec *name* with more than its *last* releases."""
    try:
        old = msgspec.json.decode(path.read_bytes(), type=_Written)
    except (OSError, msgspec.DecodeError):
        return  # there is none
    before = len(old.releases) + len(old.not_run)
    if old.name == name and last < before:
        raise WouldReplace(
            f"{printable(str(path), 500)} is the history of {before} releases, and one of {last} would replace it; "
            f"{REPORT_HINT}"
        )


def history_lines(made: History, most: int = 3) -> Iterator[str]:
    """The history in lines: for each span how many findings of which severity, and the worst of them."""
    yield f"{made.name}: {', '.join(made.releases)}"
    for span, findings in made.spans():
        counted = Counter(each.severity for each in findings)
        yield f"  {span}: {', '.join(f'{counted[each]:,} {each}' for each in SEVERITIES if counted[each])}"
        # What is everywhere is in the results of any; what changed is worth a name.
        if span != f"in all {len(made.releases)}":
            yield from (f"    {each.severity}  {each.case}" for each in findings[:most])
            if len(findings) > most:
                yield f"    and {len(findings) - most:,} more in history.json"
    for release, why in made.not_run.items():
        yield f"  not run: {release}: {why}"
