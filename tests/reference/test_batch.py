"""v2 batches: the header, every attribute bit, what is between header and records, and writing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_corpus.authoring.build import TIMESTAMP, put, raw_batch, raw_record, reseal
from kafka_records import Batch, Header, Record, RecordFormatError, decode, encode

ThreeWays = Callable[[bytes], tuple[Batch, ...]]

RECORD = Record(0, TIMESTAMP, None, b"value")
PLAIN = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=TIMESTAMP, records=(RECORD,))
# kafka-clients 3.9.0: two records, (ts, "key", "value") and (ts + 5, null, null, headers h=null, ""="").
GOLDEN = bytes.fromhex(
    "00000000000000000000004cffffffff02a05fbcb60000000000010000018bcfe568000000018bcfe56805ffffffffffffffff"
    "ffffffffffff000000021c000000066b65790a76616c75650016000a020101040268010000"
)
# kafka-clients 3.9.0: each says in its first words what is in it.
WRITTEN = {
    "idempotent": "000000000000000000000040ffffffff02269246840000000000000000018bcfe568000000018bcfe568000000000000"
    "00004d00030000000a000000011c000000066b65790a76616c756500",
    "transactional": "000000000000000000000040ffffffff0288492c140010000000000000018bcfe568000000018bcfe568000000000000"
    "00004d00030000000a000000011c000000066b65790a76616c756500",
    "commit": "000000000000000000000042ffffffff02412a64dd0030000000000000018bcfe568000000018bcfe568000000000000"
    "00004d0003ffffffff000000012000000008000000010c00000000000900",
    "no-timestamp": "000000000000000000000038ffffffff02a909c270000000000000ffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffff000000010c000000010000",
    "no-first-timestamp": "00000000000000000000003fffffffff02d56fcd15000000000001ffffffffffffffff0000000000000005ffffff"
    "ffffffffffffffffffffff000000020c0000000100000c000c02010000",
    "offset-below-base": "000000000000000500000038ffffffff0281eb77d00000fffffffd00000000000000010000000000000001ff"
    "ffffffffffffffffffffffffff000000010c000005010000",
}


def refusal(batch: Batch) -> tuple[str, str]:
    """Rule and path of what `encode` raises; it is always malformed and has no offset."""
    with pytest.raises(RecordFormatError) as caught:
        encode(batch)
    assert (caught.value.kind, caught.value.offset) == ("malformed", -1)
    return caught.value.rule, caught.value.path


def failure(data: bytes) -> tuple[str, str, str, int]:
    """Kind, rule, path and offset of what `decode` raises."""
    with pytest.raises(RecordFormatError) as caught:
        decode(data)
    return caught.value.kind, caught.value.rule, caught.value.path, caught.value.offset


def test_the_golden_batch_both_ways(three_ways: ThreeWays) -> None:
    """The Java client's bytes are read as what they stand for, and written again."""
    (batch,) = three_ways(GOLDEN)
    first, second = batch.records
    assert first == Record(0, TIMESTAMP, b"key", b"value")
    assert second == Record(1, TIMESTAMP + 5, None, None, ((b"h", None), (b"", b"")))  # type: ignore[arg-type]  # as tuples
    assert batch == Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=TIMESTAMP + 5, records=batch.records)
    assert encode(replace(batch, base_timestamp=None)) == GOLDEN


@pytest.mark.parametrize("name", WRITTEN)
def test_what_java_wrote_is_written_again(name: str, three_ways: ThreeWays) -> None:
    """Batches of the Java client come out of encode as they went into decode, byte for byte."""
    data = bytes.fromhex(WRITTEN[name])
    (batch,) = three_ways(data)
    assert encode(batch) == encode(replace(batch, base_timestamp=None)) == data


def test_header_fields_are_where_they_belong(three_ways: ThreeWays) -> None:
    """Every field of the header reaches its own place in the batch (HDR-01, HDR-09)."""
    data = raw_batch(
        raw_record(timestamp_delta=1),
        base_offset=100,
        last_offset_delta=9,
        partition_leader_epoch=11,
        attributes=0x30,
        base_timestamp=1000,
        max_timestamp=2000,
        producer_id=2**62,
        producer_epoch=32767,
        base_sequence=2**31 - 1,
    )
    expected = Batch(
        magic=2,
        base_offset=100,
        last_offset=109,
        max_timestamp=2000,
        producer_id=2**62,
        producer_epoch=32767,
        base_sequence=2**31 - 1,
        transactional=True,
        control=True,
        partition_leader_epoch=11,
        records=(Record(100, 1001, None, b"value"),),
    )
    (batch,) = three_ways(data)
    assert batch == expected
    assert batch.base_timestamp == 1000
    assert encode(batch) == data


