"""The target `java-broker`: mutants of a real broker's log classes, and what the corpus' scenarios see of them.

A broker of the newest release runs with an agent that replaces the code of one class while the broker runs.  The
scenarios of the corpus are played over the wire, as for recorded answers, and a mutant is seen if an answer differs
from the recorded one: error code, offsets, times, bytes stored, fetched, or left by cleaner and recovery.  Where a
restart is part of the scenario, the broker starts with the replaced class.

JaCoCo's agent says once which lines each scenario reaches, so a mutant gets only those that can see it.
"""

from __future__ import annotations

import random
import socket
import subprocess
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TextIO

import msgspec

from kafka_brokers import jars, jvm
from kafka_brokers.interface import Broker, NoBroker
from kafka_brokers.jvm import HOST, Here, JvmBroker
from kafka_brokers.releases import Release, find_release
from kafka_brokers.scenarios.recorder import (
    AnswerFile,
    Recorder,
    ScenarioRequest,
    StepAnswers,
    can_share,
    scenario_requests,
)
from kafka_brokers.scenarios.runner import CannotPlay, Fresh
from kafka_brokers.wire import Client, WireError
from kafka_conformance.judge.reach import CONFIG
from kafka_conformance.power.results import (
    MOST_CASES,
    CodeMutant,
    MethodCoverage,
    MutantResult,
    MutantStatus,
    mutant_result,
)
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.recipe import BuildError, BuildRecipe, build_testee
from kafka_corpus.answer_diff import difference
from kafka_corpus.evidence import load_evidence
from kafka_corpus.scenario import NEWEST_RELEASE, Clean, Dump
from kafka_corpus.vector_format import CODEC_OPS, OPS
from kafka_corpus.vectors import load_vectors, package_root

_LOG: Final = "org.apache.kafka.storage.internals.log."
_RECORD: Final = "org.apache.kafka.common.record.internal."
CLASSES: Final = (
    *(
        _LOG + name
        for name in (
            "LogValidator",
            "ProducerAppendInfo",
            "ProducerStateManager",
            "ProducerStateEntry",
            "Cleaner",
            "Cleaner$1",
            "LogSegment",
        )
    ),
    _RECORD + "MemoryRecords",
    _RECORD + "MemoryRecords$RecordFilter",
)
BROKER_OPS: Final = tuple(op for op in OPS if op not in CODEC_OPS)
# Seconds.  A request to a mutant that takes longer is tried once more with the second limit.
QUIET_LIMIT: Final = 10.0
SURE_LIMIT: Final = 15.0
AGENT_LIMIT: Final = 30.0
# Partitions of a broker that is replaced by a new one: each has index files in memory.
MOST_PARTITIONS: Final = 2_000
AT_ONCE: Final = 32
# Scenarios for one mutant: one of each case function, and more of each until there are so many.
MOST_SCENARIOS: Final = 500
MOST_CLEANED: Final = 80
# The first of these are played one by one, and then so many at once: most of a survivor's time is spent waiting.
ALONE: Final = 8
PLAYERS: Final = 6
# Mutants that wait for scenarios with a restart: what is not played yet is lost when a run is stopped.
MOST_LATER: Final = 16
# What these do depends neither on what a broker found when it started, nor on logs that were put in their place.
WITHOUT_STATE: Final = frozenset((_LOG + "LogValidator",))
# Starts of one broker.  Scenarios that restart it share some fifteen, and are played one by one after a failure.
MOST_STARTS: Final = 30
# What all scenarios with a restart reach is measured together: a broker recovers everything when it starts.
RESTARTS: Final = "restarts"
SILENCE: Final = "no answer"
# A broker that runs for minutes only: the first compiler is enough.
QUICK: Final = ("-XX:TieredStopAtLevel=1",)


