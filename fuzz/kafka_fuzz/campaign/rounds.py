"""A round: what the supervisor asks of a child process, and what it is told.

Every kind of target is a function `run_round(asked, tell) -> RoundReport`, which
the child process calls once:

    def run_round(asked: Round, tell: Tell) -> RoundReport:
        store = FindStore(asked.directory)
        while cpu_seconds_spent() < asked.cpu_seconds:
            ...                           # mutate, run, `store.add(outcome, mutant)` at once
            tell(Progress(executions=n))  # as often as is convenient; it is cheap
        store.flush()
        return report_of(asked, Progress(...), seconds=...)

It is alone in its process, and may start others, which it ends.  It may be
killed at any moment; what it has found has to be on disk by then (`FindStore.add`
does that).  The processor time it reports is its own and that of the processes
that it started.  What it raises, and a round that executed nothing, is a failure
of the harness, never a clean round.

`KINDS` says by the first word of a target's name where its function is.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from kafka_fuzz.mutate.seeds import corpus_seeds

Engine = Literal["own", "atheris"]

# `differential:A,B` and `encode:A,B` (or without names) and `broker:RELEASE`; every other name is a target in process.
KINDS: Final = {
    "differential": "kafka_fuzz.campaign.differential:run_round",
    "encode": "kafka_fuzz.campaign.encoding:run_round",
    "broker": "kafka_fuzz.broker_target:run_round",
}
OF_TESTEES: Final = ("differential", "encode")
IN_PROCESS: Final = "kafka_fuzz.campaign.zygote:run_round"


class Round(msgspec.Struct, frozen=True):
    """What one round is asked to do.

    Attributes:
        target: its whole name, as `kafka-python`, `differential:reference,sarama`, `broker:4.4.0`.
        directory: of the campaign: `finds`, `corpus`, `state` lie below it.
        seed: of the campaign.
        number: of the round, from 0; another for every round of the campaign, whatever the target.
        cpu_seconds: how long it may take, of the processor.
        profile: of the mutators, or `mixed` for all of them, each as often as `mutate.SHARES` says.
        engine: what drives targets in process.
        blind: whether to start from nothing that the cases of the corpus hold.
        executions: how many inputs it has, so that the same round gives the same; 0 for as many as the time allows.
    """

    target: str
    directory: Path
    seed: int = 0
    number: int = 0
    cpu_seconds: float = 20.0
    profile: str = "mixed"
    engine: Engine = "own"
    blind: bool = False
    executions: int = 0

    @property
    def cases(self) -> tuple[bytes, ...]:
        """Inputs of the corpus to start from, and to run as they are."""
        return () if self.blind else corpus_seeds()

    @property
    def stream(self) -> str:
        """What to seed `random.Random` with: the same for the same round of the same campaign."""
        return f"{self.seed}/{self.target}/{self.profile}/{self.number}"


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a round is; what does not apply to a target stays 0.

    Attributes:
        executions: inputs that the target got.
        cpu_seconds: of this round.
        lines: of the target's packages, covered by this campaign.
        cells: format cells filled by this campaign.
        corpus: inputs kept for this target.
        buckets: outcomes told apart.
        finds: finds of this target, old ones too.
        skipped: inputs that were not run because they show a known find.
    """

    executions: int = 0
    cpu_seconds: float = 0.0
    lines: int = 0
    cells: int = 0
    corpus: int = 0
    buckets: int = 0
    finds: int = 0
    skipped: int = 0


class RoundReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one round did: a line of `log.ndjson`.

    Attributes:
        target, number, seed, profile, engine: as asked.
        version: of the target.
        executions, cpu_seconds, lines, cells, corpus, buckets, finds, skipped: as in `Progress`, at the end.
        seconds: wall-clock.
        finds_new: keys that this campaign had not seen before.
        restarts: how often the target's process was started again.
        interrupted: whether the round was stopped before its time.
        failure: why the harness could not do its work; empty where it could.
        at: when the round ended, in seconds since 1970; the supervisor writes it.
        campaign: the number of the first round of the campaign that it is part of; the supervisor writes it, too.
    """

    target: str
    number: int
    seed: int
    profile: str = "mixed"
    engine: Engine = "own"
    version: str = ""
    executions: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    lines: int = 0
    cells: int = 0
    corpus: int = 0
    buckets: int = 0
    finds: int = 0
    skipped: int = 0
    finds_new: tuple[str, ...] = ()
    restarts: int = 0
    interrupted: bool = False
    failure: str = ""
    at: float = 0.0
    campaign: int = 0


def report_of(asked: Round, progress: Progress, **how: Any) -> RoundReport:
    """What *asked* came to at the end; *how* are the fields of the report that neither of them has."""
    known = {name: getattr(asked, name) for name in ("target", "number", "seed", "profile", "engine")}
    return RoundReport(**known, **msgspec.structs.asdict(progress), **how)


Tell = Callable[[Progress], None]
RunRound = Callable[[Round, Tell], RoundReport]


def runner_of(target: str) -> RunRound:
    """The function that runs rounds of *target*; ImportError or AttributeError where it cannot be had."""
    module, _, name = KINDS.get(target.partition(":")[0], IN_PROCESS).partition(":")
    found: RunRound = getattr(import_module(module), name)
    return found


def found_by(target: str) -> tuple[str, ...]:
    """The names that finds of *target* have: those of its testees, where it asks several."""
    if target.partition(":")[0] not in OF_TESTEES:
        return (target,)
    from kafka_fuzz.campaign.ready import testees_of

    return testees_of(target)


def folder_name(target: str) -> str:
    """*target* as the name of a folder.

    >>> folder_name("differential:reference,aiokafka")
    'differential+reference+aiokafka'
    """
    return "".join(char if char.isalnum() or char in "-._@" else "+" for char in target)
