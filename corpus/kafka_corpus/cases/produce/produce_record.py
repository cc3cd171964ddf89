"""Records of a produced batch on brokers: their lengths, keys and values (group REC)."""

from __future__ import annotations

from typing import Final

from kafka_corpus.authoring.build import raw_record, record
from kafka_corpus.authoring.steps import enclosed, kept_batch, offered, since_of, written
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Fetch, Produce
from kafka_records.broker.errors import INVALID_RECORD
from kafka_records.constants import INT32_MAX, Compression
from kafka_records.varint import encode_varint

CODECS: Final[dict[str, Compression]] = {"none": "none", "gzip": "gzip"}
COMPRESSED: Final[tuple[Compression, ...]] = ("gzip", "snappy", "lz4", "zstd")
LOWEST: Final = -INT32_MAX - 1
# The last release without max.decompressed.message.bytes, which bounds lengths.
UNMEASURED: Final = "4.3.1"
UNCOMPRESSED: Final = {"compression.type": "uncompressed"}
COMPACTED: Final = {"cleanup.policy": "compact"}
RECORD: Final = raw_record(key=b"key")
BODY: Final = len(RECORD) - 1


def claiming(length: int) -> bytes:
    """A record that says another length."""
    return encode_varint(length) + RECORD[1:]


def second(**fields: object) -> bytes:
    """A whole record, and a second one with the given fields."""
    return RECORD + raw_record(offset_delta=1, **fields)  # type: ignore[arg-type]  # the caller's names


# Lengths


@case("REC-03", each={"one more": BODY + 1, "99 more": BODY + 99, "2^31 - 1": INT32_MAX})
def length_beyond_the_batch_is_refused(length: int) -> Draft:
    """In an uncompressed batch a record must not be longer than the rest of the batch."""
    return produced(enclosed("none", claiming(length)), error_answer(INVALID_RECORD))


@case("REC-03")
def length_beyond_the_batch_of_the_first_record_is_refused() -> Draft:
    """The first of nine records says that it is longer than all of them."""
    others = b"".join(raw_record(offset_delta=delta) for delta in range(1, 9))
    return produced(enclosed("none", claiming(999) + others, record_count=9), error_answer(INVALID_RECORD))


@case("REC-03")
def length_without_a_body_is_refused() -> Draft:
    """A last record of which only the length is there is refused."""
    return produced(enclosed("none", RECORD + b"\x02", record_count=2), error_answer(INVALID_RECORD))


@case("REC-04", each={"less": claiming(BODY - 1) + b"", "header count left over": raw_record(tail=b"\x00")})
def fields_that_miss_the_length_are_refused(payload: bytes) -> Draft:
    """In an uncompressed batch the fields have to use up exactly the bytes of the record's length."""
    return produced(enclosed("none", payload), error_answer(INVALID_RECORD))


@case("REC-04", each={"one more": BODY + 1, "two more": BODY + 2})
def length_that_reaches_into_the_next_record_is_refused(length: int) -> Draft:
    """A length that takes in the start of the next record is not used up."""
    return produced(
        enclosed("none", claiming(length) + raw_record(offset_delta=1), record_count=2), error_answer(INVALID_RECORD)
    )


@case(
    "REC-04",
    "RWR-05",
    each={"tail": raw_record(tail=b"x"), "one less": claiming(BODY - 1), "one more": claiming(BODY + 1)},
)
def fields_that_miss_the_length_are_refused_in_a_rewrite(payload: bytes) -> Draft:
    """Where a compressed batch is decompressed to be rewritten, the length is compared with the fields."""
    return produced(enclosed("gzip", payload), error_answer(INVALID_RECORD), config=UNCOMPRESSED)


@case("REC-06", "REC-05", each=COMPRESSED)
def length_of_a_compressed_record_is_not_compared(codec: Compression) -> Draft:
    """A compressed record that says one byte more than it has is stored, and fetched as it is."""
    batch = enclosed(codec, claiming(BODY + 1))
    return scene(
        (Produce(data=batch), stored(kept_batch(batch))),
        (Fetch(), stored(kept_batch(batch), base_offset=-1, high_watermark=1, last_stable_offset=1)),
        since=since_of(codec),
    )


