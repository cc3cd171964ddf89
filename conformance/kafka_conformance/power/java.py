"""Mutants of Kafka's Java client, by PIT, and its branches, by JaCoCo.

`conformance/power/java` is a program that makes the mutants and answers the requests of the corpus with each of them,
in a class loader of its own.  It runs the cases that reach the mutant's line, and prints the replies that differ from
those of the unchanged classes.  The judge decides here whether a verdict differs.

The Java programs that `power.broker` needs are built here, too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final

import msgspec

from kafka_brokers import jars, jvm
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.releases import find_release
from kafka_brokers.wire import Client
from kafka_conformance.judge.observation import Garbled
from kafka_conformance.judge.reach import CONFIG
from kafka_conformance.judge.verdict import judge
from kafka_conformance.power.results import CodeMutant, MethodCoverage, MutantResult, mutant_result
from kafka_conformance.runner.requests import observe_reply, request_for, single_line
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import find_testee
from kafka_conformance.testees.protocol import Stray, parse_reply
from kafka_conformance.testees.recipe import BuildError, BuildRecipe, build_testee
from kafka_corpus.case import Case, Recipe
from kafka_corpus.scenario import NEWEST_RELEASE
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.vectors import load_vectors

TESTEE: Final = "java-kafka-clients"
SOURCES: Final = Path(__file__).resolve().parents[2] / "power" / "java"
JAVA_FILES: Final = (
    "Answers.java", "Attempt.java", "Branches.java", "CodeLoader.java", "Lines.java", "Mutants.java", "Power.java",
)  # fmt: skip
# Files of the testee that are compiled with them.
TESTEE_FILES: Final = ("Testee.java", "Errors.java", "Output.java", "Skipped.java")
# Mutants are valid code, so that classes need not be verified each time.
FLAGS: Final = (
    "-Xmx1500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-StackTraceInThrowable",
    "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote",
)  # fmt: skip
# Mutants after which the Java program is started again: native memory of mutants is not always freed.
MOST_AT_ONCE: Final = 1000

# MiB that the recipe of a case makes at most.  Mutants do not answer larger ones, which measure memory.
MOST_MIB: Final = 16

JudgedAs = tuple[str, str]


def mutant_cases() -> list[Case]:
    """The decode and encode cases that mutants answer."""
    return [
        case
        for case in load_vectors(ops=CODEC_OPS)
        if not (isinstance(case.input, Recipe) and case.input.args.get("mib", 0) > MOST_MIB)
    ]


class JavaState(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the Java program.

    Attributes:
        state: `more` replies may differ, `done`, `hang` or `not-reached`; empty for a reply.
        ready: how many mutants there are, once it takes commands.
        case: the number of the case of a reply, or of one that hangs.
        reply: the reply itself.
        ends: whether the program ends, since the case could not be stopped.
    """

    state: str = ""
    ready: int = 0
    case: int = -1
    reply: msgspec.Raw = msgspec.Raw(b"")
    ends: bool = False


_states = msgspec.json.Decoder(JavaState)


