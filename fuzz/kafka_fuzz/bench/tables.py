"""The tables of `kafkaproof fuzz bench`: medians of repeats that take turns, so that a busy machine is busy for all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from statistics import median
from typing import Final

import msgspec

from kafka_fuzz.bench.outcomes import MIX, PLAIN, Measured
from kafka_fuzz.mutate import PROFILES

TARGETS: Final = ("kafka-python", "aiokafka-pure")
COLUMNS: Final = (PLAIN, *PROFILES, MIX)


def outcomes(
    repeats: int, seconds: float, targets: Sequence[str] = TARGETS, profiles: Sequence[str] = COLUMNS, jobs: int = 1
) -> Iterator[Measured]:
    """Every repeat of every profile and target, each in a process of its own; CannotMeasure where one ends early."""
    asked = list(product(range(repeats), targets, profiles))
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda one: measured(one[1], one[2], one[0], seconds), asked)


def measured(target: str, profile: str, seed: int, seconds: float) -> Measured:
    """One repeat."""
    command = [sys.executable, "-m", "kafka_fuzz.bench.outcomes", target, profile, str(seed), str(seconds)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise CannotMeasure(f"{target}, {profile}: {done.stderr.decode(errors='replace')[-300:]}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Measured)


class CannotMeasure(Exception):
    """A repeat ended without a result."""


def outcome_lines(made: Sequence[Measured]) -> Iterator[str]:
    """One line for each target and profile: medians; lines of all repeats together, of those that anybody reached."""
    yield (
        f"{'target':15} {'profile':8} {'executions/CPU-s':>17} {'unexpected ends':>16} {'to plain':>9}"
        f" {'outcome buckets':>16} {'to plain':>9} {'finds':>6} {'to plain':>9} {'lines':>6} {'of all':>7}"
    )
    for target in dict.fromkeys(each.target for each in made):
        rows = [each for each in made if each.target == target]
        everywhere = {line for each in rows for line in each.reached}
        plain = [each for each in rows if each.profile == PLAIN]
        for profile in dict.fromkeys(each.profile for each in rows):
            mine = [each for each in rows if each.profile == profile]
            reached = {line for each in mine for line in each.reached}
            yield (
                f"{target:15} {profile:8} {median(each.executions / each.seconds for each in mine):17,.0f}"
                f" {ends_of(mine):16,.1f} {ratio(ends_of(mine), ends_of(plain)):>9}"
                f" {buckets_of(mine):16,.1f} {ratio(buckets_of(mine), buckets_of(plain)):>9}"
                f" {finds_of(mine):6,.1f} {ratio(finds_of(mine), finds_of(plain)):>9}"
                f" {len(reached):6,} {len(everywhere):7,}"
            )


def ends_of(rows: Sequence[Measured]) -> float:
    """The median number of unexpected ends."""
    return median(len(each.ends) for each in rows) if rows else 0


def buckets_of(rows: Sequence[Measured]) -> float:
    """The median number of outcome buckets."""
    return median(len(each.firsts) for each in rows) if rows else 0


def finds_of(rows: Sequence[Measured]) -> float:
    """The median number of finds as campaigns keep them apart."""
    return median(len(each.finds) for each in rows) if rows else 0


def ratio(found: float, plain: float) -> str:
    """How many times what plain mutation found."""
    return f"{found / plain:.1f}x" if plain else "-"
