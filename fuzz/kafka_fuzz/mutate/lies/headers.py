"""Lies about the headers of a v2 record; a record that has none is given some."""

from __future__ import annotations

from kafka_fuzz.mutate.bases import Base, nullable
from kafka_fuzz.mutate.lies.records import AT, any_record, read_as, with_body
from kafka_fuzz.mutate.lies.table import BROKEN, CLAIM, Spot, Told, lie
from kafka_fuzz.mutate.sealing import varint
from kafka_records import Header
from kafka_records.constants import INT32_MAX

COUNT_AT = AT["header_count"]
NEGATIVE = {"minus one": -1, "minus two": -2, "smallest": -INT32_MAX - 1}


def before_headers(base: Base, index: int) -> bytes:
    """A record's body up to its header count."""
    return b"".join(base.bodies[index][:COUNT_AT])


def header_bytes(base: Base, index: int) -> bytes:
    """A record's headers without their count."""
    return b"".join(base.bodies[index][COUNT_AT + 1 :])


def told_headers(spot: Spot, index: int, count: int, headers: bytes) -> bytes:
    """The batch with other headers in one record, and *count* said of them."""
    return with_body(spot.base, index, before_headers(spot.base, index) + varint(count) + headers)


@lie("REC-14", nesting="record", field="header_count", kinds=BROKEN, variants=NEGATIVE)
def header_count_negative(spot: Spot) -> bytes:
    """The header count is below zero."""
    index = any_record(spot)
    return told_headers(spot, index, spot.value, header_bytes(spot.base, index))


@lie("REC-14", nesting="record", field="header_count", kinds=BROKEN, variants=NEGATIVE)
def header_count_negative_of_nothing(spot: Spot) -> bytes:
    """The header count is below zero, and no headers follow."""
    return told_headers(spot, any_record(spot), spot.value, b"")


@lie("REC-15", nesting="record", field="header_count", kinds=BROKEN, variants={"by one": 1, "by two": 2})
def header_count_too_high(spot: Spot) -> bytes:
    """A record promises more headers than it has."""
    index = any_record(spot)
    count = len(spot.base.batch.records[index].headers)
    return told_headers(spot, index, count + spot.value, header_bytes(spot.base, index))


@lie("REC-15", "REC-20", nesting="record", field="header.value_length", kinds=CLAIM, variants={"largest": INT32_MAX})
def header_value_length_leads_back(spot: Spot) -> bytes:
    """A header value's length, a null by another negative, leads back to its header, and the count is too large."""
    return told_headers(spot, any_record(spot), spot.value, b"\0\3")


@lie("REC-15", nesting="record", field="header_count", kinds=CLAIM, variants={"large": 2**20, "largest": INT32_MAX})
def header_count_claims(spot: Spot) -> bytes:
    """A record promises as many headers as would take all memory."""
    index = any_record(spot)
    return told_headers(spot, index, spot.value, header_bytes(spot.base, index))


@lie("REC-17", nesting="record", field="header_count", kinds=BROKEN, variants={"by one": 1, "zero": 0})
def header_count_too_low(spot: Spot) -> bytes:
    """A record has more headers than it says."""
    index = any_record(spot)
    count = len(spot.base.batch.records[index].headers)
    more = header_bytes(spot.base, index) + b"\2h\2v"
    return told_headers(spot, index, count if spot.value else 0, more)


@lie("REC-16", nesting="record", field="header_count", kinds=BROKEN)
def header_count_missing(spot: Spot) -> bytes:
    """A record ends before its header count."""
    index = any_record(spot)
    return with_body(spot.base, index, before_headers(spot.base, index))


@lie("REC-18", nesting="record", field="header.key_length", kinds=BROKEN, variants=NEGATIVE)
def header_key_null(spot: Spot) -> bytes:
    """A header's key is null."""
    index = any_record(spot)
    count = len(spot.base.batch.records[index].headers)
    return told_headers(spot, index, count + 1, header_bytes(spot.base, index) + varint(spot.value) + b"\2v")


@lie(
    "REC-13",
    nesting="record",
    field=("header.key_length", "header.value_length"),
    kinds=CLAIM,
    variants={"by one": 1, "largest": 0},
)
def header_length_beyond_the_record(spot: Spot) -> bytes:
    """A header's key or value claims more bytes than its record has left."""
    index = any_record(spot)
    count = len(spot.base.batch.records[index].headers)
    first = b"" if spot.field == "header.key_length" else b"\2h"
    length = varint(2 if spot.value else INT32_MAX)
    return told_headers(spot, index, count + 1, header_bytes(spot.base, index) + first + length + b"x")


@lie("REC-20", nesting="record", field="header.value_length", variants={"minus two": -2, "smallest": -INT32_MAX - 1})
def header_value_null_by_another_negative(spot: Spot) -> Told:
    """A header value's length below -1 is null as well."""
    return with_header(spot, b"\2h" + varint(spot.value), Header(b"h", None))


@lie(
    "REC-19",
    "REC-23",
    nesting="record",
    field="header.key",
    variants={"empty": b"", "zero byte": b"\0", "long": b"k" * 200},
)
def header_key_unusual(spot: Spot) -> Told:
    """A header's key is one that no application would choose."""
    return with_header(spot, b"".join((*nullable(spot.value), *nullable(b"v"))), Header(spot.value, b"v"))


@lie(
    "REC-21",
    nesting="record",
    field="header.key",
    verdict="acceptable",
    kinds=("malformed",),
    variants={"byte": b"\xff", "surrogate": b"\xed\xa0\x80", "cut": b"a\xc3"},
)
def header_key_not_utf8(spot: Spot) -> Told:
    """A header's key is no text."""
    return with_header(spot, b"".join((*nullable(spot.value), *nullable(None))), Header(spot.value, None))


def with_header(spot: Spot, written: bytes, header: Header) -> Told:
    """One record with a header more at its end."""
    index = any_record(spot)
    record = spot.base.batch.records[index]
    data = told_headers(spot, index, len(record.headers) + 1, header_bytes(spot.base, index) + written)
    return read_as(spot.base, index, record._replace(headers=(*record.headers, header)), data)
