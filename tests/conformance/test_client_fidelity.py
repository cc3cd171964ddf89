"""Adapters of Java, kafkajs and platformatic give what ten lines of plain user code give of the same bytes.

The plain programs below use the public API of each library and nothing of this project.  They read the same bytes
from a fake broker, and print one JSON line: the records, and the class and the message of an exception.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_brokers.fake_broker import END, GROUP_VERSIONS, FakeBroker
from kafka_conformance.judge.observation import ConsumedRecords, Decoded, Encoded, Refused
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.known import connect, find_testee
from kafka_conformance.testees.recipe import build_testee
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Header, Record, decode, encode
from kafka_records.checksum import checksum_v2
from kafka_records.layout import BATCH_V2

pytestmark = [pytest.mark.testees, pytest.mark.slow, pytest.mark.timeout(600)]

TIMESTAMP = 1_700_000_000_123
RECORDS = (
    Record(0, TIMESTAMP, b"key", b"value", (Header(b"h", b"v"),)),
    Record(1, TIMESTAMP + 1, None, b""),
    Record(2, TIMESTAMP + 2, b"", None),
)


def batch(magic: int = 2, compression: str = "none", records: tuple[Record, ...] = RECORDS) -> Batch:
    """A batch of *records*."""
    return Batch(
        magic=magic, compression=compression, base_offset=records[0].offset, last_offset=records[-1].offset,  # type: ignore[arg-type]
        max_timestamp=records[-1].timestamp, records=records,
    )  # fmt: skip


def flipped(data: bytes, at: int) -> bytes:
    """*data* with one bit changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def sealed(data: bytes) -> bytes:
    """A v2 batch with the checksum of its bytes."""
    crc = BATCH_V2.field("crc").offset
    return data[:crc] + checksum_v2(data).to_bytes(4, "big") + data[crc + 4 :]


OLD = Record(0, TIMESTAMP, b"key", b"old")
INPUTS = {
    "v2": encode(batch()),
    "v2 gzip": encode(batch(compression="gzip")),
    "v1, then v2": encode(batch(1, records=(OLD,))) + encode(batch(records=(RECORDS[1],))),
    "a flipped bit in a value": flipped(encode(batch()), -20),
    "a flipped bit in gzip": flipped(encode(batch(compression="gzip")), -3),
    "a record that ends early": sealed(encode(batch())[:-1] + b"\x40"),
    "an unknown codec": sealed(encode(batch())[:22] + b"\x07" + encode(batch())[23:]),
}

# Each reads topic and address from its arguments, and stops at the end record.
JAVA = """
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
public class Plain { public static void main(String[] args) {
    Map<String, Object> config = Map.of("bootstrap.servers", args[0]);
    List<String> out = new ArrayList<>();
    String error = "";
    var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    var partition = new TopicPartition(args[1], 0); consumer.assign(List.of(partition)); consumer.seek(partition, 0);
    try { loop: while (true) for (var record : consumer.poll(Duration.ofSeconds(1))) {
        if (record.key() != null && new String(record.key()).equals(args[2])) break loop;
        out.add(List.of(record.offset(), record.timestamp(), text(record.key()), text(record.value())).toString());
    } } catch (Throwable thrown) { error = thrown.getClass().getName(); }
    System.out.println("{\\"records\\":" + out + ",\\"error\\":\\"" + error + "\\"}"); System.exit(0);
} static String text(byte[] bytes) { return bytes == null ? "null" : "\\"" + new String(bytes) + "\\""; } }
"""
KAFKAJS = """
const { Kafka, logLevel } = require('kafkajs')
const [address, topic, end] = process.argv.slice(2), records = []
const text = bytes => bytes === null ? null : bytes.toString()
const done = error => {
  console.log(JSON.stringify({ records, error: error?.cause?.message ?? error?.message ?? '' }))
  process.exit(0)
}
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING })
const consumer = kafka.consumer({ groupId: 'g', retry: { retries: 1 } })
consumer.on(consumer.events.CRASH, ({ payload }) => done(payload.error))
const eachMessage = async ({ message }) => {
  if (text(message.key) === end) return done()
  records.push([Number(message.offset), Number(message.timestamp), text(message.key), text(message.value)])
}
consumer.connect()
  .then(() => consumer.subscribe({ topics: [topic], fromBeginning: true }))
  .then(() => consumer.run({ eachMessage }))
"""
PLATFORMATIC = """
import { Consumer } from '@platformatic/kafka'
const [address, topic, end] = process.argv.slice(2), records = []
const text = bytes => bytes === undefined ? null : bytes.toString()
const done = error => { console.log(JSON.stringify({ records, error })); process.exit(0) }
const consumer = new Consumer({ clientId: 'c', groupId: 'g', bootstrapBrokers: [address], retries: 0 })
try {
  for await (const message of await consumer.consume({ topics: [topic], mode: 'earliest' })) {
    if (text(message.key) === end) done('')
    records.push([Number(message.offset), Number(message.timestamp), text(message.key), text(message.value)])
  }
} catch (error) { done(error.message) }
"""


