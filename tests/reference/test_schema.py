"""Kafka's flexible encoding, as far as control values use it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_records import RecordFormatError
from kafka_records.control import SCHEMAS, VOTER_V1, leader_change
from kafka_records.schema import FIXED, Schema, decode_struct, encode_struct
from kafka_records.varint import encode_unsigned

EVERY_TYPE: Schema = (
    ("small", "i16"),
    ("port", "u16"),
    ("medium", "i32"),
    ("large", "i64"),
    ("id", "uuid"),
    ("text", "string"),
    ("inner", (("it", "i16"),)),
    ("many", [(("it", "string"),)]),
)
ONE_STRING: Schema = (("text", "string"),)


def values(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    """Any fields that *schema* can hold."""
    return st.fixed_dictionaries({name: value(type_) for name, type_ in schema})


def value(type_: Any) -> st.SearchStrategy[Any]:
    """Any value of a type of a schema."""
    match type_:
        case tuple():
            return values(type_)
        case [schema]:
            return st.lists(values(schema), max_size=3).map(tuple)
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "string":
            return st.binary(max_size=200)
    bits = 8 * FIXED[type_].size
    return st.integers(0, 2**bits - 1) if type_[0] == "u" else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@pytest.mark.parametrize("schema", [EVERY_TYPE, leader_change(VOTER_V1), *SCHEMAS.values()])
def test_every_value_comes_back(schema: Schema) -> None:
    """Any value of a schema is read as it was written, and nothing after it."""

    @given(values(schema), st.binary(max_size=3))
    def check(fields: dict[str, Any], after: bytes) -> None:
        written = encode_struct(fields, schema)
        assert decode_struct(b"?" + written + after, 1, schema) == (fields, 1 + len(written))

    check()


def test_every_type_in_bytes() -> None:
    """Fixed types are big-endian, lengths and counts are one more than they say, and tags come last (KRF-09)."""
    fields = {
        "small": -2,
        "port": 65535,
        "medium": 1,
        "large": 2,
        "id": bytes(range(16)),
        "text": b"abc",
        "inner": {"it": 3},
        "many": ({"it": b""}, {"it": b"x"}),
    }
    expected = "fffe ffff 00000001 0000000000000002 000102030405060708090a0b0c0d0e0f 04616263 000300 03 0100 027800 00"
    assert encode_struct(fields, EVERY_TYPE) == bytes.fromhex(expected)


def test_tagged_fields_are_stepped_over() -> None:
    """Fields that a later version may add are skipped, however large (KIP-482)."""
    tags = b"\x02" + b"\x00\x03abc" + encode_unsigned(300) + encode_unsigned(200) + bytes(200)
    assert decode_struct(b"\x03ab" + tags, 0, ONE_STRING) == ({"text": b"ab"}, 3 + len(tags))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"", "text"),
        (b"\x00\x00", "text"),
        (b"\x03a", "text"),
        (b"\xff\xff\xff\xff\x0f", "text"),
        (b"\x80\x80\x80\x80\x80", "text"),
        (b"\x02a", "tagged_fields"),
        (b"\x02a\x01", "tagged_fields"),
        (b"\x02a\x01\x00", "tagged_fields"),
        (b"\x02a\x01\x00\x01", "tagged_fields"),
        (b"\x02a\xff\xff\xff\xff\x0f\x00\x00", "tagged_fields"),
    ],
)
def test_lengths_that_cannot_be(data: bytes, path: str) -> None:
    """Null, too long and missing lengths are refused, and nothing is allocated by them (KRF-09)."""
    with pytest.raises(RecordFormatError) as caught:
        decode_struct(data, 0, ONE_STRING)
    assert caught.value.path == path
    assert caught.value.kind in {"malformed", "truncated"}
    assert 0 <= caught.value.offset <= len(data)


def test_a_count_is_a_promise() -> None:
    """A count of more items than bytes left is refused at once, one of fewer where they end."""
    array: Schema = (("many", [(("it", "i16"),)]),)
    with pytest.raises(RecordFormatError, match="a compact length of 6, 5 bytes are left"):
        decode_struct(b"\x07\x00\x01\x00\x00\x00", 0, array)
    with pytest.raises(RecordFormatError) as caught:
        decode_struct(b"\x06\x00\x01\x00\x00\x02", 0, array)
    assert caught.value.path == "many[1].tagged_fields"
