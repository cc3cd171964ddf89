"""Faults of the framing of entries: size, magic, checksum, offset, and bytes after the last entry."""

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
    FaultResult,
    FaultSite,
    fault,
)
from kafka_fuzz.mutate.fixup import INT32, SIZE_AT, UINT32, with_crc, write_batch_bytes
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


def with_forged_size(data: bytes, size: int) -> bytes:
    """The entry with another size, and no fix-up."""
    return data[:SIZE_AT] + INT32.pack(size) + data[LOG_OVERHEAD:]


def crc_at(magic: int) -> int:
    """The offset of the checksum."""
    return CRC_OFFSET_V2 if magic == 2 else CRC_OFFSET_LEGACY


@fault(
    "FRM-05",
    magics=ALL,
    field="size",
    kinds=FRAMING,
    variants={"smallest": -INT32_MAX - 1, "minus one": -1, "zero": 0, "one": 1, "thirteen": 13},
)
def size_below_every_format(site: FaultSite) -> bytes:
    """The size is below the smallest of any format."""
    return with_forged_size(site.base.data, site.value)


@fault("FRM-05", magics=ALL, field="size", kinds=FRAMING, variants={"here": 0, "back": 1})
def size_leads_nowhere(site: FaultSite) -> bytes:
    """The size leads to this entry again, or before it: who adds it up without looking never ends."""
    return with_forged_size(site.base.data, -LOG_OVERHEAD - site.value * len(site.base.data))


@fault(
    "FRM-05",
    magics=ALL,
    field="size",
    kinds=FRAMING,
    variants={"one": 1, "nine": 9, "ten": 10, "eleven": 11, "prefix": 12},
)
def size_leads_before_the_input(site: FaultSite) -> bytes:
    """The size leads a few bytes before the input, where indexes below zero count from its end."""
    return with_forged_size(site.base.data, -LOG_OVERHEAD - site.start - site.value)


@fault("FRM-09", magics=ALL, field="size", kinds=FRAMING, variants={"near largest": 11, "largest": 0})
def size_overflows_with_its_prefix(site: FaultSite) -> bytes:
    """Size and prefix together do not fit an int32."""
    return with_forged_size(site.base.data, INT32_MAX - site.value)


@fault("FRM-07", magics=ALL, field="size", variants={"by one": 1, "far": 2**20}, swallows=True)
def size_beyond_the_end(site: FaultSite) -> FaultResult:
    """The size reaches beyond the input, which is what a partial entry looks like."""
    size = len(site.base.data) + len(site.following) - LOG_OVERHEAD
    return FaultResult(with_forged_size(site.base.data, size + site.value))


@fault("FRM-07", "CRC-07", magics=ALL, field="size", kinds=("corrupt", "malformed"), positions=NOT_LAST)
def size_takes_in_the_next(site: FaultSite) -> bytes:
    """The size covers the following entries, too; the checksum does not."""
    return with_forged_size(site.base.data, len(site.base.data) + len(site.following) - LOG_OVERHEAD)


