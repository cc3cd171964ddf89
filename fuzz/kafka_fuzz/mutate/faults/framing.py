"""Lies about entries as such: size, magic, checksum, offset, what lies behind the last."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from crc32c import crc32c

from kafka_fuzz.mutate.faults.table import (
    ALL,
    BROKEN,
    CORRUPT,
    FRAMING,
    LAST,
    LEGACY,
    NOT_LAST,
    PACKED,
    V2,
    Spot,
    Told,
    lie,
)
from kafka_fuzz.mutate.fixup import INT32, SIZE_AT, UINT32, seal_batch, with_crc
from kafka_records import Batch
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN, LOG_OVERHEAD
from kafka_records.layout import (
    BATCH_V2,
    CRC_OFFSET_LEGACY,
    CRC_OFFSET_V2,
    CRC_START_LEGACY,
    CRC_START_V2,
    MAGIC_OFFSET,
)
from kafka_records.primitives import wrap_int64

EDGES_64 = {"smallest": INT64_MIN, "minus one": -1, "zero": 0, "largest": INT64_MAX}


def sized(data: bytes, size: int) -> bytes:
    """The entry with another size, and nothing mended."""
    return data[:SIZE_AT] + INT32.pack(size) + data[LOG_OVERHEAD:]


def crc_at(magic: int) -> int:
    """Where the checksum lies."""
    return CRC_OFFSET_V2 if magic == 2 else CRC_OFFSET_LEGACY


@lie(
    "FRM-05",
    magics=ALL,
    field="size",
    kinds=FRAMING,
    variants={"smallest": -INT32_MAX - 1, "minus one": -1, "zero": 0, "one": 1, "thirteen": 13},
)
def size_below_every_format(spot: Spot) -> bytes:
    """The size is below the smallest of any format."""
    return sized(spot.base.data, spot.value)


@lie("FRM-05", magics=ALL, field="size", kinds=FRAMING, variants={"here": 0, "back": 1})
def size_leads_nowhere(spot: Spot) -> bytes:
    """The size leads to this entry again, or before it: who adds it up without looking never ends."""
    return sized(spot.base.data, -LOG_OVERHEAD - spot.value * len(spot.base.data))


@lie(
    "FRM-05",
    magics=ALL,
    field="size",
    kinds=FRAMING,
    variants={"one": 1, "nine": 9, "ten": 10, "eleven": 11, "prefix": 12},
)
def size_leads_before_the_input(spot: Spot) -> bytes:
    """The size leads a few bytes before the input, where indexes below zero count from its end."""
    return sized(spot.base.data, -LOG_OVERHEAD - spot.start - spot.value)


@lie("FRM-09", magics=ALL, field="size", kinds=FRAMING, variants={"near largest": 11, "largest": 0})
def size_overflows_with_its_prefix(spot: Spot) -> bytes:
    """Size and prefix together do not fit an int32."""
    return sized(spot.base.data, INT32_MAX - spot.value)


@lie("FRM-07", magics=ALL, field="size", variants={"by one": 1, "far": 2**20}, swallows=True)
def size_beyond_the_end(spot: Spot) -> Told:
    """The size reaches beyond the input, which is what a partial entry looks like."""
    size = len(spot.base.data) + len(spot.following) - LOG_OVERHEAD
    return Told(sized(spot.base.data, size + spot.value))


@lie("FRM-07", "CRC-07", magics=ALL, field="size", kinds=("corrupt", "malformed"), positions=NOT_LAST)
def size_takes_in_the_next(spot: Spot) -> bytes:
    """The size covers the entries behind it too, the checksum does not."""
    return sized(spot.base.data, len(spot.base.data) + len(spot.following) - LOG_OVERHEAD)


@lie("FRM-01", magics=ALL, field="size", kinds=FRAMING, variants={"by one": 1, "by half": 0})
def size_too_small(spot: Spot) -> bytes:
    """The size leaves out the end of the entry, and the checksum covers it."""
    size = len(spot.base.data) - LOG_OVERHEAD
    return sized(spot.base.data, min(size - 1, max(14, size - (spot.value or size // 2))))


@lie("FRM-04", "FRM-06", "FRM-07", magics=ALL, field="tail", positions=LAST, variants={"prefix": 12, "all but one": 0})
def entry_cut_short(spot: Spot) -> Told:
    """The input ends inside its last entry, as a fetch may."""
    data = spot.base.data
    return Told(
        data[: spot.rng.randrange(1, LOG_OVERHEAD)] if spot.value else data[: spot.rng.randrange(12, len(data))]
    )


@lie("FRM-04", magics=ALL, field="tail", positions=LAST)
def fewer_bytes_than_a_prefix_behind(spot: Spot) -> bytes:
    """Up to eleven bytes follow the last entry."""
    return spot.base.data + spot.rng.randbytes(spot.rng.randrange(1, LOG_OVERHEAD))


@lie("FRM-13", magics=ALL, field="tail", positions=LAST, kinds=FRAMING, variants={"prefix": 12, "large": 100})
def zeros_behind_the_last(spot: Spot) -> Told:
    """Zeros follow the last entry, as in a file that was allocated in advance."""
    return Told(spot.base.data + bytes(spot.value), (spot.base.batch,), FRAMING)


@lie(
    "FRM-05",
    magics=ALL,
    field="tail",
    positions=LAST,
    kinds=FRAMING,
    variants={"minus one": -1, "one": 1, "twelve": 12, "thirteen": 13},
)
def prefix_of_a_low_size_behind(spot: Spot) -> Told:
    """Twelve bytes follow the last entry: an offset, and a size below every format's."""
    batch = spot.base.batch
    prefix = ((batch.last_offset + 1) % 2**63).to_bytes(8, "big") + spot.value.to_bytes(4, "big", signed=True)
    return Told(spot.base.data + prefix, (batch,), FRAMING)


