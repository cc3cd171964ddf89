"""Lies told by zstd frames, in v2 batches."""

from __future__ import annotations

from functools import partial
from typing import Final

import zstandard

from kafka_fuzz.mutate.lies.streams import halves, with_stream
from kafka_fuzz.mutate.lies.table import STREAM, UNPACKED, Spot, lie
from kafka_fuzz.mutate.packing import pack
from kafka_records.constants import Compression

ZSTD: Final[tuple[Compression, ...]] = ("zstd",)
zstd_lie = partial(lie, codecs=ZSTD, nesting="stream")
MAGIC = bytes.fromhex("28b52ffd")
LAST_BLOCK = bytes.fromhex("010000")
CHECKED = zstandard.ZstdCompressor(level=-1, write_content_size=False, write_checksum=True)
SKIPPABLE = b"\x50\x2a\x4d\x18\3\0\0\0xyz"


def raw_frame(plain: bytes, descriptor: int, fields: bytes) -> bytes:
    """A frame whose blocks are stored, with the header as given; a block is at most 1 KiB."""
    blocks = b"".join(raw_block(plain[at : at + 1024]) for at in range(0, len(plain), 1024))
    return MAGIC + bytes((descriptor,)) + fields + blocks + LAST_BLOCK


def raw_block(plain: bytes) -> bytes:
    """A stored block that is not the last."""
    return (len(plain) << 3).to_bytes(3, "little") + plain


@zstd_lie("ZST-07", field="stream", kinds=STREAM, variants={"magic": 4, "header": 5, "inside": 0, "by one": -1})
def zstd_cut_short(spot: Spot) -> bytes:
    """A zstd frame lacks its end."""
    whole = pack("zstd", spot.base.payload, 2)
    return with_stream(spot.base, whole[: spot.value or spot.rng.randrange(6, len(whole) - 1)])


@zstd_lie("ZST-04", field="tail", kinds=STREAM, variants={"five": bytes(5), "large": b"\xff" * 40})
def zstd_bytes_behind(spot: Spot) -> bytes:
    """Something that is no frame follows a zstd frame."""
    return with_stream(spot.base, pack("zstd", spot.base.payload, 2) + spot.value)


@zstd_lie(
    "ZST-04",
    field="tail",
    verdict="acceptable",
    kinds=STREAM,
    variants={"one": MAGIC[:1], "two": MAGIC[:2], "three": MAGIC[:3]},
)
def zstd_part_of_a_magic_behind(spot: Spot) -> bytes:
    """The start of a magic follows a zstd frame."""
    return with_stream(spot.base, pack("zstd", spot.base.payload, 2) + spot.value)


@zstd_lie("ZST-02", field="stream", variants={"halves": 0, "empty first": 1, "empty last": 2})
def zstd_of_two_frames(spot: Spot) -> bytes:
    """A zstd stream has two frames, which are one stream."""
    plain = spot.base.payload
    parts = (halves(spot.base), (b"", plain), (plain, b""))[spot.value]
    return with_stream(spot.base, b"".join(pack("zstd", part, 2) for part in parts))


@zstd_lie("ZST-02", field="stream", kinds=UNPACKED)
def zstd_frame_more(spot: Spot) -> bytes:
    """A second zstd frame holds bytes that no record accounts for."""
    return with_stream(spot.base, pack("zstd", spot.base.payload, 2) + pack("zstd", b"\0" * 40, 2))


@zstd_lie("ZST-03", field="stream", variants={"in front": True, "behind": False})
def zstd_skippable_frame(spot: Spot) -> bytes:
    """A skippable frame stands beside the zstd frame."""
    whole = pack("zstd", spot.base.payload, 2)
    return with_stream(spot.base, SKIPPABLE + whole if spot.value else whole + SKIPPABLE)


@zstd_lie(
    "ZST-03",
    field="skippable_size",
    kinds=(*STREAM, "limit"),
    variants={"by one": 4, "largest": 2**32 - 1, "here": 2**32 - 8},
)
def zstd_skippable_size_wrong(spot: Spot) -> bytes:
    """A skippable frame's size reaches beyond the stream, or leads to it again where sums wrap."""
    skippable = SKIPPABLE[:4] + spot.value.to_bytes(4, "little") + b"xyz"
    whole = pack("zstd", spot.base.payload, 2)
    return with_stream(spot.base, whole + skippable if spot.value == 4 else skippable + whole)


@zstd_lie("ZST-05", field="checksum")
def zstd_checksum_right(spot: Spot) -> bytes:
    """A zstd frame has a checksum."""
    return with_stream(spot.base, CHECKED.compress(spot.base.payload))


@zstd_lie("ZST-05", field="checksum", kinds=STREAM)
def zstd_checksum_wrong(spot: Spot) -> bytes:
    """A zstd frame has a checksum, and it is wrong."""
    whole = CHECKED.compress(spot.base.payload)
    return with_stream(spot.base, whole[:-1] + bytes((whole[-1] ^ 1,)))


@zstd_lie(
    "ZST-06",
    field="content_size",
    kinds=(*STREAM, "limit"),
    variants={"by one": 1, "one less": -1, "zero": 0, "large": 2**30, "largest": 2**63},
)
def zstd_content_size_wrong(spot: Spot) -> bytes:
    """A zstd frame says another size than it has."""
    plain = spot.base.payload
    size = len(plain) + spot.value if abs(spot.value) == 1 else spot.value
    return with_stream(spot.base, raw_frame(plain, 0xC0, b"\x58" + size.to_bytes(8, "little")))


@zstd_lie(
    "ZST-08", field="window", kinds=(*STREAM, "limit"), variants={"by one": 0x89, "two GiB": 0xA8, "largest": 0xFF}
)
def zstd_window_too_large(spot: Spot) -> bytes:
    """A zstd frame asks for a window of more than 128 MiB."""
    return with_stream(spot.base, raw_frame(spot.base.payload, 0x00, bytes((spot.value,))))


@zstd_lie(
    "ZST-08",
    "ZST-06",
    field="content_size",
    kinds=(*STREAM, "limit"),
    variants={"256 MiB": 2**28, "largest": 2**32 - 1},
)
def zstd_single_segment_claims(spot: Spot) -> bytes:
    """A zstd frame is one segment, and says that it is larger than any window."""
    return with_stream(spot.base, raw_frame(spot.base.payload, 0xA0, spot.value.to_bytes(4, "little")))


@zstd_lie("ZST-09", field="dictionary", kinds=STREAM)
def zstd_dictionary(spot: Spot) -> bytes:
    """A zstd frame needs a dictionary."""
    return with_stream(spot.base, raw_frame(spot.base.payload, 0x01, b"\x58\x07"))


@zstd_lie("ZST-09", field="descriptor", kinds=STREAM)
def zstd_reserved_bit(spot: Spot) -> bytes:
    """The reserved bit of a zstd frame header is set."""
    return with_stream(spot.base, raw_frame(spot.base.payload, 0x08, b"\x58"))


@zstd_lie("ZST-10", field="block")
def zstd_stored_blocks(spot: Spot) -> bytes:
    """A zstd frame's blocks are stored as they are."""
    return with_stream(spot.base, raw_frame(spot.base.payload, 0x00, b"\x58"))
