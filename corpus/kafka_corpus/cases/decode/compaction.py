"""Logs after the log cleaner, and the content of segment files (groups CLN, SEG and OFF).

Gaps, counts below the offset range, empty batches, delete horizons, and logs of
several magics; each must be read, because every broker serves them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, compressed, payload_of, plain_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, grid, raw_batch
from kafka_corpus.authoring.frames import pack
from kafka_corpus.authoring.messages import message_bytes, numbered, record_of, single_batch, wrapped
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_write, valid
from kafka_records import Batch, Record
from kafka_records.constants import Compression

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
COMPRESSED = {name: codec for name, codec in CODECS.items() if name != "none"}
OLD: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
HORIZON = TIMESTAMP + 86_400_000
PRODUCER: dict[str, Any] = {"producer_id": 12, "producer_epoch": 1, "base_sequence": 40}
# Which of ten records are left.
LEFT = {
    "first": (0,),
    "last": (9,),
    "middle": (4,),
    "ends": (0, 9),
    "every-other": (0, 2, 4, 6, 8),
    "all-but-first": tuple(range(1, 10)),
    "all-but-last": tuple(range(9)),
}
# Every choice uncompressed, and with each codec those that leave something out on both sides.
FEW = {name: LEFT[name] for name in ("middle", "every-other")}
RETAINED = grid(codec={"none": "none"}, left=LEFT) | grid(codec=COMPRESSED, left=FEW)


def left_of(indexes: tuple[int, ...], *, base: int = 1000, **fields: Any) -> Batch:
    """A batch that held ten records from *base* up, of which those at *indexes* are left (CLN-02, CLN-03)."""
    records = [Record(base + n, TIMESTAMP + n, b"key %d" % n, b"value %d" % n) for n in indexes]
    return batch_of(*records, **({"base_offset": base, "last_offset": base + 9} | fields))


def log(*batches: Batch) -> Draft:
    """A log of *batches*, which has to be read as just those."""
    return valid(b"".join(map(bytes_of, batches)), *batches)


@case("CLN-03", "OFF-10", "CLN-02", each=RETAINED)
def retained_records(shape: dict[str, Any]) -> Draft:
    """A cleaned batch keeps its offset range, and holds fewer records than that range."""
    return log(left_of(shape["left"], compression=shape["codec"]))


@case("CLN-03", "OFF-10", each=grid(codec=CODECS, left=FEW))
def write_retained_records(shape: dict[str, Any]) -> Draft:
    """A batch with gaps is written with its whole offset range, and the count of the records that remain."""
    batch = left_of(shape["left"], base=2000, compression=shape["codec"], **PRODUCER)
    return must_write(batch, bytes_of(batch), compare="exact" if shape["codec"] == "none" else "masked")


@case("CLN-02", "CLN-03", "PID-17", each={"idempotent": {}, "transactional": {"transactional": True}})
def retained_records_of_a_producer(fields: dict[str, Any]) -> Draft:
    """A cleaned batch keeps its producer and its first sequence, which may be that of a removed record."""
    return log(left_of((3, 7), partition_leader_epoch=6, **PRODUCER, **fields))


@case("CLN-04", "TIM-06", refs=["A07"])
def base_timestamp_of_the_first_retained() -> Draft:
    """The base timestamp of a cleaned batch is that of the first record that is left."""
    return log(left_of((5, 8), base=50))


@case("CLN-05", "TIM-07", each={"newest-kept": 7, "older-kept": 2})
def max_timestamp_of_the_retained(newest: int) -> Draft:
    """The newest timestamp of a cleaned batch can be that of its first or its last record."""
    records = [Record(60 + n, TIMESTAMP + (100 if n == newest else n), b"k%d" % n, b"v") for n in (2, 7)]
    return log(batch_of(*records, base_offset=60, last_offset=69))


@case("CLN-05", "TIM-08")
def max_timestamp_of_a_removed_record() -> Draft:
    """A header's newest timestamp that no record has is read as it stands."""
    batch = left_of((0, 1), base=70, max_timestamp=TIMESTAMP + 500)
    return valid(bytes_of(batch), batch)


