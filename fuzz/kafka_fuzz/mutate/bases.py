"""Valid entries of every magic and codec, taken apart: what lies are told about.

An entry is named by (magic, codec, axis, level, number): one axis of its shape
is set to a level, the others are drawn.  It is made once and kept; the same
name gives the same bytes in every process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Final

from kafka_fuzz.mutate.packing import pack
from kafka_fuzz.mutate.sealing import seal_batch, seal_message, varint, varlong
from kafka_fuzz.mutate.shapes import AXES, Shape, draw_shape
from kafka_records import Batch, Header, Record
from kafka_records.attributes import attributes_of
from kafka_records.constants import COMPRESSIONS, NO_TIMESTAMP, Compression
from kafka_records.message import Message
from kafka_records.primitives import wrap_int64

# How many entries there are of each (magic, codec, axis, level).
NUMBERS: Final = 12
# A v2 batch is no message.
NOTHING: Final = Message(0, 0, 0, NO_TIMESTAMP, None, None)
CODECS: Final[dict[int, tuple[Compression, ...]]] = {0: COMPRESSIONS[:-1], 1: COMPRESSIONS[:-1], 2: COMPRESSIONS}


@dataclass(frozen=True, slots=True)
class Base:
    """One valid entry.

    Attributes:
        data: its bytes.
        batch: what it has to be read as.
        header: v2: the fixed fields, without length and checksum.
        bodies: v2: the fields of each record in the order of `layout.RECORD_V2`,
            the length left out; four more for each header.
        parts: records or inner messages as they stand on the wire.
        payload: them end to end; of a plain message, nothing.
        message: v0, v1: the entry itself, a wrapper's value packed.
        inner: v0, v1: the inner messages of a wrapper.
    """

    magic: int
    codec: Compression
    data: bytes
    batch: Batch
    header: dict[str, int] = field(default_factory=dict)
    bodies: tuple[tuple[bytes, ...], ...] = ()
    parts: tuple[bytes, ...] = ()
    payload: bytes = b""
    message: Message = NOTHING
    inner: tuple[Message, ...] = ()

    @property
    def packed(self) -> bytes:
        """What the codec made of the payload."""
        return self.data[61:] if self.magic == 2 else self.message.value or b""


@cache
def axes_of(magic: int, codec: Compression, *, filled: bool) -> tuple[tuple[str, str], ...]:
    """The axes and levels that an entry can have; *filled* leaves out those without records."""
    return tuple(
        (axis, level)
        for axis, levels in AXES.items()
        for level, fits in levels.items()
        if fits(magic, codec) and not (filled and level == "none" and axis == "records")
    )


def draw_base(rng: Random, magic: int, codec: Compression, *, filled: bool = True) -> Base:
    """Any of the entries of *magic* and *codec*."""
    axes = axes_of(magic, codec, filled=filled)
    axis, level = axes[int(rng.random() * len(axes))]
    return base_of(magic, codec, axis, level, int(rng.random() * NUMBERS))


@cache
def base_of(magic: int, codec: Compression, axis: str, level: str, number: int) -> Base:
    """The entry of that name."""
    rng = Random(f"{magic}/{codec}/{axis}/{level}/{number}")
    shape = draw_shape(rng, magic, codec, axis, level)
    return batch_base(shape, codec) if magic == 2 else message_base(shape, magic, codec)


def batch_base(shape: Shape, codec: Compression) -> Base:
    """A v2 batch of that shape."""
    batch = batch_of(shape, codec)
    base_timestamp = base_timestamp_of(shape)
    bodies = tuple(
        body_of(record, record.offset - batch.base_offset, wrap_int64(timestamp - base_timestamp))
        for record, timestamp in zip(batch.records, shape.timestamps, strict=True)
    )
    parts = tuple(map(framed, bodies))
    header = header_of(batch, base_timestamp)
    payload = b"".join(parts)
    data = seal_batch(header, pack(codec, payload, 2) if parts else b"")
    return Base(2, codec, data, batch, header=header, bodies=bodies, parts=parts, payload=payload)


def batch_of(shape: Shape, codec: Compression) -> Batch:
    """What a v2 batch of that shape is read as."""
    latest = max(shape.timestamps, default=NO_TIMESTAMP)
    return Batch(
        magic=2,
        base_offset=shape.base_offset,
        last_offset=shape.last_offset,
        compression=codec,
        timestamp_type="append" if shape.append else "create",
        max_timestamp=latest,
        producer_id=shape.producer_id,
        producer_epoch=shape.producer_epoch,
        base_sequence=shape.base_sequence,
        transactional=shape.transactional,
        control=shape.control,
        partition_leader_epoch=shape.leader_epoch,
        delete_horizon=shape.horizon,
        records=tuple(
            Record(offset, latest if shape.append else timestamp, key, value, tuple(map(Header._make, headers)))
            for offset, timestamp, key, value, headers in shape.rows()
        ),
    )


def base_timestamp_of(shape: Shape) -> int:
    """The horizon, the first record's time, or none (TIM-18, TIM-06, TIM-21)."""
    if shape.horizon is not None:
        return shape.horizon
    return shape.timestamps[0] if shape.timestamps else NO_TIMESTAMP


def header_of(batch: Batch, base_timestamp: int) -> dict[str, int]:
    """The fixed fields but length and checksum."""
    return {
        "base_offset": batch.base_offset,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "magic": 2,
        "attributes": attributes_of(batch),
        "last_offset_delta": batch.last_offset - batch.base_offset,
        "base_timestamp": base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "record_count": len(batch.records),
    }


def body_of(record: Record, offset_delta: int, timestamp_delta: int) -> tuple[bytes, ...]:
    """The fields of a record behind its length, each as bytes."""
    fields = [b"\0", varlong(timestamp_delta), varint(offset_delta), *nullable(record.key), *nullable(record.value)]
    fields.append(varint(len(record.headers)))
    for key, value in record.headers:
        fields += (*nullable(key), *nullable(value))
    return tuple(fields)


def nullable(content: bytes | None) -> tuple[bytes, bytes]:
    """A varint length, and the content."""
    return (varint(-1), b"") if content is None else (varint(len(content)), content)


def framed(body: tuple[bytes, ...]) -> bytes:
    """A record with its length in front."""
    joined = b"".join(body)
    return varint(len(joined)) + joined


def message_base(shape: Shape, magic: int, codec: Compression) -> Base:
    """A plain message, or a wrapper around messages, of that shape."""
    append = magic == 1 and shape.append
    latest = max(shape.timestamps) if magic else NO_TIMESTAMP
    bit = 0x08 if append else 0
    base = shape.base_offset if magic and codec != "none" else 0
    inner = tuple(
        Message(offset - base, magic, bit, latest if append else timestamp if magic else NO_TIMESTAMP, key, value)
        for offset, timestamp, key, value, _ in shape.rows()
    )
    batch = Batch(
        magic=magic,
        base_offset=inner[0].offset + base,
        last_offset=inner[-1].offset + base,
        compression=codec,
        timestamp_type="append" if append else "create" if magic else "none",
        max_timestamp=latest,
        records=tuple(Record(each.offset + base, each.timestamp, each.key, each.value) for each in inner),
    )
    if codec == "none":
        return Base(magic, codec, seal_message(inner[0]), batch, message=inner[0])
    parts = tuple(map(seal_message, inner))
    payload = b"".join(parts)
    number = COMPRESSIONS.index(codec) | bit
    wrapper = Message(batch.last_offset, magic, number, latest, None, pack(codec, payload, magic))
    return Base(magic, codec, seal_message(wrapper), batch, parts=parts, payload=payload, message=wrapper, inner=inner)
