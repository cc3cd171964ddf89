"""The worker of one in-process target: mutate, run, record.

Before each input the worker writes the input and its number into shared memory; the
fork server reads both after a crash.

An input is kept if it covers new lines, fills a new format cell, or gives an
outcome that was not seen before.  Every finding is on disk before the
next input runs.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from random import Random
from types import FrameType
from typing import Any, Final

import msgspec

from kafka_fuzz.campaign.coverage import LineCounter, line_counter
from kafka_fuzz.campaign.known_findings import EXPENSIVE, UNKNOWN, InputSkips
from kafka_fuzz.campaign.plan import Progress, RoundPlan
from kafka_fuzz.campaign.store import LONGEST, Corpus, Pool
from kafka_fuzz.findings import FindingStore
from kafka_fuzz.mutate import Deck, Mutant, MutantCell, mutate
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.mutate.mutant import NO_FAULT
from kafka_fuzz.mutate.plain import cell_of
from kafka_fuzz.targets import COMPILED, Target
from kafka_fuzz.targets.outcome import Outcome

# The last inputs, because what breaks the heap may be felt later.
SLOTS: Final = 8
SLOT: Final = (1 << 20) + (1 << 14)
COUNTS: Final = struct.Struct("<QdQQQQQQ")  # the fields of Progress
EXECUTIONS: Final = struct.Struct("<Q")
SIZES: Final = struct.Struct("<II")
START: Final = 4096


class MutantMeta(msgspec.Struct, frozen=True, array_like=True):
    """The metadata of a mutant."""

    profile: str
    labels: tuple[str, ...]
    cell: MutantCell


class BlackBox:
    """Counts and the last inputs, in memory that survives the process that wrote them."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, START + SLOTS * SLOT)
        self._encoder = msgspec.msgpack.Encoder()
        self.executions = 0

    def remember(self, mutant: Mutant) -> None:
        """*mutant* is about to be run."""
        self.executions += 1
        at = START + self.executions % SLOTS * SLOT
        head = self._encoder.encode((mutant.profile, mutant.labels, mutant.cell))
        data = mutant.data[: SLOT - SIZES.size - len(head)]
        SIZES.pack_into(self._memory, at, len(head), len(data))
        self._memory[at + SIZES.size : at + SIZES.size + len(head) + len(data)] = head + data
        EXECUTIONS.pack_into(self._memory, 0, self.executions)

    def count(self, progress: Progress) -> None:
        """Everything else that is counted."""
        COUNTS.pack_into(self._memory, 0, self.executions, *msgspec.structs.astuple(progress)[1:])

    def progress(self) -> Progress:
        """The latest counts."""
        progress = Progress(*COUNTS.unpack_from(self._memory, 0))
        self.executions = progress.executions
        return progress

    def last(self) -> list[Mutant]:
        """The last inputs, the newest first; the one with which the worker died, if it did, is the first."""
        newest = self.progress().executions
        return [self._read(number) for number in range(newest, max(newest - SLOTS, 0), -1)]

    def _read(self, number: int) -> Mutant:
        at = START + number % SLOTS * SLOT
        head, data = SIZES.unpack_from(self._memory, at)
        at += SIZES.size
        known = msgspec.msgpack.decode(self._memory[at : at + head], type=MutantMeta)
        return Mutant(self._memory[at + head : at + head + data], known.profile, known.labels, None, known.cell)


class EndlessFunctions:
    """Functions of a target whose loops were seen not to end."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages
        self.functions: set[str] = set()

    def learn(self, outcome: Outcome) -> None:
        """Take note of a hang."""
        if outcome.kind == "hang" and outcome.function:
            self.functions.add(outcome.function)

    def hopeless(self, frame: FrameType | None) -> bool:
        """Whether *frame* is in one of them."""
        while frame is not None:
            module = module_of(frame)
            if module.startswith(self.packages):
                return f"{module}.{frame.f_code.co_qualname}" in self.functions
            frame = frame.f_back
        return False


class LoopFinder:
    """The function that an input loops in: what stayed on the stack whenever one looked, so that it is always the same.

    It waits for no loop less than for another.
    """

    # The first looks may see what comes before the loop.
    BEFORE: Final = 8

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages
        self.looks = 0
        # Frames, because another one may have the number of one that is gone.
        self.stayed: list[FrameType] = []

    def forget(self) -> None:
        """Another input."""
        self.looks = 0
        self.stayed = []

    def look(self, frame: FrameType | None) -> bool:
        """Record the frames on the stack, for use as `Target.is_endless`; always False."""
        self.looks += 1
        stack = list(self._stack(frame))[::-1]
        if self.looks <= self.BEFORE:
            self.stayed = stack
        else:
            same = (one is other for one, other in zip(self.stayed, stack, strict=False))
            self.stayed = stack[: sum(takewhile(bool, same))]
        return False

    def _stack(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The functions of the target's packages, the innermost first."""
        while frame is not None:
            if module_of(frame).startswith(self.packages):
                yield frame
            frame = frame.f_back

    def with_loop(self, outcome: Outcome) -> Outcome:
        """*outcome*, which says the loop if it is a hang."""
        if outcome.kind != "hang" or not self.stayed:
            return outcome
        at = self.stayed[-1]
        return msgspec.structs.replace(outcome, function=f"{module_of(at)}.{at.f_code.co_qualname}")


