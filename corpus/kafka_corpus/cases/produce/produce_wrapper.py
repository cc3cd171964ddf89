"""Produced v0 and v1 wrappers, which are compressed message sets, on brokers (group NST).

The expected bytes are those of 3.9, the last release that takes wrappers: it
rewrites them as one v2 batch (CNV-01).
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, flip, grid, raw_message
from kafka_corpus.authoring.messages import message_bytes, numbered, seal, set_of, wrap, wrapped
from kafka_corpus.authoring.steps import written
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Fetch, Produce
from kafka_records import Record
from kafka_records.broker.errors import CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR
from kafka_records.constants import INT64_MAX, Compression

LAST_OF_V1: Final = 2  # the last produce version that takes wrappers
MAGICS: Final = {"v0": 0, "v1": 1}
CODECS: Final[dict[str, Compression]] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
# Each magic, and each codec, at least once.
EITHER: Final[dict[str, tuple[int, Compression]]] = {
    "v1, gzip": (1, "gzip"),
    "v1, lz4": (1, "lz4"),
    "v0, snappy": (0, "snappy"),
}
THREE: Final = numbered(1, 0, 1, 2)
INNER: Final = set_of(THREE, 1)


def takes(payload: bytes, *records: Record, codec: Compression = "gzip") -> Draft:
    """*payload* is stored as a v2 batch of *records*."""
    answer = stored(written(*records, codec=codec))
    return produced(payload, answer, api_version=LAST_OF_V1, compare="masked")


def refuses(payload: bytes, code: int, config: dict[str, str] | None = None) -> Draft:
    """*payload* is refused with *code*."""
    return produced(payload, error_answer(code), api_version=LAST_OF_V1, config=config)


@case("NST-02", each=grid(magic=MAGICS, key={"empty": b"", "key": b"key"}))
def key_of_a_wrapper_is_lost(given: dict[str, Any]) -> Draft:
    """The key of a wrapper is ignored."""
    magic = given["magic"]
    records = numbered(magic, 0, 1)
    return takes(wrap(set_of(records, magic), magic, "gzip", offset=1, key=given["key"]), *records)


@case("NST-02", "LEG-26")
def compacted_topic_takes_a_wrapper_without_key() -> Draft:
    """A compacted topic looks at the keys of the inner messages, and not for one of the wrapper."""
    answer = stored(written(*THREE, codec="gzip"))
    data = wrapped(THREE, 1, "gzip")[0]
    return produced(data, answer, api_version=LAST_OF_V1, config={"cleanup.policy": "compact"}, compare="masked")


@case("NST-03", each=EITHER)
def wrapper_without_value_is_refused(given: tuple[int, Compression]) -> Draft:
    """A wrapper with a null value is invalid."""
    return refuses(seal(None, *given), INVALID_RECORD)


@case("NST-04", each=grid(magic=MAGICS, codec=CODECS))
def wrapper_with_an_empty_value_is_an_unknown_error(given: dict[str, Any]) -> Draft:
    """A wrapper with a value of no bytes fails in the codec."""
    return refuses(seal(b"", given["magic"], given["codec"]), UNKNOWN_SERVER_ERROR)


@case("NST-05", each=grid(magic=MAGICS, codec=CODECS))
def wrapper_of_no_messages_is_refused(given: dict[str, Any]) -> Draft:
    """A wrapper around a set without a message is invalid."""
    return refuses(wrap(b"", given["magic"], given["codec"]), INVALID_RECORD)


@case("NST-05", each={"1 byte": bytes(1), "11 bytes": bytes(11)})
def wrapper_of_a_few_bytes_is_refused(inner: bytes) -> Draft:
    """A wrapper around fewer than 12 bytes holds no message."""
    return refuses(wrap(inner, 1, "gzip"), INVALID_RECORD)


TAILS: Final = {
    "1 byte": b"\xff",
    "11 bytes": bytes(11),
    "17 bytes": raw_message(1)[:17],
    "all but one": raw_message(1)[:-1],
}


@case("NST-06", each=TAILS)
def tail_behind_inner_messages_is_dropped(tail: bytes) -> Draft:
    """After an inner message, fewer than 12 bytes or one that is cut short are left out."""
    return takes(wrap(INNER + tail, 1, "gzip", offset=2, timestamp=TIMESTAMP + 2), *THREE)


@case("NST-06", each={"snappy": "snappy", "lz4": "lz4"})
def tail_behind_inner_messages_of_v0_is_dropped(codec: Compression) -> Draft:
    """A v0 message that is cut short after others is left out."""
    records = numbered(0, 0, 1)
    return takes(wrap(set_of(records, 0) + raw_message(0)[:-1], 0, codec, offset=1), *records, codec=codec)


@case("NST-07", each=grid(magic=MAGICS, size={"13": 13, "0": 0, "-1": -1}))
def inner_size_below_14_is_corrupt(given: dict[str, int]) -> Draft:
    """An inner message that says that it has fewer than 14 bytes is corrupt."""
    magic = given["magic"]
    return refuses(wrap(raw_message(magic, message_size=given["size"]), magic, "gzip"), CORRUPT_MESSAGE)


@case("NST-07", "NST-06", each={"12 zeros": bytes(12), "size 13": raw_message(1, message_size=13)})
def inner_size_below_14_behind_another_is_corrupt(tail: bytes) -> Draft:
    """After an inner message, 12 bytes with too small a size are corrupt, not a tail to be dropped."""
    return refuses(wrap(INNER + tail, 1, "gzip", offset=2), CORRUPT_MESSAGE)


@case("NST-09", each={str(count): count for count in (2, 3)})
def wrapper_offset_of_zero_is_accepted(count: int) -> Draft:
    """A v1 wrapper of several messages may have offset 0, as certain versions of librdkafka write it."""
    records = numbered(1, *range(count))
    return takes(wrap(set_of(records, 1), 1, "gzip"), *records)


@case("NST-10", each={"1 of 2": 1, "-1": -1})
def wrapper_offset_below_the_last_inner_one_is_refused(offset: int) -> Draft:
    """A v1 wrapper offset other than 0 must not be below the last inner offset."""
    return refuses(wrap(INNER, 1, "gzip", offset=offset), INVALID_RECORD)


@case("NST-10", each={"equal": 2, "above": 3, "far above": 77, "largest": INT64_MAX})
def wrapper_offset_from_the_last_inner_one_on_is_taken(offset: int) -> Draft:
    """A v1 wrapper offset may be the last inner one, or any above it."""
    return takes(wrap(INNER, 1, "gzip", offset=offset), *THREE)


@case("NST-10", "NST-14", each={"0": 0, "1": 1})
def wrapper_offset_of_v0_is_not_looked_at(offset: int) -> Draft:
    """In v0 the wrapper's offset may be below the last inner one."""
    records = numbered(0, 0, 1, 2)
    return takes(wrap(set_of(records, 0), 0, "gzip", offset=offset), *records)


