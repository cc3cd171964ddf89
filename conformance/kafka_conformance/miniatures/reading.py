"""Decoders that get one thing wrong."""

from __future__ import annotations

import zlib
from typing import Final

from msgspec import UNSET

from kafka_conformance.miniatures.base import Miniature, on_batches, on_records, records_of
from kafka_conformance.testee import CodecError
from kafka_conformance.testees import reference
from kafka_corpus.wire import WireBatch, WireRecord
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import INT32_MAX, LOG_OVERHEAD
from kafka_records.layout import BATCH_V2, MESSAGE_V0

MAGIC_AT: Final = BATCH_V2.field("magic").offset
CRC_V2: Final = BATCH_V2.field("crc")
CRC_V0: Final = MESSAGE_V0.field("crc")
ATTRIBUTES: Final = BATCH_V2.field("attributes").offset + 1  # the byte that is looked at
APPEND_TIME: Final = 0x08
CODEC: Final = 0x07
GZIP: Final = 1
XERIAL: Final = b"\x82SNAPPY\x00"


def _is_v2(data: bytes) -> bool:
    return len(data) >= BATCH_V2.size and data[MAGIC_AT] == 2


def _resealed(data: bytes) -> bytes:
    """*data*, one whole entry, with the checksum that it should have."""
    if _is_v2(data):
        return data[: CRC_V2.offset] + checksum_v2(data).to_bytes(4, "big") + data[CRC_V2.offset + 4 :]
    if len(data) > MAGIC_AT and data[MAGIC_AT] in (0, 1):
        return data[: CRC_V0.offset] + checksum_legacy(data).to_bytes(4, "big") + data[CRC_V0.offset + 4 :]
    return data


def _ignores_crc(data: bytes) -> list[WireBatch]:
    size = int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    whole = LOG_OVERHEAD < size <= len(data)
    return reference.decode(_resealed(data[:size]) + data[size:] if whole else data)


def _crc_covers_epoch(data: bytes) -> list[WireBatch]:
    stored = int.from_bytes(data[CRC_V2.offset : CRC_V2.offset + 4], "big")
    if _is_v2(data) and stored != zlib.crc32(data[LOG_OVERHEAD:]):
        raise CodecError("corrupt", "the checksum does not match")
    return reference.decode(data)


def _no_zigzag(record: WireRecord) -> None:
    """A length read without zig-zag is twice too long: what follows goes with it."""
    if record.key and isinstance(record.value, bytes):
        taken = record.value[: len(record.key)]
        record.key, record.value = record.key + taken, record.value[len(taken) :]


def _empty_as_null(record: WireRecord) -> None:
    record.key = record.key or None if record.key is not UNSET else UNSET
    record.value = record.value or None if record.value is not UNSET else UNSET


def _null_as_empty(record: WireRecord) -> None:
    record.key = b"" if record.key is None else record.key
    record.value = b"" if record.value is None else record.value


def _drops_headers(record: WireRecord) -> None:
    record.headers = []


def _ignores_append_time(data: bytes) -> list[WireBatch]:
    """Record timestamps as they stand in the records, whatever the batch says."""
    if not (_is_v2(data) and data[ATTRIBUTES] & APPEND_TIME):
        return reference.decode(data)
    reference.decode(data)
    cleared = data[:ATTRIBUTES] + bytes((data[ATTRIBUTES] & ~APPEND_TIME,)) + data[ATTRIBUTES + 1 :]
    batches = reference.decode(_resealed(cleared))
    for batch in batches:
        batch.timestamp_type = "append"
    return batches


def _relative_offsets(batch: WireBatch) -> None:
    """Inner offsets of a v1 wrapper as they stand there."""
    if batch.magic == 1 and batch.compression != "none":
        first = records_of(batch)[0].offset
        for record in records_of(batch):
            assert isinstance(record.offset, int)
            assert isinstance(first, int)
            record.offset -= first


def _first_gzip_member(data: bytes) -> list[WireBatch]:
    if _is_v2(data) and data[ATTRIBUTES] & CODEC == GZIP:
        reference.decode(data)
        first = zlib.decompressobj(31)
        first.decompress(data[BATCH_V2.size :])
        if first.unused_data:
            raise CodecError("truncated", "the data ends before the records do")
    return reference.decode(data)


def _drops_the_tail(data: bytes) -> list[WireBatch]:
    """Takes whatever stands before the first error, and says nothing about the error."""
    try:
        return reference.decode(data)
    except CodecError as error:
        return error.batches


