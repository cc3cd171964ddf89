"""v0 and v1 that brokers take and store: as one v2 batch, or before Kafka 3.0 as the topic wants it (group CNV)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, payload_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, grid, raw_message
from kafka_corpus.authoring.frames import pack
from kafka_corpus.authoring.messages import numbered, record_of, set_of, wrap, wrapped
from kafka_corpus.authoring.steps import APPEND_TIME, fetches, producer_batch
from kafka_corpus.case import Compare
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import LAST_OF_V1, NOW, Fetch, Produce, StepAnswer
from kafka_records import Header, Record
from kafka_records.broker.errors import UNKNOWN_SERVER_ERROR
from kafka_records.constants import Compression

OLD = 2  # the last produce version that takes v0 and v1
PACKED: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
CODECS: dict[str, Compression] = {"none": "none", **PACKED}
MAGICS = {"v0": 0, "v1": 1}
FORMATS = {"v0": (0, "0.9.0"), "v1": (1, "0.10.0")}
# inter.broker.protocol.version 3.0 made message.format.version void (KIP-724).
LAST_WITH_OLD_FORMATS = "2.8.2"
# v1 brought timestamps and message.format.version (KIP-32).
FIRST_OF_V1 = "0.10.0.1"
THREE = (0, 1, 2)


def message_set(magic: int, codec: Compression) -> bytes:
    """Three messages as an old producer sends them, in a wrapper if there is a codec."""
    return (
        set_of(numbered(magic, *THREE), magic) if codec == "none" else wrapped(numbered(magic, *THREE), magic, codec)[0]
    )


def compared(codec: Compression) -> Compare:
    """Batches that a broker recompresses are compared above compression."""
    return "exact" if codec == "none" else "masked"


def one_batch(magic: int, codec: Compression, *, base_offset: int = 0) -> bytes:
    """The v2 batch of those messages: no producer, no headers, for v0 no time (CNV-04)."""
    records = [record._replace(offset=record.offset + base_offset) for record in numbered(magic, *THREE)]
    return bytes_of(batch_of(*records, compression=codec, partition_leader_epoch=0))


@case("CNV-01", "CNV-02", "CNV-03", "CNV-04", each=grid(magic=MAGICS, codec=CODECS), refs=["A22", "A34", "A39"])
def stored_as_v2(shape: dict[str, Any]) -> Draft:
    """All messages of an old producer's request become one v2 batch with the codec that they came in."""
    magic, codec = shape["magic"], shape["codec"]
    return produced(
        message_set(magic, codec), stored(one_batch(magic, codec)), api_version=OLD, compare=compared(codec)
    )


@case("CNV-02", "CNV-03", "OFF-14", each=grid(magic=MAGICS, codec=CODECS))
def one_batch_for_each_request(shape: dict[str, Any]) -> Draft:
    """Each request makes a batch of its own, and so they are fetched."""
    magic, codec = shape["magic"], shape["codec"]
    step = Produce(data=message_set(magic, codec), api_version=OLD)
    first, second = one_batch(magic, codec), one_batch(magic, codec, base_offset=3)
    return scene(
        (step, stored(first)),
        (step, stored(second, base_offset=3)),
        fetches(first + second, 6),
        until=LAST_OF_V1,
        compare=compared(codec),
    )


@case("CNV-02", "TIM-02")
def times_of_messages() -> Draft:
    """The batch's base timestamp is that of the first message, and its max timestamp that of the newest."""
    times = (5, 9, 0)
    records = [Record(at, TIMESTAMP + time, b"k", b"v%d" % at) for at, time in enumerate(times)]
    answer = stored(bytes_of(batch_of(*records, partition_leader_epoch=0)))
    return produced(set_of(records, 1), answer, api_version=OLD)


@case("CNV-04", each={"null": (None, None), "empty": (b"", b""), "null value": (b"key", None)})
def keys_and_values(shape: tuple[bytes | None, bytes | None]) -> Draft:
    """Null and empty keys and values stay as they are."""
    record = record_of(0, 0, *shape)
    answer = stored(bytes_of(batch_of(record, partition_leader_epoch=0)))
    return produced(raw_message(0, *shape), answer, api_version=OLD)


def append_timed(magic: int, codec: Compression) -> bytes:
    """The messages on a LogAppendTime topic: deltas as they came, the broker's time in the header."""
    records = numbered(magic, *THREE)
    base = records[0].timestamp
    batch = batch_of(*records, compression=codec, partition_leader_epoch=0, timestamp_type="append", max_timestamp=NOW)
    return bytes_of(batch, packed=pack(codec, payload_of(records, base_timestamp=base)), base_timestamp=base)


@case("CNV-05", "CNV-03", each=CODECS)
def v0_on_an_append_time_topic(codec: Compression) -> Draft:
    """v0 on a LogAppendTime topic gets bit 3, base timestamp -1 and the broker's time as max timestamp."""
    answer = stored(append_timed(0, codec), log_append_time=NOW)
    return produced(
        message_set(0, codec), answer, api_version=OLD, config=APPEND_TIME, since=FIRST_OF_V1, compare=compared(codec)
    )


@case("CNV-05", "CNV-02", each={"none": "none", "gzip": "gzip"})
def v1_on_an_append_time_topic(codec: Compression) -> Draft:
    """v1 on a LogAppendTime topic keeps its own times in the records, where readers ignore them."""
    answer = stored(append_timed(1, codec), log_append_time=NOW)
    return produced(
        message_set(1, codec), answer, api_version=OLD, config=APPEND_TIME, since=FIRST_OF_V1, compare=compared(codec)
    )


