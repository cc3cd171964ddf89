"""Bring everything that is derived from the cases up to date, and ask only what is new.

A step plans tasks: whatever is missing, by content hash and release.  Answers go to disk as they come, so a refresh
that was stopped or killed continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka_conformance.runner.kept_results import CorpusContents, KeptResult, kept_path, read_kept
from kafka_conformance.testees.known import KnownTestee
from kafka_corpus import evidence
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors


@dataclass(frozen=True, slots=True)
class RefreshTask:
    """One thing to bring up to date.

    Attributes:
        step: the step that it belongs to.
        name: the testee, release or file.
        number: how many `unit` are new.
        unit: what is counted.
        why_not: the reason if this machine cannot do it.
        run: does it and returns the outcome in a few words; raises `CannotDo`.
        testee: the testee whose result it completes.
    """

    step: str
    name: str
    number: int
    unit: str = "cases"
    why_not: str = ""
    run: Callable[[], str] = field(default=str)
    testee: str = ""

    def line(self) -> str:
        """The task on one line."""
        what = f"{self.name}: {self.number:,} {self.unit}"
        return f"{what}, skipped: {self.why_not}" if self.why_not else what

    def document(self) -> dict[str, Any]:
        """The task as JSON."""
        fields = {"step": self.step, "name": self.name, "number": self.number, "unit": self.unit}
        return fields | ({"skipped": self.why_not} if self.why_not else {})


def needs(known: KnownTestee) -> str:
    """The reason why a testee cannot run here: what this machine lacks; empty if it can run."""
    missing = ", ".join(known.missing())
    return f"needs {missing}" if missing else ""


class CannotDo(Exception):
    """A task turned out to be impossible on this machine; the text says why."""


@dataclass(frozen=True, slots=True)
class CheckoutPlaces:
    """Where a refresh reads and writes.

    Attributes:
        package: holds `vectors` and `evidence`.
        results: the kept results.
        docs: holds the matrix; there may be none.
        known: the list of findings that the corpus shows, which campaigns read.
        scratch: answers of a refresh that is not complete.
    """

    package: Path
    results: Path
    docs: Path
    known: Path
    scratch: Path


class RefreshState:
    """The cases, the recorded answers and the kept results, each read once."""

    def __init__(
        self, places: CheckoutPlaces, cases: Sequence[Case] | None = None, testees: Iterable[str] = ()
    ) -> None:
        """The state of *places*; *cases* replace the vectors there, and only *testees* are run."""
        self.places = places
        self.testees = frozenset(testees)
        self._cases = cases

    @cached_property
    def corpus(self) -> CorpusContents:
        """All cases."""
        return CorpusContents.of(load_vectors(root=self.places.package) if self._cases is None else self._cases)

    @cached_property
    def evidence(self) -> evidence.Evidence:
        """The recorded answers, without those to cases that have changed or gone."""
        return evidence.pruned(evidence.load_evidence(self.places.package), self.corpus.contents)

    def wants(self, testee: str) -> bool:
        """Whether *testee* is to be run."""
        return not self.testees or testee in self.testees

    def kept(self, name: str, release: str) -> KeptResult | None:
        """The kept result of a testee; None if there is none.  Raises `Unusable`."""
        path = self.kept_path(name, release)
        return read_kept(path) if path.exists() else None

    def kept_path(self, name: str, release: str) -> Path:
        """The file of a kept result."""
        return kept_path(self.places.results, name, release)
