"""Result files side by side: what each is called, and the cases that they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kafka_conformance import report, results
from kafka_conformance.deviations import Deviation
from kafka_conformance.hostile import printable
from kafka_conformance.judge import OUTCOMES, SEVERITIES, rank
from kafka_conformance.report import Report
from kafka_conformance.reporting.baseline import Change, changes, matching
from kafka_conformance.reporting.names import folder_name
from kafka_conformance.results import Line, Results
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash, load_vectors

MAX_NAME: Final = 60
MOST_IN_A_FOLDER: Final = 500
# Beside the directories of those that were run: who was not, and why.
NOT_RUN: Final = "not-run.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One run in a report.

    Attributes:
        report: the run.
        label: its short name, unlike every other entry's.
        folder: a directory name, unlike every other entry's.
        lines: its cases by id.
        changes: what it does otherwise than a run before; None if it is compared with none.
        changed: the same by case.
    """

    report: Report
    label: str
    folder: str
    lines: Mapping[str, Line]
    changes: tuple[Change, ...] | None
    changed: Mapping[str, Change]

    @property
    def results(self) -> Results:
        """The result file."""
        return self.report.results

    def said(self, field: str, default: str = "") -> str:
        """What the testee says of itself, as text that does no harm."""
        return said(self.results, field, default)

    @property
    def version(self) -> str:
        """The version that it tells."""
        return self.said("version")


@dataclass(frozen=True, slots=True)
class Collection:
    """Some runs, the cases of the corpus by id, and why further testees were not run."""

    entries: tuple[Entry, ...]
    cases: Mapping[str, Case]
    corpus: str
    not_run: Mapping[str, str] = field(default_factory=dict)

    def found(self) -> list[str]:
        """Ids of the cases in which somebody disagrees, or did in the baseline, worst first."""
        worst: dict[str, int] = {}
        for entry in self.entries:
            for line in entry.results.lines:
                if line.outcome in SEVERITIES or line.case in entry.changed:
                    worst[line.case] = min(worst.get(line.case, len(OUTCOMES)), rank(line.outcome))
        return sorted(worst, key=lambda case: (worst[case], case))

    def areas(self) -> list[str]:
        """All areas of all runs."""
        return sorted({line.area for entry in self.entries for line in entry.results.lines})


def said(done: Results, field: str, default: str = "") -> str:
    """A field of what the testee of *done* says of itself."""
    value = done.header.testee.get(field)
    return default if value is None else printable(str(value), MAX_NAME)


def files(paths: Iterable[Path]) -> list[Path]:
    """The result files among *paths*; of a directory, those in it and one level below.

    Raises:
        Unusable: there are none in a directory.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = [path / results.FILE, *sorted(path.glob(f"*/{results.FILE}"))[:MOST_IN_A_FOLDER]]
        inside = [each for each in inside if each.is_file()]
        if not inside:
            raise results.Unusable(f"{path}: there is no {results.FILE} in it")
        found += inside
    return list(dict.fromkeys(found))


def read(paths: Iterable[Path], deviations: Sequence[Deviation] = ()) -> list[Report]:
    """A report on each result file.

    Raises:
        Unusable: one of them is no result.
    """
    cases = cases_by_id()
    done = [(path, results.read(path)) for path in files(paths)]
    return [remade(each, cases, deviations, path) for path, each in done]


@cache
def cases_by_id() -> Mapping[str, Case]:
    """The corpus of this installation, read once."""
    return MappingProxyType({case.id: case for case in load_vectors()})


def remade(done: Results, cases: Mapping[str, Case], deviations: Sequence[Deviation], path: Path) -> Report:
    """The report on a result that was read from a file."""
    own = [cases[line.case] for line in done.lines if line.case in cases]
    return report.make(done, own, deviations, path)


def absent(paths: Iterable[Path]) -> dict[str, str]:
    """Who was not run, and why, as the directories among *paths* tell."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            found |= msgspec.json.decode((path / NOT_RUN).read_bytes(), type=dict[str, str])
        except (OSError, ValueError):
            continue  # there need not be one
    return {printable(name, MAX_NAME): printable(why) for name, why in found.items()}


def collect(
    made: Sequence[Report],
    old: Sequence[Results] = (),
    cases: Mapping[str, Case] | None = None,
    not_run: Mapping[str, str] = MappingProxyType({}),
) -> Collection:
    """The runs *made*, each compared with the one of *old* that is of the same testee."""
    labels, folders = _labels([each.results for each in made]), _folders(made)
    partners = matching([each.results for each in made], old)
    entries = [
        _entry(each, label, folder, partner)
        for each, label, folder, partner in zip(made, labels, folders, partners, strict=True)
    ]
    return Collection(tuple(entries), cases_by_id() if cases is None else cases, corpus_hash(), not_run)


def _entry(made: Report, label: str, folder: str, partner: Results | None) -> Entry:
    found = None if partner is None else changes(partner, made.results)
    lines = {line.case: line for line in made.results.lines}
    return Entry(made, label, folder, lines, found, {each.case: each for each in found or ()})


def _labels(done: Sequence[Results]) -> list[str]:
    """The shortest of name, name and language, … that tells all of them apart."""
    ways: tuple[tuple[str, ...], ...] = (
        ("name",), ("name", "version"), ("name", "language"), ("name", "version", "language"), ("connect",),
    )  # fmt: skip
    for fields in ways:
        labels = [_label(each, fields) for each in done]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{_label(each, ('name', 'version'))} #{number}" for number, each in enumerate(done, 1)]


def _label(done: Results, fields: Sequence[str]) -> str:
    return " ".join(filter(None, (said(done, field) for field in fields))) or "testee"


def _folders(made: Sequence[Report]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for each in made:
        testee: dict[str, Any] = each.results.header.testee
        name = folder_name(str(testee.get("connect") or testee.get("name") or "testee"))
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names
