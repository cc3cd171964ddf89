"""Bytes that parse with another reading, too: only the data shows which one was used.

A field that is read with the wrong type or the wrong encoding usually runs out of
bytes, so that the codec refuses the input.  Here the rest of the record still
parses after the misreading, with other content.  Bad sizes stand over a sound
payload, so that nothing but the test of the size refuses them.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    TIMESTAMP,
    expected,
    grid,
    packed,
    put,
    raw_header,
    raw_message,
    raw_record,
    record,
    sealed,
)
from kafka_corpus.authoring.messages import record_of, single_batch
from kafka_corpus.cases.decode.framing import BAD_SIZE, MAGICS, decoded, entry
from kafka_corpus.registry import Draft, case, invalid, valid
from kafka_records import Kind
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.layout import ENTRY
from kafka_records.varint import encode_varint

STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated")
CODECS: Final = {"none": "none", "gzip": "gzip"}
INT32_MIN: Final = -(2**31)
Headers = tuple[tuple[bytes, bytes | None], ...]


def _one_record(codec: Compression, *, key: bytes | None = None, value: bytes | None, headers: Headers = ()) -> Draft:
    """A valid batch of one record."""
    batch = expected(record(value, key=key, headers=headers), compression=codec)
    return valid(sealed(batch), batch)


@case("REC-01", "VAR-03", each=CODECS)
def key_length_without_zigzag(codec: Compression) -> Draft:
    """A key length that is read without zig-zag takes the value's length and three bytes of it into the key."""
    inside = b"another value"
    return _one_record(codec, key=b"keys", value=b"abc" + encode_varint(len(inside)) + inside)


@case("REC-01", "VAR-03", each=CODECS)
def value_length_without_zigzag(codec: Compression) -> Draft:
    """A value length that is read without zig-zag takes the header count and the start of the header into the value."""
    key = b"ab" + encode_varint(1) + encode_varint(1) + b"x"
    return _one_record(codec, value=b"four", headers=((key, b"y"),))


@case("REC-01", "VAR-03", each=CODECS)
def header_key_length_without_zigzag(codec: Compression) -> Draft:
    """A header key length that is read without zig-zag takes the start of the header's value into the key."""
    inside = b"another value"
    return _one_record(codec, value=b"value", headers=((b"key", b"ab" + encode_varint(len(inside)) + inside),))


@case("REC-01", "VAR-03", each=CODECS)
def header_value_length_without_zigzag(codec: Compression) -> Draft:
    """A header value length that is read without zig-zag takes the start of the next header into the value."""
    second = (b"ab" + encode_varint(1) + b"c", b"")
    return _one_record(codec, value=b"value", headers=((b"first", b"one"), second))


@case("REC-10", "VAR-03", each=CODECS)
def null_key_without_zigzag(codec: Compression) -> Draft:
    """A null key whose length is read without zig-zag is one byte long: the value's length."""
    inside = b"another value"
    return _one_record(codec, value=encode_varint(len(inside)) + inside)


def _int32(number: int) -> bytes:
    return number.to_bytes(4, "big")


@case("LEG-02", each={"no-more": b"", "a-name": b"there"})
def v1_timestamp_of_four_bytes(more: bytes) -> Draft:
    """A v1 timestamp that is read as an int32 leaves a key length of 4, and the key's own length becomes the key."""
    value = b"value"
    key = _int32(len(more) + 4 + len(value)) + more
    timestamp = 0x18B << 32 | 4
    made = record_of(1, 0, key, value, timestamp=timestamp)
    return valid(raw_message(1, key, value, timestamp=timestamp), single_batch(made, 1))


@case("FRM-03", "LEG-01")
def v0_message_with_the_fields_of_v1() -> Draft:
    """A v0 message whose key holds a length, a key and a length has the fields of v1, too; its magic decides."""
    value = b"value"
    key = b"time" + _int32(1) + b"k" + _int32(4 + len(value))
    return valid(raw_message(0, key, value), single_batch(record_of(0, 0, key, value), 0))


@case("FRM-03", "LEG-02")
def v1_message_with_the_fields_of_v0() -> Draft:
    """A v1 message whose value holds a length at the right place has the fields of v0, too; its magic decides."""
    # As v0, the high half of the timestamp is the key's length: it ends inside the value.
    length = TIMESTAMP >> 32
    inside = b"another value"
    value = bytes(length - 12) + _int32(len(inside)) + inside
    return valid(raw_message(1, None, value), single_batch(record_of(1, 0, None, value, timestamp=TIMESTAMP), 1))


@case("REC-18", each=grid(codec={codec: codec for codec in COMPRESSIONS}, followed={"alone": False, "followed": True}))
def header_key_of_minus_one_at_the_end(row: dict[str, Any]) -> Draft:
    """A header key length of -1 as the last byte of a record is refused, though no byte is missing for it."""
    payload = raw_record(header_count=encode_varint(1), headers=encode_varint(-1))
    after = raw_record(offset_delta=1) if row["followed"] else b""
    return invalid(packed(row["codec"], payload + after, record_count=1 + row["followed"]), *STRUCTURE)


@case("REC-18", each=CODECS)
def header_key_of_minus_one_before_its_value(codec: Compression) -> Draft:
    """A header key length of -1 is refused, though the value after it is sound."""
    headers = raw_header(None, b"value of no key")
    return invalid(packed(codec, raw_record(header_count=encode_varint(1), headers=headers)), *STRUCTURE)


SIZES: Final = {"INT32_MIN": INT32_MIN, "-13": -13, "-12": -12, "-1": -1, "0": 0, "1": 1, "13": 13}


@case("FRM-05", each=grid(magic=MAGICS, size=SIZES))
def low_size_over_a_sound_entry(row: dict[str, Any]) -> Draft:
    """A size below 14 is refused, though the entry and the one after it are sound."""
    data = put(entry(row["magic"]), "size", row["size"], layout=ENTRY) + entry(row["magic"], 1)
    return invalid(data, *BAD_SIZE)


AFTER: Final = grid(magic=MAGICS, size=SIZES)
# `framing.low_size_of_the_second_entry` has these.
AFTER_FRAMING: Final = frozenset({"v2--1", "v2-0", "v2-13"})


@case("FRM-05", each={name: row for name, row in AFTER.items() if name not in AFTER_FRAMING})
def low_size_after_a_sound_entry(row: dict[str, Any]) -> Draft:
    """A size below 14 of a second, sound entry is refused, and the first is read."""
    data = entry(row["magic"]) + put(entry(row["magic"], 1), "size", row["size"], layout=ENTRY)
    return invalid(data, *BAD_SIZE, before=(decoded(row["magic"]),))


BLOCKS: Final = {"lz4": "lz4", "snappy": "snappy", "zstd": "zstd"}


def _two_records(codec: Compression, count: int) -> Draft:
    payload = raw_record(value=b"first") + raw_record(offset_delta=1, value=b"second")
    return invalid(packed(codec, payload, record_count=count, last_offset_delta=1), *STRUCTURE)


@case("HDR-15", each=grid(codec=BLOCKS, count={"INT32_MIN": INT32_MIN, "-2": -2, "-1": -1}))
def negative_count_over_sound_records(row: dict[str, Any]) -> Draft:
    """A negative record count over two sound records is refused in each compression."""
    return _two_records(row["codec"], row["count"])


@case("HDR-13", each=grid(codec=BLOCKS | {"gzip": "gzip"}, count={"4": 4, "100": 100, "65536": 65_536}))
def count_above_sound_records(row: dict[str, Any]) -> Draft:
    """A record count above two sound records is an error in each compression."""
    return _two_records(row["codec"], row["count"])
