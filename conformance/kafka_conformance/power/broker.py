"""The target `java-broker`: mutants of a real broker's log classes, and what the corpus' scenarios see of them.

A broker of the newest release runs with an agent that replaces the code of classes while the broker runs.  The
scenarios of the corpus are played over the wire, as for recorded answers, and a mutant is seen if an answer differs
from the recorded one: error code, offsets, times, bytes stored, fetched, or left by cleaner and recovery.  JaCoCo's
agent says which lines each scenario reaches, so a mutant gets only those that can see it.
"""

from __future__ import annotations

import fcntl
import random
import socket
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Final, Self, TextIO

import msgspec

from kafka_brokers.interface import Broker, NoBroker
from kafka_brokers.jvm import HOST
from kafka_brokers.scenarios.disk import ON_DISK
from kafka_brokers.scenarios.recorder import (
    AnswerFile,
    RecordedScenario,
    Recorder,
    StepAnswers,
    can_share,
    is_clean,
    recorded_scenarios,
)
from kafka_brokers.scenarios.runner import CannotPlay, Fresh, ScenarioRunner, WaitLimits
from kafka_brokers.wire import WireError
from kafka_conformance.power import of_different_classes, side_by_side
from kafka_conformance.power.java import (
    FIRST_LIMIT,
    KEPT,
    MOST_STARTS,
    QUIET_LIMIT,
    SURE_LIMIT,
    JavaTools,
    QuietBroker,
    ReachedLines,
    archived_classes,
    broker_tools,
    covered_lines,
)
from kafka_conformance.power.results import (
    MOST_CASES,
    SEEN,
    CodeMutant,
    MethodCoverage,
    MutantCode,
    MutantKey,
    MutantResult,
    MutantStatus,
    mutant_result,
)
from kafka_corpus.evidence import load_evidence
from kafka_corpus.scenario import NEWEST_RELEASE, Dump
from kafka_corpus.vector_format import CODEC_OPS, OPS
from kafka_corpus.vectors import load_vectors, package_root

_LOG: Final = "org.apache.kafka.storage.internals.log."
_RECORD: Final = "org.apache.kafka.common.record.internal."
_STATEFUL: Final = ("LogSegment", "ProducerAppendInfo", "ProducerStateManager", "ProducerStateEntry")
CLASSES: Final = (
    *(_LOG + name for name in ("LogValidator", *_STATEFUL[1:], "Cleaner", "Cleaner$1", _STATEFUL[0])),
    *(_RECORD + name for name in ("MemoryRecords", "MemoryRecords$RecordFilter")),
)
BROKER_OPS: Final = tuple(op for op in OPS if op not in CODEC_OPS)
AGENT_LIMIT: Final = 30.0
# Partitions of a broker that is replaced by a new one: each has index files in memory.
MOST_PARTITIONS: Final = 2_000
AT_ONCE: Final = 32
# Scenarios for one mutant: one of each case function, and more of each until there are so many.
MOST_SCENARIOS: Final = 500
MOST_CLEANED: Final = 80
# The first of these are played one by one, and then so many at once, since most of the time is spent waiting.
ALONE, PLAYERS = 8, 6
# Mutants that wait until they are played together, and then for restarts; what waits is lost when a run is stopped.
MOST_PENDING: Final = 24
MOST_LATER: Final = 24
# Mutants that one broker plays what follows a restart to.
COPIES: Final = 16
# Brokers that run at the same time: one starts, or waits, while the other is busy.
BROKERS: Final = 2
# What these do depends neither on what a broker found when it started, nor on logs that were put in their place.
WITHOUT_STATE: Final = frozenset((_LOG + "LogValidator",))
# What these write before a restart, and read when a broker starts, shows after it.
STATEFUL: Final = frozenset((*(_LOG + name for name in _STATEFUL), f"{_RECORD}MemoryRecords"))
# Names of measurements: of a start, in which a broker recovers the logs of all scenarios, and of what follows it.
START: Final = "start-"
AFTER: Final = "after-"
MEASURED: Final = ".exec"
SILENCE: Final = "no answer"


