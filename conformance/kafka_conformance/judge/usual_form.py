"""Whether bytes are as writers, clocks and logs make them; pure.

What Kafka reads and no writer makes is a recommendation at most: forms of varints and
lengths, attributes without a meaning, times after 2100, offsets of 2^53 and more,
compressed streams in several parts of which one is empty.
The control records of the metadata log are served to no consumer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final

from kafka_corpus.case import Case, Recipe
from kafka_corpus.vector_format import input_of
from kafka_records import Batch, RecordFormatError, decode, encode
from kafka_records import attributes as bits
from kafka_records.batch import encode_at
from kafka_records.checksum import checksum_v2
from kafka_records.compression import decompress
from kafka_records.compression.snappy import MAGIC as XERIAL_MAGIC
from kafka_records.constants import (
    COMPRESSIONS,
    MAGIC_VALUE_V2,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
)
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    CRC_OFFSET_V2,
    MAGIC_OFFSET,
)
from kafka_records.log import split_entries
from kafka_records.message import decode_message

# Case functions with bytes that no known writer makes for Kafka: compressed streams in several parts, of which one is
# empty, or no data; 100,001 headers; a bit of LogAppendTime of some messages inside a wrapper; a checksum that leaves
# out a part of the message; zeros after a frame; the padding of down-conversion, which is in no log; reserved bits of
# an lz4 descriptor; wrappers with offsets of zero only, which brokers repair; append time with deltas that are not 0
# under a delete horizon, with which the cleaner writes other deltas; eleven bytes at the end that begin no batch; a
# part of a batch whose attributes name no codec.
UNWRITTEN: Final = frozenset(
    {
        "conversion.padding_behind_a_wrapper",
        "conversion.padding_behind_messages",
        "conversion.padding_cut_short",
        "framing.eleven_bytes_of_ones",
        "framing.eleven_zero_bytes",
        "framing.rest_of_a_partial_batch_is_not_looked_at",
        "framing.size_of_the_last_message_too_large",
        "gzip.empty_member",
        "gzip.members_of_different_kinds",
        "lz4.bd_refused",
        "lz4.flg_refused",
        "message_set.all_inner_offsets_zero",
        "message_set.inner_append_bit_is_ignored",
        "message_set.inner_create_bit_is_ignored",
        "resources.many_frames",
        "resources.many_headers",
        "snappy.block_of_no_output",
        "snappy.half_a_header_before_any_output",
        "timestamp.append_time_under_a_horizon",
        "v0_message.crc_covers_slack",
        "v1_message.crc_covers_slack",
        "zstd.bytes_behind_the_frame",
        "zstd.empty_frames",
        "zstd.skippable_frame",
    }
)
# Rules of the metadata log, which brokers serve to no consumer.
_OF_METADATA_LOG: Final = "KRF-"
MAX_PAYLOAD: Final = 256 * 1024 * 1024
# Milliseconds: the clocks of producers are between 1970 and 2100.
LATEST: Final = 4_102_444_800_000
# No log gets as far, and numbers of JavaScript are exact up to it.
LARGEST_OFFSET: Final = 1 << 53
# A batch of 2 GiB, of the smallest records, has fewer.
LARGEST_DELTA: Final = 1 << 30
# The markers of all releases: a key of version 0 and type 0 (ABORT) or 1 (COMMIT), a value of version 0 and the
# coordinator's epoch (KIP-98).
_ABORT_KEY: Final = bytes(4)
_MARKER_KEYS: Final = (_ABORT_KEY, bytes(3) + b"\x01")
_MARKER_VALUE: Final = struct.Struct(">hi")
_KNOWN_ATTRIBUTES: Final = (
    bits.COMPRESSION_CODEC_MASK
    | bits.TIMESTAMP_TYPE_MASK
    | bits.TRANSACTIONAL_FLAG_MASK
    | bits.CONTROL_FLAG_MASK
    | bits.DELETE_HORIZON_FLAG_MASK
)


def is_unusual(case: Case) -> bool:
    """Whether no writer makes such bytes, no clock gives such times, or no log gets to such offsets."""
    if isinstance(case.input, Batch):
        return not is_of_a_producer(case.input)
    if case.op != "decode":
        return False
    if case.id.partition("[")[0] in UNWRITTEN or case.rules[0].startswith(_OF_METADATA_LOG):
        return True
    if case.expect.verdict != "valid" or isinstance(case.input, Recipe):
        return False
    data = input_of(case)
    assert isinstance(data, bytes)
    batches = case.expect.batches
    usual = has_usual_times(batches) and has_usual_offsets(batches) and is_canonical(data, batches)
    return not usual or not has_usual_markers(batches) or repeats_xerial_header(data) or has_long_snappy_length(data)


def is_of_a_producer(batch: Batch) -> bool:
    """Whether a producer can be given *batch*: no gaps, times of a clock, nothing that only brokers write."""
    offsets = [record.offset for record in batch.records]
    consecutive = offsets == list(range(batch.base_offset, batch.base_offset + len(offsets)))
    counted = not offsets or batch.last_offset == offsets[-1]
    timed = batch.magic == 0 or all(0 <= record.timestamp <= LATEST for record in batch.records)
    own = (
        batch.timestamp_type != "append" and batch.delete_horizon is None and (batch.transactional or not batch.control)
    )
    return consecutive and counted and timed and own


def repeats_xerial_header(data: bytes) -> bool:
    """Whether a snappy payload has a second xerial header, which snappy-java reads and no writer makes."""
    return any(_xerial_headers(data[start:end]) > 1 for start, end in split_entries(data))


def _xerial_headers(entry: bytes) -> int:
    return entry.count(XERIAL_MAGIC) if _names_snappy(entry) else 0


def _names_snappy(entry: bytes) -> bool:
    legacy = entry[MAGIC_OFFSET] < MAGIC_VALUE_V2
    at = ATTRIBUTES_OFFSET_LEGACY if legacy else ATTRIBUTES_OFFSET_V2 + 1
    return entry[at] & bits.COMPRESSION_CODEC_MASK == COMPRESSIONS.index("snappy")


def has_long_snappy_length(data: bytes) -> bool:
    """Whether the length before a raw snappy block has more bytes than it needs: its last one is 0."""
    return any(_has_long_length(data[start:end]) for start, end in split_entries(data))


def _has_long_length(entry: bytes) -> bool:
    if not _names_snappy(entry):
        return False
    payload = entry[BATCH_V2.size :] if entry[MAGIC_OFFSET] == MAGIC_VALUE_V2 else decode_message(entry).value or b""
    ends = [at for at, byte in enumerate(payload[:5]) if byte < 0x80]
    return not payload.startswith(XERIAL_MAGIC) and bool(ends) and ends[0] > 0 and payload[ends[0]] == 0


def is_canonical(data: bytes, batches: Sequence[Batch]) -> bool:
    """Whether the records in *data* have the form that writers give them; compressed bytes may have any.

    Kafka reads forms that no writer produces: varints longer than needed, lengths below -1 for null, unknown
    attributes, records before the base offset.
    """
    try:
        return all(
            _is_as_written(data[start:end], batch)
            for (start, end), batch in zip(split_entries(data), batches, strict=False)
        )
    except RecordFormatError:
        return False


def _is_as_written(entry: bytes, batch: Batch) -> bool:
    if entry[MAGIC_OFFSET] != MAGIC_VALUE_V2:
        # Wrappers have several forms that writers use.
        return batch.compression != "none" or form_of_writer(batch) == entry
    header = BATCH_V2.values(entry)
    if header["attributes"] & ~_KNOWN_ATTRIBUTES:
        return False
    if any(not batch.base_offset <= record.offset <= batch.last_offset for record in batch.records):
        return False
    payload = entry[RECORD_BATCH_OVERHEAD:]
    if batch.records and batch.timestamp_type == "append":
        return _has_usual_times_beneath(entry, batch)
    if payload and batch.compression != "none":
        payload = decompress(batch.compression, payload, magic=MAGIC_VALUE_V2, most=MAX_PAYLOAD)
    base = header["base_offset"], header["base_timestamp"]
    return payload == b"".join(_record(index, batch, base) for index in range(len(batch.records)))


def _has_usual_times_beneath(entry: bytes, batch: Batch) -> bool:
    """Whether the times that LogAppendTime hides are usual.

    With a delete horizon they are the append time: the cleaner, which alone sets one, writes each record again with the
    time that it has read (`MemoryRecords.buildRetainedRecordsInto`).
    """
    sent = bytearray(entry)
    sent[ATTRIBUTES_OFFSET_V2 + 1] &= ~bits.TIMESTAMP_TYPE_MASK
    sent[CRC_OFFSET_V2 : CRC_OFFSET_V2 + 4] = checksum_v2(bytes(sent)).to_bytes(4, "big")
    try:
        beneath = decode(bytes(sent))
        if batch.delete_horizon is None:
            return has_usual_times(beneath)
        return all(record.timestamp == batch.max_timestamp for each in beneath for record in each.records)
    except RecordFormatError:
        return False


def has_right_maximum(batch: Batch) -> bool:
    """Whether the max timestamp of a v2 batch of CreateTime is that of its records, if it has any.

    Source: `LogValidator.validateMessagesAndAssignOffsetsCompressed` and `MemoryRecordsBuilder.recordWritten`.
    """
    if not batch.records or batch.timestamp_type == "append":
        return True
    return batch.max_timestamp == max(record.timestamp for record in batch.records)


def has_markers_of_brokers(batches: Sequence[Batch]) -> bool:
    """Whether each control batch is one that brokers write: a marker, or no record once the cleaner has removed it.

    Source: `MemoryRecords.writeEndTransactionalMarker` and `EndTransactionMarker`.
    """
    return all(_is_marker_of_a_broker(batch) for batch in batches if batch.control)


def _is_marker_of_a_broker(batch: Batch) -> bool:
    if not batch.records:
        return batch.transactional  # others are of the metadata log, which no cleaner touches
    marker, *others = batch.records
    alone = not (others or marker.headers) and batch.compression == "none" and batch.base_sequence == NO_SEQUENCE
    return alone and marker.key in _MARKER_KEYS and _is_marker_value(marker.value)


def has_list_of_brokers(batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> bool:
    """Whether brokers can list these *aborted* transactions, by producer id and first offset, for *batches*.

    The first offset of a transaction is that of a batch, not one inside, and the next marker of its producer aborts it.
    Transactions of one producer are listed as they were aborted, the earlier one first.

    Source: `ProducerAppendInfo.maybeCreateTxnMetadata` and `ProducerStateManager.completeTxn`.
    """
    in_order = all(
        first < later for (who, first), (other, later) in pairwise(sorted(aborted, key=itemgetter(0))) if who == other
    )
    return in_order and all(_is_listed(producer_id, first, batches) for producer_id, first in aborted)


def _is_listed(producer_id: int, first: int, batches: Sequence[Batch]) -> bool:
    own = [batch for batch in batches if batch.producer_id == producer_id and batch.last_offset >= first]
    markers = [batch.records[0].key for batch in own if batch.control and batch.records]
    return markers[:1] in ([], [_ABORT_KEY]) and all(batch.base_offset >= first for batch in own)


def _is_marker_value(value: bytes | None) -> bool:
    return value is not None and len(value) == _MARKER_VALUE.size and _MARKER_VALUE.unpack(value)[0] == 0


def _record(index: int, batch: Batch, base: tuple[int, int]) -> bytes:
    record = batch.records[index]
    return encode_at(index, record, *base)


def form_of_writer(batch: Batch) -> bytes:
    """The bytes of *batch*; none if they cannot be written."""
    try:
        return encode(batch)
    except RecordFormatError:
        return b""


def has_usual_times(batches: Sequence[Batch]) -> bool:
    """Whether all records of each batch have times from 1970 to 2100, or none has; no broker's clock says 0."""
    return all(map(_has_usual_times, batches))


def _has_usual_times(batch: Batch) -> bool:
    times = {record.timestamp for record in batch.records}
    if (batch.delete_horizon or 0) > LATEST:
        return False
    appended = batch.timestamp_type == "append"
    has_none = times == {NO_TIMESTAMP} and not appended
    return has_none or all(appended <= time <= LATEST for time in times)


def has_usual_offsets(batches: Sequence[Batch]) -> bool:
    """Whether a log can get as far as the records of each batch, and a producer can put as many into one."""
    return all(
        batch.last_offset - batch.base_offset < LARGEST_DELTA
        and all(record.offset < LARGEST_OFFSET for record in batch.records)
        for batch in batches
    )


def has_usual_markers(batches: Sequence[Batch]) -> bool:
    """Whether control batches are transactional: others are of the metadata log."""
    return all(batch.transactional for batch in batches if batch.control)
