"""Timestamps of v2 records: deltas, LogAppendTime, the delete horizon, -1, and wrap-around.

`DefaultRecord#readFrom`, `DefaultRecordBatch.RecordIterator`,
`MemoryRecordsBuilder#appendWithOffset`; erratum A07.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, expected, grid, packed, raw_batch, raw_record, record, sealed
from kafka_corpus.registry import STRICT_WRITER, Draft, acceptable, case, may_write, must_write, valid
from kafka_records import Batch
from kafka_records.constants import COMPRESSIONS, Compression

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
DAY: Final = 86_400_000
CODECS: Final = {"none": "none", "gzip": "gzip"}


def times(*timestamps: int, **fields: Any) -> Batch:
    """A batch with a record at each of *timestamps*; the max timestamp is their maximum."""
    made = (record(b"%d" % at, offset=at, timestamp=timestamp) for at, timestamp in enumerate(timestamps))
    return expected(*made, **{"max_timestamp": max(timestamps, default=-1), **fields})


ORDERS: Final = {
    "rising": (TIMESTAMP, TIMESTAMP + 1, TIMESTAMP + 70),
    "falling": (TIMESTAMP, TIMESTAMP - 1, TIMESTAMP - 70),
    "mixed": (TIMESTAMP, TIMESTAMP + 10_000_000, TIMESTAMP - 10_000_000),
    "zero": (0, 0, 1),
    "none": (-1, -1, -1),
    "none first": (-1, TIMESTAMP, 0),
    "none last": (TIMESTAMP, 0, -1),
    "a year apart": (TIMESTAMP, TIMESTAMP + 365 * DAY, TIMESTAMP - 365 * DAY),
    "largest": (0, INT64_MAX, 1),
}


@case("TIM-01", each=grid(codec=CODECS, order=ORDERS))
def timestamp_is_base_plus_delta(row: dict[str, Any]) -> Draft:
    """A record's timestamp is the base timestamp plus its own delta, in any order."""
    batch = times(*row["order"], compression=row["codec"])
    return valid(sealed(batch), batch)


@case("TIM-01")
def base_timestamp_of_no_record() -> Draft:
    """The base timestamp need not be the timestamp of any record."""
    payload = raw_record(timestamp_delta=50) + raw_record(timestamp_delta=-50, offset_delta=1)
    batch = expected(record(timestamp=TIMESTAMP + 50), record(offset=1, timestamp=TIMESTAMP - 50))
    return valid(raw_batch(payload, record_count=2), batch)


WRAPS: Final = {
    "upwards": (INT64_MAX, 1, INT64_MIN),
    "far upwards": (INT64_MAX, INT64_MAX, -2),
    "downwards": (INT64_MIN, -1, INT64_MAX),
    "far downwards": (-2, INT64_MIN, INT64_MAX - 1),
}


@case("TIM-01", each=grid(codec=CODECS, wrap=WRAPS))
def timestamp_wraps(row: dict[str, Any]) -> Draft:
    """The sum of base timestamp and delta wraps at 64 bits in Java."""
    base, delta, result = row["wrap"]
    data = packed(row["codec"], raw_record(timestamp_delta=delta), base_timestamp=base)
    batch = expected(record(timestamp=result), compression=row["codec"])
    return acceptable(data, batch, why="Kafka lets the sum wrap; a codec may refuse a timestamp that cannot be")


@case("TIM-01", "TIM-05", each={"-2": -2, "-86400000": -DAY, "INT64_MIN": INT64_MIN})
def timestamp_below_none(timestamp: int) -> Draft:
    """A timestamp below -1 is stored by brokers that keep the bytes, and is read as it is."""
    batch = times(timestamp, max_timestamp=-1)
    return valid(sealed(batch), batch)


@case("TIM-01", "TIM-08", each={"too low": TIMESTAMP - 5, "too high": TIMESTAMP + 5, "-1": -1, "INT64_MIN": INT64_MIN})
def max_timestamp_is_not_checked(max_timestamp: int) -> Draft:
    """The max timestamp of a CreateTime batch need not be the maximum, and is given as it is stored."""
    batch = times(TIMESTAMP, TIMESTAMP + 1, max_timestamp=max_timestamp)
    return valid(sealed(batch), batch)


