"""Lies about control records: batches that decode, and say something that no coordinator says."""

from __future__ import annotations

from dataclasses import replace

from kafka_fuzz.mutate.bases import body_of, framed
from kafka_fuzz.mutate.lies.table import PLAIN, Spot, Told, lie
from kafka_fuzz.mutate.sealing import seal_batch
from kafka_records import Record
from kafka_records.attributes import CONTROL_FLAG_MASK
from kafka_records.control import KEY, MARKER_VALUE

COMMIT_KEY = KEY.pack(0, 1)
COMMIT_VALUE = MARKER_VALUE.pack(0, 7)


def marker(spot: Spot, key: bytes | None, value: bytes | None) -> Told:
    """A control batch of one record, in the place of the batch that was there."""
    base, batch = spot.base, spot.base.batch
    timestamp = batch.max_timestamp if batch.timestamp_type == "append" else base.header["base_timestamp"]
    record = Record(batch.base_offset, timestamp, key, value)
    attributes = base.header["attributes"] | CONTROL_FLAG_MASK
    header = {**base.header, "attributes": attributes, "record_count": 1}
    data = seal_batch(header, framed(body_of(record, 0, 0)))
    return Told(data, (replace(batch, control=True, records=(record,)),))


@lie(
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
def control_key_bad(spot: Spot) -> Told:
    """A control record's key is no version and type."""
    return marker(spot, spot.value, COMMIT_VALUE)


@lie(
    "TXN-10",
    "TXN-11",
    codecs=PLAIN,
    nesting="record",
    field="control.key",
    variants={"unknown type": KEY.pack(0, 99), "negative type": KEY.pack(0, -1), "later version": KEY.pack(9, 1)},
)
def control_key_of_the_future(spot: Spot) -> Told:
    """A control record has a type or a version that there is not yet, which readers have to pass over."""
    return marker(spot, spot.value, COMMIT_VALUE)


@lie(
    "TXN-13",
    codecs=PLAIN,
    nesting="record",
    field="control.value",
    verdict="acceptable",
    kinds=("malformed", "truncated"),
    variants={"minus one": None, "zero": b"", "short": COMMIT_VALUE[:5], "negative version": MARKER_VALUE.pack(-1, 7)},
)
def marker_value_bad(spot: Spot) -> Told:
    """An end marker's value is no version and epoch."""
    return marker(spot, COMMIT_KEY, spot.value)
