"""zstd frames on brokers, where they are kept and where the records are rewritten (group ZST)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import PLAIN, compressed, payload_of, plain_of, some_records, split
from kafka_corpus.authoring.build import flip, raw_record
from kafka_corpus.authoring.frames import (
    ZSTD_MAGIC,
    skippable,
    zstd_block,
    zstd_blocks,
    zstd_checksum,
    zstd_frame,
    zstd_header,
    zstd_literals,
)
from kafka_corpus.authoring.steps import (
    FIRST_OF_ZSTD,
    KEPT,
    OLD_VERSION,
    PATHS,
    REBUILT,
    compression,
    keeping,
    kept_batch,
    not_converted,
    not_taken,
    rebuilt_batch,
    taken,
    ways,
)
from kafka_corpus.case import Recipe
from kafka_corpus.cases.decode.zstd import (
    BLOCKS,
    CHECKSUM,
    DICTIONARIES,
    EMPTY,
    FRAME,
    NO_FRAME,
    RESERVED,
    SINGLE_SEGMENT,
    SIZE8,
    SKIPPABLE,
    TAILS,
    TOO_LARGE,
    WINDOW,
    WINDOWS,
    frame,
    sized,
)
from kafka_corpus.golden import ZSTD, ZSTD_BLOCKS
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Fetch, Produce, StepAnswer
from kafka_records.broker.errors import INVALID_RECORD, UNKNOWN_SERVER_ERROR, UNSUPPORTED_COMPRESSION_TYPE
from kafka_records.varint import encode_varint

BATCH, _ = compressed("zstd", FRAME)


@case("ZST-01", "PRD-06", each={"produce-3": 3, "produce-6": 6})
def produce_before_7(version: int) -> Draft:
    """Produce versions 3 to 6 refuse zstd."""
    answer = error_answer(UNSUPPORTED_COMPRESSION_TYPE)
    return produced(BATCH, answer, api_version=version, since=FIRST_OF_ZSTD)


@case("ZST-01", "PRD-06")
def produce_7() -> Draft:
    """Produce version 7 takes zstd."""
    return produced(BATCH, stored(kept_batch(BATCH)), api_version=7, since=FIRST_OF_ZSTD)


@case("ZST-01", each={"fetch-4": 4, "fetch-9": 9})
def fetch_before_10(version: int) -> Draft:
    """Fetch versions before 10 do not get zstd batches of a topic whose codec is zstd."""
    return scene(
        (Produce(data=BATCH), stored(kept_batch(BATCH))),
        (Fetch(api_version=version), StepAnswer(error_code=UNSUPPORTED_COMPRESSION_TYPE)),
        config={"compression.type": "zstd"},
        since=FIRST_OF_ZSTD,
        until="3.9.2",
    )


@case("ZST-01")
def fetch_4_since_kafka_4() -> Draft:
    """Kafka 4 gives zstd batches to every fetch that it knows."""
    return scene(
        (Produce(data=BATCH), stored(kept_batch(BATCH))),
        (Fetch(api_version=4), StepAnswer(data=kept_batch(BATCH), high_watermark=2, last_stable_offset=2)),
        config={"compression.type": "zstd"},
        since="4.0.0",
    )


@case("ZST-01")
def fetch_10() -> Draft:
    """Fetch version 10 gets zstd batches."""
    return scene(
        (Produce(data=BATCH), stored(kept_batch(BATCH))),
        (Fetch(api_version=10), StepAnswer(data=kept_batch(BATCH), high_watermark=2, last_stable_offset=2)),
        config={"compression.type": "zstd"},
        since=FIRST_OF_ZSTD,
    )


@case("ZST-01", each={"v0": 0, "v1": 1})
def zstd_in_a_wrapper(magic: int) -> Draft:
    """There is no zstd in v0 and v1, and the broker refuses it before it opens a frame."""
    return not_converted("zstd", zstd_frame(*zstd_blocks(plain_of(magic))), magic, code=INVALID_RECORD)


FRAMES = {
    "one-for-each-byte": tuple(range(1, len(PLAIN))),
    "empty-in-the-middle": (30, 30),
    "empty-last": (len(PLAIN),),
}


@case("ZST-02", each=ways(at=FRAMES))
def several_frames(shape: dict[str, Any]) -> Draft:
    """Frames end to end are taken as one stream, empty ones too."""
    packed = b"".join(zstd_frame(*zstd_blocks(part)) for part in split(PLAIN, *shape["at"]))
    return taken("zstd", packed, shape["path"])


@case("ZST-02", "CMP-05", each=PATHS)
def more_in_a_second_frame(path: str) -> Draft:
    """Bytes of a second frame after the last record are bytes too many."""
    return not_taken("zstd", FRAME + zstd_frame(*zstd_blocks(b"more")), path, code=INVALID_RECORD)


@case("ZST-03", each=ways(packed={name: SKIPPABLE[name] for name in ("both", "empty", "last-magic")}))
def skippable_frames(shape: dict[str, Any]) -> Draft:
    """Skippable frames before and after the data are skipped, and stored where the batch is kept."""
    return taken("zstd", shape["packed"], shape["path"])


@case("ZST-03", each=PATHS)
def skippable_frame_between_halves(path: str) -> Draft:
    """A skippable frame may stand in the middle of a record."""
    first, second = (zstd_frame(*zstd_blocks(part)) for part in split(PLAIN, 20))
    return taken("zstd", first + skippable(b"between", nibble=7) + second, path)


@case("ZST-03", "CMP-05", each=PATHS)
def only_a_skippable_frame(path: str) -> Draft:
    """A skippable frame alone holds too few bytes for a record."""
    return not_taken("zstd", skippable(b"skip"), path, code=INVALID_RECORD)


@case("ZST-03", "ZST-07", each=ways(size={"by-1": 5, "largest": 2**32 - 1}))
def skippable_frame_cut_short(shape: dict[str, Any]) -> Draft:
    """A skippable frame that ends before its size says is waited for in vain, and the batch is taken."""
    return taken("zstd", FRAME + skippable(b"skip", size=shape["size"]), shape["path"])


@case("ZST-04", each=ways(tail={name: TAILS[name] for name in ("one-zero", "four-zeros", "text")}))
def bytes_behind_the_frame(shape: dict[str, Any]) -> Draft:
    """Any byte after the last frame that starts no frame is an unknown error, unlike with gzip and lz4."""
    return not_taken("zstd", FRAME + shape["tail"], shape["path"])


@case("ZST-04", each=ways(size={"one-byte": 1, "three-bytes": 3}))
def part_of_a_magic_behind_the_frame(shape: dict[str, Any]) -> Draft:
    """The start of a magic after the last frame is waited for in vain, and the batch is taken."""
    return taken("zstd", FRAME + ZSTD_MAGIC[: shape["size"]], shape["path"])


@case("ZST-04", "ZST-03", each=ways(size={"one-byte": 1, "two-bytes": 2, "three-bytes": 3}))
def part_of_a_skippable_magic_behind_the_frame(shape: dict[str, Any]) -> Draft:
    """The start of a skippable frame's magic after the last frame is waited for in vain, and the batch is taken."""
    return taken("zstd", FRAME + skippable(b"", nibble=10)[: shape["size"]], shape["path"])


