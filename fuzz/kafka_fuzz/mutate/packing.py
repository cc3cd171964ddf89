"""Fast compression for mutants, thousands of times a second.

The framing is that of `kafka_corpus.authoring.frames`; the content is compressed
by libraries at their cheapest settings, which every reader has to accept.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Final

import lz4.block
import snappy
import zstandard

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
from kafka_records.constants import COMPRESSIONS, Compression

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
