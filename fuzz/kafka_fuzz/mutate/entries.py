"""Valid entries split into fields: seeds from the corpus, and entries of every magic, codec and shape.

An entry is named by (magic, codec, axis, level, number): one axis of its shape
is set to a level, the others are drawn.  It is made once and kept; the same
name gives the same bytes in every process.

`AXES` names every level of every axis (how many records, which keys, headers,
times and offsets), and the entries that can have it; these are the cells of
inputs without a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from random import Random
from typing import Final, NamedTuple

from kafka_corpus.authoring.build import header_fields
from kafka_corpus.case import Op
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.mutate.fixup import (
    INT32,
    codec_from_attributes,
    pack_fast,
    unpack_or_none,
    varint,
    varlong,
    write_batch_bytes,
    write_message_bytes,
)
from kafka_records import Batch, Header, Record, RecordFormatError
from kafka_records.constants import (
    COMPRESSIONS,
    INT32_MAX,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V2,
    NO_TIMESTAMP,
    Compression,
)
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    ENTRY,
    HEADER_V2,
    MAGIC_OFFSET,
    MESSAGE_BODY,
    MESSAGE_V0,
    MESSAGE_V1,
    RECORD_V2,
    Layout,
)
from kafka_records.log import split_entries
from kafka_records.message import Message
from kafka_records.primitives import wrap_int64
from kafka_records.varint import decode_varint, decode_varlong

Pair = tuple[bytes, bytes | None]
Row = tuple[int, int, bytes | None, bytes | None, tuple[Pair, ...]]
Fits = Callable[[int, str], bool]

NOW: Final = 1_700_000_000_000
INT16_MAX: Final = 2**15 - 1
COUNTS: Final = {"none": 0, "one": 1, "two": 2, "three": 3, "many": 70}
# 63, 64 and 8,192 are where a length's varint grows by a byte (VAR-12).
SIZES: Final = {"63 bytes": 63, "64 bytes": 64, "8192 bytes": 8192}
BASE_OFFSETS: Final = {"zero": 0, "large": 2**40, "near the end": INT64_MAX - 2**34, "beyond int32": INT32_MAX + 1}
COMMON_OFFSETS: Final = ("zero", "large", "gaps", "rising")
TIMES: Final = {"none": NO_TIMESTAMP, "zero": 0, "largest": INT64_MAX}
HEADERS: Final[dict[str, tuple[Pair, ...]]] = {
    "none": (),
    "one": ((b"h", b"1"),),
    "null value": ((b"h", None), (b"g", b"")),
    "empty key": ((b"", b"1"),),
    "repeated": ((b"h", b"1"), (b"h", b"2")),
    "repeated alike": ((b"h", b"1"), (b"h", b"1")),
    "in no order": ((b"z", b"1"), (b"a", None), (b"m", b""), (b"b", b"2")),
    "not UTF-8": ((b"\xff\xfe", b"\x80"),),
    "long": ((b"k" * 64, b"v" * 64),),
    "many": tuple((b"h%d" % at, b"%d" % at) for at in range(70)),
}
MARKERS: Final = {
    "commit": (b"\0\0\0\1", b"\0\0\0\0\0\7"),
    "abort": (b"\0\0\0\0", b"\0\0\0\0\0\7"),
    "leader change": (bytes.fromhex("00000002"), bytes.fromhex("00000000000102000000010002000000010000")),
}


def _any(magic: int, codec: str) -> bool:
    return True


def _v2(magic: int, codec: str) -> bool:
    return magic == 2


def _timed(magic: int, codec: str) -> bool:
    return magic > 0


def _several(magic: int, codec: str) -> bool:
    return magic == 2 or codec != "none"


def _plain_v2(magic: int, codec: str) -> bool:
    return magic == 2 and codec == "none"


CONTENT: Final[dict[str, Fits]] = dict.fromkeys(("null", "empty", "text", "not UTF-8", *SIZES), _any)
AXES: Final[dict[str, dict[str, Fits]]] = {
    "records": {"none": _v2, "one": _any, "two": _several, "three": _several, "many": _several},
    "key": CONTENT,
    "value": CONTENT,
    "headers": dict.fromkeys(HEADERS, _v2),
    "timestamp": {
        **dict.fromkeys(("equal", "rising", *TIMES, "append"), _timed),
        **dict.fromkeys(("falling", "far apart", "none later", "append in one second"), _several),
    },
    "offset": {**dict.fromkeys(("rising", *BASE_OFFSETS), _any), "gaps": _several, "gap at the end": _v2},
    "producer": dict.fromkeys(("idempotent", "transactional", "largest", "horizon", "leader epoch"), _v2),
    "control": dict.fromkeys(MARKERS, _plain_v2),
}


@dataclass(slots=True)
class Shape:
    """One shape; what a format lacks is not looked at."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[tuple[Pair, ...]]
    base_offset: int = 0
    last_offset: int = 0
    append: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    leader_epoch: int = -1
    horizon: int | None = field(default=None)

    def rows(self) -> Iterator[Row]:
        """The records."""
        return zip(self.offsets, self.timestamps, self.keys, self.values, self.headers, strict=True)


