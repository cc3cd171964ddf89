"""v2 records and their headers, each rule at the byte where it is broken."""

from collections.abc import Callable

import pytest

from kafka_corpus.authoring.build import TIMESTAMP, overlong_varint, raw_batch, raw_header, raw_record
from kafka_records import Batch, Header, Record, RecordFormatError, decode
from kafka_records.varint import encode_varint

ThreeWays = Callable[[bytes], tuple[Batch, ...]]


def one(record: bytes, **fields: int) -> Record:
    """The only record of a batch that holds *record*."""
    ((result,),) = (batch.records for batch in decode(raw_batch(record, **fields)))
    return result


def failure(record: bytes, **fields: int) -> RecordFormatError:
    """The error that a batch around *record* raises."""
    with pytest.raises(RecordFormatError) as caught:
        decode(raw_batch(record, **fields))
    return caught.value


def facts(error: RecordFormatError) -> tuple[str, str, str, int]:
    """The parts of an error that tests compare: kind, rule, the path below the record, and the offset in the record."""
    assert error.batches == ()
    path = error.path.removeprefix("batch.records[0]").removeprefix(".")
    return error.kind, error.rule, path, error.offset - 61


def test_all_fields_are_read(three_ways: ThreeWays) -> None:
    """A record has its offset and time from its batch, and all else of its own (REC-01, OFF-01, TIM-01)."""
    headers = raw_header(b"h", None) + raw_header(b"", b"") + raw_header(b"h", b"\x00\xff")
    record = raw_record(
        attributes=0x7F, timestamp_delta=-3, offset_delta=70, key=b"", value=None, header_count=b"\x06", headers=headers
    )
    (batch,) = three_ways(raw_batch(record, base_offset=7))

    expected = (Header(b"h", None), Header(b"", b""), Header(b"h", b"\x00\xff"))
    assert batch.records == (Record(77, TIMESTAMP - 3, b"", None, expected),)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192])
def test_lengths_of_every_width(size: int) -> None:
    """Keys, values, header keys and header values may take any number of bytes."""
    text = bytes(size)
    record = one(raw_record(key=text, value=text, header_count=b"\x02", headers=raw_header(text, text)))
    assert record[2:] == (text, text, (Header(text, text),))


def test_negative_lengths_are_null() -> None:
    """Every negative key, value or header value length is null (REC-10, REC-11, REC-20)."""
    minus = encode_varint(-7)
    headers = raw_header(b"k", None, value_length=minus)
    record = one(raw_record(key_length=minus, value=None, value_length=minus, header_count=b"\x02", headers=headers))
    assert record == Record(0, TIMESTAMP, None, None, (Header(b"k", None),))


def test_overlong_varints_are_taken_in_every_field() -> None:
    """Five bytes for an int32 and ten for an int64 are as good as one (VAR-05)."""
    headers = raw_header(b"k", b"v", key_length=overlong_varint(1, 5), value_length=overlong_varint(1, 5))
    plain = raw_record(
        timestamp_delta=overlong_varint(5, 10),
        offset_delta=overlong_varint(1, 5),
        key_length=overlong_varint(3, 5),
        key=b"key",
        value_length=overlong_varint(5, 5),
        header_count=overlong_varint(1, 5),
        headers=headers,
    )
    stretched = (
        overlong_varint(len(plain) - len(encode_varint(len(plain) - 1)), 5)
        + plain[len(encode_varint(len(plain) - 1)) :]
    )
    expected = Record(1, TIMESTAMP + 5, b"key", b"value", (Header(b"k", b"v"),))
    assert one(plain) == expected
    assert one(stretched) == expected


@pytest.mark.parametrize(("base", "delta", "expected"), [(2**63 - 1, 1, -(2**63)), (-(2**63), -1, 2**63 - 1)])
def test_sums_wrap_around(base: int, delta: int, expected: int) -> None:
    """Offsets and timestamps beyond int64 wrap silently (HDR-26, TIM-01)."""
    assert one(raw_record(offset_delta=delta), base_offset=base).offset == expected
    assert one(raw_record(timestamp_delta=delta), base_timestamp=base).timestamp == expected


def test_log_append_time_overrides() -> None:
    """With LogAppendTime every record has the batch's max timestamp (TIM-02, TIM-20)."""
    for attributes in (0x08, 0x48):
        assert one(raw_record(timestamp_delta=5), attributes=attributes, max_timestamp=9).timestamp == 9


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (b"\x01", ("malformed", "REC-07", "length", 0)),
        (encode_varint(-(2**31)), ("malformed", "REC-07", "length", 0)),
        (b"\x00", ("malformed", "REC-09", "length", 1)),
        (encode_varint(12), ("truncated", "REC-03", "length", 0)),
        (encode_varint(2**31 - 1), ("truncated", "REC-03", "length", 0)),
        (b"\x80" * 5, ("malformed", "VAR-06", "length", 0)),
    ],
    ids=["minus-one", "smallest", "zero", "one-too-many", "largest", "too-long"],
)
def test_record_lengths_that_cannot_be(length: bytes, expected: tuple[str, str, str, int]) -> None:
    """A record's length is checked before anything is read or allocated by it."""
    assert len(raw_record()) == 12
    assert facts(failure(raw_record(length=length))) == expected


