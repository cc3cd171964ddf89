"""LogAppendTime on brokers: the topic's, and bit 3 in a producer's batch (group TIM)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import APPEND, some_records
from kafka_corpus.authoring.build import TIMESTAMP, grid
from kafka_corpus.authoring.frames import codec_id
from kafka_corpus.authoring.steps import APPEND_TIME, REBUILT, compression, fetches, kept_batch, rebuilt_batch
from kafka_corpus.cases.produce.produce_timestamps import (
    AFTER,
    BEFORE,
    CODECS,
    LIMITS_SPLIT,
    YEAR_2100,
    records_at,
    timed,
)
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import NOW, FindOffset, Produce, StepAnswer
from kafka_records.broker.errors import INVALID_TIMESTAMP
from kafka_records.constants import Compression

# Records of 1970 are before it, those of 2023 within it until 2063.
FORTY_YEARS = str(40 * 365 * 86_400_000)


def stamped(data: bytes, codec: Compression, attributes: int = 0) -> StepAnswer:
    """*data* on a LogAppendTime topic: bit 3, the broker's time as max timestamp, and everything else as sent."""
    fields = {"attributes": codec_id(codec) | APPEND | attributes, "max_timestamp": NOW}
    return stored(kept_batch(data, **fields), log_append_time=NOW)


TIMES = {"ordinary": (TIMESTAMP, TIMESTAMP + 5), "none": (-1, -1), "below": (-2, -9), "2100": (YEAR_2100, 0)}


@case("TIM-12", "RWR-02", each=grid(codec=CODECS, timestamps=TIMES))
def append_time_of_the_topic(shape: dict[str, Any]) -> Draft:
    """A LogAppendTime topic sets bit 3, max timestamp and CRC, and leaves base timestamp and deltas as sent."""
    data = timed(*shape["timestamps"], codec=shape["codec"])
    return produced(data, stamped(data, shape["codec"]), config=APPEND_TIME)


@case("TIM-12", "TIM-10", each=CODECS)
def limits_on_append_time(codec: Compression) -> Draft:
    """A LogAppendTime topic has no limits for timestamps, even if they are configured."""
    data = timed(TIMESTAMP, YEAR_2100, codec=codec)
    config = {**APPEND_TIME, BEFORE: "1000", AFTER: "1000"}
    return produced(data, stamped(data, codec), config=config, since=LIMITS_SPLIT)


@case("TIM-12", "TIM-02")
def append_time_fetched_back() -> Draft:
    """Nothing of the producer's times is found again on a LogAppendTime topic: all records have the broker's."""
    data = timed(TIMESTAMP, TIMESTAMP + 5)
    answer = stamped(data, "none")
    # All records are later than this, so that the first is found.
    found = FindOffset(TIMESTAMP + 5), StepAnswer(base_offset=0)
    return scene((Produce(data=data), answer), fetches(answer.data, 2), found, config=APPEND_TIME)


@case("TIM-12", "RWR-02")
def max_timestamp_on_append_time() -> Draft:
    """The producer's max timestamp means nothing on a LogAppendTime topic."""
    data = timed(TIMESTAMP, max_timestamp=5)
    return produced(data, stamped(data, "none"), config=APPEND_TIME)


@case("RWR-12", "TIM-12", each={"compressed": ("none", "lz4"), "recompressed": ("gzip", "snappy")})
def append_time_rebuilt(codecs: tuple[Compression, Compression]) -> Draft:
    """A batch rebuilt on a LogAppendTime topic has bit 3 and the broker's time, over the producer's deltas."""
    source, target = codecs
    batch = rebuilt_batch(
        *records_at(TIMESTAMP, TIMESTAMP + 5), codec=target, timestamp_type="append", max_timestamp=NOW
    )
    answer = stored(batch, log_append_time=NOW)
    config = {**APPEND_TIME, **compression(target)}
    return produced(timed(TIMESTAMP, TIMESTAMP + 5, codec=source), answer, config=config, compare="masked")


@case("RWR-12", "RWR-11")
def append_time_decompressed() -> Draft:
    """A batch that is decompressed on a LogAppendTime topic keeps base timestamp and deltas."""
    batch = rebuilt_batch(*records_at(TIMESTAMP + 5, TIMESTAMP), timestamp_type="append", max_timestamp=NOW)
    config = {**APPEND_TIME, **compression(REBUILT)}
    return produced(timed(TIMESTAMP + 5, TIMESTAMP, codec="gzip"), stored(batch, log_append_time=NOW), config=config)


@case("TIM-13", each=grid(codec=CODECS, maximum={"recent": TIMESTAMP, "none": -1}))
def bit_3_on_append_time(shape: dict[str, Any]) -> Draft:
    """A producer must not set bit 3 on a LogAppendTime topic; every record is at fault."""
    codec = shape["codec"]
    data = timed(TIMESTAMP, TIMESTAMP, codec=codec, attributes=APPEND, max_timestamp=shape["maximum"])
    return produced(data, error_answer(INVALID_TIMESTAMP, record_errors=(0, 1)), config=APPEND_TIME)


