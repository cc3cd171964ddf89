"""Inputs that are too large to keep, made when they are needed.

A recipe is a name and plain arguments; a small piece is compressed once and
repeated, so that even a GiB takes a fraction of a second and a few MiB.  The
bytes may differ between releases of a codec library: they hold the same records,
or are refused in either form.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import Final

import lz4.block
import snappy
import zstandard

from kafka_corpus.authoring.batches import PLAIN, batch_of, bytes_of, compressed, payload_of, some_records
from kafka_corpus.authoring.build import (
    TIMESTAMP,
    flip,
    overlong_varint,
    raw_batch,
    raw_header,
    raw_message,
    raw_record,
)
from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    XERIAL_HEADER,
    codec_id,
    deflate_stored,
    gzip_header,
    gzip_member,
    lz4_data,
    lz4_header,
    pack,
    skippable,
    snappy_block,
    xerial_chunk,
    zstd_block,
    zstd_frame,
    zstd_header,
)
from kafka_corpus.authoring.messages import seal
from kafka_corpus.case import Recipe
from kafka_records import Batch, Record
from kafka_records.constants import Compression
from kafka_records.layout import BATCH_V2
from kafka_records.varint import encode_varint

MIB = 1024 * 1024
ZSTD_RUN = 128 * 1024  # the most that one block may give
LZ4_RUN = 4 * MIB


def build_recipe(recipe: Recipe) -> bytes:
    """The bytes that *recipe* stands for."""
    return RECIPES[recipe.name](**recipe.args)


def recipe_format(recipe: Recipe) -> tuple[int, str]:
    """Magic and compression of the bytes that *recipe* stands for."""
    codec = "none" if recipe.name in UNCOMPRESSED else "zstd"
    return recipe.args.get("magic", 2), recipe.args.get("codec", codec)


def bomb(codec: Compression, magic: int, mib: int) -> bytes:
    """A batch or wrapper around *mib* MiB of zeros, which are no record: every length in them is 0."""
    return enclose(zeros(codec, mib, broken=magic == 0), codec, magic)


def zeros(codec: Compression, mib: int, *, broken: bool = False) -> bytes:
    """*mib* MiB of zeros in one frame of *codec*."""
    match codec:
        case "gzip":
            return gzip_zeros(mib)
        case "snappy":
            return XERIAL_HEADER + xerial_chunk(snappy.compress(bytes(MIB))) * mib
        case "lz4":
            block = lz4_data(lz4.block.compress(bytes(LZ4_RUN), store_size=False))
            return lz4_header(bd=0x70, broken=broken) + block * (mib // 4) + LZ4_END_MARK
        case _:
            return zstd_frame(zstd_block(b"\0", size=ZSTD_RUN, kind=1) * (8 * mib))


def gzip_zeros(mib: int) -> bytes:
    """*mib* MiB of zeros in one member; the trailer is right."""
    deflater = zlib.compressobj(9, wbits=-15)
    piece = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    # An empty last block in the fixed code ends the stream.
    crc = crc32_of_zeros(mib * MIB).to_bytes(4, "little")
    return gzip_header() + piece * mib + b"\x03\x00" + crc + (mib * MIB & 0xFFFFFFFF).to_bytes(4, "little")


def crc32_of_zeros(size: int) -> int:
    """CRC-32 of *size* zeros, a power of two, by squaring the matrix of one zero byte."""
    step = [zero_byte(1 << bit) for bit in range(32)]
    while size > 1:
        step = [multiply(step, column) for column in step]
        size //= 2
    return multiply(step, 0xFFFFFFFF) ^ 0xFFFFFFFF


def zero_byte(state: int) -> int:
    """The CRC register after one more zero byte."""
    for _ in range(8):
        state = state >> 1 ^ (0xEDB88320 if state & 1 else 0)
    return state


def multiply(matrix: list[int], vector: int) -> int:
    """A matrix of bits, by columns, times a vector of bits."""
    product = 0
    for bit in range(32):
        if vector >> bit & 1:
            product ^= matrix[bit]
    return product


def enclose(packed: bytes, codec: Compression, magic: int, *, record_count: int = 1) -> bytes:
    """A batch or wrapper around compressed bytes."""
    if magic == 2:
        return raw_batch(packed, attributes=codec_id(codec), record_count=record_count)
    return seal(packed, magic, codec, offset=record_count - 1)


def flood(codec: Compression, magic: int, mib: int) -> bytes:
    """*mib* MiB of the smallest records there are, and then bytes that are no record.

    In v2 that is a record cut short; in v0 and v1, where the end of the data may
    cut a message short, a message of no size.
    """
    record = raw_record(value=None) if magic == 2 else raw_message(magic, None, None, timestamp=TIMESTAMP)
    each = MIB // len(record)
    tail = record[:3] if magic == 2 else bytes(12)
    packed = repeated(codec, record * each, mib, tail, broken=magic == 0)
    return enclose(packed, codec, magic, record_count=each * mib + 1)


def repeated(codec: Compression, piece: bytes, times: int, tail: bytes, *, broken: bool = False) -> bytes:
    """*piece* repeated *times* times, then *tail*, compressed piece by piece."""
    match codec:
        case "gzip":
            return zlib_member(piece) * times + gzip_member(tail)
        case "snappy":
            chunks = xerial_chunk(snappy.compress(piece)) * times + xerial_chunk(snappy_block(tail))
            return XERIAL_HEADER + chunks
        case "lz4":
            blocks = lz4_data(lz4.block.compress(piece, store_size=False)) * times + lz4_data(tail, stored=True)
            return lz4_header(bd=0x60, broken=broken) + blocks + LZ4_END_MARK
        case _:
            return zstandard.ZstdCompressor().compress(piece) * times + zstd_frame(zstd_block(tail))


def zlib_member(plain: bytes) -> bytes:
    """A member as zlib compresses it."""
    deflater = zlib.compressobj(9, wbits=-15)
    return gzip_member(plain, body=deflater.compress(plain) + deflater.flush())


def header_flood(codec: Compression, mib: int) -> bytes:
    """One record of *mib* MiB of empty headers, two bytes each, and one header fewer than it says."""
    size = mib * MIB
    count = encode_varint(size // 2 + 1)
    # Attributes, deltas, null key and value; then the count, and zeros: key length 0, value length 0.
    start = bytes(3) + b"\x01\x01" + count
    head = encode_varint(len(start) + size) + start
    return enclose(headed(codec, head, mib), codec, 2)


def headed(codec: Compression, head: bytes, mib: int) -> bytes:
    """*head* and then *mib* MiB of zeros in one stream."""
    match codec:
        case "gzip":
            return gzip_member(head) + gzip_zeros(mib)
        case "snappy":
            return XERIAL_HEADER + xerial_chunk(snappy_block(head)) + zeros(codec, mib)[len(XERIAL_HEADER) :]
        case "lz4":
            frame = zeros(codec, mib)
            return frame[:7] + lz4_data(head, stored=True) + frame[7:]
        case _:
            return zstd_frame(zstd_block(head)) + zeros(codec, mib)


def many_pieces(codec: Compression, count: int) -> bytes:
    """Two records after *count* pieces of a stream that hold nothing, or in pieces of one byte for lz4."""
    match codec:
        case "gzip":
            packed = gzip_member(PLAIN, body=deflate_stored(b"", b"")[:5] * count + deflate_stored(PLAIN))
        case "snappy":
            packed = XERIAL_HEADER + xerial_chunk(snappy_block(b"")) * count + xerial_chunk(snappy_block(PLAIN))
        case "lz4":
            return bytes_of(long_batch(count), packed=one_byte_blocks(payload_of(long_batch(count).records)))
        case _:
            packed = zstd_frame(zstd_block(b"") * count, zstd_block(PLAIN))
    return compressed(codec, packed)[0]


def long_batch(size: int) -> Batch:
    """A batch of one record whose value is *size* dashes."""
    return batch_of(some_records(1)[0]._replace(value=b"-" * size), compression="lz4")


def uniform_batch(count: int) -> Batch:
    """A batch of *count* records that differ in nothing but their offsets."""
    return batch_of(*(Record(at, TIMESTAMP, None, None) for at in range(count)), compression="zstd")


def uniform(count: int) -> bytes:
    """`uniform_batch` in a frame as small as zstd makes it."""
    batch = uniform_batch(count)
    return bytes_of(batch, packed=zstandard.ZstdCompressor(level=19).compress(payload_of(batch.records)))


def one_byte_blocks(plain: bytes) -> bytes:
    """An lz4 frame with a stored block for each byte."""
    return lz4_header() + b"".join(lz4_data(bytes((byte,)), stored=True) for byte in plain) + LZ4_END_MARK


def many_frames(codec: Compression, count: int, *, empty_block: bool = False) -> bytes:
    """Two records after *count* whole streams that hold nothing, and before these, of snappy, an *empty_block*."""
    nothing = {
        "gzip": gzip_member(b""),
        "snappy": XERIAL_HEADER,
        "zstd": zstd_frame(),
    }[codec]
    last = {
        "gzip": gzip_member(PLAIN),
        "snappy": XERIAL_HEADER + xerial_chunk(snappy_block(PLAIN)),
        "zstd": zstd_frame(zstd_block(PLAIN)),
    }[codec]
    before = XERIAL_HEADER + xerial_chunk(snappy_block(b"")) if empty_block else b""
    return compressed(codec, before + nothing * count + last)[0]


def many_headers(count: int) -> bytes:
    """A batch of one record with *count* headers, all of them empty."""
    record = some_records(1)[0]
    headers = raw_header(b"", b"") * count
    return raw_batch(raw_record(key=record.key, value=record.value, header_count=encode_varint(count), headers=headers))


def many_records(count: int) -> bytes:
    """A batch of *count* records of eight bytes, under a checksum of which one bit is wrong."""
    data = raw_batch(raw_record(value=b"-") * count, record_count=count, last_offset_delta=count - 1)
    return flip(data, BATCH_V2.field("crc").offset)


def many_skippable_frames(count: int) -> bytes:
    """Two records after *count* skippable frames."""
    return compressed("zstd", skippable(b"") * count + zstd_frame(zstd_block(PLAIN)))[0]


def zstd_ends_at(at: int) -> bytes:
    """Two records in zstd, a skippable frame that ends after *at* compressed bytes, and the start of a third frame."""
    records = zstd_frame(zstd_block(PLAIN))
    filler = skippable(bytes(at - len(records) - len(skippable(b""))))
    return compressed("zstd", records + filler + zstd_header()[:-1])[0]


def wide_window(mib: int) -> bytes:
    """A bomb whose frame declares its size in its header, and requires a window as large."""
    header = zstd_header(0xE0, (mib * MIB).to_bytes(8, "little"))
    blocks = zstd_block(b"\0", size=ZSTD_RUN, kind=1) * (8 * mib)
    return enclose(zstd_frame(blocks, header=header), "zstd", 2)


def plain_batch(size: int, **fields: int) -> bytes:
    """A batch of exactly *size* bytes: one record, its value dashes; *fields* change the header."""
    head = raw_record(value=b"")
    # Five bytes for each of the two lengths are always enough, and overlong ones are read alike.
    value_size = size - BATCH_V2.size - len(head) - 8
    body = head[1:-2] + overlong_varint(value_size, 5) + b"-" * value_size + head[-1:]
    return raw_batch(overlong_varint(len(body), 5) + body, **fields)


def counted_zeros(codec: Compression, mib: int) -> bytes:
    """*mib* MiB of zeros, which are no record, and a count that says that each is one."""
    count, zero = mib * MIB, bytes(mib * MIB)
    packed = zero if codec == "none" else zeros(codec, mib)
    return raw_batch(packed, attributes=codec_id(codec), record_count=count, last_offset_delta=count - 1)


@cache
def nested(codec: Compression, magic: int, depth: int) -> bytes:
    """A message in *depth* wrappers, one in another; gzip stores its data, which would not get smaller."""
    data = raw_message(magic, b"key", b"value", timestamp=TIMESTAMP)
    for _ in range(depth):
        data = seal(stored_member(data) if codec == "gzip" else pack(codec, data, magic=magic), magic, codec)
    return data


def stored_member(plain: bytes) -> bytes:
    """A gzip member with *plain* as it is."""
    return gzip_member(plain, body=deflate_stored(*(plain[at : at + 65535] for at in range(0, len(plain), 65535))))


RECIPES: Final[dict[str, Callable[..., bytes]]] = {
    function.__name__: function
    for function in (
        bomb,
        counted_zeros,
        flood,
        header_flood,
        many_frames,
        many_headers,
        many_pieces,
        many_records,
        many_skippable_frames,
        nested,
        plain_batch,
        uniform,
        wide_window,
        zstd_ends_at,
    )
}

# Recipes of batches without a codec; others name theirs, or are of zstd.
UNCOMPRESSED: Final = frozenset({"many_headers", "many_records", "plain_batch"})
