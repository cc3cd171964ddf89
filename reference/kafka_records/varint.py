"""Zig-zag varints: protobuf's sint32 and sint64 (VAR-01, VAR-02).

`(data, at) -> (value, at)`.  Readers take overlong forms, as Kafka does
(VAR-05), and drop the bits that do not fit (VAR-07, VAR-08); writers give the
shortest form (VAR-04).
"""

from __future__ import annotations

from kafka_records.errors import RecordFormatError

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def decode_unsigned(data: bytes, at: int, most: int, field: str) -> tuple[int, int]:
    """Read base-128 groups, least significant first, from at most *most* bytes; more than needed will do (VAR-05)."""
    value = shift = 0
    groups = data[at : at + most]
    for byte in groups:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at + shift // 7
    if len(groups) < most:
        message = f"{field}: the varint needs another byte"
        raise RecordFormatError("truncated", message, path=field, offset=len(data), rule="VAR-11")
    # VAR-06, VAR-08: ByteUtils#readUnsignedVarint, "is too long, the most significant bit
    # in the 5th byte is set"; #readUnsignedVarlong likewise for the 10th.
    message = f"{field}: the varint does not end within {most} bytes"
    rule = "VAR-06" if most == MAX_VARINT_BYTES else "VAR-08"
    raise RecordFormatError("malformed", message, path=field, offset=at, rule=rule)


def decode_varint(data: bytes, at: int, field: str) -> tuple[int, int]:
    """Read a zig-zag int32 of 1 to 5 bytes (VAR-01)."""
    if at + 1 < len(data):
        # One or two bytes are nearly all there is, so they take the short way.
        if (first := data[at]) < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        if (second := data[at + 1]) < 0x80:
            value = first & 0x7F | second << 7
            return (value >> 1) ^ -(value & 1), at + 2
    value, at = decode_unsigned(data, at, MAX_VARINT_BYTES, field)
    value &= 0xFFFFFFFF  # VAR-07: `tmp << 28` lets bits 4 to 6 of the 5th byte fall off
    return (value >> 1) ^ -(value & 1), at


def decode_varlong(data: bytes, at: int, field: str) -> tuple[int, int]:
    """Read a zig-zag int64 of 1 to 10 bytes (VAR-02)."""
    if at + 1 < len(data):
        # One or two bytes are nearly all there is, so they take the short way.
        if (first := data[at]) < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        if (second := data[at + 1]) < 0x80:
            value = first & 0x7F | second << 7
            return (value >> 1) ^ -(value & 1), at + 2
    value, at = decode_unsigned(data, at, MAX_VARLONG_BYTES, field)
    value &= 0xFFFFFFFFFFFFFFFF  # VAR-08: the 10th byte holds one bit of the value
    return (value >> 1) ^ -(value & 1), at


def encode_unsigned(value: int) -> bytes:
    """Write a number from 0 up in base-128 groups, the shortest form."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def encode_varint(value: int) -> bytes:
    """Write an int32 in zig-zag form, 1 to 5 bytes.

    >>> encode_varint(63).hex(), encode_varint(64).hex(), encode_varint(-(2**31)).hex()
    ('7e', '8001', 'ffffffff0f')
    """
    return encode_unsigned((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """Write an int64 in zig-zag form, 1 to 10 bytes."""
    return encode_unsigned((value << 1) ^ (value >> 63))


def sizeof_varint(value: int) -> int:
    """Bytes of the shortest form of an int32 (VAR-12)."""
    return len(encode_varint(value))


def sizeof_varlong(value: int) -> int:
    """Bytes of the shortest form of an int64."""
    return len(encode_varlong(value))