@pytest.mark.parametrize("bit", range(3, 16))
def test_each_attribute_bit_means_its_own(bit: int) -> None:
    """Bits 3 to 6 set one thing each, and bits 7 to 15 set nothing (ATT-03 to ATT-08)."""
    attributes = (1 << bit) - (1 << 16 if bit == 15 else 0)
    (batch,) = decode(raw_batch(raw_record(), attributes=attributes))
    meanings = {
        3: replace(PLAIN, timestamp_type="append"),
        4: replace(PLAIN, transactional=True),
        5: replace(PLAIN, control=True),
        6: replace(PLAIN, delete_horizon=TIMESTAMP),
    }
    assert batch == meanings.get(bit, PLAIN)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    """Codec ids 5 to 7 name nothing (ATT-02)."""
    data = raw_batch(raw_record(), attributes=codec)
    assert failure(data) == ("unsupported_compression", "ATT-02", "batch.attributes", 21)


@pytest.mark.parametrize("size", [26, 60])
def test_a_batch_shorter_than_its_header(size: int) -> None:
    """A batch of fewer than 61 bytes is refused, whatever its CRC (HDR-05)."""
    data = put(raw_batch(b"", record_count=0)[:size], "batch_length", size - 12)
    assert failure(data) == ("malformed", "HDR-05", "batch.batch_length", 8)


def test_an_empty_batch(three_ways: ThreeWays) -> None:
    """A batch of no records is 61 bytes, and its offsets still count (HDR-19, CLN-15, OFF-11)."""
    data = raw_batch(b"", record_count=0, base_offset=5, last_offset_delta=7, base_timestamp=-1, max_timestamp=3)
    (batch,) = three_ways(data)
    assert batch == Batch(magic=2, base_offset=5, last_offset=12, max_timestamp=3)
    assert encode(replace(batch, base_timestamp=None)) == data


@pytest.mark.parametrize("attributes", range(5))
def test_without_records_the_payload_is_not_looked_at(attributes: int) -> None:
    """Bytes after a record count of 0 are ignored, in any codec (HDR-16, HDR-17)."""
    for payload in (b"", b"not records"):
        assert decode(raw_batch(payload, record_count=0, attributes=attributes))[0].records == ()


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_negative_record_count(count: int) -> None:
    """A negative count is refused (HDR-15)."""
    data = raw_batch(raw_record(), record_count=count, last_offset_delta=0)
    assert failure(data) == ("malformed", "HDR-15", "batch.record_count", 57)


@pytest.mark.parametrize("count", [2, 2**31 - 1])
def test_more_records_promised_than_there(count: int) -> None:
    """A count of more records than there are is found where they end (HDR-13, HDR-18)."""
    data = raw_batch(raw_record(), record_count=count, last_offset_delta=0)
    assert failure(data) == ("truncated", "HDR-13", "batch.records[1]", 73)


@pytest.mark.parametrize("rest", [b"\x00", raw_record(offset_delta=1)])
def test_fewer_records_promised_than_there(rest: bytes) -> None:
    """Bytes after the last record are refused, a zero byte too (HDR-14, REC-25)."""
    assert failure(raw_batch(raw_record() + rest)) == ("malformed", "HDR-14", "batch.records", 73)


def test_gaps_and_disorder_are_read_as_they_are() -> None:
    """Readers take any offset deltas: gaps, repeats and falling ones (OFF-04, OFF-10)."""
    records = b"".join(raw_record(offset_delta=delta) for delta in (3, 3, -1, 9))
    (batch,) = decode(raw_batch(records, record_count=4, last_offset_delta=100, base_offset=10))
    assert [record.offset for record in batch.records] == [13, 13, 9, 19]
    assert batch.last_offset == 110


def test_the_last_offset_wraps() -> None:
    """A last offset beyond int64 wraps silently (HDR-26)."""
    (batch,) = decode(raw_batch(raw_record(), base_offset=2**63 - 1, last_offset_delta=1))
    assert batch.last_offset == -(2**63)


def test_the_delete_horizon_stands_in_for_the_base_timestamp(three_ways: ThreeWays) -> None:
    """With a horizon, deltas count from it and are mostly negative (TIM-18, TIM-19)."""
    data = raw_batch(raw_record(timestamp_delta=-1000), attributes=0x40, base_timestamp=5000, max_timestamp=4000)
    (batch,) = three_ways(data)
    assert (batch.delete_horizon, batch.records[0].timestamp) == (5000, 4000)
    assert encode(batch) == encode(replace(batch, base_timestamp=None)) == data


