"""Which bytes a checksum covers."""

import pytest

from kafka_corpus.authoring.build import flip, raw_batch, raw_message, raw_record
from kafka_records import RecordFormatError, decode
from kafka_records.checksum import checksum_legacy, checksum_v2

BATCH = raw_batch(raw_record(key=b"key"))
# Base offset, size, leader epoch, magic and the CRC itself.
OUTSIDE_V2 = range(21)
OUTSIDE_LEGACY = range(16)


def test_v2_uses_castagnoli() -> None:
    """CRC-32C of the nine digits is the polynomial's check value (CRC-04)."""
    assert checksum_v2(bytes(21) + b"123456789") == 0xE3069283


def test_legacy_uses_ieee() -> None:
    """CRC-32 of the nine digits is zlib's check value (LEG-04)."""
    assert checksum_legacy(bytes(16) + b"123456789") == 0xCBF43926


@pytest.mark.parametrize("at", range(len(BATCH)))
def test_v2_scope_starts_at_the_attributes(at: int) -> None:
    """A bit counts from byte 21 to the end, and nowhere else (CRC-01, CRC-02)."""
    assert (checksum_v2(flip(BATCH, at)) == checksum_v2(BATCH)) == (at in OUTSIDE_V2)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_scope_starts_at_the_magic(magic: int) -> None:
    """A bit counts from byte 16 to the end of the sized message, slack included (LEG-04 to LEG-06)."""
    message = raw_message(magic, b"k", b"v", tail=b"slack")
    for at in range(len(message)):
        assert (checksum_legacy(flip(message, at)) == checksum_legacy(message)) == (at in OUTSIDE_LEGACY), at


@pytest.mark.parametrize("at", [17, 20, 21, 60, len(BATCH) - 1])
def test_a_flipped_bit_is_corrupt_in_v2(at: int) -> None:
    """A flipped bit in the CRC or after it is found before anything else is read (CRC-07)."""
    with pytest.raises(RecordFormatError, match=r"stored crc \d+, computed crc \d+") as caught:
        decode(flip(BATCH, at))
    assert (caught.value.kind, caught.value.rule) == ("corrupt", "CRC-07")
    assert (caught.value.path, caught.value.offset) == ("batch.crc", 17)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("at", [12, 15, 17, -1])
def test_a_flipped_bit_is_corrupt_in_a_message(magic: int, at: int) -> None:
    """A flipped bit in the CRC or after it is found before anything else is read (LEG-04)."""
    message = raw_message(magic, b"k", b"v", tail=b"slack")
    with pytest.raises(RecordFormatError, match=r"stored crc \d+, computed crc \d+") as caught:
        decode(flip(message, at % len(message)))
    assert (caught.value.kind, caught.value.rule) == ("corrupt", "LEG-04")
    assert (caught.value.path, caught.value.offset) == ("batch.crc", 12)


@pytest.mark.parametrize("at", [0, 7, 12, 15])
def test_brokers_may_change_bytes_outside(at: int) -> None:
    """Base offset and leader epoch change without the CRC (CRC-11)."""
    assert decode(flip(BATCH, at))[0].records[0].value == b"value"


def test_the_crc_is_unsigned() -> None:
    """A CRC of 2^31 and more is compared as what it is (LEG-07, CRC-04)."""
    values = [b"%d" % number for number in range(16)]
    batches = [raw_batch(raw_record(value=value)) for value in values]
    messages = [raw_message(magic, None, value) for value in values for magic in (0, 1)]
    assert {batch[17] >= 0x80 for batch in batches} == {message[12] >= 0x80 for message in messages} == {True, False}
    for data in (*batches, *messages):
        assert len(decode(data)) == 1
