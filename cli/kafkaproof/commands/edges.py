"""`kafkaproof edges`: what clients, proxies and brokers do with records when something beside the codec goes wrong.

`certify_proxy` fills one column of its table of proxies, for `kafkaproof certify proxy:NAME`.
"""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from kafka_brokers.wire.client import parse_address
from kafka_conformance import edges
from kafka_conformance.edges import BadEdgesError, EdgeCause, EdgeCell, EdgeKind, EdgeResult
from kafka_conformance.edges.running import CannotRunEdges, EdgeRun, edge_module, run_edges
from kafka_conformance.judge.grade import GRADES
from kafka_conformance.runner.keeping import WHOLE, reserved
from kafka_conformance.sanitize import printable
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK, say_json

# Characters of a column of the matrix, and of its first one.
CELL_WIDTH: Final = 18
ROW_WIDTH: Final = 26
# Of running text.
TEXT_WIDTH: Final = 100
# Characters of a sentence from a result.
MAX_SHOWN: Final = 1000
_Read = TypeVar("_Read")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def _usage(read: Callable[[], _Read]) -> _Read:
    """The value of *read*; a name or file that is wrong ends the command with exit code 2."""
    try:
        return read()
    except BadEdgesError as error:
        raise click.UsageError(printable(str(error), 600)) from error


def _find_kind(_ctx: click.Context, _parameter: click.Parameter, name: str) -> EdgeKind:
    try:
        return edges.find_kind(name)
    except BadEdgesError as error:
        raise click.BadParameter(printable(str(error), 600)) from error


kind_argument = click.argument("kind", callback=_find_kind, metavar="KIND")


@click.group("edges")
def edges_group() -> None:
    """Records at the edges: damaged batches, faults, proxies and compatible brokers."""


@edges_group.command("list")
@json_option
def list_edges(as_json: bool) -> NoReturn:
    """List the tables, each with the question that it answers."""
    found = _usage(edges.kinds)
    if as_json:
        say_json({"kinds": [_kind_document(kind) for kind in found]})
        sys.exit(OK)
    width = max((len(kind.id) for kind in found), default=0) + 2
    for kind in found:
        click.echo(f"{kind.id:<{width}}{kind.question}")
        click.echo(f"{'':<{width}}{len(kind.row)} rows, each column a {kind.columns}; {kind.page}")
    sys.exit(OK)


def _kind_document(kind: EdgeKind) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(kind)
    return document


# ---- show ----


@edges_group.command("show")
@kind_argument
@click.option(
    "--from", "folder", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
    help="Results of `edges run`.  [default: the results that come with this installation]",
)  # fmt: skip
@json_option
def show_edges(kind: EdgeKind, folder: Path | None, as_json: bool) -> NoReturn:
    """Show the table KIND from its results, and the causes of its findings.

    Exit codes: 0 it was shown, 2 a result is unusable, 3 there is no result.
    """
    where = folder or edges.kept_folder()
    paths = sorted((where / "edges" / kind.id).glob(f"*{edges.SUFFIX}"))
    results = _usage(lambda: [edges.read_edge_result(path) for path in paths])
    if not results:
        click.echo(f"no result of {kind.id} is in {printable(str(where))}; kafkaproof edges run {kind.id}", err=True)
        sys.exit(CANNOT_RUN)
    if as_json:
        say_json(_table_document(kind, results))
        sys.exit(OK)
    click.echo(f"{kind.question}\n")
    _show_matrix(kind, results)
    _show_findings(kind, results)
    sys.exit(OK)


def _table_document(kind: EdgeKind, results: Sequence[EdgeResult]) -> dict[str, Any]:
    columns = [
        {
            "column": result.header.column,
            "version": result.header.version,
            "date": result.header.date,
            "cells": [_cell_document(kind, result, cell) for cell in result.cells.values()],
        }
        for result in results
    ]
    causes = [msgspec.to_builtins(cause) for cause, _ in _by_cause(kind, results) if cause is not None]
    return {"kind": _kind_document(kind), "columns": columns, "causes": causes}


def _cell_document(kind: EdgeKind, result: EdgeResult, cell: EdgeCell) -> dict[str, Any]:
    cause = edges.edge_cause_of(kind.id, result.header.column, cell) if edges.is_finding(cell) else None
    document: dict[str, Any] = msgspec.to_builtins(cell)
    return document | {"cause": cause.id if cause else None}