@dataclass(frozen=True)
class Plain:
    """A plain program: the file that it is written to, and its command line; `{build}` is the build of the testee."""

    text: str
    file: str
    command: tuple[str, ...]


PLAIN = {
    "java-consumer": Plain(JAVA, "Plain.java", ("java", "-cp", "{build}/lib/*", "{file}")),
    "kafkajs-client": Plain(KAFKAJS, "plain.cjs", ("node", "{file}")),
    "platformatic-kafka-client": Plain(PLATFORMATIC, "plain.mjs", ("{build}/node_modules/node/bin/node", "{file}")),
}


def run_plain(name: str, data: bytes, folder: Path) -> tuple[list[list[object]], str]:
    """The records, and the error, that the plain program for *name* prints of *data*."""
    known = find_testee(name)
    assert known is not None
    assert known.recipe is not None
    build, plain = build_testee(known.recipe), PLAIN[name]
    file = folder / plain.file
    file.write_text(plain.text, encoding="utf-8")
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(build / "node_modules")
    with FakeBroker(versions=GROUP_VERSIONS) as broker:
        broker.serve("topic", data)
        command = [word.replace("{build}", str(build)).replace("{file}", str(file)) for word in plain.command]
        done = subprocess.run(
            [*command, broker.address, "topic", END.decode()], capture_output=True, text=True, check=True, timeout=300
        )
    printed = json.loads(done.stdout.splitlines()[-1])
    return printed["records"], printed["error"]


@pytest.fixture(scope="module", params=PLAIN)
def client(request: pytest.FixtureRequest) -> Iterator[tuple[str, Sandbox]]:
    """Each client-level testee, started once."""
    known = find_testee(request.param)
    assert known is not None
    if missing := known.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    sandbox = Sandbox(connect(request.param))
    yield request.param, sandbox
    sandbox.close()


@pytest.mark.parametrize("what", INPUTS)
def test_the_adapter_gives_what_plain_code_gives(client: tuple[str, Sandbox], what: str, tmp_path: Path) -> None:
    """The same records, and an error of the same text, or none in both."""
    name, sandbox = client
    records, error = run_plain(name, INPUTS[what], tmp_path)
    (answered,) = sandbox.ask([CaseRequest(INPUTS[what])])
    observed = answered.observation

    assert isinstance(observed, ConsumedRecords)
    shown = [[each.offset, each.timestamp, _text(each.key), _text(each.value)] for each in observed.records]
    assert shown == records
    assert (observed.error is None) is (error == "")
    assert error in (observed.error.message if observed.error else "")


def _text(data: object) -> str | None:
    return data.decode() if isinstance(data, bytes) else None


def test_a_mixed_log_is_read_to_its_end(client: tuple[str, Sandbox]) -> None:
    """A consumer fetches again after entries of another format, so that nothing of a converted log is lost."""
    (answered,) = client[1].ask([CaseRequest(INPUTS["v1, then v2"])])

    assert isinstance(answered.observation, ConsumedRecords)
    if client[0] != "platformatic-kafka-client":  # reads v1 as if it were v2
        assert [record.value for record in answered.observation.records] == [b"old", b""]


def test_producers_write_with_their_defaults(client: tuple[str, Sandbox]) -> None:
    """An idempotent producer gets its id from the broker; all producers count sequences from 0 or have none."""
    wanted = batch()
    plain, given = sandbox_answers(client[1], [wanted, _with_producer(wanted)])

    assert plain.records == given.records == wanted.records
    assert plain.producer_id == -1
    assert (given.producer_id, given.producer_epoch, given.base_sequence) == (7, 3, 0)


def _with_producer(wanted: Batch) -> Batch:
    return Batch(
        magic=2, base_offset=0, last_offset=wanted.last_offset, max_timestamp=wanted.max_timestamp,
        producer_id=7, producer_epoch=3, base_sequence=0, records=wanted.records,
    )  # fmt: skip


def sandbox_answers(sandbox: Sandbox, wanted: list[Batch]) -> list[Batch]:
    """The batches that a writer makes of *wanted*, read by the reference."""
    observed = [next(sandbox.ask([CaseRequest(to_wire(each))])).observation for each in wanted]
    assert [each for each in observed if not isinstance(each, Encoded)] == []
    return [decode(each.data)[0] for each in observed if isinstance(each, Encoded)]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("java-kafka-clients", "an unknown codec"),
        ("kafkajs", "a flipped bit in gzip"),
        ("kafkajs-plugins", "a flipped bit in gzip"),
        ("platformatic-kafka", "a flipped bit in gzip"),
    ],
)
def test_what_no_library_declares_is_other(name: str, what: str) -> None:
    """A bare java.lang exception, or an error of zlib that no library wraps, has no kind of its own."""
    known = find_testee(name)
    assert known is not None
    if missing := known.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    sandbox = Sandbox(connect(name))
    (answered,) = sandbox.ask([CaseRequest(INPUTS[what])])
    sandbox.close()
    observed = answered.observation
    error = observed.error if isinstance(observed, Decoded | Refused) else None

    assert error is not None
    assert error.kind == "other"
