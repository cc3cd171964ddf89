"""Ordinary v0 and v1 messages and wrappers in every shape that a codec has to read.

Each magic and timestamp type with each codec, each kind of key and value, one
message and several, offsets with and without gaps.
"""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.build import TIMESTAMP, forced, grid
from kafka_corpus.authoring.messages import (
    APPEND_BIT,
    message_bytes,
    numbered,
    record_of,
    set_of,
    single_batch,
    single_batches,
    wrap,
    wrapped,
    wrapper_batch,
)
from kafka_corpus.registry import Draft, case, valid
from kafka_records import Record
from kafka_records.constants import Compression

KINDS = {"v0": (0, False), "v1-create": (1, False), "v1-append": (1, True)}
CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
# Text and a run, so that compressors have both to do.
LONG = b"The quick brown fox. " * 20 + b"-" * 580
CONTENT: dict[str, bytes | None] = {"null": None, "empty": b"", "small": b"small", "long": LONG}
OFFSETS = {
    "from-0": (0, 1, 2),
    "from-100": (100, 101, 102, 103),
    "gaps": (10, 12, 17),
    "far-apart": (5, 5_000_000_000),
    "beyond-int32": (2**40, 2**40 + 1),
    "largest": (2**63 - 2, 2**63 - 1),
}
SIZES = {"one": 1, "ten": 10, "sixty": 60}

# Key and value, by the names of `CONTENT`; every kind stands on both sides.
PAIRS = ("null-null", "empty-empty", "null-small", "small-null", "empty-long", "long-empty", "long-long", "small-small")
SHAPES = {pair: [CONTENT[name] for name in pair.split("-")] for pair in PAIRS}
PLAIN = grid(kind=KINDS, content=SHAPES)
WRAPPED = grid(kind=KINDS, codec=CODECS, content=SHAPES)


def both(shape: dict[str, Any]) -> tuple[int, int, Record, bool]:
    """Magic, attributes, record and whether it is LogAppendTime, as a row of the grid says."""
    magic, append = shape["kind"]
    record = record_of(magic, 42, *shape["content"], timestamp=TIMESTAMP + 42)
    return magic, APPEND_BIT if append else 0, record, append


@case("LEG-10", "LEG-01", "LEG-02", each=PLAIN)
def message(shape: dict[str, Any]) -> Draft:
    """An uncompressed message is read with key, value and offset, and in v1 with its timestamp and its type."""
    magic, attributes, record, append = both(shape)
    return valid(message_bytes(record, magic, attributes=attributes), single_batch(record, magic, append=append))


SPECIAL_CRCS = {"0": 0, "ffffffff": 0xFFFFFFFF, "7fffffff": 0x7FFFFFFF, "80000000": 0x80000000}


def with_crc(magic: int, crc: int, offset: int = 0) -> Record:
    """A record whose message has this CRC."""

    def crc_of(value: bytes) -> int:
        return int.from_bytes(message_bytes(record_of(magic, offset, b"k", value), magic)[12:16], "big")

    return record_of(magic, offset, b"k", forced(crc, crc_of))


@case("LEG-07", "LEG-04", each=grid(magic={"v0": 0, "v1": 1}, crc=SPECIAL_CRCS))
def right_crc_of_a_special_value(shape: dict[str, Any]) -> Draft:
    """A right CRC may be 0, or have all bits set, or be a limit of int32: none of them stands for no CRC."""
    record = with_crc(shape["magic"], shape["crc"])
    return valid(message_bytes(record, shape["magic"]), single_batch(record, shape["magic"]))


LENGTHS = {"1-1": (1, 1), "1-256": (1, 256), "256-1": (256, 1), "255-257": (255, 257), "65536-0": (65_536, 0)}


@case("LEG-10", "LEG-01", "LEG-02", each=grid(magic={"v0": 0, "v1": 1}, lengths=LENGTHS))
def lengths_of_key_and_value(shape: dict[str, Any]) -> Draft:
    """A key or value of one byte, and one whose length has another byte than its last, is read whole."""
    key, value = (b"%c" % (0x30 + at) * length for at, length in enumerate(shape["lengths"]))
    record = record_of(shape["magic"], 7, key, value)
    return valid(message_bytes(record, shape["magic"]), single_batch(record, shape["magic"]))


@case("NST-01", "LEG-13", "CMP-03", each=WRAPPED)
def wrapper(shape: dict[str, Any]) -> Draft:
    """A message inside a wrapper is read like one outside, whatever its key and value are."""
    magic, attributes, record, append = both(shape)
    codec = shape["codec"]
    inner = message_bytes(record, magic, base=42 if magic else 0, attributes=attributes)
    data = wrap(inner, magic, codec, offset=42, timestamp=TIMESTAMP + 42, attributes=attributes)
    return valid(data, wrapper_batch([record], magic, codec, append=append, timestamp=TIMESTAMP + 42))


