"""kafka-python drives the same brokers as its users do, and our client and decoder read what it wrote."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Assigned

from kafka_brokers import container, jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import Fetched, TopicPartition
from kafka_records import Batch, Header, Record, decode, encode

pytestmark = [pytest.mark.broker, pytest.mark.slow]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WHEN = 1_700_000_000_123
COUNT = 40
# Seconds: far more than any of this takes.
LIMIT = 60
HERE = ("2.8.2", "4.4.0")
PLACES = [
    *(pytest.param((jvm.start_jvm, release), id=release) for release in HERE),
    *(
        pytest.param((container.start_container, release), id=f"container-{release}", marks=pytest.mark.container)
        for release in HERE
    ),
]


@pytest.fixture(scope="module", params=PLACES)
def broker(request: pytest.FixtureRequest) -> Iterator[JvmBroker]:
    """One running broker for all tests of a release in a place."""
    start, release = request.param
    with start(release) as running:
        yield running


def producer(broker: JvmBroker, codec: str = "none", **settings: Any) -> Any:
    """A producer that waits a little, so that records share batches."""
    settings = {"linger_ms": 50, "compression_type": None if codec == "none" else codec} | settings
    return KafkaProducer(bootstrap_servers=broker.bootstrap, **settings)


def record(index: int) -> Record:
    """The record that is sent as number *index*; some have no key, some no value (kafka-python wants one of them)."""
    key = None if index % 3 == 0 else b"key %d" % index
    value = None if index % 3 == 1 else b"value %d " % index * 9
    headers = tuple(Header(b"header %d" % at, b"%d" % index) for at in range(index % 3))
    return Record(index, WHEN + index, key, value, headers)


def send(to: Any, topic: str, indexes: range) -> list[int]:
    """Send records to partition 0, and give the offsets that the broker assigned."""
    sent = []
    for index in indexes:
        made = record(index)
        headers = [((header.key or b"").decode(), header.value) for header in made.headers]
        sent.append(to.send(topic, made.value, made.key, headers=headers, partition=0, timestamp_ms=made.timestamp))
    to.flush(LIMIT)
    return [future.get(LIMIT).offset for future in sent]


def consumed(broker: JvmBroker, topic: str, **settings: Any) -> list[Record]:
    """All records of partition 0, as kafka-python's consumer gives them."""
    where = Assigned(topic, 0)
    found: list[Record] = []
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, **settings)) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        end = consumer.end_offsets([where])[where]
        while consumer.position(where) < end:
            for each in consumer.poll(timeout_ms=LIMIT * 1000).get(where, []):
                headers = tuple(Header(key.encode(), value) for key, value in each.headers)
                # v0 has no timestamp: None there, -1 with us.
                when = -1 if each.timestamp is None else each.timestamp
                found.append(Record(each.offset, when, each.key, each.value, headers))
    return found


def fetched(broker: JvmBroker, topic: str, **fields: Any) -> Fetched:
    """All of partition 0, as our client gives it."""
    with broker.client() as client:
        answer = client.fetch({TopicPartition(topic, 0): 0}, **fields)
    assert isinstance(answer, dict)
    return answer[TopicPartition(topic, 0)]


@pytest.mark.parametrize("codec", CODECS)
def test_what_it_produces(broker: JvmBroker, codec: str) -> None:
    """Records that its producer sends in any codec are read alike by its consumer and our decoder, in that codec."""
    topic = f"produced-{codec}"
    broker.create_topics({topic: 1})
    with closing(producer(broker, codec)) as sender:
        assert send(sender, topic, range(COUNT)) == list(range(COUNT))
    sent = [record(index) for index in range(COUNT)]
    assert consumed(broker, topic) == sent
    batches = decode(fetched(broker, topic).records)
    assert [each for batch in batches for each in batch.records] == sent
    assert {(batch.magic, batch.compression) for batch in batches} == {(2, codec)}


def test_idempotent(broker: JvmBroker) -> None:
    """Its idempotent producer's batches have one producer id, and sequences that go on where the last ended."""
    broker.create_topics({"idempotent": 1})
    with closing(producer(broker, enable_idempotence=True, linger_ms=0)) as sender:
        for start in range(0, COUNT, 10):
            send(sender, "idempotent", range(start, start + 10))
    batches = decode(fetched(broker, "idempotent").records)
    assert len(batches) > 1
    assert len({(batch.producer_id, batch.producer_epoch) for batch in batches}) == 1
    assert batches[0].producer_id >= 0
    assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]


