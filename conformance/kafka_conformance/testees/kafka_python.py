"""kafka-python, through the classes that its consumer and producer use; `kafka_python_client` has the two themselves.

Decoding is `MemoryRecords` with `validate_crc` on batches and records, as its
fetcher does by default (`check_crcs`).  `MemoryRecords` ends in front of a
partial batch without an error; that its consumer raises if there is nothing
else is for the client to show.  Encoding is `MemoryRecordsBuilder`,
which has no base offset, no leader epoch, no LogAppendTime and no control
batches to ask for, and counts offsets from 0: other batches are skipped.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import kafka
from kafka import errors
from kafka.consumer import fetcher
from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.structs import TopicPartition
from msgspec import UNSET

from kafka_conformance.testees.client_parts import (
    BATCH_SIZE,
    EVERY_FORMAT,
    check_expressible,
    compression_name,
    counted_offsets,
    exception_text,
    exposed_record,
    header_text,
    typed_records,
)
from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.protocol import LEAKED, Aborted, CodecAnswer, Refusal
from kafka_corpus.wire import WireBatch, WireRecord, from_wire
from kafka_records import Batch, Kind
from kafka_records.constants import COMPRESSIONS

NAME = "kafka-python"
VERSION: str = kafka.__version__
DECODES = ENCODES = EVERY_FORMAT

# Renamed in 2.2.
CorruptRecord: Final[type[Exception]] = getattr(errors, "CorruptRecordError", None) or errors.CorruptRecordException
PartitionRecords: Final[Any] = fetcher.Fetcher.PartitionRecords
# Before 2.1.1 the option `check_crcs` is there, and nothing reads it.
CHECKS_CRCS: Final = "validate_crc" in inspect.getsource(fetcher)
READ_COMMITTED: Final = 1
# Before 2.2 the builder of batches takes none of these.
_PRODUCER_FIELDS: Final = ("transactional", "producer_id", "producer_epoch", "base_sequence")
_TAKES_PRODUCER: Final = "producer_id" in inspect.signature(MemoryRecordsBuilder.__init__).parameters


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
    if isinstance(error, CorruptRecord):
        return "corrupt" if "crc" in str(error).lower() else "malformed"
    return LEAKED


class ListedAbort(NamedTuple):
    """An aborted transaction as its fetcher gets it: a tuple before 3.0, with these attributes since."""

    producer_id: int
    first_offset: int


def _committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records that its fetcher delivers under read_committed."""
    fetched = PartitionRecords(
        0,
        TopicPartition("t", 0),
        MemoryRecords(data),
        isolation_level=READ_COMMITTED,
        aborted_transactions=[ListedAbort(*each) for each in aborted],
    )
    records: list[WireRecord] = []
    try:
        while taken := fetched.take(1):
            records += map(exposed_record, taken)
    except Exception as error:
        return CodecAnswer(records=records, error=Refusal(record_error_kind(error), exception_text(error)))
    return CodecAnswer(records=records, next_offset=fetched.next_fetch_offset)


if "isolation_level" in inspect.signature(PartitionRecords.__init__).parameters:
    committed = _committed


def _batch(batch: Any) -> WireBatch:
    if CHECKS_CRCS and not batch.validate_crc():
        raise CorruptRecord(f"Record batch at offset {batch.base_offset} failed CRC check")
    # Before 2.2 the class of old messages has no `magic`.
    if getattr(batch, "magic", 0) < 2:
        return _message(batch)
    timestamp_type, records = typed_records(batch, _record)
    return WireBatch(
        magic=batch.magic,
        base_offset=batch.base_offset,
        last_offset=getattr(batch, "last_offset", UNSET),
        compression=compression_name(batch.compression_type),
        timestamp_type=timestamp_type,
        max_timestamp=batch.max_timestamp,
        producer_id=getattr(batch, "producer_id", UNSET),
        producer_epoch=getattr(batch, "producer_epoch", UNSET),
        base_sequence=getattr(batch, "base_sequence", UNSET),
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        partition_leader_epoch=getattr(batch, "leader_epoch", UNSET),
        records=records,
    )


def _message(batch: Any) -> WireBatch:
    # What LegacyRecordBatch calls base_offset is the offset in the entry's
    # header; for a wrapper that is the offset of its last inner message.
    compressed = batch.compression_type != 0
    offset = getattr(batch, "base_offset", UNSET)
    timestamp_type, records = typed_records(batch, _record)
    return WireBatch(
        magic=getattr(batch, "magic", UNSET),
        base_offset=UNSET if compressed else offset,
        last_offset=offset,
        compression=compression_name(batch.compression_type),
        timestamp_type=timestamp_type,
        records=records,
    )


def _record(record: Any) -> WireRecord:
    if CHECKS_CRCS and not record.validate_crc():
        raise CorruptRecord(f"Record at offset {record.offset} failed CRC check")
    return exposed_record(record)


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer would send for *batch*."""
    wanted = from_wire(batch)
    producer = {name: getattr(wanted, name) for name in _PRODUCER_FIELDS}
    unknown = not _TAKES_PRODUCER and producer != dict.fromkeys(_PRODUCER_FIELDS, -1) | {"transactional": False}
    check_expressible(wanted, "builder", (unknown, "a producer id"), *counted_offsets(wanted))
    fields = producer if _TAKES_PRODUCER else {}
    builder = MemoryRecordsBuilder(wanted.magic, COMPRESSIONS.index(wanted.compression), BATCH_SIZE, **fields)
    _append_all(builder, wanted)
    builder.close()
    return bytes(builder.buffer())


def _append_all(builder: Any, wanted: Batch) -> None:
    for record in wanted.records:
        headers = [(header_text(header.key), header.value) for header in record.headers]
        if builder.append(record.timestamp, record.key, record.value, headers) is None:
            raise CodecError("limit", "append says that the batch is full")
