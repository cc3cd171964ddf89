"""Rounds of `encode:A,B`: testees encode batches with odd values in them.

`encode` alone means all known testees that can run here and can encode.  A value that
crashes a testee repeatedly is not sent to it again in the round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kafka_conformance.judge.observation import Observation
from kafka_conformance.process.cpu_time import cpu_seconds
from kafka_conformance.testees.connection import CannotRun
from kafka_fuzz.campaign.plan import (
    OnProgress,
    Progress,
    RoundPlan,
    RoundReport,
    on_sigterm,
    round_report,
    testees_in,
    unrun_testees,
)
from kafka_fuzz.encode import EncodeTestee, Writing, draw, encode_outcome, mutant_of, started
from kafka_fuzz.findings import FindingStore
from kafka_fuzz.targets.outcome import Outcome

# Batches that every testee encodes between two looks at the clock.
TURN: Final = 64
EXPENSIVE: Final = frozenset({"crash", "hang", "memory"})


@dataclass(slots=True)
class EncodeRound:
    """One round.

    Attributes:
        writers, ended: testees that run, and testees that could not be started again.
        outcomes: keys that were seen.
        flaky: keys that a second, single request did not show again.
    """

    plan: RoundPlan
    findings: FindingStore
    writers: list[EncodeTestee] = field(default_factory=list)
    ended: list[EncodeTestee] = field(default_factory=list)
    cannot_run: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    cells: set[object] = field(default_factory=set)
    outcomes: set[str] = field(default_factory=set)
    flaky: set[str] = field(default_factory=set)
    spent: float = 0.0
    inputs: int = 0
    stopped: bool = False

    def start(self, names: Sequence[str], stack: ExitStack) -> None:
        """Start the testees; CannotRun if none starts that can encode."""
        for name in names:
            try:
                writer = started(name, stack)
            except CannotRun as error:
                self.cannot_run[name] = str(error)
                continue
            if writer.writes:
                self.writers.append(writer)
            elif self.plan.target.partition(":")[2]:  # a testee that was named has to run
                self.cannot_run[name] = "it cannot encode"
        if not self.writers:
            raise CannotRun("; ".join(self.cannot_run.values()) or "no testee can encode")

    def run(self, on_progress: OnProgress) -> None:
        """Send batches until the time is over or the round is stopped."""
        rng, began = Random(self.plan.stream), cpu_seconds()
        limit, most, parent = self.plan.cpu_seconds * len(self.writers), self.plan.executions, os.getppid()
        with ThreadPoolExecutor(len(self.writers)) as pool:
            while not self.stopped and self.writers and self.spent < limit and os.getppid() == parent:
                if most and (self.inputs >= most or self.cannot_run):
                    return
                self.inputs += TURN
                turn = [draw(rng) for _ in range(TURN)]
                self.cells |= {each.cell for each in turn}
                plan = [*self.writers]
                for writer, answers in zip(plan, pool.map(self._encode, plan, [turn] * len(plan)), strict=True):
                    self._take(writer, answers)
                self.spent = cpu_seconds() - began
                on_progress(self.progress())

    def _encode(self, writer: EncodeTestee, turn: Sequence[Writing]) -> list[tuple[Writing, Observation]]:
        try:
            return writer.observe(turn)
        except CannotRun as error:
            self.cannot_run[writer.name] = str(error)
            return []

    def _take(self, writer: EncodeTestee, answers: Sequence[tuple[Writing, Observation]]) -> None:
        for writing, seen in answers:
            outcome = encode_outcome(writer.name, writing, seen)
            if outcome.key in self.flaky or not self._is_sure(writer, writing, outcome):
                self.flaky.add(outcome.key)
                continue
            self.outcomes.add(outcome.key)
            if outcome.kind in EXPENSIVE:
                writer.fallen[writing.value] += 1
            if outcome.is_finding and self.findings.add(
                outcome, mutant_of(writing), version=writer.hello.version, seconds=self.spent
            ):
                self.new.append(outcome.key)
        if writer.name in self.cannot_run:
            self.writers.remove(writer)
            self.ended.append(writer)

    def _is_sure(self, writer: EncodeTestee, writing: Writing, outcome: Outcome) -> bool:
        """Whether a new finding shows again in a single request, without effects of earlier requests."""
        if not outcome.is_finding or outcome.key in self.outcomes or outcome.key in self.findings.findings:
            return True
        again = self._encode(writer, [writing])
        return any(encode_outcome(writer.name, writing, seen).key == outcome.key for _, seen in again)

    def progress(self) -> Progress:
        """How far it is."""
        return Progress(
            executions=sum(writer.executions for writer in (*self.writers, *self.ended)),
            cpu_seconds=self.spent,
            cells=len(self.cells),
            buckets=len(self.outcomes),
            findings=len(self.findings.findings),
            skipped=sum(writer.skipped for writer in (*self.writers, *self.ended)),
        )


def run_encode_round(plan: RoundPlan, on_progress: OnProgress) -> RoundReport:
    """Run the testees for *plan.cpu_seconds* each, including this process, or for *plan.executions* inputs.

    Raises:
        BadConnect, CannotRun: one of the names is none, or no testee starts that writes.
    """
    began = time.monotonic()
    rounds = EncodeRound(plan, FindingStore(plan.directory, mode="encode"))

    def stop() -> None:
        rounds.stopped = True

    try:
        with on_sigterm(stop), ExitStack() as stack:
            rounds.start(testees_in(plan.target), stack)
            rounds.run(on_progress)
    finally:
        rounds.findings.flush()
    missing = [f"{name} did not run: {why}" for name, why in rounds.cannot_run.items()]
    versions = [f"{writer.name} {writer.hello.version}" for writer in rounds.writers]
    executions = {writer.name: writer.executions for writer in (*rounds.writers, *rounds.ended)}
    return round_report(
        plan,
        rounds.progress(),
        version=", ".join([*versions, *missing]),
        seconds=round(time.monotonic() - began, 3),
        new_findings=tuple(rounds.new),
        restarts=sum(max(writer.sandbox.tally.starts - 1, 0) for writer in rounds.writers),
        interrupted=rounds.stopped,
        # Counted rounds have to come out the same again.
        failure="; ".join(missing) if plan.executions else unrun_testees(plan.target, rounds.cannot_run, executions),
    )
