"""Decoding and encoding speed of the columnar codec beside Java, Python, Go and Rust."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.decode_peers import PEERS
from kafka_conformance.testees import recipe as built
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import JAVA, find_testee
from kafka_conformance.testees.recipe import BuildError, BuildRecipe, ToolchainMissing
from kafka_records import Batch, Header, Record, encode
from kafka_records.constants import MAGIC_VALUE_V2, Compression
from kafka_records.layout import ENTRY

TIMESTAMP: Final = 1_700_000_000_000
BYTES: Final = 48 * 1024 * 1024  # of a log before compression
DIFFERENT: Final = 40  # batches that are not alike; the log repeats them
HEADER_VALUES: Final = (16, 6, 4)


class BatchShape(NamedTuple):
    """Records a batch, bytes a value, headers a record."""

    records: int = 100
    value: int = 100
    headers: int = 0
    magic: int = 2
    compression: Compression = "none"


SHAPES: Final[dict[str, BatchShape]] = {
    "100-bytes": BatchShape(),
    "10-bytes": BatchShape(value=10),
    "3-headers": BatchShape(headers=3),
    "one-record": BatchShape(records=1),
    "1-kib": BatchShape(value=1024),
    "v0": BatchShape(magic=0),
    "v1": BatchShape(magic=1),
    "gzip": BatchShape(compression="gzip"),
    "snappy": BatchShape(compression="snappy"),
    "lz4": BatchShape(compression="lz4"),
    "zstd": BatchShape(compression="zstd"),
    "v1-lz4": BatchShape(magic=1, compression="lz4"),
}


class EncodedLog(NamedTuple):
    """The bytes, and how many records are in them."""

    data: bytes
    records: int


def log_of(shape: BatchShape) -> EncodedLog:
    """The log of a shape."""
    draw = Random(1)
    batches = b"".join(encode(sample_batch(shape, draw)) for _ in range(DIFFERENT))
    plain = DIFFERENT * shape.records * (shape.value + 30 * (1 + shape.headers))
    times = max(BYTES // plain, 1)
    return EncodedLog(with_rising_offsets(batches * times, shape), DIFFERENT * shape.records * times)


def with_rising_offsets(data: bytes, shape: BatchShape) -> bytes:
    """The same entries with offsets that rise through all the log, as in any log; no checksum covers an offset."""
    log = bytearray(data)
    whole = shape.magic == MAGIC_VALUE_V2 or shape.compression != "none"
    count = shape.records if whole else 1
    # In v0 and v1 an entry has the offset of its last record.
    offset = 0 if shape.magic == MAGIC_VALUE_V2 else count - 1
    at = 0
    while at < len(log):
        _, size = ENTRY.struct.unpack_from(log, at)
        ENTRY.struct.pack_into(log, at, offset, size)
        at, offset = at + ENTRY.size + size, offset + count
    return bytes(log)


def sample_batch(shape: BatchShape, draw: Random) -> Batch:
    """One batch: keys of 10 bytes, values like JSON, timestamps that grow by up to 3 ms."""
    timestamp, records = TIMESTAMP, []
    for offset in range(shape.records):
        timestamp += draw.randrange(4)
        records.append(
            Record(
                offset,
                timestamp if shape.magic else -1,
                b"key%07d" % draw.randrange(10**7),
                sample_value(shape.value, draw),
                tuple(
                    Header(b"header%d" % number, bytes(draw.choices(b"abcdef", k=size)))
                    for number, size in enumerate(HEADER_VALUES[: shape.headers])
                ),
            )
        )
    return Batch(
        magic=shape.magic,
        base_offset=0,
        last_offset=shape.records - 1,
        compression=shape.compression,
        timestamp_type="create" if shape.magic else "none",
        max_timestamp=records[-1].timestamp,
        records=tuple(records),
    )


def sample_value(size: int, draw: Random) -> bytes:
    """About as compressible as JSON is."""
    fields = (
        b'{"id":%d,"name":"user-%d","score":%d,"tag":"'
        % (draw.randrange(10**6), draw.randrange(10**4), draw.randrange(100)),
        bytes(draw.choices(b"abcdefgh ", k=size)),
    )
    return b"".join(fields)[:size]


ASSETS: Final = Path(__file__).parent / "assets"
WARM_SECONDS: Final = 4
RUST: Final = ("kafka-protocol", "rskafka")
# What the peers are called in a command line, and whose libraries they use.
NAMES: Final = {"java": JAVA, "franz-go": "franz-go", "kafka-protocol": "kafka-protocol", "rskafka": "rskafka"}
# Formats that a library does not read.
ONLY_V2: Final = RUST


def peer_command(name: str, path: Path, *, encode: bool) -> list[str]:
    """The command line of a peer that reads the log at *path*, or writes it again.

    Raises:
        built.ToolchainMissing: there is nothing here to build it with.
        built.BuildError: it does not build.
    """
    known = find_testee(NAMES[name])
    assert known
    assert known.recipe
    if name == "java":
        libraries = f"{built.build_testee(known.recipe)}/lib/*"
        java = ["java", "-Xmx2g", "-XX:+UseSerialGC", "-cp", libraries]
        return [*java, str(ASSETS / "JavaPeer.java"), str(path), str(WARM_SECONDS), "encode" if encode else "decode"]
    return [str(built.build_testee(peer_of(known.recipe)) / "testee"), str(path)]


def peer_of(recipe: BuildRecipe) -> BuildRecipe:
    """How a peer is built: with the libraries of a testee, and another main program."""
    project = f"{recipe.name}-peer"
    if recipe.language == "go":
        build = tuple(tuple("./peer" if word == "." else word for word in each) for each in recipe.build)
        return replace(recipe, project=project, sources=("peer/main.go", "go.mod", "go.sum"), build=build)
    other_main = ("sed", "-i", "s/main.rs/peer.rs/", "Cargo.toml")
    sources = ("peer.rs", "Cargo.toml", "Cargo.lock")
    return replace(recipe, project=project, sources=sources, build=(other_main, *recipe.build))


OURS: Final = "columnar"
ENCODERS: Final = ("java",)
PEER_NAMES: Final = ", ".join((*NAMES, *(name for name in PEERS if name != OURS)))


class DecoderProcess:
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


def workers(
    path: Path, peers: list[str], fresh: int, shape: BatchShape, encode: bool, stack: ExitStack
) -> Iterator[DecoderProcess]:
    """The decoders that are measured; Java has several."""
    for name in (OURS, *peers):
        if name in NAMES:
            command = peer_command(name, path, encode=encode)
            yield from (DecoderProcess(name, command, stack) for _ in range(fresh if name == "java" else 1))
        else:
            module, records = "benchmarks.decode_peers", str(shape.records if encode else 0)
            yield DecoderProcess(name, [sys.executable, "-m", module, name, str(path), records], stack)


def compare_decoders(
    shape: BatchShape, log: EncodedLog, peers: list[str], rounds: int, fresh: int, *, encode: bool
) -> dict[str, Any]:
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


def who_can(peers: list[str], shape: BatchShape, *, encode: bool) -> list[str]:
    """Those of *peers* that take part: who encodes, who reads this format, whose toolchain is here."""
    here = []
    for name in peers:
        if (encode and name not in ENCODERS) or (shape.magic < MAGIC_VALUE_V2 and name in ONLY_V2):
            continue
        try:
            if name in NAMES:
                peer_command(name, Path(), encode=encode)
            here.append(name)
        except ToolchainMissing as error:
            sys.stderr.write(f"{name} is left out: {error}\n")
    return here


def shapes_to_measure(shapes: list[str], *, encode: bool) -> list[str]:
    """The shapes to measure; compressed ones are not encoded, since compressors differ, nor are old formats."""
    names = shapes or list(SHAPES)
    return [
        name
        for name in names
        if not encode or (SHAPES[name].magic == MAGIC_VALUE_V2 and SHAPES[name].compression == "none")
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=__doc__)
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
        for name in shapes_to_measure(options.shapes, encode=options.encode):
            shape = SHAPES[name]
            able = who_can(peers, shape, encode=options.encode)
            log = log_of(shape)
            figures[name] = compare_decoders(shape, log, able, options.rounds, options.fresh, encode=options.encode)
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
