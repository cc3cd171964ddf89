"""Brokers where documents about v2 contradict one another (catalogue of errata, A01 to A45)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, payload_of, some_records
from kafka_corpus.authoring.build import (
    TIMESTAMP,
    expected,
    flip,
    grid,
    put,
    raw_batch,
    raw_header,
    raw_record,
    record,
    reseal,
)
from kafka_corpus.authoring.frames import pack
from kafka_corpus.authoring.steps import assigned, fetches, number_in, producer_batch, refuses, since_of, takes
from kafka_corpus.case import Recipe
from kafka_corpus.registry import Draft, acceptable, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import FindOffset, StepAnswer
from kafka_records import Record
from kafka_records.broker.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from kafka_records.constants import INT32_MAX, INT64_MAX, Compression
from kafka_records.layout import BATCH_V2
from kafka_records.varint import encode_varint

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
# The header as seeds 000, 001 and 003 list it ends where the record count begins.
WITHOUT_COUNT = BATCH_V2.field("record_count").offset


def without_count(codec: Compression, payload: bytes) -> bytes:
    """A batch whose *payload* follows the base sequence."""
    whole = producer_batch(2, codec)
    batch = whole[:WITHOUT_COUNT] + payload
    return reseal(put(batch, "batch_length", len(batch) - 12))


@case("HDR-01", "HDR-04", each=CODECS, refs=["A02"])
def header_without_a_count(codec: Compression) -> Draft:
    """The header is 61 bytes long: where 57 are sent, the first bytes of the records are taken for their count."""
    payload = pack(codec, payload_of(some_records(2)))
    return scene(refuses(without_count(codec, payload), INVALID_RECORD), takes(producer_batch(2, codec)))


@case("HDR-04", "CMP-01", each={"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}, refs=["A09"])
def count_compressed_with_the_records(codec: Compression) -> Draft:
    """The record count is not compressed: the compressed records follow it."""
    payload = pack(codec, (2).to_bytes(4, "big") + payload_of(some_records(2)))
    return scene(refuses(without_count(codec, payload), INVALID_RECORD))


@case("ATT-01", "ZST-01", each={"codec": "zstd"}, refs=["A04"])
def zstd_is_a_codec(codec: Compression) -> Draft:
    """Codec 4 of a v2 batch is zstd."""
    batch = producer_batch(4, codec)
    assert number_in(batch, "attributes") == 4
    return scene(takes(batch), fetches(assigned(batch), 4), since=since_of(codec))


@case("PRD-06", "CMP-02", each={"3": 3, "6": 6}, refs=["A43"])
def zstd_before_version_7(api_version: int) -> Draft:
    """A broker that has zstd does not take it in a request from before."""
    refusal = error_answer(UNSUPPORTED_COMPRESSION_TYPE)
    return produced(producer_batch(4, "zstd"), refusal, api_version=api_version, since=since_of("zstd"))


@case("HDR-01", "TIM-06", each={"above all": 100, "below all": -100}, refs=["A06", "A07"])
def base_timestamp_of_no_record(distance: int) -> Draft:
    """Deltas count from the base timestamp, which need not be the first record's time."""
    batch = bytes_of(batch_of(*some_records(2)), base_timestamp=TIMESTAMP + distance)
    late = FindOffset(TIMESTAMP + 50), StepAnswer(base_offset=-1)
    early = FindOffset(TIMESTAMP - 50), StepAnswer(base_offset=0)
    second = FindOffset(TIMESTAMP + 1), StepAnswer(base_offset=1)
    return scene(takes(batch), late, early, second)


def with_crc(*, high: bool) -> bytes:
    """A batch whose CRC has its highest bit set or not."""
    batches = (raw_batch(raw_record(value=b"crc %d" % at)) for at in range(100))
    return next(batch for batch in batches if (number_in(batch, "crc") >> 31 & 1) == high)


@case("CRC-04", each={"from 2^31 on": True, "below 2^31": False}, refs=["A08"])
def crc_is_unsigned(high: bool) -> Draft:
    """A CRC with its highest bit set is as good as any other: it is an unsigned number."""
    return scene(takes(with_crc(high=high)))


@case("HDR-07", each=grid(epoch={"7": 7, "largest": INT32_MAX, "-2": -2}, codec=CODECS), refs=["A17"])
def leader_epoch_of_the_producer(shape: dict[str, Any]) -> Draft:
    """The broker replaces the producer's leader epoch by its own, with a CRC that need not change."""
    batch = producer_batch(2, shape["codec"])
    return scene(takes(put(batch, "partition_leader_epoch", shape["epoch"])), fetches(assigned(batch), 2))


