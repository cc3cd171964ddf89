"""The one plain reading of bytes that Kafka refuses, if they have one; pure.

Some bytes that Kafka refuses leave no doubt about their records: a varint with
more bytes than Kafka reads, a zero byte after the fields of a record, a record
length that says too much while its fields are whole, a gzip header whose
checksum is wrong.  A codec that gives exactly these records is more lenient
than Kafka, without another result.

Entries of v2 are read in two ways: by the lengths of their records, whatever is
left of a record after its fields, and by their fields, whatever the length of a
record says.  Both read as many records as the header counts.  Bytes have a plain
reading if one of the ways gives records, or both give the same, and if what is
left after them is no record or header.  Compressed bytes are read as the libraries of
their formats read them, and without checks that Kafka's readers make and others
leave out.  A magic that no release has is read as 2 where the checksum of v2, which
does not cover the magic, is right.  A header without a key has an empty one.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import lz4.block
import lz4.frame
import msgspec
import snappy
import zstandard
from msgspec import UNSET

from kafka_conformance.judge.compare import compare_records
from kafka_conformance.judge.observation import ConsumedRecords, Decoded, Observation
from kafka_conformance.judge.reach import complete_entries
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vector_format import input_of
from kafka_corpus.wire import WireRecord, to_wire_record
from kafka_records import Header, Record, RecordFormatError, decode
from kafka_records import attributes as bits
from kafka_records.batch import BatchHeader, decode_header
from kafka_records.compression import decompress
from kafka_records.compression.snappy import HEADER as XERIAL_HEADER
from kafka_records.compression.snappy import INT32
from kafka_records.constants import (
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_VALUE_V2,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
    Compression,
)
from kafka_records.layout import ATTRIBUTES_OFFSET_V2, ENTRY, MAGIC_OFFSET
from kafka_records.log import split_entries

# Bytes of a varint that lenient readers read; what does not fit an int64 has to be zero.
MAX_BYTES: Final = 16
MAX_PAYLOAD: Final = 16 * 1024 * 1024
_INT32: Final = 1 << 32
_INT64: Final = 1 << 64

# The field of an observation in short that says whether the records are those of the plain reading.
PLAIN: Final = "plain"

EntryRecords = tuple[Record, ...]


class NotPlainError(ValueError):
    """The bytes can be read in more than one way, or in none."""


def gives_plain_reading(case: Case, observation: Observation) -> bool:
    """Whether the codec gave exactly the records of the plain reading, as far as it shows them."""
    if case.op != "decode" or isinstance(case.input, Recipe):
        return False
    given = _given_records(observation)
    data = input_of(case)
    assert isinstance(data, bytes)
    if given is None or (reading := plain_reading(data)) is None:
        return False
    expected = [to_wire_record(record) for records in reading for record in records]
    given = [_with_keys(record) for record in given]
    return not [each for each in compare_records(expected, given).differences if not each.lossy]


def _with_keys(record: WireRecord) -> WireRecord:
    """*record* with empty header keys where it has none."""
    if record.headers is UNSET or not record.headers:
        return record
    return msgspec.structs.replace(record, headers=[(key or b"", value) for key, value in record.headers])


def plain_mark(case: Case, observation: Observation, *, accepted: bool) -> dict[str, bool]:
    """The field `PLAIN` of an observation in short; no field unless invalid bytes were *accepted*."""
    return {PLAIN: gives_plain_reading(case, observation)} if accepted and case.op == "decode" else {}


def _given_records(observation: Observation) -> list[WireRecord] | None:
    match observation:
        case Decoded(batches, None):
            return [record for batch in batches if batch.records is not UNSET for record in batch.records]
        case ConsumedRecords(records, _, False, None):
            return list(records)
    return None


def plain_reading(data: bytes) -> tuple[EntryRecords, ...] | None:
    """The records of each entry of *data*; None if there is no plain reading."""
    data = with_v2_magic(data)
    try:
        return tuple(_entry(data[start:end]) for start, end in _whole_entries(data))
    except (NotPlainError, RecordFormatError):
        return None


def with_v2_magic(data: bytes) -> bytes:
    """*data* with the magic 2 in the complete entries that have one above 2; a checksum of v0 or v1 is wrong then."""
    changed = bytearray(data)
    for start, _ in complete_entries(data):
        changed[start + MAGIC_OFFSET] = min(data[start + MAGIC_OFFSET], MAGIC_VALUE_V2)
    return bytes(changed)


def _whole_entries(data: bytes) -> Iterator[tuple[int, int]]:
    end = 0
    try:
        for start, end in split_entries(data):
            yield start, end
    except RecordFormatError:
        # The magic of an entry that is cut off: most readers wait for the rest of it before they look.
        if len(data) - end <= HEADER_SIZE_UP_TO_MAGIC:
            return  # too few bytes for an entry
        _, size = ENTRY.struct.unpack_from(data, end)
        if size < RECORD_OVERHEAD_V0 or size + LOG_OVERHEAD <= len(data) - end:
            raise NotPlainError from None


def _entry(data: bytes) -> EntryRecords:
    if data[MAGIC_OFFSET] != MAGIC_VALUE_V2:
        return tuple(record for batch in decode(data) for record in batch.records)
    header = decode_header(data)
    compression = bits.compression_of(header.attributes, at=ATTRIBUTES_OFFSET_V2, rule="ATT-02")
    payload = data[RECORD_BATCH_OVERHEAD:]
    if header.record_count < 0 and not payload:
        return ()
    if compression != "none":
        payload = _decompressed(compression, payload)
    return _records(payload, header)


def _records(payload: bytes, header: BatchHeader) -> EntryRecords:
    readings = []
    for by_length in (True, False):
        try:
            readings.append(_counted_records(payload, header, by_length=by_length))
        except NotPlainError:
            continue
    if not readings or readings[0] != readings[-1] or header.record_count < 0:
        raise NotPlainError
    return readings[0]


def _counted_records(payload: bytes, header: BatchHeader, *, by_length: bool) -> EntryRecords:
    reader = _Reader(payload)
    records = tuple(_record(reader, header, by_length=by_length) for _ in range(header.record_count))
    rest = payload[reader.at :]
    if any(rest) and (_is_record(rest, header) or _are_headers(rest)):
        raise NotPlainError
    return records


def _are_headers(data: bytes) -> bool:
    """Whether *data* is headers from its first byte to its last, which a count left out."""
    reader = _Reader(data)
    try:
        while reader.at < len(data):
            if reader.nullable() is None:
                return False
            reader.nullable()
    except NotPlainError:
        return False
    return bool(data)


def _is_record(data: bytes, header: BatchHeader) -> bool:
    try:
        _record(_Reader(data), header, by_length=True)
    except NotPlainError:
        return False
    return True


def _record(reader: _Reader, header: BatchHeader, *, by_length: bool) -> Record:
    length = reader.varint()
    end = reader.at + length
    reader.take(1)
    timestamp = _signed(header.base_timestamp + reader.varint(), _INT64)
    offset = _signed(header.base_offset + _signed(reader.varint(), _INT32), _INT64)
    key, value = reader.nullable(), reader.nullable()
    headers = _headers(reader, end)
    if by_length:
        _skip_to(end, reader)
    append_time = header.attributes & bits.TIMESTAMP_TYPE_MASK
    return Record(offset, header.max_timestamp if append_time else timestamp, key, value, headers)


def _skip_to(end: int, reader: _Reader) -> None:
    """Pass over what is left of a record, which is no header that the count leaves out."""
    if reader.at > end or _are_headers(reader.take(end - reader.at)):
        raise NotPlainError


def _headers(reader: _Reader, end: int) -> tuple[Header, ...]:
    count = reader.varint()
    if count < 0 and reader.at != end:
        raise NotPlainError
    return tuple(_header(reader) for _ in range(count))


def _header(reader: _Reader) -> Header:
    return Header(reader.nullable() or b"", reader.nullable())


def _signed(value: int, size: int) -> int:
    value %= size
    return value - size if value >= size // 2 else value


class _Reader:
    """Reads fields of a payload, one after the other; `at` is the position."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

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
                if index >= _INT64_BYTES and value >= _INT64:
                    raise NotPlainError
                value %= _INT64
                return (value >> 1) ^ -(value & 1)
        raise NotPlainError

    def nullable(self) -> bytes | None:
        length = self.varint()
        return None if length < 0 else self.take(length)


