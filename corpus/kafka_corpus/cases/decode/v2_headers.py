"""Record headers (KIP-82): shapes, wrong counts, wrong lengths, keys that are not UTF-8.

`DefaultRecord#readHeaders`, seed 002:209-224.  Keys are bytes here (REC-21).
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    expected,
    grid,
    packed,
    raw_batch,
    raw_header,
    raw_headers,
    raw_record,
    record,
    sealed,
)
from kafka_corpus.registry import Draft, case, invalid, may_write, must_write, valid
from kafka_records import Kind
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.varint import encode_varint

Headers = tuple[tuple[bytes, bytes | None], ...]
INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated")
CODECS: Final = {"none": "none", "gzip": "gzip"}
TWO: Final[Headers] = ((b"first", b"1"), (b"second", b"22"))
AFTER: Final = raw_record(offset_delta=1, value=b"a value long enough to be overrun")

SHAPES: Final[dict[str, Headers]] = {
    "one": ((b"h", b"1"),),
    "two": TWO,
    "null value": ((b"h", None),),
    "empty value": ((b"h", b""),),
    "null and empty value": ((b"h", None), (b"h", b"")),
    "long value": ((b"h", b"v" * 9000),),
    "long key": ((b"k" * 9000, b"v"),),
    "63": tuple((b"h%d" % at, b"%d" % at) for at in range(63)),
    "64": tuple((b"h%d" % at, b"%d" % at) for at in range(64)),
    "1000": tuple((b"h", b"%d" % at) for at in range(1000)),
    "binary value": ((b"traceparent", bytes(range(256))),),
}


@case("REC-01", each=SHAPES)
def headers_are_read(headers: Headers) -> Draft:
    """Headers follow their count, each with a key and a nullable value, in the order written."""
    batch = expected(record(headers=headers))
    return valid(sealed(batch), batch)


@case("REC-01", each=tuple(COMPRESSIONS[1:]))
def compressed_headers_are_read(codec: Compression) -> Draft:
    """Headers of compressed records are read like others, and may differ from record to record."""
    shapes = tuple(SHAPES.values())[:6]
    batch = expected(*(record(offset=at, headers=shape) for at, shape in enumerate(shapes)), compression=codec)
    return valid(sealed(batch), batch)


@case("REC-01", each=SHAPES)
def headers_are_written(headers: Headers) -> Draft:
    """A writer writes the headers in the order given, after their count."""
    batch = expected(record(key=b"key", headers=headers))
    return must_write(batch, sealed(batch))


@case("REC-01", refs=["A03"])
def count_of_zero_is_written() -> Draft:
    """A record without headers ends in a count of 0, which three of the five seeds leave out."""
    batch = expected(record(b"no headers"))
    return must_write(batch, sealed(batch))


def lying(count: int, headers: Headers = TWO) -> bytes:
    """A record whose header count is *count*."""
    return raw_record(header_count=encode_varint(count), headers=raw_headers(headers))


def broken(payload: bytes, codec: Compression, *, followed: bool = False) -> Draft:
    """The batch around *payload*, and a second record if it is to be followed, is refused."""
    data = payload + AFTER if followed else payload
    return invalid(packed(codec, data, record_count=1 + followed), *STRUCTURE)


FOLLOWED: Final = {"alone": False, "followed": True}


@case("REC-14", each=grid(codec=CODECS, count={"-1": -1, "-2": -2, "INT32_MIN": INT32_MIN}))
def negative_count(row: dict[str, Any]) -> Draft:
    """A negative header count is refused, and does not mean null."""
    return broken(lying(row["count"]), row["codec"])


@case("REC-14", each=CODECS)
def count_of_minus_one_without_headers(codec: Compression) -> Draft:
    """A header count of -1 is refused also where there are no headers."""
    return broken(lying(-1, ()), codec)


HUGE: Final = {"bytes left and one": len(raw_headers(TWO)) + 1, "10000": 10_000, "INT32_MAX": INT32_MAX}


@case("REC-15", each=grid(codec=CODECS, count=HUGE))
def count_above_the_bytes_left(row: dict[str, Any]) -> Draft:
    """A header count above the bytes that are left is refused at once; nothing is allocated by it."""
    return broken(lying(row["count"]), row["codec"])


@case("REC-15", each=grid(codec=CODECS, followed=FOLLOWED))
def one_header_missing(row: dict[str, Any]) -> Draft:
    """A header count of 3 over two headers is refused, though a further record may follow."""
    return broken(lying(3), row["codec"], followed=row["followed"])


@case("REC-15", each=CODECS)
def count_of_one_without_headers(codec: Compression) -> Draft:
    """A header count of 1 over no headers is refused."""
    return broken(lying(1, ()), codec, followed=True)


@case("REC-16", each=grid(codec=CODECS, followed=FOLLOWED))
def count_missing(row: dict[str, Any]) -> Draft:
    """A record that ends after its value, as seed 000:79 draws it, has no header count and is refused."""
    return broken(raw_record(header_count=b""), row["codec"], followed=row["followed"])


@case("REC-16", each=CODECS)
def headers_without_a_count(codec: Compression) -> Draft:
    """Headers that follow the value directly are read as a count and refused."""
    return broken(raw_record(header_count=b"", headers=raw_headers(TWO)), codec)


@case("REC-17", each=grid(codec=CODECS, count={"0": 0, "1": 1}, followed=FOLLOWED))
def count_below_the_headers(row: dict[str, Any]) -> Draft:
    """A header count below the number of headers leaves bytes in the record and is refused."""
    return broken(lying(row["count"]), row["codec"], followed=row["followed"])


def header_length(part: str, length: int, headers: Headers = TWO) -> bytes:
    """A record with two headers, the second with another key or value length."""
    (first_key, first_value), (key, value) = headers
    second = raw_header(key, value, **{f"{part}_length": encode_varint(length)})
    return raw_record(header_count=encode_varint(2), headers=raw_header(first_key, first_value) + second)


NEGATIVE: Final = {"-1": -1, "-2": -2, "-64": -64, "INT32_MIN": INT32_MIN}


@case("REC-18", each=grid(codec=CODECS, length=NEGATIVE))
def negative_key_length(row: dict[str, Any]) -> Draft:
    """A negative header key length is refused, for no header key is null."""
    return broken(header_length("key", row["length"]), row["codec"])


@case("REC-18", each=CODECS)
def null_key_and_nothing_else(codec: Compression) -> Draft:
    """A header of key length -1 and an honest value is refused, and not read as an empty key."""
    return broken(raw_record(header_count=b"\x02", headers=raw_header(None, b"value")), codec)


EMPTY_KEYS: Final[dict[str, Headers]] = {
    "with a value": ((b"", b"value"),),
    "with null": ((b"", None),),
    "with nothing": ((b"", b""),),
    "twice": ((b"", b"1"), (b"", b"2")),
    "before another": ((b"", b""), (b"h", b"1")),
}


@case("REC-19", each=EMPTY_KEYS)
def empty_key(headers: Headers) -> Draft:
    """A header key may be empty."""
    batch = expected(record(headers=headers))
    return valid(sealed(batch), batch)


@case("REC-20", each=grid(codec=CODECS, length=NEGATIVE))
def negative_value_length(row: dict[str, Any]) -> Draft:
    """Every negative header value length means a null value."""
    null_value: Headers = (TWO[0], (TWO[1][0], None))
    data = packed(row["codec"], header_length("value", row["length"], null_value))
    return valid(data, expected(record(headers=null_value), compression=row["codec"]))


# The second header's key has 6 bytes, and 3 bytes of value follow; its value has 2.
WRONG_LENGTHS: Final = {
    "key one beyond": ("key", 10),
    "key to the end": ("key", 9),
    "key INT32_MAX": ("key", INT32_MAX),
    "key one less": ("key", 5),
    "key 0": ("key", 0),
    "value one beyond": ("value", 3),
    "value into the next record": ("value", 12),
    "value INT32_MAX": ("value", INT32_MAX),
    "value one less": ("value", 1),
}


@case("REC-13", each=grid(codec=CODECS, fault=WRONG_LENGTHS))
def header_length_lies(row: dict[str, Any]) -> Draft:
    """A header's key or value length differs from its content, and a record follows that could be read into."""
    return broken(header_length(*row["fault"]), row["codec"], followed=True)


