"""lz4 frames on brokers, where they are kept and where the records are rewritten (group LZ4)."""

from __future__ import annotations

from typing import Any

import xxhash

from kafka_corpus.authoring.batches import LEGACY, PLAIN, compressed, payload_of, plain_of, some_records, split
from kafka_corpus.authoring.build import TIMESTAMP, flip
from kafka_corpus.authoring.frames import LZ4_END_MARK, lz4_block, lz4_data, lz4_frame
from kafka_corpus.authoring.steps import (
    KEPT,
    PATHS,
    REBUILT,
    converted,
    keeping,
    kept_batch,
    not_converted,
    not_taken,
    taken,
    ways,
)
from kafka_corpus.cases.decode.lz4 import (
    BD,
    BLOCK_CHECKSUM,
    CONTENT_CHECKSUM,
    CONTENT_SIZE,
    EMPTY_BLOCK,
    FLG,
    NO_FRAME,
    STORED_ZERO,
    frame,
    xxh,
)
from kafka_corpus.cases.decode.lz4_blocks import BAD_BLOCKS, TAILS
from kafka_corpus.golden import LZ4
from kafka_corpus.registry import Draft, case, produced, stored
from kafka_records.broker.errors import INVALID_RECORD

HALF = len(PLAIN) // 2


@case("LZ4-01", each=keeping(packed={name: NO_FRAME[name] for name in ("legacy", "skippable-first")}))
def not_a_frame(shape: dict[str, Any]) -> Draft:
    """Anything that does not start with the frame magic is an unknown error."""
    return not_taken("lz4", shape["packed"], shape["path"])


@case("LZ4-01")
def not_a_frame_in_a_wrapper() -> Draft:
    """A bare lz4 block in a wrapper is an unknown error."""
    return not_converted("lz4", lz4_block(plain_of(1)), 1)


@case("LZ4-02", each=keeping(flg={"version-0": 0x20, "version-2": 0xA0, "reserved-bit": 0x62}))
def flg_refused(shape: dict[str, Any]) -> Draft:
    """The version has to be 1 and the reserved bit 0."""
    return not_taken("lz4", frame(shape["flg"]), shape["path"])


@case("LZ4-02", each=PATHS)
def dictionary(path: str) -> Draft:
    """A frame that names a dictionary is an unknown error."""
    return not_taken("lz4", frame(0x61, size=bytes(4)), path)


@case("LZ4-03", each=PATHS)
def dependent_blocks(path: str) -> Draft:
    """Blocks that depend on one another, the default of python-lz4, are an unknown error, even if there is only one."""
    return not_taken("lz4", frame(0x40), path)


@case("LZ4-03")
def dependent_blocks_in_a_wrapper() -> Draft:
    """Blocks that depend on one another are an unknown error in a wrapper."""
    packed = frame(0x40, body=lz4_data(lz4_block(plain_of(1))))
    return not_converted("lz4", packed, 1)


@case("LZ4-04", each=keeping(bd={"code-3": 0x30, "high-bit": 0xC0, "low-bit": 0x41}))
def bd_refused(shape: dict[str, Any]) -> Draft:
    """The block size code is 4 to 7, and the other bits are 0."""
    return not_taken("lz4", frame(bd=shape["bd"]), shape["path"])


@case("LZ4-04", each=keeping(bd={"256-kib": 0x50, "1-mib": 0x60, "4-mib": 0x70}))
def block_size_codes(shape: dict[str, Any]) -> Draft:
    """Block sizes that Kafka's writer does not choose are taken, and stay where the batch is kept."""
    return taken("lz4", frame(bd=shape["bd"]), shape["path"])


WRONG_CHECKSUMS = {
    "off-by-one": frame(hc=0x83),
    "low-byte-instead": frame(hc=xxhash.xxh32_intdigest(bytes((FLG, BD))) & 0xFF),
    "bd-changed": flip(frame(), 5, 0x10),
}


@case("LZ4-05", each=keeping(packed=WRONG_CHECKSUMS))
def header_checksum_wrong(shape: dict[str, Any]) -> Draft:
    """A wrong header checksum is an unknown error."""
    return not_taken("lz4", shape["packed"], shape["path"])


@case("LZ4-05")
def header_checksum_wrong_in_v1() -> Draft:
    """A wrong header checksum in a v1 wrapper is an unknown error."""
    return not_converted("lz4", frame(body=lz4_data(lz4_block(plain_of(1))), hc=0), 1)