@pytest.mark.parametrize("slack", [b"\x00", b"\x00" * 40])
def test_a_length_that_is_not_used_up_is_refused(slack: bytes) -> None:
    """Bytes between the last header and the end of the record are an error (REC-04, REC-17)."""
    assert facts(failure(raw_record(tail=slack))) == ("malformed", "REC-04", "", 12)


def test_a_length_that_ends_early_is_refused() -> None:
    """A record is cut to its length: fields do not reach into the next one (REC-02, REC-05)."""
    record = raw_record()
    short = encode_varint(len(record) - 2) + record[1:]
    assert facts(failure(short + record, record_count=2)) == ("truncated", "VAR-11", "header_count", 11)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"timestamp_delta": b"\x80" * 10}, ("malformed", "VAR-08", "timestamp_delta", 2)),
        ({"offset_delta": b"\x80" * 5}, ("malformed", "VAR-06", "offset_delta", 3)),
        ({"key_length": encode_varint(8)}, ("truncated", "REC-13", "key_length", 5)),
        ({"key_length": b"\xff" * 6}, ("malformed", "VAR-06", "key_length", 4)),
        ({"value_length": encode_varint(7)}, ("truncated", "REC-13", "value_length", 6)),
        ({"header_count": b"\x01"}, ("malformed", "REC-14", "header_count", 11)),
        ({"header_count": b"\x02"}, ("malformed", "REC-15", "header_count", 11)),
        ({"header_count": encode_varint(2**31 - 1)}, ("malformed", "REC-15", "header_count", 11)),
        ({"header_count": b""}, ("truncated", "VAR-11", "header_count", 11)),
    ],
    ids=[
        "timestamp-too-long",
        "offset-too-long",
        "key-too-long",
        "key-length-too-long",
        "value-too-long",
        "minus-one-headers",
        "one-header-too-many",
        "most-headers",
        "no-header-count",
    ],
)
def test_fields_that_cannot_be(changed: dict[str, bytes], expected: tuple[str, str, str, int]) -> None:
    """Each field is refused where it stands, by its name."""
    assert facts(failure(raw_record(**changed))) == expected  # type: ignore[arg-type]  # a dict of mixed parameters


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (raw_header(b"", b"", key_length=b"\x01"), ("malformed", "REC-18", "headers[1].key_length", 16)),
        (raw_header(b"a", b"", key_length=b"\x08"), ("truncated", "REC-13", "headers[1].key_length", 17)),
        (raw_header(b"a", b"", value_length=b"\x02"), ("truncated", "REC-13", "headers[1].value_length", 19)),
        (b"\x02a", ("truncated", "VAR-11", "headers[1].value_length", 18)),
        (b"\x80" * 5, ("malformed", "VAR-06", "headers[1].key_length", 16)),
    ],
    ids=["null-key", "key-too-long", "value-too-long", "no-value", "length-too-long"],
)
def test_headers_that_cannot_be(headers: bytes, expected: tuple[str, str, str, int]) -> None:
    """A broken header is refused by its index (REC-13, REC-18)."""
    record = raw_record(header_count=b"\x04", headers=raw_header(b"k", b"v") + headers)
    assert facts(failure(record)) == expected


def test_fewer_headers_than_promised() -> None:
    """A count of more headers than there are runs into the end of the record (REC-15)."""
    record = raw_record(header_count=b"\x06", headers=raw_header(b"key", b"v"))
    assert facts(failure(record)) == ("truncated", "VAR-11", "headers[1].key_length", len(record))


def test_a_missing_header_count_is_not_zero() -> None:
    """The count is there even when it is 0 (A03, REC-16)."""
    assert one(raw_record(header_count=b"\x00")).headers == ()
    assert failure(raw_record(header_count=b"")).path.endswith("header_count")


@pytest.mark.parametrize("key", [b"\xff\xfe", b"\xed\xa0\x80", b"\x00"])
def test_header_keys_stay_bytes(key: bytes) -> None:
    """Keys that are not UTF-8 are given as they are (REC-21, REC-23)."""
    assert one(raw_record(header_count=b"\x02", headers=raw_header(key, b""))).headers == (Header(key, b""),)


def test_every_cut_of_a_record_is_refused() -> None:
    """A batch whose records end early is refused at any byte, with length and CRC right."""
    record = raw_record(key=b"key", header_count=b"\x04", headers=raw_header(b"a", b"b") + raw_header(b"c", None))
    records = record + record
    for cut in range(len(records)):
        error = failure(records[:cut], record_count=2)
        assert error.kind == "truncated", cut
        assert 61 <= error.offset <= 61 + cut
        assert error.path.startswith(f"batch.records[{int(cut >= len(record))}]")
