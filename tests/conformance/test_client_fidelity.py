"""Adapters of clients in Java, JavaScript, Go and Rust give what ten lines of plain user code give of the same bytes.

The plain programs below use the public API of each library and nothing of this project.  They read the same bytes
from a fake broker, and print one JSON line: the records, and the class and the message of an exception.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_brokers.fake_broker import END, GROUP_VERSIONS, FakeBroker
from kafka_conformance.judge.observation import ConsumedRecords, Decoded, Encoded, Refused, Skipped
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.known import connect, find_testee
from kafka_conformance.testees.recipe import build_testee
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Header, Record, decode, encode
from kafka_records.checksum import checksum_v2
from kafka_records.layout import BATCH_V2

pytestmark = [pytest.mark.testees, pytest.mark.slow]

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
FRANZ_GO = """
package main
import ("context"; "encoding/json"; "fmt"; "os"; "github.com/twmb/franz-go/pkg/kgo")
func main() {
    from := map[string]map[int32]kgo.Offset{os.Args[2]: {0: kgo.NewOffset().At(0)}}
    client, _ := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.ConsumePartitions(from))
    records := [][]any{}
    for {
        fetches := client.PollFetches(context.Background())
        for each := fetches.RecordIter(); !each.Done(); {
            it := each.Next()
            if string(it.Key) == os.Args[3] { done(records, "") }
            records = append(records, []any{it.Offset, it.Timestamp.UnixMilli(), text(it.Key), text(it.Value)})
        }
        if err := fetches.Err(); err != nil { done(records, err.Error()) }
    }
}
"""
SARAMA = """
package main
import ("encoding/json"; "fmt"; "os"; "github.com/IBM/sarama")
func main() {
    config := sarama.NewConfig()
    config.Consumer.Return.Errors = true
    consumer, _ := sarama.NewConsumer([]string{os.Args[1]}, config)
    partition, _ := consumer.ConsumePartition(os.Args[2], 0, 0)
    records := [][]any{}
    for {
        select {
        case each := <-partition.Messages():
            if string(each.Key) == os.Args[3] { done(records, "") }
            records = append(records, []any{each.Offset, each.Timestamp.UnixMilli(), text(each.Key), text(each.Value)})
        case err := <-partition.Errors(): done(records, err.Err.Error())
        }
    }
}
"""
KAFKA_GO = """
package main
import ("context"; "encoding/json"; "fmt"; "os"; "github.com/segmentio/kafka-go")
func main() {
    reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{os.Args[1]}, Topic: os.Args[2]})
    records := [][]any{}
    for {
        each, err := reader.ReadMessage(context.Background())
        if err != nil { done(records, err.Error()) }
        if string(each.Key) == os.Args[3] { done(records, "") }
        records = append(records, []any{each.Offset, each.Time.UnixMilli(), text(each.Key), text(each.Value)})
    }
}
"""
GO = """
func text(bytes []byte) any { if bytes == nil { return nil }; return string(bytes) }
func done(records [][]any, failure string) {
    line, _ := json.Marshal(map[string]any{"records": records, "error": failure})
    fmt.Println(string(line)); os.Exit(0)
}
"""
RSKAFKA = """
use std::{env::args, str::from_utf8, sync::Arc};
use futures::StreamExt;
use rskafka::client::{consumer::*, partition::UnknownTopicHandling, ClientBuilder};
use serde_json::json;
fn main() {
    let arguments: Vec<String> = args().collect();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let client = ClientBuilder::new(vec![arguments[1].clone()]).build().await.unwrap();
        let partition = client.partition_client(arguments[2].clone(), 0, UnknownTopicHandling::Retry).await.unwrap();
        let mut stream = StreamConsumerBuilder::new(Arc::new(partition), StartOffset::At(0)).build();
        let (mut records, mut failure) = (vec![], String::new());
        while let Some(next) = stream.next().await {
            let given = match next { Ok((given, _)) => given, Err(error) => { failure = error.to_string(); break } };
            let (key, value) = (given.record.key.as_deref(), given.record.value.as_deref());
            if key == Some(arguments[3].as_bytes()) { break }
            let text = |bytes: Option<&[u8]>| bytes.map(|bytes| from_utf8(bytes).unwrap().to_string());
            records.push(json!([given.offset, given.record.timestamp.timestamp_millis(), text(key), text(value)]));
        }
        println!("{}", json!({"records": records, "error": failure}));
    });
}
"""


@dataclass(frozen=True)
class Plain:
    """A plain program.

    Attributes:
        text: the program.
        file: the file that it is written to.
        command: its command line; `{build}` is the build of the testee.
        sources: sources of the testee that are copied beside it, which name the dependencies.
    """

    text: str
    file: str
    command: tuple[str, ...]
    sources: tuple[str, ...] = ()


GO_RUN = ("go", "run", "-trimpath", "-tags", "netgo,osusergo", "plain.go")
GO_SOURCES = ("go.mod", "go.sum")


PLAIN = {
    "java-consumer": Plain(JAVA, "Plain.java", ("java", "-cp", "{build}/lib/*", "{file}")),
    "kafkajs-client": Plain(KAFKAJS, "plain.cjs", ("node", "{file}")),
    "platformatic-kafka-client": Plain(PLATFORMATIC, "plain.mjs", ("{build}/node_modules/node/bin/node", "{file}")),
    "franz-go-client": Plain(FRANZ_GO + GO, "plain.go", GO_RUN, GO_SOURCES),
    "sarama-client": Plain(SARAMA + GO, "plain.go", GO_RUN, GO_SOURCES),
    "kafka-go-reader": Plain(KAFKA_GO + GO, "plain.go", GO_RUN, GO_SOURCES),
    "rskafka-client": Plain(
        RSKAFKA, "main.rs", ("cargo", "run", "--quiet", "--release", "--locked", "--"), ("Cargo.toml", "Cargo.lock")
    ),
}
# These read v1 as if it were v2, or not at all.
NO_MIXED_LOGS = ("platformatic-kafka-client", "rskafka-client")
# What becomes of a header key that is null; a string of Java's may be null, too.
NULL_HEADER_KEYS = {"java-consumer": Refused, "platformatic-kafka-client": Encoded, "sarama-client": Encoded}
NEVER_IDEMPOTENT = ("kafka-go-reader", "rskafka-client")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the plain programs are, each in a folder of its own, so that each is compiled once."""
    return tmp_path_factory.mktemp("plain")


