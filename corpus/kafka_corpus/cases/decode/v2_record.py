"""v2 records: lengths that are right, negative, too long and far too long; null and empty; bytes left over.

`DefaultRecord#readFrom`, seed 002:153-201.  Varint forms are in `varint`, headers in `v2_headers`.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    expected,
    grid,
    packed,
    put,
    raw_batch,
    raw_header,
    raw_record,
    raw_records,
    record,
    reseal,
    sealed,
)
from kafka_corpus.registry import Draft, case, invalid, must_write, valid
from kafka_records import Kind, Record
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.varint import encode_varint

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated")
OVERRUN: Final[tuple[Kind, ...]] = ("truncated", "malformed")
# Java allocates as many bytes as a compressed record's length claims, and may run out of memory.
OVERRUN_OR_LIMIT: Final[tuple[Kind, ...]] = ("truncated", "malformed", "limit")
CODECS: Final = {"none": "none", "gzip": "gzip"}
HEADER: Final = raw_header(b"h", b"1")
FULL: Final[dict[str, Any]] = {"key": b"key", "value": b"value", "header_count": b"\x02", "headers": HEADER}
RECORD: Final = record(key=b"key", headers=((b"h", b"1"),))
BODY: Final = len(raw_record(**FULL)) - 1
AFTER: Final = raw_record(offset_delta=1, key=b"next", value=b"a value long enough to be overrun")


def broken(payload: bytes, *kinds: Kind, codec: Compression = "none", count: int = 1) -> Draft:
    """The batch around *payload* is refused."""
    return invalid(packed(codec, payload, record_count=count), *kinds)


@case("REC-01", each=tuple(COMPRESSIONS))
def every_field_in_order(codec: Compression) -> Draft:
    """A record is length, attributes, two deltas, key, value and headers, in this order."""
    data = packed(codec, raw_record(offset_delta=3, timestamp_delta=7, **FULL), last_offset_delta=3)
    made = RECORD._replace(offset=3, timestamp=RECORD.timestamp + 7)
    return valid(data, expected(made, last_offset=3, compression=codec))


@case("REC-01", each=tuple(COMPRESSIONS))
def writer_puts_every_field_in_order(codec: Compression) -> Draft:
    """A writer puts the fields of a record down in the order of the format."""
    later = RECORD._replace(offset=3, timestamp=RECORD.timestamp + 7)
    batch = expected(RECORD, later, last_offset=3, max_timestamp=later.timestamp, compression=codec)
    return must_write(batch, sealed(batch), compare="exact" if codec == "none" else "masked")


SIZES: Final = {"6, the least": 0, "63": 57, "64": 58, "8191": 8184, "8192": 8185}


@case("REC-02", each=SIZES)
def length_leaves_itself_out(size: int) -> Draft:
    """A record's length counts from the attributes to the end, and not its own bytes."""
    batch = expected(record(b"v" * size), record(b"next", offset=1))
    return valid(sealed(batch), batch)


@case("REC-02", each={"63": 57, "64": 58})
def writer_leaves_the_length_out(size: int) -> Draft:
    """A writer counts a record's length from the attributes to the end of the headers."""
    batch = expected(record(b"w" * size), record(b"next", offset=1))
    return must_write(batch, sealed(batch))


POSITIONS: Final = {"single": (b"", b""), "first of two": (b"", AFTER), "last of two": (AFTER, b"")}
LENGTHS: Final = {"one more": BODY + 1, "63 more": BODY + 63, "INT32_MAX": INT32_MAX}


@case("REC-03", each=grid(position=POSITIONS, length=LENGTHS))
def length_beyond_what_is_left(row: dict[str, Any]) -> Draft:
    """A record's length is larger than the record is, in the batch or beyond it."""
    before, after = row["position"]
    payload = before + raw_record(length=encode_varint(row["length"]), **FULL) + after
    return broken(payload, *OVERRUN, count=1 + bool(before or after))