class JavaClient:
    """The mutation target `java-client`."""

    def version(self) -> str:
        """The release of kafka-clients that the testee pins."""
        return self._testee_recipe.version

    @property
    def _testee_recipe(self) -> BuildRecipe:
        known = find_testee(TESTEE)
        if known is None or known.recipe is None:
            raise CannotRun(f"{TESTEE} has no recipe")
        return known.recipe

    @cached_property
    def _build(self) -> Path:
        """The folder of the compiled program."""
        if not (SOURCES / "pom.xml").is_file():
            raise CannotRun("java-client needs conformance/power/java of a checkout, and this is an installed package")
        testee = self._testee_recipe
        recipe = BuildRecipe(
            name="power-java", project="power-java", about="mutants of the Java client", language="java",
            version=testee.version, folder=SOURCES, programs=testee.programs, build=testee.build, run=(),
            sources=(*JAVA_FILES, "pom.xml", *(str(testee.folder / name) for name in TESTEE_FILES)),
        )  # fmt: skip
        try:
            return build_testee(recipe)
        except BuildError as error:
            raise CannotRun(f"the mutants of java-client cannot be built: {error}") from error

    def _command(self, *arguments: str) -> list[str]:
        lib = self._build / "lib"
        jar = lib / f"kafka-clients-{self.version()}.jar"
        return ["java", *FLAGS, f"-Dkafkaproof.jar={jar}", "-cp", f"{self._build}/classes:{lib}/*", "Power", *arguments]

    def mutants(self) -> Sequence[CodeMutant]:
        """Every mutant that PIT makes, in its order."""
        return msgspec.json.Decoder(CodeMutant).decode_lines(self._output("list"))

    def _output(self, *arguments: str) -> bytes:
        done = subprocess.run(self._command(*arguments), capture_output=True, check=False)
        if done.returncode:
            raise CannotRun(f"the Java program ended with {done.returncode}: {_last_line(done.stderr)}")
        return done.stdout

    def run(self, mutants: Sequence[CodeMutant]) -> Generator[MutantResult, None, None]:
        """The result of each of *mutants*; the Java program is started again after one that ends it."""
        numbers = {each.key: number for number, each in enumerate(self.mutants())} if mutants else {}
        cases = mutant_cases()
        todo = list(mutants)
        while todo:
            with _requests(cases) as path, JavaProgram(self._command("run", path), cases) as program:
                for mutant in todo[:MOST_AT_ONCE]:
                    yield program.result(mutant, numbers[mutant.key])
                    todo.pop(0)
                    if program.ended:
                        break

    def coverage(self) -> Iterator[MethodCoverage]:
        """Branch coverage of each method that the corpus enters."""
        with _requests(load_vectors(ops=CODEC_OPS)) as path:
            yield from msgspec.json.Decoder(MethodCoverage, strict=False).decode_lines(self._output("coverage", path))


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


@contextmanager
def _requests(cases: Sequence[Case]) -> Iterator[str]:
    """The path of a file with the request of each of *cases*, as a run sends it alone."""
    with NamedTemporaryFile(suffix=".ndjson") as file:
        for number, case in enumerate(cases):
            file.write(single_line(str(number), request_for(case)))
        file.flush()
        yield file.name


class JavaProgram:
    """The running Java program, a context manager that ends it.

    Attributes:
        ended: whether it ended over the last mutant, and has to be started again.
    """

    def __init__(self, command: Sequence[str], cases: Sequence[Case]) -> None:
        self.ended = False
        self._cases = cases
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._unchanged: list[JudgedAs] = []

    def __enter__(self) -> JavaProgram:
        for number in range(len(self._cases)):
            self._unchanged.append(self._judged(number, self._output.readline()))
        if not self._output.readline().startswith(b'{"ready":'):
            raise CannotRun("the Java program ended before its first mutant")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
        self._input.close()

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _judged(self, number: int, line: bytes) -> JudgedAs:
        """Outcome and field of the verdict on a reply."""
        reply = parse_reply(line)
        observation = Garbled(reply.text) if isinstance(reply, Stray) else observe_reply(reply)
        verdict = judge(self._cases[number], observation)
        return verdict.outcome, verdict.field

    def result(self, mutant: CodeMutant, number: int) -> MutantResult:
        """The result of *mutant*, the one with this *number*; it ends with the first replies of which some see it."""
        seen: list[str] = []
        differing: list[str] = []
        command = f"run {number}\n"
        while not seen:
            for state in self._answer(command):
                if state.case >= 0 and not state.state:
                    (seen if self._differs(state) else differing).append(self._cases[state.case].id)
            if state.state == "not-reached":
                return mutant_result(mutant, "not-reached")
            if state.state == "hang":
                self.ended = self.ended or state.ends
                last = [self._cases[state.case].id] if state.case >= 0 else []
                return mutant_result(mutant, "hang", [*seen, *last])
            if state.state == "done":
                break
            command = "more\n"
        if seen:
            return mutant_result(mutant, "seen", seen)
        return mutant_result(mutant, "survived" if differing else "same-replies", differing)

    def _differs(self, state: JavaState) -> bool:
        return self._judged(state.case, bytes(state.reply)) != self._unchanged[state.case]

    def _answer(self, command: str) -> Iterator[JavaState]:
        """The lines that answer *command*; if the program ends, the last one says that a case hangs."""
        try:
            self._input.write(command.encode())
            self._input.flush()
        except BrokenPipeError:
            pass  # the end of its output says so, too
        while line := self._output.readline():
            state = _states.decode(line)
            yield state
            if state.state:
                return
        self.ended = True
        sys.stderr.write("the Java program ended over a mutant and is started again\n")
        yield JavaState(state="hang")


