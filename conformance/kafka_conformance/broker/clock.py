"""What a broker's clock said when it took a payload, as far as it shows."""

from __future__ import annotations

from kafka_conformance.broker.play.normal import now_ms
from kafka_conformance.broker.wire.partitions import Produced
from kafka_records import RecordFormatError
from kafka_records.constants import RECORD_BATCH_OVERHEAD
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, ATTRIBUTES_OFFSET_V2, BATCH_V2, MAGIC_OFFSET, MESSAGE_V1
from kafka_records.log import entries

APPEND_TIME = 0x08


def now_of(produced: Produced, stored: bytes) -> int:
    """The broker's time in milliseconds: what it answered, or wrote into the first entry that has it, or ours."""
    if produced.log_append_time >= 0:
        return produced.log_append_time
    try:
        times = (time_of(stored[start:end]) for start, end in entries(stored))
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