SHORT: Final = {"one less": BODY - 1, "to the value": 13, "to the key": 7, "1": 1}


@case("REC-04", each=grid(position=POSITIONS, length=SHORT))
def length_shorter_than_the_fields(row: dict[str, Any]) -> Draft:
    """A record's fields take more bytes than its length says."""
    before, after = row["position"]
    payload = before + raw_record(length=encode_varint(row["length"]), **FULL) + after
    return broken(payload, *STRUCTURE, count=1 + bool(before or after))


TAILS: Final = {"a zero byte": b"\x00", "0xff": b"\xff", "a header": HEADER, "a record": raw_record()}


@case("REC-04", each=TAILS)
def bytes_behind_the_fields(tail: bytes) -> Draft:
    """Bytes that the length covers but no field takes are refused."""
    return broken(raw_record(**FULL, tail=tail), *STRUCTURE)


@case(
    "REC-05",
    each=grid(codec={codec: codec for codec in COMPRESSIONS[1:]}, length={"one more": BODY + 1, "one less": BODY - 1}),
)
def compressed_length_off_by_one(row: dict[str, Any]) -> Draft:
    """The body of a compressed record is cut to its length, and must be there and be used up."""
    payload = raw_record(length=encode_varint(row["length"]), **FULL)
    return broken(payload, "malformed", "truncated", "decompression", codec=row["codec"])


@case("REC-05", each=TAILS)
def compressed_bytes_behind_the_fields(tail: bytes) -> Draft:
    """Bytes that a compressed record's length covers but no field takes are refused."""
    return broken(raw_record(**FULL, tail=tail), *STRUCTURE, codec="gzip")


NEXT_BODY: Final = len(AFTER) - 1
POISON: Final = {
    "one more, one less": (BODY + 1, NEXT_BODY - 1),
    "swapped": (NEXT_BODY, BODY),
    "63 each": (63, 63),
    "0 each": (0, 0),
}


@case("REC-06", each=POISON)
def poison_batch(lengths: tuple[int, int]) -> Draft:
    """Two record lengths do not fit; supported brokers store the batch, and Kafka's consumer refuses it."""
    first, second = (encode_varint(length) for length in lengths)
    return broken(raw_record(length=first, **FULL) + second + AFTER[1:], *STRUCTURE, codec="gzip", count=2)


@case("REC-07", each=grid(codec=CODECS, length={"-1": -1, "-18": -BODY, "INT32_MIN": INT32_MIN}))
def negative_length(row: dict[str, Any]) -> Draft:
    """A record's length is negative."""
    return broken(raw_record(length=encode_varint(row["length"]), **FULL), *STRUCTURE, codec=row["codec"])


@case("REC-07", each=CODECS)
def negative_length_of_the_second(codec: Compression) -> Draft:
    """The second record's length is -19, which is an error, also where the first record has been given."""
    return broken(raw_record() + raw_record(length=encode_varint(-BODY - 1), **FULL), *STRUCTURE, codec=codec, count=2)


# Java's largest array is 8 below INT32_MAX, and its default bound of a record.
HUGE: Final = {
    "INT32_MAX": INT32_MAX,
    "2**30": 2**30,
    "INT32_MAX - 16": INT32_MAX - 16,
    "INT32_MAX - 8": INT32_MAX - 8,
    "INT32_MAX - 7": INT32_MAX - 7,
}


@case("REC-08", each=HUGE)
def huge_length_of_a_compressed_record(length: int) -> Draft:
    """A compressed record claims a length of 1 GiB or more, which its batch does not hold.

    A broker stores such a batch, and a Java consumer dies of it with OutOfMemoryError.
    """
    return broken(raw_record(length=encode_varint(length), **FULL), *OVERRUN_OR_LIMIT, codec="gzip")


@case("REC-08", each=tuple(COMPRESSIONS[2:]))
def largest_length_in_other_codecs(codec: Compression) -> Draft:
    """A compressed record claims 2^31 - 1 bytes, whatever the codec."""
    payload = raw_record(length=encode_varint(INT32_MAX), **FULL)
    return broken(payload, *OVERRUN_OR_LIMIT, "decompression", codec=codec)


