"""Run the tables of edges: for each column its rows, with results kept one by one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from kafka_conformance.edges import (
    FORMAT,
    BadEdgesError,
    EdgeCell,
    EdgeHeader,
    EdgeKind,
    EdgeRow,
    EdgeWriter,
    find_kind,
    result_path,
)


class EdgeColumn(Protocol):
    """A client, proxy or broker that can be put into situations."""

    @property
    def version(self) -> str:
        """Its version; empty if it reports none."""
        ...

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """Make the situation, watch, and judge; never raises for what the other side does."""
        ...


class EdgeModule(Protocol):
    """The module of a kind, `kafka_conformance.edges.KIND`."""

    def columns(self) -> Sequence[str]:
        """The columns that are known by name."""
        ...

    def opened(self, column: str) -> AbstractContextManager[EdgeColumn]:
        """Start what the column needs.  Raises `CannotRunEdges` with one line."""
        ...


class CannotRunEdges(RuntimeError):
    """A column cannot be run here; the message says what is missing."""


# The modules by kind; a kind is run by the module that its name has here.
MODULES: Final = {
    "recovery": "kafka_conformance.edges.recovery",
    "faults": "kafka_conformance.edges.faults",
    "proxies": "kafka_conformance.edges.proxies",
    "brokers": "kafka_conformance.edges.brokers",
}


@dataclass(frozen=True, slots=True)
class EdgeRun:
    """A column to run, and the folder of its results.

    Attributes:
        kind: the id of the table.
        column: the name of the client, proxy or broker.
        folder: of all results.
        rows: ids of rows; empty for all.
        again: whether rows with a result are run again.
    """

    kind: str
    column: str
    folder: Path
    rows: tuple[str, ...] = ()
    again: bool = False


def edge_module(kind: str) -> EdgeModule:
    """The module that runs *kind*.  Raises `BadEdgesError`."""
    if kind not in MODULES:
        raise BadEdgesError(f"the table {find_kind(kind).id} is filled by another command; see {find_kind(kind).page}")
    module: EdgeModule = import_module(MODULES[kind])
    return module


def run_edges(
    run: EdgeRun, column: AbstractContextManager[EdgeColumn] | None = None
) -> Generator[tuple[EdgeRow, EdgeCell], None, None]:
    """Run the rows of one column that have no result yet, and yield each with its cell; closing it ends the column.

    *column* is in place of the one that the module of the kind knows by the name in *run*.

    Raises:
        BadEdgesError: there is no such kind or row.
        CannotRunEdges: what the column needs is missing.
    """
    kind = find_kind(run.kind)
    wanted = _rows(kind, run.rows)
    with column or edge_module(run.kind).opened(run.column) as measure:
        date = datetime.now(UTC).date().isoformat()
        header = EdgeHeader(format=FORMAT, kind=kind.id, column=run.column, version=measure.version, date=date)
        # What is run again keeps its earlier line until the new one is known.
        writer = EdgeWriter(result_path(run.folder, kind.id, run.column), header, today=run.again and not run.rows)
        for row in wanted:
            if row.id in writer.done and not run.again:
                yield row, writer.done[row.id]
                continue
            cell = measure(row)
            writer.add(cell)
            yield row, cell


def _rows(kind: EdgeKind, ids: Sequence[str]) -> list[EdgeRow]:
    known = [row.id for row in kind.row]
    for id_ in ids:
        if id_ not in known:
            near = get_close_matches(id_, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"rows are {', '.join(known)}"
            raise BadEdgesError(f"{kind.id}: no row {id_!r}; {meant}")
    return [row for row in kind.row if not ids or row.id in ids]
