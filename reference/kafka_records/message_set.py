"""v0/v1 entries as batches: a plain message, or a wrapper with its inner messages.

A wrapper's value is a compressed message set (NST-01).  In v0 the inner offsets
are absolute (NST-14); in v1 they are relative to the last one, whose absolute
offset the wrapper carries (NST-08, seed 004:111).  AbstractLegacyRecordBatch.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_records import attributes as bits
from kafka_records.budget import BATCH_COST, MESSAGE_COST, PAYLOAD_COST, RECORD_COST, pay
from kafka_records.compression import compress, decompress
from kafka_records.constants import (
    INT32_MAX,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V1,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Compression,
)
from kafka_records.errors import RecordFormatError
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, ENTRY
from kafka_records.message import Message, decode_message, encode_message, is_compressed, is_too_small, layout_of
from kafka_records.model import Batch, Record
from kafka_records.primitives import wrap_int64


class Inner(NamedTuple):
    """An inner message, and where it starts in the decompressed set."""

    at: int
    message: Message


def decode_entry(data: bytes, room: int) -> tuple[Batch, int]:
    """Read one whole v0/v1 entry; give it and the rest of the budget."""
    message = decode_message(data)
    compression = bits.compression_of(message.attributes, at=ATTRIBUTES_OFFSET_LEGACY, rule="LEG-16")
    room = pay(room, BATCH_COST + RECORD_COST, offset=0)
    if compression == "none":
        records: tuple[Record, ...] = (as_record(message),)
    else:
        records, room = decode_wrapper(message, compression, room)
    batch = Batch(
        magic=message.magic,
        base_offset=records[0].offset,  # NST-26: known only after looking inside
        last_offset=message.offset,
        compression=compression,
        timestamp_type=bits.timestamp_type_of(message.attributes, message.magic),
        max_timestamp=message.timestamp,
        records=records,
    )
    return batch, room


def as_record(message: Message) -> Record:
    """A message as a record: no headers in v0 and v1 (LEG-22)."""
    return Record(message.offset, message.timestamp, message.key, message.value)


def decode_wrapper(wrapper: Message, compression: Compression, room: int) -> tuple[tuple[Record, ...], int]:
    """The inner messages of *wrapper*, with absolute offsets and the timestamps that hold."""
    if compression == "zstd":
        # LEG-15: DeepRecordsIterator "Invalid wrapper compressionType"
        message, at = "v0 and v1 know no zstd", ATTRIBUTES_OFFSET_LEGACY
        raise RecordFormatError("unsupported_compression", message, path="attributes", offset=at, rule="LEG-15")
    # NST-02: a wrapper's key should be null; any other key is ignored.
    key_size = 4 + len(wrapper.key or b"")
    value_at = layout_of(wrapper.magic).size + key_size + 4
    if wrapper.value is None:
        message = "a compressed message without a value"
        raise RecordFormatError("malformed", message, path="value_length", offset=value_at - 4, rule="NST-03")
    try:
        # NST-04: an empty value fails here, in the codec.
        inner = decompress(compression, wrapper.value, magic=wrapper.magic, most=room // PAYLOAD_COST)
    except RecordFormatError as error:
        raise error.inside("value", moved=value_at) from None
    try:
        messages, room = decode_inner(inner, pay(room, PAYLOAD_COST * len(inner), offset=0))
    except RecordFormatError as error:
        raise error.decompressed_at(value_at) from None
    base = base_offset_of(messages, wrapper)
    try:
        return tuple(resolve(messages, base, wrapper)), room
    except RecordFormatError as error:
        raise error.decompressed_at(value_at) from None


def decode_inner(data: bytes, room: int) -> tuple[list[Inner], int]:
    """Split a decompressed message set; a tail that is cut short is dropped (NST-06, NST-27)."""
    messages: list[Inner] = []
    at = 0
    # DataLogInputStream#nextBatch
    while at + LOG_OVERHEAD <= len(data):
        path = f"records[{len(messages)}]"
        _, size = ENTRY.struct.unpack_from(data, at)
        if is_too_small(size):
            message = f"an inner message of {size} bytes"
            raise RecordFormatError("malformed", message, path=f"{path}.message_size", offset=at + 8, rule="NST-07")
        end = at + LOG_OVERHEAD + size
        if end > len(data):
            break
        pay(room, size, offset=at, path=path)  # the message is copied, while it is read
        try:
            messages.append(Inner(at, decode_message(data[at:end])))
        except RecordFormatError as error:
            raise error.inside(path, moved=at) from None
        room = pay(room, MESSAGE_COST, offset=at, path=path)
        at = end
    if not messages:
        # NST-05, NST-27: "Found invalid compressed record set with no inner records"
        raise RecordFormatError("malformed", "no inner messages", path="records", offset=0, rule="NST-05")
    return messages, room


def resolve(messages: list[Inner], base: int, wrapper: Message) -> list[Record]:
    """The records that *messages* stand for.

    The wrapper's magic rules the offsets, each message's own magic its layout
    (NST-15).  LogAppendTime of a v1 wrapper overrides the time of v1 messages
    (NST-20), whatever their own timestamp type (NST-21).
    """
    append_time = bits.timestamp_type_of(wrapper.attributes, wrapper.magic) == "append"
    records = []
    for index, (start, message) in enumerate(messages):
        if is_compressed(message):
            # NST-16: "Inner messages must not be compressed"
            path, at = f"records[{index}].attributes", start + ATTRIBUTES_OFFSET_LEGACY
            raise RecordFormatError("malformed", "an inner message is compressed", path=path, offset=at, rule="NST-16")
        overridden = append_time and message.magic == MAGIC_VALUE_V1
        timestamp = wrapper.timestamp if overridden else message.timestamp
        records.append(Record(wrap_int64(base + message.offset), timestamp, message.key, message.value))
    return records


def base_offset_of(messages: list[Inner], wrapper: Message) -> int:
    """The number to add to inner offsets (NST-08 to NST-10, NST-12, NST-14)."""
    if wrapper.magic == MAGIC_VALUE_V0 or wrapper.offset == 0:
        # NST-09: "produce data from certain versions of librdkafka" has wrapper offset 0
        return 0
    last = messages[-1].message.offset
    if wrapper.offset < last:
        # NST-10: "Found invalid wrapper offset in compressed v1 message set"
        message = f"wrapper offset {wrapper.offset} is below the last inner offset {last}"
        raise RecordFormatError("malformed", message, path="last_offset", offset=0, rule="NST-10")
    return wrapper.offset - last


def encode_entry(batch: Batch) -> bytes:
    """Write a v0/v1 batch: each record a message, or all of them in one wrapper (LEG-24, NST-11)."""
    check_writable_messages(batch)
    attributes = bits.attributes_of(batch)
    if batch.compression == "none":
        return b"".join(encode_inner(batch, attributes, record, index, 0) for index, record in enumerate(batch.records))
    # NST-11, NST-22: inner offsets count from the base in v1; inner messages carry the
    # timestamp type, never the codec.
    base = batch.base_offset if batch.magic == MAGIC_VALUE_V1 else 0
    inner_attributes = attributes & bits.TIMESTAMP_TYPE_MASK
    inner = b"".join(
        encode_inner(batch, inner_attributes, record, index, base) for index, record in enumerate(batch.records)
    )
    value = compress(batch.compression, inner, magic=batch.magic)
    return encode_message(Message(batch.last_offset, batch.magic, attributes, batch.max_timestamp, None, value))


def encode_inner(batch: Batch, attributes: int, record: Record, index: int, base: int) -> bytes:
    """One record as a message; LogAppendTime puts the batch's time into each (NST-22)."""
    timestamp = batch.max_timestamp if batch.timestamp_type == "append" else record.timestamp
    try:
        return encode_message(
            Message(record.offset - base, batch.magic, attributes, timestamp, record.key, record.value)
        )
    except RecordFormatError as error:
        raise error.inside(f"records[{index}]") from None


