"""The 61-byte header of a v2 batch: each field at its bounds, wrong counts, empty batches.

`DefaultRecordBatch`, seed 002:94-121.  Attributes, CRC, offsets and timestamps
have modules of their own.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    expected,
    grid,
    packed,
    put,
    raw_batch,
    raw_record,
    raw_records,
    record,
    reseal,
    sealed,
)
from kafka_corpus.authoring.frames import codec_id
from kafka_corpus.registry import Draft, acceptable, case, invalid, valid
from kafka_records import Batch, Kind
from kafka_records.constants import Compression

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated", "corrupt")
CODECS: Final[tuple[Compression, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
PACKED: Final = CODECS[1:]
PLAIN_AND_GZIP: Final = CODECS[:2]
THREE: Final = tuple(record(b"%d" % offset, offset=offset) for offset in range(3))


# Every byte of a field differs from its neighbours, so that a swapped or shifted one shows.
DISTINCT: Final = {
    "base_offset": 0x0102030405060708,
    "partition_leader_epoch": 0x11121314,
    "max_timestamp": 0x2122232425262728,
    "producer_id": 0x3132333435363738,
    "producer_epoch": 0x4142,
    "base_sequence": 0x51525354,
}


def distinct(*fields: str) -> Batch:
    """A batch with these fields of `DISTINCT`, its one record at the base offset."""
    changes = {field: DISTINCT[field] for field in fields}
    return expected(record(offset=changes.get("base_offset", 0)), **changes)


@case("HDR-01", each=tuple(DISTINCT))
def field_lies_where_it_should(field: str) -> Draft:
    """A header field is read from its own bytes, in its own width."""
    return valid(sealed(distinct(field)), distinct(field))


@case("HDR-01")
def all_fields_at_once() -> Draft:
    """Every header field has a value of its own, and each is read from its place."""
    return valid(sealed(distinct(*DISTINCT)), distinct(*DISTINCT))


NEGATIVE: Final = {
    "partition_leader_epoch": -0x11121314,
    "max_timestamp": -0x2122232425262728,
    "producer_id": -0x3132333435363738,
    "producer_epoch": -0x4142,
    "base_sequence": -0x51525354,
}


@case("HDR-02", each=tuple(NEGATIVE))
def fixed_fields_are_signed(field: str) -> Draft:
    """A fixed field is big-endian two's complement, negative values included."""
    batch = expected(record(), **{field: NEGATIVE[field]})
    return valid(sealed(batch), batch)


BOUNDS: Final = {
    f"{field} {name}": (field, value)
    for field, values in {
        "partition_leader_epoch": {"0": 0, "1": 1, "INT32_MAX": INT32_MAX, "-2": -2, "INT32_MIN": -INT32_MAX - 1},
        "producer_id": {"0": 0, "1": 1, "2**32": 2**32, "INT64_MAX": INT64_MAX},
        "producer_epoch": {"0": 0, "1": 1, "INT16_MAX": INT16_MAX, "INT16_MIN": -INT16_MAX - 1},
        "base_sequence": {"0": 0, "1": 1, "INT32_MAX": INT32_MAX, "-2": -2, "INT32_MIN": -INT32_MAX - 1},
    }.items()
    for name, value in values.items()
}


@case("HDR-02", each=BOUNDS)
def field_at_its_bounds(change: tuple[str, int]) -> Draft:
    """A header field holds every value of its type, and is given back as it is."""
    field, value = change
    producer = {"producer_id": 4000, "producer_epoch": 5, "base_sequence": 6}
    batch = expected(record(), **{**producer, field: value})
    return valid(sealed(batch), batch)


@case("CON-06", each={"uncompressed": "none", "gzip": "gzip"})
def unknown_leader_epoch(codec: Compression) -> Draft:
    """A leader epoch of -1 means unknown, and is no reason to refuse a batch that has a producer."""
    batch = expected(record(), partition_leader_epoch=-1, producer_id=7, base_sequence=0, compression=codec)
    return valid(sealed(batch), batch)


@case("HDR-23", each={"-2": -2, "-3": -3, "INT64_MIN": -INT64_MAX - 1})
def producer_id_below_none(producer_id: int) -> Draft:
    """A producer id below -1 acts as none, and is given back unchanged."""
    batch = expected(record(), producer_id=producer_id, producer_epoch=3, base_sequence=10)
    return valid(sealed(batch), batch)


@case("HDR-23")
def no_producer_but_epoch_and_sequence() -> Draft:
    """Without a producer id, epoch and sequence may still be set (PID-02)."""
    batch = expected(record(), producer_id=-1, producer_epoch=3, base_sequence=10)
    return valid(sealed(batch), batch)


@case("HDR-03", each=CODECS)
def length_counts_from_the_leader_epoch(codec: Compression) -> Draft:
    """The batch length leaves out base offset and length, 12 bytes; another batch starts right after it."""
    first, second = (expected(record(offset=at), base_offset=at, compression=codec) for at in (5, 6))
    return valid(sealed(first) + sealed(second), first, second)


