"""BATCH as JSON: the shape that vectors, evidence and the testee protocol share.

msgspec writes bytes as base64, checks types on reading, and generates the JSON
Schema, so the shape is written down once.  A field left out is `UNSET`: the
writer does not expose it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kafka_records import Batch, Header, Record

# A key is null in what a writer has to refuse, and in what a reader made of broken bytes.
WireHeader = tuple[bytes | None, bytes | None]


class WireRecord(msgspec.Struct, omit_defaults=False, forbid_unknown_fields=False):
    """One record: absolute offset, timestamp in milliseconds, bytes as base64."""

    offset: int | UnsetType = UNSET
    timestamp: int | UnsetType = UNSET
    key: bytes | None | UnsetType = UNSET
    value: bytes | None | UnsetType = UNSET
    headers: list[WireHeader] | UnsetType = UNSET


class WireBatch(msgspec.Struct):
    """One entry of a log; fields as in `kafka_records.Batch`."""

    magic: int | UnsetType = UNSET
    base_offset: int | UnsetType = UNSET
    last_offset: int | UnsetType = UNSET
    compression: str | UnsetType = UNSET
    timestamp_type: str | UnsetType = UNSET
    max_timestamp: int | UnsetType = UNSET
    producer_id: int | UnsetType = UNSET
    producer_epoch: int | UnsetType = UNSET
    base_sequence: int | UnsetType = UNSET
    transactional: bool | UnsetType = UNSET
    control: bool | UnsetType = UNSET
    partition_leader_epoch: int | UnsetType = UNSET
    delete_horizon: int | None | UnsetType = UNSET
    records: list[WireRecord] | UnsetType = UNSET


BATCH_FIELDS: tuple[str, ...] = WireBatch.__struct_fields__
RECORD_FIELDS: tuple[str, ...] = WireRecord.__struct_fields__


def to_wire(batch: Batch) -> WireBatch:
    """A batch of the reference in its JSON shape, every field set."""
    plain = {name: getattr(batch, name) for name in BATCH_FIELDS if name != "records"}
    records = list(map(to_wire_record, batch.records))
    return WireBatch(**plain, records=records)


def to_wire_record(record: Record) -> WireRecord:
    """The record with every field."""
    return WireRecord(record.offset, record.timestamp, record.key, record.value, list(record.headers))


def from_wire(wire: WireBatch) -> Batch:
    """The batch that *wire* describes; fields left out take the reference's defaults."""
    plain: dict[str, Any] = {
        name: value for name in BATCH_FIELDS if name != "records" and (value := getattr(wire, name)) is not UNSET
    }
    records = () if wire.records is UNSET else tuple(map(_record_from_wire, wire.records))
    return Batch(**plain, records=records)


def _record_from_wire(wire: WireRecord) -> Record:
    headers = () if wire.headers is UNSET else tuple(Header(key, value) for key, value in wire.headers)
    return Record(
        offset=0 if wire.offset is UNSET else wire.offset,
        timestamp=-1 if wire.timestamp is UNSET else wire.timestamp,
        key=None if wire.key is UNSET else wire.key,
        value=None if wire.value is UNSET else wire.value,
        headers=headers,
    )
