"""Run rounds in child processes until the time is over, whatever happens to each.

All state is on disk: children write findings and inputs at once, and rounds are
logged as they end.  `kill -9` of the supervisor loses the reports of the rounds in
progress, and nothing else; the children notice it and stop.

Standard error shows how it goes: a table that is drawn again on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES
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
    plan_arguments,
    read_state,
    round_report,
    target_weight,
    write_state,
)
from kafka_fuzz.campaign.replay import replay_known_findings, replay_target, replay_targets
from kafka_fuzz.findings import FuzzFinding, read_findings
from kafka_fuzz.targets.outcome import severity

if TYPE_CHECKING:
    from rich.table import Table

# Clock seconds of a round for each of its CPU-seconds, on a crowded machine.
CROWDED: Final = 20.0
START: Final = 60.0
# Seconds between SIGTERM and SIGKILL.
GRACE: Final = 6.0
MOST_ERRORS: Final = 4000


class RoundMessage(msgspec.Struct, frozen=True):
    """A line of a child's standard output: one of the two."""

    progress: Progress | None = None
    report: RoundReport | None = None


class ReceivedMessage(NamedTuple):
    """A message of a child; None when its output ended."""

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
        """Keep the latest progress and the report."""
        self.progress = said.progress or self.progress
        self.report = said.report or self.report

    def stop(self) -> None:
        """Ask it to stop in good order."""
        if not self.stop_requested_at:
            self.stop_requested_at = time.monotonic()
            with suppress(ProcessLookupError):
                self._process.terminate()

    def check(self) -> None:
        """Stop it if it takes far too long; kill it if it does not stop."""
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
        self.kill()  # processes that it did not end
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
    return [sys.executable, "-m", "kafka_fuzz.campaign.round_process", *plan_arguments(plan)]


TICK: Final = 0.25
# Counts that are added up over the rounds of a target; the others are those of its newest round.
SUMS: Final = ("executions", "cpu_seconds", "skipped")
# Rounds in a row that fail without an execution, after which a target is given up.
MAX_IDLE_ROUNDS: Final = 2
# Seconds; no round is started with less time.
LEAST: Final = 0.5


