"""Filtering of one batch: MemoryRecords#filterTo, and the bytes that replace a changed batch."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_records.attributes import timestamp_type_of
from kafka_records.broker.batches import header_of
from kafka_records.broker.entries import Entry, last_offset_of
from kafka_records.broker.errors import Thrown
from kafka_records.broker.message_sets import message_of
from kafka_records.broker.rewrite import java_utf8, largest
from kafka_records.compaction.entries import Read, delete_horizon
from kafka_records.compaction.model import Fate, Outcome
from kafka_records.compaction.releases import Cleaning
from kafka_records.compaction.retention import CleaningTask, discards, keeps_empty, reason_to_drop
from kafka_records.constants import MAGIC_VALUE_V2, NO_TIMESTAMP, TimestampType
from kafka_records.errors import RecordFormatError
from kafka_records.log import encode
from kafka_records.model import Batch, Header, Record


def filtered(entry: Entry, task: CleaningTask, *, can_discard: bool) -> tuple[bytes, Fate]:
    """The bytes that take the place of *entry*, perhaps none, and why.

    Raises:
        Thrown: the batch cannot be decoded, or not be rewritten (CLN-24).
    """
    all_go = discards(entry, task, can_discard=can_discard)
    stays = keeps_empty(entry, task)
    gone = ("CLN-11" if entry.is_control else "CLN-12") if all_go else ""
    if all_go and not stays:
        return b"", _fate(entry, "dropped", 0, 0, gone)  # BatchRetention#DELETE: records are not read
    reads = list(task.records(entry))
    reasons = [gone or reason_to_drop(entry, read, task) for read in reads]
    kept = [read for read, reason in zip(reads, reasons, strict=True) if not reason]
    dropped = len(reads) - len(kept)
    if kept:
        piece, outcome, rule = _with_records(entry, kept, task, whole=not dropped, empty_marker=can_discard)
        return piece, _fate(entry, outcome, len(kept), dropped, *reasons, rule)
    if stays:
        return emptied(entry), _fate(entry, "emptied", 0, dropped, *reasons, stays, "CLN-15")
    return b"", _fate(entry, "dropped", 0, dropped, *reasons, "CLN-17")


def _with_records(
    entry: Entry, kept: Sequence[Read], task: CleaningTask, *, whole: bool, empty_marker: bool
) -> tuple[bytes, Outcome, str]:
    """A batch that stays, at least in part: its bytes, how they came about, and the rule."""
    horizon = delete_horizon(entry)
    tombstones = any(read.record.value is None for read in kept)
    # CLN-08, CLN-09, CLN-11
    sets_horizon = (
        task.rules.delete_horizon
        and (entry.is_v2 or task.rules.converts)
        and (tombstones or (empty_marker and entry.is_control))
        and horizon is None
    )
    as_it_was = whole and (entry.is_v2 if task.rules.converts else all(read.fits for read in kept))
    if as_it_was and not sets_horizon:
        return entry.data, "copied", "CLN-01"
    if sets_horizon:
        horizon = task.now_ms + task.config.delete_retention_ms
    elif not task.rules.delete_horizon:
        horizon = None
    piece = retained(entry, [read.record for read in kept], horizon, task.rules)
    return piece, "rewritten", _rule(entry, kept, sets_horizon=sets_horizon)


def _rule(entry: Entry, kept: Sequence[Read], *, sets_horizon: bool) -> str:
    if sets_horizon:
        return "CLN-11" if entry.is_control else "CLN-08"
    if entry.is_v2:
        return "CLN-02"
    return "CLN-21" if all(read.fits for read in kept) else "CLN-22"


def _fate(entry: Entry, outcome: Outcome, kept: int, dropped: int, *rules: str) -> Fate:
    return Fate(
        last_offset=last_offset_of(entry),
        outcome=outcome,
        kept=kept,
        dropped=dropped,
        rules=tuple(sorted(set(filter(None, rules)))),
    )


def retained(entry: Entry, records: Sequence[Record], horizon: int | None, rules: Cleaning) -> bytes:
    """MemoryRecords#buildRetainedRecordsInto: *records*, with what their batch said of itself (CLN-02 to CLN-07).

    No limit of size is applied (SIZ-14).

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
    assert header.key is not None  # it was read
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
    """CLN-21; since 4.0 it becomes a batch (CLN-20)."""
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
    """CLN-15: DefaultRecordBatch#writeEmptyHeader; a header is all of it (HDR-19).

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
