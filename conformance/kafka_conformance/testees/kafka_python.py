"""kafka-python, through the classes that its consumer and producer use; `kafka_python_client` has the two themselves.

Decoding is `MemoryRecords` with `validate_crc` on batches and records, as its
fetcher does by default (`check_crcs`).  `MemoryRecords` ends in front of a
partial batch without an error; that its consumer raises if there is nothing
else is for the client to show.  Encoding is `MemoryRecordsBuilder`,
which has no base offset, no leader epoch, no LogAppendTime and no control
batches to ask for, and counts offsets from 0: other batches are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal

import kafka
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.structs import TopicPartition
from msgspec import UNSET

from kafka_conformance.testees.client_parts import (
    BATCH_SIZE,
    EVERY_FORMAT,
    TIMESTAMP_TYPES,
    check_expressible,
    compression_name,
    counted_offsets,
    exception_text,
    exposed_record,
    header_text,
)
from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.protocol import LEAKED, Aborted, CodecAnswer, Refusal
from kafka_corpus.wire import WireBatch, WireRecord, from_wire
from kafka_records import Batch, Kind
from kafka_records.constants import COMPRESSIONS

NAME = "kafka-python"
VERSION: str = kafka.__version__
DECODES = ENCODES = EVERY_FORMAT


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*."""
    batches: list[WireBatch] = []
    try:
        records = MemoryRecords(data)
        while records.has_next():
            batches.append(_batch(records.next_batch()))
    except Exception as error:
        raise CodecError(record_error_kind(error), exception_text(error), batches) from error
    return batches


def record_error_kind(error: Exception) -> Kind | Literal["other"]:
    """The kind of an exception that kafka-python documents; any other, as zlib.error or IndexError, is `other`."""
    if isinstance(error, UnsupportedCodecError):
        return "unsupported_compression"
    if isinstance(error, CorruptRecordError):
        return "corrupt" if "crc" in str(error).lower() else "malformed"
    return LEAKED


def committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records that its fetcher delivers under read_committed."""
    listed = [SimpleNamespace(producer_id=producer, first_offset=first) for producer, first in aborted]
    fetched = Fetcher.PartitionRecords(
        0,
        TopicPartition("t", 0),
        MemoryRecords(data),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=listed,
    )
    records: list[WireRecord] = []
    try:
        while taken := fetched.take(1):
            records += map(exposed_record, taken)
    except Exception as error:
        return CodecAnswer(records=records, error=Refusal(record_error_kind(error), exception_text(error)))
    return CodecAnswer(records=records, next_offset=fetched.next_fetch_offset)


def _batch(batch: Any) -> WireBatch:
    if not batch.validate_crc():
        raise CorruptRecordError(f"Record batch at offset {batch.base_offset} failed CRC check")
    if batch.magic < 2:
        return _message(batch)
    return WireBatch(
        magic=batch.magic,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        compression=compression_name(batch.compression_type),
        timestamp_type=TIMESTAMP_TYPES[batch.timestamp_type],
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        partition_leader_epoch=batch.leader_epoch,
        records=list(map(_record, batch)),
    )


def _message(batch: Any) -> WireBatch:
    # What LegacyRecordBatch calls base_offset is the offset in the entry's
    # header; for a wrapper that is the offset of its last inner message.
    compressed = batch.compression_type != 0
    return WireBatch(
        magic=batch.magic,
        base_offset=UNSET if compressed else batch.base_offset,
        last_offset=batch.base_offset,
        compression=compression_name(batch.compression_type),
        timestamp_type=TIMESTAMP_TYPES[batch.timestamp_type],
        records=list(map(_record, batch)),
    )


def _record(record: Any) -> WireRecord:
    if not record.validate_crc():
        raise CorruptRecordError(f"Record at offset {record.offset} failed CRC check")
    return exposed_record(record)


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer would send for *batch*."""
    wanted = from_wire(batch)
    check_expressible(wanted, "builder", *counted_offsets(wanted))
    builder = MemoryRecordsBuilder(
        wanted.magic,
        COMPRESSIONS.index(wanted.compression),
        BATCH_SIZE,
        transactional=wanted.transactional,
        producer_id=wanted.producer_id,
        producer_epoch=wanted.producer_epoch,
        base_sequence=wanted.base_sequence,
    )
    _append_all(builder, wanted)
    builder.close()
    return bytes(builder.buffer())


def _append_all(builder: Any, wanted: Batch) -> None:
    for record in wanted.records:
        headers = [(header_text(header.key), header.value) for header in record.headers]
        if builder.append(record.timestamp, record.key, record.value, headers) is None:
            raise CodecError("limit", "append says that the batch is full")
