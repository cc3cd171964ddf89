"""The records of a v2 batch as the broker's iterators give them, with Java's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafka_records.batch import BatchHeader
from kafka_records.broker import outlines
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import JavaName, Thrown
from kafka_records.broker.limits import Room
from kafka_records.broker.message_sets import read_fully
from kafka_records.broker.outlines import Reading, read_length
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.streams import Stream, open_stream
from kafka_records.broker.streams.base import END
from kafka_records.broker.views import DefaultView
from kafka_records.budget import HEADER_COST, RECORD_COST
from kafka_records.constants import MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.errors import RecordFormatError
from kafka_records.layout import BATCH_V2
from kafka_records.model import Record
from kafka_records.record import Base, decode_body
from kafka_records.varint import decode_varint

# A broker sets no limit to the decompressed size of a batch (CMP-10); the payload itself does.
NO_LIMIT = 2**62


def header_of(entry: Entry) -> BatchHeader:
    """The fixed fields of a batch that is long enough."""
    return BatchHeader._make(BATCH_V2.struct.unpack_from(entry.data))


def base_of(header: BatchHeader, *, append: bool) -> Base:
    """The values that records take from their batch; LogAppendTime overrides their own times (TIM-02)."""
    return Base(header.base_offset, header.base_timestamp, header.max_timestamp if append else None)


def records_of(
    entry: Entry, does: Behaviour, largest: int | None, *, outline: bool, room: Room | None = None
) -> Iterator[DefaultView]:
    """RecordIterator: as many records as the header counts, which must be all there is.

    No CRC is looked at (FRM-15): a right one does not make records readable, nor a wrong one unreadable (CRC-15).

    Args:
        entry: a v2 batch with a count above 0.
        does: the release.
        largest: bytes that the body of a compressed record may take, or None.
        outline: whether keys and values are not going to be needed.
        room: for compressed records; a heap of their own if None.
    """
    header = header_of(entry)
    base = base_of(header, append=entry.has_append_time)
    compression = entry.compression(does)
    if compression == "none":
        yield from _plain(entry.data, header.record_count, base, does)
        return
    stream = open_stream(compression, entry.data[RECORD_BATCH_OVERHEAD:], MAGIC_VALUE_V2, does)
    if outline and does.skips_by != "nothing":
        read = outlines.by_buffer if does.skips_by == "buffer" else outlines.by_stream
    else:
        read = read_record
    yield from _compressed(stream, header.record_count, Reading(base, does, largest, room or Room()), read)


def _plain(data: bytes, count: int, base: Base, does: Behaviour) -> Iterator[DefaultView]:
    at = RECORD_BATCH_OVERHEAD
    for index in range(count):
        view, at = _plain_record(data, at, base, does)
        if index == count - 1 and at < len(data):
            raise Thrown("InvalidRecordException", "HDR-14")
        if view is None:
            raise Thrown("NullPointerException", "REC-03")
        yield view


def _plain_record(data: bytes, at: int, base: Base, does: Behaviour) -> tuple[DefaultView | None, int]:
    """DefaultRecord#readFrom(ByteBuffer); before 3.0, a record longer than the rest is null."""
    try:
        length, start = decode_varint(data, at, "length")
    except RecordFormatError as error:
        # VAR-10: a bad varint escapes, a missing byte does not (HDR-13).
        escapes = error.kind == "malformed"
        raise Thrown("IllegalArgumentException" if escapes else "InvalidRecordException", error.rule) from None
    if length > len(data) - start:
        if does.names_lengths:
            raise Thrown("InvalidRecordException", "REC-03")
        return None, start
    return full_view(_body(data[start : max(start, start + length)], length, base)), start + length


def _body(body: bytes, length: int, base: Base, left: int = NO_LIMIT) -> Record:
    # VAR-09: within a body a bad varint is an invalid record, like everything else.
    try:
        record, used = decode_body(body, base, left)
    except RecordFormatError as error:
        name: JavaName = "OutOfMemoryError" if error.kind == "limit" else "InvalidRecordException"
        raise Thrown(name, error.rule) from None
    if used != length:
        raise Thrown("InvalidRecordException", "REC-04")
    return record


def full_view(record: Record) -> DefaultView:
    """All of *record*."""
    return DefaultView(record.offset, record.timestamp, record.key is not None, record)


Reader = Callable[[Stream, Reading], DefaultView]


def _compressed(stream: Stream, count: int, reading: Reading, read: Reader) -> Iterator[DefaultView]:
    """StreamRecordIterator."""
    for index in range(count):
        try:
            view = read(stream, reading)
        except Thrown as thrown:
            raise _translated(thrown, reading.does) from None
        if index == count - 1 and _goes_on(stream):
            raise Thrown("InvalidRecordException", "HDR-14")
        yield view


def _translated(thrown: Thrown, does: Behaviour) -> Thrown:
    """The exception that #readNext turns *thrown* into (CMP-04, CMP-05, VAR-10)."""
    ends = "IllegalArgumentException" if does.skips_by == "stream" else "EOFException"
    if thrown.name == ends:
        return Thrown("InvalidRecordException", thrown.rule)
    if thrown.name in ("IOException", "EOFException"):
        return Thrown("KafkaException", thrown.rule)
    return thrown


def _goes_on(stream: Stream) -> bool:
    """#ensureNoneRemaining (REC-25); every error of a codec is a KafkaException here."""
    try:
        return stream.read_byte() != END
    except Thrown as thrown:
        if thrown.name in ("IOException", "EOFException"):
            raise Thrown("KafkaException", thrown.rule) from None
        raise


def read_record(stream: Stream, reading: Reading) -> DefaultView:
    """DefaultRecord#readFrom(InputStream): all of a record (REC-05)."""
    length = read_length(stream, reading)
    if length < 0:
        # `ByteBuffer.allocate` of a negative size
        raise Thrown("IllegalArgumentException", "REC-07")
    body = read_fully(stream, length, reading.room)
    if len(body) < length:
        raise Thrown("InvalidRecordException", "REC-05")
    reading.room.take(RECORD_COST, "HDR-18")
    record = _body(body, length, reading.base, reading.room.left)
    reading.room.take(HEADER_COST * len(record.headers), "REC-15")
    return full_view(record)