@case("HDR-04", each=CODECS)
def count_stands_before_the_compressed_records(codec: Compression) -> Draft:
    """The record count is an int32 of the header, in the clear, and needs more than one byte for 300 records."""
    batch = expected(*(record(b"v", offset=offset) for offset in range(300)), compression=codec)
    return valid(sealed(batch), batch)


SHORT_TOTALS: Final = {f"{total} bytes": total for total in (26, 27, 43, 50, 51, 57, 60)}


@case("HDR-05", each=SHORT_TOTALS)
def shorter_than_its_header(total: int) -> Draft:
    """A batch that is complete but shorter than 61 bytes is refused, though its CRC may be right.

    The broker's produce path reads past the end below 51 bytes and calls the rest corrupt.
    """
    data = put(sealed(expected()), "batch_length", total - 12)
    return invalid(reseal(data[:total]), *STRUCTURE)


@case("HDR-05", each=grid(codec={codec: codec for codec in PACKED}, total={"26 bytes": 26, "60 bytes": 60}))
def shorter_than_its_header_and_compressed(row: dict[str, Any]) -> Draft:
    """A compressed batch that is shorter than 61 bytes has a payload of fewer than no bytes, and is refused."""
    data = put(raw_batch(b"", attributes=codec_id(row["codec"])), "batch_length", row["total"] - 12)
    return invalid(reseal(data[: row["total"]]), *STRUCTURE)


@case("HDR-05", "TXN-22", each={"26 bytes": 26, "60 bytes": 60}, since="1.1")
def shorter_than_its_header_and_control(total: int) -> Draft:
    """A control batch that is shorter than 61 bytes is refused; it is not passed over as one without data."""
    data = put(put(sealed(expected()), "attributes", 0x20), "batch_length", total - 12)
    return invalid(reseal(data[:total]), *STRUCTURE)


@case("HDR-05")
def shorter_than_its_header_but_followed() -> Draft:
    """A batch of 60 bytes is refused even when more bytes follow that it could be read from."""
    good = expected(record())
    return invalid(put(sealed(good), "batch_length", 48) + sealed(good), *STRUCTURE)


LAST_DELTAS: Final = {"0": 0, "3": 3, "1000": 1000, "INT32_MAX": INT32_MAX, "-1": -1, "INT32_MIN": -INT32_MAX - 1}


@case("HDR-09", each=LAST_DELTAS)
def last_offset_is_base_plus_delta(delta: int) -> Draft:
    """The last offset is the base offset plus the delta, whatever records there are."""
    base = 2**33
    batch = expected(record(offset=base), base_offset=base, last_offset=base + delta)
    return valid(sealed(batch), batch)


@case("HDR-09")
def last_offset_wraps() -> Draft:
    """The last offset wraps at 2^63 in Java; no real log comes there."""
    batch = expected(base_offset=INT64_MAX, last_offset=-INT64_MAX - 1, max_timestamp=-1)
    data = raw_batch(b"", record_count=0, base_offset=INT64_MAX, last_offset_delta=1, max_timestamp=-1)
    return acceptable(data, batch, why="Kafka lets the sum wrap; a codec may refuse an offset that cannot be")


NEGATIVE_COUNTS: Final = grid(
    codec={"none": "none", "gzip": "gzip"}, record_count={"-1": -1, "INT32_MIN": -INT32_MAX - 1}
)


@case("HDR-15", each=NEGATIVE_COUNTS)
def negative_count(fields: dict[str, Any]) -> Draft:
    """A record count below 0 is refused."""
    return invalid(packed(payload=raw_records(THREE), last_offset_delta=2, **fields), *STRUCTURE)


@case("HDR-15")
def negative_count_without_payload() -> Draft:
    """A record count of -1 is refused even though there are no records."""
    return invalid(raw_batch(b"", record_count=-1, last_offset_delta=0), *STRUCTURE)


@case("HDR-13", each=CODECS)
def one_record_missing(codec: Compression) -> Draft:
    """A count of 4 over three records is refused, though three were read."""
    return invalid(packed(codec, raw_records(THREE), record_count=4), "truncated", "malformed", "decompression")


@case("HDR-13", each={"2": 2, "61": 61, "INT32_MAX": INT32_MAX})
def count_far_too_large(count: int) -> Draft:
    """A count is a promise that the bytes do not keep; nothing is allocated by it."""
    return invalid(packed("none", raw_records(THREE[:1]), record_count=count), "truncated", "malformed")


@case("HDR-13")
def count_without_any_record() -> Draft:
    """A count of 1 over no bytes is refused."""
    return invalid(raw_batch(b"", record_count=1), "truncated", "malformed")


@case("HDR-18", each=PACKED)
def count_near_the_largest(codec: Compression) -> Draft:
    """A count of 2^31 - 1 over one compressed record is refused.

    Java's `iterator()` allocates a list of that size and runs out of memory.
    """
    data = packed(codec, raw_records(THREE[:1]), record_count=INT32_MAX)
    return invalid(data, "truncated", "malformed", "decompression", "limit")