@case("ZST-03", "ZST-07", each=ways(empty={"one": 1, "two": 2, "three": 3}))
def skippable_frame_of_the_largest_size_at_any_place(shape: dict[str, Any]) -> Draft:
    """All four bytes of a skippable frame's size count, wherever the frame begins."""
    return taken("zstd", FRAME + EMPTY * shape["empty"] + skippable(b"skip", size=2**32 - 1), shape["path"])


# Four bytes of the content are there.  As an int the number of missing bytes looks like an error from 2**32 - 119 on.
GIBIBYTES = {
    "2**31": 2**31,
    "in-32-bits": 2**32 - 9,
    "beyond-32-bits": 2**32 - 8,
    "before-errors": 2**32 - 120 + 4,
    "first-error": 2**32 - 119 + 4,
}


@case("ZST-03", "ZST-07", each=ways(size=GIBIBYTES))
def skippable_frame_of_gibibytes(shape: dict[str, Any]) -> Draft:
    """A skippable frame of 2 to 4 GiB is waited for in vain; before 4.4 one that lacks nearly 4 GiB is an error."""
    return taken("zstd", FRAME + skippable(b"skip", size=shape["size"]), shape["path"])


@case("ZST-05", each=PATHS)
def checksum_right(path: str) -> Draft:
    """A right checksum at the end of the frame is taken."""
    return taken("zstd", frame(CHECKSUM, WINDOW, zstd_checksum(PLAIN)), path)