@case("REC-06", each={"0": 0, "1": 1, "one less": BODY - 1, "1000": 1000, "2^30": 2**30})
def any_length_of_a_compressed_record_is_stored(length: int) -> Draft:
    """A compressed record may say any length from 0 on."""
    batch = enclosed("gzip", claiming(length))
    return produced(batch, stored(kept_batch(batch)))


@case("REC-06")
def length_of_one_of_two_compressed_records_is_not_compared() -> Draft:
    """The next record starts where the fields end, not where the length says."""
    batch = enclosed("gzip", claiming(99) + raw_record(offset_delta=1), record_count=2)
    return produced(batch, stored(kept_batch(batch)))


@case("REC-07", each={"-1": -1, "all of it": -BODY, "lowest": LOWEST})
def negative_length_is_refused(length: int) -> Draft:
    """In an uncompressed batch a record length below 0 is refused."""
    return produced(enclosed("none", claiming(length)), error_answer(INVALID_RECORD))


@case("REC-07", "SIZ-03", each={"-1": -1, "lowest": LOWEST})
def negative_length_is_refused_in_a_compressed_batch(length: int) -> Draft:
    """Since 4.4 a record length below 0 is refused in a compressed batch too."""
    return produced(enclosed("gzip", claiming(length)), error_answer(INVALID_RECORD))


@case("REC-07", "REC-06", each={"-1": -1, "lowest": LOWEST})
def negative_length_was_stored_in_a_compressed_batch(length: int) -> Draft:
    """Up to 4.3 a record length below 0 is stored in a compressed batch."""
    batch = enclosed("gzip", claiming(length))
    return produced(batch, stored(kept_batch(batch)), until=UNMEASURED)


@case("REC-08", "SIZ-03", each=COMPRESSED)
def largest_length_is_refused_in_a_compressed_batch(codec: Compression) -> Draft:
    """Since 4.4 a record length of 2^31 - 1 is refused: it is above the default of max.decompressed.message.bytes."""
    return produced(enclosed(codec, claiming(INT32_MAX)), error_answer(INVALID_RECORD), since=since_of(codec))


@case("REC-08", "REC-06", each=COMPRESSED)
def largest_length_was_stored_in_a_compressed_batch(codec: Compression) -> Draft:
    """Up to 4.3 a record length of 2^31 - 1 is stored in a compressed batch."""
    batch = enclosed(codec, claiming(INT32_MAX))
    return produced(batch, stored(kept_batch(batch)), until=UNMEASURED, since=since_of(codec))


@case("REC-08", "SIZ-03", each={"at the limit": INT32_MAX - 8})
def length_at_the_largest_array_is_stored(length: int) -> Draft:
    """The default limit is the largest array of Java's; a length of just that is not measured against the record."""
    batch = enclosed("gzip", claiming(length))
    return produced(batch, stored(kept_batch(batch)))


@case("REC-09", each={codec: codec for codec in ("none", *COMPRESSED)})
def record_without_a_body_is_refused(codec: Compression) -> Draft:
    """A record whose length is 0, and nothing follows, is refused."""
    return produced(enclosed(codec, b"\x00"), error_answer(INVALID_RECORD), since=since_of(codec))


@case("REC-09", each={"between two": RECORD + b"\x00" + raw_record(offset_delta=2)})
def record_without_a_body_between_others_is_refused(payload: bytes) -> Draft:
    """A record whose length is 0 is refused between others."""
    return produced(enclosed("none", payload, record_count=3), error_answer(INVALID_RECORD))


# Keys and values

NEGATIVE: Final = {"-2": -2, "lowest": LOWEST}


