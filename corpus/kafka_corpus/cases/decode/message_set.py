"""Wrappers: a message whose value is a compressed message set (group NST).

What is odd here, and has been got wrong: relative offsets, wrappers at offset
0, LogAppendTime that overrides, and sets that are cut short, empty or mixed.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, flip, grid, put, raw_batch, raw_message, raw_record
from kafka_corpus.authoring.frames import codec_id
from kafka_corpus.authoring.messages import (
    APPEND_BIT,
    message_bytes,
    numbered,
    record_of,
    seal,
    set_of,
    wrap,
    wrapped,
    wrapper_batch,
)
from kafka_corpus.registry import Draft, acceptable, case, invalid, valid
from kafka_records import Kind, Record
from kafka_records.constants import Compression
from kafka_records.layout import MESSAGE_V0

CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
MAGICS = {"v0": 0, "v1": 1}
BOTH = grid(magic=MAGICS, codec=CODECS)
STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated")
LAT = TIMESTAMP + 1_000_000


def shifted(records: list[Record], by: int) -> list[Record]:
    """*records* with their offsets moved."""
    return [record._replace(offset=record.offset + by) for record in records]


@case("NST-08", refs=("KIP-31", "seed 004:111"), each=CODECS)
def absolute_offsets_in_v1(codec: Compression) -> Draft:
    """Inner offsets that are absolute in v1 stay so: the wrapper carries the last of them."""
    records = numbered(1, 20, 21, 22)
    data = wrap(set_of(records, 1), 1, codec, offset=22, timestamp=TIMESTAMP + 2)
    return valid(data, wrapper_batch(records, 1, codec, timestamp=TIMESTAMP + 2))


@case("NST-08", each=grid(codec=CODECS, first={"1": 1, "7": 7}))
def relative_offsets_not_from_0(shape: dict[str, Any]) -> Draft:
    """Inner offsets count backwards from the last, so that the first need not be 0."""
    codec, first = shape["codec"], shape["first"]
    inner = numbered(1, first, first + 1, first + 2)
    data = wrap(set_of(inner, 1), 1, codec, offset=102, timestamp=TIMESTAMP + 2)
    return valid(data, wrapper_batch(shifted(inner, 100 - first), 1, codec, timestamp=TIMESTAMP + 2))


@case("NST-08", each=CODECS)
def all_inner_offsets_zero(codec: Compression) -> Draft:
    """Inner offsets that are all 0 give every message the wrapper's offset.

    Old clients wrote such sets; brokers renumber them, readers do not.
    """
    inner = numbered(1, 0, 0, 0)
    data = wrap(set_of(inner, 1), 1, codec, offset=50, timestamp=TIMESTAMP + 2)
    return valid(data, wrapper_batch(shifted(inner, 50), 1, codec, timestamp=TIMESTAMP + 2))


@case("NST-08")
def falling_inner_offsets() -> Draft:
    """Inner offsets that fall are resolved like any other, from the last one."""
    inner = numbered(1, 2, 1, 0)
    data = wrap(set_of(inner, 1), 1, "gzip", offset=50, timestamp=TIMESTAMP + 2)
    why = "no writer of Kafka's gives such offsets; its reader does not look at their order"
    batch = wrapper_batch(shifted(inner, 50), 1, "gzip", offset=50, timestamp=TIMESTAMP + 2)
    return acceptable(data, batch, kinds=("malformed",), why=why)


@case("NST-08", "HDR-26")
def negative_inner_offsets() -> Draft:
    """Negative inner offsets reach back from the wrapper's like any other number."""
    inner = numbered(1, -2, -1)
    data = wrap(set_of(inner, 1), 1, "gzip", offset=9, timestamp=TIMESTAMP + 1)
    why = "no writer of Kafka's gives such offsets; its reader only adds and subtracts"
    return acceptable(
        data, wrapper_batch(shifted(inner, 10), 1, "gzip", timestamp=TIMESTAMP + 1), kinds=("malformed",), why=why
    )


@case("NST-09", refs=("KAFKA-5365",), each=CODECS)
def wrapper_offset_zero(codec: Compression) -> Draft:
    """A v1 wrapper at offset 0 leaves the inner offsets as they are, as librdkafka once wrote them."""
    records = numbered(1, 0, 1, 2)
    data = wrap(set_of(records, 1), 1, codec, offset=0, timestamp=TIMESTAMP + 2)
    batch = wrapper_batch(records, 1, codec, offset=0, timestamp=TIMESTAMP + 2)
    return valid(data, batch, compare="records")


