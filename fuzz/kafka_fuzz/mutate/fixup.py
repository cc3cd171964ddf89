"""Write entries from their fields with right sizes and checksums, and fix up those of changed entries.

The layout tables give two structs for each format: the fields before the
checksummed bytes, and the checksummed fields.

Compression is fast, since it runs thousands of times a second.  The framing is that of
`kafka_corpus.authoring.frames`; the content is compressed by libraries at their cheapest
settings, which every reader has to accept.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from typing import Final
from zlib import crc32

import lz4.block
import snappy
import zstandard
from crc32c import crc32c

from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    XERIAL_HEADER,
    gzip_header,
    gzip_trailer,
    lz4_data,
    lz4_header,
    xerial_chunk,
)
from kafka_records import RecordFormatError
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, LOG_OVERHEAD, MAGIC_VALUE_V2, NO_TIMESTAMP, Compression
from kafka_records.layout import (
    BATCH_V2,
    CRC_OFFSET_LEGACY,
    CRC_OFFSET_V2,
    CRC_START_LEGACY,
    CRC_START_V2,
    ENTRY,
    MAGIC_OFFSET,
    MESSAGE_V0,
    MESSAGE_V1,
    WIDTHS,
    FixedField,
    Layout,
)
from kafka_records.message import Message
from kafka_records.varint import encode_varint, encode_varlong


def _struct(fields: tuple[FixedField, ...]) -> Struct:
    return Struct(">" + "".join(WIDTHS[field.type][0] for field in fields))


def _checked(layout: Layout, start: int) -> tuple[FixedField, ...]:
    return tuple(field for field in layout.fields if field.offset >= start)


HEAD_V2: Final = _struct(tuple(field for field in BATCH_V2.fields if field.offset < CRC_START_V2))
CHECKED_V2: Final = _checked(BATCH_V2, CRC_START_V2)
TAIL_V2: Final = _struct(CHECKED_V2)
_tail_values: Final = itemgetter(*(field.name for field in CHECKED_V2))

HEAD_LEGACY: Final = _struct(tuple(field for field in MESSAGE_V0.fields if field.offset < CRC_START_LEGACY))
TAIL_V0: Final = _struct(_checked(MESSAGE_V0, CRC_START_LEGACY))
TAIL_V1: Final = _struct(_checked(MESSAGE_V1, CRC_START_LEGACY))

INT32: Final = Struct(">i")
UINT32: Final = Struct(">I")
NULL: Final = INT32.pack(-1)
SIZE_AT: Final = ENTRY.field("size").offset
SMALL_VARINTS: Final = {value: encode_varint(value) for value in range(-64, 8192)}


def varint(value: int) -> bytes:
    """An int32 in zig-zag form, the shortest."""
    return SMALL_VARINTS.get(value) or encode_varint(value)


def varlong(value: int) -> bytes:
    """An int64 in zig-zag form, the shortest."""
    return SMALL_VARINTS.get(value) or encode_varlong(value)


def write_batch_bytes(header: Mapping[str, int], packed: bytes) -> bytes:
    """A v2 batch around *packed*; `batch_length` and `crc` are right unless *header* has them."""
    checked = TAIL_V2.pack(*_tail_values(header)) + packed
    head = HEAD_V2.pack(
        header["base_offset"],
        header.get("batch_length", BATCH_V2.size - LOG_OVERHEAD + len(packed)),
        header["partition_leader_epoch"],
        header["magic"],
        header["crc"] if "crc" in header else crc32c(checked),
    )
    return head + checked


def write_message_bytes(message: Message, body: bytes | None = None) -> bytes:
    """A v0 or v1 message; *body* replaces key and value."""
    if message.magic:
        checked = TAIL_V1.pack(message.magic, message.attributes, message.timestamp)
    else:
        checked = TAIL_V0.pack(message.magic, message.attributes)
    checked += nullable_bytes(message.key) + nullable_bytes(message.value) if body is None else body
    return HEAD_LEGACY.pack(message.offset, len(checked) + 4, crc32(checked)) + checked


def nullable_bytes(content: bytes | None) -> bytes:
    """An int32 length and the content, as v0 and v1 have it."""
    return NULL if content is None else INT32.pack(len(content)) + content


def fixed_up(entry: bytes) -> bytes:
    """One whole entry with the right size and checksum; unchanged if it is too short for them."""
    return with_crc(with_size(entry))


def with_size(entry: bytes) -> bytes:
    """The entry with its true size."""
    if len(entry) < LOG_OVERHEAD:
        return entry
    return entry[:SIZE_AT] + INT32.pack(len(entry) - LOG_OVERHEAD) + entry[LOG_OVERHEAD:]


def with_crc(entry: bytes) -> bytes:
    """The entry with the right checksum for its magic."""
    if len(entry) < CRC_START_V2:
        return entry
    if entry[MAGIC_OFFSET] == MAGIC_VALUE_V2:
        return entry[:CRC_OFFSET_V2] + UINT32.pack(crc32c(entry[CRC_START_V2:])) + entry[CRC_START_V2:]
    return entry[:CRC_OFFSET_LEGACY] + UINT32.pack(crc32(entry[CRC_START_LEGACY:])) + entry[CRC_START_LEGACY:]


def as_message(magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> Message:
    """A plain message; v0 has no timestamp."""
    return Message(offset, magic, 0, timestamp if magic else NO_TIMESTAMP, key, value)


GZIP_HEADER: Final = gzip_header()
# Version 1, independent blocks of at most 64 KiB, and the header's checksum: right, and as v0 has it (LZ4-06).
LZ4_HEADER: Final = lz4_header()
LZ4_HEADER_V0: Final = lz4_header(broken=True)
LZ4_BLOCK: Final = 64 * 1024
# Nothing here is ever larger; a seed that is gets mutated packed.
MOST_UNPACKED: Final = 1 << 20

_zstd: Final = zstandard.ZstdCompressor(level=-1, write_content_size=False, write_checksum=False)


def codec_from_attributes(attributes: int) -> Compression | None:
    """The codec that the low three bits name, or None for 5 to 7."""
    number = attributes & 0x07
    return COMPRESSIONS[number] if number < len(COMPRESSIONS) else None


def pack_fast(codec: Compression, plain: bytes, magic: int) -> bytes:
    """*plain* in an ordinary frame of *codec*."""
    match codec:
        case "gzip":
            return fast_gzip_member(plain)
        case "snappy":
            return XERIAL_HEADER + xerial_block(plain)
        case "lz4":
            return (LZ4_HEADER if magic else LZ4_HEADER_V0) + lz4_blocks(plain) + LZ4_END_MARK
        case "zstd":
            return _zstd.compress(plain)
    return plain


def raw_deflate(plain: bytes) -> bytes:
    """Raw deflate with the smallest window: setting up a larger one takes most of the time."""
    deflater = zlib.compressobj(1, zlib.DEFLATED, -9, 1)
    return deflater.compress(plain) + deflater.flush()


def fast_gzip_member(plain: bytes) -> bytes:
    """One member."""
    return GZIP_HEADER + raw_deflate(plain) + gzip_trailer(plain)


def xerial_block(plain: bytes) -> bytes:
    """A raw snappy block with its length in front."""
    return xerial_chunk(snappy.compress(plain))


def lz4_blocks(plain: bytes) -> bytes:
    """Compressed blocks with their sizes in front, however few bytes that saves."""
    if len(plain) <= LZ4_BLOCK:
        return _lz4_block(plain)
    return b"".join(_lz4_block(plain[at : at + LZ4_BLOCK]) for at in range(0, len(plain), LZ4_BLOCK))


def _lz4_block(plain: bytes) -> bytes:
    if not plain:
        return b""  # LZ4-15: a block of no output would be the end
    block: bytes = lz4.block.compress(plain, store_size=False)
    return lz4_data(block) if len(block) <= LZ4_BLOCK else lz4_data(plain, stored=True)


@lru_cache(maxsize=4096)
def unpack_or_none(codec: Compression, packed: bytes, magic: int) -> bytes | None:
    """The bytes that *packed* holds, or None if it is broken or too large."""
    try:
        return decompress(codec, packed, magic=magic, most=MOST_UNPACKED)
    except RecordFormatError:
        return None
