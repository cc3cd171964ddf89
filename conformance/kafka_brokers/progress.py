"""Progress of a run: a bar on a terminal, a line now and then elsewhere; always on standard error."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

Progress = Callable[[int, int, int], None]
"""Called with the cases done, all cases, and the findings up to now."""

SECONDS_BETWEEN_LINES: Final = 5.0
# Seconds over which a rate is measured: starts are fast, expensive cases are slow.
RATE_SECONDS: Final = 20.0
# Seconds before a first rate is shown.
LEAST_SECONDS: Final = 1.0
# The share of a run before a time left is shown: expensive cases come first.
LEAST_SHARE: Final = 0.02


class Pace:
    """The rate of a run over the last `RATE_SECONDS`, and the time that is left at that rate."""

    def __init__(self, now: float) -> None:
        self._known: deque[tuple[float, int]] = deque([(now, 0)])

    def update(self, now: float, done: int) -> None:
        """Note that so many are *done*."""
        self._known.append((now, done))
        while len(self._known) > 2 and now - self._known[1][0] >= RATE_SECONDS:
            self._known.popleft()

    def rate(self) -> float:
        """How many a second; 0 while that is unknown."""
        (began, before), (now, done) = self._known[0], self._known[-1]
        return (done - before) / (now - began) if now - began >= LEAST_SECONDS else 0.0

    def text(self, total: int, unit: str) -> str:
        """Rate and time left, such as `120 cases/s, 25 s left`; without what is not known yet."""
        rate, done = self.rate(), self._known[-1][1]
        if rate <= 0:
            return ""
        shown = f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.1f} {unit}/s"
        return f"{shown}, {duration((total - done) / rate)} left" if done >= LEAST_SHARE * total else shown


def duration(seconds: float) -> str:
    """A duration in one or two units.

    >>> duration(9.4), duration(75), duration(3720)
    ('9 s', '1 min 15 s', '1 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def progress(name: str, counted: str = "findings", unit: str = "cases") -> Iterator[Progress]:
    """A progress callback while *name* runs, in *unit*; the third number counts *counted*."""
    if sys.stderr.isatty():
        with _bar(name, counted, unit) as on_progress:
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
def _bar(name: str, counted: str, unit: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{{task.fields[findings]}} {counted}"),
        TextColumn("{task.fields[pace]}"),
        TimeElapsedColumn(),
    )
    pace = Pace(time.monotonic())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None, findings=0, pace="")

        def on_progress(done: int, total: int, findings: int) -> None:
            pace.update(time.monotonic(), done)
            bar.update(task, completed=done, total=total, findings=findings, pace=pace.text(total, unit))

        yield on_progress


def _lines(name: str, counted: str, unit: str) -> Progress:
    last = time.monotonic()
    pace = Pace(last)

    def on_progress(done: int, total: int, findings: int) -> None:
        nonlocal last
        now = time.monotonic()
        pace.update(now, done)
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            text = pace.text(total, unit)
            shown = f"{name}: {done:,} of {total:,} {unit}, {findings:,} {counted}"
            sys.stderr.write(f"{shown}; {text}\n" if text else f"{shown}\n")
            sys.stderr.flush()

    return on_progress
