"""Limits on the sizes of batches, segments, requests and fetches (group SIZ)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import grid, raw_message
from kafka_corpus.authoring.messages import numbered, set_of
from kafka_corpus.authoring.steps import (
    OLD_VERSION,
    REBUILT,
    assigned,
    compression,
    fetched,
    kept_batch,
    rebuilt_batch,
    takes,
)
from kafka_corpus.case import Recipe
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Fetch, Produce, StepAnswer
from kafka_records import Record
from kafka_records.broker.errors import (
    CORRUPT_MESSAGE,
    INVALID_PRODUCER_EPOCH,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
)
from kafka_records.constants import Compression

MOST, SEGMENT = "max.message.bytes", "segment.bytes"
CODECS: dict[str, Compression] = {"plain": "none", "gzip": "gzip", "lz4": "lz4"}
MIB = 1024 * 1024
# The smallest segment.bytes that every release takes.
SMALLEST_SEGMENT = {SEGMENT: str(MIB)}
# Segments of less than a MiB are refused since Kafka 4.1.
LAST_OF_SMALL_SEGMENTS = "4.0.2"
WRONG_EPOCH = {"producer_id": 77, "producer_epoch": -2, "base_sequence": 0}


def limit(size: int) -> dict[str, str]:
    """A topic that takes batches of *size* bytes."""
    return {MOST: str(size)}


def sent(codec: Compression = "none", count: int = 2) -> bytes:
    """An ordinary batch."""
    return bytes_of(batch_of(*some_records(count), compression=codec))


@case("SIZ-01", each=CODECS)
def as_large_as_allowed(codec: Compression) -> Draft:
    """A batch of exactly max.message.bytes, its first twelve bytes counted, is stored."""
    data = sent(codec)
    return produced(data, stored(kept_batch(data)), config=limit(len(data)))


@case("SIZ-01", each=CODECS)
def one_byte_larger(codec: Compression) -> Draft:
    """A batch of one byte more than max.message.bytes is too large."""
    data = sent(codec)
    return produced(data, error_answer(MESSAGE_TOO_LARGE), config=limit(len(data) - 1))


@case("SIZ-01", "SIZ-04", each={"at-the-limit": 0, "above": 1})
def message_of_v1(more: int) -> Draft:
    """A v1 message is measured with offset and size, before it becomes a batch."""
    data = raw_message(1, None, b"-" * 500)
    record = Record(0, numbered(1, 0)[0].timestamp, None, b"-" * 500)
    assert len(rebuilt_batch(record)) > len(data)
    # A batch is larger than a message, so the limit is for the result.
    config = limit(len(rebuilt_batch(record)) - more)
    answer = error_answer(MESSAGE_TOO_LARGE) if more else stored(rebuilt_batch(record))
    return produced(data, answer, config=config, api_version=OLD_VERSION)


@case("SIZ-01", "FRM-11")
def tail_is_not_measured() -> Draft:
    """The start of a second batch after the first is neither measured nor stored."""
    data = sent()
    return produced(data + data[:11], stored(kept_batch(data)), config=limit(len(data)))


DEFAULT, OLD_DEFAULT = 1_048_588, 1_000_012


@case("SIZ-02", "PRD-01", each={"at-the-limit": 0, "above": 1})
def default_limit(more: int) -> Draft:
    """The default limit is 1048588: a corrupt batch of that size is corrupt, one of a byte more is too large."""
    payload = Recipe("plain_batch", {"size": DEFAULT + more, "crc": 0})
    return produced(payload, error_answer(MESSAGE_TOO_LARGE if more else CORRUPT_MESSAGE), since="2.5.0")


@case("SIZ-02", "PRD-01", each={"at-the-limit": 0, "above": 1})
def default_limit_before_kafka_2_5(more: int) -> Draft:
    """Up to Kafka 2.4 the default limit was 1000012."""
    payload = Recipe("plain_batch", {"size": OLD_DEFAULT + more, "crc": 0})
    return produced(payload, error_answer(MESSAGE_TOO_LARGE if more else CORRUPT_MESSAGE), until="2.4.1")


@case("SIZ-03", each=CODECS)
def limit_is_for_batches(codec: Compression) -> Draft:
    """Records that are each within the limit are too large together."""
    data = sent(codec, 9)
    assert len(sent(codec, 1)) < len(data) - 1
    return produced(data, error_answer(MESSAGE_TOO_LARGE), config=limit(len(data) - 1))


@case("SIZ-03")
def same_records_one_by_one() -> Draft:
    """The same records are taken one by one."""
    one = sent(count=1)
    return scene(*(takes(one, at) for at in range(3)), config=limit(len(one)))


@case("SIZ-04", each={"at-the-limit": 0, "above": 1})
def measured_again_when_decompressed(more: int) -> Draft:
    """Decompressed records are measured again."""
    record = some_records(1)[0]._replace(value=b"-" * 1000)
    data = bytes_of(batch_of(record, compression="gzip"))
    config = {**limit(len(rebuilt_batch(record)) - more), **compression(REBUILT)}
    return produced(data, error_answer(MESSAGE_TOO_LARGE) if more else stored(rebuilt_batch(record)), config=config)


@case("SIZ-04")
def measured_again_when_compressed() -> Draft:
    """Records that compression makes larger are measured again, in the form in which they would be stored."""
    record = some_records(1)[0]
    data = bytes_of(batch_of(record))
    assert len(rebuilt_batch(record, codec="snappy")) > len(data)
    return produced(data, error_answer(MESSAGE_TOO_LARGE), config={**limit(len(data)), **compression("snappy")})


@case("SIZ-04", "SIZ-01")
def measured_before_it_is_compressed() -> Draft:
    """Records that would be small enough once compressed are too large as they were sent."""
    record = some_records(1)[0]._replace(value=b"-" * 1000)
    config = {**limit(500), **compression("gzip")}
    return produced(bytes_of(batch_of(record)), error_answer(MESSAGE_TOO_LARGE), config=config)


@case("SIZ-06", each=grid(codec=CODECS, more={"at-the-limit": 0, "above": 1}))
def as_large_as_a_segment(shape: dict[str, Any]) -> Draft:
    """An append may be as large as a segment and no larger."""
    data = sent(shape["codec"])
    answer = error_answer(RECORD_LIST_TOO_LARGE) if shape["more"] else stored(kept_batch(data))
    config = {SEGMENT: str(len(data) - shape["more"])}
    return produced(data, answer, config=config, until=LAST_OF_SMALL_SEGMENTS)


@case("SIZ-06", "PRD-01", each={"at-the-limit": 0, "above": 1})
def as_large_as_a_segment_of_a_mib(more: int) -> Draft:
    """A batch as large as the smallest segment gets as far as its producer's epoch; one of a byte more does not."""
    payload = Recipe("plain_batch", {"size": MIB + more, **WRONG_EPOCH})
    return produced(
        payload, error_answer(RECORD_LIST_TOO_LARGE if more else INVALID_PRODUCER_EPOCH), config=SMALLEST_SEGMENT
    )


