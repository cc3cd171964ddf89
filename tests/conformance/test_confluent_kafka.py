"""confluent-kafka on the fake broker: what it reads and writes is librdkafka's, and nothing is carried over."""

import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest
from msgspec import UNSET

from kafka_brokers.fake_broker import Tape
from kafka_conformance.judge.consuming import compare_consumed
from kafka_conformance.judge.observation import ConsumedRecords, Observation, observe
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees import confluent_kafka_
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.known import connect
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Header, Record, decode, encode
from kafka_records.layout import CRC_OFFSET_V2

TIMESTAMP = 1_700_000_000_123
RECORDS = (
    Record(0, TIMESTAMP, b"key", b"value" * 40, (Header(b"h", b"v"), Header(b"n", None))),
    Record(1, TIMESTAMP + 1, None, b"value" * 40, ()),
)
OLD = tuple(Record(at, TIMESTAMP + at, b"key", b"value" * 40) for at in range(2))
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
FORMATS = [(magic, name) for magic in (0, 1, 2) for name in COMPRESSIONS if magic == 2 or name != "zstd"]


def given(magic: int, compression: str) -> Batch:
    """A batch of two records; one in old messages without compression, which hold one each."""
    records = RECORDS if magic == 2 else OLD if magic == 1 else tuple(each._replace(timestamp=-1) for each in OLD)
    if magic < 2 and compression == "none":
        records = records[:1]
    return Batch(
        magic=magic, compression=compression, base_offset=0, last_offset=len(records) - 1, records=records,  # type: ignore[arg-type]
        timestamp_type="none" if magic == 0 else "create", max_timestamp=records[-1].timestamp,
    )  # fmt: skip


def case(data: bytes) -> Case:
    """The decode case whose right answer the reference gives."""
    expect = Expectation(verdict="valid", batches=decode(data))
    return Case(id="a.b", title="", rules=("X",), area="a", op="decode", input=data, expect=expect)


def consume(data: bytes) -> Observation:
    """The adapter's answer to *data*, in this process."""
    return observe(confluent_kafka_.consume(data))


@pytest.mark.parametrize(("magic", "compression"), FORMATS)
def test_it_reads_what_the_reference_writes(magic: int, compression: str) -> None:
    """Every format is delivered record by record, with the offset after the last batch as the position."""
    data = encode(given(magic, compression))
    observed = consume(data)

    assert isinstance(observed, ConsumedRecords)
    assert compare_consumed(case(data), observed).differences == []
    assert observed.next_offset == decode(data)[-1].last_offset + 1


@pytest.mark.parametrize(("magic", "compression"), FORMATS)
def test_the_reference_reads_what_it_writes(magic: int, compression: str) -> None:
    """The magic follows from the versions that the fake broker offers, and all records are in one request."""
    batch = given(magic, compression)
    read = decode(confluent_kafka_.encode(to_wire(batch)))

    assert tuple(record for each in read for record in each.records) == batch.records
    assert {(each.magic, each.compression) for each in read} == {(magic, compression)}