def module_of(frame: FrameType) -> str:
    """The name of the module that a frame's function is in."""
    return frame.f_globals.get("__name__") or ""


def skip_endless(target: Target, loops: EndlessFunctions) -> Target:
    """*target*, which does not wait for *loops*."""
    return replace(target, is_endless=loops.hopeless)


def unhurried(target: Target, loop: LoopFinder) -> Target:
    """*target*, which does the same however crowded the machine is."""
    return replace(target, is_endless=loop.look, measured=False)


# A wider limit than the soft one: for loops that do not come back to the interpreter.  Where that is rare, the
# soft one has to have its chance: it counts its steps late on a crowded machine.
HARD_SECONDS: Final = 1.5
HARD_SECONDS_COMPILED: Final = 0.6
# Where rounds have to come out the same again, which of the two it was must not depend on the machine.
HARD_SECONDS_COUNTED: Final = 4.0
# If watching lines is slow, one input in SAMPLE is watched, and each one with a new outcome.  Of inputs that fill a new
# cell, or give a new outcome in their cell, one in N is watched; N grows by 1 after IN_VAIN inputs without a new line.
SAMPLE: Final = 128
IN_VAIN: Final = 16
# How often the clock is looked at, in inputs.
CLOCK: Final = 16
# So many inputs are run before the pool is complete.
AT_ONCE: Final = 4096
# A round begins with each fault once, which finds most crashes soonest.
ONE_OF_EACH: Final = len(FAULTS)
# Of the inputs, as long as there are seeds that were not run as they are.
AS_THEY_ARE: Final = 0.1


