"""Filtering of one batch: MemoryRecords#filterTo."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_records.broker.entries import Entry
from kafka_records.compaction.entries import Read, delete_horizon
from kafka_records.compaction.model import Fate, Outcome
from kafka_records.compaction.retention import CleaningTask, discards, keeps_empty, reason_to_drop
from kafka_records.compaction.rewrite import emptied, retained
from kafka_records.conversion.files import last_offset_of


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
