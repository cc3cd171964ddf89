"""Both directions undo each other, and neither raises anything but the one error."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafka_corpus import strategies
from kafka_corpus.authoring.build import raw_batch, raw_message, raw_record
from kafka_records import Batch, Header, Limits, Record, RecordFormatError, decode, encode
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.layout import BATCH_V2, MESSAGE_V0, MESSAGE_V1
from kafka_records.varint import encode_varint

# Thousands of inputs, and no line that only they reach: the tracer would triple their time.
pytestmark = pytest.mark.no_cover

ThreeWays = Callable[[bytes], tuple[Batch, ...]]

# Small numbers, the ends of every width and a step beyond, and far too large ones.
EDGES = [sign * 2**bits + step for bits in (7, 15, 31, 63, 64, 100) for sign in (1, -1) for step in (-1, 0, 1)]
INTS = st.integers(-3, 10) | st.sampled_from(EDGES) | st.integers()
BYTES = st.none() | st.binary(max_size=8)
WILD_HEADERS = st.lists(st.builds(Header, st.binary(max_size=4), BYTES), max_size=2).map(tuple)
WILD_RECORDS = st.lists(st.builds(Record, INTS, INTS, BYTES, BYTES, WILD_HEADERS), max_size=3).map(tuple)
WILD = st.builds(
    Batch,
    magic=st.integers(-1, 3) | INTS,
    base_offset=INTS,
    last_offset=INTS,
    compression=st.sampled_from(COMPRESSIONS),
    timestamp_type=st.sampled_from(["create", "append", "none"]),
    max_timestamp=INTS,
    producer_id=INTS,
    producer_epoch=INTS,
    base_sequence=INTS,
    transactional=st.booleans(),
    control=st.booleans(),
    partition_leader_epoch=INTS,
    delete_horizon=st.none() | INTS,
    records=WILD_RECORDS,
    base_timestamp=st.none() | INTS,
)


def payload(data: bytes) -> tuple[bytes, bytes]:
    """A batch above its compression: the header without size and CRC, and the decompressed bytes."""
    magic = data[16]
    codec: Compression = COMPRESSIONS[data[22 if magic == 2 else 17] & 7]
    if magic == 2:
        start, header = BATCH_V2.size, data[:8] + data[12:17] + data[21:61]
    else:
        fixed = (MESSAGE_V1 if magic else MESSAGE_V0).size
        start, header = fixed + 8, data[:8] + data[16:fixed]
    return header, decompress(codec, data[start:], magic=magic, most=2**20)


@given(strategies.batches())
def test_what_is_written_is_read(batch: Batch) -> None:
    """A batch of any format, codec and shape comes back from its bytes as it was."""
    assert decode(encode(batch)) == (batch,)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
@given(data=strategies.encoded())
def test_logs_are_read_three_ways(three_ways: ThreeWays, data: bytes) -> None:
    """A log of mixed formats is read whole, byte by byte and with trailing data."""
    assert b"".join(map(encode, three_ways(data))) == data or any(batch.compression != "none" for batch in decode(data))


@given(strategies.batches(), st.none() | st.integers(-1, 2**41))
def test_what_is_read_is_written(batch: Batch, base_timestamp: int | None) -> None:
    """Canonical bytes come out as they went in; compressed ones do above the compression."""
    data = encode(replace(batch, base_timestamp=base_timestamp))
    again = encode(*decode(data))
    if batch.compression == "none":
        assert again == data
    else:
        assert payload(again) == payload(data)


@given(strategies.batches(magic=2, compression="none"), st.sampled_from(COMPRESSIONS))
def test_a_codec_changes_nothing_but_the_codec(batch: Batch, compression: Compression) -> None:
    """The same records come out of every codec, control batches too (CMP-01)."""
    if batch.records:
        packed = replace(batch, compression=compression)
        assert decode(encode(packed)) == (packed,)


@given(strategies.nearly_valid())
def test_one_fault_is_one_error(faulty: tuple[bytes, str]) -> None:
    """A batch with one thing wrong in it is refused with an error that has all its parts."""
    data, label = faulty
    assert attempt(data) is not None, label


@settings(max_examples=500)
@given(WILD)
def test_encode_writes_or_refuses(batch: Batch) -> None:
    """Numbers of any size are written or refused by the one error, and what is written can be read."""
    data = written(batch)
    found = decode(data)
    if data:
        assert [record[2:] for each in found for record in each.records] == [record[2:] for record in batch.records]


def written(batch: Batch) -> bytes:
    """The bytes of *batch*; none if it is refused, by an error that names a field and no byte."""
    error: RecordFormatError
    try:
        return encode(batch)
    except RecordFormatError as refusal:
        error = refusal
    assert error.path.startswith("batch")
    assert error.offset == -1
    return b""


VALID = strategies.batches(magic=2, compression="none").filter(lambda batch: bool(batch.records))


WILD_FIELDS = (
    "base_offset",
    "last_offset",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "partition_leader_epoch",
    "delete_horizon",
    "base_timestamp",
)


@pytest.mark.slow
@settings(max_examples=300)
@given(VALID, st.fixed_dictionaries({}, optional=dict.fromkeys(WILD_FIELDS, INTS)))
def test_wild_fields_are_written_or_refused(batch: Batch, changed: dict[str, Any]) -> None:
    """A batch that encode accepts comes back as it was, but for the times that LogAppendTime replaces."""
    wild = replace(batch, **changed)
    if data := written(wild):
        (found,) = decode(data)
        if wild.timestamp_type == "append":
            stamped = tuple(record._replace(timestamp=wild.max_timestamp) for record in wild.records)
            wild = replace(wild, records=stamped)
        assert found == wild


def attempt(data: bytes, limits: Limits | None = None) -> RecordFormatError | None:
    """Decode *data*; the error, if any, is the one, and has all its parts."""
    error: RecordFormatError
    try:
        decode(data, limits=limits or Limits())
    except RecordFormatError as refusal:
        error = refusal
    else:
        return None
    assert 0 <= error.offset <= len(data)
    assert error.path.startswith("batch")
    assert str(error).endswith(f"{error.rule})")
    return error


@settings(max_examples=300)
@given(st.binary(max_size=200))
@example(b"\xff" * 100)
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    """No bytes make decode raise anything but the one error."""
    attempt(data)


@settings(max_examples=500)
@given(
    st.binary(max_size=60),
    st.integers(-(2**15), 2**15 - 1) | st.integers(0, 7),
    st.integers(1, 3) | st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0, 10, 100, 2**20]),
)
def test_random_payloads_are_read_or_refused(data: bytes, attributes: int, count: int, most: int) -> None:
    """After a header that is right, any bytes are records or refused."""
    attempt(raw_batch(data, attributes=attributes, record_count=count, last_offset_delta=0), Limits(most))


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 1), st.integers(-128, 127) | st.integers(0, 7))
def test_random_messages_are_read_or_refused(data: bytes, magic: int, attributes: int) -> None:
    """After a CRC that is right, any bytes are a message or refused."""
    attempt(raw_message(magic, body=data + bytes(8), attributes=attributes))
    attempt(raw_message(magic, None, data, attributes=attributes))


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_random_record_bodies_are_read_or_refused(data: bytes) -> None:
    """Inside a length that is right, any bytes are fields or refused."""
    attempt(raw_batch(encode_varint(len(data)) + data))
    attempt(raw_batch(raw_record(header_count=b"\x04", headers=data)))
