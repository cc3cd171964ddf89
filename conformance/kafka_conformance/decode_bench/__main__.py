"""Measure, and print a line for each shape; see the package."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from kafka_conformance.connect import CannotRun
from kafka_conformance.connect.known import JAVA, find
from kafka_conformance.decode_bench.peers import PEERS
from kafka_conformance.decode_bench.shapes import SHAPES, Log, Shape, log_of
from kafka_conformance.testees import built

OURS: Final = "columnar"
WARM_SECONDS: Final = 4


class Worker:
    """A decoder in a process of its own, warm and waiting."""

    def __init__(self, name: str, command: list[str], stack: ExitStack) -> None:
        self.name = name
        pipe = subprocess.PIPE
        self.process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        stack.callback(self.process.kill)
        self.rates: list[float] = []

    def measure(self) -> tuple[int, int]:
        """One sample, in records a second; gives what was read."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise CannotRun(f"{self.name} fell")
        records, checksum, nanoseconds = map(int, line.split())
        self.rates.append(records / nanoseconds * 1e9)
        return records, checksum


def java_command(path: Path) -> list[str]:
    """Java's own decoder, from the libraries of the testee."""
    known = find(JAVA)
    assert known
    assert known.recipe
    folder = built.build(known.recipe)
    source = Path(__file__).parent / "assets" / "JavaPeer.java"
    return ["java", "-Xmx2g", "-XX:+UseSerialGC", "-cp", f"{folder}/lib/*", str(source), str(path), str(WARM_SECONDS)]


def workers(path: Path, peers: list[str], fresh: int, stack: ExitStack) -> Iterator[Worker]:
    """Everybody who takes part; several of Java."""
    for name in (OURS, *peers):
        if name == "java":
            yield from (Worker(name, java_command(path), stack) for _ in range(fresh))
        else:
            module = "kafka_conformance.decode_bench.peers"
            yield Worker(name, [sys.executable, "-m", module, name, str(path)], stack)


def compare(shape: Shape, log: Log, peers: list[str], rounds: int, fresh: int) -> dict[str, Any]:
    """Rates in million records a CPU-second, and how many times as fast we are."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "log"
        path.write_bytes(log.data)
        everyone = list(workers(path, peers, fresh, stack))
        for worker in everyone:
            if (found := worker.measure()) != (expected := everyone[0].measure()):
                raise CannotRun(f"{worker.name} read {found}, {OURS} read {expected}: {shape}")
            worker.rates.clear()
        for _ in range(rounds):
            for worker in everyone:
                worker.measure()
    ours = everyone[0].rates[-rounds:]
    result: dict[str, Any] = {OURS: round(statistics.median(ours) / 1e6, 2)}
    for name in peers:
        best = max((w for w in everyone if w.name == name), key=lambda worker: statistics.median(worker.rates))
        ratios = sorted(mine / its for mine, its in zip(ours, best.rates, strict=True))
        result[name] = round(statistics.median(best.rates) / 1e6, 2)
        result[f"x {name}"] = round(statistics.median(ratios), 2)
        result[f"x {name}, least and most"] = [round(ratios[0], 2), round(ratios[-1], 2)]
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m kafka_conformance.decode_bench", description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}; all if none is named")
    parser.add_argument("--peers", default="java,aiokafka,kafka-python", help="whom to compare with")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each")
    parser.add_argument("--fresh", type=int, default=3, help="processes of Java")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args()
    unknown = sorted(set(options.shapes) - set(SHAPES)) + sorted(set(options.peers.split(",")) - {*PEERS, "java"})
    if unknown:
        parser.error(f"not known: {', '.join(unknown)}")
    figures = {}
    for name in options.shapes or SHAPES:
        peers = [peer for peer in options.peers.split(",") if peer != OURS]
        figures[name] = compare(SHAPES[name], log_of(SHAPES[name]), peers, options.rounds, options.fresh)
        if not options.json:
            print(f"{name}:", "  ".join(f"{key}={value}" for key, value in figures[name].items()), flush=True)
    if options.json:
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
