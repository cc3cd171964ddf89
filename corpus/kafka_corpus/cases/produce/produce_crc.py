"""The checksum of a produced batch on brokers: how they verify and change it (group CRC)."""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, flip, grid, put, raw_batch, raw_record, record, reseal
from kafka_corpus.authoring.shapes import CODECS
from kafka_corpus.authoring.steps import enclosed, kept_batch, since_of, stamped, written
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import NOW, Fetch, Produce
from kafka_records.broker.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    NONE,
    UNKNOWN_SERVER_ERROR,
)
from kafka_records.checksum import checksum_v2
from kafka_records.constants import Compression
from kafka_records.layout import BATCH_V2

PLAIN: Final = bytes_of(batch_of(*some_records(2)))
GZIP: Final = bytes_of(batch_of(*some_records(2), compression="gzip"))
BATCHES: Final = {"none": PLAIN, "gzip": GZIP}
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
COVERED_FROM: Final = BATCH_V2.field("attributes").offset
COVERED: Final = [field for field in BATCH_V2.fields if field.offset >= COVERED_FROM]


@case(
    "CRC-01",
    "CRC-07",
    each={
        f"{name}, {field.name}": flip(batch, field.offset + field.width - 1, 0x80)
        for name, batch in BATCHES.items()
        for field in COVERED
    },
)
def each_field_behind_the_checksum_is_covered(payload: bytes) -> Draft:
    """A bit turned over in any field from the attributes on makes the checksum wrong."""
    return produced(payload, error_answer(CORRUPT_MESSAGE))


@case(
    "CRC-01",
    "CRC-07",
    each={
        f"{name}, {label}": flip(batch, at % len(batch))
        for name, batch in BATCHES.items()
        for label, at in (("first byte", COVERED_FROM), ("first of the records", BATCH_V2.size), ("last byte", -1))
    },
)
def first_and_last_bytes_are_covered(payload: bytes) -> Draft:
    """The checksum is over byte 21 to the end of the batch."""
    return produced(payload, error_answer(CORRUPT_MESSAGE))


@case(
    "CRC-01",
    "CRC-05",
    each={
        f"{name}, {label}": put(batch, "crc", crc)
        for name, batch in BATCHES.items()
        for label, crc in (
            ("CRC-32 instead", crc32(batch[COVERED_FROM:])),
            ("0", 0),
            ("2^32 - 1", 2**32 - 1),
            ("one more", checksum_v2(batch) + 1),
            ("inverted", checksum_v2(batch) ^ 0xFFFFFFFF),
        )
    },
)
def another_checksum_is_corrupt(payload: bytes) -> Draft:
    """A producer has to compute the CRC-32C, and nothing else passes."""
    return produced(payload, error_answer(CORRUPT_MESSAGE))


@case("CRC-05", each=CODECS)
def right_checksum_is_accepted(codec: Compression) -> Draft:
    """A batch whose producer computed the CRC-32C over its compressed bytes is stored."""
    batch = bytes_of(batch_of(*some_records(3), compression=codec))
    return produced(batch, stored(kept_batch(batch)), since=since_of(codec))


@case("CRC-06", "CMP-01", each=["gzip", "lz4", "snappy", "zstd"])
def checksum_is_looked_at_before_the_codec(codec: Compression) -> Draft:
    """A wrong checksum decides where the compressed bytes are invalid, too."""
    attributes = list(CODECS).index(codec)
    batch = raw_batch(b"not compressed", attributes=attributes)
    return produced(flip(batch, len(batch) - 1), error_answer(CORRUPT_MESSAGE), since=since_of(codec))


@case("CRC-06", each={"codec 5": {"attributes": 5}, "control": {"attributes": 32}, "count 0": {"record_count": 0}})
def checksum_is_looked_at_before_the_header(fields: dict[str, int]) -> Draft:
    """A wrong checksum decides even where the header has impossible values."""
    batch = raw_batch(raw_record(), **{"last_offset_delta": 0, "record_count": 1} | fields)
    return produced(flip(batch, len(batch) - 1), error_answer(CORRUPT_MESSAGE))


@case("CRC-06", "CRC-07", each=BATCHES)
def wrong_checksum_refuses_one_partition(batch: bytes) -> Draft:
    """A wrong checksum is that partition's error: another in the same request is stored."""
    data = flip(batch, len(batch) - 1)
    return scene((Produce(data=data, beside=batch), error_answer(CORRUPT_MESSAGE, beside=NONE)))


@case("CRC-07", "CRC-06")
def wrong_checksum_leaves_the_log_as_it_was() -> Draft:
    """Nothing is stored of a corrupt batch, and the next one gets the next offset."""
    return scene(
        (Produce(data=PLAIN), stored(kept_batch(PLAIN))),
        (Produce(data=flip(PLAIN, 61)), error_answer(CORRUPT_MESSAGE)),
        (Produce(data=PLAIN), stored(kept_batch(PLAIN, base_offset=2), base_offset=2)),
    )


