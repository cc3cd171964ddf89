"""What a campaign is asked to do, and what its folder remembers between two of them."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from kafka_fuzz.campaign.ready import ready
from kafka_fuzz.campaign.rounds import KINDS, OF_TESTEES, Engine, RoundReport
from kafka_fuzz.campaign.sung import STATE
from kafka_fuzz.finds import put
from kafka_fuzz.targets.named import NAMES

LOG: Final = "log.ndjson"
CAMPAIGN: Final = "campaign.json"
LOCK: Final = "lock"
ALL: Final = "all"
# What has to be installed for a target in process.
NEEDS: Final = {"kafka-python": ("kafka",), "aiokafka-pure": ("aiokafka",), "aiokafka": ("aiokafka",)}
# CPU-seconds of a round: half of what there is to find shows in the first second, nine tenths in ten.
ROUND_SECONDS: Final = 30.0
LEAST_ROUND: Final = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A campaign as it is asked for.

    Attributes:
        targets: their names.
        directory: where everything lies.
        seconds: wall-clock.
        jobs: rounds at a time.
        seed: of the campaign; None for the one that the folder remembers.
        profile, engine: as in `Round`.
        round_seconds: of the processor, for each round; None for what fits *seconds*.
        blind: whether to leave out the corpus, as who wants to know what the mutators find does.
    """

    targets: tuple[str, ...]
    directory: Path
    seconds: float
    jobs: int
    seed: int | None = None
    profile: str = "mixed"
    engine: Engine = "own"
    round_seconds: float | None = None
    blind: bool = False

    def each(self) -> float:
        """CPU-seconds of a round: every target has its turn, more than once if there is time."""
        if self.round_seconds is not None:
            return self.round_seconds
        share = self.seconds * self.jobs / len(self.targets)
        return max(min(ROUND_SECONDS, share / 2), LEAST_ROUND)


class Memory(msgspec.Struct, frozen=True):
    """What the folder remembers.

    Attributes:
        seed: of the campaign.
        next_round: the number of the round after the last that was begun.
    """

    seed: int = 1
    next_round: int = 0


def remembered(directory: Path) -> Memory:
    """What *directory* remembers, or the beginning."""
    try:
        return msgspec.json.decode((directory / STATE / CAMPAIGN).read_bytes(), type=Memory)
    except (FileNotFoundError, msgspec.MsgspecError):
        numbers = [report.number for report in read_log(directory)]
        return Memory(next_round=max(numbers, default=-1) + 1)


def remember(directory: Path, memory: Memory) -> None:
    """Write it, all or nothing."""
    put(directory / STATE / CAMPAIGN, msgspec.json.encode(memory))


def log_round(directory: Path, report: RoundReport, campaign: int) -> RoundReport:
    """One line more in the log, which is on the disk before this returns."""
    report = msgspec.structs.replace(report, at=round(time.time(), 3), campaign=campaign)
    with (directory / LOG).open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")  # a line that was cut off
        file.write(msgspec.json.encode(report) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return report


def read_log(directory: Path) -> Iterator[RoundReport]:
    """The rounds of all campaigns in *directory*; what is no report is left out."""
    try:
        lines = (directory / LOG).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=RoundReport)
        except msgspec.MsgspecError:
            continue


def unknown_targets(names: Sequence[str]) -> list[str]:
    """Those of *names* that no target has."""
    return [name for name in names if name not in (*NAMES, ALL) and name.partition(":")[0] not in KINDS]


def expanded(names: Sequence[str]) -> tuple[str, ...]:
    """*names*, each once, with everything that can run here in the place of `all`."""
    return tuple(dict.fromkeys(each for name in names for each in (everything() if name == ALL else (name,))))


def everything() -> Iterator[str]:
    """The reference's promises, Python codecs that are installed, and the known testees that can run here."""
    for name in NAMES:
        if all(find_spec(package) for package in NEEDS.get(name, ())):
            yield name
    if next(ready(), None) is not None:
        yield from OF_TESTEES


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keep other campaigns out of *directory*; BlockingIOError if one is there."""
    (directory / STATE).mkdir(parents=True, exist_ok=True)
    with (directory / STATE / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
