"""Brokers before 0.11, which know v0 and v1 only: LogValidator of 0.10.2.

They look at less.  No magic is refused, wrappers may stand beside plain
messages, and messages that keep their format keep their bytes even where a
wrapper is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kafka_records.attributes import TIMESTAMP_TYPE_MASK
from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry, message_entries
from kafka_records.broker.errors import Thrown
from kafka_records.broker.limits import check_segment, check_sizes
from kafka_records.broker.message_sets import message_of, read_messages
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.rewrite import largest, with_timestamp
from kafka_records.broker.state import RULES, AppendResult, LogState, Path
from kafka_records.broker.streams import open_stream
from kafka_records.broker.validation import Task
from kafka_records.broker.views import LegacyView
from kafka_records.compression import compress
from kafka_records.constants import (
    COMPRESSIONS,
    INT64_MIN,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    NO_TIMESTAMP,
    RECORD_OVERHEAD_V0,
    RECORD_OVERHEAD_V1,
    Compression,
)
from kafka_records.errors import RecordFormatError
from kafka_records.layout import ENTRY
from kafka_records.message import Message, encode_message
from kafka_records.primitives import wrap_int32, wrap_int64


def append_messages(log: LogState, payload: bytes, config: TopicConfig, does: Behaviour, now_ms: int) -> AppendResult:
    """Log#append.  Raises `Thrown`."""
    entries, source = _analyze(payload, config, does)
    if not entries:
        return AppendResult(log=log, rule="FRM-12")
    task = Task(
        does=does, config=config, source=source, now=now_ms, offset=log.log_end_offset, leader_epoch=log.leader_epoch
    )
    data, count, path = _validate(entries, task)
    if path != "in place":
        check_sizes(list(message_entries(data)), config, does, "SIZ-04")
    check_segment(data, config)
    return AppendResult(
        log=replace(log, log_end_offset=log.log_end_offset + count),
        base_offset=task.offset,
        log_append_time=now_ms if task.appends_time else NO_TIMESTAMP,
        stored=data,
        path=path,
        rule=RULES[path],
    )


def _analyze(payload: bytes, config: TopicConfig, does: Behaviour) -> tuple[list[Entry], Compression]:
    """#analyzeAndValidateRecords."""
    found: list[Entry] = []
    source: Compression = "none"
    for entry in message_entries(payload):
        check_sizes([entry], config, does, "SIZ-01")
        message = message_of(entry)
        message.ensure_valid()
        codec = _codec(message, does)
        source = source if codec == "none" else codec
        found.append(entry)
    return found, source


def _codec(message: LegacyView, does: Behaviour) -> Compression:
    return COMPRESSIONS[message.attributes & 7] if message.is_compressed(does) else "none"


def _validate(entries: Sequence[Entry], task: Task) -> tuple[bytes, int, Path]:
    """#validateMessagesAndAssignOffsets."""
    messages = [message_of(entry) for entry in entries]
    if task.source != "none" or task.target != "none":
        return _validate_compressed(messages, task)
    if all(message.magic == task.magic for message in messages):
        return b"".join(_assigned(messages, task)), len(messages), "in place"
    return b"".join(_converted(messages, task)), len(messages), "converted"


def _assigned(messages: Sequence[LegacyView], task: Task) -> Iterator[bytes]:
    """#assignOffsetsNonCompressed."""
    for offset, message in enumerate(messages, task.offset):
        _check_key(message, task)
        if message.magic > MAGIC_VALUE_V0:
            _check_timestamp(message, task)
        data = _entry(offset, message.data)
        if message.magic > MAGIC_VALUE_V0 and task.appends_time:
            data = with_timestamp(data, message.attributes | TIMESTAMP_TYPE_MASK, task.now)
        yield data


def _converted(messages: Sequence[LegacyView], task: Task) -> Iterator[bytes]:
    """#convertAndAssignOffsetsNonCompressed: those of the right magic are copied as they are."""
    _check_converted_size(messages, task)
    for offset, message in enumerate(messages, task.offset):
        _check_key(message, task)
        _check_timestamp(message, task)
        if message.magic == task.magic:
            yield _entry(offset, message.data)
        else:
            timestamp = task.now if task.appends_time else message.timestamp
            yield _written(offset, message, task.magic, timestamp, append=task.appends_time)


def _check_converted_size(messages: Sequence[LegacyView], task: Task) -> None:
    """Room for all is made first, by the sizes that the messages claim (LEG-11)."""
    overhead = RECORD_OVERHEAD_V0 if task.magic == MAGIC_VALUE_V0 else RECORD_OVERHEAD_V1
    size = wrap_int32(sum(overhead + message.key_and_value_size for message in messages))
    if size < 0:
        raise Thrown("IllegalArgumentException", "LEG-11")
    task.room.take(size, "LEG-11")


def _written(offset: int, message: LegacyView, magic: int, timestamp: int, *, append: bool) -> bytes:
    """Record#convertTo."""
    record = message.contents()
    attributes = TIMESTAMP_TYPE_MASK if append and magic > MAGIC_VALUE_V0 else 0
    try:
        return encode_message(Message(offset, magic, attributes, timestamp, record.key, record.value))
    except RecordFormatError as error:
        raise Thrown("IllegalArgumentException", error.rule) from None


def _entry(offset: int, data: bytes) -> bytes:
    return ENTRY.struct.pack(offset, len(data)) + data


def _check_key(message: LegacyView, task: Task) -> None:
    """LEG-26."""
    if task.config.compacts and not message.has_key:
        raise Thrown("CorruptRecordException", "LEG-26")


