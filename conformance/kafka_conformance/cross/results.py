"""The result file of a cross run, and its matrix.

written    what a producer made of a batch, with its bytes
    stored     what the broker made of such bytes
    read       what a consumer made of such bytes

Equal bytes for one batch are sent once, so lines about bytes name the batch
and their SHA-256, and the producers are those that wrote them.  Every line is
on the disk when it is known; a file without a footer is an incomplete run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_conformance.cross.verdict import Blame, Judged
from kafka_conformance.judge.verdict import OUTCOMES, SEVERITIES, Outcome, outcome_rank
from kafka_conformance.runner.keeping import WouldReplace
from kafka_conformance.runner.results import LineWriter, Unusable, check_footer_hash, whole_lines
from kafka_conformance.sanitize import printable

FORMAT: Final = "kafkaproof-cross"
VERSION: Final = 1
FILE: Final = "cross.ndjson"


class CrossHeader(msgspec.Struct, kw_only=True):
    """The testees and batches of a cross run.

    `absent` are those that could not be started, with the reason; `broker` is a
    release, or empty; `read` says whether consumers get what producers `written`
    or what the broker `stored`; `part` whether testees or batches were chosen.
    """

    format: str = FORMAT
    version: int = VERSION
    testees: list[dict[str, Any]]
    absent: dict[str, str] = {}
    corpus: str
    batches: list[str]
    broker: str = ""
    read: str = "written"
    part: bool = False


class _Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Fields that all lines share."""

    batch: str
    outcome: Outcome
    blame: Blame = ""
    field: str = ""
    why: str = ""

    @property
    def judged(self) -> Judged:
        """The verdict in it."""
        return Judged(self.outcome, self.blame, self.field, self.why)


class WrittenLine(_Line, tag_field="kind", tag="written", kw_only=True, omit_defaults=True):
    """The bytes that *producer* wrote; empty if it wrote none."""

    producer: str
    data: bytes = b""
    sha256: str = ""


class StoredLine(_Line, tag_field="kind", tag="stored", kw_only=True, omit_defaults=True):
    """The bytes that the broker stored; `right` marks those of Kafka's own writer, as the reference reads them."""

    sha256: str
    data: bytes = b""
    right: bytes = b""


class ReadLine(_Line, tag_field="kind", tag="read", kw_only=True, omit_defaults=True):
    """The verdict on *consumer* for some bytes."""

    consumer: str
    sha256: str


class CrossFooter(msgspec.Struct, tag_field="kind", tag="footer", kw_only=True):
    """That it is complete; `sha256` is over every byte before it."""

    seconds: float
    sha256: str


Line = WrittenLine | StoredLine | ReadLine


@dataclass(frozen=True, slots=True)
class CrossResults:
    """A cross run as read from its file."""

    header: CrossHeader
    written: Mapping[tuple[str, str], WrittenLine]  # by producer and batch
    stored: Mapping[tuple[str, str], StoredLine]  # by batch and hash of the bytes
    read: Mapping[tuple[str, str, str], ReadLine]  # by consumer, batch and hash
    footer: CrossFooter | None

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.footer is not None

    def lines(self) -> Iterator[Line]:
        """All lines: what was written, then what was stored, then what was read."""
        return chain(self.written.values(), self.stored.values(), self.read.values())


def hash_of(data: bytes) -> str:
    """How bytes are named in lines."""
    return hashlib.sha256(data).hexdigest()[:16]


_headers = msgspec.json.Decoder(CrossHeader)
_lines = msgspec.json.Decoder(WrittenLine | StoredLine | ReadLine | CrossFooter)


def read_cross_results(path: Path) -> CrossResults:
    """The run in *path*; a torn last line is as if it had not been written.

    Raises:
        Unusable: there is no such file, or it is none of these.
    """
    whole = whole_lines(path)
    try:
        header = _headers.decode(whole[0]) if whole else None
        if header is None or header.format != FORMAT or header.version != VERSION:
            raise Unusable(f"{path}: not the result of a cross run")
        return _sorted(header, [_lines.decode(line) for line in whole[1:]], whole, path)
    except msgspec.DecodeError as error:
        raise Unusable(f"{path}: not the result of a cross run: {error}") from error


def _sorted(header: CrossHeader, lines: Iterable[Line | CrossFooter], whole: list[bytes], path: Path) -> CrossResults:
    written, stored, seen, footer = {}, {}, {}, None
    for line in lines:
        match line:
            case WrittenLine():
                written[line.producer, line.batch] = line
            case StoredLine():
                stored[line.batch, line.sha256] = line
            case ReadLine():
                seen[line.consumer, line.batch, line.sha256] = line
            case CrossFooter():
                footer = line
    if footer:
        check_footer_hash(footer.sha256, whole[:-1], path)
    return CrossResults(header, written, stored, seen, footer)


class CrossWriter(LineWriter):
    """Writes the file of a run; `finish` makes it complete."""

    def __init__(self, path: Path, header: CrossHeader, earned: CrossResults | None = None) -> None:
        """Start *path* with *header* and the lines *earned* by an earlier run."""
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, header, earned.lines() if earned else ())

    def finish(self, seconds: float) -> None:
        """Add the footer."""
        self.complete(CrossFooter(seconds=round(seconds, 3), sha256=self.sha256()))


def check_covers_cross(path: Path, testees: Iterable[str], batches: Iterable[str]) -> None:
    """Raise `WouldReplace` if *path* holds a whole run that has more than some chosen *testees* and *batches*."""
    try:
        old = read_cross_results(path).header
    except Unusable:
        return  # there is none
    before = {str(testee.get("label")) for testee in old.testees}
    if not old.part and not (before <= set(testees) and set(old.batches) <= set(batches)):
        raise WouldReplace(
            f"{printable(str(path), 500)} is the result of a whole run ({len(before)} testees, {len(old.batches)} "
            "batches), and one of a part would replace it; --report DIR writes into another directory"
        )


