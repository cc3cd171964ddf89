"""The matrix as a picture (SVG), for a page that shows no HTML of ours.

It is drawn from a small document of counts, which can be kept where the results
are too large to keep: the same document gives the same picture.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from kafka_conformance.judge.verdict import OUTCOMES, SHORT, Outcome
from kafka_conformance.reports.collection import MAX_NAME, Collection, CollectionEntry
from kafka_conformance.reports.html import amount, page_environment, words
from kafka_conformance.sanitize import printable

ROW: Final = 22
COLUMN: Final = 66
# Codecs' names stand slanted above their columns.
HEAD: Final = 160
LEFT: Final = 118
LEGEND: Final = 62
ALL: Final = "all"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One testee: how many cases of each area had which outcome."""

    testee: str
    version: str
    areas: dict[str, dict[Outcome, int]]
    scores: dict[str, float]


class Counts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts that the picture shows."""

    corpus: str
    testees: list[Column]


def counted(collection: Collection) -> Counts:
    """The counts of all runs."""
    return Counts(collection.corpus, [_column(entry) for entry in collection.entries])


def _column(entry: CollectionEntry) -> Column:
    areas: dict[str, Counter[Outcome]] = {ALL: Counter()}
    for line in sorted(entry.results.lines, key=lambda line: (line.area, line.case)):
        for area in (line.area, ALL):
            areas.setdefault(printable(area, MAX_NAME), Counter())[line.outcome] += 1
    certificate = entry.report.certificate
    scores = {area: round(certificate.score if area == ALL else certificate.areas.get(area, 0.0), 3) for area in areas}
    ordered = {
        area: {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]} for area, counts in areas.items()
    }
    return Column(entry.label, entry.version.partition(" ")[0], ordered, scores)


def encode_counts(counts: Counts) -> bytes:
    """The document, a line for each testee."""
    corpus, testees = msgspec.json.encode(counts.corpus), map(msgspec.json.encode, counts.testees)
    return b'{"corpus":%b,"testees":[\n%b\n]}\n' % (corpus, b",\n".join(testees))


def decoded(document: bytes) -> Counts:
    """Read it again.  Raises `msgspec.DecodeError`."""
    return msgspec.json.decode(document, type=Counts)


def matrix_svg(counts: Counts) -> str:
    """Testees by area, light or dark as who looks at it prefers; it loads nothing and runs nothing."""
    rows = [(area, [_cell(column, area) for column in counts.testees]) for area in _areas(counts)]
    return page_environment().get_template("matrix.svg").render(
        labels=[(column.testee, column.version) for column in counts.testees],
        rows=rows,
        row=ROW,
        column=COLUMN,
        head=HEAD,
        left=LEFT,
        # The last name leans over the edge.
        width=max(LEFT + COLUMN * len(counts.testees) + HEAD // 2, 560),
        height=HEAD + ROW * len(rows) + LEGEND,
        outcomes=OUTCOMES,
        short=SHORT,
        words=words,
    )  # fmt: skip


def _areas(counts: Counts) -> list[str]:
    """Areas that compare testees: not those that only one of several was sent."""
    columns = Counter(area for column in counts.testees for area in column.areas)
    least = min(len(counts.testees), 2)
    return [*sorted(area for area in columns if area != ALL and columns[area] >= least), ALL]


def _cell(column: Column, area: str) -> object:
    return amount(column.testee, area, Counter(column.areas.get(area, {})), column.scores.get(area, 0.0))