ORDERS: Final = {
    "absolute": ((70, 71, 72), 72),
    "all zero": ((0, 0, 0), 2),
    "reversed": ((2, 1, 0), 2),
    "with gaps": ((0, 5, 9), 9),
    "twice the same": ((0, 1, 1), 2),
    "from 1 on": ((1, 2, 3), 3),
    "negative": ((-3, -2, -1), 5),
}


@case("NST-13", each=ORDERS)
def inner_offsets_are_written_anew(given: tuple[tuple[int, ...], int]) -> Draft:
    """Inner offsets of v1 other than 0 to n - 1 are not refused; the records are numbered as they come."""
    offsets, offset = given
    inner = set_of(numbered(1, *offsets), 1)
    return takes(wrap(inner, 1, "gzip", offset=offset, timestamp=TIMESTAMP + 2), *THREE)


@case("NST-13", "NST-14", each={"absolute": (70, 71, 72), "reversed": (2, 1, 0), "all zero": (0, 0, 0)})
def inner_offsets_of_v0_are_written_anew(offsets: tuple[int, ...]) -> Draft:
    """Inner offsets of v0 are not looked at either."""
    inner = set_of(numbered(0, *offsets), 0)
    return takes(wrap(inner, 0, "snappy", offset=offsets[-1]), *numbered(0, 0, 1, 2), codec="snappy")


@case("NST-13", "RWR-05")
def inner_offsets_go_on_behind_what_is_there() -> Draft:
    """The records of a second wrapper get the offsets after those of the first."""
    data = wrapped(THREE, 1, "gzip")[0]
    first = written(*THREE)
    second = first[:7] + b"\x03" + first[8:]
    return scene(
        (Produce(data=data, api_version=LAST_OF_V1), stored(first)),
        (Produce(data=data, api_version=LAST_OF_V1), stored(second, base_offset=3)),
        (Fetch(), stored(first + second, base_offset=-1, high_watermark=6, last_stable_offset=6)),
        config={"compression.type": "uncompressed"},
    )


@case("NST-15", each={"v0 in v1": (0, 1), "v1 in v0": (1, 0)})
def inner_message_of_another_magic_is_refused(given: tuple[int, int]) -> Draft:
    """Inner messages must have the wrapper's magic."""
    inner, outer = given
    payload = wrap(raw_message(inner), outer, "gzip")
    return produced(payload, error_answer(INVALID_RECORD), api_version=LAST_OF_V1)


@case("NST-15")
def second_inner_message_of_another_magic_is_refused() -> Draft:
    """Every inner message is looked at, not the first alone."""
    return refuses(wrap(raw_message(1) + raw_message(0, offset=1), 1, "gzip", offset=1), INVALID_RECORD)


@case("NST-16", each=EITHER)
def wrapper_in_a_wrapper_is_refused(given: tuple[int, Compression]) -> Draft:
    """An inner message must not be compressed."""
    magic, codec = given
    return refuses(wrap(wrapped(numbered(magic, 0), magic, codec)[0], magic, "gzip"), INVALID_RECORD)


