"""Faults of gzip and snappy streams, and decompression bombs of every codec, in v2 batches and wrappers."""

from __future__ import annotations

import zlib
from functools import cache, partial
from struct import Struct
from typing import Final

import snappy

from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    gzip_header,
    gzip_trailer,
    uvarint,
    xerial_chunk,
)
from kafka_fuzz.mutate.entries import BaseEntry
from kafka_fuzz.mutate.faults.table import ALL, STREAM, UNPACKED, V2, FaultSite, fault
from kafka_fuzz.mutate.fixup import (
    GZIP_HEADER,
    fast_gzip_member,
    lz4_blocks,
    pack_fast,
    raw_deflate,
    write_batch_bytes,
    write_message_bytes,
    xerial_block,
)
from kafka_records.constants import Compression

GZIP: Final[tuple[Compression, ...]] = ("gzip",)
SNAPPY: Final[tuple[Compression, ...]] = ("snappy",)
gzip_fault = partial(fault, magics=ALL, codecs=GZIP, nesting="stream")
snappy_fault = partial(fault, magics=ALL, codecs=SNAPPY, nesting="stream")
CLAIMS: Final = {"by one": 1, "large": 2**24, "GiB": 2**30, "largest": 2**31 - 1, "unsigned": 2**32 - 1}


def with_stream(base: BaseEntry, stream: bytes) -> bytes:
    """The entry with another compressed stream, whatever its magic."""
    if base.magic == 2:
        return write_batch_bytes(base.header, stream)
    return write_message_bytes(base.message._replace(value=stream))


def halves(base: BaseEntry) -> tuple[bytes, bytes]:
    """The payload in two parts, neither of them empty."""
    middle = len(base.payload) // 2
    return base.payload[:middle], base.payload[middle:]


@cache
def zero_bytes(codec: Compression, blocks: int) -> bytes:
    """Frames that hold so many times 64 KiB of zeros and can follow a stream; of lz4, blocks."""
    plain = bytes(1 << 16)
    match codec:
        case "gzip":
            deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
            body = b"".join(deflater.compress(plain) for _ in range(blocks)) + deflater.flush()
            return GZIP_HEADER + body + gzip_trailer(plain * blocks)
        case "zstd":
            return pack_fast("zstd", plain, 2) * blocks
    return lz4_blocks(plain) * blocks


@fault(
    "CMP-10",
    "HDR-14",
    "NST-07",
    magics=ALL,
    codecs=("gzip", "lz4", "zstd"),
    nesting="stream",
    field="stream",
    kinds=("malformed", "limit", "truncated", "decompression", "corrupt"),
    variants={"64 KiB": 1, "256 KiB": 4},
)
def stream_inflates(site: FaultSite) -> bytes:
    """The stream continues after the records, and holds hundreds of times its size in zeros."""
    base = site.base
    if base.codec == "lz4":
        whole = pack_fast("lz4", base.payload, base.magic)
        return with_stream(base, whole[: -len(LZ4_END_MARK)] + zero_bytes("lz4", site.value) + LZ4_END_MARK)
    return with_stream(base, pack_fast(base.codec, base.payload, base.magic) + zero_bytes(base.codec, site.value))


@gzip_fault(
    "GZP-05", "GZP-01", field="stream", kinds=STREAM, variants={"header": 9, "inside": 0, "trailer": -4, "by one": -1}
)
def gzip_cut_short(site: FaultSite) -> bytes:
    """A gzip member lacks its end."""
    whole = fast_gzip_member(site.base.payload)
    return with_stream(site.base, whole[: site.value or site.rng.randrange(10, len(whole) - 8)])


@gzip_fault("GZP-04", field="trailer", kinds=STREAM, variants={"crc": (1, 0), "size": (0, 1), "zero": None})
def gzip_trailer_wrong(site: FaultSite) -> bytes:
    """A gzip trailer is not that of the member's content."""
    plain = site.base.payload
    if site.value is None:
        return with_stream(site.base, GZIP_HEADER + raw_deflate(plain) + bytes(8))
    crc, size = site.value
    trailer = Struct("<II").pack(zlib.crc32(plain) ^ crc, len(plain) + size)
    return with_stream(site.base, GZIP_HEADER + raw_deflate(plain) + trailer)


@gzip_fault("GZP-04", "GZP-02", field="trailer", kinds=STREAM, variants={"of the first": 0, "of the last": 1})
def gzip_trailer_of_one_member_wrong(site: FaultSite) -> bytes:
    """A gzip stream has two members, and the trailer of one is wrong."""
    members = [bytearray(fast_gzip_member(half)) for half in halves(site.base)]
    members[site.value][-8] ^= 1
    return with_stream(site.base, b"".join(members))


