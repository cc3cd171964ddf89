"""External engines fuzz codecs in other languages, starting from a campaign's corpus and adding to it.

`go test -fuzz` and Jazzer see coverage inside the codec; they take no mutator and
know no format.  So their harnesses (`fuzz/harnesses`) correct sizes and checksums,
and the inputs that the engines keep are corrected here in the same way.  Every new
input, and every input that crashed a harness, then runs on the testee itself:
`differential` alone decides whether it is a finding, and under which key.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from ast import literal_eval
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import connect, find_testee
from kafka_conformance.testees.recipe import BuildError, BuildRecipe, build_testee, shipped, what_is_missing
from kafka_fuzz.campaign.store import LONGEST, Corpus, other_inputs, sample_most
from kafka_fuzz.campaign.worker import unchanged_mutant
from kafka_fuzz.differential.compare import Differential
from kafka_fuzz.findings import FindingStore
from kafka_fuzz.mutate import corpus_seeds, own_seeds
from kafka_fuzz.mutate.fixup import INT32, SIZE_AT, fixed_up
from kafka_records.constants import LOG_OVERHEAD

# Name a folder of harnesses that is used in place of the project's own.
SOURCES_VARIABLES: Final = ("KAFKAPROOF_HARNESSES", "KAFKAPROOF_SIDE")  # the second is the former name
# Names the folder for inputs that crashed a harness.
CRASHES_VARIABLE: Final = "KAFKAPROOF_CRASHES"
# The function of each testee's adapter that decodes a log.
GO: Final = {"franz-go": "decode", "sarama": "decode", "kafka-go": "decodeRecords"}
JAVA: Final = "java-kafka-clients"
ENGINES: Final = {"go": tuple(GO), "jazzer": (JAVA,)}
JAZZER: Final = "0.30.0"
COPY_DEPENDENCIES: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
HEADER: Final = b"go test fuzz v1\n"
LAST: Final = "last.bin"
OUTPUT: Final = "output.txt"
# The counts that Go (which starts with all inputs that it was fed) and libFuzzer print while they run and at the end.
COUNTED: Final = re.compile(rb"baseline coverage: (\d+)/|execs: (\d+)|^#(\d+)\s|^Done (\d+) runs", re.MULTILINE)
# In Go's text: a character that cannot be printed, in two ways, or any other escape.
ESCAPES: Final = re.compile(rb"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|.)")
# An engine runs all inputs that it is fed before it mutates the first one; Go runs about a hundred a second.  It is fed
# INPUTS_A_SECOND for each second of its time, and at least FEWEST.
INPUTS_A_SECOND: Final = {"go": 30, "jazzer": 1000}
FEWEST: Final = 600
# Crashes after which an engine no longer starts from the inputs that it was fed, the built-in seeds aside.
MAX_SEED_FAILURES: Final = 3
MOST_OUTPUT: Final = 400


class EngineReport(msgspec.Struct):
    """The report of a run of an external engine.

    Attributes:
        testee: the codec that was fuzzed.
        starts: how often the engine was started; it ends when its process crashes.
        executions: inputs that the engine reports to have run.
        fed, kept: inputs given to the engine, and new inputs that it kept.
        suspects: inputs that crashed the harness.
        findings: keys of new findings among suspects and kept inputs.
        failure: why an empty list of findings means nothing; empty if the engine ran.
    """

    testee: str
    starts: int = 0
    executions: int = 0
    fed: int = 0
    kept: int = 0
    suspects: int = 0
    findings: list[str] = []
    failure: str = ""


def fix_up_log(log: bytes) -> bytes:
    """*log* with the true size and checksum in each entry; bytes after the last whole entry become part of one."""
    out, at = [], 0
    while len(log) - at >= LOG_OVERHEAD:
        size = INT32.unpack_from(log, at + SIZE_AT)[0]
        end = at + LOG_OVERHEAD + size
        if size < 0 or end > len(log):
            end = len(log)
        out.append(fixed_up(log[at:end]))
        at = end
    return b"".join([*out, log[at:]])


@dataclass(slots=True)
class Engine:
    """An engine that has been built.

    Attributes:
        corpus: its folder of inputs.
        crash_folder: where its harness writes inputs that crashed it.
        argv: the command; `{seconds}` stands for its time.
        folder: its working directory.
        executions: inputs that it reported to have run.
        fed: names of the inputs in its corpus that it did not find itself.
    """

    corpus: Path
    crash_folder: Path
    argv: Sequence[str]
    folder: Path
    is_go: bool
    executions: int = 0
    fed: set[str] = field(default_factory=set)

    def feed(self, inputs: Iterable[bytes]) -> int:
        """Write *inputs* into its corpus; returns their number."""
        for data in inputs:
            self.fed.add(input_name(data))
            (self.corpus / input_name(data)).write_bytes(go_entry(data) if self.is_go else data)
        return len(self.fed)

    def remove_fed(self) -> None:
        """Remove fed inputs except the built-in seeds: an engine runs nothing after an input that crashes it."""
        for name in self.fed - {*map(input_name, own_seeds())}:
            (self.corpus / name).unlink(missing_ok=True)

    def run(self, seconds: float, most_starts: float = inf) -> int:
        """Run it for *seconds*, again whenever it ends; returns the number of starts.  Raises `CannotRun`."""
        end, starts = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 1 and starts < most_starts:
            starts += 1
            if starts == MAX_SEED_FAILURES + 1:
                self.remove_fed()
            self._once(left)
            with suppress(FileNotFoundError):  # Go would start with the crashing inputs in there
                shutil.rmtree(self.folder / "testdata")
        return starts

    def _once(self, left: float) -> None:
        argv = [part.replace("{seconds}", str(int(left))) for part in self.argv]
        environment = os.environ | {CRASHES_VARIABLE: str(self.crash_folder)}
        with (self.folder / OUTPUT).open("wb") as output:
            engine = subprocess.Popen(
                argv,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = engine.wait(timeout=left + 10)
            except subprocess.TimeoutExpired:
                code = 1  # only an input that never ends takes that long
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(engine.pid, signal.SIGKILL)
                engine.wait()
        self.executions += executed((self.folder / OUTPUT).read_bytes())
        if code:
            self._take_last()
            if not self.executions and not self.suspects():
                raise CannotRun(f"the engine ended with {code}, and executed nothing: {self.last_output()}")

    def last_output(self) -> str:
        """The end of the output of the last start."""
        return (self.folder / OUTPUT).read_text(errors="replace").strip()[-MOST_OUTPUT:]

    def _take_last(self) -> None:
        """Keep the input that the process was running when it ended, if there was one."""
        with suppress(FileNotFoundError):
            data = (self.crash_folder / LAST).read_bytes()
            if log := data[4 : 4 + int.from_bytes(data[:4], "big")]:
                (self.crash_folder / f"died-{sha256(log).hexdigest()[:16]}.bin").write_bytes(log)

    def inputs(self) -> Iterator[bytes]:
        """The inputs in its corpus."""
        for path in sorted(self.corpus.iterdir()):
            data = path.read_bytes()
            if self.is_go:
                if data.startswith(HEADER):
                    yield from (
                        quoted(line) for line in data[len(HEADER) :].splitlines() if line.startswith(b"[]byte(")
                    )
            else:
                yield data

    def suspects(self) -> list[bytes]:
        """The inputs that crashed the harness."""
        return [path.read_bytes() for path in sorted(self.crash_folder.glob("*-*.bin"))]


def executed(output: bytes) -> int:
    r"""The number of inputs that an engine reports to have run.

    >>> executed(b"fuzz: elapsed: 3s, execs: 102 (34/sec)\nfuzz: elapsed: 6s, execs: 314 (70/sec)\n")
    314
    >>> executed(b"fuzz: elapsed: 3s, gathering baseline coverage: 265/3388 completed\n")
    265
    >>> executed(b"#2\tINITED cov: 1\n#9\tNEW cov: 2\nDone 12 runs in 3 second(s)\n"), executed(b"no such flag")
    (12, 0)
    """
    return max((int(count) for each in COUNTED.findall(output) for count in each if count), default=0)


def go_entry(data: bytes) -> bytes:
    """*data* as a file of Go's corpus."""
    escaped = "".join(map("\\x{:02x}".format, data))
    return HEADER + f'[]byte("{escaped}")\n'.encode()


