"""Builders: bytes put together by hand from the layout tables, then changed in one place.

They know the layouts and the checksums but not the reference's encoder or
decoder, so that a case does not merely repeat what the reference does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka_corpus.authoring.frames import codec_id, pack
from kafka_records import Batch, Header, Record
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, Compression
from kafka_records.layout import BATCH_V2, MESSAGE_V0, MESSAGE_V1, Layout
from kafka_records.log import split_entries
from kafka_records.primitives import encode_nullable_int32
from kafka_records.varint import encode_varint, encode_varlong

# 14 November 2023: the timestamp of the golden vectors.
TIMESTAMP = 1_700_000_000_000

HEADER_DEFAULTS: dict[str, int] = {
    "base_offset": 0,
    "partition_leader_epoch": -1,
    "magic": 2,
    "attributes": 0,
    "base_timestamp": TIMESTAMP,
    "max_timestamp": TIMESTAMP,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
}


def raw_batch(payload: bytes, *, record_count: int = 1, **fields: int) -> bytes:
    """A v2 batch around *payload* (records, or their compressed form).

    Length and CRC are right unless *fields* says otherwise; `last_offset_delta`
    is `record_count - 1` unless given.
    """
    header: dict[str, int] = {
        **HEADER_DEFAULTS,
        "batch_length": RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),
        "last_offset_delta": record_count - 1,
        "record_count": record_count,
        "crc": 0,
        **fields,
    }
    data = BATCH_V2.struct.pack(*(header[field.name] for field in BATCH_V2.fields)) + payload
    return data if "crc" in fields else reseal(data)


def raw_record(
    *,
    length: bytes | None = None,
    attributes: int = 0,
    timestamp_delta: bytes | int = 0,
    offset_delta: bytes | int = 0,
    key_length: bytes | None = None,
    key: bytes | None = None,
    value_length: bytes | None = None,
    value: bytes | None = b"value",
    header_count: bytes | None = None,
    headers: bytes = b"",
    tail: bytes = b"",
) -> bytes:
    """A v2 record; any length, delta or count can be given as the bytes to put there."""
    body = b"".join(
        (
            bytes((attributes,)),
            timestamp_delta if isinstance(timestamp_delta, bytes) else encode_varlong(timestamp_delta),
            offset_delta if isinstance(offset_delta, bytes) else encode_varint(offset_delta),
            sized(key_length, key),
            sized(value_length, value),
            encode_varint(0) if header_count is None else header_count,
            headers,
            tail,
        )
    )
    return (encode_varint(len(body)) if length is None else length) + body


def raw_header(
    key: bytes | None, value: bytes | None, *, key_length: bytes | None = None, value_length: bytes | None = None
) -> bytes:
    """A v2 record header; either length can be given as bytes."""
    return sized(key_length, key) + sized(value_length, value)


def sized(length: bytes | None, content: bytes | None) -> bytes:
    """A varint length (or *length* as given) and the content."""
    honest = encode_varint(-1 if content is None else len(content))
    return (honest if length is None else length) + (content or b"")


def raw_message(
    magic: int,
    key: bytes | None = None,
    value: bytes | None = b"value",
    *,
    offset: int = 0,
    attributes: int = 0,
    timestamp: int = TIMESTAMP,
    body: bytes | None = None,
    tail: bytes = b"",
    **fields: int,
) -> bytes:
    """A v0 or v1 message, `offset` and `message_size` in front; *body* replaces key and value.

    Size and CRC are right unless *fields* gives `message_size` or `crc`.
    """
    layout = MESSAGE_V0 if magic == 0 else MESSAGE_V1
    body = encode_nullable_int32(key) + encode_nullable_int32(value) if body is None else body
    header: dict[str, int] = {
        "offset": offset,
        "message_size": layout.size - LOG_OVERHEAD + len(body) + len(tail),
        "crc": 0,
        "magic": magic,
        "attributes": attributes,
        "timestamp": timestamp,
        **fields,
    }
    data = layout.struct.pack(*(header[field.name] for field in layout.fields)) + body + tail
    return data if "crc" in fields else reseal_message(data)


def reseal(batch: bytes) -> bytes:
    """*batch* with the CRC of its bytes; the length is not changed."""
    return put(batch, "crc", checksum_v2(batch))


def signed(payload: bytes, producer_id: int, producer_epoch: int) -> bytes:
    """The v2 batches of *payload* as that producer sends them: id and epoch in each, the CRC recomputed."""
    batches = (payload[start:end] for start, end in split_entries(payload))
    return b"".join(
        reseal(put(put(batch, "producer_id", producer_id), "producer_epoch", producer_epoch)) for batch in batches
    )


def reseal_message(message: bytes) -> bytes:
    """*message* with the CRC of its bytes; the size is not changed."""
    return put(message, "crc", checksum_legacy(message), layout=MESSAGE_V0)


def put(data: bytes, field: str, value: int, *, layout: Layout = BATCH_V2) -> bytes:
    """*data* with another *value* in a fixed *field*, and nothing else changed."""
    where = layout.field(field)
    signed = where.type[0] == "i"
    packed = value.to_bytes(where.width, "big", signed=signed)
    return data[: where.offset] + packed + data[where.offset + where.width :]


def forced(wanted: int, crc_of: Callable[[bytes], int]) -> bytes:
    """The four bytes for which *crc_of* gives *wanted*: each of their bits turns over the same bits of every CRC."""
    start = crc_of(bytes(4))
    basis: list[tuple[int, int]] = []

    def reduced(change: int, bits: int) -> tuple[int, int]:
        for of_basis, its_bits in basis:
            if change ^ of_basis < change:
                change, bits = change ^ of_basis, bits ^ its_bits
        return change, bits

    for at in range(32):
        change = crc_of((1 << at).to_bytes(4, "big")) ^ start
        basis.append(reduced(change, 1 << at))
    return reduced(wanted ^ start, 0)[1].to_bytes(4, "big")


def flip(data: bytes, at: int, mask: int = 0x01) -> bytes:
    """*data* with the bits of *mask* inverted in byte *at*."""
    return data[:at] + bytes((data[at] ^ mask,)) + data[at + 1 :]


def overlong_varint(value: int, size: int) -> bytes:
    """The zig-zag form of *value*, padded to *size* bytes with empty groups."""
    short = encode_varlong(value)
    padding = size - len(short)
    if padding <= 0:
        return short
    return short[:-1] + bytes((short[-1] | 0x80,)) + b"\x80" * (padding - 1) + b"\x00"


def grid(**axes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The product of named axes: `{"v1-gzip-null": {"magic": 1, "codec": "gzip", …}, …}`."""
    rows: dict[str, dict[str, Any]] = {"": {}}
    for axis, values in axes.items():
        rows = {
            "-".join(filter(None, (name, label))): {**row, axis: value}
            for name, row in rows.items()
            for label, value in values.items()
        }
    return rows