def check_same_cross_run(old: CrossHeader, new: CrossHeader) -> None:
    """Raise `Unusable` unless a run with header *new* may go on with the results of *old*."""
    for field in ("testees", "corpus", "batches", "broker", "read"):
        if getattr(old, field) != getattr(new, field):
            raise Unusable(f"it cannot be resumed: it had other {field}")


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
class MatrixCell:
    """The results of one producer's batches in one column."""

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
        """Failures, worst first."""
        return sorted(
            (each for each in self.batches if each.failed), key=lambda each: outcome_rank(each.judged.outcome)
        )

    @property
    def undone(self) -> list[Through]:
        """Batches that are written wrong and read right: the consumer undoes the mistake."""
        return [each for each in self.batches if not each.failed and each.judged.blame == "both"]

    @property
    def blames(self) -> Mapping[Blame, int]:
        """How many failures are whose fault."""
        counter = Counter(each.judged.blame for each in self.failures)
        return {blame: counter[blame] for blame in BLAMES if counter[blame]}


@dataclass(frozen=True, slots=True)
class MatrixFinding:
    """Things of one kind that one testee did wrong: the first of them, and in how many batches and cells."""

    testee: str
    judged: Judged
    batch: str
    batches: int
    cells: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are producers, columns consumers; `wrote` comes first, the broker last."""

    header: CrossHeader
    complete: bool
    producers: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], MatrixCell]
    written: Mapping[tuple[str, str], WrittenLine]

    @property
    def agrees(self) -> bool:
        """Whether nothing failed anywhere."""
        return not any(cell.failures for cell in self.cells.values())

    def row(self, producer: str) -> list[MatrixCell]:
        """The cells of one producer, in the order of the columns."""
        return [self.cells[producer, column] for column in self.columns]

    def label(self, column: str) -> str:
        """A column's heading."""
        return f"Kafka {self.header.broker}" if column == BROKER else column

    def about(self, name: str) -> Mapping[str, Any]:
        """The description that a testee gave of itself."""
        return next((each for each in self.header.testees if each["label"] == name), {})


def cross_matrix(results: CrossResults) -> Matrix:
    """The matrix of a run."""
    labels = [str(each["label"]) for each in results.header.testees]
    producers = [name for name in labels if _announces(results.header, name, "encode")]
    readers = [name for name in labels if _announces(results.header, name, "decode")]
    columns = [WROTE, *readers, *([BROKER] if results.header.broker else [])]
    cells = {(producer, column): _cell(results, producer, column) for producer in producers for column in columns}
    return Matrix(results.header, results.complete, tuple(producers), tuple(columns), cells, results.written)


def _announces(header: CrossHeader, name: str, op: str) -> bool:
    said: dict[str, Any] = next(each for each in header.testees if each["label"] == name)
    return bool(said.get(op, {}).get("magics"))


def _cell(results: CrossResults, producer: str, column: str) -> MatrixCell:
    return MatrixCell(producer, column, tuple(_through(results, producer, column)))


def _through(results: CrossResults, producer: str, column: str) -> Iterator[Through]:
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


def _arrived(results: CrossResults, column: str, line: WrittenLine) -> Judged | None:
    if column == BROKER:
        stored = results.stored.get((line.batch, line.sha256))
        return None if stored is None else stored.judged
    seen = results.read.get((column, line.batch, line.sha256))
    return None if seen is None else seen.judged


def matrix_findings(made: Matrix) -> list[MatrixFinding]:
    """Errors of each testee against the reference, worst and most frequent first.

    A producer's faults are in its own column; a consumer's are failures that are not the producer's.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[MatrixCell, Through]]] = {}
    for cell in made.cells.values():
        for each in cell.failures:
            for testee in _guilty(cell, each.judged.blame):
                key = (testee, "writes" if cell.column == WROTE else "reads", each.judged.outcome, _shape(each.judged))
                groups.setdefault(key, []).append((cell, each))
    found = [_fault(key[0], group) for key, group in groups.items()]
    return sorted(found, key=lambda each: (outcome_rank(each.judged.outcome), -each.batches, -each.cells, each.testee))


def _guilty(cell: MatrixCell, blame: Blame) -> Iterable[str]:
    # What a producer did wrong stands in its own column once, and need not in every consumer's.
    if cell.column == WROTE:
        return (cell.producer,)
    return (cell.column,) if blame == "consumer" and cell.column != BROKER else ()


def _shape(judged: Judged) -> str:
    """A field without indexes, so that the same mistake in many places is one."""
    return "".join(sign for sign in judged.field if not sign.isdigit()) or judged.why[:60]


def _fault(testee: str, group: Sequence[tuple[MatrixCell, Through]]) -> MatrixFinding:
    first = group[0][1]
    batches = {each.batch for _, each in group}
    return MatrixFinding(testee, first.judged, first.batch, len(batches), len({cell.producer for cell, _ in group}))


def matrix_document(made: Matrix, results: CrossResults) -> dict[str, Any]:
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


def _cell_document(cell: MatrixCell) -> dict[str, Any]:
    failures = [{"batch": each.batch, **asdict(each.judged), "sha256": each.sha256} for each in cell.failures]
    counts = {"producer": cell.producer, "column": cell.column, "worst": cell.worst, "counts": dict(cell.counts)}
    return counts | {"blames": dict(cell.blames), "undone": len(cell.undone), "failures": failures}