@case("LZ4-06", refs=("KAFKA-3160",), each={"broken": None, "right": 0x82, "neither": 0xFF})
def header_checksum_in_v0(hc: int | None) -> Draft:
    """The header checksum of a v0 wrapper is not looked at; the batch that it becomes has a right one."""
    return converted("lz4", frame(body=lz4_data(lz4_block(plain_of(0))), broken=True, hc=hc), 0)


@case("LZ4-07", refs=("KAFKA-3160",), each=PATHS)
def header_checksum_of_v0(path: str) -> Draft:
    """The header checksum of v0, over magic and descriptor, is an unknown error in v2."""
    return not_taken("lz4", lz4_frame(lz4_block(PLAIN), broken=True), path)


@case("LZ4-07", refs=("KAFKA-3160",))
def header_checksum_of_v0_in_v1() -> Draft:
    """The header checksum of v0 is an unknown error in v1."""
    return not_converted("lz4", lz4_frame(lz4_block(plain_of(1)), broken=True), 1)


SIZES = {"right": len(PLAIN), "zero": 0, "largest": 2**64 - 1}


@case("LZ4-08", each=ways(size=SIZES))
def content_size(shape: dict[str, Any]) -> Draft:
    """A content size is skipped, right or wrong, and kept where the batch is."""
    return taken("lz4", frame(FLG | CONTENT_SIZE, size=shape["size"].to_bytes(8, "little")), shape["path"])


@case("LZ4-08")
def content_size_wrong_in_a_wrapper() -> Draft:
    """A wrong content size in a wrapper is skipped."""
    body = lz4_data(lz4_block(plain_of(1)))
    return converted("lz4", frame(FLG | CONTENT_SIZE, body=body, size=bytes(8)), 1)


@case("LZ4-09", refs=("KAFKA-20528",), each=ways(checksum={"right": xxh(PLAIN), "wrong": bytes(4)}))
def content_checksum(shape: dict[str, Any]) -> Draft:
    """A content checksum is skipped, right or wrong, and kept where the batch is."""
    return taken("lz4", frame(FLG | CONTENT_CHECKSUM, end=LZ4_END_MARK + shape["checksum"]), shape["path"])


@case("LZ4-09", each=ways(size={"none": 0, "three-bytes": 3}))
def content_checksum_missing(shape: dict[str, Any]) -> Draft:
    """A content checksum that is promised and cut short is an unknown error."""
    return not_taken("lz4", frame(FLG | CONTENT_CHECKSUM, end=LZ4_END_MARK + bytes(shape["size"])), shape["path"])


@case("LZ4-09")
def content_checksum_missing_in_a_wrapper() -> Draft:
    """A content checksum that is promised and missing is an unknown error in a wrapper."""
    body = lz4_data(lz4_block(plain_of(1)))
    return not_converted("lz4", frame(FLG | CONTENT_CHECKSUM, body=body), 1)


def with_checksums(*blocks: bytes, wrong: int | None = None, stored: bool = False) -> bytes:
    """A frame of *blocks*, each with its checksum; that of block number *wrong* does not match."""
    body = b"".join(
        lz4_data(block, stored=stored) + xxh(block + (b"!" if at == wrong else b"")) for at, block in enumerate(blocks)
    )
    return frame(FLG | BLOCK_CHECKSUM, body=body)


@case("LZ4-10", each=ways(stored={"compressed": False, "stored": True}))
def block_checksums(shape: dict[str, Any]) -> Draft:
    """Blocks with right checksums over the stored bytes are taken."""
    parts = split(PLAIN, 30)
    blocks = parts if shape["stored"] else list(map(lz4_block, parts))
    return taken("lz4", with_checksums(*blocks, stored=shape["stored"]), shape["path"])


@case("LZ4-10", each=ways(wrong={"first": 0, "last": 1}))
def block_checksum_wrong(shape: dict[str, Any]) -> Draft:
    """The checksum of every block is verified, even where the broker keeps the bytes."""
    return not_taken("lz4", with_checksums(*map(lz4_block, split(PLAIN, 30)), wrong=shape["wrong"]), shape["path"])


@case("LZ4-10")
def block_checksum_wrong_in_a_wrapper() -> Draft:
    """The checksum of a block is verified in a wrapper."""
    body = lz4_data(lz4_block(plain_of(1))) + bytes(4)
    return not_converted("lz4", frame(FLG | BLOCK_CHECKSUM, body=body), 1)


