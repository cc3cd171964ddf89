"""LogValidator: the three ways that a partition's batches take, and the bytes that come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafka_records.broker.batches import records_of
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.message_sets import messages_of
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.rewrite import kept, largest, rebuilt
from kafka_records.broker.state import Path
from kafka_records.broker.validation import RecordErrors, Task, check_batch, check_record, check_set
from kafka_records.broker.views import View
from kafka_records.constants import MAGIC_VALUE_V0, MAGIC_VALUE_V2, NO_TIMESTAMP
from kafka_records.model import Record


class Validated(NamedTuple):
    """The bytes to store, how many records they hold and how they came about."""

    data: bytes
    records: int
    path: Path


def validate(batches: Sequence[Entry], task: Task) -> Validated:
    """#validateMessagesAndAssignOffsets.

    Raises:
        Thrown: the broker refuses.
    """
    if task.source == "none" and task.target == "none":
        if all(batch.magic == task.magic for batch in batches):
            return _assign_offsets(batches, task)
        return _convert(batches, task)
    return _validate_compressed(batches, task)


def _views(batch: Entry, task: Task, *, outline: bool = False) -> Iterable[View]:
    """The records of a batch, each read on demand."""
    if batch.is_v2:
        return records_of(batch, task.does, task.largest_body, outline=outline, room=task.room)
    return messages_of(batch, task.does, task.room)


def _assign_offsets(batches: Sequence[Entry], task: Task) -> Validated:
    """#assignOffsetsNonCompressed: everything stays in place; offset deltas are not looked at (OFF-04).

    Offsets grow from batch to batch and record to record (OFF-14).  What a header says of its maximum is not
    looked at either (TIM-08), and on a LogAppendTime topic the broker's time takes its place (TIM-12).
    """
    check_set(batches, "none", task.does)
    next_offset = task.offset
    stored = []
    for batch in batches:
        check_batch(batches[0], batch, task)
        timestamps = _check_records(batch, task)
        next_offset += len(timestamps)
        maximum = task.now if task.appends_time else largest(timestamps)
        stored.append(kept(batch, next_offset - 1, maximum, task))
    return Validated(b"".join(stored), next_offset - task.offset, "in place")


def _check_records(batch: Entry, task: Task) -> list[int]:
    """The timestamps of all records, if there is nothing wrong with any; one below -1 is nothing wrong (TIM-05)."""
    errors = RecordErrors(task.does)
    timestamps = []
    for index, record in enumerate(_views(batch, task)):
        check_record(batch, index, record, task, errors)
        timestamps.append(record.timestamp)
    errors.process()
    return timestamps


def _convert(batches: Sequence[Entry], task: Task) -> Validated:
    """#convertAndAssignOffsetsNonCompressed: all messages become one batch (CNV-02)."""
    # The size is estimated first, which reads everything.
    for batch in batches:
        for record in _views(batch, task):
            record.contents()
    if task.magic < MAGIC_VALUE_V2 and batches[0].is_transactional:
        # MemoryRecordsBuilder is made before the batches are looked at, and refuses in its own words.
        raise Thrown("IllegalArgumentException", "TXN-07")
    check_set(batches, "none", task.does)
    records: list[Record] = []
    for batch in batches:
        check_batch(batches[0], batch, task)
        errors = RecordErrors(task.does)
        for index, record in enumerate(_views(batch, task)):
            check_record(batch, index, record, task, errors)
            if not errors:
                records.append(_writable(record))
        errors.process()
    return Validated(rebuilt(batches[0], records, task), len(records), "converted")


def _writable(record: View) -> Record:
    """MemoryRecordsBuilder#appendWithOffset refuses at once, before the next record is looked at (CNV-19)."""
    if record.timestamp < -1:
        raise Thrown("IllegalArgumentException", "CNV-19")
    return record.contents()


def _validate_compressed(batches: Sequence[Entry], task: Task) -> Validated:
    """#validateMessagesAndAssignOffsetsCompressed."""
    check_set(batches, task.source, task.does)
    first = batches[0]
    converts = any(batch.magic != task.magic for batch in batches)
    in_place = task.source == task.target and not converts and task.magic > MAGIC_VALUE_V0
    # Before 2.4 there are no outlines, so that records out of order can still be written.
    # RWR-08, REC-06: an outline has no length that would have to be right.
    checked = _Checked(keeps=not (in_place and first.is_v2 and task.does.skips_by != "nothing"))
    for batch in batches:
        check_batch(first, batch, task)
        _check_compressed(batch, task, checked)
    if in_place and checked.ordered:
        maximum = task.now if task.appends_time else checked.max_timestamp
        # Before 2.4 there may be more batches; no field changes in those.
        rest = b"".join(batch.data for batch in batches[1:])
        data = kept(first, task.offset + checked.count - 1, maximum, task) + rest
        return Validated(data, checked.count, "in place")
    data = rebuilt(first, checked.contents(), task)
    return Validated(data, checked.count, "converted" if converts else "rebuilt")


class _Checked:
    """Facts about the records of a compressed set after they have been checked.

    Attributes:
        count: how many there are.
        max_timestamp: the largest timestamp, -1 at least (TIM-09).
        ordered: whether they are numbered from 0 on (NST-13, OFF-05).
    """

    def __init__(self, *, keeps: bool) -> None:
        self.keeps = keeps
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self.ordered = True
        self._records: list[View] = []

    def add(self, record: View, *, has_offset: bool, does: Behaviour) -> None:
        """One more record without fault.

        Raises:
            Thrown: its offset is not its place, which 2.4 alone refused (NST-13).
        """
        if has_offset and record.offset != self.count:
            self.ordered = False
            if does.ordered_inner:
                raise Thrown("InvalidRecordException", "NST-13", (self.count,))
        self.count += 1
        self.max_timestamp = max(self.max_timestamp, record.timestamp)
        if self.keeps:
            self._records.append(record)

    def contents(self) -> list[Record]:
        """OFF-05: of an outline nothing can be written."""
        if not self.keeps:
            raise Thrown("UnsupportedOperationException", "OFF-05")
        return [record.contents() for record in self._records]


def _check_compressed(batch: Entry, task: Task, checked: _Checked) -> None:
    """Walk through every record, also of a batch that is kept (CMP-09).

    A record at fault ends the append, so until then each one's place is the offset that Kafka expects.
    """
    errors = RecordErrors(task.does)
    has_offset = min(batch.magic, task.magic) > MAGIC_VALUE_V0
    for index, record in enumerate(_views(batch, task, outline=not checked.keeps)):
        if check_record(batch, index, record, task, errors) and not errors:
            checked.add(record, has_offset=has_offset, does=task.does)
    errors.process()
