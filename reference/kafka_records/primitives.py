"""Nullable byte strings and the arithmetic of Kafka's integers.

`(data, at) -> (value, at)`: position in, position out, no cursor.
"""

from __future__ import annotations

from struct import Struct

from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN
from kafka_records.errors import RecordFormatError
from kafka_records.varint import decode_varint

INT32 = Struct(">i")


def take(data: bytes, at: int, size: int, *, field: str, rule: str) -> tuple[bytes, int]:
    """The next *size* bytes; a size larger than the rest allocates nothing."""
    end = at + size
    if end > len(data):
        message = f"{field or 'the length'} claims {size} bytes, {len(data) - at} are left"
        raise RecordFormatError("truncated", message, path=field, offset=at, rule=rule)
    return data[at:end], end


def decode_nullable(data: bytes, at: int, field: str) -> tuple[bytes | None, int]:
    """A varint length called *field* and its bytes; every negative length is null (REC-10, REC-11, REC-20)."""
    size, at = decode_varint(data, at, field)
    if size < 0:
        return None, at
    if at + size > len(data):
        return take(data, at, size, field=field, rule="REC-13")
    return data[at : at + size], at + size


def decode_nullable_int32(data: bytes, at: int, field: str) -> tuple[bytes | None, int]:
    """An int32 length called *field* and its bytes; every negative length is null (LEG-08, LEG-09)."""
    if at + INT32.size > len(data):
        # LEG-03, LEG-11: Kafka runs over the end of the buffer here; we report the missing bytes.
        raise RecordFormatError("truncated", f"{field} needs 4 bytes", path=field, offset=at, rule="LEG-03")
    (size,) = INT32.unpack_from(data, at)
    at += INT32.size
    return (None, at) if size < 0 else take(data, at, size, field=field, rule="LEG-11")


def encode_nullable_int32(value: bytes | None) -> bytes:
    """An int32 length and the bytes; null is -1, which is not the same as empty (LEG-10)."""
    return INT32.pack(-1) if value is None else INT32.pack(len(value)) + value


def wrap_int64(value: int) -> int:
    """*value* as a Java long: sums wrap silently (HDR-26, TIM-01).

    >>> wrap_int64(2**63)
    -9223372036854775808
    """
    if INT64_MIN <= value <= INT64_MAX:
        return value
    return (value - INT64_MIN) % 2**64 + INT64_MIN


def wrap_int32(value: int) -> int:
    """*value* as a Java int."""
    return (value + 2**31) % 2**32 - 2**31


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number *increment* records on, wrapping from 2147483647 to 0 (PID-10).

    Like Kafka, a negative increment gives nonsense (PID-12).

    >>> increment_sequence(2**31 - 1, 1), increment_sequence(2**31 - 2, 3), increment_sequence(5, -1)
    (0, 1, -2147483644)
    """
    # DefaultRecordBatch#incrementSequence, in Java's int arithmetic
    if sequence > wrap_int32(INT32_MAX - increment):
        return wrap_int32(increment - (INT32_MAX - sequence) - 1)
    return wrap_int32(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """The sequence number *decrement* records back, wrapping from 0 to 2147483647.

    >>> decrement_sequence(0, 1)
    2147483647
    """
    if sequence < decrement:
        return wrap_int32(INT32_MAX - (decrement - sequence) + 1)
    return wrap_int32(sequence - decrement)