def draw_shape(rng: Random, magic: int, codec: str, axis: str, level: str) -> Shape:
    """A shape with *level* on *axis*, and common levels on the others."""
    levels = {
        "records": rng.choice(("one", "two", "three", "three")),
        "key": rng.choice(("null", "empty", "text", "text")),
        "value": rng.choice(("null", "empty", "text", "text", "text")),
        "headers": rng.choice(("none", "none", "one", "null value")),
        "timestamp": rng.choice(("equal", "rising", "rising", "append")),
        "offset": rng.choice(COMMON_OFFSETS),
        "producer": rng.choice(("", "", "idempotent", "transactional")),
        "control": "",
        axis: level,
    }
    count = COUNTS[levels["records"]]
    if (magic < 2 and codec == "none") or axis == "control":
        count = 1
    elif level in ("falling", "far apart", "none later", "append in one second", "gaps") and count < 2:
        count = 2
    shape = Shape(
        offsets=draw_offsets(rng, levels["offset"], count),
        timestamps=draw_timestamps(rng, levels["timestamp"], count),
        keys=[shape_content(rng, levels["key"]) for _ in range(count)],
        values=[shape_content(rng, levels["value"]) for _ in range(count)],
        headers=[HEADERS[levels["headers"]] if magic == 2 else () for _ in range(count)],
    )
    return finished(rng, shape, levels)


def finished(rng: Random, shape: Shape, levels: dict[str, str]) -> Shape:
    """The shape with what belongs to the whole entry."""
    start = BASE_OFFSETS.get(levels["offset"], 7)
    shape.base_offset = shape.offsets[0] if shape.offsets else start
    shape.last_offset = shape.offsets[-1] if shape.offsets else start + 9
    if levels["offset"] == "gap at the end":
        shape.last_offset += rng.choice((1, 1000))
    shape.append = levels["timestamp"].startswith("append")
    with_producer_state(rng, shape, levels["producer"])
    if levels["control"]:
        key, value = MARKERS[levels["control"]]
        shape.control, shape.keys, shape.values = True, [key], [value]
        shape.base_sequence = -1
    return shape


def with_producer_state(rng: Random, shape: Shape, level: str) -> None:
    """Set the producer fields of *shape* as *level* requires."""
    if level in ("idempotent", "transactional"):
        shape.producer_id, shape.producer_epoch, shape.base_sequence = rng.randrange(5000), rng.randrange(9), 0
        shape.transactional = level == "transactional"
    elif level == "largest":
        shape.producer_id, shape.producer_epoch, shape.base_sequence = INT64_MAX, INT16_MAX, INT32_MAX
    elif level == "horizon":
        shape.horizon = NOW + rng.randrange(10**9)
    elif level == "leader epoch":
        shape.leader_epoch = rng.choice((0, 7, INT32_MAX))


def draw_offsets(rng: Random, level: str, count: int) -> list[int]:
    """Rising offsets, with gaps as compaction leaves them if *level* says so."""
    start = BASE_OFFSETS.get(level, 1 + rng.randrange(1000))
    steps = [rng.choice((2, 3, 64, 1000)) if level == "gaps" else 1 for _ in range(count)]
    return [start + sum(steps[:index]) for index in range(count)]


