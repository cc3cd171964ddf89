"""The batches of a cross run for its page: a list to filter, and what became of each, with the bytes explained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kafka_conformance.cross.matrix import BROKER, WROTE, Cell, Matrix, Through
from kafka_conformance.cross.results import Written
from kafka_conformance.hostile import printable
from kafka_conformance.judge import OUTCOMES, rank
from kafka_conformance.reporting.collection import cases_by_id
from kafka_conformance.reporting.details import question
from kafka_conformance.reporting.hexview import explained
from kafka_conformance.reporting.html import packed

CHUNK: Final = 20
MOST_WHY: Final = 300
MOST_REASONS: Final = 3
# There are hundreds of byte strings; what is wrong with one stands in its first records, or all of it is alike.
MOST_BYTES: Final = 4096

# A batch in a cell: where, and what came of it.
Passage = tuple[Cell, Through]


def failing(made: Matrix) -> dict[str, list[Passage]]:
    """The batches that failed somewhere, in the order in which they were asked, each with where, worst first."""
    found: dict[str, list[Passage]] = defaultdict(list)
    for cell in made.cells.values():
        for each in cell.failures:
            found[each.batch].append((cell, each))
    asked = {batch: at for at, batch in enumerate(made.header.batches)}
    for passages in found.values():
        passages.sort(key=lambda passage: rank(passage[1].judged.outcome))
    return dict(sorted(found.items(), key=lambda pair: asked.get(pair[0], len(asked))))


def index(made: Matrix, found: Mapping[str, Sequence[Passage]]) -> str:
    """What the list needs, packed; batches are in the order of the chunks."""
    listed = [_listed(made, batch, passages) for batch, passages in found.items()]
    columns = {column: printable(made.label(column)) for column in made.columns}
    return packed({"chunk": CHUNK, "outcomes": OUTCOMES, "labels": columns, "wrote": WROTE, "batches": listed})


def _listed(made: Matrix, batch: str, passages: Sequence[Passage]) -> dict[str, Any]:
    case = cases_by_id().get(batch)
    reasons = dict.fromkeys(printable(each.judged.why, MOST_WHY) for _, each in passages)
    return {
        "id": printable(batch),
        "title": "" if case is None else case.title,
        "rules": [] if case is None else list(case.rules),
        "why": list(reasons)[:MOST_REASONS],
        "passages": [
            [made.producers.index(cell.producer), cell.column, OUTCOMES.index(each.judged.outcome)]
            for cell, each in passages
        ],
    }


def chunks(made: Matrix, found: Mapping[str, Sequence[Passage]]) -> Iterator[str]:
    """What the pages of the batches show, packed, `CHUNK` together."""
    ids = list(found)
    pieces = _pieces(made)
    for start in range(0, len(ids), CHUNK):
        yield packed([_detail(made, batch, found[batch], pieces[batch]) for batch in ids[start : start + CHUNK]])


def _pieces(made: Matrix) -> Mapping[str, list[Written]]:
    found: dict[str, list[Written]] = defaultdict(list)
    for line in made.written.values():
        if line.sha256:
            found[line.batch].append(line)
    return found


def _detail(made: Matrix, batch: str, passages: Sequence[Passage], written: Sequence[Written]) -> dict[str, Any]:
    case = cases_by_id().get(batch)
    failed = {each.sha256 for _, each in passages}
    return {
        "id": printable(batch),
        "question": [] if case is None else list(question(case)),
        "passages": [_passage(made, *passage) for passage in passages],
        "written": list(_bytes([line for line in written if line.sha256 in failed])),
    }


def _passage(made: Matrix, cell: Cell, each: Through) -> dict[str, Any]:
    where = {WROTE: "wrote it", BROKER: f"to {made.label(BROKER)}"}.get(cell.column, f"to {made.label(cell.column)}")
    return {
        "where": printable(f"{cell.producer} {where}"),
        "outcome": each.judged.outcome,
        "whose": each.judged.blame,
        "why": printable(each.judged.why, MOST_WHY),
        "sha256": each.sha256,
    }


def _bytes(written: Sequence[Written]) -> Iterator[dict[str, Any]]:
    """Each byte string once, with all who wrote it; those that nobody failed on are the right ones."""
    writers: dict[str, list[Written]] = defaultdict(list)
    for line in written:
        writers[line.sha256].append(line)
    for sha256, lines in writers.items():
        names = ", ".join(printable(line.producer, 60) for line in lines)
        yield explained(f"Written by {names}", lines[0].data, MOST_BYTES) | {"sha256": sha256}