@gzip_fault("GZP-01", field="header", kinds=STREAM, variants={"first": 0, "second": 1, "method": 2})
def gzip_header_wrong(site: FaultSite) -> bytes:
    """A gzip header's magic or method is another."""
    member = fast_gzip_member(site.base.payload)
    wrong = bytes((member[site.value] ^ 1,))
    return with_stream(site.base, member[: site.value] + wrong + member[site.value + 1 :])


@gzip_fault("GZP-06", field="header", kinds=STREAM)
def gzip_header_checksum_wrong(site: FaultSite) -> bytes:
    """A gzip header has a checksum, and it is wrong."""
    header = gzip_header(flags=2)
    check = zlib.crc32(header) & 0xFFFF ^ 1
    plain = site.base.payload
    return with_stream(site.base, header + check.to_bytes(2, "little") + raw_deflate(plain) + gzip_trailer(plain))


@gzip_fault(
    "GZP-06",
    field="header",
    variants={"name": (8, b"name\0"), "comment": (16, b"\0"), "extra": (4, b"\2\0xx"), "text": (1, b"")},
)
def gzip_header_fields_present(site: FaultSite) -> bytes:
    """A gzip header has optional fields, which are legal."""
    flags, fields = site.value
    plain = site.base.payload
    return with_stream(site.base, gzip_header(flags=flags) + fields + raw_deflate(plain) + gzip_trailer(plain))


@gzip_fault("GZP-02", field="stream", variants={"halves": 0, "empty first": 1, "empty last": 2})
def gzip_of_two_members(site: FaultSite) -> bytes:
    """A gzip stream has two members, which are one stream."""
    parts = (halves(site.base), (b"", site.base.payload), (site.base.payload, b""))[site.value]
    return with_stream(site.base, b"".join(map(fast_gzip_member, parts)))


@gzip_fault("GZP-02", magics=V2, field="stream", kinds=UNPACKED)
def gzip_member_more(site: FaultSite) -> bytes:
    """A second gzip member holds bytes that no record accounts for."""
    return with_stream(site.base, fast_gzip_member(site.base.payload) + fast_gzip_member(b"\0" * 40))


@gzip_fault(
    "GZP-03",
    field="tail",
    verdict="acceptable",
    kinds=STREAM,
    variants={"one": 1, "eight": 8, "large": 100},
    label="gzip_bytes_behind",
)
def gzip_bytes_after(site: FaultSite) -> bytes:
    """Bytes that are no gzip header follow the last member, and Kafka ignores them."""
    return with_stream(site.base, fast_gzip_member(site.base.payload) + bytes(site.value))


@gzip_fault(
    "GZP-03",
    field="tail",
    verdict="acceptable",
    kinds=STREAM,
    variants={"two": GZIP_HEADER[:2], "header": GZIP_HEADER, "eighteen": fast_gzip_member(b"")[:18]},
    label="gzip_start_of_a_member_behind",
)
def gzip_start_of_a_member_after(site: FaultSite) -> bytes:
    """The start of a second member follows, too short for a whole one, and Kafka ignores it."""
    return with_stream(site.base, fast_gzip_member(site.base.payload) + site.value)


@gzip_fault(
    "GZP-06",
    "GZP-05",
    field="header",
    kinds=STREAM,
    variants={"name": (8, b"name"), "comment": (16, b""), "extra": (4, b"\xff\xff"), "checksum": (2, b"\0")},
)
def gzip_header_field_cut_short(site: FaultSite) -> bytes:
    """An optional field of a gzip header never ends, and nothing follows it."""
    flags, fields = site.value
    return with_stream(site.base, gzip_header(flags=flags) + fields)


@gzip_fault(
    "GZP-06",
    field="header",
    verdict="acceptable",
    kinds=STREAM,
    variants={"bit 5": 0x20, "bit 6": 0x40, "bit 7": 0x80, "all": 0xE0},
)
def gzip_reserved_flags_set(site: FaultSite) -> bytes:
    """Flags of a gzip header that mean nothing are set, and Kafka ignores them."""
    member = fast_gzip_member(site.base.payload)
    return with_stream(site.base, member[:3] + bytes((site.value,)) + member[4:])


@gzip_fault("GZP-01", field="stream", kinds=STREAM, variants={"zlib": 1, "raw": 0})
def gzip_without_gzip(site: FaultSite) -> bytes:
    """The stream is zlib's, or bare deflate."""
    plain = site.base.payload
    return with_stream(site.base, zlib.compress(plain, 1) if site.value else raw_deflate(plain))


@snappy_fault("SNP-02", field="stream")
def snappy_raw(site: FaultSite) -> bytes:
    """A snappy stream is one raw block, without xerial's frame."""
    return with_stream(site.base, snappy.compress(site.base.payload))


