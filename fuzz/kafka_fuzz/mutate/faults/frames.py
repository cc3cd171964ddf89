"""Faults in lz4 and zstd frames."""

from __future__ import annotations

from functools import partial
from typing import Final

import lz4.block
import xxhash
import zstandard

from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    ZSTD_MAGIC,
    lz4_data,
    lz4_header,
    skippable,
    zstd_block,
    zstd_frame,
    zstd_header,
)
from kafka_fuzz.mutate.faults.streams import halves, with_stream
from kafka_fuzz.mutate.faults.table import ALL, STREAM, UNPACKED, V2, FaultSite, fault
from kafka_fuzz.mutate.fixup import LZ4_HEADER, LZ4_HEADER_V0, lz4_blocks, pack_fast
from kafka_records.constants import Compression

LZ4: Final[tuple[Compression, ...]] = ("lz4",)
lz4_fault = partial(fault, magics=ALL, codecs=LZ4, nesting="stream")
SKIPPABLE = skippable(b"skip")
STORED_NOTHING = (1 << 31).to_bytes(4, "little")
# A token of four literals and a match, or what should follow it, broken.
IMPOSSIBLE = {
    "before the start": bytes.fromhex("1461050050626364656600"),
    "at itself": bytes.fromhex("1461000050626364656600"),
    "cut": bytes.fromhex("f061"),
}
BD = 0x40


def lz4_frame_header(magic: int, flg: int = 0x60, bd: int = BD, size: bytes = b"") -> bytes:
    """A frame header with the checksum that its magic requires (LZ4-05, LZ4-06)."""
    return lz4_header(flg=flg, bd=bd, size=size, broken=not magic)


def lz4_frame_with(site: FaultSite, head: bytes, tail: bytes = LZ4_END_MARK) -> bytes:
    """The entry with another frame header before its payload, or another end after it."""
    return with_stream(site.base, head + lz4_blocks(site.base.payload) + tail)


def with_frame(site: FaultSite, blocks: bytes, *, flg: int = 0x60) -> bytes:
    """The entry with *blocks* in a frame with a right header."""
    return with_stream(site.base, lz4_frame_header(site.base.magic, flg) + blocks + LZ4_END_MARK)


def block_of(plain: bytes) -> bytes:
    """A compressed block without its size."""
    block: bytes = lz4.block.compress(plain[:65536], store_size=False)
    return block


@lz4_fault(
    "LZ4-05",
    magics=(1, 2),
    field="header",
    kinds=STREAM,
    variants={"a bit": LZ4_HEADER[:-1] + b"\x83", "of v0": LZ4_HEADER_V0},
)
def lz4_header_checksum_wrong(site: FaultSite) -> bytes:
    """The checksum of an lz4 frame header is wrong, perhaps as v0 makes it."""
    return lz4_frame_with(site, site.value)


@lz4_fault("LZ4-06", magics=(0,), field="header", variants={"right": LZ4_HEADER})
def lz4_header_checksum_right_in_v0(site: FaultSite) -> bytes:
    """The checksum of an lz4 frame header is what lz4 says, and not Kafka's old mistake."""
    return lz4_frame_with(site, site.value)


@lz4_fault(
    "LZ4-01",
    "LZ4-18",
    field="header",
    kinds=STREAM,
    variants={
        "magic": b"\x02\x21\x4c\x18",
        "empty": b"",
        "cut": LZ4_HEADER[:5],
        "skippable": SKIPPABLE + LZ4_HEADER,
    },
)
def lz4_header_missing(site: FaultSite) -> bytes:
    """The stream does not begin with an lz4 frame header."""
    if site.value == LZ4_HEADER[:5]:
        return with_stream(site.base, site.value)
    return lz4_frame_with(site, site.value)


@lz4_fault(
    "LZ4-02",
    "LZ4-03",
    field="flg",
    kinds=STREAM,
    variants={"version zero": 0x20, "linked": 0x40, "reserved": 0x62, "dictionary": 0x61},
)
def lz4_flags_refused(site: FaultSite) -> bytes:
    """An lz4 frame's flags ask for what Kafka's reader refuses."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, flg=site.value))


@lz4_fault("LZ4-02", field="flg", kinds=STREAM, variants={"zero": 0, "one": 1})
def lz4_dictionary_named(site: FaultSite) -> bytes:
    """An lz4 frame names the dictionary that it needs."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, 0x61, BD, site.value.to_bytes(4, "little")))


