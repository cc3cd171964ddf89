"""Compressed streams that no compressor writes: every option of the framings, and bytes after the stream.

The same plain records go into gzip members, xerial blocks, lz4 frames or zstd
frames whose flags, splits, checksums and tails are drawn by a seed and an
index.  Most streams are legal; the rest is wrong in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import MAX_WBITS, compressobj, crc32

import lz4.block
import snappy
import xxhash
from tests.java.mutate import edited

from kafka_corpus.authoring.build import raw_batch, raw_message, raw_record
from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    ZSTD_MAGIC,
    codec_id,
    deflate_stored,
    gzip_header,
    gzip_member,
    lz4_data,
    lz4_header,
    xerial_chunk,
    zstd_block,
    zstd_header,
)
from kafka_records.constants import Compression

# Shares, as chances.
LEGACY, SPLIT, LONG, EDIT, TAIL, CUT, ODD = 0.3, 0.5, 0.1, 0.15, 0.25, 0.08, 0.04
MOST_PARTS = 4
SKIPPABLE = bytes.fromhex("502a4d18")


def stream(seed: int, index: int) -> tuple[str, bytes]:
    """The entry at *index* of a series: a v2 batch or a v0/v1 wrapper around a stream; and its codec."""
    chance = Random(f"{seed}:{index}")
    codec, write = chance.choice(WRITERS)
    legacy = codec != "zstd" and chance.random() < LEGACY
    plain, count = inner_messages(chance) if legacy else records(chance)
    packed = write(plain, chance)
    if chance.random() < EDIT:
        packed = edited(packed, chance)
    if legacy:
        # `records` gave messages of one magic; the wrapper takes the same.
        return codec, raw_message(plain[16], None, packed, offset=count - 1, attributes=codec_id(codec))
    return codec, raw_batch(packed, record_count=count, attributes=codec_id(codec))


def records(chance: Random) -> tuple[bytes, int]:
    """A few records, at times one that spans several blocks, and how many they are."""
    values = [chance.choice((b"", b"v", b"v" * 50, chance.randbytes(40))) for _ in range(chance.choice((1, 2, 4, 60)))]
    if chance.random() < LONG:
        values[0] = chance.choice((b"a" * 70_000, b"ab" * 40_000, chance.randbytes(66_000)))
    return b"".join(raw_record(offset_delta=at, value=value) for at, value in enumerate(values)), len(values)


def inner_messages(chance: Random) -> tuple[bytes, int]:
    """Three messages of v0 or v1 as a wrapper holds them, and how many they are."""
    magic = chance.choice((0, 1))
    return b"".join(raw_message(magic, value=b"abc", offset=at) for at in range(3)), 3


def parts(plain: bytes, chance: Random) -> list[bytes]:
    """*plain* in one piece or in a few, empty ones among them."""
    if chance.random() > SPLIT:
        return [plain]
    cuts = sorted(chance.randrange(len(plain) + 1) for _ in range(chance.randint(1, MOST_PARTS)))
    return [plain[start:end] for start, end in zip([0, *cuts], [*cuts, len(plain)], strict=True)]


def ended(packed: bytes, chance: Random, *tails: bytes) -> bytes:
    """*packed*, cut short, or with bytes after it."""
    kind = chance.random()
    if kind < CUT:
        return packed[: -chance.randint(1, 9)]
    if kind < CUT + TAIL:
        return packed + chance.choice((bytes(chance.randrange(40)), chance.randbytes(chance.randrange(40)), *tails))
    return packed


def gzip_stream(plain: bytes, chance: Random) -> bytes:
    """Members with optional header fields, deflated or stored."""
    members = b"".join(gzip_part(part, chance) for part in parts(plain, chance))
    empty = gzip_member(b"")
    return ended(members, chance, empty, empty[:10], empty[:10] + b"\xff" * 20, b"\x1f\x8b")


def gzip_part(part: bytes, chance: Random) -> bytes:
    """One member."""
    flags = chance.choice((0, 0, 0, 1, 2, 4, 8, 16, 6, 12, 0x1F, 0x20, 0xE0))
    header = gzip_header(flags=flags, mtime=chance.getrandbits(32))
    extra = chance.randbytes(chance.choice((0, 1, 5)))
    header += len(extra).to_bytes(2, "little") + extra if flags & 4 else b""
    header += b"name\0" if flags & 8 else b""
    header += b"\0" if flags & 16 else b""
    check = crc32(header) & 0xFFFF ^ (chance.random() < ODD)
    header += check.to_bytes(2, "little") if flags & 2 else b""
    small = len(part) < 1 << 16 and chance.random() < 0.5
    deflater = compressobj(wbits=-MAX_WBITS)
    body = deflate_stored(part) if small else deflater.compress(part) + deflater.flush()
    return gzip_member(part, header=header, body=body)


def snappy_stream(plain: bytes, chance: Random) -> bytes:
    """Raw, or xerial blocks with headers in between."""
    if chance.random() < 0.2:
        return ended(snappy.compress(plain), chance)
    version = chance.choice((1, 1, 1, 0, -1, 999)).to_bytes(4, "big", signed=True)
    packed = XERIAL_MAGIC + version + XERIAL_HEADER[12:]
    for part in parts(plain, chance):
        again = XERIAL_MAGIC + chance.choice((1, 1, 1, 2, 0)).to_bytes(4, "big") + XERIAL_HEADER[12:]
        half = XERIAL_MAGIC[:4] + bytes(12)
        packed += chance.choice((b"",) * 12 + (again,) * 3 + (half,))
        packed += xerial_chunk(b"" if chance.random() < ODD else snappy.compress(part))
    tails = (XERIAL_HEADER, XERIAL_HEADER[:12], XERIAL_MAGIC[:4], bytes(4), b"\xff" * 4, b"\x20\0\0\1")
    return ended(packed, chance, *tails)


def lz4_stream(plain: bytes, chance: Random) -> bytes:
    """A frame with any flags: checksums right or wrong, blocks stored or not, with or without an end."""
    flg = 0x60 | sum(bit for bit in (0x10, 0x08, 0x04) if chance.random() < 0.25)
    flg ^= chance.choice((1, 2, 0x20, 0x80)) if chance.random() < ODD else 0
    code = chance.choice((4, 4, 4, 5, 6, 7))
    bd = chance.choice((0, 0x10, 0x30, 0xFF, code << 4 | 1)) if chance.random() < ODD else code << 4
    size = chance.choice((len(plain).to_bytes(8, "little"), bytes(8), chance.randbytes(8))) if flg & 0x08 else b""
    packed = lz4_header(flg=flg, bd=bd, size=size, hc=0 if chance.random() < ODD else None)
    packed += b"".join(lz4_part(part, chance, checked=bool(flg & 0x10)) for part in parts(plain, chance))
    packed += chance.choice((LZ4_END_MARK,) * 18 + (bytes.fromhex("00000080"), b""))
    if flg & 0x04 and chance.random() < 0.8:
        packed += xxhash.xxh32_intdigest(plain).to_bytes(4, "little")
    if chance.random() < ODD:
        packed = SKIPPABLE + (3).to_bytes(4, "little") + b"abc" + packed
    return ended(packed, chance, packed)


def lz4_part(part: bytes, chance: Random, *, checked: bool) -> bytes:
    """Blocks of 64 KiB; an empty part is a block without output."""
    packed = b""
    for start in range(0, len(part) or 1, 1 << 16):
        plain = part[start : start + (1 << 16)]
        stored = bool(plain) and chance.random() < 0.4
        block = plain if stored else lz4.block.compress(plain, store_size=False)
        checksum = xxhash.xxh32_intdigest(block) ^ (chance.random() < ODD)
        packed += lz4_data(block, stored=stored, checksum=checksum if checked else None)
    return packed


def zstd_stream(plain: bytes, chance: Random) -> bytes:
    """Frames with any header, skippable ones between them, some unfinished at the end."""
    packed = b""
    for part in parts(plain, chance):
        packed += SKIPPABLE + (3).to_bytes(4, "little") + b"abc" if chance.random() < 0.1 else b""
        packed += zstd_part(part, chance)
    tails = (ZSTD_MAGIC[:2], ZSTD_MAGIC, zstd_header(), SKIPPABLE, SKIPPABLE + b"\x09\0\0\0a", bytes(1))
    return ended(packed, chance, *tails)


def zstd_part(part: bytes, chance: Random) -> bytes:
    """One frame of raw blocks and blocks of one repeated byte."""
    descriptor = chance.choice((0, 0, 0x20, 0x60, 0xA0, 0xE0, 0x40, 0x80, 0xC0, 0x04, 0x24, 0x84, 0x10, 0x01, 0x08))
    single = descriptor & 0x20
    fields = b"" if single else bytes((chance.choice((0, 0x58, 0x58, 0x58, 0x88, 0x89, 0x90, 0xF8)),))
    fields += b"\0" if descriptor & 3 else b""
    width = {0: int(bool(single)), 1: 2, 2: 4, 3: 8}[descriptor >> 6]
    size = len(part) - (256 if width == 2 else 0) + (chance.choice((-1, 1, 10**6)) if chance.random() < ODD else 0)
    packed = zstd_header(descriptor, fields + (size % (1 << 8 * width)).to_bytes(width, "little"))
    blocks = [piece[at : at + 131_072] for piece in parts(part, chance) for at in range(0, len(piece) or 1, 131_072)]
    for index, block in enumerate(blocks):
        run = bool(block) and block == block[:1] * len(block)
        last = index == len(blocks) - 1
        packed += zstd_block(block[:1] if run else block, size=len(block), kind=int(run), last=last)
    checksum = xxhash.xxh64_intdigest(part) & 0xFFFFFFFF
    return packed + (checksum.to_bytes(4, "little") if descriptor & 4 else b"")


WRITERS: tuple[tuple[Compression, Callable[[bytes, Random], bytes]], ...] = (
    ("gzip", gzip_stream),
    ("snappy", snappy_stream),
    ("lz4", lz4_stream),
    ("zstd", zstd_stream),
)
