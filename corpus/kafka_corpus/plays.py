"""Steps and what is answered to them, for scenarios of more than one payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_corpus.batches import APPEND, batch_of, bytes_of, some_records
from kafka_corpus.build import packed, put, raw_batch, raw_record, reseal
from kafka_corpus.registry import refused, stored
from kafka_corpus.scenario import NOW, Fetch, Produce, Step, StepAnswer
from kafka_records.constants import Compression
from kafka_records.layout import BATCH_V2

# A producer id that no broker gave to us; brokers do not ask where an id is from.
PRODUCER_ID = 77
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}

Played = tuple[Step, StepAnswer]


def sent(count: int = 1, codec: Compression = "none", **fields: Any) -> bytes:
    """A batch of so many records from a producer; *fields* are those of `Batch`."""
    return bytes_of(batch_of(*some_records(count), compression=codec, **fields))


def numbered_from(
    sequence: int, count: int = 1, codec: Compression = "none", *, epoch: int = 0, **fields: Any
) -> bytes:
    """A batch of an idempotent producer, its first record at *sequence*."""
    known = {"producer_id": PRODUCER_ID, "producer_epoch": epoch, "base_sequence": sequence}
    return sent(count, codec, **(known | fields))


def with_deltas(deltas: Sequence[int], codec: Compression = "none", **fields: int) -> bytes:
    """A batch whose records have these offset deltas; its header counts them as if they were in order."""
    plain = b"".join(raw_record(offset_delta=delta, value=b"%d" % at) for at, delta in enumerate(deltas))
    if codec == "none":
        return raw_batch(plain, record_count=len(deltas), **fields)
    return packed(codec, plain, record_count=len(deltas), **fields)


def assigned(batch: bytes, base_offset: int = 0, *, appended: bool = False) -> bytes:
    """*batch* as a broker stores it unless it builds it anew; *appended* on a LogAppendTime topic.

    Offset and leader epoch lie before what the CRC covers (RWR-01).
    """
    if appended:
        batch = put(batch, "attributes", number_in(batch, "attributes") | APPEND)
        batch = reseal(put(batch, "max_timestamp", NOW))
    return put(put(batch, "base_offset", base_offset), "partition_leader_epoch", 0)


def number_in(batch: bytes, field: str) -> int:
    """A signed number in the header of a v2 batch."""
    where = BATCH_V2.field(field)
    return int.from_bytes(batch[where.offset : where.offset + where.width], "big", signed=True)


def takes(batch: bytes, base_offset: int = 0, **fields: Any) -> Played:
    """*batch* is produced, and stored as it is; *fields* are those of `Produce`."""
    return Produce(data=batch, **fields), stored(assigned(batch, base_offset), base_offset=base_offset)


def times(batch: bytes, base_offset: int = 0) -> Played:
    """*batch* is produced to a LogAppendTime topic, which puts its time into the header (RWR-02)."""
    data = assigned(batch, base_offset, appended=True)
    return Produce(data=batch), stored(data, base_offset=base_offset, log_append_time=NOW)


def refuses(batch: bytes, error_code: int, **more: Any) -> Played:
    """*batch* is produced, and refused."""
    return Produce(data=batch), refused(error_code, **more)


def repeats(batch: bytes, base_offset: int = 0, *, timestamp: int | None = None) -> Played:
    """*batch* is one that the broker has: its old offset is answered, and nothing is stored.

    The time is the max timestamp of the first copy, whatever the topic's timestamp type (TIM-23).
    """
    first = number_in(batch, "max_timestamp") if timestamp is None else timestamp
    return Produce(data=batch), stored(b"", base_offset=base_offset, log_append_time=first)


def fetched(data: bytes, end: int, *, stable: int | None = None, **more: Any) -> StepAnswer:
    """What a fetch brings from a log that ends at offset *end*; *stable* is where the first open transaction begins."""
    return StepAnswer(data=data, high_watermark=end, last_stable_offset=end if stable is None else stable, **more)


def fetches(data: bytes, end: int, offset: int = 0, **fields: Any) -> Played:
    """A fetch from *offset* brings *data*; *fields* are those of `Fetch`."""
    return Fetch(offset=offset, **fields), fetched(data, end)
