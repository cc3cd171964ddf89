"""Writing v0 and v1: uncompressed messages to the byte, wrappers up to the compression.

What Kafka's MemoryRecordsBuilder refuses below v2 has to be refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_corpus.authoring.build import TIMESTAMP, forced, grid
from kafka_corpus.authoring.frames import gzip_header, gzip_member, lz4_block, lz4_frame
from kafka_corpus.authoring.messages import (
    APPEND_BIT,
    message_bytes,
    numbered,
    record_of,
    seal,
    set_of,
    single_batch,
    wrap,
    wrapped,
    wrapper_batch,
)
from kafka_corpus.registry import STRICT_WRITER, Draft, case, may_write, must_refuse, must_write
from kafka_records import Batch, Header, Record
from kafka_records.constants import Compression

MAGICS = {"v0": 0, "v1": 1}
KINDS = {"v0": (0, False), "v1-create": (1, False), "v1-append": (1, True)}
CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
BOTH = grid(magic=MAGICS, codec=CODECS)
CONTENT: dict[str, bytes | None] = {"null": None, "empty": b"", "small": b"small", "long": b"long " * 200}
PAIRS = ("null-null", "empty-empty", "null-small", "small-null", "empty-long", "long-empty", "small-small")
SHAPES = {pair: [CONTENT[name] for name in pair.split("-")] for pair in PAIRS}
OFFSETS = {"from-0": (0, 1, 2), "gaps": (10, 12, 17), "largest": (2**63 - 2, 2**63 - 1)}
LAT = TIMESTAMP + 1_000_000


def plain_batch(records: list[Record], magic: int, **fields: Any) -> Batch:
    """Several uncompressed records as one batch to write; each becomes a message (LEG-24)."""
    return replace(wrapper_batch(records, magic, "none", timestamp=max(r.timestamp for r in records)), **fields)


def shaped(shape: dict[str, Any]) -> tuple[int, int, Record, bool]:
    """Magic, attributes, record and whether it is LogAppendTime, as a row of the grid says."""
    magic, append = shape["kind"]
    record = record_of(magic, 42, *shape["content"], timestamp=TIMESTAMP + 42)
    return magic, APPEND_BIT if append else 0, record, append


@case("LEG-01", "LEG-02", "LEG-10", each=grid(kind=KINDS, content=SHAPES))
def message(shape: dict[str, Any]) -> Draft:
    """An uncompressed record is written as one message, to the byte."""
    magic, attributes, record, append = shaped(shape)
    return must_write(single_batch(record, magic, append=append), message_bytes(record, magic, attributes=attributes))


@case(
    "NST-01",
    "LEG-13",
    "CMP-01",
    each=grid(
        kind=KINDS, codec=CODECS, content={name: SHAPES[name] for name in ("null-null", "empty-long", "small-small")}
    ),
)
def wrapper(shape: dict[str, Any]) -> Draft:
    """A compressed record is written as a message in a wrapper with a null key."""
    magic, attributes, record, append = shaped(shape)
    codec = shape["codec"]
    inner = message_bytes(record, magic, base=42 if magic else 0, attributes=attributes)
    data = wrap(inner, magic, codec, offset=42, timestamp=TIMESTAMP + 42, attributes=attributes)
    batch = wrapper_batch([record], magic, codec, append=append, timestamp=TIMESTAMP + 42)
    return must_write(batch, data, compare="masked")


@case("LEG-24", "LEG-06", each=grid(magic=MAGICS, offsets=OFFSETS))
def several_messages(shape: dict[str, Any]) -> Draft:
    """Uncompressed records are written as messages end to end, each with its absolute offset."""
    records = numbered(shape["magic"], *shape["offsets"])
    return must_write(plain_batch(records, shape["magic"]), set_of(records, shape["magic"]))


@case("NST-11", each=grid(codec=CODECS, offsets=OFFSETS))
def relative_offsets(shape: dict[str, Any]) -> Draft:
    """v1 inner offsets are written from the base up, and the wrapper carries the last offset."""
    data, batch = wrapped(numbered(1, *shape["offsets"]), 1, shape["codec"])
    return must_write(batch, data, compare="masked")


@case("NST-14", each=grid(codec=CODECS, offsets=OFFSETS))
def absolute_offsets(shape: dict[str, Any]) -> Draft:
    """v0 inner offsets are written as they are, and the wrapper carries the last of them."""
    data, batch = wrapped(numbered(0, *shape["offsets"]), 0, shape["codec"])
    return must_write(batch, data, compare="masked")


@case("NST-09", "NST-11", each=grid(magic=MAGICS, codec=CODECS))
def last_offset_after_the_last_record(shape: dict[str, Any]) -> Draft:
    """A wrapper has the offset of its last message, so that a set cannot say that it ends later."""
    magic, codec = shape["magic"], shape["codec"]
    records = numbered(magic, 10, 11)
    data = wrap(set_of(records, magic, base=10 if magic else 0), magic, codec, offset=15, timestamp=TIMESTAMP + 1)
    batch = wrapper_batch(records, magic, codec, offset=15, timestamp=TIMESTAMP + 1)
    return may_write(
        batch,
        data,
        why="a writer may write the offset that the batch names, though readers then move the records",
        compare="masked",
    )


@case("NST-22", "NST-20", each=CODECS)
def append_time_inside(codec: Compression) -> Draft:
    """LogAppendTime is written into every inner message too, bit and time."""
    records = [record._replace(timestamp=LAT) for record in numbered(1, 10, 11)]
    inner = set_of(records, 1, base=10, attributes=APPEND_BIT)
    data = wrap(inner, 1, codec, offset=11, timestamp=LAT, attributes=APPEND_BIT)
    return must_write(wrapper_batch(records, 1, codec, append=True, timestamp=LAT), data, compare="masked")


@case("NST-22", "LEG-18")
def append_time_of_plain_messages() -> Draft:
    """LogAppendTime is written into every uncompressed message, whatever time its record had."""
    records = numbered(1, 10, 11)
    data = set_of([record._replace(timestamp=LAT) for record in records], 1, attributes=APPEND_BIT)
    return must_write(plain_batch(records, 1, timestamp_type="append", max_timestamp=LAT), data)


@case("LEG-02")
def timestamp_of_eight_different_bytes() -> Draft:
    """All eight bytes of a v1 timestamp are written, each in its place."""
    record = record_of(1, 3, b"key", timestamp=0x0102_0304_0506_0708)
    return must_write(single_batch(record, 1), message_bytes(record, 1))


@case("NST-23", each=grid(codec=CODECS, timestamp={"earlier": TIMESTAMP - 1, "later": TIMESTAMP + 86_400_000}))
def wrapper_timestamp_that_is_given(shape: dict[str, Any]) -> Draft:
    """A writer that is given the max timestamp of a set writes it into the wrapper, also where no message has it."""
    records, timestamp = numbered(1, 10, 11), shape["timestamp"]
    data = wrap(set_of(records, 1, base=10), 1, shape["codec"], offset=11, timestamp=timestamp)
    return must_write(wrapper_batch(records, 1, shape["codec"], timestamp=timestamp), data, compare="masked")


@case("NST-23", "NST-11", each=CODECS, since="1.2")
def wrapper_of_a_single_message(codec: Compression) -> Draft:
    """A wrapper at offset 0 has the time of its one message."""
    data, batch = wrapped([record_of(1, 0, b"key", b"value " * 50, timestamp=TIMESTAMP - 86_400_000)], 1, codec)
    return must_write(batch, data, compare="masked")


@case("LEG-17", "LEG-18")
def no_append_bit_in_v0() -> Draft:
    """Bit 3 is never written in v0, although a batch may ask for LogAppendTime."""
    record = record_of(0, 3, b"key")
    why = "LegacyRecord#computeAttributes leaves it out; a writer may as well refuse what v0 cannot say"
    return may_write(replace(single_batch(record, 0), timestamp_type="append"), message_bytes(record, 0), why=why)


@case("LEG-17", "CNV-09")
def timestamp_left_out_of_v0() -> Draft:
    """v0 has no room for a timestamp, so that of the record is left out."""
    record = record_of(0, 3, b"key")._replace(timestamp=TIMESTAMP)
    return must_write(replace(single_batch(record, 0), max_timestamp=TIMESTAMP), message_bytes(record, 0))


@case("LEG-04", "LEG-07")
def crc_above_int32() -> Draft:
    """A CRC with its top bit set is written as an unsigned number."""
    records = (record_of(1, 0, None, b"value %d" % number) for number in range(2000))
    record = next(record for record in records if message_bytes(record, 1)[12] >= 0xC0)
    return must_write(single_batch(record, 1), message_bytes(record, 1))


@case("LEG-07", "LEG-04", each={"first-byte": 12, "last-byte": 15})
def crc_with_a_zero_byte(at: int) -> Draft:
    """A CRC with a zero byte in it is still written with four bytes."""
    records = (record_of(0, 0, None, b"value %d" % number) for number in range(5000))
    record = next(record for record in records if message_bytes(record, 0)[at] == 0)
    return must_write(single_batch(record, 0), message_bytes(record, 0))


SPECIAL_CRCS = {"0": 0, "ffffffff": 0xFFFFFFFF, "7fffffff": 0x7FFFFFFF, "80000000": 0x80000000}


@case("LEG-07", "LEG-04", each=grid(magic=MAGICS, crc=SPECIAL_CRCS))
def crc_of_a_special_value(shape: dict[str, Any]) -> Draft:
    """A CRC of 0, of all bits set, or at a limit of int32 is written as it is."""
    magic = shape["magic"]

    def crc_of(value: bytes) -> int:
        return int.from_bytes(message_bytes(record_of(magic, 0, None, value), magic)[12:16], "big")

    record = record_of(magic, 0, None, forced(shape["crc"], crc_of))
    return must_write(single_batch(record, magic), message_bytes(record, magic))


LENGTHS = {"1-1": (1, 1), "1-2": (1, 2), "2-1": (2, 1), "1-256": (1, 256), "256-1": (256, 1), "255-257": (255, 257)}


@case("LEG-10", "LEG-01", "LEG-02", each=grid(magic=MAGICS, lengths=LENGTHS))
def lengths_of_key_and_value(shape: dict[str, Any]) -> Draft:
    """A key or value of one byte, and one whose length has another byte than its last, is written whole."""
    magic = shape["magic"]
    key, value = (b"%c" % (0x30 + at) * length for at, length in enumerate(shape["lengths"]))
    record = record_of(magic, 7, key, value)
    return must_write(single_batch(record, magic), message_bytes(record, magic))


@case("NST-01", "LEG-10", each=grid(magic=MAGICS, codec=CODECS))
def wrapper_of_one_byte_each(shape: dict[str, Any]) -> Draft:
    """Keys and values of one byte are written whole inside a wrapper, one message after the other."""
    magic = shape["magic"]
    records = [record_of(magic, at, b"%d" % at, b"%d" % (9 - at), timestamp=TIMESTAMP + at) for at in range(3)]
    data, batch = wrapped(records, magic, shape["codec"])
    return must_write(batch, data, compare="masked")


@case("LEG-05", "LEG-04", each={"v0-large": (0, 20_000), "v1-large": (1, 33_000)})
def crc_of_a_large_value(shape: tuple[int, int]) -> Draft:
    """The CRC covers a large value to its end."""
    magic, size = shape
    record = record_of(magic, 0, None, b"-" * size)
    return must_write(single_batch(record, magic), message_bytes(record, magic))


@case("LEG-14", "CNV-17", "LZ4-06", refs=("KAFKA-3160",))
def lz4_in_v0() -> Draft:
    """lz4 may be written in v0, with the header checksum that v0 is known for."""
    data, batch = wrapped(numbered(0, 4, 5), 0, "lz4")
    return must_write(batch, data, compare="masked")


@case("LEG-15", "TXN-07", each=MAGICS)
def zstd(magic: int) -> Draft:
    """zstd cannot be written below v2."""
    _, batch = wrapped(numbered(magic, 0, 1), magic, "zstd")
    return must_refuse(batch, "malformed", "unsupported_compression")


@case("LEG-18")
def v1_without_timestamp_type() -> Draft:
    """v1 cannot be written without a timestamp type."""
    return must_refuse(replace(single_batch(record_of(1), 1), timestamp_type="none"), "malformed")


TOO_EARLY = {"minus-2": -2, "minus-a-second": -1000, "least": -(2**63)}


@case("LEG-21", "TIM-04", each=TOO_EARLY)
def timestamp_below_none(timestamp: int) -> Draft:
    """Kafka's writer refuses a v1 timestamp below -1."""
    record = record_of(1, timestamp=timestamp)
    return may_write(single_batch(record, 1), message_bytes(record, 1), why=STRICT_WRITER)


