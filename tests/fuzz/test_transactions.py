"""Transactional lanes without a broker: what a producer sends, and what its coordinator says to that."""

from __future__ import annotations

from collections import Counter
from random import Random

from kafka_brokers.wire import TopicPartition
from kafka_brokers.wire.transactions import Producer
from kafka_corpus.authoring.build import TIMESTAMP, put, raw_batch, raw_record, signed
from kafka_fuzz.broker.lanes import (
    Lane,
    Sender,
    Taken,
    first_transactional,
    marker_mutant,
    timed_marker,
    transactional_settings,
)
from kafka_fuzz.mutate import Mutant, MutantCell
from kafka_records import LogState, TopicConfig, end_transaction
from kafka_records.checksum import checksum_v2
from kafka_records.constants import LOG_OVERHEAD
from kafka_records.layout import BATCH_V2

RELEASE = "4.4.0"
MINE = Producer(40, 3)
BATCH = raw_batch(raw_record(value=b"value"), record_count=1, base_sequence=0, attributes=0x10)


def sent(producer_id: int, epoch: int) -> bytes:
    """A transactional batch of somebody."""
    return signed(BATCH, producer_id, epoch)


def shorter(data: bytes, *, by: int) -> bytes:
    """A batch that ends before its time."""
    size = len(data) - by
    return put(data, "batch_length", size - LOG_OVERHEAD)[:size]


def lane_of(sender: Sender, **settings: str) -> Lane:
    """An empty lane of *sender*."""
    return Lane(RELEASE, TopicPartition("topic", 0), settings, TopicConfig.of(settings), sender=sender)


def test_what_the_coordinator_knows() -> None:
    """The first transactional batch counts: its own producer, one with another epoch, one that it never heard of."""
    sender = Sender("id", MINE, is_open=True)
    for payload, known in (
        (sent(40, 3), "known"),
        (sent(40, 2), "other epoch"),
        (sent(41, 3), "unknown"),
        (sent(41, 3) + sent(40, 3), "unknown"),
        (signed(raw_batch(raw_record(), record_count=1), 41, 3) + sent(40, 3), "known"),
        (shorter(sent(41, 3), by=13), "unknown"),
        (shorter(sent(41, 3), by=21), "known"),
        (b"no entry", "known"),
    ):
        assert sender.producing(payload).producer == known
        assert sender.producing(payload).in_transaction
        assert sender.producing(payload).transactional_id
    assert first_transactional(sent(-1, -1)) is None


def test_a_lane_predicts_with_its_sender() -> None:
    """Beside a transaction a batch is refused, in one it is taken; a plain lane has no transactional id to name."""
    sender = Sender("id", MINE)
    lane = lane_of(sender)
    assert lane.predict(sent(40, 3), 10, TIMESTAMP).error_code == 48
    sender.is_open = True
    assert lane.predict(sent(40, 3), 10, TIMESTAMP).error_code == 0
    assert lane.predict(sent(40, 2), 10, TIMESTAMP).error_code == 47
    lane.sender = None
    assert lane.predict(sent(40, 3), 10, TIMESTAMP).error_code == 53
    assert not lane.is_worn
    lane.sender = Sender("id", MINE, is_lost=True)
    assert lane.is_worn


def test_a_version_that_adds_partitions_waits_for_the_transaction() -> None:
    """Version 12 waits for an open transaction, since its failed request leaves an unpredictable coordinator state."""
    sender = Sender("id", MINE)
    assert (sender.newest(RELEASE, 13), sender.newest(RELEASE, 7), sender.newest("3.9.2", 11)) == (11, 7, 11)
    sender.is_open = True
    assert sender.newest(RELEASE, 13) == 13


def test_payloads_are_signed() -> None:
    """Mostly transactional, by the lane's own producer, in its epoch; the checksum is right again."""
    sender, rng = Sender("id", MINE), Random(1)
    mutant = Mutant(BATCH, "fixup", ("x",), None, MutantCell(2, "none", "", "", "", "entry", "only"))
    made = [sender.signed(mutant, LogState(), rng).data for _ in range(400)]
    headers = [BATCH_V2.values(data) for data in made]
    ids = Counter(header["producer_id"] for header in headers)
    epochs = Counter(header["producer_epoch"] for header in headers)
    plain = sum(not header["attributes"] & 0x10 for header in headers)
    assert 300 < ids[40] < 400
    assert 250 < epochs[3] < 400
    assert {2, 4} <= epochs.keys()
    assert 5 < plain < 80
    assert all(header["crc"] == checksum_v2(data) for header, data in zip(headers, made, strict=True))
    assert sender.signed(mutant._replace(data=b"short"), LogState(), rng).data == b"short"


def test_another_sends_the_same() -> None:
    """Its own id and, as far from its own epoch, the epoch; what was somebody else's stays theirs."""
    other = Sender("other", Producer(50, 0))
    assert other.as_mine(sent(40, 4), MINE) == sent(50, 1)
    assert other.as_mine(sent(1, 4), MINE) == sent(1, 4)
    assert other.as_mine(b"short", MINE) == b"short"


def test_a_marker_has_two_times() -> None:
    """The coordinator's, when it made it, and with LogAppendTime the partition's, which may be later."""
    lane = lane_of(Sender("id", MINE), **{"message.timestamp.type": "LogAppendTime"})
    wanted = end_transaction(
        lane.log, *MINE, commit=True, coordinator_epoch=0, now_ms=90, release=RELEASE, config=lane.config
    ).stored
    assert timed_marker(lane, MINE, wanted, commit=True).stored == wanted
    header = BATCH_V2.values(timed_marker(lane, MINE, wanted, commit=False).stored)
    assert (header["base_timestamp"], header["max_timestamp"]) == (90, 90)
    assert timed_marker(lane, MINE, b"", commit=True).error_code == 0
    assert marker_mutant(wanted).labels == ("marker",)


def test_which_releases_have_them() -> None:
    """Transactions came with v2."""
    assert transactional_settings("0.10.2.2") == ()
    assert {} in transactional_settings("0.11.0.3")
    assert Taken(b"", 3) not in Sender("id", MINE).since