def _check_timestamp(message: LegacyView, task: Task, *, append: bool | None = None) -> None:
    """#validateTimestamp; "no timestamp" is measured like any other (TIM-03 came later)."""
    difference = wrap_int64(message.timestamp - task.now)
    distance = difference if difference == INT64_MIN else abs(difference)
    if not task.appends_time and distance > task.config.limits(task.does)[0]:
        raise Thrown("InvalidTimestampException", "TIM-10")
    if message.has_append_time if append is None else append:
        message.describe(task.does)
        raise Thrown("InvalidTimestampException", "TIM-13" if task.appends_time else "TIM-14")


@dataclass(frozen=True, slots=True)
class _Inner:
    """A message to be stored, and the wrapper that it came in."""

    message: LegacyView
    wrapper: LegacyView | None

    @property
    def has_append_time(self) -> bool:
        """The wrapper's type wins (NST-21)."""
        if self.wrapper is None or self.message.magic == MAGIC_VALUE_V0:
            return self.message.has_append_time
        return self.wrapper.has_append_time


def _deep(messages: Sequence[LegacyView], task: Task) -> Iterator[_Inner]:
    """RecordsIterator, deep, with matching magic."""
    for message in messages:
        codec = _codec(message, task.does)
        if codec == "none":
            yield _Inner(message, None)
        else:
            yield from _inner(message, codec, task)


def _inner(wrapper: LegacyView, codec: Compression, task: Task) -> Iterator[_Inner]:
    """#DeepRecordsIterator."""
    value = wrapper.value
    if value is None:
        raise Thrown("NullPointerException", "NST-03")
    append_time = wrapper.timestamp if wrapper.has_append_time else None
    found = []
    for message in read_messages(open_stream(codec, value, wrapper.magic, task.does), append_time, task.room):
        if message.magic != wrapper.magic:
            raise Thrown("CorruptRecordException", "NST-15")
        found.append(message)
    if not found:
        raise Thrown("NoSuchElementException", "NST-05")
    base = wrapper.offset - found[-1].offset if wrapper.magic > MAGIC_VALUE_V0 else -1
    for message in found:
        # A base below 0 is not added: offsets do not change (NST-09 in a way, NST-10 never).
        resolved = replace(message, offset=wrap_int64(base + message.offset)) if base >= 0 else message
        if resolved.is_compressed(task.does):
            raise Thrown("CorruptRecordException", "NST-16")
        yield _Inner(resolved, wrapper)


def _validate_compressed(messages: Sequence[LegacyView], task: Task) -> tuple[bytes, int, Path]:
    """#validateMessagesAndAssignOffsetsCompressed."""
    in_place = task.source == task.target and task.magic > MAGIC_VALUE_V0
    expected = 0
    converts = False
    validated: list[LegacyView] = []
    for inner in _deep(messages, task):
        message = inner.message
        _check_key(message, task)
        if min(message.magic, task.magic) > MAGIC_VALUE_V0:
            _check_timestamp(message, task, append=inner.has_append_time)
            in_place = in_place and message.offset == expected
            expected += 1
        converts = converts or message.magic != task.magic
        validated.append(_convert(inner, task))
    if in_place and not converts:
        # No field changes in the messages after the first wrapper.
        rest = b"".join(_entry(message.offset, message.data) for message in messages[1:])
        return _kept(messages[0], validated, task) + rest, len(validated), "in place"
    return _rebuilt(validated, task), len(validated), "converted" if converts else "rebuilt"


def _convert(inner: _Inner, task: Task) -> LegacyView:
    """Record#convert: timestamp type from the wrapper, or from bit 3 of whatever magic."""
    message = inner.message
    if message.magic == task.magic:
        return message
    if inner.wrapper is None or message.magic == MAGIC_VALUE_V0:
        append = bool(message.attributes & TIMESTAMP_TYPE_MASK)
    else:
        append = inner.wrapper.has_append_time
    data = _written(0, message, task.magic, message.timestamp, append=append)
    return LegacyView(message.offset, data[LOG_OVERHEAD:])


def _kept(wrapper: LegacyView, validated: Sequence[LegacyView], task: Task) -> bytes:
    """The wrapper as it came, with offset, timestamp and its type set."""
    for message in validated:
        message.ensure_valid()
    data = _entry(task.offset + len(validated) - 1, wrapper.data)
    maximum = task.now if task.appends_time else largest([message.timestamp for message in validated])
    if not task.appends_time and not wrapper.has_append_time and wrapper.timestamp == maximum:
        return data
    attributes = wrapper.attributes & ~TIMESTAMP_TYPE_MASK
    return with_timestamp(data, attributes | (TIMESTAMP_TYPE_MASK if task.appends_time else 0), maximum)


def _rebuilt(validated: Sequence[LegacyView], task: Task) -> bytes:
    """MemoryRecords#builderWithEntries: messages byte by byte, in a new wrapper if there is a codec."""
    first = validated[0]
    if task.target == "none":
        return b"".join(_entry(offset, message.data) for offset, message in enumerate(validated, task.offset))
    base = 0 if first.magic > MAGIC_VALUE_V0 else task.offset
    plain = b"".join(_entry(offset, message.data) for offset, message in enumerate(validated, base))
    attributes = COMPRESSIONS.index(task.target)
    if task.appends_time and first.magic > MAGIC_VALUE_V0:
        attributes |= TIMESTAMP_TYPE_MASK
    timestamp = task.now if task.appends_time else largest([message.timestamp for message in validated])
    value = compress(task.target, plain, magic=first.magic)
    last = task.offset + len(validated) - 1
    return encode_message(Message(last, first.magic, attributes, timestamp, None, value))