def appended(at: int, count: int = 3, **fields: Any) -> Batch:
    """A LogAppendTime batch: every record has the time *at* which it was appended."""
    return times(*(at,) * count, timestamp_type="append", **fields)


APPEND_TIMES: Final = {"later": TIMESTAMP + 1000, "earlier": TIMESTAMP - 1000, "0": 0, "-1": -1}


@case("TIM-02", each=grid(codec=CODECS, at=APPEND_TIMES))
def append_time_overrides(row: dict[str, Any]) -> Draft:
    """In a LogAppendTime batch every record has the max timestamp; base and deltas of the producer are ignored."""
    batch = appended(row["at"], compression=row["codec"])
    payload = b"".join(raw_record(timestamp_delta=at * 7, offset_delta=at, value=b"%d" % at) for at in range(3))
    data = packed(row["codec"], payload, attributes=0x08, record_count=3, max_timestamp=row["at"])
    return valid(data, batch)


@case("TIM-02", each=tuple(COMPRESSIONS[2:]))
def append_time_of_other_codecs(codec: Compression) -> Draft:
    """LogAppendTime overrides the records' own times under every codec."""
    data = packed(codec, raw_record(timestamp_delta=-9), attributes=0x08, max_timestamp=TIMESTAMP + 9)
    made = expected(record(timestamp=TIMESTAMP + 9), max_timestamp=TIMESTAMP + 9, timestamp_type="append")
    return valid(data, expected(*made.records, max_timestamp=TIMESTAMP + 9, timestamp_type="append", compression=codec))


@case("TIM-02")
def append_time_hides_a_wrap() -> Draft:
    """Under LogAppendTime a delta that would wrap is read and ignored."""
    data = raw_batch(raw_record(timestamp_delta=INT64_MAX), attributes=0x08, max_timestamp=5)
    return valid(data, expected(record(timestamp=5), timestamp_type="append", max_timestamp=5))


def with_horizon(*timestamps: int, horizon: int, **fields: Any) -> Batch:
    """A batch of tombstones with a delete horizon."""
    batch = times(*timestamps, **fields)
    tombstones = (made._replace(key=made.value, value=None) for made in batch.records)
    return expected(*tombstones, **{"max_timestamp": batch.max_timestamp, **fields}, delete_horizon=horizon)


HORIZONS: Final = {
    "a day later": (TIMESTAMP + DAY, (TIMESTAMP, TIMESTAMP + 5)),
    "before the records": (TIMESTAMP - DAY, (TIMESTAMP, TIMESTAMP + 5)),
    "at the record": (TIMESTAMP, (TIMESTAMP,)),
    "0": (0, (TIMESTAMP, TIMESTAMP + 1)),
    "over records without a time": (TIMESTAMP + DAY, (-1, -1)),
    "INT64_MAX": (INT64_MAX, (0, 1)),
}


@case("TIM-18", each=grid(codec=CODECS, row=HORIZONS))
def delete_horizon_is_the_base(row: dict[str, Any]) -> Draft:
    """With bit 6 the base timestamp is the delete horizon, and the records' times are still base plus delta."""
    horizon, timestamps = row["row"]
    batch = with_horizon(*timestamps, horizon=horizon, compression=row["codec"])
    return valid(sealed(batch), batch)


@case("TIM-18")
def same_base_without_the_bit() -> Draft:
    """Without bit 6 a base timestamp in the future is just a base, and there is no delete horizon."""
    payload = raw_record(timestamp_delta=-DAY)
    return valid(raw_batch(payload, base_timestamp=TIMESTAMP + DAY), expected(record()))


@case("TIM-19", each={"a minute": 60_000, "a day": DAY, "a century": 36_525 * DAY})
def negative_deltas_under_a_horizon(distance: int) -> Draft:
    """The deltas of a batch with a delete horizon are negative, of up to seven bytes in practice."""
    batch = with_horizon(TIMESTAMP, TIMESTAMP + 3, horizon=TIMESTAMP + distance)
    return valid(sealed(batch), batch)


