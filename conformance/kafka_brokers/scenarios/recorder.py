"""Run scenarios on a broker and write each answer to disk before the next starts.

A broker that ends, or falls silent, is started again, and the scenario is played
once more on an empty partition.  If it ends there again, that is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kafka_brokers.interface import Broker, EndedAtStart, NoBroker
from kafka_brokers.progress import Progress
from kafka_brokers.scenarios.disk import ON_DISK, Stored, look_at_disks, settings, together
from kafka_brokers.scenarios.runner import CannotPlay, Fresh, ScenarioRunner, Stop, WaitLimits
from kafka_brokers.wire import BrokerError, Client, WireError
from kafka_corpus.answer_diff import difference, scenario_of
from kafka_corpus.case import Case
from kafka_corpus.evidence import Answers, Disk, Evidence, brokers, line_for
from kafka_corpus.scenario import (
    Clean,
    Edit,
    EndTransaction,
    Fetch,
    InitProducerId,
    Produce,
    Restart,
    Scenario,
    StepAnswer,
)
from kafka_corpus.vector_format import content_hash

UNKNOWN_SERVER_ERROR: Final = -1
# So many partitions are looked at on the disk together.
LOOK_AT: Final = 300

StepAnswers = tuple[StepAnswer, ...]


class ScenarioRequest(NamedTuple):
    """A case, the hash of its content, and its scenario."""

    id: str
    sha256: str
    scenario: Scenario


class RecordedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A broker's answers to one case; `skipped` is the reason if it was not run, `disk` its disk contents."""

    id: str
    sha256: str
    steps: StepAnswers = ()
    skipped: str = ""
    disk: Disk | None = None


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of lines, to which answers are added as they come.

    A line that a crash cut off is dropped when the file is read again.
    """

    path: Path

    def lines(self) -> dict[str, RecordedAnswer]:
        """The recorded answers, by case id."""
        if not self.path.exists():
            return {}
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        found: dict[str, RecordedAnswer] = {}
        for line in _lines.decode_lines(whole):
            # The disk is looked at later, for many cases at once.
            seen = line.disk is not None and line.id in found
            found[line.id] = msgspec.structs.replace(found[line.id], disk=line.disk) if seen else line
        return found

    def begin(self, requests: Sequence[ScenarioRequest]) -> dict[str, RecordedAnswer]:
        """Prepare the file for new lines; the answers to *requests* that it has already."""
        contents = {each.id: each.sha256 for each in requests}
        kept = {id_: line for id_, line in self.lines().items() if contents.get(id_) == line.sha256}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"".join(map(_line, kept.values())))
        return kept

    def add(self, line: RecordedAnswer) -> None:
        """One more line, on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(_line(line))


_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(RecordedAnswer)


def _line(line: RecordedAnswer) -> bytes:
    return _encoder.encode(line) + b"\n"


