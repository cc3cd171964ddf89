"""lz4 blocks, EndMarks and what follows them (group LZ4, continued)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import (
    EITHER,
    LEGACY,
    MAGICS,
    PLAIN,
    REFUSED,
    around,
    batch_of,
    bytes_of,
    compressed,
    payload_of,
    plain_of,
    some_records,
    split,
)
from kafka_corpus.authoring.build import grid
from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    lz4_block,
    lz4_data,
    lz4_frame,
    lz4_header,
    lz4_sequence,
    skippable,
)
from kafka_corpus.cases.decode.lz4 import (
    BLOCK_CHECKSUM,
    CONTENT_CHECKSUM,
    CONTENT_SIZE,
    EMPTY_BLOCK,
    FLG,
    SPLITS,
    STORED_ZERO,
    frame,
    xxh,
)
from kafka_corpus.golden import LZ4
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_write, valid


@case("LZ4-10", each=grid(magic=MAGICS, stored={"compressed": False, "stored": True}))
def block_checksums(shape: dict[str, Any]) -> Draft:
    """Every block may be followed by the checksum of its bytes as stored."""
    magic, stored = shape["magic"], shape["stored"]
    blocks = [part if stored else lz4_block(part) for part in split(plain_of(magic), 30)]
    body = b"".join(lz4_data(block, stored=stored) + xxh(block) for block in blocks)
    return valid(*around(frame(FLG | BLOCK_CHECKSUM, body=body, broken=magic == 0), magic, "lz4"))


@case("LZ4-10", each=grid(magic=MAGICS, stored={"compressed": False, "stored": True}))
def block_checksum_wrong(shape: dict[str, Any]) -> Draft:
    """A block checksum that does not match is an error."""
    magic, stored = shape["magic"], shape["stored"]
    block = plain_of(magic) if stored else lz4_block(plain_of(magic))
    body = lz4_data(block, stored=stored) + xxh(block + b"!")
    return invalid(around(frame(FLG | BLOCK_CHECKSUM, body=body, broken=magic == 0), magic, "lz4")[0], *REFUSED)


@case("LZ4-10")
def block_checksum_of_the_plain_bytes() -> Draft:
    """A block checksum over the decompressed bytes is wrong: it covers the stored ones."""
    # A run, so that the block and its content differ in length.
    record = some_records(1)[0]._replace(value=b"-" * 100)
    plain = payload_of([record])
    body = lz4_data(lz4_block(plain)) + xxh(plain)
    return invalid(compressed("lz4", frame(FLG | BLOCK_CHECKSUM, body=body), record)[0], *REFUSED)


@case("LZ4-10", each={"first": 0, "last": 1})
def one_block_checksum_wrong(bad: int) -> Draft:
    """The checksum of every block is verified."""
    blocks = list(map(lz4_block, split(PLAIN, 30)))
    body = b"".join(lz4_data(block) + xxh(block if n != bad else b"") for n, block in enumerate(blocks))
    return invalid(compressed("lz4", frame(FLG | BLOCK_CHECKSUM, body=body))[0], *REFUSED)


@case("LZ4-10", "LZ4-12", each={"none": 0, "three-bytes": 3})
def block_checksum_missing(size: int) -> Draft:
    """A block checksum that is missing or cut short is an error."""
    body = lz4_data(lz4_block(PLAIN)) + xxh(lz4_block(PLAIN))[:size]
    return invalid(compressed("lz4", frame(FLG | BLOCK_CHECKSUM, body=body, end=b""))[0], *REFUSED)


@case("LZ4-10", "LZ4-09", "LZ4-08")
def everything_optional_at_once() -> Draft:
    """Content size, block checksums and content checksum may all be there."""
    blocks = list(map(lz4_block, split(PLAIN, 30)))
    body = b"".join(lz4_data(block) + xxh(block) for block in blocks)
    flg = FLG | BLOCK_CHECKSUM | CONTENT_SIZE | CONTENT_CHECKSUM
    packed = frame(flg, body=body, size=len(PLAIN).to_bytes(8, "little"), end=LZ4_END_MARK + xxh(PLAIN))
    return valid(*compressed("lz4", packed))


@case("LZ4-11", each=grid(magic=MAGICS, at={"whole": (), "split": (30,)}))
def stored_blocks(shape: dict[str, Any]) -> Draft:
    """A block whose size has the top bit set holds plain bytes."""
    magic = shape["magic"]
    body = b"".join(lz4_data(part, stored=True) for part in split(plain_of(magic), *shape["at"]))
    return valid(*around(frame(body=body, broken=magic == 0), magic, "lz4"))


@case("LZ4-11")
def stored_and_compressed_blocks() -> Draft:
    """Stored and compressed blocks may follow one another."""
    first, second, third = split(PLAIN, 10, 30)
    body = lz4_data(first, stored=True) + lz4_data(lz4_block(second)) + lz4_data(third, stored=True)
    return valid(*compressed("lz4", frame(body=body)))


@case("LZ4-11", each={"stored-by-1": (True, 65_537), "compressed-by-1": (False, 65_537), "largest": (False, 2**31 - 1)})
def block_size_above_the_most(claim: tuple[bool, int]) -> Draft:
    """A block size above the descriptor's maximum is refused, however many bytes follow."""
    stored, size = claim
    content = bytes(size) if size < 2**20 else b""
    body = (size | (stored << 31)).to_bytes(4, "little") + content
    return invalid(compressed("lz4", frame(body=body))[0], *REFUSED, "limit")


