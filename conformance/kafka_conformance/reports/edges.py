"""The tables of edges as pages: a page beside a report, and pages of the site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from markupsafe import Markup

from kafka_conformance.edges import (
    BadEdgesError,
    EdgeCause,
    EdgeCell,
    EdgeGrade,
    EdgeKind,
    EdgeResult,
    EdgeRow,
    edge_cause_of,
    edge_results,
    find_kind,
    is_finding,
)
from kafka_conformance.judge.grade import grade_rank
from kafka_conformance.reports import asset, page_environment, policy_hash
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import indented_json, printable

PAGE: Final = "edges.html"
DOCUMENT: Final = "edges.json"
# The words that cells show for grades.
MARKS: Final[Mapping[EdgeGrade, str]] = {
    "PASS": "passes",
    "FAIL": "fails",
    "HOSTILE": "hostile",
    "NON_STRICT": "not strict",
    "INFO": "differs",
    "not run": "not run",
}


@dataclass(frozen=True, slots=True)
class EdgeFinding:
    """Findings of one table that have one cause: the cells, as column and cell; an unreviewed one stands alone."""

    cause: EdgeCause | None
    cells: tuple[tuple[str, EdgeRow, EdgeCell], ...]

    @property
    def grade(self) -> EdgeGrade:
        """That of the gravest cell."""
        return min((cell.grade for _, _, cell in self.cells), key=grade_rank)  # type: ignore[arg-type]

    @property
    def title(self) -> str:
        """The defect, or what the cell says of it."""
        column, row, cell = self.cells[0]
        return self.cause.title if self.cause else f"{column}: {printable(cell.outcome, 60)} ({row.title})"


@dataclass(frozen=True, slots=True)
class EdgeTable:
    """One table with its columns, and its findings by cause, the gravest first."""

    kind: EdgeKind
    columns: tuple[EdgeResult, ...]
    findings: tuple[EdgeFinding, ...]

    def cell(self, row: EdgeRow, column: EdgeResult) -> EdgeCell:
        """The cell; one that was not run says so."""
        return column.cells.get(row.id) or EdgeCell(row=row.id, grade="not run", outcome="not run")

    def counted(self, grade: EdgeGrade) -> int:
        """How many cells have this grade."""
        return sum(self.cell(row, column).grade == grade for row in self.kind.row for column in self.columns)


def edge_table(kind: EdgeKind, columns: Sequence[EdgeResult]) -> EdgeTable:
    """The table *kind* of these results."""
    grouped: dict[str, list[tuple[str, EdgeRow, EdgeCell]]] = {}
    causes: dict[str, EdgeCause | None] = {}
    for column in columns:
        for cell in column.findings():
            row = kind.row_of(cell.row)
            if row is None or not is_finding(cell):
                continue
            cause = edge_cause_of(kind.id, column.header.column, cell)
            key = cause.id if cause else f"{column.header.column}/{cell.row}"
            causes[key] = cause
            grouped.setdefault(key, []).append((column.label, row, cell))
    findings = [EdgeFinding(causes[key], tuple(cells)) for key, cells in grouped.items()]
    findings.sort(key=lambda found: (grade_rank(found.grade), found.cause is None))  # type: ignore[arg-type]
    return EdgeTable(kind, tuple(columns), tuple(findings))


def edge_tables(paths: Iterable[Path]) -> list[EdgeTable]:
    """The tables that the results below *paths* fill; of a column that is in two of them, the last counts.

    Raises:
        Unusable: a file is no such result.
    """
    found: dict[str, dict[str, EdgeResult]] = {}
    try:
        for path in paths:
            for kind, results in edge_results(path).items() if path.is_dir() else ():
                found.setdefault(kind, {}).update({result.header.column: result for result in results})
    except BadEdgesError as error:
        raise Unusable(str(error)) from error
    return [edge_table(find_kind(kind), list(columns.values())) for kind, columns in found.items()]


def edges_page(tables: Sequence[EdgeTable]) -> str:
    """One page with all tables; what a client or broker said is escaped."""
    style = asset("page.css")
    return page_environment().get_template("edges.html").render(
        tables=tables, marks=MARKS, style=Markup(style), style_hash=policy_hash(style)
    )  # fmt: skip


def edges_document(tables: Sequence[EdgeTable]) -> dict[str, Any]:
    """All tables as one JSON object."""
    return {"tables": [_document(table) for table in tables]}


def _document(table: EdgeTable) -> dict[str, Any]:
    return {
        "kind": table.kind.id,
        "title": table.kind.title,
        "question": table.kind.question,
        "rows": msgspec.to_builtins(table.kind.row),
        "columns": [
            {
                "column": column.header.column,
                "version": column.header.version,
                "date": column.header.date,
                "cells": {row.id: msgspec.to_builtins(table.cell(row, column)) for row in table.kind.row},
            }
            for column in table.columns
        ],
        "findings": [
            {
                "grade": found.grade,
                "cause": found.cause.id if found.cause else None,
                "title": found.title,
                "cells": [{"column": column, "row": row.id} for column, row, _ in found.cells],
            }
            for found in table.findings
        ],
    }


def write_edges(tables: Sequence[EdgeTable], folder: Path) -> list[Path]:
    """Write page and document into *folder*; nothing if there is no table."""
    if not tables:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / PAGE, folder / DOCUMENT]
    for path, content in zip(
        written, (edges_page(tables).encode(), indented_json(edges_document(tables))), strict=True
    ):
        path.write_bytes(content)
    return written
