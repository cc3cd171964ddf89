"""Faults in v2 batches: the header, record headers, and control records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_fuzz.mutate.entries import BaseEntry, nullable, record_body, with_length_prefix
from kafka_fuzz.mutate.faults.records import AT, draw_record, read_as_records, with_body
from kafka_fuzz.mutate.faults.table import BROKEN, CLAIM, PACKED, PLAIN, UNPACKED, FaultResult, FaultSite, fault
from kafka_fuzz.mutate.fixup import pack_fast, varint, write_batch_bytes
from kafka_records import Batch, Header, Record
from kafka_records.attributes import CONTROL_FLAG_MASK
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN, NO_TIMESTAMP
from kafka_records.control import KEY, MARKER_VALUE
from kafka_records.primitives import wrap_int64

COMMIT_KEY = KEY.pack(0, 1)
COMMIT_VALUE = MARKER_VALUE.pack(0, 7)


def marker(site: FaultSite, key: bytes | None, value: bytes | None) -> FaultResult:
    """A control batch of one record, in the place of the batch that was there."""
    base, batch = site.base, site.base.batch
    timestamp = batch.max_timestamp if batch.timestamp_type == "append" else base.header["base_timestamp"]
    record = Record(batch.base_offset, timestamp, key, value)
    attributes = base.header["attributes"] | CONTROL_FLAG_MASK
    header = {**base.header, "attributes": attributes, "record_count": 1}
    data = write_batch_bytes(header, with_length_prefix(record_body(record, 0, 0)))
    return FaultResult(data, (replace(batch, control=True, records=(record,)),))


@fault(
    "TXN-09",
    "TXN-10",
    "TXN-19",
    codecs=PLAIN,
    nesting="record",
    field="control.key",
    verdict="acceptable",
    kinds=("malformed", "truncated"),
    variants={"minus one": None, "zero": b"", "short": COMMIT_KEY[:3], "negative version": KEY.pack(-1, 1)},
)
def control_key_bad(site: FaultSite) -> FaultResult:
    """A control record's key is no version and type."""
    return marker(site, site.value, COMMIT_VALUE)


@fault(
    "TXN-10",
    "TXN-11",
    codecs=PLAIN,
    nesting="record",
    field="control.key",
    variants={"unknown type": KEY.pack(0, 99), "negative type": KEY.pack(0, -1), "later version": KEY.pack(9, 1)},
)
def control_key_of_the_future(site: FaultSite) -> FaultResult:
    """A control record has a type or a version that there is not yet, which readers have to pass over."""
    return marker(site, site.value, COMMIT_VALUE)


@fault(
    "TXN-13",
    codecs=PLAIN,
    nesting="record",
    field="control.value",
    verdict="acceptable",
    kinds=("malformed", "truncated"),
    variants={"minus one": None, "zero": b"", "short": COMMIT_VALUE[:5], "negative version": MARKER_VALUE.pack(-1, 7)},
)
def marker_value_bad(site: FaultSite) -> FaultResult:
    """An end marker's value is no version and epoch."""
    return marker(site, COMMIT_KEY, site.value)


NEGATIVE = {"minus one": -1, "smallest": -INT32_MAX - 1}
EDGES_64 = {"smallest": INT64_MIN, "minus one": -1, "zero": 0, "largest": INT64_MAX}
EDGES_32 = {"smallest": -INT32_MAX - 1, "minus one": -1, "zero": 0, "largest": INT32_MAX}
EDGES_16 = {"smallest": -(2**15), "minus one": -1, "zero": 0, "largest": 2**15 - 1}
BITS = {"transactional": 0x10, "control": 0x20, "delete horizon": 0x40, "all": 0x70}
UNUSED = {"bit 7": 0x80, "bit 8": 0x100, "bit 15": -0x8000, "all": -0x80}


def resealed(site: FaultSite, **fields: int) -> bytes:
    """The batch with other *fields*, its checksum right."""
    return write_batch_bytes({**site.base.header, **fields}, site.base.packed)


def changed_batch(site: FaultSite, changed: dict[str, int], **fields: Any) -> FaultResult:
    """The batch with the header fields in *changed*, to be read with other *fields*."""
    return FaultResult(resealed(site, **changed), (replace(site.base.batch, **fields),))


def batch_with_timestamps(batch: Batch, timestamp: int) -> Batch:
    """The batch with the time that LogAppendTime gives it."""
    records = tuple(record._replace(timestamp=timestamp) for record in batch.records)
    return replace(batch, timestamp_type="append", max_timestamp=timestamp, records=records)