def _raw_snappy_only(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    if XERIAL in data:
        raise CodecError("decompression", "corrupt snappy data")
    return batches


def _last_offset_by_one(batch: WireBatch) -> None:
    assert isinstance(batch.last_offset, int)
    batch.last_offset += 1


def _unsigned_epoch(batch: WireBatch) -> None:
    assert isinstance(batch.producer_epoch, int)
    batch.producer_epoch &= 0xFFFF


def _sequence_overflows(batch: WireBatch) -> None:
    """The sequence of the last record, as if the sequence of the batch could not wrap."""
    assert isinstance(batch.base_sequence, int)
    assert isinstance(batch.last_offset, int)
    assert isinstance(batch.base_offset, int)
    if batch.base_sequence + batch.last_offset - batch.base_offset > INT32_MAX:
        batch.base_sequence -= 1 << 32


def _swaps_key_and_value(record: WireRecord) -> None:
    record.key, record.value = record.value, record.key


def _timestamps_of_32_bits(record: WireRecord) -> None:
    assert isinstance(record.timestamp, int)
    record.timestamp &= 0xFFFFFFFF


def _keys_as_text(record: WireRecord) -> None:
    assert isinstance(record.headers, list)
    record.headers = [(key.decode(errors="replace").encode(), value) for key, value in record.headers]


def _one_kind_of_error(data: bytes) -> list[WireBatch]:
    try:
        return reference.decode(data)
    except CodecError as error:
        raise CodecError("unsupported_magic", str(error)) from error


def _drops_the_last_record(batch: WireBatch) -> None:
    if len(records_of(batch)) > 1:
        batch.records = records_of(batch)[:-1]


def _refuses_empty(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    if any(not records_of(batch) for batch in batches):
        raise CodecError("malformed", "a batch without records")
    return batches


IGNORES_CRC = Miniature(
    NAME="ignores_crc", wrong="does not look at the checksum", caught_as="accepts_invalid", decode=_ignores_crc
)
CRC_COVERS_EPOCH = Miniature(
    NAME="crc_covers_epoch",
    wrong="a CRC of another kind, over the leader epoch too",
    caught_as="rejects_valid",
    decode=_crc_covers_epoch,
)
NO_ZIGZAG = Miniature(
    NAME="no_zigzag", wrong="reads lengths without zig-zag", caught_as="wrong_data", decode=on_records(_no_zigzag)
)
EMPTY_AS_NULL = Miniature(
    NAME="empty_as_null", wrong="empty is null", caught_as="wrong_data", decode=on_records(_empty_as_null)
)
NULL_AS_EMPTY = Miniature(
    NAME="null_as_empty", wrong="null is empty", caught_as="wrong_data", decode=on_records(_null_as_empty)
)
DROPS_HEADERS = Miniature(
    NAME="drops_headers", wrong="reads no headers", caught_as="wrong_data", decode=on_records(_drops_headers)
)
IGNORES_APPEND_TIME = Miniature(
    NAME="ignores_append_time",
    wrong="LogAppendTime does not override the records' timestamps",
    caught_as="wrong_data",
    decode=_ignores_append_time,
)
RELATIVE_OFFSETS = Miniature(
    NAME="relative_offsets",
    wrong="inner offsets of a v1 wrapper are not made absolute",
    caught_as="wrong_data",
    decode=on_batches(_relative_offsets),
)
FIRST_GZIP_MEMBER = Miniature(
    NAME="first_gzip_member", wrong="reads the first gzip member", caught_as="rejects_valid", decode=_first_gzip_member
)
DROPS_THE_TAIL = Miniature(
    NAME="drops_the_tail",
    wrong="takes the rest behind an error for padding",
    caught_as="accepts_invalid",
    decode=_drops_the_tail,
)
RAW_SNAPPY_ONLY = Miniature(
    NAME="raw_snappy_only", wrong="knows no xerial blocks", caught_as="rejects_valid", decode=_raw_snappy_only
)
LAST_OFFSET_BY_ONE = Miniature(
    NAME="last_offset_by_one",
    wrong="the last offset is the next one",
    caught_as="wrong_data",
    decode=on_batches(_last_offset_by_one),
)
UNSIGNED_EPOCH = Miniature(
    NAME="unsigned_epoch",
    wrong="the producer epoch is unsigned",
    caught_as="wrong_data",
    decode=on_batches(_unsigned_epoch),
)
SEQUENCE_OVERFLOWS = Miniature(
    NAME="sequence_overflows",
    wrong="sequences do not wrap",
    caught_as="wrong_data",
    decode=on_batches(_sequence_overflows),
)
SWAPS_KEY_AND_VALUE = Miniature(
    NAME="swaps_key_and_value", wrong="key is value", caught_as="wrong_data", decode=on_records(_swaps_key_and_value)
)
TIMESTAMPS_OF_32_BITS = Miniature(
    NAME="timestamps_of_32_bits",
    wrong="timestamps are cut to 32 bits",
    caught_as="wrong_data",
    decode=on_records(_timestamps_of_32_bits),
)
KEYS_AS_TEXT = Miniature(
    NAME="keys_as_text", wrong="header keys become text", caught_as="lossy", decode=on_records(_keys_as_text)
)
ONE_KIND_OF_ERROR = Miniature(
    NAME="one_kind_of_error", wrong="every error is the same", caught_as="wrong_error", decode=_one_kind_of_error
)
DROPS_THE_LAST_RECORD = Miniature(
    NAME="drops_the_last_record",
    wrong="stops one record early",
    caught_as="wrong_data",
    decode=on_batches(_drops_the_last_record),
)
REFUSES_EMPTY = Miniature(
    NAME="refuses_empty", wrong="refuses compacted, empty batches", caught_as="rejects_valid", decode=_refuses_empty
)