@case("CNV-03", "RWR-05", each=grid(magic=MAGICS, codec=CODECS))
def into_the_codec_of_the_topic(shape: dict[str, Any]) -> Draft:
    """Where the topic has a codec of its own, the one v2 batch is written in that."""
    config = {"compression.type": "gzip" if shape["codec"] != "gzip" else "lz4"}
    answer = stored(one_batch(shape["magic"], "gzip" if shape["codec"] != "gzip" else "lz4"))
    return produced(
        message_set(shape["magic"], shape["codec"]), answer, api_version=OLD, config=config, compare="masked"
    )


@case("CNV-19", each={"-2": -2, "least": -(2**63)})
def time_below_minus_1(timestamp: int) -> Draft:
    """A v1 message with a time below -1 cannot become v2, and fails with an unexpected exception."""
    return produced(raw_message(1, timestamp=timestamp), error_answer(UNKNOWN_SERVER_ERROR), api_version=OLD)


@case("CNV-19")
def time_of_minus_1() -> Draft:
    """A v1 message with time -1, which is none, becomes v2."""
    record = Record(0, -1, None, b"value")
    answer = stored(bytes_of(batch_of(record, partition_leader_epoch=0)))
    return produced(raw_message(1, timestamp=-1), answer, api_version=OLD)


@case("CNV-19")
def time_below_minus_1_in_a_wrapper() -> Draft:
    """A v1 message with a time below -1 cannot become v2 if it was compressed, either."""
    inner = raw_message(1, timestamp=-2)
    return produced(wrap(inner, 1, "gzip", timestamp=-2), error_answer(UNKNOWN_SERVER_ERROR), api_version=OLD)


@case("CNV-01", each=FORMATS, refs=["A34"])
def message_format_of_the_topic_is_void(topic_format: tuple[int, str]) -> Draft:
    """Since Kafka 3.0 the topic's message format is ignored, and v2 is stored."""
    magic, version = topic_format
    config = {"message.format.version": version}
    answer = stored(one_batch(magic, "none"))
    return produced(message_set(magic, "none"), answer, api_version=OLD, config=config, since="3.0.2")


@case("CNV-01", "CNV-06", "CNV-18", each=FORMATS, refs=["A22", "A34"])
def message_format_of_the_topic(topic_format: tuple[int, str]) -> Draft:
    """Before Kafka 3.0 a topic of an older message format stores it, and no fetch gets it converted upwards."""
    magic, version = topic_format
    data = message_set(magic, "none")
    step = Produce(data=data, api_version=OLD)
    return scene(
        (step, stored(data)),
        fetches(data, 3),
        (Fetch(api_version=4), StepAnswer(data=data, high_watermark=3, last_stable_offset=3)),
        config={"message.format.version": version},
        since=FIRST_OF_V1,
        until=LAST_WITH_OLD_FORMATS,
    )


@case("CNV-01", "CNV-18", each={"0.10.0-IV0": "0.10.0-IV0", "0.10.0-IV1": "0.10.0-IV1"})
def message_format_between_releases(version: str) -> Draft:
    """A message format may be that of a version between two releases, as 0.10.0-IV1, and counts as the release's."""
    data = message_set(1, "none")
    config = {"message.format.version": version}
    step = Produce(data=data, api_version=OLD)
    return scene((step, stored(data)), config=config, since=FIRST_OF_V1, until=LAST_WITH_OLD_FORMATS)


@case("CNV-06", "CNV-18", each=PACKED, refs=["A34"])
def wrapper_stored_as_it_is(codec: Compression) -> Draft:
    """In its own message format a v1 wrapper is stored without being recompressed, and fetched as it is."""
    data = message_set(1, codec)
    step = Produce(data=data, api_version=OLD)
    config = {"message.format.version": "0.10.0"}
    return scene((step, stored(data)), fetches(data, 3), config=config, since=FIRST_OF_V1, until=LAST_WITH_OLD_FORMATS)


@case("CNV-18", "CNV-07", each={"2": 2, "3": 3})
def copied_to_an_old_fetch(api_version: int) -> Draft:
    """A fetch that wants v1 or older gets a stored v0 message as it is."""
    data = message_set(0, "none")
    old = Fetch(api_version=api_version), StepAnswer(data=data, high_watermark=3)
    config = {"message.format.version": "0.9.0"}
    step = Produce(data=data, api_version=OLD)
    return scene((step, stored(data)), old, config=config, since=FIRST_OF_V1, until=LAST_WITH_OLD_FORMATS)


OLD_FORMAT = {"message.format.version": "0.10.0"}


@case("CNV-01")
def v2_into_an_older_format() -> Draft:
    """Before Kafka 3.0 a topic of an older message format made v1 of v2 when it was produced."""
    answer = stored(set_of(some_records(2), 1))
    return produced(producer_batch(2), answer, config=OLD_FORMAT, until=LAST_WITH_OLD_FORMATS)


@case("CNV-01", "CNV-08", each={"none": "none", "gzip": "gzip"})
def headers_into_an_older_format(codec: Compression) -> Draft:
    """Headers are not dropped when v2 is produced to a topic of an older message format: its writer refuses them."""
    record = Record(0, TIMESTAMP, b"key", b"value", (Header(b"h", b"1"),))
    batch = bytes_of(batch_of(record, compression=codec))
    return produced(batch, error_answer(UNKNOWN_SERVER_ERROR), config=OLD_FORMAT, until=LAST_WITH_OLD_FORMATS)