@case("TIM-19", each=grid(codec=CODECS, distance={"a minute": 60_000, "a day": DAY}))
def writer_of_negative_deltas(row: dict[str, Any]) -> Draft:
    """A writer counts the deltas from the delete horizon, downwards."""
    codec = row["codec"]
    batch = with_horizon(TIMESTAMP, TIMESTAMP + 4, horizon=TIMESTAMP + row["distance"], compression=codec)
    return must_write(batch, sealed(batch), compare="exact" if codec == "none" else "masked")


@case("TIM-19", "ATT-06", each=CODECS)
def horizon_of_zero(codec: Compression) -> Draft:
    """A delete horizon of 0 is a horizon: the deltas count from it."""
    batch = with_horizon(TIMESTAMP, TIMESTAMP + 3, horizon=0, compression=codec)
    return valid(sealed(batch), batch)


@case("TIM-19", "ATT-06", each=CODECS)
def writer_of_a_horizon_of_zero(codec: Compression) -> Draft:
    """A delete horizon of 0 is written, with its bit, and the deltas count from it."""
    batch = with_horizon(TIMESTAMP, TIMESTAMP + 3, horizon=0, compression=codec)
    return must_write(batch, sealed(batch), compare="exact" if codec == "none" else "masked")


@case("TIM-20", each=CODECS)
def append_time_under_a_horizon(codec: Compression) -> Draft:
    """In a LogAppendTime batch with a delete horizon every record has the max timestamp."""
    batch = appended(TIMESTAMP + 8, delete_horizon=TIMESTAMP + DAY, compression=codec)
    payload = b"".join(raw_record(timestamp_delta=-at, offset_delta=at, value=b"%d" % at) for at in range(3))
    header = {"base_timestamp": TIMESTAMP + DAY, "max_timestamp": TIMESTAMP + 8}
    return valid(packed(codec, payload, attributes=0x48, record_count=3, **header), batch)


@case("TIM-04", each={"-2": (-2,), "INT64_MIN": (INT64_MIN,), "in the second record": (TIMESTAMP, -2)})
def writer_refuses_a_negative_timestamp(timestamps: tuple[int, ...]) -> Draft:
    """Kafka's writer refuses a timestamp below -1."""
    batch = times(*timestamps)
    return may_write(batch, sealed(batch), why=STRICT_WRITER)


@case("TIM-06", each={name: ORDERS[name] for name in ("falling", "none first", "none last", "zero", "largest")})
def writer_takes_the_first_as_base(timestamps: tuple[int, ...]) -> Draft:
    """A writer takes the first record's timestamp as base, even -1, and not the lowest."""
    batch = times(*timestamps)
    return must_write(batch, sealed(batch))


@case("TIM-07", each={name: ORDERS[name] for name in ("rising", "mixed", "none", "a year apart")})
def writer_takes_the_largest_as_max(timestamps: tuple[int, ...]) -> Draft:
    """A writer puts the largest timestamp of the records into the header, wherever it stands."""
    batch = times(*timestamps)
    return must_write(batch, sealed(batch))


@case("TIM-21", each={"earlier max": TIMESTAMP, "-1": -1, "0": 0})
def writer_of_an_empty_batch(max_timestamp: int) -> Draft:
    """An empty batch is written with base timestamp -1, and keeps the max timestamp that it had."""
    batch = expected(base_offset=20, last_offset=24, max_timestamp=max_timestamp)
    return must_write(batch, sealed(batch))


@case("TIM-22")
def writer_of_a_negative_horizon() -> Draft:
    """A header with a base timestamp below -1 cannot be written, so a delete horizon of -2 is no horizon."""
    batch = expected(record(), delete_horizon=-2)
    why = "DefaultRecordBatch#writeHeader refuses it; MemoryRecordsBuilder takes it as no horizon at all"
    return may_write(batch, sealed(expected(record())), why=why)
