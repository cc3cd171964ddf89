"""v2 batches as Kafka's own writer writes them, byte by byte; and batches that it refuses.

Compressed bytes depend on the library, so those cases compare header fields
and the decompressed records.  Rules about one field have their writer cases in
that field's module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, expected, grid, record, sealed
from kafka_corpus.authoring.shapes import BYTES, CODECS, COUNTS, HEADERS, MANY_HEADERS, pairwise, shaped
from kafka_corpus.registry import Draft, case, may_write, must_refuse, must_write
from kafka_records import Batch
from kafka_records.constants import COMPRESSIONS, Compression

STATES: Final[dict[str, dict[str, Any]]] = {
    "epoch": {"partition_leader_epoch": 9},
    "plain": {},
    "idempotent": {"producer_id": 77, "producer_epoch": 3, "base_sequence": 10},
    "transactional": {"producer_id": 77, "producer_epoch": 3, "base_sequence": 10, "transactional": True},
    "delete horizon": {"delete_horizon": TIMESTAMP + 3_600_000},
}
SHAPES: Final = pairwise(codec=CODECS, key=BYTES, value=BYTES, headers=HEADERS, count=COUNTS, state=STATES)
MANY: Final = pairwise(codec=CODECS, key=BYTES, value=BYTES, headers=MANY_HEADERS, count=COUNTS, state=STATES)
DATA: Final = (record(b"first", key=b"key"), record(b"second", offset=1, timestamp=TIMESTAMP + 1))


def is_written(batch: Batch) -> Draft:
    """*batch* is written field by field; compressed records are compared as plain ones."""
    return must_write(batch, sealed(batch), compare="exact" if batch.compression == "none" else "masked")


def created(row: Mapping[str, Any], **fields: Any) -> Batch:
    """The row's records in a CreateTime batch."""
    made = shaped(row)
    state = {"max_timestamp": made[-1].timestamp, "compression": row["codec"], **row["state"]}
    return expected(*made, **{**state, **fields})


@case("REC-01", "HDR-01", "CMP-01", each=SHAPES)
def create_time(row: dict[str, Any]) -> Draft:
    """A CreateTime batch of this codec and these shapes is written."""
    return is_written(created(row))


@case("REC-01", "HDR-01", "CMP-01", each=MANY)
def many_headers(row: dict[str, Any]) -> Draft:
    """A batch whose records have many or unusual headers is written."""
    return is_written(created(row))


APPENDED: Final = {f"codec {codec}, {count} records": (codec, count) for codec in COMPRESSIONS for count in (1, 3)}


@case("ATT-03", "TIM-02", each=APPENDED)
def append_time(row: tuple[Compression, int]) -> Draft:
    """A LogAppendTime batch is written with its append time as max timestamp, and as base, the records' time."""
    codec, count = row
    now = TIMESTAMP + 500
    made = (record(b"%d" % at, offset=at, timestamp=now) for at in range(count))
    return is_written(expected(*made, timestamp_type="append", max_timestamp=now, compression=codec))


@case(
    "HDR-01",
    each={
        "plain": {},
        "with everything": {
            "producer_id": 0x0102030405060708,
            "producer_epoch": 0x1112,
            "base_sequence": 0x21222324,
            "partition_leader_epoch": 0x31323334,
            "transactional": True,
        },
    },
)
def header_of_sixty_one_bytes(fields: dict[str, Any]) -> Draft:
    """A writer lays the header out in 61 bytes, with the record count before the records."""
    base = 0x4142434445464748
    return is_written(expected(record(b"header", offset=base), base_offset=base, **fields))


LARGEST: Final = {
    "base_offset": 2**63 - 1,
    "partition_leader_epoch": 2**31 - 1,
    "producer_id": 2**63 - 1,
    "producer_epoch": 2**15 - 1,
    "base_sequence": 2**31 - 1,
}


@case("HDR-02", each=tuple(LARGEST))
def largest_value_of_a_field(field: str) -> Draft:
    """A writer writes the largest value of a header field, big-endian."""
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    fields = {**producer, field: LARGEST[field]}
    return is_written(expected(record(offset=fields.get("base_offset", 0)), **fields))


TOO_LARGE: Final[dict[str, dict[str, int]]] = {
    "partition_leader_epoch": {"partition_leader_epoch": 2**31},
    "producer_id": {"producer_id": 2**63, "producer_epoch": 0, "base_sequence": 0},
    "producer_epoch": {"producer_id": 1, "producer_epoch": 2**15, "base_sequence": 0},
    "base_sequence": {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31},
}


