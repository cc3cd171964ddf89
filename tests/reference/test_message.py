"""v0 and v1 messages that stand alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_corpus.authoring.build import TIMESTAMP, raw_message
from kafka_records import Batch, Header, Record, RecordFormatError, decode, encode

ThreeWays = Callable[[bytes], tuple[Batch, ...]]

# kafka-clients 3.9.0: (0, ts, "key", "value") and (1, ts + 5, null, null), each a message.
GOLDEN = {
    0: "0000000000000000000000162356c1370000000000036b65790000000576616c7565"
    "00000000000000010000000ea7ec68030000ffffffffffffffff",
    1: "00000000000000000000001e6ad05db801000000018bcfe56800000000036b65790000000576616c7565"
    "000000000000000100000016ea764b5401000000018bcfe56805ffffffffffffffff",
}


def plain(magic: int, record: Record) -> Batch:
    """The batch that one uncompressed message stands for."""
    return Batch(
        magic=magic,
        base_offset=record.offset,
        last_offset=record.offset,
        timestamp_type="create" if magic else "none",
        max_timestamp=record.timestamp,
        records=(record,),
    )


def failure(data: bytes) -> tuple[str, str, str, int]:
    """Kind, rule, path and offset of what `decode` raises."""
    with pytest.raises(RecordFormatError) as caught:
        decode(data)
    return caught.value.kind, caught.value.rule, caught.value.path, caught.value.offset


@pytest.mark.parametrize("magic", [0, 1])
def test_the_golden_messages_both_ways(magic: int, three_ways: ThreeWays) -> None:
    """The Java client's messages are read as what they stand for, and written again (LEG-24)."""
    data = bytes.fromhex(GOLDEN[magic])
    times = (TIMESTAMP, TIMESTAMP + 5) if magic else (-1, -1)
    records = (Record(0, times[0], b"key", b"value"), Record(1, times[1], None, None))
    assert three_ways(data) == tuple(plain(magic, record) for record in records)
    together = replace(plain(magic, records[0]), last_offset=1, max_timestamp=times[1], records=records)
    assert encode(together) == data


@pytest.mark.parametrize(("magic", "size"), [(0, 26), (1, 34)])
def test_the_smallest_messages(magic: int, size: int, three_ways: ThreeWays) -> None:
    """A message of null and null takes 26 bytes in v0 and 34 in v1 (SIZ-13)."""
    data = raw_message(magic, None, None)
    assert len(data) == size
    (batch,) = three_ways(data)
    assert (batch.records[0].key, batch.records[0].value) == (None, None)
    assert encode(batch) == data


@pytest.mark.parametrize("magic", [0, 1])
def test_null_is_not_empty(magic: int, three_ways: ThreeWays) -> None:
    """Lengths -1 and 0 are distinct, and every other negative length is null (LEG-08 to LEG-10)."""
    for key, value in ((b"", None), (None, b""), (b"", b"")):
        (batch,) = three_ways(raw_message(magic, key, value))
        assert batch.records[0][2:4] == (key, value)
    body = (-2).to_bytes(4, "big", signed=True) + (-(2**31)).to_bytes(4, "big", signed=True)
    assert decode(raw_message(magic, body=body))[0].records[0][2:4] == (None, None)


@pytest.mark.parametrize("magic", [0, 1])
def test_what_follows_the_value_is_ignored(magic: int, three_ways: ThreeWays) -> None:
    """Slack inside the sized message is covered by the CRC and dropped (LEG-05, LEG-12)."""
    (batch,) = three_ways(raw_message(magic, b"k", b"v", tail=b"slack"))
    assert encode(batch) == raw_message(magic, b"k", b"v")


@pytest.mark.parametrize("magic", [0, 1])
def test_only_known_attribute_bits_count(magic: int) -> None:
    """Bits 4 to 7 are ignored, and bit 3 too in v0 (LEG-17, LEG-18, LEG-20)."""
    attributes = -8  # bits 3 to 7
    (batch,) = decode(raw_message(magic, attributes=attributes))
    assert batch.timestamp_type == ("append" if magic else "none")
    assert batch.records[0].timestamp == (TIMESTAMP if magic else -1)
    assert (batch.transactional, batch.control, batch.delete_horizon) == (False, False, None)


@pytest.mark.parametrize("magic", [0, 1])
def test_fields_that_a_format_lacks_hold_sentinels(magic: int) -> None:
    """v0 and v1 have no producer, no leader epoch and no headers (LEG-22, LEG-23)."""
    (batch,) = decode(raw_message(magic, offset=9))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.partition_leader_epoch) == (-1,) * 4
    assert batch.records[0].headers == ()
    assert (batch.base_offset, batch.last_offset) == (9, 9)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(magic: int, codec: int) -> None:
    """Codec ids 5 to 7 name nothing (LEG-16)."""
    data = raw_message(magic, attributes=codec)
    assert failure(data) == ("unsupported_compression", "LEG-16", "batch.attributes", 17)


@pytest.mark.parametrize("size", range(14, 22))
def test_a_v1_message_too_small_for_its_fields(size: int) -> None:
    """Framing lets 14 to 21 bytes pass for v1, and then a field is missing (LEG-03)."""
    kind, rule, path, offset = failure(raw_message(1, body=bytes(size - 14)))
    assert rule == "LEG-03"
    assert path in {"batch.key_length", "batch.value_length"}
    assert 12 + 14 <= offset <= 12 + size
    assert kind == "truncated"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("claimed", [6, 2**31 - 1])
