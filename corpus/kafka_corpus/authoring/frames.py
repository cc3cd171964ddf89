"""Compressed frames built by hand, so that a case can change any part of the framing.

The compressors only know literals and runs of one byte, so their output is
short to read and the same with every release of every library.  The cases are
about the framing, and about decoders that must take any legal stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from struct import Struct
from zlib import crc32

import xxhash

from kafka_records.constants import COMPRESSIONS, Compression

GZIP_HEADER = Struct("<2sBBIBB")
LZ4_MAGIC = bytes.fromhex("04224d18")
LZ4_END_MARK = bytes(4)
STORED_BIT = 0x80000000
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + bytes.fromhex("0000000100000001")
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
ZSTD_MAX_BLOCK = 128 * 1024
# An empty block with the last-block flag.
ZSTD_LAST_BLOCK = bytes.fromhex("010000")
# Shorter runs are not worth a copy in any of the formats.
SHORTEST_RUN = 12


def codec_id(codec: Compression) -> int:
    """The attribute value of *codec*."""
    return COMPRESSIONS.index(codec)


def pack(codec: Compression, plain: bytes, *, magic: int = 2) -> bytes:
    """*plain* in an ordinary frame of *codec*; v0 gets its own lz4 header checksum."""
    match codec:
        case "gzip":
            return gzip_member(plain)
        case "snappy":
            return xerial(plain)
        case "lz4":
            return lz4_frame(lz4_block(plain), broken=magic == 0)
        case "zstd":
            return zstd_frame(*zstd_blocks(plain))
    return plain


def runs(plain: bytes) -> Iterator[tuple[bytes, int]]:
    """*plain* as (literals, length of the run of one byte that follows them)."""
    literals = b""
    for byte, group in groupby(plain):
        length = len(list(group))
        literals += bytes((byte,)) * (length if length < SHORTEST_RUN else 1)
        if length >= SHORTEST_RUN:
            yield literals, length - 1
            literals = b""
    if literals:
        yield literals, 0


# gzip (RFC 1951, RFC 1952)


class Bits:
    """Bits as deflate packs them: first bit lowest."""

    def __init__(self) -> None:
        self.value = self.size = 0

    def add(self, value: int, size: int) -> None:
        """Append a plain number, lowest bit first."""
        self.value |= value << self.size
        self.size += size

    def add_code(self, code: int, size: int) -> None:
        """Append a Huffman code, highest bit first."""
        self.add(int(f"{code:0{size}b}"[::-1], 2), size)

    def add_symbol(self, symbol: int) -> None:
        """Append a literal or length symbol in the fixed code (RFC 1951, 3.2.6)."""
        for first, last, size, base in ((0, 143, 8, 0x30), (144, 255, 9, 0x190), (256, 279, 7, 0), (280, 287, 8, 0xC0)):
            if first <= symbol <= last:
                self.add_code(base + symbol - first, size)

    def bytes(self) -> bytes:
        """All bits, the last byte filled up with zeros."""
        return self.value.to_bytes((self.size + 7) // 8, "little")


def deflate(plain: bytes) -> bytes:
    """One last block in the fixed Huffman code."""
    bits = Bits()
    bits.add(0b011, 3)
    for literals, length in runs(plain):
        for byte in literals:
            bits.add_symbol(byte)
        # Symbol 285 copies 258 bytes; distance code 0 says from one byte back.
        for _ in range(length // 258):
            bits.add_symbol(285)
            bits.add_code(0, 5)
        for _ in range(length % 258):
            bits.add_symbol(literals[-1])
    bits.add_symbol(256)
    return bits.bytes()


def deflate_stored(*parts: bytes) -> bytes:
    """Each of *parts* in a stored block of its own, at most 65,535 bytes."""
    return b"".join(
        bytes((index == len(parts) - 1,)) + Struct("<HH").pack(len(part), len(part) ^ 0xFFFF) + part
        for index, part in enumerate(parts)
    )


def gzip_header(*, flags: int = 0, method: int = 8, mtime: int = 0, xfl: int = 0, os: int = 0xFF) -> bytes:
    """The ten bytes at the start of a member; by default those of Kafka's writer."""
    return GZIP_HEADER.pack(b"\x1f\x8b", method, flags, mtime, xfl, os)


def gzip_trailer(plain: bytes) -> bytes:
    """CRC-32 and size of *plain*."""
    return Struct("<II").pack(crc32(plain), len(plain) & 0xFFFFFFFF)


def gzip_member(
    plain: bytes, *, header: bytes | None = None, body: bytes | None = None, trailer: bytes | None = None
) -> bytes:
    """A whole member; any of its three parts can be given."""
    return b"".join(
        (
            gzip_header() if header is None else header,
            deflate(plain) if body is None else body,
            gzip_trailer(plain) if trailer is None else trailer,
        )
    )


# snappy (format_description.txt of google/snappy, xerial/snappy-java)


