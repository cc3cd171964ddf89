"""Timestamps on CreateTime topics on brokers (group TIM)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import HORIZON, batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, grid, packed, put, raw_batch, raw_record, raw_records, reseal
from kafka_corpus.authoring.steps import (
    PRODUCER_ID,
    REBUILT,
    assigned,
    compression,
    fetches,
    kept_batch,
    numbered_from,
    rebuilt_batch,
    repeats,
    takes,
)
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import NOW, Clean, Fetch, FindOffset, Produce, StepAnswer
from kafka_records import Record
from kafka_records.broker.errors import INVALID_RECORD, INVALID_TIMESTAMP, UNKNOWN_SERVER_ERROR
from kafka_records.constants import INT64_MAX, INT64_MIN, Compression

# Uncompressed and compressed records are gone through by different code.
CODECS: dict[str, Compression] = {"plain": "none", "compressed": "gzip"}
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
DIFFERENCE = "message.timestamp.difference.max.ms"
LIMITS_SPLIT, LAST_OF_DIFFERENCE = "3.6.0", "3.9.2"
CENTURY = str(100 * 365 * 86_400_000)
YEAR_2100 = 4_102_444_800_000
# delete.retention.ms by default, in milliseconds.
RETENTION = 86_400_000


def timed(*timestamps: int, codec: Compression = "none", **fields: Any) -> bytes:
    """A batch of records with these times, its base timestamp the first; *fields* change the header."""
    records = [Record(at, stamp, b"key %d" % at, b"value") for at, stamp in enumerate(timestamps)]
    payload = b"".join(
        raw_record(timestamp_delta=each.timestamp - timestamps[0], offset_delta=each.offset, key=each.key)
        for each in records
    )
    header = {"base_timestamp": timestamps[0], "max_timestamp": max(timestamps), "record_count": len(timestamps)}
    if codec == "none":
        return raw_batch(payload, **(header | fields))
    return packed(codec, payload, **(header | fields))


def records_at(*timestamps: int) -> tuple[Record, ...]:
    """The records that `timed` puts together."""
    return tuple(Record(at, stamp, b"key %d" % at, b"value") for at, stamp in enumerate(timestamps))


def limited(data: bytes, answer: StepAnswer, config: dict[str, str]) -> Draft:
    """*data* on a topic with limits for past and future, which topics have since Kafka 3.6 (KIP-937)."""
    return produced(data, answer, config=config, since=LIMITS_SPLIT)


# The base is the smallest number, and the delta wraps it round to an ordinary time.
WRAPPING = raw_record(timestamp_delta=TIMESTAMP - 2**63, key=b"key 0")


@case("TIM-01", each=CODECS)
def sum_that_wraps(codec: Compression) -> Draft:
    """Base and delta that wrap round 64 bits to an ordinary time are kept, and the max timestamp is that time."""
    data = packed(codec, WRAPPING, base_timestamp=INT64_MIN, max_timestamp=TIMESTAMP)
    return produced(data, stored(kept_batch(data)))


@case("TIM-01", "RWR-05")
def sum_that_wraps_rebuilt() -> Draft:
    """A timestamp that came out of a wrapped sum is the new base timestamp when the batch is rebuilt."""
    data = packed("gzip", WRAPPING, base_timestamp=INT64_MIN, max_timestamp=TIMESTAMP)
    return produced(data, stored(rebuilt_batch(*records_at(TIMESTAMP))), config=compression(REBUILT))


@case("TIM-03", each=grid(codec=CODECS, config={"no-limits": {}, "limits": {BEFORE: "1000", AFTER: "1000"}}))
def no_timestamp(shape: dict[str, Any]) -> Draft:
    """A timestamp of -1 means there is none, and no limit is for it."""
    data = timed(-1, -1, codec=shape["codec"])
    since = LIMITS_SPLIT if shape["config"] else ""
    return produced(data, stored(kept_batch(data)), config=shape["config"], since=since)


@case("TIM-03", "TIM-10")
def no_timestamp_among_others() -> Draft:
    """A record without a timestamp is exempt from the limits, and its neighbours are not."""
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(1,))
    return limited(timed(-1, TIMESTAMP), answer, {BEFORE: "1000"})


@case("TIM-05", "TIM-09", each=grid(codec=CODECS, stamp={"minus-2": -2, "a-year": -31_536_000_000}))
def timestamp_below_minus_1(shape: dict[str, Any]) -> Draft:
    """Timestamps below -1 are kept, under a max timestamp of -1."""
    data = timed(shape["stamp"], shape["stamp"] - 5, codec=shape["codec"])
    return produced(data, stored(kept_batch(data, max_timestamp=-1)))


@case("TIM-05", "TIM-08")
def timestamp_below_minus_1_among_others() -> Draft:
    """One timestamp below -1 among others changes nothing."""
    data = timed(TIMESTAMP, -2)
    return produced(data, stored(kept_batch(data)))


@case("TIM-05", "RWR-09", each={"from-none": ("none", "gzip"), "from-gzip": ("gzip", "uncompressed")})
def timestamp_below_minus_1_rebuilt(codecs: tuple[Compression, str]) -> Draft:
    """A timestamp below -1 is an unknown error where the batch has to be rebuilt, even after a good one."""
    source, target = codecs
    answer = error_answer(UNKNOWN_SERVER_ERROR)
    return produced(timed(TIMESTAMP, -2, codec=source), answer, config=compression(target))


MAXIMA = {"too-low": TIMESTAMP - 1, "too-high": INT64_MAX, "none": -1, "below": INT64_MIN}


@case("TIM-08", "RWR-02", each=grid(codec=CODECS, maximum=MAXIMA))
def max_timestamp_wrong(shape: dict[str, Any]) -> Draft:
    """A max timestamp that is not the largest of the records' is overwritten, and the CRC made right."""
    data = timed(TIMESTAMP + 5, TIMESTAMP, codec=shape["codec"], max_timestamp=shape["maximum"])
    return produced(data, stored(kept_batch(data, max_timestamp=TIMESTAMP + 5)))


