"""LZ4 frames as Kafka's own Lz4BlockInputStream reads them.

    magic | FLG | BD | [content size] | HC | (block size, block, [checksum])… | EndMark | [checksum]

One frame, independent blocks, no dictionary; what follows the EndMark is never
looked at (LZ4-14).  In v0 the header checksum covers the magic too, by an old
mistake, so readers skip it there and writers repeat the mistake (LZ4-06).
"""

from __future__ import annotations

import lz4.block
import xxhash

from kafka_records.compression.common import Output, refused

MAGIC = bytes.fromhex("04224d18")  # 0x184D2204, little-endian
VERSION = 0b01_000000
BLOCK_INDEPENDENCE, BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
RESERVED = 0x03  # bit 1, and bit 0 which later came to mean a dictionary
# LZ4-16: what Kafka's writer puts there: version 1, independent blocks, 64 KiB.
JAVA_FLG, JAVA_BD = 0x60, 0x40
BLOCK_SIZE = 64 * 1024
STORED = 0x80000000
END_MARK = bytes(4)


def decompress(data: bytes, most: int, *, check_header: bool) -> bytes:
    """The output of the first frame."""
    flags, block_size, at = read_lz4_header(data, check_header=check_header)
    output = Output(most)
    while True:
        if at + 4 > len(data):
            raise refused("the lz4 stream ends without an EndMark", at, "LZ4-12")
        size = int.from_bytes(data[at : at + 4], "little")
        if size & ~STORED == 0:
            # LZ4-13: a stored block of no bytes counts as the EndMark as well.
            return end(data, at + 4, flags, output)
        block, after = read_block(data, at, size, block_size, flags)
        if not block:
            # LZ4-15: Kafka takes a block without output for the end of the data, and
            # never looks after it, at an EndMark either.
            return bytes(output.data)
        output.add(block, at)
        at = after


def read_lz4_header(data: bytes, *, check_header: bool) -> tuple[int, int, int]:
    """FLG, the largest block and the end of the frame header, all checked (LZ4-01 to LZ4-05)."""
    if len(data) < 7:
        raise refused("the lz4 frame header is cut short", len(data), "LZ4-18")
    if not data.startswith(MAGIC):
        raise refused("not an lz4 frame", 0, "LZ4-01")
    flags, descriptor = data[4], data[5]
    if flags & RESERVED or flags & 0xC0 != VERSION:
        raise refused(f"lz4 FLG {flags:#04x}: reserved bits or version", 4, "LZ4-02")
    if not flags & BLOCK_INDEPENDENCE:
        raise refused("lz4 blocks depend on one another", 4, "LZ4-03")
    code = descriptor >> 4
    if descriptor & 0x8F or code < 4:
        raise refused(f"lz4 BD {descriptor:#04x}", 5, "LZ4-04")
    # LZ4-08: the content size is skipped, whatever it says.
    at = 14 if flags & CONTENT_SIZE else 6
    if at >= len(data):
        raise refused("the lz4 frame header is cut short", len(data), "LZ4-18")
    if check_header and data[at] != header_checksum(data[4:at]):
        raise refused("the lz4 header checksum does not match", at, "LZ4-05")
    return flags, 1 << (2 * code + 8), at + 1


def header_checksum(descriptor: bytes) -> int:
    """The second byte of the descriptor's xxh32."""
    return xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF


def read_block(data: bytes, at: int, size: int, block_size: int, flags: int) -> tuple[bytes, int]:
    """One block's output and where the next starts (LZ4-10, LZ4-11, LZ4-12)."""
    stored, size, start = bool(size & STORED), size & ~STORED, at + 4
    if size > block_size:
        raise refused(f"an lz4 block of {size} bytes, the most is {block_size}", at, "LZ4-11")
    after = start + size
    if after > len(data):
        raise refused(f"an lz4 block of {size} bytes, {len(data) - start} are left", at, "LZ4-12")
    block = data[start:after]
    if flags & BLOCK_CHECKSUM:
        after += 4
        if data[after - 4 : after] != xxhash.xxh32_intdigest(block).to_bytes(4, "little"):
            raise refused("the lz4 block checksum does not match", start + size, "LZ4-10")
    return block if stored else inflate_lz4_block(block, start, block_size), after


def inflate_lz4_block(block: bytes, at: int, block_size: int) -> bytes:
    """The output of one compressed block, at most *block_size* bytes."""
    try:
        return bytes(lz4.block.decompress(block, uncompressed_size=block_size))
    except lz4.block.LZ4BlockError as error:
        raise refused(f"corrupt lz4 block: {error}", at, "LZ4-11") from None


def end(data: bytes, at: int, flags: int, output: Output) -> bytes:
    """Everything so far, and nothing of what follows (LZ4-14).

    A content checksum has to be there but is never verified (LZ4-09).
    """
    if flags & CONTENT_CHECKSUM and at + 4 > len(data):
        raise refused("the lz4 content checksum is missing", at, "LZ4-09")
    return bytes(output.data)


def compress(data: bytes, *, broken_header: bool) -> bytes:
    """One frame of 64 KiB blocks; a block that would not shrink is stored (LZ4-16).

    In v0, also where a broker converts to it, the header checksum is the broken one (LZ4-06, CNV-17).
    """
    descriptor = bytes((JAVA_FLG, JAVA_BD))
    checksum = header_checksum(MAGIC + descriptor if broken_header else descriptor)
    out = bytearray(MAGIC + descriptor + bytes((checksum,)))
    for start in range(0, len(data), BLOCK_SIZE):
        plain = data[start : start + BLOCK_SIZE]
        block = lz4.block.compress(plain, store_size=False)
        stored = len(block) >= len(plain)
        size = len(plain) | STORED if stored else len(block)
        out += size.to_bytes(4, "little") + (plain if stored else block)
    return bytes(out + END_MARK)