@case("LEG-21", "TIM-04", each=CODECS)
def inner_timestamp_below_none(codec: Compression) -> Draft:
    """Kafka's writer refuses a timestamp below -1 inside a wrapper too."""
    data, batch = wrapped([record_of(1, 0), record_of(1, 1, timestamp=-2)], 1, codec)
    return may_write(batch, data, why=STRICT_WRITER, compare="masked")


@case("LEG-21", each=grid(codec={"none": "none", **CODECS}))
def timestamp_none(shape: dict[str, Any]) -> Draft:
    """A timestamp of -1 is written as it is."""
    record, codec = record_of(1, 3, b"key", timestamp=-1), shape["codec"]
    if codec == "none":
        return must_write(single_batch(record, 1), message_bytes(record, 1))
    data, batch = wrapped([record], 1, codec)
    return must_write(batch, data, compare="masked")


@case("LEG-22", each=grid(magic=MAGICS, codec={"none": "none", **CODECS}))
def headers(shape: dict[str, Any]) -> Draft:
    """Record headers cannot be written below v2; leaving them out would lose data."""
    record = record_of(shape["magic"], 0, b"key")._replace(headers=(Header(b"h", b"1"),))
    return must_refuse(wrapper_batch([record], shape["magic"], shape["codec"]), "malformed")


