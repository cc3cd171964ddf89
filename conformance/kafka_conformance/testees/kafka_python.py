"""kafka-python, through the classes that its consumer and producer use.

Decoding is `MemoryRecords` with `validate_crc` on batches and records, as its
fetcher does by default (`check_crcs`).  Encoding is `MemoryRecordsBuilder`,
which has no base offset, no leader epoch, no LogAppendTime and no control
batches to ask for: such batches are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final, Literal

import kafka
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.structs import TopicPartition
from msgspec import UNSET

from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.protocol import Aborted, Capability, CodecAnswer, Refusal
from kafka_corpus.wire import WireBatch, WireRecord, from_wire
from kafka_records import Batch

NAME = "kafka-python"
VERSION: str = kafka.__version__
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DECODES = Capability([0, 1, 2], list(COMPRESSIONS))
ENCODES = Capability([0, 1, 2], list(COMPRESSIONS))

TIMESTAMP_TYPES: Final[dict[int | None, str]] = {None: "none", 0: "create", 1: "append"}
# lz4.frame says so when there is no memory for what it inflates.
LZ4_OUT_OF_MEMORY: Final = "Failed to resize buffer"
# Room for anything that a case holds, so that `append` never says that the batch is full.
BATCH_SIZE: Final = 1 << 30


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*."""
    batches: list[WireBatch] = []
    try:
        records = MemoryRecords(data)
        while records.has_next():
            batches.append(_batch(records.next_batch()))
    except UnsupportedCodecError as error:
        raise CodecError("unsupported_compression", str(error), batches) from error
    except CorruptRecordError as error:
        raise CodecError("corrupt" if "CRC" in str(error) else "malformed", _error_text(error), batches) from error
    except MemoryError:
        raise
    except Exception as leak:
        if str(leak) == LZ4_OUT_OF_MEMORY:
            raise MemoryError(LZ4_OUT_OF_MEMORY) from leak
        raise CodecError(_leak_kind(leak), _error_text(leak), batches) from leak
    return batches


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
            records += map(_consumed, taken)
    except Exception as error:
        return CodecAnswer(records=records, error=Refusal("malformed", _error_text(error)))
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
        compression=_compression(batch.compression_type),
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
        compression=_compression(batch.compression_type),
        timestamp_type=TIMESTAMP_TYPES[batch.timestamp_type],
        records=list(map(_record, batch)),
    )


def _compression(number: int) -> str:
    return COMPRESSIONS[number] if number < len(COMPRESSIONS) else f"{number}"


def _record(record: Any) -> WireRecord:
    if not record.validate_crc():
        raise CorruptRecordError(f"Record at offset {record.offset} failed CRC check")
    return WireRecord(
        offset=record.offset,
        timestamp=UNSET if record.timestamp is None else record.timestamp,
        key=record.key,
        value=record.value,
        # Its header keys are text already: the original bytes are lost.
        headers=[(key.encode(), value) for key, value in record.headers],
    )


def _consumed(record: Any) -> WireRecord:
    headers = [(key.encode(), value) for key, value in record.headers]
    return WireRecord(record.offset, record.timestamp, record.key, record.value, headers)


def _leak_kind(leak: Exception) -> Literal["decompression", "other"]:
    # What a compression library raises goes through as it is.  All else, as struct.error
    # and IndexError, is an accident: its documented exception is CorruptRecordError.
    module = type(leak).__module__
    ours = module.startswith(("zlib", "gzip", "snappy", "cramjam", "backports.zstd", "zstandard"))
    lz4 = type(leak) is RuntimeError and str(leak).startswith(("LZ4F_", "Frame incomplete"))
    return "decompression" if ours or lz4 or isinstance(leak, EOFError) else "other"


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer would send for *batch*."""
    wanted = from_wire(batch)
    _check_expressible(wanted)
    builder = MemoryRecordsBuilder(
        wanted.magic,
        COMPRESSIONS.index(wanted.compression),
        BATCH_SIZE,
        offset=wanted.records[0].offset if wanted.records else 0,
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
        builder.skip(record.offset - builder.next_offset())
        headers = [(_header_text(header.key), header.value) for header in record.headers]
        if builder.append(record.timestamp, record.key, record.value, headers) is None:
            raise CodecError("limit", "append says that the batch is full")


def _header_text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise NotDone("header keys are text in its API; these bytes are not UTF-8") from None


def _check_expressible(wanted: Batch) -> None:
    new = wanted.magic == 2
    for unusual, what in (
        ((new or wanted.compression != "none") and wanted.base_offset != 0, "a base offset other than 0"),
        (new and wanted.records and wanted.last_offset != wanted.records[-1].offset, "an offset after the last record"),
        (wanted.partition_leader_epoch != -1, "a partition leader epoch"),
        (wanted.timestamp_type == "append", "LogAppendTime"),
        (wanted.timestamp_type == "none" and wanted.magic > 0, "records without timestamps"),
        (wanted.control, "a control batch"),
        (wanted.delete_horizon is not None, "a delete horizon"),
        (not wanted.records, "a batch without records"),
    ):
        if unusual:
            raise NotDone(f"its builder cannot be asked for {what}")
