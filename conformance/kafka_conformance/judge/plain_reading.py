"""The one plain reading of broken v2 bytes, where they have one; pure.

Some bytes that Kafka refuses leave no doubt about their records: a varint with
more bytes than Kafka reads, a negative count where no record follows, an lz4
frame with an option that Kafka's reader does not know.  A codec that gives
exactly these records is more lenient than Kafka, without another result.  A
reading is plain if every length ends where the next field starts, and every
count is met.  Compressed bytes are read as the libraries of their formats do.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import lz4.frame
import zstandard

from kafka_records import Header, Record, RecordFormatError
from kafka_records import attributes as bits
from kafka_records.batch import BatchHeader, decode_header
from kafka_records.compression import decompress
from kafka_records.constants import MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD, Compression
from kafka_records.layout import ATTRIBUTES_OFFSET_V2, MAGIC_OFFSET
from kafka_records.log import split_entries

# Bytes of a varint that lenient readers read: as many as an int64 can take.
MAX_BYTES: Final = 10
MAX_PAYLOAD: Final = 16 * 1024 * 1024
_INT32: Final = 1 << 32
_INT64: Final = 1 << 64


class NotPlainError(ValueError):
    """The bytes can be read in more than one way, or in none."""


def plain_reading(data: bytes) -> tuple[tuple[Record, ...], ...] | None:
    """The records of each entry of *data*; None if there is no plain reading."""
    try:
        return tuple(_entry(data[start:end]) for start, end in split_entries(data))
    except (NotPlainError, RecordFormatError):
        return None


def _entry(data: bytes) -> tuple[Record, ...]:
    if data[MAGIC_OFFSET] != MAGIC_VALUE_V2:
        raise NotPlainError
    header = decode_header(data)
    compression = bits.compression_of(header.attributes, at=ATTRIBUTES_OFFSET_V2, rule="ATT-02")
    payload = data[RECORD_BATCH_OVERHEAD:]
    if header.record_count < 0 and not payload:
        return ()
    if compression != "none":
        payload = _decompressed(compression, payload)
    reader = _Reader(payload)
    records = []
    while not reader.at_end():
        records.append(_record(reader, header))
    if len(records) != header.record_count:
        raise NotPlainError
    return tuple(records)


def _decompressed(compression: Compression, data: bytes) -> bytes:
    try:
        return decompress(compression, data, magic=MAGIC_VALUE_V2, most=MAX_PAYLOAD)
    except RecordFormatError:
        if compression not in _LIBRARIES:
            raise NotPlainError from None
    try:
        return b"".join(_LIBRARIES[compression](data))
    except (zlib.error, RuntimeError, EOFError, zstandard.ZstdError):
        raise NotPlainError from None


def _gzip_members(data: bytes) -> Iterator[bytes]:
    while data:
        member = zlib.decompressobj(wbits=_GZIP)
        yield member.decompress(data, MAX_PAYLOAD)
        data = member.unused_data


def _lz4_frames(data: bytes) -> Iterator[bytes]:
    while data:
        if data[1:4] == _SKIPPABLE:
            data = data[8 + int.from_bytes(data[4:8], "little") :]
            continue
        frame = lz4.frame.LZ4FrameDecompressor()
        yield frame.decompress(data, max_length=MAX_PAYLOAD)
        data = frame.unused_data or b""


def _zstd_frames(data: bytes) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor(max_window_size=_ANY_WINDOW).stream_reader(data, read_across_frames=True) as frames:
        yield frames.read(MAX_PAYLOAD)


_GZIP: Final = 31  # zlib's number for the gzip container
_SKIPPABLE: Final = bytes.fromhex("2a4d18")  # 0x184D2A50 to 0x184D2A5F, without the lowest byte
_ANY_WINDOW: Final = 1 << 27
_LIBRARIES: Final[dict[Compression, Callable[[bytes], Iterator[bytes]]]] = {
    "gzip": _gzip_members,
    "lz4": _lz4_frames,
    "zstd": _zstd_frames,
}


def _record(reader: _Reader, header: BatchHeader) -> Record:
    length = reader.varint()
    end = reader.at + length
    reader.take(1)
    timestamp = _signed(header.base_timestamp + reader.varint(), _INT64)
    offset = _signed(header.base_offset + _signed(reader.varint(), _INT32), _INT64)
    key, value = reader.nullable(), reader.nullable()
    headers = tuple(_header(reader) for _ in range(max(reader.varint(), 0)))
    if reader.at != end:
        raise NotPlainError
    append_time = header.attributes & bits.TIMESTAMP_TYPE_MASK
    return Record(offset, header.max_timestamp if append_time else timestamp, key, value, headers)


def _header(reader: _Reader) -> Header:
    key = reader.nullable()
    if key is None:
        raise NotPlainError
    return Header(key, reader.nullable())


def _signed(value: int, size: int) -> int:
    value %= size
    return value - size if value >= size // 2 else value


class _Reader:
    """Reads fields of a payload, one after the other; `at` is the position."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def at_end(self) -> bool:
        return self.at == len(self._data)

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise NotPlainError
        self.at += size
        return self._data[self.at - size : self.at]

    def varint(self) -> int:
        """A zig-zag varint of up to `MAX_BYTES` bytes."""
        value = 0
        for index in range(MAX_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                value %= _INT64
                return (value >> 1) ^ -(value & 1)
        raise NotPlainError

    def nullable(self) -> bytes | None:
        length = self.varint()
        return None if length < 0 else self.take(length)
