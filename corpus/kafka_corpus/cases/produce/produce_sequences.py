"""Sequence numbers of idempotent producers: in order, repeated, and out of order (group PID)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, flip, grid, put, reseal
from kafka_corpus.authoring.steps import (
    APPEND_TIME,
    PRODUCER_ID,
    AnsweredStep,
    assigned,
    numbered_from,
    refuses,
    repeats,
    takes,
    times,
)
from kafka_corpus.registry import Draft, case, scene, stored
from kafka_corpus.scenario import NOW, Produce
from kafka_records import Record
from kafka_records.broker.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
)
from kafka_records.constants import INT32_MAX, Compression

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
# ProducerStateEntry#NUM_BATCHES_TO_RETAIN
KEPT = 5


@case("PID-06", each=grid(sequence={"1": 1, "77": 77, "largest": INT32_MAX}, codec=CODECS), refs=["A20", "KIP-360"])
def first_sequence_of_an_unknown_producer(shape: dict[str, Any]) -> Draft:
    """A producer that the broker does not know may start at any sequence."""
    return scene(takes(numbered_from(shape["sequence"], 2, shape["codec"])))


GAPS = {"one missing": 4, "again": 0, "backwards": 1, "last again": 2, "far": 1000, "largest": INT32_MAX}


@case("PID-07", "PID-16", each=grid(sequence=GAPS, codec=CODECS), refs=["A20"])
def gap_between_sequences(shape: dict[str, Any]) -> Draft:
    """A known producer's batch that does not start at the last sequence plus 1 is refused."""
    sequence, codec = shape["sequence"], shape["codec"]
    return scene(
        takes(numbered_from(0, 3, codec)),
        refuses(numbered_from(sequence, 2, codec), OUT_OF_ORDER_SEQUENCE_NUMBER),
        takes(numbered_from(3, 2, codec), 3),
    )


@case("PID-07", "PID-16", each=CODECS)
def sequences_that_follow(codec: Compression) -> Draft:
    """Each batch starts at the sequence after the last record of the one before it."""
    return scene(
        takes(numbered_from(0, 1, codec)),
        takes(numbered_from(1, 4, codec), 1),
        takes(numbered_from(5, 2, codec), 5),
        takes(numbered_from(7, 1, codec), 7),
    )


@case("PID-10", "PID-07", each=grid(count={"at the edge": 1, "inside": 3}, codec=CODECS), refs=["A21"])
def sequences_wrap(shape: dict[str, Any]) -> Draft:
    """Sequences wrap from 2147483647 to 0, between two batches or inside one."""
    count, codec = shape["count"], shape["codec"]
    first = numbered_from(INT32_MAX, count, codec)
    return scene(takes(first), takes(numbered_from(count - 1, 2, codec), count), repeats(first))


@case("PID-10", "PID-07", each={"1 instead of 0": 1, "backwards": INT32_MAX - 1}, refs=["A21"])
def sequences_do_not_wrap_elsewhere(sequence: int) -> Draft:
    """After sequence 2147483647 only 0 is taken."""
    return scene(
        takes(numbered_from(INT32_MAX)),
        refuses(numbered_from(sequence), OUT_OF_ORDER_SEQUENCE_NUMBER),
        takes(numbered_from(0), 1),
    )


@case("PID-10", "PID-03", refs=["A21"])
def sequences_never_wrap_to_a_negative() -> Draft:
    """A sequence that overflows 32 bits, a negative one, is none."""
    return scene(takes(numbered_from(INT32_MAX)), refuses(numbered_from(-(2**31)), INVALID_RECORD))


def window(number: int, codec: Compression = "none") -> list[tuple[bytes, AnsweredStep]]:
    """*count* batches of two records, one after the other, and the answer to each."""
    batches = [numbered_from(2 * at, 2, codec) for at in range(number)]
    return [(batch, takes(batch, 2 * at)) for at, batch in enumerate(batches)]


@case("PID-08", "PID-09", each=grid(back={"last": 1, "second last": 2, "fifth last": KEPT}, codec=CODECS), refs=["A18"])
def repeated_batch(shape: dict[str, Any]) -> Draft:
    """Any of the last five batches of a producer is answered with its old offset, and not stored again."""
    sent = window(KEPT + 1, shape["codec"])
    at = len(sent) - shape["back"]
    return scene(*(step for _, step in sent), repeats(sent[at][0], 2 * at))


@case("PID-09", each=grid(back={"sixth": KEPT + 1, "seventh": KEPT + 2}, codec=CODECS), refs=["A18", "A19"])
def batch_repeated_too_late(shape: dict[str, Any]) -> Draft:
    """The sixth last batch is not remembered: to send it again is out of order."""
    sent = window(KEPT + 2, shape["codec"])
    again = sent[len(sent) - shape["back"]][0]
    return scene(*(step for _, step in sent), refuses(again, OUT_OF_ORDER_SEQUENCE_NUMBER))


