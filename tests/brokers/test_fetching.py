"""`fetch_view`, `end_transaction` and `committed` against real brokers and real transactions."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.brokers.planted import plant
from tests.brokers.test_conversion import agree, answer, end_of, offsets
from tests.reference.conversion_cases import WHEN, v2, written
from tests.reference.fetching_cases import TRANSACTIONS

from kafka_brokers import jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import Client, TopicPartition, tables
from kafka_brokers.wire.transactions import Producer, add_partitions, init_producer_id, send_end_transaction
from kafka_corpus.authoring.build import put, reseal
from kafka_records import (
    AppendResult,
    LogState,
    Producing,
    Record,
    TopicConfig,
    abort_index,
    append,
    committed,
    consume,
    decode,
    decode_control,
    fetch_view,
    last_stable_offset,
)
from kafka_records import end_transaction as predicted_end
from kafka_records.fetching.segment import position_of

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.sweep]

RELEASES = ("2.8.2", "4.4.0")
SETTINGS: tuple[dict[str, str], ...] = ({}, {"compression.type": "gzip"}, {"message.timestamp.type": "LogAppendTime"})
CONSUMED = ("interleaved", "interleaved and open", "a batch of gaps")
LIMITS: tuple[dict[str, int], ...] = (
    {},
    *({"partition_max_bytes": size} for size in (-1, 0, 1, 150, 1000, 5000, 9000)),
    {"max_bytes": 300},
    {"max_bytes": 300, "partition_max_bytes": 100},
    {"max_bytes": 0},
)


def differences(
    release: str, client: Client, where: TopicPartition, log: bytes, **fields: Any
) -> dict[tuple[object, ...], object]:
    """Where broker and reference are not of one mind about fetches of *log*."""
    found: dict[tuple[object, ...], object] = {}
    end, aborted = end_of(log), abort_index(log)
    # The first with isolation levels, the first that reads zstd, and the newest.
    for version in (4, 10, client.newest(tables.FETCH)):
        for isolation in (0, 1):
            for offset in offsets(log):
                options: dict[str, Any] = {"isolation_level": isolation} | fields
                theirs = answer(client, where, offset, version, **options)
                ours = fetch_view(
                    log,
                    fetch_offset=offset,
                    high_watermark=end,
                    last_stable_offset=last_stable_offset(log, end),
                    aborted=aborted,
                    api_version=version,
                    release=release,
                    **options,
                )
                if not agree(theirs, ours, exact=True):
                    found[version, isolation, offset, *fields.items()] = (theirs, ours)
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_fetches_are_answered_as_predicted(release: str) -> None:
    """Bytes, aborted transactions and offsets, for every version, isolation level, offset and limit."""
    with jvm.start_jvm(release) as broker:
        where = plant(broker, "logs", TRANSACTIONS)
        with broker.client() as client:
            found = {
                name: differences(release, client, where[name], log, **fields)
                for name, log in TRANSACTIONS.items()
                for fields in LIMITS
            }
            seen = answer(client, where["interleaved"], 0, 4, isolation_level=1)
    assert {name: each for name, each in found.items() if each} == {}
    assert len(seen.aborted or ()) == 4


class Partition:
    """A partition of a running broker, and what the reference says of it."""

    def __init__(self, release: str, client: Client, where: TopicPartition, settings: Mapping[str, str]) -> None:
        self._release = release
        self._client = client
        self.where = where
        self._config = TopicConfig.of(settings)
        self._log = LogState(producing=Producing(transactional_id=True))
        self.stored = b""

    def write(self, payload: bytes, transactional_id: str | None = None) -> None:
        """Produce, and predict what is stored."""
        version = self._client.newest(tables.PRODUCE)
        given = self._client.produce({self.where: payload}, version, transactional_id=transactional_id)
        assert isinstance(given, dict)
        assert given[self.where].error_code == 0
        appended = given[self.where].log_append_time
        now_ms = time.time_ns() // 1_000_000 if appended < 0 else appended
        ours = append(self._log, payload, self._config, release=self._release, api_version=version, now_ms=now_ms)
        assert ours.error_code == 0, ours.rule
        self._log, self.stored = ours.log, self.stored + ours.stored

    def end(self, producer: Producer, *, commit: bool, version: int) -> None:
        """Await the marker, and predict it; the time is the broker's."""
        marker = self._next()
        (batch,) = decode(marker)
        said = decode_control(batch.records[0]).value
        assert isinstance(said, dict)
        # KIP-890: in old versions of the request a transaction ends as it did before.
        ours = self.predict_end(
            producer,
            commit=commit,
            coordinator_epoch=said["coordinator_epoch"],
            now_ms=batch.max_timestamp,
            transaction_version=0 if version < 5 else None,
        )
        # Under LogAppendTime the clock is read twice: where the marker is made, and where it is appended.
        predicted = reseal(put(ours.stored, "base_timestamp", batch.base_timestamp or 0))
        assert marker == (predicted if batch.timestamp_type == "append" else ours.stored)
        self._log, self.stored = ours.log, self.stored + marker

    def predict_end(self, producer: Producer, **how: Any) -> AppendResult:
        """The end of a transaction as the reference predicts it."""
        return predicted_end(self._log, *producer, release=self._release, config=self._config, **how)

    def _next(self) -> bytes:
        end = time.monotonic() + 20
        while not (data := answer(self._client, self.where, self._log.log_end_offset, 11).records):
            assert time.monotonic() < end
        return data


