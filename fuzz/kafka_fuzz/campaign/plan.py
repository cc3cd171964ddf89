"""The plan of a campaign: targets, rounds, and the state kept between runs.

Every kind of target is a function `run_round(plan, on_progress) -> RoundReport`, which
the child process calls once:

    def run_round(plan: RoundPlan, on_progress: OnProgress) -> RoundReport:
        store = FindingStore(plan.directory)
        while cpu_seconds_spent() < plan.cpu_seconds:
            ...                                  # mutate, run, `store.add(outcome, mutant)` at once
            on_progress(Progress(executions=n))  # cheap: as often as is convenient
        store.flush()
        return round_report(plan, Progress(...), seconds=...)

The function is alone in its process, and may start others, which it ends.  It may be
killed at any moment; its findings have to be on disk by then (`FindingStore.add` does
that).  The CPU time in its report includes that of the processes that it started.  An
exception, and a round that executed nothing, is a failure of the harness, never a clean
round.

`KINDS` has the function of each kind, by the first word of a target's name.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, cast, get_type_hints

import msgspec

from kafka_conformance.testees.known import known_testees
from kafka_conformance.testees.recipe import is_built
from kafka_fuzz.campaign.known_findings import STATE
from kafka_fuzz.findings import with_current_fields, write_atomically
from kafka_fuzz.mutate import Profile, draw_profile
from kafka_fuzz.mutate.entries import corpus_seeds
from kafka_fuzz.targets import ALL_NAMES, NAMES


def testees_in(target: str) -> tuple[str, ...]:
    """The connect strings in *target*, in their order.

    >>> testees_in("differential:sarama,process:./mine --fast")
    ('sarama', 'process:./mine --fast')
    """
    named = target.partition(":")[2]
    return tuple(filter(None, named.split(","))) if named else tuple(ready_testees())


def unrun_testees(target: str, cannot_run: Mapping[str, str], executions: Mapping[str, int]) -> str:
    """Why testees that *target* names executed nothing; empty if *target* names none.

    >>> unrun_testees("differential:a,b,c", {"a": "it died", "b": "no jar"}, {"a": 9, "c": 9})
    'b did not run: no jar'
    """
    if not target.partition(":")[2]:
        return ""
    return "; ".join(f"{name} did not run: {why}" for name, why in cannot_run.items() if not executions.get(name))


def ready_testees() -> Iterator[str]:
    """The known testees that can run here as they are, but for the reference."""
    for known in known_testees():
        if known.name != "reference" and not known.missing() and (known.recipe is None or is_built(known.recipe)):
            yield known.name


Engine = Literal["own", "atheris"]

# `differential:A,B` and `encode:A,B` (or without names) and `broker:RELEASE`; every other name is a target in process.
KINDS: Final = {
    "differential": "kafka_fuzz.campaign.differential:run_differential_round",
    "encode": "kafka_fuzz.campaign.encoding:run_encode_round",
    "broker": "kafka_fuzz.broker_target:run_broker_round",
}
OF_TESTEES: Final = ("differential", "encode")
IN_PROCESS: Final = "kafka_fuzz.campaign.fork_worker:run_in_process_round"


class RoundPlan(msgspec.Struct, frozen=True):
    """The plan of one round.

    Attributes:
        target: its whole name, as `kafka-python`, `differential:reference,sarama`, `broker:4.4.0`.
        directory: of the campaign: `finds`, `corpus` and `state` are folders in it.
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

    def drawn_profile(self, rng: Random) -> Profile:
        """The profile of the next mutant."""
        return draw_profile(rng) if self.profile == "mixed" else cast("Profile", self.profile)

    @property
    def stream(self) -> str:
        """The seed of `random.Random`, equal for the same round of the same campaign."""
        return f"{self.seed}/{self.target}/{self.profile}/{self.number}"


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a round is; what does not apply to a target stays 0.

    Attributes:
        executions: inputs that the target got.
        cpu_seconds: of this round.
        lines: of the target's packages, covered by this campaign.
        cells: format cells filled by this campaign.
        corpus: inputs kept for this target.
        buckets: distinct outcomes.
        findings: findings of this target, old ones too.
        skipped: inputs that were not run because they show a known finding.
    """

    executions: int = 0
    cpu_seconds: float = 0.0
    lines: int = 0
    cells: int = 0
    corpus: int = 0
    buckets: int = 0
    findings: int = 0
    skipped: int = 0


class RoundReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The report of one round: a line of `log.ndjson`.

    Attributes:
        target, number, seed, profile, engine: as in the plan.
        version: of the target.
        executions, cpu_seconds, lines, cells, corpus, buckets, findings, skipped: as in `Progress`, at the end.
        seconds: wall-clock.
        new_findings: keys that this campaign had not seen before.
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
    findings: int = 0
    skipped: int = 0
    new_findings: tuple[str, ...] = ()
    restarts: int = 0
    interrupted: bool = False
    failure: str = ""
    at: float = 0.0
    campaign: int = 0


def round_report(plan: RoundPlan, progress: Progress, **how: Any) -> RoundReport:
    """The report of *plan* with its final *progress*; *how* are the remaining fields."""
    known = {name: getattr(plan, name) for name in ("target", "number", "seed", "profile", "engine")}
    return RoundReport(**known, **msgspec.structs.asdict(progress), **how)


def plan_arguments(plan: RoundPlan) -> list[str]:
    """*plan* as arguments of a command: `name=value` for each field."""
    return [f"{name}={value}" for name, value in msgspec.structs.asdict(plan).items()]


def parsed_plan(arguments: Iterable[str]) -> RoundPlan:
    """The plan of which *arguments* are the fields.

    >>> parsed_plan(["target=t", "directory=d", "blind=True"])
    RoundPlan(target='t', directory=PosixPath('d'), seed=0, number=0, cpu_seconds=20.0, profile='mixed', engine='own', blind=True, executions=0)
    """  # noqa: E501  # one value
    types: dict[str, Any] = get_type_hints(RoundPlan) | {"engine": str, "blind": lambda text: text == "True"}
    fields = (argument.partition("=") for argument in arguments)
    return RoundPlan(**{name: types[name](text) for name, _, text in fields})


OnProgress = Callable[[Progress], None]
RunRound = Callable[[RoundPlan, OnProgress], RoundReport]


@contextmanager
def on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """Call *stop* when this process receives SIGTERM."""
    before = signal.signal(signal.SIGTERM, lambda *_: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def round_runner(target: str) -> RunRound:
    """The function that runs rounds of *target*; ImportError or AttributeError where it cannot be had."""
    module, _, name = KINDS.get(target.partition(":")[0], IN_PROCESS).partition(":")
    found: RunRound = getattr(import_module(module), name)
    return found


def finding_targets(target: str) -> tuple[str, ...]:
    """The targets that findings of *target* name: its testees, if it runs several."""
    if target.partition(":")[0] not in OF_TESTEES:
        return (target,)
    return testees_in(target)


def target_folder(target: str) -> str:
    """*target* as the name of a folder.

    >>> target_folder("differential:reference,aiokafka")
    'differential+reference+aiokafka'
    """
    return "".join(char if char.isalnum() or char in "-._@" else "+" for char in target)


LOG: Final = "log.ndjson"
CAMPAIGN: Final = "campaign.json"
LOCK: Final = "lock"
ALL: Final = "all"
# What has to be installed for a target in process.
NEEDS: Final = {"kafka-python": ("kafka",), "aiokafka-pure": ("aiokafka",), "aiokafka": ("aiokafka",)}
# CPU-seconds of a round: half of what there is to find shows in the first second, nine tenths in ten.
ROUND_SECONDS: Final = 30.0
LEAST_ROUND: Final = 1.0
# The promises of the reference, which are six targets: each has half the CPU time of a target with codecs of others.
OWN_WEIGHT: Final = 0.5
OWN_TARGETS: Final = frozenset({"reference", "roundtrip", "explain", "append", "convert", "decompress"})


def target_weight(target: str) -> float:
    """The share of CPU time of *target*, relative to those of others."""
    return OWN_WEIGHT if target in OWN_TARGETS else 1.0


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """The plan of a campaign.

    Attributes:
        targets: their names.
        directory: the folder of the campaign.
        seconds: wall-clock.
        jobs: rounds at a time.
        seed: of the campaign; None for the seed of the folder.
        profile, engine: as in `RoundPlan`.
        round_seconds: of the processor, for each round; None for what fits *seconds*.
        blind: whether to leave out the cases of the corpus, which shows what the mutators find alone.
        cpu_seconds: of all targets together, after which the campaign ends, too; None for no such limit.
    """

    targets: tuple[str, ...]
    directory: Path
    seconds: float
    jobs: int
    seed: int | None = None
    profile: str = "mixed"
    engine: Engine = "own"
    round_seconds: float | None = None
    blind: bool = False
    cpu_seconds: float | None = None

    def each(self, target: str) -> float:
        """CPU-seconds of a round of *target*, for each of its testees: every target has its turn, twice if possible."""
        if self.round_seconds is not None:
            return self.round_seconds
        weights = sum(map(target_weight, self.targets))
        share = self.seconds * self.jobs * target_weight(target) / weights
        if target.partition(":")[0] in OF_TESTEES:
            # Starting a testee takes long: all of its share in one round.
            return max(min(ROUND_SECONDS, share / max(1, len(testees_in(target)))), LEAST_ROUND)
        return max(min(ROUND_SECONDS, share / 2), LEAST_ROUND)


class CampaignState(msgspec.Struct, frozen=True):
    """The state of a campaign that its folder keeps.

    Attributes:
        seed: of the campaign.
        next_round: the number of the round after the last that was begun.
    """

    seed: int = 1
    next_round: int = 0


def read_state(directory: Path) -> CampaignState:
    """Read the campaign state of *directory*; a new state if there is none."""
    try:
        return msgspec.json.decode((directory / STATE / CAMPAIGN).read_bytes(), type=CampaignState)
    except (FileNotFoundError, msgspec.MsgspecError):
        numbers = [report.number for report in read_log(directory)]
        return CampaignState(next_round=max(numbers, default=-1) + 1)


def write_state(directory: Path, memory: CampaignState) -> None:
    """Write it, all or nothing."""
    write_atomically(directory / STATE / CAMPAIGN, msgspec.json.encode(memory))


def complete_last_line(file: int) -> None:
    """End the last line of a file that is open for reading and appending, if a crash or a full disk cut it off."""
    end = os.lseek(file, 0, os.SEEK_END)
    if end and os.pread(file, 1, end - 1) != b"\n":
        os.write(file, b"\n")


def log_round(directory: Path, report: RoundReport, campaign: int) -> RoundReport:
    """One line more in the log, which is on the disk before this returns."""
    report = msgspec.structs.replace(report, at=round(time.time(), 3), campaign=campaign)
    with (directory / LOG).open("ab+") as file:
        complete_last_line(file.fileno())
        file.write(msgspec.json.encode(report) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return report


def read_log(directory: Path) -> Iterator[RoundReport]:
    """The rounds of all campaigns in *directory*; what is no report is left out."""
    with suppress(FileNotFoundError):
        for line in with_current_fields((directory / LOG).read_bytes()).splitlines():
            with suppress(msgspec.MsgspecError):
                yield msgspec.json.decode(line, type=RoundReport)


def unknown_targets(names: Sequence[str]) -> list[str]:
    """Those of *names* that no target has."""
    return [name for name in names if name not in (*ALL_NAMES, ALL) and name.partition(":")[0] not in KINDS]


def expand_targets(names: Sequence[str]) -> tuple[str, ...]:
    """*names*, each once; `all` becomes everything that can run here."""
    return tuple(dict.fromkeys(each for name in names for each in (all_targets() if name == ALL else (name,))))


def all_targets() -> Iterator[str]:
    """The reference's promises, Python codecs that are installed, and the known testees that can run here."""
    for name in NAMES:
        if all(find_spec(package) for package in NEEDS.get(name, ())):
            yield name
    if next(ready_testees(), None) is not None:
        yield from OF_TESTEES


@contextmanager
def campaign_lock(directory: Path) -> Iterator[None]:
    """Keep other campaigns out of *directory*; BlockingIOError if one is there."""
    (directory / STATE).mkdir(parents=True, exist_ok=True)
    with (directory / STATE / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