@pytest.mark.parametrize(("parted", "works"), [(confluent_kafka_.TRIES - 1, True), (confluent_kafka_.TRIES, False)])
def test_a_batch_that_leaves_in_parts_is_sent_again(parted: int, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that a loaded machine splits once or twice is sent again; a batch that is split each time is an error."""
    send = confluent_kafka_.ProducerWriter._send
    sent: list[int] = []

    def part(writer: confluent_kafka_.ProducerWriter, producer: object, wanted: Batch) -> None:
        parts = [replace(wanted, records=(each,)) for each in wanted.records] if len(sent) < parted else [wanted]
        sent.append(len(parts))
        for each in parts:
            send(writer, producer, each)

    monkeypatch.setattr(confluent_kafka_.ProducerWriter, "_send", part)
    with nullcontext() if works else pytest.raises(CodecError, match="2 requests for one batch"):
        read = decode(confluent_kafka_.encode(to_wire(given(2, "none"))))
        assert tuple(record for each in read for record in each.records) == RECORDS
    assert sent == [2] * parted + [1] * works


@pytest.mark.slow
@pytest.mark.parametrize(("name", "refused"), [("confluent-kafka", False), ("confluent-kafka-crc", True)])
def test_checksums_are_compared_on_request_only(name: str, *, refused: bool) -> None:
    """The two testees differ in check.crcs."""
    data = bytearray(encode(given(2, "none")))
    data[-2] ^= 1
    sandbox = Sandbox(connect(name))
    observed = next(sandbox.ask([CaseRequest(bytes(data))])).observation
    sandbox.close()

    assert isinstance(observed, ConsumedRecords)
    assert (observed.error is not None and observed.error.kind == "corrupt") is refused


def test_an_error_does_not_reach_the_next_case() -> None:
    """After bytes that it refuses, the next case is read as if it were the first."""
    data = encode(given(2, "none"))
    broken = bytearray(data)
    broken[16] = 7
    refused = consume(bytes(broken))

    assert isinstance(refused, ConsumedRecords)
    assert refused.error is not None
    assert refused.error.kind == "unsupported_magic"
    assert judge(case(data), consume(data)).outcome == "agree"


def test_a_response_that_it_throws_away_is_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer fetches the same offset again, and gets an empty batch again, though no offset is in it."""
    monkeypatch.setattr(confluent_kafka_, "CHECKS_CRCS", True)
    data = bytearray(encode(Batch(magic=2, base_offset=0, last_offset=-1, records=())))
    data[CRC_OFFSET_V2] ^= 1
    served: list[Tape] = []

    def read(tape: Tape, offset: int, magic: int, room: int = 0) -> bytes:
        if tape not in served:
            served.append(tape)
            if len(served) == 1:
                read_by_tape(tape, offset, magic, room)  # the response is discarded
        return read_by_tape(tape, offset, magic, room)

    read_by_tape = Tape.read
    monkeypatch.setattr(Tape, "read", read)
    observed = observe(confluent_kafka_.ConsumerReader().read(bytes(data)))

    (tape,) = served
    assert len(tape.requests) > 1
    assert isinstance(observed, ConsumedRecords)
    assert observed.error is not None
    assert observed.error.kind == "corrupt"


@pytest.mark.slow
def test_a_message_that_is_never_whole_ends_with_an_error() -> None:
    """It fetches more bytes until that is too much; no fetch of a consumer that was closed before counts for that."""
    reader, cut = confluent_kafka_.ConsumerReader(), bytes(11) + b"\x01"

    kinds = {answer.error and answer.error.kind for answer in (reader.read(cut) for _ in range(40))}
    assert kinds == {"truncated"}


def test_batches_beyond_the_producer_are_skipped() -> None:
    """Not done is not wrong."""
    base = given(2, "none")
    for unusual in (
        replace(base, base_offset=5),
        replace(base, producer_id=4),
        replace(base, control=True),
        replace(base, records=()),
        replace(base, records=(RECORDS[0]._replace(timestamp=0), RECORDS[1])),
    ):
        with pytest.raises(NotDone):
            confluent_kafka_.encode(to_wire(unusual))


def test_what_was_queued_before_a_refusal_goes_out_with_nothing() -> None:
    """A batch with a record that the producer cannot write leaves no record in the queue for the next batch."""
    batch = given(2, "none")
    wrong = replace(batch, records=(RECORDS[0], RECORDS[1]._replace(headers=(Header(b"\xff", b""),))))
    with pytest.raises(NotDone, match="header keys are text"):
        confluent_kafka_.encode(to_wire(wrong))

    assert decode(confluent_kafka_.encode(to_wire(batch)))[0].records == RECORDS


def test_it_says_which_librdkafka() -> None:
    """The version that counts is the library's."""
    assert "librdkafka" in confluent_kafka_.VERSION
    assert confluent_kafka_.DECODES.magics == [0, 1, 2]
    assert sys.modules["confluent_kafka"].libversion()[0] in confluent_kafka_.VERSION
    assert confluent_kafka_.consume(b"").error is UNSET
    with pytest.raises((NotDone, CodecError)):
        confluent_kafka_.decode(b"")
