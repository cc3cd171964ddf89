"""The header of a produced batch on brokers (group HDR)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, payload_of, some_records
from kafka_corpus.authoring.build import grid, put, raw_batch, raw_message, raw_record, reseal
from kafka_corpus.authoring.messages import numbered, wrapped
from kafka_corpus.authoring.steps import enclosed, kept_batch
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Produce
from kafka_records.broker.errors import CORRUPT_MESSAGE, INVALID_RECORD, NONE, UNKNOWN_SERVER_ERROR
from kafka_records.constants import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Compression

PLAIN = bytes_of(batch_of(*some_records(2)))
GZIP = bytes_of(batch_of(*some_records(2), compression="gzip"))
BATCHES = {"none": PLAIN, "gzip": GZIP}
RECORDS = payload_of(some_records(2))
CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}


def counted(codec: Compression, record_count: int, last_offset_delta: int) -> bytes:
    """Two records in a batch that says other numbers."""
    fields = {"record_count": record_count, "last_offset_delta": last_offset_delta}
    return enclosed(codec, RECORDS, max_timestamp=some_records(2)[1].timestamp, **fields)


def short_batch(size: int, attributes: int = 0) -> bytes:
    """The first *size* bytes of a batch that says that this is all, its checksum right."""
    fields = {"batch_length": size - 12, "attributes": attributes}
    return reseal(raw_batch(b"", **fields)[:size])


@case(
    "HDR-05",
    each={
        f"{name}, {size}": short_batch(size, codec)
        for name, codec in (("none", 0), ("gzip", 1))
        for size in (51, 57, 60)
    },
)
def header_cut_in_its_last_fields_is_corrupt(payload: bytes) -> Draft:
    """A batch of 51 to 60 bytes is corrupt, though its checksum is right."""
    return produced(payload, error_answer(CORRUPT_MESSAGE))


@case(
    "HDR-05",
    each={
        f"{name}, {size}": short_batch(size, codec)
        for name, codec in (("none", 0), ("gzip", 1))
        for size in (26, 43, 50)
    },
)
def header_cut_before_the_producer_is_an_unknown_error(payload: bytes) -> Draft:
    """A batch of 26 to 50 bytes has no whole producer id to look at: Java's IndexOutOfBoundsException."""
    return produced(payload, error_answer(UNKNOWN_SERVER_ERROR))


@case("HDR-05", "HDR-11")
def header_of_61_bytes_is_long_enough() -> Draft:
    """A batch of 61 bytes is no longer corrupt; its fault is that it has no records."""
    return produced(raw_batch(b"", record_count=0, last_offset_delta=0), error_answer(INVALID_RECORD))


@case("HDR-05", each={"51 bytes": 51, "60 bytes": 60})
def corrupt_header_refuses_one_partition(size: int) -> Draft:
    """A header that is cut in its last fields is that partition's error; another is stored."""
    return scene((Produce(data=short_batch(size), beside=PLAIN), error_answer(CORRUPT_MESSAGE, beside=NONE)))


@case(
    "HDR-06",
    each={
        f"{name}, {offset}": put(batch, "base_offset", offset)
        for name, batch in BATCHES.items()
        for offset in (-1, 1, INT64_MAX)
    },
)
def base_offset_other_than_zero_is_refused(payload: bytes) -> Draft:
    """A base offset other than 0 is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("HDR-06", "OFF-01")
def base_offset_of_the_next_batch_is_zero_too() -> Draft:
    """A producer does not count on from its last batch: the base offset that the broker would give is refused."""
    return scene(
        (Produce(data=PLAIN), stored(kept_batch(PLAIN))),
        (Produce(data=put(PLAIN, "base_offset", 2)), error_answer(INVALID_RECORD)),
    )


@case(
    "HDR-07",
    "CRC-11",
    each={
        f"{name}, {epoch}": put(batch, "partition_leader_epoch", epoch)
        for name, batch in BATCHES.items()
        for epoch in (7, INT32_MAX, INT32_MIN)
    },
)
def leader_epoch_of_a_producer_is_replaced(payload: bytes) -> Draft:
    """The broker stores its own leader epoch whatever was sent, and the checksum stays right."""
    return produced(payload, stored(kept_batch(payload)))


@case(
    "HDR-08",
    "PRD-05",
    each={"v0": raw_message(0, b"key"), "v1": raw_message(1, b"key"), "wrapper": wrapped(numbered(1, 0), 1, "gzip")[0]},
)
def message_in_a_new_request_is_refused(payload: bytes) -> Draft:
    """From produce version 3 on a payload has to be a v2 batch."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("HDR-08")
