"""Produced v0 and v1 messages that are not compressed, on brokers (group LEG).

The expected bytes are those of 3.9, the last release that takes messages: it
rewrites them as one v2 batch (CNV-01).  Brokers before 0.11 store them as
they came, and look at less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final
from zlib import crc32

from kafka_corpus.authoring.build import flip, grid, raw_message, reseal_message
from kafka_corpus.authoring.messages import APPEND_BIT, message_bytes, numbered, record_of, seal, set_of, wrap, wrapped
from kafka_corpus.authoring.steps import stamped, written
from kafka_corpus.registry import Draft, case, error_answer, produced, stored
from kafka_corpus.scenario import NOW, StepAnswer
from kafka_records import Record
from kafka_records.broker.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    UNKNOWN_SERVER_ERROR,
)
from kafka_records.checksum import checksum_v2
from kafka_records.constants import INT32_MAX, INT64_MIN

LAST_OF_V1: Final = 2  # the last produce version that takes messages
MAGICS: Final = {"v0": 0, "v1": 1}
LOWEST: Final = -INT32_MAX - 1
NEGATIVE: Final = {"-2": -2, "-100": -100, "lowest": LOWEST}
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
COMPACTED: Final = {"cleanup.policy": "compact"}


def sent(payload: bytes, answer: StepAnswer, **config: str) -> Draft:
    """*payload* in an old request, to a topic of that *config*, underscores for dots."""
    return produced(
        payload,
        answer,
        api_version=LAST_OF_V1,
        config={name.replace("_", "."): value for name, value in config.items()},
    )


def becomes(*records: Record) -> StepAnswer:
    """Stored as a v2 batch of *records*."""
    return stored(written(*records))


def body(key_length: int, key: bytes, value_length: int, value: bytes) -> bytes:
    """Key and value with lengths as given."""
    return key_length.to_bytes(4, "big", signed=True) + key + value_length.to_bytes(4, "big", signed=True) + value


def short_message(size: int, magic: int = 1) -> bytes:
    """A message of *size* bytes after its size, all zeros after the attributes, its checksum right."""
    message = raw_message(magic, body=bytes(40), message_size=size, timestamp=0)[: 12 + size]
    return reseal_message(message)


# Sizes and checksums


@case("LEG-03", each={str(size): size for size in (14, 17, 18, 21)})
def v1_message_below_22_bytes_is_an_unknown_error(size: int) -> Draft:
    """A v1 message of 14 to 21 bytes passes framing and checksum; then its key or value is read past its end."""
    return sent(short_message(size), error_answer(UNKNOWN_SERVER_ERROR))


@case("LEG-03", "LEG-02", refs=["A45"])
def v1_message_of_22_bytes_is_stored() -> Draft:
    """A v1 message of 22 bytes has no key and no value."""
    return sent(raw_message(1, None, None), becomes(record_of(1, value=None)))


@case("LEG-03", "LEG-01")
def v0_messages_of_14_bytes_are_stored() -> Draft:
    """Two v0 messages of 14 bytes have no key and no value."""
    return sent(raw_message(0, None, None) * 2, becomes(*[record_of(0, value=None)] * 2))


@case("LEG-03", "LEG-26", each={"14": 14, "18": 18})
def v1_message_below_22_bytes_has_no_key_to_look_at(size: int) -> Draft:
    """Such a message is an unknown error on a compacted topic too, which wants to see its key."""
    return sent(short_message(size), error_answer(UNKNOWN_SERVER_ERROR), cleanup_policy="compact")


@case(
    "LEG-04",
    each={
        f"{name}, {label}": flip(raw_message(magic, b"key"), at)
        for name, magic in MAGICS.items()
        for label, at in (("attributes", 17), ("key", -10), ("last byte", -1))
        for at in (at % len(raw_message(magic, b"key")),)
    },
)
def changed_message_is_corrupt(payload: bytes) -> Draft:
    """A bit turned over anywhere from the magic on makes the checksum wrong."""
    return sent(payload, error_answer(CORRUPT_MESSAGE))


# Wrong ways to compute the checksum.
OTHER_SUMS: Final[dict[str, Callable[[bytes], int]]] = {
    "CRC-32C instead": lambda message: checksum_v2(bytes(5) + message[16:]),
    "from the attributes on": lambda message: crc32(message[17:]),
    "0": lambda message: 0,
}


@case("LEG-04", each=grid(magic=MAGICS, sum=OTHER_SUMS))
def another_checksum_of_a_message_is_corrupt(given: dict[str, Any]) -> Draft:
    """A message's checksum is the CRC-32 from the magic to the end, and nothing else passes."""
    magic = given["magic"]
    crc = given["sum"](raw_message(magic, b"key"))
    return sent(raw_message(magic, b"key", crc=crc), error_answer(CORRUPT_MESSAGE))


