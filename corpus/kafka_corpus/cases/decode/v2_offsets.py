"""Offsets, sequences and positions of v2 batches: gaps, negative deltas, wrap-around, and a consumer's view."""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    expected,
    flip,
    grid,
    packed,
    put,
    raw_batch,
    raw_record,
    record,
    reseal,
    sealed,
)
from kafka_corpus.registry import (
    STRICT_WRITER,
    Draft,
    acceptable,
    case,
    invalid,
    may_write,
    must_refuse,
    must_write,
    valid,
)
from kafka_records import Batch
from kafka_records.constants import COMPRESSIONS, Compression

INT32_MAX: Final = 2**31 - 1
CODECS: Final = {"none": "none", "gzip": "gzip"}


def at(*offsets: int, **fields: Any) -> Batch:
    """A batch with a record at each of *offsets*; the last one is the batch's last offset."""
    batch = {"base_offset": offsets[0], "last_offset": offsets[-1], **fields}
    return expected(*(record(b"%d" % offset, offset=offset) for offset in offsets), **batch)


def is_read(batch: Batch) -> Draft:
    """*batch* is read as it is."""
    return valid(sealed(batch), batch)


@case("OFF-01", each=grid(codec={codec: codec for codec in COMPRESSIONS}, base={"0": 0, "2**40": 2**40}))
def offset_is_base_plus_delta(row: dict[str, Any]) -> Draft:
    """A record's offset is the batch's base offset plus its own delta."""
    return is_read(at(row["base"], row["base"] + 1, row["base"] + 2, compression=row["codec"]))


@case("OFF-01", each={"INT32_MAX": INT32_MAX, "INT32_MIN": -INT32_MAX - 1, "64": 64, "-1": -1})
def offset_delta_at_its_bounds(delta: int) -> Draft:
    """An offset delta takes every value of an int32."""
    return is_read(at(2**32, 2**32 + delta, base_offset=2**32) if delta > 0 else at(2**32 + delta, base_offset=2**32))


GAPS: Final = {
    "first removed": ((12, 13, 14), 10, 14),
    "last removed": ((10, 11, 12), 10, 14),
    "middle removed": ((10, 14), 10, 14),
    "first and last removed": ((12,), 10, 14),
    "every second": ((10, 12, 14, 16), 10, 17),
    "one record of very many": ((2_000_000_000,), 10, 2_000_000_010),
}


@case("OFF-10", each=grid(codec=CODECS, gap=GAPS))
def gaps_after_compaction(row: dict[str, Any]) -> Draft:
    """Compaction keeps first and last offset of the batch and the offsets of the records that stay."""
    offsets, first, last = row["gap"]
    return is_read(at(*offsets, base_offset=first, last_offset=last, compression=row["codec"]))


@case("OFF-10", each={"0": 0, "1": 1, "9": 9})
def count_and_last_offset_disagree(delta: int) -> Draft:
    """The count may differ from the last offset delta plus 1, upwards and downwards."""
    return is_read(at(0, 1, 2, 3, 4, last_offset=delta))


@case("OFF-13", each=tuple(COMPRESSIONS))
def gap_between_batches(codec: Compression) -> Draft:
    """Between two batches offsets may be missing."""
    first, second = at(0, 1, compression=codec), at(500, 501, compression=codec)
    return valid(sealed(first) + sealed(second), first, second)


@case("OFF-13")
def gap_of_a_control_batch() -> Draft:
    """A control batch takes an offset of its own between two batches of data."""
    state = {"producer_id": 3, "producer_epoch": 0}
    first, last = at(0, 1, transactional=True, base_sequence=0, **state), at(3, **state, base_sequence=2)
    marker = record(bytes.fromhex("000000000000"), key=bytes.fromhex("00000001"), offset=2)
    middle = expected(marker, base_offset=2, transactional=True, control=True, **state)
    return valid(b"".join(map(sealed, (first, middle, last))), first, middle, last)


@case("OFF-11")
def position_after_removed_records() -> Draft:
    """The batch after one whose last records were removed starts after that one's last offset."""
    first, second = at(0, last_offset=9), at(10, 11)
    return valid(sealed(first) + sealed(second), first, second)


DISORDER: Final = {"reversed": (2, 1, 0), "all the same": (0, 0, 0), "one twice": (0, 1, 1), "negative": (-1, 0, 1)}


