"""Rounds of `differential:A,B`: testees in their own processes, which run the same inputs.

`differential` alone means all known testees that can run here without a build.  Later
rounds skip the inputs that crashed a testee, too, until its version changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from kafka_conformance.testees.known import connect
from kafka_fuzz.campaign.known_findings import STATE, KnownFinding, gone_ids, read_known_findings
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
from kafka_fuzz.campaign.store import CORPUS_FOLDER, LONGEST, MOST, Corpus, sample_most
from kafka_fuzz.campaign.worker import AS_THEY_ARE, unchanged_mutant
from kafka_fuzz.differential.compare import Differential, InputResult, SequentialDifferential, TesteeSession
from kafka_fuzz.findings import FindingStore, folder_lock, write_atomically
from kafka_fuzz.mutate import Deck, Mutant, mutate, own_seeds

FALLEN: Final = "differential.json"
# Kept as findings and not as inputs, so that replaying the corpus stays fast.
EXPENSIVE: Final = frozenset({"hang", "memory", "amplification"})


@dataclass(slots=True)
class DifferentialRound:
    """One round.

    Attributes:
        plan: of the round.
        session: the testees.
        corpus, findings: stores on disk.
        known: entries of known findings whose faults are skipped.
        stopped: whether SIGTERM was received.
        new: keys that the folder did not hold.
    """

    plan: RoundPlan
    session: Differential
    corpus: Corpus
    findings: FindingStore
    known: list[KnownFinding] = field(default_factory=list)
    stopped: bool = False
    new: list[str] = field(default_factory=list)
    seeds: list[bytes] = field(default_factory=list)
    skipped: int = 0

    def run(self, on_progress: OnProgress) -> None:
        """Run inputs until the time is over or the round is stopped."""
        self._recall()
        spent, parent = time.process_time(), os.getppid()
        limit, most = self.plan.cpu_seconds * len(self.session.testees), self.plan.executions

        def go_on() -> bool:
            on_progress(self.progress())
            if self.stopped or os.getppid() != parent:
                return False
            return (
                self.session.inputs < most if most else time.process_time() - spent + self.session.cpu_seconds < limit
            )

        for judgement in self.session.run(self._mutants(), go_on):
            self._take(judgement)

    def _mutants(self) -> Iterator[Mutant]:
        rng, deck = Random(self.plan.stream), Deck()
        others = sorted((self.plan.directory / CORPUS_FOLDER).glob("*/*.bin"))
        entries = [path for path in others if path.stat().st_size <= LONGEST]
        kept = [path.read_bytes() for path in sample_most(rng, entries, MOST)]
        cases = self.plan.cases
        untried = [*cases, *kept]
        rng.shuffle(untried)
        self.seeds += [*own_seeds(), *cases, *kept]
        while True:
            if untried and rng.random() < AS_THEY_ARE:
                yield unchanged_mutant(untried.pop())
                continue
            yield mutate(rng, self.seeds, self.plan.drawn_profile(rng), deck)

    def _take(self, judgement: InputResult) -> None:
        mutant, testees = judgement.mutant, {each.judge.name: each for each in self.session.testees}
        for outcome in judgement.outcomes:
            testee = testees[outcome.target]
            spent = testee.feed.cpu_seconds
            if self.findings.add(outcome, mutant, version=testee.hello.version, seconds=spent):
                self.new.append(outcome.key)
        if judgement.outcome_tuple:
            self.findings.add_outcomes(mutant.data, judgement.outcome_tuple)
        if judgement.new and not EXPENSIVE & set(judgement.outcome_tuple):
            self.corpus.keep(mutant, self.session.outcome_tuples.text(judgement.outcome_tuple))
            if len(mutant.data) <= LONGEST:
                self.seeds.append(mutant.data)

    def _recall(self) -> None:
        """Load cells, outcome tuples and skip weights of earlier rounds."""
        self.session.cells |= self.corpus.cells
        self.session.outcome_tuples.load(self.corpus.buckets)
        fallen = read_fallen(self.plan.directory)
        for testee in self.session.testees:
            testee.skip_weights.update(fallen.get(versioned_name(testee), {}))
            for rule in self.known:
                if rule.testee == testee.judge.name:
                    testee.skip_weights.update(dict.fromkeys(rule.faults, 1.0))

    def remember(self) -> None:
        """Write what this one has learnt."""
        folder = self.plan.directory / STATE
        with folder_lock(folder):  # other rounds learn about other testees meanwhile
            fallen = read_fallen(self.plan.directory)
            fallen |= {versioned_name(testee): dict(testee.skip_weights) for testee in self.session.testees}
            write_atomically(folder / FALLEN, msgspec.json.encode(fallen))

    def progress(self) -> Progress:
        """How far it is."""
        return Progress(
            executions=self.session.executions,
            cpu_seconds=time.process_time() + self.session.cpu_seconds,
            cells=len(self.session.cells),
            corpus=len(self.corpus.entries),
            buckets=len(self.session.outcome_tuples.seen),
            findings=len(self.findings.findings),
            skipped=sum(sum(testee.skipped.values()) for testee in self.session.testees),
        )


def versioned_name(testee: TesteeSession) -> str:
    """The testee with its version: another version may crash on other inputs."""
    return f"{testee.judge.name} {testee.hello.version}"


def read_fallen(directory: Path) -> dict[str, dict[str, float]]:
    """Skip weights of earlier rounds, by testee and cause."""
    with suppress(FileNotFoundError, msgspec.MsgspecError):
        return msgspec.json.decode((directory / STATE / FALLEN).read_bytes(), type=dict[str, dict[str, float]])
    return {}


def run_differential_round(plan: RoundPlan, on_progress: OnProgress) -> RoundReport:
    """Run the testees for *plan.cpu_seconds* each, including this process, or for *plan.executions* inputs.

    Raises:
        BadConnect, CannotRun: one of the names is none, or no testee starts.
    """
    began = time.monotonic()
    names = testees_in(plan.target)
    session = (SequentialDifferential if plan.executions else Differential)([connect(name) for name in names])
    corpus, findings = Corpus(plan.directory, plan.target), FindingStore(plan.directory, "", "differential", names)
    gone = gone_ids(plan.directory)
    known = [rule for rule in read_known_findings(plan.directory) if rule.id not in gone]
    rounds = DifferentialRound(plan, session, corpus, findings, known)

    def stop() -> None:
        rounds.stopped = True
        session.hurry(0.0)

    with closing(corpus), on_sigterm(stop), session:
        try:
            rounds.run(on_progress)
        finally:
            rounds.remember()
            if not rounds.stopped:  # writing thousands of counts would delay the end
                findings.flush()
    return differential_report(rounds, time.monotonic() - began)


def differential_report(rounds: DifferentialRound, seconds: float) -> RoundReport:
    """The report of a round."""
    plan, session = rounds.plan, rounds.session
    versions = [versioned_name(testee) for testee in session.testees]
    silent = {each.judge.name: "it can decode no format" for each in session.testees if reads_nothing(each)}
    cannot_run = silent | session.cannot_run
    missing = [f"{name} did not run: {why}" for name, why in cannot_run.items()]
    executions = {each.judge.name: each.feed.executions for each in session.testees}
    return round_report(
        plan,
        rounds.progress(),
        version=", ".join([*versions, *missing]),
        seconds=round(seconds, 3),
        new_findings=tuple(rounds.new),
        restarts=sum(testee.feed.tally.starts - 1 for testee in session.testees),
        interrupted=rounds.stopped,
        failure=unrun_testees(plan.target, cannot_run, executions),
    )


def reads_nothing(testee: TesteeSession) -> bool:
    """Whether it can decode no format."""
    return not testee.hello.decode.magics