@case("TIM-08")
def max_timestamp_fetched_back() -> Draft:
    """Fetched batches have the max timestamp that the broker found, and searches by time use it."""
    data = timed(TIMESTAMP, TIMESTAMP + 5, max_timestamp=INT64_MAX)
    corrected = kept_batch(data, max_timestamp=TIMESTAMP + 5)
    found = FindOffset(TIMESTAMP + 5), StepAnswer(base_offset=1)
    beyond = FindOffset(TIMESTAMP + 6), StepAnswer()
    return scene((Produce(data=data), stored(corrected)), fetches(corrected, 2), found, beyond)


@case("TIM-09", each=CODECS)
def max_timestamp_of_no_timestamps(codec: Compression) -> Draft:
    """Where all timestamps are below -1, the stored max timestamp is -1, whatever was claimed."""
    data = timed(-3, -2, codec=codec, max_timestamp=TIMESTAMP)
    return produced(data, stored(kept_batch(data, max_timestamp=-1)))


@case("TIM-10", each=grid(codec=CODECS, path={"kept": {}, "rebuilt": compression("lz4")}))
def too_long_ago(shape: dict[str, Any]) -> Draft:
    """Records before the limit are refused, and listed."""
    data = timed(TIMESTAMP, TIMESTAMP + 1, codec=shape["codec"])
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(0, 1))
    return limited(data, answer, {BEFORE: "1000", **shape["path"]})


@case("TIM-10")
def not_too_long_ago() -> Draft:
    """Records within the limit are stored."""
    data = timed(TIMESTAMP, TIMESTAMP + 1)
    return limited(data, stored(kept_batch(data)), {BEFORE: CENTURY})


@case("TIM-10", each=CODECS)
def too_far_ahead(codec: Compression) -> Draft:
    """Records beyond the limit for the future are refused, and the one that is not is not listed."""
    data = timed(TIMESTAMP, YEAR_2100, codec=codec)
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(1,))
    return limited(data, answer, {AFTER: "1000"})


@case("TIM-10")
def not_too_far_ahead() -> Draft:
    """A record of the year 2100 is stored where the limit is a century."""
    data = timed(YEAR_2100)
    return limited(data, stored(kept_batch(data)), {AFTER: CENTURY})


@case("TIM-10", each={"smallest": INT64_MIN, "largest": INT64_MAX})
def ends_of_time(stamp: int) -> Draft:
    """The smallest and the largest timestamp are beyond any limit, though the differences wrap."""
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(0,))
    return limited(timed(stamp), answer, {BEFORE: CENTURY, AFTER: CENTURY})