@case("CLN-06", "TIM-02", each=CODECS)
def append_time_after_cleaning(codec: Compression) -> Draft:
    """After cleaning with LogAppendTime the base is the append time and all deltas are 0."""
    batch = left_of((1, 2), base=80, compression=codec, timestamp_type="append", max_timestamp=TIMESTAMP + 50)
    records = tuple(record._replace(timestamp=TIMESTAMP + 50) for record in batch.records)
    return log(replace(batch, records=records))


@case("CLN-08", "TIM-18", refs=["A05"], each=grid(codec=CODECS, type_={"create": "create", "append": "append"}))
def tombstone_with_horizon(shape: dict[str, Any]) -> Draft:
    """A batch with a tombstone gets a delete horizon for a base timestamp; its records keep their times."""
    append = shape["type_"] == "append"
    records = [Record(90 + n, TIMESTAMP if append else TIMESTAMP + n, b"key %d" % n, None) for n in (0, 4)]
    batch = batch_of(
        *records,
        last_offset=99,
        compression=shape["codec"],
        timestamp_type=shape["type_"],
        delete_horizon=HORIZON,
        max_timestamp=records[-1].timestamp,
    )
    return log(batch)


@case("CLN-08", "TIM-18", each=CODECS)
def write_tombstone_with_horizon(codec: Compression) -> Draft:
    """A delete horizon is written as bit 6 and the base timestamp, and the deltas count from it."""
    batch = batch_of(
        Record(91, TIMESTAMP, b"key", None), compression=codec, delete_horizon=HORIZON, last_offset=95, **PRODUCER
    )
    return must_write(batch, bytes_of(batch), compare="exact" if codec == "none" else "masked")


@case("CLN-09", "TIM-18", each={"zero": 0, "past": TIMESTAMP - 1, "far": 2**62})
def horizons(horizon: int) -> Draft:
    """A delete horizon is any time from 0 up, past ones too."""
    return log(batch_of(Record(92, TIMESTAMP, b"key", None), delete_horizon=horizon))


@case("CLN-11", "TXN-15", refs=["A16"], each={"abort": 0, "commit": 1})
def marker_with_horizon(type_: int) -> Draft:
    """A marker of a transaction without data left has a delete horizon, COMMIT and ABORT alike."""
    record = Record(93, TIMESTAMP, bytes((0, 0, 0, type_)), bytes(6))
    return log(
        batch_of(
            record,
            control=True,
            transactional=True,
            producer_id=12,
            producer_epoch=1,
            base_sequence=-1,
            delete_horizon=HORIZON,
        )
    )


EMPTY: dict[str, dict[str, Any]] = {
    "idempotent": PRODUCER,
    "transactional": {**PRODUCER, "transactional": True},
    "control": {"producer_id": 12, "producer_epoch": 1, "transactional": True, "control": True},
    "append": {**PRODUCER, "timestamp_type": "append"},
    "no-producer": {},
    "leader-epoch": {**PRODUCER, "partition_leader_epoch": 17},
    "no-times": {**PRODUCER, "max_timestamp": -1},
}


def empty(base: int, last: int, **fields: Any) -> Batch:
    """A batch of which no record is left: 61 bytes, no codec, base timestamp -1."""
    return batch_of(base_offset=base, last_offset=last, **({"max_timestamp": TIMESTAMP} | fields))


@case("CLN-15", "CLN-14", refs=["A26"], each=EMPTY)
def empty_batch(fields: dict[str, Any]) -> Draft:
    """A batch without records keeps offsets, producer, type and newest timestamp in 61 bytes."""
    batch = empty(100, 104, **fields)
    assert len(bytes_of(batch)) == 61
    return log(batch)


@case("CLN-15", "TIM-21", each=EMPTY)
def write_empty_batch(fields: dict[str, Any]) -> Draft:
    """A batch without records is written as 61 bytes, with a base timestamp of -1."""
    batch = empty(110, 113, **fields)
    return must_write(batch, bytes_of(batch))