def test_an_unsigned_producer_state_is_kept() -> None:
    """Producer ids below -1 and states without a producer are given as they are (HDR-23, PID-02)."""
    (batch,) = decode(raw_batch(raw_record(), producer_id=-2, producer_epoch=5, base_sequence=-9))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-2, 5, -9)


def test_the_base_timestamp_is_the_first_records() -> None:
    """Without a word about it, deltas count from the first record's time (TIM-06)."""
    late, early = Record(0, 50, None, None), Record(1, 20, None, None)
    written = encode(replace(PLAIN, last_offset=1, max_timestamp=50, records=(late, early)))
    assert decode(written)[0].base_timestamp == 50
    assert encode(replace(PLAIN, last_offset=1, max_timestamp=50, records=(late, early), base_timestamp=0)) != written


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"timestamp_type": "none"}, ("ATT-14", "batch.timestamp_type")),
        ({"records": (), "compression": "gzip"}, ("CLN-15", "batch.compression")),
        ({"last_offset": 2**31}, ("OFF-08", "batch.last_offset")),
        ({"last_offset": -(2**31) - 1}, ("OFF-08", "batch.last_offset")),
        ({"base_offset": 2**31, "last_offset": 2**31}, None),
        ({"base_offset": 2**31 + 1, "last_offset": 2**31 + 1}, ("OFF-08", "batch.records[0].offset")),
        ({"base_timestamp": -2}, ("TIM-22", "batch.base_timestamp")),
        ({"delete_horizon": -2}, ("TIM-22", "batch.base_timestamp")),
        ({"transactional": True}, ("PID-04", "batch.producer_id")),
        ({"producer_id": 1, "base_sequence": 0}, ("PID-04", "batch.producer_epoch")),
        ({"producer_id": 1, "producer_epoch": 0}, ("PID-04", "batch.base_sequence")),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -2}, ("PID-04", "batch.base_sequence")),
        ({"producer_id": 1, "producer_epoch": 0, "control": True}, None),
        ({"records": (RECORD, RECORD), "last_offset": 1}, ("OFF-07", "batch.records[1].offset")),
        ({"records": (RECORD._replace(timestamp=-2),)}, ("TIM-04", "batch.records[0].timestamp")),
        (
            {"records": (RECORD._replace(timestamp=2**63),), "base_timestamp": 0},
            ("TIM-04", "batch.records[0].timestamp"),
        ),
        (
            {"records": (RECORD._replace(headers=(Header(b"", None), Header(None, b"value"))),)},
            ("REC-18", "batch.records[0].headers[1].key"),
        ),
        ({"base_offset": 2**63, "last_offset": 2**63, "records": ()}, ("HDR-02", "batch")),
        ({"producer_epoch": 2**15}, ("HDR-02", "batch")),
        ({"partition_leader_epoch": -(2**31) - 1}, ("HDR-02", "batch")),
    ],
)
def test_what_kafkas_writer_refuses(changed: dict[str, object], expected: tuple[str, str] | None) -> None:
    """Batches that Kafka's own writer would not write are not written."""
    batch = replace(PLAIN, **changed)  # type: ignore[arg-type]  # a dict of mixed fields
    if expected is None:
        assert decode(encode(batch))
    else:
        assert refusal(batch) == expected


def test_a_horizon_wins_over_the_base_timestamp() -> None:
    """There is one field for both, and the horizon is what readers trust (A07)."""
    written = encode(replace(PLAIN, delete_horizon=7, base_timestamp=9))
    assert decode(written)[0].delete_horizon == 7


def test_only_known_bits_are_written() -> None:
    """Unknown bits of the batch and of its records are dropped on writing (ATT-13, ATT-15)."""
    (batch,) = decode(raw_batch(raw_record(attributes=0x7F), attributes=-128))
    assert encode(batch) == raw_batch(raw_record())


def test_a_stored_length_is_what_counts() -> None:
    """A batch that says it is shorter is read up to there, and its CRC is wrong (HDR-21)."""
    data = raw_batch(raw_record())
    with pytest.raises(RecordFormatError, match="stored crc"):
        decode(put(data, "batch_length", 60))
    with pytest.raises(RecordFormatError, match="length is 11, 10 bytes are left"):
        decode(reseal(put(data, "batch_length", 60)[:72]))