@dataclass(frozen=True, slots=True)
class JavaTools:
    """The built Java programs: the agent's jar, and the class path of the others."""

    agent: Path
    class_path: str
    coverage_agent: Path

    def lines(self, main: str, *arguments: str, text: str = "") -> list[str]:
        """The output of a program by lines.  Raises `NoBroker` if it fails."""
        release = find_release(NEWEST_RELEASE)
        path = f"{self.class_path}:{jars.provide(release) / '*'}"
        command = [jvm.find_java(release).program, "-Xmx512m", "-XX:+UseSerialGC", "-cp", path, main, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoBroker(f"{main} failed", log=done.stderr[-2000:])
        return done.stdout.splitlines()


@dataclass(frozen=True, slots=True)
class Expected:
    """A scenario of the corpus with the recorded answers of the release."""

    request: ScenarioRequest
    answers: StepAnswers

    @property
    def id(self) -> str:
        """Of the case."""
        return self.request.id

    @property
    def cleans(self) -> bool:
        """Whether it waits for the cleaner."""
        return any(isinstance(step, Clean) for step in self.request.scenario.steps)

    def difference(self, given: StepAnswers) -> str:
        """How *given* differs from what is recorded; empty if it does not."""
        return difference(self.answers, given, "masked")


class QuietBroker(JvmBroker):
    """A broker whose clients wait `limit` seconds for an answer, and which calls `before_end` before it is ended."""

    limit = QUIET_LIMIT
    starts_left = MOST_STARTS

    def __init__(self, flags: Sequence[str]) -> None:
        """Start it with *flags* for Java."""
        self.before_end: Callable[[], None] = _nothing
        super().__init__(find_release(NEWEST_RELEASE), _place, config=CONFIG, flags=(*QUICK, *flags))

    def client(self) -> Client:
        """A new connection to it."""
        return Client(self.bootstrap, time_limit=self.limit, ranges=self._release.versions)

    def kill(self) -> None:
        """As `JvmBroker`."""
        self.before_end()
        super().kill()

    def restart(self, *, clean: bool = False) -> None:
        """As `JvmBroker`, but not more often than `MOST_STARTS`."""
        if not self.starts_left:
            raise NoBroker("the broker was started too often")
        self.starts_left -= 1
        self.before_end()
        super().restart(clean=clean)


class CountedPartitions(Fresh):
    """Unused partitions for several threads, which count how many were handed out."""

    taken = 0

    def __init__(self, broker: Broker, *, prefix: str) -> None:
        """As `Fresh`."""
        super().__init__(broker, prefix=prefix, at_once=AT_ONCE)
        self._lock = Lock()

    def take(self, config: Mapping[str, str], number: int = 1) -> list[Any]:
        """As `Fresh`."""
        with self._lock:
            self.taken += number
            return super().take(config, number)

    def give_back(self, config: Mapping[str, str], partition: Any) -> None:
        """As `Fresh`."""
        with self._lock:
            super().give_back(config, partition)


class MutableBroker:
    """A running broker in which one class is replaced at a time; a context manager."""

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
        self._partitions: list[CountedPartitions] = []
        self._replaced: dict[str, Path] = {}
        self.recorder = Recorder(self.broker, fresh=self._fresh)
        self._players: list[Recorder] = []
        self._players_since = -1

    def _fresh(self, broker: Broker, _start: int) -> CountedPartitions:
        self._partitions.append(CountedPartitions(broker, prefix=f"case-{len(self._partitions)}"))
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
            if self._replaced.get(name) != code:
                self._command("replace", name, str(code))
                self._replaced[name] = code

    def difference(self, scenario: Expected) -> str:
        """How the answers to *scenario* differ from what is recorded; empty if they do not, or `SILENCE`."""
        return _difference(self.recorder, scenario)

    def differing(self, left: deque[Expected]) -> list[Expected]:
        """Take scenarios from *left* and play several at once, until one differs from what is recorded; those that do.

        An answer that comes late may differ for that reason only: play what differs once more, by itself.
        """
        found: list[Expected] = []

        def play(recorder: Recorder) -> None:
            while not found:
                try:
                    scenario = left.popleft()
                except IndexError:
                    return
                if _difference(recorder, scenario):
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

    def is_worn(self) -> bool:
        """Whether it has so many partitions that a new broker is better."""
        return sum(each.taken for each in self._partitions) > MOST_PARTITIONS

    def measure(self, path: Path) -> None:
        """Write what was covered since the last call to *path*."""
        self._command("cover", str(path))

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


def _difference(recorder: Recorder, scenario: Expected) -> str:
    try:
        return scenario.difference(recorder.play(scenario.request.scenario))
    except CannotPlay as error:
        return str(error)
    except (WireError, OSError):
        recorder.close()
        return SILENCE


def _nothing() -> None:
    """Do nothing: the broker is not measured."""


def _place(release: Release) -> Here:
    return Here(jvm.find_java(release).program, jars.provide(release))


def expected_scenarios() -> list[Expected]:
    """The scenarios of cases for brokers with recorded answers, but for DumpLogSegments, which is another program.

    Inputs of decode cases have recorded answers too, and take the same ways through a broker.
    """
    evidence = load_evidence(package_root())
    found = []
    for request in scenario_requests(load_vectors(ops=BROKER_OPS), NEWEST_RELEASE):
        line = evidence.get(request.id)
        answers = line.by_release().get(NEWEST_RELEASE) if line and line.sha256 == request.sha256 else None
        if answers and not any(isinstance(step, Dump) for step in request.scenario.steps):
            found.append(Expected(request, answers))
    return found


def _restarting(scenarios: Iterable[Expected]) -> list[Expected]:
    return [each for each in scenarios if each.request.scenario.restarts()]


def _plain(scenarios: Iterable[Expected]) -> list[Expected]:
    return [each for each in scenarios if not each.request.scenario.restarts()]


def play_restarts(running: MutableBroker, scenarios: Sequence[Expected]) -> Iterator[tuple[Expected, str]]:
    """Play scenarios that end the broker, together where they can be; each with its difference.

    Raises:
        NoBroker: the broker cannot be started again.
    """
    by_id = {each.id: each for each in scenarios}
    with tempfile.TemporaryDirectory() as scratch:
        recording = AnswerFile(Path(scratch) / "answers.ndjson")
        for line in running.recorder.record([each.request for each in scenarios], recording):
            yield by_id[line.id], line.skipped or by_id[line.id].difference(line.steps)


class ReachedLines(msgspec.Struct, frozen=True):
    """Lines of one class that a scenario reaches; `name` is its index among the plain ones, or `RESTARTS`."""

    name: str
    class_name: str
    lines: tuple[int, ...]


def measure_scenarios(tools: JavaTools, scenarios: Sequence[Expected], folder: Path) -> None:
    """Play *scenarios* with JaCoCo's agent, and leave `N.exec` for each plain one in *folder*, N being its index there.

    Each process that scenarios with a restart end or leave has a file of its own.  A plain scenario that is not
    answered as recorded leaves none.
    """
    with MutableBroker(tools, measured=True) as running:
        for number, each in enumerate(_plain(scenarios)):
            differs = running.difference(each)
            running.measure(folder / ("other" if differs else f"{number}.exec"))
    numbers = count()

    def measure() -> None:
        with suppress(OSError, NoBroker):  # it has ended
            running.measure(folder / f"{RESTARTS}{next(numbers)}.exec")

    with MutableBroker(tools, measured=True) as running:
        running.broker.before_end = measure
        list(play_restarts(running, _restarting(scenarios)))
        measure()


def covered_by(tools: JavaTools, scenarios: Sequence[Expected]) -> tuple[list[ReachedLines], list[MethodCoverage]]:
    """Lines that each of *scenarios* reaches, and branches by method that they take; measured once, and kept.

    Raises:
        NoBroker: the broker or a Java program cannot be started.
    """
    facts = (NEWEST_RELEASE, CLASSES, [(each.id, each.request.sha256) for each in scenarios])
    kept = (
        jars.cache_directory().parent / "power" / f"java-broker-{sha256(repr(facts).encode()).hexdigest()[:12]}.ndjson"
    )
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="kafkaproof-power-", dir=kept.parent) as scratch:
            measure_scenarios(tools, scenarios, Path(scratch))
            text = "\n".join(tools.lines("BrokerCoverage", scratch, *CLASSES)) + "\n"
            partial = Path(scratch) / "partial"
            partial.write_text(text, encoding="utf-8")
            partial.replace(kept)
    lines = kept.read_bytes().splitlines()
    reached = [msgspec.json.decode(line, type=ReachedLines) for line in lines if line.startswith(b'{"name"')]
    methods = [msgspec.json.decode(line, type=MethodCoverage) for line in lines if not line.startswith(b'{"name"')]
    return reached, methods


