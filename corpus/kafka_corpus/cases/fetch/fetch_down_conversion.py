"""Fetches below version 4 of v2 until Kafka 4.0: v1 or v0, in the room that the batches had (group CNV)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, grid
from kafka_corpus.authoring.frames import lz4_frame, lz4_sequence
from kafka_corpus.authoring.messages import APPEND_BIT, record_of, seal, set_of, wrapped
from kafka_corpus.authoring.steps import (
    APPEND_TIME,
    FIRST_OF_ZSTD,
    AnsweredStep,
    aborts,
    assigned,
    begun,
    data,
    fetches,
    numbered_from,
    producer_batch,
    takes,
    times,
    writes,
)
from kafka_corpus.registry import Draft, case, scene, stored
from kafka_corpus.scenario import LAST_OF_V1, NOW, Fetch, Produce, StepAnswer
from kafka_records import Header, Record
from kafka_records.broker.errors import UNSUPPORTED_COMPRESSION_TYPE, UNSUPPORTED_VERSION
from kafka_records.constants import Compression

PACKED: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
VERSIONS = {"0": (0, 0), "1": (1, 0), "2": (2, 1), "3": (3, 1)}
# The newest fetch for each magic.
NEWEST = {"v0": (1, 0), "v1": (3, 1)}
FIRST_FOR_ZSTD = 10


def filled(converted: bytes, size: int) -> bytes:
    """*converted* in the room that *size* stored bytes had: cut there, or filled up (LazyDownConversionRecordsSend)."""
    room = size - len(converted)
    claim = max(room + 1, 61)
    overflow = (-1).to_bytes(8, "big", signed=True) + claim.to_bytes(4, "big") + bytes(max(room - 12, 0))
    return (converted + overflow)[:size]


def old_fetch(version: int, answer: bytes, end: int, offset: int = 0) -> AnsweredStep:
    """A fetch in an old version; no stable offset is answered to it."""
    return Fetch(offset=offset, api_version=version), StepAnswer(data=answer, high_watermark=end)


def down(*script: AnsweredStep, config: dict[str, str] | None = None, masked: bool = False, since: str = "") -> Draft:
    """A scenario for the releases that still convert downwards."""
    return scene(*script, config=config, since=since, until=LAST_OF_V1, compare="masked" if masked else "exact")


def converted(magic: int, *records: Record) -> bytes:
    """*records* as messages: no headers (CNV-08), in v0 no time (CNV-09)."""
    return set_of(records, magic)


@case("CNV-07", "CNV-08", "CNV-09", each=VERSIONS)
def versions(version_and_magic: tuple[int, int]) -> Draft:
    """Fetch 0 and 1 get v0, fetch 2 and 3 get v1: a message for each record of an uncompressed batch."""
    version, magic = version_and_magic
    batch = producer_batch(3)
    records = converted(magic, *some_records(3))
    return down(takes(batch), old_fetch(version, filled(records, max(len(batch), len(records))), 3))


@case("CNV-07", each={"4": 4, "9": 9})
def version_of_v2(version: int) -> Draft:
    """From version 4 on a fetch gets the stored bytes."""
    answer = StepAnswer(data=assigned(producer_batch(3)), high_watermark=3, last_stable_offset=3)
    return scene(takes(producer_batch(3)), (Fetch(api_version=version), answer))


HEADED = [record._replace(headers=(Header(b"key", b"a longer value"),) * 4) for record in some_records(2)]


@case("CNV-08", "CNV-12", each=NEWEST)
def headers_are_dropped(version_and_magic: tuple[int, int]) -> Draft:
    """Headers are lost, and the room that they took is filled up."""
    version, magic = version_and_magic
    batch = bytes_of(batch_of(*HEADED))
    records = converted(magic, *some_records(2))
    return down(takes(batch), old_fetch(version, filled(records, len(batch)), 2))


@case("CNV-08", "PID-02", each=NEWEST)
def producers_are_dropped(version_and_magic: tuple[int, int]) -> Draft:
    """Producer id, epoch and sequence are lost."""
    version, magic = version_and_magic
    batch = numbered_from(5, 1, epoch=3)
    records = converted(magic, *some_records(1))
    return down(takes(batch), old_fetch(version, filled(records, len(batch)), 1))


@case("CNV-08", "CNV-12", each=NEWEST)
def markers_are_dropped(version_and_magic: tuple[int, int]) -> Draft:
    """Markers are lost, and aborted data looks like any other to an old client."""
    version, magic = version_and_magic
    records = converted(magic, *some_records(2))
    size = len(data(0, 2)) + 78
    return down(*begun(), writes(data(0, 2)), aborts(2, epoch=0), old_fetch(version, filled(records, size), 3))


@case("CNV-13", "CNV-08", each=NEWEST)
def nothing_but_a_marker(version_and_magic: tuple[int, int]) -> Draft:
    """If nothing is left to be sent, the answer is the head of an entry of 12 bytes that claims 61."""
    version, _ = version_and_magic
    answer = old_fetch(version, filled(b"", 12), 2, 1)
    return down(*begun(), writes(data(0)), aborts(1, epoch=0), answer)


@case("CNV-13", each=NEWEST)
def nothing_at_all(version_and_magic: tuple[int, int]) -> Draft:
    """At the end of the log there is nothing to be converted, and nothing is sent."""
    version, _ = version_and_magic
    return down(takes(producer_batch()), old_fetch(version, b"", 1, 1))


@case("CNV-09", "TIM-13", each=NEWEST)
def append_time(version_and_magic: tuple[int, int]) -> Draft:
    """A v1 message gets the broker's time and bit 3; a v0 message has neither."""
    version, magic = version_and_magic
    batch = producer_batch(2)
    records = [record._replace(timestamp=NOW) for record in some_records(2)]
    messages = set_of(records, magic, attributes=APPEND_BIT if magic else 0)
    answer = old_fetch(version, filled(messages, max(len(batch), len(messages))), 2)
    return down(times(batch), answer, config=APPEND_TIME)


