"""A client that reads and writes on fake brokers: its requests, its answers, and the brokers that it gets."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import UNSET

from kafka_brokers.fake_broker import END
from kafka_brokers.wire import Connection, tables
from kafka_brokers.wire.connection import Request
from kafka_conformance.process.client_testee import ClientTestee
from kafka_conformance.testees import serve
from kafka_conformance.testees.client_parts import ConsumerBroker
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Record, decode, encode

TIMESTAMP = 1_700_000_000_123
RECORDS = (Record(0, TIMESTAMP, b"key", b"value"), Record(1, TIMESTAMP + 1, None, b""))
BATCH = Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=TIMESTAMP + 1, records=RECORDS)
# kafka-python as the client: one line in, one line out.
CLIENT = """
import json, sys
from base64 import b64decode, b64encode
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
def text(data): return None if data is None else b64encode(data).decode()
def data(text): return None if text is None else b64decode(text)
def consume(topic, partition, offset, end, bootstrap, committed=False, **_):
    level = "read_committed" if committed else "read_uncommitted"
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level)
    where = TopicPartition(topic, partition)
    consumer.assign([where])
    consumer.seek(where, offset)
    records = []
    for each in consumer:
        if each.key == end.encode(): break
        given = {"key": text(each.key), "value": text(each.value)}
        records.append({"offset": each.offset, "timestamp": each.timestamp, **given})
    consumer.close()
    return {"records": records}
def produce(topic, partition, bootstrap, batch, **_):
    if batch.get("compression", "none") != "none": return {"skipped": "no compression here"}
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=False, linger_ms=60000)
    for each in batch["records"]:
        if each["value"] is None: return {"error": {"kind": "malformed", "message": "no value"}}
        time = each["timestamp"]
        producer.send(topic, data(each["value"]), data(each["key"]), partition=partition, timestamp_ms=time)
    producer.flush()
    producer.close()
    return {"records": []}
formats = {"magics": [2], "compressions": ["none"]}
hello = {"protocol": 1, "name": "small", "version": "1.2", "language": "python", "decode": formats, "encode": formats}
for line in sys.stdin:
    request = json.loads(line)
    answers = {"hello": lambda **_: hello, "consume": consume, "produce": produce}
    print(json.dumps(answers[request.pop("op")](**request)), flush=True)
"""


def brokers_listening() -> int:
    """The number of fake brokers in this process."""
    return sum(thread.name == "fake-broker" for thread in threading.enumerate())


@pytest.fixture(scope="module")
def testee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientTestee]:
    """The client, started once."""
    file = tmp_path_factory.mktemp("client") / "client.py"
    file.write_text(CLIENT, encoding="utf-8")
    found = ClientTestee([sys.executable, "-W", "ignore", str(Path(file))])
    yield found
    found.close()


def test_it_is_what_the_client_says(testee: ClientTestee) -> None:
    """Name, version and formats are those of the client's answer to `hello`."""
    assert (testee.NAME, testee.VERSION, testee.LANGUAGE) == ("small", "1.2", "python")
    assert (testee.DECODES.magics, testee.ENCODES.compressions) == ([2], ["none"])


def test_records_are_delivered_to_the_end(testee: ClientTestee) -> None:
    """The record that ends a case is left out, and the position is the one at which the client got it."""
    answer = testee.consume(encode(BATCH))

    assert answer.records is not UNSET
    assert [(each.offset, each.key, each.value) for each in answer.records] == [(0, b"key", b"value"), (1, None, b"")]
    assert (answer.next_offset, answer.stalled) == (2, False)


def test_aborted_records_are_left_out(testee: ClientTestee) -> None:
    """The request says `committed` where the case has a list of aborted transactions."""
    data = encode(replace(BATCH, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))

    assert testee.committed(data, [(7, 0)]).records == []
    assert len(testee.consume(data).records or ()) == 2


def test_a_client_without_isolation_levels_says_so(tmp_path: Path) -> None:
    """A client whose hello has `"committed": false` is not sent aborted transactions; any other one is."""
    kinds = {}
    for text in ("", ', "committed": False'):
        file = tmp_path / "client.py"
        file.write_text(CLIENT.replace('"protocol": 1', f'"protocol": 1{text}'), encoding="utf-8")
        found = ClientTestee([sys.executable, "-W", "ignore", str(file)])
        kinds[text] = serve.hello(found).committed
        found.close()
    assert list(kinds.values()) == [True, False]


def test_batches_are_written_to_one_broker(testee: ClientTestee) -> None:
    """A broker is started for each magic, not for each batch: a thousand of them have no threads left."""
    written = [testee.encode(to_wire(BATCH)) for _ in range(2)]
    before = brokers_listening()
    written += [testee.encode(to_wire(BATCH)) for _ in range(4)]

    assert [decode(each)[0].records for each in written] == [RECORDS] * 6
    assert brokers_listening() == before


def test_refusals_of_the_client(testee: ClientTestee) -> None:
    """`skipped` is no failure, an error is one, and a batch that no producer expresses is not sent."""
    with pytest.raises(NotDone, match="no compression here"):
        testee.encode(to_wire(replace(BATCH, compression="gzip")))
    with pytest.raises(CodecError, match="no value"):
        testee.encode(to_wire(replace(BATCH, records=(RECORDS[0], RECORDS[1]._replace(value=None)))))
    with pytest.raises(NotDone, match="LogAppendTime"):
        testee.encode(to_wire(replace(BATCH, timestamp_type="append")))


def test_the_first_fetch_after_the_end_does_not_wait_long() -> None:
    """A consumer that is closed at the end of its case waits for the fetch that it has sent; the next one waits."""

    def fetched(offset: int, wait: int) -> tuple[bytes, float]:
        began = time.monotonic()
        named = {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": offset}]}
        answer = connection.ask(Request(tables.FETCH, 12, {"max_wait_ms": wait, "topics": [named]}))
        assert isinstance(answer, dict)
        return answer["responses"][0]["partitions"][0]["records"], time.monotonic() - began

    with ConsumerBroker() as broker:
        broker.serve("t", b"")
        with Connection("127.0.0.1", broker.port, time_limit=30) as connection:
            assert decode(fetched(0, 60_000)[0])[0].records[0].key == END
            assert fetched(1, 60_000)[0] == b""
            records, seconds = fetched(1, 300)
    assert (records, seconds >= 0.3) == (b"", True)
