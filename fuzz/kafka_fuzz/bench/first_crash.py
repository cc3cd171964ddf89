"""How long a campaign takes until a compiled codec crashes for the first time, its start counted."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from kafka_fuzz.campaign.rounds import Round
from kafka_fuzz.campaign.running import arguments
from kafka_fuzz.finds import read_all

TARGET: Final = "aiokafka"
# Not found within so many CPU-seconds is not found.
MOST: Final = 4.0


def first_crashes(repeats: int) -> Iterator[float | None]:
    """For each repeat a campaign of its own: CPU-seconds of all its processes, imports too; None if none crashed."""
    for seed in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            asked = Round(TARGET, Path(folder), seed=seed, cpu_seconds=MOST)
            subprocess.run(arguments(asked), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            found = [find.seconds for find in read_all(Path(folder)) if find.outcome.kind == "crash"]
        yield min(found, default=None)


def told(seconds: Sequence[float | None]) -> str:
    """The median and the worst."""
    found = [MOST if each is None else each for each in seconds]
    missed = sum(each is None for each in seconds)
    vain = f", {missed} of {len(found)} without one in {MOST:.0f} CPU-s" if missed else ""
    return f"first crash of compiled {TARGET}: median {median(found):.2f} CPU-s, slowest {max(found):.2f}{vain}"
