"""aiokafka, through the classes that its consumer and producer use.

Its Cython classes are the default; with `AIOKAFKA_NO_EXTENSIONS=1` in the
environment the pure Python ones run, which are a codec of their own (known
name `aiokafka-pure`).  Decoding calls `validate_crc` on each batch, as its
fetcher does by default.  (The module is not called `aiokafka`, so that it is not
confuses the two.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import aiokafka
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from aiokafka.util import NO_EXTENSIONS
from msgspec import UNSET

from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.protocol import Aborted, CodecAnswer, Refusal
from kafka_conformance.testees.python_client import (
    BATCH_SIZE,
    EVERY_FORMAT,
    TIMESTAMP_TYPES,
    builder_limits,
    check_expressible,
    compression_name,
    delivered_record,
    exception_text,
    exposed_record,
    header_text,
)
from kafka_corpus.wire import WireBatch, WireRecord, from_wire
from kafka_records import Batch
from kafka_records.constants import COMPRESSIONS

NAME = "aiokafka-pure" if NO_EXTENSIONS else "aiokafka"
VERSION: str = aiokafka.__version__
DECODES = ENCODES = EVERY_FORMAT


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*."""
    batches: list[WireBatch] = []
    try:
        records = MemoryRecords(data)
        while records.has_next():
            batches.append(_batch(records.next_batch()))
    except UnsupportedCodecError as error:
        raise CodecError("unsupported_compression", exception_text(error), batches) from error
    except CorruptRecordException as error:
        raise CodecError("corrupt" if "CRC" in str(error) else "malformed", exception_text(error), batches) from error
    except MemoryError:
        raise
    except Exception as leak:
        raise CodecError(_leak_kind(leak), exception_text(leak), batches) from leak
    return batches


def committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records that its fetcher delivers under read_committed."""
    fetched = PartitionRecords(
        TopicPartition("t", 0), MemoryRecords(data), list(aborted), 0, None, None, True, READ_COMMITTED
    )
    records: list[WireRecord] = []
    try:
        records.extend(map(delivered_record, fetched))
    except Exception as error:
        return CodecAnswer(records=records, error=Refusal("malformed", exception_text(error)))
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
        compression=compression_name(batch.compression_type),
        timestamp_type=TIMESTAMP_TYPES[batch.timestamp_type],
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        records=list(map(exposed_record, batch)),
    )


def _message(batch: Any) -> WireBatch:
    # LegacyRecordBatch exposes neither its magic nor its codec nor its base offset.
    records = list(batch)
    return WireBatch(
        last_offset=_before(batch.next_offset),
        timestamp_type=_timestamp_type(records),
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        records=list(map(exposed_record, records)),
    )


def _timestamp_type(records: list[Any]) -> Any:
    # Each record has its own; without a timestamp the Cython classes have none.
    types = [record.timestamp_type for record in records if record.timestamp is not None]
    return TIMESTAMP_TYPES[types[0]] if types else UNSET


def _before(offset: int) -> int:
    # Past the largest offset its Cython classes wrap, as int64 does; so must our step back.
    return (offset - 1 + (1 << 63)) % (1 << 64) - (1 << 63)


def _leak_kind(leak: Exception) -> Literal["decompression", "other"]:
    # What a compression library raises goes through as it is.  All else, as struct.error
    # and SystemError, is an accident: its documented exception is CorruptRecordException.
    module = type(leak).__module__
    ours = module.startswith(("zlib", "gzip", "cramjam")) or isinstance(leak, EOFError)
    return "decompression" if ours else "other"


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer would send for *batch*."""
    wanted = from_wire(batch)
    old_state = wanted.magic < 2 and (wanted.transactional or wanted.producer_id != -1)
    limits = (*builder_limits(wanted), (old_state, "a producer's state in an old message"))
    check_expressible(wanted, "builder", *limits)
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
        raise CodecError("unsupported_compression", exception_text(error)) from error


def _append_all(builder: Any, wanted: Batch) -> None:
    for record in wanted.records:
        headers = [(header_text(header.key), header.value) for header in record.headers]
        arguments = (record.offset, record.timestamp, record.key, record.value, headers)
        if builder.append(*arguments) is None:
            raise CodecError("limit", "append says that the batch is full")
