"""v0 messages (Kafka 0.8): crc, magic, attributes, key, value; no timestamp (group LEG)."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from kafka_corpus.authoring.build import TIMESTAMP, flip, put, raw_message, reseal_message
from kafka_corpus.authoring.messages import record_of, single_batch
from kafka_corpus.registry import Draft, acceptable, case, invalid, valid
from kafka_records import Kind
from kafka_records.layout import MESSAGE_V0

STRUCTURE: Final[tuple[Kind, ...]] = ("truncated", "malformed")
# Every field that the CRC covers, by the byte that is changed; the key is `key`, the value `value`.
COVERED = {
    "attributes": (17, 0x40),
    "key_length": (21, 0x01),
    "key": (22, 0x01),
    "value_length": (28, 0x01),
    "value": (33, 0x80),
}
LENGTHS = {"minus-1": -1, "minus-2": -2, "minus-100": -100, "least": -(2**31)}
TOO_LONG = {"by-1": 1, "by-4": 4, "by-1000": 1000, "by-all": 2**31 - 1 - 100}


def sized(length: int, content: bytes = b"") -> bytes:
    """An int32 length and its bytes."""
    return length.to_bytes(4, "big", signed=True) + content


@case("LEG-01", "FRM-01")
def golden_message() -> Draft:
    """A v0 message with key and value is 14 bytes of fields and lengths, and the key and value."""
    data = bytes.fromhex("0000000000000000000000162356c1370000000000036b65790000000576616c7565")
    return valid(data, single_batch(record_of(0, 0, b"key"), 0))


@case("LEG-01")
def smallest_message() -> Draft:
    """A message with neither key nor value is 14 bytes long, the least there can be."""
    data = bytes.fromhex("00000000000000010000000ea7ec68030000ffffffffffffffff")
    return valid(data, single_batch(record_of(0, 1, None, None), 0))


@case("LEG-01", each={"thirteen": 13, "zero": 0, "one": 1, "negative": -1, "least": -(2**31)})
def size_below_smallest(size: int) -> Draft:
    """A message size below 14 cannot be."""
    return invalid(put(raw_message(0, b"key"), "message_size", size, layout=MESSAGE_V0), "malformed", "corrupt")


@case("LEG-04", each=COVERED)
def crc_covers(change: tuple[int, int]) -> Draft:
    """The CRC covers everything from the magic to the end of the value."""
    return invalid(flip(raw_message(0, b"key"), *change), "corrupt")


@case("LEG-04", each={"crc-high": (12, 0x80), "crc-low": (15, 0x01)})
def crc_itself_changed(change: tuple[int, int]) -> Draft:
    """A stored CRC with one bit turned over does not match."""
    return invalid(flip(raw_message(0, b"key"), *change), "corrupt")


@case("LEG-04", each={"zero": 0, "all-ones": 0xFFFFFFFF})
def crc_placeholder(crc: int) -> Draft:
    """A CRC that was never filled in does not match."""
    return invalid(raw_message(0, b"key", crc=crc), "corrupt")


@case("LEG-04", "CRC-01")
def crc_is_not_castagnoli() -> Draft:
    """The polynomial of v2, CRC-32C, is wrong for v0."""
    data = raw_message(0, b"key")
    return invalid(put(data, "crc", castagnoli(data[16:]), layout=MESSAGE_V0), "corrupt")


def castagnoli(data: bytes) -> int:
    """CRC-32C bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@case("LEG-04", each={"includes-the-size": 8, "includes-the-offset": 0, "skips-the-magic": 17})
def crc_over_the_wrong_bytes(start: int) -> Draft:
    """A CRC that starts anywhere but at the magic does not match."""
    data = raw_message(0, b"key", crc=0)
    return invalid(put(data, "crc", crc32(data[start:]), layout=MESSAGE_V0), "corrupt")


@case("LEG-05")
def crc_covers_slack() -> Draft:
    """The CRC runs to the end of the sized message, not only to the end of the value."""
    whole, short = raw_message(0, b"key", tail=b"slack"), raw_message(0, b"key")
    crc = int.from_bytes(short[12:16], "big")
    return invalid(put(whole, "crc", crc, layout=MESSAGE_V0), "corrupt", "malformed")


@case("LEG-06", each={"seven": 7, "large": 2**40, "largest": 2**63 - 1})
def offset_outside_crc(offset: int) -> Draft:
    """The offset is outside the CRC, so a broker may set it without touching the message."""
    data = put(raw_message(0, b"key", offset=100), "offset", offset, layout=MESSAGE_V0)
    return valid(data, single_batch(record_of(0, offset, b"key"), 0))


@case("LEG-06")
def negative_offset() -> Draft:
    """A producer may send an offset of -1; it is read as it stands."""
    data = raw_message(0, b"key", offset=-1)
    return acceptable(
        data, single_batch(record_of(0, -1, b"key"), 0), kinds=("malformed",), why="no log holds an offset below 0"
    )


@case("LEG-07")
def crc_above_int32() -> Draft:
    """A CRC with its top bit set is an unsigned number, and matches."""
    value = next(value for value in candidates() if raw_message(0, None, value)[12] >= 0x80)
    return valid(raw_message(0, None, value), single_batch(record_of(0, 0, None, value), 0))


@case("LEG-07")
def crc_with_leading_zeros() -> Draft:
    """A CRC whose first byte is 0 matches like any other."""
    value = next(value for value in candidates() if raw_message(0, None, value)[12] == 0)
    return valid(raw_message(0, None, value), single_batch(record_of(0, 0, None, value), 0))


def candidates() -> list[bytes]:
    """Values among which every first byte of a CRC is likely."""
    return [b"value %d" % number for number in range(2000)]