@case("TIM-10", "PRD-01")
def max_timestamp_is_no_record() -> Draft:
    """The limits are for records: a max timestamp beyond them is only corrected."""
    data = timed(TIMESTAMP, max_timestamp=INT64_MAX)
    config = {BEFORE: CENTURY, AFTER: "1000"}
    return limited(data, stored(kept_batch(data, max_timestamp=TIMESTAMP)), config)


@case("TIM-11", each={"1970": 0, "2001": 10**12})
def past_by_default(stamp: int) -> Draft:
    """By default no time is too long ago."""
    data = timed(stamp)
    return produced(data, stored(kept_batch(data)))


@case("TIM-11")
def future_by_default() -> Draft:
    """Since Kafka 4.0 a timestamp may be an hour ahead by default, and no century."""
    return produced(timed(YEAR_2100), error_answer(INVALID_TIMESTAMP, record_errors=(0,)))


@case("TIM-11", each=CODECS)
def future_by_default_before_kafka_4(codec: Compression) -> Draft:
    """Up to Kafka 3.9 no time is too far ahead by default."""
    data = timed(YEAR_2100, INT64_MAX - 1, codec=codec)
    return produced(data, stored(kept_batch(data)), until="3.9.2")


@case("TIM-17", "PRD-17", each=grid(codec=CODECS, order={"first": (0, 1), "last": (1, 0)}))
def invalid_timestamp_outranks(shape: dict[str, Any]) -> Draft:
    """A timestamp out of range outranks a missing key in the same batch, whichever comes first; both are listed."""
    good = [Record(0, -1, None, b"no key"), Record(0, TIMESTAMP, b"key", b"long ago")]
    chosen = [good[at]._replace(offset=place) for place, at in enumerate(shape["order"])]
    data = packed(shape["codec"], raw_records(chosen), record_count=2)
    config = {BEFORE: "1000", "cleanup.policy": "compact"}
    return limited(data, error_answer(INVALID_TIMESTAMP, record_errors=(0, 1)), config)


@case("TIM-17", "PRD-17")
def missing_key_alone() -> Draft:
    """Without a timestamp out of range, a missing key decides."""
    records = [Record(0, -1, None, b"no key"), Record(1, -1, b"key", b"no time")]
    data = raw_batch(raw_records(records, base_timestamp=-1), base_timestamp=-1, max_timestamp=-1, record_count=2)
    config = {BEFORE: "1000", "cleanup.policy": "compact"}
    return limited(data, error_answer(INVALID_RECORD, record_errors=(0,)), config)


HORIZON_AT = TIMESTAMP + 86_400_000


def with_horizon(codec: Compression = "none") -> bytes:
    """Three records counted back from a delete horizon a day ahead of them."""
    payload = raw_records(some_records(3), base_timestamp=HORIZON_AT)
    header = {"base_timestamp": HORIZON_AT, "max_timestamp": TIMESTAMP + 2, "record_count": 3}
    return packed(codec, payload, attributes=HORIZON, **header)


@case("TIM-18", "TIM-19", each=CODECS)
def horizon_of_a_producer(codec: Compression) -> Draft:
    """With bit 6, records are still found at base timestamp plus delta, though the deltas are negative."""
    data = with_horizon(codec)
    found = FindOffset(TIMESTAMP + 1), StepAnswer(base_offset=1)
    beyond = FindOffset(TIMESTAMP + 3), StepAnswer()
    return scene((Produce(data=data), stored(kept_batch(data))), fetches(kept_batch(data), 3), found, beyond)


@case("TIM-18", "TIM-19", "RWR-06")
def horizon_rebuilt() -> Draft:
    """A batch that is rebuilt loses bit 6, and its records keep their times above a new base."""
    answer = stored(rebuilt_batch(*some_records(3)))
    return produced(with_horizon("gzip"), answer, config=compression(REBUILT))


@case("TIM-23", each=CODECS)
def append_time_of_a_duplicate(codec: Compression) -> Draft:
    """For a duplicate the answer's log_append_time is the max timestamp of the first copy, even on CreateTime."""
    batch = numbered_from(0, 3, codec)
    return scene(takes(batch), repeats(batch, timestamp=TIMESTAMP + 2))


