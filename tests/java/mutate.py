"""Broken record data, made from valid data by a seed and an index.

A mutant can be made again alone.  Most have their size and CRC repaired, or
every decoder would stop at the checksum and the rest would go unread; some are
edited below the compression and compressed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import NamedTuple

from kafka_records import Batch, Header, Record, encode
from kafka_records.attributes import COMPRESSION_CODEC_MASK
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.compression import compress, decompress
from kafka_records.constants import COMPRESSIONS, LOG_OVERHEAD, MAGIC_VALUE_V2, Compression, TimestampType
from kafka_records.layout import BATCH_V2, ENTRY, MESSAGE_V0, MESSAGE_V1
from kafka_records.varint import encode_varlong

# Shares, as chances.
EDIT_PAYLOAD, REPAIR_SIZE, REPAIR_CRC, REPAIR_INNER, ADD_NEIGHBOUR = 0.5, 0.6, 0.9, 0.8, 0.15
MOST_EDITS = 3
# Integers where something begins or ends: signs, int widths, what overflows with a 12-byte prefix.
EDGES = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 13, 14, 22, 60, 61, 63, 64, 127, 128, 255, 256, 8191, 8192, 65535),
    *(2**31 - 14, 2**31 - 13, 2**31 - 12, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1),
    *(-1, -2, -12, -13, -64, -65, -128, -(2**31), -(2**31) - 1, -(2**63)),
)
BYTES = (0, 1, 2, 3, 4, 7, 8, 0x0F, 0x10, 0x20, 0x40, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
TIME = 1_700_000_000_000


class Entry(NamedTuple):
    """A valid entry, taken apart: what is before the payload, and the payload as stored."""

    name: str
    data: bytes
    payload_at: int

    @property
    def magic(self) -> int:
        """0, 1 or 2."""
        return self.data[MESSAGE_V0.field("magic").offset]

    @property
    def compression(self) -> Compression:
        """The compression in the attributes; v2 uses the low byte of two."""
        at = BATCH_V2.field("attributes").offset + 1 if self.magic == MAGIC_VALUE_V2 else MESSAGE_V0.size - 1
        return COMPRESSIONS[self.data[at] & COMPRESSION_CODEC_MASK]


def records() -> tuple[Record, ...]:
    """Records with everything that a format without headers can hold; offsets have a gap."""
    return (
        Record(10, TIME, b"key", b"value"),
        Record(11, TIME + 5, None, None),
        Record(13, TIME - 70, b"", b"x" * 90),
        Record(14, TIME, b"k" * 70, b""),
    )


def with_headers() -> tuple[Record, ...]:
    """The same, and v2's headers: null, empty, repeated, and one key longer than a one-byte varint."""
    headers = (Header(b"h", None), Header(b"", b""), Header(b"h", b"v"), Header(b"n" * 65, b"w" * 65))
    return tuple(record._replace(headers=headers[: index + 1]) for index, record in enumerate(records()))


def v2_batches() -> Iterator[tuple[str, Batch]]:
    """v2: each codec with few records and with many, and uncompressed each attribute."""
    plain = Batch(magic=2, base_offset=10, last_offset=14, max_timestamp=TIME + 5, records=with_headers())
    many = tuple(Record(10 + n, TIME + n, b"%d" % n, b"value %d" % n) for n in range(60))
    for codec in COMPRESSIONS:
        yield codec, replace(plain, compression=codec)
        yield f"many-{codec}", replace(plain, compression=codec, records=many, last_offset=69)
    producer = replace(plain, producer_id=77, producer_epoch=3, base_sequence=10, transactional=True)
    marker = (Record(10, TIME, bytes.fromhex("00000001"), bytes.fromhex("000000000009")),)
    yield "transactional", producer
    yield "marker", replace(producer, base_sequence=-1, control=True, records=marker, last_offset=10)
    yield "append", replace(plain, timestamp_type="append")
    yield "horizon", replace(plain, delete_horizon=TIME + 1000)
    yield "empty", replace(plain, records=())
    yield "one", replace(plain, records=records()[:1], last_offset=10)


def legacy_batches(magic: int) -> Iterator[tuple[str, Batch]]:
    """v0 or v1: a plain message, one without key and value, and a wrapper of each codec."""
    timed = records() if magic else tuple(record._replace(timestamp=-1) for record in records())
    kinds: tuple[TimestampType, ...] = ("create", "append") if magic else ("none",)
    for plain in timed[:2]:
        yield f"plain-{plain.offset}", legacy_batch(magic, kinds[0], (plain,))
    for kind in kinds:
        for codec in COMPRESSIONS[1:4]:
            yield f"{kind}-{codec}", replace(legacy_batch(magic, kind, timed), compression=codec)


def legacy_batch(magic: int, kind: TimestampType, held: tuple[Record, ...]) -> Batch:
    """An uncompressed entry around *held*."""
    times = max(record.timestamp for record in held)
    first, last = held[0].offset, held[-1].offset
    return Batch(
        magic=magic, base_offset=first, last_offset=last, timestamp_type=kind, max_timestamp=times, records=held
    )


@cache
def valid_entries() -> tuple[Entry, ...]:
    """Valid entries of all formats, as the reference writes them."""
    made = [Entry(f"v2-{name}", encode(batch), BATCH_V2.size) for name, batch in v2_batches()]
    for magic, layout in ((0, MESSAGE_V0), (1, MESSAGE_V1)):
        # A null key takes four bytes, and the value's length four more.
        at = layout.size + 8
        made += [Entry(f"v{magic}-{name}", encode(batch), at) for name, batch in legacy_batches(magic)]
    return tuple(made)


