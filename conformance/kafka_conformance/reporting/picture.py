"""The matrix as a picture (SVG), for a page that shows no HTML of ours."""

from __future__ import annotations

from typing import Final

from kafka_conformance.judge import OUTCOMES
from kafka_conformance.reporting.collection import Collection
from kafka_conformance.reporting.html import cell, environment, words
from kafka_conformance.severity import SHORT

ROW: Final = 22
COLUMN: Final = 70
# Codecs' names stand slanted above their columns.
HEAD: Final = 120
LEFT: Final = 130
LEGEND: Final = 62


def matrix(collection: Collection) -> str:
    """Testees by area, light or dark as who looks at it prefers; it loads nothing and runs nothing."""
    areas = [*collection.areas(), None]
    rows = [(area or "all", [cell(entry, area) for entry in collection.entries]) for area in areas]
    return environment().get_template("matrix.svg").render(
        labels=[f"{entry.label} {entry.version}".strip() for entry in collection.entries],
        rows=rows,
        row=ROW,
        column=COLUMN,
        head=HEAD,
        left=LEFT,
        # The last name leans over the edge.
        width=max(LEFT + COLUMN * len(collection.entries) + HEAD, 560),
        height=HEAD + ROW * len(rows) + LEGEND,
        outcomes=OUTCOMES,
        short=SHORT,
        words=words,
    )  # fmt: skip
