"""Sizes: what something takes is what `encode` writes, and upper bounds hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_records import Batch, Header, Record, encode
from kafka_records.constants import MAX_RECORD_OVERHEAD
from kafka_records.record import encode_record
from kafka_records.sizes import (
    estimate_compressed_size,
    estimate_size_upper_bound,
    record_size_upper_bound,
    sizeof_batch,
    sizeof_message,
    sizeof_record,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(-1, 2**63 - 1)
NULLABLE = st.none() | st.binary(max_size=100) | st.integers(8180, 8200).map(bytes)
HEADERS = st.lists(st.builds(Header, st.binary(max_size=80), NULLABLE), max_size=3).map(tuple) | st.just(
    (Header(b"", None),) * 70
)
RECORDS = st.builds(Record, st.just(0), TIMES, NULLABLE, NULLABLE, HEADERS)


@given(RECORDS, st.integers(-(2**31), 2**31 - 1), TIMES)
def test_a_record_takes_what_is_written(record: Record, delta: int, base_timestamp: int) -> None:
    """The size of a record is exact, its length field included (REC-26)."""
    size = sizeof_record(record, -delta, base_timestamp)
    assert size == len(encode_record(record, -delta, base_timestamp))
    assert size <= record_size_upper_bound(record.key, record.value, record.headers)


@given(st.lists(RECORDS, max_size=4), INT64.filter(lambda offset: offset < 2**63 - 4))
def test_a_batch_takes_what_is_written(records: list[Record], base_offset: int) -> None:
    """The size of an uncompressed batch is exact, and none for no records, as Kafka says."""
    placed = tuple(record._replace(offset=base_offset + at) for at, record in enumerate(records))
    batch = Batch(magic=2, base_offset=base_offset, last_offset=base_offset + len(placed) - 1, records=placed)
    assert sizeof_batch(placed, base_offset) == (len(encode(batch)) if placed else 0)


@pytest.mark.parametrize(
    ("deltas", "overhead"),
    [((0, 0), 1 + 1 + 1 + 1), ((-(2**63), 2**31 - 1), 1 + 1 + 10 + 5)],
)
def test_the_largest_deltas_are_within_the_bound(deltas: tuple[int, int], overhead: int) -> None:
    """Whatever the deltas, a record has no more overhead than Kafka reserves (SIZ-10)."""
    time, offset = deltas
    record = Record(offset, time, None, None)
    # Null key, null value and no headers take a byte each.
    assert sizeof_record(record, 0, 0) == overhead + 3
    assert overhead <= MAX_RECORD_OVERHEAD
    assert record_size_upper_bound(None, None) == MAX_RECORD_OVERHEAD + 3


@given(st.sampled_from([0, 1]), NULLABLE, NULLABLE)
def test_a_message_takes_what_is_written(magic: int, key: bytes | None, value: bytes | None) -> None:
    """The size of a message is exact, null and empty alike (LEG-01, LEG-02)."""
    batch = Batch(magic=magic, base_offset=0, last_offset=0, records=(Record(0, 0, key, value),))
    size = len(encode(batch))
    assert sizeof_message(magic, key, value) == size == estimate_size_upper_bound(magic, "none", key, value)


@given(RECORDS, INT64.filter(lambda offset: offset < 2**63 - 1))
def test_the_estimate_holds_a_batch_of_one(record: Record, offset: int) -> None:
    """A batch of one uncompressed record fits what Kafka reserves for it."""
    batch = Batch(magic=2, base_offset=offset, last_offset=offset, records=(record._replace(offset=offset),))
    assert len(encode(batch)) <= estimate_size_upper_bound(2, "none", record.key, record.value, record.headers)


def test_smallest_sizes() -> None:
    """The smallest encodings are those that the seeds name (SIZ-13)."""
    assert [sizeof_message(magic, None, None) for magic in (0, 1)] == [26, 34]
    assert sizeof_batch([Record(5, 7, None, None)], 5) == 68
    assert estimate_size_upper_bound(2, "gzip", None, None) == 61 + 21 + 3


def test_the_golden_sizes_of_the_seeds() -> None:
    """Key "key" and value "value": 34 and 42 bytes in v0 and v1, 76 in v2, 73 without the key (seed 004)."""
    record = Record(0, 1524709879130, b"key", b"value")
    assert [sizeof_message(magic, b"key", b"value") for magic in (0, 1)] == [34, 42]
    assert sizeof_message(0, None, b"value") == 31
    assert sizeof_batch([record], 0) == 76
    assert sizeof_batch([record._replace(key=None)], 0) == 73


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_is_reserved_without_its_prefix(magic: int) -> None:
    """For a compressed message Kafka reserves the wrapper's own fields on top (AbstractRecords)."""
    plain = sizeof_message(magic, b"k", b"v")
    assert estimate_size_upper_bound(magic, "gzip", b"k", b"v") == plain + (22 if magic else 14)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, 1024), (2048, 1024), (2050, 1025), (131072, 65536), (131074, 65536), (2**31 - 1, 65536)],
)
def test_compressed_estimates_stay_between_1_and_64_kib(size: int, expected: int) -> None:
    """Compressed output is guessed as half, within bounds; without a codec it is what it is."""
    assert estimate_compressed_size(size, "lz4") == expected
    assert estimate_compressed_size(size, "none") == size
