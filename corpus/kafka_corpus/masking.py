"""Logs above compression, without the bytes that may differ between codec libraries."""

from __future__ import annotations

from typing import Final

from kafka_corpus.authoring.build import put
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0
from kafka_records.log import split_entries
from kafka_records.message import decode_message

CODEC_BITS: Final = 0x07
# Two payloads are compared in memory; no case has more than this.
MAX_PAYLOAD: Final = 256 * 1024 * 1024


def masked(data: bytes) -> bytes:
    """*data* above compression: payloads opened, and no length or checksum over them."""
    return b"".join(_masked_entry(data[start:end]) for start, end in split_entries(data))


def _masked_entry(entry: bytes) -> bytes:
    if entry[MAGIC_OFFSET] == 2:
        attributes = int.from_bytes(entry[BATCH_V2.field("attributes").offset :][:2], "big")
        header = put(put(entry[: BATCH_V2.size], "batch_length", 0), "crc", 0)
        return header + _open(attributes, entry[BATCH_V2.size :], 2)
    message = decode_message(entry)
    header = put(put(entry[: MESSAGE_V0.size], "message_size", 0, layout=MESSAGE_V0), "crc", 0, layout=MESSAGE_V0)
    return header + repr(message[:5]).encode() + _open(message.attributes, message.value or b"", message.magic)


def _open(attributes: int, payload: bytes, magic: int) -> bytes:
    codec = COMPRESSIONS[attributes & CODEC_BITS]
    return decompress(codec, payload, magic=magic, most=MAX_PAYLOAD) if payload else b""