_INT64_BYTES: Final = 10


# Compressed payloads


def _decompressed(compression: Compression, data: bytes) -> bytes:
    try:
        return decompress(compression, data, magic=MAGIC_VALUE_V2, most=MAX_PAYLOAD)
    except RecordFormatError:
        pass
    for read in _READERS[compression]:
        try:
            return b"".join(read(data))
        except (
            NotPlainError,
            OSError,
            EOFError,
            zlib.error,
            RuntimeError,
            lz4.block.LZ4BlockError,
            zstandard.ZstdError,
            snappy.UncompressError,
        ):
            continue
    raise NotPlainError


def _gzip_members(data: bytes) -> Iterator[bytes]:
    while data:
        member = zlib.decompressobj(wbits=_GZIP)
        yield member.decompress(data, MAX_PAYLOAD)
        data = member.unused_data


def _gzip_without_header_checksum(data: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as members:
        yield members.read(MAX_PAYLOAD)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """The blocks of an xerial stream; the last ends with the payload, whatever its length says."""
    at = XERIAL_HEADER.size
    while at < len(data):
        (length,) = INT32.unpack_from(data, at)
        block = data[at + INT32.size :] if length < 0 else data[at + INT32.size :][:length]
        yield snappy.uncompress(block)
        at += INT32.size + len(block)


def _lz4_frames(data: bytes) -> Iterator[bytes]:
    while data:
        if data[1:4] == SKIPPABLE:
            data = data[8 + int.from_bytes(data[4:8], "little") :]
            continue
        frame = lz4.frame.LZ4FrameDecompressor()
        yield frame.decompress(data, max_length=MAX_PAYLOAD)
        data = frame.unused_data or b""


def _legacy_lz4_frame(data: bytes) -> Iterator[bytes]:
    """The blocks of a frame of the lz4 command before its frame format: a length in little endian, then the block."""
    if not data.startswith(_LEGACY_LZ4):
        raise NotPlainError
    at = len(_LEGACY_LZ4)
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        yield lz4.block.decompress(data[at + 4 :][:length], uncompressed_size=_LEGACY_BLOCK)
        at += 4 + length


def _zstd_frames(data: bytes) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor(max_window_size=_ANY_WINDOW).stream_reader(data, read_across_frames=True) as frames:
        yield frames.read(MAX_PAYLOAD)


def _first_zstd_frame(data: bytes) -> Iterator[bytes]:
    """The first frame, where what follows it is none."""
    frame = zstandard.ZstdDecompressor(max_window_size=_ANY_WINDOW).decompressobj()
    yield frame.decompress(data)
    if not frame.eof or frame.unused_data.startswith(_ZSTD) or frame.unused_data[1:4] == SKIPPABLE:
        raise NotPlainError


_GZIP: Final = 31  # zlib's number for the gzip container
SKIPPABLE: Final = bytes.fromhex("2a4d18")  # 0x184D2A50 to 0x184D2A5F, without the lowest byte
_ZSTD: Final = bytes.fromhex("28b52ffd")
_ANY_WINDOW: Final = 1 << 30
_LEGACY_LZ4: Final = bytes.fromhex("02214c18")
_LEGACY_BLOCK: Final = 8 * 1024 * 1024
_READERS: Final[dict[Compression, tuple[Callable[[bytes], Iterator[bytes]], ...]]] = {
    "gzip": (_gzip_members, _gzip_without_header_checksum),
    "snappy": (_snappy_blocks,),
    "lz4": (_lz4_frames, _legacy_lz4_frame),
    "zstd": (_zstd_frames, _first_zstd_frame),
}