def draw_timestamps(rng: Random, level: str, count: int) -> list[int]:
    """Milliseconds since 1970."""
    now = NOW + rng.randrange(10**9)
    match level:
        case "none" | "zero" | "largest":
            return [TIMES[level]] * count
        case "falling":
            return [now - index * rng.choice((1, 64, 10**6)) for index in range(count)]
        case "far apart":
            return [(0, INT64_MAX, now)[index % 3] for index in range(count)]
        case "equal":
            return [now] * count
        case "none later":
            return [now, *[NO_TIMESTAMP] * (count - 1)]
        case "append in one second":
            now -= now % 1000
    return [now + index * 5 for index in range(count)]


def shape_content(rng: Random, level: str) -> bytes | None:
    """A key or a value."""
    match level:
        case "null":
            return None
        case "empty":
            return b""
        case "text":
            return b"%x" % rng.getrandbits(4 * rng.randrange(1, 20))
        case "not UTF-8":
            return b"\xff\xfe\x00\x80"
    return b"%08x" % rng.getrandbits(32) + b"x" * (SIZES[level] - 8)


MOST_RECORDS: Final = 200
MOST_ENTRIES: Final = 64


class Span(NamedTuple):
    """The span of a variable field in its record or message: name, start, end, type."""

    name: str
    start: int
    end: int
    type: str


class SeedEntry(NamedTuple):
    """One entry.

    Attributes:
        head: the fixed fields; of a wrapper all that is before its value's bytes.
        packed: what follows them, as it is.
        payload: the records or inner messages, unpacked; of a plain message its body.
        records: the payload cut into records or messages, as far as they can be followed.
        broken: it could not be unpacked, and *payload* is as it was.
    """

    magic: int
    codec: Compression
    head: bytes
    packed: bytes
    payload: bytes
    records: tuple[bytes, ...]
    broken: bool

    @property
    def layout(self) -> Layout:
        """The layout of the fixed fields."""
        return layout_of_magic(self.magic)

    def whole(self, head: bytes | None = None, payload: bytes | None = None) -> bytes:
        """The entry as bytes, size and checksum unchanged; compressed again only for another *payload*."""
        head = self.head if head is None else head
        if payload is None:
            return head + self.packed
        packed = payload if self.broken else pack_fast(self.codec, payload, self.magic)
        if self.magic < MAGIC_VALUE_V2 and self.codec != "none":
            head = head[:-4] + INT32.pack(len(packed))
        return head + packed


def layout_of_magic(magic: int) -> Layout:
    """The layout of the fixed fields of an entry of *magic*."""
    return BATCH_V2 if magic == MAGIC_VALUE_V2 else MESSAGE_V0 if magic == 0 else MESSAGE_V1


@lru_cache(maxsize=4096)
def parts_of(seed: bytes) -> tuple[SeedEntry, ...]:
    """The entries of *seed*, those that are whole."""
    found: list[SeedEntry] = []
    try:
        for start, end in split_entries(seed):
            part = part_of(seed[start:end])
            if part is not None:
                found.append(part)
            if len(found) == MOST_ENTRIES:
                break
    except RecordFormatError:
        pass  # the part before the break is enough to mutate
    return tuple(found)


def part_of(entry: bytes) -> SeedEntry | None:
    """One entry, or None if it is shorter than its fixed fields."""
    if len(entry) <= MAGIC_OFFSET:
        return None
    magic = entry[MAGIC_OFFSET]
    layout = layout_of_magic(magic)
    attributes_at = ATTRIBUTES_OFFSET_V2 + 1 if magic == MAGIC_VALUE_V2 else ATTRIBUTES_OFFSET_LEGACY
    if len(entry) < layout.size:
        return None
    codec = codec_from_attributes(entry[attributes_at])
    start = layout.size
    if magic < MAGIC_VALUE_V2 and codec not in (None, "none"):
        start = value_start(entry, layout.size)
    if codec is None or start > len(entry):
        return unread_bytes(magic, "none", entry, layout.size)
    payload = unpack_or_none(codec, entry[start:], magic)
    if payload is None:
        return unread_bytes(magic, codec, entry, start)
    cut = batch_records(payload) if magic == MAGIC_VALUE_V2 else messages(payload) if codec != "none" else (payload,)
    return SeedEntry(magic, codec, entry[:start], entry[start:], payload, cut, False)


