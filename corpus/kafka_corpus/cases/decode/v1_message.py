"""v1 messages (KIP-32, Kafka 0.10): v0 and a timestamp after the attributes (group LEG)."""

from __future__ import annotations

from typing import Final

from kafka_corpus.authoring.build import TIMESTAMP, flip, put, raw_message, reseal_message
from kafka_corpus.authoring.messages import APPEND_BIT, record_of, single_batch
from kafka_corpus.registry import Draft, acceptable, case, invalid, valid
from kafka_records import Kind
from kafka_records.layout import MESSAGE_V0, MESSAGE_V1

STRUCTURE: Final[tuple[Kind, ...]] = ("truncated", "malformed")
# Every field that the CRC covers, by the byte that is changed.
COVERED = {
    "attributes": (17, 0x08),
    "timestamp-high": (18, 0x01),
    "timestamp-low": (25, 0x01),
    "key_length": (29, 0x01),
    "key": (30, 0x01),
    "value_length": (36, 0x01),
    "value": (41, 0x80),
}
LENGTHS = {"minus-1": -1, "minus-2": -2, "least": -(2**31)}
TOO_LONG = {"by-1": 1, "by-1000": 1000, "by-all": 2**31 - 1 - 100}
TIMESTAMPS = {
    "zero": 0,
    "one": 1,
    "int32": 2**31,
    "largest": 2**63 - 1,
}


def sized(length: int, content: bytes = b"") -> bytes:
    """An int32 length and its bytes."""
    return length.to_bytes(4, "big", signed=True) + content


def tiny(size: int, filler: bytes = b"\xff") -> bytes:
    """A message that says magic 1 and is *size* bytes long, its CRC right."""
    rest = (bytes((1, 0)) + TIMESTAMP.to_bytes(8, "big") + filler * 12)[: size - 4]
    return reseal_message(bytes(8) + size.to_bytes(4, "big") + bytes(4) + rest)


@case("LEG-02", "FRM-01", refs=["A45"])
def golden_message() -> Draft:
    """A v1 message has its timestamp between the attributes and the key length."""
    data = bytes.fromhex("00000000000000000000001e6ad05db801000000018bcfe56800000000036b65790000000576616c7565")
    return valid(data, single_batch(record_of(1, 0, b"key"), 1))


@case("LEG-02")
def smallest_message() -> Draft:
    """A v1 message with neither key nor value is 22 bytes long."""
    data = bytes.fromhex("000000000000000100000016ea764b5401000000018bcfe56805ffffffffffffffff")
    return valid(data, single_batch(record_of(1, 1, None, None, timestamp=TIMESTAMP + 5), 1))


@case("LEG-02")
def timestamp_of_eight_different_bytes() -> Draft:
    """All eight bytes of a v1 timestamp are read, each from its place."""
    timestamp = 0x0102_0304_0506_0708
    made = record_of(1, 0, b"key", timestamp=timestamp)
    return valid(raw_message(1, b"key", made.value, timestamp=timestamp), single_batch(made, 1))


@case("LEG-03", each={str(size): size for size in range(14, 22)})
def shorter_than_its_fields(size: int) -> Draft:
    """A v1 message of 14 to 21 bytes passes the size check, and then has no room for its fields.

    Kafka checks the size against v0's 14 bytes whatever the magic, and then
    reads over the end of the buffer.
    """
    return invalid(tiny(size), *STRUCTURE)


@case("LEG-03", each={"14": 14, "18": 18, "21": 21})
def shorter_than_its_fields_with_more_behind(size: int) -> Draft:
    """A v1 message that is too short must not be read on into the next one."""
    return invalid(tiny(size) + raw_message(1, b"next"), *STRUCTURE)


@case("LEG-03")
def empty_key_and_no_value_length() -> Draft:
    """A v1 message of 18 bytes ends after an empty key, where the value length should be."""
    return invalid(tiny(18, b"\x00"), *STRUCTURE)


@case("LEG-04", each=COVERED)
def crc_covers(change: tuple[int, int]) -> Draft:
    """The CRC covers everything from the magic to the end of the value, the timestamp too."""
    return invalid(flip(raw_message(1, b"key"), *change), "corrupt")