class Recorder:
    """Plays scenarios to one broker, which is started again whenever it ends."""

    def __init__(
        self,
        broker: Broker,
        *,
        fresh: Callable[[Broker, int], Fresh] | None = None,
        new_broker: Callable[[], Broker] | None = None,
        fetch_ms: int = 0,
    ) -> None:
        """Use *broker*; *new_broker* starts another one if it cannot start on its data any more.

        A fetch may wait *fetch_ms* milliseconds.
        """
        self._broker = broker
        self._new_broker = new_broker
        self._fresh = fresh or (lambda running, start: Fresh(running, prefix=f"case-{start}"))
        self._partitions: Fresh | None = None
        self._client: Client | None = None
        self.wait_limits = WaitLimits(fetch_ms=fetch_ms)
        self._stored: list[Stored] = []
        self.renewals = 0
        self.restarts = 0

    def close(self) -> None:
        """Let go of the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def record(
        self, requests: Sequence[ScenarioRequest], recording: AnswerFile
    ) -> Generator[RecordedAnswer, None, None]:
        """Ask what *recording* does not hold yet; each line as it comes, those that were there first.

        Raises:
            NoBroker: the broker cannot be started again.
        """
        earned = recording.begin(requests)
        yield from earned.values()
        todo = [each for each in requests if each.id not in earned]
        for line in chain(self._one_by_one(todo), self._together(todo)):
            recording.add(line)
            yield line
            if len(self._stored) >= LOOK_AT:
                yield from self._look(recording, requests)
        yield from self._look(recording, requests)

    def _look(self, recording: AnswerFile, requests: Iterable[ScenarioRequest]) -> Iterator[RecordedAnswer]:
        """Disk contents of the cases that stored data since the last look."""
        stored, self._stored = self._stored, []
        if self._broker.data_directory is None or not stored:
            return
        lines, contents = recording.lines(), {each.id: each.sha256 for each in requests}
        for id_, disk in look_at_disks(self._broker, stored).items():
            recording.add(RecordedAnswer(id_, contents[id_], disk=disk))
            yield msgspec.structs.replace(lines[id_], disk=disk)

    def _one_by_one(self, todo: Iterable[ScenarioRequest]) -> Iterator[RecordedAnswer]:
        return (self._ask(each) for each in todo if not can_share(each.scenario))

    def _together(self, todo: Iterable[ScenarioRequest]) -> Iterator[RecordedAnswer]:
        """Those that end the broker, which takes longer to start than all else: one start for many of them."""
        sharing = [each for each in todo if can_share(each.scenario)]
        for clean in (False, True):
            group = [each for each in sharing if is_clean(each.scenario) is clean]
            try:
                yield from self._play_together(group)
            except (CannotPlay, NoBroker, WireError, OSError):
                # One of them, we do not know which: each by itself then.
                self._restart()
                yield from map(self._ask, group)

    def _play_together(self, group: Sequence[ScenarioRequest]) -> list[RecordedAnswer]:
        lines, runners = [], {}
        for each in group:
            try:
                runners[self._runner(each.scenario)] = each
            except CannotPlay as error:
                lines.append(RecordedAnswer(each.id, each.sha256, skipped=str(error)))
        while ending := _at_their_ends(runners):
            together(ending)
            self._client = next(iter(ending)).client
            for runner in runners:
                runner.client = self._client
        self.renew(self._client)
        return lines + [RecordedAnswer(each.id, each.sha256, tuple(runner.answers)) for runner, each in runners.items()]

    def _ask(self, requests: ScenarioRequest) -> RecordedAnswer:
        """The answers of a broker of its own, if the first one ends twice; those before the end, and that it ended."""
        answered: list[StepAnswer] = []
        for last in (False, True):
            runner = None
            try:
                runner = self._runner(requests.scenario)
                answers = self._play(runner, requests.scenario)
                self._note(requests.id, requests.scenario, runner, answers)
                return RecordedAnswer(requests.id, requests.sha256, answers)
            except CannotPlay as error:
                return RecordedAnswer(requests.id, requests.sha256, skipped=str(error))
            except (EndedAtStart, WireError, OSError):
                # EndedAtStart: it does not start again on what the scenario left.
                answered = [] if runner is None else runner.answers
                self._restart()
                if last:
                    return RecordedAnswer(requests.id, requests.sha256, (*answered, StepAnswer(ended=True)))
        raise AssertionError  # the loop has an end

    def play(self, scenario: Scenario, *, stop: Stop | None = None) -> StepAnswers:
        """The broker's answers to *scenario*, or those before *stop* is true of the last one.

        Raises:
            CannotPlay: it cannot be brought to it.
            WireError: it ended, or is silent.
        """
        return self._play(self._runner(scenario), scenario, stop=stop)

    def prepared(self, scenarios: Sequence[Scenario]) -> list[ScenarioRunner]:
        """A runner for each of *scenarios*, which has played all up to the last step that ends the broker.

        They end it together, those that do it more often first, so all must end it last in one way, clean or not.

        Raises:
            CannotPlay: the broker cannot be brought to one of them.
            NoBroker: it does not start with what they leave.
            WireError: it ended by itself, or is silent.
        """
        runners: dict[int, ScenarioRunner] = {}
        for level in range(max(map(ends_of, scenarios), default=0), 0, -1):
            # Partitions that are taken only now have been through no other start, which changes the leader's epoch.
            for at, each in enumerate(scenarios):
                if ends_of(each) == level:
                    runners[at] = self._runner(each)
            together(_at_their_ends(runners.values()))
            self._client = next(iter(runners.values())).client
            self.renew(self._client)
        for runner in runners.values():
            assert self._client is not None
            runner.client = self._client
        return [runners[at] for at in range(len(scenarios))]

    def _play(self, runner: ScenarioRunner, scenario: Scenario, *, stop: Stop | None = None) -> StepAnswers:
        answers = runner.play(ON_DISK, stop=stop)
        self._client = runner.client
        if scenario.restarts():
            # Partitions that were there before have another leader epoch now.
            self.renew(self._client)
        elif scenario.is_plain() and _left_nothing(answers) and self._partitions is not None:
            self._partitions.give_back(settings(scenario, self._broker.release), runner.partition)
        return answers

    def _note(self, id_: str, scenario: Scenario, runner: ScenarioRunner, answers: StepAnswers) -> None:
        """Remember the partition if the answers cover everything that it contains."""
        is_covered = all(isinstance(step, Produce | EndTransaction | Fetch | InitProducerId) for step in scenario.steps)
        data = b"".join(
            answer.data
            for step, answer in zip(scenario.steps, answers, strict=True)
            if isinstance(step, Produce | EndTransaction)
        )
        if is_covered and data:
            self._stored.append(Stored(id_, runner.partition, runner.normal, data))

    def _runner(self, scenario: Scenario) -> ScenarioRunner:
        """An empty partition, and a connection."""
        if self._partitions is None:
            self._partitions = self._fresh(self._broker, self.renewals)
        if self._client is None:
            self._client = self._broker.client()
        number = 2 if any(step.beside is not msgspec.UNSET for step in scenario.produces()) else 1
        try:
            partitions = self._partitions.take(settings(scenario, self._broker.release), number)
        except (BrokerError, NoBroker) as error:
            raise CannotPlay(f"no topic with these settings: {error}") from error
        return ScenarioRunner(self._broker, self._client, scenario, partitions, self.wait_limits)

    def _restart(self) -> None:
        """A broker that is gone, or was lost, is started again."""
        self.close()
        self.restarts += 1
        self._stored = []
        try:
            self._broker.restart()
        except NoBroker:
            if self._new_broker is None:
                raise
            self._broker.stop()
            self._broker = self._new_broker()
        self.renew()

    def renew(self, client: Client | None = None) -> None:
        """Go on with *client*, or a new connection, and on unused partitions."""
        if client is None:
            self.close()
        self.renewals += 1
        self._partitions = None


def _at_their_ends(runners: Iterable[ScenarioRunner]) -> dict[ScenarioRunner, Restart | Edit]:
    """Play *stages* up to where the broker is ended; which of them are there, and how it is."""
    at = {runner: runner.play_until((Restart, Edit), ON_DISK) for runner in runners}
    return {runner: step for runner, step in at.items() if isinstance(step, Restart | Edit)}


def can_share(scenario: Scenario) -> bool:
    """Whether it ends the broker, in a way that others can be played through as well."""
    ends = [step for step in scenario.steps if isinstance(step, Restart | Edit)]
    kinds = {isinstance(step, Restart) and step.clean for step in ends}
    return len(kinds) == 1 and not any(isinstance(step, Edit) and step.fatal for step in ends)


def ends_of(scenario: Scenario) -> int:
    """How many steps end the broker."""
    return sum(isinstance(step, Restart | Edit) for step in scenario.steps)


def is_clean(scenario: Scenario) -> bool:
    """Whether it lets the broker shut down by itself each time that it ends."""
    return all(step.clean for step in scenario.steps if isinstance(step, Restart)) and not any(
        isinstance(step, Edit) for step in scenario.steps
    )


def _left_nothing(answers: StepAnswers) -> bool:
    return all(answer.error_code not in (0, UNKNOWN_SERVER_ERROR) for answer in answers)


def answers_of(lines: Mapping[str, RecordedAnswer]) -> dict[str, StepAnswers]:
    """The answers in *lines* by case id, without what was skipped."""
    return {id_: line.steps for id_, line in lines.items() if line.steps}


def disks_of(lines: Mapping[str, RecordedAnswer]) -> dict[str, Disk]:
    """Recorded disk contents, by case id."""
    return {id_: line.disk for id_, line in lines.items() if line.disk is not None}


def scenario_requests(cases: Iterable[Case], release: str) -> Iterator[ScenarioRequest]:
    """Requests for *release*: its scenarios, and inputs of decode cases as payloads."""
    for case in cases:
        scenario = scenario_of(case)
        if scenario is not None and scenario.concerns(release):
            yield ScenarioRequest(case.id, content_hash(case), scenario)


def unanswered(requests: Iterable[ScenarioRequest], evidence: Evidence, release: str) -> list[ScenarioRequest]:
    """Those of *requests* for which *evidence* has neither an answer of *release* nor a reason why there is none."""
    return [each for each in requests if release not in line_for(evidence, each.id, each.sha256).recorded()]


def recorded(evidence: Evidence, requests: ScenarioRequest, release: str) -> Answers | None:
    """The answers of *release* in *evidence*; None if there are none, or the case has changed."""
    line = evidence.get(requests.id)
    if line is None or line.sha256 != requests.sha256:
        return None
    return line.by_release().get(release)


@dataclass(frozen=True, slots=True)
class RecordedScenario:
    """A scenario of the corpus with the recorded answers of a release."""

    request: ScenarioRequest
    answers: StepAnswers

    @property
    def id(self) -> str:
        """Of the case."""
        return self.request.id

    @property
    def digest(self) -> str:
        """Of the case and its content, for the name of a file."""
        return sha256(f"{self.id} {self.request.sha256}".encode()).hexdigest()[:20]

    @property
    def cleans(self) -> bool:
        """Whether it waits for the cleaner."""
        return any(isinstance(step, Clean) for step in self.request.scenario.steps)

    @property
    def is_large(self) -> bool:
        """Whether a payload is too large to keep, and takes its time."""
        return any(step.recipe is not msgspec.UNSET for step in self.request.scenario.produces())

    def can_be_prepared(self) -> bool:
        """Whether it ends the broker, which starts each time."""
        steps = self.request.scenario.steps
        return self.request.scenario.restarts() and not any(isinstance(step, Edit) and step.fatal for step in steps)

    def difference(self, given: StepAnswers) -> str:
        """How *given* differs from what is recorded; empty if it does not."""
        return difference(self.answers[: len(given)], given, "masked") or difference(self.answers, given, "masked")

    def is_wrong(self, given: Sequence[StepAnswer]) -> bool:
        """Whether the last of *given* is not the answer that is recorded."""
        return bool(difference(self.answers[len(given) - 1 : len(given)], tuple(given[-1:]), "masked"))


def recorded_scenarios(cases: Iterable[Case], evidence: Evidence, release: str) -> Iterator[RecordedScenario]:
    """The scenarios of *cases* with what *release* answered, where that is recorded."""
    for each in scenario_requests(cases, release):
        if answers := recorded(evidence, each, release):
            yield RecordedScenario(each, answers)


def record_answers(
    recorder: Recorder, requests: Sequence[ScenarioRequest], recording: AnswerFile, is_covered: Progress
) -> dict[str, RecordedAnswer]:
    """Ask everything that *recording* does not hold; its lines at the end, by case id."""
    lines: dict[str, RecordedAnswer] = {}
    for line in recorder.record(requests, recording):
        lines[line.id] = line
        is_covered(len(lines), len(requests), recorder.restarts)
    return lines


def merged(
    evidence: Evidence, release: str, requests: Sequence[ScenarioRequest], lines: Mapping[str, RecordedAnswer]
) -> Evidence:
    """*evidence* with the answers in *lines*."""
    content = {each.id: each.sha256 for each in requests}
    cannot = {id_: why for id_, line in lines.items() if (why := unknown_setting(line.skipped))}
    return brokers.with_release(evidence, release, content, answers_of(lines), disks_of(lines), cannot)


# The tool that creates topics before 0.10.1 says this of a setting that came later, every time.
_UNKNOWN_SETTING: Final = re.compile(r'Unknown configuration "[\w.]+"')


def unknown_setting(reason: str) -> str:
    """The part of *reason* that holds every time on that release, or an empty string.

    >>> unknown_setting('no topic: requirement failed: Unknown configuration "compression.type".')
    'Unknown configuration "compression.type"'
    """
    found = _UNKNOWN_SETTING.search(reason)
    return found[0] if found else ""


@dataclass(frozen=True, slots=True)
class Change:
    """A case to which two releases answer differently."""

    id: str
    what: str


def changes(evidence: Evidence, old: str, new: str, ids: Collection[str] | None = None) -> Iterator[Change]:
    """Cases to which *new* and *old* have different recorded answers."""
    for id_ in sorted(evidence if ids is None else evidence.keys() & set(ids)):
        answers = evidence[id_].by_release()
        if old in answers and new in answers and (what := difference(answers[old], answers[new], "masked")):
            yield Change(id_, what)


def differing(
    evidence: Evidence, release: str, requests: Iterable[ScenarioRequest], lines: Mapping[str, RecordedAnswer]
) -> list[Change]:
    """Cases whose new answers *lines* differ from *evidence*, for `--check`."""
    found = []
    for each in requests:
        old, now = recorded(evidence, each, release), lines[each.id].steps
        if old is None and now:
            found.append(Change(each.id, "is not recorded"))
        elif old is not None and (what := difference(old, now, "masked")):
            found.append(Change(each.id, what))
    return found


def answer_file_of(folder: Path, release: str) -> AnswerFile:
    """Where the answers of *release* go, one by one."""
    return AnswerFile(folder / f"{release}.ndjson")