@lz4_fault("LZ4-03", field="block", kinds=STREAM)
def lz4_block_needs_the_one_before(site: FaultSite) -> bytes:
    """An lz4 block copies from the block before it, and the frame says so."""
    one, other = halves(site.base)
    linked: bytes = lz4.block.compress(one + other, store_size=False, dict=one)
    return with_frame(site, lz4_blocks(one) + lz4_data(linked), flg=0x40)


@lz4_fault("LZ4-04", field="bd", kinds=STREAM, variants={"three": 0x30, "reserved": 0x41, "sign": 0xC0})
def lz4_block_descriptor_refused(site: FaultSite) -> bytes:
    """An lz4 frame names a block size that there is not."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, bd=site.value))


@lz4_fault("LZ4-04", field="bd", variants={"five": 0x50, "seven": 0x70})
def lz4_larger_blocks(site: FaultSite) -> bytes:
    """An lz4 frame allows larger blocks than Kafka writes."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, bd=site.value))


@lz4_fault(
    "LZ4-08",
    field="content_size",
    verdict="acceptable",
    kinds=(*STREAM, "limit"),
    variants={"zero": 0, "by one": 1, "large": 2**31, "largest": 2**64 - 1},
)
def lz4_content_size_wrong(site: FaultSite) -> bytes:
    """An lz4 frame says another size than it has, and Kafka never looks."""
    size = len(site.base.payload) + 1 if site.value == 1 else site.value
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, 0x68, BD, size.to_bytes(8, "little")))


@lz4_fault("LZ4-09", field="content_checksum", verdict="acceptable", kinds=STREAM)
def lz4_content_checksum_wrong(site: FaultSite) -> bytes:
    """An lz4 frame's content checksum is wrong, and Kafka never verifies it."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, 0x64), LZ4_END_MARK + b"\1\2\3\4")


@lz4_fault("LZ4-09", field="content_checksum", kinds=STREAM)
def lz4_content_checksum_missing(site: FaultSite) -> bytes:
    """An lz4 frame promises a content checksum, and ends before it."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, 0x64))


@lz4_fault("LZ4-10", field="block_checksum", variants={"right": 0})
def lz4_block_checksum_right(site: FaultSite) -> bytes:
    """An lz4 block has a checksum."""
    return with_block_checksum(site, 0)


@lz4_fault("LZ4-10", field="block_checksum", kinds=STREAM, variants={"a bit": 1, "of the plain bytes": -1})
def lz4_block_checksum_wrong(site: FaultSite) -> bytes:
    """An lz4 block has a checksum, and it is wrong."""
    return with_block_checksum(site, 1)


def with_block_checksum(site: FaultSite, wrong: int) -> bytes:
    """A frame of one block and its checksum."""
    block = block_of(site.base.payload)
    right = xxhash.xxh32_intdigest(site.base.payload if wrong < 0 else block)
    return with_frame(site, lz4_data(block, checksum=right ^ max(wrong, 0)), flg=0x70)


@lz4_fault("LZ4-10", "LZ4-12", field="block_checksum", kinds=STREAM, variants={"zero": 0, "three": 3})
def lz4_block_checksum_missing(site: FaultSite) -> bytes:
    """An lz4 frame promises a checksum after each block, and ends before it is over."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic, 0x70), bytes(site.value))


@lz4_fault("LZ4-12", field="tail", kinds=STREAM, variants={"zero": b"", "one": bytes(1), "three": bytes(3)})
def lz4_end_mark_missing(site: FaultSite) -> bytes:
    """An lz4 frame has no EndMark."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic), site.value)


@lz4_fault("LZ4-12", field="stream", kinds=STREAM, variants={"inside": 0})
def lz4_cut_short(site: FaultSite) -> bytes:
    """An lz4 frame ends inside a block."""
    whole = pack_fast("lz4", site.base.payload, site.base.magic)
    return with_stream(site.base, whole[: site.rng.randrange(8, len(whole) - 4)])


@lz4_fault(
    "LZ4-11",
    field="block_size",
    kinds=(*STREAM, "limit"),
    variants={"by one": 1, "above the most": 65537, "largest": 2**31 - 1},
)
def lz4_block_size_wrong(site: FaultSite) -> bytes:
    """An lz4 block's size is larger than it, or than any block."""
    block = block_of(site.base.payload)
    size = len(block) + len(LZ4_END_MARK) + 1 if site.value == 1 else site.value
    return with_frame(site, size.to_bytes(4, "little") + block)


