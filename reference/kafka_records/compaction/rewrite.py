"""Bytes that replace a changed batch: the records that are left, or an empty header."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_records.attributes import timestamp_type_of
from kafka_records.broker.batches import header_of
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.message_sets import message_of
from kafka_records.broker.rewrite import java_utf8, largest
from kafka_records.compaction.releases import Cleaning
from kafka_records.constants import MAGIC_VALUE_V2, NO_TIMESTAMP, TimestampType
from kafka_records.conversion.files import last_offset_of
from kafka_records.errors import RecordFormatError
from kafka_records.log import encode
from kafka_records.model import Batch, Header, Record


def retained(entry: Entry, records: Sequence[Record], horizon: int | None, rules: Cleaning) -> bytes:
    """MemoryRecords#buildRetainedRecordsInto: *records*, with what their batch said of itself (CLN-02 to CLN-07).

    Args:
        entry: where they come from.
        records: at least one.
        horizon: the delete horizon that the batch gets, if any (CLN-08).
        rules: the release.

    Raises:
        Thrown: Kafka's writer refuses them, out of order for one (OFF-07).
    """
    written = tuple(record._replace(headers=tuple(map(_written, record.headers))) for record in records)
    batch = _batch(entry, written, horizon, rules) if entry.is_v2 else _message_set(entry, written, horizon, rules)
    return _encoded(batch)


def _encoded(batch: Batch) -> bytes:
    try:
        return encode(batch)
    except RecordFormatError as error:
        raise Thrown("IllegalArgumentException", error.rule) from None


def _written(header: Header) -> Header:
    """REC-22, CLN-07: a key has been a string of Java's in between."""
    return Header(java_utf8(header.key), header.value)


def _batch(entry: Entry, records: tuple[Record, ...], horizon: int | None, rules: Cleaning) -> Batch:
    header = header_of(entry)
    append = entry.has_append_time
    return Batch(
        magic=MAGIC_VALUE_V2,
        # OFF-10: the last offset stays too, for it stands for the last sequence.
        base_offset=header.base_offset,
        last_offset=last_offset_of(entry),
        compression=entry.compression(rules.does),
        timestamp_type="append" if append else "create",
        max_timestamp=header.max_timestamp if append else largest([record.timestamp for record in records]),  # CLN-05
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=entry.is_transactional,
        control=entry.is_control,
        partition_leader_epoch=header.partition_leader_epoch,
        delete_horizon=horizon if horizon is not None and horizon >= 0 else None,
        records=records,
    )


def _message_set(entry: Entry, records: tuple[Record, ...], horizon: int | None, rules: Cleaning) -> Batch:
    """CLN-21; since 4.0 it becomes a batch."""
    message = message_of(entry)
    append = entry.has_append_time
    return Batch(
        magic=MAGIC_VALUE_V2 if rules.converts else entry.magic,
        base_offset=records[0].offset,
        last_offset=records[-1].offset,
        compression=entry.compression(rules.does),
        timestamp_type=_timestamp_type(entry, rules),
        max_timestamp=message.timestamp if append else largest([record.timestamp for record in records]),
        delete_horizon=horizon,
        records=records,
    )


def _timestamp_type(entry: Entry, rules: Cleaning) -> TimestampType:
    """v0 has none (LEG-17), which v2 writes as CreateTime."""
    found = timestamp_type_of(entry.attributes, entry.magic)
    return "create" if found == "none" and rules.converts else found


def emptied(entry: Entry) -> bytes:
    """CLN-15: DefaultRecordBatch#writeEmptyHeader.

    Raises:
        Thrown: v0 and v1 know no empty batches, and their partition cannot be cleaned.
    """
    if not entry.is_v2:
        raise Thrown("IllegalStateException", "CLN-21")
    header = header_of(entry)
    return _encoded(
        Batch(
            magic=MAGIC_VALUE_V2,
            base_offset=header.base_offset,
            last_offset=last_offset_of(entry),
            timestamp_type="append" if entry.has_append_time else "create",
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=entry.is_transactional,
            control=entry.is_control,
            partition_leader_epoch=header.partition_leader_epoch,
        )
    )