@case("OFF-01", "OFF-04", each=grid(codec=CODECS, order=DISORDER))
def deltas_out_of_order(row: dict[str, Any]) -> Draft:
    """A record's offset is base plus its own delta, also where deltas do not start at 0 or do not rise.

    Nothing in the decoder compares the delta of one record with another.
    """
    base = 100
    made = at(
        *(base + delta for delta in row["order"]), base_offset=base, last_offset=base + 2, compression=row["codec"]
    )
    return is_read(made)


@case("CON-03", each=CODECS)
def record_beyond_the_last_offset(codec: Compression) -> Draft:
    """A record beyond the last offset of its batch is given as it is; only its user can skip it."""
    return is_read(at(5, 6, 9, last_offset=6, compression=codec))


@case("CON-04")
def record_below_the_base_offset() -> Draft:
    """A record with a negative delta is below the base offset; a consumer drops it, a decoder gives it."""
    return is_read(at(97, 100, base_offset=100))


SEQUENCES: Final = {"0": 0, "INT32_MAX - 1": INT32_MAX - 1, "INT32_MAX": INT32_MAX}
STATE: Final = {"producer_id": 4, "producer_epoch": 1}


@case("PID-10", each=grid(codec=CODECS, sequence=SEQUENCES))
def sequence_wraps_inside_a_batch(row: dict[str, Any]) -> Draft:
    """A base sequence may be so high that the sequences of the records wrap to 0."""
    return is_read(at(0, 1, 2, base_sequence=row["sequence"], compression=row["codec"], **STATE))


@case("PID-10", each=SEQUENCES)
def writer_lets_the_sequence_wrap(sequence: int) -> Draft:
    """A writer writes a base sequence as it is, even where the sequences of its records wrap."""
    batch = at(0, 1, 2, 3, base_sequence=sequence, **STATE)
    return must_write(batch, sealed(batch))


@case("PID-11", each={"-1 stays": (-1, 5), "wraps": (INT32_MAX - 2, 5), "negative delta": (3, -1)})
def last_sequence_follows_the_last_offset(row: tuple[int, int]) -> Draft:
    """The last sequence is computed, not stored, so base sequence and last offset are independent fields."""
    return is_read(at(0, last_offset=row[1], base_sequence=row[0], **STATE))


@case("PID-12", each={"-1": -1, "INT32_MIN": -INT32_MAX - 1})
def sequence_of_a_negative_delta(delta: int) -> Draft:
    """A negative offset delta gives a nonsense sequence, which is no reason to refuse the record."""
    return is_read(at(2**33 + delta, base_offset=2**33, last_offset=2**33, base_sequence=5, **STATE))


@case("PID-17")
def sequences_count_offsets() -> Draft:
    """A compacted batch keeps base sequence and last offset, so that its sequences still cover the dropped records."""
    return is_read(at(13, base_offset=10, last_offset=19, base_sequence=100, **STATE))


@case("PID-16", each={"first": 0, "second": 3, "third": 6})
def writer_continues_the_sequence(sequence: int) -> Draft:
    """A producer's batches of three records carry the base sequences 0, 3 and 6."""
    batch = at(0, 1, 2, base_sequence=sequence, producer_id=2**40, producer_epoch=0)
    return must_write(batch, sealed(batch))


@case("PID-01", each=CODECS)
def writer_without_idempotence(codec: Compression) -> Draft:
    """A producer that is not idempotent writes -1 as id, epoch and sequence."""
    batch = at(7, 8, compression=codec)
    return must_write(batch, sealed(batch), compare="exact" if codec == "none" else "masked")


@case("HDR-22")
def writer_of_an_unowned_batch() -> Draft:
    """The three producer fields of a batch without a producer are all ones on the wire."""
    batch = expected(record(b"unowned"))
    return must_write(batch, sealed(batch))


@case("HDR-07", each={"none": -1, "broker": 12})
def writer_of_the_leader_epoch(epoch: int) -> Draft:
    """A writer puts down the leader epoch that it is given: -1 for a producer, its own for a broker."""
    batch = at(0, 1, 2, 3, 4, partition_leader_epoch=epoch)
    return must_write(batch, sealed(batch))


REFUSED_STATES: Final[dict[str, dict[str, Any]]] = {
    "epoch -1": {"producer_id": 5, "base_sequence": 0},
    "sequence -1": {"producer_id": 5, "producer_epoch": 0},
    "sequence -2": {"producer_id": 5, "producer_epoch": 0, "base_sequence": -2},
    "transactional without an id": {"transactional": True},
    "transactional without an epoch": {"transactional": True, "producer_id": 5, "base_sequence": 0},
    "control without an epoch": {"control": True, "producer_id": 5},
}