@case("LZ4-11")
def block_that_inflates_above_the_most() -> Draft:
    """A block that inflates to more than the descriptor allows is refused."""
    record = some_records(1)[0]._replace(value=b"-" * 70_000)
    return invalid(
        compressed("lz4", frame(body=lz4_data(lz4_block(payload_of([record])))), record)[0], *REFUSED, "limit"
    )


@case("LZ4-11")
def block_of_exactly_the_most() -> Draft:
    """A block that inflates to exactly 64 KiB is taken."""
    record = some_records(1)[0]._replace(key=None, value=b"-" * (65_536 - 11))
    plain = payload_of([record])
    assert len(plain) == 65_536
    return valid(*compressed("lz4", frame(body=lz4_data(lz4_block(plain))), record))


@case("LZ4-11")
def stored_block_of_exactly_the_most() -> Draft:
    """A stored block of exactly 64 KiB is taken."""
    record = some_records(1)[0]._replace(key=None, value=b"-" * (65_536 - 11))
    plain = payload_of([record])
    assert len(plain) == 65_536
    return valid(*compressed("lz4", frame(body=lz4_data(plain, stored=True)), record))


@case("LZ4-11")
def stored_block_above_the_most_with_a_record() -> Draft:
    """A stored block of 65,537 bytes that holds a sound record is refused for its size alone."""
    record = some_records(1)[0]._replace(key=None, value=b"-" * (65_537 - 11))
    plain = payload_of([record])
    assert len(plain) == 65_537
    return invalid(compressed("lz4", frame(body=lz4_data(plain, stored=True)), record)[0], *REFUSED, "limit")


BAD_BLOCKS = {
    "match-from-before-the-start": b"\x14a\x05\x00" + b"\x50bcdef",
    "match-from-no-distance": b"\x14a\x00\x00" + b"\x50bcdef",
    "literals-beyond-the-end": b"\xf0\x20short",
    "no-offset": b"\x14a\x01",
    "length-that-never-ends": b"\xf0" + b"\xff" * 8,
}


@case("LZ4-11", "CMP-04", each=BAD_BLOCKS)
def block_corrupt(block: bytes) -> Draft:
    """A batch whose lz4 block has an invalid sequence is refused."""
    return invalid(compressed("lz4", frame(body=lz4_data(block)))[0], *REFUSED)