@dataclass(slots=True)
class Worker:
    """One target in this process, for as long as it lasts.

    Attributes:
        plan: of the round.
        target: runs the inputs.
        corpus, findings: stores on disk.
        skips: inputs that are not run.
        loops: endless functions of the target, which are ended at once.
        box: shared memory that survives a crash.
        pool: inputs to mutate.
        attempt: the number of crashes in this round before.
    """

    plan: RoundPlan
    target: Target
    corpus: Corpus
    findings: FindingStore
    skips: InputSkips
    loops: EndlessFunctions
    box: BlackBox
    pool: Pool
    attempt: int = 0
    deck: Deck = field(default_factory=Deck)
    lines: LineCounter = field(init=False)
    loop: LoopFinder | None = None
    hard: float = field(init=False)
    pairs: set[tuple[MutantCell, str]] = field(default_factory=set)
    in_vain: int = 0
    skipped: int = 0
    spent: float = 0.0
    stopped: bool = False
    began: float = field(default_factory=time.process_time)
    parent: int = field(default_factory=os.getppid)

    def __post_init__(self) -> None:
        """Watch the loops, and the lines that are not covered yet."""
        if self.plan.executions:
            self.loop, self.hard = LoopFinder(self.target.packages), HARD_SECONDS_COUNTED
            self.target = unhurried(self.target, self.loop)
        else:
            self.hard = hard_seconds(self.target.name)
            self.target = skip_endless(self.target, self.loops)
        self.lines = line_counter(self.target.packages, self.corpus.lines)

    def run(self, seconds: float) -> None:
        """Run inputs for so many CPU-seconds of this process, or until the process that started it is gone.

        A round whose inputs are counted is over when it has had them, whatever that takes.
        """
        rng = Random(f"{self.plan.stream}/{self.attempt}")
        while not self.is_over(seconds):
            if self.box.executions >= AT_ONCE:
                self.pool.complete()
            for _ in range(CLOCK):
                self.one(self._next(rng), rng)

    def is_over(self, seconds: float) -> bool:
        """Publish the counts; whether it is time to stop."""
        self.spent = time.process_time() - self.began
        self.publish_counts()
        most = self.plan.executions
        spent = self.box.executions >= most if most else self.spent >= seconds
        return self.stopped or spent or os.getppid() != self.parent

    def finish(self) -> None:
        """Write what is not written yet."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.findings.flush()
        self.publish_counts()

    def one(self, mutant: Mutant, rng: Random) -> Outcome | None:
        """Run one input; None if it was skipped."""
        if self.skips.skips(mutant):
            self.skipped += 1
            return None
        self.box.remember(mutant)
        signal.setitimer(signal.ITIMER_PROF, self.hard)
        if self.lines.always or rng.random() * SAMPLE < 1:
            return self._watched(mutant)
        outcome = self._ran(mutant)
        pair = (mutant.cell, outcome.bucket)
        if pair in self.pairs:
            self._found(mutant, outcome)
            return outcome
        if outcome.kind not in EXPENSIVE and self._is_odd(pair, rng):
            again = self._watched(mutant)
            if again.key != outcome.key:  # a finding that does not show twice is a finding, too
                self._found(mutant, outcome)
            return again
        self._take(mutant, outcome, [])
        return outcome

    def _ran(self, mutant: Mutant) -> Outcome:
        if self.loop is None:
            return self.target.run(mutant)
        outcome = self.loop.with_loop(self.target.run(mutant))
        self.loop.forget()
        return outcome

    def _is_odd(self, pair: tuple[MutantCell, str], rng: Random) -> bool:
        return pair[1] not in self.corpus.buckets or rng.random() * (1 + self.in_vain // IN_VAIN) < 1

    def _watched(self, mutant: Mutant) -> Outcome:
        with self.lines.watch() as new:
            outcome = self._ran(mutant)
        self.in_vain = 0 if new else self.in_vain + 1
        self._take(mutant, outcome, new)
        return outcome

    def _take(self, mutant: Mutant, outcome: Outcome, new: list[str]) -> None:
        self._found(mutant, outcome)
        self.pairs.add((mutant.cell, outcome.bucket))
        known = self.corpus
        if outcome.kind in EXPENSIVE:
            return  # kept as a finding only, so that replaying the corpus stays fast
        if new or mutant.cell not in known.cells or outcome.bucket not in known.buckets:
            known.keep(mutant, outcome.bucket, new, self.target.version)
            if len(mutant.data) <= LONGEST:
                self.pool.seeds.append(mutant.data)
            self.publish_counts()

    def _found(self, mutant: Mutant, outcome: Outcome) -> None:
        if outcome.is_finding:
            self.skips.learn(mutant, outcome)
            self.loops.learn(outcome)
            self.findings.add(outcome, mutant, version=self.target.version, seconds=self.spent)
        if outcome.kind == "wrong_data":
            self.deck.learn(mutant)

    def publish_counts(self) -> None:
        """Write the counts where the process outside sees them."""
        self.box.count(stored_progress(self.corpus, self.findings, cpu_seconds=self.spent, skipped=self.skipped))

    def _next(self, rng: Random) -> Mutant:
        if rng.random() < AS_THEY_ARE and self.pool.untried:
            return unchanged_mutant(self.pool.untried.pop())
        is_first = self.plan.profile == "mixed" and self.box.executions < ONE_OF_EACH
        return mutate(rng, self.pool.seeds, "model" if is_first else self.plan.drawn_profile(rng), self.deck)


def stored_progress(corpus: Corpus, findings: FindingStore, **counts: Any) -> Progress:
    """Progress with the sizes of both stores and the other *counts*."""
    sizes = {name: len(getattr(corpus, name)) for name in ("lines", "cells", "buckets")}
    return Progress(**sizes, corpus=len(corpus.entries), findings=len(findings.findings), **counts)


def hard_seconds(target: str) -> float:
    """How long an input of *target* may take before the process is killed, in CPU-seconds."""
    return HARD_SECONDS_COMPILED if target in COMPILED else HARD_SECONDS


def unchanged_mutant(data: bytes) -> Mutant:
    """An unchanged input."""
    return Mutant(data, "bytes", UNKNOWN, None, cell_of(data, NO_FAULT))