def quoted(line: bytes) -> bytes:
    r"""The bytes in a line of Go's corpus files.

    >>> quoted(rb'[]byte("a\x00\"")'), quoted("[]byte(\"\u00e9\")".encode()), quoted(rb'[]byte("\u200b\\u")')
    (b'a\x00"', b'\xc3\xa9', b'\xe2\x80\x8b\\u')
    """
    inner = ESCAPES.sub(_as_bytes, line[len(b"[]byte(") : line.rindex(b")")])
    # Go writes printable characters as they are, in UTF-8; as bytes they are escapes to Python.
    escaped = b"".join(b"\\x%02x" % byte if byte >= 0x80 else bytes((byte,)) for byte in inner)
    return bytes(literal_eval("b" + escaped.decode("ascii")))


def _as_bytes(escape: re.Match[bytes]) -> bytes:
    """An escape of Go's that names a character, as the bytes that it stands for; others as they are."""
    return chr(int(escape[1] or escape[2], 16)).encode() if escape[1] or escape[2] else escape[0]


def build_engine(kind: str, testee: str, work: Path) -> Engine:
    """Build the engine of *kind* for *testee* below *work*.  Raises `CannotRun`."""
    if testee not in ENGINES[kind]:
        raise CannotRun(f"{kind} has no external engine for {testee}", f"there are {', '.join(ENGINES[kind])}")
    known = find_testee(testee)
    assert known is not None
    assert known.recipe is not None  # none of ours is in Python
    if missing := known.missing():
        raise CannotRun(f"{testee} cannot run: {what_is_missing(missing)}")
    for folder in (work / "corpus", work / "crashes"):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (work / "corpus" / "FuzzDecode", work / "crashes"):
        folder.mkdir(parents=True, exist_ok=True)
    return _go(known.recipe, work) if kind == "go" else _jazzer(known.recipe, work)