@dataclass(slots=True)
class TargetState:
    """The state of one target in this campaign.

    Attributes:
        executions, cpu_seconds, skipped, restarts: of the rounds that have ended.
        rounds: that have ended.
        last: counts of the newest round that are no sums.
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
        for name in (*SUMS, "restarts"):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        # The last round may be over before it has begun, as where a broker starts; that says nothing of a target that
        # ran before.
        cut = self.executions and (over or report.cpu_seconds < LEAST)
        idle = not report.executions and not report.interrupted and not cut
        failure = report.failure or ("it executed nothing" if idle else "")
        # A target that executed something goes on, although some of its testees do not run.
        self.in_a_row = self.in_a_row + 1 if failure and not report.executions else 0
        if failure:
            self.failures.append(failure)
        return failure


@dataclass(slots=True)
class Campaign:
    """A campaign under way.

    Attributes:
        plan: of the campaign.
        state: of the folder.
        first: the number of its first round, which its lines in the log have.
        states: of the targets.
        known: entries of known findings.
        replays: replay results of known findings.
        old: keys of findings that were there when it began.
        interrupted: whether it was interrupted.
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
        """Run until the time is over, an interrupt, or no target can be run."""
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
        """Seconds until the end, by the clock; by CPU time, too, if that is limited."""
        left = self.plan.seconds - (time.monotonic() - self.began)
        if self.plan.cpu_seconds is None:
            return left
        spent = sum(self.progress(target).cpu_seconds for target in self.plan.targets)
        return min(left, (self.plan.cpu_seconds - spent) / self.plan.jobs)

    def progress(self, target: str) -> Progress:
        """Progress of *target* in this campaign, including running rounds."""
        standing = self.states[target]
        now = [child.progress for child in self.running if child.plan.target == target]
        last = max([standing.last, *now], key=lambda each: (each.lines, each.corpus))
        sums = {name: sum(getattr(each, name) for each in (standing, *now)) for name in SUMS}
        return msgspec.structs.replace(last, **sums)

    def findings(self) -> list[FuzzFinding]:
        """All findings of the campaign's targets, the worst first."""
        from kafka_conformance.judge.verdict import SEVERITIES

        targets = {each for target in self.plan.targets for each in replay_targets(target)}
        found = [
            finding
            for finding in read_findings(self.plan.directory)
            if replay_target(finding.outcome.target, finding.mode) in targets
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
            # Every target has one round, however short the time: each has a result.
            if target is None or (self.left <= LEAST and self._turns[target]):
                return False
            if len(self.running) >= self.plan.jobs:
                return True
            self._start(target)

    def _next_target(self) -> str | None:
        """The one that had the least CPU time for its weight, of those that can be run; first, each has one round."""
        able = [name for name, standing in self.states.items() if standing.in_a_row < MAX_IDLE_ROUNDS]
        return min(able, key=self._precedence, default=None)

    def _precedence(self, target: str) -> tuple[bool, float, float, int]:
        """The lowest is next: without a round first, and of these the heaviest."""
        turns = self._turns[target]
        return turns > 0, self._spent(target), -target_weight(target), turns

    def _spent(self, target: str) -> float:
        """CPU-seconds of *target* for its weight; a running round counts with those of its plan, or what it had."""
        running = [child for child in self.running if child.plan.target == target]
        planned = sum(max(child.plan.cpu_seconds, child.progress.cpu_seconds) for child in running)
        return (self.states[target].cpu_seconds + planned) / target_weight(target)

    def _start(self, target: str) -> None:
        number = self.state.next_round
        self.state = CampaignState(self.state.seed, number + 1)
        write_state(self.plan.directory, self.state)  # before it starts: no number is used twice
        self._turns[target] += 1
        campaign = self.plan
        seconds = max(min(campaign.each(target), self.left), LEAST)
        how = (campaign.profile, campaign.engine, campaign.blind)
        plan = RoundPlan(target, campaign.directory, self.state.seed, number, seconds, *how)
        self.running.append(RoundChild(plan, self._heard))

    def _listen(self) -> None:
        """Handle messages of the children for TICK seconds."""
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
        self.running.remove(child)  # first: it sends no more messages, even if the rest fails
        report, standing = child.end(), self.states[child.plan.target]
        standing.last = Progress(**{name: getattr(report, name) for name in Progress.__struct_fields__})
        failure = standing.take(report, over=self.left <= 0)
        log_round(self.plan.directory, msgspec.structs.replace(report, failure=failure), self.first)

    def _wind_up(self) -> None:
        """Stop the children; a second interrupt kills them."""
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
        """Wait for all children; an OSError is raised after the last one ended."""
        lost: OSError | None = None
        while self.running:
            try:
                self._listen()
            except OSError as error:
                lost = lost or error
        if lost is not None:
            raise lost


SECONDS_BETWEEN_LINES: Final = 5.0
SECONDS_BETWEEN_LOOKS: Final = 2.0
COLUMNS: Final = ("target", "executions", "per CPU-s", "CPU-s", "lines", "cells", "corpus", "outcomes", "finds")


class FindingCounts:
    """Finds by target and severity, counted on the disk, but not at every look."""

    def __init__(self) -> None:
        self.at = 0.0
        self.by: dict[str, Counter[str]] = {}

    def of(self, campaign: Campaign) -> dict[str, Counter[str]]:
        """The counts."""
        if time.monotonic() - self.at >= SECONDS_BETWEEN_LOOKS:
            targets = {one: target for target in campaign.plan.targets for one in replay_targets(target)}
            self.by = {}
            for finding in campaign.findings():
                target = targets[replay_target(finding.outcome.target, finding.mode)]
                self.by.setdefault(target, Counter())[severity(finding.outcome.kind)] += 1
            self.at = time.monotonic()
        return self.by


def severity_summary(counts: Counter[str]) -> str:
    """Finds by severity, the worst first.

    >>> severity_summary(Counter(hang=2, crash=1))
    '1 crash, 2 hang'
    """
    return ", ".join(f"{counts[name]} {name}" for name in SEVERITIES if counts[name])


def row(campaign: Campaign, target: str, counts: Counter[str]) -> tuple[str, ...]:
    """One line of the table."""
    progress = campaign.progress(target)
    speed = progress.executions / progress.cpu_seconds if progress.cpu_seconds else 0.0
    numbers = (progress.executions, speed, progress.cpu_seconds, progress.lines, progress.cells, progress.corpus)
    return (target, *(f"{number:,.0f}" for number in (*numbers, progress.buckets)), severity_summary(counts))


def table(campaign: Campaign, by: dict[str, Counter[str]]) -> Table:
    """Everything, a row for each target."""
    from rich.table import Table

    running = ", ".join(f"{child.plan.target} #{child.plan.number}" for child in campaign.running)
    made = Table(title=f"{max(campaign.left, 0):.0f} s left  ·  {running}", title_justify="left", box=None)
    for name in COLUMNS:
        made.add_column(name, justify="left" if name in ("target", "finds") else "right", no_wrap=name != "finds")
    for target in campaign.plan.targets:
        made.add_row(*row(campaign, target, by.get(target, Counter())))
    return made


@contextmanager
def screen() -> Iterator[Callable[[Campaign], None]]:
    """Something that shows a campaign whenever it is called."""
    if sys.stderr.isatty():
        with live() as show:
            yield show
    else:
        yield plain_screen()


@contextmanager
def live() -> Iterator[Callable[[Campaign], None]]:
    """On a terminal."""
    from rich.console import Console
    from rich.live import Live

    counted = FindingCounts()
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=4) as shown:
        yield lambda campaign: shown.update(table(campaign, counted.of(campaign)))


def plain_screen() -> Callable[[Campaign], None]:
    """In a pipe or a file."""
    counted, last = FindingCounts(), time.monotonic()

    def show(campaign: Campaign) -> None:
        nonlocal last
        if time.monotonic() - last < SECONDS_BETWEEN_LINES:
            return
        last, by = time.monotonic(), counted.of(campaign)
        for target in campaign.plan.targets:
            values = row(campaign, target, by.get(target, Counter()))
            pairs = (f"{value} {name}" for name, value in zip(COLUMNS[1:-1], values[1:-1], strict=True))
            sys.stderr.write(f"{target}: {', '.join(pairs)}; {values[-1] or 'no finds'}\n")
        sys.stderr.flush()

    return show
