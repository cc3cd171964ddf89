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
from kafka_records.constants import MAGIC_VALUE_V0
from kafka_records.model import Record


class Validated(NamedTuple):
    """What is to be stored, how many records it holds and how it came about."""

    data: bytes
    count: int
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
    """The records of a batch, each read when it is asked for.

    Plain iteration looks at the count first, and at the codec only then (HDR-16).
    """
    if batch.is_v2:
        return records_of(batch, task.does, task.largest_body, outline=outline)
    return messages_of(batch, task.does, task.largest_body)


def _assign_offsets(batches: Sequence[Entry], task: Task) -> Validated:
    """#assignOffsetsNonCompressed: everything stays in place; offset deltas are not looked at (OFF-04)."""
    check_set(list(batches), "none", task.does)
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
    """The timestamps of all records, if there is nothing wrong with any."""
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
    check_set(list(batches), "none", task.does)
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
    check_set(list(batches), task.source, task.does)
    first = batches[0]
    in_place = task.source == task.target and first.magic == task.magic and task.magic > MAGIC_VALUE_V0
    records, timestamps, ordered = _check_compressed(batches, task, outline=in_place and first.is_v2)
    if in_place and ordered:
        maximum = task.now if task.appends_time else largest(timestamps)
        data = kept(first, task.offset + len(records) - 1, maximum, task)
        return Validated(data, len(records), "in place")
    converts = first.magic != task.magic
    data = rebuilt(first, [record.contents() for record in records], task)
    return Validated(data, len(records), "converted" if converts else "rebuilt")


def _check_compressed(
    batches: Sequence[Entry], task: Task, *, outline: bool
) -> tuple[list[View], list[int], bool]:
    """The records, their timestamps and whether they are numbered from 0 on (NST-13, OFF-05)."""
    records: list[View] = []
    ordered = True
    for batch in batches:
        check_batch(batches[0], batch, task)
        errors = RecordErrors(task.does)
        has_offsets = min(batch.magic, task.magic) > MAGIC_VALUE_V0
        for index, record in enumerate(_views(batch, task, outline=outline)):
            if _check_one(batch, index, record, task, errors):
                if has_offsets and record.offset != len(records):
                    ordered = False
                    _check_order(task.does, index)
                records.append(record)
        errors.process()
    # A record at fault ends the append, so places in `records` are what Kafka expects as offsets.
    return records, [record.timestamp for record in records], ordered


def _check_one(batch: Entry, index: int, record: View, task: Task, errors: RecordErrors) -> bool:
    """#validateRecordCompression, then #validateRecord."""
    if task.source != "none" and record.is_compressed(task.does):
        errors.add(index, "InvalidRecordException", "NST-16")
        return False
    return check_record(batch, index, record, task, errors)


def _check_order(does: Behaviour, index: int) -> None:
    """2.4 alone refused what others write anew (NST-13)."""
    if does.ordered_inner:
        raise Thrown("InvalidRecordException", "NST-13", (index,))