@lie(
    "FRM-08",
    magics=ALL,
    field="magic",
    kinds=("unsupported_magic", "corrupt", "malformed"),
    variants={"three": 3, "largest": 127, "minus one": 255, "smallest": 128},
)
def magic_unknown(spot: Spot) -> bytes:
    """There is no such magic."""
    data = spot.base.data
    return data[:MAGIC_OFFSET] + bytes((spot.value,)) + data[MAGIC_OFFSET + 1 :]


@lie("FRM-11", "CRC-08", magics=ALL, field="magic", kinds=FRAMING, variants={"next": 1, "one after": 2})
def magic_of_another_format(spot: Spot) -> bytes:
    """The magic is that of another format, which looks for the checksum elsewhere or covers the magic by it."""
    data = spot.base.data
    return data[:MAGIC_OFFSET] + bytes(((spot.base.magic + spot.value) % 3,)) + data[MAGIC_OFFSET + 1 :]


@lie(
    "CRC-07",
    "LEG-04",
    magics=ALL,
    field="crc",
    kinds=CORRUPT,
    variants={"zero": "zero", "a bit": "bit", "reversed": "reversed", "polynomial": "other", "span": "span"},
)
def crc_wrong(spot: Spot) -> bytes:
    """The checksum is not that of the bytes."""
    data, at = spot.base.data, crc_at(spot.base.magic)
    right = int.from_bytes(data[at : at + 4], "big")
    made = another_crc(spot, right)
    return data[:at] + UINT32.pack(made if made != right else right ^ 1) + data[at + 4 :]


def another_crc(spot: Spot, right: int) -> int:
    """A checksum as somebody might make it."""
    data, v2 = spot.base.data, spot.base.magic == 2
    covered = data[CRC_START_V2 if v2 else CRC_START_LEGACY :]
    match spot.value:
        case "bit":
            return right ^ 1 << spot.rng.randrange(32)
        case "reversed":
            return int.from_bytes(right.to_bytes(4, "big"), "little")
        case "other":
            return crc32(covered) if v2 else crc32c(covered)
        case "span":
            return crc32c(covered[1:]) if v2 else crc32(covered[1:])
    return 0


@lie("CRC-01", "LEG-04", magics=ALL, field="body", kinds=CORRUPT, variants={"start": 0, "inside": None, "end": -1})
def bit_flipped_behind_the_crc(spot: Spot) -> bytes:
    """A bit flipped after the checksum was made; a CRC finds every single one."""
    data = spot.base.data
    first = CRC_START_V2 if spot.base.magic == 2 else CRC_START_LEGACY + 1
    at = spot.rng.randrange(first, len(data)) if spot.value is None else first if spot.value == 0 else len(data) - 1
    return data[:at] + bytes((data[at] ^ 1 << spot.rng.randrange(8),)) + data[at + 1 :]


