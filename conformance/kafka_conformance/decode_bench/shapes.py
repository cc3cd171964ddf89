"""The logs that are decoded: the same bytes on every machine, but for what compressors give."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from kafka_records import Batch, Header, Record, encode
from kafka_records.constants import MAGIC_VALUE_V2, Compression
from kafka_records.layout import ENTRY

TIMESTAMP: Final = 1_700_000_000_000
BYTES: Final = 48 * 1024 * 1024  # of a log before compression
DIFFERENT: Final = 40  # batches that are not alike; the log repeats them
HEADER_VALUES: Final = (16, 6, 4)


class Shape(NamedTuple):
    """Records a batch, bytes a value, headers a record."""

    records: int = 100
    value: int = 100
    headers: int = 0
    magic: int = 2
    compression: Compression = "none"


SHAPES: Final[dict[str, Shape]] = {
    "100-bytes": Shape(),
    "10-bytes": Shape(value=10),
    "3-headers": Shape(headers=3),
    "one-record": Shape(records=1),
    "1-kib": Shape(value=1024),
    "v0": Shape(magic=0),
    "v1": Shape(magic=1),
    "gzip": Shape(compression="gzip"),
    "snappy": Shape(compression="snappy"),
    "lz4": Shape(compression="lz4"),
    "zstd": Shape(compression="zstd"),
    "v1-lz4": Shape(magic=1, compression="lz4"),
}


class Log(NamedTuple):
    """The bytes, and how many records are in them."""

    data: bytes
    records: int


def log_of(shape: Shape) -> Log:
    """The log of a shape."""
    draw = Random(1)
    batches = b"".join(encode(batch_of(shape, draw)) for _ in range(DIFFERENT))
    plain = DIFFERENT * shape.records * (shape.value + 30 * (1 + shape.headers))
    times = max(BYTES // plain, 1)
    return Log(numbered(batches * times, shape), DIFFERENT * shape.records * times)


def numbered(data: bytes, shape: Shape) -> bytes:
    """The same entries with offsets that rise through all the log, as in any log; no checksum covers an offset."""
    log = bytearray(data)
    whole = shape.magic == MAGIC_VALUE_V2 or shape.compression != "none"
    count = shape.records if whole else 1
    # In v0 and v1 an entry has the offset of its last record.
    offset = 0 if shape.magic == MAGIC_VALUE_V2 else count - 1
    at = 0
    while at < len(log):
        _, size = ENTRY.struct.unpack_from(log, at)
        ENTRY.struct.pack_into(log, at, offset, size)
        at, offset = at + ENTRY.size + size, offset + count
    return bytes(log)


def batch_of(shape: Shape, draw: Random) -> Batch:
    """One batch: keys of 10 bytes, values like JSON, timestamps that grow by up to 3 ms."""
    timestamp, records = TIMESTAMP, []
    for offset in range(shape.records):
        timestamp += draw.randrange(4)
        records.append(
            Record(
                offset,
                timestamp if shape.magic else -1,
                b"key%07d" % draw.randrange(10**7),
                value_of(shape.value, draw),
                tuple(
                    Header(b"header%d" % number, bytes(draw.choices(b"abcdef", k=size)))
                    for number, size in enumerate(HEADER_VALUES[: shape.headers])
                ),
            )
        )
    return Batch(
        magic=shape.magic,
        base_offset=0,
        last_offset=shape.records - 1,
        compression=shape.compression,
        timestamp_type="create" if shape.magic else "none",
        max_timestamp=records[-1].timestamp,
        records=tuple(records),
    )


def value_of(size: int, draw: Random) -> bytes:
    """About as compressible as JSON is."""
    fields = (
        b'{"id":%d,"name":"user-%d","score":%d,"tag":"'
        % (draw.randrange(10**6), draw.randrange(10**4), draw.randrange(100)),
        bytes(draw.choices(b"abcdefgh ", k=size)),
    )
    return b"".join(fields)[:size]