@case("LEG-04", "LEG-06", each=MAGICS)
def offset_of_a_message_is_outside_the_checksum(magic: int) -> Draft:
    """The offset that a producer writes is not looked at, and not covered."""
    record = record_of(magic, key=b"key")
    return sent(message_bytes(record._replace(offset=77), magic), becomes(record))


# Keys and values


@case("LEG-08", each=grid(magic=MAGICS, length=NEGATIVE))
def negative_key_length_of_a_message_is_null(given: dict[str, int]) -> Draft:
    """Any key length below 0 is a null key's."""
    magic = given["magic"]
    payload = raw_message(magic, body=body(given["length"], b"", 5, b"value"))
    return sent(payload, becomes(record_of(magic)))


@case("LEG-09", each=grid(magic=MAGICS, length=NEGATIVE))
def negative_value_length_of_a_message_is_null(given: dict[str, int]) -> Draft:
    """Any value length below 0 is a null value's."""
    magic = given["magic"]
    payload = raw_message(magic, body=body(3, b"key", given["length"], b""))
    return sent(payload, becomes(record_of(magic, key=b"key", value=None)))


@case("LEG-09", "LEG-08", "LEG-10", each=MAGICS)
def empty_key_or_value_of_a_message_stays_empty(magic: int) -> Draft:
    """A key or a value of length 0 is not null, and null is not empty."""
    records = (record_of(magic, key=b"", value=None), record_of(magic, key=None, value=b""))
    return sent(set_of(records, magic), becomes(*records))


BEYOND: Final = {
    "key, one more": body(3 + 4 + 5 + 1, b"key", 5, b"value"),
    "key, up to the end": body(3 + 4 + 5, b"key", 5, b"value"),
    "key, 2^31 - 1": body(INT32_MAX, b"key", 5, b"value"),
    "value, one more": body(3, b"key", 6, b"value"),
    "value, 2^31 - 1": body(3, b"key", INT32_MAX, b"value"),
}


@case("LEG-11", each=grid(magic=MAGICS, beyond=BEYOND))
def key_or_value_beyond_the_message_is_an_unknown_error(given: dict[str, Any]) -> Draft:
    """A key or value that runs past its message is an exception of Java's, not a corrupt record."""
    return sent(raw_message(given["magic"], body=given["beyond"]), error_answer(UNKNOWN_SERVER_ERROR))


@case("LEG-11", "LEG-26")
def sizes_are_added_up_before_keys_are_looked_at() -> Draft:
    """A later message's length of 2^31 - 1 is the error, not the missing key of the first on a compacted topic."""
    payload = raw_message(0) + raw_message(0, body=body(3, b"key", INT32_MAX, b""))
    return sent(payload, error_answer(UNKNOWN_SERVER_ERROR), cleanup_policy="compact")


@case("LEG-12", "CNV-01", each=grid(magic=MAGICS, slack={"1 byte": b"\x00", "a message": raw_message(1)}))
def slack_behind_the_value_is_lost(given: dict[str, Any]) -> Draft:
    """Bytes of the message after its value are ignored, and gone when it is rewritten."""
    magic = given["magic"]
    payload = raw_message(magic, b"key", tail=given["slack"])
    return sent(payload, becomes(record_of(magic, key=b"key")))