@case("PID-04", each=REFUSED_STATES)
def writer_refuses_half_a_producer(fields: dict[str, Any]) -> Draft:
    """A writer refuses a producer id without an epoch or sequence, and a transactional batch without an id."""
    return must_refuse(expected(record(bytes(6), key=bytes(4)), **fields))


@case("PID-04", "TXN-16")
def control_batch_needs_no_sequence() -> Draft:
    """A control batch with a producer and sequence -1 is written."""
    marker = record(bytes.fromhex("000000000003"), key=bytes(4))
    batch = expected(marker, control=True, transactional=True, producer_id=5, producer_epoch=0)
    return must_write(batch, sealed(batch))


@case("OFF-02", each={"1": 1, "2": 2, "64": 64, "65": 65, "100": 100})
def writer_counts_from_zero(count: int) -> Draft:
    """A producer starts at offset 0 and gives its records the deltas 0, 1, 2 and so on."""
    batch = at(*range(count))
    return must_write(batch, sealed(batch))


@case("OFF-07", each={"equal": (3, 3), "backwards": (4, 3), "third goes back": (0, 5, 4)})
def writer_refuses_offsets_that_do_not_grow(offsets: tuple[int, ...]) -> Draft:
    """Kafka's writer refuses a record whose offset is not above the one before."""
    batch = at(*offsets, last_offset=max(offsets))
    return may_write(batch, sealed(batch), why=STRICT_WRITER)


@case("OFF-07", each={"one": (0, 2), "many": (0, 64, 8192, 1048576)})
def writer_leaves_gaps(offsets: tuple[int, ...]) -> Draft:
    """A writer takes offsets with gaps, as a cleaner has them."""
    batch = at(*offsets)
    return must_write(batch, sealed(batch))


@case("OFF-08", each={"2**31": 2**31, "2**40": 2**40})
def writer_refuses_a_delta_beyond_int32(offset: int) -> Draft:
    """A writer refuses a record more than 2^31 - 1 above the base offset."""
    return must_refuse(at(0, offset))


@case("OFF-08")
def writer_takes_the_largest_delta() -> Draft:
    """A writer takes a record that is exactly 2^31 - 1 above the base offset."""
    batch = at(0, INT32_MAX)
    return must_write(batch, sealed(batch))


@case("OFF-09", each={"-1": 4, "-5": 0})
def writer_starts_below_the_base_offset(offset: int) -> Draft:
    """The Java builder takes a first record below the base offset, and writes negative deltas."""
    batch = at(offset, base_offset=5)
    return must_write(batch, sealed(batch))


@case("CON-05", each=CODECS)
def batch_behind_a_broken_one(codec: Compression) -> Draft:
    """A batch that cannot be read stops the reader; later batches are not given."""
    first, last = at(0), at(2)
    broken = packed(codec, raw_record(length=b"\x01"), base_offset=1)
    return invalid(sealed(first) + broken + sealed(last), "malformed", "truncated", before=(first,))


CLASSES: Final = {
    "framing": (put(sealed(at(1)), "batch_length", 13), ("malformed", "corrupt", "truncated")),
    "crc": (flip(sealed(at(1)), 17), ("corrupt",)),
    "structure": (raw_batch(raw_record(header_count=b"\x01"), base_offset=1), ("malformed", "truncated")),
    "codec": (reseal(put(sealed(at(1)), "attributes", 1)), ("decompression", "malformed", "truncated")),
    "unknown codec": (reseal(put(sealed(at(1)), "attributes", 6)), ("unsupported_compression",)),
}


@case("CON-01", each=CLASSES)
def class_of_the_error(row: tuple[bytes, tuple[Any, ...]]) -> Draft:
    """A batch is refused whose framing, CRC, codec id, compressed bytes or record structure is wrong."""
    data, kinds = row
    return invalid(sealed(at(0)) + data, *kinds, before=(at(0),))


@case("SIZ-09", each={"header": 61, "all but one byte": -1})
def less_than_one_batch(size: int) -> Draft:
    """Bytes that hold less than one batch are no error of the decoder; it is the fetch that made no progress."""
    return valid(sealed(at(0, 1, 2, 3, 4, 5, 6, 7))[:size])


@case("HDR-26", "OFF-01")
def negative_base_offset() -> Draft:
    """A base offset of -1 is given back, and the offsets are counted from it."""
    why = "Kafka's decoder takes any base offset; a log has none below 0"
    return acceptable(sealed(at(-1, 0)), at(-1, 0), why=why)