@case("REC-09", each=CODECS)
def empty_body(codec: Compression) -> Draft:
    """A record of length 0 has no attributes, and is malformed."""
    return broken(b"\x00", *STRUCTURE, codec=codec)


@case("REC-09", each=CODECS)
def empty_body_before_a_record(codec: Compression) -> Draft:
    """A record of length 0 is not skipped, though another record follows."""
    return broken(b"\x00" + AFTER, *STRUCTURE, codec=codec, count=2)


def body_of(size: int) -> bytes:
    """A sound record body of *size* bytes, without its length."""
    empty = len(raw_record(value=b"")) - 1
    body = raw_record(value=b"-" * (size - empty))
    return body[len(body) - size :]


@case("REC-09", each=CODECS)
def empty_body_and_a_length(codec: Compression) -> Draft:
    """A length of 0 ends at its byte, though with the next one it would be the length of a sound record."""
    return broken(b"\x00\x01" + body_of(64), *STRUCTURE, codec=codec)


@case("REC-07", each=CODECS)
def negative_length_of_a_sound_record(codec: Compression) -> Draft:
    """A record's length is -64, though its body of 62 bytes is sound."""
    return broken(encode_varint(-64) + body_of(62), *STRUCTURE, codec=codec)


NEGATIVE: Final = {"-1": -1, "-2": -2, "-64": -64, "-65": -65, "INT32_MIN": INT32_MIN}


@case("REC-10", each=grid(codec=CODECS, length=NEGATIVE))
def negative_key_length(row: dict[str, Any]) -> Draft:
    """Every negative key length means a null key."""
    data = packed(row["codec"], raw_record(key_length=encode_varint(row["length"]), value=b"no key"))
    return valid(data, expected(record(b"no key"), compression=row["codec"]))


@case("REC-11", each=grid(codec=CODECS, length=NEGATIVE))
def negative_value_length(row: dict[str, Any]) -> Draft:
    """Every negative value length means a null value."""
    payload = raw_record(key=b"no value", value=None, value_length=encode_varint(row["length"]))
    return valid(packed(row["codec"], payload), expected(record(None, key=b"no value"), compression=row["codec"]))


CONTENTS: Final = {"null": None, "empty": b"", "a zero byte": b"\x00"}


@case("REC-12", each=grid(key=CONTENTS, value=CONTENTS))
def null_is_not_empty(row: dict[str, Any]) -> Draft:
    """Null and empty stay distinct, in keys and in values."""
    batch = expected(record(row["value"], key=row["key"], offset=1), base_offset=1)
    return valid(sealed(batch), batch)


@case("REC-12", each=grid(key=CONTENTS, value=CONTENTS))
def writer_tells_null_from_empty(row: dict[str, Any]) -> Draft:
    """A writer writes length -1 for null and 0 for empty."""
    batch = expected(record(row["value"], key=row["key"], offset=1), base_offset=1)
    return must_write(batch, sealed(batch))


FIELDS: Final = {"key": "key_length", "value": "value_length"}
# From the first byte of the key (or value) to the end of the record.
LEFT: Final = {"key": 14, "value": 10}


def claiming(field: str, length: int) -> bytes:
    """The full record, its key (or value) length replaced."""
    return raw_record(**{**FULL, FIELDS[field]: encode_varint(length)})


@case(
    "REC-13", each=grid(codec=CODECS, field={name: name for name in FIELDS}, more={"one byte": 1, "2 GiB": 2**31 - 20})
)
def length_beyond_the_record(row: dict[str, Any]) -> Draft:
    """A key or value length runs past the end of its record, the last one of the batch."""
    return broken(claiming(row["field"], LEFT[row["field"]] + row["more"]), *STRUCTURE, codec=row["codec"])


