"""v2 batches by hand, each with the batch that it decodes to, and the same payload in each magic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kafka_corpus.authoring.build import TIMESTAMP, raw_batch, raw_header, raw_record
from kafka_corpus.authoring.frames import codec_id, pack
from kafka_corpus.authoring.messages import numbered, seal, set_of, wrapper_batch
from kafka_records import Batch, Kind, Record
from kafka_records.constants import Compression
from kafka_records.varint import encode_varint

APPEND, TRANSACTIONAL, CONTROL, HORIZON = 0x08, 0x10, 0x20, 0x40


def some_records(count: int = 2, *, base: int = 0) -> tuple[Record, ...]:
    """Records a millisecond apart, with their index in keys and values."""
    return tuple(
        Record(base + index, TIMESTAMP + index, b"key %d" % index, b"value %d" % index) for index in range(count)
    )


def payload_of(records: Sequence[Record], *, base_offset: int = 0, base_timestamp: int = TIMESTAMP) -> bytes:
    """*records* end to end, their deltas counted from the bases."""
    return b"".join(
        raw_record(
            timestamp_delta=record.timestamp - base_timestamp,
            offset_delta=record.offset - base_offset,
            key=record.key,
            value=record.value,
            header_count=encode_varint(len(record.headers)),
            headers=b"".join(raw_header(key, value) for key, value in record.headers),
        )
        for record in records
    )


def header_attributes(batch: Batch) -> int:
    """The attributes of the fields of *batch*."""
    return (
        codec_id(batch.compression)
        | (APPEND if batch.timestamp_type == "append" else 0)
        | (TRANSACTIONAL if batch.transactional else 0)
        | (CONTROL if batch.control else 0)
        | (HORIZON if batch.delete_horizon is not None else 0)
    )


def batch_of(*records: Record, **fields: object) -> Batch:
    """A batch of *records*: offsets from first to last, the newest timestamp; *fields* replaces any field."""
    known: dict[str, object] = {
        "magic": 2,
        "base_offset": records[0].offset if records else 0,
        "last_offset": records[-1].offset if records else 0,
        "max_timestamp": max((record.timestamp for record in records), default=-1),
        "records": records,
    }
    return Batch(**(known | fields))  # type: ignore[arg-type]  # the names are Batch's, the caller's tests say so


def header_base_timestamp(batch: Batch) -> int:
    """The base timestamp of the header: the delete horizon, the first record's time, or -1 (A07)."""
    if batch.delete_horizon is not None:
        return batch.delete_horizon
    return batch.records[0].timestamp if batch.records else -1


def bytes_of(batch: Batch, *, packed: bytes | None = None, base_timestamp: int | None = None, **fields: int) -> bytes:
    """The bytes of *batch*; *packed* replaces its (compressed) records, *fields* change its header."""
    base = header_base_timestamp(batch) if base_timestamp is None else base_timestamp
    payload = payload_of(batch.records, base_offset=batch.base_offset, base_timestamp=base)
    header = {
        "base_offset": batch.base_offset,
        "last_offset_delta": batch.last_offset - batch.base_offset,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "attributes": header_attributes(batch),
        "base_timestamp": base,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "record_count": len(batch.records),
    }
    body = pack(batch.compression, payload) if packed is None else packed
    return raw_batch(body, **(header | fields))


def compressed(codec: Compression, packed: bytes, *records: Record) -> tuple[bytes, Batch]:
    """A batch whose payload is *packed*, and the batch of *records* that it has to be read as."""
    batch = batch_of(*(records or some_records()), compression=codec)
    return bytes_of(batch, packed=packed), batch


PLAIN = payload_of(some_records())


# A codec that refuses; which of these words it has for it depends on the library.
REFUSED: Final[tuple[Kind, ...]] = ("decompression", "corrupt", "malformed", "truncated")
MAGICS = {"v0": 0, "v1": 1, "v2": 2}
LEGACY = {"v0": 0, "v1": 1}
# Where the framing is the same in all, one wrapper and one batch will do.
EITHER = {"v1": 1, "v2": 2}


def plain_of(magic: int) -> bytes:
    """Two records, or the message set of two messages, before compression."""
    return PLAIN if magic == 2 else set_of(numbered(magic, 0, 1), magic)


def around(packed: bytes, magic: int, codec: Compression) -> tuple[bytes, Batch]:
    """A batch or wrapper around *packed*, and the batch that it decodes to if that holds `plain_of(magic)`."""
    if magic == 2:
        return compressed(codec, packed)
    records = numbered(magic, 0, 1)
    data = seal(packed, magic, codec, offset=1, timestamp=TIMESTAMP + 1)
    return data, wrapper_batch(records, magic, codec, timestamp=TIMESTAMP + 1)


def split(plain: bytes, *at: int) -> list[bytes]:
    """*plain* cut at each position."""
    edges = [0, *at, len(plain)]
    return [plain[start:end] for start, end in pairwise(edges)]
