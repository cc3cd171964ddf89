"""zstd frames as zstd-jni's input stream takes them, in v2 only (group ZST).

Frames and skippable frames follow one another as one stream, and any other
byte after them is an error.
"""

from __future__ import annotations

from kafka_corpus.authoring.batches import (
    PLAIN,
    REFUSED,
    batch_of,
    bytes_of,
    compressed,
    payload_of,
    some_records,
    split,
)
from kafka_corpus.authoring.build import flip
from kafka_corpus.authoring.frames import (
    ZSTD_MAGIC,
    skippable,
    zstd_block,
    zstd_blocks,
    zstd_checksum,
    zstd_frame,
    zstd_header,
)
from kafka_corpus.golden import GOLDEN_RECORDS, ZSTD, ZSTD_BLOCKS
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_write, valid

# Bits of the frame header descriptor; the upper two say how wide the content size is.
SINGLE_SEGMENT, UNUSED, RESERVED, CHECKSUM = 0x20, 0x10, 0x08, 0x04
SIZE2, SIZE4, SIZE8 = 0x40, 0x80, 0xC0
WINDOW = b"\x58"
FRAME = zstd_frame(*zstd_blocks(PLAIN))
EMPTY = zstd_frame()
SPLITS = {
    "record-boundary": (len(PLAIN) // 2,),
    "in-a-length": (1,),
    "in-a-value": (20,),
    "every-byte": tuple(range(1, len(PLAIN))),
}


def frame(descriptor: int, fields: bytes, tail: bytes = b"") -> bytes:
    """A frame of `PLAIN` with another header, and *tail* after the blocks."""
    return zstd_frame(*zstd_blocks(PLAIN), header=zstd_header(descriptor, fields)) + tail


def sized(size: int) -> bytes:
    """A frame of `PLAIN`, its one block the last, that says in eight bytes how much it holds."""
    header = zstd_header(SIZE8, WINDOW + size.to_bytes(8, "little"))
    return zstd_frame(zstd_block(PLAIN, last=True), header=header, end=b"")


@case("ZST-10", "CMP-03")
def golden_from_zstd_jni() -> Draft:
    """A batch that kafka-clients 3.9.0 compressed with zstd-jni 1.5.6 is read."""
    data = bytes.fromhex(
        "000000000000000000000058ffffffff02f58c2d070004000000010000018bcfe568000000018bcfe56805ffffffffffffffff"
        "ffffffffffff0000000228b52ffd0058d800001c000000066b65790a76616c75650016000a020101040268010000010000"
    )
    return valid(data, batch_of(*GOLDEN_RECORDS, compression="zstd"))


@case("ZST-10", "ZST-06")
def frame_of_kafkas_writer() -> Draft:
    """A frame without content size and checksum, closed by an empty block, is what Kafka's writer gives."""
    return valid(*compressed("zstd", FRAME))


REAL = {"one-block-with-everything": ZSTD, "two-blocks": ZSTD_BLOCKS}


@case("ZST-06", "CMP-03", each=REAL)
def compressed_blocks(packed: bytes) -> Draft:
    """Blocks as zstd compresses them, with Huffman literals and sequences."""
    return valid(*compressed("zstd", packed, *some_records(40)))


@case("ZST-02", each=SPLITS)
def several_frames(at: tuple[int, ...]) -> Draft:
    """Frames end to end are one stream; a record may reach from one into the next."""
    return valid(*compressed("zstd", b"".join(zstd_frame(*zstd_blocks(part)) for part in split(PLAIN, *at))))


@case("ZST-02")
def frames_of_different_kinds() -> Draft:
    """A frame with content size and checksum may follow a frame without either."""
    first, second = split(PLAIN, 25)
    header = zstd_header(SINGLE_SEGMENT | CHECKSUM, bytes((len(second),)))
    tail = zstd_frame(*zstd_blocks(second), header=header) + zstd_checksum(second)
    return valid(*compressed("zstd", zstd_frame(*zstd_blocks(first)) + tail))


@case("ZST-02", each={"first": EMPTY + FRAME, "last": FRAME + EMPTY, "several": EMPTY * 3 + FRAME + EMPTY * 2})
def empty_frames(packed: bytes) -> Draft:
    """A frame of no bytes, wherever it stands, adds nothing and ends nothing."""
    return valid(*compressed("zstd", packed))


@case("ZST-02", "CMP-05")
def more_in_a_second_frame() -> Draft:
    """Bytes of a second frame after the last record are bytes too many."""
    packed = FRAME + zstd_frame(*zstd_blocks(b"more"))
    return invalid(compressed("zstd", packed)[0], "malformed", "decompression")


SKIPPABLE = {
    "before": skippable(b"skip") + FRAME,
    "behind": FRAME + skippable(b"skip"),
    "both": skippable(b"skip") + FRAME + skippable(b"this too"),
    "empty": skippable(b"") + FRAME,
    "last-magic": skippable(b"skip", nibble=15) + FRAME,
    "holding-a-frame": skippable(zstd_frame(zstd_block(b"not this one"))) + FRAME,
}


@case("ZST-03", each=SKIPPABLE)
def skippable_frames(packed: bytes) -> Draft:
    """Skippable frames before and after the data are skipped."""
    return valid(*compressed("zstd", packed))


@case("ZST-03")
def skippable_frame_between_halves() -> Draft:
    """A skippable frame may stand in the middle of a record."""
    first, second = (zstd_frame(*zstd_blocks(part)) for part in split(PLAIN, 20))
    return valid(*compressed("zstd", first + skippable(b"between", nibble=7) + second))


@case("ZST-03", "CMP-05")
def only_a_skippable_frame() -> Draft:
    """A skippable frame alone holds too few bytes for the record count."""
    return invalid(compressed("zstd", skippable(b"skip"))[0], "truncated", "malformed", "decompression")


MISSING = {"by-1": 5, "by-much": 1000, "by-16-mib": 4 + 2**24, "largest": 2**32 - 1}
# With its header of 8 bytes such a frame ends within 31 bits or 32, or beyond.
GIBIBYTES = {"2**31": 2**31, "in-31-bits": 2**31 - 9, "in-32-bits": 2**32 - 9, "beyond-32-bits": 2**32 - 8}


@case("ZST-03", "ZST-07", each=MISSING | GIBIBYTES)
def skippable_frame_cut_short(size: int) -> Draft:
    """A skippable frame after the data ends before its size says; Kafka's client reads the records all the same."""
    why = "zstd waits for the rest of the frame; whether the end of the input is an error is up to the reader"
    packed = FRAME + skippable(b"skip", size=size)
    return acceptable(*compressed("zstd", packed), kinds=REFUSED, why=why)


TAILS = {
    "one-zero": b"\x00",
    "four-zeros": bytes(4),
    "text": b"garbage behind the frame",
    "gzip": b"\x1f\x8b\x08\x00" + bytes(20),
    "skippable-magic-of-a-kind": b"\x60\x2a\x4d\x18\x00\x00\x00\x00",
}


@case("ZST-04", each=TAILS)
def bytes_behind_the_frame(tail: bytes) -> Draft:
    """Any byte after the last frame that starts no frame is an error, unlike with gzip and lz4."""
    return invalid(compressed("zstd", FRAME + tail)[0], *REFUSED)


@case("ZST-04", each={"one-byte": 1, "two-bytes": 2, "three-bytes": 3})
def part_of_a_magic_behind_the_frame(size: int) -> Draft:
    """The start of a magic after the last frame may be the start of a frame that never came."""
    why = "zstd waits for the rest of the magic; whether the end of the input is an error is up to the reader"
    return acceptable(*compressed("zstd", FRAME + ZSTD_MAGIC[:size]), kinds=REFUSED, why=why)


@case("ZST-05")
def checksum_right() -> Draft:
    """A checksum at the end of the frame is taken when it is right."""
    return valid(*compressed("zstd", frame(CHECKSUM, WINDOW, zstd_checksum(PLAIN))))


@case("ZST-05", each={"first-byte": 0, "last-byte": 3})
def checksum_wrong(at: int) -> Draft:
    """A checksum at the end of the frame is verified."""
    tail = flip(zstd_checksum(PLAIN), at)
    return invalid(compressed("zstd", frame(CHECKSUM, WINDOW, tail))[0], *REFUSED)


@case("ZST-05", each={"real": ZSTD, "first-of-two": frame(CHECKSUM, WINDOW, zstd_checksum(PLAIN)) + EMPTY})
def content_changed_under_a_checksum(packed: bytes) -> Draft:
    """Content that changed under a checksum is noticed."""
    records = some_records(40) if packed == ZSTD else some_records()
    return invalid(compressed("zstd", flip(packed, 40), *records)[0], *REFUSED)


@case("ZST-05", "ZST-07", each={"none": 0, "three-bytes": 3})
def checksum_cut_short(size: int) -> Draft:
    """A checksum that is promised and cut short is an error."""
    return invalid(compressed("zstd", frame(CHECKSUM, WINDOW, bytes(size)))[0], *REFUSED)


SIZES = {
    "one-byte": (SINGLE_SEGMENT, bytes((len(PLAIN),))),
    "four-bytes": (SIZE4, WINDOW + len(PLAIN).to_bytes(4, "little")),
    "four-bytes-single-segment": (SIZE4 | SINGLE_SEGMENT, len(PLAIN).to_bytes(4, "little")),
    "eight-bytes": (SIZE8, WINDOW + len(PLAIN).to_bytes(8, "little")),
    "eight-bytes-single-segment": (SIZE8 | SINGLE_SEGMENT, len(PLAIN).to_bytes(8, "little")),
}


@case("ZST-06", each=SIZES)
def content_size(header: tuple[int, bytes]) -> Draft:
    """A frame may say how much it holds, in any of the widths."""
    return valid(*compressed("zstd", frame(*header)))


@case("ZST-06", each={"256": 0, "257": 1})
def content_size_in_two_bytes(extra: int) -> Draft:
    """A content size in two bytes counts from 256."""
    record = some_records(1)[0]._replace(key=None, value=bytes(range(247)) + bytes(extra))
    plain = payload_of([record])
    size = len(plain) - 256
    assert size == extra
    header = zstd_header(SIZE2, WINDOW + size.to_bytes(2, "little"))
    return valid(*compressed("zstd", zstd_frame(*zstd_blocks(plain), header=header), record))


@case("ZST-06", each={"zero": 0, "one-less": len(PLAIN) - 1, "one-more": len(PLAIN) + 1, "twice": 2 * len(PLAIN)})
def content_size_wrong(size: int) -> Draft:
    """A content size that is not that of the content is an error."""
    return invalid(compressed("zstd", sized(size))[0], *REFUSED)


@case("ZST-06", "CMP-10", each={"gib": 2**30, "int32": 2**31 - 1, "largest": 2**64 - 3})
def content_size_absurd(size: int) -> Draft:
    """A content size that the blocks cannot reach is refused before it is allocated."""
    return invalid(compressed("zstd", sized(size))[0], *REFUSED, "limit")


@case("ZST-06", each={"gib": 2**30, "largest": 2**64 - 3})
def content_size_absurd_before_an_empty_block(size: int) -> Draft:
    """Kafka's client does not notice a content size too large when the frame's last block is empty."""
    why = "zstd's streaming decoder compares after a last block with content only; other decoders always do"
    packed = frame(SIZE8, WINDOW + size.to_bytes(8, "little"))
    return acceptable(*compressed("zstd", packed), kinds=(*REFUSED, "limit"), why=why)


CUTS = {
    "magic": 3,
    "no-descriptor": 4,
    "no-window": 5,
    "no-block": 6,
    "block-header": 8,
    "in-a-block": 30,
    "no-last-block": -3,
    "in-the-last-block": -1,
}


@case("ZST-07", each=CUTS)
def frame_cut_short(size: int) -> Draft:
    """A frame that ends early, in its header, a block or without its last block, is an error."""
    return invalid(compressed("zstd", FRAME[:size])[0], *REFUSED)


@case("ZST-07", each={"second-header": 5, "second-block": 20})
def second_frame_cut_short(size: int) -> Draft:
    """A second frame that ends early is an error, although the first is whole."""
    first, second = (zstd_frame(*zstd_blocks(part)) for part in split(PLAIN, 20))
    return invalid(compressed("zstd", first + second[:size])[0], *REFUSED)


@case("ZST-07", each={"reserved-type": 3, "compressed-garbage": 2})
def block_corrupt(kind: int) -> Draft:
    """A block of the reserved type, or a compressed one that cannot be, is an error."""
    return invalid(compressed("zstd", zstd_frame(zstd_block(b"\xff" * 30, kind=kind)))[0], *REFUSED)


@case("ZST-07")
def block_above_128_kib() -> Draft:
    """A block may not give more than 128 KiB."""
    record = some_records(1)[0]._replace(value=b"-" * 140_000)
    plain = payload_of([record])
    run = zstd_block(b"-", size=140_000, kind=1)
    packed = zstd_frame(zstd_block(plain[:-140_001]), run, zstd_block(plain[-1:]))
    return invalid(compressed("zstd", packed, record)[0], *REFUSED)


WINDOWS = {"1-kib": 0x00, "1-mib": 0x50, "8-mib": 0x68, "8-mib-and-7-eighths": 0x6F, "64-mib": 0x80, "128-mib": 0x88}


@case("ZST-08", each=WINDOWS)
def window_sizes(window: int) -> Draft:
    """Windows up to 128 MiB (log 27) are taken, whatever the content needs."""
    packed = zstd_frame(*zstd_blocks(PLAIN), header=zstd_header(0, bytes((window,))))
    return valid(*compressed("zstd", packed))


TOO_LARGE = {"144-mib": 0x89, "256-mib": 0x90, "2-gib": 0xA8, "largest": 0xFF}


@case("ZST-08", each=TOO_LARGE)
def window_too_large(window: int) -> Draft:
    """A window above 128 MiB is refused before it is allocated."""
    packed = zstd_frame(*zstd_blocks(PLAIN), header=zstd_header(0, bytes((window,))))
    return invalid(compressed("zstd", packed)[0], *REFUSED, "limit")


@case("ZST-08", "ZST-06")
def single_segment_as_large_as_a_window() -> Draft:
    """A single segment of 256 MiB needs a window as large, and is refused."""
    packed = frame(SIZE4 | SINGLE_SEGMENT, (2**28).to_bytes(4, "little"))
    return invalid(compressed("zstd", packed)[0], *REFUSED, "limit")


NO_FRAME = {
    "magicless": FRAME[4:],
    "big-endian-magic": ZSTD_MAGIC[::-1] + FRAME[4:],
    "old-magic-0-7": bytes.fromhex("27b52ffd") + FRAME[4:],
    "dictionary-magic": bytes.fromhex("37a430ec") + FRAME[4:],
}


@case("ZST-09", each=NO_FRAME)
def not_a_frame(packed: bytes) -> Draft:
    """A frame without its magic, or with that of something else, is refused."""
    return invalid(compressed("zstd", packed)[0], *REFUSED)


DICTIONARIES = {"one-byte": (1, b"\x07"), "two-bytes": (2, b"\x07\x01"), "four-bytes": (3, b"\x07\x01\x00\x01")}


@case("ZST-09", each=DICTIONARIES)
def dictionary(named: tuple[int, bytes]) -> Draft:
    """A frame that names a dictionary is refused: there is never one."""
    flag, identity = named
    return invalid(compressed("zstd", frame(flag, WINDOW + identity))[0], *REFUSED)


@case("ZST-09", each={"one-byte": 1, "two-bytes": 2, "four-bytes": 3})
def dictionary_zero(flag: int) -> Draft:
    """A dictionary id of 0 names none."""
    size = (0, 1, 2, 4)[flag]
    why = "zstd takes 0 for none; RFC 8878 leaves it to the decoder whether the field may be there"
    return acceptable(*compressed("zstd", frame(flag, WINDOW + bytes(size))), kinds=REFUSED, why=why)


@case("ZST-09")
def reserved_bit() -> Draft:
    """The reserved bit of the frame header has to be 0."""
    return invalid(compressed("zstd", frame(RESERVED, WINDOW))[0], *REFUSED)


@case("ZST-06", "ZST-09")
def unused_bit() -> Draft:
    """The unused bit of the frame header means nothing (RFC 8878, 3.1.1.1.1)."""
    return valid(*compressed("zstd", frame(UNUSED, WINDOW)))


BLOCKS = {
    "last-block-with-data": zstd_frame(zstd_block(PLAIN, last=True), end=b""),
    "empty-blocks-between": zstd_frame(zstd_block(b""), zstd_block(PLAIN[:9]), zstd_block(b""), zstd_block(PLAIN[9:])),
    "a-block-for-each-byte": zstd_frame(*(zstd_block(bytes((byte,))) for byte in PLAIN)),
    "a-run-of-one": zstd_frame(*(zstd_block(bytes((byte,)), size=1, kind=1) for byte in PLAIN)),
    "a-run-of-none": zstd_frame(zstd_block(b"x", size=0, kind=1), zstd_block(PLAIN)),
}


@case("ZST-10", "ZST-07", each=BLOCKS)
def unusual_blocks(packed: bytes) -> Draft:
    """Block types that compressors seldom choose are decoded like any other."""
    return valid(*compressed("zstd", packed))


@case("ZST-02", "CMP-05")
def only_empty_frames() -> Draft:
    """Frames of no bytes hold too few for the record count."""
    return invalid(compressed("zstd", EMPTY * 2)[0], "truncated", "malformed", "decompression")


@case("ZST-10", "CMP-01")
def write() -> Draft:
    """A zstd batch is written with a clear header and its records in one frame."""
    batch = batch_of(*some_records(3), compression="zstd")
    return must_write(batch, bytes_of(batch), compare="masked")


@case("ZST-11")
def write_at_any_level() -> Draft:
    """Any level will do when writing: raw blocks are as right as level 22."""
    batch = batch_of(*some_records(4), compression="zstd")
    packed = zstd_frame(zstd_block(payload_of(batch.records), last=True), end=b"")
    return must_write(batch, bytes_of(batch, packed=packed), compare="masked")
