"""Recorded answers of real brokers to the cases, by release.

`brokers.toml` lists where the reference is known to predict something else than a
broker answers, with the rule and the reason; the list is strict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kafka_corpus.answer_diff import difference, scenario_of
from kafka_corpus.case import Case
from kafka_corpus.evidence import (
    EVIDENCE,
    Answers,
    BrokerAnswers,
    CaseEvidence,
    Disk,
    Evidence,
    line_for,
    load_evidence,
    pruned,
)
from kafka_corpus.known_issues import KnownIssue, load_issues
from kafka_corpus.prediction import predict, silence
from kafka_corpus.scenario import Scenario, release_number

REVIEWED: Final = "brokers.toml"
FORMER: Final = {"reviewed": {"ids": "cases", "releases": "versions", "why": "reason"}}

# Releases whose answers, beside those of `SPARSE`, the reference must predict; a slow test measures the others.
PREDICTED: Final = ("2.8.2", "4.4.0")
# Releases of which only the answers are recorded that date a change of brokers.  No case waits for theirs.
SPARSE: Final = frozenset(
    {"1.0.2", "2.1.1", "2.2.2", "2.3.1", "2.5.1", "3.1.2", "3.4.1", "3.5.2", "3.6.1", "3.7.2", "3.8.1"}
)

NOTHING_SEEN: Final[Mapping[str, Disk]] = MappingProxyType({})
ALL_SENT: Final[Mapping[str, str]] = MappingProxyType({})


def with_release(
    evidence: Evidence,
    release: str,
    content: Mapping[str, str],
    answers: Mapping[str, Answers],
    disks: Mapping[str, Disk] = NOTHING_SEEN,
    cannot: Mapping[str, str] = ALL_SENT,
) -> Evidence:
    """*evidence* with what is recorded of *release*.

    Args:
        evidence: of all releases.
        release: the broker's.
        content: the content hashes of the cases.
        answers: the steps' answers, by case id.
        disks: what was on its disk, by case id.
        cannot: why a case cannot be sent to this release, by case id.
    """
    merged = dict(evidence)
    given: dict[str, tuple[Answers, Disk | None, str]] = {id_: ((), None, why) for id_, why in cannot.items()}
    given |= {id_: (steps, disks.get(id_), "") for id_, steps in answers.items()}
    for id_, each in given.items():
        line = line_for(evidence, id_, content[id_])
        merged[id_] = with_brokers(line, {**line.recorded(), release: each})
    return merged


def with_brokers(line: CaseEvidence, by_release: Mapping[str, tuple[Answers, Disk | None, str]]) -> CaseEvidence:
    """*line* with this recorded of brokers, equal answers together, oldest release first."""
    together: dict[tuple[Answers, Disk | None, str], list[str]] = {}
    for release in sorted(by_release, key=release_number):
        together.setdefault(by_release[release], []).append(release)
    answers = [BrokerAnswers(releases, *given) for given, releases in together.items()]
    return msgspec.structs.replace(line, brokers=answers)


def recorded_releases(evidence: Evidence) -> set[str]:
    """The releases that any case has an answer of, those of `SPARSE` left out."""
    return {release for line in evidence.values() for release in line.by_release()} - SPARSE


def load_reviewed_predictions(root: Path) -> tuple[KnownIssue, ...]:
    """The known differences between predictions and the answers of brokers; raises `BadIssueList`."""
    path = root / EVIDENCE.name / REVIEWED
    return load_issues(path, KnownIssue, FORMER) if path.exists() else ()


def newest_concerned(scenario: Scenario, releases: Iterable[str]) -> str:
    """The newest of *releases* that *scenario* concerns; empty if there is none."""
    return max(filter(scenario.concerns, releases), key=release_number, default="")


def broker_contradictions(root: Path, cases: Sequence[Case], contents: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Defects of the recorded answers of brokers: (case id, reason).

    Expectations that the newest broker contradicts; predictions that a broker contradicts, unless they
    are listed; entries of the list that nothing needs.  A case that waits for its recording has no defect.
    """
    evidence, reviewed = load_evidence(root), load_reviewed_predictions(root)
    releases = recorded_releases(evidence)
    current = pruned(evidence, contents)
    for id_ in sorted(id_ for id_ in evidence.keys() - current.keys() if evidence[id_].brokers):
        yield id_, "has answers of brokers to another content (`broker record` records new ones)"
    needed: set[KnownIssue] = set()
    for case in cases:
        scenario, line = scenario_of(case), current.get(case.id)
        if scenario is None or line is None:
            continue
        recorded = line.by_release()
        if case.expect.answers and (reason := _newest_difference(case, scenario, recorded, releases)):
            yield case.id, reason
        strict = {release: steps for release, steps in recorded.items() if release in PREDICTED or release in SPARSE}
        for release, reason in unpredicted(scenario, strict):
            entries = [entry for entry in reviewed if entry.covers("", release, case.id)]
            needed.update(entries)
            if not entries:
                yield case.id, f"the reference predicts for {release} what the broker does not answer: {reason}"
    for entry in reviewed:
        if entry not in needed:
            yield (
                ", ".join(entry.cases),
                f"{REVIEWED} covers nothing any more on {', '.join(entry.versions)}: remove it",
            )


def silences(cases: Iterable[Case]) -> Counter[str]:
    """Reasons for which the reference predicts no answer, each with its number of answers of `PREDICTED` releases."""
    scenarios = [scenario for case in cases if (scenario := scenario_of(case)) is not None]
    reasons = (silence(each, release) for each in scenarios for release in PREDICTED if each.concerns(release))
    return Counter(filter(None, reasons))


def _newest_difference(case: Case, scenario: Scenario, recorded: Mapping[str, Answers], releases: Iterable[str]) -> str:
    newest = newest_concerned(scenario, releases)
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
