"""How many inputs a second go through a testee's pipe, answers compared.

Inputs and what is right about them are made before the clock starts, as for any
number of testees they are made once.  Inputs over which the testee falls, and
those that cost it more than a millisecond alone, are set aside and counted: in a
campaign they are finds, and stepped over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random
from typing import Final

from kafka_conformance.connect import connect
from kafka_conformance.observation import Crashed, Exceeded, Garbled, Hung
from kafka_fuzz.feed import AHEAD, BATCH, Feed
from kafka_fuzz.mutate import draw_profile, mutate, own_seeds
from kafka_fuzz.prepared import Prepared
from kafka_fuzz.vector import Judge

INPUTS: Final = 8 * BATCH
# Alone, by the clock: a thousand times what others take.
DEAR_SECONDS: Final = 0.001
TRIES: Final = 6
WARM_UP: Final = 0.3


@dataclass(frozen=True, slots=True)
class Throughput:
    """What was measured.

    Attributes:
        testee, version: who was asked.
        inputs: answered and compared, again and again the same pool.
        seconds: by the clock.
        cpu_seconds: of the testee alone.
        set_aside: inputs of the pool that were left out, and of how many.
    """

    testee: str
    version: str
    inputs: int
    seconds: float
    cpu_seconds: float
    set_aside: tuple[int, int]

    @property
    def per_second(self) -> float:
        """Inputs a second, by the clock."""
        return self.inputs / self.seconds


def measure(testee: str, seconds: float = 5.0, *, seed: int = 1) -> Throughput:
    """Feed *testee* (any connect string) for so many seconds.  Raises `BadConnect`, `CannotRun`."""
    rng, seeds = Random(seed), own_seeds()
    pool = [Prepared(mutate(rng, seeds, draw_profile(rng))) for _ in range(INPUTS)]
    feed = Feed(connect(testee))
    try:
        hello = feed.open()
        calm = [prepared for prepared in pool if not is_dear(feed, prepared)]
        judge = Judge(testee)
        fed(feed, judge, calm, seconds * WARM_UP)
        spent = feed.cpu_seconds
        began = time.monotonic()
        inputs = fed(feed, judge, calm, seconds)
        took = time.monotonic() - began
        return Throughput(
            testee, hello.version, inputs, took, feed.cpu_seconds - spent, (len(pool) - len(calm), len(pool))
        )
    finally:
        feed.close()


def is_dear(feed: Feed, prepared: Prepared) -> bool:
    """Whether the testee falls over it, or takes long, time and again."""
    for _ in range(TRIES):
        began = time.monotonic()
        feed.post([prepared.mutant.data])
        (seen,) = feed.collect()
        if isinstance(seen.answer, Crashed | Hung | Exceeded | Garbled):
            return True
        if time.monotonic() - began < DEAR_SECONDS:
            return False
    return True


def fed(feed: Feed, judge: Judge, pool: list[Prepared], seconds: float) -> int:
    """Feed and judge for so many seconds; how many inputs that were."""
    batches = [pool[start : start + BATCH] for start in range(0, len(pool), BATCH)]
    lines = [[prepared.mutant.data for prepared in batch] for batch in batches]
    posted = collected = inputs = 0
    end = time.monotonic() + seconds
    while collected < posted or time.monotonic() < end:
        while posted < collected + AHEAD and time.monotonic() < end:
            feed.post(lines[posted % len(lines)])
            posted += 1
        seen = feed.collect()
        for prepared, each in zip(batches[collected % len(batches)], seen, strict=True):
            judge.told(prepared, each.answer)
        collected += 1
        inputs += len(seen)
    return inputs