@case("TIM-23", "TIM-08")
def append_time_of_a_duplicate_that_claims() -> Draft:
    """It is the max timestamp that the broker found, not the claim of the first or the second copy."""
    batch = reseal(put(numbered_from(0, 2), "max_timestamp", TIMESTAMP + 999))
    first = Produce(data=batch), stored(kept_batch(batch, max_timestamp=TIMESTAMP + 1))
    return scene(first, repeats(batch, timestamp=TIMESTAMP + 1))


@case("TIM-24", each=CODECS)
def difference_counts(codec: Compression) -> Draft:
    """Up to Kafka 3.9 message.timestamp.difference.max.ms is the limit in both directions."""
    data = timed(TIMESTAMP, YEAR_2100, codec=codec)
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(0, 1))
    return produced(data, answer, config={DIFFERENCE: "1000"}, until=LAST_OF_DIFFERENCE)


@case("TIM-24")
def difference_is_outdone() -> Draft:
    """message.timestamp.before.max.ms outdoes the difference for the past, and only there."""
    data = timed(TIMESTAMP, YEAR_2100)
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(1,))
    config = {DIFFERENCE: "1000", BEFORE: CENTURY}
    return produced(data, answer, config=config, since=LIMITS_SPLIT, until=LAST_OF_DIFFERENCE)


ROLLING = {"segment.ms": "1000", "segment.jitter.ms": "0"}


@case("TIM-25", each={"rolls": 1001, "at-the-limit": 1000, "backwards": -5000})
def segment_rolls_by_time(later: int) -> Draft:
    """A segment rolls when records are later than its first by more than segment.ms; a fetch reads one segment."""
    first, second = timed(TIMESTAMP), timed(TIMESTAMP + later)
    stored_second = put(kept_batch(second), "base_offset", 1)
    both = kept_batch(first) if later > 1000 else kept_batch(first) + stored_second
    return scene(
        (Produce(data=first), stored(kept_batch(first))),
        (Produce(data=second), stored(stored_second, base_offset=1)),
        (Fetch(), StepAnswer(data=both, high_watermark=2, last_stable_offset=2)),
        config=ROLLING,
    )


@case("TIM-25")
def segment_rolls_by_max_timestamp() -> Draft:
    """The largest timestamp of the batch that arrives counts, corrected by the broker."""
    first, second = timed(TIMESTAMP), timed(TIMESTAMP, max_timestamp=TIMESTAMP + 5000)
    stored_second = put(kept_batch(second, max_timestamp=TIMESTAMP), "base_offset", 1)
    return scene(
        (Produce(data=first), stored(kept_batch(first))),
        (Produce(data=second), stored(stored_second, base_offset=1)),
        fetches(kept_batch(first) + stored_second, 2),
        config=ROLLING,
    )


@case("TIM-21", each=CODECS)
def emptied_batch_keeps_its_max_timestamp(codec: Compression) -> Draft:
    """A batch that the cleaner empties has base timestamp -1, and the max timestamp of the records that it had."""
    first = numbered_from(0, 2, codec, max_timestamp=TIMESTAMP + 1)
    second = timed(TIMESTAMP + 7, TIMESTAMP + 8)
    empty = raw_batch(
        b"",
        base_timestamp=-1,
        max_timestamp=TIMESTAMP + 1,
        record_count=0,
        last_offset_delta=1,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=0,
        partition_leader_epoch=0,
    )
    return scene(takes(first), takes(second, 2), (Clean(), StepAnswer(data=empty + assigned(second, 2))))


@case("TIM-18", "TIM-19", each=CODECS)
def horizon_of_the_cleaner(codec: Compression) -> Draft:
    """The cleaner counts a batch with a tombstone back from the horizon that it sets, and no timestamp changes."""
    records = (*some_records(2), Record(2, TIMESTAMP + 2, b"gone", None))
    left = batch_of(*records, compression=codec, partition_leader_epoch=0, delete_horizon=NOW + RETENTION)
    answer = StepAnswer(data=bytes_of(left))
    sent = bytes_of(batch_of(*records, compression=codec))
    return scene(takes(sent), (Clean(), answer), since="3.1.0", compare="masked")