@case("HDR-14", each=CODECS)
def one_record_too_many(codec: Compression) -> Draft:
    """A count of 2 over three records is refused: bytes are left after the second."""
    return invalid(packed(codec, raw_records(THREE), record_count=2), "malformed", "truncated")


@case("HDR-14")
def count_of_one_over_a_hundred() -> Draft:
    """A count of 1 over a hundred records is refused, not read as one record."""
    many = (record(b"%d" % offset, offset=offset) for offset in range(100))
    return invalid(packed("none", raw_records(many), record_count=1, last_offset_delta=99), "malformed", "truncated")


def empty(**fields: Any) -> Batch:
    """An empty batch as the cleaner leaves one."""
    return expected(**{"base_offset": 10, "last_offset": 14, **fields})


EMPTY: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "append time": {"timestamp_type": "append"},
    "transactional": {"transactional": True, "producer_id": 5, "producer_epoch": 0, "base_sequence": 3},
    "control": {"control": True, "producer_id": 5, "producer_epoch": 0},
    "with a producer": {"producer_id": 5, "producer_epoch": 2, "base_sequence": 2**31 - 1},
    "one offset": {"last_offset": 10},
}


@case("HDR-19", each=EMPTY)
def empty_batch(fields: dict[str, Any]) -> Draft:
    """An empty batch is 61 bytes, and keeps offsets and producer of the compacted records."""
    batch = empty(**fields)
    return valid(sealed(batch), batch)


@case("OFF-11")
def empty_batch_moves_the_position() -> Draft:
    """The batch after an empty one continues at its last offset plus 1; the empty one is given, not dropped."""
    after = expected(record(offset=15), base_offset=15)
    return valid(sealed(empty()) + sealed(after), empty(), after)


@case("CON-02")
def empty_batch_at_the_end() -> Draft:
    """A set that ends in an empty batch moves a consumer past it, so a decoder has to give it."""
    before = expected(record(offset=9), base_offset=9)
    return valid(sealed(before) + sealed(empty()), before, empty())


EMPTY_BATCH: Final = empty()
PAYLOADS: Final = {"a record": raw_record(), "a zero byte": b"\x00", "garbage": b"\xff" * 20}


@case("HDR-16", each=PAYLOADS)
def count_of_zero_hides_the_payload(payload: bytes) -> Draft:
    """With a count of 0 Kafka decodes no record from the bytes after the header; only its CRC covers them."""
    data = raw_batch(payload, record_count=0, base_offset=10, last_offset_delta=4)
    why = "Kafka's consumer finds nothing to read there and goes on; a codec may say that bytes are left over"
    return acceptable(data, EMPTY_BATCH, kinds=("malformed", "truncated"), why=why)


@case("HDR-16", "FRM-02", each=PAYLOADS)
def batch_behind_a_hidden_payload(payload: bytes) -> Draft:
    """The batch after one that has bytes but a count of 0 is read: the length says where it starts."""
    data = raw_batch(payload, record_count=0, base_offset=10, last_offset_delta=4)
    after = expected(record(offset=15), base_offset=15)
    why = "Kafka's consumer skips the bytes by the batch's length; a codec may say that bytes are left over"
    return acceptable(data + sealed(after), EMPTY_BATCH, after, kinds=("malformed", "truncated"), why=why)


@case("HDR-17", each=PACKED)
def empty_batch_with_a_codec(codec: Compression) -> Draft:
    """An empty batch names a codec, and there is nothing to decompress.

    Java's `iterator` gives nothing; its `streamingIterator` opens the codec, and all but zstd fail.
    """
    batch = empty(compression=codec)
    data = raw_batch(b"", record_count=0, base_offset=10, last_offset_delta=4, attributes=CODECS.index(codec))
    why = "Kafka's writer clears the codec (CLN-15); its two iterators differ on reading"
    return acceptable(data, batch, kinds=("decompression", "malformed", "truncated"), why=why)


@case("HDR-26", each={"one record": 1, "three records": 3})
def offsets_near_the_end(count: int) -> Draft:
    """Record offsets up to 2^63 - 1 need no wrapping."""
    base = INT64_MAX - count + 1
    batch = expected(*(record(offset=base + index) for index in range(count)), base_offset=base)
    return valid(sealed(batch), batch)


@case("HDR-26", each=PLAIN_AND_GZIP)
def offsets_wrap(codec: Compression) -> Draft:
    """A record offset past 2^63 - 1 wraps to a negative one in Java."""
    offsets = (INT64_MAX, -INT64_MAX - 1)
    fields = {"base_offset": INT64_MAX, "last_offset": -INT64_MAX - 1, "compression": codec}
    batch = expected(*(record(offset=offset) for offset in offsets), **fields)
    payload = raw_record() + raw_record(offset_delta=1)
    data = packed(codec, payload, record_count=2, base_offset=INT64_MAX)
    return acceptable(data, batch, why="Kafka lets the sum wrap; a codec may refuse an offset that cannot be")