WRONG_CHECKSUMS = {
    "last": frame(CHECKSUM, WINDOW, flip(zstd_checksum(PLAIN), 3)),
    "of-the-first-frame": frame(CHECKSUM, WINDOW, bytes(4)) + EMPTY,
    "content-changed": flip(frame(CHECKSUM, WINDOW, zstd_checksum(PLAIN)), 40),
}


@case("ZST-05", each=ways(packed=WRONG_CHECKSUMS))
def checksum_wrong(shape: dict[str, Any]) -> Draft:
    """A checksum that does not match is an unknown error, even where the broker keeps the bytes."""
    return not_taken("zstd", shape["packed"], shape["path"])


@case("ZST-05", "ZST-07", each=ways(size={"none": 0, "three-bytes": 3}))
def checksum_cut_short(shape: dict[str, Any]) -> Draft:
    """A checksum that is promised and cut short is an unknown error."""
    return not_taken("zstd", frame(CHECKSUM, WINDOW, zstd_checksum(PLAIN)[: shape["size"]]), shape["path"])


HEADERS = {
    "single-segment": (SINGLE_SEGMENT, bytes((len(PLAIN),))),
    "eight-bytes": (SIZE8, WINDOW + len(PLAIN).to_bytes(8, "little")),
}


@case("ZST-06", each=keeping(header=HEADERS))
def content_size(shape: dict[str, Any]) -> Draft:
    """A right content size is taken, in any of the widths."""
    return taken("zstd", frame(*shape["header"]), shape["path"])


SIZES = {"zero": 0, "one-less": len(PLAIN) - 1, "one-more": len(PLAIN) + 1, "gib": 2**30}


@case("ZST-06", each=ways(size=SIZES))
def content_size_wrong(shape: dict[str, Any]) -> Draft:
    """A content size that is not that of the content is an unknown error."""
    return not_taken("zstd", sized(shape["size"]), shape["path"])


@case("ZST-06", each=PATHS)
def content_size_wrong_before_an_empty_block(path: str) -> Draft:
    """A content size too large goes unnoticed when the last block is empty, as Kafka's writer ends its frames."""
    return taken("zstd", frame(SIZE8, WINDOW + (2**30).to_bytes(8, "little")), path)


@case("ZST-06", each=keeping(packed={"one-block": ZSTD, "two-blocks": ZSTD_BLOCKS}))
def compressed_blocks(shape: dict[str, Any]) -> Draft:
    """Blocks as zstd compresses them are taken."""
    return taken("zstd", shape["packed"], shape["path"], *some_records(40))


@case("ZST-06", each=PATHS)
def compressed_block_of_300_bytes(path: str) -> Draft:
    """A compressed block that is longer than 256 bytes is taken from a frame without a content size."""
    records = some_records(20)
    return taken("zstd", zstd_frame(zstd_literals(payload_of(records))), path, *records)


@case("ZST-07", each=ways(kind={"compressed": 2, "repeated": 1}))
def block_cut_short(shape: dict[str, Any]) -> Draft:
    """A block of any kind that ends early is an unknown error, even if all records have been read."""
    blocks = {1: zstd_block(b"", size=100, kind=1), 2: zstd_literals(b"-" * 300)[:-1]}
    return not_taken("zstd", zstd_frame(*zstd_blocks(PLAIN), blocks[shape["kind"]], end=b""), shape["path"])


@case("ZST-07", each=ways(size={"no-block": 6, "in-a-block": 30, "no-last-block": -3}))
def frame_cut_short(shape: dict[str, Any]) -> Draft:
    """A frame that ends early is an unknown error, even if all records have been read."""
    return not_taken("zstd", FRAME[: shape["size"]], shape["path"])


@case("ZST-07", "REC-14", each=PATHS)
def record_in_a_raw_block_cut_short(path: str) -> Draft:
    """Of a raw block that ends early the bytes that are there are read: a bad record in them is what is refused."""
    record = raw_record(header_count=encode_varint(-1))
    return not_taken("zstd", zstd_frame(zstd_block(record, size=200), end=b""), path, code=INVALID_RECORD)


