"""A cross run as a matrix: each cell with its counts, its worst outcome and what failed in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kafka_conformance.cross.results import Header, Results, Written
from kafka_conformance.cross.verdict import Blame, Judged
from kafka_conformance.judge import OUTCOMES, SEVERITIES, Outcome, rank

BLAMES: Final[tuple[Blame, ...]] = ("producer", "consumer", "both")
WROTE: Final = "wrote"
BROKER: Final = "broker"


@dataclass(frozen=True, slots=True)
class Through:
    """One batch on its way through a cell; `sha256` names its bytes, if there were any."""

    batch: str
    judged: Judged
    sha256: str = ""

    @property
    def failed(self) -> bool:
        """Whether something is wrong with it."""
        return self.judged.outcome in SEVERITIES


@dataclass(frozen=True)
class Cell:
    """What became of one producer's batches in one column."""

    producer: str
    column: str
    batches: tuple[Through, ...]

    @cached_property
    def counts(self) -> Mapping[Outcome, int]:
        """How many batches had each outcome, worst first."""
        counter = Counter(each.judged.outcome for each in self.batches)
        return {outcome: counter[outcome] for outcome in OUTCOMES if counter[outcome]}

    @property
    def worst(self) -> Outcome | None:
        """The worst outcome; None if nothing came this way."""
        return next(iter(self.counts), None)

    @property
    def failures(self) -> list[Through]:
        """What failed, worst first."""
        return sorted((each for each in self.batches if each.failed), key=lambda each: rank(each.judged.outcome))

    @property
    def undone(self) -> list[Through]:
        """What came through though it is written wrong: the consumer undoes the mistake."""
        return [each for each in self.batches if not each.failed and each.judged.blame == "both"]

    @property
    def blames(self) -> Mapping[Blame, int]:
        """How many failures are whose fault."""
        counter = Counter(each.judged.blame for each in self.failures)
        return {blame: counter[blame] for blame in BLAMES if counter[blame]}


@dataclass(frozen=True, slots=True)
class Fault:
    """Things of one kind that one testee did wrong: the first of them, and in how many batches and cells."""

    testee: str
    judged: Judged
    batch: str
    batches: int
    cells: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are producers, columns consumers; `wrote` comes first, the broker last."""

    header: Header
    complete: bool
    producers: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    written: Mapping[tuple[str, str], Written]

    @property
    def agrees(self) -> bool:
        """Whether nothing failed anywhere."""
        return not any(cell.failures for cell in self.cells.values())

    def row(self, producer: str) -> list[Cell]:
        """The cells of one producer, in the order of the columns."""
        return [self.cells[producer, column] for column in self.columns]

    def label(self, column: str) -> str:
        """A column's heading."""
        return f"Kafka {self.header.broker}" if column == BROKER else column

    def about(self, name: str) -> Mapping[str, Any]:
        """What a testee says of itself."""
        return next((each for each in self.header.testees if each["label"] == name), {})


def matrix(results: Results) -> Matrix:
    """The matrix of a run."""
    labels = [str(each["label"]) for each in results.header.testees]
    producers = [name for name in labels if _announces(results.header, name, "encode")]
    readers = [name for name in labels if _announces(results.header, name, "decode")]
    columns = [WROTE, *readers, *([BROKER] if results.header.broker else [])]
    cells = {(producer, column): _cell(results, producer, column) for producer in producers for column in columns}
    return Matrix(results.header, results.complete, tuple(producers), tuple(columns), cells, results.written)


def _announces(header: Header, name: str, op: str) -> bool:
    said: dict[str, Any] = next(each for each in header.testees if each["label"] == name)
    return bool(said.get(op, {}).get("magics"))


def _cell(results: Results, producer: str, column: str) -> Cell:
    return Cell(producer, column, tuple(_through(results, producer, column)))


def _through(results: Results, producer: str, column: str) -> Iterator[Through]:
    for batch in results.header.batches:
        line = results.written.get((producer, batch))
        if line is None:
            continue
        if column == WROTE:
            yield Through(batch, line.judged, line.sha256)
        elif line.sha256:
            found = _arrived(results, column, line)
            if found is not None:
                yield Through(batch, found, line.sha256)


def _arrived(results: Results, column: str, line: Written) -> Judged | None:
    if column == BROKER:
        stored = results.stored.get((line.batch, line.sha256))
        return None if stored is None else stored.judged
    seen = results.read.get((column, line.batch, line.sha256))
    return None if seen is None else seen.judged


def faults(made: Matrix) -> list[Fault]:
    """What each testee does wrong by the reference, worst and most widespread first.

    A producer's faults are in its own column; a consumer's are failures that are not the producer's.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[Cell, Through]]] = {}
    for cell in made.cells.values():
        for each in cell.failures:
            for testee in _guilty(cell, each.judged.blame):
                key = (testee, "writes" if cell.column == WROTE else "reads", each.judged.outcome, _shape(each.judged))
                groups.setdefault(key, []).append((cell, each))
    found = [_fault(key[0], group) for key, group in groups.items()]
    return sorted(found, key=lambda each: (rank(each.judged.outcome), -each.batches, -each.cells, each.testee))


def _guilty(cell: Cell, blame: Blame) -> Iterable[str]:
    # What a producer did wrong stands in its own column once, and need not in every consumer's.
    if cell.column == WROTE:
        return (cell.producer,)
    return (cell.column,) if blame == "consumer" and cell.column != BROKER else ()


def _shape(judged: Judged) -> str:
    """A field without indexes, so that the same mistake in many places is one."""
    return "".join(sign for sign in judged.field if not sign.isdigit()) or judged.why[:60]


def _fault(testee: str, group: Sequence[tuple[Cell, Through]]) -> Fault:
    first = group[0][1]
    batches = {each.batch for _, each in group}
    return Fault(testee, first.judged, first.batch, len(batches), len({cell.producer for cell, _ in group}))


def document(made: Matrix, results: Results) -> dict[str, Any]:
    """The matrix as one JSON object."""
    header = made.header
    cells = [_cell_document(cell) for cell in made.cells.values()]
    return {
        "testees": header.testees,
        "absent": header.absent,
        "corpus": header.corpus,
        "batches": len(header.batches),
        "broker": header.broker,
        "read": header.read,
        "complete": made.complete,
        "agrees": made.agrees,
        "seconds": results.footer.seconds if results.footer else None,
        "columns": made.columns,
        "cells": cells,
    }


def _cell_document(cell: Cell) -> dict[str, Any]:
    failures = [
        {
            "batch": each.batch,
            "outcome": each.judged.outcome,
            "blame": each.judged.blame,
            "field": each.judged.field,
            "why": each.judged.why,
            "sha256": each.sha256,
        }
        for each in cell.failures
    ]
    counts = {"producer": cell.producer, "column": cell.column, "worst": cell.worst, "counts": dict(cell.counts)}
    return counts | {"blames": dict(cell.blames), "undone": len(cell.undone), "failures": failures}