@dataclass(frozen=True, slots=True)
class PlayOutcome:
    """How answers differ from what is recorded, `SILENCE` or empty; after so many seconds, of a limit for each wait."""

    differs: str
    seconds: float
    limit: float

    @property
    def waited(self) -> bool:
        """Whether something may have taken too long."""
        return self.differs is SILENCE or self.seconds >= self.limit


class MutableBroker:
    """A running broker in which classes are replaced; a context manager."""

    def __init__(self, tools: JavaTools, *, measured: bool = False) -> None:
        """Start it, with JaCoCo's agent if coverage is to be *measured*."""
        self._scratch = tempfile.TemporaryDirectory(prefix="kafkaproof-power-")
        self.folder = Path(self._scratch.name)
        flags = [f"-javaagent:{tools.agent}={self.folder}"]
        if measured:
            included = ":".join(CLASSES)
            flags.append(f"-javaagent:{tools.coverage_agent}=output=none,includes={included}")
        self.broker = QuietBroker(flags)
        self._open = ExitStack()
        self._port = 0
        self._lines: TextIO
        self._partitions: list[Fresh] = []
        self.replaced: dict[str, Path] = {}
        self.recorder = Recorder(self.broker, fresh=self._fresh)
        self._players: list[Recorder] = []
        self._players_since = -1

    def _fresh(self, broker: Broker, _start: int) -> Fresh:
        self._partitions.append(Fresh(broker, prefix=f"case-{len(self._partitions)}", at_once=AT_ONCE))
        return self._partitions[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        for each in (self.recorder, *self._players):
            each.close()
        with suppress(OSError):  # an agent that has ended
            self._open.close()
        self.broker.stop()
        self._scratch.cleanup()

    def replace(self, codes: Mapping[str, Path], *, at_start: bool = False) -> None:
        """Replace classes by name, now and (*at_start*) in a process that is started later.  Raises `NoBroker`."""
        active = self.folder / "active"
        active.unlink(missing_ok=True)
        if at_start:
            active.write_text("".join(f"{name}\n{code}\n" for name, code in codes.items()), encoding="utf-8")
        for name, code in codes.items():
            if self.replaced.get(name) != code:
                self._command("replace", name, str(code))
                self.replaced[name] = code

    def play(self, scenario: RecordedScenario, limit: float = FIRST_LIMIT) -> PlayOutcome:
        """The answers to *scenario* beside those that are recorded; *limit*: seconds for each wait."""
        if self.broker.limit != limit:
            self.broker.limit = limit
            self.recorder.close()
        began = time.monotonic()
        differs = _difference(self.recorder, scenario, limit)
        return PlayOutcome(differs, time.monotonic() - began, limit)

    def differing(self, left: deque[RecordedScenario]) -> list[RecordedScenario]:
        """Take scenarios from *left* and play several at once, until one differs from what is recorded; those that do.

        An answer that comes late may differ for that reason only: play what differs once more, by itself.
        """
        found: list[RecordedScenario] = []

        def play(recorder: Recorder) -> None:
            while not found:
                try:
                    scenario = left.popleft()
                except IndexError:
                    return
                if _difference(recorder, scenario, SURE_LIMIT if scenario.cleans else FIRST_LIMIT):
                    found.append(scenario)

        with ThreadPoolExecutor(PLAYERS) as pool:
            list(pool.map(play, self._connected_players()))
        return found

    def _connected_players(self) -> list[Recorder]:
        """Recorders with partitions of their own; new ones after a start, which changes the leader's epoch."""
        if self._players_since != self.recorder.renewals:
            for each in self._players:
                each.close()
            partitions = self._fresh(self.broker, 0)
            self._players = [Recorder(self.broker, fresh=lambda *_: partitions) for _ in range(PLAYERS)]
            self._players_since = self.recorder.renewals
        return self._players

    def prepared(self, scenarios: Sequence[RecordedScenario], copies: int) -> list[dict[str, ScenarioRunner]]:
        """Runners of *scenarios* by id, *copies* times, all past the last step that ends the broker.

        Raises:
            CannotPlay, NoBroker, OSError, WireError: they cannot be brought there.
        """
        self.broker.limit = SURE_LIMIT
        self.recorder.close()
        runners = iter(self.recorder.prepared([each.request.scenario for each in scenarios] * copies))
        return [{each.id: next(runners) for each in scenarios} for _ in range(copies)]

    def is_worn(self) -> bool:
        """Whether it has so many partitions that a new broker is better."""
        return sum(each.taken for each in self._partitions) > MOST_PARTITIONS

    def measure(self, path: Path) -> None:
        """Write what was covered since the last call to *path*, as a whole or not at all."""
        partial = path.with_name(f"{path.name}.partial")
        self._command("cover", str(partial))
        partial.replace(path)

    def _command(self, *words: str) -> None:
        port = int((self.folder / "port").read_text(encoding="utf-8"))
        if port != self._port:
            agent = self._open.enter_context(socket.create_connection((HOST, port), timeout=AGENT_LIMIT))
            self._lines = self._open.enter_context(agent.makefile("rw", encoding="utf-8"))
            self._port = port
        self._lines.write("\t".join(words) + "\n")
        self._lines.flush()
        answer = self._lines.readline().strip()
        if answer != "done":
            raise NoBroker(f"the agent could not {words[0]}: {answer}")


def _difference(recorder: Recorder, scenario: RecordedScenario, limit: float) -> str:
    # New ones for each scenario, since one that waited in vain makes the next ones impatient.
    recorder.wait_limits = WaitLimits(seconds=limit, cleaner=limit)
    differs = _compared(scenario, lambda: recorder.play(scenario.request.scenario, stop=scenario.is_wrong))
    if differs is SILENCE:
        recorder.close()
    return differs


def _rest_differs(runner: ScenarioRunner, scenario: RecordedScenario) -> str:
    """How the answers differ when the steps that are left are played too."""
    runner.wait_limits = WaitLimits(seconds=SURE_LIMIT, cleaner=SURE_LIMIT)
    return _compared(scenario, lambda: runner.play(ON_DISK, stop=scenario.is_wrong))


def _compared(scenario: RecordedScenario, play: Callable[[], StepAnswers]) -> str:
    try:
        return scenario.difference(play())
    except CannotPlay as error:
        return str(error)
    except (WireError, OSError):
        return SILENCE


def expected_scenarios() -> list[RecordedScenario]:
    """The scenarios of cases for brokers with recorded answers, but for DumpLogSegments, which is another program.

    Inputs of decode cases have recorded answers too, and take the same ways through a broker.
    """
    found = recorded_scenarios(load_vectors(ops=BROKER_OPS), load_evidence(package_root()), NEWEST_RELEASE)
    return [each for each in found if not any(isinstance(step, Dump) for step in each.request.scenario.steps)]


def _restarting(scenarios: Iterable[RecordedScenario], *, restarts: bool = True) -> list[RecordedScenario]:
    return [each for each in scenarios if each.request.scenario.restarts() is restarts]


def _plain(scenarios: Iterable[RecordedScenario]) -> list[RecordedScenario]:
    return _restarting(scenarios, restarts=False)


def play_restarts(
    running: MutableBroker, scenarios: Sequence[RecordedScenario]
) -> Iterator[tuple[RecordedScenario, str]]:
    """Play scenarios that end the broker, together where they can be; each with its difference.

    Raises:
        NoBroker: the broker cannot be started again.
    """
    by_id = {each.id: each for each in scenarios}
    with tempfile.TemporaryDirectory() as scratch:
        recording = AnswerFile(Path(scratch) / "answers.ndjson")
        for line in running.recorder.record([each.request for each in scenarios], recording):
            yield by_id[line.id], line.skipped or by_id[line.id].difference(line.steps)


def measure_scenarios(tools: JavaTools, scenarios: Sequence[RecordedScenario], folder: Path) -> None:
    """Play *scenarios* with JaCoCo's agent, but for those of which *folder* has a file.

    A plain scenario leaves `DIGEST.exec`, and one with a restart `AFTER` before it, for what follows its last restart;
    starts leave `START`, a digest of the scenarios with a restart, and a number.  What is not answered as recorded
    leaves nothing.
    """
    plain = [each for each in _plain(scenarios) if not (folder / f"{each.digest}{MEASURED}").is_file()]
    other = folder / "other"
    if plain:
        with MutableBroker(tools, measured=True) as running:
            for each in plain:
                outcome = running.play(each, SURE_LIMIT)
                running.measure(other if outcome.differs else folder / f"{each.digest}{MEASURED}")
    restarting = [each for each in _restarting(scenarios) if each.can_be_prepared()]
    prefix = _start_prefix(restarting)
    if not restarting or (folder / f"{prefix}done{MEASURED}").is_file():
        return
    with MutableBroker(tools, measured=True) as running:
        numbers = count()
        running.broker.after_start = lambda: running.measure(folder / f"{prefix}{next(numbers)}{MEASURED}")
        for group in _prepared_groups(restarting):
            (runners,) = running.prepared(group, 1)
            running.measure(other)
            for each in group:
                differs = _rest_differs(runners[each.id], each)
                running.measure(other if differs else folder / f"{AFTER}{each.digest}{MEASURED}")
        (folder / f"{prefix}done{MEASURED}").touch()


def _start_prefix(restarting: Iterable[RecordedScenario]) -> str:
    return f"{START}{sha256(''.join(each.digest for each in restarting).encode()).hexdigest()[:12]}-"


def _prepared_groups(restarting: Iterable[RecordedScenario]) -> list[list[RecordedScenario]]:
    """Those that end the broker last as a crash does, and those that let it shut down."""
    groups: dict[bool, list[RecordedScenario]] = {}
    for each in restarting:
        groups.setdefault(is_clean(each.request.scenario), []).append(each)
    return list(groups.values())


def covered_by(
    tools: JavaTools, scenarios: Sequence[RecordedScenario]
) -> tuple[list[ReachedLines], list[MethodCoverage]]:
    """Lines that each of *scenarios* reaches, and branches by method that they take.

    What was measured of a scenario is kept, so only those that are new or changed are played; what no scenario has is
    removed.  Another run that measures is waited for.

    Raises:
        NoBroker: the broker or a Java program cannot be started.
    """
    folder = KEPT / f"java-broker-{sha256(repr((NEWEST_RELEASE, CLASSES)).encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _covered_in(folder, tools, scenarios)


def _covered_in(
    folder: Path, tools: JavaTools, scenarios: Sequence[RecordedScenario]
) -> tuple[list[ReachedLines], list[MethodCoverage]]:
    measure_scenarios(tools, scenarios, folder)
    names = {each.digest for each in _plain(scenarios)} | {AFTER + each.digest for each in _restarting(scenarios)}
    prefix = _start_prefix(each for each in _restarting(scenarios) if each.can_be_prepared())
    every = list(folder.glob(f"*{MEASURED}"))
    found = [each for each in every if each.stem in names or each.stem.startswith(prefix)]
    kept = folder / f"{sha256(repr(sorted(each.stem for each in found)).encode()).hexdigest()}.ndjson"
    if not kept.is_file():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            for path in found:
                if path.stat().st_size:
                    (Path(scratch) / path.name).symlink_to(path)
            partial = Path(scratch) / kept.name
            partial.write_text("\n".join(tools.lines("BrokerCoverage", scratch, *CLASSES)), encoding="utf-8")
            partial.replace(kept)
    for path in {*every, *folder.glob("*.ndjson"), *folder.glob("*.partial")} - {*found, kept}:
        path.unlink()
    return covered_lines(kept.read_bytes().splitlines())


class MutantPlayer:
    """Plays to each mutant the scenarios that reach its line."""

    def __init__(
        self, tools: JavaTools, scenarios: Sequence[RecordedScenario], reached: Iterable[ReachedLines], code: Path
    ) -> None:
        """*code* is a folder with a class file for each unchanged class."""
        self._tools = tools
        self._code = code
        self._restarting = _restarting(scenarios)
        self._reaching: dict[tuple[str, int], list[RecordedScenario]] = {}
        self._after: dict[tuple[str, int], list[RecordedScenario]] = {}
        self._at_start: set[tuple[str, int]] = set()
        plain = {each.digest: each for each in _plain(scenarios)}
        after = {AFTER + each.digest: each for each in self._restarting}
        for each in reached:
            for place in ((each.class_name, line) for line in each.lines):
                if each.name.startswith(START):
                    self._at_start.add(place)
                elif each.name in after:
                    self._after.setdefault(place, []).append(after[each.name])
                else:
                    self._reaching.setdefault(place, []).append(plain[each.name])
        # What saw mutants of a method goes to the next ones first, so an order is made once for each mutant.
        self._saw: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[MutantKey, list[RecordedScenario]] = {}
        self._running: MutableBroker | None = None
        self._swapping = Lock()
        self._is_ended = False
        self._ended: MutableBroker | None = None

    def close(self) -> None:
        """End the broker; another is started where one is needed."""
        if running := self._swap(None):
            running.close()

    def _swap(self, started: MutableBroker | None) -> MutableBroker | None:
        with self._swapping:
            before, self._running = self._running, started
        return before

    def end(self) -> None:
        """End the broker for good, also from another thread: whatever plays then raises `NoBroker`.

        A second call, when nothing plays any more, ends what was being started during the first.
        """
        self._is_ended = True
        self._ended = running = self._swap(None) or self._ended
        if running is not None:
            running.close()

    def _broker(self) -> MutableBroker:
        if (running := self._running) is not None and running.is_worn():
            self.close()
            running = None
        if running is None and not self._is_ended:
            self._swap(running := MutableBroker(self._tools))
        if running is None or self._is_ended:
            self.close()  # also one that `end` could not know
            raise NoBroker("the run has ended")
        return running

    def _only(self, codes: Mapping[str, Path]) -> MutableBroker:
        """A broker with *codes* in place of the classes of that name, and with no other mutant."""
        running = self._broker()
        unchanged = {name: self._code / f"{name}.class" for name in running.replaced.keys() - codes.keys()}
        try:
            running.replace({**unchanged, **codes})
        except (OSError, NoBroker):  # it has ended, as one does that cannot use its disk
            self.close()
            self._broker().replace(codes)
        return self._broker()

    def is_reached(self, mutant: CodeMutant) -> bool:
        """Whether any scenario reaches its line."""
        place = mutant.class_name, mutant.line
        return place in self._reaching or place in self._after or place in self._at_start

    def needs_start(self, mutant: CodeMutant) -> bool:
        """Whether a broker that starts with it may show more of it than one in which it is put later."""
        place = mutant.class_name, mutant.line
        if mutant.class_name in STATEFUL:
            return place in self._at_start or place in self._after
        return place in self._at_start and place not in self._reaching and place not in self._after

    def needs_restarts(self, mutant: CodeMutant) -> bool:
        """Whether what follows a restart may show more of it than other scenarios."""
        place = mutant.class_name, mutant.line
        return place in self._after and (place not in self._reaching or mutant.class_name not in WITHOUT_STATE)

    def results(self, mutants: Iterable[MutantCode]) -> Iterator[MutantResult]:
        """The result of each mutant, which comes with its class file; those that are seen soon come first.

        Raises:
            NoBroker: a broker without a mutant cannot be started.
        """
        pending: list[MutantCode] = []
        later: list[MutantCode] = []
        for mutant, code in mutants:
            if not self.is_reached(mutant):
                yield mutant_result(mutant, "not-reached")
            elif result := self.alone(mutant, code):
                yield result
            else:
                pending.append((mutant, code))
            if len(pending) == MOST_PENDING:
                yield from self._sifted(pending, later)
                pending.clear()
            if len(later) >= MOST_LATER:
                yield from self._restarted(later)
                later.clear()
        yield from self._sifted(pending, later)
        yield from self._restarted(later)

    def _sifted(self, pending: Sequence[MutantCode], later: list[MutantCode]) -> Iterator[MutantResult]:
        for group in of_different_classes(pending):
            for mutant, code, result in self.together(group):
                if result is not None:
                    yield result
                elif self.needs_start(mutant) or self.needs_restarts(mutant):
                    later.append((mutant, code))
                else:
                    yield mutant_result(mutant, "same-replies")

    def _restarted(self, later: Sequence[MutantCode]) -> Iterator[MutantResult]:
        self.close()
        yield from self.after_restarts([each for each in later if not self.needs_start(each[0])])
        yield from self.restarted_together([each for each in later if self.needs_start(each[0])])

    def alone(self, mutant: CodeMutant, code: Path) -> MutantResult | None:
        """The result if one of the first scenarios for *mutant* sees it; None if none does."""
        order = self.in_order(mutant)
        for each in order[:ALONE]:
            if result := self._result_of(mutant, code, each):
                return result
        self._waiting[mutant.key] = order[ALONE:]
        return None

    def together(self, group: Iterable[MutantCode]) -> Iterator[tuple[CodeMutant, Path, MutantResult | None]]:
        """Each of *group*, which are of different classes, and its result if a scenario sees it that `alone` left.

        All are in one broker while nothing differs; what differs then is played to each alone.
        """
        unseen = {mutant.class_name: (mutant, code) for mutant, code in group}
        orders = {name: self._waiting.pop(mutant.key) for name, (mutant, _) in unseen.items()}
        ids = {name: {each.id for each in order} for name, order in orders.items()}
        every = {each.id: each for order in orders.values() for each in order}.values()
        left = deque(sorted(every, key=lambda each: (each.is_large, each.cleans)))
        while left and unseen:
            running = self._only({name: code for name, (_, code) in unseen.items()})
            for scenario in running.differing(left):
                for name, (mutant, code) in list(unseen.items()):
                    if scenario.id in ids[name] and (result := self._result_of(mutant, code, scenario)):
                        del unseen[name]
                        yield mutant, code, result
            left = deque(each for each in left if any(each.id in ids[name] for name in unseen))
        yield from ((mutant, code, None) for mutant, code in unseen.values())

    def in_order(self, mutant: CodeMutant) -> list[RecordedScenario]:
        """Those that saw mutants of the method first, then one of each case function, the quick ones before others."""
        shuffled = list(self._reaching.get((mutant.class_name, mutant.line), ()))
        random.Random(mutant.method).shuffle(shuffled)
        rounds: Counter[str] = Counter()
        ranked = []
        for each in shuffled:
            name = each.id.partition("[")[0]
            rounds[name] += 1
            ranked.append((each.is_large, -self._saw[mutant.method, each.id], each.cleans, rounds[name], each))
        ranked.sort(key=lambda item: item[:4])
        quick = [each for *_, each in ranked if not each.cleans][:MOST_SCENARIOS]
        return quick + [each for *_, each in ranked if each.cleans][:MOST_CLEANED]

    def _result_of(self, mutant: CodeMutant, code: Path, scenario: RecordedScenario) -> MutantResult | None:
        status = self._seen({mutant.class_name: code}, scenario)
        if status is None:
            return None
        self._saw[mutant.method, scenario.id] += 1
        return mutant_result(mutant, status, [scenario.id])

    def _seen(self, codes: Mapping[str, Path], scenario: RecordedScenario) -> MutantStatus | None:
        """Whether *scenario* sees a mutant; what differs must not differ without the mutant."""
        outcome = self._only(codes).play(scenario)
        if not outcome.differs:
            return None
        if scenario.cleans and not outcome.waited and not self._only(codes).play(scenario).differs:
            return None  # the cleaner's rounds depend on the clock
        without = self._only({}).play(scenario)
        if without.differs:
            self.close()  # it may be damaged: once more with a new one
            without = self._only({}).play(scenario, SURE_LIMIT)
            if without.differs:
                return None  # it is not answered as recorded without a mutant either
        elif not outcome.waited:
            return "seen"
        # It may only have been slow; what it was slow in may be a new topic.
        self._only(codes).recorder.renew()
        outcome = self._only(codes).play(scenario, SURE_LIMIT)
        if outcome.differs is SILENCE:
            self.close()  # a request may run for ever
        return None if not outcome.differs else "hang" if outcome.differs is SILENCE else "seen"

    def after_restarts(self, mutants: Sequence[MutantCode]) -> Iterator[MutantResult]:
        """The results after what follows restarts, where the broker starts without a mutant.

        Each mutant gets partitions of its own, on which one broker has played all scenarios up to there.  A mutant may
        damage that broker for the others, so what differs counts if it does so on a new one, too.
        """
        unseen = {mutant.key: (mutant, code) for mutant, code in mutants}
        for group in _prepared_groups(each for each in self._restarting if each.can_be_prepared()):
            ids = {each.id for each in group}
            left = {
                key: deque(each for each in self._after[mutant.class_name, mutant.line] if each.id in ids)
                for key, (mutant, _) in unseen.items()
            }
            while chunk := [each for key, each in unseen.items() if left[key]][:COPIES]:
                for mutant, code, scenario in self._differing_after(chunk, left):
                    result = self._repeated(mutant, code, scenario) if scenario else self.restarted(mutant, code)
                    if result is None:  # it differs without a mutant, too
                        left = {key: deque(each for each in some if each != scenario) for key, some in left.items()}
                    elif result.status in SEEN:
                        del unseen[mutant.key]
                        yield result
        yield from (mutant_result(mutant, "same-replies") for mutant, _ in unseen.values())

    def _differing_after(
        self, mutants: Sequence[MutantCode], left: Mapping[MutantKey, deque[RecordedScenario]]
    ) -> list[tuple[CodeMutant, Path, RecordedScenario | None]]:
        """Those of *mutants* of which a scenario in *left* differs, with that one; with None if the broker is lost.

        What is played is taken from *left*.  If a scenario then differs without a mutant, other mutants keep theirs.
        """
        scenarios = list({each.id: each for mutant, _ in mutants for each in left[mutant.key]}.values())
        try:
            running = self._only({})
            running.broker.starts_left = MOST_STARTS
            plain, *copies = running.prepared(scenarios, 1 + len(mutants))
        except (CannotPlay, NoBroker, WireError, OSError):
            self.close()
            for mutant, _ in mutants:
                left[mutant.key].clear()
            return [(*each, None) for each in mutants]
        found: list[tuple[CodeMutant, Path, RecordedScenario | None]] = []
        for (mutant, code), runners in zip(mutants, copies, strict=True):
            scenario = None
            try:
                scenario = self._first_after(running, {mutant.class_name: code}, left[mutant.key], runners)
                once = [scenario] if scenario and scenario.id in plain else []
                is_usable = not once or self._first_after(running, {}, deque(once), plain) is None
                plain = {name: runner for name, runner in plain.items() if scenario is None or name != scenario.id}
            except (NoBroker, WireError, OSError):
                is_usable = False
                if scenario is None:
                    left[mutant.key].clear()
                    found.append((mutant, code, None))
            if scenario:
                found.append((mutant, code, scenario))
            if not is_usable:
                break
        self.close()
        return found

    def _first_after(
        self,
        running: MutableBroker,
        codes: Mapping[str, Path],
        left: deque[RecordedScenario],
        runners: Mapping[str, ScenarioRunner],
    ) -> RecordedScenario | None:
        """Take scenarios from *left* and play what follows their last restart, until one differs; that one."""
        running.replace({name: self._code / f"{name}.class" for name in running.replaced} | dict(codes))
        with running.broker.client() as client:
            while left:
                scenario = left.popleft()
                runners[scenario.id].client = client
                if _rest_differs(runners[scenario.id], scenario):
                    return scenario
        return None

    def _repeated(self, mutant: CodeMutant, code: Path, scenario: RecordedScenario) -> MutantResult | None:
        """The result of *scenario* on a new broker; None if it is not answered as recorded without a mutant either."""
        try:
            running = self._only({})
            plain, changed = running.prepared([scenario], 2)
            if self._first_after(running, {}, deque([scenario]), plain):
                return None
            differs = self._first_after(running, {mutant.class_name: code}, deque([scenario]), changed)
        except (CannotPlay, NoBroker, WireError, OSError):
            self.close()
            return self.restarted(mutant, code, [scenario])
        finally:
            self.close()
        return mutant_result(mutant, "seen", [scenario.id]) if differs else mutant_result(mutant, "same-replies")

    def restarted_together(self, mutants: Sequence[MutantCode]) -> Iterator[MutantResult]:
        """The results after scenarios with a restart, in which the broker starts with mutants.

        Mutants of different classes are in one broker.  If a scenario sees them, those that it sees alone are seen,
        and the others are played together again.
        """
        for group in of_different_classes(mutants):
            yield from self._together_from_the_start(group)

    def _together_from_the_start(self, group: Sequence[MutantCode]) -> Iterator[MutantResult]:
        found = self._differing({mutant.class_name: code for mutant, code in group}) if len(group) > 1 else None
        self.close()
        if found == []:
            yield from (mutant_result(mutant, "same-replies") for mutant, _ in group)
            return
        alone = [self.restarted(*each, scenarios=found[:MOST_CASES]) for each in group] if found else []
        seen = {each.key for each in alone if each.status != "same-replies"}
        yield from (each for each in alone if each.key in seen)
        if seen:
            yield from self._together_from_the_start([each for each in group if each[0].key not in seen])
        else:
            yield from (self.restarted(*each) for each in group)

    def restarted(
        self, mutant: CodeMutant, code: Path, scenarios: Sequence[RecordedScenario] | None = None
    ) -> MutantResult:
        """The result after *scenarios* with a restart, or all of them, in which the broker starts with *mutant*."""
        codes = {mutant.class_name: code}
        differing = self._differing(codes, scenarios)
        if differing is None:  # a start may fail by chance
            differing = self._differing(codes, scenarios)
        if differing is None:
            return mutant_result(mutant, "hang", [self._restarting[0].id])
        self.close()
        if differing:
            differing = self._without_mutant(differing)
        return mutant_result(mutant, "seen" if differing else "same-replies", [each.id for each in differing])

    def _differing(
        self, codes: Mapping[str, Path], scenarios: Sequence[RecordedScenario] | None = None
    ) -> list[RecordedScenario] | None:
        """Those of *scenarios* that mutants do not answer as recorded; None if the broker does not start."""
        every = self._restarting if scenarios is None else scenarios
        shared = [each for each in every if can_share(each.request.scenario)]
        alone = [each for each in every if not can_share(each.request.scenario)]
        try:
            running = self._only({})
            running.broker.starts_left = MOST_STARTS
            running.broker.limit = QUIET_LIMIT
            running.recorder.close()
            running.recorder.wait_limits = WaitLimits()
            running.replace(codes, at_start=True)
            for several in (shared, alone):  # those that need starts of their own only if no other sees it
                if found := [each for each, differs in play_restarts(running, several) if differs]:
                    return found
        except (OSError, NoBroker):
            self.close()
            return None
        return []

    def _without_mutant(self, scenarios: Sequence[RecordedScenario]) -> list[RecordedScenario]:
        """The first of *scenarios* that are answered as recorded without a mutant."""
        for at in range(0, len(scenarios), MOST_CASES):
            running = self._broker()
            running.broker.starts_left = MOST_STARTS
            if found := [
                each for each, differs in play_restarts(running, scenarios[at : at + MOST_CASES]) if not differs
            ]:
                return found
        return []


class JavaBroker:
    """The target: see `MutationTarget`."""

    @cached_property
    def tools(self) -> JavaTools:
        """The Java programs, built on first use.  Raises `CannotRun`."""
        return broker_tools()

    def version(self) -> str:
        """The release."""
        return NEWEST_RELEASE

    def mutants(self) -> Sequence[CodeMutant]:
        """PIT's mutants of `CLASSES`."""
        return [msgspec.json.decode(line, type=CodeMutant) for line in self.tools.lines("BrokerMutants", *CLASSES)]

    def run(self, mutants: Sequence[CodeMutant]) -> Generator[MutantResult, None, None]:
        """Play the scenarios to each of *mutants*.

        Raises:
            NoBroker: the broker or a Java program cannot be started.
        """
        scenarios = expected_scenarios()
        reached, _ = covered_by(self.tools, scenarios)
        with tempfile.TemporaryDirectory(prefix="kafkaproof-power-") as scratch:
            code = self.class_files(mutants, Path(scratch))
            archived_classes()
            players = [MutantPlayer(self.tools, scenarios, reached, Path(scratch)) for _ in range(BROKERS)]
            todo = deque((each, code[each.key]) for each in mutants)
            yield from side_by_side(players, todo)

    def class_files(self, mutants: Iterable[CodeMutant], folder: Path) -> dict[MutantKey, Path]:
        """The class file of each of *mutants*, by key, in *folder*, beside those of the unchanged classes."""
        numbers = {each.key: number for number, each in enumerate(self.mutants())}
        wanted = [each.key for each in mutants]
        chosen = " ".join(str(numbers[key]) for key in wanted)
        self.tools.lines("BrokerMutants", "--write", str(folder), *CLASSES, text=chosen)
        return {key: folder / f"{numbers[key]}.class" for key in wanted}

    def coverage(self) -> Iterator[MethodCoverage]:
        """Branches of each method of `CLASSES` that the scenarios enter."""
        yield from covered_by(self.tools, expected_scenarios())[1]
