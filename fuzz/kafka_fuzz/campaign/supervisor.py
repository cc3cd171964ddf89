"""Run rounds in child processes until the time is over, whatever happens to each.

It holds nothing that is not on the disk: finds and inputs are written by the
children at once, rounds are logged as they end.  Who kills it with -9 loses
what the rounds under way would have reported, and nothing else; the children
see that it is gone and stop.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import IO, Final, NamedTuple

import msgspec

from kafka_fuzz.campaign.known_findings import (
    AlreadyKnown,
    KnownFinding,
    ReplayResult,
    already_known,
    read_known_findings,
)
from kafka_fuzz.campaign.merge import recover_corpora
from kafka_fuzz.campaign.plan import (
    CampaignPlan,
    CampaignState,
    Progress,
    RoundPlan,
    RoundReport,
    log_round,
    read_state,
    round_report,
    write_state,
)
from kafka_fuzz.campaign.replay import replay_known_findings, replay_target, replay_targets
from kafka_fuzz.findings import FuzzFinding, read_findings
from kafka_fuzz.targets.outcome import severity

# So much longer than its CPU-seconds may a round take by the clock, on a crowded machine.
CROWDED: Final = 20.0
START: Final = 60.0
# Between being asked to stop and being killed.
GRACE: Final = 6.0
MOST_ERRORS: Final = 4000


class RoundMessage(msgspec.Struct, frozen=True):
    """A line of a child's standard output: one of the two."""

    progress: Progress | None = None
    report: RoundReport | None = None


class ReceivedMessage(NamedTuple):
    """Something that a child said; None when it has said its last."""

    child: RoundChild
    message: RoundMessage | None