@case(
    "REC-10",
    each=offered(CODECS, {name: raw_record(key_length=encode_varint(length)) for name, length in NEGATIVE.items()}),
)
def negative_key_length_is_stored(payload: bytes) -> Draft:
    """Any key length below 0 is accepted, and stored as it came."""
    return produced(payload, stored(kept_batch(payload)))


@case("REC-10", "RWR-05", each=NEGATIVE)
def negative_key_length_becomes_minus_one(length: int) -> Draft:
    """Where the broker rewrites the record, a key length below 0 is a null key's."""
    sent = enclosed("gzip", raw_record(key_length=encode_varint(length)))
    return produced(sent, stored(written(record())), config=UNCOMPRESSED)


@case("REC-10", "PRD-17", each=offered(CODECS, {"-1": raw_record(), "-2": raw_record(key_length=encode_varint(-2))}))
def negative_key_length_is_no_key(payload: bytes) -> Draft:
    """A compacted topic wants keys, and a key length below 0 is none."""
    return produced(payload, error_answer(INVALID_RECORD, record_errors=(0,)), config=COMPACTED)


@case(
    "REC-11",
    each=offered(
        CODECS,
        {
            name: raw_record(key=b"key", value=None, value_length=encode_varint(length))
            for name, length in NEGATIVE.items()
        },
    ),
)
def negative_value_length_is_stored(payload: bytes) -> Draft:
    """Any value length below 0 is accepted, and stored as it came."""
    return produced(payload, stored(kept_batch(payload)))


@case("REC-11", "RWR-05", each=NEGATIVE)
def negative_value_length_becomes_minus_one(length: int) -> Draft:
    """Where the broker rewrites the record, a value length below 0 is a null value's."""
    sent = enclosed("gzip", raw_record(value=None, value_length=encode_varint(length)))
    return produced(sent, stored(written(record(None))), config=UNCOMPRESSED)


# After the key come its value's length and five bytes, and the header count.
AFTER_KEY: Final = 1 + len(b"value") + 1
BEYOND_KEY: Final = {"one more": 3 + AFTER_KEY + 1, "2^31 - 1": INT32_MAX}
BEYOND_VALUE: Final = {"one more": 5 + 1 + 1, "2^31 - 1": INT32_MAX}


@case(
    "REC-13",
    each=offered(
        CODECS, {name: raw_record(key=b"key", key_length=encode_varint(length)) for name, length in BEYOND_KEY.items()}
    ),
)
def key_beyond_the_record_is_refused(payload: bytes) -> Draft:
    """A key must not run past its record."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "REC-13",
    each=offered(
        CODECS, {name: raw_record(value_length=encode_varint(length)) for name, length in BEYOND_VALUE.items()}
    ),
)
def value_beyond_the_record_is_refused(payload: bytes) -> Draft:
    """A value must not run past its record."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("REC-13", "REC-16", each=offered(CODECS, {"value": raw_record(value_length=encode_varint(6))}))
def value_up_to_the_end_leaves_no_header_count(payload: bytes) -> Draft:
    """A value that takes in the last byte of its record does not run past it, but leaves no header count."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("REC-13", each=COMPRESSED)
def large_value_cut_short_is_refused(codec: Compression) -> Draft:
    """A value of which the last bytes are missing is refused, however it is skipped."""
    return produced(
        enclosed(codec, raw_record(value=bytes(9000))[:-9]), error_answer(INVALID_RECORD), since=since_of(codec)
    )


# Bytes after the records


@case("REC-25", each={codec: codec for codec in ("none", *COMPRESSED)})
def zero_byte_behind_the_records_is_refused(codec: Compression) -> Draft:
    """A single byte after the last record is an error, even 0."""
    return produced(enclosed(codec, RECORD + b"\x00"), error_answer(INVALID_RECORD), since=since_of(codec))


@case("REC-25", "HDR-14", each=offered(CODECS, {"a record": second(), "0xff": RECORD + b"\xff"}))
def more_behind_the_records_is_refused(payload: bytes) -> Draft:
    """The payload has to end after as many records as the header counts."""
    return produced(payload, error_answer(INVALID_RECORD))
