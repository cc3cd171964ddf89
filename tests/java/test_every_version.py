"""Kafka's own clients of four releases consume and produce through the fake broker, in every version that they speak.

A broker offers exactly one version, so a client that works has used it.  The versions come from the client itself.
"""

from __future__ import annotations

import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_brokers import jars
from kafka_brokers.fake_broker import EVERY_VERSION, FakeBroker, magic_of_fetch
from kafka_brokers.jvm import find_java
from kafka_brokers.releases import find_release
from kafka_brokers.wire import tables
from kafka_brokers.wire.schema import Api
from kafka_records import Batch, Record, decode, encode

pytestmark = [pytest.mark.java, pytest.mark.slow]

SOURCE = Path(__file__).with_name("EveryVersion.java")
OLDEST = "0.10.2.2"
RELEASES = (OLDEST, "2.8.2", "3.9.2", "4.4.0")
# What each release has to speak: ranges that it names itself must not be narrower.
LEAST = {
    OLDEST: ((0, 3), (0, 2)),
    "2.8.2": ((0, 12), (0, 9)),
    "3.9.2": ((0, 17), (0, 11)),
    "4.4.0": ((4, 18), (3, 13)),
}
# Producers since 0.10 build older requests for no magic: they fail before they send one.
OLDEST_PRODUCED = 2
TOPIC = "versions"
TIMESTAMP = 1_700_000_000_000
RECORDS = ((b"k0", b"value"), (b"k1", b"x" * 100), (b"k2", None))


def entries(magic: int) -> bytes:
    """The records as an uncompressed log of the format *magic*: one batch, or a message for each record."""
    records = [
        Record(offset, -1 if magic == 0 else TIMESTAMP + offset, key, value)
        for offset, (key, value) in enumerate(RECORDS)
    ]
    groups = [records] if magic == 2 else [[record] for record in records]
    batches = (
        Batch(
            magic=magic,
            base_offset=group[0].offset,
            last_offset=group[-1].offset,
            timestamp_type="none" if magic == 0 else "create",
            max_timestamp=group[-1].timestamp,
            records=tuple(group),
        )
        for group in groups
    )
    return b"".join(map(encode, batches))


def magic_of_produce(version: int) -> int:
    """The magic that a produce request of *version* has (KIP-32, KIP-98)."""
    return 2 if version >= 3 else 1 if version == 2 else 0


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled once, against the oldest release."""
    folder = tmp_path_factory.mktemp("classes")
    library = next(jars.provide(find_release(OLDEST)).glob("kafka-clients-*.jar"))
    command = ["javac", "--release", "8", "-Xlint:-options", "-cp", str(library), "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, timeout=120)
    return folder


class Program:
    """The program with the client of one release, in one JVM."""

    def __init__(self, release: str, classes: Path) -> None:
        java = find_java(find_release(release))
        command = [java.program, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += ["-cp", f"{classes}:{jars.provide(find_release(release))}/*", "EveryVersion"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def answer(self, *words: object) -> str:
        """The answer to one line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def versions(self, api: str) -> tuple[int, int]:
        """The oldest and the newest version of a request that the client speaks."""
        oldest, newest = map(int, self.answer("versions", api).split())
        return oldest, newest

    def close(self) -> None:
        """End the JVM."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module", params=RELEASES)
def program(request: pytest.FixtureRequest, classes: Path) -> Iterator[tuple[str, Program]]:
    """A release and its program."""
    made = Program(request.param, classes)
    yield request.param, made
    made.close()


def offering(api: Api, version: int) -> FakeBroker:
    """A broker that has *api* in one version, and all others in each version."""
    return FakeBroker(versions={**EVERY_VERSION, api: (version, version)}, sessions=True)


def test_records_arrive_through_every_fetch_version(program: tuple[str, Program]) -> None:
    """Offsets, timestamps, keys and values, in the newest format that the version has."""
    release, client = program
    oldest, newest = client.versions("FETCH")
    assert oldest <= LEAST[release][0][0]
    assert newest >= LEAST[release][0][1]
    for version in range(oldest, newest + 1):
        magic = magic_of_fetch(version)
        with offering(tables.FETCH, version) as broker:
            broker.serve(TOPIC, entries(magic))
            found = [each.split(":") for each in client.answer("fetch", broker.address, len(RECORDS)).split(" ")]
            read = [[None if part == "null" else b64decode(part) for part in parts[2:]] for parts in found]

            assert read[: len(RECORDS)] == [list(pair) for pair in RECORDS], (version, found)
            times = [-1 if magic == 0 else TIMESTAMP + offset for offset in range(len(RECORDS))]
            assert [tuple(map(int, parts[:2])) for parts in found[: len(RECORDS)]] == list(enumerate(times))
            assert set(broker.fetched) == {version}


def test_bytes_are_the_same_through_every_produce_version(program: tuple[str, Program]) -> None:
    """They are those that the reference writes in the format of the version; before version 2 nothing is sent."""
    release, client = program
    oldest, newest = client.versions("PRODUCE")
    assert oldest <= LEAST[release][1][0]
    assert newest >= LEAST[release][1][1]
    pairs = [f"{key.decode()}={(value or b'').decode()}" for key, value in RECORDS]
    for version in range(oldest, newest + 1):
        with offering(tables.PRODUCE, version) as broker:
            answer, caught = client.answer("produce", broker.address, TIMESTAMP, *pairs), b"".join(broker.caught())
            if version < OLDEST_PRODUCED:
                assert (answer.startswith("error "), caught) == (True, b""), (version, answer)
                continue
            assert answer == "done", version

            records = [record for batch in decode(caught) for record in batch.records]
            assert [(record.key, record.value) for record in records] == list(RECORDS), version
            assert caught == entries(magic_of_produce(version)), version