def run_plain(name: str, data: bytes, folder: Path, cargo: Mapping[str, str]) -> tuple[list[list[object]], str]:
    """The records, and the error, that the plain program for *name* prints of *data*."""
    known = find_testee(name)
    assert known is not None
    assert known.recipe is not None
    build, plain = build_testee(known.recipe), PLAIN[name]
    file = folder / plain.file
    if not folder.exists():
        folder.mkdir()
        file.write_text(plain.text, encoding="utf-8")
        for source in plain.sources:
            shutil.copy(known.recipe.folder / source, folder)
        (folder / "node_modules").symlink_to(build / "node_modules")
    with FakeBroker(versions=GROUP_VERSIONS) as broker:
        broker.serve("topic", data)
        command = [word.replace("{build}", str(build)).replace("{file}", str(file)) for word in plain.command]
        done = subprocess.run(
            [*command, broker.address, "topic", END.decode()],
            cwd=folder, env={**os.environ, **cargo}, capture_output=True, text=True, check=True,
        )  # fmt: skip
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
def test_the_adapter_gives_what_plain_code_gives(
    client: tuple[str, Sandbox], what: str, folders: Path, cargo_settings: Mapping[str, str]
) -> None:
    """The same records, and an error of the same text, or none in both."""
    name, sandbox = client
    records, error = run_plain(name, INPUTS[what], folders / name, cargo_settings)
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
    if client[0] not in NO_MIXED_LOGS:
        # To kafka-go's Reader an empty value is null.
        assert [record.value or b"" for record in answered.observation.records] == [b"old", b""]


def test_producers_write_with_their_defaults(client: tuple[str, Sandbox]) -> None:
    """An idempotent producer gets its id from the broker; all producers count sequences from 0 or have none."""
    wanted = batch()
    (plain,) = sandbox_answers(client[1], [wanted])
    assert plain.records == wanted.records
    assert plain.producer_id == -1
    if client[0] in NEVER_IDEMPOTENT:
        return

    (given,) = sandbox_answers(client[1], [_with_producer(wanted)])
    assert given.records == wanted.records
    assert (given.producer_id, given.producer_epoch, given.base_sequence) == (7, 3, 0)


def test_a_null_header_key_is_handed_over_where_the_api_takes_one(client: tuple[str, Sandbox]) -> None:
    """Keys of bytes may be null: what the library does with that is its own. Keys of text are never null."""
    record = Record(0, TIMESTAMP, b"key", b"value", (Header(None, b"v"),))
    (answered,) = client[1].ask([CaseRequest(to_wire(batch(records=(record,))))])

    assert isinstance(answered.observation, NULL_HEADER_KEYS.get(client[0], Skipped))


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
        ("kafka-go", "a flipped bit in gzip"),
    ],
)
def test_what_no_library_declares_is_other(name: str, what: str) -> None:
    """A bare java.lang exception, or an error of zlib or of Go that no library wraps, has no kind of its own."""
    known = find_testee(name)
    assert known is not None
    if missing := known.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    sandbox = Sandbox(connect(name))
    (answered,) = sandbox.ask([CaseRequest(INPUTS[what])])
    sandbox.close()
    observed = answered.observation
    error = observed.error if isinstance(observed, ConsumedRecords | Decoded | Refused) else None

    assert error is not None
    assert error.kind == "other"
