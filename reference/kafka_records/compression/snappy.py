"""snappy in xerial blocks, or as one raw block, as snappy-java reads it.

    82 'SNAPPY' 00 | version | compatible version | (length, raw snappy block)…

Kafka writes the framed form and reads both (SNP-01, SNP-02); the framing format
of snappy's own specification (`sNaPpY`) it does not know (SNP-10).
"""

from __future__ import annotations

from struct import Struct

import snappy

from kafka_records.compression.common import Output, over_limit, refused
from kafka_records.varint import decode_unsigned

MAGIC = b"\x82SNAPPY\x00"
# Magic, version, lowest compatible version: big-endian, as the block lengths are (SNP-05).
HEADER = Struct(">8sii")
INT32 = Struct(">i")
VERSION = 1
# SNP-06: SnappyInputStream's default for a single block.
MAX_CHUNK_SIZE = 512 * 1024 * 1024
# SNP-01: SnappyOutputStream's default.
BLOCK_SIZE = 32 * 1024
# A copy of 3 bytes gives at most 64, so no block inflates more than this many times.
MOST_INFLATION = 22


def decompress(data: bytes, most: int) -> bytes:
    """The output of all xerial blocks, or of the one raw block."""
    output = Output(most)
    if not data:
        raise refused("an empty snappy stream", 0, "CMP-08")
    # SNP-03: only the first header's magic is looked at, not its versions.
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        output.add(inflate_raw_block(data, 0, output, "SNP-02"), 0)
        return bytes(output.data)
    add_blocks(data, HEADER.size, output)
    return bytes(output.data)


def add_blocks(data: bytes, at: int, output: Output) -> None:
    """Add the output of the blocks from *at* on, as far as they are read.

    There may be none (SNP-12), and each may be of any size and end within a record (SNP-11).
    """
    read_from = 0  # the output before the read at hand
    # SNP-09: SnappyInputStream#hasNextChunk, fewer than 4 bytes are the end.
    while at + INT32.size <= len(data):
        if not data.startswith(MAGIC[: INT32.size], at):
            at = add_block(data, at, output)
            continue
        if is_half_a_header(data, at):
            # SNP-04: #isValidHeader says no, and the read is over.  One that has given nothing
            # is taken for the end of the stream; else the next block follows the 16 bytes.
            # Java also ends a read where its buffer is full; we do not count so closely.
            if len(output.data) == read_from:
                return
            read_from = len(output.data)
        at = repeated_header_end(data, at)


def is_half_a_header(data: bytes, at: int) -> bool:
    """Whether the bytes at *at*, which begin like a header, do not go on as one (SNP-04)."""
    return len(data) - at >= HEADER.size and not data.startswith(MAGIC, at)


def repeated_header_end(data: bytes, at: int) -> int:
    """Where a header in the middle of the stream ends, or half of one (SNP-04: there the version counts)."""
    if len(data) - at < HEADER.size:
        raise refused("the repeated xerial header is cut short", at, "SNP-04")
    version: int = HEADER.unpack_from(data, at)[1]
    if version < VERSION and not is_half_a_header(data, at):
        raise refused(f"xerial version {version} in a repeated header", at, "SNP-04")
    return at + HEADER.size


def add_block(data: bytes, at: int, output: Output) -> int:
    """Add the output of the block whose length is at *at*; return where the block ends."""
    size: int = INT32.unpack_from(data, at)[0]
    start = at + INT32.size
    if not 0 <= size <= MAX_CHUNK_SIZE:
        raise refused(f"a snappy block of {size} bytes", at, "SNP-06")
    if start + size > len(data):
        raise refused(f"a snappy block of {size} bytes, {len(data) - start} are left", at, "SNP-08")
    output.add(inflate_raw_block(data[start : start + size], start, output, "SNP-07"), start)
    return start + size


def inflate_raw_block(block: bytes, at: int, output: Output, rule: str) -> bytes:
    """The output of one raw block, whose claimed length is checked before it is believed.

    Nothing else can be checked, as there is no checksum (SNP-13); snappy's own framing format fails here (SNP-10).
    """
    try:
        claimed, _ = decode_unsigned(block, 0, 5, "uncompressed_length")
    except ValueError:
        raise refused("not a raw snappy block", at, rule) from None
    if claimed > len(block) * MOST_INFLATION:
        raise refused(f"a snappy block of {len(block)} bytes claims to hold {claimed}", at, rule)
    if claimed > output.room:
        raise over_limit(output.most, at)
    try:
        return bytes(snappy.uncompress(block))
    except snappy.UncompressError as error:
        raise refused(f"corrupt snappy block: {error}", at, rule) from None


def compress(data: bytes) -> bytes:
    """Xerial blocks of 32 KiB each, as SnappyOutputStream writes them."""
    out = bytearray(HEADER.pack(MAGIC, VERSION, VERSION))
    for start in range(0, len(data), BLOCK_SIZE):
        block = snappy.compress(data[start : start + BLOCK_SIZE])
        out += INT32.pack(len(block)) + block
    return bytes(out)
