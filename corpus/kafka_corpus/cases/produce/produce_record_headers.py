"""Headers of produced records on brokers (group REC, from REC-14 on)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_corpus.authoring.build import raw_header, raw_headers, raw_record, record
from kafka_corpus.authoring.steps import enclosed, kept_batch, offered, since_of, written
from kafka_corpus.registry import Draft, case, error_answer, produced, stored
from kafka_records.broker.errors import INVALID_RECORD
from kafka_records.constants import INT32_MAX, Compression
from kafka_records.varint import encode_varint

CODECS: Final[dict[str, Compression]] = {"none": "none", "gzip": "gzip"}
COMPRESSED: Final[tuple[Compression, ...]] = ("gzip", "snappy", "lz4", "zstd")
LOWEST: Final = -INT32_MAX - 1
NEGATIVE: Final = {"-1": -1, "-3": -3, "lowest": LOWEST}
UNCOMPRESSED: Final = {"compression.type": "uncompressed"}
ONE: Final = raw_header(b"h", b"1")
REPLACEMENT: Final = b"\xef\xbf\xbd"  # U+FFFD


def counting(count: int, *headers: bytes) -> bytes:
    """A record that says *count* and has *headers*."""
    return raw_record(header_count=encode_varint(count), headers=b"".join(headers))


def having(*headers: tuple[bytes, bytes | None]) -> bytes:
    """A record with its headers as they should be."""
    return counting(len(headers), raw_headers(headers))


def in_a_rewrite(record_bytes: bytes, headers: Iterable[tuple[bytes, bytes | None]]) -> Draft:
    """Sent in gzip to a topic that is not compressed, the record gets *headers*."""
    answer = stored(written(record(headers=headers)))
    return produced(enclosed("gzip", record_bytes), answer, config=UNCOMPRESSED)


@case("REC-14", each=offered(CODECS, {name: counting(count) for name, count in NEGATIVE.items()}))
def negative_header_count_is_refused(payload: bytes) -> Draft:
    """A header count below 0 is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("REC-14", "RWR-05", each=NEGATIVE)
def negative_header_count_is_refused_in_a_rewrite(count: int) -> Draft:
    """A header count below 0 is refused where the batch is decompressed to be rewritten."""
    return produced(enclosed("gzip", counting(count)), error_answer(INVALID_RECORD), config=UNCOMPRESSED)


@case(
    "REC-15",
    each=offered(CODECS, {"1 of 0": counting(1), "2 of 1": counting(2, ONE), "2^31 - 1": counting(INT32_MAX, ONE)}),
)
def header_count_above_the_headers_is_refused(payload: bytes) -> Draft:
    """A header count above the headers that are there is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("REC-15", each=COMPRESSED)
def header_count_takes_in_the_next_record(codec: Compression) -> Draft:
    """In a compressed batch a second header is looked for in the next record, until the data runs out."""
    batch = enclosed(codec, counting(2, ONE) + raw_record(offset_delta=1), record_count=2)
    return produced(batch, error_answer(INVALID_RECORD), since=since_of(codec))


@case("REC-15", each=COMPRESSED)
def headers_of_no_bytes_before_a_larger_one(codec: Compression) -> Draft:
    """A compressed record is stored whose first headers have neither key nor value, and whose last one has both."""
    record_bytes = having((b"", None), (b"", None), (b"", None), (b"key", b"value"))
    batch = enclosed(codec, record_bytes)
    return produced(batch, stored(kept_batch(batch)), since=since_of(codec))


@case("REC-16", each=offered(CODECS, {"no count": raw_record(header_count=b"")}))
def missing_header_count_is_refused(payload: bytes) -> Draft:
    """A record that ends after its value is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("REC-16", "REC-06")
def header_count_is_taken_from_the_next_record() -> Draft:
    """In a compressed batch the next record's length is taken for the missing header count: nothing fits then."""
    payload = raw_record(header_count=b"") + raw_record(offset_delta=1)
    return produced(enclosed("gzip", payload, record_count=2), error_answer(INVALID_RECORD))


@case("REC-17", each=offered(CODECS, {"0 of 1": counting(0, ONE), "1 of 2": counting(1, ONE, ONE)}))
def header_count_below_the_headers_is_refused(payload: bytes) -> Draft:
    """A header count below the headers that are there is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("REC-17", each=CODECS)
def header_left_over_before_another_record_is_refused(codec: Compression) -> Draft:
    """A header that is not counted is taken for the next record, or counts against the length of its own."""
    payload = counting(0, ONE) + raw_record(offset_delta=1)
    return produced(enclosed(codec, payload, record_count=2), error_answer(INVALID_RECORD))


@case(
    "REC-18",
    each=offered(
        CODECS,
        {
            name: counting(1, raw_header(None, b"1", key_length=encode_varint(length)))
            for name, length in NEGATIVE.items()
        },
    ),
)
def null_header_key_is_refused(payload: bytes) -> Draft:
    """There are no null header keys: a length below 0 is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("REC-18", "RWR-05")
