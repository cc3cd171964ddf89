"""The little of Kafka's flexible message encoding (KIP-482) that control values use.

A schema is a tuple of (name, type); a type is a name of `FIXED`, `uuid`,
`string`, or a one-element list (a compact array of a schema) or a tuple (a
schema in place).  Lengths and counts are *unsigned* varints plus one (KRF-09), and every
schema ends in tagged fields, which are skipped on reading and written as none.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any, Final

from kafka_records.errors import RecordFormatError
from kafka_records.primitives import take
from kafka_records.varint import decode_unsigned, encode_unsigned

Schema = tuple[tuple[str, Any], ...]
FIXED: Final = {name: Struct(f">{letter}") for name, letter in {"i16": "h", "u16": "H", "i32": "i", "i64": "q"}.items()}
UUID_BYTES: Final = 16
MAX_UNSIGNED_BYTES: Final = 5


def decode_struct(data: bytes, at: int, schema: Schema) -> tuple[dict[str, Any], int]:
    """Read the fields of *schema* and the tagged fields after them."""
    fields: dict[str, Any] = {}
    for name, type_ in schema:
        try:
            fields[name], at = decode_schema_value(data, at, type_)
        except RecordFormatError as error:
            raise error.inside(name) from None
    return fields, skip_tagged_fields(data, at)


def decode_schema_value(data: bytes, at: int, type_: Any) -> tuple[Any, int]:
    """Read one value of any type of a schema."""
    match type_:
        case tuple():
            return decode_struct(data, at, type_)
        case [schema]:
            return decode_array(data, at, schema)
        case "uuid":
            return take(data, at, UUID_BYTES, field="", rule="KRF-08")
        case "string":
            size, at = decode_length(data, at)
            return take(data, at, size, field="", rule="KRF-09")
    fixed, end = take(data, at, FIXED[type_].size, field="", rule="KRF-09")
    return FIXED[type_].unpack(fixed)[0], end


def decode_length(data: bytes, at: int) -> tuple[int, int]:
    """A compact length: one more than it says; 0 would be null, which none of ours may be."""
    length, end = decode_unsigned(data, at, MAX_UNSIGNED_BYTES, "")
    if length == 0 or length - 1 > len(data) - end:
        message = f"a compact length of {length - 1}, {len(data) - end} bytes are left"
        raise RecordFormatError("malformed", message, offset=at, rule="KRF-09")
    return length - 1, end


def decode_array(data: bytes, at: int, schema: Schema) -> tuple[tuple[dict[str, Any], ...], int]:
    """A compact array; its count is at most the bytes that are left, so it cannot run away."""
    count, at = decode_length(data, at)
    items = []
    for index in range(count):
        try:
            item, at = decode_struct(data, at, schema)
        except RecordFormatError as error:
            raise error.inside(f"[{index}]") from None
        items.append(item)
    return tuple(items), at


def skip_tagged_fields(data: bytes, at: int) -> int:
    """Skip (tag, size, bytes) as often as the count says."""
    count, at = decode_unsigned(data, at, MAX_UNSIGNED_BYTES, "tagged_fields")
    for _ in range(min(count, len(data) - at + 1)):
        _, at = decode_unsigned(data, at, MAX_UNSIGNED_BYTES, "tagged_fields")
        size, at = decode_unsigned(data, at, MAX_UNSIGNED_BYTES, "tagged_fields")
        _, at = take(data, at, size, field="tagged_fields", rule="KRF-09")
    return at


def encode_struct(fields: dict[str, Any], schema: Schema) -> bytes:
    """Write the fields of *schema* and no tagged fields."""
    return b"".join(encode_value(fields[name], type_) for name, type_ in schema) + b"\x00"


def encode_value(value: Any, type_: Any) -> bytes:
    """Write one value of any type of a schema."""
    match type_:
        case tuple():
            return encode_struct(value, type_)
        case [schema]:
            return encode_unsigned(len(value) + 1) + b"".join(encode_struct(item, schema) for item in value)
        case "uuid":
            if len(value) != UUID_BYTES:
                raise StructError(f"a uuid takes {UUID_BYTES} bytes, not {len(value)}")
            return bytes(value)
        case "string":
            return encode_unsigned(len(value) + 1) + bytes(value)
    return FIXED[type_].pack(value)