# --- a broker ---------------------------------------------------------------------------------------------------

_MAVEN: Final = ("mvn", "-B", "-q", "-C", "-Dstyle.color=never", "-Dbuilt={build}", "package")
BROKER_RECIPE: Final = BuildRecipe(
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


# Seconds for a request, a marker, or the cleaner: at first, in a start with a mutant, and before time is ruled out.
FIRST_LIMIT, QUIET_LIMIT, SURE_LIMIT = 4.0, 10.0, 12.0
# Starts of one broker.  Scenarios that restart it share some fifteen, and are played one by one after a failure.
MOST_STARTS: Final = 30
# Measurements, and an archive of classes.
KEPT: Final = jars.cache_directory().parent / "power"
# A broker that runs for minutes only: the first compiler is enough.
QUICK: Final = ("-XX:TieredStopAtLevel=1",)


@cache
def archived_classes() -> tuple[str, ...]:
    """A flag for Java that maps a broker's classes from a file, with which it starts sooner."""
    return jvm.mapped_classes(find_release(NEWEST_RELEASE), QUICK, KEPT)


class QuietBroker(JvmBroker):
    """A broker whose clients wait `limit` seconds, and which calls `after_start` when it has been started again."""

    limit = QUIET_LIMIT
    starts_left = MOST_STARTS

    def __init__(self, flags: Sequence[str]) -> None:
        """Start it with *flags* for Java."""
        self.after_start: Callable[[], None] | None = None
        flags = (*QUICK, *archived_classes(), *flags)
        super().__init__(find_release(NEWEST_RELEASE), jvm.place_here, config=CONFIG, flags=flags)

    def client(self) -> Client:
        """A new connection to it."""
        return Client(self.bootstrap, time_limit=self.limit, ranges=self._release.versions)

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """As `JvmBroker`, with more time than a mutant gets."""
        with Client(self.bootstrap, time_limit=SURE_LIMIT, ranges=self._release.versions) as client:
            client.create_topics(topics, config)

    def restart(self, *, clean: bool = False) -> None:
        """As `JvmBroker`, but not more often than `MOST_STARTS`."""
        if not self.starts_left:
            raise NoBroker("the broker was started too often")
        self.starts_left -= 1
        super().restart(clean=clean)
        if self.after_start is not None:
            self.after_start()


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


def broker_tools() -> JavaTools:
    """The Java programs for a broker, built if they are not.  Raises `CannotRun`."""
    try:
        built = build_testee(BROKER_RECIPE)
    except BuildError as error:
        raise CannotRun(f"the mutants of java-broker cannot be built: {error}") from error
    (agent,) = (built / "lib").glob("org.jacoco.agent-*.jar")
    return JavaTools(built / "agent.jar", f"{built / 'classes'}:{built / 'lib' / '*'}", agent)


class ReachedLines(msgspec.Struct, frozen=True):
    """Lines of one class that a scenario reaches.

    `name` is the digest of a plain scenario, or `broker.AFTER` and that of one with a restart, or begins with
    `broker.START`.
    """

    name: str
    class_name: str
    lines: tuple[int, ...]


def covered_lines(output: Iterable[bytes]) -> tuple[list[ReachedLines], list[MethodCoverage]]:
    """Lines that scenarios reach, and branches by method, from the lines that `BrokerCoverage` writes."""
    lines = list(output)
    reached = [msgspec.json.decode(line, type=ReachedLines) for line in lines if line.startswith(b'{"name"')]
    methods = [msgspec.json.decode(line, type=MethodCoverage) for line in lines if not line.startswith(b'{"name"')]
    return reached, methods
