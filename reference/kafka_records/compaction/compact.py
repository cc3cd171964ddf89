"""A round of the log cleaner: Cleaner#doClean.

It goes over the log twice.  The first time it notes the last offset of every
key in what is dirty; the second time it writes what those offsets leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafka_records.broker.entries import Entry, entries, last_offset_of
from kafka_records.broker.errors import Thrown
from kafka_records.compaction.entries import records_in
from kafka_records.compaction.filter import filtered
from kafka_records.compaction.model import CleanerConfig, CompactResult, Fate, Round
from kafka_records.compaction.producers import Transactions, producers_of
from kafka_records.compaction.releases import Cleaning, cleaning
from kafka_records.compaction.retention import CleaningTask
from kafka_records.constants import RECORD_BATCH_OVERHEAD
from kafka_records.errors import RecordFormatError
from kafka_records.primitives import wrap_int64
from kafka_records.transactions import AbortedTransaction, abort_index

FIRST: Final = Round()


def compact(data: bytes, config: CleanerConfig, given: Round = FIRST, *, release: str, now_ms: int) -> CompactResult:
    """A log after the cleaner of *release* has been over it once.

    The offset map is taken to be large enough for all keys.  Before 2.3 the state of
    transactions started over with each segment (KAFKA-8351); here they do not.

    Args:
        data: all of the log, the active segment too; what is not cleaned comes back as it was.
        config: the topic's settings.
        given: what the cleaner knows beside the bytes.
        release: like "4.4.0"; from 0.11 on.
        now_ms: when the round begins.

    Raises:
        RecordFormatError: the release is not described.
    """
    rules = cleaning(release)
    data = bytes(data)
    try:
        return _cleaned(data, config, given, rules, now_ms)
    except Thrown as thrown:
        # CLN-24: LogCleaner#tryCleanFilthiestLog
        dirty = given.first_dirty_offset
        return CompactResult(data=data, next_dirty_offset=dirty, error=thrown.name, rule=thrown.rule)


def _cleaned(data: bytes, config: CleanerConfig, given: Round, rules: Cleaning, now_ms: int) -> CompactResult:
    log = [_whole(entry) for entry in entries(data, rules.does)]
    end = _end(log, given)
    cleanable = [entry for entry in log if last_offset_of(entry) < end]
    aborted = _aborted(data) if given.aborted is None else given.aborted
    task = CleaningTask(
        config=config,
        given=given,
        now_ms=now_ms,
        rules=rules,
        producers=producers_of(log) if given.producers is None else given.producers,
        end=end,
        keeps_end=_keeps_end(log, end, given, rules),
        last_offsets=_offset_map(cleanable, aborted, config, given, rules),
    )
    transactions = Transactions(aborted, rules)
    done = [filtered(entry, task, can_discard=transactions.can_discard(entry)) for entry in cleanable]
    tail = data[sum(len(entry.data) for entry in cleanable) :]
    fates = (*(fate for _, fate in done), *map(_untouched, log[len(cleanable) :]))
    return CompactResult(data=b"".join(piece for piece, _ in done) + tail, next_dirty_offset=end, fates=fates)


def _aborted(data: bytes) -> Sequence[AbortedTransaction]:
    """The index of the bytes; the remains of a transaction decide as all of it would."""
    try:
        return abort_index(data).entries
    except RecordFormatError as error:
        raise Thrown("InvalidRecordException", error.rule) from None


def _whole(entry: Entry) -> Entry:
    """HDR-05: a header that is too short is not read."""
    if entry.is_v2 and len(entry.data) < RECORD_BATCH_OVERHEAD:
        raise Thrown("IndexOutOfBoundsException", "HDR-05")
    return entry


def _end(log: Sequence[Entry], given: Round) -> int:
    """CLN-25: where cleaning stops."""
    if given.first_uncleanable_offset is not None:
        return given.first_uncleanable_offset
    return _log_end(log, given)


def _log_end(log: Sequence[Entry], given: Round) -> int:
    return wrap_int64(last_offset_of(log[-1]) + 1) if log else given.first_dirty_offset


def _keeps_end(log: Sequence[Entry], end: int, given: Round, rules: Cleaning) -> int | None:
    """CLN-16: the batch after which no offset may be missing."""
    if rules.keeps_last == "nothing":
        return None
    if rules.keeps_last == "round":
        return end
    return _log_end(log, given) if given.high_watermark is None else given.high_watermark


def _untouched(entry: Entry) -> Fate:
    return Fate(last_offset=last_offset_of(entry), outcome="not cleaned", rules=("CLN-25",))


def _offset_map(
    cleanable: Iterable[Entry],
    aborted: Sequence[AbortedTransaction],
    config: CleanerConfig,
    given: Round,
    rules: Cleaning,
) -> Mapping[bytes, int]:
    """Cleaner#buildOffsetMap: where each key stands last, in the order of the log, aborted data aside (CLN-12)."""
    start = given.first_dirty_offset
    transactions = Transactions([each for each in aborted if each.last_offset >= start], rules)
    found: dict[bytes, int] = {}
    for entry in cleanable:
        if last_offset_of(entry) < start or transactions.can_discard(entry) or entry.is_control:
            continue
        for record, _ in records_in(entry, rules.does, config.largest_body(rules.does)):
            if record.key is not None and record.offset >= start:
                found[record.key] = record.offset
    return found
