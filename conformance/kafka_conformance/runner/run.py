"""Run cases through testees in parallel; every verdict is on disk as soon as it is known.

    RunPlan -> RequestPlan -> sandbox -> observation -> verdict -> result line

`run` reads like this chain: the worker pool starts the testee, `plan_requests` orders its
cases, the pool yields observations, and this thread judges and writes them.  `ParallelRuns`
runs several testees on the same CPUs, the slowest first, so that no CPU is idle while
another testee starts, waits or ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msgspec.structs import replace as replace_fields

from kafka_brokers.progress import Progress
from kafka_conformance.judge.observation import Observation, observation_summary
from kafka_conformance.judge.plain_reading import plain_mark
from kafka_conformance.judge.varying import variation_text
from kafka_conformance.judge.verdict import OPEN, SEVERITIES, judge
from kafka_conformance.process.cpu_permits import CpuPermits
from kafka_conformance.runner import results
from kafka_conformance.runner.requests import RequestPlan, TimedObservation, plan_requests, relevant_cases
from kafka_conformance.runner.results import ResultLine, Results, VariantCheck
from kafka_conformance.runner.workers import (
    LOOK_SECONDS,
    STOP_SECONDS,
    ObservedCase,
    StopSignal,
    WorkerPool,
    needs_repeat,
    verdict_of_repeats,
)
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import CannotRun, ConnectionSpec
from kafka_conformance.testees.known import plain_name
from kafka_corpus.case import Case
from kafka_corpus.variants import case_of, is_variant, variants
from kafka_records import Batch, Record, encode


class Interrupted(Exception):
    """The user stopped the run; every case judged until then is in the result file."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"stopped after {done} of {total} cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One testee, the cases to send to it, and the place of the results.

    Attributes:
        connection: how to start the testee.
        cases: the cases, in the order of the corpus.
        corpus: the hash of the corpus that they come from.
        path: the result file.
        only: the patterns that chose the cases, for the header.
        jobs: how many processes of the testee work at once.
        resume: go on with an incomplete file at *path*.
        progress: called after every group of cases.
        permits: CPU permits, if several runs share them; if None, the run has *jobs* permits of its own.
        rank: the run's place among those that share permits; the lowest rank goes first.
        stop: ends the run from outside.
        seed: of the variants that are sent among the cases; empty for none.
        variants: the number of cases to vary.
        settings: more settings for the header.
        known_variation: whether a case is `flaky` if its outcome is recorded as one of several.
    """

    connection: ConnectionSpec
    cases: Sequence[Case]
    corpus: str
    path: Path
    only: Sequence[str] = ()
    jobs: int = 1
    resume: bool = False
    progress: Progress = lambda *_: None
    permits: CpuPermits | None = None
    rank: int = 0
    stop: StopSignal = field(default_factory=StopSignal)
    seed: str = ""
    variants: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    known_variation: bool = True

    def with_known_variation(self, version: str, line: ResultLine) -> ResultLine:
        """*line* of the testee of this *version*; `flaky` if its outcome is recorded as one of several."""
        name, case = plain_name(self.connection.name), case_of(line.case)
        seen = variation_text(name, version, case, line.outcome) if self.known_variation else ""
        return replace_fields(line, outcome="flaky", why=seen, field="", also=(), left_out=()) if seen else line


def trivial_decodes() -> list[bytes]:
    """Small batches of magic 2 that calibrate the time limit; the same one several times."""
    record = Record(0, 1_700_000_000_000, b"key", b"value")
    batch = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=record.timestamp, records=(record,))
    return [encode(batch)] * 6


def run(plan: RunPlan) -> Results:
    """Send, judge and write all cases; then read the result file.

    Raises:
        CannotRun: the testee does not start.
        Interrupted: the user stopped the run.
        Unusable: *plan* resumes a run, and the file belongs to another one.
    """
    total = len(plan.cases)
    permits = plan.permits or CpuPermits(plan.jobs)
    try:
        with WorkerPool(plan.connection, permits, jobs=plan.jobs, rank=plan.rank, stop=plan.stop) as workers:
            hello = workers.start(trivial_decodes())
            cases = relevant_cases(plan.cases, hello)
            total = len(cases)
            settings: dict[str, Any] = {
                "jobs": plan.jobs,
                "memory": plan.connection.memory,
                "seconds": round(workers.seconds, 3),
            }
            settings |= plan.settings
            header = results.run_header(hello, plan.connection.name, plan.corpus, total, plan.only, settings)
            earlier = results.earlier_results(plan.path, header) if plan.resume else None
            if earlier is not None and earlier.complete:
                return earlier
            lines = earlier.lines if earlier else ()
            varied = VariantAnswers.of(cases, plan.seed, plan.variants)
            requests = plan_requests(varied.among(cases), hello, {line.case for line in lines}, plan.jobs)
            began = time.monotonic()
            with closing(results.ResultWriter(plan.path, header, lines)) as writer:
                skipped = [judged_line(case, reason) for case, reason in requests.skipped]
                writer.write(varied.kept_back(skipped))
                total += len(varied.cases)
                done, findings = total - requests.count, 0
                uncertain: list[ObservedCase] = []
                for group in _judged_groups(workers, requests, uncertain, committed=hello.committed):
                    judged = [plan.with_known_variation(hello.version, line) for line in group]
                    writer.write(varied.kept_back(judged))
                    done += len(judged)
                    findings += sum(line.outcome in SEVERITIES for line in judged)
                    plan.progress(done, total, findings)
                # Without it, a run that is stopped before its first answer would have a footer.
                plan.stop.check()
                checked = varied.check(results.read_results(plan.path).lines)
                writer.finish_run(time.monotonic() - began, workers.tallies, len(uncertain), checked)
            plan.stop.check()
    except (KeyboardInterrupt, CannotRun) as error:
        if isinstance(error, CannotRun) and not plan.stop.by_user:
            raise
        raise Interrupted(results.count_lines(plan.path), total) from None
    return results.read_results(plan.path)


def _judged_groups(
    workers: WorkerPool, requests: RequestPlan, uncertain: list[ObservedCase], *, committed: bool
) -> Iterator[list[ResultLine]]:
    """Result lines as they are known; cases that ran into a limit go to *uncertain*, and are repeated at the end."""
    with closing(workers.observe(requests.groups, committed=committed)) as observed:
        for group in observed:
            uncertain += [(case, each) for case, each in group if needs_repeat(each)]
            yield [
                judged_line(case, each.observation, each.seconds, each.deaths)
                for case, each in group
                if not needs_repeat(each)
            ]
    if workers.is_given_up:
        yield [judged_line(case, each.observation, each.seconds, each.deaths) for case, each in uncertain]
        uncertain.clear()
    with closing(workers.repeat(uncertain, committed=committed)) as repeated:
        for found in repeated:
            yield [repeated_line(case, observations) for case, observations in found]


def repeated_line(case: Case, found: Sequence[TimedObservation]) -> ResultLine:
    """The result line of *case* after its repeats; its observation is the last."""
    last, verdict = found[-1], verdict_of_repeats(case, found)
    return results.result_line(case, verdict, observation_summary(last.observation), last.seconds, last.deaths)


def judged_line(case: Case, observation: Observation, seconds: float = 0.0, deaths: int = 0) -> ResultLine:
    """The result line of *case* for an observation that took *seconds* and ended *deaths* processes."""
    verdict = judge(case, observation)
    summary = observation_summary(observation, finding=verdict.outcome != "agree")
    summary |= plain_mark(case, observation, accepted=verdict.outcome == "accepts_invalid")
    return results.result_line(case, verdict, summary, seconds, deaths)


# Variants: a codec answers one as its case.  A testee that answers a case rightly and its variant wrongly, or not at
# all, has learned the corpus, or has a defect that the values of the case do not show.


@dataclass(slots=True)
class VariantAnswers:
    """The variants of one run, and their lines, which go into no result file."""

    seed: str
    cases: Sequence[Case]
    lines: list[ResultLine] = field(default_factory=list)

    @classmethod
    def of(cls, cases: Sequence[Case], seed: str, count: int) -> VariantAnswers:
        """Variants of *count* of the *cases*, drawn from *seed*; none if it is empty."""
        return cls(seed, variants(cases, seed, count) if seed else ())

    def among(self, cases: Sequence[Case]) -> list[Case]:
        """*cases* with the variants between them."""
        return sorted((*cases, *self.cases), key=lambda case: case.id) if self.cases else list(cases)

    def kept_back(self, lines: Iterable[ResultLine]) -> list[ResultLine]:
        """*lines* without those of variants, which are kept here."""
        rest: list[ResultLine] = []
        for line in lines:
            (self.lines if is_variant(line.case) else rest).append(line)
        return rest

    def check(self, lines: Iterable[ResultLine]) -> VariantCheck | None:
        """The variants compared with the *lines* of their cases; None if there are none."""
        if not self.seed:
            return None
        own = {line.case: line for line in lines}
        pairs = [(own[case_of(line.case)], line) for line in self.lines]
        sent = [pair for pair in pairs if not pair[1].observation.get("by_runner")]
        unlike = {line.case: _difference(line, varied) for line, varied in sent if is_worse(line, varied)}
        return VariantCheck(seed=self.seed, drawn=len(self.cases), sent=len(sent), unlike=dict(sorted(unlike.items())))


def is_worse(line: ResultLine, varied: ResultLine) -> bool:
    """Whether a variant was answered wrongly where its case was not, or was skipped where its case was answered.

    A case whose outcome varies says nothing about its variant.
    """
    if line.outcome == "flaky":
        return False
    if varied.outcome in SEVERITIES:
        return line.outcome not in SEVERITIES
    return varied.outcome == "skipped" and line.outcome not in OPEN


def _difference(line: ResultLine, varied: ResultLine) -> str:
    return printable(f"{line.outcome}, and of the variant {varied.outcome}: {varied.why}")


Outcome = Results | Exception


def _slowness(plan: RunPlan) -> tuple[int, bool]:
    """Sort key: a virtual machine (known by its memory limit) is slowest, then a Python module."""
    return plan.connection.memory, plan.connection.preloads


class ParallelRuns:
    """Several runs on *jobs* CPUs, the slowest first, so that no run is left alone at the end."""

    def __init__(self, plans: Sequence[RunPlan], jobs: int) -> None:
        self._permits = CpuPermits(jobs)
        order = sorted(range(len(plans)), key=lambda at: _slowness(plans[at]), reverse=True)
        ranks = {at: rank for rank, at in enumerate(order)}
        self._plans = [replace(plan, permits=self._permits, jobs=jobs, rank=ranks[at]) for at, plan in enumerate(plans)]
        self._left = set(range(len(plans)))
        self._ended: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Start all runs; yield the index of each when it has ended, with its results or the exception of `run`."""
        for at, plan in enumerate(self._plans):
            threading.Thread(target=self._run, args=(at, plan), daemon=True).start()
        while self._left:
            at, outcome = self._ended.get()
            if at in self._left:
                self._left.discard(at)
                yield at, outcome

    def stop(self) -> None:
        """End all runs, from any thread; a run that was not complete ends as `Interrupted`."""
        threading.Thread(target=self._stop, daemon=True).start()

    def _run(self, at: int, plan: RunPlan) -> None:
        try:
            self._ended.put((at, run(plan)))
        except Exception as error:  # `outcomes` yields it
            self._ended.put((at, error))

    def _stop(self) -> None:
        end = time.monotonic() + STOP_SECONDS
        while self._left and time.monotonic() < end:
            for at in tuple(self._left):
                self._plans[at].stop.by_user = True
                self._plans[at].stop.stop(self._permits)
            time.sleep(LOOK_SECONDS / 4)
        for at in tuple(self._left):
            plan = self._plans[at]
            self._ended.put((at, Interrupted(results.count_lines(plan.path), len(plan.cases))))
