"""Retention in a round of cleaning: batches before they are read, and records one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_records.broker.entries import Entry, last_offset_of
from kafka_records.broker.state import ProducerState
from kafka_records.compaction.entries import Read, delete_horizon, records_in
from kafka_records.compaction.model import CleanerConfig, Round, Segment
from kafka_records.compaction.producers import is_last_of_producer
from kafka_records.compaction.releases import Cleaning
from kafka_records.primitives import wrap_int64

# The offset of a key that the offset map does not have.
NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTask:
    """A round of cleaning that is running.

    Attributes:
        now_ms: when it began.
        producers: the active ones.
        end: the first offset that is not cleaned.
        keeps_end: the offset after the batch that stays for being the last; None if there is none.
        last_offsets: of each key that is dirty; the offset map.
    """

    config: CleanerConfig
    given: Round
    now_ms: int
    rules: Cleaning
    producers: Mapping[int, ProducerState]
    end: int
    keeps_end: int | None
    last_offsets: Mapping[bytes, int]

    def records(self, entry: Entry) -> Iterator[Read]:
        """The records of *entry*, as far as they can be decoded."""
        return records_in(entry, self.rules.does, self.config.largest_body(self.rules.does))


def discards(entry: Entry, task: CleaningTask, *, can_discard: bool) -> bool:
    """Cleaner's `discardBatchRecords`: whether all records go.

    Args:
        entry: aborted data goes at once (CLN-12), a marker in its time (CLN-11).
        task: the round.
        can_discard: what the state of transactions says.
    """
    if not (can_discard and entry.is_control):
        return can_discard
    if not task.rules.delete_horizon:
        return not keeps_deletes(entry, task)
    horizon = delete_horizon(entry)
    return horizon is not None and horizon <= task.now_ms


def keeps_empty(entry: Entry, task: CleaningTask) -> str:
    """The rule by which a batch stays even without records; empty if there is none."""
    if is_last_of_producer(entry, task.producers, task.rules):
        return "CLN-14"
    return "CLN-16" if wrap_int64(last_offset_of(entry) + 1) == task.keeps_end else ""


def reason_to_drop(entry: Entry, read: Read, task: CleaningTask) -> str:
    """Cleaner#shouldRetainRecord: the rule by which a record goes; empty if it stays."""
    record = read.record
    if record.offset >= task.end or (entry.is_control and task.rules.spares_markers):
        return ""  # CLN-23, CLN-25
    if record.key is None:
        return "CLN-19"
    if record.offset < task.last_offsets.get(record.key, NOWHERE):
        return "CLN-18"
    if record.value is None and not _keeps_tombstones(entry, task):
        return "CLN-10" if entry.is_v2 else "CLN-21"
    return ""


def _keeps_tombstones(entry: Entry, task: CleaningTask) -> bool:
    """CLN-10; without delete horizons, in v0 and v1 and before 3.1, it goes by the segment's time."""
    if not entry.is_v2 or not task.rules.delete_horizon:
        return keeps_deletes(entry, task)
    horizon = delete_horizon(entry)
    return horizon is None or task.now_ms < horizon


def keeps_deletes(entry: Entry, task: CleaningTask) -> bool:
    """CLN-21: whether the segment of *entry* is younger than the last clean one was delete.retention.ms ago."""
    segments = task.given.segments or (Segment(0, task.now_ms),)
    clean = [each for each in segments if each.base_offset < task.given.first_dirty_offset]
    # Cleaner#clean: nothing is clean yet, so nothing goes.
    horizon = clean[-1].last_modified_ms - task.config.delete_retention_ms if clean else 0
    here = [each for each in segments if each.base_offset <= last_offset_of(entry)]
    return (here or segments)[-1].last_modified_ms > horizon
