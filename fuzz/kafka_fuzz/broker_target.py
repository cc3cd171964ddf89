"""The broker target: mutated payloads to a real broker, and whether it does what the reference says.

A broker that ends, or does not answer, is a find too: it is started again, and
the payloads that it got last are tried one by one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random
from typing import Final

import msgspec

from kafka_conformance.broker import local
from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.jvm import JvmBroker
from kafka_conformance.broker.releases import NEWEST
from kafka_conformance.broker.wire import WireError
from kafka_fuzz.broker.confirming import CONTEXT, Difference, confirmed, lie_of
from kafka_fuzz.broker.cost import cpu_seconds
from kafka_fuzz.broker.lanes import Asked
from kafka_fuzz.broker.oracle import Judged, Lost, Oracle
from kafka_fuzz.broker.payloads import Payloads
from kafka_fuzz.broker.settings import settings_of
from kafka_fuzz.campaign.rounds import Progress, Round, RoundReport, Tell
from kafka_fuzz.cells import Cell
from kafka_fuzz.finds import FindStore, folder_of, put
from kafka_fuzz.mutate import Mutant, corpus_seeds
from kafka_fuzz.outcome import Outcome, OutcomeClass
from kafka_records.broker.releases import MINORS, behaviour, minor_version

# As the ledger was recorded.
CONFIG: Final = {"producer.id.expiration.check.interval.ms": "86400000"}
# Differences looked at again in one turn; a broker that is wrong about everything is not worth more.
MOST_AGAIN: Final = 24
# Differences with one key that are looked at again: what has one cause comes often.
ENOUGH: Final = 3


@dataclass(slots=True)
class Rounds:
    """One round: a broker, what it is asked, and what comes of it.

    Attributes:
        executions: payloads compared.
        unsteady: differences that were not seen again.
        behaviours: answers told apart by rule, error code, and how bytes are stored.
    """

    asked: Round
    release: str
    broker: JvmBroker
    store: FindStore
    executions: int = 0
    restarts: int = 0
    unsteady: int = 0
    cells: set[Cell] = field(default_factory=set)
    behaviours: set[tuple[str, int, str | None]] = field(default_factory=set)
    new: list[str] = field(default_factory=list)
    seen: dict[tuple[str, str, str], int] = field(default_factory=dict)
    began: float = field(default_factory=cpu_seconds)

    def run(self, tell: Tell) -> None:
        """Ask until the time is up."""
        rng = Random(self.asked.stream)
        magics = (2,) if behaviour(self.release).produce[0] > 2 else (0, 1, 2)
        payloads = Payloads(rng, corpus_seeds(), magics=magics, profile=self.asked.profile)
        oracle = self._oracle(rng)
        while (spent := cpu_seconds() - self.began) < self.asked.cpu_seconds:
            try:
                judged = oracle.turn(payloads.draw)
                self._count(judged)
                self._look_again(oracle, [each for each in judged if each.different])
            except Lost as lost:
                oracle = self._find_culprit(oracle, lost, rng)
            tell(self.progress(spent))
        oracle.close()

    def _oracle(self, rng: Random) -> Oracle:
        prefix = f"fuzz-{self.restarts}"
        return Oracle(self.broker, settings_of(self.release), rng, prefix=prefix)

    def _count(self, judged: list[Judged]) -> None:
        self.executions += len(judged)
        for each in judged:
            self.cells.add(each.asked.mutant.cell)
            self.behaviours.add((each.wanted.rule, each.wanted.error_code, each.wanted.path))

    def _look_again(self, oracle: Oracle, differing: list[Judged]) -> None:
        for each in differing[:MOST_AGAIN]:
            alike = (each.different, each.wanted.rule, lie_of(each.asked.mutant))
            self.seen[alike] = self.seen.get(alike, 0) + 1
            if self.seen[alike] > ENOUGH:
                continue
            found = confirmed(oracle, self.asked.target, each)
            if found is None:
                self.unsteady += 1
            else:
                self.keep(found)

    def keep(self, found: Difference) -> None:
        """A find, on the disk when this returns."""
        self._add(found.outcome, found.mutant)
        if self.store.known[found.outcome.key].size == len(found.mutant.data):
            path = folder_of(self.asked.directory, found.outcome.key) / CONTEXT
            put(path, msgspec.json.encode(found.context))

    def _add(self, outcome: Outcome, mutant: Mutant) -> None:
        seconds = cpu_seconds() - self.began
        if self.store.add(outcome, mutant, version=self.release, seconds=seconds):
            self.new.append(outcome.key)

    def _find_culprit(self, oracle: Oracle, lost: Lost, rng: Random) -> Oracle:
        """The payload that ended the broker, by trying its suspects one by one; a new oracle."""
        kind = self._restart(oracle)
        oracle = self._oracle(rng)
        for each in lost.suspects:
            try:
                oracle.again(each.lane.settings, (), each.mutant, each.version)
            except Lost:
                kind = self._restart(oracle)
                self._add(ended(self.asked.target, kind, each), each.mutant)
                return self._oracle(rng)
        # None of them by itself: all of them together then.
        for each in lost.suspects[:1]:
            self._add(ended(self.asked.target, kind, each, "with others"), each.mutant)
        return oracle

    def _restart(self, oracle: Oracle) -> OutcomeClass:
        """Start the broker again, on an empty disk; what had become of it."""
        oracle.close()
        kind: OutcomeClass = "crash" if self.broker.has_ended() else "hang"
        self.restarts += 1
        self.broker.stop()
        self.broker = local.start(self.release, config=CONFIG)
        return kind

    def progress(self, spent: float) -> Progress:
        """How far it is."""
        return Progress(
            executions=self.executions,
            cpu_seconds=spent,
            cells=len(self.cells),
            buckets=len(self.behaviours),
            finds=len(self.store.known),
        )


def ended(target: str, kind: OutcomeClass, asked: Asked, detail: str = "") -> Outcome:
    """The broker did not survive a payload, or did not answer any more."""
    settings = ", ".join(f"{name}={value}" for name, value in asked.lane.settings.items()) or "no settings"
    return Outcome(target, kind, detail, "", lie_of(asked.mutant), f"produce {asked.version}, {settings}")


def release_of(target: str) -> str:
    """The release in `broker:RELEASE`, the newest where there is none; ValueError if the reference knows none such."""
    release = target.partition(":")[2] or NEWEST
    if minor_version(release) not in MINORS:
        raise ValueError(f"no release {release!r} is known")
    return release


def run_round(asked: Round, tell: Tell) -> RoundReport:
    """Ask a broker for as long as *asked* says; its start is not counted there, and is in the report.

    Raises:
        NoBroker: it cannot be started.
        ValueError: there is no such release.
    """
    begun, spent = time.monotonic(), cpu_seconds()
    release = release_of(asked.target)
    rounds = Rounds(asked, release, local.start(release, config=CONFIG), FindStore(asked.directory))
    failure = ""
    try:
        rounds.run(tell)
    except (NoBroker, WireError) as error:
        failure = str(error)
    finally:
        # A broker that was killed leaves no account of its time.
        spent = cpu_seconds() - spent
        rounds.broker.stop()
        rounds.store.flush()
    return RoundReport(
        target=asked.target,
        number=asked.number,
        seed=asked.seed,
        profile=asked.profile,
        engine=asked.engine,
        version=release,
        seconds=time.monotonic() - begun,
        finds_new=tuple(rounds.new),
        restarts=rounds.restarts,
        failure=failure,
        **msgspec.structs.asdict(rounds.progress(spent)),
    )