class MutantPlayer:
    """Plays to each mutant the scenarios that reach its line."""

    def __init__(
        self, tools: JavaTools, scenarios: Sequence[Expected], reached: Iterable[ReachedLines], code: Path
    ) -> None:
        """*code* is a folder with a class file for each unchanged class."""
        self._tools = tools
        self._code = code
        self._plain, self._restarting = _plain(scenarios), _restarting(scenarios)
        self._reaching: dict[tuple[str, int], list[Expected]] = {}
        self._recovered: set[tuple[str, int]] = set()
        for each in reached:
            for line in each.lines:
                if each.name.startswith(RESTARTS):
                    self._recovered.add((each.class_name, line))
                else:
                    self._reaching.setdefault((each.class_name, line), []).append(self._plain[int(each.name)])
        # What saw mutants of a method goes to the next ones first.
        self._saw: Counter[tuple[str, str]] = Counter()
        self._running: MutableBroker | None = None

    def close(self) -> None:
        """End the broker."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _broker(self) -> MutableBroker:
        if self._running is not None and self._running.is_worn():
            self.close()
        if self._running is None:
            self._running = MutableBroker(self._tools)
        return self._running

    def is_reached(self, mutant: CodeMutant) -> bool:
        """Whether any scenario reaches its line."""
        place = mutant.class_name, mutant.line
        return place in self._reaching or place in self._recovered

    def needs_restarts(self, mutant: CodeMutant) -> bool:
        """Whether scenarios with a restart may see more of it than others."""
        place = mutant.class_name, mutant.line
        return place in self._recovered and (place not in self._reaching or mutant.class_name not in WITHOUT_STATE)

    def result(self, mutant: CodeMutant, code: Path) -> MutantResult | None:
        """The result if a scenario without a restart sees *mutant*, whose class file is *code*; None if none does.

        Raises:
            NoBroker: a broker without a mutant cannot be started.
        """
        for each in self._suspects(mutant, code):
            if status := self._seen(mutant, code, each):
                self._saw[mutant.method, each.id] += 1
                return mutant_result(mutant, status, [each.id])
        self._restore(self._broker(), mutant)
        return None

    def _suspects(self, mutant: CodeMutant, code: Path) -> Iterator[Expected]:
        """The first scenarios for *mutant*, and of all others those that differ when they are played together."""
        order = self.in_order(mutant)
        yield from order[:ALONE]
        left = deque(order[ALONE:])
        while left:
            yield from self._changed(mutant, code).differing(left)

    def _changed(self, mutant: CodeMutant, code: Path) -> MutableBroker:
        """A broker with *mutant*."""
        if not self._replace(self._broker(), mutant.class_name, code):
            self._broker().replace({mutant.class_name: code})
        return self._broker()

    def in_order(self, mutant: CodeMutant) -> list[Expected]:
        """Those that saw mutants of the method first, then one of each case function, the quick ones before others."""
        shuffled = list(self._reaching.get((mutant.class_name, mutant.line), ()))
        random.Random(mutant.method).shuffle(shuffled)
        rounds: Counter[str] = Counter()
        ranked = []
        for each in shuffled:
            name = each.id.partition("[")[0]
            rounds[name] += 1
            ranked.append((-self._saw[mutant.method, each.id], each.cleans, rounds[name], each))
        ranked.sort(key=lambda item: item[:3])
        quick = [each for *_, each in ranked if not each.cleans][:MOST_SCENARIOS]
        return quick + [each for *_, each in ranked if each.cleans][:MOST_CLEANED]

    def _restore(self, running: MutableBroker, mutant: CodeMutant) -> bool:
        return self._replace(running, mutant.class_name, self._code / f"{mutant.class_name}.class")

    def _replace(self, running: MutableBroker, name: str, code: Path) -> bool:
        """Replace the class *name*; False if the broker has ended, as one does that cannot use its disk."""
        try:
            running.replace({name: code})
        except (OSError, NoBroker):
            self.close()
            return False
        return True

    def _seen(self, mutant: CodeMutant, code: Path, scenario: Expected) -> MutantStatus | None:
        """Whether *scenario* sees *mutant*; what differs must not differ without the mutant."""
        running = self._changed(mutant, code)
        differs = running.difference(scenario)
        if not differs:
            return None
        if scenario.cleans and not running.difference(scenario):
            return None  # the cleaner's rounds depend on the clock
        if differs is SILENCE:  # from now on this broker gets more time
            running.broker.limit = SURE_LIMIT
            running.recorder.close()
        if self._restore(running, mutant) and not running.difference(scenario):
            return "seen" if differs is not SILENCE else self._seen_in_time(mutant, code, scenario)
        # The broker may be damaged, or slow: once more with a new one and a longer time limit.
        self.close()
        running = self._broker()
        running.broker.limit = SURE_LIMIT
        if running.difference(scenario):
            return None  # it is not answered as recorded without a mutant either
        running.replace({mutant.class_name: code})
        differs = running.difference(scenario)
        self.close()
        return None if not differs else "hang" if differs is SILENCE else "seen"

    def _seen_in_time(self, mutant: CodeMutant, code: Path, scenario: Expected) -> MutantStatus | None:
        """Whether *scenario* sees *mutant* on the broker at hand, which answers it without the mutant."""
        differs = self._changed(mutant, code).difference(scenario)
        if differs is SILENCE:
            self.close()  # a request may run for ever
            return "hang"
        return "seen" if differs else None

    def restarted_together(self, mutants: Sequence[tuple[CodeMutant, Path]]) -> Iterator[MutantResult]:
        """The results after scenarios with a restart.

        Mutants of different classes are in one broker: mostly none of them is seen, and if one is, each plays alone.
        """
        left = list(mutants)
        while left:
            group = list({mutant.class_name: (mutant, code) for mutant, code in reversed(left)}.values())
            left = [each for each in left if each not in group]
            if len(group) > 1 and self._differing({mutant.class_name: code for mutant, code in group}) == []:
                self.close()
                yield from (mutant_result(mutant, "same-replies") for mutant, _ in group)
            else:
                self.close()
                yield from (self.restarted(*each) for each in group)

    def restarted(self, mutant: CodeMutant, code: Path) -> MutantResult:
        """The result after scenarios with a restart, in which the broker starts with *mutant*."""
        differing = self._differing({mutant.class_name: code})
        if differing is None:  # a start may fail by chance
            differing = self._differing({mutant.class_name: code})
        if differing is None:
            return mutant_result(mutant, "hang", [self._restarting[0].id])
        if differing:
            self.close()
            differing = self._without_mutant(differing)
        else:
            self._restore(self._broker(), mutant)
        return mutant_result(mutant, "seen" if differing else "same-replies", [each.id for each in differing])

    def _differing(self, codes: Mapping[str, Path]) -> list[Expected] | None:
        """The scenarios with a restart that a mutant does not answer as recorded; None if the broker does not start."""
        running = self._broker()
        running.broker.starts_left = MOST_STARTS
        shared = [each for each in self._restarting if can_share(each.request.scenario)]
        alone = [each for each in self._restarting if each not in shared]
        try:
            running.replace(codes, at_start=True)
            for scenarios in (shared, alone):  # those that need starts of their own only if no other sees it
                if found := [each for each, differs in play_restarts(running, scenarios) if differs]:
                    return found
        except (OSError, NoBroker):
            self.close()
            return None
        return []

    def _without_mutant(self, scenarios: Sequence[Expected]) -> list[Expected]:
        """The first of *scenarios* that are answered as recorded without a mutant."""
        for at in range(0, len(scenarios), MOST_CASES):
            running = self._broker()
            running.broker.starts_left = MOST_STARTS
            if found := [
                each for each, differs in play_restarts(running, scenarios[at : at + MOST_CASES]) if not differs
            ]:
                return found
        return []


_MAVEN: Final = ("mvn", "-B", "-q", "-C", "-Dstyle.color=never", "-Dbuilt={build}", "package")
RECIPE: Final = BuildRecipe(
    name="power-java-broker",
    project="power-java-broker",
    about="PIT and JaCoCo for a broker",
    language="java",
    version=NEWEST_RELEASE,
    folder=Path(__file__).parent / "java_broker",
    sources=("BrokerAgent.java", "BrokerCoverage.java", "BrokerMutants.java", "pom.xml", "agent.mf"),
    programs=("mvn", "javac", "jar", "java"),
    build=(_MAVEN, ("jar", "cfm", "{build}/agent.jar", "agent.mf", "-C", "{build}/classes", ".")),
    run=(),
)


class JavaBroker:
    """The target: see `MutationTarget`."""

    @cached_property
    def tools(self) -> JavaTools:
        """The Java programs, built on first use.  Raises `CannotRun`."""
        try:
            built = build_testee(RECIPE)
        except BuildError as error:
            raise CannotRun(f"the mutants of java-broker cannot be built: {error}") from error
        (agent,) = (built / "lib").glob("org.jacoco.agent-*.jar")
        return JavaTools(built / "agent.jar", f"{built / 'classes'}:{built / 'lib' / '*'}", agent)

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
            player = MutantPlayer(self.tools, scenarios, reached, Path(scratch))
            with closing(player):
                later = []
                for each in mutants:
                    if not player.is_reached(each):
                        yield mutant_result(each, "not-reached")
                    elif result := player.result(each, code[each.key]):
                        yield result
                    elif player.needs_restarts(each):
                        later.append((each, code[each.key]))
                    else:
                        yield mutant_result(each, "same-replies")
                    if len(later) == MOST_LATER or (later and each is mutants[-1]):
                        player.close()
                        yield from player.restarted_together(later)
                        later.clear()

    def class_files(self, mutants: Iterable[CodeMutant], folder: Path) -> dict[tuple[str, str, int, str, int], Path]:
        """The class file of each of *mutants*, by key, in *folder*, beside those of the unchanged classes."""
        numbers = {each.key: number for number, each in enumerate(self.mutants())}
        wanted = [each.key for each in mutants]
        chosen = " ".join(str(numbers[key]) for key in wanted)
        self.tools.lines("BrokerMutants", "--write", str(folder), *CLASSES, text=chosen)
        return {key: folder / f"{numbers[key]}.class" for key in wanted}

    def coverage(self) -> Iterator[MethodCoverage]:
        """Branches of each method of `CLASSES` that the scenarios enter."""
        yield from covered_by(self.tools, expected_scenarios())[1]
