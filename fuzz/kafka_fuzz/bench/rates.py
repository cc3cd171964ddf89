"""How many inputs a second go where others answer: through a testee's pipe, and to a real broker."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from kafka_fuzz.broker_target import run_round
from kafka_fuzz.campaign.rounds import Progress, Round, RoundReport, Tell
from kafka_fuzz.throughput import measure

TESTEE: Final = "java-kafka-clients"
BROKER: Final = "broker:"


class Rate(msgspec.Struct, frozen=True):
    """One repeat.

    Attributes:
        who: testee or broker, and its version.
        inputs: answered and compared.
        seconds: by the clock.
        cpu_seconds: of the processor: the testee's alone, but ours and the broker's for a broker.
    """

    who: str
    inputs: int
    seconds: float
    cpu_seconds: float


class Watch:
    """Sees how far a round is, and when; its start, and that of what it asks, do not count."""

    def __init__(self) -> None:
        self.first: tuple[float, Progress] | None = None
        self.last: tuple[float, Progress] = (0.0, Progress())

    def __call__(self, progress: Progress) -> None:
        """See `Tell`."""
        if progress.executions:
            self.last = (time.monotonic(), progress)
            self.first = self.first or self.last

    def rate(self, who: str) -> Rate:
        """What was done between the first look and the last; ValueError where that is nothing."""
        if self.first is None or self.first[0] == self.last[0]:
            raise ValueError(f"{who} did too little to tell how fast it is")
        (began, before), (ended, after) = self.first, self.last
        spent = after.cpu_seconds - before.cpu_seconds
        return Rate(who, after.executions - before.executions, ended - began, spent)


def of_pipe(testee: str, seconds: float, seed: int) -> Rate:
    """One repeat of so many seconds by the clock.  Raises `BadConnect`, `CannotRun`."""
    found = measure(testee, seconds, seed=seed)
    return Rate(f"{found.testee} {found.version}", found.inputs, found.seconds, found.cpu_seconds)


def of_broker(target: str, seconds: float, seed: int, run: Callable[[Round, Tell], RoundReport] = run_round) -> Rate:
    """One round of so many CPU-seconds against a broker of its own.  Raises `NoBroker`, ValueError."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Round(target, Path(folder), seed=seed, cpu_seconds=seconds), watch)
    if report.failure:
        raise ValueError(report.failure)
    return watch.rate(f"Kafka {report.version}")


def repeated(once: Callable[[int], Rate], repeats: int) -> Iterator[Rate]:
    """So many repeats, with other inputs each."""
    return map(once, range(1, repeats + 1))


def told(made: list[Rate]) -> str:
    """The median by the clock, the slowest, and by CPU-second."""
    clock = [each.inputs / each.seconds for each in made]
    spent = [each.inputs / each.cpu_seconds for each in made if each.cpu_seconds]
    return (
        f"{made[0].who}: median {median(clock):,.0f} a second, slowest {min(clock):,.0f};"
        f" {median(spent) if spent else 0:,.0f} a CPU-second"
    )
