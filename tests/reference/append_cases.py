"""Produce payloads and the error codes that real brokers answer to them.

The codes were read off brokers of these releases; `tests/brokers/test_append.py`
compares them with running brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import lz4.block
import zstandard

from kafka_corpus.authoring.build import TIMESTAMP, flip, put, raw_batch, raw_header, raw_message, raw_record
from kafka_records.compression import compress
from kafka_records.constants import COMPRESSIONS, INT32_MAX, INT64_MAX, INT64_MIN, Compression
from kafka_records.varint import encode_varint

NEW, OLD = "4.4.0", "2.8.2"
LEGACY = ("2.8.2", "1.1.1", "0.10.2.2")
# Broker time of the unit tests: a day after the records.
NOW = TIMESTAMP + 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One payload and its answers.

    Attributes:
        name: what is special about it; with the rule it is its id.
        rule: the rule that decides on the newest of the releases.
        payload: the bytes.
        codes: error code by release.
        version: of the produce request.
        config: the topic's.
    """

    name: str
    rule: str
    payload: bytes
    codes: Mapping[str, int]
    version: int = 9
    config: Mapping[str, str] = field(default_factory=dict)


def v2(
    name: str, rule: str, payload: bytes, code: int, old: int | None = None, version: int = 9, **config: str
) -> Produce:
    """A payload for 4.4.0 and 2.8.2; *config* has underscores for dots."""
    codes = {NEW: code, OLD: code if old is None else old}
    return Produce(name=name, rule=rule, payload=payload, codes=codes, version=version, config=dotted(config))


def v01(name: str, rule: str, payload: bytes, codes: tuple[int, int, int], version: int = 2, **config: str) -> Produce:
    """A payload for the releases that take v0 and v1, newest first."""
    return Produce(
        name=name,
        rule=rule,
        payload=payload,
        codes=dict(zip(LEGACY, codes, strict=True)),
        version=version,
        config=dotted(config),
    )


def dotted(config: Mapping[str, str]) -> dict[str, str]:
    """Kafka's names from Python's."""
    return {name.replace("_", "."): value for name, value in config.items()}


def packed(codec: Compression, plain: bytes, *, count: int = 1, **fields: int) -> bytes:
    """A batch around compressed records."""
    attributes = COMPRESSIONS.index(codec) | fields.pop("attributes", 0)
    return raw_batch(compress(codec, plain, magic=2), record_count=count, attributes=attributes, **fields)


def framed(codec: Compression, payload: bytes, count: int = 1) -> bytes:
    """A batch around bytes that are compressed already, or are not."""
    return raw_batch(payload, record_count=count, attributes=COMPRESSIONS.index(codec))


def wrapped(magic: int, codec: Compression, *inner: bytes, **fields: Any) -> bytes:
    """A wrapper around messages."""
    attributes = COMPRESSIONS.index(codec) | fields.pop("attributes", 0)
    value = compress(codec, b"".join(inner), magic=magic)
    return raw_message(magic, None, value, attributes=attributes, **fields)


def fixed(message: bytes) -> bytes:
    """A message whose CRC is right again."""
    return message[:12] + crc32(message[16:]).to_bytes(4, "big") + message[16:]


def records(count: int, **fields: object) -> bytes:
    """So many records, numbered from 0."""
    return b"".join(raw_record(offset_delta=index, **fields) for index in range(count))  # type: ignore[arg-type]


RECORD = raw_record()
BATCH = raw_batch(RECORD)
ONE, TWO = records(1), records(2)
LONG = b"\xff\xff\xff\xff\xff\x01"  # a varint of six bytes
MESSAGE_V0, MESSAGE_V1 = raw_message(0), raw_message(1)
ZSTD_FRAME = zstandard.ZstdCompressor(write_content_size=False).compress(ONE)
LZ4_FRAME = compress("lz4", ONE, magic=2)
LZ4_HEADER = LZ4_FRAME[:7]
GZIP_MEMBER = compress("gzip", ONE, magic=2)
SNAPPY_STREAM = compress("snappy", ONE, magic=2)


def lz4_block(plain: bytes) -> bytes:
    """One block with its size in front."""
    block = bytes(lz4.block.compress(plain, store_size=False))
    return len(block).to_bytes(4, "little") + block


