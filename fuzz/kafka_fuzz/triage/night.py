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
from kafka_fuzz.campaign.plan import RoundReport
from kafka_fuzz.campaign.replay import replay_target, replay_targets
from kafka_fuzz.campaign.store import INDEX, read_index
from kafka_fuzz.findings import read_findings
from kafka_fuzz.mutate.model import reachable
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell
from kafka_fuzz.triage.deduplicate import TriagedFinding
from kafka_fuzz.triage.draft import draft_document
from kafka_fuzz.triage.reach import FindingReach, Who, read_reach

LOG: Final = "log.ndjson"
NOT_MEASURED: Final[Who] = "nobody asked"
QUARTERS: Final = 4
FIRST_MISSING: Final = 5
# What grows, and how it is called.
GROWING: Final = {"buckets": "outcomes told apart", "lines": "lines covered", "cells": "format cells filled"}


class Point(NamedTuple):
    """A moment of one target: CPU-seconds that it has had, and what there was by then."""

    seconds: float
    value: int


class Reached(NamedTuple):
    """Cells of one kind: how many were reached, of how many."""

    name: str
    reached: int
    among: int


@dataclass(frozen=True, slots=True)
class Night:
    """The last campaigns of a folder, one or more, and how it came there.

    Attributes:
        rounds: of all campaigns, as the log has them.
        cells: reached by inputs that were kept, of those that `model` can reach.
        finds: after triage, the worst first.
        reach: what brokers of each release did with the inputs of findings, by key, where that was measured.
        canaries: the latest replay results of known findings.
    """

    rounds: tuple[RoundReport, ...]
    cells: frozenset[MutantCell]
    finds: tuple[TriagedFinding, ...]
    reach: Mapping[str, FindingReach] = field(default_factory=dict)
    canaries: tuple[ReplayResult, ...] = ()

    @property
    def last(self) -> list[RoundReport]:
        """The rounds of each target's last campaign; of earlier ones, what was kept and how it grew counts."""
        newest = {each.target: each.campaign for each in self.rounds}
        return [each for each in self.rounds if each.campaign == newest[each.target]]

    @property
    def campaigns(self) -> int:
        """How many campaigns the log has; one that does not say so is one."""
        return len({each.campaign for each in self.rounds})

    def targets(self) -> list[str]:
        """The fuzzed targets."""
        return list(dict.fromkeys(each.target for each in self.last))

    def of(self, target: str) -> list[RoundReport]:
        """The rounds of *target* in its last campaign."""
        return [each for each in self.last if each.target == target]

    def found_in(self, target: str) -> list[TriagedFinding]:
        """Open findings of *target*, or of the testees that it runs."""
        singers = set(replay_targets(target))
        return [find for find in self.open() if replay_target(find.outcome.target, find.asked) in singers]

    def reach_of(self, find: TriagedFinding) -> FindingReach | None:
        """The furthest reach of *find* by any of its keys; None where no broker was measured."""
        measured = [self.reach[key] for key in find.keys if key in self.reach]
        return max(measured, key=lambda each: (each.who == "any producer", len(each.shown)), default=None)

    def reaches(self) -> dict[str, int]:
        """The number of open findings by the party that can cause them, or not measured."""
        counts = Counter(reach.who if (reach := self.reach_of(find)) else NOT_MEASURED for find in self.open())
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
        """Cells that no input has reached, by field, those first of which most is missing."""
        by: dict[str, list[MutantCell]] = {}
        for cell in sorted(reachable() - self.cells):
            by.setdefault(cell.field, []).append(cell)
        return dict(sorted(by.items(), key=lambda item: (-len(item[1]), item[0])))

    def replay_results(self) -> dict[str, int]:
        """The number of known-finding replays by result: gone, still there, or not replayable."""
        counts = Counter(each.state for each in self.canaries)
        return {state: counts[state] for state in get_args(State) if counts[state]}

    def open(self) -> list[TriagedFinding]:
        """Finds that are still there."""
        return [find for find in self.finds if find.open]

    def states(self) -> dict[str, int]:
        """How many finds are new, known and gone."""
        counts = Counter(find.state for find in self.finds)
        return {state: counts[state] for state in ("new", "known", "gone")}

    def severities(self) -> dict[str, int]:
        """How many open finds there are of each severity, the worst first."""
        counts = Counter(find.severity for find in self.open())
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
        """Everything, as the lines of a file."""
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
            "canaries": self.replay_results(),
        }
        yield from ({"kind": "round"} | msgspec.to_builtins(each) for each in self.rounds)
        yield from ({"kind": "cells"} | each._asdict() for each in (*self.by_format(), *self.by_fault()))
        for name, cells in self.missing().items():
            yield {"kind": "missing", "field": name, "count": len(cells), "first": cells[:FIRST_MISSING]}
        yield from ({"kind": "canary", "state": each.state} | msgspec.to_builtins(each) for each in self.canaries)
        yield from (
            {"kind": "find"} | draft_document(find) | {"reach": night_lines(self.reach_of(find))} for find in self.finds
        )


def night_lines(reach: FindingReach | None) -> dict[str, Any]:
    """A reach for programs: who can bring it about, and what each release did."""
    if reach is None:
        return {"who": NOT_MEASURED, "releases": {}}
    return {"who": reach.who, "releases": {name: str(tried) for name, tried in reach.releases.items()}}


def _by(cells: frozenset[MutantCell], name: Any) -> list[Reached]:
    among, reached = Counter(map(name, reachable())), Counter(map(name, cells))
    return [Reached(each, reached[each], among[each]) for each in sorted(among)]


def read_night(root: Path, finds: list[TriagedFinding]) -> Night:
    """The campaign below *root*; ValueError where there is no log."""
    try:
        text = (root / LOG).read_bytes()
    except OSError as error:
        raise ValueError(f"{root} holds no campaign: {error}") from error
    rounds = []
    for line in text.splitlines():
        try:
            rounds.append(msgspec.json.decode(line, type=RoundReport))
        except msgspec.MsgspecError:
            continue  # a campaign was killed while it wrote
    kept = {entry.cell for path in (root / "corpus").glob(f"*/{INDEX}") for entry in read_index(path)[0]}
    there = list(read_findings(root))
    kept |= {find.cell for find in there}
    reach = {find.key: measured for find in there if (measured := read_reach(root, find)) is not None}
    return Night(tuple(rounds), frozenset(kept) & reachable(), tuple(finds), reach, tuple(read_replay_results(root)))