OVERLAPS = {"head": (0, 2), "tail": (1, 2), "middle": (1, 1), "beyond": (2, 2), "more": (0, 4)}


@case("PID-09", "PID-07", each=grid(range=OVERLAPS, codec=CODECS), refs=["A19"])
def overlapping_batch(shape: dict[str, Any]) -> Draft:
    """A batch that has some of the sequences of another, but not just those, is no duplicate."""
    (sequence, count), codec = shape["range"], shape["codec"]
    return scene(
        takes(numbered_from(0, 3, codec)),
        refuses(numbered_from(sequence, count, codec), OUT_OF_ORDER_SEQUENCE_NUMBER),
    )


@case("PID-09", "PID-07")
def two_batches_as_one() -> Draft:
    """Two stored batches sent again as one are no duplicate."""
    return scene(
        takes(numbered_from(0, 2)),
        takes(numbered_from(2, 2), 2),
        refuses(numbered_from(0, 4), OUT_OF_ORDER_SEQUENCE_NUMBER),
    )


def like(*records: Record, codec: Compression = "none") -> bytes:
    """A batch with the sequences of `numbered_from(0, len(records))`, and other records."""
    fields = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": 0}
    return bytes_of(batch_of(*records, compression=codec, **fields))


OTHERS: dict[str, bytes] = {
    "values": like(*(record._replace(value=b"other") for record in some_records(2))),
    "codec": like(*some_records(2), codec="gzip"),
    "later": like(*(record._replace(timestamp=TIMESTAMP + 9999) for record in some_records(2))),
}


@case("PID-09", "PID-08", each=OTHERS)
def duplicate_of_other_contents(again: bytes) -> Draft:
    """A batch with the sequences of another one is its duplicate, whatever records it holds."""
    first = numbered_from(0, 2)
    return scene(takes(first), repeats(again, timestamp=TIMESTAMP + 1))


@case("PID-08", "TIM-23", each=CODECS)
def repeated_on_an_append_time_topic(codec: Compression) -> Draft:
    """On a LogAppendTime topic a duplicate is answered with the time at which the first copy was appended."""
    batch = numbered_from(0, 2, codec)
    return scene(times(batch), repeats(batch, timestamp=NOW), config=APPEND_TIME)


@case("PID-08", "RWR-05")
def repeated_where_batches_are_built_anew() -> Draft:
    """A batch that the broker rebuilt is known by its sequences like any other."""
    batch = numbered_from(0, 2)
    once = Produce(data=batch), stored(assigned(numbered_from(0, 2, "gzip")))
    return scene(once, repeats(batch), config={"compression.type": "gzip"}, compare="masked")


@case("PID-08", "PID-13")
def repeated_sequence_of_another_epoch() -> Draft:
    """The same sequences in a higher epoch are new records."""
    return scene(takes(numbered_from(0, 2)), takes(numbered_from(0, 2, epoch=1), 2))


@case("PID-08", "PID-06")
def repeated_sequence_of_another_producer() -> Draft:
    """The same sequences of another producer are new records."""
    return scene(takes(numbered_from(0, 2)), takes(numbered_from(0, 2, producer_id=PRODUCER_ID + 1), 2))


TWO = numbered_from(0, 2)
WRONG: dict[str, tuple[bytes, int]] = {
    "corrupt": (flip(TWO, len(TWO) - 1), CORRUPT_MESSAGE),
    "base offset": (put(TWO, "base_offset", 1), INVALID_RECORD),
    "count": (reseal(put(TWO, "record_count", 3)), INVALID_RECORD),
    "control": (reseal(put(TWO, "attributes", 0x20)), INVALID_RECORD),
    "too large": (like(*(record._replace(value=bytes(500)) for record in some_records(2))), MESSAGE_TOO_LARGE),
    "unknown codec": (reseal(put(TWO, "attributes", 7)), UNKNOWN_SERVER_ERROR),
}


@case("PID-15", each=WRONG)
def duplicate_with_a_fault(shape: tuple[bytes, int]) -> Draft:
    """A faulty batch is refused for its fault before the search for duplicates."""
    batch, error_code = shape
    return scene(takes(TWO), refuses(batch, error_code), config={"max.message.bytes": "500"})


@case("PID-15", "TIM-14")
def duplicate_with_a_wrong_time() -> Draft:
    """The times of a duplicate's records are looked at, and each is named that is wrong."""
    batch = reseal(put(put(TWO, "attributes", 8), "max_timestamp", -1))
    return scene(takes(TWO), refuses(batch, INVALID_TIMESTAMP, record_errors=(0, 1)))


@case("PID-15", "SIZ-06")
def duplicate_larger_than_a_segment() -> Draft:
    """A duplicate that would not fit into a segment is too large before it is a duplicate."""
    large = like(*(record._replace(value=bytes(700)) for record in some_records(2)))
    config = {"segment.bytes": "1000"}
    return scene(takes(TWO), refuses(large, RECORD_LIST_TOO_LARGE), config=config, until="3.9.2")
