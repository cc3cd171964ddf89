"""Lies about the form of varints, in every field of a v2 record that is one."""

from __future__ import annotations

from kafka_fuzz.mutate.bases import Base
from kafka_fuzz.mutate.lies.records import AT, any_record, body_with, with_body, with_record
from kafka_fuzz.mutate.lies.table import BROKEN, Spot, lie
from kafka_fuzz.mutate.packing import pack
from kafka_fuzz.mutate.sealing import seal_batch, varint
from kafka_records.layout import RECORD_V2
from kafka_records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES

VARINTS = tuple(name for name, type_ in RECORD_V2 if type_ in ("varint", "varlong"))
LONG = ("timestamp_delta",)
HIGH_BITS = {"lowest": 0x10, "highest": 0x40, "all": 0x70}


def most(field: str) -> int:
    """The most bytes that the varint of *field* may take."""
    return MAX_VARLONG_BYTES if field in LONG else MAX_VARINT_BYTES


def stretched(short: bytes, size: int) -> bytes:
    """The same value in *size* bytes, by empty groups."""
    if size <= len(short):
        return short
    return short[:-1] + bytes((short[-1] | 0x80,)) + b"\x80" * (size - len(short) - 1) + b"\0"


def form_of(base: Base, index: int, field: str) -> bytes:
    """The bytes of a varint as it stands there."""
    if field == "length":
        return varint(len(b"".join(base.bodies[index])))
    return base.bodies[index][AT[field]]


def with_form(base: Base, index: int, field: str, form: bytes) -> bytes:
    """The batch with a varint in another form."""
    if field == "length":
        return with_record(base, index, form + b"".join(base.bodies[index]))
    return with_body(base, index, body_with(base, index, **{field: form}))


@lie("VAR-05", nesting="record", field=VARINTS, variants={"by one": 1, "most": 99})
def varint_overlong(spot: Spot) -> bytes:
    """A varint takes more bytes than it needs, and no more than it may."""
    index = any_record(spot)
    short = form_of(spot.base, index, spot.field)
    size = min(len(short) + spot.value, most(spot.field))
    return with_form(spot.base, index, spot.field, stretched(short, size))


@lie(
    "VAR-06", "VAR-08", nesting="record", field=VARINTS, kinds=BROKEN, variants={"by one": 1, "by three": 3, "ones": 0}
)
def varint_too_long(spot: Spot) -> bytes:
    """A varint does not end where it must."""
    index, size = any_record(spot), most(spot.field)
    if not spot.value:
        return with_form(spot.base, index, spot.field, b"\xff" * (size + 1))
    return with_form(spot.base, index, spot.field, stretched(form_of(spot.base, index, spot.field), size + spot.value))


@lie("VAR-07", "VAR-08", nesting="record", field=VARINTS, verdict="acceptable", kinds=BROKEN, variants=HIGH_BITS)
def varint_has_bits_too_high(spot: Spot) -> bytes:
    """The last byte that a varint may take has bits that do not fit, which Kafka drops."""
    index, size = any_record(spot), most(spot.field)
    form = stretched(form_of(spot.base, index, spot.field), size)
    return with_form(spot.base, index, spot.field, form[:-1] + bytes((form[-1] | spot.value,)))


@lie("VAR-09", "VAR-11", nesting="record", field=VARINTS[1:], kinds=BROKEN, variants={"one": 1, "all but one": 4})
def varint_cut_by_the_record(spot: Spot) -> bytes:
    """A record ends inside a varint, and its length says so."""
    index = any_record(spot)
    body = spot.base.bodies[index][: AT[spot.field]]
    return with_body(spot.base, index, b"".join(body) + b"\x80" * spot.value)


@lie(
    "VAR-11",
    nesting="record",
    field="length",
    kinds=("truncated", "malformed", "decompression"),
    variants={"one": 1, "all but one": 4},
)
def varint_cut_by_the_payload(spot: Spot) -> bytes:
    """The records end inside the length of the last."""
    base = spot.base
    payload = b"".join(base.parts[:-1]) + b"\x80" * spot.value
    return seal_batch(base.header, pack(base.codec, payload, 2))


@lie("VAR-03", nesting="record", field="length", kinds=BROKEN)
def length_without_zig_zag(spot: Spot) -> bytes:
    """A record's length is written as an unsigned varint, so that it reads as half of itself or below zero."""
    index = any_record(spot)
    body = b"".join(spot.base.bodies[index])
    return with_record(spot.base, index, unsigned(len(body)) + body)


def unsigned(value: int) -> bytes:
    """A varint without zig-zag."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(groups) + bytes((value,))
