"""Findings by cause: groups, and the case that shows each best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_conformance.dossiers.causes import SENSITIVE, Cause, cause_of
from kafka_conformance.judge import SEVERITIES, Outcome, rank
from kafka_conformance.reporting.collection import said
from kafka_conformance.reporting.names import folder_name
from kafka_conformance.results import Line, Results
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vectors import input_of
from kafka_corpus.wire import to_wire
from kafka_records import Batch


@dataclass(frozen=True, slots=True)
class Testee:
    """Whose findings they are.

    Attributes:
        name: as `certify` knows it.
        version: the release of its codec that was asked.
        language: as it says.
        memory: bytes that it could take; 0 if that is not known.
    """

    name: str
    version: str
    language: str
    memory: int = 0

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return folder_name(f"{self.name}-{self.version}")


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one testee that have one cause; *lines* worst and smallest first, *case* is that of the first."""

    testee: Testee
    cause: Cause
    lines: tuple[Line, ...]
    case: Case

    @property
    def id(self) -> str:
        """The same in every run: disclosure states and links hold on to it."""
        return f"{self.testee.name}/{self.cause.slug}"

    @property
    def file(self) -> str:
        """The name of its page."""
        return f"{self.cause.number:03d}-{self.cause.slug}.md"

    @property
    def outcome(self) -> Outcome:
        """The worst that it does."""
        return self.lines[0].outcome

    @property
    def sensitive(self) -> bool:
        """Whether it is of a class that its maintainers are told first."""
        return any(line.outcome in SENSITIVE for line in self.lines)


def testee_of(done: Results) -> Testee:
    """The testee of a run; one that has a name is called by it."""
    connect = str(done.header.testee.get("connect") or "")
    plain = connect.partition("@")[0]
    name = plain if plain and ":" not in plain else said(done, "name", "testee")
    memory = done.header.settings.get("memory")
    limit = memory if isinstance(memory, int) else 0
    return Testee(name, said(done, "version", "unknown"), said(done, "language"), limit)


def grouped(done: Results, cases: Mapping[str, Case]) -> list[Group]:
    """The findings of a run by cause, those of the worst severity first; cases that are not in *cases* are left out."""
    by_cause: dict[Cause, list[Line]] = defaultdict(list)
    for line in done.lines:
        if line.outcome in SEVERITIES and line.case in cases:
            by_cause[cause_of(line)].append(line)
    testee = testee_of(done)
    found = [_group(testee, cause, lines, cases) for cause, lines in _merged(by_cause).items()]
    return sorted(found, key=lambda group: (rank(group.outcome), -len(group.lines), group.cause.number, group.id))


def _merged(by_cause: Mapping[Cause, list[Line]]) -> dict[Cause, list[Line]]:
    """Causes of one slug together: crashes in one function may say it in several ways."""
    first: dict[str, Cause] = {}
    merged: dict[Cause, list[Line]] = {}
    for cause in sorted(by_cause, key=lambda each: (each.number, each.slug, each.title)):
        merged.setdefault(first.setdefault(cause.slug, cause), []).extend(by_cause[cause])
    return merged


def _group(testee: Testee, cause: Cause, lines: list[Line], cases: Mapping[str, Case]) -> Group:
    ordered = sorted(lines, key=lambda line: (rank(line.outcome), size(cases[line.case]), line.case))
    return Group(testee, cause, tuple(ordered), cases[ordered[0].case])


def size(case: Case) -> int:
    """How much there is to look at: bytes to decode, or JSON of a batch to write."""
    given: Any = case.input
    if isinstance(given, Recipe):
        given = input_of(case)
    return len(repr(to_wire(given))) if isinstance(given, Batch) else len(given) if isinstance(given, bytes) else 0
