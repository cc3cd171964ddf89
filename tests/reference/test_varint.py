"""Zig-zag varints: what protobuf calls sint32 and sint64, read as Kafka reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_records import RecordFormatError
from kafka_records.varint import (
    decode_unsigned,
    decode_varint,
    decode_varlong,
    encode_unsigned,
    encode_varint,
    encode_varlong,
    sizeof_varint,
    sizeof_varlong,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
# Golden bytes of ByteUtils (kafka-clients 3.9.0).
GOLDEN = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    8192: "808001",
    1048575: "feff7f",
    1048576: "80808001",
    134217727: "feffff7f",
    134217728: "8080808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
GOLDEN_LONG = GOLDEN | {2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize(("value", "hexed"), GOLDEN.items())
def test_golden_varints(value: int, hexed: str) -> None:
    """Varints are written as Kafka writes them, and read back (VAR-01, VAR-04)."""
    assert encode_varint(value).hex() == hexed
    assert decode_varint(bytes.fromhex(hexed), 0, "it") == (value, len(hexed) // 2)


@pytest.mark.parametrize(("value", "hexed"), GOLDEN_LONG.items())
def test_golden_varlongs(value: int, hexed: str) -> None:
    """Varlongs are written as Kafka writes them, and read back (VAR-02, VAR-04)."""
    assert encode_varlong(value).hex() == hexed
    assert decode_varlong(bytes.fromhex(hexed), 0, "it") == (value, len(hexed) // 2)


@given(INT32, st.binary(max_size=3), st.binary(max_size=3))
def test_every_int32_comes_back(value: int, before: bytes, after: bytes) -> None:
    """A varint is read at its place, and nothing after it."""
    written = encode_varint(value)
    assert decode_varint(before + written + after, len(before), "it") == (value, len(before) + len(written))
    assert len(written) == sizeof_varint(value)


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
def test_every_int64_comes_back(value: int, before: bytes, after: bytes) -> None:
    """A varlong is read at its place, and nothing after it."""
    written = encode_varlong(value)
    assert decode_varlong(before + written + after, len(before), "it") == (value, len(before) + len(written))
    assert len(written) == sizeof_varlong(value)


@given(INT32)
def test_the_shortest_form_is_shortest(value: int) -> None:
    """A written varint ends in a group that is not empty, unless it is the only one."""
    written = encode_varint(value)
    assert len(written) == 1 or written[-1] != 0
    assert all(byte >= 0x80 for byte in written[:-1])
    assert written == encode_varlong(value)


@pytest.mark.parametrize(
    ("most", "size"),
    [(63, 1), (8191, 2), (1048575, 3), (134217727, 4), (2**31 - 1, 5)],
)
def test_size_bands(most: int, size: int) -> None:
    """Non-negative numbers take 1 to 5 bytes in the bands that Kafka's seeds name (VAR-12)."""
    assert sizeof_varint(most) == size
    assert most == 2**31 - 1 or sizeof_varint(most + 1) == size + 1


@given(INT32, st.integers(1, 4))
def test_overlong_varints_are_taken(value: int, more: int) -> None:
    """Empty groups after the last one change nothing, up to 5 bytes (VAR-05)."""
    written = encode_varint(value)
    stretched = written[:-1] + bytes((written[-1] | 0x80,)) + b"\x80" * (more - 1) + b"\x00"
    if len(stretched) <= 5:
        assert decode_varint(stretched, 0, "it") == (value, len(stretched))


@pytest.mark.parametrize("high", [0x10, 0x20, 0x40, 0x70])
def test_bits_above_32_are_dropped(high: int) -> None:
    """Bits 4 to 6 of the fifth byte are not looked at (VAR-07)."""
    assert decode_varint(bytes((0xFE, 0xFF, 0xFF, 0xFF, 0x0F | high)), 0, "it") == (2**31 - 1, 5)
    assert decode_varint(bytes((0x80, 0x80, 0x80, 0x80, high)), 0, "it") == (0, 5)


@pytest.mark.parametrize("high", [0x02, 0x40, 0x7E])
def test_bits_above_64_are_dropped(high: int) -> None:
    """Of the tenth byte only the lowest bit counts (VAR-08)."""
    assert decode_varlong(b"\xfe" + b"\xff" * 8 + bytes((0x01 | high,)), 0, "it") == (2**63 - 1, 10)
    assert decode_varlong(b"\x80" * 9 + bytes((high,)), 0, "it") == (0, 10)


def test_a_sixth_byte_is_refused() -> None:
    """A fifth byte that announces another one is malformed, whether that one is there or not (VAR-06)."""
    for data in (b"\x80" * 5, b"\x80" * 5 + b"\x00", b"\xff" * 9):
        with pytest.raises(RecordFormatError, match="key_length: the varint does not end within 5 bytes") as caught:
            decode_varint(b"\0" + data, 1, "key_length")
        assert (caught.value.kind, caught.value.rule) == ("malformed", "VAR-06")
        assert (caught.value.path, caught.value.offset) == ("key_length", 1)


def test_an_eleventh_byte_is_refused() -> None:
    """A tenth byte that announces another one is malformed (VAR-08)."""
    with pytest.raises(RecordFormatError, match="does not end within 10 bytes") as caught:
        decode_varlong(b"\x80" * 10 + b"\x00", 0, "timestamp_delta")
    assert (caught.value.kind, caught.value.rule, caught.value.offset) == ("malformed", "VAR-08", 0)


@given(INT64, st.data())
def test_a_cut_varint_is_truncated(value: int, data: st.DataObject) -> None:
    """A varint that the data ends in is truncated, and the error stands where a byte is missing (VAR-11)."""
    written = encode_varlong(value)
    cut = data.draw(st.integers(0, len(written) - 1))
    decoders = [decode_varlong] + [decode_varint] * (cut < 5)
    for decode_it in decoders:
        with pytest.raises(RecordFormatError, match="needs another byte") as caught:
            decode_it(b"\0\0" + written[:cut], 2, "it")
        assert (caught.value.kind, caught.value.rule, caught.value.offset) == ("truncated", "VAR-11", 2 + cut)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_groups_come_back(value: int) -> None:
    """Without zig-zag a number is read as it was written (KRF-09)."""
    written = encode_unsigned(value)
    assert decode_unsigned(written, 0, 5, "it") == (value, len(written))
