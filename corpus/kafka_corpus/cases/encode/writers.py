"""Mistakes that writers of clients have made: batches that look harmless, and come out wrong.

A writer is shown the batch that it got wrong, or that its neighbour would.
Rules are tested one by one elsewhere; `refs` name who made the mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from kafka_corpus.authoring.batches import bytes_of, payload_of
from kafka_corpus.authoring.build import TIMESTAMP, expected, grid, record, sealed
from kafka_corpus.authoring.frames import LZ4_END_MARK, lz4_data, lz4_header
from kafka_corpus.authoring.messages import single_batch
from kafka_corpus.registry import Draft, case, must_refuse, must_write
from kafka_records import Batch, Header, Record, encode

CODECS: Final = {"none": "none", "gzip": "gzip"}
DAY: Final = 86_400_000
PRODUCER: Final[dict[str, Any]] = {"producer_id": 4000, "producer_epoch": 3}


def is_written(batch: Batch) -> Draft:
    """*batch* is written field by field; compressed records are compared as plain ones."""
    return must_write(batch, sealed(batch), compare="exact" if batch.compression == "none" else "masked")


def timed(timestamps: tuple[int, ...], **fields: Any) -> Batch:
    """A record at each of *timestamps*; the largest is the batch's."""
    made = (record(b"%d" % at, offset=at, timestamp=timestamp) for at, timestamp in enumerate(timestamps))
    return expected(*made, max_timestamp=max(timestamps), **fields)


def of_records(*records: Record, **fields: Any) -> Batch:
    """*records*, numbered from 0."""
    return expected(*(each._replace(offset=at) for at, each in enumerate(records)), **fields)


DIGITS: Final = {
    "9, 10, 1000": (9, 10, 1000),
    "two centuries": (999_999_999_999, 1_000_000_000_000, 1_000_000_000_001),
    "2286": (TIMESTAMP, 9_999_999_999_999, 10_000_000_000_000),
    "9 last": (1000, 10, 9),
}


@case("TIM-07", each=grid(codec=CODECS, timestamps=DIGITS), refs=("kafkajs 2.2.4",))
def timestamps_with_more_digits(row: Mapping[str, Any]) -> Draft:
    """The largest timestamp is the largest number, and not the last when they are sorted as text."""
    return is_written(timed(row["timestamps"], compression=row["codec"]))


APART: Final = {
    "2^31 - 1 ms": 2**31 - 1,
    "2^31 ms": 2**31,
    "2^32 ms": 2**32,
    "a month": 30 * DAY,
    "fifty years": 18_262 * DAY,
}


@case("VAR-02", "TIM-01", each=grid(codec=CODECS, apart=APART), refs=("@platformatic/kafka 2.12.1",))
def timestamps_far_apart(row: Mapping[str, Any]) -> Draft:
    """A record 2^31 - 1 ms (24.8 days) or more after the first keeps its time: the delta is an int64."""
    return is_written(timed((TIMESTAMP, TIMESTAMP + row["apart"]), compression=row["codec"]))


@case("VAR-02", "TIM-06", each=grid(codec=CODECS, apart=APART), refs=("@platformatic/kafka 2.12.1",))
def timestamps_far_back(row: Mapping[str, Any]) -> Draft:
    """A record 2^31 - 1 ms or more before the first keeps its time: its delta is negative."""
    return is_written(timed((TIMESTAMP, TIMESTAMP - row["apart"]), compression=row["codec"]))


ORDERS: Final = {
    "largest first": (TIMESTAMP + 9, TIMESTAMP, TIMESTAMP + 3),
    "largest in the middle": (TIMESTAMP, TIMESTAMP + 9, TIMESTAMP + 3),
    "falling": (TIMESTAMP + 2, TIMESTAMP + 1, TIMESTAMP),
}


@case("TIM-07", "TIM-06", each=grid(codec={**CODECS, "lz4": "lz4", "snappy": "snappy", "zstd": "zstd"}, order=ORDERS))
def timestamps_out_of_order(row: Mapping[str, Any]) -> Draft:
    """The max timestamp is the largest of all records' timestamps, whichever record has it."""
    return is_written(timed(row["order"], compression=row["codec"]))


EPOCHS: Final = {
    "0": (0,),
    "0 and 1": (0, 1),
    "1 and 0": (1, 0),
    "0 after others": (TIMESTAMP, 0),
    "1 ms": (1,),
    "-1 alone": (-1,),
    "-1 after others": (TIMESTAMP, -1),
}