def record(
    value: bytes | None = b"value",
    *,
    key: bytes | None = None,
    offset: int = 0,
    timestamp: int = TIMESTAMP,
    headers: Iterable[tuple[bytes, bytes | None]] = (),
) -> Record:
    """The record that `raw_record` with the same arguments encodes, at absolute *offset* and *timestamp*."""
    return Record(offset, timestamp, key, value, tuple(Header(name, content) for name, content in headers))


def expected(*records: Record, **fields: Any) -> Batch:
    """The v2 batch that `raw_batch` with its defaults holds, unless *fields* says otherwise."""
    base_offset: int = fields.get("base_offset", 0)
    defaults = {
        "magic": 2,
        "base_offset": base_offset,
        "last_offset": base_offset + len(records) - 1,
        "max_timestamp": TIMESTAMP,
        "records": records,
    }
    return Batch(**{**defaults, **fields})


def raw_headers(headers: Iterable[tuple[bytes | None, bytes | None]]) -> bytes:
    """v2 record headers end to end, without their count."""
    return b"".join(raw_header(key, value) for key, value in headers)


def raw_records(records: Iterable[Record], *, base_offset: int = 0, base_timestamp: int = TIMESTAMP) -> bytes:
    """v2 records end to end, their deltas counted from the two bases."""
    return b"".join(
        raw_record(
            timestamp_delta=made.timestamp - base_timestamp,
            offset_delta=made.offset - base_offset,
            key=made.key,
            value=made.value,
            header_count=encode_varint(len(made.headers)),
            headers=raw_headers(made.headers),
        )
        for made in records
    )


def packed(codec: Compression, payload: bytes, *, attributes: int = 0, **fields: int) -> bytes:
    """A v2 batch of the records in *payload*, compressed with *codec* and with its bits set."""
    return raw_batch(pack(codec, payload), attributes=attributes | codec_id(codec), **fields)


def header_fields(batch: Batch, *, base_timestamp: int | None = None) -> dict[str, int]:
    """The header fields of a v2 *batch* without those of its length and checksum.

    The base timestamp, unless given, is the delete horizon, else the first record's, else -1 (A07).
    """
    if base_timestamp is None:
        first = batch.records[0].timestamp if batch.records else -1
        base_timestamp = first if batch.delete_horizon is None else batch.delete_horizon
    flags = (batch.timestamp_type == "append", batch.transactional, batch.control, batch.delete_horizon is not None)
    return {
        "base_offset": batch.base_offset,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "attributes": codec_id(batch.compression) | sum(bit << 3 + at for at, bit in enumerate(flags)),
        "last_offset_delta": batch.last_offset - batch.base_offset,
        "base_timestamp": base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "record_count": len(batch.records),
    }


def sealed(batch: Batch, **fields: int) -> bytes:
    """The bytes of a v2 *batch*, put together field by field; *fields* replaces header fields."""
    header = header_fields(batch)
    payload = raw_records(batch.records, base_offset=batch.base_offset, base_timestamp=header["base_timestamp"])
    return packed(batch.compression, payload, **(header | fields))