@case("LEG-04")
def magic_is_covered() -> Draft:
    """A v1 message whose magic became 0 no longer matches its CRC."""
    return invalid(put(raw_message(1, b"key"), "magic", 0, layout=MESSAGE_V0), "corrupt", *STRUCTURE)


@case("LEG-04", each={"first-of-three": 0, "second-of-three": 1, "last-of-three": 2})
def one_bad_crc_among_good_ones(bad: int) -> Draft:
    """A bad CRC ends the log there; the messages before it have been read."""
    records = [record_of(1, offset, b"key", b"value %d" % offset) for offset in range(3)]
    messages = [raw_message(1, b"key", record.value, offset=record.offset) for record in records]
    messages[bad] = flip(messages[bad], 41)
    before = tuple(single_batch(record, 1) for record in records[:bad])
    return invalid(b"".join(messages), "corrupt", before=before)


@case("LEG-05")
def crc_covers_slack() -> Draft:
    """The CRC runs to the end of the sized message, not only to the end of the value."""
    whole, short = raw_message(1, b"key", tail=b"slack"), raw_message(1, b"key")
    return invalid(put(whole, "crc", int.from_bytes(short[12:16], "big"), layout=MESSAGE_V0), "corrupt", "malformed")


@case("LEG-06", each={"eight": 8, "largest": 2**63 - 1})
def offset_outside_crc(offset: int) -> Draft:
    """The offset is outside the CRC, so a broker may set it without touching the message."""
    data = put(raw_message(1, b"key", offset=100), "offset", offset, layout=MESSAGE_V1)
    return valid(data, single_batch(record_of(1, offset, b"key"), 1))


@case("LEG-08", each=LENGTHS)
def negative_key_length(length: int) -> Draft:
    """Every negative key length is a null key, not only -1."""
    return valid(raw_message(1, body=sized(length) + sized(5, b"value")), single_batch(record_of(1), 1))


@case("LEG-09", each=LENGTHS)
def negative_value_length(length: int) -> Draft:
    """Every negative value length is a null value, not only -1."""
    data = raw_message(1, body=sized(3, b"key") + sized(length))
    return valid(data, single_batch(record_of(1, 0, b"key", None), 1))


@case(
    "LEG-10",
    each={"null-null": (None, None), "null-empty": (None, b""), "empty-null": (b"", None), "empty": (b"", b"")},
)
def null_is_not_empty(content: tuple[bytes | None, bytes | None]) -> Draft:
    """A null key or value (-1) and an empty one (0) are not the same."""
    return valid(raw_message(1, *content, offset=3), single_batch(record_of(1, 3, *content), 1))


@case("LEG-11", each=TOO_LONG)
def key_length_beyond_message(excess: int) -> Draft:
    """A key length that reaches beyond the message is an error, and nothing after it is read."""
    data = raw_message(1, body=sized(3 + 4 + 5 + excess, b"key") + sized(5, b"value"))
    return invalid(data + raw_message(1, b"next", b"message" * 200), *STRUCTURE)


@case("LEG-11", each=TOO_LONG)
def value_length_beyond_message(excess: int) -> Draft:
    """A value length that reaches beyond the message is an error, and nothing after it is read."""
    data = raw_message(1, body=sized(3, b"key") + sized(5 + excess, b"value"))
    return invalid(data + raw_message(1, b"next", b"message" * 200), *STRUCTURE)


@case("LEG-12", "LEG-05", each={"one-byte": b"\x00", "a-message": raw_message(1, b"inside")})
def slack_after_value(tail: bytes) -> Draft:
    """Bytes between the value and the end of the message are ignored when the CRC covers them."""
    why = "Kafka reads no further than the value; the layout has nothing that could follow it"
    data = raw_message(1, b"key", tail=tail)
    return acceptable(data, single_batch(record_of(1, 0, b"key"), 1), kinds=("malformed",), why=why)