@case("LEG-22")
def header_of_the_second_record() -> Draft:
    """One header on one of several records is enough to be refused."""
    first, second = numbered(1, 0, 1)
    return must_refuse(plain_batch([first, second._replace(headers=(Header(b"", None),))], 1), "malformed")


@case("LEG-27", "TXN-07", each=MAGICS)
def transactional(magic: int) -> Draft:
    """A transactional batch cannot be written below v2."""
    batch = replace(single_batch(record_of(magic), magic), transactional=True, producer_id=1, producer_epoch=0)
    return must_refuse(replace(batch, base_sequence=0), "malformed")


@case("TXN-07", "LEG-27", each=CODECS)
def transactional_wrapper(codec: Compression) -> Draft:
    """A compressed transactional batch cannot be written below v2."""
    _, batch = wrapped(numbered(1, 0, 1), 1, codec)
    return must_refuse(
        replace(batch, transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), "malformed"
    )


@case("LEG-27", each=MAGICS)
def control(magic: int) -> Draft:
    """A control batch cannot be written below v2."""
    record = record_of(magic, 0, bytes(4), bytes(6))
    return must_refuse(replace(single_batch(record, magic), control=True), "malformed")


@case("LEG-27", each=grid(magic=MAGICS, producer={"zero": 0, "large": 2**62, "below-none": -2}))
def idempotent(shape: dict[str, Any]) -> Draft:
    """A batch with a producer id cannot be written below v2."""
    batch = single_batch(record_of(shape["magic"]), shape["magic"])
    return must_refuse(replace(batch, producer_id=shape["producer"], producer_epoch=0, base_sequence=0), "malformed")