@case("LZ4-11", each=SPLITS)
def record_across_blocks(at: tuple[int, ...]) -> Draft:
    """A record may reach from one block into the next."""
    return valid(*compressed("lz4", lz4_frame(*map(lz4_block, split(PLAIN, *at)))))


@case("LZ4-11", each=grid(magic=LEGACY, at={"in-the-offset": 3, "in-the-crc": 14, "in-a-value": 35}))
def message_across_blocks(shape: dict[str, Any]) -> Draft:
    """An inner message may reach from one block into the next."""
    magic = shape["magic"]
    blocks = map(lz4_block, split(plain_of(magic), shape["at"]))
    return valid(*around(lz4_frame(*blocks, broken=magic == 0), magic, "lz4"))


@case("LZ4-11", "CMP-03")
def matches_of_all_kinds() -> Draft:
    """A block as lz4 compresses it, with matches near and far."""
    return valid(*compressed("lz4", frame(body=lz4_data(LZ4)), *some_records(40)))


@case("LZ4-12", each=grid(magic=EITHER, size={"none": 0, "one-byte": 1, "three-bytes": 3}))
def end_mark_missing(shape: dict[str, Any]) -> Draft:
    """A frame has to end in an EndMark, although all the data is there."""
    magic = shape["magic"]
    body = lz4_data(lz4_block(plain_of(magic)))
    return invalid(around(frame(body=body, end=bytes(shape["size"]), broken=magic == 0), magic, "lz4")[0], *REFUSED)


@case("LZ4-12", each={"after-its-size": 11, "in-its-data": 30, "by-1": -5, "size-cut": 9})
def block_cut_short(size: int) -> Draft:
    """A frame that ends inside a block, or inside the size of a block, is an error."""
    return invalid(compressed("lz4", frame()[:size])[0], *REFUSED)


@case("LZ4-12", "CMP-05", each=MAGICS)
def no_blocks(magic: int) -> Draft:
    """A frame with an EndMark and no blocks holds no records, and is refused."""
    packed = frame(body=b"", broken=magic == 0)
    return invalid(around(packed, magic, "lz4")[0], "truncated", "malformed", "decompression")


@case("LZ4-13", each={"before-the-end-mark": STORED_ZERO + LZ4_END_MARK, "instead": STORED_ZERO})
def stored_block_of_no_bytes_at_the_end(end: bytes) -> Draft:
    """Kafka takes a stored block of no bytes for the EndMark; other readers go on."""
    why = "Lz4BlockInputStream drops the top bit before it looks for 0; other readers go on"
    return acceptable(*compressed("lz4", frame(end=end)), kinds=REFUSED, why=why)


@case("LZ4-13", each={"first": 0, "middle": 1})
def stored_block_of_no_bytes_in_front(at: int) -> Draft:
    """Data after a stored block of no bytes is lost to Kafka, which then misses records."""
    why = "Lz4BlockInputStream takes it for the EndMark and refuses the batch; other readers go on"
    blocks = [lz4_data(lz4_block(part)) for part in split(PLAIN, 30)]
    blocks.insert(at, STORED_ZERO)
    return acceptable(*compressed("lz4", frame(body=b"".join(blocks))), kinds=REFUSED, why=why)


TAILS = {
    "one-byte": b"\x00",
    "four-zeros": bytes(4),
    "text": b"garbage behind the frame",
    "skippable-frame": skippable(b"skip"),
    "empty-frame": lz4_frame(),
    "half-a-frame": frame()[:20],
}


@case("LZ4-14", each=grid(magic=EITHER, tail=TAILS))
def bytes_behind_the_frame(shape: dict[str, Any]) -> Draft:
    """Kafka ignores bytes after the EndMark; other readers may refuse them."""
    why = "Lz4BlockInputStream is done at the EndMark; other readers look for another frame"
    magic = shape["magic"]
    packed = lz4_frame(lz4_block(plain_of(magic)), broken=magic == 0) + shape["tail"]
    return acceptable(*around(packed, magic, "lz4"), kinds=REFUSED, why=why)


