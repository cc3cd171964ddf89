"""Varints in produced records on brokers (group VAR)."""

from __future__ import annotations

from typing import Final

from kafka_corpus.authoring.build import overlong_varint, raw_header, raw_record
from kafka_corpus.authoring.messages import record_of
from kafka_corpus.authoring.steps import enclosed, kept_batch, offered, since_of, written
from kafka_corpus.registry import Draft, case, error_answer, produced, stored
from kafka_records import Header
from kafka_records.broker.errors import INVALID_RECORD, UNKNOWN_SERVER_ERROR
from kafka_records.constants import Compression
from kafka_records.varint import encode_varint

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
KEY, VALUE, NAME, CONTENT = b"key", b"value", b"name", b"content"


def record_with(**varints: bytes) -> bytes:
    """A record with a key, a value and a header, in which any varint can be given as bytes."""
    header = raw_header(
        NAME, CONTENT, key_length=varints.pop("name_length", None), value_length=varints.pop("content_length", None)
    )
    fields = {"header_count": encode_varint(1), **varints}
    return raw_record(key=KEY, value=VALUE, headers=header, **fields)  # type: ignore[arg-type]  # all are bytes


BODY: Final = len(record_with()) - 1
# The content of each varint of the record.
SAYS: Final = {
    "length": BODY,
    "timestamp_delta": 0,
    "offset_delta": 0,
    "key_length": len(KEY),
    "value_length": len(VALUE),
    "header_count": 1,
    "name_length": len(NAME),
    "content_length": len(CONTENT),
}
# The only varint of 64 bits.
VARLONG: Final = "timestamp_delta"


def with_varint(field: str, form: bytes) -> bytes:
    """The record with *form* in *field*, its length right unless that is the field."""
    if field == "length":
        return record_with(length=form)
    return record_with(**{field: form})


def longest(field: str) -> int:
    """Bytes that the varint may take."""
    return 10 if field == VARLONG else 5


def too_long(field: str) -> bytes:
    """One byte more than there may be, the last one with nothing in it."""
    return overlong_varint(SAYS[field], longest(field) + 1)


def surplus(field: str, bits: int) -> bytes:
    """The longest form, *bits* set in its last byte that stand for more than the type holds."""
    form = overlong_varint(SAYS[field], longest(field))
    return form[:-1] + bytes((form[-1] | bits,))


IN_BODY: Final = [field for field in SAYS if field != "length"]
OF_32_BITS: Final = [field for field in SAYS if field != VARLONG]


@case(
    "VAR-05",
    each=offered(
        CODECS, {f"{field}": with_varint(field, overlong_varint(SAYS[field], longest(field))) for field in SAYS}
    ),
)
def longest_form_is_accepted(payload: bytes) -> Draft:
    """A varint of 5 bytes, or a varlong of 10, that could be shorter is accepted and stored as it came."""
    return produced(payload, stored(kept_batch(payload)))


@case(
    "VAR-05",
    each=offered(CODECS, {f"{size} bytes": with_varint(VARLONG, overlong_varint(0, size)) for size in (2, 5, 6, 9)}),
)
def longer_form_of_a_varlong_is_accepted(payload: bytes) -> Draft:
    """A varlong of 2 to 9 bytes that could be one is accepted."""
    return produced(payload, stored(kept_batch(payload)))


@case("VAR-05", "RWR-05")
def longest_forms_become_short_in_a_rewrite() -> Draft:
    """Where the broker rewrites the records, every varint takes its shortest form."""
    stretched = record_with(
        length=None,  # type: ignore[arg-type]  # the right one
        **{field: overlong_varint(SAYS[field], longest(field)) for field in IN_BODY},
    )
    whole = record_of(2, key=KEY, value=VALUE)._replace(headers=(Header(NAME, CONTENT),))
    return produced(enclosed("gzip", stretched), stored(written(whole)), config={"compression.type": "uncompressed"})


@case("VAR-06", "VAR-09", each=offered(CODECS, {field: with_varint(field, too_long(field)) for field in IN_BODY}))
def too_long_a_form_in_a_body_is_refused(payload: bytes) -> Draft:
    """A sixth byte of a varint in a record's body, or an eleventh of a varlong, makes an invalid record."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("VAR-06", "VAR-10")
def too_long_a_length_is_an_unknown_error() -> Draft:
    """In an uncompressed batch a record length of six bytes is an IllegalArgumentException of Java's."""
    return produced(enclosed("none", with_varint("length", too_long("length"))), error_answer(UNKNOWN_SERVER_ERROR))


@case("VAR-06", "VAR-10", each=["gzip", "lz4", "snappy", "zstd"])
def too_long_a_length_in_a_compressed_batch_is_refused(codec: Compression) -> Draft:
    """In a compressed batch a record length of six bytes makes an invalid record."""
    return produced(
        enclosed(codec, with_varint("length", too_long("length"))), error_answer(INVALID_RECORD), since=since_of(codec)
    )


@case("VAR-10", "VAR-06", each={"at once": b"", "behind a record": raw_record()})
def endless_length_is_an_unknown_error(before: bytes) -> Draft:
    """A record length whose bytes all go on is an IllegalArgumentException of Java's, in any record of the batch."""
    payload = before + b"\xff" * 5 + raw_record(offset_delta=1 if before else 0)
    return produced(enclosed("none", payload, record_count=2 if before else 1), error_answer(UNKNOWN_SERVER_ERROR))


@case("VAR-09", each=offered(CODECS, {"header count": raw_record(header_count=b"\x80")}))
def unfinished_varint_at_the_end_is_refused(payload: bytes) -> Draft:
    """A varint that says that it goes on, where the record ends, makes an invalid record."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "VAR-07",
    each=offered(
        CODECS,
        {f"{field}, {bits:#x}": with_varint(field, surplus(field, bits)) for field in OF_32_BITS for bits in (0x70,)},
    ),
)
def surplus_bits_of_a_varint_are_dropped(payload: bytes) -> Draft:
    """Bits of the fifth byte that stand for values of 2^32 and above mean nothing."""
    return produced(payload, stored(kept_batch(payload)))


@case(
    "VAR-07",
    each=offered(
        CODECS, {f"{bits:#x}": with_varint("key_length", surplus("key_length", bits)) for bits in (0x10, 0x20, 0x40)}
    ),
)
def each_surplus_bit_of_a_varint_is_dropped(payload: bytes) -> Draft:
    """Each of the bits 4 to 6 of the fifth byte means nothing."""
    return produced(payload, stored(kept_batch(payload)))


@case(
    "VAR-08",
    each=offered(
        CODECS,
        {"0x7e": with_varint(VARLONG, surplus(VARLONG, 0x7E)), "0x02": with_varint(VARLONG, surplus(VARLONG, 0x02))},
    ),
)
def surplus_bits_of_a_varlong_are_dropped(payload: bytes) -> Draft:
    """Bits of the tenth byte that exceed 64 mean nothing."""
    return produced(payload, stored(kept_batch(payload)))


@case(
    "VAR-08",
    "VAR-09",
    each=offered(
        CODECS,
        {
            "11 bytes": with_varint(VARLONG, b"\xff" * 10 + b"\x01"),
            "12 bytes": with_varint(VARLONG, overlong_varint(0, 12)),
        },
    ),
)
def eleven_bytes_of_a_varlong_are_refused(payload: bytes) -> Draft:
    """A varlong has ten bytes at most, whatever is in them."""
    return produced(payload, error_answer(INVALID_RECORD))
