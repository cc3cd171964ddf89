"""Checks of LogValidator on batches and on records, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import JavaName, Thrown
from kafka_records.broker.limits import Room
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.views import View
from kafka_records.constants import INT64_MIN, MAGIC_VALUE_V1, MAGIC_VALUE_V2, NO_TIMESTAMP, Compression
from kafka_records.primitives import wrap_int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The append of a partition's batches.

    Attributes:
        does: the release.
        config: the topic's settings.
        source: the codec that the batches came in; the last one that is any.
        now: the broker's time, milliseconds.
        offset: what the first record is to get.
        leader_epoch: goes into v2 batches.
        room: for what is decompressed.
    """

    does: Behaviour
    config: TopicConfig
    source: Compression
    now: int
    offset: int
    leader_epoch: int
    room: Room = field(default_factory=Room)

    @property
    def target(self) -> Compression:
        """The codec of the stored batches."""
        return self.config.target(self.source)

    @property
    def magic(self) -> int:
        """The format of the stored batches."""
        return self.config.magic(self.does)

    @property
    def appends_time(self) -> bool:
        """Whether the topic says LogAppendTime."""
        return self.config.timestamp_type == "LogAppendTime"

    @property
    def largest_body(self) -> int | None:
        """Bytes that the body of a compressed record may take, or None."""
        return self.config.largest_body(self.does)


def check_set(batches: Sequence[Entry], source: Compression, does: Behaviour) -> None:
    """#getFirstBatchAndMaybeValidateNoMoreBatches (NST-24, PRD-08)."""
    alone = batches[0].is_v2 or source != "none"
    if does.one_magic and alone and len(batches) > 1:
        raise Thrown("InvalidRecordException", "NST-24" if source != "none" else "PRD-08")


def check_batch(first: Entry, batch: Entry, task: Task) -> None:
    """#validateBatch, for what comes from clients, and from nowhere else (PRD-20).

    Bit 6 is not looked at (ATT-11).
    """
    if task.does.one_magic and first.magic != batch.magic:
        raise Thrown("InvalidRecordException", "LEG-25")
    if batch.is_v2:
        _check_offsets(batch)
    if batch.is_control:
        raise Thrown("InvalidRecordException", "TXN-08")
    if batch.has_producer_id and batch.number("base_sequence") < 0:
        raise Thrown("InvalidRecordException", "PID-03")
    if task.magic < MAGIC_VALUE_V2 and batch.is_transactional:
        raise Thrown("UnsupportedForMessageFormatException", "TXN-07")
    if task.magic < MAGIC_VALUE_V2 and batch.has_producer_id:
        raise Thrown("UnsupportedForMessageFormatException", "PID-18")


def _check_offsets(batch: Entry) -> None:
    """HDR-10 to HDR-12."""
    from_offsets = batch.number("last_offset_delta") + 1
    count = batch.number("record_count")
    if from_offsets <= 0:
        raise Thrown("InvalidRecordException", "HDR-10")
    if count <= 0:
        raise Thrown("InvalidRecordException", "HDR-11")
    if from_offsets != count:
        raise Thrown("InvalidRecordException", "HDR-12")


class RecordErrors:
    """Errors of a batch's records, gathered, or raised at once by releases before 2.5."""

    def __init__(self, does: Behaviour) -> None:
        self._does = does
        self._found: list[tuple[int, JavaName, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, index: int, name: JavaName, rule: str) -> None:
        """The record at *index* is at fault."""
        self._found.append((index, name, rule))
        if not self._does.collects:
            self.process()

    def process(self) -> None:
        """#processRecordErrors: timestamps outrank the rest (PRD-10, TIM-17)."""
        if not self._found:
            return
        worst = next((each for each in self._found if each[1] == "InvalidTimestampException"), self._found[0])
        raise Thrown(worst[1], worst[2], tuple(index for index, _, _ in self._found))


def check_record(batch: Entry, index: int, record: View, task: Task, errors: RecordErrors) -> bool:
    """#validateRecord; whether there is nothing wrong with the record.

    Raises:
        Thrown: for an inner CRC, which is no error of the record (NST-17).
    """
    if not record.has_magic(batch.magic):
        if task.does.one_magic:
            record.describe(task.does)
        errors.add(index, "InvalidRecordException", "NST-25" if record.has_magic(MAGIC_VALUE_V2) else "NST-15")
        return False
    if batch.magic <= MAGIC_VALUE_V1 and batch.compression(task.does) != "none":
        record.ensure_valid()
    if task.config.compacts and not record.has_key:
        errors.add(index, "InvalidRecordException", "LEG-26" if batch.magic <= MAGIC_VALUE_V1 else "PRD-17")
        return False
    if rule := _timestamp_fault(batch, record, task):
        if rule != "TIM-10":
            record.describe(task.does)
        errors.add(index, "InvalidTimestampException", rule)
        return False
    return True


def _timestamp_fault(batch: Entry, record: View, task: Task) -> str | None:
    """#validateTimestamp: the rule that is broken.

    TIM-14, TIM-16: since 3.6, bit 3 of a record with a timestamp is not looked
    at on a CreateTime topic.  So it is with a v1 message (LEG-19).
    """
    measured = not task.appends_time and record.timestamp != NO_TIMESTAMP
    if measured and _is_out_of_range(record.timestamp, task):
        return "TIM-10"
    if (not measured or task.does.create_time_only) and batch.has_append_time:
        return "TIM-13" if task.appends_time else "TIM-14"
    return None


def _is_out_of_range(timestamp: int, task: Task) -> bool:
    """TIM-10, in Java's arithmetic, which wraps."""
    before, after = task.config.limits(task.does)
    if not task.does.time_limits:
        difference = wrap_int64(timestamp - task.now)
        # `math.abs` of the smallest number is itself
        return before < (difference if difference == INT64_MIN else abs(difference))
    difference = wrap_int64(task.now - timestamp)
    return difference > before or wrap_int64(-difference) > after