@fault(
    "HDR-13", field="record_count", kinds=("truncated", "malformed", "decompression"), variants={"by one": 1, "far": 0}
)
def record_count_too_high(site: FaultSite) -> bytes:
    """The header promises more records than there are."""
    count = site.base.header["record_count"]
    return resealed(site, record_count=count + (site.value or count + 1000))


@fault(
    "HDR-13",
    "HDR-18",
    field="record_count",
    kinds=("truncated", "malformed", "decompression", "limit"),
    variants={"largest": INT32_MAX, "near largest": INT32_MAX - 8},
)
def record_count_claims(site: FaultSite) -> bytes:
    """The header promises as many records as would take all memory."""
    return resealed(site, record_count=site.value)


@fault("HDR-14", "REC-25", field="record_count", kinds=UNPACKED, variants={"by one": 1, "one": 0})
def record_count_too_low(site: FaultSite) -> bytes:
    """There are more records than the header promises."""
    base, more = site.base, site.base.payload + site.base.parts[-1]
    count = len(base.parts) if site.value else 1
    return write_batch_bytes({**base.header, "record_count": count}, pack_fast(base.codec, more, 2))


@fault(
    "HDR-15",
    field="record_count",
    kinds=("malformed", "truncated", "corrupt"),
    variants=NEGATIVE,
)
def record_count_negative(site: FaultSite) -> bytes:
    """The record count is below zero."""
    return resealed(site, record_count=site.value)


@fault("HDR-15", codecs=PLAIN, field="record_count", kinds=("malformed", "truncated", "corrupt"), variants=NEGATIVE)
def record_count_negative_of_nothing(site: FaultSite) -> bytes:
    """The record count is below zero, and no records follow."""
    return write_batch_bytes({**site.base.header, "record_count": site.value}, b"")


@fault("HDR-16", field="record_count", verdict="acceptable", kinds=UNPACKED)
def record_count_hides_the_records(site: FaultSite) -> FaultResult:
    """The record count is zero, and Kafka never looks at what follows."""
    return changed_batch(site, {"record_count": 0}, records=())


@fault("HDR-09", "OFF-10", field="last_offset_delta", variants=EDGES_32)
def last_offset_delta_at_an_edge(site: FaultSite) -> FaultResult:
    """The last offset is not that of the last record, as after compaction."""
    last = wrap_int64(site.base.batch.base_offset + site.value)
    return changed_batch(site, {"last_offset_delta": site.value}, last_offset=last)


@fault("HDR-09", "HDR-26", codecs=PLAIN, field="last_offset_delta", verdict="acceptable", kinds=BROKEN)
def last_offset_wraps(site: FaultSite) -> FaultResult:
    """A batch without records reaches beyond the last offset that there is; no real log comes there."""
    header = {**site.base.header, "base_offset": INT64_MAX, "last_offset_delta": 1, "record_count": 0}
    batch = replace(site.base.batch, base_offset=INT64_MAX, last_offset=INT64_MIN, records=())
    return FaultResult(write_batch_bytes(header, b""), (batch,))


@fault("TIM-01", field="base_timestamp", variants=EDGES_64)
def base_timestamp_at_an_edge(site: FaultSite) -> FaultResult:
    """The base timestamp is moved, and with it every record's; sums wrap."""
    base, moved = site.base, site.value - site.base.header["base_timestamp"]
    horizon = None if base.batch.delete_horizon is None else site.value
    records = base.batch.records
    if base.batch.timestamp_type == "create":
        records = tuple(each._replace(timestamp=wrap_int64(each.timestamp + moved)) for each in records)
    return changed_batch(site, {"base_timestamp": site.value}, delete_horizon=horizon, records=records)


@fault("TIM-08", "TIM-02", field="max_timestamp", variants=EDGES_64)
def max_timestamp_at_an_edge(site: FaultSite) -> FaultResult:
    """The maximum timestamp is not that of any record."""
    batch, data = site.base.batch, resealed(site, max_timestamp=site.value)
    if batch.timestamp_type == "append":
        return FaultResult(data, (batch_with_timestamps(batch, site.value),))
    return FaultResult(data, (replace(batch, max_timestamp=site.value),))


@fault("TIM-02", "ATT-03", field="attributes", variants={"own times": {}, "no times": {"base_timestamp": NO_TIMESTAMP}})
def append_time_bit_set(site: FaultSite) -> FaultResult:
    """LogAppendTime, though each record has a time of its own, or none: the header's holds for all."""
    batch = site.base.batch
    if batch.delete_horizon is not None and site.value:
        batch = replace(batch, delete_horizon=NO_TIMESTAMP)
    data = resealed(site, attributes=site.base.header["attributes"] | 0x08, **site.value)
    return FaultResult(data, (batch_with_timestamps(batch, batch.max_timestamp),))


