"""The loop of one worker: mutate, run, tell what came of it, keep what was the first to do something.

An input is kept if it covers new lines, fills a new format cell, or gives an
outcome that was not seen before.  Every find is on the disk before the next
input is run.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from kafka_fuzz.campaign.blackbox import BlackBox
from kafka_fuzz.campaign.coverage import Lines, lines_of
from kafka_fuzz.campaign.in_process import Loops, watched
from kafka_fuzz.campaign.known import DEAR, Stepping
from kafka_fuzz.campaign.rounds import Progress, Round, folder_name
from kafka_fuzz.campaign.store import FOLDER, Corpus
from kafka_fuzz.cells import NO_LIE
from kafka_fuzz.finds import FindStore
from kafka_fuzz.mutate import Cell, Mutant, corpus_seeds, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.plain import cell_of
from kafka_fuzz.outcome import Outcome
from kafka_fuzz.targets import Target

# A wider limit than the soft one: for loops that do not come back to the interpreter.
HARD_SECONDS: Final = 2.5
# One input of so many is watched, where watching is dear.
SAMPLE: Final = 64
# How often the clock is looked at, in inputs.
CLOCK: Final = 16
# Seeds are not mutated if they are longer; so many are taken from the corpus.
LONGEST: Final = 4096
MOST_SEEDS: Final = 2000
# Of the inputs, as long as there are seeds that were not run as they are.
AS_THEY_ARE: Final = 0.1
T = TypeVar("T")


@dataclass(slots=True)
class Worker:
    """One target in this process, for as long as it lasts.

    Attributes:
        asked: the round.
        target: what is run.
        corpus, finds: where things are written.
        stepping: what is not run.
        loops: what is not waited for.
        box: what is left if the process dies.
        attempt: how often the process died in this round before.
    """

    asked: Round
    target: Target
    corpus: Corpus
    finds: FindStore
    stepping: Stepping
    loops: Loops
    box: BlackBox
    attempt: int = 0
    lines: Lines = field(init=False)
    pairs: set[tuple[Cell, str]] = field(default_factory=set)
    seeds: list[bytes] = field(default_factory=list)
    skipped: int = 0
    spent: float = 0.0
    stopped: bool = False

    def __post_init__(self) -> None:
        """Watch the loops, and the lines that nobody covered."""
        self.target = watched(self.target, self.loops)
        self.lines = lines_of(self.target.packages, self.corpus.lines)

    def run(self, seconds: float) -> None:
        """Run inputs for so many CPU-seconds of this process, or until the process that started it is gone."""
        rng = Random(f"{self.asked.stream}/{self.attempt}")
        self.seeds, untried = self._read_seeds(rng)
        began, parent = time.process_time() - self.spent, os.getppid()
        while not self.stopped and os.getppid() == parent:
            for _ in range(CLOCK):
                self.one(self._next(rng, untried), rng)
            self.spent = time.process_time() - began
            self.tell()
            if self.spent >= seconds:
                return

    def one(self, mutant: Mutant, rng: Random) -> Outcome | None:
        """Run one input; None if it was stepped over."""
        if self.stepping.over(mutant):
            self.skipped += 1
            return None
        self.box.remember(mutant)
        signal.setitimer(signal.ITIMER_PROF, HARD_SECONDS)
        if self.lines.always or rng.random() * SAMPLE < 1:
            return self._watched(mutant)
        outcome = self.target.run(mutant)
        if (mutant.cell, outcome.bucket) in self.pairs:
            self._found(mutant, outcome)
            return outcome
        if outcome.kind in DEAR:
            self._take(mutant, outcome, [])
            return outcome
        return self._watched(mutant)

    def _watched(self, mutant: Mutant) -> Outcome:
        with self.lines.watch() as new:
            outcome = self.target.run(mutant)
        self._take(mutant, outcome, new)
        return outcome

    def _take(self, mutant: Mutant, outcome: Outcome, new: list[str]) -> None:
        self._found(mutant, outcome)
        self.pairs.add((mutant.cell, outcome.bucket))
        known = self.corpus
        if outcome.kind in DEAR:
            return  # who replays the corpus should not have to wait; it is kept as a find
        if new or mutant.cell not in known.cells or outcome.bucket not in known.buckets:
            known.keep(mutant, outcome.bucket, new, self.target.version)
            if len(mutant.data) <= LONGEST:
                self.seeds.append(mutant.data)
            self.tell()

    def _found(self, mutant: Mutant, outcome: Outcome) -> None:
        if outcome.is_find:
            self.stepping.learn(mutant, outcome)
            self.loops.learn(outcome)
            self.finds.add(outcome, mutant, version=self.target.version, seconds=self.spent)

    def tell(self) -> None:
        """Write the counts where the process outside sees them."""
        corpus = self.corpus
        counts = (len(corpus.lines), len(corpus.cells), len(corpus.entries), len(corpus.buckets), len(self.finds.known))
        self.box.count(Progress(0, self.spent, *counts, self.skipped))

    def _next(self, rng: Random, untried: Iterator[bytes]) -> Mutant:
        if rng.random() < AS_THEY_ARE:
            data = next(untried, None)
            if data is not None:
                return as_it_is(data)
        profile = draw_profile(rng) if self.asked.profile == "mixed" else self.asked.profile
        return mutate(rng, self.seeds, profile)  # type: ignore[arg-type]  # the command line takes no others

    def _read_seeds(self, rng: Random) -> tuple[list[bytes], Iterator[bytes]]:
        """What is mutated, and what is run as it is: seeds of the corpus, and what other targets kept."""
        entries = [entry for entry in self.corpus.entries.values() if entry.size <= LONGEST]
        own = [self.corpus.data(entry) for entry in some(rng, entries, MOST_SEEDS)]
        others = [path.read_bytes() for path in some(rng, of_others(self.asked), MOST_SEEDS)]
        untried = [*corpus_seeds(), *others]
        rng.shuffle(untried)
        return [*own_seeds(), *corpus_seeds(), *own], iter(untried)


def some(rng: Random, items: list[T], most: int) -> list[T]:
    """At most *most* of *items*."""
    return items if len(items) <= most else rng.sample(items, most)


def of_others(asked: Round) -> list[Path]:
    """What other targets of the campaign have kept."""
    own = folder_name(asked.target)
    return sorted(path for path in (asked.directory / FOLDER).glob("*/*.bin") if path.parent.name != own)


def as_it_is(data: bytes) -> Mutant:
    """An input that nobody changed."""
    return Mutant(data, "bytes", ("seed",), None, cell_of(data, NO_LIE))
