"""Lies in the header of a v2 batch, its checksum right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_fuzz.mutate.lies.table import BROKEN, CLAIM, PACKED, PLAIN, UNPACKED, Spot, Told, lie
from kafka_fuzz.mutate.packing import pack
from kafka_fuzz.mutate.sealing import seal_batch
from kafka_records import Batch
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN, NO_TIMESTAMP
from kafka_records.primitives import wrap_int64

NEGATIVE = {"minus one": -1, "smallest": -INT32_MAX - 1}
EDGES_64 = {"smallest": INT64_MIN, "minus one": -1, "zero": 0, "largest": INT64_MAX}
EDGES_32 = {"smallest": -INT32_MAX - 1, "minus one": -1, "zero": 0, "largest": INT32_MAX}
EDGES_16 = {"smallest": -(2**15), "minus one": -1, "zero": 0, "largest": 2**15 - 1}
BITS = {"transactional": 0x10, "control": 0x20, "delete horizon": 0x40, "all": 0x70}
UNUSED = {"bit 7": 0x80, "bit 8": 0x100, "bit 15": -0x8000, "all": -0x80}


def resealed(spot: Spot, **fields: int) -> bytes:
    """The batch with other *fields*, its checksum right."""
    return seal_batch({**spot.base.header, **fields}, spot.base.packed)


def changed(spot: Spot, told: dict[str, int], **fields: Any) -> Told:
    """The batch with the fields that are *told*, read with other *fields*."""
    return Told(resealed(spot, **told), (replace(spot.base.batch, **fields),))


def stamped(batch: Batch, timestamp: int) -> Batch:
    """The batch with the time that LogAppendTime gives it."""
    records = tuple(record._replace(timestamp=timestamp) for record in batch.records)
    return replace(batch, timestamp_type="append", max_timestamp=timestamp, records=records)


@lie(
    "HDR-13", field="record_count", kinds=("truncated", "malformed", "decompression"), variants={"by one": 1, "far": 0}
)
def record_count_too_high(spot: Spot) -> bytes:
    """The header promises more records than there are."""
    count = spot.base.header["record_count"]
    return resealed(spot, record_count=count + (spot.value or count + 1000))


@lie(
    "HDR-13",
    "HDR-18",
    field="record_count",
    kinds=("truncated", "malformed", "decompression", "limit"),
    variants={"largest": INT32_MAX, "near largest": INT32_MAX - 8},
)
def record_count_claims(spot: Spot) -> bytes:
    """The header promises as many records as would take all memory."""
    return resealed(spot, record_count=spot.value)


@lie("HDR-14", "REC-25", field="record_count", kinds=UNPACKED, variants={"by one": 1, "one": 0})
def record_count_too_low(spot: Spot) -> bytes:
    """There are more records than the header promises."""
    base, more = spot.base, spot.base.payload + spot.base.parts[-1]
    count = len(base.parts) if spot.value else 1
    return seal_batch({**base.header, "record_count": count}, pack(base.codec, more, 2))


@lie(
    "HDR-15",
    field="record_count",
    kinds=("malformed", "truncated", "corrupt"),
    variants=NEGATIVE,
)
def record_count_negative(spot: Spot) -> bytes:
    """The record count is below zero."""
    return resealed(spot, record_count=spot.value)


@lie("HDR-15", codecs=PLAIN, field="record_count", kinds=("malformed", "truncated", "corrupt"), variants=NEGATIVE)
def record_count_negative_of_nothing(spot: Spot) -> bytes:
    """The record count is below zero, and no records follow."""
    return seal_batch({**spot.base.header, "record_count": spot.value}, b"")


@lie("HDR-16", field="record_count", verdict="acceptable", kinds=UNPACKED)
def record_count_hides_the_records(spot: Spot) -> Told:
    """The record count is zero, and Kafka never looks at what follows."""
    return changed(spot, {"record_count": 0}, records=())


@lie("HDR-09", "OFF-10", field="last_offset_delta", variants=EDGES_32)
def last_offset_delta_at_an_edge(spot: Spot) -> Told:
    """The last offset is not that of the last record, as after compaction."""
    last = wrap_int64(spot.base.batch.base_offset + spot.value)
    return changed(spot, {"last_offset_delta": spot.value}, last_offset=last)


@lie("HDR-09", "HDR-26", codecs=PLAIN, field="last_offset_delta", verdict="acceptable", kinds=BROKEN)
def last_offset_wraps(spot: Spot) -> Told:
    """A batch without records reaches beyond the last offset that there is; no real log comes there."""
    header = {**spot.base.header, "base_offset": INT64_MAX, "last_offset_delta": 1, "record_count": 0}
    batch = replace(spot.base.batch, base_offset=INT64_MAX, last_offset=INT64_MIN, records=())
    return Told(seal_batch(header, b""), (batch,))


@lie("TIM-01", field="base_timestamp", variants=EDGES_64)
def base_timestamp_at_an_edge(spot: Spot) -> Told:
    """The base timestamp is moved, and with it every record's; sums wrap."""
    base, moved = spot.base, spot.value - spot.base.header["base_timestamp"]
    horizon = None if base.batch.delete_horizon is None else spot.value
    records = base.batch.records
    if base.batch.timestamp_type == "create":
        records = tuple(each._replace(timestamp=wrap_int64(each.timestamp + moved)) for each in records)
    return changed(spot, {"base_timestamp": spot.value}, delete_horizon=horizon, records=records)