def batch_of(producer: Producer, sequence: int, count: int = 2, **fields: object) -> bytes:
    """A batch that a producer writes to a transaction."""
    now = {"producer_epoch": producer.producer_epoch, "base_sequence": sequence}
    return written(producer.producer_id, 0, count, **now | {"partition_leader_epoch": -1} | fields)


def story(release: str, client: Client, topic: str, settings: Mapping[str, str], version: int) -> Partition:
    """Two producers, one after the other and both at once; one transaction without data; one left open."""
    client.create_topics({topic: 1}, settings)
    partition = Partition(release, client, TopicPartition(topic, 0), settings)
    names = (f"{topic}-a", f"{topic}-b")
    a, b = (init_producer_id(client, name) for name in names)

    def begin(name: str, producer: Producer) -> None:
        assert set(add_partitions(client, name, producer, [partition.where]).values()) == {0}

    def end(name: str, producer: Producer, *, commit: bool) -> Producer:
        after = send_end_transaction(client, name, producer, commit=commit, version=version)
        partition.end(producer, commit=commit, version=version)
        return after

    begin(names[0], a)
    partition.write(batch_of(a, 0), names[0])
    begin(names[1], b)
    partition.write(batch_of(b, 0, compression="gzip"), names[1])
    partition.write(v2(0, partition_leader_epoch=-1))
    partition.write(batch_of(a, 2), names[0])
    epoch = a.producer_epoch
    a = end(names[0], a, commit=False)
    begin(names[0], a)
    # A new epoch begins at 0 again; the old one goes on.
    partition.write(batch_of(a, 4 if a.producer_epoch == epoch else 0), names[0])
    b = end(names[1], b, commit=True)
    a = end(names[0], a, commit=True)
    begin(names[1], b)
    b = end(names[1], b, commit=False)
    begin(names[0], a)
    partition.write(batch_of(a, 6 if a.producer_epoch == epoch else 0), names[0])
    partition.write(v2(0, 1, partition_leader_epoch=-1))
    return partition


@pytest.mark.parametrize("release", RELEASES)
def test_transactions_end_as_predicted(release: str) -> None:
    """Markers are what the coordinator writes, byte for byte, and what follows in the log is predicted from them."""
    with jvm.start_jvm(release) as broker, broker.client() as client:
        newest = client.newest(tables.END_TXN)
        for index, (settings, version) in enumerate((each, at) for each in SETTINGS for at in {3, newest}):
            partition = story(release, client, f"story-{index}", settings, version)
            stored = answer(client, partition.where, 0, 11).records
            assert stored == partition.stored
            assert differences(release, client, partition.where, stored) == {}


def test_consumers_see_what_is_committed() -> None:
    """Kafka's own consumer gets the records that `consume` gets, at either isolation level."""
    with jvm.start_jvm("2.8.2") as broker:
        where = plant(broker, "logs", {name: TRANSACTIONS[name] for name in CONSUMED})
        for name in CONSUMED:
            log = TRANSACTIONS[name]
            stable = log[: position_of(log, last_stable_offset(log, end_of(log)))]
            aborted = abort_index(log).overlapping(4, end_of(log))
            ours = committed(stable, aborted, fetch_offset=4)
            assert seen(broker, where[name], 4, "read_committed") == [each.offset for each in ours]
            ours = consume(log, fetch_offset=1).records
            assert seen(broker, where[name], 1, "read_uncommitted") == [each.offset for each in ours]


def seen(broker: JvmBroker, where: TopicPartition, offset: int, isolation: str) -> list[int]:
    """The offsets that the console consumer shows."""
    options = {
        "--bootstrap-server": broker.bootstrap,
        "--topic": where.topic,
        "--partition": str(where.partition),
        "--offset": str(offset),
        "--isolation-level": isolation,
        "--timeout-ms": "4000",
    }
    shown = ("--property", "print.offset=true", "--property", "print.value=false")
    _, said = broker.tool("kafka.tools.ConsoleConsumer", *(part for item in options.items() for part in item), *shown)
    return [int(found) for found in re.findall(r"^Offset:(\d+)", said, re.MULTILINE)]


@pytest.mark.parametrize("release", RELEASES)
def test_a_marker_too_large_for_its_topic(release: str) -> None:
    """Where max.message.bytes is below 78, a transaction is said to end, and stays open for ever."""
    settings = {"max.message.bytes": "76"}
    with jvm.start_jvm(release) as broker, broker.client() as client:
        broker.create_topics({"small": 1}, settings)
        partition = Partition(release, client, TopicPartition("small", 0), settings)
        producer = init_producer_id(client, "small")
        assert set(add_partitions(client, "small", producer, [partition.where]).values()) == {0}
        partition.write(batch_of(producer, 0, 1, records=(Record(0, WHEN, None, b"v"),)), "small")
        send_end_transaction(client, "small", producer, commit=True)
        limit = time.monotonic() + 20
        while "RecordTooLargeException while sending txn marker" not in broker.log.read_text(encoding="utf-8"):
            assert time.monotonic() < limit
        assert answer(client, partition.where, 0, 11, isolation_level=1).last_stable_offset == 0
    assert partition.predict_end(producer, commit=True, coordinator_epoch=0, now_ms=WHEN).error_code == 10