@case("NST-09")
def wrapper_offset_zero_with_one_message() -> Draft:
    """The very first message of a log, alone in its wrapper, has offset 0."""
    data, batch = wrapped(numbered(1, 0), 1, "gzip")
    return valid(data, batch)


@case("NST-09")
def wrapper_offset_zero_inner_offsets_large() -> Draft:
    """A v1 wrapper at offset 0 with inner offsets from 5 leaves those as they are."""
    records = numbered(1, 5, 6)
    data = wrap(set_of(records, 1), 1, "snappy", offset=0, timestamp=TIMESTAMP + 1)
    why = "Kafka takes 0 for not set; 0 is below the last inner offset, which is refused otherwise"
    batch = wrapper_batch(records, 1, "snappy", offset=0, timestamp=TIMESTAMP + 1)
    return acceptable(data, batch, kinds=("malformed",), why=why)


@case("NST-10", each=grid(codec=CODECS, offset={"1": 1, "4": 4, "minus-1": -1}))
def wrapper_offset_below_last_inner(shape: dict[str, Any]) -> Draft:
    """A v1 wrapper whose offset is below the last inner one, and not 0, is refused."""
    inner = set_of(numbered(1, 3, 4, 5), 1)
    return invalid(wrap(inner, 1, shape["codec"], offset=shape["offset"]), "malformed")


@case("NST-14", each=CODECS)
def wrapper_offset_ignored_in_v0(codec: Compression) -> Draft:
    """In v0 the wrapper's offset does not move the inner ones, so that it may be anything."""
    records = numbered(0, 7, 8, 9)
    data = wrap(set_of(records, 0), 0, codec, offset=3)
    why = "only a producer sends such a wrapper; a broker's carries the last inner offset"
    return acceptable(data, wrapper_batch(records, 0, codec, offset=3), kinds=("malformed",), why=why)


@case("NST-20", refs=("KIP-32", "seed 004:127"), each=CODECS)
def append_time_overrides(codec: Compression) -> Draft:
    """LogAppendTime of the wrapper replaces the timestamp of every inner message."""
    inner = numbered(1, 10, 11, 12)
    data = wrap(set_of(inner, 1, base=10), 1, codec, offset=12, timestamp=LAT, attributes=APPEND_BIT)
    records = [record._replace(timestamp=LAT) for record in inner]
    return valid(data, wrapper_batch(records, 1, codec, append=True, timestamp=LAT))


@case("NST-20", each=CODECS)
def create_time_keeps_inner_times(codec: Compression) -> Draft:
    """CreateTime of the wrapper leaves every inner message its own timestamp."""
    inner = [record._replace(timestamp=TIMESTAMP - 1000 * record.offset) for record in numbered(1, 10, 11, 12)]
    data = wrap(set_of(inner, 1, base=10), 1, codec, offset=12, timestamp=TIMESTAMP - 10_000)
    return valid(data, wrapper_batch(inner, 1, codec, timestamp=TIMESTAMP - 10_000))


@case("NST-20", "NST-23", each={"too-low": TIMESTAMP - 5, "none": -1, "too-high": LAT})
def create_time_of_the_wrapper_is_not_believed(timestamp: int) -> Draft:
    """A CreateTime wrapper whose timestamp is not its newest message's changes no message."""
    inner = numbered(1, 10, 11)
    data = wrap(set_of(inner, 1, base=10), 1, "gzip", offset=11, timestamp=timestamp)
    return valid(data, wrapper_batch(inner, 1, "gzip", timestamp=timestamp), compare="records")


@case("NST-20", each={"none": -1, "zero": 0})
def append_time_of_no_time(timestamp: int) -> Draft:
    """LogAppendTime overrides the inner timestamps even when it is 0, or none."""
    inner = numbered(1, 10, 11)
    data = wrap(set_of(inner, 1, base=10), 1, "gzip", offset=11, timestamp=timestamp, attributes=APPEND_BIT)
    records = [record._replace(timestamp=timestamp) for record in inner]
    return valid(data, wrapper_batch(records, 1, "gzip", append=True, timestamp=timestamp))