@case("CLN-15", "OFF-11", refs=("https://github.com/segmentio/kafka-go/pull/813",), each={"one": 1, "three": 3})
def empty_batches_between(count: int) -> Draft:
    """Empty batches may stand between others; each advances the offset over its whole range."""
    gaps = [empty(1010 + 10 * n, 1019 + 10 * n, **PRODUCER) for n in range(count)]
    return log(left_of((0, 3)), *gaps, left_of((1,), base=1010 + 10 * count))


@case("CLN-16", "CLN-15", each={"only": 0, "behind-another": 1})
def empty_batch_at_the_end(before: int) -> Draft:
    """The last batch that a cleaning round saw is kept, empty if need be."""
    return log(*[left_of((2,))][:before], empty(1010, 1019))


@case("CLN-15", each={"largest": (2**63 - 10, 2**63 - 1), "one-offset": (7, 7), "two-billion": (0, 2**31 - 1)})
def empty_batch_offsets(offsets: tuple[int, int]) -> Draft:
    """An empty batch may stand for one offset, or for two billion."""
    return log(empty(*offsets, **PRODUCER))


@case("CLN-17", "OFF-09", each=CODECS)
def gap_between_batches(codec: Compression) -> Draft:
    """Batches that the cleaner removed leave a gap in the offsets between their neighbours."""
    return log(left_of((0,), base=0, compression=codec), left_of((9,), base=5_000_000_000, compression=codec))


@case("CLN-18", "CLN-03")
def one_record_for_each_key() -> Draft:
    """Of the records of one key in a batch only the last is left."""
    records = [Record(3, TIMESTAMP, b"a", b"3"), Record(8, TIMESTAMP, b"b", b"8"), Record(9, TIMESTAMP, b"c", b"9")]
    return log(batch_of(*records, base_offset=0, last_offset=9))


@case("CLN-21", "NST-12", each=grid(magic={"v0": 0, "v1": 1}, codec=OLD, left=FEW))
def retained_messages(shape: dict[str, Any]) -> Draft:
    """A cleaned v0 or v1 wrapper holds the messages that are left, each at the offset that it had."""
    return valid(*wrapped(numbered(shape["magic"], *(1000 + n for n in shape["left"])), shape["magic"], shape["codec"]))


@case("CLN-20", "CLN-21", "SEG-06", each=CODECS)
def magics_after_cleaning(codec: Compression) -> Draft:
    """Cleaning keeps the magic of each batch, so that one log holds all three, with gaps."""
    old, new = record_of(0, 2, b"old"), record_of(1, 7, b"new", None)
    batch = left_of((1, 5), base=20, compression=codec)
    data = message_bytes(old, 0) + message_bytes(new, 1) + bytes_of(batch)
    return valid(data, single_batch(old, 0), single_batch(new, 1), batch)


@case("CLN-24", "CRC-15", each=CODECS)
def undecodable_batch(codec: Compression) -> Draft:
    """A batch whose records cannot be read is an error, and the batch before it is read."""
    bad = raw_batch(pack(codec, b"\x7f" * 20), attributes=list(CODECS).index(codec))
    good = left_of((0, 1), base=0)
    return invalid(bytes_of(good) + bad, "truncated", "malformed", before=(good,))


@case("OFF-10", "CLN-03", each=CODECS)
def count_says_more_than_is_left(codec: Compression) -> Draft:
    """The count of a cleaned batch is that of the records left, not that of the offset range."""
    batch = left_of((0, 9), base=30, compression=codec)
    return invalid(bytes_of(batch, record_count=10), "truncated", "malformed")


@case("SEG-01", "FRM-02", each=grid(codec=CODECS, count={"two": 2, "nine": 9}))
def segment(shape: dict[str, Any]) -> Draft:
    """A segment file is the same batches end to end, with nothing in front."""
    batches = [
        batch_of(*some_records(2, base=2 * n), compression=shape["codec"], partition_leader_epoch=n)
        for n in range(shape["count"])
    ]
    return log(*batches)


TAILS = {"eleven": 11, "twelve": 12, "sixteen": 16, "seventeen": 17, "eighteen": 18, "sixty": 60, "all-but-one": -1}