def batch_in_an_old_request_is_accepted() -> Draft:
    """Before produce version 3 nothing is said about the magic, so a v2 batch is stored."""
    return produced(PLAIN, stored(kept_batch(PLAIN)), api_version=2, since="0.11.0.3")


@case(
    "HDR-10",
    each={
        f"{name}, {delta}": counted(codec, 2, delta) for name, codec in CODECS.items() for delta in (-1, -2, INT32_MIN)
    },
)
def negative_offset_range_is_refused(payload: bytes) -> Draft:
    """A last offset delta below 0 is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("HDR-10", "HDR-12", each={name: counted(codec, 2, INT32_MAX) for name, codec in CODECS.items()})
def largest_offset_range_is_refused(payload: bytes) -> Draft:
    """The range is counted in 64 bits, so the largest delta does not make it negative; the count differs."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "HDR-11",
    each={f"{name}, delta {delta}": counted(codec, 0, delta) for name, codec in CODECS.items() for delta in (0, 1)},
)
def record_count_of_zero_is_refused(payload: bytes) -> Draft:
    """A client's batch has to say that it holds a record."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "HDR-12",
    each={
        f"{name}, {count} records, delta {delta}": counted(codec, count, delta)
        for name, codec in CODECS.items()
        for count, delta in ((2, 0), (2, 2), (1, 1), (3, 1))
    },
)
def record_count_other_than_the_offset_range_is_refused(payload: bytes) -> Draft:
    """The record count has to be the last offset delta plus 1, though one of them be right."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "HDR-13",
    each={f"{name}, {count}": counted(codec, count, count - 1) for name, codec in CODECS.items() for count in (3, 100)},
)
def record_count_above_the_records_is_refused(payload: bytes) -> Draft:
    """A record count above the number of records is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("HDR-13", each={name: enclosed(codec, b"") for name, codec in CODECS.items()})
def records_of_no_bytes_are_refused(payload: bytes) -> Draft:
    """A batch that claims one record and has no bytes after its header, or compressed nothing, is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("HDR-14", each={name: counted(codec, 1, 0) for name, codec in CODECS.items()})
def record_count_below_the_records_is_refused(payload: bytes) -> Draft:
    """A record count below the number of records is refused: bytes are left."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "HDR-15",
    each={f"{name}, {count}": counted(codec, count, 1) for name, codec in CODECS.items() for count in (-1, INT32_MIN)},
)
def record_count_below_zero_is_refused(payload: bytes) -> Draft:
    """A record count below 0 is refused."""
    return produced(payload, error_answer(INVALID_RECORD))


@case("HDR-18", "HDR-13", each={name: counted(codec, INT32_MAX, INT32_MAX - 1) for name, codec in CODECS.items()})
def largest_record_count_is_refused(payload: bytes) -> Draft:
    """A count of 2^31 - 1 makes the broker run out of records, not of memory."""
    return produced(payload, error_answer(INVALID_RECORD))


@case(
    "HDR-23",
    each=grid(
        codec={**CODECS},
        producer_id={"-2": -2, "lowest": INT64_MIN},
        base_sequence={"-1": -1, "-9": -9},
    ),
)
def producer_id_below_minus_one_is_none(given: dict[str, Any]) -> Draft:
    """A producer id of -2 or below is no producer's: its sequence is not checked, and it is stored unchanged."""
    fields = {"producer_id": given["producer_id"], "base_sequence": given["base_sequence"], "producer_epoch": -7}
    batch = enclosed(given["codec"], raw_record(), **fields)
    return produced(batch, stored(kept_batch(batch)))


@case(
    "HDR-23",
    "PID-03",
    each={name: enclosed(codec, raw_record(), producer_id=0, producer_epoch=0) for name, codec in CODECS.items()},
)
def producer_id_of_zero_is_a_producers(payload: bytes) -> Draft:
    """A producer id of 0 is a producer's, which has to number its batches."""
    return produced(payload, error_answer(INVALID_RECORD))