@fault("FRM-01", magics=ALL, field="size", kinds=FRAMING, variants={"by one": 1, "by half": 0})
def size_too_small(site: FaultSite) -> bytes:
    """The size leaves out the end of the entry, and the checksum covers it."""
    size = len(site.base.data) - LOG_OVERHEAD
    return with_forged_size(site.base.data, min(size - 1, max(14, size - (site.value or size // 2))))


@fault(
    "FRM-04", "FRM-06", "FRM-07", magics=ALL, field="tail", positions=LAST, variants={"prefix": 12, "all but one": 0}
)
def entry_cut_short(site: FaultSite) -> FaultResult:
    """The input ends inside its last entry, as a fetch may."""
    data = site.base.data
    return FaultResult(
        data[: site.rng.randrange(1, LOG_OVERHEAD)] if site.value else data[: site.rng.randrange(12, len(data))]
    )


@fault("FRM-04", magics=ALL, field="tail", positions=LAST, label="fewer_bytes_than_a_prefix_behind")
def fewer_bytes_than_a_prefix_after(site: FaultSite) -> bytes:
    """Up to eleven bytes follow the last entry."""
    return site.base.data + site.rng.randbytes(site.rng.randrange(1, LOG_OVERHEAD))


@fault(
    "FRM-13",
    magics=ALL,
    field="tail",
    positions=LAST,
    kinds=FRAMING,
    variants={"prefix": 12, "large": 100},
    label="zeros_behind_the_last",
)
def zeros_after_the_last(site: FaultSite) -> FaultResult:
    """Zeros follow the last entry, as in a file that was allocated in advance."""
    return FaultResult(site.base.data + bytes(site.value), (site.base.batch,), FRAMING)


@fault(
    "FRM-05",
    magics=ALL,
    field="tail",
    positions=LAST,
    kinds=FRAMING,
    variants={"minus one": -1, "one": 1, "twelve": 12, "thirteen": 13},
    label="prefix_of_a_low_size_behind",
)
def prefix_of_a_low_size_after(site: FaultSite) -> FaultResult:
    """Twelve bytes follow the last entry: an offset, and a size below every format's."""
    batch = site.base.batch
    prefix = ((batch.last_offset + 1) % 2**63).to_bytes(8, "big") + site.value.to_bytes(4, "big", signed=True)
    return FaultResult(site.base.data + prefix, (batch,), FRAMING)


@fault(
    "FRM-08",
    magics=ALL,
    field="magic",
    kinds=("unsupported_magic", "corrupt", "malformed"),
    variants={"three": 3, "largest": 127, "minus one": 255, "smallest": 128},
)
def magic_unknown(site: FaultSite) -> bytes:
    """There is no such magic; the checksum of a message covers it, and is right."""
    data = site.base.data
    changed = data[:MAGIC_OFFSET] + bytes((site.value,)) + data[MAGIC_OFFSET + 1 :]
    return changed if site.base.magic == 2 else with_crc(changed)


@fault("FRM-11", "CRC-08", magics=ALL, field="magic", kinds=FRAMING, variants={"next": 1, "one after": 2})
def magic_of_another_format(site: FaultSite) -> bytes:
    """The magic is that of another format, which looks for the checksum elsewhere or covers the magic by it."""
    data = site.base.data
    return data[:MAGIC_OFFSET] + bytes(((site.base.magic + site.value) % 3,)) + data[MAGIC_OFFSET + 1 :]


@fault(
    "CRC-07",
    "LEG-04",
    magics=ALL,
    field="crc",
    kinds=CORRUPT,
    variants={"zero": "zero", "a bit": "bit", "reversed": "reversed", "polynomial": "other", "span": "span"},
)
def crc_wrong(site: FaultSite) -> bytes:
    """The checksum is not that of the bytes."""
    data, at = site.base.data, crc_at(site.base.magic)
    right = int.from_bytes(data[at : at + 4], "big")
    made = another_crc(site, right)
    return data[:at] + UINT32.pack(made if made != right else right ^ 1) + data[at + 4 :]


def another_crc(site: FaultSite, right: int) -> int:
    """A checksum as somebody might make it."""
    data, v2 = site.base.data, site.base.magic == 2
    covered = data[CRC_START_V2 if v2 else CRC_START_LEGACY :]
    match site.value:
        case "bit":
            return right ^ 1 << site.rng.randrange(32)
        case "reversed":
            return int.from_bytes(right.to_bytes(4, "big"), "little")
        case "other":
            return crc32(covered) if v2 else crc32c(covered)
        case "span":
            return crc32c(covered[1:]) if v2 else crc32(covered[1:])
    return 0


@fault(
    "CRC-01",
    "LEG-04",
    magics=ALL,
    field="body",
    kinds=CORRUPT,
    variants={"start": 0, "inside": None, "end": -1},
    label="bit_flipped_behind_the_crc",
)
def bit_flipped_after_the_crc(site: FaultSite) -> bytes:
    """A bit flipped after the checksum was made; a CRC finds every single one."""
    data = site.base.data
    first = CRC_START_V2 if site.base.magic == 2 else CRC_START_LEGACY + 1
    at = site.rng.randrange(first, len(data)) if site.value is None else first if site.value == 0 else len(data) - 1
    return data[:at] + bytes((data[at] ^ 1 << site.rng.randrange(8),)) + data[at + 1 :]


@fault("CRC-02", "HDR-26", magics=V2, field="base_offset", variants=EDGES_64)
def base_offset_at_an_edge(site: FaultSite) -> FaultResult:
    """The base offset is changed, as brokers do: no checksum covers it, and sums wrap."""
    base = site.base
    data = site.value.to_bytes(8, "big", signed=True) + base.data[8:]
    moved = site.value - base.batch.base_offset
    return FaultResult(data, (moved_by(base.batch, moved, wrap_int64(base.batch.last_offset + moved)),))


def moved_by(batch: Batch, offsets: int, last_offset: int) -> Batch:
    """The batch with all of its offsets moved."""
    records = tuple(record._replace(offset=wrap_int64(record.offset + offsets)) for record in batch.records)
    return replace(batch, base_offset=wrap_int64(batch.base_offset + offsets), last_offset=last_offset, records=records)


@fault("LEG-06", magics=LEGACY, codecs=("none",), field="offset", variants=EDGES_64)
def message_offset_at_an_edge(site: FaultSite) -> FaultResult:
    """A plain message has another offset; no checksum covers it."""
    data = site.value.to_bytes(8, "big", signed=True) + site.base.data[8:]
    return FaultResult(data, (moved_by(site.base.batch, site.value - site.base.batch.base_offset, site.value),))


@fault("CRC-02", field="partition_leader_epoch", variants={"smallest": -(2**31), "minus one": -1, "largest": INT32_MAX})
def leader_epoch_at_an_edge(site: FaultSite) -> FaultResult:
    """The leader epoch is changed, as brokers do: no checksum covers it."""
    data = site.base.data[:12] + INT32.pack(site.value) + site.base.data[16:]
    return FaultResult(data, (replace(site.base.batch, partition_leader_epoch=site.value),))


@fault("HDR-05", field="size", kinds=FRAMING, variants={"smallest": 26, "forty": 40, "by one": 60})
def batch_shorter_than_its_header(site: FaultSite) -> bytes:
    """A whole batch, its size and checksum right, that ends inside its header."""
    return with_crc(with_forged_size(site.base.data[: site.value], site.value - LOG_OVERHEAD))


@fault("CMP-06", codecs=PACKED, field="attributes", kinds=("decompression", "malformed", "truncated", "corrupt"))
def codec_of_another(site: FaultSite) -> bytes:
    """The attributes name another codec than packed the records."""
    number = site.base.header["attributes"] & 7
    others = [each for each in (1, 2, 3, 4) if each != number]
    return relabelled(site, site.rng.choice(others))


@fault("CMP-06", codecs=("none",), field="attributes", kinds=("decompression", "malformed", "truncated", "corrupt"))
def codec_without_compression(site: FaultSite) -> bytes:
    """The attributes name a codec, and the records are plain."""
    return relabelled(site, site.rng.choice((1, 3, 4)))


@fault("CMP-07", codecs=PACKED, field="attributes", kinds=BROKEN)
def compression_without_codec(site: FaultSite) -> bytes:
    """The attributes name no codec, and the records are compressed."""
    return relabelled(site, 0)


def relabelled(site: FaultSite, number: int) -> bytes:
    """The batch with another codec in its attributes, its checksum right."""
    header = {**site.base.header, "attributes": site.base.header["attributes"] & ~7 | number}
    return write_batch_bytes(header, site.base.data[BATCH_V2.size :])


@fault(
    "ATT-02",
    "LEG-16",
    magics=ALL,
    field="attributes",
    kinds=("unsupported_compression", "malformed", "decompression"),
    variants={"five": 5, "six": 6, "seven": 7},
)
def codec_unknown(site: FaultSite) -> bytes:
    """The attributes name one of the three unassigned codec ids."""
    at = BATCH_V2.field("attributes").offset + 1 if site.base.magic == 2 else MAGIC_OFFSET + 1
    data = site.base.data
    return with_crc(data[:at] + bytes((data[at] & ~7 | site.value,)) + data[at + 1 :])