def test_lengths_beyond_the_message(magic: int, claimed: int) -> None:
    """A key or value of more bytes than are left is refused (LEG-11)."""
    start = 26 if magic else 18
    length = claimed.to_bytes(4, "big")
    data = raw_message(magic, body=length + b"12345")
    assert failure(data) == ("truncated", "LEG-11", "batch.key_length", start + 4)
    data = raw_message(magic, body=bytes(4) + length + b"12345")
    assert failure(data) == ("truncated", "LEG-11", "batch.value_length", start + 8)


@pytest.mark.parametrize("magic", [0, 1])
def test_every_cut_of_a_message_is_refused(magic: int) -> None:
    """A message that ends early is refused at any byte, with size and CRC right."""
    body = b"\0\0\0\3key\0\0\0\5value"
    for cut in range(8, len(body)):
        kind, rule, _, offset = failure(raw_message(magic, body=body[:cut]))
        assert (kind, rule in {"LEG-03", "LEG-11"}) == ("truncated", True), cut
        assert offset <= (26 if magic else 18) + cut


def test_log_append_time_is_written_into_every_message() -> None:
    """A v1 writer puts the batch's time and bit 3 into each message (NST-22)."""
    records = (Record(0, 1, None, b"a"), Record(1, 2, None, b"b"))
    batch = Batch(
        magic=1, base_offset=0, last_offset=1, timestamp_type="append", max_timestamp=TIMESTAMP, records=records
    )
    expected = [raw_message(1, None, value, offset=at, attributes=8) for at, value in enumerate((b"a", b"b"))]
    assert encode(batch) == b"".join(expected)


@pytest.mark.parametrize("kind", ["create", "append", "none"])
def test_v0_knows_no_timestamp_type(kind: str) -> None:
    """Bit 3 is never written in v0, whatever type the batch says (LEG-17, LegacyRecord#computeAttributes)."""
    batch = replace(plain(0, Record(0, TIMESTAMP, None, b"value")), timestamp_type=kind)  # type: ignore[arg-type]  # str
    assert encode(batch) == raw_message(0)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"compression": "zstd"}, ("LEG-15", "batch.compression")),
        ({"transactional": True}, ("TXN-07", "batch.transactional")),
        ({"control": True}, ("LEG-27", "batch.control")),
        ({"producer_id": 0}, ("LEG-27", "batch.producer_id")),
        ({"producer_id": -2}, ("LEG-27", "batch.producer_id")),
        ({"delete_horizon": 5}, ("LEG-27", "batch.delete_horizon")),
        ({"records": ()}, ("CLN-21", "batch.records")),
        ({"records": (Record(0, 0, None, None), Record(0, 0, None, None))}, ("OFF-07", "batch.records[1].offset")),
        ({"records": (Record(0, 0, None, None, (Header(b"", None),)),)}, ("LEG-22", "batch.records[0].headers")),
        ({"records": (Record(0, -2, None, None),)}, ("TIM-04", "batch.records[0].timestamp")),
        ({"records": (Record(2**31, 0, None, None),)}, ("OFF-08", "batch.records[0].offset")),
        ({"records": (Record(2**63, 0, None, None),), "base_offset": 2**63}, ("HDR-02", "batch")),
    ],
)
def test_what_kafkas_writer_refuses(magic: int, changed: dict[str, object], expected: tuple[str, str]) -> None:
    """Batches that Kafka's own writer would not write below v2 are not written."""
    batch = replace(plain(magic, Record(0, 5, None, b"v")), **changed)  # type: ignore[arg-type]  # mixed fields
    with pytest.raises(RecordFormatError) as caught:
        encode(batch)
    assert (caught.value.rule, caught.value.path) == expected
    assert (caught.value.kind, caught.value.offset) == ("malformed", -1)


def test_a_record_time_below_minus_one_is_refused_even_where_it_is_not_written() -> None:
    """LogAppendTime replaces record times only after they were looked at (TIM-04)."""
    batch = plain(1, Record(0, -2, None, b"v"))
    with pytest.raises(RecordFormatError, match="timestamp is -2") as caught:
        encode(replace(batch, timestamp_type="append", max_timestamp=5))
    assert (caught.value.rule, caught.value.path) == ("TIM-04", "batch.records[0].timestamp")


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_log_append_time_below_minus_one_is_refused(compression: str) -> None:
    """No message is written with a timestamp below -1 (LEG-21, LegacyRecord#write)."""
    batch = replace(plain(1, Record(0, 5, None, b"v")), timestamp_type="append", max_timestamp=-2)
    with pytest.raises(RecordFormatError, match="timestamp is -2") as caught:
        encode(replace(batch, compression=compression))  # type: ignore[arg-type]  # str
    assert (caught.value.rule, caught.value.path) == ("LEG-21", "batch.records[0].timestamp")


def test_v1_needs_a_timestamp_type() -> None:
    """A v1 batch without a timestamp type is refused, a v0 batch is not (LEG-18)."""
    record = Record(0, -1, None, b"v")
    with pytest.raises(RecordFormatError, match="timestamp type") as caught:
        encode(replace(plain(1, record), timestamp_type="none"))
    assert (caught.value.rule, caught.value.path) == ("LEG-18", "batch.timestamp_type")
    assert encode(plain(0, record))
