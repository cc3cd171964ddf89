"""Records of which only the outline is read: DefaultRecord#readPartiallyFrom.

A broker that keeps a compressed batch as it is skips keys and values.  From 3.6
on it reads straight from the stream: the record's length is not compared with
what is read (REC-06), and the end of the stream reads as bytes 0xFF (VAR-11,
REC-28).  From 2.4 to 3.5 it read by way of a buffer of 2 KiB, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kafka_records.broker.errors import Thrown
from kafka_records.broker.limits import Room
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.streams import Stream
from kafka_records.broker.streams.base import END, Chunked
from kafka_records.broker.views import DefaultView
from kafka_records.budget import RECORD_COST
from kafka_records.errors import RecordFormatError
from kafka_records.primitives import wrap_int64
from kafka_records.record import Base
from kafka_records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, decode_varint, decode_varlong

# DefaultRecord#MAX_SKIP_BUFFER_SIZE
BUFFER_SIZE = 2048
# What `(byte) in.read()` makes of the end of a stream.
END_BYTE = 0xFF
# Headers of two bytes: an empty key, and a value that is empty or null.
SMALLEST_HEADERS = re.compile(rb"(?:\x00[\x00\x01])*+")
SMALLEST_HEADER = 2


@dataclass(frozen=True, slots=True)
class Reading:
    """How the compressed records of a batch are read.

    Attributes:
        base: what they take from the batch.
        does: the release.
        largest: bytes that a record's body may take, or None.
        room: what they may take of the heap.
    """

    base: Base
    does: Behaviour
    largest: int | None
    room: Room


def read_length(stream: Stream, reading: Reading) -> int:
    """The length in front of a record's body, measured if the release does that (REC-07, REC-08)."""
    ends_in_errors = reading.does.skips_by != "stream"
    length = _varint(lambda: _byte(stream, ends_in_errors=ends_in_errors))
    if reading.largest is not None and not 0 <= length <= reading.largest:
        raise Thrown("InvalidRecordException", "REC-07" if length < 0 else "SIZ-03")
    return length


def _byte(stream: Stream, *, ends_in_errors: bool) -> int:
    """DataInput#readByte, or `(byte) in.read()`."""
    byte = stream.read_byte()
    if byte != END:
        return byte
    if ends_in_errors:
        raise Thrown("EOFException", "HDR-13")
    return END_BYTE


def _groups(first: int, next_byte: Callable[[], int], most: int, rule: str) -> bytes:
    """The bytes of a varint, up to the one that ends it."""
    groups = bytearray((first,))
    while groups[-1] >= 0x80:
        if len(groups) == most:
            raise Thrown("IllegalArgumentException", rule)
        groups.append(next_byte())
    return bytes(groups)


def _varint(next_byte: Callable[[], int]) -> int:
    first = next_byte()
    if first < 0x80:  # nearly all there is
        return (first >> 1) ^ -(first & 1)
    return decode_varint(_groups(first, next_byte, MAX_VARINT_BYTES, "VAR-06"), 0, "")[0]


def _varlong(next_byte: Callable[[], int]) -> int:
    first = next_byte()
    if first < 0x80:
        return (first >> 1) ^ -(first & 1)
    return decode_varlong(_groups(first, next_byte, MAX_VARLONG_BYTES, "VAR-08"), 0, "")[0]


def by_stream(stream: Stream, reading: Reading) -> DefaultView:
    """Read from the stream itself (REC-06, REC-28)."""
    read_length(stream, reading)
    assert isinstance(stream, Chunked)  # where nothing stands in front of the codec, there is a buffer here
    try:
        return _outline(_Skipping(stream), reading)
    except Thrown as thrown:
        raise _malformed(thrown) from None


def by_buffer(stream: Stream, reading: Reading) -> DefaultView:
    """Read by way of a buffer that is filled with as many bytes as the record's length allows."""
    buffer = _Buffer(stream, read_length(stream, reading))
    try:
        view = _outline(buffer, reading)
    except Thrown as thrown:
        raise _malformed(thrown) from None
    if buffer.left > 0 or buffer.has_more:
        raise Thrown("InvalidRecordException", "REC-04")
    return view


def _malformed(thrown: Thrown) -> Thrown:
    """Both kinds of reading turn these two into "Found invalid record structure"."""
    structural = thrown.name in ("BufferUnderflowException", "IllegalArgumentException")
    return Thrown("InvalidRecordException", thrown.rule) if structural else thrown