def harness(name: str) -> Path:
    """A source of the harnesses: in the folder that `KAFKAPROOF_HARNESSES` names, else in the project's own."""
    folder = next(filter(None, map(os.environ.get, SOURCES_VARIABLES)), None)
    return (
        Path(folder) if folder else shipped("kafka_fuzz", installed="harnesses", checkout="harnesses")
    ).resolve() / name


def go_recipe(recipe: BuildRecipe) -> BuildRecipe:
    """Recipe of the fuzz binary of a Go testee: its adapter with the harness beside it."""
    call = f"s/DECODE(/{GO[recipe.name]}(/"
    compiling = ("go", "test", "-c", "-fuzz=FuzzDecode", "-o", "{build}/fuzz.test", ".")
    return replace(
        recipe,
        project=f"{recipe.project}-fuzz",
        sources=(*recipe.sources, str(harness("go/fuzz_test.go"))),
        build=(("sed", "-i", call, "fuzz_test.go"), compiling),
    )


def jazzer_recipe(recipe: BuildRecipe, testee: Path) -> BuildRecipe:
    """Recipe of Jazzer and its harness, for the Java testee that is built in the folder *testee*."""
    return replace(
        recipe,
        project="jazzer",
        version=JAZZER,
        sources=(str(harness("jazzer/FuzzDecode.java")), str(harness("jazzer/pom.xml"))),
        build=(
            ("mvn", "-B", "-q", "-C", f"-Djazzer.version={JAZZER}", "-DoutputDirectory={build}/lib", COPY_DEPENDENCIES),
            ("javac", "-d", "{build}/classes", "-cp", f"{testee}/lib/*", "FuzzDecode.java"),
        ),
    )


