"""One repeat of one profile against one target in process: executions, outcome buckets and lines by CPU-second.

    python -m kafka_fuzz.bench.outcomes TARGET PROFILE SEED CPU-SECONDS

A process of its own for each repeat, with a limit on its memory; it prints one
JSON document.  What a target does not end with costs a whole limit each time, so
a lie over which it hung twice is stepped over, as campaigns do.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from types import FrameType
from typing import Any, Final

import msgspec

from kafka_fuzz.bench.ends import Ends
from kafka_fuzz.campaign.in_process import make_target
from kafka_fuzz.mutate import PROFILES, Mutant, Profile, corpus_seeds, draw_profile, mutate, own_seeds
from kafka_fuzz.targets import Target

# Below this, what the claims of a snappy block allocate ends the process (the codec is in Rust); campaigns report that.
MEMORY: Final = 8 * 1024 * 1024 * 1024
MIX: Final = "mix"
# Inputs of cells not seen before that are replayed to count lines.
MOST_REPLAYED: Final = 4000
HANGS: Final = 2


class Measured(msgspec.Struct):
    """One repeat.

    Attributes:
        firsts: after how many CPU-seconds each outcome bucket was first seen, silent ones too, told by the reference.
        ends: the same for unexpected ends alone (`ends.Ends`), for which no reference is needed.
        lines, reached: of the target's packages, how many and which.
    """

    target: str
    profile: str
    seed: int
    executions: int
    seconds: float
    firsts: dict[str, float]
    ends: dict[str, float]
    lines: int
    reached: list[str]
    stepped_over: int


def measure(target: Target, profile: str, seed: int, seconds: float) -> Measured:
    """Run *target* for so many CPU-seconds; lines are counted behind that."""
    rng, seeds = Random(seed), seeds_of(profile)
    hangs: Counter[str] = Counter()
    firsts: dict[str, float] = {}
    replayed: dict[object, bytes] = {}
    executions = stepped_over = 0
    ends = Ends.of(target)
    target = ends.watched
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        mutant = mutate(rng, seeds, draw_profile(rng) if profile == MIX else _profile(profile))
        lie = mutant.labels[0] if mutant.labels else ""
        if hangs[lie] >= HANGS:
            stepped_over += 1
            continue
        outcome = target.run(mutant)
        executions += 1
        ends.saw(outcome, spent)
        if outcome.is_find:
            firsts.setdefault(outcome.bucket, round(spent, 3))
            hangs[lie] += outcome.kind == "hang"
        if outcome.kind != "hang" and len(replayed) < MOST_REPLAYED:
            replayed.setdefault((mutant.cell, outcome.bucket), mutant.data)
    spent = time.process_time() - start
    lines = lines_of(target, replayed.values())
    return Measured(
        target.name, profile, seed, executions, spent, firsts, ends.firsts, len(lines), sorted(lines), stepped_over
    )


def seeds_of(profile: str) -> Sequence[bytes]:
    """Plain mutation starts from valid logs, as people who write a fuzzing target have them.

    Our corpus has most mistakes in it already; started from it, plain mutation finds what the cases found.
    """
    return own_seeds() if profile == "bytes" else corpus_seeds()


def _profile(name: str) -> Profile:
    return next(profile for profile in PROFILES if profile == name)


def lines_of(target: Target, inputs: Any) -> set[str]:
    """The lines of the target's packages that the *inputs* reach, as `module:line`."""
    seen: set[tuple[str, int]] = set()

    def on_line(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line":
            seen.add((frame.f_globals["__name__"], frame.f_lineno))
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        return on_line if frame.f_globals.get("__name__", "").startswith(target.packages) else None

    for data in inputs:
        sys.settrace(on_call)
        try:
            target.run(Mutant(data, "bytes", (), None, NO_CELL))
        finally:
            sys.settrace(None)
    return {f"{module}:{line}" for module, line in seen}


NO_CELL: Final = mutate(Random(0), (bytes(20),), "bytes").cell


def main() -> None:
    """Measure what the command line says."""
    _, name, profile, seed, seconds = sys.argv
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    measured = measure(make_target(name), profile, int(seed), float(seconds))
    sys.stdout.write(msgspec.json.encode(measured).decode() + "\n")


if __name__ == "__main__":
    main()
