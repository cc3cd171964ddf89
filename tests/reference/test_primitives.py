"""Nullable byte strings, and the arithmetic of Java's integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_records import RecordFormatError
from kafka_records.primitives import (
    decode_nullable,
    decode_nullable_int32,
    decrement_sequence,
    encode_nullable_int32,
    increment_sequence,
    take,
    wrap_int32,
    wrap_int64,
)
from kafka_records.record import encode_nullable
from kafka_records.varint import encode_varint

NULLABLE = st.none() | st.binary(max_size=80)
SEQUENCES = st.integers(0, 2**31 - 1)


@given(NULLABLE, st.binary(max_size=3))
def test_nullable_bytes_come_back(value: bytes | None, after: bytes) -> None:
    """Null, empty and other byte strings are distinct, in both widths of length (REC-12, LEG-10)."""
    written = encode_nullable(value)
    assert decode_nullable(b"?" + written + after, 1, "it") == (value, 1 + len(written))
    written = encode_nullable_int32(value)
    assert decode_nullable_int32(b"?" + written + after, 1, "it") == (value, 1 + len(written))


@pytest.mark.parametrize("size", [-1, -2, -65, -(2**31)])
def test_every_negative_length_is_null(size: int) -> None:
    """Not only -1 stands for null (REC-10, REC-11, LEG-08, LEG-09)."""
    written = encode_varint(size)
    assert decode_nullable(written + b"rest", 0, "it") == (None, len(written))
    assert decode_nullable_int32(size.to_bytes(4, "big", signed=True) + b"rest", 0, "it") == (None, 4)


@pytest.mark.parametrize("size", [4, 2**31 - 1])
def test_a_length_beyond_the_end_is_refused(size: int) -> None:
    """A length of more than is left is truncated, at the first byte that it claims (REC-13, LEG-11)."""
    written = encode_varint(size)
    with pytest.raises(RecordFormatError, match=f"key_length claims {size} bytes, 3 are left") as caught:
        decode_nullable(written + b"abc", 0, "key_length")
    assert (caught.value.kind, caught.value.rule, caught.value.offset) == ("truncated", "REC-13", len(written))
    with pytest.raises(RecordFormatError, match=f"key_length claims {size} bytes, 3 are left") as caught:
        decode_nullable_int32(size.to_bytes(4, "big") + b"abc", 0, "key_length")
    assert (caught.value.kind, caught.value.rule, caught.value.offset) == ("truncated", "LEG-11", 4)


@pytest.mark.parametrize("there", range(4))
def test_a_cut_int32_length_is_refused(there: int) -> None:
    """A length field of fewer than four bytes is truncated (LEG-03)."""
    with pytest.raises(RecordFormatError, match="value_length needs 4 bytes") as caught:
        decode_nullable_int32(b"??" + bytes(there), 2, "value_length")
    assert (caught.value.kind, caught.value.rule, caught.value.offset) == ("truncated", "LEG-03", 2)


def test_take_gives_exactly_what_is_there() -> None:
    """The last byte can be taken, the one after it cannot."""
    assert take(b"abc", 1, 2, field="it", rule="REC-13") == (b"bc", 3)
    assert take(b"abc", 3, 0, field="it", rule="REC-13") == (b"", 3)
    with pytest.raises(RecordFormatError, match="the length claims 3 bytes, 2 are left"):
        take(b"abc", 1, 3, field="", rule="REC-13")


@given(st.integers(-(2**70), 2**70))
def test_wrapping_is_modular(value: int) -> None:
    """Wrapped numbers fit their width and differ from the number by whole turns."""
    assert -(2**63) <= wrap_int64(value) < 2**63
    assert (wrap_int64(value) - value) % 2**64 == 0
    assert -(2**31) <= wrap_int32(value) < 2**31
    assert (wrap_int32(value) - value) % 2**32 == 0


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0, -1])
def test_what_fits_is_not_wrapped(value: int) -> None:
    """The ends of int64 are themselves."""
    assert wrap_int64(value) == value


@given(SEQUENCES, SEQUENCES)
def test_sequences_count_modulo_2_to_the_31(sequence: int, step: int) -> None:
    """Sequences wrap from 2147483647 to 0, and backwards from 0 to 2147483647 (PID-10)."""
    assert increment_sequence(sequence, step) == (sequence + step) % 2**31
    assert decrement_sequence(sequence, step) == (sequence - step) % 2**31
    assert decrement_sequence(increment_sequence(sequence, step), step) == sequence


def test_a_negative_step_gives_what_java_gives() -> None:
    """Kafka's sum is not made for negative deltas, and we follow it (PID-12)."""
    assert increment_sequence(5, -1) == -2147483644