def _go(recipe: BuildRecipe, work: Path) -> Engine:
    binary = _built(go_recipe(recipe)) / "fuzz.test"
    flags = ["-test.run=^$", "-test.fuzz=FuzzDecode", f"-test.fuzzcachedir={work / 'corpus'}", "-test.parallel=1"]
    argv = [str(binary), *flags, "-test.fuzzminimizetime=1x", "-test.fuzztime={seconds}s"]
    return Engine(work / "corpus" / "FuzzDecode", work / "crashes", argv, work, True)


def _jazzer(recipe: BuildRecipe, work: Path) -> Engine:
    testee = _built(recipe)
    jazzer = _built(jazzer_recipe(recipe, testee))
    corpus = work / "corpus" / "FuzzDecode"
    classes = f"{jazzer}/classes:{testee}/lib/*:{jazzer}/lib/*"
    argv = ["java", "-Xmx1500m", "-cp", classes, "com.code_intelligence.jazzer.Jazzer"]
    argv += ["--target_class=FuzzDecode", "--instrumentation_includes=org.apache.kafka.**", "--keep_going=1000000"]
    return Engine(
        corpus, work / "crashes", [*argv, "-max_total_time={seconds}", "-timeout=5", str(corpus)], work, False
    )


def _built(recipe: BuildRecipe) -> Path:
    try:
        return build_testee(recipe)
    except BuildError as error:
        raise CannotRun(f"the external engine cannot be built: {error}") from error


def run_engine(kind: str, testee: str, seconds: float, directory: Path) -> EngineReport:
    """Fuzz *testee* with the engine *kind* for *seconds*; *directory* is a campaign's.  Raises `CannotRun`."""
    corpus, findings = Corpus(directory, f"engine:{testee}"), FindingStore(directory, testee, "differential")
    engine = build_engine(kind, testee, directory / "state" / "engines" / testee)
    fed = inputs_for(corpus, max(FEWEST, int(seconds * INPUTS_A_SECOND[kind])))
    known = (
        {path.stem for path in other_inputs(corpus)} | {*corpus.entries} | {*map(input_name, [*fed, *corpus_seeds()])}
    )
    report = EngineReport(testee, fed=engine.feed(fed))
    report.starts = engine.run(seconds)
    report.executions = engine.executions
    if not engine.executions:
        report.failure = f"the engine executed nothing: {engine.last_output()}"
    suspects = engine.suspects()
    new = [log for log in dict.fromkeys(map(fix_up_log, engine.inputs())) if log and input_name(log) not in known]
    report.suspects, report.kept = len(suspects), len(new)
    for log in new:
        corpus.keep(unchanged_mutant(log), f"kept by {kind}")
    corpus.close()
    report.findings = list(_judged(testee, [*suspects, *new], findings))
    return report


def _judged(testee: str, inputs: Sequence[bytes], findings: FindingStore) -> Iterator[str]:
    """Run *inputs* on the testee itself; yields the keys of new findings."""
    with Differential([connect(testee)], patient=True) as session:
        for judgement in session.run(map(unchanged_mutant, inputs), lambda: True):
            for outcome in judgement.outcomes:
                if findings.add(outcome, judgement.mutant, version=session.testees[0].hello.version):
                    yield outcome.key
    findings.flush()


def inputs_for(corpus: Corpus, most: int) -> list[bytes]:
    """At most *most* inputs to start from: built-in seeds, inputs that the engine kept, and a sample of all others.

    The others are cases and inputs that a campaign's targets kept; the sample changes when their number does.
    """
    others = other_inputs(corpus)
    rng = Random(f"{corpus.target}/{len(corpus.entries)}/{len(others)}")
    own = [corpus.data(entry) for entry in sample_most(rng, list(corpus.entries.values()), most // 2)]
    first = [*own_seeds(), *own][:most]
    anything: list[bytes | Path] = [*corpus_seeds(), *others]
    rest = sample_most(rng, anything, most - len(first))
    read = (each.read_bytes() if isinstance(each, Path) else each for each in rest)
    return sorted({*first, *(data for data in read if len(data) <= LONGEST)})


def input_name(data: bytes) -> str:
    """The name of an input."""
    return sha256(data).hexdigest()
