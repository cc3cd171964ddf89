"""Benchmarks of fuzzing: executions, buckets, planted bugs, first crash, rates.

Inputs and their expected results are made before the clock starts, because a
campaign makes them once for any number of testees.  Inputs that crash the
testee, and those that take it more than a millisecond alone, are set aside and
counted: a campaign reports them as findings and then skips them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, Literal, NamedTuple

import msgspec

from benchmarks.fuzz_outcomes import MIX, PLAIN, OutcomeRepeat
from kafka_conformance.judge.observation import Crashed, Exceeded, Garbled, Hung
from kafka_conformance.testees.known import connect
from kafka_fuzz.broker_target import run_broker_round
from kafka_fuzz.campaign.plan import OnProgress, Progress, RoundPlan, RoundReport
from kafka_fuzz.campaign.supervisor import round_command
from kafka_fuzz.differential.feed import AHEAD, BATCH, Feed
from kafka_fuzz.differential.outcome_tuples import Grader, Prepared
from kafka_fuzz.findings import read_findings
from kafka_fuzz.mutate import PROFILES, draw_profile, mutate, own_seeds
from kafka_fuzz.planted_bugs import PLANTED_BUGS, InputSeries, search_difference
from kafka_fuzz.planted_bugs.bug import BatchDecoder

TARGETS: Final = ("kafka-python", "aiokafka-pure")
COLUMNS: Final = (PLAIN, *PROFILES, MIX)


def measure_outcomes(
    repeats: int, seconds: float, targets: Sequence[str] = TARGETS, profiles: Sequence[str] = COLUMNS, jobs: int = 1
) -> Iterator[OutcomeRepeat]:
    """Every repeat of every profile and target, each in a process of its own; CannotMeasure where one ends early."""
    plan = list(product(range(repeats), targets, profiles))
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda one: run_repeat(one[1], one[2], one[0], seconds), plan)


def run_repeat(target: str, profile: str, seed: int, seconds: float) -> OutcomeRepeat:
    """One repeat."""
    command = [sys.executable, "-m", "benchmarks.fuzz_outcomes", target, profile, str(seed), str(seconds)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise CannotMeasure(f"{target}, {profile}: {done.stderr.decode(errors='replace')[-300:]}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=OutcomeRepeat)


class CannotMeasure(Exception):
    """A repeat ended without a result."""


Counted = Literal["ends", "firsts", "findings"]
# Widths of their columns.
COUNTED: Final[dict[Counted, int]] = {"ends": 16, "firsts": 16, "findings": 8}


def outcome_lines(made: Sequence[OutcomeRepeat]) -> Iterator[str]:
    """One line for each target and profile: medians; lines of all repeats together, of those that anybody reached."""
    yield (
        f"{'target':15} {'profile':8} {'executions/CPU-s':>17} {'unexpected ends':>16} {'to plain':>9}"
        f" {'outcome buckets':>16} {'to plain':>9} {'findings':>8} {'to plain':>9} {'lines':>6} {'of all':>7}"
    )
    for target in dict.fromkeys(each.target for each in made):
        rows = [each for each in made if each.target == target]
        everywhere = {line for each in rows for line in each.reached}
        plain = [each for each in rows if each.profile == PLAIN]
        for profile in dict.fromkeys(each.profile for each in rows):
            mine = [each for each in rows if each.profile == profile]
            reached = {line for each in mine for line in each.reached}
            ends, buckets, findings = (
                f"{(found := median_count(mine, name)):{width},.1f} {ratio(found, median_count(plain, name)):>9}"
                for name, width in COUNTED.items()
            )
            yield (
                f"{target:15} {profile:8} {median(each.executions / each.seconds for each in mine):17,.0f}"
                f" {ends} {buckets} {findings} {len(reached):6,} {len(everywhere):7,}"
            )


def median_count(rows: Sequence[OutcomeRepeat], name: Counted) -> float:
    """The median number of unexpected ends, of outcome buckets, or of findings as campaigns separate them."""
    return median(len(getattr(each, name)) for each in rows) if rows else 0


def ratio(found: float, plain: float) -> str:
    """How many times what plain mutation found."""
    return f"{found / plain:.1f}x" if plain else "-"


TARGET: Final = "aiokafka"
# Not found within so many CPU-seconds is not found.
MOST: Final = 4.0


def first_crashes(repeats: int) -> Iterator[float | None]:
    """For each repeat a campaign of its own: CPU-seconds of all its processes, imports too; None if none crashed."""
    for seed in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            plan = RoundPlan(TARGET, Path(folder), seed=seed, cpu_seconds=MOST)
            subprocess.run(round_command(plan), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            found = [find.seconds for find in read_findings(Path(folder)) if find.outcome.kind == "crash"]
        yield min(found, default=None)


def crash_summary(seconds: Sequence[float | None]) -> str:
    """The median and the worst."""
    found = [MOST if each is None else each for each in seconds]
    missed = sum(each is None for each in seconds)
    vain = f", {missed} of {len(found)} without one in {MOST:.0f} CPU-s" if missed else ""
    return f"first crash of compiled {TARGET}: median {median(found):.2f} CPU-s, slowest {max(found):.2f}{vain}"


PLANTED_PLAIN: Final = "bytes"


class Planted(msgspec.Struct):
    """One wrong codec: medians over repeats, executions and CPU-seconds of everything that they took.

    Plain mutation is given up after *most* executions; *plain_found* says in how many of the repeats it was not.
    """

    name: str
    executions: float
    seconds: float
    found: int
    plain_executions: float
    plain_seconds: float
    plain_found: int
    repeats: int
    most: int


def measure_planted(repeats: int, most: int, names: Sequence[str] = ()) -> Iterator[Planted]:
    """Every wrong codec, or those called *names*; all of them get the same inputs, repeat by repeat."""
    mixed = [InputSeries(seed) for seed in range(repeats)]
    plain = [InputSeries(seed, PLANTED_PLAIN) for seed in range(repeats)]
    for name in names or searched_bugs():
        decoder = PLANTED_BUGS[name].decoder()
        ours = [search_cost(decoder, series, most) for series in mixed]
        theirs = [search_cost(decoder, series, most) for series in plain]
        yield Planted(
            name,
            median(each.executions for each in ours),
            median(each.seconds for each in ours),
            sum(each.executions <= most for each in ours),
            median(each.executions for each in theirs),
            median(each.seconds for each in theirs),
            sum(each.executions <= most for each in theirs),
            repeats,
            most,
        )


HEAD: Final = f"{'planted bug':34}{'executions':>11}{'CPU-s':>9}{'plain: executions':>19}{'CPU-s':>9}{'found':>8}"


def planted_line(one: Planted) -> str:
    """One wrong codec; `>` marks executions and seconds that were spent without success."""
    ours, plain = (">" if count > one.most else "" for count in (one.executions, one.plain_executions))
    return (
        f"{one.name:34}{f'{ours}{min(one.executions, one.most):,.0f}':>11}{f'{ours}{one.seconds:.3f}':>9}"
        f"{f'{plain}{min(one.plain_executions, one.most):,.0f}':>19}{f'{plain}{one.plain_seconds:.3f}':>9}"
        f"{f'{one.plain_found}/{one.repeats}':>8}"
    )


def planted_summary(made: Sequence[Planted]) -> str:
    """How many were found at all, and the slowest."""
    slowest = max(made, key=lambda one: one.seconds)
    found = sum(one.executions <= one.most for one in made)
    plain = sum(one.plain_executions <= one.most for one in made)
    return (
        f"{len(made)} planted bugs: {found} found by the mix, the slowest in {slowest.seconds:.3f} CPU-s"
        f" ({slowest.name}); {plain} by plain mutation within {made[0].most:,} executions"
    )


INPUTS: Final = 8 * BATCH
# Alone, by the clock: a thousand times what others take.
EXPENSIVE_SECONDS: Final = 0.001
TRIES: Final = 6
WARM_UP: Final = 0.3


class Rate(msgspec.Struct, frozen=True):
    """One repeat.

    Attributes:
        who: testee or broker, and its version.
        inputs: answered and compared.
        seconds: by the clock.
        cpu_seconds: of the processor: the testee's alone, but ours and the broker's for a broker.
        set_aside: inputs of a testee's pool that were left out, and the size of the pool.
    """

    who: str
    inputs: int
    seconds: float
    cpu_seconds: float
    set_aside: tuple[int, int] = (0, 0)


def pipe_rate(testee: str, seconds: float, seed: int = 1) -> Rate:
    """Feed *testee* (any connect string) for so many seconds by the clock.  Raises `BadConnect`, `CannotRun`."""
    rng, seeds = Random(seed), own_seeds()
    pool = [Prepared(mutate(rng, seeds, draw_profile(rng))) for _ in range(INPUTS)]
    feed = Feed(connect(testee))
    try:
        hello = feed.open()
        calm = [prepared for prepared in pool if not is_expensive(feed, prepared)]
        judge = Grader(testee)
        fed(feed, judge, calm, seconds * WARM_UP)
        spent = feed.cpu_seconds
        began = time.monotonic()
        inputs = fed(feed, judge, calm, seconds)
        took = time.monotonic() - began
        cpu_seconds, set_aside = feed.cpu_seconds - spent, (len(pool) - len(calm), len(pool))
        return Rate(f"{testee} {hello.version}", inputs, took, cpu_seconds, set_aside)
    finally:
        feed.close()


def is_expensive(feed: Feed, prepared: Prepared) -> bool:
    """Whether the input crashes the testee, or takes long in each of `TRIES` attempts."""
    for _ in range(TRIES):
        began = time.monotonic()
        feed.post([prepared.mutant.data])
        (seen,) = feed.collect()
        if isinstance(seen.answer, Crashed | Hung | Exceeded | Garbled):
            return True
        if time.monotonic() - began < EXPENSIVE_SECONDS:
            return False
    return True


def fed(feed: Feed, judge: Grader, pool: list[Prepared], seconds: float) -> int:
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
            judge.grade(prepared, each.answer)
        collected += 1
        inputs += len(seen)
    return inputs


TESTEE: Final = "java-kafka-clients"
BROKER: Final = "broker:"


class RateWatch:
    """Records the progress of a round with its time; the start-up of the round and of its target is excluded."""

    def __init__(self) -> None:
        self.first: tuple[float, Progress] | None = None
        self.last: tuple[float, Progress] = (0.0, Progress())

    def __call__(self, progress: Progress) -> None:
        """Record *progress*; an `OnProgress`."""
        if progress.executions:
            self.last = (time.monotonic(), progress)
            self.first = self.first or self.last

    def rate(self, who: str) -> Rate:
        """The rate between the first and the last progress report; ValueError if there was only one."""
        if self.first is None or self.first[0] == self.last[0]:
            raise ValueError(f"{who} did not run long enough to be measured")
        (began, before), (ended, after) = self.first, self.last
        spent = after.cpu_seconds - before.cpu_seconds
        return Rate(who, after.executions - before.executions, ended - began, spent)


def broker_rate(
    target: str, seconds: float, seed: int, run: Callable[[RoundPlan, OnProgress], RoundReport] = run_broker_round
) -> Rate:
    """One round of so many CPU-seconds against a broker of its own.  Raises `NoBroker`, ValueError."""
    watch = RateWatch()
    with tempfile.TemporaryDirectory() as folder:
        report = run(RoundPlan(target, Path(folder), seed=seed, cpu_seconds=seconds), watch)
    if report.failure:
        raise ValueError(report.failure)
    return watch.rate(f"Kafka {report.version}")


def measure_rates(once: Callable[[int], Rate], repeats: int) -> Iterator[Rate]:
    """So many repeats, with other inputs each."""
    return map(once, range(1, repeats + 1))


def report_rate(made: list[Rate]) -> str:
    """The median by the clock, the slowest, and by CPU-second."""
    clock = [each.inputs / each.seconds for each in made]
    spent = [each.inputs / each.cpu_seconds for each in made if each.cpu_seconds]
    return (
        f"{made[0].who}: median {median(clock):,.0f} a second, slowest {min(clock):,.0f};"
        f" {median(spent) if spent else 0:,.0f} a CPU-second"
    )


class SearchCost(NamedTuple):
    """The cost of one search; *executions* is one more than the limit if no difference was found."""

    executions: int
    seconds: float


def searched_bugs() -> tuple[str, ...]:
    """The names of the planted bugs that the fuzzer looks for."""
    return tuple(name for name, bug in PLANTED_BUGS.items() if bug.budget is not None)


def search_cost(decoder: BatchDecoder, series: InputSeries, most: int) -> SearchCost:
    """The cost of one search with at most *most* executions."""
    made, start = len(series.made), time.process_time()
    detection = search_difference(decoder, series, most)
    executions = detection.executions if detection else most + 1
    decoding = time.process_time() - start - (series.seconds[-1] - series.seconds[made])
    return SearchCost(executions, decoding + series.seconds[min(executions, most)])
