"""lz4 frames as Kafka's Lz4BlockInputStream takes them (group LZ4).

One frame of independent blocks.  The header checksum of v0 is wrong by
tradition, the content checksum is skipped, and what follows the EndMark
is never looked at.
"""

from __future__ import annotations

from typing import Any

import xxhash

from kafka_corpus.authoring.batches import (
    MAGICS,
    PLAIN,
    REFUSED,
    around,
    batch_of,
    compressed,
    payload_of,
    plain_of,
    some_records,
)
from kafka_corpus.authoring.build import TIMESTAMP, flip, grid
from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    LZ4_MAGIC,
    lz4_block,
    lz4_data,
    lz4_frame,
    lz4_header,
    lz4_sequence,
    skippable,
)
from kafka_corpus.authoring.messages import numbered, record_of, seal, set_of, wrapper_batch
from kafka_corpus.golden import GOLDEN_RECORDS
from kafka_corpus.registry import Draft, acceptable, case, invalid, valid

FLG, BD = 0x60, 0x40
BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM = 0x10, 0x08, 0x04
NEW = {"v1": 1, "v2": 2}
BLOCK = lz4_data(lz4_block(PLAIN))
EMPTY_BLOCK = lz4_data(lz4_sequence(b""))
STORED_ZERO = bytes.fromhex("00000080")
SPLITS = {
    "record-boundary": (len(PLAIN) // 2,),
    "in-a-length": (1,),
    "in-a-value": (20,),
    "every-byte": tuple(range(1, len(PLAIN))),
}


def frame(flg: int = FLG, bd: int = BD, *, body: bytes = BLOCK, end: bytes = LZ4_END_MARK, **header: Any) -> bytes:
    """A frame whose descriptor and end can be anything."""
    return lz4_header(flg=flg, bd=bd, **header) + body + end


def xxh(data: bytes) -> bytes:
    """The checksum of blocks and of the content."""
    return xxhash.xxh32_intdigest(data).to_bytes(4, "little")


@case("LZ4-01", "CMP-03", each=MAGICS)
def frame_of_kafkas_writer(magic: int) -> Draft:
    """One frame of independent blocks without block or content checksums is what Kafka's writer gives."""
    return valid(*around(lz4_frame(lz4_block(plain_of(magic)), broken=magic == 0), magic, "lz4"))


GOLDEN = {
    "v0": (
        0,
        "0000000000000001000000506fe0c26d0003ffffffff0000004204224d1860401a330000001600010051162356c1370f00d1036b65790000"
        "000576616c75651200f0060000010000000ea7ec68030000ffffffffffffffff00000000",
    ),
    "v1": (
        1,
        "000000000000000100000062572c9ed201030000018bcfe56805ffffffff0000004c04224d186040823d00000016000100e01e6ad05db801"
        "000000018bcfe5681800d0036b65790000000576616c75651100001d008500000016ea764b542a009005ffffffffffffffff00000000",
    ),
}


@case("LZ4-06", "LZ4-16", "NST-01", each=GOLDEN)
def golden_wrapper(golden: tuple[int, str]) -> Draft:
    """A wrapper that kafka-clients 3.9.0 compressed with lz4 is read."""
    magic, text = golden
    records = [record_of(magic, 0, b"key"), record_of(magic, 1, None, None, timestamp=TIMESTAMP + 5)]
    return valid(bytes.fromhex(text), wrapper_batch(records, magic, "lz4", timestamp=TIMESTAMP + 5))


@case("LZ4-16")
def golden_v2() -> Draft:
    """A v2 batch that kafka-clients 3.9.0 compressed with lz4 is read; its block is stored."""
    data = bytes.fromhex(
        "00000000000000000000005bffffffff02fdb7c9af0003000000010000018bcfe568000000018bcfe56805ffffffffffffffff"
        "ffffffffffff0000000204224d186040821b0000801c000000066b65790a76616c75650016000a02010104026801000000000000"
    )
    return valid(data, batch_of(*GOLDEN_RECORDS, compression="lz4"))


NO_FRAME = {
    "legacy": bytes.fromhex("02214c18") + BLOCK,
    "big-endian": LZ4_MAGIC[::-1] + frame()[4:],
    "skippable-first": skippable(b"skip") + frame(),
    "zstd": bytes.fromhex("28b52ffd") + frame()[4:],
    "bare-block": lz4_block(PLAIN),
}


@case("LZ4-01", each=NO_FRAME)
def not_a_frame(packed: bytes) -> Draft:
    """Anything that does not start with the frame magic is refused, the legacy and skippable frames too."""
    return invalid(compressed("lz4", packed)[0], *REFUSED)


@case("LZ4-02", each={"version-0": 0x20, "version-2": 0xA0, "version-3": 0xE0, "reserved-bit": 0x62})
def flg_refused(flg: int) -> Draft:
    """The version has to be 1 and the reserved bit 0."""
    return invalid(compressed("lz4", frame(flg))[0], *REFUSED)


@case("LZ4-02", each={"with-the-id": bytes(4), "without": b""})
def dictionary(dictionary_id: bytes) -> Draft:
    """A frame whose flags announce a dictionary is refused, with its id or without."""
    return invalid(compressed("lz4", frame(0x61, size=dictionary_id))[0], *REFUSED)


@case("LZ4-03", each=MAGICS)
def dependent_blocks(magic: int) -> Draft:
    """Blocks that depend on one another are refused, even if there is only one."""
    body = lz4_data(lz4_block(plain_of(magic)))
    return invalid(around(frame(0x40, body=body, broken=magic == 0), magic, "lz4")[0], *REFUSED)


@case("LZ4-03")
def block_that_needs_the_one_before() -> Draft:
    """A block that copies from the block before it is refused."""
    record = some_records(1)[0]._replace(value=b"-" * 600)
    plain = payload_of([record])
    second = lz4_sequence(b"", len(plain) - 300 - 12) + lz4_sequence(plain[-12:])
    body = lz4_data(lz4_block(plain[:300])) + lz4_data(second)
    return invalid(compressed("lz4", frame(0x40, body=body), record)[0], *REFUSED)


@case("LZ4-04", each={"code-0": 0x00, "code-3": 0x30, "high-bit": 0xC0, "low-bits": 0x4F, "one-low-bit": 0x41})
def bd_refused(bd: int) -> Draft:
    """The block size code is 4 to 7, and the other bits are 0."""
    return invalid(compressed("lz4", frame(bd=bd))[0], *REFUSED)


@case("LZ4-04", each={"64-kib": 0x40, "256-kib": 0x50, "1-mib": 0x60, "4-mib": 0x70})
def block_size_codes(bd: int) -> Draft:
    """Every block size that the format knows is taken."""
    records = some_records(3)
    return valid(*compressed("lz4", frame(bd=bd, body=lz4_data(lz4_block(payload_of(records)))), *records))


@case("LZ4-04", "LZ4-11")
def block_above_64_kib() -> Draft:
    """A block of more than 64 KiB is taken where the descriptor allows it."""
    record = some_records(1)[0]._replace(value=b"-" * 90_000)
    return valid(*compressed("lz4", frame(bd=0x50, body=lz4_data(lz4_block(payload_of([record])))), record))


@case("LZ4-05", each=grid(magic=NEW, hc={"zero": 0, "off-by-one": 0x83, "low-byte-instead": -1}))
def header_checksum_wrong(shape: dict[str, Any]) -> Draft:
    """The header checksum is the second byte of the descriptor's xxh32, and is verified in v1 and v2."""
    hc = xxhash.xxh32_intdigest(bytes((FLG, BD))) & 0xFF if shape["hc"] < 0 else shape["hc"]
    body = lz4_data(lz4_block(plain_of(shape["magic"])))
    return invalid(around(frame(body=body, hc=hc), shape["magic"], "lz4")[0], *REFUSED)


@case("LZ4-05", each={"flg": 4, "bd": 5})
def descriptor_changed(at: int) -> Draft:
    """A descriptor that changed to another sound one no longer matches its checksum."""
    return invalid(compressed("lz4", flip(frame(), at, 0x10))[0], *REFUSED)


@case("LZ4-05", "LZ4-08")
def header_checksum_skips_the_content_size() -> Draft:
    """The header checksum covers the content size too."""
    wrong = lz4_header(flg=FLG | CONTENT_SIZE)[-1]
    packed = frame(FLG | CONTENT_SIZE, size=len(PLAIN).to_bytes(8, "little"), hc=wrong)
    return invalid(compressed("lz4", packed)[0], *REFUSED)


@case("LZ4-06", refs=("KAFKA-3160",), each={"broken": True, "right": False})
def header_checksum_in_v0(broken: bool) -> Draft:
    """In v0 the checksum over magic and descriptor is taken, and the right one as well."""
    records = numbered(0, 6, 7)
    packed = frame(body=lz4_data(lz4_block(set_of(records, 0))), broken=broken)
    return valid(seal(packed, 0, "lz4", offset=7), wrapper_batch(records, 0, "lz4"))


@case("LZ4-06", each={"zero": 0, "ff": 0xFF})
def header_checksum_of_no_kind_in_v0(hc: int) -> Draft:
    """Since 0.10, Kafka skips the header checksum in v0, whatever it is."""
    why = "Lz4BlockInputStream does not look at it; a reader that knows both traditions may"
    packed = frame(body=lz4_data(lz4_block(plain_of(0))), hc=hc)
    return acceptable(*around(packed, 0, "lz4"), kinds=REFUSED, why=why)


@case("LZ4-07", refs=("KAFKA-3160",), each=NEW)
def header_checksum_of_v0(magic: int) -> Draft:
    """The header checksum of v0, over magic and descriptor, is refused in v1 and v2."""
    packed = lz4_frame(lz4_block(plain_of(magic)), broken=True)
    return invalid(around(packed, magic, "lz4")[0], *REFUSED)


@case("LZ4-08", each=MAGICS)
def content_size(magic: int) -> Draft:
    """A frame may say how much it holds."""
    plain = plain_of(magic)
    size = len(plain).to_bytes(8, "little")
    packed = frame(FLG | CONTENT_SIZE, body=lz4_data(lz4_block(plain)), size=size, broken=magic == 0)
    return valid(*around(packed, magic, "lz4"))


@case("LZ4-08", each={"zero": 0, "one-less": len(PLAIN) - 1, "one-more": len(PLAIN) + 1, "largest": 2**64 - 1})
def content_size_wrong(size: int) -> Draft:
    """A content size that is wrong is skipped like a right one."""
    why = "Lz4BlockInputStream skips the eight bytes; other readers compare, or allocate as much"
    data, batch = compressed("lz4", frame(FLG | CONTENT_SIZE, size=size.to_bytes(8, "little")))
    return acceptable(data, batch, kinds=(*REFUSED, "limit"), why=why)


@case("LZ4-09", each=MAGICS)
def content_checksum(magic: int) -> Draft:
    """A frame may end in a checksum of its content."""
    plain = plain_of(magic)
    body = lz4_data(lz4_block(plain))
    packed = frame(FLG | CONTENT_CHECKSUM, body=body, end=LZ4_END_MARK + xxh(plain), broken=magic == 0)
    return valid(*around(packed, magic, "lz4"))


@case("LZ4-09", refs=("KAFKA-20528",), each={"zeros": bytes(4), "of-the-block": xxh(lz4_block(PLAIN))})
def content_checksum_wrong(checksum: bytes) -> Draft:
    """A content checksum that is wrong goes unnoticed in Kafka."""
    why = "Lz4BlockInputStream skips it (KAFKA-20528); the format wants it verified"
    packed = frame(FLG | CONTENT_CHECKSUM, end=LZ4_END_MARK + checksum)
    return acceptable(*compressed("lz4", packed), kinds=REFUSED, why=why)


@case("LZ4-09", each=grid(magic=MAGICS, size={"none": 0, "three-bytes": 3}))
def content_checksum_missing(shape: dict[str, Any]) -> Draft:
    """A content checksum that the frame promises, but that is missing or cut short, is an error."""
    magic = shape["magic"]
    body = lz4_data(lz4_block(plain_of(magic)))
    packed = frame(FLG | CONTENT_CHECKSUM, body=body, end=LZ4_END_MARK + bytes(shape["size"]), broken=magic == 0)
    return invalid(around(packed, magic, "lz4")[0], *REFUSED)