@case("LEG-06", "LEG-24", each=grid(magic={"v0": 0, "v1": 1}, offsets=OFFSETS))
def messages_end_to_end(shape: dict[str, Any]) -> Draft:
    """Uncompressed messages stand end to end, each with its own absolute offset."""
    records = numbered(shape["magic"], *shape["offsets"])
    return valid(set_of(records, shape["magic"]), *single_batches(records, shape["magic"]))


@case("NST-12", "NST-08", each=grid(codec=CODECS, offsets=OFFSETS))
def relative_offsets(shape: dict[str, Any]) -> Draft:
    """In v1 the inner offsets count from the first message, with gaps or without."""
    data, batch = wrapped(numbered(1, *shape["offsets"]), 1, shape["codec"])
    return valid(data, batch)


@case(
    "NST-14",
    "NST-01",
    each=grid(codec=CODECS, offsets={name: OFFSETS[name] for name in ("gaps", "far-apart", "largest")}),
)
def absolute_offsets(shape: dict[str, Any]) -> Draft:
    """In v0 the inner offsets are absolute, gaps and all."""
    data, batch = wrapped(numbered(0, *shape["offsets"]), 0, shape["codec"])
    return valid(data, batch)


@case("NST-01", "NST-26", each=grid(magic={"v0": 0, "v1": 1}, codec=CODECS, size=SIZES))
def messages_in_a_wrapper(shape: dict[str, Any]) -> Draft:
    """A wrapper holds any number of messages from one up."""
    data, batch = wrapped(numbered(shape["magic"], *range(700, 700 + shape["size"])), shape["magic"], shape["codec"])
    return valid(data, batch)


@case("NST-01", "FRM-02", each=grid(magic={"v0": 0, "v1": 1}, codec=CODECS))
def wrappers_end_to_end(shape: dict[str, Any]) -> Draft:
    """A log holds several wrappers, and each message in them has its own offset."""
    magic, codec = shape["magic"], shape["codec"]
    first, before = wrapped(numbered(magic, 0, 1, 2), magic, codec)
    second, after = wrapped(numbered(magic, 3, 5), magic, codec)
    return valid(first + second, before, after)


@case("NST-01", "LEG-24", each=grid(magic={"v0": 0, "v1": 1}, codec=CODECS))
def wrapper_between_messages(shape: dict[str, Any]) -> Draft:
    """A log holds plain messages and wrappers in any order."""
    magic = shape["magic"]
    first, last = record_of(magic, 0, b"first"), record_of(magic, 4, b"last")
    middle, batch = wrapped(numbered(magic, 1, 2, 3), magic, shape["codec"])
    data = message_bytes(first, magic) + middle + message_bytes(last, magic)
    return valid(data, single_batch(first, magic), batch, single_batch(last, magic))


@case("FRM-03", "SEG-06", each=CODECS)
def magics_in_one_log(codec: Compression) -> Draft:
    """v0 and v1 entries, plain and wrapped, may follow one another in one log."""
    old, new = record_of(0, 0, b"old"), record_of(1, 3, b"new")
    wrapper0, batch0 = wrapped(numbered(0, 1, 2), 0, codec)
    wrapper1, batch1 = wrapped(numbered(1, 4, 5), 1, codec)
    data = message_bytes(old, 0) + wrapper0 + message_bytes(new, 1) + wrapper1
    return valid(data, single_batch(old, 0), batch0, single_batch(new, 1), batch1)


@case("NST-14", each=CODECS)
def codecs_in_one_log(codec: Compression) -> Draft:
    """Wrappers of different codecs may follow one another in one log."""
    other: Compression = "gzip" if codec == "lz4" else "lz4"
    first, before = wrapped(numbered(1, 0, 1), 1, codec)
    second, after = wrapped(numbered(1, 2, 3), 1, other)
    return valid(first + second, before, after)


@case("FRM-07", "NST-01", each=grid(magic={"v0": 0, "v1": 1}, codec=CODECS))
def partial_wrapper_at_the_end(shape: dict[str, Any]) -> Draft:
    """A wrapper that the fetch cut short is silently dropped, and never decompressed."""
    magic = shape["magic"]
    first, batch = wrapped(numbered(magic, 0, 1, 2), magic, shape["codec"])
    second, _ = wrapped(numbered(magic, 3, 4, 5), magic, shape["codec"])
    return valid(first + second[:-1], batch)
