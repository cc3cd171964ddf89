"""Compressed payloads that are broken in one place, for `append_cases`."""

from __future__ import annotations

import snappy
import xxhash
import zstandard
from tests.reference.append_cases import (
    BATCH,
    GZIP_MEMBER,
    LZ4_FRAME,
    LZ4_HEADER,
    ONE,
    RECORD,
    SNAPPY_STREAM,
    TWO,
    ZSTD_FRAME,
    Produce,
    framed,
    lz4_block,
    packed,
    v2,
)

from kafka_corpus.authoring.build import flip, raw_batch, raw_record
from kafka_records.compression import compress
from kafka_records.compression.lz4 import header_checksum
from kafka_records.varint import encode_varint

SNAPPY_HEADER = SNAPPY_STREAM[:16]
HALF_A_MAGIC = SNAPPY_HEADER[:4] + b"[" + SNAPPY_HEADER[5:]
END_MARK = bytes(4)
GZIP_START = compress("gzip", ONE[:5], magic=2)
EMPTY_MEMBER = compress("gzip", b"", magic=2)
BIG = raw_record(value=bytes(range(256)) * 400)
HALVES = (TWO[:9], TWO[9:])


def snappy_block(plain: bytes) -> bytes:
    """One xerial block."""
    block: bytes = snappy.compress(plain)
    return len(block).to_bytes(4, "big") + block


def lz4_with(flags: int, *blocks: bytes) -> bytes:
    """A frame with other flags."""
    descriptor = bytes((flags, 0x40))
    return LZ4_HEADER[:4] + descriptor + bytes((header_checksum(descriptor),)) + b"".join(blocks)


def raw_zstd(*sizes_and_data: tuple[bytes, bool], end: bytes = b"") -> bytes:
    """A frame of raw blocks."""
    return bytes.fromhex("28b52ffd0058") + raw_blocks(*sizes_and_data) + end


def raw_blocks(*sizes_and_data: tuple[bytes, bool]) -> bytes:
    """Raw blocks, the last of which says so."""
    return b"".join((len(data) << 3 | int(last)).to_bytes(3, "little") + data for data, last in sizes_and_data)


def sized_zstd(size: int, blocks: bytes, window: int = 0x58) -> bytes:
    """A zstd frame with *size* as its content size and *window* as its window; *blocks* follow its header."""
    return b"\x28\xb5\x2f\xfd\xc0" + bytes((window,)) + size.to_bytes(8, "little") + blocks