@fault("ATT-04", "ATT-05", "ATT-06", field="attributes", variants=BITS)
def attribute_bits_set(site: FaultSite) -> FaultResult:
    """Bits that Kafka knows stand where nothing else goes with them."""
    header, batch, bits = site.base.header, site.base.batch, site.value
    return changed_batch(
        site,
        {"attributes": header["attributes"] | bits},
        transactional=batch.transactional or bool(bits & 0x10),
        control=batch.control or bool(bits & 0x20),
        delete_horizon=header["base_timestamp"] if bits & 0x40 else batch.delete_horizon,
    )


@fault("ATT-07", "ATT-08", field="attributes", variants=UNUSED)
def attribute_bits_unknown(site: FaultSite) -> bytes:
    """Bits that mean nothing are set."""
    return resealed(site, attributes=site.base.header["attributes"] | site.value)


@fault("HDR-23", field="producer_id", variants={**EDGES_64, "minus two": -2})
def producer_id_at_an_edge(site: FaultSite) -> FaultResult:
    """The producer id is one that no broker gives."""
    return changed_batch(site, {"producer_id": site.value}, producer_id=site.value)


@fault("HDR-22", field="producer_epoch", variants=EDGES_16)
def producer_epoch_at_an_edge(site: FaultSite) -> FaultResult:
    """The producer epoch is at an edge, or goes with no producer id."""
    return changed_batch(site, {"producer_epoch": site.value}, producer_epoch=site.value)


@fault("HDR-22", "PID-10", field="base_sequence", variants=EDGES_32)
def base_sequence_at_an_edge(site: FaultSite) -> FaultResult:
    """The base sequence is at an edge, so that sequences wrap or are none."""
    return changed_batch(site, {"base_sequence": site.value}, base_sequence=site.value)


@fault("HDR-13", codecs=PLAIN, field="records", kinds=CLAIM)
def records_missing(site: FaultSite) -> bytes:
    """The header promises records, and nothing follows it."""
    return write_batch_bytes(site.base.header, b"")


@fault("CMP-08", codecs=PACKED, field="records", kinds=("decompression", "truncated", "malformed", "corrupt"))
def stream_missing(site: FaultSite) -> bytes:
    """The header promises compressed records, and nothing follows it."""
    return write_batch_bytes(site.base.header, b"")


@fault("CMP-05", codecs=PACKED, field="records", kinds=("truncated", "malformed", "decompression"), nesting="stream")
def stream_of_no_bytes(site: FaultSite) -> bytes:
    """The codec's stream is whole, and holds nothing."""
    return write_batch_bytes(site.base.header, pack_fast(site.base.codec, b"", 2))


@fault("CMP-11", codecs=PACKED, field="records", kinds=BROKEN, nesting="packed")
def records_packed_twice(site: FaultSite) -> bytes:
    """The records are compressed, and then compressed again."""
    base = site.base
    return write_batch_bytes(base.header, pack_fast(base.codec, pack_fast(base.codec, base.payload, 2), 2))


COUNT_AT = AT["header_count"]
NEGATIVE_LENGTHS = {"minus one": -1, "minus two": -2, "smallest": -INT32_MAX - 1}


def before_headers(base: BaseEntry, index: int) -> bytes:
    """A record's body up to its header count."""
    return b"".join(base.bodies[index][:COUNT_AT])


def header_bytes(base: BaseEntry, index: int) -> bytes:
    """A record's headers without their count."""
    return b"".join(base.bodies[index][COUNT_AT + 1 :])


def changed_headers(site: FaultSite, index: int, count: int, headers: bytes) -> bytes:
    """The batch with other headers in one record, and *count* said of them."""
    return with_body(site.base, index, before_headers(site.base, index) + varint(count) + headers)


@fault("REC-14", nesting="record", field="header_count", kinds=BROKEN, variants=NEGATIVE_LENGTHS)
def header_count_negative(site: FaultSite) -> bytes:
    """The header count is below zero."""
    index = draw_record(site)
    return changed_headers(site, index, site.value, header_bytes(site.base, index))


@fault("REC-14", nesting="record", field="header_count", kinds=BROKEN, variants=NEGATIVE_LENGTHS)
def header_count_negative_of_nothing(site: FaultSite) -> bytes:
    """The header count is below zero, and no headers follow."""
    return changed_headers(site, draw_record(site), site.value, b"")


