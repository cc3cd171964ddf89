"""The one error: its texts, its paths and its offsets, as users see them."""

import gzip
import pickle

import pytest

from kafka_corpus.authoring.build import TIMESTAMP, flip, put, raw_batch, raw_header, raw_message, raw_record
from kafka_records import KINDS, Batch, ControlRecord, Limits, Record, RecordFormatError, decode, decode_control, encode
from kafka_records.varint import encode_varint


def failure(data: bytes, limits: Limits | None = None) -> RecordFormatError:
    """The error that `decode` raises."""
    with pytest.raises(RecordFormatError) as caught:
        decode(data, limits=limits or Limits())
    return caught.value


GOOD = raw_record()
# In the fourth record, the key of the only header is longer than what is left.
NESTED = GOOD * 3 + raw_record(
    header_count=encode_varint(1), headers=raw_header(b"key", b"", key_length=encode_varint(99))
)
# What broke, and the whole text.
TEXTS = {
    "size": (
        bytes(12),
        "a size of 0, the least is 14 (at batch.size, byte 8; FRM-05)",
    ),
    "magic": (
        put(raw_batch(GOOD), "magic", -1),
        "magic is -1 (at batch.magic, byte 16; FRM-08)",
    ),
    "overflow": (
        put(raw_batch(GOOD), "batch_length", 2**31 - 1),
        "a size of 2147483647 overflows with its prefix (at batch.size, byte 8; FRM-09)",
    ),
    "short": (
        put(raw_batch(b"")[:60], "batch_length", 48),
        "a batch of 60 bytes, its header takes 61 (at batch.batch_length, byte 8; HDR-05)",
    ),
    "crc": (
        raw_batch(GOOD, crc=7),
        "stored crc 7, computed crc 2559870729 (at batch.crc, byte 17; CRC-07)",
    ),
    "codec": (
        raw_batch(GOOD, attributes=7),
        "unknown compression type id 7 (at batch.attributes, byte 21; ATT-02)",
    ),
    "count": (
        raw_batch(GOOD, record_count=-5),
        "record_count is -5 (at batch.record_count, byte 57; HDR-15)",
    ),
    "too-few": (
        raw_batch(GOOD, record_count=2),
        "record_count is 2, the data ends after 1 (at batch.records[1], byte 73; HDR-13)",
    ),
    "rest": (
        raw_batch(GOOD + b"\0"),
        "1 bytes follow the last record (at batch.records, byte 73; HDR-14)",
    ),
    "record": (
        raw_batch(raw_record(length=b"\x18")),
        "length is 12, 11 bytes are left (at batch.records[0].length, byte 61; REC-03)",
    ),
    "unused": (
        raw_batch(raw_record(tail=b"?")),
        "length is 12, the fields take 11 bytes (at batch.records[0], byte 73; REC-04)",
    ),
    "header": (
        raw_batch(NESTED, record_count=4),
        "key_length claims 99 bytes, 4 are left (at batch.records[3].headers[0].key_length, byte 111; REC-13)",
    ),
    "varint": (
        raw_batch(raw_record(offset_delta=b"\xff" * 5)),
        "offset_delta: the varint does not end within 5 bytes (at batch.records[0].offset_delta, byte 64; VAR-06)",
    ),
    "message": (
        raw_message(1, body=b"\0\0\0\x09"),
        "key_length claims 9 bytes, 0 are left (at batch.key_length, byte 30; LEG-11)",
    ),
    "no-inner": (
        raw_message(0, None, gzip.compress(b""), attributes=1),
        "no inner messages (at batch.records, byte 26, decompressed byte 0; NST-05)",
    ),
    "gzip": (
        raw_batch(GOOD, attributes=1),
        "not in gzip format (at batch.records, byte 61; GZP-01)",
    ),
    "inside-gzip": (
        raw_batch(gzip.compress(GOOD + b"\x04\0"), attributes=1, record_count=2),
        "length is 2, 1 bytes are left (at batch.records[1].length, byte 61, decompressed byte 12; REC-03)",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    """An error says what broke, where it broke, and which rule."""
    data, text = TEXTS[name]
    assert str(failure(data)) == text


@pytest.mark.parametrize("name", TEXTS)
def test_places_are_counted_from_the_first_byte(name: str) -> None:
    """After another batch the same error is that many bytes later, and its `batches` has that batch."""
    data, _ = TEXTS[name]
    before = raw_batch(GOOD)
    alone, second = failure(data), failure(before + data)
    assert second.offset == alone.offset + len(before)
    assert (second.path, second.rule, second.kind, second.inner_offset) == (
        alone.path, alone.rule, alone.kind, alone.inner_offset,
    )  # fmt: skip
    assert (alone.batches, second.batches) == ((), decode(before))


def test_a_value_has_no_offset() -> None:
    """An error in encoding names the field, and no byte."""
    batch = Batch(magic=2, base_offset=0, last_offset=0, records=(Record(0, TIMESTAMP, None, None),) * 2)
    with pytest.raises(RecordFormatError) as caught:
        encode(batch)
    assert str(caught.value) == "offset 0 follows 0 (at batch.records[1].offset; OFF-07)"


def test_a_control_record_counts_from_its_value() -> None:
    """An error in a control record names key or value, and the byte in it."""
    with pytest.raises(RecordFormatError) as caught:
        decode_control(Record(0, 0, bytes(4), b"\xff\xff\0\0\0\0"))
    assert str(caught.value) == "end marker version -1 (at control.value.version, byte 0; TXN-13)"
    assert ControlRecord("abort", {}).key_version == 0


def test_it_is_a_value_error_without_a_cause() -> None:
    """Callers who know nothing of us can catch ValueError, and see one traceback only."""
    error = failure(raw_batch(NESTED, record_count=4))
    assert isinstance(error, ValueError)
    assert (error.__cause__, error.__suppress_context__) == (None, True)


def test_an_error_without_a_path() -> None:
    """An error outside every field is one of the input."""
    error = RecordFormatError("malformed", "it broke", rule="FRM-01")
    assert str(error) == "it broke (at input; FRM-01)"
    assert str(error.inside("batch")) == "it broke (at batch; FRM-01)"


def test_paths_grow_to_the_left() -> None:
    """Each caller puts its segment in front, and indexes cling to what they index."""
    error = RecordFormatError("malformed", "it broke", path="key_length", offset=2, rule="FRM-01")
    assert error.inside("[0]", moved=3).inside("headers").inside("", moved=5).path == "headers[0].key_length"
    assert error.offset == 10
    assert error.decompressed_at(61).inside("batch", moved=100) is error
    assert (error.offset, error.inner_offset) == (161, 10)


def test_an_error_survives_a_process() -> None:
    """Errors cross process boundaries with all that they know."""
    error = failure(raw_batch(GOOD) + TEXTS["inside-gzip"][0])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_kinds_are_named_once() -> None:
    """The kinds are those of the design, and of no other spelling."""
    assert sorted(KINDS) == [
        "corrupt",
        "decompression",
        "limit",
        "malformed",
        "truncated",
        "unsupported_compression",
        "unsupported_magic",
    ]


def test_every_kind_is_raised() -> None:
    """Each kind stands for something that bytes can do."""
    zeros = raw_batch(gzip.compress(bytes(2**26)), attributes=1)
    found = {failure(data).kind for data, _ in TEXTS.values()}
    found.add(failure(flip(raw_batch(GOOD), 70)).kind)
    found.add(failure(zeros, Limits(max_output_bytes=0)).kind)
    assert found == set(KINDS)
