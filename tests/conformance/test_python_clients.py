"""kafka-python's and aiokafka's clients on the fake broker; and each Python adapter says what plain user code sees."""

import asyncio
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, islice, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.record.memory_records import MemoryRecords as AIOMemoryRecords
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from msgspec import UNSET

from kafka_brokers.fake_broker import END, FakeBroker, Tape
from kafka_conformance.judge.consuming import compare_consumed
from kafka_conformance.judge.observation import ConsumedRecords, Observation, observe
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees import aiokafka_, aiokafka_client, confluent_kafka_
from kafka_conformance.testees.client_parts import PARTITIONS, partitions_in_turn
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.known import connect, find_testee
from kafka_conformance.testees.recipe import build_testee
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Header, Record, decode, encode
from kafka_records.checksum import checksum_v2

with warnings.catch_warnings():
    # kafka-python reads its schemas through what Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, TopicPartition
    from kafka.record import MemoryRecords

    from kafka_conformance.testees import kafka_python, kafka_python_client

TIMESTAMP = 1_700_000_000_123
RECORDS = (
    Record(0, TIMESTAMP, b"key", b"value" * 40, (Header(b"h", b"v"),)),
    Record(1, TIMESTAMP + 1, None, b"value" * 40, ()),
)
OLD = tuple(Record(at, TIMESTAMP + at, b"key", b"value" * 40) for at in range(2))
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
FORMATS = [(magic, name) for magic in (0, 1, 2) for name in COMPRESSIONS if magic == 2 or name != "zstd"]
CLIENTS = [kafka_python_client, aiokafka_client]

both = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.NAME)


def given(magic: int, compression: str) -> Batch:
    """A batch of two records; one in old messages without compression, which hold one each."""
    records = RECORDS if magic == 2 else OLD if magic == 1 else tuple(each._replace(timestamp=-1) for each in OLD)
    if magic < 2 and compression == "none":
        records = records[:1]
    return Batch(
        magic=magic, compression=compression, base_offset=0, last_offset=len(records) - 1, records=records,  # type: ignore[arg-type]
        timestamp_type="none" if magic == 0 else "create", max_timestamp=records[-1].timestamp,
    )  # fmt: skip


def moved(batch: Batch, by: int) -> Batch:
    """*batch* at later offsets."""
    records = tuple(each._replace(offset=each.offset + by) for each in batch.records)
    return replace(batch, base_offset=batch.base_offset + by, last_offset=batch.last_offset + by, records=records)


def case(data: bytes, verdict: str = "valid") -> Case:
    """The decode case for *data*; the reference gives the batches of one that is valid."""
    batches = decode(data) if verdict == "valid" else ()
    expect = Expectation(verdict=verdict, batches=batches)  # type: ignore[arg-type]
    return Case(id="a.b", title="", rules=("X",), area="a", op="decode", input=data, expect=expect)


def consume(client: ModuleType, data: bytes) -> Observation:
    """The adapter's answer to *data*, in this process."""
    return observe(client.consume(data))


FIRST = encode(given(2, "none"))
SECOND = bytearray(encode(moved(given(2, "none"), 2)))
SECOND[-2] ^= 1
DAMAGED = FIRST + bytes(SECOND)


@both
@pytest.mark.parametrize(("magic", "compression"), FORMATS)
def test_they_read_what_the_reference_writes(client: ModuleType, magic: int, compression: str) -> None:
    """Every format is delivered record by record, with the offset after the last batch as the position."""
    data = encode(given(magic, compression))
    observed = consume(client, data)
    assert isinstance(observed, ConsumedRecords)
    if client is aiokafka_client and (magic, compression) == (0, "lz4"):
        assert observed.error is not None
        assert observed.error.kind == "unsupported_compression"
        return

    assert compare_consumed(case(data), observed).differences == []
    assert (observed.error, observed.next_offset) == (None, decode(data)[-1].last_offset + 1)


