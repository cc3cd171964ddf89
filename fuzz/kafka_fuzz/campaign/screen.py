"""How a campaign goes: a table that is drawn again on a terminal, a line now and then elsewhere; on standard error."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafka_conformance.judge.verdict import SEVERITIES
from kafka_fuzz.campaign.replay import replay_target, replay_targets
from kafka_fuzz.targets.outcome import severity

if TYPE_CHECKING:
    from rich.table import Table

    from kafka_fuzz.campaign.supervisor import Campaign

SECONDS_BETWEEN_LINES: Final = 5.0
SECONDS_BETWEEN_LOOKS: Final = 2.0
COLUMNS: Final = ("target", "executions", "per CPU-s", "CPU-s", "lines", "cells", "corpus", "outcomes", "finds")


class FindingCounts:
    """Finds by target and severity, counted on the disk, but not at every look."""

    def __init__(self) -> None:
        self.at = 0.0
        self.by: dict[str, Counter[str]] = {}

    def of(self, campaign: Campaign) -> dict[str, Counter[str]]:
        """The counts."""
        if time.monotonic() - self.at >= SECONDS_BETWEEN_LOOKS:
            targets = {one: target for target in campaign.plan.targets for one in replay_targets(target)}
            self.by = {}
            for finding in campaign.findings():
                target = targets[replay_target(finding.outcome.target, finding.mode)]
                self.by.setdefault(target, Counter())[severity(finding.outcome.kind)] += 1
            self.at = time.monotonic()
        return self.by


def severity_summary(counts: Counter[str]) -> str:
    """Finds by severity, the worst first.

    >>> severity_summary(Counter(hang=2, crash=1))
    '1 crash, 2 hang'
    """
    return ", ".join(f"{counts[name]} {name}" for name in SEVERITIES if counts[name])


def row(campaign: Campaign, target: str, counts: Counter[str]) -> tuple[str, ...]:
    """One line of the table."""
    progress = campaign.progress(target)
    speed = progress.executions / progress.cpu_seconds if progress.cpu_seconds else 0.0
    numbers = (progress.executions, speed, progress.cpu_seconds, progress.lines, progress.cells, progress.corpus)
    return (target, *(f"{number:,.0f}" for number in (*numbers, progress.buckets)), severity_summary(counts))


def table(campaign: Campaign, by: dict[str, Counter[str]]) -> Table:
    """Everything, a row for each target."""
    from rich.table import Table

    running = ", ".join(f"{child.plan.target} #{child.plan.number}" for child in campaign.running)
    made = Table(title=f"{max(campaign.left, 0):.0f} s left  ·  {running}", title_justify="left", box=None)
    for name in COLUMNS:
        made.add_column(name, justify="left" if name in ("target", "finds") else "right", no_wrap=name != "finds")
    for target in campaign.plan.targets:
        made.add_row(*row(campaign, target, by.get(target, Counter())))
    return made


@contextmanager
def screen() -> Iterator[Callable[[Campaign], None]]:
    """Something that shows a campaign whenever it is called."""
    if sys.stderr.isatty():
        with live() as show:
            yield show
    else:
        yield plain_screen()


@contextmanager
def live() -> Iterator[Callable[[Campaign], None]]:
    """On a terminal."""
    from rich.console import Console
    from rich.live import Live

    counted = FindingCounts()
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=4) as shown:
        yield lambda campaign: shown.update(table(campaign, counted.of(campaign)))


def plain_screen() -> Callable[[Campaign], None]:
    """In a pipe or a file."""
    counted, last = FindingCounts(), time.monotonic()

    def show(campaign: Campaign) -> None:
        nonlocal last
        if time.monotonic() - last < SECONDS_BETWEEN_LINES:
            return
        last, by = time.monotonic(), counted.of(campaign)
        for target in campaign.plan.targets:
            values = row(campaign, target, by.get(target, Counter()))
            pairs = (f"{value} {name}" for name, value in zip(COLUMNS[1:-1], values[1:-1], strict=True))
            sys.stderr.write(f"{target}: {', '.join(pairs)}; {values[-1] or 'no finds'}\n")
        sys.stderr.flush()

    return show