class _Skipping:
    """A record's fields in the stream."""

    def __init__(self, stream: Chunked) -> None:
        self._stream = stream

    def byte(self) -> int:
        """The next byte, whatever the end of the stream makes of it."""
        return _byte(self._stream, ends_in_errors=False)

    def varint(self) -> int:
        """ByteUtils#readVarint(InputStream)."""
        return _varint(self.byte)

    def varlong(self) -> int:
        """ByteUtils#readVarlong(InputStream)."""
        return _varlong(self.byte)

    def skip(self) -> int:
        """A length and its field; give the length (REC-13)."""
        size = left = self.varint()
        while left > 0:
            skipped = self._stream.skip(left)
            if not skipped and self._stream.read_byte() == END:
                raise Thrown("InvalidRecordException", "REC-13")
            left -= skipped or 1
        return size

    def pass_over(self, count: int) -> int:
        """As many as *count* of the smallest headers, as far as a chunk has them; millions of them take a moment."""
        return self._stream.pass_over(SMALLEST_HEADERS, count * SMALLEST_HEADER) // SMALLEST_HEADER


class _Buffer:
    """A record's fields in a buffer; *left* is how much of the record has not been read from the stream."""

    def __init__(self, stream: Stream, length: int) -> None:
        self._stream = stream
        self._bytes = b""
        self._at = 0
        self.left = length

    @property
    def has_more(self) -> bool:
        """Whether bytes have been read that no field has taken."""
        return self._at < len(self._bytes)

    def byte(self) -> int:
        """#readByte."""
        self._ensure(1)
        self._at += 1
        if self._at > len(self._bytes):
            raise Thrown("BufferUnderflowException", "REC-09")
        return self._bytes[self._at - 1]

    def varint(self) -> int:
        """#readVarInt."""
        self._ensure(MAX_VARINT_BYTES)
        return self._decode(decode_varint)

    def varlong(self) -> int:
        """#readVarLong."""
        self._ensure(MAX_VARLONG_BYTES)
        return self._decode(decode_varlong)

    def _decode(self, decode: Callable[[bytes, int, str], tuple[int, int]]) -> int:
        try:
            value, self._at = decode(self._bytes, self._at, "")
        except RecordFormatError as error:
            raise Thrown("IllegalArgumentException", error.rule) from None
        return value

    def skip(self) -> int:
        """#skipLengthDelimitedField."""
        size = to_skip = self.varint()
        while to_skip > len(self._bytes) - self._at:
            to_skip -= len(self._bytes) - self._at
            self._at = len(self._bytes)
            self._read_more()
        self._at += max(0, to_skip)
        return size

    def pass_over(self, count: int) -> int:
        """As many as *count* of the smallest headers, as long as no number makes `_ensure` read more."""
        end = min(self._at + count * SMALLEST_HEADER, len(self._bytes) - MAX_VARINT_BYTES)
        run = SMALLEST_HEADERS.match(self._bytes, self._at, max(self._at, end))
        passed = len(run[0]) if run else 0
        self._at += passed
        return passed // SMALLEST_HEADER

    def _ensure(self, size: int) -> None:
        if len(self._bytes) - self._at < size and self.left > 0:
            self._read_more()

    def _read_more(self) -> None:
        """#readMore."""
        if self.left <= 0:
            raise Thrown("InvalidRecordException", "REC-13")
        kept = self._bytes[self._at :]
        wanted = min(self.left, BUFFER_SIZE - len(kept))
        self._bytes, self._at = kept + self._read_fully(wanted), 0
        self.left -= wanted

    def _read_fully(self, size: int) -> bytes:
        """DataInput#readFully."""
        gathered = bytearray()
        while len(gathered) < size:
            block = self._stream.read(size - len(gathered))
            if block is None:
                raise Thrown("EOFException", "REC-05")
            gathered += block
        return bytes(gathered)


def _outline(fields: _Skipping | _Buffer, reading: Reading) -> DefaultView:
    """Attributes, timestamp, offset; then keys, values and headers, skipped."""
    reading.room.take(RECORD_COST, "HDR-18")
    fields.byte()
    timestamp_delta = fields.varlong()
    offset_delta = fields.varint()
    key_size = fields.skip()
    fields.skip()
    _skip_headers(fields)
    base_offset, base_timestamp, append_time = reading.base
    timestamp = wrap_int64(base_timestamp + timestamp_delta) if append_time is None else append_time
    return DefaultView(wrap_int64(base_offset + offset_delta), timestamp, key_size >= 0, None)


def _skip_headers(fields: _Skipping | _Buffer) -> None:
    """REC-14, REC-15, REC-18: the count is not bounded, it runs out of data."""
    count = fields.varint()
    if count < 0:
        raise Thrown("InvalidRecordException", "REC-14")
    while count > 0:
        if passed := fields.pass_over(count):
            count -= passed
            continue
        if fields.skip() < 0:
            raise Thrown("InvalidRecordException", "REC-18")
        fields.skip()
        count -= 1
