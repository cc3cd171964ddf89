"""Recovery of a segment file when a broker starts after a crash: LogSegment#recover.

Only headers and checksums are looked at, and the first batch that is not right
ends the log, whatever follows it (SEG-07).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_records.broker.entries import Entry, file_entries, last_offset_of
from kafka_records.broker.errors import JavaName, Thrown
from kafka_records.broker.releases import Behaviour, behaviour
from kafka_records.compaction.entries import records_in
from kafka_records.constants import INT32_MAX
from kafka_records.control import TRANSACTION_MARKERS, decode_key, decode_value
from kafka_records.errors import RecordFormatError
from kafka_records.model import Record
from kafka_records.primitives import wrap_int64

# What recovery takes for a batch that is not valid, although the state of producers comes after that check.
CAUGHT: Final[tuple[JavaName, ...]] = ("CorruptRecordException", "InvalidRecordException")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverResult:
    """A segment after recovery.

    Attributes:
        data: what is left of it.
        next_offset: where the log goes on, if this is its last segment (SEG-11).
        rule: the rule that ended it; empty if all of it was kept.  Later segments are then deleted.
        splits: whether it is cut into several, because its end is too far from its base offset (SEG-12).
        error: the Java exception that keeps the broker from starting, if there is one (SEG-12, SEG-13).
    """

    data: bytes
    next_offset: int
    rule: str = ""
    splits: bool = False
    error: JavaName | None = None


def recover(segment: bytes, *, release: str, base_offset: int = 0) -> RecoverResult:
    """The part of *segment*, a file that is named after *base_offset*, that stays after `kill -9`.

    Raises:
        RecordFormatError: the release is not described.
    """
    does = behaviour(release)
    segment = bytes(segment)
    at, next_offset = 0, base_offset
    try:
        for entry in file_entries(segment):
            # CRC-14, SEG-09, SEG-10: nothing but size and CRC, so not what the CRC leaves out, nor codec and records.
            if not entry.is_valid:
                raise Thrown("CorruptRecordException", "SEG-07")
            offset = last_offset_of(entry)
            if not _is_in_range(offset, base_offset):
                return _overflowing(segment, base_offset)
            at, next_offset = at + len(entry.data), wrap_int64(offset + 1)
            if error := _marker_error(entry, does):
                left = segment[:at] if error in CAUGHT else segment
                return RecoverResult(data=left, next_offset=next_offset, rule="SEG-13", error=error)
    except Thrown as thrown:
        return RecoverResult(data=segment[:at], next_offset=next_offset, rule=thrown.rule)
    return RecoverResult(data=segment[:at], next_offset=next_offset, rule="SEG-08" if at < len(segment) else "")


def _is_in_range(offset: int, base_offset: int) -> bool:
    """LogSegment#canConvertToRelativeOffset."""
    return 0 <= offset - base_offset <= INT32_MAX


def _overflowing(segment: bytes, base_offset: int) -> RecoverResult:
    """SEG-12: LocalLog#splitOverflowedSegment, which refuses unless the segment's last batch is too far away."""
    *_, last = file_entries(segment)
    offset = last_offset_of(last)
    splits = offset >= base_offset and not _is_in_range(offset, base_offset)
    return RecoverResult(
        data=segment,
        next_offset=wrap_int64(offset + 1),
        rule="SEG-12",
        splits=splits,
        error=None if splits else "IllegalArgumentException",
    )


def _marker_error(entry: Entry, does: Behaviour) -> JavaName | None:
    """SEG-13: what reading the marker throws when the state of producers is rebuilt (SEG-14)."""
    if not (entry.has_producer_id and entry.is_control):
        return None
    try:
        # One that is empty has been cleaned (TXN-18); of others the first record counts (TXN-17).
        for record, _ in list(records_in(entry, does, None))[:1]:
            _check_marker(record)
    except Thrown as thrown:
        return thrown.name
    except RecordFormatError as error:
        return "NullPointerException" if error.rule in ("TXN-19", "KRF-11") else "InvalidRecordException"
    return None


def _check_marker(record: Record) -> None:
    """EndTransactionMarker#deserialize."""
    _, type_ = decode_key(record.key)
    if type_ not in TRANSACTION_MARKERS:
        raise Thrown("IllegalArgumentException", "TXN-20")
    decode_value(str(type_), record.value)