class RoundChild:
    """A round in a process group of its own, so that an interrupt reaches only us."""

    def __init__(self, plan: RoundPlan, heard: SimpleQueue[ReceivedMessage]) -> None:
        self.plan = plan
        self.progress = Progress()
        self.began = time.monotonic()
        self.stop_requested_at = 0.0
        self.report: RoundReport | None = None
        self._errors = b""
        self._process = subprocess.Popen(
            round_command(plan),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._listen, args=(self._process.stdout, heard), daemon=True),
            threading.Thread(target=self._collect, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def take(self, said: RoundMessage) -> None:
        """Remember what it said."""
        self.progress = said.progress or self.progress
        self.report = said.report or self.report

    def stop(self) -> None:
        """Ask it to stop in good order."""
        if not self.stop_requested_at:
            self.stop_requested_at = time.monotonic()
            with suppress(ProcessLookupError):
                self._process.terminate()

    def check(self) -> None:
        """Kill it if it takes far too long, or was asked to stop a while ago."""
        now = time.monotonic()
        if now - self.began > START + self.plan.cpu_seconds * CROWDED:
            self.stop()
        if self.stop_requested_at and now - self.stop_requested_at > GRACE:
            self.kill()

    def kill(self) -> None:
        """End it and everything that it started in its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> RoundReport:
        """The round's report after its output ended; a failure report if it sent none."""
        code = self._process.wait()
        self.kill()  # what it left behind
        for reader in self._readers:
            reader.join(timeout=1.0)
        if self.report is not None:
            return self.report
        return self._lost(code)

    def _lost(self, code: int) -> RoundReport:
        plan, progress = self.plan, self.progress
        killed = bool(self.stop_requested_at)
        last = self._errors.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {code}"]
        return round_report(
            plan,
            progress,
            seconds=round(time.monotonic() - self.began, 3),
            interrupted=killed,
            failure="" if killed else last[0][:500],
        )

    def _listen(self, stream: IO[bytes], heard: SimpleQueue[ReceivedMessage]) -> None:
        for line in stream:
            with suppress(msgspec.MsgspecError):
                heard.put(ReceivedMessage(self, msgspec.json.decode(line, type=RoundMessage)))
        heard.put(ReceivedMessage(self, None))

    def _collect(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._errors = (self._errors + line)[-MOST_ERRORS:]


def round_command(plan: RoundPlan) -> list[str]:
    """The command that runs a round."""
    return [
        *(sys.executable, "-m", "kafka_fuzz.campaign.round_process", plan.target, "--dir", str(plan.directory)),
        *("--seed", str(plan.seed), "--round", str(plan.number), "--cpu", str(plan.cpu_seconds)),
        *("--profile", plan.profile, "--engine", plan.engine, *(["--blind"] if plan.blind else [])),
        *("--executions", str(plan.executions)),
    ]


TICK: Final = 0.25
# A target of which so many rounds one after the other fail, and execute nothing, is not asked again.
MAX_IDLE_ROUNDS: Final = 2
# Nobody starts a round that has less than this left.
LEAST: Final = 0.5


@dataclass(slots=True)
class TargetState:
    """How one target stands in this campaign.

    Attributes:
        executions, cpu_seconds, skipped, restarts: of the rounds that have ended.
        rounds: that have ended.
        last: what the newest round said, for what does not add up.
        failures: why rounds failed.
    """

    executions: int = 0
    cpu_seconds: float = 0.0
    skipped: int = 0
    restarts: int = 0
    rounds: int = 0
    last: Progress = field(default_factory=Progress)
    failures: list[str] = field(default_factory=list)
    in_a_row: int = 0

    def take(self, report: RoundReport, *, over: bool = False) -> str:
        """Count a round; *over* says that the campaign's time is.  Why it failed, if it did."""
        self.rounds += 1
        self.executions += report.executions
        self.cpu_seconds += report.cpu_seconds
        self.skipped += report.skipped
        self.restarts += report.restarts
        # The last round may be over before it has begun, as where a broker starts; that says nothing of a target that
        # ran before.
        cut = self.executions and (over or report.cpu_seconds < LEAST)
        idle = not report.executions and not report.interrupted and not cut
        failure = report.failure or ("it executed nothing" if idle else "")
        # Who has asked somebody is asked again, though others of its testees do not run.
        self.in_a_row = self.in_a_row + 1 if failure and not report.executions else 0
        if failure:
            self.failures.append(failure)
        return failure


@dataclass(slots=True)
class Campaign:
    """A campaign under way.

    Attributes:
        plan: what is asked.
        memory: what the folder remembers.
        first: the number of its first round, which its lines in the log have.
        standings: of the targets.
        known: finds that are no news.
        sung: what the canaries said.
        old: keys that were there when it began.
        interrupted: whether somebody stopped it.
    """

    plan: CampaignPlan
    show: Callable[[Campaign], None]
    state: CampaignState = field(init=False)
    first: int = field(init=False)
    states: dict[str, TargetState] = field(init=False)
    known: list[KnownFinding] = field(init=False)
    old: set[str] = field(init=False)
    replays: list[ReplayResult] = field(default_factory=list)
    running: list[RoundChild] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    interrupted: bool = False
    _heard: SimpleQueue[ReceivedMessage] = field(default_factory=SimpleQueue)
    _turns: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Read what the folder holds."""
        plan = self.plan
        recover_corpora(plan.directory)
        self.state = read_state(plan.directory)
        if plan.seed is not None:
            self.state = CampaignState(plan.seed, self.state.next_round)
        self.first = self.state.next_round
        self.known = read_known_findings(plan.directory)
        self.states = {name: TargetState() for name in plan.targets}
        self.old = {finding.key for finding in read_findings(plan.directory)}

    def run(self) -> None:
        """Until the time is over, somebody interrupts, or no target can be run."""
        try:
            self.replays = replay_known_findings(self.plan.directory, self.known, self.plan.targets)
            self.began = time.monotonic()
            while self._fill() or self.running:
                self._listen()
                self.show(self)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._wind_up()
            self.show(self)

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.plan.seconds - (time.monotonic() - self.began)

    def progress(self, target: str) -> Progress:
        """Progress of *target* in this campaign, including running rounds."""
        standing = self.states[target]
        now = [child.progress for child in self.running if child.plan.target == target]
        last = max([standing.last, *now], key=lambda each: (each.lines, each.corpus))
        return Progress(
            executions=standing.executions + sum(each.executions for each in now),
            cpu_seconds=standing.cpu_seconds + sum(each.cpu_seconds for each in now),
            lines=last.lines,
            cells=last.cells,
            corpus=last.corpus,
            buckets=last.buckets,
            findings=last.findings,
            skipped=standing.skipped + sum(each.skipped for each in now),
        )

    def findings(self) -> list[FuzzFinding]:
        """All finds of the campaign's targets, the worst first."""
        from kafka_conformance.judge.verdict import SEVERITIES

        singers = {each for target in self.plan.targets for each in replay_targets(target)}
        found = [
            finding
            for finding in read_findings(self.plan.directory)
            if replay_target(finding.outcome.target, finding.mode) in singers
        ]
        return sorted(found, key=lambda finding: (SEVERITIES.index(severity(finding.outcome.kind)), finding.key))

    def already_known(self) -> AlreadyKnown:
        """Known findings, without those that are gone."""
        return already_known(self.plan.directory, [replay.id for replay in self.replays if replay.gone])

    def failures(self) -> dict[str, str]:
        """Targets that could not be run, and why."""
        return {
            name: standing.failures[-1] if standing.failures else "it executed nothing"
            for name, standing in self.states.items()
            if standing.failures or (not standing.executions and not self.interrupted)
        }

    def _fill(self) -> bool:
        """Start rounds as long as there are places; whether any can ever be started again."""
        while True:
            target = self._next_target()
            # Every target has one turn, however short the time: "it was not asked" is no answer.
            if target is None or (self.left <= LEAST and self._turns[target]):
                return False
            if len(self.running) >= self.plan.jobs:
                return True
            self._start(target)

    def _next_target(self) -> str | None:
        """The one that had the fewest rounds, of those that can be run."""
        able = [name for name, standing in self.states.items() if standing.in_a_row < MAX_IDLE_ROUNDS]
        return min(able, key=lambda name: self._turns[name], default=None)

    def _start(self, target: str) -> None:
        number = self.state.next_round
        self.state = CampaignState(self.state.seed, number + 1)
        write_state(self.plan.directory, self.state)  # before it starts: no number is used twice
        self._turns[target] += 1
        campaign = self.plan
        seconds = max(min(campaign.each(), self.left), LEAST)
        plan = RoundPlan(
            target,
            campaign.directory,
            self.state.seed,
            number,
            seconds,
            campaign.profile,
            campaign.engine,
            campaign.blind,
        )
        self.running.append(RoundChild(plan, self._heard))

    def _listen(self) -> None:
        """Take what the children say for a moment."""
        until = time.monotonic() + TICK
        while self.running and (wait := until - time.monotonic()) > 0:
            try:
                child, said = self._heard.get(timeout=wait)
            except Empty:
                break
            if said is None:
                self._ended(child)
                break
            child.take(said)
        for child in self.running:
            if self.left <= 0 and child.progress.executions:
                child.stop()
            child.check()

    def _ended(self, child: RoundChild) -> None:
        self.running.remove(child)  # before anything can fail: who has said its last is not waited for
        report, standing = child.end(), self.states[child.plan.target]
        standing.last = Progress(**{name: getattr(report, name) for name in Progress.__struct_fields__})
        failure = standing.take(report, over=self.left <= 0)
        log_round(self.plan.directory, msgspec.structs.replace(report, failure=failure), self.first)

    def _wind_up(self) -> None:
        """Stop the children, in good order if they will; a second interrupt kills them."""
        try:
            for child in self.running:
                child.stop()
            self._see_out()
        except KeyboardInterrupt:
            self.interrupted = True
            for child in self.running:
                child.kill()
            self._see_out()

    def _see_out(self) -> None:
        """Wait for all children; what the disk did not take keeps none of them, and is raised when they have ended."""
        lost: OSError | None = None
        while self.running:
            try:
                self._listen()
            except OSError as error:
                lost = lost or error
        if lost is not None:
            raise lost