def _show_matrix(kind: EdgeKind, results: Sequence[EdgeResult]) -> None:
    """Print one table, or several below each other where the terminal is narrow."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from kafka_conformance.reports import terminal

    on = terminal.console()
    width = shutil.get_terminal_size().columns if on.is_terminal else 10 * CELL_WIDTH + ROW_WIDTH
    on.width = width
    fits = max((width - ROW_WIDTH) // CELL_WIDTH, 1)
    for some in (results[at : at + fits] for at in range(0, len(results), fits)):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_lines=True)
        table.add_column(kind.columns, width=ROW_WIDTH - 2, overflow="fold")
        for result in some:
            table.add_column(Text(printable(result.label, 80)), width=CELL_WIDTH - 2, overflow="fold")
        for row in kind.row:
            cells = [result.cells.get(row.id) for result in some]
            table.add_row(Text(row.id), *(Text(_cell_text(cell), style=_style(cell)) for cell in cells))
        with terminal.trimmed(on):
            on.print(table)


def _cell_text(cell: EdgeCell | None) -> str:
    if cell is None:
        return "–"
    return printable(cell.outcome if cell.grade == "PASS" else f"{cell.grade}: {cell.outcome}", 80)


def _style(cell: EdgeCell | None) -> str:
    from kafka_conformance.reports.terminal import GRADE_STYLES

    if cell is None or cell.grade == "not run":
        return "dim"
    return "green" if cell.grade == "PASS" else GRADE_STYLES[cell.grade]


_Findings = list[tuple[EdgeResult, EdgeCell]]


def _by_cause(kind: EdgeKind, results: Sequence[EdgeResult]) -> list[tuple[EdgeCause | None, _Findings]]:
    """Reviewed causes with their findings, in the order of their grades; last the findings without one."""
    found: dict[str, tuple[EdgeCause, _Findings]] = {}
    others: _Findings = []
    for result in results:
        for cell in result.findings():
            cause = edges.edge_cause_of(kind.id, result.header.column, cell)
            own = others if cause is None else found.setdefault(cause.id, (cause, []))[1]
            own.append((result, cell))
    ordered = sorted(found.values(), key=lambda each: GRADES.index(each[0].grade))
    return [*ordered, (None, others)]


def _show_findings(kind: EdgeKind, results: Sequence[EdgeResult]) -> None:
    for cause, found in _by_cause(kind, results):
        if cause is None:
            _show_others(found)
            continue
        click.echo(f"\n{cause.grade}  {cause.title}")
        where = sorted({result.label for result, _ in found})
        rows = sorted({cell.row for _, cell in found})
        _paragraph(f"{', '.join(where)}: {', '.join(rows)}")
        _paragraph(cause.explanation)
        _paragraph(f"{cause.version}, {cause.source}" + (f"; {cause.upstream}" if cause.upstream else ""))


def _show_others(found: _Findings) -> None:
    for grade in GRADES:
        for result, cell in found:
            if cell.grade != grade:
                continue
            state = ", no reviewed cause" if grade in ("FAIL", "HOSTILE") else ""
            click.echo(f"\n{grade}  {printable(result.label, 80)}, {cell.row}{state}")
            _paragraph(cell.detail)


def _paragraph(text: str) -> None:
    for line in wrap(printable(" ".join(text.split()), MAX_SHOWN), TEXT_WIDTH):
        click.echo(f"    {line}")


# ---- run ----


@edges_group.command("run")
@kind_argument
@click.argument("columns", nargs=-1, metavar="[COLUMN]…")
@click.option("--report", "folder", type=click.Path(path_type=Path, file_okay=False), default=WHOLE,
              show_default=True, metavar="DIR", help="Where results go: DIR/edges/KIND/COLUMN.ndjson.")  # fmt: skip
@click.option("--row", "rows", multiple=True, metavar="ID", help="Only this row; may be given several times.")
@click.option("--again", is_flag=True, help="Run also rows that have a result.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Columns at the same time.")  # fmt: skip
def run_table(
    kind: EdgeKind, columns: tuple[str, ...], folder: Path, rows: tuple[str, ...], again: bool, jobs: int
) -> NoReturn:
    """Run the rows of the table KIND that have no result yet, for each COLUMN or for all.

    Each cell is on disk before the next one is measured; the same command goes on where it was stopped.

    Exit codes: 0 no cell has the grade FAIL, 1 one has, 2 usage, 3 a column cannot run, 130 interrupted.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = _usage(lambda: _columns(kind, columns))
    unknown = [id_ for id_ in rows if kind.row_of(id_) is None]
    if unknown:
        raise click.BadParameter(f"{kind.id} {_near(unknown[0], [row.id for row in kind.row])}", param_hint="--row")
    click.get_current_context().with_resource(reserved(folder / "edges" / kind.id))
    runs = [EdgeRun(kind=kind.id, column=column, folder=folder, rows=rows, again=again) for column in wanted]
    table = _Running(threading.Event(), Counter(), {}, threading.Lock())
    try:
        table.run_all(runs, jobs)
    except KeyboardInterrupt:
        where = printable(str(folder / "edges" / kind.id))
        click.echo(f"stopped; finished cells are in {where}, the same command goes on after them", err=True)
        sys.exit(INTERRUPTED)
    click.echo(", ".join(f"{number} {grade}" for grade in edges.EDGE_GRADES if (number := table.grades[grade])))
    if table.grades["FAIL"]:
        sys.exit(DISAGREEMENTS)
    sys.exit(CANNOT_RUN if table.missing else OK)