@case("LZ4-14")
def records_in_two_frames() -> Draft:
    """Kafka reads only the first of two lz4 frames, and throws where a record of the second is due."""
    why = "Lz4BlockInputStream reads one frame; the format lets frames follow one another"
    packed = b"".join(lz4_frame(lz4_block(part)) for part in split(PLAIN, len(PLAIN) // 2))
    return acceptable(*compressed("lz4", packed), kinds=REFUSED, why=why)


@case("LZ4-14")
def more_in_a_second_frame() -> Draft:
    """Bytes in a second frame are not counted as bytes after the last record."""
    why = "Lz4BlockInputStream reads one frame; a reader of several finds bytes too many"
    packed = lz4_frame(lz4_block(PLAIN)) + lz4_frame(lz4_block(b"more"))
    return acceptable(*compressed("lz4", packed), kinds=REFUSED, why=why)


@case("LZ4-15", each={"first": 0, "middle": 1})
def block_of_no_output(at: int) -> Draft:
    """Kafka reports an error for a compressed lz4 block of no output before the last record."""
    why = "ChunkedBytesStream takes a read of 0 bytes for the end; other readers go on"
    blocks = [lz4_data(lz4_block(part)) for part in split(PLAIN, 30)]
    blocks.insert(at, EMPTY_BLOCK)
    return acceptable(*compressed("lz4", frame(body=b"".join(blocks))), kinds=REFUSED, why=why)


@case("LZ4-15")
def block_of_no_output_at_the_end() -> Draft:
    """A compressed block that inflates to nothing adds nothing after the last record."""
    why = "Kafka takes a read of 0 bytes for the end of the data, other readers go on to the EndMark"
    return acceptable(*compressed("lz4", frame(end=EMPTY_BLOCK + LZ4_END_MARK)), kinds=REFUSED, why=why)


@case("LZ4-18", each=grid(magic=MAGICS, size={"magic": 4, "flg": 5, "bd": 6, "three-bytes": 3}))
def header_cut_short(shape: dict[str, Any]) -> Draft:
    """A frame that ends in its header is an error."""
    packed = frame(broken=shape["magic"] == 0)[: shape["size"]]
    return invalid(around(packed, shape["magic"], "lz4")[0], *REFUSED)


@case("LZ4-18", "LZ4-08", each={"before-it": 6, "inside": 10, "before-the-checksum": 14})
def header_cut_short_at_the_content_size(size: int) -> Draft:
    """A frame that promises a content size and ends before, inside or right after it is an error."""
    packed = frame(FLG | CONTENT_SIZE, size=len(PLAIN).to_bytes(8, "little"))[:size]
    return invalid(compressed("lz4", packed)[0], *REFUSED)


@case("LZ4-16", "CMP-01", each={"compressible": b"-" * 500, "stored": bytes(range(256))})
def write(value: bytes) -> Draft:
    """An lz4 batch is written with a clear header and its records in one frame."""
    record = some_records(1)[0]._replace(value=value)
    batch = batch_of(record, compression="lz4")
    plain = payload_of([record])
    stored = value[0] == 0
    packed = lz4_header() + (lz4_data(plain, stored=True) if stored else lz4_data(lz4_block(plain))) + LZ4_END_MARK
    return must_write(batch, bytes_of(batch, packed=packed), compare="masked")


@case("LZ4-17")
def write_at_any_level() -> Draft:
    """Any level will do when writing: blocks without a single match are as right as the best."""
    batch = batch_of(*some_records(5), compression="lz4")
    packed = lz4_frame(lz4_sequence(payload_of(batch.records)))
    return must_write(batch, bytes_of(batch, packed=packed), compare="masked")