@case("LEG-27", "TIM-18", each=MAGICS)
def delete_horizon(magic: int) -> Draft:
    """A delete horizon cannot be written below v2."""
    return must_refuse(replace(single_batch(record_of(magic), magic), delete_horizon=TIMESTAMP), "malformed")


FALLING = {"equal": (5, 5), "falling": (6, 5), "falling-at-the-end": (5, 6, 7, 6)}


@case("OFF-07", "NST-11", each=grid(magic=MAGICS, codec={"none": "none", "gzip": "gzip"}, offsets=FALLING))
def offsets_that_do_not_rise(shape: dict[str, Any]) -> Draft:
    """Kafka's writer refuses offsets that do not rise from record to record."""
    records, magic, codec = numbered(shape["magic"], *shape["offsets"]), shape["magic"], shape["codec"]
    if codec == "none":
        data = b"".join(message_bytes(record, magic) for record in records)
        return may_write(wrapper_batch(records, magic, codec), data, why=STRICT_WRITER)
    data, batch = wrapped(records, magic, codec)
    return may_write(batch, data, why=STRICT_WRITER, compare="masked")


@case("CLN-21", "NST-05", each=MAGICS)
def no_records(magic: int) -> Draft:
    """There are no empty batches below v2: nothing is written, or it is refused."""
    batch = Batch(magic=magic, base_offset=0, last_offset=0, timestamp_type="create" if magic else "none")
    return may_write(batch, b"", why="MemoryRecordsBuilder gives no bytes without a record")