@case("LEG-12", "LEG-05")
def slack_is_covered_by_the_checksum() -> Draft:
    """The checksum runs to the end of the message, over the bytes after the value."""
    message = raw_message(1, b"key", tail=b"slack")
    return sent(flip(message, len(message) - 1), error_answer(CORRUPT_MESSAGE))


# Attributes


@case("LEG-14", each=MAGICS)
def lz4_is_taken_in_messages(magic: int) -> Draft:
    """lz4 is a codec of v0 as well as of v1."""
    records = numbered(magic, 0, 1, 2, 3)
    data, _ = wrapped(records, magic, "lz4")
    answer = stored(written(*records, codec="lz4"))
    return produced(data, answer, api_version=LAST_OF_V1, compare="masked")


@case("LEG-15", each=grid(magic=MAGICS, value={"zstd": None, "not zstd": b"zstd", "null": b""}))
def zstd_in_messages_is_refused(given: dict[str, Any]) -> Draft:
    """zstd is no codec of v0 and v1, whatever the value is."""
    magic, value = given["magic"], given["value"]
    whole = wrap(set_of(numbered(magic, 0), magic), magic, "zstd")
    return sent(whole if value is None else seal(value or None, magic, "zstd"), error_answer(INVALID_RECORD))


@case("LEG-16", each=grid(magic=MAGICS, codec={"5": 5, "6": 6, "7": 7}))
def unknown_codec_of_a_message_is_an_unknown_error(given: dict[str, int]) -> Draft:
    """Codecs 5 to 7 are an IllegalArgumentException of Java's."""
    return sent(raw_message(given["magic"], attributes=given["codec"]), error_answer(UNKNOWN_SERVER_ERROR))


@case("LEG-17")
def append_bit_of_v0_means_nothing() -> Draft:
    """Bit 3 of a v0 message is ignored; it has no time, and neither has the record."""
    return sent(raw_message(0, attributes=APPEND_BIT), becomes(record_of(0)))


@case("LEG-17", "TIM-13")
def append_bit_of_v0_means_nothing_on_append_time() -> Draft:
    """A LogAppendTime topic takes a v0 message with bit 3."""
    answer = stored(stamped(written(record_of(0))), log_append_time=NOW)
    return sent(raw_message(0, attributes=APPEND_BIT), answer, message_timestamp_type="LogAppendTime")


@case("LEG-19", "TIM-14")
def append_bit_of_v1_is_taken_on_create_time() -> Draft:
    """A v1 message with bit 3 is taken on a CreateTime topic, and keeps its timestamp without the bit."""
    return sent(raw_message(1, attributes=APPEND_BIT), becomes(record_of(1)))


@case("LEG-19", "TIM-13")
def append_bit_of_v1_is_refused_on_append_time() -> Draft:
    """A LogAppendTime topic refuses a v1 message with bit 3."""
    payload = raw_message(1, attributes=APPEND_BIT)
    return sent(payload, error_answer(INVALID_TIMESTAMP), message_timestamp_type="LogAppendTime")


@case("LEG-20", each=grid(magic=MAGICS, bits={"0x70": 0x70, "0x80": -0x80, "0xf0": -0x10}))
def high_attribute_bits_of_a_message_vanish(given: dict[str, int]) -> Draft:
    """Bits 4 to 7 are accepted, and gone when the message is rewritten."""
    magic = given["magic"]
    return sent(raw_message(magic, attributes=given["bits"]), becomes(record_of(magic)))


@case("LEG-20", each=MAGICS)
def high_attribute_bits_of_a_wrapper_vanish(magic: int) -> Draft:
    """Bits 4 to 7 of a wrapper are accepted, and gone when it is rewritten."""
    records = numbered(magic, 0)
    data = wrap(set_of(records, magic), magic, "gzip", attributes=-0x10)
    answer = stored(written(*records, codec="gzip"))
    return produced(data, answer, api_version=LAST_OF_V1, compare="masked")


# Timestamps