@fault("REC-15", nesting="record", field="header_count", kinds=BROKEN, variants={"by one": 1, "by two": 2})
def header_count_too_high(site: FaultSite) -> bytes:
    """A record promises more headers than it has."""
    index = draw_record(site)
    count = len(site.base.batch.records[index].headers)
    return changed_headers(site, index, count + site.value, header_bytes(site.base, index))


@fault("REC-15", "REC-20", nesting="record", field="header.value_length", kinds=CLAIM, variants={"largest": INT32_MAX})
def header_value_length_leads_back(site: FaultSite) -> bytes:
    """A header value's length, a null by another negative, leads back to its header, and the count is too large."""
    return changed_headers(site, draw_record(site), site.value, b"\0\3")


@fault("REC-15", nesting="record", field="header_count", kinds=CLAIM, variants={"large": 2**20, "largest": INT32_MAX})
def header_count_claims(site: FaultSite) -> bytes:
    """A record promises as many headers as would take all memory."""
    index = draw_record(site)
    return changed_headers(site, index, site.value, header_bytes(site.base, index))


@fault("REC-17", nesting="record", field="header_count", kinds=BROKEN, variants={"by one": 1, "zero": 0})
def header_count_too_low(site: FaultSite) -> bytes:
    """A record has more headers than it says."""
    index = draw_record(site)
    count = len(site.base.batch.records[index].headers)
    more = header_bytes(site.base, index) + b"\2h\2v"
    return changed_headers(site, index, count if site.value else 0, more)


@fault("REC-16", nesting="record", field="header_count", kinds=BROKEN)
def header_count_missing(site: FaultSite) -> bytes:
    """A record ends before its header count."""
    index = draw_record(site)
    return with_body(site.base, index, before_headers(site.base, index))


@fault("REC-18", nesting="record", field="header.key_length", kinds=BROKEN, variants=NEGATIVE_LENGTHS)
def header_key_null(site: FaultSite) -> bytes:
    """A header's key is null."""
    index = draw_record(site)
    count = len(site.base.batch.records[index].headers)
    return changed_headers(site, index, count + 1, header_bytes(site.base, index) + varint(site.value) + b"\2v")


@fault(
    "REC-13",
    nesting="record",
    field=("header.key_length", "header.value_length"),
    kinds=CLAIM,
    variants={"by one": 1, "largest": 0},
)
def header_length_beyond_the_record(site: FaultSite) -> bytes:
    """A header's key or value claims more bytes than its record has left."""
    index = draw_record(site)
    count = len(site.base.batch.records[index].headers)
    first = b"" if site.field == "header.key_length" else b"\2h"
    length = varint(2 if site.value else INT32_MAX)
    return changed_headers(site, index, count + 1, header_bytes(site.base, index) + first + length + b"x")


@fault("REC-20", nesting="record", field="header.value_length", variants={"minus two": -2, "smallest": -INT32_MAX - 1})
def header_value_null_by_another_negative(site: FaultSite) -> FaultResult:
    """A header value's length below -1 is null as well."""
    return with_header_fields(site, b"\2h" + varint(site.value), Header(b"h", None))


@fault(
    "REC-19",
    "REC-23",
    nesting="record",
    field="header.key",
    variants={"empty": b"", "zero byte": b"\0", "long": b"k" * 200},
)
def header_key_unusual(site: FaultSite) -> FaultResult:
    """A header's key is one that no application would choose."""
    return with_header_fields(site, b"".join((*nullable(site.value), *nullable(b"v"))), Header(site.value, b"v"))


@fault(
    "REC-21",
    nesting="record",
    field="header.key",
    verdict="acceptable",
    kinds=("malformed",),
    variants={"byte": b"\xff", "surrogate": b"\xed\xa0\x80", "cut": b"a\xc3"},
)
def header_key_not_utf8(site: FaultSite) -> FaultResult:
    """A header's key is no text."""
    return with_header_fields(site, b"".join((*nullable(site.value), *nullable(None))), Header(site.value, None))


def with_header_fields(site: FaultSite, written: bytes, header: Header) -> FaultResult:
    """One record with a header more at its end."""
    index = draw_record(site)
    record = site.base.batch.records[index]
    data = changed_headers(site, index, len(record.headers) + 1, header_bytes(site.base, index) + written)
    return read_as_records(site.base, index, record._replace(headers=(*record.headers, header)), data)
