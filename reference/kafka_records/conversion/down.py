"""Stored batches as older ones: RecordsUtil#downConvert.

A batch that is old enough is copied, every other is read and rewritten
(CNV-18).  Nothing checks a CRC on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafka_records.broker.batches import header_of, records_of
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.message_sets import message_of, messages_of
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.views import View
from kafka_records.constants import MAGIC_VALUE_V0, MAGIC_VALUE_V2, NO_TIMESTAMP, TimestampType
from kafka_records.errors import RecordFormatError
from kafka_records.log import encode
from kafka_records.model import Batch, Record

# A batch, and the records that are left of it; None where the batch is copied.
Chosen = tuple[Entry, tuple[Record, ...] | None]


def down_convert(batches: Iterable[Entry], to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """*batches* in the format *to_magic*, 0 or 1; empty if nothing is left of them.

    Raises:
        Thrown: a batch cannot be converted, or not be read.
    """
    return write(choose(batches, to_magic, first_offset, does), to_magic, does)


def choose(batches: Iterable[Entry], to_magic: int, first_offset: int, does: Behaviour) -> tuple[Chosen, ...]:
    """The converted *batches*.  All are read before any is written, so an error in the last leaves nothing at all.

    Raises:
        Thrown: a batch cannot be converted, or not be read.
    """
    return tuple(_chosen(batches, to_magic, first_offset, does))


def write(chosen: Iterable[Chosen], to_magic: int, does: Behaviour) -> bytes:
    """The bytes of the chosen records.  Raises `Thrown` if they cannot be written."""
    return b"".join(
        batch.data if records is None else _written(batch, records, to_magic, does) for batch, records in chosen
    )


def _chosen(batches: Iterable[Entry], to_magic: int, first_offset: int, does: Behaviour) -> Iterator[Chosen]:
    for batch in batches:
        if batch.is_control:
            continue  # CNV-08
        if batch.compression(does) == "zstd":
            raise Thrown("UnsupportedCompressionTypeException", "CNV-14")
        if batch.magic <= to_magic:
            yield batch, None  # CNV-18
        elif records := _records(batch, first_offset, does):
            yield batch, records


def _records(batch: Entry, first_offset: int, does: Behaviour) -> tuple[Record, ...]:
    """CNV-10: "some versions of librdkafka rely on" records below the fetch offset being gone."""
    whole = batch.compression(does) != "none"
    return tuple(view.contents() for view in views_of(batch, does) if whole or view.offset >= first_offset)


def views_of(batch: Entry, does: Behaviour) -> Iterable[View]:
    """The records of a stored batch, whatever its magic (DefaultRecordBatch#iterator)."""
    if not batch.is_v2:
        return messages_of(batch, does)
    count = batch.number("record_count")
    if count < 0:
        raise Thrown("InvalidRecordException", "HDR-15")
    if count == 0:
        return ()  # HDR-16
    return records_of(batch, does, None, outline=False)


def _written(batch: Entry, records: Sequence[Record], to_magic: int, does: Behaviour) -> bytes:
    """#convertRecordBatch: no headers, no producer, no transaction (CNV-08), and in v0 no times (CNV-09)."""
    if any(record.headers for record in records) and not does.drops_headers:
        raise Thrown("IllegalArgumentException", "LEG-22")
    appended = batch.has_append_time
    converted = Batch(
        magic=to_magic,
        base_offset=records[0].offset,  # CNV-11
        last_offset=records[-1].offset,
        compression=batch.compression(does),
        timestamp_type=_timestamp_type(to_magic, appended=appended),
        max_timestamp=_timestamp(batch) if appended else max(NO_TIMESTAMP, *(each.timestamp for each in records)),
        records=tuple(record._replace(headers=()) for record in records),
    )
    try:
        return encode(converted)
    except RecordFormatError as error:
        # OFF-07, TIM-04: MemoryRecordsBuilder refuses what an append has never looked at.
        raise Thrown("IllegalArgumentException", error.rule) from None


def _timestamp_type(to_magic: int, *, appended: bool) -> TimestampType:
    if to_magic == MAGIC_VALUE_V0:
        return "none"
    return "append" if appended else "create"


def _timestamp(batch: Entry) -> int:
    """The one timestamp of a batch with LogAppendTime (TIM-02, NST-20)."""
    return header_of(batch).max_timestamp if batch.magic >= MAGIC_VALUE_V2 else message_of(batch).timestamp
