"""Attribute bits of a produced batch and of its records on brokers (group ATT)."""

from __future__ import annotations

from kafka_corpus.authoring.batches import CONTROL, HORIZON, TRANSACTIONAL, batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, raw_batch, raw_record, record
from kafka_corpus.authoring.steps import enclosed, kept_batch, since_of, stamped, written
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import NOW, Fetch, Produce
from kafka_records.broker.errors import (
    INVALID_RECORD,
    NONE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
)
from kafka_records.constants import Compression

PLAIN = bytes_of(batch_of(*some_records(2)))
CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
UNKNOWN = -0x7E80  # 0x8180: bits 7, 8 and 15
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
# A marker that ends a transaction (TXN-20): version and type, version and coordinator epoch.
COMMIT = raw_record(key=bytes.fromhex("00000001"), value=bytes(6))


def signed(bits: int) -> int:
    """Sixteen bits as the header holds them."""
    return bits - (1 << 16) if bits >> 15 else bits


@case("ATT-02", each={f"{codec}": codec for codec in ("5", "6", "7")})
def unknown_codec_is_an_unknown_error(codec: str) -> Draft:
    """Codecs 5 to 7 are an IllegalArgumentException of Java's, whatever the records look like."""
    return produced(raw_batch(raw_record(), attributes=int(codec)), error_answer(UNKNOWN_SERVER_ERROR))


@case("ATT-02", each={"5": 5, "6": 6})
def unknown_codec_refuses_one_partition(codec: int) -> Draft:
    """An unknown codec is that partition's error: another in the same request is stored."""
    data = raw_batch(raw_record(), attributes=codec)
    return scene((Produce(data=data, beside=PLAIN), error_answer(UNKNOWN_SERVER_ERROR, beside=NONE)))


@case("ATT-05", "TXN-08", each=CODECS)
def control_batch_of_a_client_is_refused(codec: Compression) -> Draft:
    """A client's batch must not have bit 5."""
    return produced(enclosed(codec, raw_record(key=b"key"), attributes=CONTROL), error_answer(INVALID_RECORD))


@case("ATT-05", "TXN-08", each=CODECS)
def end_marker_of_a_client_is_refused(codec: Compression) -> Draft:
    """A client's batch must not have bit 5, though the record in it be a right end-transaction marker."""
    data = enclosed(codec, COMMIT, attributes=CONTROL, producer_id=1, producer_epoch=0, base_sequence=0)
    return produced(data, error_answer(INVALID_RECORD))


