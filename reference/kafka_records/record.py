"""v2 records and their headers.

    length varint | attributes i8 | timestamp_delta varlong | offset_delta varint
    key_length varint | key | value_length varint | value | header_count varint | headers

REC-01, seed 002:153-164, DefaultRecord's javadoc.  A record is cut to its
length, and the length must be used up exactly (REC-02, REC-04, REC-05).
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_records.budget import HEADER_COST, out_of_room, pay
from kafka_records.constants import INT32_MAX
from kafka_records.errors import RecordFormatError
from kafka_records.model import Header, Record
from kafka_records.primitives import decode_nullable, wrap_int64
from kafka_records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong


class Base(NamedTuple):
    """The values that a record takes from its batch; *append_time* is None unless LogAppendTime."""

    offset: int
    timestamp: int
    append_time: int | None = None


def decode_record(data: bytes, at: int, base: Base, room: int) -> tuple[Record, int]:
    """Read the record at *at*; *room* is the part of the memory budget that it may take."""
    length, start = decode_varint(data, at, "length")
    end = start + length
    if length < 0 or end > len(data):
        raise bad_length(length, len(data) - start, at)
    if length > room:
        raise out_of_room(at, "length")  # the body is copied, while it is read
    try:
        record, used = decode_body(data[start:end], base, room - length)
        if used != length:
            # REC-04, REC-17: DefaultRecord#readFrom "expected to read N bytes ... instead read M"
            message = f"length is {length}, the fields take {used} bytes"
            raise RecordFormatError("malformed", message, offset=used, rule="REC-04")
    except RecordFormatError as error:
        raise error.inside("", moved=start) from None
    return record, end


def bad_length(length: int, left: int, at: int) -> RecordFormatError:
    """A length that cannot be, found out before anything is copied or allocated."""
    if length < 0:
        # REC-07: Kafka's compressed path tries to allocate this; both its paths refuse in the end.
        return RecordFormatError("malformed", f"length is {length}", path="length", offset=at, rule="REC-07")
    # REC-03, REC-05, REC-08: "Invalid record size: expected N bytes in record payload"
    message = f"length is {length}, {left} bytes are left"
    return RecordFormatError("truncated", message, path="length", offset=at, rule="REC-03")


def decode_body(body: bytes, base: Base, room: int) -> tuple[Record, int]:
    """Read the fields of a record's body; the position says how far they reach."""
    if not body:
        raise RecordFormatError("malformed", "the record has no body", path="length", offset=0, rule="REC-09")
    # ATT-15: byte 0 is the attributes; writers put 0 there, readers do not look.
    timestamp_delta, at = decode_varlong(body, 1, "timestamp_delta")
    offset_delta, at = decode_varint(body, at, "offset_delta")
    key, at = decode_nullable(body, at, "key_length")
    value, at = decode_nullable(body, at, "value_length")
    headers, at = decode_headers(body, at, room)
    base_offset, base_timestamp, append_time = base
    # OFF-01, HDR-26; TIM-01, TIM-02: LogAppendTime overrides every record's own time.
    offset = wrap_int64(base_offset + offset_delta)
    timestamp = wrap_int64(base_timestamp + timestamp_delta) if append_time is None else append_time
    return Record(offset, timestamp, key, value, headers), at


def decode_headers(body: bytes, at: int, room: int) -> tuple[tuple[Header, ...], int]:
    """Read the header count and the headers (REC-16, A03: the count is there even when it is 0)."""
    counted_at = at
    count, at = decode_varint(body, at, "header_count")
    if count == 0:
        return (), at
    if count < 0 or count > len(body) - at:
        # REC-14, REC-15: "Found invalid number of record headers"; nothing is allocated by it.
        rule = "REC-14" if count < 0 else "REC-15"
        message = f"header_count is {count}, {len(body) - at} bytes are left"
        raise RecordFormatError("malformed", message, path="header_count", offset=counted_at, rule=rule)
    pay(room, count * HEADER_COST, offset=counted_at, path="header_count")
    headers = []
    for index in range(count):
        try:
            header, at = decode_record_header(body, at)
        except RecordFormatError as error:
            raise error.inside(f"headers[{index}]") from None
        headers.append(header)
    return tuple(headers), at


def decode_record_header(body: bytes, at: int) -> tuple[Header, int]:
    """Read one header: a key that may be empty but not null, and a nullable value."""
    key, after_key = decode_nullable(body, at, "key_length")
    if key is None:
        # REC-18: DefaultRecord#readHeaders "Invalid negative header key size"
        raise RecordFormatError("malformed", "key_length is negative", path="key_length", offset=at, rule="REC-18")
    # REC-19, REC-21, REC-23: empty, repeated and non-UTF-8 keys are all taken as they are.
    value, at = decode_nullable(body, after_key, "value_length")
    return Header(key, value), at


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """Write a record relative to its batch, varints in their shortest form (VAR-04, REC-26)."""
    offset_delta = record.offset - base_offset  # OFF-09: may be below 0
    if not -INT32_MAX - 1 <= offset_delta <= INT32_MAX:
        # OFF-08: MemoryRecordsBuilder#recordWritten "Maximum offset delta exceeded"
        raise RecordFormatError("malformed", f"offset delta {offset_delta} exceeds int32", path="offset", rule="OFF-08")
    body = b"".join(
        (
            b"\x00",  # ATT-15
            encode_varlong(wrap_int64(record.timestamp - base_timestamp)),
            encode_varint(offset_delta),
            encode_nullable(record.key),
            encode_nullable(record.value),
            encode_varint(len(record.headers)),
            *(encode_nullable(header.key) + encode_nullable(header.value) for header in record.headers),
        )
    )
    return encode_varint(len(body)) + body  # REC-02


def encode_nullable(value: bytes | None) -> bytes:
    """A varint length and the bytes; null is -1, which is not the same as empty (REC-12)."""
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value
