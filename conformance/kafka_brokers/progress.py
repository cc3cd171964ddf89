"""How far a run is: a bar on a terminal, a line now and then elsewhere; always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

Progress = Callable[[int, int, int], None]
"""Called with the cases done, all cases, and the findings up to now."""

SECONDS_BETWEEN_LINES: Final = 5.0


@contextmanager
def progress(name: str, counted: str = "findings", unit: str = "cases") -> Iterator[Progress]:
    """A progress callback while *name* runs, in *unit*; the third number counts *counted*."""
    if sys.stderr.isatty():
        with _bar(name, counted) as on_progress:
            yield on_progress
    else:
        yield _lines(name, counted, unit)


@contextmanager
def progress_of(names: Sequence[str]) -> Iterator[Callable[[str], Progress]]:
    """A progress callback for each of *names*, which run side by side; the sums are shown."""
    what = names[0] if len(names) == 1 else f"{len(names)} testees"
    known: dict[str, tuple[int, int, int]] = {}
    with progress(what) as on_progress:

        def of(name: str) -> Progress:
            def on_testee_progress(*numbers: int) -> None:
                known[name] = (numbers[0], numbers[1], numbers[2])
                done, total, findings = (sum(column) for column in zip(*known.copy().values(), strict=True))
                # Testees that have not begun will have as many cases as this one.
                on_progress(done, total + (len(names) - len(known)) * numbers[1], findings)

            return on_testee_progress

        yield of


@contextmanager
def _bar(name: str, counted: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{{task.fields[findings]}} {counted}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None, findings=0)
        yield lambda done, total, findings: bar.update(task, completed=done, total=total, findings=findings)


def _lines(name: str, counted: str, unit: str) -> Progress:
    last = time.monotonic()

    def on_progress(done: int, total: int, findings: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            sys.stderr.write(f"{name}: {done:,} of {total:,} {unit}, {findings:,} {counted}\n")
            sys.stderr.flush()

    return on_progress
