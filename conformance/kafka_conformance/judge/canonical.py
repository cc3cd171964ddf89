"""Whether bytes are what a writer makes of their records; pure.

Kafka reads forms that no writer produces: varints longer than needed, lengths
below -1 for null.  A codec that reads them otherwise is less lenient than
Kafka, and no user meets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_records import Batch, RecordFormatError, encode
from kafka_records.batch import encode_at
from kafka_records.compression import decompress
from kafka_records.constants import MAGIC_VALUE_V2, NO_TIMESTAMP, RECORD_BATCH_OVERHEAD
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET
from kafka_records.log import split_entries

MAX_PAYLOAD: Final = 256 * 1024 * 1024
# Milliseconds: what clocks and dates of most languages can express, the years 1970 to 9999.
LATEST: Final = 253_402_300_799_999


def is_canonical(data: bytes, batches: Sequence[Batch]) -> bool:
    """Whether the records in *data* have the form that writers give them; compressed bytes may have any."""
    try:
        return all(
            _is_as_written(data[start:end], batch)
            for (start, end), batch in zip(split_entries(data), batches, strict=False)
        )
    except RecordFormatError:
        return False


def _is_as_written(entry: bytes, batch: Batch) -> bool:
    if entry[MAGIC_OFFSET] != MAGIC_VALUE_V2:
        # Wrappers have several forms that writers use.
        return batch.compression != "none" or _encoded(batch) == entry
    payload = entry[RECORD_BATCH_OVERHEAD:]
    if batch.records and batch.timestamp_type == "append":
        return True  # LogAppendTime hides the times of the records
    if payload and batch.compression != "none":
        payload = decompress(batch.compression, payload, magic=MAGIC_VALUE_V2, most=MAX_PAYLOAD)
    header = BATCH_V2.values(entry)
    base = header["base_offset"], header["base_timestamp"]
    return payload == b"".join(_record(index, batch, base) for index in range(len(batch.records)))


def _record(index: int, batch: Batch, base: tuple[int, int]) -> bytes:
    record = batch.records[index]
    return encode_at(index, record, *base)


def _encoded(batch: Batch) -> bytes:
    try:
        return encode(batch)
    except RecordFormatError:
        return b""


def has_usual_times(batches: Sequence[Batch]) -> bool:
    """Whether all records of each batch have times from 1970 to the year 9999, or none has a time."""
    return all(_are_usual({record.timestamp for record in batch.records}) for batch in batches)


def _are_usual(times: set[int]) -> bool:
    return times == {NO_TIMESTAMP} or all(0 <= time <= LATEST for time in times)