@case("SEG-03", "FRM-07", each=TAILS)
def incomplete_tail(size: int) -> Draft:
    """A last batch that is incomplete ends a segment: that is where a broker stopped writing."""
    batch, tail = batch_of(*some_records()), bytes_of(batch_of(*some_records(base=2)))
    return valid(bytes_of(batch) + tail[:size], batch)


@case("SEG-03", "FRM-08")
def seventeen_bytes_of_an_unknown_magic() -> Draft:
    """Seventeen bytes at the end whose last is an unknown magic are the end to a file, and an error in memory."""
    batch, tail = batch_of(*some_records()), bytes_of(batch_of(*some_records(base=2)))
    why = "FileLogInputStream stops at 17 bytes, ByteBufferLogInputStream looks at the magic first"
    return acceptable(bytes_of(batch) + tail[:16] + b"\x09", batch, kinds=("unsupported_magic", "malformed"), why=why)


@case("SEG-08", "FRM-05", each={"twelve": 12, "sixty-one": 61, "a-kib": 1024})
def preallocated_zeros(size: int) -> Draft:
    """The zeros of a preallocated segment are no batch: a size of 0 is refused."""
    batch = batch_of(*some_records())
    return invalid(bytes_of(batch) + bytes(size), "malformed", "truncated", "corrupt", before=(batch,))


@case("SEG-08", "FRM-04", each={"one": 1, "eleven": 11})
def zeros_too_few_for_a_prefix(size: int) -> Draft:
    """Fewer than twelve zeros at the end are a tail that is ignored."""
    batch = batch_of(*some_records(3))
    return valid(bytes_of(batch) + bytes(size), batch)


ORDERS = {"old-to-new": (0, 1, 2), "v1-behind-v2": (2, 1), "v0-behind-v2": (2, 0), "by-turns": (2, 1, 2, 0, 2)}


@case("SEG-06", "FRM-11", "FRM-03", each=ORDERS)
def magics_in_one_segment(magics: tuple[int, ...]) -> Draft:
    """One file may hold all three magics, in any order."""
    data, batches = b"", []
    for offset, magic in enumerate(magics):
        if magic == 2:
            batches.append(batch_of(Record(offset, TIMESTAMP, b"k", b"v2")))
            data += bytes_of(batches[-1])
        else:
            record = record_of(magic, offset, b"k", b"v%d" % magic)
            batches.append(single_batch(record, magic))
            data += message_bytes(record, magic)
    return valid(data, *batches)


@case("SEG-06", "NST-01", each=OLD)
def compressed_magics_in_one_segment(codec: Compression) -> Draft:
    """Compressed batches and wrappers of one codec may share a file."""
    first, before = wrapped(numbered(0, 0, 1), 0, codec)
    second, between = wrapped(numbered(1, 2, 3), 1, codec)
    third, after = compressed(codec, pack(codec, plain_of(2)))
    return valid(first + second + third, before, between, after)


@case("SEG-11", "OFF-12", each={"again": 0, "back": -3})
def offsets_going_backwards(step: int) -> Draft:
    """Offsets that go backwards from batch to batch are no error of any batch."""
    first = batch_of(*some_records(base=10))
    return log(first, batch_of(*some_records(base=11 + step)))


@case("SEG-17", "HDR-07", each={"rising": (0, 1, 5), "falling": (5, 1, 0), "unknown": (-1, 3, -1)})
def leader_epochs(epochs: tuple[int, ...]) -> Draft:
    """Each batch carries the epoch of the leader that appended it, -1 if that is not known."""
    return log(*(batch_of(*some_records(base=2 * n), partition_leader_epoch=epoch) for n, epoch in enumerate(epochs)))


@case("CLN-07", "REC-26", each=CODECS)
def records_written_anew(codec: Compression) -> Draft:
    """The cleaner rewrites the remaining records: attributes 0, shortest varints, known bits only."""
    batch = left_of((2, 6), base=3000, compression=codec)
    plain = payload_of(batch.records, base_offset=3000, base_timestamp=batch.records[0].timestamp)
    return valid(bytes_of(batch, packed=pack(codec, plain)), batch)
