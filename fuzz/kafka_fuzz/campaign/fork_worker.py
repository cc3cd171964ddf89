"""Rounds of targets in process: forks a worker, reads what it was doing if it dies, and forks another.

Everything is imported before the first fork, so that a crash costs a few
milliseconds, and a target that crashes at every other input can be fuzzed.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import IO, Final

import msgspec

from kafka_conformance.process.cpu_time import Watch
from kafka_fuzz.campaign.known_findings import InputSkips, gone_ids, read_known_findings
from kafka_fuzz.campaign.libfuzzer import drive, instrument
from kafka_fuzz.campaign.plan import OnProgress, RoundPlan, RoundReport, round_report
from kafka_fuzz.campaign.store import Corpus, Pool, open_pool
from kafka_fuzz.campaign.worker import BlackBox, EndlessFunctions, Worker, hard_seconds, stored_progress
from kafka_fuzz.findings import FindingStore
from kafka_fuzz.mutate import PROFILES, Mutant, mutate, own_seeds
from kafka_fuzz.targets import Target, make_target
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass, sanitizer_report
from kafka_fuzz.targets.sanitized import limit_memory

# Bytes of address space; an input of a few hundred bytes needs far less.
MOST_MEMORY: Final = 2 << 30
# Seconds between looks at a worker.
TICK: Final = 0.25
# A worker that executes nothing for so long is killed.  Time spent waiting for a CPU is excluded, and so are pauses of
# all processes (a laptop asleep, ctrl-Z).
STUCK_SECONDS: Final = 60.0
# Seconds between SIGTERM and SIGKILL.
GRACE: Final = 2.0
# The exit code of a worker that failed in its own code.
HARNESS_FAULT: Final = 70
# Crashes in a row before the first input after which the target is given up.
MOST_FAILURES: Final = 3
# CPU-seconds for a round's inputs if their preparation took all of its time.
FIRST: Final = 0.1
# Messages of Rust and C++ before they abort for lack of memory.
NO_MEMORY: Final = ("memory allocation of", "std::bad_alloc", "out of memory", "Cannot allocate memory")


class HarnessFault(Exception):
    """A worker failed in its own code; the text has the traceback.  Nothing is known of the target."""


@dataclass(slots=True)
class ForkServer:
    """Fork server of one round: forks workers that share its imports."""

    plan: RoundPlan
    on_progress: OnProgress
    target: Target
    skips: InputSkips
    loops: EndlessFunctions
    corpus: Corpus
    findings: FindingStore
    pool: Pool
    box: BlackBox = field(default_factory=BlackBox)
    errors: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    parent: int = field(default_factory=os.getppid)
    stopping: bool = False
    restarts: int = 0
    failure: str = ""

    def run(self) -> None:
        """Workers, one after the other, until the round's time is over."""
        signal.signal(signal.SIGTERM, self._stop)
        idle = 0
        while not self.stopping and not self.failure:
            left = self.plan.cpu_seconds - total_cpu_seconds()
            if left <= 0 and self.box.executions and not self.plan.executions:
                return
            before, left = self.box.executions, max(left, FIRST)
            status = self.forked(lambda left=left: self._work(left))  # type: ignore[misc]  # mypy infers no default
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
                return
            self._died(status)
            idle = idle + 1 if self.box.progress().executions == before else 0
            if idle >= MOST_FAILURES:
                self.failure = f"{self.target.name} does not get as far as its first input"

    def _work(self, seconds: float) -> None:
        stores = (self.corpus, self.findings)
        worker = Worker(self.plan, self.target, *stores, self.skips, self.loops, self.box, self.pool, self.restarts)

        def stop(_signal: int, _frame: FrameType | None) -> None:
            worker.stopped = True

        signal.signal(signal.SIGTERM, stop)
        worker.skipped = self.box.progress().skipped
        if self.plan.engine == "atheris":
            drive(worker, seconds)
        else:
            worker.run(seconds)
        worker.finish()

    def forked(self, work: Callable[[], None]) -> int:
        """Run *work* in a process of its own, under limits; returns its wait status."""
        self.errors.seek(0)
        self.errors.truncate()
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            _become_worker(work, self.errors)
        os.close(writing)
        try:
            self._wait(pid, reading)
        finally:
            os.close(reading)
        return os.waitpid(pid, 0)[1]

    def _wait(self, pid: int, reading: int) -> None:
        """Wait until the worker ends, which closes the pipe."""
        last, watch = -1, Watch(pid)
        stop_requested_at = 0.0
        while not select.select([reading], [], [], TICK)[0]:
            progress = self.box.progress()
            # The worker counts its own time, without that of those before it.
            spent = progress.cpu_seconds + total_cpu_seconds()
            self.on_progress(msgspec.structs.replace(progress, cpu_seconds=round(spent, 3)))
            watch.look()
            if progress.executions != last:
                last, watch = progress.executions, Watch(pid)
            if os.getppid() != self.parent:
                self.stopping = True  # the supervisor is gone
            if self.stopping and not stop_requested_at:
                stop_requested_at = time.monotonic()
                os.kill(pid, signal.SIGTERM)
            if watch.own_seconds() > STUCK_SECONDS or (
                stop_requested_at and time.monotonic() - stop_requested_at > GRACE
            ):
                os.kill(pid, signal.SIGKILL)

    def _died(self, status: int) -> None:
        """Record why the worker crashed, and the input that caused it."""
        self.restarts += 1
        if self.stopping:
            return
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == HARNESS_FAULT:
            self.failure = self.error_text()
            return
        last = self.box.last()
        if not last:
            return
        try:
            found = self._guilty(last, status)
        except HarnessFault as error:
            self.failure = str(error)
            return
        if found:
            guilty, outcome = found
            self.skips.learn(guilty, outcome)
            self.findings.add(outcome, guilty, version=self.target.version, seconds=total_cpu_seconds())
            self.findings.flush()
        self._catch_up()

    def _catch_up(self) -> None:
        """Read what the worker had written, for the next one."""
        self.pool.add(self.corpus.refresh())
        self.pool.complete()
        self.findings = FindingStore(self.plan.directory, self.plan.target)
        self.learn_loops()

    def learn_loops(self) -> None:
        """Learn the loops of known hangs."""
        for finding in self.findings.findings.values():
            self.loops.learn(finding.outcome)

    def _guilty(self, last: list[Mutant], status: int) -> tuple[Mutant, Outcome] | None:
        """The newest input that does it again, alone; the newest of all if none does.

        A new hang that does not recur alone is dropped: CPU time goes on while a virtual machine is paused.
        """
        first = self._outcome(last[0], status)
        if first.kind == "hang":
            alone = first if first.key in self.findings.findings else self.outcome_of(last[0])
            return (last[0], alone) if alone.is_finding else None
        for mutant in last:
            again = self.forked(lambda mutant=mutant: self._alone(mutant))  # type: ignore[misc]  # as above
            if not os.WIFEXITED(again) or os.WEXITSTATUS(again) not in (0, HARNESS_FAULT):
                return mutant, self._outcome(mutant, again)
        return last[0], Outcome(first.target, first.kind, f"{first.detail}, not alone", "", first.fault, first.why)

    def outcome_of(self, mutant: Mutant) -> Outcome:
        """The outcome of one input in a process of its own.  Raises `HarnessFault`."""
        with tempfile.TemporaryFile() as answer:
            status = self.forked(lambda: self._alone(mutant, answer))
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == HARNESS_FAULT:
                raise HarnessFault(self.error_text())
            if not os.WIFEXITED(status) or os.WEXITSTATUS(status):
                return self._outcome(mutant, status)
            answer.seek(0)
            return msgspec.json.decode(answer.read(), type=Outcome)

    def run_guarded(self, mutant: Mutant) -> Outcome:
        """Run one input in this process, which is a worker, under the hard limit."""
        signal.setitimer(signal.ITIMER_PROF, hard_seconds(self.target.name))
        return self.target.run(mutant)

    def _alone(self, mutant: Mutant, answer: IO[bytes] | None = None) -> None:
        outcome = self.run_guarded(mutant)
        if answer is not None:
            answer.write(msgspec.json.encode(outcome))
            answer.flush()

    def _outcome(self, mutant: Mutant, status: int) -> Outcome:
        fault = mutant.labels[0] if mutant.profile == "model" and mutant.labels else ""
        if reported := sanitizer_report(self._written()):
            return Outcome(self.target.name, "crash", *reported[:2], fault, reported.sentence)
        kind, detail = self._ending(status)
        return Outcome(self.target.name, kind, detail, "", fault, self.error_text()[-200:])

    def _ending(self, status: int) -> tuple[OutcomeClass, str]:
        if not os.WIFSIGNALED(status):
            return "crash", f"exit code {os.WEXITSTATUS(status)}"
        number = os.WTERMSIG(status)
        if number in (signal.SIGPROF, signal.SIGKILL):
            return "hang", ""
        if number == signal.SIGABRT and any(words in self.error_text() for words in NO_MEMORY):
            return "memory", "abort"
        return "crash", signal.Signals(number).name

    def error_text(self) -> str:
        """The end of what the last worker wrote to its standard error."""
        return self._written().strip()[-2000:]

    def _written(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self.stopping = True


def _become_worker(work: Callable[[], None], errors: IO[bytes]) -> None:
    """Run *work* in the forked process, under limits; never returns."""
    code = HARNESS_FAULT
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        os.dup2(errors.fileno(), 2)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit_memory(MOST_MEMORY)
        work()
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        os._exit(code)


def total_cpu_seconds() -> float:
    """CPU-seconds of this process and of the children that it waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def run_in_process_round(plan: RoundPlan, on_progress: OnProgress) -> RoundReport:
    """A round of a target in process: `RunRound`."""
    began = time.monotonic()
    server = open_fork_server(plan, on_progress)
    before = set(server.findings.findings)
    gc.freeze()
    server.run()
    return in_process_report(server, before, time.monotonic() - began)


def open_fork_server(plan: RoundPlan, on_progress: OnProgress) -> ForkServer:
    """Everything read, nothing started; KeyError or ImportError if there is no such target here."""
    target = make_target(plan.target)
    warm_up(plan)
    if plan.engine == "atheris":
        instrument(target.packages)
    corpus = Corpus(plan.directory, plan.target)
    server = ForkServer(
        plan,
        on_progress,
        target,
        InputSkips(plan.target, read_known_findings(plan.directory), gone_ids(plan.directory)),
        EndlessFunctions(target.packages),
        corpus,
        FindingStore(plan.directory, plan.target),
        open_pool(corpus, Random(plan.stream), blind=plan.blind),
    )
    server.learn_loops()
    return server


def warm_up(plan: RoundPlan) -> None:
    """Make what all workers need once, before the first fork."""
    rng = Random(plan.stream)
    for profile in PROFILES:
        mutate(rng, own_seeds(), profile)
    sys.stdout.flush()


def in_process_report(server: ForkServer, before: set[str], seconds: float) -> RoundReport:
    """The report of a round."""
    plan, progress = server.plan, server.box.progress()
    corpus, findings = Corpus(plan.directory, plan.target), FindingStore(plan.directory, plan.target)
    with suppress(OSError):
        server.errors.close()
    counts = {"executions": progress.executions, "skipped": progress.skipped}
    ended = stored_progress(corpus, findings, cpu_seconds=round(total_cpu_seconds(), 3), **counts)
    return round_report(
        plan,
        ended,
        version=server.target.version,
        seconds=round(seconds, 3),
        new_findings=tuple(sorted(set(findings.findings) - before)),
        restarts=server.restarts,
        interrupted=server.stopping,
        failure=server.failure,
    )