@lie("TIM-08", "TIM-02", field="max_timestamp", variants=EDGES_64)
def max_timestamp_at_an_edge(spot: Spot) -> Told:
    """The maximum timestamp is not that of any record."""
    batch, data = spot.base.batch, resealed(spot, max_timestamp=spot.value)
    if batch.timestamp_type == "append":
        return Told(data, (stamped(batch, spot.value),))
    return Told(data, (replace(batch, max_timestamp=spot.value),))


@lie("TIM-02", "ATT-03", field="attributes", variants={"own times": {}, "no times": {"base_timestamp": NO_TIMESTAMP}})
def append_time_bit_set(spot: Spot) -> Told:
    """LogAppendTime, though each record has a time of its own, or none: the header's holds for all."""
    batch = spot.base.batch
    if batch.delete_horizon is not None and spot.value:
        batch = replace(batch, delete_horizon=NO_TIMESTAMP)
    data = resealed(spot, attributes=spot.base.header["attributes"] | 0x08, **spot.value)
    return Told(data, (stamped(batch, batch.max_timestamp),))


@lie("ATT-04", "ATT-05", "ATT-06", field="attributes", variants=BITS)
def attribute_bits_set(spot: Spot) -> Told:
    """Bits that Kafka knows stand where nothing else goes with them."""
    header, batch, bits = spot.base.header, spot.base.batch, spot.value
    return changed(
        spot,
        {"attributes": header["attributes"] | bits},
        transactional=batch.transactional or bool(bits & 0x10),
        control=batch.control or bool(bits & 0x20),
        delete_horizon=header["base_timestamp"] if bits & 0x40 else batch.delete_horizon,
    )


@lie("ATT-07", "ATT-08", field="attributes", variants=UNUSED)
def attribute_bits_unknown(spot: Spot) -> bytes:
    """Bits that mean nothing are set."""
    return resealed(spot, attributes=spot.base.header["attributes"] | spot.value)


@lie("HDR-23", field="producer_id", variants={**EDGES_64, "minus two": -2})
def producer_id_at_an_edge(spot: Spot) -> Told:
    """The producer id is one that no broker gives."""
    return changed(spot, {"producer_id": spot.value}, producer_id=spot.value)


@lie("HDR-22", field="producer_epoch", variants=EDGES_16)
def producer_epoch_at_an_edge(spot: Spot) -> Told:
    """The producer epoch is at an edge, or goes with no producer id."""
    return changed(spot, {"producer_epoch": spot.value}, producer_epoch=spot.value)


@lie("HDR-22", "PID-10", field="base_sequence", variants=EDGES_32)
def base_sequence_at_an_edge(spot: Spot) -> Told:
    """The base sequence is at an edge, so that sequences wrap or are none."""
    return changed(spot, {"base_sequence": spot.value}, base_sequence=spot.value)


@lie("HDR-13", codecs=PLAIN, field="records", kinds=CLAIM)
def records_missing(spot: Spot) -> bytes:
    """The header promises records, and nothing follows it."""
    return seal_batch(spot.base.header, b"")


@lie("CMP-08", codecs=PACKED, field="records", kinds=("decompression", "truncated", "malformed", "corrupt"))
def stream_missing(spot: Spot) -> bytes:
    """The header promises compressed records, and nothing follows it."""
    return seal_batch(spot.base.header, b"")


@lie("CMP-05", codecs=PACKED, field="records", kinds=("truncated", "malformed", "decompression"), nesting="stream")
def stream_of_no_bytes(spot: Spot) -> bytes:
    """The codec's stream is whole, and holds nothing."""
    return seal_batch(spot.base.header, pack(spot.base.codec, b"", 2))


@lie("CMP-11", codecs=PACKED, field="records", kinds=BROKEN, nesting="packed")
def records_packed_twice(spot: Spot) -> bytes:
    """The records are compressed, and then compressed again."""
    base = spot.base
    return seal_batch(base.header, pack(base.codec, pack(base.codec, base.payload, 2), 2))
