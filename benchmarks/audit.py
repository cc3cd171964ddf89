"""How fast an audit is, beside DumpLogSegments with --deep-iteration on the same segments, or beside itself on Spark.

    python -m benchmarks.audit [--beside kafka|spark] [--mib N] [--rounds N] [--cores N] [--shape SHAPE] [--json]

Beside Kafka three figures a round, all on the same log of one partition, side by side:

- whole: `pipeline audit` as a command, Spark's start and all, and DumpLogSegments as a command: seconds on the clock,
  CPU-seconds of each with its children, and the most memory that each had at once, all of its processes together;
- running: a stretch judged in a warm process, and Kafka's tool without the start of its virtual machine (what it takes
  for an empty log is subtracted): bytes a CPU-second;
- cores: the warm judge in one process and in two at once: bytes a second on the clock.

Beside Spark each round is a pair, whose order alternates: `audit` and `pipeline audit` as commands on the same log and
the same cores; their files have to be the same to the byte.  Then `audit` of a log of about 10 KB, whole process.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.decode import DIFFERENT, SHAPES, BatchShape, sample_batch
from kafka_brokers import jars
from kafka_brokers.releases import NEWEST, find_release
from kafka_conformance.process.cpu_time import cpu_of, process_tree
from kafka_pipeline.audit.stretch import judge_stretch
from kafka_pipeline.segments.files import Stretch
from kafka_records import encode

MIB: Final = 1 << 20
SEGMENT: Final = 256 * MIB
NOW_MS: Final = 1_700_003_600_000
LOOK: Final = 0.1
# Bytes of a small log, and how often it is audited.
SMALL: Final = 10_000
SMALL_RUNS: Final = 5
# prctl(2)
PR_SET_CHILD_SUBREAPER: Final = 36


def write_partition(folder: Path, shape: BatchShape, size: int) -> list[Path]:
    """A partition of about *size* bytes: batches of v2 as a broker stores them, one after the other."""
    draw = Random(1)
    batches = [bytearray(encode(sample_batch(shape, draw))) for _ in range(DIFFERENT)]
    folder.mkdir(parents=True)
    offset, paths, left = 0, [], size
    while left > 0:
        paths.append(folder / f"{offset:020}.log")
        room = min(SEGMENT, left)
        left -= room
        with paths[-1].open("wb") as file:
            for batch in cycle(batches):
                # The offset and the leader epoch are not under the CRC.
                batch[:8], batch[12:16] = offset.to_bytes(8, "big"), bytes(4)
                file.write(batch)
                offset += shape.records
                room -= len(batch)
                if room <= 0:
                    break
    return paths


class Spent:
    """Cost of a command: seconds, CPU-seconds with all its child processes, and peak memory in MiB.

    Processor time is that of each process when it was last seen: Spark's workers do not add theirs to a parent's.
    """

    def __init__(self, command: Sequence[str], ends: Sequence[int] = (0,)) -> None:
        inherit()
        self._before = frozenset(process_tree(os.getpid()))
        self._cpu: dict[int, float] = {}
        self.memory = 0.0
        start, over = time.monotonic(), threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            watch.start()
            said = process.communicate()[1]
        self.seconds = time.monotonic() - start
        # Spark's virtual machine outlives the command by a moment.
        while left := self._below():
            for pid in left:
                with suppress(ChildProcessError):  # a grandchild, which is left to us a little later
                    os.waitpid(pid, 0)
        over.set()
        watch.join()
        self.cpu = sum(self._cpu.values())
        if process.returncode not in ends:
            raise SystemExit(f"{command[0]} ended with {process.returncode}: {said.decode(errors='replace')[-500:]}")

    def _below(self) -> set[int]:
        return set(process_tree(os.getpid())) - self._before

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(LOOK):
            below = self._below()
            self.memory = max(self.memory, sum(map(private_mib, below)))
            self._cpu |= {pid: spent for pid in below if (spent := cpu_of(pid))}


def inherit() -> None:
    """Adopt orphaned processes, so that their CPU time is counted."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def private_mib(pid: int) -> float:
    """Proportional memory of a process without mapped files; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = {line.split()[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return sizes.get("Pss_Anon:", 0) / 1024


def dumping(paths: Sequence[Path]) -> list[str]:
    """The command that runs Kafka's own tool."""
    newest = find_release(NEWEST)
    tool = find_release(newest.dumped_by or NEWEST)
    folder, files = jars.provide(tool), ",".join(map(str, paths))
    return ["java", "-Xmx1g", "-cp", f"{folder}/*", tool.dump_log_segments,
            "--deep-iteration", "--files", files]  # fmt: skip


def auditing(folder: Path, out: Path, cores: int) -> list[str]:
    """The command that audits."""
    options = ["--now", str(NOW_MS), "--out", str(out), "--master", f"local[{cores}]"]
    return [sys.executable, "-m", "kafkaproof", "pipeline", "audit", str(folder), *options]


def auditing_here(folder: Path, out: Path | None, cores: int) -> list[str]:
    """The command that audits in processes on this machine."""
    options = ["--now", str(NOW_MS), "--jobs", str(cores), *(["--out", str(out)] if out else [])]
    return [sys.executable, "-m", "kafkaproof", "audit", str(folder), *options]