@case("NST-21", refs=["A33"], each=CODECS)
def inner_append_bit_is_ignored(codec: Compression) -> Draft:
    """The inner timestamp type bit means nothing; the wrapper says CreateTime."""
    inner = numbered(1, 10, 11)
    data = wrap(set_of(inner, 1, base=10, attributes=APPEND_BIT), 1, codec, offset=11, timestamp=TIMESTAMP + 1)
    return valid(data, wrapper_batch(inner, 1, codec, timestamp=TIMESTAMP + 1))


@case("NST-21", "NST-20", each=CODECS)
def inner_create_bit_is_ignored(codec: Compression) -> Draft:
    """Inner messages with CreateTime get LogAppendTime all the same when the wrapper has it."""
    inner = [
        message_bytes(r, 1, base=10, attributes=APPEND_BIT * (i % 2)) for i, r in enumerate(numbered(1, 10, 11, 12))
    ]
    data = wrap(b"".join(inner), 1, codec, offset=12, timestamp=LAT, attributes=APPEND_BIT)
    records = [record._replace(timestamp=LAT) for record in numbered(1, 10, 11, 12)]
    return valid(data, wrapper_batch(records, 1, codec, append=True, timestamp=LAT))


@case("LEG-17", "NST-20", each=CODECS)
def append_bit_of_a_v0_wrapper(codec: Compression) -> Draft:
    """Bit 3 of a v0 wrapper means nothing: v0 has no timestamps."""
    records = numbered(0, 10, 11)
    data = wrap(set_of(records, 0), 0, codec, offset=11, attributes=APPEND_BIT)
    return valid(data, wrapper_batch(records, 0, codec))


@case("NST-15", "CLN-22", refs=("KAFKA-4298",), each=CODECS)
def v0_messages_in_a_v1_wrapper(codec: Compression) -> Draft:
    """v0 messages in a v1 wrapper are resolved by the wrapper's rules, and have no timestamp."""
    records = numbered(0, 30, 31)
    data = wrap(set_of(records, 0, base=30), 1, codec, offset=31)
    why = "KAFKA-4298: the old log cleaner left such sets; Java readers take them, brokers refuse them"
    return acceptable(data, wrapper_batch(records, 1, codec), kinds=("malformed", "unsupported_magic"), why=why)


@case("NST-15", "CLN-22", refs=("KAFKA-4298",), each=CODECS)
def v1_messages_in_a_v0_wrapper(codec: Compression) -> Draft:
    """v1 messages in a v0 wrapper keep their offsets, which are absolute there, and their timestamps."""
    records = numbered(1, 30, 31)
    data = wrap(set_of(records, 1), 0, codec, offset=31)
    why = "KAFKA-4298: the old log cleaner left such sets; Java readers take them, brokers refuse them"
    return acceptable(data, wrapper_batch(records, 0, codec), kinds=("malformed", "unsupported_magic"), why=why)


@case("NST-15", each={"v0-first": (0, 1), "v1-first": (1, 0)})
def magics_mixed_in_a_v1_wrapper(magics: tuple[int, int]) -> Draft:
    """v0 and v1 messages in one LogAppendTime wrapper: only those of v1 get its time."""
    records = [numbered(magic, 30, 31)[index] for index, magic in enumerate(magics)]
    inner = b"".join(message_bytes(record, magic, base=30) for record, magic in zip(records, magics, strict=True))
    data = wrap(inner, 1, "gzip", offset=31, timestamp=LAT, attributes=APPEND_BIT)
    read = [r._replace(timestamp=LAT if magic else -1) for r, magic in zip(records, magics, strict=True)]
    why = "brokers refuse mixed sets, Java readers take them"
    batch = wrapper_batch(read, 1, "gzip", append=True, timestamp=LAT)
    return acceptable(data, batch, kinds=("malformed", "unsupported_magic"), why=why)


@case("NST-16", each=grid(magic=MAGICS, codec=CODECS, inner={"gzip": "gzip", "lz4": "lz4"}))
def nested_compression(shape: dict[str, Any]) -> Draft:
    """A compressed message inside a wrapper is refused."""
    magic = shape["magic"]
    inner, _ = wrapped(numbered(magic, 0, 1), magic, shape["inner"])
    return invalid(wrap(inner, magic, shape["codec"], offset=1), "malformed", "unsupported_compression")


@case("NST-16", each=MAGICS)
def codec_bits_on_a_plain_inner_message(magic: int) -> Draft:
    """Codec bits on an inner message are refused, whatever its value is."""
    first, second = numbered(magic, 0, 1)
    inner = message_bytes(first, magic) + message_bytes(second, magic, attributes=1)
    return invalid(wrap(inner, magic, "gzip", offset=1), "malformed", "unsupported_compression", "decompression")


