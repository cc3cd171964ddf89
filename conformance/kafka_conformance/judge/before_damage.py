"""The messages of a wrapper before the first one whose checksum is wrong; pure.

Kafka's consumer delivers them before its error (NST-18): each has a right checksum of its own, and the wrapper
says which offsets they have, whatever another message holds.
"""

from __future__ import annotations

from typing import Final

from kafka_records import RecordFormatError
from kafka_records import attributes as bits
from kafka_records.checksum import checksum_legacy
from kafka_records.compression import decompress
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, CRC_OFFSET_LEGACY, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.message import decode_message, is_compressed
from kafka_records.message_set import Inner, base_offset_of, resolve
from kafka_records.model import Record

MAX_PAYLOAD: Final = 16 * 1024 * 1024


def messages_before_damage(entry: bytes) -> tuple[Record, ...]:
    """The records of *entry* before the damage; none if it is no wrapper whose only damage is inner checksums."""
    if entry[MAGIC_OFFSET] >= MAGIC_VALUE_V2:
        return ()
    try:
        return _sound_messages(entry)
    except RecordFormatError:
        return ()


def _sound_messages(entry: bytes) -> tuple[Record, ...]:
    wrapper = decode_message(entry)
    if not is_compressed(wrapper):
        return ()
    codec = bits.compression_of(wrapper.attributes, at=ATTRIBUTES_OFFSET_LEGACY, rule="LEG-16")
    payload = decompress(codec, wrapper.value or b"", magic=wrapper.magic, most=MAX_PAYLOAD)
    given = [payload[start:end] for start, end in split_entries(payload)]
    sealed = [_sealed(message) for message in given]
    messages = [Inner(0, decode_message(message)) for message in sealed]
    records = resolve(messages, base_offset_of(messages, wrapper), wrapper) if messages else []
    damaged = (at for at, pair in enumerate(zip(given, sealed, strict=True)) if pair[0] != pair[1])
    return tuple(records[: next(damaged, 0)])


def _sealed(message: bytes) -> bytes:
    crc = checksum_legacy(message).to_bytes(4, "big")
    return message[:CRC_OFFSET_LEGACY] + crc + message[CRC_OFFSET_LEGACY + len(crc) :]