NOT_UTF_8: Final = {
    "0xff": b"\xff",
    "lone continuation": b"a\x80b",
    "cut sequence": b"caf\xc3",
    "overlong NUL": b"\xc0\x80",
    "overlong slash": b"\xe0\x80\xaf",
    "surrogate": b"\xed\xa0\x80",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
    "Latin-1": "größe".encode("latin-1"),
    "UTF-16": "key".encode("utf-16-le") + b"\xd8\x00",
}


@case("REC-21", each=NOT_UTF_8)
def key_is_not_utf_8(key: bytes) -> Draft:
    """A header key that is not UTF-8 is stored as it is, and no reason to lose the record.

    Every broker stores it and Kafka's API shows U+FFFD, although seed 002:224 says that keys must be UTF-8.
    """
    batch = expected(record(headers=((key, b"value"), (b"next", b"1"))))
    return valid(sealed(batch), batch)


@case("REC-21", each=tuple(COMPRESSIONS[1:]))
def compressed_key_is_not_utf_8(codec: Compression) -> Draft:
    """A header key in Latin-1 inside a compressed batch is stored as it is."""
    batch = expected(record(headers=((NOT_UTF_8["Latin-1"], b"1"),)), compression=codec)
    return valid(sealed(batch), batch)


@case("REC-21", each={"with null": None, "with a value": b"value"})
def key_is_not_utf_8_behind_many(value: bytes | None) -> Draft:
    """A header key that is not UTF-8 is stored as it is in the last of many records, too.

    CPython calls a C function without a look at its errors once the call has been made often enough: the null
    pointer that confluent-kafka's `Message.headers()` leaves for such a key is then followed.
    """
    many = [record(b"%d" % offset, offset=offset) for offset in range(120)]
    batch = expected(*many, record(offset=120, headers=((NOT_UTF_8["cut sequence"], value),)))
    return valid(sealed(batch), batch)