@case("FRM-08", each={"three": 3, "minus-1": -1, "127": 127})
def unknown_magic(magic: int) -> Draft:
    """There is no magic but 0, 1 and 2."""
    return must_refuse(replace(single_batch(record_of(1), 1), magic=magic), "unsupported_magic", "malformed")


@case("CNV-20", "CNV-11", refs=("KIP-98",), each=BOTH)
def down_converted(shape: dict[str, Any]) -> Draft:
    """Records that were a v2 batch are written for an old broker as one wrapper at the last offset."""
    magic, codec = shape["magic"], shape["codec"]
    records = [
        record_of(magic, 50 + n, b"k%d" % n, None if n == 1 else b"v", timestamp=TIMESTAMP - n) for n in range(3)
    ]
    data, batch = wrapped(records, magic, codec)
    return must_write(batch, data, compare="masked")


@case("GZP-09", "NST-01")
def gzip_level_is_free() -> Draft:
    """Any gzip level will do, level 9 with its hint too: only the set inside is compared."""
    records = numbered(1, 60, 61)
    packed = gzip_member(set_of(records, 1, base=60), header=gzip_header(xfl=2))
    data = seal(packed, 1, "gzip", offset=61, timestamp=TIMESTAMP + 1)
    return must_write(wrapper_batch(records, 1, "gzip", timestamp=TIMESTAMP + 1), data, compare="masked")


@case("LZ4-16", "NST-01", each={"one-block": 40_000, "two-blocks": 70_000})
def lz4_blocks(size: int) -> Draft:
    """An lz4 wrapper is written in independent blocks of at most 64 KiB."""
    record = record_of(1, 70, None, b"-" * size)
    inner = message_bytes(record, 1, base=70)
    packed = lz4_frame(*(lz4_block(inner[at : at + 65536]) for at in range(0, len(inner), 65536)))
    data = seal(packed, 1, "lz4", offset=70)
    return must_write(wrapper_batch([record], 1, "lz4"), data, compare="masked")


@case("LEG-14", "LZ4-06", "NST-01", each={"v0": 0, "v1": 1}, refs=("KAFKA-3160",), since="1.1")
def lz4_from_offset_0(magic: int) -> Draft:
    """An lz4 wrapper that is smaller than its messages has the header checksum of its version."""
    records = [record_of(magic, at, b"%d" % at, b"value " * 50, timestamp=TIMESTAMP + at) for at in range(3)]
    data, batch = wrapped(records, magic, "lz4")
    return must_write(batch, data, compare="masked")


@case(
    "LEG-10",
    each=grid(magic=MAGICS, pair={pair: pair for pair in ("empty-null", "null-empty", "empty-empty", "empty-small")}),
    since="1.1",
)
def empty_is_not_null_at_offset_0(shape: dict[str, Any]) -> Draft:
    """A producer, which counts from offset 0, writes an empty key or value as empty, and not as null."""
    key, value = (CONTENT[name] for name in shape["pair"].split("-"))
    record = record_of(shape["magic"], 0, key, value)
    return must_write(single_batch(record, shape["magic"]), message_bytes(record, shape["magic"]))