def unread_bytes(magic: int, codec: Compression, entry: bytes, start: int) -> SeedEntry:
    """An entry whose payload cannot be unpacked."""
    return SeedEntry(magic, codec, entry[:start], entry[start:], entry[start:], (), True)


def value_start(entry: bytes, at: int) -> int:
    """Where the bytes of a wrapper's value begin, if its key lets us see it."""
    if at + 4 > len(entry):
        return len(entry) + 1
    key: int = max(0, INT32.unpack_from(entry, at)[0])
    return at + 4 + key + 4


def batch_records(payload: bytes) -> tuple[bytes, ...]:
    """v2 records end to end; none if their lengths do not lead to the end."""
    found, at = records_ahead(payload, MOST_RECORDS)
    return tuple(found) if at == len(payload) else ()


def records_ahead(payload: bytes, most: int) -> tuple[list[bytes], int]:
    """At most so many v2 records, as far as their lengths lead, and where that is."""
    found: list[bytes] = []
    at = 0
    try:
        while at < len(payload) and len(found) < most:
            length, start = decode_varint(payload, at, "length")
            end = start + length
            if length < 1 or end > len(payload):
                break
            found.append(payload[at:end])
            at = end
    except RecordFormatError:
        pass
    return found, at


def messages(payload: bytes) -> tuple[bytes, ...]:
    """Inner messages end to end, as far as their sizes lead."""
    found: list[bytes] = []
    at = 0
    while at + LOG_OVERHEAD <= len(payload) and len(found) < MOST_RECORDS:
        size = ENTRY.struct.unpack_from(payload, at)[1]
        end = at + LOG_OVERHEAD + size
        if size < MESSAGE_V0.size - LOG_OVERHEAD or end > len(payload):
            break
        found.append(payload[at:end])
        at = end
    return tuple(found) if at == len(payload) else ()


@lru_cache(maxsize=4096)
def record_spans(record: bytes) -> tuple[Span, ...]:
    """The fields of a v2 record that can be followed, by the tables."""
    spans: list[Span] = []
    try:
        at = follow(record, 0, RECORD_V2, spans, "")
        while at < len(record):
            at = follow(record, at, HEADER_V2, spans, "header.")
    except (RecordFormatError, IndexError):
        pass
    return tuple(spans)


def follow(record: bytes, at: int, table: tuple[tuple[str, str], ...], spans: list[Span], prefix: str) -> int:
    """Enter the fields of one table; a length says how many bytes the next field has."""
    length = 0
    for name, type_ in table:
        start = at
        if type_ == "bytes":
            at += max(0, length)
        elif type_ == "i8":
            at += 1
        else:
            length, at = (decode_varlong if type_ == "varlong" else decode_varint)(record, at, name)
        if at > len(record):
            raise IndexError(name)
        spans.append(Span(prefix + name, start, at, type_))
    return at


def body_spans(body: bytes) -> list[Span]:
    """The spans of the variable fields of a message, as far as its lengths can be followed."""
    spans: list[Span] = []
    at = length = 0
    for name, type_ in MESSAGE_BODY:
        end = at + (4 if type_ == "i32" else max(0, length))
        if end > len(body):
            break
        length = INT32.unpack_from(body, at)[0] if type_ == "i32" else 0
        spans.append(Span(name, at, end, type_))
        at = end
    return spans


# How many entries there are of each (magic, codec, axis, level).
NUMBERS: Final = 12
# A v2 batch is no message.
NOTHING: Final = Message(0, 0, 0, NO_TIMESTAMP, None, None)
CODECS: Final[dict[int, tuple[Compression, ...]]] = {0: COMPRESSIONS[:-1], 1: COMPRESSIONS[:-1], 2: COMPRESSIONS}


@dataclass(frozen=True, slots=True)
class BaseEntry:
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
        """The payload after compression."""
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