@case("LEG-21", "CNV-19", each={"-2": -2, "lowest": INT64_MIN})
def timestamp_below_minus_one_is_an_unknown_error(timestamp: int) -> Draft:
    """A v1 timestamp below -1 is refused by the writer of the new batch."""
    return sent(raw_message(1, b"key", timestamp=timestamp), error_answer(UNKNOWN_SERVER_ERROR))


@case("LEG-21", each={"-1": -1, "0": 0})
def timestamp_from_minus_one_on_is_stored(timestamp: int) -> Draft:
    """A v1 timestamp of -1 says that there is none, and stays; so does one of 0."""
    return sent(raw_message(1, b"key", timestamp=timestamp), becomes(record_of(1, key=b"key", timestamp=timestamp)))


# Sets


@case("LEG-24", "CNV-02", each=grid(magic=MAGICS, count={"1": 1, "2": 2, "50": 50}))
def messages_become_one_batch(given: dict[str, int]) -> Draft:
    """A payload may hold many messages, each a batch of its own; they are stored as one."""
    records = numbered(given["magic"], *range(given["count"]))
    return sent(set_of(records, given["magic"]), becomes(*records))


@case("LEG-24", each=MAGICS)
def offsets_of_messages_are_not_looked_at(magic: int) -> Draft:
    """Messages may come with any offsets, and are numbered in their order."""
    records = numbered(magic, 5, 3, 3, 0)
    return sent(set_of(records, magic), becomes(*records))


@case("LEG-24", "LEG-04", each={"first": 0, "last": 2})
def one_corrupt_message_refuses_all(which: int) -> Draft:
    """If one of the messages is corrupt, none is stored."""
    each = [message_bytes(record, 1) for record in numbered(1, 0, 1, 2)]
    each[which] = flip(each[which], len(each[which]) - 1)
    return sent(b"".join(each), error_answer(CORRUPT_MESSAGE))


@case(
    "LEG-25",
    each={
        "v0, v1": raw_message(0) + raw_message(1),
        "v1, v0": raw_message(1) + raw_message(0),
        "v1, v1, v0": raw_message(1) * 2 + raw_message(0),
    },
)
def messages_of_two_magics_are_refused(payload: bytes) -> Draft:
    """All messages for one partition must have the same magic."""
    return sent(payload, error_answer(INVALID_RECORD))


@case("LEG-26", each=MAGICS)
def message_without_key_is_refused_on_a_compacted_topic(magic: int) -> Draft:
    """A compacted topic refuses a null key."""
    return sent(raw_message(magic), error_answer(INVALID_RECORD), cleanup_policy="compact")


@case("LEG-26", "LEG-08")
def negative_key_length_is_refused_on_a_compacted_topic() -> Draft:
    """A compacted topic refuses a key length of -2 as it does a null key."""
    return sent(raw_message(1, body=body(-2, b"", 5, b"value")), error_answer(INVALID_RECORD), cleanup_policy="compact")


@case("LEG-26", each=MAGICS)
def message_with_an_empty_key_is_taken_on_a_compacted_topic(magic: int) -> Draft:
    """A compacted topic takes an empty key."""
    return sent(raw_message(magic, b""), becomes(record_of(magic, key=b"")), cleanup_policy="compact")


@case("LEG-26", each={"first": (None, b"key"), "last": (b"key", None)})
def one_message_without_key_refuses_all(keys: Iterable[bytes | None]) -> Draft:
    """If one of the messages has no key, none is stored."""
    payload = b"".join(raw_message(1, key) for key in keys)
    return sent(payload, error_answer(INVALID_RECORD), cleanup_policy="compact")


@case("LEG-26", each=MAGICS)
def wrapped_message_without_key_is_refused_on_a_compacted_topic(magic: int) -> Draft:
    """A compacted topic refuses a null key within a wrapper, whatever the wrapper's own key is."""
    data = wrap(raw_message(magic), magic, "gzip", key=b"key")
    return sent(data, error_answer(INVALID_RECORD), cleanup_policy="compact")
