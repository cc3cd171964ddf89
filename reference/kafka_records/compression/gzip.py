"""gzip (RFC 1952) as java.util.zip.GZIPInputStream reads it.

Members follow one another as one stream (GZP-02); what comes after the last
member and is not a header is ignored (GZP-03); trailers are verified (GZP-04).
"""

from __future__ import annotations

import zlib
from struct import Struct

from kafka_records.compression.common import Output, refused
from kafka_records.errors import RecordFormatError

# ID1 ID2 CM FLG MTIME XFL OS, little-endian as all of gzip.
HEADER = Struct("<2sBBIBB")
TRAILER = Struct("<II")  # CRC-32 and length modulo 2^32 of the member's output
MAGIC = b"\x1f\x8b"
DEFLATE = 8
FIRST_PIECE, LARGEST_PIECE = 128, 64 * 1024  # bytes
FHCRC, FEXTRA, FNAME, FCOMMENT = 0x02, 0x04, 0x08, 0x10
# GZIPInputStream#readTrailer looks for another member only if more than this follows:
# this trailer (8), the smallest header (10) and another trailer (8).
SMALLEST_REST = 26
# GZP-08: OS is "unknown" (ff) since JDK 16, 0 before.
JAVA_HEADER = HEADER.pack(MAGIC, DEFLATE, 0, 0, 0, 0xFF)


def decompress(data: bytes, most: int) -> bytes:
    """The output of all members, one after the other."""
    output = Output(most)
    at = header_end(data, 0)
    while True:
        at = inflate_member(data, at, output)
        if len(data) - at <= SMALLEST_REST:
            return bytes(output.data)
        try:
            at = header_end(data, at + TRAILER.size)
        except RecordFormatError:
            # GZP-03: "ignore any malformed, do nothing"
            return bytes(output.data)


def header_end(data: bytes, at: int) -> int:
    """Where the deflate data after the member header at *at* starts (GZP-01, GZP-06)."""
    start = at
    if len(data) - at < HEADER.size:
        raise refused("the gzip header is cut short", at, "GZP-01")
    magic, method, flags, *_ = HEADER.unpack_from(data, at)
    if magic != MAGIC or method != DEFLATE:
        raise refused("not in gzip format", at, "GZP-01")
    at += HEADER.size
    if flags & FEXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (FNAME, FCOMMENT):
        if flags & flag:
            at = data.find(b"\0", at) + 1 or len(data) + 1
    end = at + 2 if flags & FHCRC else at
    if end > len(data):
        raise refused("the gzip header is cut short", start, "GZP-06")
    check = zlib.crc32(data[start:at]) & 0xFFFF
    if end > at and data[at:end] != check.to_bytes(2, "little"):
        raise refused("the gzip header checksum does not match", at, "GZP-06")
    return end


def inflate_member(data: bytes, at: int, output: Output) -> int:
    """Add one member's output; return where its trailer starts, verified (GZP-04, GZP-05)."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    crc = size = 0
    # zlib copies the input that it did not need, so small members get small pieces.
    piece = FIRST_PIECE
    while not inflater.eof:
        if at >= len(data):
            raise refused("the gzip member is cut short", len(data), "GZP-05")
        block = inflate_piece(inflater, data[at : at + piece], at, output)
        crc, size, at = zlib.crc32(block, crc), size + len(block), at + piece
        piece = min(2 * piece, LARGEST_PIECE)
    end = min(at, len(data)) - len(inflater.unused_data)
    if len(data) - end < TRAILER.size:
        raise refused("the gzip member is cut short", len(data), "GZP-05")
    if TRAILER.unpack_from(data, end) != (crc, size & 0xFFFFFFFF):
        raise refused("corrupt gzip trailer", end, "GZP-04")
    return end


def inflate_piece(inflater: zlib._Decompress, piece: bytes, at: int, output: Output) -> bytes:
    """Add what *piece* of a member gives, in stored blocks, too (GZP-07); return it."""
    try:
        # One byte more than there is room for distinguishes "full" from "too much".
        block = inflater.decompress(piece, output.room + 1)
    except zlib.error as error:
        raise refused(f"corrupt deflate data: {error}", at, "GZP-01") from None
    output.add(block, at)
    return block


def compress(data: bytes) -> bytes:
    """One member at the default level, with the header that Kafka's writer gives it."""
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    body = deflater.compress(data) + deflater.flush()
    return JAVA_HEADER + body + TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)