# ZSTD_DStreamInSize: so many compressed bytes are read at a time.
ZSTD_BUFFER = 128 * 1024 + 3
PLACES = {
    "ends-a-buffer": (ZSTD_BUFFER, error_answer(UNKNOWN_SERVER_ERROR)),
    "ends-in-the-last-buffer": (ZSTD_BUFFER + 1, stored(rebuilt_batch(*some_records()))),
}


@case("ZST-04", "ZST-07", each=PLACES)
def frame_cut_short_in_a_later_buffer(place: tuple[int, StepAnswer]) -> Draft:
    """A frame that is cut short is an end like any other, if a frame before it ended in the last buffer that was read.

    ZstdInputStreamNoFinalizer#readInternal complains only where the whole buffer held no end of a frame.
    """
    at, answer = place
    payload = Recipe("zstd_ends_at", {"at": at})
    return produced(payload, answer, config=compression(REBUILT), since=FIRST_OF_ZSTD)


@case("ZST-07", each=ways(kind={"reserved-type": 3, "compressed-garbage": 2}))
def block_corrupt(shape: dict[str, Any]) -> Draft:
    """A block of the reserved type, or a compressed one that cannot be, is an unknown error."""
    return not_taken("zstd", zstd_frame(zstd_block(b"\xff" * 30, kind=shape["kind"])), shape["path"])


@case("ZST-07", each=PATHS)
def last_block_with_data(path: str) -> Draft:
    """The last block of a frame may hold data."""
    return taken("zstd", BLOCKS["last-block-with-data"], path)


@case("ZST-08", each=ways(window={"128-mib": WINDOWS["128-mib"], "1-kib": WINDOWS["1-kib"]}))
def window_sizes(shape: dict[str, Any]) -> Draft:
    """Windows up to 128 MiB (log 27) are taken."""
    header = zstd_header(0, bytes((shape["window"],)))
    return taken("zstd", zstd_frame(*zstd_blocks(PLAIN), header=header), shape["path"])


@case("ZST-08", each=keeping(window={"144-mib": TOO_LARGE["144-mib"], "largest": TOO_LARGE["largest"]}))
def window_too_large(shape: dict[str, Any]) -> Draft:
    """A window above 128 MiB is an unknown error."""
    header = zstd_header(0, bytes((shape["window"],)))
    return not_taken("zstd", zstd_frame(*zstd_blocks(PLAIN), header=header), shape["path"])


@case("ZST-08", "ZST-06", each=ways(window={"144-mib": TOO_LARGE["144-mib"], "2-gib": 0xA8}))
def window_too_large_of_a_frame_that_says_its_size(shape: dict[str, Any]) -> Draft:
    """The window of a small, whole frame that gives its size is not checked: the frame is read in one pass."""
    header = zstd_header(SIZE8, bytes((shape["window"],)) + len(PLAIN).to_bytes(8, "little"))
    return taken("zstd", zstd_frame(zstd_block(PLAIN, last=True), header=header, end=b""), shape["path"])


@case("ZST-09", each=keeping(packed={name: NO_FRAME[name] for name in ("magicless", "dictionary-magic")}))
def not_a_frame(shape: dict[str, Any]) -> Draft:
    """A frame without its magic, or with that of something else, is an unknown error."""
    return not_taken("zstd", shape["packed"], shape["path"])


@case("ZST-09", each=DICTIONARIES)
def dictionary(named: tuple[int, bytes]) -> Draft:
    """A frame that names a dictionary is an unknown error: there is never one."""
    flag, identity = named
    return not_taken("zstd", frame(flag, WINDOW + identity), KEPT)


@case("ZST-09", each=PATHS)
def dictionary_zero(path: str) -> Draft:
    """A dictionary id of 0 names none, and is taken."""
    return taken("zstd", frame(1, WINDOW + bytes(1)), path)


@case("ZST-09")
def reserved_bit() -> Draft:
    """The reserved bit of the frame header has to be 0."""
    return not_taken("zstd", frame(RESERVED, WINDOW), KEPT)


@case("ZST-01", "PRD-07")
def produce_2() -> Draft:
    """Produce version 2 does not look for zstd, and takes it."""
    return produced(BATCH, stored(kept_batch(BATCH)), api_version=OLD_VERSION, since=FIRST_OF_ZSTD)
