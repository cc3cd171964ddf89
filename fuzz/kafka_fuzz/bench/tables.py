"""The tables of `kafkaproof fuzz bench`: medians of repeats that take turns, so that a busy machine is busy for all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import median
from typing import Final

import msgspec

from kafka_fuzz.bench.outcomes import MIX, Measured
from kafka_fuzz.mutate import PROFILES

TARGETS: Final = ("kafka-python", "aiokafka-pure")
COLUMNS: Final = (*PROFILES, MIX)
Say = Callable[[str], None]


def outcomes(repeats: int, seconds: float, targets: Sequence[str] = TARGETS) -> Iterator[Measured]:
    """Every repeat of every profile and target, each in a process of its own; CannotMeasure where one ends early."""
    for seed, target, profile in product(range(repeats), targets, COLUMNS):
        command = [sys.executable, "-m", "kafka_fuzz.bench.outcomes", target, profile, str(seed), str(seconds)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise CannotMeasure(f"{target}, {profile}: {done.stderr.decode(errors='replace')[-300:]}")
        yield msgspec.json.decode(done.stdout.splitlines()[-1], type=Measured)


class CannotMeasure(Exception):
    """A repeat ended without a result."""


def outcome_lines(measured: Sequence[Measured]) -> Iterator[str]:
    """One line for each target and profile."""
    yield f"{'target':15} {'profile':8} {'executions/CPU-s':>17} {'buckets':>8} {'of all':>7} {'lines':>6}"
    for target in dict.fromkeys(each.target for each in measured):
        rows = [each for each in measured if each.target == target]
        everything = {bucket for each in rows for bucket in each.firsts}
        for profile in COLUMNS:
            mine = [each for each in rows if each.profile == profile]
            speed = median(each.executions / each.seconds for each in mine)
            found, lines = median(len(each.firsts) for each in mine), median(each.lines for each in mine)
            yield f"{target:15} {profile:8} {speed:17,.0f} {found:8,.0f} {len(everything):7,} {lines:6,.0f}"