UTF_8: Final = {
    "two bytes": "größe", "three bytes": "标头", "four bytes": "😀", "combining": "e\u0301", "BOM": "\ufeffkey",
    "noncharacter": "\uffff", "replacement character": "\ufffd", "control characters": "\t\r\n\x7f",
}  # fmt: skip


@case("REC-21", each=UTF_8)
def key_is_utf_8(key: str) -> Draft:
    """A header key is UTF-8 and is given byte by byte, neither normalised nor cut."""
    batch = expected(record(headers=((key.encode(), b"value"),)))
    return valid(sealed(batch), batch)


@case("REC-21", each={"two bytes": "größe", "four bytes": "😀", "combining": "e\u0301", "BOM": "\ufeffkey"})
def key_is_written_as_utf_8(key: str) -> Draft:
    """A writer puts the UTF-8 of a header key down, and its length in bytes."""
    batch = expected(record(headers=((key.encode(), b"value"),)))
    return must_write(batch, sealed(batch))


# Members that objects and classes of some languages have; a map made of such an object may lose the header.
NAMES: Final = ("__proto__", "constructor", "toString", "hasOwnProperty", "__class__", "__dict__", "length", "null")
NUMBERED: Final[Headers] = ((b"b", b"first"), (b"2", b"second"), (b"1", b"third"), (b"-1", b"fourth"))


@case("REC-23", "REC-21", each=NAMES)
def key_is_a_name_of_the_language(key: str) -> Draft:
    """A header key may be a name that means something in a reader's language."""
    batch = expected(record(headers=((key.encode(), b"value"), (b"next", b"1"))))
    return valid(sealed(batch), batch)


@case("REC-23", "REC-21", each=NAMES)
def key_that_is_a_name_is_written(key: str) -> Draft:
    """A writer takes a header key that means something in its language."""
    batch = expected(record(b"named", headers=((key.encode(), b"value"), (b"next", b"1"))))
    return must_write(batch, sealed(batch))


@case("REC-23")
def keys_that_look_like_numbers() -> Draft:
    """Header keys that look like numbers keep their place among the others."""
    batch = expected(record(headers=NUMBERED))
    return valid(sealed(batch), batch)


REPEATED: Final[dict[str, Headers]] = {
    "same value": ((b"h", b"1"), (b"h", b"1")),
    "three in order": ((b"h", b"3"), (b"h", b"1"), (b"h", b"2")),
    "one between": ((b"h", b"1"), (b"g", b"2"), (b"h", b"3")),
    "case differs": ((b"Key", b"1"), (b"key", b"2")),
    "NUL in the key": ((b"a\x00b", b"1"), (b"a", b"2"), (b"\x00", b"3")),
    "not sorted": ((b"z", b"1"), (b"a", b"2"), (b"m", b"3")),
}


@case("REC-23", each=REPEATED)
def keys_may_repeat(headers: Headers) -> Draft:
    """Header keys may occur more than once and hold NUL, and the order is kept."""
    batch = expected(record(headers=headers))
    return valid(sealed(batch), batch)


@case("REC-23", each=REPEATED)
def repeated_keys_are_written(headers: Headers) -> Draft:
    """A writer keeps every header with its whole key, in order, also if keys repeat or hold NUL."""
    batch = expected(record(b"repeated", headers=headers))
    return must_write(batch, sealed(batch))


@case("REC-24")
def surrogate_is_written_as_question_mark() -> Draft:
    """The key '?', which is what Java makes of a lone surrogate, is written in one byte with length 1.

    Java's own writer gets this batch wrong: it sizes the surrogate as three bytes.
    """
    batch = expected(record(headers=((b"?", None),)))
    return must_write(batch, sealed(batch))


@case("REC-24", "REC-22")
def bytes_of_a_surrogate_are_written() -> Draft:
    """A writer that takes bytes keeps a header key that is not UTF-8."""
    batch = expected(record(headers=((b"\xed\xa0\x80", None),)))
    return may_write(batch, sealed(batch), why="Java's keys are strings, so that it cannot write these bytes (REC-22)")


@case("REC-14", each={"127 as one unsigned byte": b"\x7f", "1 as an unsigned byte": b"\x01"})
def count_written_unsigned(count: bytes) -> Draft:
    """An odd header count written without zig-zag is read as a negative number."""
    headers = tuple((b"h%d" % at, b"") for at in range(127 if count == b"\x7f" else 1))
    return invalid(raw_batch(raw_record(header_count=count, headers=raw_headers(headers))), *STRUCTURE)