def null_header_key_is_refused_in_a_rewrite() -> Draft:
    """A null header key is refused where the batch is decompressed to be rewritten."""
    return produced(
        enclosed("gzip", counting(1, raw_header(None, b"1"))), error_answer(INVALID_RECORD), config=UNCOMPRESSED
    )


@case(
    "REC-18",
    "REC-13",
    each=offered(
        CODECS,
        {
            "key": counting(1, raw_header(b"h", b"1", key_length=encode_varint(99))),
            "value": counting(1, raw_header(b"h", b"1", value_length=encode_varint(2))),
        },
    ),
)
def header_beyond_the_record_is_refused(payload: bytes) -> Draft:
    """A header's key or value must not run past the record."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "REC-19",
    each=offered(CODECS, {"and a value": having((b"", b"1")), "twice, and null": having((b"", None), (b"", None))}),
)
def empty_header_key_is_stored(payload: bytes) -> Draft:
    """A header key may be empty."""
    return produced(payload, stored(kept_batch(payload)))


@case("REC-19", "RWR-05")
def empty_header_key_stays_in_a_rewrite() -> Draft:
    """An empty header key is rewritten as an empty one."""
    headers = ((b"", b"1"), (b"", None))
    return in_a_rewrite(having(*headers), headers)


@case(
    "REC-20",
    each=offered(
        CODECS,
        {
            name: counting(1, raw_header(b"h", None, value_length=encode_varint(length)))
            for name, length in NEGATIVE.items()
        },
    ),
)
def negative_header_value_length_is_stored(payload: bytes) -> Draft:
    """Any header value length below 0 is accepted, and stored as it came."""
    return produced(payload, stored(kept_batch(payload)))


@case("REC-20", "RWR-05", each=NEGATIVE)
def negative_header_value_length_becomes_minus_one(length: int) -> Draft:
    """Where the broker rewrites the record, a header value length below 0 is a null value's."""
    sent = counting(1, raw_header(b"h", None, value_length=encode_varint(length)))
    return in_a_rewrite(sent, ((b"h", None),))


# Bytes that are no UTF-8, and how Java's strings write them.
NOT_UTF8: Final[dict[str, tuple[bytes, bytes]]] = {
    "0xff": (b"\xff", REPLACEMENT),
    "between letters": (b"a\xfeb", b"a" + REPLACEMENT + b"b"),
    "cut short": (b"\xe2\x82", REPLACEMENT),
    "continuation alone": (b"\x80\x80", REPLACEMENT * 2),
    "two bytes for NUL": (b"\xc0\x80", REPLACEMENT * 2),
}


@case("REC-21", each=offered(CODECS, {name: having((key, b"1")) for name, (key, _) in NOT_UTF8.items()}))
def header_key_that_is_not_utf8_is_stored(payload: bytes) -> Draft:
    """A header key of any bytes is accepted, and stored as it came."""
    return produced(payload, stored(kept_batch(payload)))


@case("REC-22", "REC-21", "RWR-05", each=NOT_UTF8)
def header_key_that_is_not_utf8_is_lost_in_a_rewrite(given: tuple[bytes, bytes]) -> Draft:
    """Where the broker rewrites the record, bytes of a header key that are not UTF-8 become U+FFFD."""
    key, becomes = given
    return in_a_rewrite(having((key, b"1")), ((becomes, b"1"),))


@case("REC-22", "RWR-05", each={"gzip": "gzip", "lz4": "lz4"})
def header_key_that_is_not_utf8_is_lost_on_compression(codec: Compression) -> Draft:
    """Where the broker compresses a batch, bytes of a header key that are not UTF-8 become U+FFFD."""
    answer = stored(written(record(headers=((REPLACEMENT, b"\xff"),)), codec=codec))
    sent = enclosed("none", having((b"\xff", b"\xff")))
    return produced(sent, answer, config={"compression.type": codec}, compare="masked")


@case("REC-22", "RWR-05")
def header_value_and_keys_in_utf8_stay_in_a_rewrite() -> Draft:
    """Header keys in UTF-8, and values of any bytes, come out of a rewrite as they were."""
    headers = (("größe".encode(), b"\xff\xfe"), ("😀".encode(), b"\x80"))
    return in_a_rewrite(having(*headers), headers)


REPEATED: Final = {
    "twice the same": ((b"h", b"1"), (b"h", b"1")),
    "in between": ((b"h", b"2"), (b"g", b"1"), (b"h", b"1")),
    "NUL": ((b"a\x00b", b"1"), (b"\x00", None)),
}


@case("REC-23", each=offered(CODECS, {name: having(*headers) for name, headers in REPEATED.items()}))
def repeated_header_keys_are_stored(payload: bytes) -> Draft:
    """A header key may occur more than once, and may hold NUL."""
    return produced(payload, stored(kept_batch(payload)))


@case("REC-23", "RWR-05", each=REPEATED)
def repeated_header_keys_keep_their_order_in_a_rewrite(headers: tuple[tuple[bytes, bytes | None], ...]) -> Draft:
    """Where the broker rewrites the record, headers stay as many, and in their order."""
    return in_a_rewrite(having(*headers), headers)