@case("TIM-03", "TIM-06", each=EPOCHS, refs=("kafka-go 0.4.51",))
def time_zero_is_a_time(timestamps: tuple[int, ...]) -> Draft:
    """A timestamp of 0 is January 1970 and -1 is none; a writer keeps both and puts no current time there."""
    return is_written(timed(timestamps))


@case("LEG-21", "TIM-03", each={"0": 0, "1": 1, "-1": -1}, refs=("kafka-go 0.4.51",))
def time_zero_of_a_message(timestamp: int) -> Draft:
    """A v1 message too has a time of 0, or none, as given."""
    batch = single_batch(Record(0, timestamp, b"key", b"value"), 1)
    return must_write(batch, encode(batch))


YEARS: Final = {
    "2262, the last of nanoseconds": 9_223_372_036_854,
    "2262, beyond nanoseconds": 9_223_372_036_855,
    "9999": 253_402_300_799_999,
    "2^53 - 1": 2**53 - 1,
    "2^53 + 1": 2**53 + 1,
}


@case("TIM-06", each=YEARS, refs=("franz-go 1.22.2", "kafkajs 2.2.4"))
def distant_years(timestamp: int) -> Draft:
    """A timestamp is an int64 of milliseconds: neither nanoseconds nor a double lose it."""
    return is_written(timed((timestamp,)))


@case("TIM-01", each=YEARS, refs=("kafkajs 2.2.4",))
def distant_years_behind_the_first(timestamp: int) -> Draft:
    """A far timestamp in the second record keeps all its digits in the delta."""
    return is_written(timed((1, timestamp)))


NOTHING: Final[dict[str, tuple[Record, ...]]] = {
    "null and empty keys": (record(b"v", key=None), record(b"v", key=b"")),
    "null and empty values": (record(None, key=b"k"), record(b"", key=b"k")),
    "nothing but nulls": (record(None), record(None)),
    "nothing but empties": (record(b"", key=b""), record(b"", key=b"")),
    "null header value": (record(b"v", headers=((b"h", None),)),),
    "null and empty header values": (record(b"v", headers=((b"a", None), (b"b", b""))),),
    "empty header key": (record(b"v", headers=((b"", b"x"),)),),
    "null header value behind others": (record(b"v"), record(b"v", headers=((b"a", b"1"), (b"b", None)))),
}


@case("REC-12", "REC-20", each=grid(codec=CODECS, records=NOTHING), refs=("kafkajs 2.2.4", "rskafka 0.6.0"))
def null_is_not_empty(row: Mapping[str, Any]) -> Draft:
    """Keys, values and header values may be null or empty, which is not the same."""
    return is_written(of_records(*row["records"], compression=row["codec"]))


def headers(*pairs: tuple[bytes, bytes | None]) -> Record:
    """A record with these headers."""
    return record(b"v", headers=pairs)


LISTS: Final = {
    "twice": headers((b"a", b"1"), (b"a", b"2")),
    "twice the same": headers((b"a", b"1"), (b"a", b"1")),
    "around another": headers((b"a", b"1"), (b"b", b"2"), (b"a", b"3")),
    "numbers": headers((b"2", b"x"), (b"1", b"y"), (b"10", b"z")),
    "not sorted": headers((b"z", b"1"), (b"a", b"2"), (b"m", b"3")),
    "proto": headers((b"__proto__", b"1"), (b"constructor", b"2")),
    "twice, null and not": headers((b"a", None), (b"a", b"1")),
}


@case("REC-23", each=LISTS, refs=("kafka-protocol 0.18.0", "kafkajs 2.2.4"))
def headers_are_a_list(made: Record) -> Draft:
    """Headers are a list and no map: keys may repeat, and keep the order in which they were given."""
    return is_written(of_records(made, record(b"w")))


OWNERS: Final[dict[str, dict[str, Any]]] = {
    "nobody": {},
    "id 0, epoch 0, sequence 0": {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0},
    "id, epoch and sequence": {**PRODUCER, "base_sequence": 17},
    "sequence at its end": {**PRODUCER, "base_sequence": 2**31 - 1},
    "largest epoch": {**PRODUCER, "producer_epoch": 2**15 - 1, "base_sequence": 0},
    "id beyond a double": {**PRODUCER, "producer_id": 2**53 + 1, "base_sequence": 0},
    "transactional": {**PRODUCER, "base_sequence": 0, "transactional": True},
}