@case("REC-13", each=grid(codec=CODECS, field={name: name for name in FIELDS}, length={"all": 0, "all but one": -1}))
def length_leaves_no_room(row: dict[str, Any]) -> Draft:
    """A key or value length takes the bytes that the next fields need, all of them or all but one."""
    return broken(claiming(row["field"], LEFT[row["field"]] + row["length"]), *STRUCTURE, codec=row["codec"])


INTO_THE_NEXT: Final = {"one byte": 1, "to its value": 10, "to its end": len(AFTER), "beyond": len(AFTER) + 1}


@case("REC-13", each=grid(codec=CODECS, field={name: name for name in FIELDS}, bytes=INTO_THE_NEXT))
def length_into_the_next_record(row: dict[str, Any]) -> Draft:
    """A key or value length runs into the next record, or a byte past it: those bytes are not this record's."""
    payload = claiming(row["field"], LEFT[row["field"]] + row["bytes"]) + AFTER
    return broken(payload, *STRUCTURE, codec=row["codec"], count=2)


@case("REC-13", each=grid(codec=CODECS, field={name: name for name in FIELDS}, less={"one less": 1, "0": 99}))
def length_shorter_than_the_content(row: dict[str, Any]) -> Draft:
    """A key or value length is too small, and the next fields are read from the wrong bytes."""
    length = max(0, len(FULL[row["field"]]) - row["less"])
    return broken(claiming(row["field"], length), *STRUCTURE, codec=row["codec"])


LEFT_OVER: Final = {"0x00": b"\x00", "0xff": b"\xff", "half a record": raw_record()[:5]}


@case("REC-25", each=grid(codec={codec: codec for codec in COMPRESSIONS}, tail=LEFT_OVER))
def bytes_behind_the_last_record(row: dict[str, Any]) -> Draft:
    """The payload has to end with the last record; a single byte more is an error."""
    return broken(raw_record() + row["tail"], "malformed", "truncated", "decompression", codec=row["codec"])


@case("REC-25")
def padded_to_a_multiple_of_eight() -> Draft:
    """Padding after the last record, inside the batch's length, is refused."""
    data = raw_batch(raw_record())
    return invalid(reseal(put(data + bytes(4), "batch_length", len(data) - 8)), *STRUCTURE)


@case("REC-26", each={"63": 57, "64": 58, "8191": 8184, "8192": 8185})
def writer_sizes_a_record(size: int) -> Draft:
    """An encoded record takes its length and the one to three bytes of the length itself."""
    batch = expected(record(b"s" * size))
    return must_write(batch, sealed(batch))


@case("REC-27", each=CODECS)
def records_have_no_crc(codec: Compression) -> Draft:
    """A record starts with its length; a CRC and magic in front, as messages have them, are read as fields."""
    payload = b"\x12\x34\x56\x78\x02\x00" + raw_records([RECORD])
    return broken(payload, *STRUCTURE, codec=codec)


@case("REC-28", each={"zeros": b"\x02\x00", "ones": b"\x02\xff"})
def body_of_attributes_only(payload: bytes) -> Draft:
    """A record of length 1 has attributes and no more, and is refused at once."""
    return broken(payload, *STRUCTURE)


@case("REC-28")
def missing_attributes() -> Draft:
    """The last compressed record ends after its length, before the attributes; they are not read as 0xff."""
    return broken(raw_record() + b"\x16", *STRUCTURE, codec="gzip", count=2)


CONTENT: Final = {
    "all byte values": bytes(range(256)),
    "a batch": sealed(expected(record())),
    "continuation bits": b"\xff" * 20,
    "8191 B": b"k" * 8191,
    "8192 B": b"k" * 8192,
}


@case("REC-01", each=grid(field={name: name for name in FIELDS}, content=CONTENT))
def content_is_opaque(row: dict[str, Any]) -> Draft:
    """Keys and values are bytes of any kind, and are never looked into."""
    made: Record = RECORD._replace(**{row["field"]: row["content"]})
    batch = expected(made)
    return valid(sealed(batch), batch)
