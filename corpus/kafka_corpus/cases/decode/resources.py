"""Inputs that ask for more memory or time than they are worth (groups CMP, REC, HDR and SIZ).

Each has to be refused, or read, within bounds; how a codec behaves is judged
by the memory and time that it takes.  What is compressed to many times its
size holds no records, so that it may be refused at the first byte of output
as well as for its size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kafka_corpus.authoring.batches import batch_of, some_records
from kafka_corpus.authoring.build import grid, put, raw_batch, raw_header, raw_message, raw_record, reseal
from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    XERIAL_HEADER,
    codec_id,
    lz4_header,
    pack,
    snappy_block,
    uvarint,
    xerial_chunk,
)
from kafka_corpus.authoring.messages import message_bytes, numbered, record_of, seal, set_of, single_batches, wrap
from kafka_corpus.case import Recipe
from kafka_corpus.recipes import long_batch
from kafka_corpus.registry import Draft, acceptable, case, invalid, valid
from kafka_records import Header, Kind
from kafka_records.constants import Compression
from kafka_records.layout import MESSAGE_V0
from kafka_records.varint import encode_varint

CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
OLD: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
# MiB of output; snappy shrinks by no more than 21 times.
BOMBS: dict[str, tuple[Compression, int]] = {
    "gzip-1-gib": ("gzip", 1024),
    "snappy-128-mib": ("snappy", 128),
    "lz4-1-gib": ("lz4", 1024),
    "zstd-1-gib": ("zstd", 1024),
}
# A codec each: the cost of a flood for a decoder does not depend on it.
FLOODS: dict[str, tuple[Compression, int]] = {"small": ("gzip", 1), "large": ("zstd", 256)}
# So many that no array for them fits, or one that fills most of the memory that there is.
HEADER_FLOODS: dict[str, tuple[Compression, int]] = {"small": ("gzip", 1), "large": ("zstd", 512)}
COUNTS = {"million": 1_000_000, "largest": 2**31 - 1}
SIZES = {"fifty-million": 50_000_000, "largest": 2**31 - 1}
REFUSED: Final[tuple[Kind, ...]] = ("limit", "malformed", "truncated", "decompression", "corrupt")
STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated", "limit")
ALL: dict[str, Compression] = {"none": "none", **CODECS}
TWO: dict[str, Compression] = {"none": "none", "gzip": "gzip"}


def batch_around(payload: bytes, codec: Compression, **fields: int) -> bytes:
    """A batch of *payload*, compressed with *codec*."""
    return raw_batch(pack(codec, payload), attributes=codec_id(codec), **fields)


@case("CMP-10", "CMP-04", each=BOMBS)
def bomb_in_a_batch(bomb: tuple[Compression, int]) -> Draft:
    """A batch of 128 MiB or 1 GiB of compressed zeros is refused without memory for all of them."""
    codec, mib = bomb
    return invalid(Recipe("bomb", {"codec": codec, "magic": 2, "mib": mib}), *REFUSED)


@case(
    "CMP-10", "NST-07", each={"v0-lz4": (0, "lz4", 1024), "v1-gzip": (1, "gzip", 256), "v1-snappy": (1, "snappy", 32)}
)
def bomb_in_a_wrapper(bomb: tuple[int, Compression, int]) -> Draft:
    """A wrapper that inflates to a great many zeros is refused without taking as much memory."""
    magic, codec, mib = bomb
    return invalid(Recipe("bomb", {"codec": codec, "magic": magic, "mib": mib}), *REFUSED)


@case("CMP-10", "ZST-08", each={"64-mib": 64, "1-gib": 1024})
def bomb_that_says_so(mib: int) -> Draft:
    """A zstd frame that says how much it holds, and holds it, is refused for its zeros if not for its size."""
    return invalid(Recipe("wide_window", {"mib": mib}), *REFUSED)


@case("CMP-10", "HDR-18", each=FLOODS)
def flood_of_records(flood: tuple[Compression, int]) -> Draft:
    """A batch of very many seven-byte records, compressed to almost nothing, ends in one that is cut short."""
    codec, mib = flood
    return invalid(Recipe("flood", {"codec": codec, "magic": 2, "mib": mib}), *REFUSED)


@case("CMP-10", "NST-16", each={"v0-small": (0, "gzip", 4), "v1-large": (1, "lz4", 192)})
def flood_of_messages(flood: tuple[int, Compression, int]) -> Draft:
    """A great many of the smallest messages in a wrapper, compressed to almost nothing, end in one of no size."""
    magic, codec, mib = flood
    return invalid(Recipe("flood", {"codec": codec, "magic": magic, "mib": mib}), *REFUSED)


@case("REC-15", "CMP-10", each=HEADER_FLOODS)
def flood_of_headers(flood: tuple[Compression, int]) -> Draft:
    """A record with very many empty headers, compressed to almost nothing, has one fewer than its count."""
    codec, mib = flood
    return invalid(Recipe("header_flood", {"codec": codec, "mib": mib}), *REFUSED)


@case("CMP-03", "SNP-07", each=CODECS)
def many_pieces(codec: Compression) -> Draft:
    """A stream in a great many pieces, of nothing or of one byte, is read in good time."""
    count = 20_000
    batch = long_batch(count) if codec == "lz4" else batch_of(*some_records(), compression=codec)
    return valid(Recipe("many_pieces", {"codec": codec, "count": count}), batch)


# For zstd as many as show time out of proportion: a decoder may sanely take a tenth of a millisecond for each frame.
STREAMS: dict[str, tuple[Compression, int]] = {
    "gzip": ("gzip", 50_000),
    "snappy": ("snappy", 50_000),
    "zstd": ("zstd", 15_000),
}


@case("GZP-02", "SNP-04", "ZST-02", each=STREAMS)
def many_frames(streams: tuple[Compression, int]) -> Draft:
    """A batch with thousands of empty streams before its records is read or fails in good time."""
    codec, count = streams
    recipe = Recipe("many_frames", {"codec": codec, "count": count})
    batch = batch_of(*some_records(), compression=codec)
    if codec == "zstd":
        return valid(recipe, batch)
    why = "GZIPInputStream and SnappyInputStream call themselves for each, until the stack is full"
    return acceptable(recipe, batch, kinds=REFUSED, why=why)


@case("ZST-03", "CMP-03")
def many_skippable_frames() -> Draft:
    """Records after a great many skippable frames are found in good time."""
    return valid(Recipe("many_skippable_frames", {"count": 200_000}), batch_of(*some_records(), compression="zstd"))


@case(
    "HDR-18",
    refs=("https://github.com/kafka-protocol-rs/kafka-protocol-rs/pull/156",),
    each=grid(codec=ALL, count=COUNTS),
)
def record_count_claims(shape: dict[str, Any]) -> Draft:
    """A record count of a million or of 2^31 - 1 over one record is an error at the end of the data."""
    data = batch_around(raw_record(), shape["codec"], record_count=shape["count"])
    return invalid(data, *STRUCTURE)


@case("CRC-07", refs=("kafkajs 2.2.4",))
def many_records_under_a_wrong_checksum() -> Draft:
    """A wrong checksum is reported as one, however many records the batch has.

    kafkajs verifies none, and its stack is full ("Maximum call stack size
    exceeded") over a batch of this many records, also where they are sound.
    """
    return invalid(Recipe("many_records", {"count": 130_000}), "corrupt")


@case("REC-15", "REC-23")
def many_headers() -> Draft:
    """A record may have more than 100,000 headers: Kafka knows no limit but the size of a batch.

    librdkafka gives such a record without any header.
    """
    count = 100_001
    headers = (Header(b"", b""),) * count
    return valid(Recipe("many_headers", {"count": count}), batch_of(some_records(1)[0]._replace(headers=headers)))


@case("REC-15", each=grid(codec=ALL, count=COUNTS))
def header_count_claims(shape: dict[str, Any]) -> Draft:
    """A header count of a million or of 2^31 - 1 over one header is refused, and allocates nothing."""
    record = raw_record(header_count=encode_varint(shape["count"]), headers=raw_header(b"h", b"1"))
    return invalid(batch_around(record, shape["codec"]), *STRUCTURE)


@case("REC-08", each=grid(codec=ALL, size=SIZES))
def record_length_claims(shape: dict[str, Any]) -> Draft:
    """A record length of 50 million or of 2^31 - 1 over a few bytes is refused."""
    record = raw_record(length=encode_varint(shape["size"]))
    return invalid(batch_around(record, shape["codec"]), *STRUCTURE)


FIELDS = ("key_length", "value_length")


@case("REC-13", each=grid(codec=TWO, field={field: field for field in FIELDS}))
def field_length_claims(shape: dict[str, Any]) -> Draft:
    """A key or value length of 2 GiB over a few bytes allocates nothing, and is refused."""
    claim: dict[str, Any] = {shape["field"]: encode_varint(2**31 - 1)}
    record = raw_record(key=b"key", **claim)
    return invalid(batch_around(record, shape["codec"]), *STRUCTURE)


@case("REC-13", "REC-19", each=grid(codec=TWO, field={field: field for field in FIELDS}))
def header_length_claims(shape: dict[str, Any]) -> Draft:
    """A header key or value length of 2 GiB over a few bytes allocates nothing, and is refused."""
    header = raw_header(b"h", b"1", **{shape["field"]: encode_varint(2**31 - 1)})
    return invalid(batch_around(raw_record(header_count=encode_varint(1), headers=header), shape["codec"]), *STRUCTURE)


@case("HDR-18", "REC-15", each=ALL)
def every_count_claims(codec: Compression) -> Draft:
    """Counts and lengths that all claim the most there is cost no more than one of them."""
    most = encode_varint(2**31 - 1)
    record = raw_record(length=most, key=b"k", key_length=most, value_length=most, header_count=most)
    return invalid(batch_around(record, codec, record_count=2**31 - 1), *STRUCTURE)


@case("NST-07", "NST-27", each=grid(magic={"v0": 0, "v1": 1}, codec=OLD, size=SIZES))
def inner_size_claims(shape: dict[str, Any]) -> Draft:
    """An inner message size of 50 million or of 2^31 - 1 over a few bytes is refused.

    Kafka's DataLogInputStream allocates what the size says before it reads.
    """
    inner = put(
        message_bytes(record_of(shape["magic"]), shape["magic"]), "message_size", shape["size"], layout=MESSAGE_V0
    )
    return invalid(wrap(inner, shape["magic"], shape["codec"]), *STRUCTURE)


@case("LEG-11", each=grid(magic={"v0": 0, "v1": 1}, field={"key": 0, "value": 4}))
def message_length_claims(shape: dict[str, Any]) -> Draft:
    """A key or value length of 2 GiB in a v0 or v1 message allocates nothing, and is refused."""
    body = (b"\xff\xff\xff\xff" if shape["field"] else b"") + (2**31 - 1).to_bytes(4, "big") + b"a few bytes"
    return invalid(raw_message(shape["magic"], body=body), *STRUCTURE)


CLAIMS = {"16-mib": 16 * 2**20, "1-gib": 2**30, "2-gib": 2**31 - 1, "4-gib": 2**32 - 1}


@case("SNP-02", "CMP-10", each=grid(magic={"v1": 1, "v2": 2}, claim=CLAIMS))
def snappy_block_claims(shape: dict[str, Any]) -> Draft:
    """A raw snappy block of a few bytes that claims 16 MiB or more of output is an error."""
    packed = uvarint(shape["claim"]) + snappy_block(b"short")[1:]
    data = raw_batch(packed, attributes=2) if shape["magic"] == 2 else seal(packed, 1, "snappy")
    return invalid(data, *REFUSED)


@case("SNP-06", "CMP-10", each=CLAIMS)
def xerial_block_claims(claim: int) -> Draft:
    """A xerial block of a few bytes that claims 16 MiB or more of output is an error."""
    packed = XERIAL_HEADER + xerial_chunk(uvarint(claim) + snappy_block(b"short")[1:])
    return invalid(raw_batch(packed, attributes=2), *REFUSED)


@case("SNP-06", "CMP-10", each={"500-mib": 500 * 2**20, "512-mib": 2**29})
def xerial_length_claims(size: int) -> Draft:
    """A xerial block length of 500 or 512 MiB over a few bytes is an error."""
    packed = XERIAL_HEADER + size.to_bytes(4, "big") + b"a few bytes"
    return invalid(raw_batch(packed, attributes=2), *REFUSED)


XERIAL_CLAIMS = {
    "block-claims": xerial_chunk(uvarint(2**30) + snappy_block(b"short")[1:]),
    "length-claims": (2**29).to_bytes(4, "big") + b"a few bytes",
}


@case("SNP-06", "NST-01", "CMP-10", each=grid(magic={"v0": 0, "v1": 1}, stream=XERIAL_CLAIMS))
def xerial_claims_in_a_wrapper(shape: dict[str, Any]) -> Draft:
    """A xerial stream in a wrapper that claims 1 GiB of output, or a block of 512 MiB, is an error."""
    return invalid(seal(XERIAL_HEADER + shape["stream"], shape["magic"], "snappy"), *REFUSED)


@case("LZ4-08", "NST-01", "CMP-10", each={"v0": 0, "v1": 1})
def lz4_content_size_claims_in_a_wrapper(magic: int) -> Draft:
    """An lz4 frame in a wrapper that says it holds a GiB, and holds nothing, allocates nothing, and is refused."""
    header = lz4_header(flg=0x68, size=(2**30).to_bytes(8, "little"), broken=magic == 0)
    return invalid(seal(header + LZ4_END_MARK, magic, "lz4"), *REFUSED)


@case("LZ4-08", "CMP-10", each=CLAIMS)
def lz4_content_size_claims(claim: int) -> Draft:
    """An empty lz4 frame that claims a content size of 16 MiB or more is an error, and allocates nothing."""
    packed = lz4_header(flg=0x68, size=claim.to_bytes(8, "little")) + LZ4_END_MARK
    return invalid(raw_batch(packed, attributes=3), *REFUSED)


@case("HDR-18", "CLN-15", each={"hundred": 100, "three-hundred": 300})
def many_empty_batches(count: int) -> Draft:
    """A fetch may hold a great many batches and no records."""
    batches = [batch_of(base_offset=10 * n, last_offset=10 * n + 9) for n in range(count)]
    data = b"".join(
        raw_batch(
            b"", record_count=0, base_offset=b.base_offset, last_offset_delta=9, base_timestamp=-1, max_timestamp=-1
        )
        for b in batches
    )
    return valid(data, *batches)


@case("HDR-16", "HDR-18")
def bytes_behind_an_empty_batch_are_not_read() -> Draft:
    """The payload of a batch with record count 0 is not decompressed."""
    packed = pack("zstd", bytes(1000))
    data = reseal(raw_batch(packed, attributes=4, record_count=0, last_offset_delta=0))
    return valid(
        data, replace(batch_of(base_offset=0, last_offset=0, compression="zstd"), max_timestamp=1_700_000_000_000)
    )


@case("LEG-24", "NST-05", each={"v0": 0, "v1": 1})
def many_messages(magic: int) -> Draft:
    """A fetch may hold a great many uncompressed messages, each an entry of its own."""
    records = numbered(magic, *range(300))
    return valid(set_of(records, magic), *single_batches(records, magic))


@case("CMP-10", "HDR-18", each={"none": "none", "zstd": "zstd"}, since="1.1")
def count_of_zeros(codec: Compression) -> Draft:
    """Twelve million zero bytes under a count that says each is a record are refused without memory for as many."""
    return invalid(Recipe("counted_zeros", {"codec": codec, "mib": 12}), *REFUSED)


@case("NST-16", "CMP-10", each=grid(magic={"v0": 0, "v1": 1}, codec={"gzip": "gzip"}), since="1.1")
def wrappers_in_one_another(shape: dict[str, Any]) -> Draft:
    """Of two thousand wrappers in one another the second is refused; who follows them needs a deep stack."""
    return invalid(Recipe("nested", {**shape, "depth": 2000}), "malformed", "unsupported_compression", "limit")
