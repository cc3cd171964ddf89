"""Strings of Java's: what header keys become on the way through one.

The bytes that the broker stores: the producer's with a few fields set, or rebuilt records.

RWR-01, RWR-02: bytes are kept where codec and format are those of the topic;
then only offset and leader epoch change, and timestamp type, maximum and CRC if
they have to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.broker.batches import header_of
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.validation import Task
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import (
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V2,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TimestampType,
)
from kafka_records.errors import RecordFormatError
from kafka_records.layout import BATCH_V2, CRC_OFFSET_LEGACY, MESSAGE_V1
from kafka_records.log import encode
from kafka_records.model import Batch, Header, Record
from kafka_records.primitives import wrap_int64

# A surrogate, cut short or not: Java puts one replacement for it, Python one for each byte.
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
REPLACEMENT = "\ufffd".encode()


def java_utf8(data: bytes) -> bytes:
    r"""*data* decoded as UTF-8 and encoded again, each malformed part replaced (REC-21, REC-22).

    >>> java_utf8(b"a\xff"), java_utf8(b"\xed\xa0\x80")
    (b'a\xef\xbf\xbd', b'\xef\xbf\xbd')
    """
    return SURROGATE.sub(REPLACEMENT, data).decode(errors="replace").encode()


# What computeAttributes knows: in v2, and in v1.
KNOWN_BITS = COMPRESSION_CODEC_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_FLAG_MASK | CONTROL_FLAG_MASK
KNOWN_BITS_LEGACY = COMPRESSION_CODEC_MASK | TIMESTAMP_TYPE_MASK
MESSAGE_BODY_AT = MESSAGE_V1.size


def kept(entry: Entry, last_offset: int, max_timestamp: int, task: Task) -> bytes:
    """*entry* in place: offset, epoch, and the fields that the topic's timestamp type sets."""
    if entry.is_v2:
        return _kept_batch(entry, last_offset, max_timestamp, task)
    data = last_offset.to_bytes(8, "big", signed=True) + entry.data[8:]
    if entry.magic == MAGIC_VALUE_V0 or not _changes(entry, _timestamp_of(entry), max_timestamp, task):
        return data
    attributes = _with_type(entry.attributes & KNOWN_BITS_LEGACY, task)
    return with_timestamp(data, attributes, max_timestamp)


def _kept_batch(entry: Entry, last_offset: int, max_timestamp: int, task: Task) -> bytes:
    """DefaultRecordBatch#setLastOffset, #setPartitionLeaderEpoch, #setMaxTimestamp (CRC-10, CRC-11, HDR-07, OFF-03)."""
    header = header_of(entry)
    header = header._replace(
        base_offset=wrap_int64(last_offset - header.last_offset_delta), partition_leader_epoch=task.leader_epoch
    )
    records = entry.data[BATCH_V2.size :]
    if not _changes(entry, header.max_timestamp, max_timestamp, task):
        return BATCH_V2.struct.pack(*header) + records
    # ATT-09, TIM-15: unknown bits vanish, those of the second byte too, and bit 3 becomes the topic's.
    known = KNOWN_BITS | (DELETE_HORIZON_FLAG_MASK if task.does.knows_horizon else 0)
    attributes = _with_type(entry.attributes & known, task)
    header = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    unsigned = BATCH_V2.struct.pack(*header) + records
    return BATCH_V2.struct.pack(*header._replace(crc=checksum_v2(unsigned))) + records


def _changes(entry: Entry, current: int, max_timestamp: int, task: Task) -> bool:
    """RWR-02."""
    return entry.has_append_time != task.appends_time or current != max_timestamp


def _with_type(attributes: int, task: Task) -> int:
    return attributes | TIMESTAMP_TYPE_MASK if task.appends_time else attributes & ~TIMESTAMP_TYPE_MASK


def _timestamp_of(entry: Entry) -> int:
    place = MESSAGE_V1.field("timestamp")
    return int.from_bytes(entry.data[place.offset : place.offset + place.width], "big", signed=True)


def with_timestamp(data: bytes, attributes: int, timestamp: int) -> bytes:
    """A v1 message with other attributes and timestamp, its CRC made right (CRC-12)."""
    place = MESSAGE_V1.field("attributes").offset
    body = data[:place] + bytes((attributes,)) + timestamp.to_bytes(8, "big", signed=True) + data[MESSAGE_BODY_AT:]
    crc = checksum_legacy(body).to_bytes(4, "big")
    return body[:CRC_OFFSET_LEGACY] + crc + body[CRC_OFFSET_LEGACY + 4 :]


def rebuilt(first: Entry, records: Sequence[Record], task: Task) -> bytes:
    """A new batch of *records*, as MemoryRecordsBuilder writes it (RWR-05 to RWR-07).

    It takes producer and transaction from the *first* entry, and no unknown bits (ATT-10).  Offsets follow one
    another whatever they were (OFF-06), timestamps stay what they are even under LogAppendTime (RWR-12), and are
    what the records read as, so one and the same if bit 3 was set on a CreateTime topic (TIM-26).

    Raises:
        Thrown: the builder refuses (RWR-09).
    """
    placed = tuple(
        record._replace(offset=task.offset + index, headers=tuple(map(_written, record.headers)))
        for index, record in enumerate(records)
    )
    try:
        return encode(_batch(first, placed, task))
    except RecordFormatError as error:
        raise Thrown("IllegalArgumentException", error.rule) from None


def _batch(first: Entry, records: tuple[Record, ...], task: Task) -> Batch:
    return Batch(
        magic=task.magic,
        base_offset=task.offset,
        last_offset=task.offset + len(records) - 1,
        compression=task.target,
        timestamp_type=_timestamp_type(task),
        # TIM-07, NST-23: what a wrapper said does not count.
        max_timestamp=task.now if task.appends_time else max(record.timestamp for record in records),
        producer_id=first.producer_id,
        producer_epoch=first.number("producer_epoch") if first.is_v2 else -1,
        base_sequence=first.number("base_sequence") if first.is_v2 else -1,
        transactional=first.is_transactional,
        partition_leader_epoch=task.leader_epoch if task.magic >= MAGIC_VALUE_V2 else NO_PRODUCER_ID,
        records=records,
    )


def _timestamp_type(task: Task) -> TimestampType:
    if task.magic == MAGIC_VALUE_V0:
        return "none"
    return "append" if task.appends_time else "create"


def _written(header: Header) -> Header:
    """REC-22: a key has been a string of Java's in between."""
    assert header.key is not None  # it was read
    return Header(java_utf8(header.key), header.value)


def largest(timestamps: Sequence[int]) -> int:
    """The maximum, but not below "none" (TIM-09)."""
    return max((NO_TIMESTAMP, *timestamps))
