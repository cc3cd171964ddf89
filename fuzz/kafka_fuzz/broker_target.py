"""The broker target: mutated payloads for a real broker, whose answers are compared with the reference's.

A broker that ends or does not answer is a finding, too: it is started again, and
its last payloads are tried one by one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from random import Random
from typing import Final

import msgspec

from kafka_brokers import jvm
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import WireError
from kafka_conformance.process.cpu_time import cpu_seconds
from kafka_fuzz.broker import lanes
from kafka_fuzz.broker.confirming import (
    CONTEXT,
    BrokerDifference,
    confirm_difference,
    entry_format,
    fault_of,
    shrink_difference,
)
from kafka_fuzz.broker.lanes import CONFIG, FLAGS, LaneRequest, release_of, topic_settings
from kafka_fuzz.broker.oracle import BrokerLost, JudgedPayload, Oracle
from kafka_fuzz.broker.payloads import Payloads
from kafka_fuzz.campaign.known_findings import InputSkips, gone_ids, read_known_findings
from kafka_fuzz.campaign.plan import OnProgress, Progress, RoundPlan, RoundReport, round_report
from kafka_fuzz.campaign.store import Corpus, other_inputs, sample_most
from kafka_fuzz.findings import FindingStore, finding_folder, write_atomically
from kafka_fuzz.mutate import Mutant, own_seeds
from kafka_fuzz.shrink import NotShown
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass
from kafka_records import LogState
from kafka_records.broker.releases import behaviour

# Turns between readings of the CPU time; with many processes one reading takes as long as comparing 100 payloads.
TURNS_BETWEEN_LOOKS: Final = 4
# Differences that are confirmed in one turn.
MOST_AGAIN: Final = 24
# Confirmations of differences with the same field, rule and fault.
ENOUGH: Final = 3
# Inputs that are mutated, from the target's corpus and from those of other targets, and their length.
MOST_SEEDS: Final = 2000
LONGEST: Final = 4096


@dataclass(slots=True)
class BrokerRound:
    """One round: a broker, its payloads, and the results.

    Attributes:
        executions: payloads compared.
        skipped: payloads that were not sent, because similar ones ended the broker.
        restarts: restarts of the broker.
        new: keys of findings that are new to the campaign.
        spent: CPU-seconds of this process and the broker since its start, at the last reading.
        stopped: whether the round has to stop after the current turn.
    """

    plan: RoundPlan
    release: str
    broker: JvmBroker
    findings: FindingStore
    corpus: Corpus
    skips: InputSkips
    executions: int = 0
    skipped: int = 0
    restarts: int = 0
    new: list[str] = field(default_factory=list)
    alike: dict[tuple[str, str, str], int] = field(default_factory=dict)
    began: float = field(default_factory=cpu_seconds)
    spent: float = 0.0
    stopped: bool = False

    def run(self, on_progress: OnProgress) -> None:
        """Produce payloads until the CPU time is used up or the round is stopped."""
        rng, parent = Random(self.plan.stream), os.getppid()
        payloads = self._payloads(rng)
        oracle = self._oracle(rng)
        for turn in count():
            if turn % TURNS_BETWEEN_LOOKS == 0:
                self.spent = cpu_seconds() - self.began
            if self.stopped or os.getppid() != parent or self.spent >= self.plan.cpu_seconds:
                break
            try:
                judged = oracle.turn(lambda log: self._draw(payloads, log))
                self._take(judged)
                self._look_again(oracle, [each for each in judged if each.different])
            except BrokerLost as lost:
                oracle = self._find_culprit(oracle, lost, rng)
            on_progress(self.progress(self.spent))
        oracle.close()

    def _payloads(self, rng: Random) -> Payloads:
        magics = (2,) if behaviour(self.release).produce[0] > 2 else (0, 1, 2)
        kept = [self.corpus.data(entry) for entry in self.corpus.entries.values() if entry.size <= LONGEST]
        others = [path.read_bytes() for path in sample_most(rng, other_inputs(self.corpus), MOST_SEEDS)]
        seeds = (
            *(self.plan.cases or own_seeds()),
            *sample_most(rng, kept, MOST_SEEDS),
            *(data for data in others if len(data) <= LONGEST),
        )
        return Payloads(rng, seeds, magics=magics, profile=self.plan.profile)

    def _oracle(self, rng: Random) -> Oracle:
        return Oracle(
            self.broker, topic_settings(self.release), rng, transactional=lanes.transactional_settings(self.release)
        )

    def _draw(self, payloads: Payloads, log: LogState) -> Mutant:
        while self.skips.skips(mutant := payloads.draw(log)):
            self.skipped += 1
        return mutant

    def _take(self, judged: list[JudgedPayload]) -> None:
        """Count the payloads, and keep those with a new cell or a new kind of answer."""
        self.executions += len(judged)
        for each in judged:
            mutant, wanted = each.request.mutant, each.wanted
            bucket = f"{wanted.rule}|{wanted.error_code}|{wanted.path}|{entry_format(mutant.data)}"
            if mutant.cell not in self.corpus.cells or bucket not in self.corpus.buckets:
                self.corpus.keep(mutant, bucket, version=self.release)

    def _look_again(self, oracle: Oracle, differing: list[JudgedPayload]) -> None:
        for each in differing[:MOST_AGAIN]:
            alike = (each.different, each.wanted.rule, fault_of(each.request.mutant))
            self.alike[alike] = self.alike.get(alike, 0) + 1
            if self.alike[alike] <= ENOUGH and (found := confirm_difference(oracle, self.plan.target, each)):
                self.keep(found)
                with suppress(NotShown):  # it is not reproduced each time
                    self.keep(shrink_difference(oracle, found))

    def keep(self, found: BrokerDifference) -> None:
        """Write a finding and its context to disk."""
        self._add(found.outcome, found.mutant)
        if self.findings.findings[found.outcome.key].sha256 == sha256(found.mutant.data).hexdigest():
            path = finding_folder(self.plan.directory, found.outcome.key) / CONTEXT
            write_atomically(path, msgspec.json.encode(found.context))

    def _add(self, outcome: Outcome, mutant: Mutant) -> None:
        self.skips.learn(mutant, outcome)
        if self.findings.add(outcome, mutant, version=self.release, seconds=self.spent):
            self.new.append(outcome.key)

    def _find_culprit(self, oracle: Oracle, lost: BrokerLost, rng: Random) -> Oracle:
        """Find the payload that ended the broker by trying the suspects one by one; returns a new oracle."""
        kind = self._restart(oracle)
        oracle = self._oracle(rng)
        for each in lost.suspects:
            try:
                oracle.again(each.lane.settings, (), each.mutant, each.version)
            except BrokerLost:
                kind = self._restart(oracle)
                self._add(broker_lost_outcome(self.plan.target, kind, each), each.mutant)
                return self._oracle(rng)
        for each in lost.suspects[:1]:  # no single suspect reproduces it
            self._add(broker_lost_outcome(self.plan.target, kind, each, "with others"), each.mutant)
        return oracle

    def _restart(self, oracle: Oracle) -> OutcomeClass:
        """Start the broker again on an empty disk; returns whether it had crashed or hung."""
        oracle.close()
        kind: OutcomeClass = "crash" if self.broker.has_ended() else "hang"
        self.restarts += 1
        self.broker.stop()
        self.broker = jvm.start_jvm(self.release, config=CONFIG, flags=FLAGS)
        return kind

    def progress(self, spent: float) -> Progress:
        """The progress so far."""
        return Progress(
            executions=self.executions,
            cpu_seconds=spent,
            cells=len(self.corpus.cells),
            corpus=len(self.corpus.entries),
            buckets=len(self.corpus.buckets),
            findings=sum(finding.outcome.target == self.plan.target for finding in self.findings.findings.values()),
            skipped=self.skipped,
        )


def broker_lost_outcome(target: str, kind: OutcomeClass, plan: LaneRequest, detail: str = "") -> Outcome:
    """The outcome of a payload after which the broker ended or did not answer."""
    settings = ", ".join(f"{name}={value}" for name, value in plan.lane.settings.items()) or "no settings"
    return Outcome(target, kind, detail, "", fault_of(plan.mutant), f"produce {plan.version}, {settings}")


def run_broker_round(plan: RoundPlan, on_progress: OnProgress) -> RoundReport:
    """Fuzz a broker for the CPU time in *plan*; the start of the broker counts only in the report.

    Raises:
        NoBroker: it cannot be started.
        ValueError: there is no such release, or a list of known findings cannot be read.
    """
    begun, spent = time.monotonic(), cpu_seconds()
    release = release_of(plan.target)
    stepping = InputSkips(plan.target, read_known_findings(plan.directory), gone_ids(plan.directory))
    store, corpus = FindingStore(plan.directory), Corpus(plan.directory, plan.target)
    turns = BrokerRound(plan, release, jvm.start_jvm(release, config=CONFIG, flags=FLAGS), store, corpus, stepping)
    failure = ""
    try:
        with stopping(turns):
            turns.run(on_progress)
    except (NoBroker, WireError) as error:
        failure = str(error)
    finally:
        # The CPU time of a killed broker is lost, so it is read before.
        spent = cpu_seconds() - spent
        turns.broker.stop()
        store.flush()
        corpus.close()
    return round_report(
        plan,
        turns.progress(spent),
        version=release,
        seconds=time.monotonic() - begun,
        new_findings=tuple(turns.new),
        restarts=turns.restarts,
        interrupted=turns.stopped,
        failure=failure,
    )


@contextmanager
def stopping(turns: BrokerRound) -> Iterator[None]:
    """SIGTERM ends *turns* after the current turn."""

    def stop(*_: object) -> None:
        turns.stopped = True

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