@case("NST-25", "NST-16", "LEG-04", each=CODECS)
def v2_batch_in_a_v1_wrapper(codec: Compression) -> Draft:
    """A v2 batch inside a v1 wrapper is no message: its CRC is at another place."""
    return invalid(wrap(raw_batch(raw_record()), 1, codec), "corrupt", "malformed", "unsupported_magic", "truncated")


@case("NST-02", each=BOTH)
def wrapper_with_a_key(shape: dict[str, Any]) -> Draft:
    """A wrapper's key should be null; any other key is ignored."""
    magic, codec = shape["magic"], shape["codec"]
    records = numbered(magic, 0, 1)
    data = wrap(set_of(records, magic), magic, codec, offset=1, timestamp=TIMESTAMP + 1, key=b"outer key")
    return valid(data, wrapper_batch(records, magic, codec, timestamp=TIMESTAMP + 1))


@case("NST-03", each=BOTH)
def wrapper_with_null_value(shape: dict[str, Any]) -> Draft:
    """A wrapper without a value is refused."""
    return invalid(seal(None, shape["magic"], shape["codec"]), "malformed", "decompression", "truncated")


@case("NST-04", "CMP-08", each=BOTH)
def wrapper_with_empty_value(shape: dict[str, Any]) -> Draft:
    """A wrapper with a value of no bytes is refused: no codec has a frame of no bytes."""
    return invalid(seal(b"", shape["magic"], shape["codec"]), "decompression", "malformed", "truncated")


@case("NST-05", each=BOTH)
def empty_set(shape: dict[str, Any]) -> Draft:
    """A wrapper around no messages at all is refused."""
    return invalid(wrap(b"", shape["magic"], shape["codec"], offset=5), *STRUCTURE, "decompression")


@case("NST-05", each={"one": 1, "eleven": 11})
def set_shorter_than_a_prefix(size: int) -> Draft:
    """A wrapper around fewer bytes than an offset and a size holds no message."""
    return invalid(wrap(bytes(size), 1, "gzip", offset=5), *STRUCTURE)


TAILS = {"by-1": -1, "to-half": -12, "to-the-crc": 16, "to-the-prefix": 12, "to-11-bytes": 11, "to-1-byte": 1}


@case("NST-06", each=grid(magic=MAGICS, tail=TAILS))
def inner_tail_cut_short(shape: dict[str, Any]) -> Draft:
    """Kafka drops a last inner message that is cut short, and reads the messages before it."""
    magic = shape["magic"]
    first, second, third = numbered(magic, 0, 1, 2)
    inner = set_of([first, second], magic) + message_bytes(third, magic)[: shape["tail"]]
    data = wrap(inner, magic, "gzip", offset=1, timestamp=TIMESTAMP + 1)
    why = "DataLogInputStream takes the end of the data for the end of the set, a stricter reader need not"
    batch = wrapper_batch([first, second], magic, "gzip", timestamp=TIMESTAMP + 1)
    return acceptable(data, batch, kinds=("truncated", "malformed"), why=why)


@case("NST-07", each=grid(magic=MAGICS, size={"13": 13, "0": 0, "minus-1": -1, "least": -(2**31)}))
def inner_size_below_smallest(shape: dict[str, Any]) -> Draft:
    """An inner size below 14 cannot be."""
    magic = shape["magic"]
    first, second = numbered(magic, 0, 1)
    bad = put(message_bytes(second, magic), "message_size", shape["size"], layout=MESSAGE_V0)
    return invalid(
        wrap(message_bytes(first, magic) + bad, magic, "gzip", offset=1), "malformed", "corrupt", "truncated"
    )


@case("NST-07", each={"11": 11, "12": 12, "100": 100})
def zeros_behind_the_messages(size: int) -> Draft:
    """Twelve zero bytes after the last inner message are a message of size 0; eleven are a short tail."""
    records = numbered(1, 0, 1)
    data = wrap(set_of(records, 1) + bytes(size), 1, "gzip", offset=1, timestamp=TIMESTAMP + 1)
    if size >= 12:
        return invalid(data, "malformed", "corrupt", "truncated")
    why = "DataLogInputStream takes fewer than 12 bytes for the end of the set"
    batch = wrapper_batch(records, 1, "gzip", timestamp=TIMESTAMP + 1)
    return acceptable(data, batch, kinds=("truncated", "malformed"), why=why)


