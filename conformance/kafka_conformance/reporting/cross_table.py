"""A matrix on a terminal, or as plain lines: a row for each producer, and what is wrong with whom."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_conformance.cross.matrix import WROTE, Cell, Matrix, faults
from kafka_conformance.hostile import printable
from kafka_conformance.judge import OUTCOMES, SEVERITIES
from kafka_conformance.reporting.terminal import STYLES, trimmed
from kafka_conformance.severity import SHORT

MOST_FAULTS: Final = 25


def show(made: Matrix, on: Console, path: Path) -> None:
    """Print *made*, whose result file is *path*."""
    with trimmed(on):
        _show(made, on, path)


def _show(made: Matrix, on: Console, path: Path) -> None:
    header = made.header
    way = f", through Kafka {header.broker}" if header.read == "stored" else ""
    about = f"{len(header.batches):,} batches, {len(made.producers)} producers{way}  ·  corpus {header.corpus[:12]}"
    on.print(Text("cross matrix", style="bold").append(f"  {about}", style="dim not bold"))
    on.print(_table(made, on))
    on.print(Text(_legend(made), style="dim"))
    for name, why in header.absent.items():
        on.print(Text(f"not here         {name}: {printable(why)}", style="yellow"), soft_wrap=True)
    _show_faults(made, on)
    on.print()
    if not made.complete:
        on.print(Text("incomplete       kafkaproof cross … --resume goes on with it", style="bold red"))
    on.print(Text(f"full result      {path}"), soft_wrap=True)


def _table(made: Matrix, on: Console) -> Table:
    table = Table(box=box.SIMPLE_HEAD if on.is_terminal else None, pad_edge=False)
    table.add_column("writes \\ reads", no_wrap=True)
    for column in made.columns:
        heading = made.label(column)
        # One word below the other keeps columns narrow, but plain lines plain.
        wrapped = heading.replace("-", "-\n").replace(" ", "\n") if on.is_terminal else heading
        table.add_column(wrapped, justify="right", vertical="bottom", no_wrap=True)
    for producer in made.producers:
        table.add_row(producer, *map(_cell, made.row(producer)))
    return table


def _cell(cell: Cell) -> Text:
    worst = cell.worst
    if worst is None:
        return Text("·", style="dim")
    if cell.failures:
        return Text(f"{SHORT[worst]} {cell.counts[worst]:,}", style=STYLES[worst])
    agreed = cell.counts.get("agree", 0)
    if cell.column == WROTE or not agreed:
        return Text(f"{agreed:,}" if agreed else SHORT["skipped"], style=STYLES["agree" if agreed else "skipped"])
    return Text(SHORT["agree"], style=STYLES["agree"])


def _legend(made: Matrix) -> str:
    there = {outcome for cell in made.cells.values() for outcome in cell.counts if outcome in SEVERITIES}
    told = ", ".join(f"{SHORT[outcome]} {outcome}" for outcome in OUTCOMES if outcome in there)
    return f"a cell has the worst outcome, and in how many batches it was: {told}" if told else "nothing failed"


def _show_faults(made: Matrix, on: Console) -> None:
    found = faults(made)
    if not found:
        return
    on.print()
    on.print(Text(f"{len(found):,} faults by the reference's reading, worst first", style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    for name in ("severity", "testee", "where"):
        table.add_column(name, no_wrap=True)
    table.add_column("what differed", overflow="fold")
    for each in found[:MOST_FAULTS]:
        more = f"  {each.batches:,} batches" if each.batches > 1 else ""
        why = Text(printable(each.judged.why)).append(more, style="dim")
        severity = Text(each.judged.outcome, style=STYLES[each.judged.outcome])
        table.add_row(severity, Text(each.testee), Text(printable(each.batch)), why)
    on.print(table)
    if len(found) > MOST_FAULTS:
        on.print(Text(f"  and {len(found) - MOST_FAULTS:,} more in the page", style="dim"))