@case("RWR-03", "RWR-04", each={"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}, refs=["A23"])
def uncompressed_topic(codec: Compression) -> Draft:
    """A topic of compression.type=uncompressed stores the records of compressed batches uncompressed."""
    config = {"compression.type": "uncompressed"}
    return produced(producer_batch(4, codec), stored(assigned(producer_batch(4))), config=config)


DEFAULT_LIMIT = 1_048_588


@case("SIZ-01", "SIZ-02", each={"at the limit": DEFAULT_LIMIT, "above": DEFAULT_LIMIT + 1}, refs=["A24"])
def default_limit(size: int) -> Draft:
    """By default a batch of 1048588 bytes is looked at, here to find its CRC wrong, and one more is too large."""
    code = CORRUPT_MESSAGE if size == DEFAULT_LIMIT else MESSAGE_TOO_LARGE
    return produced(Recipe("plain_batch", {"size": size, "crc": 24}), error_answer(code), since="2.8.2")


@case("SIZ-01", "SIZ-03", each=grid(room={"at the limit": 0, "below": -1}, codec=CODECS), refs=["A24"])
def limit_on_batches(shape: dict[str, Any]) -> Draft:
    """The limit is on batches as they are sent, and not on records."""
    batch = producer_batch(6, shape["codec"])
    config = {"max.message.bytes": str(len(batch) + shape["room"])}
    return scene(refuses(batch, MESSAGE_TOO_LARGE) if shape["room"] else takes(batch), config=config)


@case("CRC-07", each=CODECS, refs=["A27"])
def corrupt_batch_is_code_2(codec: Compression) -> Draft:
    """A broker calls a CRC that does not match CORRUPT_MESSAGE, where Java's consumer throws a KafkaException."""
    batch = producer_batch(5, codec)
    return scene(refuses(flip(batch, len(batch) - 1), CORRUPT_MESSAGE))


@case("CRC-08", refs=["A28"])
def crc_that_nobody_checks() -> Draft:
    """A consumer should check the CRC of fetched batches, and may be configured not to."""
    data = put(raw_batch(raw_record(value=b"unchecked")), "crc", 0x28282828)
    why = "Kafka's consumer refuses it unless check.crcs is false"
    return acceptable(data, expected(record(b"unchecked")), kinds=("corrupt",), why=why)


# Bytes that are not UTF-8, and what Java makes of them: one U+FFFD, also for the three bytes of a surrogate.
KEYS = {
    "not UTF-8": (b"\xc3(", "\ufffd("),
    "cut": (b"caf\xc3", "caf\ufffd"),
    "surrogate": (b"\xed\xa0\x80", "\ufffd"),
}
STORED = {name: key for name, (key, _) in KEYS.items()} | {"NUL": b"a\x00b"}


def keyed(key: bytes, codec: Compression = "none") -> bytes:
    """A batch of a record with a header of this key."""
    headers = encode_varint(1), raw_header(key, b"value")
    plain = raw_record(header_count=headers[0], headers=headers[1])
    return raw_batch(pack(codec, plain), attributes=1 if codec == "gzip" else 0)


@case("REC-21", "REC-23", each=STORED, refs=["A29"])
def header_key_that_is_no_text(key: bytes) -> Draft:
    """A header key that is not UTF-8, or has a NUL in it, is stored as it is."""
    return scene(takes(keyed(key)), fetches(assigned(keyed(key)), 1))


@case("REC-22", "RWR-05", each=KEYS, refs=["A29"])
def header_key_that_is_no_text_rewritten(keys: tuple[bytes, str]) -> Draft:
    """Where the broker rewrites the record, the bytes of a header key that are not UTF-8 become U+FFFD."""
    key, kept = keys
    config = {"compression.type": "gzip"}
    return produced(keyed(key), stored(assigned(keyed(kept.encode(), "gzip"))), config=config, compare="masked")


@case("ATT-15", each={"all": 0x7F, "sign": -0x80 & 0xFF, "lowest": 1}, refs=["A30"])
def attributes_of_a_record(attributes: int) -> Draft:
    """The attributes of a record are ignored, and stored as they are."""
    return scene(takes(raw_batch(raw_record(attributes=attributes, value=b"bits"))))


@case("ATT-15", "RWR-05", each={"all": 0x7F, "lowest": 1}, refs=["A30"])
def attributes_of_a_record_rewritten(attributes: int) -> Draft:
    """Where the broker rewrites the record, its attributes are 0."""
    config = {"compression.type": "lz4"}
    plain = raw_record(attributes=attributes, value=b"bits")
    rebuilt = raw_batch(pack("lz4", raw_record(value=b"bits")), attributes=3)
    return produced(raw_batch(plain), stored(assigned(rebuilt)), config=config, compare="masked")


@case("TIM-13", each=CODECS, refs=["A32"])
def append_time_from_a_producer(codec: Compression) -> Draft:
    """On a LogAppendTime topic a producer must leave the time to the broker."""
    config = {"message.timestamp.type": "LogAppendTime"}
    batch = producer_batch(2, codec, timestamp_type="append")
    return produced(batch, error_answer(INVALID_TIMESTAMP, record_errors=(0, 1)), config=config)


@case("TIM-14", each=CODECS, refs=["A32"])
def append_time_on_a_create_time_topic(codec: Compression) -> Draft:
    """On a CreateTime topic the producer's bit is taken away, though it made its max timestamp that of all records."""
    batch = producer_batch(2, codec, timestamp_type="append")
    return produced(batch, stored(assigned(reseal(put(batch, "attributes", number_in(batch, "attributes") & ~8)))))


@case(
    "TIM-08",
    each=grid(claim={"0": 0, "-1": -1, "largest": INT64_MAX, "first's": TIMESTAMP}, codec=CODECS),
    refs=["A35"],
)
def max_timestamp_of_a_producer(shape: dict[str, Any]) -> Draft:
    """Whatever max timestamp a producer sends, the broker stores the true one."""
    batch = producer_batch(3, shape["codec"])
    return produced(reseal(put(batch, "max_timestamp", shape["claim"])), stored(assigned(batch)))


@case("OFF-03", "HDR-01", refs=["A41"])
def base_offset_without_a_record() -> Draft:
    """Neither the base offset nor the last one need be that of a record."""
    first, last = Record(3, TIMESTAMP, b"k", b"first"), Record(4, TIMESTAMP, b"k", b"last")
    batch = bytes_of(replace(batch_of(first, last), base_offset=0, last_offset=1))
    return scene(takes(batch), fetches(assigned(batch), 2), takes(producer_batch(), 2))
