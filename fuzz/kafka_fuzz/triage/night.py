"""The results of a campaign: its rounds, its growth, the cells it reached, and its findings after triage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES
from kafka_fuzz.campaign.known_findings import ReplayResult, State, read_replay_results
from kafka_fuzz.campaign.plan import LOG, RoundReport, read_log
from kafka_fuzz.campaign.replay import replay_target, replay_targets
from kafka_fuzz.campaign.store import INDEX, read_index
from kafka_fuzz.findings import read_findings
from kafka_fuzz.mutate.model import reachable
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell
from kafka_fuzz.triage.deduplicate import TriagedFinding
from kafka_fuzz.triage.draft import draft_document
from kafka_fuzz.triage.reach import FindingReach, Who, read_reach

NOT_MEASURED: Final[Who] = "not measured"
QUARTERS: Final = 4
FIRST_MISSING: Final = 5
# Counts that grow, and their names in reports.
GROWING: Final = {"buckets": "distinct outcomes", "lines": "lines covered", "cells": "format cells filled"}


class Point(NamedTuple):
    """CPU-seconds that a target has had, and a count at that time."""

    seconds: float
    value: int


class Reached(NamedTuple):
    """Cells of one kind: how many were reached, of how many."""

    name: str
    reached: int
    among: int


@dataclass(frozen=True, slots=True)
class Night:
    """The last campaign of each target of a folder, and the growth over all campaigns.

    Attributes:
        rounds: of all campaigns, as the log has them.
        cells: reached by inputs that were kept, of those that `model` can reach.
        findings: after triage, the worst first.
        reach: what brokers of each release did with the inputs of findings, by key, where that was measured.
        replays: the latest replay results of known findings.
    """

    rounds: tuple[RoundReport, ...]
    cells: frozenset[MutantCell]
    findings: tuple[TriagedFinding, ...]
    reach: Mapping[str, FindingReach] = field(default_factory=dict)
    replays: tuple[ReplayResult, ...] = ()

    @property
    def last(self) -> list[RoundReport]:
        """The rounds of each target's last campaign; of earlier ones, what was kept and how it grew counts."""
        newest = {each.target: each.campaign for each in self.rounds}
        return [each for each in self.rounds if each.campaign == newest[each.target]]

    @property
    def campaigns(self) -> int:
        """The number of campaigns in the log; rounds without a number are one campaign."""
        return len({each.campaign for each in self.rounds})

    def targets(self) -> list[str]:
        """The fuzzed targets."""
        return list(dict.fromkeys(each.target for each in self.last))

    def of(self, target: str) -> list[RoundReport]:
        """The rounds of *target* in its last campaign."""
        return [each for each in self.last if each.target == target]

    def found_in(self, target: str) -> list[TriagedFinding]:
        """Open findings of *target*, or of the testees that it runs."""
        targets = set(replay_targets(target))
        return [finding for finding in self.open() if replay_target(finding.outcome.target, finding.mode) in targets]

    def reach_of(self, finding: TriagedFinding) -> FindingReach | None:
        """The furthest reach of *finding* by any of its keys; None where no broker was measured."""
        measured = [self.reach[key] for key in finding.keys if key in self.reach]
        return max(measured, key=lambda each: (each.who == "any producer", len(each.shown)), default=None)

    def reaches(self) -> dict[str, int]:
        """The number of open findings by the party that can cause them, or not measured."""
        counts = Counter(reach.who if (reach := self.reach_of(finding)) else NOT_MEASURED for finding in self.open())
        return {who: counts[who] for who in get_args(Who) if counts[who]}

    def curve(self, target: str, what: str) -> list[Point]:
        """How *what* grew for *target*, round by round, over all campaigns."""
        points, seconds = [Point(0.0, 0)], 0.0
        for each in self.rounds:
            if each.target != target:
                continue
            seconds += each.cpu_seconds
            points.append(Point(seconds, max(points[-1].value, getattr(each, what))))
        return points

    def grown(self, target: str, what: str) -> list[Point]:
        """That curve after each quarter of its CPU-seconds."""
        curve = self.curve(target, what)
        times = [curve[-1].seconds * part / QUARTERS for part in range(1, QUARTERS + 1)]
        return [Point(time, max(point.value for point in curve if point.seconds <= time)) for time in times]

    def missing(self) -> dict[str, list[MutantCell]]:
        """Cells that no input has reached, by field; the field with most missing cells comes first."""
        by: dict[str, list[MutantCell]] = {}
        for cell in sorted(reachable() - self.cells):
            by.setdefault(cell.field, []).append(cell)
        return dict(sorted(by.items(), key=lambda item: (-len(item[1]), item[0])))

    def replay_results(self) -> dict[str, int]:
        """The number of known-finding replays by result: gone, still there, or not replayable."""
        counts = Counter(each.state for each in self.replays)
        return {state: counts[state] for state in get_args(State) if counts[state]}

    def open(self) -> list[TriagedFinding]:
        """Finds that are still there."""
        return [finding for finding in self.findings if finding.open]

    def states(self) -> dict[str, int]:
        """How many findings are new, known and gone."""
        counts = Counter(finding.state for finding in self.findings)
        return {state: counts[state] for state in ("new", "known", "gone")}

    def severities(self) -> dict[str, int]:
        """How many open findings there are of each severity, the worst first."""
        counts = Counter(finding.severity for finding in self.open())
        return {severity: counts[severity] for severity in SEVERITIES if counts[severity]}

    def failures(self) -> list[RoundReport]:
        """Rounds of each target's last campaign in which the harness could not do its work."""
        return [each for each in self.last if each.failure]

    def by_format(self) -> list[Reached]:
        """Cells by magic and codec."""
        return _by(self.cells, lambda cell: f"v{cell.magic} {cell.codec}")

    def by_fault(self) -> list[Reached]:
        """Cells by fault, those with most missing cells first."""
        found = _by(self.cells, lambda cell: cell.fault or NO_FAULT)
        return sorted(found, key=lambda each: (each.reached / each.among, each.name))

    def lines(self) -> Iterator[dict[str, Any]]:
        """The whole report as JSON lines: totals, rounds, cells, replays and findings."""
        yield {
            "kind": "night",
            "targets": self.targets(),
            "campaigns": self.campaigns,
            "executions": sum(each.executions for each in self.last),
            "cpu_seconds": round(sum(each.cpu_seconds for each in self.last), 3),
            "cells": len(self.cells),
            "cells_reachable": len(reachable()),
            "states": self.states(),
            "severities": self.severities(),
            "reach": self.reaches(),
            "failures": len(self.failures()),
            "replays": self.replay_results(),
        }
        yield from ({"kind": "round"} | msgspec.to_builtins(each) for each in self.rounds)
        yield from ({"kind": "cells"} | each._asdict() for each in (*self.by_format(), *self.by_fault()))
        for name, cells in self.missing().items():
            yield {"kind": "missing", "field": name, "count": len(cells), "first": cells[:FIRST_MISSING]}
        yield from ({"kind": "replay", "state": each.state} | msgspec.to_builtins(each) for each in self.replays)
        yield from (
            {"kind": "finding"} | draft_document(finding) | {"reach": night_lines(self.reach_of(finding))}
            for finding in self.findings
        )


def night_lines(reach: FindingReach | None) -> dict[str, Any]:
    """A reach as a JSON document: the party that can cause it, and the result of each release."""
    if reach is None:
        return {"who": NOT_MEASURED, "releases": {}}
    return {"who": reach.who, "releases": {name: str(tried) for name, tried in reach.releases.items()}}


def _by(cells: frozenset[MutantCell], name: Any) -> list[Reached]:
    among, reached = Counter(map(name, reachable())), Counter(map(name, cells))
    return [Reached(each, reached[each], among[each]) for each in sorted(among)]


def read_night(root: Path, findings: list[TriagedFinding]) -> Night:
    """The campaign below *root*; ValueError where there is no log."""
    if not (root / LOG).is_file():
        raise ValueError(f"{root} holds no campaign: there is no {LOG}")
    kept = {entry.cell for path in (root / "corpus").glob(f"*/{INDEX}") for entry in read_index(path)[0]}
    there = list(read_findings(root))
    kept |= {finding.cell for finding in there}
    reach = {finding.key: measured for finding in there if (measured := read_reach(root, finding)) is not None}
    return Night(
        tuple(read_log(root)), frozenset(kept) & reachable(), tuple(findings), reach, tuple(read_replay_results(root))
    )
