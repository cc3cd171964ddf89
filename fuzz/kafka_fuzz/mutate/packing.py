"""The codecs again, for speed: what mutants are packed with, thousands a second.

The reference writes what Kafka's writer writes; this writes what any reader
has to take, at the cheapest settings.  Both are read back by the reference.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from struct import Struct
from typing import Final

import lz4.block
import snappy
import zstandard

from kafka_records import RecordFormatError
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, Compression

GZIP_HEADER: Final = bytes.fromhex("1f8b08000000000000ff")
GZIP_TRAILER: Final = Struct("<II")
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + bytes.fromhex("0000000100000001")
# Magic, FLG (version 1, independent blocks), BD (64 KiB) and the checksum: right, and as v0 has it (LZ4-06).
LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
LZ4_HEADER_V0: Final = bytes.fromhex("04224d1860401a")
LZ4_END_MARK: Final = bytes(4)
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
    return GZIP_HEADER + raw_deflate(plain) + fast_gzip_trailer(plain)


def fast_gzip_trailer(plain: bytes) -> bytes:
    """The CRC-32 and size at the end of a member of *plain*."""
    return GZIP_TRAILER.pack(zlib.crc32(plain), len(plain))


def xerial_block(plain: bytes) -> bytes:
    """A raw snappy block with its length in front."""
    block: bytes = snappy.compress(plain)
    return len(block).to_bytes(4, "big") + block


def lz4_blocks(plain: bytes) -> bytes:
    """Compressed blocks with their sizes in front, however few bytes that saves."""
    if len(plain) <= LZ4_BLOCK:
        return _lz4_block(plain)
    return b"".join(_lz4_block(plain[at : at + LZ4_BLOCK]) for at in range(0, len(plain), LZ4_BLOCK))


def _lz4_block(plain: bytes) -> bytes:
    if not plain:
        return b""  # LZ4-15: a block of no output would be the end
    block: bytes = lz4.block.compress(plain, store_size=False)
    if len(block) <= LZ4_BLOCK:
        return len(block).to_bytes(4, "little") + block
    return (len(plain) | 0x80000000).to_bytes(4, "little") + plain


@lru_cache(maxsize=4096)
def unpack_or_none(codec: Compression, packed: bytes, magic: int) -> bytes | None:
    """The bytes that *packed* holds, or None if it is broken or too large."""
    try:
        return decompress(codec, packed, magic=magic, most=MOST_UNPACKED)
    except RecordFormatError:
        return None