def _columns(kind: EdgeKind, columns: Sequence[str]) -> list[str]:
    """The columns to run; a name with `@` or `:` is an address or a release, and is the module's to refuse."""
    known = list(edge_module(kind.id).columns())
    for column in columns:
        if column not in known and not {"@", ":"} & set(column):
            raise BadEdgesError(f"{kind.id} {_near(column, known)}")
    return list(dict.fromkeys(columns)) if columns else known


def _near(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"has no {printable(name, 80)!r}; {meant}"


@dataclass(frozen=True, slots=True)
class _Running:
    """Columns that are run at the same time.

    Attributes:
        stopped: set when the user interrupts: a column ends after its current cell.
        grades: number of cells by grade.
        missing: why a column cannot run, by column.
        lock: of the two above, and of the output.
    """

    stopped: threading.Event
    grades: Counter[str]
    missing: dict[str, str]
    lock: threading.Lock

    def run_all(self, runs: Sequence[EdgeRun], jobs: int) -> None:
        """Run all columns, *jobs* at a time; one at a time they run in this thread."""
        if jobs == 1:
            for run in runs:
                self._run(run)
            return
        with ThreadPoolExecutor(min(jobs, len(runs) or 1)) as pool:
            try:
                for _ in pool.map(self._run, runs):
                    pass
            except KeyboardInterrupt:
                self.stopped.set()
                click.echo("stops after the cells that are being measured", err=True)
                raise

    def _run(self, run: EdgeRun) -> None:
        if self.stopped.is_set():
            return
        try:
            with closing(run_edges(run)) as cells:
                for row, cell in cells:
                    with self.lock:
                        self.grades[cell.grade] += 1
                        click.echo(printable(f"{run.column:<28}{row.id:<26}{cell.grade:<12}{cell.outcome}", 300))
                    if self.stopped.is_set():
                        return
        except CannotRunEdges as error:
            with self.lock:
                self.missing[run.column] = str(error)
                click.echo(printable(f"{run.column:<28}cannot run: {error}", 600), err=True)
        except BadEdgesError as error:
            raise click.UsageError(printable(str(error), 600)) from error


# ---- proxies ----

PROXIES: Final = "proxies"


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Options for a proxy.

    Attributes:
        upstream: where a proxy that runs already expects its broker.
        allow: names of changes of records that it is meant to make.
        only: patterns of rows.
    """

    upstream: str
    allow: tuple[str, ...]
    only: tuple[str, ...]


def certify_proxy(what: str, folder: Path, settings: ProxySettings, *, as_json: bool) -> int:
    """Hold the bytes into the proxy *what* against those out of it, write and show each row; give the exit code."""
    from kafka_conformance.edges.proxies import columns, opened, running_proxy

    rows = tuple(
        row.id for row in edges.find_kind(PROXIES).row if any(fnmatchcase(row.id, each) for each in settings.only)
    )
    known = what in columns()
    _check_proxy(what, settings, known=known)
    proxy = opened(what) if known else running_proxy(what, upstream=settings.upstream, allow=settings.allow)
    run_ = EdgeRun(kind=PROXIES, column=what, folder=folder, rows=rows, again=True)
    cells = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for _, cell in run_edges(run_, proxy):
            cells.append(cell)
            if not as_json:
                cause = edges.edge_cause_of(PROXIES, what, cell)
                click.echo(f"{cell.grade:<11} {cell.row:<22} {printable(cell.outcome, 120)}")
                if cell.grade not in ("PASS", "not run"):
                    click.echo(f"{'':<11} {printable(cause.title if cause else cell.detail, 300)}")
    except BadEdgesError as error:
        raise click.UsageError(printable(str(error), 1000)) from error
    except CannotRunEdges as error:
        click.echo(printable(f"{what} cannot run: {error}", 1000), err=True)
        return CANNOT_RUN
    except KeyboardInterrupt:
        click.echo(f"stopped; what was earned is in {edges.result_path(folder, PROXIES, what)}", err=True)
        return INTERRUPTED
    path = str(edges.result_path(folder, PROXIES, what))
    if as_json:
        say_json({"proxy": what, "cells": [msgspec.to_builtins(cell) for cell in cells], "result": path})
    else:
        click.echo(f"full result {path}")
    return DISAGREEMENTS if any(cell.grade == "FAIL" for cell in cells) else OK


def _check_proxy(what: str, settings: ProxySettings, *, known: bool) -> None:
    """Refuse options that the proxy *what* does not take, and addresses that are none; *known* has all it needs."""
    from kafka_conformance.edges.proxies import ADDRESS, columns

    ids = [row.id for row in edges.find_kind(PROXIES).row]
    for pattern in settings.only:
        if not any(fnmatchcase(id_, pattern) for id_ in ids):
            raise click.UsageError(f"--only: {PROXIES} {_near(pattern, ids)}")
    given = {"--upstream": settings.upstream, "--allow": settings.allow}
    if known and any(given.values()):
        names = ", ".join(name for name, value in given.items() if value)
        raise click.UsageError(f"{names}: without effect for {what}, whose address and changes are known")
    is_running = ADDRESS.fullmatch(what) is not None
    if not known and not is_running and not ("{listen" in what and "{upstream" in what):
        if near := get_close_matches(what, columns(), n=1):
            raise click.UsageError(f"no proxy {printable(what, 80)!r} is known; did you mean {near[0]}?")
        names = ", ".join(columns())
        raise click.UsageError(
            f"the command line needs the places {{upstream}} and {{listen}}; known names are {names}"
        )
    if is_running and not settings.upstream:
        raise click.UsageError(f"{what} runs already: say with --upstream HOST:PORT where it expects its broker")
    if settings.upstream:
        _check_addresses(what, settings.upstream)


def _check_addresses(what: str, upstream: str) -> None:
    """Refuse *upstream* if the running proxy *what* has that address, under any of its names.

    The broker would listen there, and the client would talk to it without a proxy.
    """
    from kafka_conformance.edges.proxies import ADDRESS

    host, port = _address_of(upstream)
    if not ADDRESS.fullmatch(what):
        return  # a command line
    proxy, proxy_port = _address_of(what)
    if port == proxy_port and _addresses(proxy) & _addresses(host):
        raise click.UsageError(
            f"--upstream: {printable(upstream, 300)} is the address of the proxy itself; "
            "say where the proxy expects its broker"
        )


def _address_of(text: str) -> tuple[str, int]:
    """Host and port of *text*; an error of usage if it is no address."""
    try:
        host, port = parse_address(text)
        host.encode("idna")
    except ValueError as error:
        raise click.UsageError(printable(f"{text}: {str(error).removeprefix(f'{text}: ')}", 300)) from error
    return host, port


def _addresses(host: str) -> set[str]:
    """The addresses of *host*, of all names of this machine if it is 0.0.0.0; none if it is unknown."""
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, ValueError):
        return set()
    everywhere = bool(found & {"0.0.0.0", "::"})
    return found | _addresses("localhost") | _addresses(socket.gethostname()) if everywhere else found