@case("LEG-08", each=LENGTHS)
def negative_key_length(length: int) -> Draft:
    """Every negative key length is a null key, not only -1."""
    data = raw_message(0, body=sized(length) + sized(5, b"value"))
    return valid(data, single_batch(record_of(0), 0))


@case("LEG-09", each=LENGTHS)
def negative_value_length(length: int) -> Draft:
    """Every negative value length is a null value, not only -1."""
    data = raw_message(0, body=sized(3, b"key") + sized(length))
    return valid(data, single_batch(record_of(0, 0, b"key", None), 0))


@case(
    "LEG-10",
    each={"null-null": (None, None), "null-empty": (None, b""), "empty-null": (b"", None), "empty": (b"", b"")},
)
def null_is_not_empty(content: tuple[bytes | None, bytes | None]) -> Draft:
    """A null key or value (-1) and an empty one (0) are not the same."""
    return valid(raw_message(0, *content, offset=3), single_batch(record_of(0, 3, *content), 0))


@case("LEG-11", each=TOO_LONG)
def key_length_beyond_message(excess: int) -> Draft:
    """A key length that reaches beyond the message is an error, and nothing after it is read."""
    data = raw_message(0, body=sized(3 + 4 + 5 + excess, b"key") + sized(5, b"value"))
    return invalid(data + raw_message(0, b"next", b"message" * 200), *STRUCTURE)


@case("LEG-11", each=TOO_LONG)
def value_length_beyond_message(excess: int) -> Draft:
    """A value length that reaches beyond the message is an error, and nothing after it is read."""
    data = raw_message(0, body=sized(3, b"key") + sized(5 + excess, b"value"))
    return invalid(data + raw_message(0, b"next", b"message" * 200), *STRUCTURE)


@case("LEG-11", each={"no-value-length": 0, "one-byte": 1, "three-bytes": 3})
def value_length_cut_short(left: int) -> Draft:
    """A key that leaves no room for the value length is an error."""
    return invalid(raw_message(0, body=sized(8, b"long key") + b"\xff" * left), *STRUCTURE)


@case("LEG-12", "LEG-05", each={"one-byte": b"\x00", "a-word": b"slack", "another-value": sized(5, b"other")})
def slack_after_value(tail: bytes) -> Draft:
    """Bytes between the value and the end of the message are ignored when the CRC covers them."""
    why = "Kafka reads no further than the value; the layout has nothing that could follow it"
    return acceptable(
        raw_message(0, b"key", tail=tail), single_batch(record_of(0, 0, b"key"), 0), kinds=("malformed",), why=why
    )


@case("LEG-12")
def slack_after_null_value() -> Draft:
    """Bytes after a null value are slack too."""
    why = "Kafka reads no further than the value length"
    data = raw_message(0, b"key", None, tail=b"slack")
    return acceptable(data, single_batch(record_of(0, 0, b"key", None), 0), kinds=("malformed",), why=why)


@case("LEG-13", "LEG-20", each={"bit-4": 0x10, "bit-5": 0x20, "bit-6": 0x40, "bit-7": 0x80, "all": 0xF0})
def unknown_attribute_bits(attributes: int) -> Draft:
    """Only bits 0 to 2 mean anything in v0; the codec is read from those alone."""
    data = raw_message(0, b"key", attributes=attributes - (256 if attributes > 127 else 0))
    return valid(data, single_batch(record_of(0, 0, b"key"), 0))


@case("LEG-15")
def zstd_is_unknown_to_v0() -> Draft:
    """Codec 4, zstd, is for v2 batches only, and is refused in v0."""
    return invalid(raw_message(0, None, b"(\xb5/\xfd", attributes=4), "unsupported_compression")


@case("LEG-16", each={"five": 5, "six": 6, "seven": 7})
def unknown_codec(codec: int) -> Draft:
    """The codec ids 5 to 7 are unassigned."""
    return invalid(raw_message(0, b"key", attributes=codec), "unsupported_compression")


@case("LEG-17")
def no_timestamp() -> Draft:
    """v0 has no timestamp: it is -1, of no type."""
    batch = single_batch(record_of(0, 9, b"key"), 0)
    assert batch.timestamp_type == "none"
    assert batch.records[0].timestamp == -1
    return valid(raw_message(0, b"key", offset=9), batch)


@case("LEG-17")
def timestamp_type_bit() -> Draft:
    """Bit 3 means nothing in v0: there is no LogAppendTime."""
    return valid(raw_message(0, b"key", attributes=0x08), single_batch(record_of(0, 0, b"key"), 0))


@case("LEG-17", "LEG-02")
def timestamp_where_v1_has_it() -> Draft:
    """In v0 the first half of a v1 timestamp is read as the key length, which does not fit."""
    v1 = raw_message(1, b"key", timestamp=TIMESTAMP)
    return invalid(reseal_message(put(v1, "magic", 0, layout=MESSAGE_V0)), *STRUCTURE)


@case("LEG-22")
def no_headers() -> Draft:
    """A v0 message has no headers, so its record has an empty list of them."""
    batch = single_batch(record_of(0, 4, b"key", b"no headers"), 0)
    return valid(raw_message(0, b"key", b"no headers", offset=4), batch)


@case("LEG-23", "LEG-01")
def no_producer() -> Draft:
    """A v0 message has no producer, no sequence and no leader epoch, and is no control message."""
    batch = single_batch(record_of(0, 5, b"key", b"no producer"), 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.partition_leader_epoch) == (-1,) * 4
    return valid(raw_message(0, b"key", b"no producer", offset=5), batch)