def uvarint(value: int) -> bytes:
    """An unsigned base-128 number, as snappy's uncompressed length."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes((value,))


def snappy_literal(data: bytes) -> bytes:
    """A literal element of at most 65,536 bytes."""
    size = len(data) - 1
    if size < 60:
        return bytes((size << 2,)) + data
    return b"\xf4" + size.to_bytes(2, "little") + data


def snappy_block(plain: bytes, *, claim: int | None = None) -> bytes:
    """A raw snappy block; *claim* replaces the uncompressed length that it declares."""
    out = uvarint(len(plain) if claim is None else claim)
    for literals, length in runs(plain):
        out += b"".join(snappy_literal(literals[at : at + 65536]) for at in range(0, len(literals), 65536))
        for at in range(0, length, 64):
            out += bytes(((min(64, length - at) - 1) << 2 | 2, 1, 0))  # copy, two-byte offset of 1
    return out


def xerial_chunk(block: bytes, *, size: bytes | None = None) -> bytes:
    """A raw block after its big-endian length, or after *size* as given."""
    return (len(block).to_bytes(4, "big") if size is None else size) + block


def xerial(*parts: bytes, header: bytes = XERIAL_HEADER) -> bytes:
    """A *header*, then each of *parts* in a block of its own."""
    return header + b"".join(xerial_chunk(snappy_block(part)) for part in parts)


# lz4 (lz4_Frame_format.md, lz4_Block_format.md)


def lz4_length(length: int) -> tuple[int, bytes]:
    """The four bits of a token, and the extra bytes, that encode a length."""
    if length < 15:
        return length, b""
    return 15, b"\xff" * ((length - 15) // 255) + bytes(((length - 15) % 255,))


def lz4_sequence(literals: bytes, match: int = 0) -> bytes:
    """Literals and a copy of *match* bytes from one byte back, or none."""
    high, literal_size = lz4_length(len(literals))
    if not match:
        return bytes((high << 4,)) + literal_size + literals
    low, match_size = lz4_length(match - 4)
    return bytes((high << 4 | low,)) + literal_size + literals + b"\x01\x00" + match_size


def lz4_block(plain: bytes) -> bytes:
    """A compressed block of *plain*, its last five bytes literals as the format requires."""
    out, head = b"", plain[:-12]
    pending = b""
    for literals, length in runs(head):
        if length:
            out += lz4_sequence(pending + literals, length)
            pending = b""
        else:
            pending += literals
    return out + lz4_sequence(pending + plain[len(head) :])


def lz4_header(
    *, flg: int = 0x60, bd: int = 0x40, size: bytes = b"", broken: bool = False, hc: int | None = None
) -> bytes:
    """Magic, descriptor and header checksum; *broken* is the checksum of v0."""
    descriptor = bytes((flg, bd)) + size
    right = xxhash.xxh32_intdigest((LZ4_MAGIC if broken else b"") + descriptor) >> 8 & 0xFF
    return LZ4_MAGIC + descriptor + bytes((right if hc is None else hc,))


def lz4_data(block: bytes, *, stored: bool = False, checksum: int | None = None) -> bytes:
    """A block after its size, followed by its checksum if one is given."""
    size = len(block) | (STORED_BIT if stored else 0)
    tail = b"" if checksum is None else checksum.to_bytes(4, "little")
    return size.to_bytes(4, "little") + block + tail


def lz4_frame(*blocks: bytes, broken: bool = False, end: bytes = LZ4_END_MARK) -> bytes:
    """Compressed *blocks* in a frame like that of Kafka's writer."""
    return lz4_header(broken=broken) + b"".join(map(lz4_data, blocks)) + end


# zstd (RFC 8878)


def zstd_header(descriptor: int = 0, fields: bytes = b"\x58") -> bytes:
    """Magic, frame header descriptor and the fields after it; by default the window is 2 MiB."""
    return ZSTD_MAGIC + bytes((descriptor,)) + fields


def zstd_block(content: bytes, *, size: int | None = None, kind: int = 0, last: bool = False) -> bytes:
    """A block: *kind* 0 raw, 1 one byte repeated *size* times, 2 compressed."""
    value = last | kind << 1 | (len(content) if size is None else size) << 3
    return value.to_bytes(3, "little") + content


def zstd_blocks(plain: bytes) -> Iterator[bytes]:
    """*plain* as raw blocks and blocks of one repeated byte, none of them the last."""
    for literals, length in runs(plain):
        for at in range(0, len(literals), ZSTD_MAX_BLOCK):
            yield zstd_block(literals[at : at + ZSTD_MAX_BLOCK])
        for at in range(0, length, ZSTD_MAX_BLOCK):
            yield zstd_block(literals[-1:], size=min(ZSTD_MAX_BLOCK, length - at), kind=1)


def zstd_literals(plain: bytes) -> bytes:
    """A compressed block of *plain*, at most 4,095 bytes: raw literals and no sequences (RFC 8878, 3.1.1.3.1)."""
    header = (1 << 2 | len(plain) << 4).to_bytes(2, "little")
    return zstd_block(header + plain + b"\0", kind=2)


def zstd_frame(*blocks: bytes, header: bytes | None = None, end: bytes = ZSTD_LAST_BLOCK) -> bytes:
    """A frame of *blocks* as Kafka's writer ends it, with an empty last block."""
    return (zstd_header() if header is None else header) + b"".join(blocks) + end


def zstd_checksum(plain: bytes) -> bytes:
    """The lower half of the content's xxh64."""
    return (xxhash.xxh64_intdigest(plain) & 0xFFFFFFFF).to_bytes(4, "little")


def skippable(content: bytes, *, nibble: int = 0, size: int | None = None) -> bytes:
    """A skippable frame, which lz4 and zstd share."""
    length = len(content) if size is None else size
    return bytes((0x50 | nibble, 0x2A, 0x4D, 0x18)) + length.to_bytes(4, "little") + content
