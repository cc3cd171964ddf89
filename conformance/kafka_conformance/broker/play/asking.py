"""The cases that a broker is asked, and the evidence that keeps the answers of all releases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_conformance.broker.play.recorder import Asked, Line, Recorder, Recording, answers_of, disks_of
from kafka_conformance.progress import Progress
from kafka_corpus.case import Case
from kafka_corpus.evidence import Answers, Evidence, brokers
from kafka_corpus.played import difference, scenario_of
from kafka_corpus.vectors import content_hash


def asked_of(cases: Iterable[Case], release: str) -> Iterator[Asked]:
    """What *release* is asked: scenarios that concern it, and inputs of decode cases as payloads."""
    for case in cases:
        scenario = scenario_of(case)
        if scenario is not None and scenario.concerns(release):
            yield Asked(case.id, content_hash(case), scenario)


def unanswered(asked: Iterable[Asked], evidence: Evidence, release: str) -> list[Asked]:
    """Those of *asked* to which *evidence* has no answer of *release*."""
    return [each for each in asked if recorded(evidence, each, release) is None]


def recorded(evidence: Evidence, asked: Asked, release: str) -> Answers | None:
    """The answers of *release* in *evidence*; None if there are none, or the case has changed."""
    line = evidence.get(asked.id)
    if line is None or line.sha256 != asked.sha256:
        return None
    return line.by_release().get(release)


def ask(recorder: Recorder, asked: Sequence[Asked], recording: Recording, told: Progress) -> dict[str, Line]:
    """Ask everything that *recording* does not hold; its lines at the end, by case id."""
    lines: dict[str, Line] = {}
    for line in recorder.record(asked, recording):
        lines[line.id] = line
        told(len(lines), len(asked), recorder.restarts)
    return lines


def merged(evidence: Evidence, release: str, asked: Sequence[Asked], lines: Mapping[str, Line]) -> Evidence:
    """*evidence* with the answers in *lines*."""
    content = {each.id: each.sha256 for each in asked}
    return brokers.with_answers(evidence, release, content, answers_of(lines), disks_of(lines))


@dataclass(frozen=True, slots=True)
class Change:
    """A case to which two releases answer differently."""

    id: str
    what: str


def changes(evidence: Evidence, old: str, new: str, ids: Collection[str] | None = None) -> Iterator[Change]:
    """What *new* answers differently from *old*, where both were asked."""
    for id_ in sorted(evidence if ids is None else evidence.keys() & set(ids)):
        answers = evidence[id_].by_release()
        if old in answers and new in answers and (what := difference(answers[old], answers[new], "masked")):
            yield Change(id_, what)


def differing(evidence: Evidence, release: str, asked: Iterable[Asked], lines: Mapping[str, Line]) -> list[Change]:
    """Where *lines*, asked anew, are not what *evidence* holds: what `--check` finds."""
    found = []
    for each in asked:
        old, now = recorded(evidence, each, release), lines[each.id].steps
        if old is None and now:
            found.append(Change(each.id, "is not recorded"))
        elif old is not None and (what := difference(old, now, "masked")):
            found.append(Change(each.id, what))
    return found


def recording_of(folder: Path, release: str) -> Recording:
    """Where the answers of *release* go, one by one."""
    return Recording(folder / f"{release}.ndjson")