def test_not_idempotent(broker: JvmBroker) -> None:
    """Without idempotence there is no producer id and no sequence."""
    broker.create_topics({"plain": 1})
    with closing(producer(broker, enable_idempotence=False)) as sender:
        send(sender, "plain", range(COUNT))
    batches = decode(fetched(broker, "plain").records)
    assert {(batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in batches} == {(-1, -1, -1)}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_transactions(broker: JvmBroker, codec: str) -> None:
    """Its read_committed consumer leaves out what it aborted; we see that, both markers, and who aborted what."""
    topic = f"transactions-{codec}"
    broker.create_topics({topic: 1})
    with closing(producer(broker, codec, transactional_id=topic)) as sender:
        sender.init_transactions()
        sender.begin_transaction()
        send(sender, topic, range(10))
        sender.commit_transaction()
        sender.begin_transaction()
        aborted = send(sender, topic, range(10, 20))
        sender.abort_transaction()
        sender.begin_transaction()
        send(sender, topic, range(20, 30))
        sender.commit_transaction()
    committed = [record(index) for index in (*range(10), *range(20, 30))]
    contents = [(each.key, each.value, each.headers) for each in committed]
    seen = consumed(broker, topic, isolation_level="read_committed")
    assert [(each.key, each.value, each.headers) for each in seen] == contents
    assert len(consumed(broker, topic)) == 30

    found = fetched(broker, topic, isolation_level=1)
    batches = decode(found.records)
    markers = [batch for batch in batches if batch.control]
    data = [batch for batch in batches if not batch.control]
    assert {batch.transactional for batch in batches} == {True}
    assert [int.from_bytes(each.records[0].key or b"", "big") for each in markers] == [1, 0, 1]
    assert {batch.compression for batch in data} == {codec}
    assert found.aborted == ((data[0].producer_id, aborted[0]),)
    visible = [each for batch in data for each in batch.records if each.offset not in aborted]
    assert [(each.key, each.value, each.headers) for each in visible] == contents


@pytest.mark.parametrize("codec", CODECS)
def test_what_it_consumes(broker: JvmBroker, codec: str) -> None:
    """Records that our encoder and client write in any codec are returned by its consumer."""
    topic = f"consumed-{codec}"
    broker.create_topics({topic: 1})
    nothing = Record(COUNT, WHEN + COUNT, None, None)
    records = (*(record(index) for index in range(COUNT)), nothing)
    last = records[-1]
    batch = Batch(
        magic=2,
        base_offset=0,
        last_offset=last.offset,
        max_timestamp=last.timestamp,
        records=records,
        compression=codec,  # type: ignore[arg-type]  # one of the five
    )
    with broker.client() as client:
        answer = client.produce({TopicPartition(topic, 0): encode(batch)})
    assert isinstance(answer, dict)
    assert answer[TopicPartition(topic, 0)].error_code == 0
    assert consumed(broker, topic) == list(records)


@pytest.mark.parametrize(("spoken", "kept", "magic"), [((0, 9), "0.9.0", 0), ((0, 10, 0), "0.10.2", 1)])
@pytest.mark.parametrize("codec", CODECS[:4])
def test_old_formats(broker: JvmBroker, codec: str, spoken: tuple[int, ...], kept: str, magic: int) -> None:
    """Speaking as an old client, it writes v0 and v1, which a topic of that format keeps and we decode."""
    if not broker.release.startswith("2."):
        pytest.skip("from 4.0 on brokers take v2 only (KIP-724, KIP-896)")
    topic = f"old-{magic}-{codec}"
    broker.create_topics({topic: 1}, {"message.format.version": kept})
    with closing(producer(broker, codec, api_version=spoken, enable_idempotence=False)) as sender:
        sent = [sender.send(topic, b"value %d" % at, b"key", partition=0, timestamp_ms=WHEN) for at in range(COUNT)]
        sender.flush(LIMIT)
        assert [future.get(LIMIT).offset for future in sent] == list(range(COUNT))
    batches = decode(fetched(broker, topic).records)
    assert {(batch.magic, batch.compression) for batch in batches} == {(magic, codec)}
    records = [each for batch in batches for each in batch.records]
    assert [(each.offset, each.key, each.value) for each in records] == [
        (at, b"key", b"value %d" % at) for at in range(COUNT)
    ]
    assert {each.timestamp for each in records} == {WHEN if magic else -1}
    assert consumed(broker, topic) == records