def mutant(seed: int, index: int) -> tuple[str, bytes]:
    """The mutant at *index* of a series, and the name of the entry that it came from."""
    chance = Random(f"{seed}:{index}")
    entry = chance.choice(valid_entries())
    data = edit_payload(entry, chance) if chance.random() < EDIT_PAYLOAD else edited(entry.data, chance)
    data = repaired(data, chance)
    if chance.random() < ADD_NEIGHBOUR:
        neighbour = chance.choice(valid_entries()).data
        data = data + neighbour if chance.random() < 0.5 else neighbour + data
    return entry.name, data


def edit_payload(entry: Entry, chance: Random) -> bytes:
    """Edit records or inner messages; compressed ones before they are compressed again."""
    head, payload = entry.data[: entry.payload_at], entry.data[entry.payload_at :]
    if not payload:
        return edited(entry.data, chance)
    if entry.compression != "none":
        payload = decompress(entry.compression, payload, magic=entry.magic, most=1 << 20)
    payload = edited(payload, chance)
    if entry.compression != "none":
        payload = repaired_inner(payload, chance) if entry.magic < MAGIC_VALUE_V2 else payload
        payload = compress(entry.compression, payload, magic=entry.magic)
        if entry.magic < MAGIC_VALUE_V2:
            head = head[:-4] + len(payload).to_bytes(4, "big")
    return head + payload


def repaired_inner(data: bytes, chance: Random) -> bytes:
    """Give each inner message that can be found its CRC back, or none of them."""
    if chance.random() > REPAIR_INNER:
        return data
    made, at = b"", 0
    while at + LOG_OVERHEAD <= len(data):
        _, size = ENTRY.struct.unpack_from(data, at)
        end = at + LOG_OVERHEAD + size
        if size < MESSAGE_V0.size - LOG_OVERHEAD or end > len(data):
            break
        made += with_crc(data[at:end])
        at = end
    return made + data[at:]


def repaired(data: bytes, chance: Random) -> bytes:
    """Perhaps give an entry its true size, perhaps its true CRC."""
    if len(data) > LOG_OVERHEAD and chance.random() < REPAIR_SIZE:
        data = data[:8] + (len(data) - LOG_OVERHEAD).to_bytes(4, "big") + data[LOG_OVERHEAD:]
    return with_crc(data) if chance.random() < REPAIR_CRC else data


def with_crc(data: bytes) -> bytes:
    """The entry with the CRC of its magic, if it has room for one."""
    if len(data) <= MESSAGE_V0.field("magic").offset:
        return data
    v2 = data[MESSAGE_V0.field("magic").offset] == MAGIC_VALUE_V2
    at = (BATCH_V2 if v2 else MESSAGE_V0).field("crc").offset
    if len(data) < at + 4:
        return data
    crc = checksum_v2(data) if v2 else checksum_legacy(data)
    return data[:at] + crc.to_bytes(4, "big") + data[at + 4 :]


def edited(data: bytes, chance: Random) -> bytes:
    """One to three edits, small ones mostly."""
    for _ in range(chance.randint(1, MOST_EDITS)):
        data = chance.choice(EDITS)(data, chance)
    return data


def flip_bit(data: bytes, chance: Random) -> bytes:
    """One bit."""
    return put(data, chance, lambda byte: bytes((byte ^ 1 << chance.randrange(8),)), 1)


def set_byte(data: bytes, chance: Random) -> bytes:
    """One byte, to one that means something somewhere."""
    return put(data, chance, lambda _: bytes((chance.choice(BYTES),)), 1)


def step_byte(data: bytes, chance: Random) -> bytes:
    """One byte, by one: lengths and counts that are almost right."""
    return put(data, chance, lambda byte: bytes(((byte + chance.choice((-2, -1, 1, 2))) % 256,)), 1)


def set_integer(data: bytes, chance: Random) -> bytes:
    """Two, four or eight bytes, to an edge."""
    width = chance.choice((2, 4, 4, 4, 8))
    value = chance.choice(EDGES) % (1 << 8 * width)
    return put(data, chance, lambda _: value.to_bytes(width, "big"), width)


def set_varint(data: bytes, chance: Random) -> bytes:
    """A zig-zag varint of an edge instead of one byte, sometimes longer than it need be."""
    value = encode_varlong(chance.choice(EDGES))
    if chance.random() < 0.3:
        value = value[:-1] + bytes((value[-1] | 0x80,)) + b"\x80" * chance.randrange(8) + bytes((chance.choice(BYTES),))
    return put(data, chance, lambda _: value, 1)


def put(data: bytes, chance: Random, value: Callable[[int], bytes], width: int) -> bytes:
    """*width* bytes somewhere by what *value* makes of the first of them."""
    if len(data) < width:
        return data
    at = chance.randrange(len(data) - width + 1)
    return data[:at] + value(data[at]) + data[at + width :]


def insert(data: bytes, chance: Random) -> bytes:
    """A few more bytes."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.randint(1, 4)) + data[at:]


def delete(data: bytes, chance: Random) -> bytes:
    """A few bytes fewer."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at + chance.randint(1, 4) :]


def truncate(data: bytes, chance: Random) -> bytes:
    """An end, near or far."""
    return data[: chance.choice((chance.randrange(len(data) + 1), max(0, len(data) - chance.randint(1, 4))))]


def repeat(data: bytes, chance: Random) -> bytes:
    """A stretch of itself once more."""
    start = chance.randrange(len(data) + 1)
    end = start + chance.randint(1, 40)
    return data[:end] + data[start:end] + data[end:]


EDITS: Sequence[Callable[[bytes, Random], bytes]] = (
    *(flip_bit, set_byte, step_byte, set_integer, set_varint) * 2,
    *(insert, delete, truncate, repeat),
)