@case("SIZ-06")
def messages_larger_than_a_segment_together() -> Draft:
    """v1 messages count together: their v2 batch is larger than a segment, and none is stored."""
    records = numbered(1, *range(9))
    config = {SEGMENT: str(len(rebuilt_batch(*records)) - 1)}
    return produced(set_of(records, 1), error_answer(RECORD_LIST_TOO_LARGE), config=config, api_version=OLD_VERSION)


@case("SIZ-06")
def full_segment_rolls() -> Draft:
    """A batch that no longer fits into the segment goes into the next; a fetch reads one segment."""
    first = sent()
    return scene(
        takes(first),
        takes(first, 2),
        (Fetch(), fetched(assigned(first), 4)),
        (Fetch(offset=2), fetched(assigned(first, 2), 4)),
        config={SEGMENT: str(2 * len(first) - 1)},
        until=LAST_OF_SMALL_SEGMENTS,
    )


# socket.request.max.bytes
LARGEST_REQUEST = 100 * MIB


@case("SIZ-07")
def request_too_large() -> Draft:
    """A request of more than 100 MiB ends the connection."""
    return produced(Recipe("plain_batch", {"size": LARGEST_REQUEST + 1, "crc": 0}), StepAnswer(closed=True))


@case("SIZ-07", "SIZ-01")
def request_as_large_as_allowed() -> Draft:
    """A request of a little less than 100 MiB is read, and its batch too large for the topic."""
    payload = Recipe("plain_batch", {"size": LARGEST_REQUEST - 1024, "crc": 0})
    return produced(payload, error_answer(MESSAGE_TOO_LARGE))


def fetch_of_two(codec: Compression, max_bytes: int, data: bytes) -> Draft:
    """Two batches, and a fetch of at most *max_bytes* that brings *data*."""
    batch = sent(codec)
    return scene(takes(batch), takes(batch, 2), (Fetch(max_bytes=max_bytes), fetched(data, 4)))


@case("SIZ-08", each=grid(codec=CODECS, max_bytes={"one": 1, "all-but-one": -1}))
def first_batch_is_whole(shape: dict[str, Any]) -> Draft:
    """The first batch of a fetch is whole, however small the limit of the fetch."""
    batch = sent(shape["codec"])
    size = shape["max_bytes"] % len(batch)
    return fetch_of_two(shape["codec"], size, assigned(batch))


@case("SIZ-08", "FRM-11", each={"nothing": 0, "in-the-offset": 5, "in-the-header": 30, "in-the-records": 80})
def second_batch_is_cut(size: int) -> Draft:
    """Later batches of a fetch are cut at its limit."""
    batch = sent()
    data = assigned(batch) + assigned(batch, 2)[:size]
    return fetch_of_two("none", len(batch) + size, data)


@case("SIZ-08")
def both_batches_fit() -> Draft:
    """A fetch of exactly two batches brings both."""
    batch = sent("lz4")
    return fetch_of_two("lz4", 2 * len(batch), assigned(batch) + assigned(batch, 2))


@case("SIZ-08")
def fetch_from_within() -> Draft:
    """A fetch from the middle of a batch brings it whole, from its start."""
    batch = sent()
    return scene(
        takes(batch),
        takes(batch, 2),
        (Fetch(offset=3, max_bytes=1), fetched(assigned(batch, 2), 4)),
    )


@case("SIZ-08", each={"nothing": 0, "in-the-header": 10, "in-the-value": 35})
def first_message_is_cut(size: int) -> Draft:
    """Before Fetch version 3 even the first message was cut, and a consumer did not get on."""
    message = raw_message(1)
    cut = StepAnswer(data=message[:size], high_watermark=1)
    step = Produce(data=message, api_version=OLD_VERSION)
    fetch = Fetch(api_version=2, max_bytes=size)
    return scene((step, stored(message)), (fetch, cut), since="0.10.0.1", until="0.10.2.2")