def is_found_again(batch: Batch) -> bool:
    """Whether `base_offset_of` gives the base that inner offsets are counted from (NST-09, NST-10)."""
    if batch.last_offset == 0:
        return batch.base_offset == 0
    # Nothing to write it for is refused with a reason of its own.
    return not batch.records or (batch.base_offset >= 0 and batch.last_offset == batch.records[-1].offset)


def check_writable_messages(batch: Batch) -> None:
    """Refuse what MemoryRecordsBuilder refuses below v2 (LEG-15, LEG-22, LEG-27, OFF-07)."""
    for refused, rule, path, message in (
        (batch.compression == "zstd", "LEG-15", "compression", "v0 and v1 know no zstd"),
        (batch.transactional, "TXN-07", "transactional", "v0 and v1 know no transactions"),
        (batch.control, "LEG-27", "control", "v0 and v1 know no control records"),
        (batch.producer_id != NO_PRODUCER_ID, "LEG-27", "producer_id", "v0 and v1 know no producer ids"),
        (batch.delete_horizon is not None, "LEG-27", "delete_horizon", "v0 and v1 know no delete horizon"),
        (not batch.records, "CLN-21", "records", "v0 and v1 know no empty batches"),
        (
            batch.magic == MAGIC_VALUE_V1 and batch.timestamp_type == "none",
            "LEG-18",
            "timestamp_type",
            "v1 has no messages without a timestamp type",
        ),
        (
            batch.compression != "none" and batch.magic == MAGIC_VALUE_V1 and not is_found_again(batch),
            "NST-10",
            "last_offset",
            "a reader would not find this base in a wrapper with this offset",
        ),
    ):
        if refused:
            raise RecordFormatError("malformed", message, path=path, rule=rule)
    check_message_records(batch)


def check_message_records(batch: Batch) -> None:
    """Offsets rise, timestamps are not below -1, and there are no headers."""
    previous: int | None = None
    for index, record in enumerate(batch.records):
        path = f"records[{index}]"
        if record.headers:
            message = f"v{batch.magic} has no record headers"
            raise RecordFormatError("malformed", message, path=f"{path}.headers", rule="LEG-22")
        if previous is not None and record.offset <= previous:
            message = f"offset {record.offset} follows {previous}"
            raise RecordFormatError("malformed", message, path=f"{path}.offset", rule="OFF-07")
        if record.offset - batch.base_offset > INT32_MAX:
            # MemoryRecordsBuilder#recordWritten checks this in every format.
            message = f"offset {record.offset} is too far from {batch.base_offset}"
            raise RecordFormatError("malformed", message, path=f"{path}.offset", rule="OFF-08")
        if not NO_TIMESTAMP <= record.timestamp <= INT64_MAX:
            # MemoryRecordsBuilder#appendWithOffset: even where LogAppendTime or v0 leaves it out.
            message = f"timestamp is {record.timestamp}"
            raise RecordFormatError("malformed", message, path=f"{path}.timestamp", rule="TIM-04")
        previous = record.offset