@snappy_fault("SNP-11", field="stream", variants={"halves": False, "header again": True})
def snappy_of_two_blocks(site: FaultSite) -> bytes:
    """A snappy stream has two blocks, perhaps with a header between them."""
    one, other = halves(site.base)
    between = XERIAL_HEADER if site.value else b""
    return with_stream(site.base, XERIAL_HEADER + xerial_block(one) + between + xerial_block(other))


@snappy_fault(
    "SNP-03", field="header", verdict="acceptable", kinds=STREAM, variants={"zero": 0, "minus one": -1, "large": 999}
)
def snappy_version_unusual(site: FaultSite) -> bytes:
    """The first xerial header names an unknown version, which readers ignore."""
    version = site.value.to_bytes(4, "big", signed=True)
    return with_stream(site.base, XERIAL_MAGIC + version * 2 + xerial_block(site.base.payload))


@snappy_fault("SNP-04", field="header", kinds=STREAM)
def snappy_version_of_a_repeated_header(site: FaultSite) -> bytes:
    """A xerial header in the middle of the stream names a version below one."""
    one, other = halves(site.base)
    return with_stream(site.base, XERIAL_HEADER + xerial_block(one) + XERIAL_MAGIC + bytes(8) + xerial_block(other))


@snappy_fault(
    "SNP-05",
    "SNP-06",
    "SNP-07",
    "SNP-08",
    field="block_length",
    kinds=(*STREAM, "limit"),
    variants={"smallest": -(2**31), "here": -4, "minus one": -1, "zero": 0, "by one": None, "largest": 2**31 - 1},
)
def snappy_block_length_wrong(site: FaultSite) -> bytes:
    """A snappy block's length cannot be, or reaches beyond the stream."""
    block = snappy.compress(site.base.payload)
    length = len(block) + 1 if site.value is None else site.value
    size = length.to_bytes(4, "big", signed=True)
    return with_stream(site.base, XERIAL_HEADER + xerial_chunk(block, size=size))


@snappy_fault("SNP-05", field="block_length", kinds=(*STREAM, "limit"))
def snappy_block_length_reversed(site: FaultSite) -> bytes:
    """A snappy block's length is little-endian."""
    block = snappy.compress(site.base.payload)
    return with_stream(site.base, XERIAL_HEADER + xerial_chunk(block, size=len(block).to_bytes(4, "little")))


@snappy_fault(
    "SNP-07",
    "SNP-02",
    field="claim",
    kinds=(*STREAM, "limit"),
    variants=CLAIMS,
)
def snappy_claim_wrong(site: FaultSite) -> bytes:
    """A snappy block claims to hold more bytes than it does."""
    return with_stream(site.base, XERIAL_HEADER + xerial_chunk(claiming(site)))


def claiming(site: FaultSite) -> bytes:
    """A raw block that claims to hold so many bytes."""
    plain = site.base.payload
    body: bytes = snappy.compress(plain)[len(uvarint(len(plain))) :]
    return uvarint(len(plain) + 1 if site.value == 1 else site.value) + body


@snappy_fault("SNP-02", "CMP-10", field="claim", kinds=(*STREAM, "limit"), variants=CLAIMS)
def snappy_raw_claim_wrong(site: FaultSite) -> bytes:
    """A snappy stream is one raw block, which claims to hold more bytes than it does."""
    return with_stream(site.base, claiming(site))


@snappy_fault("SNP-03", "SNP-02", field="header", kinds=STREAM, variants={"magic": 8, "version": 12, "by one": 15})
def snappy_header_cut_short(site: FaultSite) -> bytes:
    """A xerial header lacks its end, and nothing follows."""
    return with_stream(site.base, XERIAL_HEADER[: site.value])


@snappy_fault("SNP-08", field="stream", kinds=STREAM, variants={"inside": 0, "by one": -1})
def snappy_cut_short(site: FaultSite) -> bytes:
    """A snappy stream lacks its end."""
    whole = XERIAL_HEADER + xerial_block(site.base.payload)
    return with_stream(site.base, whole[: site.value or site.rng.randrange(20, len(whole) - 1)])


@snappy_fault(
    "SNP-09",
    field="tail",
    verdict="acceptable",
    kinds=STREAM,
    variants={"one": 1, "three": 3},
    label="snappy_stray_bytes_behind",
)
def snappy_stray_bytes_after(site: FaultSite) -> bytes:
    """Fewer bytes than a block length follow the last snappy block, and Kafka ignores them."""
    return with_stream(site.base, XERIAL_HEADER + xerial_block(site.base.payload) + bytes(site.value))


@snappy_fault("SNP-09", field="tail", kinds=STREAM, variants={"four": 4, "large": 64}, label="snappy_zeros_behind")
def snappy_zeros_after(site: FaultSite) -> bytes:
    """Zeros follow the last snappy block: a block of no bytes."""
    return with_stream(site.base, XERIAL_HEADER + xerial_block(site.base.payload) + bytes(site.value))
