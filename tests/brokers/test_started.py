"""Properties of every broker that we start, locally (Java and Maven) and in containers (an engine, and images)."""

import socket
import time
from collections.abc import Iterator

import pytest

from kafka_brokers import container, jvm
from kafka_brokers.external import ExternalBroker
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.releases import find_release
from kafka_brokers.wire import BrokerError, Client, ConnectionClosed, Fetched, Produced, TopicPartition, tables
from kafka_brokers.wire.transactions import add_partitions, init_producer_id, send_end_transaction
from kafka_records import Batch, Record, decode, encode

pytestmark = [pytest.mark.broker, pytest.mark.slow]

# The oldest, the last of each message format's own time, the first with v2 and what came at the turns.
HERE = ("0.8.2.2", "0.10.2.2", "1.1.1", "2.8.2", "3.9.2", "4.4.0")
IN_CONTAINERS = ("2.8.2", "4.4.0")
PLACES = [
    *(pytest.param((jvm.start_jvm, release), id=release) for release in HERE),
    *(
        pytest.param((container.start_container, release), id=f"container-{release}", marks=pytest.mark.container)
        for release in IN_CONTAINERS
    ),
]
WHEN = 1_700_000_000_123
# The first version of Produce that carries v2, and no other magic.
FIRST_WITH_V2 = 3


@pytest.fixture(scope="module", params=PLACES)
def broker(request: pytest.FixtureRequest) -> Iterator[JvmBroker]:
    """One running broker for all tests of a release in a place."""
    start, release = request.param
    with start(release) as running:
        yield running


def batch(magic: int, value: bytes = b"value", **fields: object) -> Batch:
    """One record in the message format *magic*."""
    timestamps = {"timestamp_type": "none"} if magic == 0 else {"max_timestamp": WHEN}
    record = Record(0, -1 if magic == 0 else WHEN, b"key", value)
    given: dict[str, object] = {"magic": magic, "base_offset": 0, "last_offset": 0, "records": (record,)}
    return Batch(**given | timestamps | fields)  # type: ignore[arg-type]  # fields of any type


def produced(client: Client, where: TopicPartition, payload: bytes, version: int, **fields: object) -> Produced:
    """The answer to one payload."""
    answer = client.produce({where: payload}, version, **fields)
    assert isinstance(answer, dict)
    return answer[where]


def fetched(client: Client, where: TopicPartition, offset: int, version: int | None = None, **more: object) -> Fetched:
    """The data at *offset* and after it."""
    answer = client.fetch({where: offset}, version, **more)
    assert isinstance(answer, dict)
    return answer[where]


def test_what_is_produced_is_fetched(broker: JvmBroker) -> None:
    """In every message format and every version of Produce, a record comes back in every version of Fetch."""
    topic = TopicPartition("round-trip", 1)
    broker.create_topics({topic.topic: 2})
    expected: list[bytes] = []
    with broker.client() as client:
        for magic in find_release(broker.release).magics:
            for version in client.versions(tables.PRODUCE):
                if (version >= FIRST_WITH_V2) == (magic == 2):
                    value = f"{magic} {version}".encode()
                    answer = produced(client, topic, encode(batch(magic, value)), version)
                    assert (answer.error_code, answer.base_offset) == (0, len(expected)), (magic, version)
                    expected.append(value)
        # 4.x names the versions before 3, for old clients' sake, and has none of them.
        first = FIRST_WITH_V2 if min(find_release(broker.release).magics) == 2 else 0
        assert len(expected) >= len([version for version in client.versions(tables.PRODUCE) if version >= first])
        assert client.offset(topic) == len(expected)
        for version in client.versions(tables.FETCH):
            batches = decode(fetched(client, topic, 0, version).records)
            assert [each.records[0].value for each in batches] == expected, version


def test_stored_bytes_are_seen(broker: JvmBroker) -> None:
    """A fetch returns the bytes of the segment file."""
    topic = TopicPartition("segment", 0)
    broker.create_topics({topic.topic: 1})
    magic = max(find_release(broker.release).magics)
    with broker.client() as client:
        version = client.newest(tables.PRODUCE)
        for _ in range(3):
            assert produced(client, topic, encode(batch(magic)), version).error_code == 0
        records = fetched(client, topic, 0).records
    segment = broker.data_directory / "segment-0" / f"{0:020}.log"
    assert records
    assert segment.read_bytes()[: len(records)] == records


def test_errors_are_answers(broker: JvmBroker) -> None:
    """A damaged batch is refused by code, an unknown partition too, and neither disturbs its neighbours."""
    broker.create_topics({"errors": 2})
    good, bad, unknown = (TopicPartition("errors", index) for index in (0, 1, 7))
    payload = encode(batch(max(find_release(broker.release).magics)))
    damaged = payload[:-1] + bytes([payload[-1] ^ 1])
    with broker.client() as client:
        answer = client.produce({good: payload, bad: damaged, unknown: payload})
    assert isinstance(answer, dict)
    assert {where: found.error_code for where, found in answer.items()} == {good: 0, bad: 2, unknown: 3}