@case("LZ4-11", each=ways(at={"whole": (), "split": (30,)}))
def stored_blocks(shape: dict[str, Any]) -> Draft:
    """A block whose size has the top bit set holds plain bytes."""
    body = b"".join(lz4_data(part, stored=True) for part in split(PLAIN, *shape["at"]))
    return taken("lz4", frame(body=body), shape["path"])


@case("LZ4-11", each=ways(stored={"stored": True, "compressed": False}))
def block_size_above_the_most(shape: dict[str, Any]) -> Draft:
    """A block size one above the descriptor's maximum is an unknown error."""
    body = (65_537 | shape["stored"] << 31).to_bytes(4, "little") + bytes(100)
    return not_taken("lz4", frame(body=body), shape["path"])


@case("LZ4-11", each=ways(more={"exactly": 0, "one-more": 1}))
def block_that_inflates_to_the_most(shape: dict[str, Any]) -> Draft:
    """A block that inflates to 64 KiB is taken, and one that inflates to a byte more is an unknown error."""
    record = some_records(1)[0]._replace(key=None, value=b"-" * (65_536 - 11 + shape["more"]))
    plain = payload_of([record])
    assert len(plain) == 65_536 + shape["more"]
    outcome = not_taken if shape["more"] else taken
    return outcome("lz4", frame(body=lz4_data(lz4_block(plain))), shape["path"], record)


NO_DISTANCE = "match-from-no-distance"


@case(
    "LZ4-11",
    "CMP-04",
    each=ways(block={name: block for name, block in BAD_BLOCKS.items() if name != NO_DISTANCE}),
)
def block_corrupt(shape: dict[str, Any]) -> Draft:
    """A block with a sequence that cannot be is an unknown error."""
    return not_taken("lz4", frame(body=lz4_data(shape["block"])), shape["path"])


@case("LZ4-11", "CMP-05", each=PATHS)
def match_from_no_distance(path: str) -> Draft:
    """Java's decompressor does not look for a distance of 0, and its output for one is no record."""
    return not_taken("lz4", frame(body=lz4_data(BAD_BLOCKS[NO_DISTANCE])), path, code=INVALID_RECORD)


@case("LZ4-11", each=ways(at={"in-a-value": (20,), "every-byte": tuple(range(1, len(PLAIN)))}))
def record_across_blocks(shape: dict[str, Any]) -> Draft:
    """A record may reach from one block into the next."""
    return taken("lz4", lz4_frame(*map(lz4_block, split(PLAIN, *shape["at"]))), shape["path"])


@case("LZ4-11", each=PATHS)
def matches_of_all_kinds(path: str) -> Draft:
    """A block as lz4 compresses it is taken."""
    return taken("lz4", frame(body=lz4_data(LZ4)), path, *some_records(40))


@case("LZ4-12", each=ways(size={"none": 0, "three-bytes": 3}))
def end_mark_missing(shape: dict[str, Any]) -> Draft:
    """A frame has to end in an EndMark, although all records have been read."""
    return not_taken("lz4", frame(end=bytes(shape["size"])), shape["path"])


@case("LZ4-12")
def end_mark_missing_in_a_wrapper() -> Draft:
    """A frame in a wrapper has to end in an EndMark."""
    return not_converted("lz4", frame(body=lz4_data(lz4_block(plain_of(1))), end=b""), 1)


@case("LZ4-12", each=ways(size={"after-its-size": 11, "in-its-data": 30}))
def block_cut_short(shape: dict[str, Any]) -> Draft:
    """A block with fewer bytes than its size says is an unknown error."""
    return not_taken("lz4", frame()[: shape["size"]], shape["path"])


@case("LZ4-12", "CMP-05", each=PATHS)
def no_blocks(path: str) -> Draft:
    """A frame with an EndMark and no blocks is sound, and holds too few bytes for a record."""
    return not_taken("lz4", frame(body=b""), path, code=INVALID_RECORD)


@case("LZ4-13", each=ways(end={"before-the-end-mark": STORED_ZERO + LZ4_END_MARK, "instead": STORED_ZERO}))
def stored_block_of_no_bytes_at_the_end(shape: dict[str, Any]) -> Draft:
    """A stored block of no bytes is taken for the EndMark."""
    return taken("lz4", frame(end=shape["end"]), shape["path"])


