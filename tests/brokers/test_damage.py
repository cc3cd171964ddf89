"""Damage that stops a broker, or that it never notices, and what `recover` and `compact` say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.brokers.compaction_play import Play, above_compression, batch, now_ms, record, stored_at

from kafka_brokers import jvm
from kafka_brokers.cleaning import (
    EAGER,
    active_base_offset,
    await_cleaned,
    edit_segment,
    force_clean,
    plant,
    read_segments,
    segment_files,
)
from kafka_brokers.interface import NoBroker
from kafka_brokers.wire.transactions import init_producer_id, send_end_transaction
from kafka_corpus.authoring.build import put
from kafka_records import CleanerConfig, RecordFormatError, Round, compact, decode, recover

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.sweep]

RELEASES = ("4.4.0", "2.8.2")
# Seconds; one that does not start says so within this, one with ZooKeeper is tried again that long.
START_LIMIT = 40.0
FIRST, LAST = (stored_at(2 * at, batch(record(0, b"a"), record(1, b"b"))) for at in (0, 2))


def control(key: bytes | None) -> bytes:
    """A control record where a marker ought to be."""
    marker = replace(batch(record(0, key, bytes(6))), control=True, transactional=True, producer_id=7, producer_epoch=0)
    return stored_at(2, marker)


FATAL: Mapping[str, bytes] = {
    "a marker with a short key": FIRST + control(b"\0\0") + LAST,
    "a marker without a key": FIRST + control(None) + LAST,
    "a marker of an unknown type": FIRST + control(b"\0\0\0\x63") + LAST,
    "an offset far away": FIRST + put(stored_at(2, batch(record(0, b"a"))), "base_offset", 2**40) + LAST,
    "an offset below zero": put(FIRST, "base_offset", -5) + LAST,
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", FATAL)
def test_what_stops_a_broker(name: str, release: str) -> None:
    """A broker does not start with a marker that cannot be read, or an offset that is out of range."""
    ours = recover(FATAL[name], release=release)
    assert ours.error
    with jvm.start_jvm(release, start_limit=START_LIMIT) as broker:
        with broker.client() as client:
            play = Play(broker, client)
            play.produce(batch(record(0, b"k")))
        with pytest.raises(NoBroker) as caught:
            plant(broker, {play.partition: FATAL[name]})
        assert ours.error in caught.value.log or ours.error in broker.log.read_text(encoding="utf-8")
        assert read_segments(broker, play.partition) == ours.data


@pytest.mark.parametrize("release", RELEASES)
def test_a_segment_is_split(release: str) -> None:
    """A last batch that is too far away for its segment gets one of its own."""
    segment = FIRST + put(LAST, "base_offset", 2**40)
    with jvm.start_jvm(release) as broker:
        with broker.client() as client:
            play = Play(broker, client)
            play.produce(batch(record(0, b"k")))
        plant(broker, {play.partition: segment})
        ours = recover(segment, release=release)
        with broker.client() as client:
            client.await_leaders({play.partition.topic: 1})
            assert client.offset(play.partition) == ours.next_offset == 2**40 + 2
        files = {int(path.stem): path.read_bytes() for path in segment_files(broker, play.partition)}
        assert ours.splits
        assert files == {0: FIRST, 2**40: segment[len(FIRST) :]}
        assert read_segments(broker, play.partition) == ours.data


@pytest.mark.parametrize("release", RELEASES)
def test_a_wrong_crc_is_made_right(release: str) -> None:
    """A bit that flips in a closed segment is served with a wrong CRC, until the cleaner gives it a right one."""
    with jvm.start_jvm(release, config=EAGER) as broker:
        with broker.client() as client:
            play = Play(broker, client)
            play.produce(batch(record(0, b"a", b"precious"), record(1, b"b"), record(2, b"b")))
            # The cleaner stays away as long as a transaction is open.
            open_one = play.transaction("t", batch(record(0, b"c")), commit=True, ends=False)
            with pytest.raises(NoBroker, match="has not been over"):
                force_clean(broker, client, play.partition, limit=0.5)
        # After a clean shutdown only the active segment is recovered.
        broker.restart(clean=True)
        at = read_segments(broker, play.partition).index(b"precious")
        edit_segment(broker, play.partition, at, b"q")
        with broker.client() as client:
            client.await_leaders({play.partition.topic: 1})
            before = read_segments(broker, play.partition)
            with pytest.raises(RecordFormatError, match="crc"):
                decode(before)
            send_end_transaction(client, f"{play.partition.topic}-t", open_one, commit=True)
            await_cleaned(broker, play.partition)
        after, active = read_segments(broker, play.partition), segment_files(broker, play.partition)[-1]
        given = Round(first_uncleanable_offset=active_base_offset(broker, play.partition))
        closed = before.removesuffix(active.read_bytes())
        ours = compact(closed + active.read_bytes(), CleanerConfig(), given, release=release, now_ms=now_ms())
        assert above_compression(ours.data) == above_compression(after)
        assert decode(after)[0].records[0].value == b"qrecious"


@pytest.mark.parametrize("release", RELEASES)
def test_a_crash_loses_nothing(release: str) -> None:
    """After `kill -9` everything that was acknowledged is there, transactions too, and is cleaned alike."""
    with jvm.start_jvm(release, config=EAGER) as broker:
        with broker.client() as client:
            play = Play(broker, client)
            play.produce(batch(record(0, b"a"), record(1, b"b"), record(2, b"a")))
            play.transaction("t", batch(record(0, b"c"), record(1, b"a")), commit=False)
            play.transaction("u", batch(record(0, b"c")), commit=True)
            # Answered once the coordinator has written that the transaction is over; else it sends the marker again.
            init_producer_id(client, f"{play.partition.topic}-u")
            before = read_segments(broker, play.partition)
        broker.kill()
        broker.restart()
        with broker.client() as client:
            play.client = client
            client.await_leaders({play.partition.topic: 1})
            ours = recover(before, release=release)
            assert ours.data == before == read_segments(broker, play.partition)
            assert client.offset(play.partition) == ours.next_offset
            play.cleans_as_predicted()
