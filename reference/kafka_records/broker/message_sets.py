"""The messages in a v0/v1 wrapper: AbstractLegacyRecordBatch's DeepRecordsIterator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.limits import Room
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.streams import Stream, open_stream
from kafka_records.broker.views import LegacyView
from kafka_records.budget import RECORD_COST
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V0, MAGIC_VALUE_V1
from kafka_records.layout import ENTRY
from kafka_records.message import is_too_small
from kafka_records.primitives import wrap_int64


def message_of(entry: Entry) -> LegacyView:
    """A plain message; its offset is the entry's."""
    return LegacyView(ENTRY.struct.unpack_from(entry.data)[0], entry.data[LOG_OVERHEAD:])


def messages_of(entry: Entry, does: Behaviour, room: Room | None = None) -> Iterator[LegacyView]:
    """The plain message itself, or the inner messages of a wrapper, none of which is compressed (NST-16).

    Inner messages take *room*, or a heap of their own if that is None.  Their CRC is not looked at (NST-18).
    """
    message = message_of(entry)
    compression = entry.compression(does)
    if compression == "none":
        yield message
        return
    if compression == "zstd":
        raise Thrown("InvalidRecordException", "LEG-15")
    value = message.value
    if value is None:
        raise Thrown("InvalidRecordException", "NST-03")
    append_time = message.timestamp if message.has_append_time else None
    inner = list(read_messages(open_stream(compression, value, entry.magic, does), append_time, room or Room()))
    if not inner:
        raise Thrown("InvalidRecordException", "NST-05")
    base = _base_offset(inner, message)
    for each in inner:
        resolved = replace(each, offset=wrap_int64(base + each.offset))
        if resolved.is_compressed(does):
            raise Thrown("InvalidRecordException", "NST-16")
        yield resolved


def _base_offset(inner: list[LegacyView], wrapper: LegacyView) -> int:
    """NST-08 to NST-10, NST-14."""
    if wrapper.magic == MAGIC_VALUE_V0 or wrapper.offset == 0:
        return 0
    if wrapper.offset < inner[-1].offset:
        raise Thrown("InvalidRecordException", "NST-10")
    return wrapper.offset - inner[-1].offset


def read_messages(stream: Stream, append_time: int | None, room: Room) -> Iterator[LegacyView]:
    """DataLogInputStream#nextBatch: a tail that is cut short is dropped (NST-06, NST-27)."""
    try:
        while len(prefix := read_fully(stream, LOG_OVERHEAD, room)) == LOG_OVERHEAD:
            offset, size = ENTRY.struct.unpack(prefix)
            if is_too_small(size):
                raise Thrown("CorruptRecordException", "NST-07")
            data = read_fully(stream, size, room)
            if len(data) < size:
                return
            room.take(RECORD_COST, "HDR-18")
            message = LegacyView(offset, data)
            yield replace(message, append_time=append_time) if message.magic == MAGIC_VALUE_V1 else message
    except Thrown as thrown:
        if thrown.name in ("IOException", "EOFException"):
            raise Thrown("KafkaException", thrown.rule) from None
        raise


def read_fully(stream: Stream, size: int, room: Room) -> bytes:
    """Utils#readFully: *size* bytes, or fewer at the end of the stream."""
    room.take(size, "REC-08")
    gathered = bytearray()
    while len(gathered) < size:
        block = stream.read(size - len(gathered))
        if block is None:
            break
        gathered += block
    return bytes(gathered)