@case("CNV-10", "OFF-12", each=grid(version_and_magic=NEWEST, offset={"middle": 1, "last": 2}))
def from_inside_an_uncompressed_batch(shape: dict[str, Any]) -> Draft:
    """Of an uncompressed batch the records before the fetch offset are left out."""
    (version, magic), offset = shape["version_and_magic"], shape["offset"]
    batch = producer_batch(3)
    records = converted(magic, *some_records(3)[offset:])
    return down(takes(batch), old_fetch(version, filled(records, len(batch)), 3, offset))


def wrapper(magic: int, codec: Compression, *records: Record) -> bytes:
    """*records* in a wrapper: inner offsets count from the first in v1, and are absolute in v0 (CNV-11)."""
    return wrapped(
        [record_of(magic, each.offset, each.key, each.value, timestamp=each.timestamp) for each in records],
        magic,
        codec,
    )[0]


@case("CNV-11", "CNV-07", each=grid(version_and_magic=NEWEST, codec=PACKED))
def compressed_batch(shape: dict[str, Any]) -> Draft:
    """A compressed batch becomes a wrapper of the same codec, with the offset of its last record."""
    (version, magic), codec = shape["version_and_magic"], shape["codec"]
    batch = producer_batch(3, codec)
    first = takes(producer_batch(2)), takes(batch, 2)
    records = [record._replace(offset=record.offset + 2) for record in some_records(3)]
    return down(*first, old_fetch(version, wrapper(magic, codec, *records), 5, 2), masked=True)


@case("CNV-10", "CNV-11", each=grid(version_and_magic=NEWEST, codec=PACKED))
def from_inside_a_compressed_batch(shape: dict[str, Any]) -> Draft:
    """Of a compressed batch all records are converted, those before the fetch offset as well."""
    (version, magic), codec = shape["version_and_magic"], shape["codec"]
    answer = old_fetch(version, wrapper(magic, codec, *some_records(3)), 3, 2)
    return down(takes(producer_batch(3, codec)), answer, masked=True)


