"""aiokafka, through the classes that its consumer and producer use; `aiokafka_client` has the two themselves.

Its Cython classes are the default; with `AIOKAFKA_NO_EXTENSIONS=1` in the
environment the pure Python ones run, which are a codec of their own (known
name `aiokafka-pure`).  Decoding calls `validate_crc` on each batch, as its
fetcher does by default.  `MemoryRecords` ends in front of a partial batch without
an error; that its consumer raises if there is nothing else is for the client to
show.  (The module is not called `aiokafka`, so that the two are not confused.)

A release before 0.8 has no wheel for this interpreter.  Its C code does not
compile for it either, and it installs without: then the pure Python classes run.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Literal

import aiokafka
from aiokafka import errors
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
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
    typed_records,
)
from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.protocol import LEAKED, Aborted, Capability, CodecAnswer, Refusal
from kafka_corpus.wire import WireBatch, WireRecord, from_wire
from kafka_records import Batch, Kind
from kafka_records.constants import COMPRESSIONS

PURE: Final = "_crecords" not in DefaultRecordBatch.__module__
NAME = "aiokafka-pure" if PURE else "aiokafka"
VERSION: str = aiokafka.__version__
DECODES = EVERY_FORMAT
# Before 0.8 it is known as kafka-python's, on which these releases depend.
_UNSUPPORTED: Final = "UnsupportedCodecError"
UnsupportedCodec: Final[type[Exception]] = getattr(
    errors if hasattr(errors, _UNSUPPORTED) else import_module("kafka.errors"), _UNSUPPORTED
)
# LegacyRecordBatchBuilder is left over: no producer of aiokafka calls it.
ENCODES = Capability([2], list(COMPRESSIONS))


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*."""
    batches: list[WireBatch] = []
    try:
        records = MemoryRecords(data)
        while records.has_next():
            batches.append(_batch(records.next_batch()))
    except Exception as error:
        raise CodecError(aiokafka_error_kind(error), exception_text(error), batches) from error
    return batches


def aiokafka_error_kind(error: Exception) -> Kind | Literal["other"]:
    """The kind of an exception that aiokafka documents; any other, as zlib.error or SystemError, is `other`."""
    if isinstance(error, UnsupportedCodec):
        return "unsupported_compression"
    if isinstance(error, CorruptRecordException):
        return "corrupt" if "CRC" in str(error) else "malformed"
    return LEAKED


def committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records that its fetcher delivers under read_committed."""
    fetched = PartitionRecords(
        TopicPartition("t", 0), MemoryRecords(data), list(aborted), 0, None, None, True, READ_COMMITTED
    )
    records: list[WireRecord] = []
    try:
        records.extend(map(exposed_record, fetched))
    except Exception as error:
        return CodecAnswer(records=records, error=Refusal(aiokafka_error_kind(error), exception_text(error)))
    return CodecAnswer(records=records, next_offset=fetched.next_fetch_offset)


def _batch(batch: Any) -> WireBatch:
    if not batch.validate_crc():
        raise CorruptRecordException("Invalid CRC")
    return _record_batch(batch) if isinstance(batch, DefaultRecordBatch) else _message(batch)


def _record_batch(batch: Any) -> WireBatch:
    timestamp_type, records = typed_records(batch, exposed_record)
    return WireBatch(
        magic=batch.magic,
        base_offset=batch.base_offset,
        last_offset=_before(batch.next_offset),
        compression=compression_name(batch.compression_type),
        timestamp_type=timestamp_type,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control_batch,
        records=records,
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


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer would send for *batch*."""
    wanted = from_wire(batch)
    check_expressible(
        wanted, "builder", (wanted.magic != 2, "an old message: its producer writes v2"), *counted_offsets(wanted)
    )
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=COMPRESSIONS.index(wanted.compression),
        is_transactional=int(wanted.transactional),
        producer_id=wanted.producer_id,
        producer_epoch=wanted.producer_epoch,
        base_sequence=wanted.base_sequence,
        batch_size=BATCH_SIZE,
    )
    try:
        _append_all(builder, wanted)
        return bytes(builder.build())
    except UnsupportedCodec as error:
        raise CodecError("unsupported_compression", exception_text(error)) from error


def _append_all(builder: Any, wanted: Batch) -> None:
    for record in wanted.records:
        headers = [(header_text(header.key), header.value) for header in record.headers]
        arguments = (record.offset, record.timestamp, record.key, record.value, headers)
        if builder.append(*arguments) is None:
            raise CodecError("limit", "append says that the batch is full")
