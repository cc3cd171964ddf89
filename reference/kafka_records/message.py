"""v0 and v1 messages: one record each, or a wrapper around a compressed set.

    offset i64 | message_size i32 | crc u32 | magic i8 | attributes i8 | [v1: timestamp i64]
    key_length i32 | key | value_length i32 | value

LEG-01, LEG-02, seed 004:55-94, LegacyRecord.  Any bytes between the value and
the end of the message is ignored, though the CRC covers it (LEG-05, LEG-12).
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_records import attributes as bits
from kafka_records.checksum import checksum_legacy
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V0, NO_TIMESTAMP, RECORD_OVERHEAD_V0
from kafka_records.errors import RecordFormatError
from kafka_records.layout import CRC_OFFSET_LEGACY, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1, Layout
from kafka_records.primitives import decode_nullable_int32, encode_nullable_int32


class Message(NamedTuple):
    """The fields of one message; *timestamp* is NO_TIMESTAMP in v0."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def layout_of(magic: int) -> Layout:
    """v0's layout, or v1's for everything else: LegacyRecord only checks whether magic is 0."""
    return MESSAGE_V0 if magic == MAGIC_VALUE_V0 else MESSAGE_V1


def decode_message(data: bytes) -> Message:
    """Read one whole message, its 12-byte prefix included, and verify its CRC (LEG-04, NST-17)."""
    check_crc(data)
    layout = layout_of(data[MAGIC_OFFSET])
    # LEG-03: 14 bytes hold the fixed fields of both; v1 then lacks a length or two.
    offset, _, _, magic, attributes, *timestamp = layout.struct.unpack_from(data)
    key, at = decode_nullable_int32(data, layout.size, "key_length")
    value, _ = decode_nullable_int32(data, at, "value_length")
    return Message(offset, magic, attributes, timestamp[0] if timestamp else NO_TIMESTAMP, key, value)


def check_crc(data: bytes) -> None:
    """The CRC-32 covers everything from the magic byte on (LEG-04 to LEG-07)."""
    at = CRC_OFFSET_LEGACY
    stored = int.from_bytes(data[at : at + 4], "big")
    computed = checksum_legacy(data)
    if stored != computed:
        message = f"stored crc {stored}, computed crc {computed}"
        raise RecordFormatError("corrupt", message, path="crc", offset=at, rule="LEG-04")


def encode_message(message: Message) -> bytes:
    """Write one message with its size and CRC."""
    if message.timestamp < NO_TIMESTAMP:
        # LEG-21, TIM-04: LegacyRecord#write "Invalid message timestamp"
        text = f"timestamp is {message.timestamp}"
        raise RecordFormatError("malformed", text, path="timestamp", rule="LEG-21")
    body = encode_nullable_int32(message.key) + encode_nullable_int32(message.value)
    layout = layout_of(message.magic)
    size = layout.size - LOG_OVERHEAD + len(body)
    fields = (message.magic, message.attributes, message.timestamp)[: len(layout.fields) - 3]
    unsigned = layout.struct.pack(message.offset, size, 0, *fields) + body
    return layout.struct.pack(message.offset, size, checksum_legacy(unsigned), *fields) + body


def is_too_small(size: int) -> bool:
    """Whether a size cannot belong to any entry, of any magic (FRM-05, NST-07, A38)."""
    return size < RECORD_OVERHEAD_V0


def is_compressed(message: Message) -> bool:
    """Whether the value is a compressed message set (NST-01)."""
    return message.attributes & bits.COMPRESSION_CODEC_MASK != 0