@lz4_fault("LZ4-11", "CMP-04", field="block", kinds=STREAM, variants=IMPOSSIBLE)
def lz4_block_impossible(site: FaultSite) -> bytes:
    """An lz4 block copies from where nothing is, or ends inside a sequence."""
    return with_frame(site, lz4_data(site.value))


@lz4_fault(
    "LZ4-13",
    field="tail",
    verdict="acceptable",
    kinds=STREAM,
    variants={"instead": STORED_NOTHING, "before": STORED_NOTHING + LZ4_END_MARK},
)
def lz4_stored_block_of_nothing(site: FaultSite) -> bytes:
    """A stored lz4 block of no bytes stands at the end, and Kafka takes it for the EndMark."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic), site.value)


@lz4_fault("LZ4-11", field="block")
def lz4_stored_block(site: FaultSite) -> bytes:
    """An lz4 block is stored as it is."""
    return with_frame(site, lz4_data(site.base.payload, stored=True))


@lz4_fault("LZ4-11", field="block")
def lz4_two_blocks(site: FaultSite) -> bytes:
    """An lz4 frame has two blocks."""
    return with_frame(site, b"".join(map(lz4_blocks, halves(site.base))))


@lz4_fault(
    "LZ4-14",
    field="tail",
    verdict="acceptable",
    kinds=STREAM,
    variants={"one": b"\0", "frame": LZ4_HEADER + LZ4_END_MARK, "large": b"\xff" * 40},
    label="lz4_bytes_behind",
)
def lz4_bytes_after(site: FaultSite) -> bytes:
    """Something follows an lz4 frame, and Kafka never looks at it."""
    return lz4_frame_with(site, lz4_frame_header(site.base.magic), LZ4_END_MARK + site.value)


@lz4_fault("LZ4-14", "HDR-13", magics=V2, field="stream", verdict="acceptable", kinds=STREAM)
def lz4_two_frames(site: FaultSite) -> bytes:
    """The records are spread over two lz4 frames, of which Kafka reads one."""
    return with_stream(site.base, b"".join(pack_fast("lz4", half, 2) for half in halves(site.base)))


ZSTD: Final[tuple[Compression, ...]] = ("zstd",)
zstd_fault = partial(fault, codecs=ZSTD, nesting="stream")
CHECKED = zstandard.ZstdCompressor(level=-1, write_content_size=False, write_checksum=True)
ZSTD_SKIPPABLE = skippable(b"xyz")


def raw_frame(plain: bytes, descriptor: int, fields: bytes) -> bytes:
    """A frame whose blocks are stored, with the header as given; a block is at most 1 KiB."""
    blocks = (zstd_block(plain[at : at + 1024]) for at in range(0, len(plain), 1024))
    return zstd_frame(*blocks, header=zstd_header(descriptor, fields))


@zstd_fault("ZST-07", field="stream", kinds=STREAM, variants={"magic": 4, "header": 5, "inside": 0, "by one": -1})
def zstd_cut_short(site: FaultSite) -> bytes:
    """A zstd frame lacks its end."""
    whole = pack_fast("zstd", site.base.payload, 2)
    return with_stream(site.base, whole[: site.value or site.rng.randrange(6, len(whole) - 1)])


@zstd_fault(
    "ZST-04", field="tail", kinds=STREAM, variants={"five": bytes(5), "large": b"\xff" * 40}, label="zstd_bytes_behind"
)
def zstd_bytes_after(site: FaultSite) -> bytes:
    """Something that is no frame follows a zstd frame."""
    return with_stream(site.base, pack_fast("zstd", site.base.payload, 2) + site.value)


@zstd_fault(
    "ZST-04",
    field="tail",
    verdict="acceptable",
    kinds=STREAM,
    variants={"one": ZSTD_MAGIC[:1], "two": ZSTD_MAGIC[:2], "three": ZSTD_MAGIC[:3]},
    label="zstd_part_of_a_magic_behind",
)
def zstd_part_of_a_magic_after(site: FaultSite) -> bytes:
    """The start of a magic follows a zstd frame."""
    return with_stream(site.base, pack_fast("zstd", site.base.payload, 2) + site.value)


@zstd_fault("ZST-02", field="stream", variants={"halves": 0, "empty first": 1, "empty last": 2})
def zstd_of_two_frames(site: FaultSite) -> bytes:
    """A zstd stream has two frames, which are one stream."""
    plain = site.base.payload
    parts = (halves(site.base), (b"", plain), (plain, b""))[site.value]
    return with_stream(site.base, b"".join(pack_fast("zstd", part, 2) for part in parts))


@zstd_fault("ZST-02", field="stream", kinds=UNPACKED)
def zstd_frame_more(site: FaultSite) -> bytes:
    """A second zstd frame holds bytes that no record accounts for."""
    return with_stream(site.base, pack_fast("zstd", site.base.payload, 2) + pack_fast("zstd", b"\0" * 40, 2))


@zstd_fault("ZST-03", field="stream", variants={"in front": True, "behind": False})
def zstd_skippable_frame(site: FaultSite) -> bytes:
    """A skippable frame stands beside the zstd frame."""
    whole = pack_fast("zstd", site.base.payload, 2)
    return with_stream(site.base, ZSTD_SKIPPABLE + whole if site.value else whole + ZSTD_SKIPPABLE)


@zstd_fault(
    "ZST-03",
    field="skippable_size",
    kinds=(*STREAM, "limit"),
    variants={"by one": 4, "largest": 2**32 - 1, "here": 2**32 - 8},
)
def zstd_skippable_size_wrong(site: FaultSite) -> bytes:
    """A skippable frame's size reaches beyond the stream, or leads to it again where sums wrap."""
    wrong = skippable(b"xyz", size=site.value)
    whole = pack_fast("zstd", site.base.payload, 2)
    return with_stream(site.base, whole + wrong if site.value == 4 else wrong + whole)


