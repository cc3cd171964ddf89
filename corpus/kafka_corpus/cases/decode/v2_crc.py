"""The CRC-32C of a v2 batch: the bytes that it covers, those that it leaves out, and frequent mistakes.

`DefaultRecordBatch#computeChecksum`, seed 000:47, seed 002:494-545.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final
from zlib import crc32

from crc32c import crc32c

from kafka_corpus.authoring.build import (
    expected,
    flip,
    forced,
    grid,
    packed,
    put,
    raw_message,
    raw_record,
    raw_records,
    record,
    reseal,
    sealed,
)
from kafka_corpus.registry import Draft, case, invalid, must_write, valid
from kafka_records import Kind
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.layout import BATCH_V2, MESSAGE_V0

CORRUPT: Final[tuple[Kind, ...]] = ("corrupt",)
CODECS: Final = {"none": "none", "gzip": "gzip"}
RECORDS: Final = tuple(record(b"value %d" % at, key=b"key", offset=at, headers=((b"h", b"1"),)) for at in range(2))
BATCHES: Final = {codec: expected(*RECORDS, compression=codec) for codec in COMPRESSIONS}
SEALED: Final = {codec: sealed(batch) for codec, batch in BATCHES.items()}
COVERED: Final = [field for field in BATCH_V2.fields if field.offset >= 21]


@case("CRC-01", each=grid(codec=CODECS, field={field.name: field for field in COVERED}))
def covered_field_changed(row: dict[str, Any]) -> Draft:
    """One bit of a header field that the CRC covers is turned over."""
    field = row["field"]
    return invalid(flip(SEALED[row["codec"]], field.offset + field.width - 1, 0x20), *CORRUPT)


PLACES: Final = {"first": 61, "fourth": 64, "middle": 80, "last but one": -2, "last": -1}


@case("CRC-01", each=grid(codec=CODECS, byte=PLACES))
def record_byte_changed(row: dict[str, Any]) -> Draft:
    """One bit of the records is turned over."""
    data = SEALED[row["codec"]]
    return invalid(flip(data, row["byte"] % len(data), 0x80), *CORRUPT)


@case("CRC-01", each={"first byte": 21, "last byte": -1})
def edge_of_the_covered_bytes(at: int) -> Draft:
    """The CRC starts with the first byte of the attributes and ends with the last byte of the batch."""
    data = SEALED["zstd"]
    return invalid(flip(data, at % len(data)), *CORRUPT)


@case("CRC-01", each=tuple(COMPRESSIONS))
def writer_covers_attributes_to_the_end(codec: Compression) -> Draft:
    """A writer computes the CRC from the attributes to the last byte of the records."""
    return must_write(BATCHES[codec], SEALED[codec], compare="exact" if codec == "none" else "masked")


UNCOVERED: Final[dict[str, dict[str, int]]] = {
    "base_offset": {"base_offset": 1000},
    "partition_leader_epoch": {"partition_leader_epoch": 7},
    "both": {"base_offset": 2**40, "partition_leader_epoch": 2**31 - 1},
}


@case("CRC-02", each=grid(codec=CODECS, change=UNCOVERED))
def uncovered_field_changed(row: dict[str, Any]) -> Draft:
    """A broker stamps base offset and leader epoch on arrival, without touching the CRC."""
    data, first = SEALED[row["codec"]], row["change"].get("base_offset", 0)
    for field, value in row["change"].items():
        data = put(data, field, value)
    moved = (made._replace(offset=made.offset + first) for made in RECORDS)
    return valid(data, expected(*moved, compression=row["codec"], **row["change"]))


@case("CRC-02")
def length_is_not_covered() -> Draft:
    """A shorter length is no error in itself: the CRC of the bytes that are left decides."""
    return invalid(put(SEALED["none"], "batch_length", len(SEALED["none"]) - 13), "corrupt", "malformed", "truncated")


@case("CRC-03", each=tuple(COMPRESSIONS[1:]))
def crc_over_the_plain_records(codec: Compression) -> Draft:
    """A CRC over the records before compression is wrong: it covers the compressed bytes."""
    data = SEALED[codec]
    return invalid(put(data, "crc", crc32c(data[21:61] + raw_records(RECORDS))), *CORRUPT)


@case("CRC-03", each=tuple(COMPRESSIONS[1:]))
def crc_over_the_compressed_records(codec: Compression) -> Draft:
    """The CRC covers the records as they are compressed."""
    return valid(SEALED[codec], BATCHES[codec])


@case("CRC-03", each=tuple(COMPRESSIONS[1:]))
def writer_covers_the_compressed_records(codec: Compression) -> Draft:
    """A writer compresses first, and computes the CRC over the compressed bytes."""
    batch = expected(record(b"x" * 300), compression=codec)
    return must_write(batch, sealed(batch), compare="masked")


def reversed_bits(value: int) -> int:
    """The 32 bits of *value* from back to front."""
    return int(f"{value:032b}"[::-1], 2)


def wrong_crcs() -> dict[str, int]:
    """Checksums that implementations have been seen to compute, all wrong here."""
    data = SEALED["none"]
    right = crc32c(data[21:])
    return {
        "CRC-32 of zlib": crc32(data[21:]),
        "bytes reversed": int.from_bytes(right.to_bytes(4, "little"), "big"),
        "bits reversed": reversed_bits(right),
        "no final XOR": right ^ 0xFFFFFFFF,
        "start at 0": crc32c(data[21:], 0xFFFFFFFF),
        "masked as in snappy": ((right >> 15 | right << 17) + 0xA282EAD8) & 0xFFFFFFFF,
        "from the crc itself": crc32c(bytes(4) + data[21:]),
        "from the leader epoch": crc32c(data[12:17] + bytes(4) + data[21:]),
        "from the magic": crc32c(data[16:17] + data[21:]),
        "from the base offset": crc32c(data[:17] + bytes(4) + data[21:]),
        "from the last offset delta": crc32c(data[23:]),
        "records only": crc32c(data[61:]),
        "header only": crc32c(data[21:61]),
        "all but the last byte": crc32c(data[21:-1]),
        "one too many": right + 1 & 0xFFFFFFFF,
        "0": 0,
        "0xffffffff": 0xFFFFFFFF,
    }


@case("CRC-04", each=wrong_crcs())
def wrong_checksum(crc: int) -> Draft:
    """A checksum made in another way than CRC-32C of byte 21 to the end is refused."""
    return invalid(put(SEALED["none"], "crc", crc), *CORRUPT)


SHAPES: Final = {
    "top bit set": (0xFF000000, 0x80, 0xFF),
    "top bit clear": (0xFF000000, 0x01, 0x7F),
    "first byte 0": (0xFF000000, 0x00, 0x00),
    "first byte 0xff": (0xFF000000, 0xFF, 0xFF),
    "last byte 0": (0xFF, 0x00, 0x00),
}


def with_crc_like(shape: tuple[int, int, int]) -> bytes:
    """The first value, counting up, for which the masked byte of the CRC is within bounds."""
    mask, low, high = shape
    shift = (mask & -mask).bit_length() - 1
    values = (b"%d" % nonce for nonce in count())
    return next(value for value in values if low <= (crc_of(value) & mask) >> shift <= high)


def crc_of(value: bytes) -> int:
    """The CRC of a batch with one record of this *value*."""
    return int.from_bytes(sealed(expected(record(value)))[17:21], "big")


@case("CRC-04", each=SHAPES)
def crc_is_unsigned(shape: tuple[int, int, int]) -> Draft:
    """The CRC is stored unsigned and big-endian, whatever its bytes are."""
    batch = expected(record(with_crc_like(shape)))
    return valid(sealed(batch), batch)


@case("CRC-04", each={"top bit set": SHAPES["top bit set"], "first byte 0": SHAPES["first byte 0"]})
def writer_stores_the_crc_unsigned(shape: tuple[int, int, int]) -> Draft:
    """A writer stores all 32 bits of the CRC, big-endian."""
    batch = expected(record(with_crc_like(shape), key=None))
    return must_write(batch, sealed(batch))


SPECIAL: Final = {"0": 0, "0xffffffff": 0xFFFFFFFF, "0x7fffffff": 0x7FFFFFFF, "0x80000000": 0x80000000}


@case("CRC-04", each=SPECIAL)
def right_crc_of_a_special_value(crc: int) -> Draft:
    """A right CRC may be 0, or have all bits set, or be a limit of int32: none of them stands for no CRC."""
    batch = expected(record(forced(crc, crc_of), key=None))
    return valid(sealed(batch), batch)


@case("CRC-04", each=SPECIAL)
def writer_stores_a_special_crc(crc: int) -> Draft:
    """A writer stores a CRC of 0, of all bits set, or at a limit of int32 as it is."""
    batch = expected(record(forced(crc, lambda value: crc_of(value + b".")) + b".", key=None))
    return must_write(batch, sealed(batch))


@case("CRC-05", each={"none": "none", "gzip": "gzip"})
def writer_computes_the_crc_last(codec: Compression) -> Draft:
    """A producer computes the CRC when every other field is in place, producer state included."""
    state = {"producer_id": 12, "producer_epoch": 1, "base_sequence": 77}
    batch = expected(*RECORDS, compression=codec, **state)
    return must_write(batch, sealed(batch), compare="exact" if codec == "none" else "masked")


@case("CRC-07", each={f"byte {at}": 17 + at for at in range(4)})
def crc_itself_changed(at: int) -> Draft:
    """A bit of the CRC field itself is turned over."""
    return invalid(flip(SEALED["none"], at, 0x10), *CORRUPT)


@case("CRC-07", each=tuple(COMPRESSIONS[1:]))
def crc_before_decompression(codec: Compression) -> Draft:
    """A batch whose compressed bytes are damaged is corrupt: the CRC comes before the codec."""
    data = SEALED[codec]
    return invalid(data[:61] + bytes(len(data) - 61), *CORRUPT)


@case("CRC-07")
def crc_before_the_codec_id() -> Draft:
    """A batch with an unknown codec and a wrong CRC is corrupt before it is anything else."""
    return invalid(put(SEALED["none"], "attributes", 7), "corrupt", "unsupported_compression")


@case("CRC-07")
def crc_of_an_empty_batch() -> Draft:
    """The CRC of an empty batch is checked too."""
    return invalid(flip(sealed(expected()), 30), *CORRUPT)


@case("CRC-07", each={"first": 0, "second": 1, "third": 2})
def one_batch_of_three_is_corrupt(which: int) -> Draft:
    """A batch with a wrong CRC is refused, and the batches before it are read."""
    batches = [expected(record(offset=at), base_offset=at) for at in range(3)]
    data = [sealed(batch) for batch in batches]
    data[which] = flip(data[which], 65)
    return invalid(b"".join(data), *CORRUPT, before=tuple(batches[:which]))


@case("CRC-08", each={"v0": 0, "v1": 1})
def consumer_checks_messages_too(magic: int) -> Draft:
    """The CRC-32 of a v0 or v1 message is checked as the CRC-32C of a batch is."""
    return invalid(flip(raw_message(magic, b"key"), -2 % len(raw_message(magic, b"key"))), *CORRUPT)


@case("CRC-08", each={"v0": 0, "v1": 1})
def message_with_crc32c(magic: int) -> Draft:
    """A message with a CRC-32C is corrupt: v0 and v1 have the CRC-32 of zlib."""
    data = raw_message(magic, b"castagnoli")
    return invalid(put(data, "crc", crc32c(data[16:]), layout=MESSAGE_V0), *CORRUPT)


@case("CRC-08")
def crc_of_records_behind_a_count_of_zero() -> Draft:
    """Bytes that a count of 0 hides are covered by the CRC all the same."""
    data = reseal(put(SEALED["none"], "record_count", 0))
    return invalid(flip(data, 70), *CORRUPT)


@case("CRC-12", each={"create": 0, "append": 0x08})
def writer_covers_the_rewritten_timestamp(attributes: int) -> Draft:
    """A v1 message with a new timestamp or timestamp type needs a new CRC-32."""
    kind = "append" if attributes else "create"
    batch = expected(record(timestamp=1234567890123), magic=1, timestamp_type=kind, max_timestamp=1234567890123)
    return must_write(batch, raw_message(1, timestamp=1234567890123, attributes=attributes))


@case("CRC-07", "CMP-04")
def crc_of_packed_garbage_is_right() -> Draft:
    """With a right CRC over bytes that are no gzip the codec refuses, not the checksum."""
    data = packed("gzip", raw_record())
    return invalid(reseal(data[:61] + bytes(len(data) - 61)), "decompression", "malformed", "truncated")
