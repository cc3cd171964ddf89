"""The LZ4 frame in words, as Kafka reads it."""

from __future__ import annotations

from kafka_records.compression import lz4
from kafka_records.explain.frames import Packed

FLAGS = (
    (lz4.BLOCK_INDEPENDENCE, "independent blocks"),
    (lz4.BLOCK_CHECKSUM, "block checksums"),
    (lz4.CONTENT_SIZE, "content size"),
    (lz4.CONTENT_CHECKSUM, "content checksum"),
)


def write_lz4(packed: Packed, *, check_header: bool) -> None:
    """Write the one frame; what follows it is never looked at (LZ4-14)."""
    if packed.data.startswith(lz4.MAGIC):
        write_lz4_header(packed, check_header=check_header)
    flags, block_size, _ = lz4.read_lz4_header(packed.data, check_header=check_header)
    while write_lz4_block(packed, flags, block_size):
        pass
    packed.pen.rest("ignored: after the end of the frame", rule="LZ4-14")


def write_lz4_header(packed: Packed, *, check_header: bool) -> None:
    """Write magic, FLG, BD, content size and header checksum, as many as there are."""
    packed.say("magic", 4, "0x184d2204", "an LZ4 frame, little-endian", "LZ4-01")
    flags, descriptor = (*packed.data[4:6], 0, 0)[:2]
    version = f"version {flags >> 6}"
    meaning = ", ".join((version, *(name for flag, name in FLAGS if flags & flag)))
    packed.say("FLG", 1, f"0x{flags:02x}", meaning, "LZ4-02")
    packed.say("BD", 1, f"0x{descriptor:02x}", f"blocks of at most {block_size_of(descriptor)}", "LZ4-04")
    if flags & lz4.CONTENT_SIZE:
        packed.number("content_size", 8, "not looked at", "LZ4-08")
    packed.say("HC", 1, packed.data[packed.at : packed.at + 1].hex(), say_checksum(packed, check_header), "LZ4-05")


def block_size_of(descriptor: int) -> str:
    """The largest block that BD allows; Kafka knows the codes 4 to 7."""
    code = descriptor >> 4 & 7
    return f"{1 << (2 * code - 2):,} KiB" if code >= 4 else "no known size"


def say_checksum(packed: Packed, check_header: bool) -> str:
    """Whether the header checksum is right, and for v0 which of the two it is (LZ4-06)."""
    found, descriptor = packed.data[packed.at : packed.at + 1], packed.data[4 : packed.at]
    right = bytes((lz4.header_checksum(descriptor),))
    if found == right:
        return "header checksum: matches"
    if check_header:
        return f"header checksum: stored {found.hex()}, computed {right.hex()}"
    broken = bytes((lz4.header_checksum(lz4.MAGIC + descriptor),))
    how = "with the magic in it, as v0 has it" if found == broken else f"wrong, {right.hex()} would be right"
    return f"header checksum, not looked at in v0: {how}"


def write_lz4_block(packed: Packed, flags: int, block_size: int) -> bool:
    """Write a block, or the end of the frame; return whether there is more."""
    at = packed.at
    word = int.from_bytes(packed.data[at : at + 4], "little")
    length, stored = word & ~lz4.STORED, bool(word & lz4.STORED)
    if length == 0 or packed.pen.left < 4:
        packed.say("EndMark", 4, "0", "the end of the frame", "LZ4-13" if stored else "LZ4-12")
        if flags & lz4.CONTENT_CHECKSUM:
            packed.number("content_checksum", 4, "has to be there, is not verified", "LZ4-09")
        return False
    packed.say("block_size", 4, str(length), "stored as it is" if stored else "compressed", "LZ4-11")
    packed.bulk("block", at + 4 + length, f"{'stored' if stored else 'compressed'} data", "LZ4-11")
    if flags & lz4.BLOCK_CHECKSUM:
        packed.number("block_checksum", 4, "xxHash-32 of the block as it is here", "LZ4-10")
    block, _ = lz4.read_block(packed.data, at, word, block_size, flags)
    return bool(block)