def judged(path: str) -> float:
    """CPU-seconds that a segment takes in this process."""
    size = Path(path).stat().st_size
    before = time.process_time()
    summary = judge_stretch(Stretch(path, 0, size), size, last=True, now_ms=NOW_MS)
    assert not summary.found, summary.found
    return time.process_time() - before


def by_cores(paths: Sequence[Path], number: int) -> float:
    """Bytes a second on the clock by so many warm processes at once."""
    work = [str(path) for path in paths] * 2
    with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(judged, [str(paths[0])] * (3 * number)))
        start = time.monotonic()
        list(pool.map(judged, work))
        return sum(Path(path).stat().st_size for path in work) / (time.monotonic() - start)


def measure_audit(folder: Path, shape: BatchShape, size: int, rounds: int, cores: int) -> dict[str, Any]:
    """The figures, medians of the rounds."""
    paths = write_partition(folder / "bench-0", shape, size)
    size = sum(path.stat().st_size for path in paths)
    empty = folder / "empty-0" / f"{0:020}.log"
    empty.parent.mkdir()
    empty.write_bytes(b"")
    for path in paths:
        judged(str(path))
    rows = []
    for number in range(rounds):
        ours = Spent(auditing(paths[0].parent, folder / f"out-{number}", cores))
        theirs, start = Spent(dumping(paths)), Spent(dumping([empty]))
        ran = sum(judged(str(path)) for path in paths)
        one, two = by_cores(paths, 1), by_cores(paths, 2)
        rows.append(
            {
                "audit MB/s": size / ours.seconds / 1e6,
                "DumpLogSegments MB/s": size / theirs.seconds / 1e6,
                "x whole": theirs.seconds / ours.seconds,
                "x whole, CPU": theirs.cpu / ours.cpu,
                "running MB/CPU-s": size / ran / 1e6,
                "x running": (theirs.cpu - start.cpu) / ran,
                "x two cores": two / one,
                "audit MiB": ours.memory,
                "audit MiB a core": ours.memory / cores,
                "DumpLogSegments MiB": theirs.memory,
            }
        )
    return {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}


def measure_beside_spark(folder: Path, shape: BatchShape, size: int, rounds: int, cores: int) -> dict[str, Any]:
    """The figures of pairs: the ratio of each, and medians."""
    paths = write_partition(folder / "bench-0", shape, size)
    size = sum(path.stat().st_size for path in paths)
    small = write_partition(folder / "small-0", shape, SMALL)[0].parent
    Spent(auditing_here(paths[0].parent, None, cores))
    rows, ratios = [], []
    for number in range(rounds):
        outs = folder / f"here-{number}", folder / f"spark-{number}"
        commands = {"here": auditing_here(paths[0].parent, outs[0], cores)}
        commands["spark"] = auditing(paths[0].parent, outs[1], cores)
        spent = {name: Spent(commands[name]) for name in sorted(commands, reverse=bool(number % 2))}
        same = {path.name: path.read_bytes() for path in outs[0].iterdir()}
        assert same == {path.name: path.read_bytes() for path in outs[1].iterdir() if path.suffix != ".crc"}, outs
        here, spark = spent["here"], spent["spark"]
        ratios.append(round(spark.seconds / here.seconds, 2))
        rows.append(
            {
                "audit s": here.seconds,
                "audit CPU-s": here.cpu,
                "audit MB/s": size / here.seconds / 1e6,
                "Spark s": spark.seconds,
                "Spark CPU-s": spark.cpu,
                "x whole": spark.seconds / here.seconds,
                "x whole, CPU": spark.cpu / here.cpu,
                "audit MiB": here.memory,
                "Spark MiB": spark.memory,
            }
        )
    figures: dict[str, Any] = {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}
    quick = [Spent(auditing_here(small, None, cores)) for _ in range(SMALL_RUNS)]
    written = [Spent(auditing_here(small, folder / f"small-{number}", cores)) for number in range(SMALL_RUNS)]
    for name, runs in (("small", quick), ("small with --out", written)):
        figures[f"{name} s"] = round(statistics.median(run.seconds for run in runs), 3)
        figures[f"{name}, each s"] = [round(run.seconds, 2) for run in runs]
        figures[f"{name} MiB"] = round(max(run.memory for run in runs), 1)
    return {"pairs": ratios, **figures}


def print_figures(figures: dict[str, Any], *, as_json: bool) -> None:
    """Print a line for each figure, or one JSON document."""
    lines = "\n".join(
        f"{name}: {value:,}" if isinstance(value, float) else f"{name}: {value}" for name, value in figures.items()
    )
    print(json.dumps(figures, indent=2) if as_json else lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--beside", choices=("kafka", "spark"), default="kafka")
    parser.add_argument("--mib", type=int, default=4096, help="size of the log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=min(2, os.cpu_count() or 1), help="for the audit")
    modern = [name for name, shape in SHAPES.items() if shape.magic == 2]
    parser.add_argument("--shape", choices=modern, default="100-bytes", help="of the records")
    parser.add_argument("--folder", type=Path, help="where the log goes for a while")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(dir=options.folder) as folder:
        measure = measure_audit if options.beside == "kafka" else measure_beside_spark
        figures = measure(Path(folder), SHAPES[options.shape], options.mib * MIB, options.rounds, options.cores)
    print_figures(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
