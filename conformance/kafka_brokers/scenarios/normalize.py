"""Make a broker's answers comparable: times, producer ids and restarts are replaced by fixed values."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafka_brokers.wire.partitions import Produced
from kafka_corpus.authoring.build import put, reseal, reseal_message
from kafka_corpus.scenario import NOW
from kafka_records import RecordFormatError, decode, encode
from kafka_records.constants import MAGIC_VALUE_V1, MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    MAGIC_OFFSET,
    MESSAGE_V1,
    Layout,
)
from kafka_records.log import split_entries

# Milliseconds by which the broker's clock may differ from ours.
TOLERANCE: Final = 2_000
CONTROL, HORIZON = 0x20, 0x40
# Its position in a marker, from the end: before the count of headers (TXN-14).  It counts the broker's starts.
COORDINATOR_EPOCH: Final = -5


def now_ms() -> int:
    """Our clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Normal:
    """How to make answers the same.

    Attributes:
        since: when the scenario began, by our clock.
        producers: placeholders by the ids that the broker assigned.
        retention: delete.retention.ms of the topic, the distance of delete horizons.
    """

    since: int
    producers: Mapping[int, int]
    retention: int = 86_400_000

    def time(self, stamp: int) -> int:
        """NOW for a time of the broker's own, others as they are."""
        return NOW if self._is_now(stamp) else stamp

    def producer(self, producer_id: int) -> int:
        """The placeholder of a producer id, others as they are."""
        return self.producers.get(producer_id, producer_id)

    def log(self, data: bytes) -> bytes:
        """The entries in *data*; bytes after the last complete one are unchanged."""
        done, end = [], 0
        try:
            for start, end in split_entries(data):
                done.append(self._entry(data[start:end]))
        except RecordFormatError:
            end = sum(map(len, done))
        return b"".join(done) + data[end:]

    def _is_now(self, stamp: int) -> bool:
        return self.since - TOLERANCE <= stamp <= now_ms() + TOLERANCE

    def _entry(self, entry: bytes) -> bytes:
        match entry[MAGIC_OFFSET]:
            case magic if magic == MAGIC_VALUE_V2:
                return self._batch(entry)
            case magic if magic == MAGIC_VALUE_V1:
                changed = self._timed(entry, "timestamp", MESSAGE_V1)
                return entry if changed == entry else reseal_message(changed)
        return entry

    def _batch(self, entry: bytes) -> bytes:
        header = BATCH_V2.values(entry)
        changed = put(entry, "producer_id", self.producer(header["producer_id"]))
        if header["attributes"] & CONTROL and header["record_count"]:
            changed = changed[:COORDINATOR_EPOCH] + bytes(4) + changed[COORDINATOR_EPOCH + 4 :]
        if header["attributes"] & HORIZON:
            return self._ahead(changed if changed == entry else reseal(changed))
        changed = self._timed(self._timed(changed, "base_timestamp", BATCH_V2), "max_timestamp", BATCH_V2)
        return entry if changed == entry else reseal(changed)

    def _ahead(self, entry: bytes) -> bytes:
        """A batch with a delete horizon, from which all its timestamps are counted."""
        (batch,) = decode(entry)
        horizon = batch.delete_horizon
        if horizon is None or not self._is_now(horizon - self.retention):
            return entry
        records = tuple(record._replace(timestamp=self.time(record.timestamp)) for record in batch.records)
        newest = self.time(batch.max_timestamp)
        return encode(replace(batch, delete_horizon=NOW + self.retention, max_timestamp=newest, records=records))

    def _timed(self, entry: bytes, field: str, layout: Layout) -> bytes:
        where = layout.field(field)
        stamp = int.from_bytes(entry[where.offset : where.offset + where.width], "big", signed=True)
        return put(entry, field, self.time(stamp), layout=layout)


APPEND_TIME = 0x08


def now_of(produced: Produced, stored: bytes) -> int:
    """The broker's time in milliseconds: what it answered, or wrote into the first entry that has it, or ours."""
    if produced.log_append_time >= 0:
        return produced.log_append_time
    try:
        times = (time_of(stored[start:end]) for start, end in split_entries(stored))
        return next((time for time in times if time), now_ms())
    except RecordFormatError:
        return now_ms()


def time_of(entry: bytes) -> int | None:
    """The broker's time, if it wrote that into *entry*."""
    magic = entry[MAGIC_OFFSET]
    if magic == 2 and len(entry) >= RECORD_BATCH_OVERHEAD and entry[ATTRIBUTES_OFFSET_V2 + 1] & APPEND_TIME:
        return int(BATCH_V2.values(entry)["max_timestamp"])
    if magic == 1 and entry[ATTRIBUTES_OFFSET_LEGACY] & APPEND_TIME:
        return int(MESSAGE_V1.values(entry)["timestamp"])
    return None