def with_checksum(plain: bytes) -> bytes:
    """A zstd frame with a checksum."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(plain)


# Blocks with an empty one after them; larger ones, which no buffer holds at once, too.
ENDED = raw_blocks((ONE, False), (b"", True))
BIG_BLOCKS = raw_blocks((BIG, False), (b"", True))
KILO = raw_record(value=bytes(1500))
STORED = (len(ONE) | 1 << 31).to_bytes(4, "little") + ONE
GZIP: tuple[Produce, ...] = (
    v2("gzip: not gzip", "GZP-01", framed("gzip", ONE), -1),
    v2("gzip: broken data", "GZP-01", framed("gzip", GZIP_MEMBER[:10] + b"\xff" * 20), -1),
    v2("gzip: cut in the data", "GZP-05", framed("gzip", GZIP_MEMBER[:12]), -1, 87),
    v2("gzip: cut in the trailer", "GZP-05", framed("gzip", GZIP_MEMBER[:-1]), -1),
    v2("gzip: wrong trailer", "GZP-04", framed("gzip", GZIP_MEMBER[:-1] + b"\x01"), -1),
    v2("gzip: cut in the checksum", "GZP-05", framed("gzip", GZIP_MEMBER[:-5]), -1),
    v2(
        "gzip: wrong checksum within a record, and no size",
        "GZP-04",
        framed("gzip", flip(GZIP_START, len(GZIP_START) - 5)[:-1]),
        -1,
    ),
    v2(
        "gzip: cut in the trailer within a record",
        "GZP-05",
        framed("gzip", GZIP_START[:-1]),
        -1,
        87,
    ),
    v2(
        "gzip: two members",
        "RWR-01",
        framed("gzip", b"".join(compress("gzip", half, magic=2) for half in HALVES), 2),
        0,
    ),
    v2("gzip: junk after it", "RWR-01", framed("gzip", GZIP_MEMBER + bytes(40)), 0),
    v2("gzip: little junk after it", "RWR-01", framed("gzip", GZIP_MEMBER + bytes(9)), 0),
    v2("gzip: empty members", "RWR-01", framed("gzip", EMPTY_MEMBER * 9 + GZIP_MEMBER), 0),
    v2("gzip: a stack of empty members", "GZP-02", framed("gzip", EMPTY_MEMBER * 40_000 + GZIP_MEMBER), -1, 87),
    v2(
        "gzip: members over a buffer",
        "RWR-01",
        framed("gzip", EMPTY_MEMBER * 408 + b"".join(compress("gzip", half, magic=2) for half in HALVES), 2),
        0,
        87,
    ),
    v2("gzip: large", "RWR-01", packed("gzip", BIG), 0),
    v2("gzip: no output to speak of", "VAR-06", framed("gzip", EMPTY_MEMBER), 87),
)
SNAPPY: tuple[Produce, ...] = (
    v2("snappy: nothing", "CMP-08", framed("snappy", b""), -1),
    v2("snappy: one raw block", "RWR-01", framed("snappy", snappy.compress(ONE)), 0),
    v2("snappy: no snappy", "SNP-02", framed("snappy", b"\xff" * 30), -1),
    v2("snappy: no blocks", "VAR-06", framed("snappy", SNAPPY_HEADER), 87),
    v2("snappy: negative block", "SNP-06", framed("snappy", SNAPPY_HEADER + b"\xff" * 9), -1),
    v2("snappy: cut block", "SNP-08", framed("snappy", SNAPPY_STREAM[:-1]), -1),
    v2("snappy: broken block", "SNP-07", framed("snappy", SNAPPY_HEADER + b"\x00\x00\x00\x02\xff\xff"), -1),
    v2(
        "snappy: record over blocks",
        "RWR-01",
        framed("snappy", SNAPPY_HEADER + b"".join(map(snappy_block, HALVES)), 2),
        0,
    ),
    v2("snappy: second header", "RWR-01", framed("snappy", SNAPPY_HEADER * 3 + SNAPPY_STREAM[16:]), 0),
    v2("snappy: a stack of headers", "SNP-04", framed("snappy", SNAPPY_HEADER * 50_000 + SNAPPY_STREAM[16:]), -1),
    v2(
        "snappy: half a magic, and a block cut short",
        "SNP-08",
        framed("snappy", SNAPPY_HEADER + snappy_block(ONE[:9]) + HALF_A_MAGIC + SNAPPY_STREAM[16:-1]),
        -1,
    ),
    v2("snappy: half a magic at the end", "RWR-01", framed("snappy", SNAPPY_STREAM + HALF_A_MAGIC), 0),
    v2(
        "snappy: empty blocks", "RWR-01", framed("snappy", SNAPPY_HEADER + snappy_block(b"") * 9 + snappy_block(ONE)), 0
    ),
    v2(
        "snappy: a stack of empty blocks",
        "RWR-01",
        framed("snappy", SNAPPY_HEADER + snappy_block(b"") * 100_000 + snappy_block(ONE)),
        0,
        -1,
    ),
    v2("snappy: large", "RWR-01", packed("snappy", BIG), 0),
    v2("snappy: stray bytes", "RWR-01", framed("snappy", SNAPPY_STREAM + b"\x00\x00\x00"), 0),
)
LZ4: tuple[Produce, ...] = (
    v2("lz4: cut header", "LZ4-18", framed("lz4", LZ4_HEADER[:5]), -1),
    v2("lz4: no end mark", "LZ4-12", framed("lz4", LZ4_FRAME[:-4]), -1),
    v2("lz4: block too large", "LZ4-11", framed("lz4", LZ4_HEADER + b"\x01\x00\x01\x00"), -1),
    v2("lz4: cut block", "LZ4-12", framed("lz4", LZ4_FRAME[:-9]), -1),
    v2("lz4: broken block", "LZ4-11", framed("lz4", LZ4_HEADER + b"\x01\x00\x00\x00\xff" + END_MARK), -1),
    v2("lz4: stored block", "RWR-01", framed("lz4", LZ4_HEADER + STORED + END_MARK), 0),
    v2("lz4: wrong block checksum", "LZ4-10", framed("lz4", lz4_with(0x70, STORED, bytes(4), END_MARK)), -1),
    v2(
        "lz4: block checksum",
        "RWR-01",
        framed("lz4", lz4_with(0x70, STORED, xxhash.xxh32_intdigest(ONE).to_bytes(4, "little"), END_MARK)),
        0,
    ),
    v2("lz4: no block checksum", "LZ4-09", framed("lz4", lz4_with(0x70, STORED)), -1),
    v2("lz4: no content checksum", "LZ4-09", framed("lz4", lz4_with(0x64, STORED, END_MARK)), -1),
    v2("lz4: content checksum", "RWR-01", framed("lz4", lz4_with(0x64, STORED, END_MARK, bytes(4))), 0),
    v2(
        "lz4: no second checksum",
        "LZ4-09",
        framed(
            "lz4",
            lz4_with(
                0x70,
                (5 | 1 << 31).to_bytes(4, "little"),
                ONE[:5],
                xxhash.xxh32_intdigest(ONE[:5]).to_bytes(4, "little"),
                (4 | 1 << 31).to_bytes(4, "little"),
                ONE[5:9],
            ),
        ),
        87,
    ),
    v2("lz4: no content", "VAR-06", framed("lz4", LZ4_HEADER + END_MARK), 87),
    v2(
        "lz4: empty block before a length", "REC-07", framed("lz4", LZ4_HEADER + lz4_block(b"") + LZ4_FRAME[7:]), 87, -1
    ),
    v2(
        "lz4: empty block in a value",
        "LZ4-12",
        framed("lz4", LZ4_HEADER + lz4_block(ONE[:9]) + lz4_block(b"") + lz4_block(ONE[9:])),
        -1,
    ),
    v2(
        "lz4: empty block in a value, full",
        "REC-05",
        framed("lz4", LZ4_HEADER + lz4_block(ONE[:9]) + lz4_block(b"") + lz4_block(ONE[9:]) + END_MARK),
        87,
        0,
        compression_type="gzip",
    ),
    v2("lz4: large", "RWR-01", packed("lz4", BIG), 0),
    v2("lz4: large, full", "RWR-05", packed("lz4", BIG), 0, compression_type="uncompressed"),
    v2("lz4: end mark in a value", "REC-13", framed("lz4", LZ4_HEADER + lz4_block(BIG[:3000]) + END_MARK), 87),
)
ZSTD: tuple[Produce, ...] = (
    v2("zstd: nothing", "VAR-06", framed("zstd", b""), 87),
    v2("zstd: not zstd", "ZST-04", framed("zstd", ONE * 9), -1),
    v2(
        "zstd: two frames", "RWR-01", framed("zstd", b"".join(compress("zstd", half, magic=2) for half in HALVES), 2), 0
    ),
    v2("zstd: skippable frames", "RWR-01", framed("zstd", b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + ZSTD_FRAME), 0),
    v2("zstd: cut frame", "ZST-07", framed("zstd", ZSTD_FRAME[:-1]), -1),
    v2("zstd: cut header", "ZST-07", framed("zstd", ZSTD_FRAME[:5]), -1),
    v2("zstd: cut second header", "RWR-01", framed("zstd", ZSTD_FRAME + ZSTD_FRAME[:5]), 0),
    v2("zstd: cut second magic", "RWR-01", framed("zstd", ZSTD_FRAME + ZSTD_FRAME[:2]), 0),
    v2("zstd: cut second skippable magic", "RWR-01", framed("zstd", ZSTD_FRAME + b"\x5f\x2a"), 0),
    v2("zstd: one zero after it", "ZST-04", framed("zstd", ZSTD_FRAME + bytes(1)), -1, 0),
    v2("zstd: four zeros after it", "ZST-04", framed("zstd", ZSTD_FRAME + bytes(4)), -1, 0),
    v2("zstd: five zeros after it", "ZST-04", framed("zstd", ZSTD_FRAME + bytes(5)), -1),
    v2(
        "zstd: largest skippable frame",
        "RWR-01",
        framed("zstd", ZSTD_FRAME + b"\x50\x2a\x4d\x18\xff\xff\xff\xff"),
        0,
        -1,
    ),
    v2("zstd: checksum", "RWR-01", framed("zstd", with_checksum(ONE)), 0),
    v2("zstd: wrong checksum", "ZST-05", framed("zstd", flip(with_checksum(ONE), len(with_checksum(ONE)) - 1)), -1),
    v2("zstd: no checksum", "ZST-07", framed("zstd", with_checksum(ONE)[:-1]), -1),
    v2("zstd: reserved block", "ZST-05", framed("zstd", ZSTD_FRAME[:6] + b"\x07\x00\x00"), -1),
    v2("zstd: dictionary", "ZST-09", framed("zstd", b"\x28\xb5\x2f\xfd\x01\x58\x01" + ZSTD_FRAME[6:]), -1),
    v2("zstd: raw blocks", "RWR-01", framed("zstd", raw_zstd((TWO[:9], False), (TWO[9:], True)), 2), 0),
    v2("zstd: cut raw block", "REC-13", framed("zstd", ZSTD_FRAME + raw_zstd((BIG, True))[:400], 2), 87),
    v2("zstd: cut raw block alone", "ZST-07", framed("zstd", raw_zstd((BIG, True))[:400]), -1),
    v2("zstd: sized", "RWR-01", framed("zstd", sized_zstd(len(ONE), raw_blocks((ONE, True)))), 0),
    v2("zstd: wrong size", "ZST-05", framed("zstd", sized_zstd(len(ONE) + 1, raw_blocks((ONE, True)))), -1),
    v2("zstd: reserved sized", "ZST-05", framed("zstd", sized_zstd(9, b"\x07\x00\x00")), -1),
    v2("zstd: cut sized", "ZST-07", framed("zstd", sized_zstd(len(ONE), raw_blocks((ONE, True)))[:-1]), -1),
    # In one pass, which small frames take, the size is always looked at, and nothing else about a block.
    v2("zstd: size, end empty", "ZST-05", framed("zstd", sized_zstd(len(ONE) + 1, ENDED)), -1),
    v2("zstd: size, large", "RWR-01", framed("zstd", sized_zstd(len(BIG) + 1, BIG_BLOCKS)), 0),
    v2("zstd: window", "RWR-01", framed("zstd", sized_zstd(len(ONE), ENDED, 0x98)), 0),
    v2("zstd: largest window", "RWR-01", framed("zstd", sized_zstd(len(ONE), ENDED, 0xAF)), 0),
    v2("zstd: window too large", "ZST-08", framed("zstd", sized_zstd(len(ONE), ENDED, 0xB0)), -1),
    v2("zstd: window, large", "ZST-08", framed("zstd", sized_zstd(len(BIG), BIG_BLOCKS, 0x98)), -1),
    v2("zstd: raw block", "RWR-01", framed("zstd", sized_zstd(len(KILO), raw_blocks((KILO, True)), 0)), 0),
    v2("zstd: large", "RWR-01", packed("zstd", BIG), 0),
    v2("zstd: large, cut", "ZST-07", framed("zstd", compress("zstd", BIG * 9, magic=2)[:-20], 9), -1),
)
# What only the newest has: max.decompressed.message.bytes.
BOUNDED: tuple[Produce, ...] = (
    v2(
        "record of a plain batch",
        "RWR-01",
        raw_batch(raw_record(value=bytes(99))),
        0,
        max_decompressed_message_bytes="50",
    ),
    v2(
        "record above the limit",
        "SIZ-03",
        packed("gzip", raw_record(value=bytes(99))),
        87,
        0,
        max_decompressed_message_bytes="50",
    ),
    v2("record below the limit", "RWR-01", packed("gzip", RECORD), 0, max_decompressed_message_bytes="50"),
    v2(
        "length above the limit",
        "SIZ-03",
        packed("gzip", encode_varint(99) + RECORD[1:]),
        87,
        max_decompressed_message_bytes="50",
    ),
    v2("rebuilt", "RWR-05", BATCH, 0, max_decompressed_message_bytes="5", compression_type="gzip"),
)
CODECS = GZIP + SNAPPY + LZ4 + ZSTD + BOUNDED
