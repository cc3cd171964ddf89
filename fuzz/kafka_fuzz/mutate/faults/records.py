"""Faults in v2 records: lengths, deltas, nulls, varints, and bytes between records."""

from __future__ import annotations

from dataclasses import replace

from kafka_fuzz.mutate.entries import BaseEntry, with_length_prefix
from kafka_fuzz.mutate.faults.table import BROKEN, CLAIM, PLAIN, UNPACKED, FaultResult, FaultSite, fault
from kafka_fuzz.mutate.fixup import pack_fast, varint, varlong, write_batch_bytes
from kafka_records import Record
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN
from kafka_records.layout import RECORD_V2
from kafka_records.primitives import wrap_int64
from kafka_records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, encode_unsigned

# Where each field stands in a body, which lacks the length.
AT = {name: index - 1 for index, (name, _) in enumerate(RECORD_V2)}
LENGTHS = ("key_length", "value_length")


def body_with(base: BaseEntry, index: int, **fields: bytes) -> bytes:
    """The body of a record with other bytes in some of its fields."""
    body = list(base.bodies[index])
    for name, content in fields.items():
        body[AT[name]] = content
    return b"".join(body)


def with_record(base: BaseEntry, index: int, record: bytes) -> bytes:
    """The batch with another record at *index*."""
    payload = b"".join((*base.parts[:index], record, *base.parts[index + 1 :]))
    return write_batch_bytes(base.header, pack_fast(base.codec, payload, 2))


def with_body(base: BaseEntry, index: int, body: bytes) -> bytes:
    """The batch with another body at *index*, its length right."""
    return with_record(base, index, varint(len(body)) + body)


def read_as_records(base: BaseEntry, index: int, record: Record, data: bytes) -> FaultResult:
    """*data*, to be read with *record* at *index*."""
    records = (*base.batch.records[:index], record, *base.batch.records[index + 1 :])
    return FaultResult(data, (replace(base.batch, records=records),))


def draw_record(site: FaultSite) -> int:
    """The index of one of the records."""
    return int(site.rng.random() * len(site.base.parts))


def with_record_length(site: FaultSite, index: int, length: int) -> bytes:
    """The batch with another length in front of one record's body."""
    return with_record(site.base, index, varint(length) + b"".join(site.base.bodies[index]))


@fault("REC-07", nesting="record", field="length", kinds=BROKEN, variants={"minus one": -1, "smallest": -INT32_MAX - 1})
def record_length_negative(site: FaultSite) -> bytes:
    """A record's length is below zero."""
    return with_record_length(site, draw_record(site), site.value)


@fault("REC-07", nesting="record", field="length", kinds=BROKEN, variants={"here": False, "back": True})
def record_length_leads_nowhere(site: FaultSite) -> bytes:
    """A record's length leads to it again, or to the first."""
    index = draw_record(site)
    before = sum(map(len, site.base.parts[:index])) if site.value else 0
    return with_record_length(site, index, -before - len(varint(-before - 1)))


@fault("REC-09", nesting="record", field="length", kinds=BROKEN, variants={"nothing": True, "body left": False})
def record_length_zero(site: FaultSite) -> bytes:
    """A record's length is zero."""
    index = draw_record(site)
    return with_record(site.base, index, b"\0") if site.value else with_record_length(site, index, 0)


