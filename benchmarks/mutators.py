"""How fast the mutators are, and what one decoder says to them: per CPU-second, medians of repeats, side by side.

    python -m benchmarks.mutators [--repeats N] [--count N]

The decoder is kafka-python's, with checksums verified and every field looked at.
An input that it does not end with is stopped after a quarter of a CPU-second
and counted apart: campaigns skip those.
"""

from __future__ import annotations

import signal
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from types import FrameType
from typing import Final

from kafka.record import MemoryRecords

from kafka_fuzz.mutate import PROFILES, Profile, mutate, own_seeds

LONGEST: Final = 0.25  # CPU-seconds
WARM: Final = 2000


class Endless(Exception):
    """The decoder has had its time."""


@dataclass
class MutatorTiming:
    """One repeat of one profile, times in CPU-seconds, those of stopped inputs left out."""

    count: int
    mutating: float = 0.0
    decoding: float = 0.0
    stopped: int = 0
    buckets: Counter[str] = field(default_factory=Counter)


def read_mutants(data: bytes) -> None:
    """Decode as a consumer does, and look at every field."""
    log = MemoryRecords(data)
    while log.has_next():
        batch = log.next_batch()
        if not batch.validate_crc():
            raise ValueError("crc")
        for record in batch:
            record.validate_crc()
            _ = record.offset, record.timestamp, record.key, record.value, record.headers


def measure_mutator(profile: Profile, seed: int, count: int) -> MutatorTiming:
    """Mutate and decode *count* times."""
    rng, seeds = Random(seed), own_seeds()
    for _ in range(WARM):
        mutate(rng, seeds, profile)
    measured = MutatorTiming(count)
    for _ in range(count):
        start = time.process_time()
        data = mutate(rng, seeds, profile).data
        measured.mutating += time.process_time() - start
        decode(data, measured)
    return measured


def decode(data: bytes, measured: MutatorTiming) -> None:
    """Decode one input, and enter what came of it."""
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        read_mutants(data)
    except Endless:
        measured.stopped += 1
        return
    except Exception as error:
        measured.buckets[bucket(error)] += 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    measured.decoding += time.process_time() - start


def bucket(error: Exception) -> str:
    """Type and innermost function; lines would count one mistake many times."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{type(error).__name__} in {trace.tb_frame.f_code.co_qualname if trace else '?'}"


def stop(number: int, frame: FrameType | None) -> None:
    """The time of an input is over."""
    raise Endless


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print one line for each profile."""
    parser = ArgumentParser(prog="python -m benchmarks.mutators", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10, help="repeats, each from another seed")
    parser.add_argument("--count", type=int, default=5000, help="inputs of each profile in a repeat")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGVTALRM, stop)
    made: dict[Profile, list[MutatorTiming]] = {profile: [] for profile in PROFILES}
    for seed in range(options.repeats):
        for profile, row in made.items():
            row.append(measure_mutator(profile, seed, options.count))
    print("profile   mutants/CPU-s  executions/CPU-s  outcome buckets  not ended")
    for profile, row in made.items():
        mutants = median(each.count / each.mutating for each in row)
        executions = median((each.count - each.stopped) / (each.mutating + each.decoding) for each in row)
        buckets = median(len(each.buckets) for each in row)
        stopped = median(each.stopped for each in row)
        print(f"{profile:8}{mutants:15,.0f}{executions:18,.0f}{buckets:17,.0f}{stopped:11,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