@case("HDR-02", each=TOO_LARGE)
def value_beyond_its_width(fields: dict[str, int]) -> Draft:
    """A writer refuses a value that does not fit its field, and does not cut it off."""
    return must_refuse(expected(record(), **fields))


@case("HDR-03", each=tuple(COMPRESSIONS))
def length_of_what_was_written(codec: Compression) -> Draft:
    """A writer fills in the length after compression, from the leader epoch to the end."""
    return is_written(expected(*(record(b"length " * 9, offset=at) for at in range(20)), compression=codec))


@case("HDR-04", each=grid(codec=CODECS, count={"2": 2, "255": 255, "256": 256}))
def count_is_an_int32(row: dict[str, Any]) -> Draft:
    """A writer writes the record count as an int32 outside the compressed records."""
    made = (record(b"", offset=at) for at in range(row["count"]))
    return is_written(expected(*made, compression=row["codec"]))


EMPTY: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "append time": {"timestamp_type": "append"},
    "idempotent": {"producer_id": 5, "producer_epoch": 2, "base_sequence": 40},
    "transactional": {"producer_id": 5, "producer_epoch": 2, "base_sequence": 40, "transactional": True},
    "control": {"producer_id": 5, "producer_epoch": 2, "control": True, "transactional": True},
    "epoch": {"partition_leader_epoch": 6},
}


@case("HDR-19", "CLN-15", each=EMPTY)
def empty_batch(fields: dict[str, Any]) -> Draft:
    """An empty batch is written in 61 bytes and keeps its offsets, flags and producer."""
    return is_written(expected(base_offset=100, last_offset=109, **fields))


@case("CLN-15", "HDR-19", each=tuple(COMPRESSIONS[1:]))
def empty_batch_with_a_codec(codec: Compression) -> Draft:
    """An empty batch is never compressed: Kafka's writer clears the codec, so a codec for one is an error."""
    return must_refuse(expected(base_offset=100, last_offset=109, compression=codec))


COMPACTED: Final = {"first gone": ((12, 13), 10, 13), "last gone": ((10,), 10, 13), "both gone": ((11, 12), 10, 13)}


@case("OFF-10", "CLN-03", each=grid(codec=CODECS, row=COMPACTED))
def gaps_after_compaction(row: dict[str, Any]) -> Draft:
    """A cleaner writes the records that stay, under the first and last offset of the original batch."""
    offsets, first, last = row["row"]
    made = (record(b"%d" % offset, offset=offset) for offset in offsets)
    return is_written(expected(*made, base_offset=first, last_offset=last, compression=row["codec"]))


@case("PID-10", "PID-17")
def compacted_batch_of_a_producer() -> Draft:
    """A cleaner keeps the base sequence of the original batch, though its first record is gone."""
    state = {"producer_id": 8, "producer_epoch": 1, "base_sequence": 2**31 - 2}
    return is_written(expected(record(offset=14), base_offset=10, last_offset=15, **state))


MARKERS: Final = {"abort": 0, "commit": 1}


@case("TXN-14", "ATT-05", each=grid(marker=MARKERS, horizon={"fresh": None, "with a horizon": TIMESTAMP + 86_400_000}))
def end_marker(row: dict[str, Any]) -> Draft:
    """An end marker is 78 bytes: a control batch with one record, a producer and no sequence."""
    key = b"\x00\x00" + row["marker"].to_bytes(2, "big")
    marker = record(bytes.fromhex("000000000011"), key=key, offset=40)
    state = {"producer_id": 6, "producer_epoch": 2, "transactional": True, "control": True}
    return is_written(expected(marker, base_offset=40, delete_horizon=row["horizon"], **state))


@case("REC-12", "CLN-08")
def tombstone() -> Draft:
    """A tombstone is a record with a key and a null value, and not an empty one."""
    return is_written(expected(record(None, key=b"gone"), record(b"", key=b"empty", offset=1)))


@case("OFF-08", each={"INT32_MAX + 1": (2**31, -(2**31)), "INT32_MIN - 1": (-(2**31) - 1, 2**31 - 1)})
def last_offset_delta_beyond_int32(delta: tuple[int, int]) -> Draft:
    """A last offset that is further from the base than an int32 reaches cannot be written."""
    wanted, cut_off = delta
    batch = expected(record(offset=2**40), base_offset=2**40, last_offset=2**40 + wanted)
    why = "Kafka checks the records' deltas only, and lets the high bits of this one fall off"
    return may_write(batch, sealed(batch, last_offset_delta=cut_off), why=why)


@case("TIM-07", "CLN-05")
def max_timestamp_of_the_original() -> Draft:
    """The max timestamp of a CreateTime batch is that of its later record."""
    return is_written(expected(*DATA, max_timestamp=TIMESTAMP + 1))