@case("TIM-13", "RWR-12")
def bit_3_on_append_time_rebuilt() -> Draft:
    """A producer must not set bit 3 on a LogAppendTime topic that rebuilds batches either."""
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(0,))
    return produced(timed(TIMESTAMP, attributes=APPEND), answer, config={**APPEND_TIME, **compression("gzip")})


@case("TIM-14", each=CODECS)
def bit_3_without_a_time(codec: Compression) -> Draft:
    """Bit 3 from a producer is refused on a CreateTime topic if the max timestamp is -1."""
    data = timed(TIMESTAMP, codec=codec, attributes=APPEND, max_timestamp=-1)
    return produced(data, error_answer(INVALID_TIMESTAMP, record_errors=(0,)))


@case("TIM-14", each={"0": 0, "minus-2": -2})
def bit_3_with_any_time(maximum: int) -> Draft:
    """Bit 3 from a producer is let through on a CreateTime topic with any other max timestamp."""
    data = timed(TIMESTAMP, attributes=APPEND, max_timestamp=maximum)
    return produced(data, stored(kept_batch(data, attributes=0, max_timestamp=max(maximum, -1))))


@case("TIM-14", each=CODECS)
def bit_3_before_kafka_3_6(codec: Compression) -> Draft:
    """Before Kafka 3.6 bit 3 from a producer is refused on every topic."""
    data = timed(TIMESTAMP, codec=codec, attributes=APPEND)
    return produced(data, error_answer(INVALID_TIMESTAMP, record_errors=(0,)), until="3.5.2")


@case("TIM-15", "RWR-02", each=grid(codec=CODECS, maximum={"too-low": 5, "right": TIMESTAMP + 9, "recent": TIMESTAMP}))
def bit_3_cleared(shape: dict[str, Any]) -> Draft:
    """Bit 3 that is let through is cleared, and the max timestamp stays the producer's, below the records' own."""
    codec = shape["codec"]
    data = timed(TIMESTAMP, TIMESTAMP + 9, codec=codec, attributes=APPEND, max_timestamp=shape["maximum"])
    return produced(data, stored(kept_batch(data, attributes=codec_id(codec))))


@case("TIM-15")
def record_behind_the_max_timestamp() -> Draft:
    """A record later than the max timestamp that bit 3 let through is not found by its time."""
    data = timed(TIMESTAMP, TIMESTAMP + 9, attributes=APPEND, max_timestamp=TIMESTAMP)
    cleared = kept_batch(data, attributes=0)
    lost = FindOffset(TIMESTAMP + 9), StepAnswer()
    found = FindOffset(TIMESTAMP), StepAnswer(base_offset=0)
    return scene((Produce(data=data), stored(cleared)), fetches(cleared, 2), lost, found)


@case("TIM-16", each=CODECS)
def bit_3_gets_round_the_limit(codec: Compression) -> Draft:
    """With bit 3 the limit is for the max timestamp, so that a record of 1970 is accepted."""
    data = timed(5, codec=codec, attributes=APPEND, max_timestamp=TIMESTAMP)
    answer = stored(kept_batch(data, attributes=codec_id(codec)))
    return produced(data, answer, config={BEFORE: FORTY_YEARS}, since=LIMITS_SPLIT)


@case("TIM-16", "TIM-10")
def same_record_without_bit_3() -> Draft:
    """Without bit 3 the limit is for the record, whatever the max timestamp."""
    data = timed(5, max_timestamp=TIMESTAMP)
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(0,))
    return produced(data, answer, config={BEFORE: FORTY_YEARS}, since=LIMITS_SPLIT)


@case("TIM-16")
def bit_3_and_a_max_timestamp_beyond() -> Draft:
    """With bit 3 and a max timestamp beyond the limit, every record is refused, though none is beyond it."""
    data = timed(TIMESTAMP, TIMESTAMP, attributes=APPEND, max_timestamp=5)
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(0, 1))
    return produced(data, answer, config={BEFORE: FORTY_YEARS}, since=LIMITS_SPLIT)


@case("TIM-26", each={"compressed": ("none", "lz4"), "recompressed": ("gzip", "lz4"), "decompressed": ("gzip", "none")})
def bit_3_rebuilt(codecs: tuple[Compression, Compression]) -> Draft:
    """Where the batch is rebuilt, bit 3 gives every record the producer's max timestamp."""
    source, target = codecs
    data = timed(TIMESTAMP, TIMESTAMP + 9, codec=source, attributes=APPEND, max_timestamp=TIMESTAMP - 77)
    answer = stored(rebuilt_batch(*records_at(TIMESTAMP - 77, TIMESTAMP - 77), codec=target))
    config = compression(REBUILT if target == "none" else target)
    return produced(data, answer, config=config, compare="exact" if target == "none" else "masked")


@case("TIM-23")
def create_time_in_the_answer() -> Draft:
    """On a CreateTime topic the answer says no time, even if the batch is new in every respect."""
    data = timed(*(record.timestamp for record in some_records(2)))
    return scene((Produce(data=data), stored(kept_batch(data), log_append_time=-1)), fetches(kept_batch(data), 2))
