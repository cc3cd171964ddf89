"""Encoders that get one thing wrong."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from kafka_conformance.miniatures.base import Encode, Miniature, records_of
from kafka_conformance.testees import reference
from kafka_corpus.wire import WireBatch, WireRecord
from kafka_records.layout import BATCH_V2

CRC: Final = BATCH_V2.field("crc")


def _zero_crc(batch: WireBatch) -> bytes:
    data = reference.encode(batch)
    return data if batch.magic != 2 else data[: CRC.offset] + bytes(4) + data[CRC.offset + 4 :]


def _without_headers(batch: WireBatch) -> bytes:
    records = [WireRecord(r.offset, r.timestamp, r.key, r.value, []) for r in records_of(batch)]
    return reference.encode(_changed(batch, records))


def _seconds(batch: WireBatch) -> bytes:
    records = [WireRecord(r.offset, _cut(r.timestamp), r.key, r.value, r.headers) for r in records_of(batch)]
    return reference.encode(_changed(batch, records))


def _cut(timestamp: int | UnsetType) -> int | UnsetType:
    return timestamp if timestamp is UNSET else timestamp // 1000 * 1000


def _changed(batch: WireBatch, records: list[WireRecord]) -> WireBatch:
    names = [name for name in batch.__struct_fields__ if name != "records"]
    return WireBatch(**{name: getattr(batch, name) for name in names}, records=records)


def _writer(name: str, wrong: str, encode: Encode) -> Miniature:
    return Miniature(NAME=name, wrong=wrong, caught_as="wrong_data", encode=encode)


WRITES_NO_CRC = _writer("writes_no_crc", "leaves the checksum at zero", _zero_crc)
WRITES_NO_HEADERS = _writer("writes_no_headers", "forgets headers", _without_headers)
WRITES_SECONDS = _writer("writes_seconds", "rounds timestamps to seconds", _seconds)