@both
@pytest.mark.parametrize(("magic", "compression"), FORMATS)
def test_the_reference_reads_what_they_write(client: ModuleType, magic: int, compression: str) -> None:
    """All records of a batch are in one request, in the format that is wanted."""
    batch = given(magic, compression)
    if client is aiokafka_client and magic < 2:
        with pytest.raises(NotDone, match="v2"):
            client.encode(to_wire(batch))
        return
    read = decode(client.encode(to_wire(batch)))

    assert tuple(record for each in read for record in each.records) == batch.records
    assert {(each.magic, each.compression) for each in read} == {(magic, compression)}


@both
def test_a_producer_id_is_that_which_the_broker_gave(client: ModuleType) -> None:
    """An idempotent producer writes the id and the epoch that it gets, and sequences from 0."""
    wanted = replace(given(2, "none"), producer_id=7, producer_epoch=3, base_sequence=0)
    (written,) = decode(client.encode(to_wire(wanted)))

    assert (written.producer_id, written.producer_epoch, written.base_sequence) == (7, 3, 0)
    assert written.records == RECORDS


@both
@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 5, "last_offset": 6},
        {"partition_leader_epoch": 3},
        {"transactional": True, "producer_id": 4},
        {"producer_id": 4, "producer_epoch": 0, "base_sequence": 9},
        {"producer_id": 1 << 63, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 4, "producer_epoch": 1 << 15, "base_sequence": 0},
        {"producer_id": -2, "producer_epoch": 0, "base_sequence": 0},
        {"base_sequence": 0},
        {"control": True},
        {"last_offset": 9},
        {"records": ()},
    ],
    ids=str,
)
def test_batches_beyond_the_producer_are_skipped(client: ModuleType, fields: dict[str, Any]) -> None:
    """A batch that a producer decides by itself, or has no way to express, is no failure."""
    with pytest.raises(NotDone):
        client.encode(to_wire(replace(given(2, "none"), **fields)))


@both
def test_a_record_without_key_and_value_is_skipped(client: ModuleType) -> None:
    """Both producers document that a record needs one of them; the next batch is written as if there had been none."""
    nothing = replace(given(2, "none"), records=(RECORDS[0], RECORDS[1]._replace(value=None)))
    with pytest.raises(NotDone, match="without key and value"):
        client.encode(to_wire(nothing))

    assert decode(client.encode(to_wire(given(2, "none"))))[0].records == RECORDS


def test_headers_of_kafka_python_have_values() -> None:
    """Its producer documents headers of text and bytes; a null is none of them."""
    record = RECORDS[0]._replace(headers=(Header(b"h", None),))
    with pytest.raises(NotDone, match="a header without a value"):
        kafka_python_client.encode(to_wire(replace(given(2, "none"), records=(record,), last_offset=0)))


def test_iterating_over_kafka_python_drops_an_error() -> None:
    """Release 3.0.12 gives the record, and no error about the byte after it; `poll` raises it."""
    data = bytearray(encode(replace(given(2, "none"), records=RECORDS[:1], last_offset=0)) + b"\0")
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = checksum_v2(bytes(data)).to_bytes(4, "big")
    verdict = judge(case(bytes(data), "invalid"), consume(kafka_python_client, bytes(data)))

    with FakeBroker() as broker:
        broker.serve("topic", bytes(data))
        iterated = with_kafka_python(broker.address)
    assert (verdict.outcome, iterated) == ("accepts_invalid", ([plain(RECORDS[0])], ""))


BEYOND = replace(given(2, "none"), records=(RECORDS[0], RECORDS[1]._replace(timestamp=1 << 63)))
OLD_WITH_HEADERS = replace(given(1, "none"), records=(RECORDS[0],))


@pytest.mark.parametrize(
    ("client", "refused"),
    [(kafka_python_client, OLD_WITH_HEADERS), (aiokafka_client, BEYOND)],
    ids=["headers in v1", "a timestamp beyond an int64"],
)
def test_a_producer_goes_on_after_an_error(client: ModuleType, refused: Batch) -> None:
    """After a record that the producer refuses the next batch is written as if there had been none."""
    good = given(refused.magic, "none")
    with pytest.raises((CodecError, OverflowError, AssertionError)):
        client.encode(to_wire(refused))

    assert decode(client.encode(to_wire(good)))[0].records == good.records


