"""How many bytes something takes: exactly, and as the upper bounds that writers reserve.

Seed 002:563-565, DefaultRecord, DefaultRecordBatch, LegacyRecord, AbstractRecords.
All sizes are in bytes and before compression, the 12-byte prefix included.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_records.constants import (
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V2,
    MAX_RECORD_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
    Compression,
)
from kafka_records.model import Header, Record
from kafka_records.varint import sizeof_varint, sizeof_varlong


def sizeof_nullable(value: bytes | None) -> int:
    """A varint length and its bytes; null takes one byte."""
    return sizeof_varint(-1 if value is None else len(value)) + len(value or b"")


def sizeof_headers(headers: Sequence[Header]) -> int:
    """The header count and the headers."""
    return sizeof_varint(len(headers)) + sum(sizeof_nullable(key) + sizeof_nullable(value) for key, value in headers)


def sizeof_record(record: Record, base_offset: int, base_timestamp: int) -> int:
    """A v2 record with its length field (REC-26; seed 002:563)."""
    body = (
        1
        + sizeof_varlong(record.timestamp - base_timestamp)
        + sizeof_varint(record.offset - base_offset)
        + sizeof_nullable(record.key)
        + sizeof_nullable(record.value)
        + sizeof_headers(record.headers)
    )
    return sizeof_varint(body) + body


def sizeof_batch(records: Sequence[Record], base_offset: int) -> int:
    """An uncompressed v2 batch; no records give 0, as DefaultRecordBatch#sizeInBytes says."""
    if not records:
        return 0
    base_timestamp = records[0].timestamp
    return RECORD_BATCH_OVERHEAD + sum(sizeof_record(record, base_offset, base_timestamp) for record in records)


def sizeof_message(magic: int, key: bytes | None, value: bytes | None) -> int:
    """A v0 or v1 message (LEG-01, LEG-02; SIZ-13)."""
    overhead = RECORD_OVERHEAD_V0 if magic == MAGIC_VALUE_V0 else RECORD_OVERHEAD_V1
    return LOG_OVERHEAD + overhead + len(key or b"") + len(value or b"")


def record_size_upper_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
    """The most that a v2 record can take, whatever its deltas (SIZ-10, DefaultRecord#recordSizeUpperBound)."""
    return MAX_RECORD_OVERHEAD + sizeof_nullable(key) + sizeof_nullable(value) + sizeof_headers(headers)


def estimate_size_upper_bound(
    magic: int,
    compression: Compression,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> int:
    """The most bytes that a batch of this one record can take (AbstractRecords#estimateSizeInBytesUpperBound)."""
    if magic >= MAGIC_VALUE_V2:
        return RECORD_BATCH_OVERHEAD + record_size_upper_bound(key, value, headers)
    # Kafka leaves the inner message's own 12-byte prefix out of this sum; so do we.
    wrapper = sizeof_message(magic, None, None) - LOG_OVERHEAD if compression != "none" else 0
    return wrapper + sizeof_message(magic, key, value)


def estimate_compressed_size(size: int, compression: Compression) -> int:
    """The bytes that Kafka reserves for the compressed form (AbstractRecords#estimateCompressedSizeInBytes)."""
    return size if compression == "none" else min(max(size // 2, 1024), 1 << 16)
