"""Measure what the project promises: times, ratios and sizes.

    python -m benchmarks.promises [--json] [--runs N] [--crashes | --packages | --broker RELEASE]

Ratios are taken side by side in one run, pair by pair, in CPU seconds, and their
median is quoted; absolute times depend on the machine and are shown as such.
With --packages, the vector packages are packed and tested with the toolchains that
are installed, and nothing else.  With --broker, a release of Kafka is measured as an oracle, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from kafka_conformance.runner.requests import is_heavy
from kafka_conformance.runner.results import Results
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_conformance.vector_packages import Ecosystem, PackageNames, write_packages
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.mutate.dictionary import dictionary_text
from kafka_records import Batch, Header, Record, decode, encode

RECORDS = 20_000
TIMESTAMP = 1_700_000_000_000
# records a batch, bytes a value, headers a record
SHAPES = {
    "100 records of 100 B": (100, 100, 0),
    "100 records of 10 B": (100, 10, 0),
    "100 records of 1 KiB": (100, 1024, 0),
    "100 records, 3 headers": (100, 100, 3),
    "1 record of 100 B": (1, 100, 0),
}
TIMINGS = ("cases", "milliseconds_per_case", "waited_seconds", "heavy_seconds")
# In process, in Go and in Rust; those that are not built here are built first.
COSTS = ("reference", "franz-go", "kafka-protocol")
# A virtual machine's start takes more than ten answers: what its crashes cost misses the promise.
VIRTUAL_MACHINE = "java-kafka-clients"
# The reference as `process:` has it: a command, of which nothing is known.
PROGRAM = "reference, as a command"
# Who ends over one case in ten gets all others judged within so many times what it takes without.
CRASHES_COST = 2.0
CERTIFIED = ("kafka-python", "aiokafka", "aiokafka-pure")


def v2_file(records: int, value_size: int, headers: int) -> bytes:
    """About RECORDS records in uncompressed batches of *records* each."""
    made = tuple(
        Record(
            offset=index,
            timestamp=TIMESTAMP + index,
            key=b"key%05d" % index,
            value=b"v" * value_size,
            headers=tuple(Header(b"header%d" % number, b"value") for number in range(headers)),
        )
        for index in range(records)
    )
    batch = Batch(magic=2, base_offset=0, last_offset=records - 1, max_timestamp=TIMESTAMP + records - 1, records=made)
    return encode(batch) * (RECORDS // records)


def decode_with_kafka_python(data: bytes) -> list[Any]:
    """All records of *data*, CRCs verified, as kafka-python's consumer reads them."""
    from kafka.record import MemoryRecords

    reader = MemoryRecords(data)
    records = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        records.append(list(batch))
    return records


def call_cpu_seconds(call: Callable[[], object]) -> float:
    """CPU-seconds that one *call* takes in this process."""
    start = time.process_time()
    call()
    return time.process_time() - start


def decode_ratios(runs: int) -> Iterator[dict[str, Any]]:
    """The reference against kafka-python on the same file, for each shape."""
    for name, shape in SHAPES.items():
        data = v2_file(*shape)
        pairs = [
            (call_cpu_seconds(lambda: decode(data)), call_cpu_seconds(lambda: decode_with_kafka_python(data)))  # noqa: B023
            for _ in range(runs + 1)
        ][1:]  # the first pair warms up
        yield {
            "what": f"decode, {name}: reference / kafka-python",
            "ratio": round(statistics.median(ours / theirs for ours, theirs in pairs), 2),
            "reference_us_per_record": round(statistics.median(ours for ours, _ in pairs) / RECORDS * 1e6, 2),
        }


def wall_seconds(*command: str) -> float:
    """Seconds of one run of *command*, from start to end."""
    start = time.perf_counter()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def start_times(runs: int) -> dict[str, Any]:
    """`kafkaproof --help`, and an empty program beside it."""
    ours = [sys.executable, "-m", "kafkaproof", "--help"]
    empty = [sys.executable, "-c", ""]
    return {
        "what": "kafkaproof --help",
        "seconds": round(statistics.median(wall_seconds(*ours) for _ in range(runs)), 3),
        "empty_program_seconds": round(statistics.median(wall_seconds(*empty) for _ in range(runs)), 3),
    }


def installed_size() -> Iterator[dict[str, Any]]:
    """Bytes of the files that the installed distribution consists of; nothing is said where it runs from a checkout."""
    try:
        files = metadata.files("kafkaproof") or []
    except metadata.PackageNotFoundError:
        return
    sizes = [Path(str(file.locate())).stat().st_size for file in files if Path(str(file.locate())).exists()]
    yield {"what": "installed distribution", "megabytes": round(sum(sizes) / 1e6, 2), "files": len(sizes)}