@pytest.mark.slow
@both
def test_an_error_does_not_reach_the_next_case(client: ModuleType) -> None:
    """Records before a damaged batch are delivered, then comes the error; the next case is read by a new consumer."""
    refused = consume(client, DAMAGED)

    assert isinstance(refused, ConsumedRecords)
    assert refused.error is not None
    assert (refused.error.kind, len(refused.records)) == ("corrupt", 2)
    assert judge(case(FIRST), consume(client, FIRST)).outcome == "agree"


def used_partitions(client: ModuleType, several: Sequence[bytes], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions on which the fake broker has each of *several* cases."""
    used: list[int] = []

    def put_on(broker: FakeBroker, topic: str, tape: Tape, partition: int = 0) -> None:
        used.append(partition)
        put(broker, topic, tape, partition)

    put = FakeBroker.put_on
    with monkeypatch.context() as change:
        change.setattr(FakeBroker, "put_on", put_on)
        for data in several:
            client.consume(data)
    return used


all_three = pytest.mark.parametrize("client", [*CLIENTS, confluent_kafka_], ids=lambda client: client.NAME)


@pytest.mark.slow
@all_three
def test_a_new_consumer_goes_on_with_another_partition(client: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late fetch of the consumer before, which an error ended, is not for the bytes of the next case."""
    # librdkafka reads the damaged batch; it refuses a message that is never whole.
    refused = bytes(11) + b"\x01" if client is confluent_kafka_ else DAMAGED
    assert client.consume(refused).error is not None

    used = used_partitions(client, [FIRST, refused, FIRST, refused, FIRST], monkeypatch)

    assert [(later - earlier) % PARTITIONS for earlier, later in pairwise(used)] == [1] * 4


@pytest.mark.slow
@all_three
def test_it_reads_more_cases_than_there_are_partitions(client: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all partitions were used, another consumer begins again."""
    client.consume(FIRST)
    reader: Any = confluent_kafka_._reader if client is confluent_kafka_ else client._readers[""]
    monkeypatch.setattr(reader, "_partitions", cycle(range(2)))
    consumers: list[object] = []

    for _ in range(5):
        assert judge(case(FIRST), consume(client, FIRST)).outcome == "agree"
        consumers.append(reader._consumer)
    assert [later is earlier for earlier, later in pairwise(consumers)] == [True, False, True, False]


def test_partitions_come_again() -> None:
    """After the last partition comes the first."""
    turn = list(islice(partitions_in_turn(), 2 * PARTITIONS))

    assert turn == [*range(PARTITIONS), *range(PARTITIONS)]


@both
def test_aborted_records_are_left_out(client: ModuleType) -> None:
    """With `read_committed` the client leaves out the transactions that the broker names; by default it does not."""
    data = encode(replace(given(2, "none"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    seen, all_of_it = client.committed(data, [(7, 0)]), client.consume(data)

    assert (seen.records, seen.next_offset) == ([], 2)
    assert len(all_of_it.records) == 2


def test_kafka_python_is_stuck_after_an_error() -> None:
    """After an exception in a batch the next poll of kafka-python 3.0.12 never returns: a hang, beside the error."""
    observed = consume(kafka_python_client, DAMAGED)
    verdict = judge(case(DAMAGED, "invalid"), observed)

    assert isinstance(observed, ConsumedRecords)
    assert observed.stalled
    assert (verdict.outcome, verdict.field) == ("hang", "next_offset")
    assert "does not return: corrupt: CorruptRecordError" in verdict.why


def test_aiokafka_goes_on_after_an_error() -> None:
    """Its next call raises again."""
    observed = consume(aiokafka_client, DAMAGED)

    assert isinstance(observed, ConsumedRecords)
    assert not observed.stalled


def _endless() -> None:
    while True:
        len(list(map(_nothing, range(10))))


def _nothing(number: int) -> int:
    return number


@pytest.mark.parametrize(("call", "back"), [(lambda: None, True), (lambda: 1 // 0, True), (_endless, False)])
def test_whether_a_call_returns(call: Callable[[], object], back: bool) -> None:
    """Calls of functions are counted, so that a slow machine makes no difference."""
    before = sys.getprofile()
    assert kafka_python_client.returns(call) is back
    assert sys.getprofile() is before


# Fidelity: plain user code and the adapter give the same records and the same exception.

Outcome = tuple[list[tuple[Any, ...]], str]
GZIP = bytearray(encode(given(2, "gzip")))
INPUTS = {
    "v0": encode(given(0, "none")),
    "v1 gzip": encode(given(1, "gzip")),
    "v2": FIRST,
    "v2 zstd": encode(given(2, "zstd")),
    "two batches": FIRST + encode(moved(given(2, "lz4"), 2)),
    "a part of a batch at the end": FIRST + bytes(SECOND)[:-30],
    "a part of a batch": FIRST[:-10],
    "a wrong checksum": bytes(SECOND),
    "good, then a wrong checksum": DAMAGED,
    "an unknown magic": FIRST[:16] + b"\x07" + FIRST[17:],
    "a length of nothing": FIRST[:8] + b"\0\0\0\0" + FIRST[12:],
    "nothing": b"",
}
same = pytest.mark.parametrize("data", INPUTS.values(), ids=INPUTS)


def plain(record: Any) -> tuple[Any, ...]:
    """A record as its user sees it."""
    return (record.offset, -1 if record.timestamp is None else record.timestamp, record.key, record.value)


def with_kafka_python(bootstrap: str) -> Outcome:
    """A user of kafka-python who reads a topic from its beginning."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    consumer.assign([TopicPartition("topic", 0)])
    consumer.seek_to_beginning()
    records: list[tuple[Any, ...]] = []
    try:
        for record in consumer:
            if record.key == END:
                return records, ""
            records.append(plain(record))
    except Exception as error:
        return records, type(error).__name__
    finally:
        consumer.close()
    raise AssertionError("the consumer ended")


def with_aiokafka(bootstrap: str) -> Outcome:
    """A user of aiokafka who reads a topic from its beginning."""

    async def read() -> Outcome:
        consumer = AIOKafkaConsumer("topic", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        records: list[tuple[Any, ...]] = []
        async with consumer:
            try:
                async for record in consumer:
                    if record.key == END:
                        return records, ""
                    records.append(plain(record))
            except Exception as error:
                return records, type(error).__name__
        raise AssertionError("the consumer ended")

    return asyncio.run(read())


def with_confluent_kafka(bootstrap: str) -> Outcome:
    """A user of confluent-kafka who reads a topic from its beginning."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "group", "enable.auto.commit": False})
    consumer.assign([ConfluentPartition("topic", 0, 0)])
    records: list[tuple[Any, ...]] = []
    try:
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                return records, error.name()
            if message.key() == END:
                return records, ""
            timestamp = message.timestamp()[1] if message.timestamp()[0] else -1
            records.append((message.offset(), timestamp, message.key(), message.value()))
    finally:
        consumer.close()


def answered(client: ModuleType, data: bytes) -> Outcome:
    """The adapter's records, and the exception that it names first."""
    answer = client.consume(data)
    error = "" if answer.error is UNSET else answer.error.message.split(":")[0]
    return [plain(record) for record in answer.records], error


@pytest.mark.testees
@same
@pytest.mark.parametrize(
    ("client", "user"),
    [
        (kafka_python_client, with_kafka_python),
        (aiokafka_client, with_aiokafka),
        (confluent_kafka_, with_confluent_kafka),
    ],
    ids=["kafka-python-client", "aiokafka-client", "confluent-kafka"],
)
def test_a_client_adapter_says_what_its_user_sees(
    client: ModuleType, user: Callable[[str], Outcome], data: bytes
) -> None:
    """The same bytes give the same records and the same exception in plain user code."""
    with FakeBroker() as broker:
        broker.serve("topic", data)
        assert answered(client, data) == user(broker.address)


def user_of_records(records: Any) -> Outcome:
    """A user of the record classes, as both consumers use them."""
    read: list[tuple[Any, ...]] = []
    try:
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                return read, "a wrong checksum"
            read.extend(list(map(plain, batch)))
    except Exception as error:
        return read, type(error).__name__
    return read, ""


@pytest.mark.testees
@same
@pytest.mark.parametrize(
    ("codec", "classes"), [(kafka_python, MemoryRecords), (aiokafka_, AIOMemoryRecords)],
    ids=["kafka-python", "aiokafka"],
)  # fmt: skip
def test_a_codec_adapter_says_what_its_user_sees(codec: ModuleType, classes: Any, data: bytes) -> None:
    """The same bytes give the same records and the same exception in plain user code."""
    try:
        batches, error = codec.decode(data), ""
    except CodecError as refused:
        batches, error = refused.batches, str(refused).split(":")[0]
        if refused.kind == "corrupt":
            error = "a wrong checksum"
    expected = user_of_records(classes(data))

    assert ([plain(record) for batch in batches for record in batch.records], error) == expected


KIO_USER = """
import sys
sys.path.insert(0, sys.argv[1])
from kio.records.readers import read_batch
data, offset = sys.stdin.buffer.read(), 0
try:
    while offset < len(data):
        batch, size = read_batch(data, offset)
        offset += size
        for record in batch.records:
            print(record.offset, record.key, record.value)
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.testees
@same
def test_the_adapter_of_kio_says_what_its_user_sees(data: bytes) -> None:
    """The same bytes give the same records and the same exception in plain user code."""
    kio = find_testee("kio")
    assert kio is not None
    assert kio.recipe is not None
    if missing := kio.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    packages = Path(build_testee(kio.recipe)) / "packages"
    done = subprocess.run([sys.executable, "-c", KIO_USER, packages], input=data, capture_output=True, check=True)
    sandbox = Sandbox(connect("kio"))
    try:
        observed = next(sandbox.ask([CaseRequest(data)])).observation
    finally:
        sandbox.close()
    batches = getattr(observed, "batches", ())
    lines = [f"{record.offset} {record.key} {record.value}" for batch in batches for record in batch.records]
    if error := getattr(observed, "error", None):
        lines.append(error.message.split(":")[0])

    assert lines == done.stdout.decode().splitlines()


KIO_WRITER = """
import sys
from datetime import UTC, datetime
sys.path.insert(0, sys.argv[1])
from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_batch
key = None if sys.argv[2] == "null" else sys.argv[2].encode()
headers, time = (RecordHeader(key=key, value=b"v"),), datetime.fromtimestamp(1_700_000_000, UTC)
records = tuple(
    Record(attributes=0, timestamp=time, offset=int(at), key=None, value=b"value", headers=headers)
    for at in sys.argv[3:]
)
write_batch(sys.stdout.buffer, NewRecordBatch(
    producer_id=-1, producer_epoch=-1, partition_leader_epoch=-1, base_sequence=-1, attributes=0, records=records,
))
"""


@pytest.mark.testees
@pytest.mark.parametrize(("key", "offsets"), [(b"key", (4, 3)), (b"key", (3, 5, 4)), (None, (0,))])
def test_the_adapter_of_kio_writes_what_its_user_writes(key: bytes | None, offsets: tuple[int, ...]) -> None:
    """Offsets that go back and a null header key are handed over as they are: the bytes are kio's own."""
    kio = find_testee("kio")
    assert kio is not None
    assert kio.recipe is not None
    if missing := kio.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    packages = str(Path(build_testee(kio.recipe)) / "packages")
    words = ["null" if key is None else key.decode(), *map(str, offsets)]
    done = subprocess.run([sys.executable, "-c", KIO_WRITER, packages, *words], capture_output=True, check=True)
    records = tuple(Record(at, 1_700_000_000_000, None, b"value", (Header(key, b"v"),)) for at in offsets)
    wanted = Batch(
        magic=2, base_offset=offsets[0], last_offset=max(offsets), max_timestamp=1_700_000_000_000, records=records
    )
    sandbox = Sandbox(connect("kio"))
    try:
        observed = next(sandbox.ask([CaseRequest(to_wire(wanted))])).observation
    finally:
        sandbox.close()

    assert getattr(observed, "data", b"") == done.stdout
    assert done.stdout