@case("LZ4-13", each=ways(at={"first": 0, "middle": 1}))
def stored_block_of_no_bytes_in_front(shape: dict[str, Any]) -> Draft:
    """Data after a stored block of no bytes is never found, and the batch is refused for want of records."""
    blocks = [lz4_data(lz4_block(part)) for part in split(PLAIN, HALF)]
    blocks.insert(shape["at"], STORED_ZERO)
    return not_taken("lz4", frame(body=b"".join(blocks)), shape["path"], code=INVALID_RECORD)


@case("LZ4-14", each=ways(tail={name: TAILS[name] for name in ("one-byte", "text", "half-a-frame")}))
def bytes_behind_the_frame(shape: dict[str, Any]) -> Draft:
    """Bytes after the EndMark are never looked at; where the batch is kept, they are stored."""
    return taken("lz4", frame() + shape["tail"], shape["path"])


@case("LZ4-14", each=LEGACY)
def bytes_behind_the_frame_in_a_wrapper(magic: int) -> Draft:
    """Bytes after the EndMark in a wrapper are lost when it is rewritten."""
    packed = frame(body=lz4_data(lz4_block(plain_of(magic))), broken=magic == 0)
    return converted("lz4", packed + TAILS["text"], magic)


@case("LZ4-14", each=PATHS)
def records_in_two_frames(path: str) -> Draft:
    """Records in a second frame are never found, and the batch is refused for want of them."""
    packed = b"".join(lz4_frame(lz4_block(part)) for part in split(PLAIN, HALF))
    return not_taken("lz4", packed, path, code=INVALID_RECORD)


@case("LZ4-14", each=PATHS)
def more_in_a_second_frame(path: str) -> Draft:
    """Bytes in a second frame are not counted as bytes after the last record."""
    return taken("lz4", frame() + lz4_frame(lz4_block(b"more")), path)


def interrupted(at: int) -> bytes:
    """Two records with a block of no output before byte *at*."""
    first, second = (lz4_data(lz4_block(part)) for part in split(PLAIN, at))
    return frame(body=first + EMPTY_BLOCK + second)


@case("LZ4-15")
def block_of_no_output_in_a_value() -> Draft:
    """A broker that keeps the bytes skips over a block of no output in a value: consumers cannot read the batch."""
    return taken("lz4", interrupted(14), KEPT)


@case("LZ4-15", each={"in-a-value": 14, "before-a-timestamp-delta": HALF + 2})
def block_of_no_output_rebuilt(at: int) -> Draft:
    """A broker that rewrites records finds a byte too many after a block of no output."""
    return not_taken("lz4", interrupted(at), REBUILT, code=INVALID_RECORD)


@case("LZ4-15", "TIM-08")
def block_of_no_output_in_a_timestamp() -> Draft:
    """A byte 0xFF that was not sent becomes part of a timestamp delta, and the max timestamp is corrected by it."""
    # ff 02 is the delta -192, so that the first record is the newest.
    data, _ = compressed("lz4", interrupted(HALF + 2))
    return produced(data, stored(kept_batch(data, max_timestamp=TIMESTAMP)))


@case("LZ4-15", each={"before-a-length": HALF, "before-attributes": HALF + 1})
def block_of_no_output_noticed(at: int) -> Draft:
    """A byte 0xFF that was not sent is noticed where a record's structure depends on it."""
    return not_taken("lz4", interrupted(at), KEPT, code=INVALID_RECORD)


@case("LZ4-15", each=PATHS)
def block_of_no_output_at_the_end(path: str) -> Draft:
    """A compressed block that inflates to nothing after the last record does no harm."""
    return taken("lz4", frame(end=EMPTY_BLOCK + LZ4_END_MARK), path)


@case("LZ4-18", each=keeping(size={"magic": 4, "bd": 6, "three-bytes": 3}))
def header_cut_short(shape: dict[str, Any]) -> Draft:
    """A frame that ends in its header is an unknown error."""
    return not_taken("lz4", frame()[: shape["size"]], shape["path"])


@case("LZ4-18", "LZ4-08", each=PATHS)
def header_cut_short_at_the_content_size(path: str) -> Draft:
    """A frame that promises a content size and ends inside it is an unknown error."""
    return not_taken("lz4", frame(FLG | CONTENT_SIZE, size=bytes(8))[:10], path)


@case("LZ4-18")
def header_cut_short_in_a_wrapper() -> Draft:
    """A frame in a wrapper that ends in its header is an unknown error."""
    return not_converted("lz4", frame()[:5], 1)
