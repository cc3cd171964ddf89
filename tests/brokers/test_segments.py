"""`recover` and `compact` against brokers whose segment files were changed while they were down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from tests.brokers.compaction_play import WHEN, Play, batch, record
from tests.brokers.compaction_play import stored_at as at

from kafka_brokers import jvm
from kafka_brokers.cleaning import EAGER, edit_segment, plant, read_segments
from kafka_brokers.jvm import JvmBroker
from kafka_corpus.authoring.build import put, reseal
from kafka_records import Batch, Record, recover

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.sweep]

RELEASES = ("4.4.0", "3.9.2", "2.8.2")
AT_ONCE = {"delete.retention.ms": "0"}


@pytest.fixture(scope="module", params=RELEASES)
def broker(request: pytest.FixtureRequest) -> Iterator[JvmBroker]:
    """A broker that cleans at once, and may be killed."""
    with jvm.start_jvm(request.param, config=EAGER) as running:
        yield running


def flipped(data: bytes, where: int) -> bytes:
    """One bit changed."""
    return data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :]


def stored(sequence: int) -> bytes:
    """The batch of two records that stands at twice *sequence*."""
    return at(2 * sequence, batch(record(0, b"%d" % sequence), record(1, b"b")))


FIRST, SECOND, THIRD = map(stored, range(3))
LOG = FIRST + SECOND + THIRD
MARKER = at(
    4, batch(record(0, b"\0\0\0\1", bytes(6)), control=True, transactional=True, producer_id=7, producer_epoch=0)
)
UNDECODABLE = reseal(put(stored(1), "record_count", 5))

# What is found in the file after the crash.
CRASHED: Mapping[str, bytes] = {
    "whole": LOG,
    "empty": b"",
    "a value that is flipped": FIRST + flipped(SECOND, len(SECOND) - 3) + THIRD,
    "a crc that is flipped": FIRST + SECOND + flipped(THIRD, 18),
    "the first batch flipped": flipped(FIRST, 70) + SECOND,
    "a tail that is cut": LOG[:-1],
    "only a prefix left": FIRST + SECOND[:12],
    "17 bytes left": FIRST + SECOND[:17],
    "18 bytes left": FIRST + SECOND[:18],
    "garbage at the end": LOG + b"\xff" * 40,
    "zeros at the end": LOG + bytes(4096),
    "a size below 14": FIRST + put(SECOND, "batch_length", 13) + THIRD,
    "a size below 49": FIRST + put(SECOND, "batch_length", 30) + THIRD,
    "a base offset that is changed": FIRST + put(SECOND, "base_offset", 100) + THIRD,
    "another epoch": FIRST + put(SECOND, "partition_leader_epoch", -1) + THIRD,
    "magic 3": FIRST + put(SECOND, "magic", 3) + THIRD,
    "magic -1": FIRST + put(SECOND, "magic", -1) + THIRD,
    "magic 1": FIRST + put(SECOND, "magic", 1) + THIRD,
    "an unknown codec": FIRST + reseal(put(SECOND, "attributes", 7)) + THIRD,
    "records that cannot be decoded": FIRST + UNDECODABLE + THIRD,
    "offsets that go backwards": SECOND + FIRST,
    "v1 after v2": FIRST + at(2, replace(batch(record(0, b"k")), magic=1)),
    "v0 after v2": FIRST
    + at(2, Batch(magic=0, base_offset=0, last_offset=0, timestamp_type="none", records=(Record(0, -1, b"k", b"v"),))),
    "v1 that is flipped": flipped(at(0, replace(batch(record(0, b"k")), magic=1)), 30) + SECOND,
    "a marker": FIRST + SECOND + MARKER,
    "an empty batch": FIRST
    + at(2, Batch(magic=2, base_offset=0, last_offset=1, producer_id=9, producer_epoch=0, base_sequence=0))
    + THIRD,
}


def test_recovery(broker: JvmBroker) -> None:
    """After a crash, a broker keeps of a segment what `recover` keeps, and goes on where it says."""
    with broker.client() as client:
        scenes = {name: Play(broker, client) for name in CRASHED}
        for play in scenes.values():
            play.produce(batch(record(0, b"k")))
    plant(broker, {scenes[name].partition: data for name, data in CRASHED.items()})
    found = {}
    with broker.client() as client:
        for name, play in scenes.items():
            client.await_leaders({play.partition.topic: 1})
            ours = recover(CRASHED[name], release=broker.release)
            theirs = read_segments(broker, play.partition), client.offset(play.partition)
            if (ours.data, ours.next_offset) != theirs:
                found[name] = (len(ours.data), ours.next_offset, ours.rule), (len(theirs[0]), theirs[1])
    assert found == {}


def test_an_edit(broker: JvmBroker) -> None:
    """A changed byte in the second of three batches ends the log after the first."""
    with broker.client() as client:
        play = Play(broker, client)
        play.produce(*(batch(record(0, b"k")) for _ in range(3)))
    data = read_segments(broker, play.partition)
    size = len(data) // 3
    edit_segment(broker, play.partition, 2 * size - 1, b"\xee")
    edited = data[: 2 * size - 1] + b"\xee" + data[2 * size :]
    with broker.client() as client:
        client.await_leaders({play.partition.topic: 1})
        ours = recover(edited, release=broker.release)
        assert (ours.data, ours.next_offset, ours.rule) == (data[:size], 1, "SEG-07")
        assert (read_segments(broker, play.partition), client.offset(play.partition)) == (data[:size], 1)


def wrapper(magic: int, *records: Record, **fields: object) -> Batch:
    """A compressed message set."""
    return replace(batch(*records), magic=magic, compression="gzip", **fields)  # type: ignore[arg-type]


def old(magic: int, *records: Record, **fields: object) -> Batch:
    """Messages, or a wrapper, of v0 or v1."""
    given = {"timestamp_type": "none"} if magic == 0 else {}
    if magic == 0:
        records = tuple(each._replace(timestamp=-1) for each in records)
    return replace(batch(*records), magic=magic, **given, **fields)  # type: ignore[arg-type]


TWICE = (record(0, b"a"), record(1, b"b"), record(2, b"a"), record(3, b"gone", None), record(4, b"z"))
# Logs that a disk may hold, though no producer could have written them to a compacted topic.
PLANTED: Mapping[str, bytes] = {
    "null keys": at(0, batch(record(0, None), record(1, b"a"), record(2, None)))
    + at(3, batch(record(0, None)))
    + stored(2),
    "v1 messages": b"".join(at(n, old(1, each._replace(offset=0))) for n, each in enumerate(TWICE)) + stored(3),
    "v0 messages": b"".join(at(n, old(0, each._replace(offset=0))) for n, each in enumerate(TWICE)) + stored(3),
    "v1 in gzip": at(0, old(1, *TWICE, compression="gzip")) + stored(3),
    "v0 in snappy": at(0, old(0, *TWICE, compression="snappy")) + stored(3),
    "v1 in lz4, kept whole": at(0, old(1, *TWICE[1:3], compression="lz4")) + stored(3),
    "v1 with append time": at(0, old(1, *TWICE, compression="gzip", timestamp_type="append", max_timestamp=WHEN + 99))
    + stored(3),
    "v1 last": stored(0) + at(2, old(1, record(0, b"b"))) + at(3, old(1, *TWICE[:3], compression="gzip")),
    "no key, last": stored(0) + at(2, batch(record(0, None))),
    "v1 without a key, last": stored(0) + at(2, old(1, record(0, None))),
    "a horizon that passed": at(0, batch(*TWICE, delete_horizon=WHEN)) + stored(3),
    "a horizon in 1970": at(0, batch(record(0, b"a"), record(1, b"b", None), delete_horizon=0)) + stored(3),
    "a horizon far ahead": at(0, batch(*TWICE, delete_horizon=2**62)) + stored(3),
    "unknown bits": reseal(put(at(0, batch(*TWICE)), "attributes", 0x7F00)) + stored(3),
    "records with attributes": reseal(at(0, batch(*TWICE))[:62] + b"\x55" + at(0, batch(*TWICE))[63:]) + stored(3),
    "a magic of 3": put(at(0, batch(*TWICE)), "magic", 3) + stored(3),
    "records that cannot be decoded": UNDECODABLE + stored(3),
    "an unknown codec": reseal(put(stored(0), "attributes", 7)) + stored(3),
    "offsets twice": reseal(at(0, batch(*TWICE)).replace(b"\x0e\x02", b"\x0e\x00")) + stored(3),
}


@pytest.mark.parametrize("settings", [{}, AT_ONCE], ids=["kept", "at once"])
def test_planted_logs(broker: JvmBroker, settings: dict[str, str]) -> None:
    """Old formats, null keys and oddities are cleaned as `compact` says, or stay as they are where it fails."""
    with broker.client() as client:
        scenes = {name: Play(broker, client, settings=settings) for name in PLANTED}
        for play in scenes.values():
            play.produce(batch(record(0, b"k")))
    plant(broker, {scenes[name].partition: data for name, data in PLANTED.items()})
    found = {}
    with broker.client() as client:
        for name, play in scenes.items():
            play.client = client
            client.await_leaders({play.partition.topic: 1})
            assert read_segments(broker, play.partition) == PLANTED[name], name
            for _ in range(3):
                difference = play.difference()
                if difference:
                    found[name] = difference
                if difference is not None:
                    break
                play.produce(batch(record(0, b"more")))
    assert found == {}