def test_a_closed_connection_is_an_answer(broker: JvmBroker) -> None:
    """A version that the broker does not have makes it close the connection, and the next request is answered."""
    with broker.client() as client:
        beyond = client.newest(tables.END_TXN) + 1 if tables.END_TXN.key in client.ranges() else 0
        body = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 1, "committed": True}
        answer = client.ask(tables.END_TXN, body, min(beyond, tables.END_TXN.newest))
        if beyond <= tables.END_TXN.newest:
            assert isinstance(answer, ConnectionClosed)
        assert client.metadata()["brokers"]


def test_topics_that_are_refused(broker: JvmBroker) -> None:
    """A topic that exists is refused with the broker's code; before 0.10.1, by the tool that creates topics."""
    broker.create_topics({"twice": 1})
    if not find_release(broker.release).creates_topics:
        with pytest.raises(NoBroker, match='"twice" already exists'):
            broker.create_topics({"twice": 1})
        return
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS") as caught:
        broker.create_topics({"twice": 1})
    assert caught.value.code == 36


def test_transactions(broker: JvmBroker) -> None:
    """An aborted transaction is fetched with its producer id in the list of aborted ones."""
    topic = TopicPartition("transactions", 0)
    broker.create_topics({topic.topic: 1})
    with broker.client() as client:
        if tables.INIT_PRODUCER_ID.key not in client.ranges():
            pytest.skip("there are no transactions in this release")
        producer = init_producer_id(client, "transaction")
        assert add_partitions(client, "transaction", producer, [topic]) == {topic: 0}
        payload = encode(batch(2, transactional=True, base_sequence=0, **producer._asdict()))
        version = client.newest(tables.PRODUCE)
        assert produced(client, topic, payload, version, transactional_id="transaction").error_code == 0
        send_end_transaction(client, "transaction", producer, commit=False)
        end = time.monotonic() + 10
        while (found := fetched(client, topic, 0, isolation_level=1)).last_stable_offset < 2:
            assert time.monotonic() < end
    assert found.aborted == ((producer.producer_id, 0),)
    data, marker = decode(found.records)
    assert (data.control, marker.control, marker.producer_id) == (False, True, producer.producer_id)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_restart(broker: JvmBroker, clean: bool) -> None:
    """Stored batches are there after a restart, at the same address."""
    topic = TopicPartition(f"restart-{clean}", 0)
    broker.create_topics({topic.topic: 1})
    magic = max(find_release(broker.release).magics)
    before = broker.bootstrap
    with broker.client() as client:
        assert produced(client, topic, encode(batch(magic)), client.newest(tables.PRODUCE)).error_code == 0
    broker.restart(clean=clean)
    assert broker.bootstrap == before
    with broker.client() as client:
        client.await_leaders({topic.topic: 1})
        assert len(decode(fetched(client, topic, 0).records)) == 1


def test_external(broker: JvmBroker) -> None:
    """A broker that runs anyway is used by its address, and is not ended by us."""
    with ExternalBroker(broker.bootstrap) as outside:
        creates = outside if find_release(broker.release).creates_topics else broker
        creates.create_topics({"outside": 1})
        assert outside.data_directory is None
        with pytest.raises(NoBroker, match="not started here"):
            outside.restart()
    with broker.client() as client:
        assert "outside" in {each["name"] for each in client.metadata()["topics"]}


def test_tools(broker: JvmBroker) -> None:
    """Kafka's own reading of a segment file is had from the release's DumpLogSegments."""
    topic = TopicPartition("dumped", 0)
    broker.create_topics({topic.topic: 1})
    with broker.client() as client:
        magic = max(find_release(broker.release).magics)
        assert produced(client, topic, encode(batch(magic)), client.newest(tables.PRODUCE)).error_code == 0
    segment = broker.data_directory / "dumped-0" / f"{0:020}.log"
    assert "isvalid: true" in broker.dump_log_segments("--files", str(segment))


@pytest.mark.parametrize(("release", "at"), [("4.4.0", 0), ("2.8.2", 1)], ids=["4.4.0", "2.8.2-zookeeper"])
def test_a_port_that_another_process_took_meanwhile(release: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts on other ports, however much it wrote after it noticed."""
    free_ports = jvm._free_ports
    chosen: list[tuple[int, int]] = []

    def ports() -> tuple[int, int]:
        ours = list(free_ports())
        if not chosen:
            ours[at] = taken
        chosen.append((ours[0], ours[1]))
        return chosen[-1]

    with socket.create_server((jvm.HOST, 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setattr(jvm, "_free_ports", ports)
        with jvm.start_jvm(release) as broker:
            assert len(chosen) > 1
            assert broker.bootstrap == f"{jvm.HOST}:{chosen[-1][0]}"