@case("LEG-12", "FRM-01")
def slack_keeps_the_next_message() -> Draft:
    """The next message starts where the size says, not where the value ends."""
    why = "Kafka reads no further than the value; the layout has nothing that could follow it"
    first, second = record_of(1, 0, b"key"), record_of(1, 1, b"next")
    data = raw_message(1, b"key", tail=b"slack") + raw_message(1, b"next", offset=1)
    return acceptable(data, single_batch(first, 1), single_batch(second, 1), kinds=("malformed",), why=why)


@case("LEG-15")
def zstd_is_unknown_to_v1() -> Draft:
    """Codec 4, zstd, is for v2 batches only, and is refused in v1."""
    return invalid(raw_message(1, None, b"(\xb5/\xfd", attributes=4), "unsupported_compression")


@case("LEG-16", each={"five": 5, "six": 6, "seven": 7, "seven-append": 15})
def unknown_codec(attributes: int) -> Draft:
    """The codec ids 5 to 7 are unassigned."""
    return invalid(raw_message(1, b"key", attributes=attributes), "unsupported_compression")


@case("LEG-18", each={"create": 0, "append": APPEND_BIT})
def timestamp_type(attributes: int) -> Draft:
    """Bit 3 says whether the timestamp is CreateTime or LogAppendTime; the timestamp is the same."""
    record = record_of(1, 2, b"key", timestamp=TIMESTAMP + 7)
    data = raw_message(1, b"key", offset=2, attributes=attributes, timestamp=TIMESTAMP + 7)
    return valid(data, single_batch(record, 1, append=bool(attributes)))


@case("LEG-18", each={"create": 0, "append": APPEND_BIT})
def no_timestamp_of_either_type(attributes: int) -> Draft:
    """A timestamp of -1 means none, whatever its type."""
    data = raw_message(1, b"key", attributes=attributes, timestamp=-1)
    return valid(data, single_batch(record_of(1, 0, b"key", timestamp=-1), 1, append=bool(attributes)))


@case("LEG-20", each={"bit-4": 0x10, "bit-5": 0x20, "bit-6": 0x40, "bit-7": -0x80, "bits-4-to-6": 0x70})
def unknown_attribute_bits(attributes: int) -> Draft:
    """Bits 4 to 7 mean nothing in v1: not transactional, not control, no delete horizon."""
    data = raw_message(1, b"key", attributes=attributes)
    return valid(data, single_batch(record_of(1, 0, b"key"), 1))


@case("LEG-02", "LEG-21", each=TIMESTAMPS)
def timestamps(timestamp: int) -> Draft:
    """A timestamp is a signed 64-bit number of milliseconds, -1 for none."""
    data = raw_message(1, b"key", timestamp=timestamp)
    return valid(data, single_batch(record_of(1, 0, b"key", timestamp=timestamp), 1))


@case("LEG-02", "LEG-21", each={"minus-2": -2, "minus-a-day": -86_400_000, "least": -(2**63)})
def timestamps_below_none(timestamp: int) -> Draft:
    """A timestamp below -1 cannot be written by Kafka, but is read as it stands."""
    why = "Kafka's writer refuses it and its reader does not look"
    batch = single_batch(record_of(1, 0, b"key", timestamp=timestamp), 1)
    return acceptable(raw_message(1, b"key", timestamp=timestamp), batch, kinds=("malformed",), why=why)


@case("LEG-07")
def crc_above_int32() -> Draft:
    """A CRC with its top bit set is an unsigned number, and matches."""
    values = (b"value %d" % number for number in range(2000))
    value = next(value for value in values if raw_message(1, None, value)[12] >= 0x80)
    return valid(raw_message(1, None, value), single_batch(record_of(1, 0, None, value), 1))


@case("LEG-22")
def no_headers() -> Draft:
    """A v1 message has no headers, so its record has an empty list of them."""
    return valid(raw_message(1, None, b"no headers", offset=4), single_batch(record_of(1, 4, None, b"no headers"), 1))


@case("LEG-23")
def no_producer() -> Draft:
    """A v1 message has no producer, no sequence and no leader epoch, and is no control message."""
    batch = single_batch(record_of(1, 5, b"key", b"no producer"), 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.partition_leader_epoch) == (-1,) * 4
    return valid(raw_message(1, b"key", b"no producer", offset=5), batch)