def certify_time(testee: str) -> dict[str, Any]:
    """One whole certification in a process of its own."""
    with tempfile.TemporaryDirectory() as report:
        command = [sys.executable, "-m", "kafkaproof", "certify", testee, "--json", "--report", report]
        start = time.perf_counter()
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        seconds = time.perf_counter() - start
    result = {"what": f"certify {testee}", "seconds": round(seconds, 2), "exit_code": done.returncode}
    return result | timings(done.stdout)


@dataclass(frozen=True, slots=True)
class RunCost:
    """Seconds of one run: on the clock, of all processors, and those of our own process among them.

    And its cases, and how many of them ended the testee.
    """

    wall: float
    cpu: float
    own: float
    cases: int
    crashes: int = 0


def one_run(connection: ConnectionSpec, jobs: int, *, whole: bool = False) -> RunCost:
    """A run over all decode cases with stored inputs; over all cases if it is to be *whole*."""
    cases = load_vectors() if whole else stored_inputs()
    wall, cpu, own = time.perf_counter(), _cpu(), time.process_time()
    crashes = results_of(connection, cases, jobs).counts()["crash"]
    return RunCost(time.perf_counter() - wall, _cpu() - cpu, time.process_time() - own, len(cases), crashes)


def stored_inputs() -> list[Case]:
    """The cases that ask to decode bytes as they are stored."""
    return [case for case in load_vectors() if case.op == "decode" and not is_heavy(case)]


def results_of(connection: ConnectionSpec, cases: Sequence[Case], jobs: int) -> Results:
    """A run that leaves no files."""
    with tempfile.TemporaryDirectory() as folder:
        return run(
            RunPlan(connection=connection, cases=cases, corpus="", path=Path(folder) / "result.ndjson", jobs=jobs)
        )


def _cpu() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def harness_cost(testee: str, runs: int) -> dict[str, Any]:
    """CPU time of the harness for one case: requests, answers, verdicts, results and process starts."""
    taken = [one_run(connect(testee), 1) for _ in range(runs)]
    return {
        "what": f"harness, {testee}: own processor time a case, in milliseconds",
        "milliseconds_per_case": round(statistics.median(each.own / each.cases for each in taken) * 1000, 4),
        "with_the_testee": round(statistics.median(each.wall / each.cases for each in taken) * 1000, 4),
        "protobuf_runner": "0.5 to 0.9",
    }


def crash_ratio(sound: str, runs: int, *, whole: bool = False) -> dict[str, Any]:
    """A testee that ends over one question in ten, against the same one that does not."""
    pairs = [(one_run(falling(sound), 2, whole=whole), one_run(standing(sound), 2, whole=whole)) for _ in range(runs)]
    what = f"one crash in ten / none, {sound}, {'the whole corpus' if whole else 'inputs as stored'}"
    return {"what": what} | crash_figures(pairs) | ({"promised": CRASHES_COST} if whole else {})


def crash_figures(pairs: Sequence[tuple[RunCost, RunCost]]) -> dict[str, Any]:
    """Cost of crashes, from runs with and without them.

    The whole corpus is what is promised.  Inputs as stored take less each than
    the start of a process, so that there the ratio is one of starts; what one
    crash costs is said beside it.
    """
    crashing, plain = pairs[0]
    return {
        "ratio": round(statistics.median(falls.wall / stays.wall for falls, stays in pairs), 2),
        "processor_ratio": round(statistics.median(falls.cpu / stays.cpu for falls, stays in pairs), 2),
        "seconds": round(statistics.median(falls.wall for falls, _ in pairs), 2),
        "seconds_without": round(statistics.median(stays.wall for _, stays in pairs), 2),
        "cases": crashing.cases,
        "crashes": crashing.crashes - plain.crashes,
        "processor_milliseconds_a_crash": round(
            statistics.median(
                (falls.cpu - stays.cpu) / max(1, falls.crashes - stays.crashes) * 1000 for falls, stays in pairs
            ),
            2,
        ),
    }


def standing(sound: str) -> ConnectionSpec:
    """The testee *sound* as it is."""
    return replace(connect("reference"), name=sound, preloads=False) if sound == PROGRAM else connect(sound)


def falling(sound: str) -> ConnectionSpec:
    """The testee *sound*, made to end over one question in ten."""
    if sound in ("reference", PROGRAM):
        return replace(connect("planted:crashes-on-a-tenth"), preloads=sound != PROGRAM)
    connection = connect(sound)
    return replace(connection, environment=(*connection.environment, ("KAFKAPROOF_FALLS", "1")))