@case("NST-18", "NST-17", each=grid(codec=CODECS, bad={"first": 0, "middle": 1, "last": 2}))
def inner_crc_wrong(shape: dict[str, Any]) -> Draft:
    """An inner message whose CRC is wrong is corrupt, although the wrapper's CRC is right.

    Java's iterator leaves inner CRCs alone, but its consumer and the brokers ask for them.
    """
    messages = [message_bytes(record, 1) for record in numbered(1, 0, 1, 2)]
    messages[shape["bad"]] = flip(messages[shape["bad"]], 12)
    return invalid(wrap(b"".join(messages), 1, shape["codec"], offset=2), "corrupt")


@case("NST-18", each=CODECS)
def inner_value_changed(codec: Compression) -> Draft:
    """An inner value that changed before compression no longer matches its CRC."""
    inner = set_of(numbered(0, 0, 1), 0)
    return invalid(wrap(flip(inner, len(inner) - 1), 0, codec, offset=1), "corrupt")


@case("NST-19", each=BOTH)
def wrapper_crc_wrong(shape: dict[str, Any]) -> Draft:
    """A wrapper whose CRC is wrong, around messages whose CRCs are right."""
    magic, codec = shape["magic"], shape["codec"]
    data, batch = wrapped(numbered(magic, 0, 1), magic, codec)
    why = "brokers refuse the wrapper; Java's consumer checks the inner CRCs only"
    return acceptable(flip(data, 15), batch, kinds=("corrupt",), why=why)


@case("NST-26", each=CODECS)
def first_offset_lies_inside(codec: Compression) -> Draft:
    """The first offset of a wrapper is known only from inside; the wrapper carries the last."""
    data, batch = wrapped(numbered(1, 1000, 1004, 1005, 1010), 1, codec)
    assert (batch.base_offset, batch.last_offset) == (1000, 1010)
    return valid(data, batch)


@case("NST-27", each=grid(magic=MAGICS, tail={"by-1": -1, "to-the-prefix": 12, "to-14": 14, "to-26": 26}))
def only_inner_message_cut_short(shape: dict[str, Any]) -> Draft:
    """A wrapper whose only message is cut short holds no message, and is refused."""
    magic = shape["magic"]
    inner = message_bytes(record_of(magic, 0, b"key", b"a value to cut"), magic)[: shape["tail"]]
    return invalid(wrap(inner, magic, "snappy"), *STRUCTURE)


@case("LEG-14", "NST-01", each=MAGICS)
def lz4_is_known_to_all(magic: int) -> Draft:
    """Codec 3, lz4, is valid in v0 as in v1."""
    data, batch = wrapped(numbered(magic, 8, 9), magic, "lz4")
    return valid(data, batch)


@case("LEG-15", each=MAGICS)
def zstd_wrapper(magic: int) -> Draft:
    """A sound zstd frame in a v0 or v1 wrapper is refused all the same."""
    return invalid(wrap(set_of(numbered(magic, 0, 1), magic), magic, "zstd", offset=1), "unsupported_compression")


@case("NST-01", each=CODECS)
def codec_bits_without_a_set(codec: Compression) -> Draft:
    """Codec bits over a value that is not compressed are refused."""
    data = raw_message(1, b"key", b"just a value", attributes=codec_id(codec))
    return invalid(data, "decompression", "malformed", "corrupt", "truncated")


@case("LEG-03", "NST-07", each={"14": 14, "21": 21})
def inner_v1_message_too_short_for_its_fields(size: int) -> Draft:
    """An inner v1 message of 14 to 21 bytes has no room for its fields."""
    inner = put(message_bytes(record_of(1), 1), "message_size", size, layout=MESSAGE_V0)[: 12 + size]
    return invalid(wrap(inner, 1, "gzip"), "truncated", "malformed", "corrupt")


@case("NST-01", "FRM-02", each=CODECS)
def broken_wrapper_ends_the_log(codec: Compression) -> Draft:
    """The entries before a wrapper that cannot be read have been read."""
    good, batch = wrapped(numbered(1, 0, 1), 1, codec)
    bad = wrap(b"", 1, codec, offset=2)
    return invalid(good + bad + good, *STRUCTURE, "decompression", before=(batch,))
