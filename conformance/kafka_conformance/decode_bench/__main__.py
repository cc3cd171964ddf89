"""Measure, and print a line for each shape; see the package."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from kafka_conformance.connect import CannotRun
from kafka_conformance.decode_bench import others
from kafka_conformance.decode_bench.others import NAMES, ONLY_V2
from kafka_conformance.decode_bench.peers import PEERS
from kafka_conformance.decode_bench.shapes import SHAPES, Log, Shape, log_of
from kafka_conformance.testees.built import BuildError, ToolchainMissing
from kafka_records.constants import MAGIC_VALUE_V2

OURS: Final = "columnar"
ENCODERS: Final = ("java",)
PEER_NAMES: Final = ", ".join((*NAMES, *(name for name in PEERS if name != OURS)))


class Worker:
    """A decoder in a process of its own, warm and waiting."""

    def __init__(self, name: str, command: list[str], stack: ExitStack) -> None:
        self.name = name
        pipe = subprocess.PIPE
        self.process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0))
        stack.callback(self.process.kill)
        self.rates: list[float] = []

    def measure(self) -> tuple[int, int]:
        """One sample, in records a second; gives what was read."""
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.write(b"\n")
        line = self.process.stdout.readline()
        if not line:
            raise CannotRun(f"{self.name} fell")
        records, checksum, nanoseconds = map(int, line.split())
        self.rates.append(records / nanoseconds * 1e9)
        return records, checksum


def workers(path: Path, peers: list[str], fresh: int, shape: Shape, encode: bool, stack: ExitStack) -> Iterator[Worker]:
    """Everybody who takes part; several of Java."""
    for name in (OURS, *peers):
        if name in NAMES:
            command = others.command(name, path, encode=encode)
            yield from (Worker(name, command, stack) for _ in range(fresh if name == "java" else 1))
        else:
            module, records = "kafka_conformance.decode_bench.peers", str(shape.records if encode else 0)
            yield Worker(name, [sys.executable, "-m", module, name, str(path), records], stack)


def compare(shape: Shape, log: Log, peers: list[str], rounds: int, fresh: int, *, encode: bool) -> dict[str, Any]:
    """Rates in million records a CPU-second, and how many times as fast we are."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "log"
        path.write_bytes(log.data)
        everyone = list(workers(path, peers, fresh, shape, encode, stack))
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


def who_can(peers: list[str], shape: Shape, *, encode: bool) -> list[str]:
    """Those of *peers* that take part: who encodes, who reads this format, whose toolchain is here."""
    here = []
    for name in peers:
        if (encode and name not in ENCODERS) or (shape.magic < MAGIC_VALUE_V2 and name in ONLY_V2):
            continue
        try:
            if name in NAMES:
                others.command(name, Path(), encode=encode)
            here.append(name)
        except ToolchainMissing as error:
            sys.stderr.write(f"{name} is left out: {error}\n")
    return here


def chosen(shapes: list[str], *, encode: bool) -> list[str]:
    """The shapes to measure; compressed ones are not encoded, since compressors differ, nor are old formats."""
    names = shapes or list(SHAPES)
    return [
        name
        for name in names
        if not encode or (SHAPES[name].magic == MAGIC_VALUE_V2 and SHAPES[name].compression == "none")
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m kafka_conformance.decode_bench", description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}; all if none is named")
    parser.add_argument("--peers", default="java,aiokafka,kafka-python", help=f"whom to compare with: {PEER_NAMES}")
    parser.add_argument("--encode", action="store_true", help="write the uncompressed v2 shapes instead of reading")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each")
    parser.add_argument("--fresh", type=int, default=3, help="processes of Java")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args()
    peers = [peer for peer in options.peers.split(",") if peer != OURS]
    if unknown := sorted(set(options.shapes) - set(SHAPES)) + sorted(set(peers) - {*PEERS, *NAMES}):
        parser.error(f"not known: {', '.join(unknown)}")
    figures = {}
    try:
        for name in chosen(options.shapes, encode=options.encode):
            shape = SHAPES[name]
            able = who_can(peers, shape, encode=options.encode)
            log = log_of(shape)
            figures[name] = compare(shape, log, able, options.rounds, options.fresh, encode=options.encode)
            if not options.json:
                print(f"{name}:", "  ".join(f"{key}={value}" for key, value in figures[name].items()), flush=True)
    except (CannotRun, BuildError) as error:
        sys.stderr.write(f"{error}\n")
        return 3
    if options.json:
        print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
