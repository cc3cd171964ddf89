"""A table of edges in which clients said hostile things."""

from __future__ import annotations

from tests.conformance.reporting.conftest import HOSTILE

from kafka_conformance.edges import FORMAT, EdgeCell, EdgeHeader, EdgeKind, EdgeResult, EdgeRow
from kafka_conformance.reports.edges import EdgeTable, edge_table

ROWS = [
    EdgeRow(id="crc", title="A wrong checksum", right="An error.", source="KIP-334", rules=["CRC-01"]),
    EdgeRow(id="cut", title="A cut batch", right="The next fetch.", source="KIP-74"),
    EdgeRow(id="magic", title="Magic 9", right="An error.", source="KIP-98"),
]
KIND = EdgeKind(
    id="recovery", title="One damaged batch", question="What is lost?", columns="client", page="docs/x.md", row=ROWS
)


def result(column: str, *cells: EdgeCell) -> EdgeResult:
    """The result of a column with these cells."""
    header = EdgeHeader(format=FORMAT, kind=KIND.id, column=column, version="1.2", date="2026-01-02")
    return EdgeResult(header, {cell.row: cell for cell in cells})


def hostile_table() -> EdgeTable:
    """A column that is right, and one that says markup."""
    right = [EdgeCell(row=row.id, grade="PASS", outcome="right") for row in ROWS]
    wrong = [
        EdgeCell(row="crc", grade="INFO", outcome=HOSTILE, detail=HOSTILE),
        EdgeCell(row="cut", grade="FAIL", outcome="loses records", detail=f"said {HOSTILE}"),
    ]
    return edge_table(KIND, [result("java-consumer", *right), result("other", *wrong)])