@case("PID-01", "PID-16", each=grid(codec=CODECS, owner=OWNERS), refs=("franz-go 1.22.2",))
def producer_fields(row: Mapping[str, Any]) -> Draft:
    """Id, epoch and sequence are those of the producer, and all -1 without one."""
    made = (record(b"%d" % at, offset=at, timestamp=TIMESTAMP) for at in range(3))
    return is_written(expected(*made, compression=row["codec"], **row["owner"]))


COUNTS: Final = {"127": 127, "128": 128, "2000": 2000}


@case("HDR-04", "HDR-12", each=grid(codec=CODECS, count=COUNTS))
def many_records(row: Mapping[str, Any]) -> Draft:
    """Record count, last offset delta and every record's own delta are right in a batch of many records."""
    made = (record(b"", offset=at, timestamp=TIMESTAMP + at) for at in range(row["count"]))
    return is_written(expected(*made, max_timestamp=TIMESTAMP + row["count"] - 1, compression=row["codec"]))


# LZ4-16: what Kafka's writer puts into a block at most.
LZ4_BLOCK: Final = 65_536


def _lz4_written(batch: Batch) -> Draft:
    """*batch* as lz4 blocks of 64 KiB; other compressed bytes of the same records are as good."""
    plain = payload_of(batch.records)
    blocks = (lz4_data(plain[at : at + LZ4_BLOCK], stored=True) for at in range(0, len(plain), LZ4_BLOCK))
    frame = lz4_header() + b"".join(blocks) + LZ4_END_MARK
    return must_write(batch, bytes_of(batch, packed=frame), compare="masked")


SIZES: Final = {"32 KiB": 32 * 1024, "64 KiB": 64 * 1024, "100000 B": 100_000}


@case("CMP-01", each=grid(codec={**CODECS, "lz4": "lz4", "snappy": "snappy", "zstd": "zstd"}, size=SIZES))
def values_larger_than_a_block(row: Mapping[str, Any]) -> Draft:
    """A value of 32 KiB or more is written whole, whatever the codec and its blocks."""
    value = (bytes(at * at % 251 for at in range(251)) * (row["size"] // 251 + 1))[: row["size"]]
    batch = of_records(record(value, key=b"large"), record(b"after"), compression=row["codec"])
    return is_written(batch) if batch.compression != "lz4" else _lz4_written(batch)


# Of incompressible bytes, so that each block of lz4 is stored.
NOISE: Final = b"".join(sha256(at.to_bytes(4, "big")).digest() for at in range(4096))


@case("LZ4-16", "CMP-01", each={"64 KiB": 65_536, "100000 B": 100_000, "120000 B": 120_000})
def incompressible_value_larger_than_a_block(size: int) -> Draft:
    """A value that lz4 cannot make smaller is written whole over several blocks."""
    return _lz4_written(of_records(record(NOISE[:size], key=b"noise"), record(b"after"), compression="lz4"))


# Eleven bytes of the first record come before its value.  With 65,525 bytes the block of 64 KiB is full before the
# header count; with fewer, before one of the single bytes with which the next record begins.
FULL: Final = {f"{size} B": size for size in range(65_519, 65_527)}


@case("LZ4-16", "CMP-01", each=FULL)
def value_that_fills_a_block(size: int) -> Draft:
    """A value that ends near the end of an lz4 block, and the bytes after it, are written whole."""
    return _lz4_written(of_records(record(b"-" * size, key=b"k"), record(b"after"), compression="lz4"))


DELTAS: Final = {"-64": -64, "-65": -65, "-8192": -8192, "-8193": -8193, "-2^20": -(2**20), "-2^27": -(2**27)}


@case("VAR-04", "TIM-06", each=grid(codec=CODECS, delta=DELTAS))
def timestamp_delta_at_the_edge_of_a_size(row: Mapping[str, Any]) -> Draft:
    """A negative timestamp delta takes the shortest varint that holds it."""
    return is_written(timed((TIMESTAMP, TIMESTAMP + row["delta"]), compression=row["codec"]))


NO_KEYS: Final = {"alone": (Header(None, b"1"),), "second": (Header(b"a", b"1"), Header(None, None))}


@case("REC-18", each=grid(codec=CODECS, headers=NO_KEYS), refs=("sarama 1.61.1",), since="1.2")
def null_header_key(row: Mapping[str, Any]) -> Draft:
    """A header without a key is refused: no broker stores it, and no reader of Kafka's takes it."""
    return must_refuse(of_records(record(b"v")._replace(headers=row["headers"]), compression=row["codec"]), "malformed")