@case("NST-16", each={"first": 0, "last": 1})
def codec_bits_of_one_inner_message_are_refused(which: int) -> Draft:
    """An inner message that only says that it is compressed is refused, wherever it stands."""
    bits = [0, 0]
    bits[which] = 1
    inner = b"".join(raw_message(1, offset=at, attributes=bit) for at, bit in enumerate(bits))
    return refuses(wrap(inner, 1, "gzip", offset=1), INVALID_RECORD)


@case("NST-16", "LEG-16")
def unknown_codec_of_an_inner_message_is_an_unknown_error() -> Draft:
    """An inner message with codec 5 is an IllegalArgumentException of Java's."""
    return refuses(wrap(raw_message(1, attributes=5), 1, "gzip"), UNKNOWN_SERVER_ERROR)


@case("NST-17", each=EITHER)
def corrupt_inner_message_is_refused(given: tuple[int, Compression]) -> Draft:
    """The checksum of an inner message is verified."""
    magic, codec = given
    message = raw_message(magic, b"key")
    return refuses(wrap(flip(message, len(message) - 1), magic, codec), CORRUPT_MESSAGE)


@case("NST-17", each={"first": 0, "last": 2})
def one_corrupt_inner_message_refuses_all(which: int) -> Draft:
    """The checksum of every inner message is verified."""
    each = [message_bytes(record, 1) for record in THREE]
    each[which] = flip(each[which], len(each[which]) - 1)
    return refuses(wrap(b"".join(each), 1, "gzip", offset=2), CORRUPT_MESSAGE)


@case("NST-17", "RWR-05")
def corrupt_inner_message_is_refused_in_another_codec() -> Draft:
    """The checksum of an inner message is verified where the topic has another codec, too."""
    message = raw_message(1, crc=0)
    return refuses(wrap(message, 1, "gzip"), CORRUPT_MESSAGE, {"compression.type": "lz4"})


@case("NST-23", each={"far too early": 5, "too late": TIMESTAMP + 9, "the second": TIMESTAMP + 1, "none": -1})
def timestamp_of_a_wrapper_is_computed_again(timestamp: int) -> Draft:
    """The time of a wrapper need not be the largest of its messages; the maximum is that of the records."""
    return takes(wrap(INNER, 1, "gzip", offset=2, timestamp=timestamp), *THREE)


@case("NST-23")
def largest_inner_timestamp_may_be_in_the_middle() -> Draft:
    """The maximum is the largest inner timestamp, not the last."""
    times = (TIMESTAMP, TIMESTAMP + 50, TIMESTAMP + 1)
    records = [record._replace(timestamp=time) for record, time in zip(THREE, times, strict=True)]
    return takes(wrap(set_of(records, 1), 1, "lz4", offset=2, timestamp=TIMESTAMP + 1), *records, codec="lz4")


ALONE: Final = {
    "two wrappers": wrapped(THREE, 1, "gzip")[0] * 2,
    # Before 0.11 brokers kept both as they came.
    "two wrappers, numbered on": wrapped(THREE, 1, "gzip")[0]
    + wrap(set_of([each._replace(value=b"other") for each in THREE], 1), 1, "gzip", offset=5, timestamp=TIMESTAMP + 2),
    "of two codecs": wrapped(THREE, 1, "gzip")[0] + wrapped(THREE, 1, "lz4")[0],
    "before a message": wrapped(THREE, 1, "gzip")[0] + raw_message(1),
    "behind a message": raw_message(1) + wrapped(THREE, 1, "gzip")[0],
    "v0, two wrappers": wrapped(numbered(0, 0), 0, "snappy")[0] * 2,
}


@case("NST-24", each=ALONE)
def wrapper_has_to_be_alone(payload: bytes) -> Draft:
    """A wrapper must be the one and only entry for its partition."""
    return refuses(payload, INVALID_RECORD)


@case("NST-24", "FRM-07")
def wrapper_may_have_a_partial_one_behind_it() -> Draft:
    """A second wrapper that is cut short is left out before that is checked."""
    data = wrapped(THREE, 1, "gzip")[0]
    return takes(data + data[:-1], *THREE)


@case("NST-25", each={"v1": 1, "v0": 0})
def batch_in_a_wrapper_is_refused(magic: int) -> Draft:
    """A v2 batch inside a wrapper is refused."""
    return refuses(wrap(bytes_of(batch_of(*some_records(1))), magic, "gzip"), INVALID_RECORD)


@case("NST-25", "NST-15")
def batch_behind_an_inner_message_is_refused() -> Draft:
    """A v2 batch after a message inside a wrapper is refused."""
    batch = bytes_of(batch_of(*some_records(1)))
    return refuses(wrap(raw_message(1) + batch, 1, "gzip", offset=1), INVALID_RECORD)


@case("NST-27", each=grid(magic=MAGICS, size={"12": 12, "17": 17, "all but one": -1}))
def truncated_only_message_is_none(given: dict[str, int]) -> Draft:
    """A wrapper around a single message that is cut short holds none."""
    magic = given["magic"]
    return refuses(wrap(raw_message(magic)[: given["size"]], magic, "gzip"), INVALID_RECORD)