@case("ATT-05", "TXN-02")
def transactional_control_batch_is_not_authorised() -> Draft:
    """Bits 4 and 5 together ask for a transactional id first, which the request does not name."""
    data = enclosed("none", COMMIT, attributes=CONTROL | TRANSACTIONAL)
    return produced(data, error_answer(TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


@case(
    "ATT-07",
    each={
        f"{name}, {label}": enclosed(codec, raw_record(), attributes=signed(bits))
        for name, codec in CODECS.items()
        for label, bits in {**{f"bit {bit}": 1 << bit for bit in (7, 8, 15)}, "all": 0xFF80}.items()
    },
)
def unused_bits_are_stored(payload: bytes) -> Draft:
    """Bits 7 to 15 are accepted in any state, and stored as they came."""
    return produced(payload, stored(kept_batch(payload)))


@case("ATT-09", "RWR-02", each=CODECS)
def unused_bits_vanish_with_a_new_maximum(codec: Compression) -> Draft:
    """Where the max timestamp is wrong, the header is rewritten and unknown bits are gone."""
    sent = enclosed(codec, raw_record(), attributes=UNKNOWN, max_timestamp=TIMESTAMP + 5)
    right = enclosed(codec, raw_record())
    return produced(sent, stored(kept_batch(right)))


@case("ATT-09", "TIM-07", each=CODECS)
def unused_bits_vanish_with_append_time(codec: Compression) -> Draft:
    """Where the broker sets the timestamp type, unknown bits are gone."""
    sent = enclosed(codec, raw_record(), attributes=UNKNOWN)
    answer = stored(stamped(enclosed(codec, raw_record())), log_append_time=NOW)
    return produced(sent, answer, config=APPEND_TIME)


@case("ATT-10", "RWR-05")
def unused_bits_are_lost_on_decompression() -> Draft:
    """A batch that the broker decompresses and rewrites has no unknown bits."""
    sent = enclosed("gzip", raw_record(), attributes=UNKNOWN)
    return produced(sent, stored(written(record())), config={"compression.type": "uncompressed"})


@case("ATT-10", "RWR-05", each={"to gzip": "gzip", "to lz4": "lz4"})
def unused_bits_are_lost_on_compression(codec: Compression) -> Draft:
    """A batch that the broker compresses has no unknown bits."""
    sent = enclosed("none", raw_record(), attributes=UNKNOWN)
    config = {"compression.type": codec}
    return produced(sent, stored(written(record(), codec=codec)), config=config, compare="masked")


@case("ATT-11", each=CODECS)
def delete_horizon_of_a_client_is_stored(codec: Compression) -> Draft:
    """No check keeps a client from setting bit 6; it is stored, and readers get it."""
    batch = enclosed(codec, raw_record(key=b"key"), attributes=HORIZON)
    return scene(
        (Produce(data=batch), stored(kept_batch(batch))),
        (Fetch(), stored(kept_batch(batch), base_offset=-1, high_watermark=1, last_stable_offset=1)),
    )


@case("ATT-06", "ATT-09", "ATT-11", each=CODECS)
def delete_horizon_outlives_a_new_maximum(codec: Compression) -> Draft:
    """Bit 6 is one that brokers know: it stays where the header is rewritten, and bit 7 does not (KIP-534)."""
    sent = enclosed(codec, raw_record(), attributes=HORIZON | 0x80, max_timestamp=TIMESTAMP + 5)
    right = enclosed(codec, raw_record(), attributes=HORIZON)
    return produced(sent, stored(kept_batch(right)))


@case("ATT-06", "ATT-11", "RWR-05")
def delete_horizon_is_lost_on_decompression() -> Draft:
    """A batch that the broker rewrites has no delete horizon, and its base timestamp is the first record's."""
    sent = enclosed("gzip", raw_record(timestamp_delta=5), attributes=HORIZON, max_timestamp=TIMESTAMP + 5)
    answer = stored(written(record(timestamp=TIMESTAMP + 5)))
    return produced(sent, answer, config={"compression.type": "uncompressed"})


@case("ATT-12", "TXN-02", each=CODECS)
def transactional_batch_needs_no_producer(codec: Compression) -> Draft:
    """Bit 4 without a producer id is stored if the request names a transactional id."""
    batch = enclosed(codec, raw_record(), attributes=TRANSACTIONAL)
    return scene((Produce(data=batch, transactional=True), stored(kept_batch(batch))))


@case("ATT-12", "TXN-02", each=CODECS)
def transactional_batch_needs_a_transactional_id(codec: Compression) -> Draft:
    """Bit 4 in a request that names no transactional id is not authorised."""
    batch = enclosed(codec, raw_record(), attributes=TRANSACTIONAL)
    return produced(batch, error_answer(TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


@case(
    "ATT-15",
    each={f"{name}, {bits:#04x}": (codec, bits) for name, codec in CODECS.items() for bits in (0x7F, 0xFF)},
)
def attributes_of_a_record_are_stored(given: tuple[Compression, int]) -> Draft:
    """The attributes of a record are not looked at, and are stored as they came."""
    codec, bits = given
    batch = enclosed(codec, raw_record(attributes=bits))
    return produced(batch, stored(kept_batch(batch)))


@case("ATT-15", "RWR-05")
def attributes_of_a_record_become_zero() -> Draft:
    """A record that the broker rewrites has no attributes."""
    sent = enclosed("gzip", raw_record(attributes=0x7F))
    return produced(sent, stored(written(record())), config={"compression.type": "uncompressed"})


@case("ATT-15", "RWR-05", each={"gzip": "gzip", "zstd": "zstd"})
def attributes_of_a_record_become_zero_on_compression(codec: Compression) -> Draft:
    """A record that the broker compresses has no attributes."""
    sent = enclosed("none", raw_record(attributes=0x7F))
    config = {"compression.type": codec}
    return produced(
        sent, stored(written(record(), codec=codec)), config=config, compare="masked", since=since_of(codec)
    )