def spoiled(*faults: str) -> bytes:
    """A batch with some of: a base offset, a size above 100 bytes, a wrong checksum."""
    batch = bytes_of(batch_of(*some_records(8 if "large" in faults else 1)))
    batch = put(batch, "base_offset", 5) if "offset" in faults else batch
    return flip(batch, 30) if "corrupt" in faults else batch


ORDERED: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "all three": (("offset", "large", "corrupt"), INVALID_RECORD),
    "offset and size": (("offset", "large"), INVALID_RECORD),
    "offset and checksum": (("offset", "corrupt"), INVALID_RECORD),
    "size and checksum": (("large", "corrupt"), MESSAGE_TOO_LARGE),
    "size": (("large",), MESSAGE_TOO_LARGE),
    "checksum": (("corrupt",), CORRUPT_MESSAGE),
}


@case("CRC-09", "PRD-01", each=ORDERED)
def checks_come_in_their_order(given: tuple[tuple[str, ...], int]) -> Draft:
    """The base offset is checked first, then the size, then the checksum: the first that is wrong decides."""
    faults, code = given
    return produced(spoiled(*faults), error_answer(code), config={"max.message.bytes": "100"})


@case("CRC-10", "CRC-11", "RWR-01", each=CODECS)
def bytes_behind_the_checksum_are_the_producers(codec: Compression) -> Draft:
    """Where nothing has to be changed, bytes 17 and on are those that were sent, at any offset."""
    batch = bytes_of(batch_of(*some_records(2), compression=codec))
    second = kept_batch(batch, base_offset=2)
    assert second[17:] == batch[17:]
    return scene(
        (Produce(data=batch), stored(kept_batch(batch))),
        (Produce(data=batch), stored(second, base_offset=2)),
        (Fetch(offset=2), stored(second, base_offset=-1, high_watermark=4, last_stable_offset=4)),
        since=since_of(codec),
    )


@case(
    "CRC-10",
    "RWR-02",
    each=grid(
        codec={"none": "none", "gzip": "gzip"},
        maximum={"too late": TIMESTAMP + 9, "too early": TIMESTAMP - 9, "none": -1},
    ),
)
def new_maximum_makes_a_new_checksum(given: dict[str, Any]) -> Draft:
    """Where the max timestamp is not that of the records, the broker sets it, and computes the checksum again."""
    batch = enclosed(given["codec"], raw_record())
    sent = reseal(put(batch, "max_timestamp", given["maximum"]))
    return produced(sent, stored(kept_batch(batch)))


@case("CRC-10", "RWR-02", each=CODECS)
def append_time_makes_a_new_checksum(codec: Compression) -> Draft:
    """Where the broker sets the timestamp type, it computes the checksum again; the records stay."""
    batch = enclosed(codec, raw_record())
    return produced(batch, stored(stamped(batch), log_append_time=NOW), config=APPEND_TIME, since=since_of(codec))


@case("CRC-10", "RWR-05", each=["gzip", "snappy", "lz4", "zstd"])
def rebuilt_batch_has_a_new_checksum(codec: Compression) -> Draft:
    """A batch that the broker decompresses has the checksum of its new bytes."""
    config = {"compression.type": "uncompressed"}
    answer = stored(written(record()))
    return produced(enclosed(codec, raw_record()), answer, config=config, since=since_of(codec))


@case("CRC-11", "CRC-02", each=BATCHES)
def offset_and_epoch_are_outside_the_checksum(batch: bytes) -> Draft:
    """The broker sets base offset and leader epoch, and a reader finds the producer's checksum right."""
    sent = put(batch, "partition_leader_epoch", 12345)
    second = kept_batch(batch, base_offset=2)
    assert checksum_v2(second) == checksum_v2(sent)
    return scene(
        (Produce(data=sent), stored(kept_batch(batch))),
        (Produce(data=sent), stored(second, base_offset=2)),
        (Fetch(offset=1), stored(kept_batch(batch) + second, base_offset=-1, high_watermark=4, last_stable_offset=4)),
    )


UNDECODABLE: Final[dict[str, tuple[bytes, int]]] = {
    "none, zeros": (raw_batch(bytes(9)), INVALID_RECORD),
    "none, 0xff": (raw_batch(b"\xff" * 9), UNKNOWN_SERVER_ERROR),
    "gzip, no stream": (raw_batch(b"\xff" * 30, attributes=1), UNKNOWN_SERVER_ERROR),
    "gzip, zeros": (enclosed("gzip", bytes(9)), INVALID_RECORD),
    "gzip, 0xff": (enclosed("gzip", b"\xff" * 9), INVALID_RECORD),
    "snappy, no stream": (raw_batch(b"\xff" * 30, attributes=2), UNKNOWN_SERVER_ERROR),
    "lz4, no stream": (raw_batch(b"\xff" * 30, attributes=3), UNKNOWN_SERVER_ERROR),
    "zstd, no stream": (raw_batch(b"\xff" * 30, attributes=4), UNKNOWN_SERVER_ERROR),
}


@case("CRC-15", each=UNDECODABLE)
def right_checksum_of_no_records(given: tuple[bytes, int]) -> Draft:
    """A right checksum does not cover up bad records: these are found when they are read."""
    payload, code = given
    return produced(payload, error_answer(code))