@case("CNV-12", each=NEWEST)
def converted_messages_are_cut(version_and_magic: tuple[int, int]) -> Draft:
    """After the first batch messages are cut where the stored bytes ended, if they take more room than these."""
    version, magic = version_and_magic
    many = [Record(at, TIMESTAMP, None, b"") for at in range(10)]
    batch = bytes_of(batch_of(*many))
    moved = [record._replace(offset=record.offset + 10) for record in many]
    messages = converted(magic, *(record_of(magic, each.offset, None, b"") for each in many + moved))
    size = max(2 * len(batch), len(messages) // 2)
    return down(takes(batch), takes(batch, 10), old_fetch(version, messages[:size], 20))


@case("CNV-12", "OFF-12", each={"1": 1, "100": 100})
def first_batch_is_whole(max_bytes: int) -> Draft:
    """The messages of the first batch are sent whole, however small the limit of the fetch is."""
    records = converted(1, *some_records(3))
    step = Fetch(api_version=3, max_bytes=max_bytes), StepAnswer(data=records, high_watermark=6)
    assert len(records) > len(producer_batch(3))
    return down(takes(producer_batch(3)), takes(producer_batch(3), 3), step)


@case("CNV-14", "LEG-15", each=VERSIONS, refs=["A43"])
def zstd_first(version_and_magic: tuple[int, int]) -> Draft:
    """A fetch below version 4 that begins with a zstd batch is refused."""
    version, _ = version_and_magic
    refusal = Fetch(api_version=version), StepAnswer(error_code=UNSUPPORTED_COMPRESSION_TYPE)
    return down(takes(producer_batch(2, "zstd")), refusal, since=FIRST_OF_ZSTD)


@case("CNV-14", "CNV-12", each=NEWEST)
def zstd_behind_others(version_and_magic: tuple[int, int]) -> Draft:
    """A zstd batch after others is replaced by filler, and the client's next fetch starts at it."""
    version, magic = version_and_magic
    batch, last = producer_batch(), producer_batch(2, "zstd")
    records = converted(magic, *some_records(1))
    answer = old_fetch(version, filled(records, len(batch) + len(last)), 3)
    return down(takes(batch), takes(last, 1), answer, since=FIRST_OF_ZSTD)


@case("CNV-14", "CNV-12")
def zstd_takes_others_with_it() -> Draft:
    """Batches between the first and a zstd batch are converted together with it, and so they are not sent either."""
    batch, last = producer_batch(), producer_batch(2, "zstd")
    records = converted(1, *some_records(1))
    answer = old_fetch(3, filled(records, 2 * len(batch) + len(last)), 4)
    return down(takes(batch), takes(batch, 1), takes(last, 2), answer, since=FIRST_OF_ZSTD)


ZSTD = {"compression.type": "zstd"}
ZSTD_REFUSED = StepAnswer(error_code=UNSUPPORTED_COMPRESSION_TYPE)


@case("CNV-15", each={"4": 4, "9": 9}, refs=["A43"])
def zstd_topic_refuses_fetches(version: int) -> Draft:
    """Until Kafka 3.9 a topic of compression.type=zstd refused every fetch below version 10, though it is empty."""
    return down((Fetch(api_version=version), ZSTD_REFUSED), config=ZSTD, since=FIRST_OF_ZSTD)


@case("CNV-15", "RWR-05")
def zstd_topic_serves_the_tenth_version() -> Draft:
    """From version 10 on a fetch from such a topic gets its batches."""
    batch = producer_batch(2)
    answer = assigned(producer_batch(2, "zstd"))
    step = Produce(data=batch), stored(answer)
    return scene(step, fetches(answer, 2, api_version=10), config=ZSTD, since=FIRST_OF_ZSTD, compare="masked")


@case("CNV-15", each={"4": 4, "9": 9})
def zstd_batch_on_another_topic(version: int) -> Draft:
    """A topic that leaves the codec to the producer serves zstd to fetches from version 4 on."""
    batch = producer_batch(2, "zstd")
    return scene(takes(batch), fetches(assigned(batch), 2, api_version=version), since=FIRST_OF_ZSTD)


@case("CNV-15")
def zstd_topic_serves_everyone_again() -> Draft:
    """Since Kafka 4.0 a topic of compression.type=zstd serves the oldest fetch that there is."""
    batch = producer_batch(2, "zstd")
    return scene(takes(batch), fetches(assigned(batch), 2, api_version=4), config=ZSTD, since="4.0.2")


@case("CNV-16", each=VERSIONS)
def conversion_forbidden(version_and_magic: tuple[int, int]) -> Draft:
    """A topic may forbid conversion downwards, and then refuses old fetches."""
    version, _ = version_and_magic
    refusal = Fetch(api_version=version), StepAnswer(error_code=UNSUPPORTED_VERSION)
    return down(takes(producer_batch()), refusal, config={"message.downconversion.enable": "false"}, since="2.0.1")


@case("CNV-16")
def newer_fetch_where_conversion_is_forbidden() -> Draft:
    """Where conversion is forbidden, fetches that need none are served."""
    config = {"message.downconversion.enable": "false"}
    return down(
        takes(producer_batch()), fetches(assigned(producer_batch()), 1, api_version=4), config=config, since="2.0.1"
    )


@case("CNV-17", "LZ4-06", "LZ4-07", each=NEWEST, refs=["A10", "A44", "KAFKA-3160"])
def lz4_header_checksum(version_and_magic: tuple[int, int]) -> Draft:
    """lz4 is written for v0 with a header checksum over magic and descriptor, and for v1 with the right one."""
    version, magic = version_and_magic
    record = Record(0, TIMESTAMP, None, bytes(range(100, 120)))
    batch = bytes_of(batch_of(record, compression="lz4"))
    plain = set_of([record], magic)
    # The zeros of offset and size are all that repeats, so that every writer makes the same of it.
    zeros = next(at for at, byte in enumerate(plain) if byte)
    block = lz4_sequence(bytes(1), zeros - 1) + lz4_sequence(plain[zeros:])
    answer = seal(lz4_frame(block, broken=magic == 0), magic, "lz4")
    return down(takes(batch), old_fetch(version, filled(answer, max(len(batch), len(answer))), 1))
