"""Recorded answers of real brokers to the cases, by release.

`brokers.toml` lists where the reference is known to predict something else than a
broker answers, with the rule and the reason; the list is strict.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kafka_corpus.answer_diff import difference, scenario_of
from kafka_corpus.case import Case
from kafka_corpus.evidence import (
    FOLDER,
    Answers,
    BrokerAnswers,
    CaseEvidence,
    Disk,
    Evidence,
    line_for,
    load,
    pruned,
)
from kafka_corpus.prediction import predict, silence
from kafka_corpus.scenario import Scenario, release_number
from kafka_corpus.vector_format import matches

REVIEWED: Final = "brokers.toml"

# Whose answers the reference has to predict; of others a slow test says how far it does.
PREDICTED: Final = ("2.8.2", "4.4.0")

NOTHING_SEEN: Final[Mapping[str, Disk]] = MappingProxyType({})


def with_answers(
    evidence: Evidence,
    release: str,
    content: Mapping[str, str],
    answers: Mapping[str, Answers],
    disks: Mapping[str, Disk] = NOTHING_SEEN,
) -> Evidence:
    """*evidence* with the *answers* of *release* and what was on its *disks*; *content* has the hashes of the cases."""
    merged = dict(evidence)
    for id_, given in answers.items():
        line = line_for(evidence, id_, content[id_])
        merged[id_] = with_brokers(line, {**line.on_disk(), release: (given, disks.get(id_))})
    return merged


def with_brokers(line: CaseEvidence, by_release: Mapping[str, tuple[Answers, Disk | None]]) -> CaseEvidence:
    """*line* with these answers of brokers, equal ones together, oldest release first."""
    together: dict[tuple[Answers, Disk | None], list[str]] = {}
    for release in sorted(by_release, key=release_number):
        together.setdefault(by_release[release], []).append(release)
    answers = [BrokerAnswers(releases, *given) for given, releases in together.items()]
    return msgspec.structs.replace(line, brokers=answers)


def recorded_releases(evidence: Evidence) -> set[str]:
    """The releases that any case has an answer of."""
    return {release for line in evidence.values() for release in line.by_release()}


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Where the reference is known to say something else than brokers.

    Attributes:
        ids: cases, as in `vectors.matches`.
        releases: those that it is about.
        rule: the rule that covers it.
        why: the reason.
    """

    ids: tuple[str, ...]
    releases: tuple[str, ...]
    rule: str
    why: str

    def covers(self, id_: str, release: str) -> bool:
        """Whether this is about that case on that release."""
        return release in self.releases and any(matches(pattern, id_) for pattern in self.ids)


def load_reviewed(root: Path) -> list[Reviewed]:
    """The list below *root*."""
    path = root / FOLDER / REVIEWED
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("reviewed", []) if path.exists() else []
    return [Reviewed(tuple(each["ids"]), tuple(each["releases"]), each["rule"], each["why"]) for each in entries]


def newest_asked(scenario: Scenario, releases: Iterable[str]) -> str:
    """The newest of *releases* that *scenario* concerns; empty if there is none."""
    return max(filter(scenario.concerns, releases), key=release_number, default="")


def contradictions(root: Path, cases: Sequence[Case], contents: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Defects of the recorded answers of brokers: (case id, reason).

    Expectations that the newest broker contradicts; predictions that a broker contradicts, unless they
    are listed; entries of the list that nothing needs.  A case that waits for its recording has no defect.
    """
    evidence, reviewed = load(root), load_reviewed(root)
    releases = recorded_releases(evidence)
    current = pruned(evidence, contents)
    for id_ in sorted(id_ for id_ in evidence.keys() - current.keys() if evidence[id_].brokers):
        yield id_, "brokers were asked before the case changed (`broker record` asks again)"
    needed: set[Reviewed] = set()
    for case in cases:
        scenario, line = scenario_of(case), current.get(case.id)
        if scenario is None or line is None:
            continue
        recorded = line.by_release()
        if case.expect.answers and (reason := _newest_difference(case, scenario, recorded, releases)):
            yield case.id, reason
        strict: dict[str, Answers] = {release: recorded[release] for release in PREDICTED if release in recorded}
        for release, reason in unpredicted(scenario, strict):
            entries = [entry for entry in reviewed if entry.covers(case.id, release)]
            needed.update(entries)
            if not entries:
                yield case.id, f"the reference predicts for {release} what the broker does not answer: {reason}"
    for entry in reviewed:
        if entry not in needed:
            yield ", ".join(entry.ids), f"{REVIEWED} covers nothing any more on {', '.join(entry.releases)}: remove it"


def silences(cases: Iterable[Case]) -> Counter[str]:
    """What the reference predicts nothing about, and in how many answers of the releases that it is held to."""
    scenarios = [scenario for case in cases if (scenario := scenario_of(case)) is not None]
    reasons = (silence(each, release) for each in scenarios for release in PREDICTED if each.concerns(release))
    return Counter(filter(None, reasons))


def _newest_difference(case: Case, scenario: Scenario, recorded: Mapping[str, Answers], releases: Iterable[str]) -> str:
    newest = newest_asked(scenario, releases)
    if newest not in recorded:
        return ""
    reason = difference(case.expect.answers, recorded[newest], case.expect.compare)
    return reason and f"the broker {newest} answers something else: {reason}"


def unpredicted(scenario: Scenario, recorded: Mapping[str, Answers]) -> Iterator[tuple[str, str]]:
    """Each release whose recorded answer the reference does not predict, and the first difference."""
    for release, given in recorded.items():
        said = predict(scenario, release)
        if said is not None and (reason := difference(said, given, "masked")):
            yield release, reason
