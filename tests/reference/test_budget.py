"""The memory budget: what is paid for, and where it ends (CMP-10)."""

import gzip

import pytest
import zstandard

from kafka_corpus.authoring.build import raw_batch, raw_message, raw_record
from kafka_records import Limits, RecordFormatError, decode
from kafka_records.budget import BATCH_COST, PER_INPUT_BYTE, RECORD_COST, START, budget, pay
from kafka_records.varint import encode_varint

MIB = 1024 * 1024
NOTHING = Limits(max_output_bytes=0)


def refusal(data: bytes, most: int = 0) -> tuple[str, str, str, int, int | None]:
    """Kind, rule, path, offset and inner offset of the error."""
    with pytest.raises(RecordFormatError) as caught:
        decode(data, limits=Limits(most))
    error = caught.value
    return error.kind, error.rule, error.path, error.offset, error.inner_offset


def zstd(plain: bytes, **fields: int) -> bytes:
    """A batch with a codec that packs as tightly as any."""
    return raw_batch(zstandard.ZstdCompressor().compress(plain), attributes=4, **fields)


def test_the_budget_grows_with_input_and_limit() -> None:
    """Eight bytes for every byte of input, what the caller allows, and a little to start with."""
    assert budget(bytes(1000), Limits(70)) == START + 8 * 1000 + 70
    assert budget(b"", NOTHING) == START < 64 * MIB


def test_paying() -> None:
    """All of what is there can be spent, and not a byte more."""
    assert pay(10, 10, offset=0) == 0
    with pytest.raises(RecordFormatError, match="more memory than the limit allows") as caught:
        pay(10, 11, offset=5, path="headers")
    assert (caught.value.kind, caught.value.rule) == ("limit", "CMP-10")
    assert (caught.value.path, caught.value.offset) == ("headers", 5)


def test_records_are_paid_for() -> None:
    """Records of seven bytes cost more than their input brings, and end where the budget does."""
    record = raw_record(value=None)
    count = 100_000
    data = raw_batch(record * count, record_count=count)
    affordable = (budget(data, NOTHING) - BATCH_COST) // RECORD_COST
    assert 0 < affordable < count
    kind, rule, path, offset, inner = refusal(data)
    assert (kind, rule, path, inner) == ("limit", "CMP-10", f"batch.records[{affordable}]", None)
    assert offset == 61 + (affordable + 1) * len(record)
    assert len(decode(data, limits=Limits(count * RECORD_COST))[0].records) == count


@pytest.mark.slow
def test_headers_are_paid_for_before_they_are_made() -> None:
    """A count of headers that are really there is too much as soon as it is read."""
    record = raw_record(value=None, header_count=encode_varint(300_000), headers=b"\0\1" * 300_000)
    kind, rule, path, offset, _ = refusal(raw_batch(record))
    assert (kind, rule, path) == ("limit", "CMP-10", "batch.records[0].header_count")
    assert offset < 80
    assert len(decode(raw_batch(record))[0].records[0].headers) == 300_000


def test_a_body_is_paid_for_while_it_is_read() -> None:
    """A record that is nearly all of its payload may take a third of the budget, not half."""
    assert refusal(zstd(raw_record(value=bytes(7 * MIB)))) == (
        "limit", "CMP-10", "batch.records[0].length", 61, 0,
    )  # fmt: skip
    assert decode(zstd(raw_record(value=bytes(5 * MIB))), limits=NOTHING)
    inner = raw_message(1, None, bytes(7 * MIB))
    data = raw_message(1, None, gzip.compress(inner), attributes=1)
    assert refusal(data)[:4] == ("limit", "CMP-10", "batch.records[0]", 34)


def test_payloads_are_paid_for_twice() -> None:
    """Decompressed bytes are held once as they are and once as keys and values."""
    one = raw_record(value=bytes(MIB))
    assert decode(zstd(one * 5, record_count=5), limits=NOTHING)
    kind, rule, path, offset, inner = refusal(zstd(one * 9, record_count=9))
    assert (kind, rule, path, offset, inner) == ("limit", "CMP-10", "batch.records", 61, None)
    assert decode(zstd(one * 9, record_count=9), limits=Limits(4 * MIB))


def test_inner_messages_are_paid_for() -> None:
    """Small messages in a wrapper end in kind `limit` at the message that is too much."""
    inner = raw_message(0, None, None) * 100_000
    kind, rule, path, offset, _ = refusal(raw_message(0, None, gzip.compress(inner), attributes=1))
    assert (kind, rule, offset) == ("limit", "CMP-10", 26)
    assert path.startswith("batch.records[")


def test_batches_are_paid_for() -> None:
    """Empty batches cost more than their 61 bytes bring, and those before the end are given."""
    empty = raw_batch(b"", record_count=0)
    data = empty * 40_000
    affordable = budget(data, NOTHING) // BATCH_COST
    with pytest.raises(RecordFormatError) as caught:
        decode(data, limits=NOTHING)
    assert len(caught.value.batches) == affordable < 40_000
    assert (caught.value.kind, caught.value.path, caught.value.offset) == ("limit", "batch", 61 * affordable)
    assert PER_INPUT_BYTE * 61 < BATCH_COST


def test_ordinary_data_is_never_too_much() -> None:
    """Records with a value of some size are decoded whatever the limit is."""
    record = raw_record(key=b"key", value=bytes(100))
    data = raw_batch(record * 10_000, record_count=10_000) * 3
    assert len(decode(data, limits=NOTHING)) == 3