@fault(
    "REC-04", "REC-13", nesting="record", field="length", kinds=BROKEN, variants={"by one": 1, "by half": 0, "one": -1}
)
def record_length_too_small(site: FaultSite) -> bytes:
    """A record's length leaves out its end."""
    index = draw_record(site)
    right = len(b"".join(site.base.bodies[index]))
    return with_record_length(site, index, 1 if site.value < 0 else right - 1 if site.value else right // 2)


@fault("REC-03", "REC-04", nesting="record", field="length", kinds=UNPACKED, variants={"by one": 1, "by eight": 8})
def record_length_too_large(site: FaultSite) -> bytes:
    """A record's length covers bytes after the record, or more bytes than there are."""
    index = draw_record(site)
    return with_record_length(site, index, len(b"".join(site.base.bodies[index])) + site.value)


@fault("REC-08", nesting="record", field="length", kinds=CLAIM, variants={"largest": INT32_MAX, "large": 2**28})
def record_length_claims(site: FaultSite) -> bytes:
    """A record's length claims as many bytes as would take all memory."""
    return with_record_length(site, draw_record(site), site.value)


@fault("HDR-13", "REC-11", codecs=PLAIN, nesting="record", field="value_length", kinds=CLAIM)
def value_length_leads_back(site: FaultSite) -> bytes:
    """A value's length, null as every negative is, leads back over its record, and the count is too large."""
    # One byte further back is the end of the count, a zero: as many headers, and then the record again.
    record = b"\x0c\0\0\0\1\x0d\0"
    return write_batch_bytes({**site.base.header, "record_count": 0x7FFFFF00}, record)


@fault(
    "REC-04",
    nesting="record",
    field="body",
    kinds=BROKEN,
    variants={"zero": b"\0", "ones": b"\xff", "more": b"\2h\2v"},
    label="bytes_behind_the_fields",
)
def bytes_after_the_fields(site: FaultSite) -> bytes:
    """A record's length is right, and its fields do not use it up."""
    index = draw_record(site)
    return with_body(site.base, index, body_with(site.base, index) + site.value)


@fault(
    "REC-25",
    nesting="record",
    field="records",
    kinds=UNPACKED,
    variants={"zero": b"\0", "ones": b"\xff", "eight": bytes(8)},
    label="bytes_behind_the_last_record",
)
def bytes_after_the_last_record(site: FaultSite) -> bytes:
    """Something follows the last record."""
    base = site.base
    return write_batch_bytes(base.header, pack_fast(base.codec, base.payload + site.value, 2))


@fault("REC-05", "HDR-13", nesting="record", field="records", kinds=("truncated", "malformed", "decompression"))
def records_cut_short(site: FaultSite) -> bytes:
    """The last record lacks its end, and all sizes outside agree."""
    base, last = site.base, site.base.parts[-1]
    cut = len(base.payload) - site.rng.randrange(1, len(last) + 1)
    return write_batch_bytes(base.header, pack_fast(base.codec, base.payload[:cut], 2))


@fault("REC-16", "REC-13", nesting="record", field=tuple(AT)[1:], kinds=BROKEN)
def record_ends_before_a_field(site: FaultSite) -> bytes:
    """A record ends where a field should begin, and its length says so."""
    index = draw_record(site)
    at = AT[site.field]
    body = list(site.base.bodies[index])
    if site.field in ("key", "value"):
        body[at - 1] = varint(5)  # the bytes that are missing are promised
    return with_body(site.base, index, b"".join(body[:at]))


@fault("ATT-15", nesting="record", field="attributes", variants={"one": 1, "sign": 0x80, "ones": 0xFF})
def record_attributes_set(site: FaultSite) -> bytes:
    """A record's attributes, which mean nothing, are not zero."""
    index = draw_record(site)
    return with_body(site.base, index, body_with(site.base, index, attributes=bytes((site.value,))))


@fault(
    "TIM-01",
    nesting="record",
    field="timestamp_delta",
    variants={"smallest": INT64_MIN, "minus one": -1, "beyond int32": 2**31, "largest": INT64_MAX},
)
def timestamp_delta_at_an_edge(site: FaultSite) -> FaultResult:
    """A record's time is far from the batch's; sums wrap."""
    base, index = site.base, draw_record(site)
    data = with_body(base, index, body_with(base, index, timestamp_delta=varlong(site.value)))
    record = base.batch.records[index]
    if base.batch.timestamp_type == "create":
        record = record._replace(timestamp=wrap_int64(base.header["base_timestamp"] + site.value))
    return read_as_records(base, index, record, data)


@fault(
    "OFF-04",
    "OFF-01",
    nesting="record",
    field="offset_delta",
    variants={"smallest": -INT32_MAX - 1, "minus one": -1, "zero": 0, "far": 2**20, "largest": INT32_MAX},
)
def offset_delta_at_an_edge(site: FaultSite) -> FaultResult:
    """A record's offset is out of order, or far away."""
    base, index = site.base, draw_record(site)
    data = with_body(base, index, body_with(base, index, offset_delta=varint(site.value)))
    offset = wrap_int64(base.header["base_offset"] + site.value)
    return read_as_records(base, index, base.batch.records[index]._replace(offset=offset), data)


@fault("REC-10", "REC-11", nesting="record", field=LENGTHS, variants={"minus two": -2, "smallest": -INT32_MAX - 1})
def null_by_another_negative(site: FaultSite) -> FaultResult:
    """A length below -1 is null as well."""
    base, index, name = site.base, draw_record(site), site.field.removesuffix("_length")
    data = with_body(base, index, body_with(base, index, **{site.field: varint(site.value), name: b""}))
    record = base.batch.records[index]
    record = record._replace(key=None) if name == "key" else record._replace(value=None)
    return read_as_records(base, index, record, data)


@fault("REC-12", nesting="record", field=LENGTHS, variants={"minus one": None, "zero": b""})
def null_and_empty_swapped(site: FaultSite) -> FaultResult:
    """A key or value is made null, or empty, whatever it was: the two differ."""
    base, index, name = site.base, draw_record(site), site.field.removesuffix("_length")
    length = varint(-1 if site.value is None else 0)
    data = with_body(base, index, body_with(base, index, **{site.field: length, name: b""}))
    record = base.batch.records[index]
    record = record._replace(key=site.value) if name == "key" else record._replace(value=site.value)
    return read_as_records(base, index, record, data)


@fault(
    "REC-13",
    nesting="record",
    field=LENGTHS,
    kinds=CLAIM,
    variants={"by one": 1, "far": 2**20, "largest": INT32_MAX},
)
def length_beyond_the_record(site: FaultSite) -> bytes:
    """A key or value claims more bytes than its record has left."""
    base, index = site.base, draw_record(site)
    left = len(b"".join(base.bodies[index][AT[site.field] + 1 :]))
    claimed = left + site.value if site.value < INT32_MAX else INT32_MAX
    return with_body(base, index, body_with(base, index, **{site.field: varint(claimed)}))


@fault("OFF-07", nesting="record", field="records")
def record_said_twice(site: FaultSite) -> FaultResult:
    """The last record stands there twice, and the count says so."""
    base = site.base
    payload = base.payload + with_length_prefix(base.bodies[-1])
    header = {**base.header, "record_count": len(base.parts) + 1}
    records = (*base.batch.records, base.batch.records[-1])
    return FaultResult(
        write_batch_bytes(header, pack_fast(base.codec, payload, 2)), (replace(base.batch, records=records),)
    )


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


def form_of(base: BaseEntry, index: int, field: str) -> bytes:
    """The bytes of a varint as it stands there."""
    if field == "length":
        return varint(len(b"".join(base.bodies[index])))
    return base.bodies[index][AT[field]]


def with_form(base: BaseEntry, index: int, field: str, form: bytes) -> bytes:
    """The batch with a varint in another form."""
    if field == "length":
        return with_record(base, index, form + b"".join(base.bodies[index]))
    return with_body(base, index, body_with(base, index, **{field: form}))


@fault("VAR-05", nesting="record", field=VARINTS, variants={"by one": 1, "most": 99})
def varint_overlong(site: FaultSite) -> bytes:
    """A varint takes more bytes than it needs, and no more than it may."""
    index = draw_record(site)
    short = form_of(site.base, index, site.field)
    size = min(len(short) + site.value, most(site.field))
    return with_form(site.base, index, site.field, stretched(short, size))


@fault(
    "VAR-06", "VAR-08", nesting="record", field=VARINTS, kinds=BROKEN, variants={"by one": 1, "by three": 3, "ones": 0}
)
def varint_too_long(site: FaultSite) -> bytes:
    """A varint does not end where it must."""
    index, size = draw_record(site), most(site.field)
    if not site.value:
        return with_form(site.base, index, site.field, b"\xff" * (size + 1))
    return with_form(site.base, index, site.field, stretched(form_of(site.base, index, site.field), size + site.value))


@fault("VAR-07", "VAR-08", nesting="record", field=VARINTS, verdict="acceptable", kinds=BROKEN, variants=HIGH_BITS)
def varint_has_bits_too_high(site: FaultSite) -> bytes:
    """The last byte that a varint may take has bits that do not fit, which Kafka drops."""
    index, size = draw_record(site), most(site.field)
    form = stretched(form_of(site.base, index, site.field), size)
    return with_form(site.base, index, site.field, form[:-1] + bytes((form[-1] | site.value,)))


@fault("VAR-09", "VAR-11", nesting="record", field=VARINTS[1:], kinds=BROKEN, variants={"one": 1, "all but one": 4})
def varint_cut_by_the_record(site: FaultSite) -> bytes:
    """A record ends inside a varint, and its length says so."""
    index = draw_record(site)
    body = site.base.bodies[index][: AT[site.field]]
    return with_body(site.base, index, b"".join(body) + b"\x80" * site.value)


@fault(
    "VAR-11",
    nesting="record",
    field="length",
    kinds=("truncated", "malformed", "decompression"),
    variants={"one": 1, "all but one": 4},
)
def varint_cut_by_the_payload(site: FaultSite) -> bytes:
    """The records end inside the length of the last."""
    base = site.base
    payload = b"".join(base.parts[:-1]) + b"\x80" * site.value
    return write_batch_bytes(base.header, pack_fast(base.codec, payload, 2))


@fault("VAR-03", nesting="record", field="length", kinds=BROKEN)
def length_without_zig_zag(site: FaultSite) -> bytes:
    """A record's length is written as an unsigned varint, so that it reads as half of itself or below zero."""
    index = draw_record(site)
    body = b"".join(site.base.bodies[index])
    return with_record(site.base, index, encode_unsigned(len(body)) + body)