def draw_base(rng: Random, magic: int, codec: Compression, *, filled: bool = True) -> BaseEntry:
    """Any of the entries of *magic* and *codec*."""
    axes = axes_of(magic, codec, filled=filled)
    axis, level = axes[int(rng.random() * len(axes))]
    return base_entry(magic, codec, axis, level, int(rng.random() * NUMBERS))


@cache
def base_entry(magic: int, codec: Compression, axis: str, level: str, number: int) -> BaseEntry:
    """The entry of that name."""
    rng = Random(f"{magic}/{codec}/{axis}/{level}/{number}")
    shape = draw_shape(rng, magic, codec, axis, level)
    return batch_base(shape, codec) if magic == 2 else message_base(shape, magic, codec)


def batch_base(shape: Shape, codec: Compression) -> BaseEntry:
    """A v2 batch of that shape."""
    batch = expected_batch(shape, codec)
    base_timestamp = first_timestamp(shape)
    bodies = tuple(
        record_body(record, record.offset - batch.base_offset, wrap_int64(timestamp - base_timestamp))
        for record, timestamp in zip(batch.records, shape.timestamps, strict=True)
    )
    parts = tuple(map(with_length_prefix, bodies))
    header = header_fields(batch, base_timestamp=base_timestamp) | {"magic": 2}
    payload = b"".join(parts)
    data = write_batch_bytes(header, pack_fast(codec, payload, 2) if parts else b"")
    return BaseEntry(2, codec, data, batch, header=header, bodies=bodies, parts=parts, payload=payload)


def expected_batch(shape: Shape, codec: Compression) -> Batch:
    """The batch that a decoder returns for a v2 batch of *shape*."""
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


def first_timestamp(shape: Shape) -> int:
    """The horizon, the first record's time, or none (TIM-18, TIM-06, TIM-21)."""
    if shape.horizon is not None:
        return shape.horizon
    return shape.timestamps[0] if shape.timestamps else NO_TIMESTAMP


def record_body(record: Record, offset_delta: int, timestamp_delta: int) -> tuple[bytes, ...]:
    """The fields of a record after its length, each as bytes."""
    fields = [b"\0", varlong(timestamp_delta), varint(offset_delta), *nullable(record.key), *nullable(record.value)]
    fields.append(varint(len(record.headers)))
    for key, value in record.headers:
        fields += (*nullable(key), *nullable(value))
    return tuple(fields)


def nullable(content: bytes | None) -> tuple[bytes, bytes]:
    """A varint length, and the content."""
    return (varint(-1), b"") if content is None else (varint(len(content)), content)


def with_length_prefix(body: tuple[bytes, ...]) -> bytes:
    """A record with its length in front."""
    joined = b"".join(body)
    return varint(len(joined)) + joined


def message_base(shape: Shape, magic: int, codec: Compression) -> BaseEntry:
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
        return BaseEntry(magic, codec, write_message_bytes(inner[0]), batch, message=inner[0])
    parts = tuple(map(write_message_bytes, inner))
    payload = b"".join(parts)
    number = COMPRESSIONS.index(codec) | bit
    wrapper = Message(batch.last_offset, magic, number, latest, None, pack_fast(codec, payload, magic))
    return BaseEntry(
        magic, codec, write_message_bytes(wrapper), batch, parts=parts, payload=payload, message=wrapper, inner=inner
    )


# A mutant costs by its length, and large inputs differ from small ones in nothing but that.
LONGEST: Final = 4096
DECODE: Final[tuple[Op, ...]] = ("decode",)


@cache
def corpus_seeds(*, longest: int = LONGEST) -> tuple[bytes, ...]:
    """The inputs of all decode cases up to *longest* bytes, each once, valid and invalid ones."""
    inputs = (case.input for case in load_vectors(ops=DECODE))
    return tuple(dict.fromkeys(data for data in inputs if isinstance(data, bytes) and 0 < len(data) <= longest))


@cache
def own_seeds() -> tuple[bytes, ...]:
    """A valid entry of every shape, for those who do not want to read the corpus."""
    return tuple(
        base_entry(magic, codec, axis, level, 0).data
        for magic, codecs in CODECS.items()
        for codec in codecs
        for axis, level in axes_of(magic, codec, filled=False)
        if not level.startswith("8192")
    )