@lie("CRC-02", "HDR-26", magics=V2, field="base_offset", variants=EDGES_64)
def base_offset_at_an_edge(spot: Spot) -> Told:
    """The base offset is changed, as brokers do: no checksum covers it, and sums wrap."""
    base = spot.base
    data = spot.value.to_bytes(8, "big", signed=True) + base.data[8:]
    moved = spot.value - base.batch.base_offset
    return Told(data, (moved_by(base.batch, moved, wrap_int64(base.batch.last_offset + moved)),))


def moved_by(batch: Batch, offsets: int, last_offset: int) -> Batch:
    """The batch with all of its offsets moved."""
    records = tuple(record._replace(offset=wrap_int64(record.offset + offsets)) for record in batch.records)
    return replace(batch, base_offset=wrap_int64(batch.base_offset + offsets), last_offset=last_offset, records=records)


@lie("LEG-06", magics=LEGACY, codecs=("none",), field="offset", variants=EDGES_64)
def message_offset_at_an_edge(spot: Spot) -> Told:
    """A plain message has another offset; no checksum covers it."""
    data = spot.value.to_bytes(8, "big", signed=True) + spot.base.data[8:]
    return Told(data, (moved_by(spot.base.batch, spot.value - spot.base.batch.base_offset, spot.value),))


@lie("CRC-02", field="partition_leader_epoch", variants={"smallest": -(2**31), "minus one": -1, "largest": INT32_MAX})
def leader_epoch_at_an_edge(spot: Spot) -> Told:
    """The leader epoch is changed, as brokers do: no checksum covers it."""
    data = spot.base.data[:12] + INT32.pack(spot.value) + spot.base.data[16:]
    return Told(data, (replace(spot.base.batch, partition_leader_epoch=spot.value),))


@lie("HDR-05", field="size", kinds=FRAMING, variants={"smallest": 26, "forty": 40, "by one": 60})
def batch_shorter_than_its_header(spot: Spot) -> bytes:
    """A whole batch, its size and checksum right, that ends inside its header."""
    return with_crc(sized(spot.base.data[: spot.value], spot.value - LOG_OVERHEAD))


@lie("CMP-06", codecs=PACKED, field="attributes", kinds=("decompression", "malformed", "truncated", "corrupt"))
def codec_of_another(spot: Spot) -> bytes:
    """The attributes name another codec than packed the records."""
    number = spot.base.header["attributes"] & 7
    others = [each for each in (1, 2, 3, 4) if each != number]
    return relabelled(spot, spot.rng.choice(others))


@lie("CMP-06", codecs=("none",), field="attributes", kinds=("decompression", "malformed", "truncated", "corrupt"))
def codec_without_compression(spot: Spot) -> bytes:
    """The attributes name a codec, and the records are plain."""
    return relabelled(spot, spot.rng.choice((1, 3, 4)))


@lie("CMP-07", codecs=PACKED, field="attributes", kinds=BROKEN)
def compression_without_codec(spot: Spot) -> bytes:
    """The attributes name no codec, and the records are compressed."""
    return relabelled(spot, 0)


def relabelled(spot: Spot, number: int) -> bytes:
    """The batch with another codec in its attributes, its checksum right."""
    header = {**spot.base.header, "attributes": spot.base.header["attributes"] & ~7 | number}
    return seal_batch(header, spot.base.data[BATCH_V2.size :])


@lie(
    "ATT-02",
    "LEG-16",
    magics=ALL,
    field="attributes",
    kinds=("unsupported_compression", "malformed", "decompression"),
    variants={"five": 5, "six": 6, "seven": 7},
)
def codec_unknown(spot: Spot) -> bytes:
    """The attributes name one of the three codecs that nobody has."""
    at = BATCH_V2.field("attributes").offset + 1 if spot.base.magic == 2 else MAGIC_OFFSET + 1
    data = spot.base.data
    return with_crc(data[:at] + bytes((data[at] & ~7 | spot.value,)) + data[at + 1 :])