REQUEST = (
    v2("plain", "RWR-01", BATCH, 0),
    v2("nothing", "HDR-24", b"", 87),
    v2("tail of 11 bytes", "HDR-20", bytes(11), 87),
    v2("tail of 16 bytes", "HDR-20", BATCH[:16], 87),
    v2("half a batch", "HDR-20", BATCH[:-1], 87),
    v2("size 13", "FRM-05", put(BATCH, "batch_length", 13), 2),
    v2("magic 3", "FRM-08", put(BATCH, "magic", 3), 2),
    v2("magic -1", "FRM-08", put(BATCH, "magic", -1), 2),
    v2("size overflows", "FRM-09", put(BATCH, "batch_length", INT32_MAX), -1),
    v2("magic 1", "PRD-05", MESSAGE_V1, 87),
    v2("two batches", "PRD-04", BATCH + BATCH, 87),
    v2("second of size 0", "FRM-05", BATCH + bytes(12), 2),
    v2("second overflows", "FRM-09", BATCH + put(BATCH, "batch_length", INT32_MAX), -1),
    v2("tail after the batch", "RWR-01", BATCH + bytes(11), 0),
    v2("zstd before 7", "PRD-06", packed("zstd", RECORD), 76, version=6),
    v2("codec 5 before 7", "ATT-02", raw_batch(RECORD, attributes=5), -1, version=6),
    v2("zstd at 7", "RWR-01", packed("zstd", RECORD), 0, version=7),
    v2("transactional", "TXN-02", raw_batch(RECORD, attributes=16), 53),
    v2("26 bytes", "HDR-05", put(BATCH, "batch_length", 14)[:26], -1),
    v2("50 bytes", "HDR-05", put(BATCH, "batch_length", 38)[:50], -1, 2),
    v2("60 bytes", "HDR-05", put(BATCH, "batch_length", 48)[:60], 2),
)
PARTITION = (
    v2("base offset 1", "HDR-06", raw_batch(RECORD, base_offset=1), 87),
    v2("at the limit", "RWR-01", BATCH, 0, max_message_bytes=str(len(BATCH))),
    v2("above the limit", "SIZ-01", BATCH, 10, max_message_bytes=str(len(BATCH) - 1)),
    v2("too large and corrupt", "SIZ-01", flip(BATCH, 65), 10, max_message_bytes="10"),
    v2("corrupt", "CRC-06", flip(BATCH, 65), 2),
    v2("codec 7", "ATT-02", raw_batch(RECORD, attributes=7), -1),
    v2(
        "grows",
        "SIZ-04",
        packed("gzip", raw_record(value=bytes(999))),
        10,
        compression_type="uncompressed",
        max_message_bytes="500",
    ),
    v2("last offset delta -1", "HDR-10", raw_batch(RECORD, last_offset_delta=-1), 87),
    v2("count 0", "HDR-11", raw_batch(RECORD, record_count=0, last_offset_delta=0), 87),
    v2("count 2 of 1", "HDR-12", raw_batch(RECORD, record_count=2, last_offset_delta=0), 87),
    v2("control", "TXN-08", raw_batch(RECORD, attributes=32), 87),
    v2("no sequence", "PID-03", raw_batch(RECORD, producer_id=1, producer_epoch=0), 87),
    v2("producer id -2", "RWR-01", raw_batch(RECORD, producer_id=-2, base_sequence=-9), 0),
    v2("epoch -1", "RWR-01", raw_batch(RECORD, producer_id=1, producer_epoch=-1, base_sequence=0), 0),
    v2("epoch -2", "PID-14", raw_batch(RECORD, producer_id=1, producer_epoch=-2, base_sequence=0), 47),
    v2(
        "epoch -1 rebuilt",
        "PID-04",
        raw_batch(RECORD, producer_id=1, producer_epoch=-1, base_sequence=0),
        -1,
        compression_type="gzip",
    ),
)
RECORDS = (
    v2("one too few", "VAR-11", raw_batch(RECORD, record_count=2), 87),
    v2("one too many", "HDR-14", raw_batch(TWO, record_count=1), 87),
    v2("too long a length", "VAR-06", raw_batch(LONG + RECORD), -1),
    v2("longer than the batch", "REC-03", raw_batch(encode_varint(99) + RECORD[1:]), 87),
    v2("longer than nothing", "REC-03", raw_batch(b"\x02"), 87, -1),
    v2("longer in the middle", "REC-03", raw_batch(encode_varint(999) + records(9), record_count=9), 87, -1),
    v2("shorter than it is", "REC-13", raw_batch(encode_varint(6) + RECORD[1:]), 87),
    v2("negative length", "REC-09", raw_batch(encode_varint(-1) + RECORD[1:]), 87),
    v2("no keys on a compacted topic", "PRD-17", BATCH, 87, cleanup_policy="compact"),
    v2("empty key on a compacted topic", "RWR-01", raw_batch(raw_record(key=b"")), 0, cleanup_policy="compact"),
    v2("out of order", "RWR-01", raw_batch(raw_record(offset_delta=5)), 0),
    v2("out of order, compressed", "OFF-05", packed("gzip", raw_record(offset_delta=5)), -1),
    v2("out of order, rebuilt", "RWR-05", raw_batch(raw_record(offset_delta=5)), 0, compression_type="lz4"),
    v2(
        "key not UTF-8, recompressed",
        "RWR-05",
        raw_batch(raw_record(header_count=b"\x02", headers=raw_header(b"k\xed\xa0\x80\xff", None))),
        0,
        compression_type="snappy",
    ),
)
TIMES = (
    v2("years ago", "TIM-10", BATCH, 32, 0, message_timestamp_before_max_ms="1000"),
    v2("years ago, difference", "RWR-01", BATCH, 0, 32, message_timestamp_difference_max_ms="1000"),
    v2(
        "no timestamp",
        "RWR-01",
        raw_batch(RECORD, base_timestamp=-1, max_timestamp=-1),
        0,
        0,
        message_timestamp_before_max_ms="1000",
        message_timestamp_difference_max_ms="1000",
    ),
    v2("the end of time", "TIM-10", raw_batch(RECORD, base_timestamp=INT64_MAX), 32, 0),
    v2(
        "the beginning of time",
        "TIM-10",
        raw_batch(RECORD, base_timestamp=INT64_MIN),
        32,
        32,
        message_timestamp_before_max_ms="9",
        message_timestamp_difference_max_ms="9",
    ),
    v2("below -1", "RWR-01", raw_batch(RECORD, base_timestamp=-2), 0),
    v2("below -1, rebuilt", "TIM-04", raw_batch(RECORD, base_timestamp=-2), -1, compression_type="gzip"),
    v2("append time", "RWR-01", BATCH, 0, message_timestamp_type="LogAppendTime"),
    v2("append time rebuilt", "RWR-05", BATCH, 0, message_timestamp_type="LogAppendTime", compression_type="gzip"),
    v2("bit 3 on append time", "TIM-13", raw_batch(RECORD, attributes=8), 32, message_timestamp_type="LogAppendTime"),
    v2("bit 3 on create time", "RWR-01", raw_batch(RECORD, attributes=8), 0, 32),
    v2("bit 3 without maximum", "TIM-14", raw_batch(RECORD, attributes=8, max_timestamp=-1), 32),
    v2("bits 6 to 15", "RWR-01", raw_batch(RECORD, attributes=0x7FC0, max_timestamp=5), 0),
    v2("bits 6 to 15 stay", "RWR-01", raw_batch(RECORD, attributes=0x7FC0), 0),
    v2(
        "two faults",
        "TIM-10",
        raw_batch(raw_record() + raw_record(key=b"", offset_delta=1), record_count=2),
        32,
        87,
        cleanup_policy="compact",
        message_timestamp_before_max_ms="1",
    ),
)
OUTLINES = (
    v2("length says more", "RWR-01", packed("gzip", encode_varint(99) + RECORD[1:]), 0, 87),
    v2("length says less", "RWR-01", packed("gzip", encode_varint(1) + RECORD[1:]), 0, 87),
    v2("length below 0", "REC-07", packed("gzip", encode_varint(-1) + RECORD[1:]), 87),
    v2("length too long", "VAR-06", packed("gzip", LONG + RECORD), 87, -1),
    v2("too much", "HDR-14", packed("gzip", TWO), 87),
    v2("too little", "VAR-06", packed("gzip", ONE, count=2), 87),
    v2("key beyond the end", "REC-13", packed("gzip", raw_record(key=b"k", key_length=b"\x7e")), 87),
    v2("timestamp too long", "VAR-08", packed("gzip", raw_record(timestamp_delta=b"\xff" * 11)), 87),
    v2("header count below 0", "REC-14", packed("gzip", raw_record(header_count=b"\x01")), 87),
    v2("header count beyond the end", "VAR-06", packed("gzip", raw_record(header_count=b"\x04")), 87),
    v2(
        "null header key", "REC-18", packed("gzip", raw_record(header_count=b"\x02", headers=raw_header(None, b""))), 87
    ),
    v2("headers", "RWR-01", packed("gzip", raw_record(header_count=b"\x02", headers=raw_header(b"k", b"v"))), 0),
    v2("large value", "RWR-01", packed("gzip", raw_record(value=bytes(70_000))), 0),
    v2("large value, cut short", "REC-13", packed("gzip", raw_record(value=bytes(70_000))[:-9]), 87),
    v2("zero length", "VAR-08", packed("gzip", b"\x00"), 87),
    v2(
        "length of a large record too small",
        "RWR-01",
        packed("gzip", encode_varint(3000) + raw_record(value=bytes(5000))[2:]),
        0,
        87,
    ),
    v2("no key on a compacted topic", "PRD-17", packed("gzip", RECORD), 87, cleanup_policy="compact"),
    v2("full: length says more", "REC-05", packed("gzip", encode_varint(99) + RECORD[1:]), 87, compression_type="lz4"),
    v2(
        "full: length below 0", "REC-07", packed("gzip", encode_varint(-1) + RECORD[1:]), 87, -1, compression_type="lz4"
    ),
    v2("full: wrong structure", "REC-04", packed("gzip", raw_record(tail=b"x")), 87, compression_type="lz4"),
    v2("full: largest length", "REC-08", packed("gzip", encode_varint(2**30) + RECORD[1:]), -1, compression_type="lz4"),
    v2("full", "RWR-05", packed("gzip", RECORD), 0, compression_type="lz4"),
    v2(
        "append time of a compressed batch",
        "RWR-01",
        packed("lz4", TWO, count=2),
        0,
        message_timestamp_type="LogAppendTime",
    ),
)
