"""aiokafka, through the classes that its consumer and producer use.

Its Cython classes are the default; with `AIOKAFKA_NO_EXTENSIONS=1` in the
environment the pure Python ones run, which are a codec of their own (known
name `aiokafka-pure`).  Decoding calls `validate_crc` on each batch, as its
fetcher does by default.  (The module is not called `aiokafka`, so that it is not
confuses the two.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import aiokafka
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from aiokafka.util import NO_EXTENSIONS
from msgspec import UNSET

from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.protocol import Aborted, Capability, CodecAnswer, Refusal
from kafka_corpus.wire import WireBatch, WireRecord, from_wire
from kafka_records import Batch

NAME = "aiokafka-pure" if NO_EXTENSIONS else "aiokafka"
VERSION: str = aiokafka.__version__
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DECODES = Capability([0, 1, 2], list(COMPRESSIONS))
ENCODES = Capability([0, 1, 2], list(COMPRESSIONS))

TIMESTAMP_TYPES: Final[dict[int | None, str]] = {None: "none", 0: "create", 1: "append"}
BATCH_SIZE: Final = 1 << 30


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*."""
    batches: list[WireBatch] = []
    try:
        records = MemoryRecords(data)
        while records.has_next():
            batches.append(_batch(records.next_batch()))
    except UnsupportedCodecError as error:
        raise CodecError("unsupported_compression", _error_text(error), batches) from error
    except CorruptRecordException as error:
        raise CodecError("corrupt" if "CRC" in str(error) else "malformed", _error_text(error), batches) from error
    except MemoryError:
        raise
    except Exception as leak:
        raise CodecError(_leak_kind(leak), _error_text(leak), batches) from leak
    return batches


def committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records that its fetcher delivers under read_committed."""
    fetched = PartitionRecords(
        TopicPartition("t", 0), MemoryRecords(data), list(aborted), 0, None, None, True, READ_COMMITTED
    )
    records: list[WireRecord] = []
    try:
        records.extend(map(_consumed, fetched))
    except Exception as error:
        return CodecAnswer(records=records, error=Refusal("malformed", _error_text(error)))
    return CodecAnswer(records=records, next_offset=fetched.next_fetch_offset)


def _batch(batch: Any) -> WireBatch:
    if not batch.validate_crc():
        raise CorruptRecordException("Invalid CRC")
    return _record_batch(batch) if isinstance(batch, DefaultRecordBatch) else _message(batch)


def _record_batch(batch: Any) -> WireBatch:
    return WireBatch(
        magic=batch.magic,
        base_offset=batch.base_offset,
        last_offset=_before(batch.next_offset),
        compression=_compression(batch.compression_type),
        timestamp_type=TIMESTAMP_TYPES[batch.timestamp_type],
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        records=list(map(_record, batch)),
    )


def _message(batch: Any) -> WireBatch:
    # LegacyRecordBatch exposes neither its magic nor its codec nor its base offset.
    records = list(batch)
    return WireBatch(
        last_offset=_before(batch.next_offset),
        timestamp_type=_timestamp_type(records),
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        records=list(map(_record, records)),
    )


def _timestamp_type(records: list[Any]) -> Any:
    # Each record has its own; without a timestamp the Cython classes have none.
    types = [record.timestamp_type for record in records if record.timestamp is not None]
    return TIMESTAMP_TYPES[types[0]] if types else UNSET


def _before(offset: int) -> int:
    # Past the largest offset its Cython classes wrap, as int64 does; so must our step back.
    return (offset - 1 + (1 << 63)) % (1 << 64) - (1 << 63)


def _compression(number: int) -> str:
    return COMPRESSIONS[number] if number < len(COMPRESSIONS) else f"{number}"


def _record(record: Any) -> WireRecord:
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
    # and SystemError, is an accident: its documented exception is CorruptRecordException.
    module = type(leak).__module__
    ours = module.startswith(("zlib", "gzip", "cramjam")) or isinstance(leak, EOFError)
    return "decompression" if ours else "other"


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer would send for *batch*."""
    wanted = from_wire(batch)
    _check_expressible(wanted)
    codec = COMPRESSIONS.index(wanted.compression)
    builder: Any
    if wanted.magic == 2:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=int(wanted.transactional),
            producer_id=wanted.producer_id,
            producer_epoch=wanted.producer_epoch,
            base_sequence=wanted.base_sequence,
            batch_size=BATCH_SIZE,
        )
    else:
        builder = LegacyRecordBatchBuilder(wanted.magic, codec, BATCH_SIZE)
    try:
        _append_all(builder, wanted)
        return bytes(builder.build())
    except UnsupportedCodecError as error:
        raise CodecError("unsupported_compression", _error_text(error)) from error


def _append_all(builder: Any, wanted: Batch) -> None:
    for record in wanted.records:
        headers = [(_header_text(header.key), header.value) for header in record.headers]
        arguments = (record.offset, record.timestamp, record.key, record.value, headers)
        if builder.append(*arguments) is None:
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
        (not new and (wanted.transactional or wanted.producer_id != -1), "a producer's state in an old message"),
        (wanted.partition_leader_epoch != -1, "a partition leader epoch"),
        (wanted.timestamp_type == "append", "LogAppendTime"),
        (wanted.timestamp_type == "none" and wanted.magic > 0, "records without timestamps"),
        (wanted.control, "a control batch"),
        (wanted.delete_horizon is not None, "a delete horizon"),
        (not wanted.records, "a batch without records"),
    ):
        if unusual:
            raise NotDone(f"its builder cannot be asked for {what}")