def timings(output: str) -> dict[str, Any]:
    """The times that a certification reports."""
    try:
        (testee,) = json.loads(output)["testees"]
    except (ValueError, KeyError):
        return {"error": "no result"}
    return {key: testee[key] for key in TIMINGS if key in testee}


def crash_ratios(runs: int) -> Iterator[dict[str, Any]]:
    """In process, as a command, in Go, in Rust and in Java."""
    for testee in (PROGRAM, *COSTS, VIRTUAL_MACHINE):
        yield crash_ratio(testee, runs)
        yield crash_ratio(testee, max(1, runs // 3), whole=True)


# How a package is packed, the archive that registries get, and how it is tested; in the folder of the package.
PACKAGES: dict[Ecosystem, tuple[str, str, str]] = {
    "go": ("", "", "go test ./..."),
    "cargo": (
        "cargo package --offline --no-verify --allow-dirty --target-dir target",
        "target/package/*.crate",
        "cargo test --locked",
    ),
    "npm": ("npm pack --ignore-scripts", "*.tgz", "node --test"),
    "maven": ("mvn -B -q -C package -DskipTests", "target/*.jar", "mvn -B -q -C test"),
    "pypi": (f"{sys.executable} -m hatchling build -t wheel", "dist/*.whl", f"{sys.executable} -m pytest -q"),
    "bin": ("", "", ""),
}


def package_figures() -> Iterator[dict[str, Any]]:
    """Size of each vector package as it is published and unpacked, and the time of its own tests."""
    with tempfile.TemporaryDirectory() as place:
        for ecosystem, (pack, archive, test) in PACKAGES.items():
            folder = Path(place, ecosystem)
            write_packages(Path(place), (ecosystem,), PackageNames(), dictionary_text())
            files = [path for path in folder.rglob("*") if path.is_file()]
            figure = {"what": f"package {ecosystem}", "files": len(files)}
            figure["unpacked_megabytes"] = round(sum(path.stat().st_size for path in files) / 1e6, 2)
            if shutil.which((pack or test or "true").split()[0]) is None:
                yield figure
                continue
            if pack:
                subprocess.run(pack.split(), cwd=folder, check=True, capture_output=True)
                (published,) = folder.glob(archive)
            else:
                published = Path(shutil.make_archive(str(Path(place, f"{ecosystem}-archive")), "zip", folder))
            figure["published_megabytes"] = round(published.stat().st_size / 1e6, 2)
            if test:
                figure |= own_test_seconds(folder, test.split())
            yield figure


def own_test_seconds(folder: Path, command: Sequence[str]) -> dict[str, Any]:
    """Time of a second run of the tests; the first one fetches and compiles."""
    env = os.environ | {"PYTHONPATH": str(folder / "src")}
    if (folder / "package-lock.json").exists():
        subprocess.run(("npm", "ci", "--ignore-scripts"), cwd=folder, check=True, capture_output=True)
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    start = time.perf_counter()
    subprocess.run(
        [*command, *(["-count=1"] if command[0] == "go" else [])], cwd=folder, env=env, check=True, capture_output=True
    )
    return {"test_seconds": round(time.perf_counter() - start, 1)}


def measure_promises(runs: int) -> Iterator[dict[str, Any]]:
    """Everything, one line at a time."""
    yield from installed_size()
    yield start_times(runs)
    yield from decode_ratios(runs)
    for testee in COSTS:
        yield harness_cost(testee, runs)
    yield from crash_ratios(runs)
    for testee in CERTIFIED:
        yield certify_time(testee)


def main() -> None:
    """Measure and print, a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--runs", type=int, default=7, help="pairs to take the median of")
    parser.add_argument("--broker", metavar="RELEASE", help="measure a broker of this release, and nothing else")
    parser.add_argument("--packages", action="store_true", help="measure the vector packages, and nothing else")
    parser.add_argument("--crashes", action="store_true", help="measure what crashes cost, and nothing else")
    options = parser.parse_args()
    figures = []
    if options.broker:
        # Imported here: the other figures need nothing that starts brokers.
        from benchmarks.brokers import measure_release

        measured = measure_release(options.broker, options.runs)
    elif options.packages:
        measured = package_figures()
    else:
        measured = crash_ratios(options.runs) if options.crashes else measure_promises(options.runs)
    for figure in measured:
        figures.append(figure)
        if not options.json:
            print(
                "  ".join(f"{key}={value}" if key != "what" else f"{value}:" for key, value in figure.items()),
                flush=True,
            )
    if options.json:
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