@zstd_fault("ZST-05", field="checksum")
def zstd_checksum_right(site: FaultSite) -> bytes:
    """A zstd frame has a checksum."""
    return with_stream(site.base, CHECKED.compress(site.base.payload))


@zstd_fault("ZST-05", field="checksum", kinds=STREAM)
def zstd_checksum_wrong(site: FaultSite) -> bytes:
    """A zstd frame has a checksum, and it is wrong."""
    whole = CHECKED.compress(site.base.payload)
    return with_stream(site.base, whole[:-1] + bytes((whole[-1] ^ 1,)))


@zstd_fault(
    "ZST-06",
    field="content_size",
    kinds=(*STREAM, "limit"),
    variants={"by one": 1, "one less": -1, "zero": 0, "large": 2**30, "largest": 2**63},
)
def zstd_content_size_wrong(site: FaultSite) -> bytes:
    """A zstd frame says another size than it has."""
    plain = site.base.payload
    size = len(plain) + site.value if abs(site.value) == 1 else site.value
    return with_stream(site.base, raw_frame(plain, 0xC0, b"\x58" + size.to_bytes(8, "little")))


@zstd_fault(
    "ZST-08", field="window", kinds=(*STREAM, "limit"), variants={"by one": 0x89, "two GiB": 0xA8, "largest": 0xFF}
)
def zstd_window_too_large(site: FaultSite) -> bytes:
    """A zstd frame requires a window of more than 128 MiB."""
    return with_stream(site.base, raw_frame(site.base.payload, 0x00, bytes((site.value,))))


@zstd_fault(
    "ZST-08",
    "ZST-06",
    field="content_size",
    kinds=(*STREAM, "limit"),
    variants={"256 MiB": 2**28, "largest": 2**32 - 1},
)
def zstd_single_segment_claims(site: FaultSite) -> bytes:
    """A zstd frame is one segment, and says that it is larger than any window."""
    return with_stream(site.base, raw_frame(site.base.payload, 0xA0, site.value.to_bytes(4, "little")))


@zstd_fault("ZST-09", field="dictionary", kinds=STREAM)
def zstd_dictionary(site: FaultSite) -> bytes:
    """A zstd frame needs a dictionary."""
    return with_stream(site.base, raw_frame(site.base.payload, 0x01, b"\x58\x07"))


@zstd_fault("ZST-09", field="descriptor", kinds=STREAM)
def zstd_reserved_bit(site: FaultSite) -> bytes:
    """The reserved bit of a zstd frame header is set."""
    return with_stream(site.base, raw_frame(site.base.payload, 0x08, b"\x58"))


@zstd_fault("ZST-10", field="block")
def zstd_stored_blocks(site: FaultSite) -> bytes:
    """A zstd frame's blocks are stored as they are."""
    return with_stream(site.base, raw_frame(site.base.payload, 0x00, b"\x58"))
