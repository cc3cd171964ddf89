"""Bytes that brokers store: as they came with a few fields set, or batches of their own (group RWR)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import HORIZON, PLAIN, batch_of, bytes_of, payload_of, some_records
from kafka_corpus.authoring.build import (
    TIMESTAMP,
    grid,
    overlong_varint,
    packed,
    put,
    raw_batch,
    raw_header,
    raw_record,
)
from kafka_corpus.authoring.frames import (
    XERIAL_HEADER,
    codec_id,
    deflate_stored,
    gzip_member,
    lz4_data,
    pack,
    snappy_block,
    xerial_chunk,
    zstd_block,
    zstd_frame,
)
from kafka_corpus.authoring.messages import numbered, wrapped
from kafka_corpus.authoring.steps import (
    KEPT,
    OLD_VERSION,
    PATHS,
    REBUILT,
    aborts,
    assigned,
    begun,
    commits,
    compression,
    data,
    fetches,
    kept_batch,
    numbered_from,
    rebuilt_batch,
    since_of,
    takes,
    writes,
)
from kafka_corpus.cases.decode.compression import CODECS
from kafka_corpus.cases.decode.lz4 import frame as lz4_frame
from kafka_corpus.golden import GOLDEN_RECORDS
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Produce, producer_id
from kafka_records import Header, Record
from kafka_records.broker.errors import INVALID_RECORD
from kafka_records.constants import Compression
from kafka_records.varint import encode_varint

ALL: dict[str, Compression] = {"none": "none", **CODECS}
# compression.type; the name of no compression is one of its own (RWR-04).
TOPICS = {"producer": "producer", "uncompressed": "uncompressed", **CODECS}
UNKNOWN_BITS = 0x7F80


def enclosed(codec: Compression, payload: bytes, **fields: int) -> bytes:
    """A batch around records, compressed or not."""
    return raw_batch(payload, **fields) if codec == "none" else packed(codec, payload, **fields)


def longwinded(at: int) -> bytes:
    """A record of `some_records` whose varints are longer than they need be."""
    body = b"".join(
        (
            b"\x7f",  # record attributes, which mean nothing
            overlong_varint(at, 3),  # timestamp delta
            overlong_varint(at, 5),  # offset delta
            overlong_varint(5, 2) + b"key %d" % at,
            overlong_varint(7, 4) + b"value %d" % at,
            overlong_varint(0, 2),
        )
    )
    return overlong_varint(len(body), 3) + body


LONGWINDED = longwinded(0) + longwinded(1)


def target_of(topic: str, source: Compression) -> Compression:
    """RWR-03."""
    return source if topic == KEPT else CODECS.get(topic, "none")


@case("RWR-03", "RWR-01", "RWR-07", "RWR-11", each=grid(topic=TOPICS, codec=ALL))
def which_path(shape: dict[str, Any]) -> Draft:
    """The topic's compression.type and the batch's codec decide whether overlong encodings are kept or rewritten."""
    topic, source = shape["topic"], shape["codec"]
    target = target_of(topic, source)
    sent = enclosed(source, LONGWINDED, record_count=2, max_timestamp=TIMESTAMP + 1)
    answer = stored(kept_batch(sent) if source == target else rebuilt_batch(*some_records(), codec=target))
    masked = source != target != "none"
    since = since_of(source) or since_of(target)
    return produced(sent, answer, config=compression(topic), since=since, compare="masked" if masked else "exact")


@case("RWR-01", each={"none": "none", **CODECS})
def only_two_fields_change(codec: Compression) -> Draft:
    """Offset and leader epoch are all that changes in a batch that is kept; unknown bits stay."""
    attributes = UNKNOWN_BITS | HORIZON
    sent = enclosed(codec, PLAIN, record_count=2, max_timestamp=TIMESTAMP + 1, attributes=attributes)
    again = put(sent, "partition_leader_epoch", 77)
    return scene(
        takes(sent),
        (Produce(data=again), stored(assigned(sent, 2), base_offset=2)),
        fetches(assigned(sent) + assigned(sent, 2), 4),
        since=since_of(codec),
    )


@case("RWR-02", "ATT-09", each=ALL)
def attributes_written_anew(codec: Compression) -> Draft:
    """Where the max timestamp is corrected, attributes are rewritten: unknown bits vanish, the horizon stays."""
    attributes = UNKNOWN_BITS | HORIZON
    sent = enclosed(codec, PLAIN, record_count=2, attributes=attributes, max_timestamp=5)
    answer = stored(kept_batch(sent, attributes=codec_id(codec) | HORIZON, max_timestamp=TIMESTAMP + 1))
    return produced(sent, answer, since=since_of(codec))


@case("RWR-02", "CRC-10")
def nothing_to_correct() -> Draft:
    """Where max timestamp and type are right, the CRC stays as it was sent, even one over unknown bits."""
    sent = raw_batch(PLAIN, record_count=2, attributes=0x0180, max_timestamp=TIMESTAMP + 1)
    return produced(sent, stored(kept_batch(sent)))


@case("RWR-04", "RWR-11", each=CODECS)
def decompressed(codec: Compression) -> Draft:
    """A topic of compression.type "uncompressed" stores compressed batches without compression, header for header."""
    sent = numbered_from(0, 3, codec)
    answer = rebuilt_batch(*some_records(3), producer_id=77, producer_epoch=0, base_sequence=0)
    return produced(sent, stored(answer), config=compression(REBUILT), since=since_of(codec))


@case("RWR-11", "CNV-02")
def wrapper_decompressed() -> Draft:
    """A v1 wrapper on a topic without compression becomes one plain batch."""
    records = numbered(1, 0, 1, 2)
    answer = stored(rebuilt_batch(*records))
    return produced(wrapped(records, 1, "gzip")[0], answer, config=compression(REBUILT), api_version=OLD_VERSION)


@case(
    "RWR-05", each={"compressed": ("none", "gzip"), "decompressed": ("gzip", "none"), "recompressed": ("gzip", "lz4")}
)
def fresh_header(codecs: tuple[Compression, Compression]) -> Draft:
    """A rebuilt batch has the first record's time as its base, and counts offsets from 0."""
    source, target = codecs
    payload = b"".join(
        raw_record(timestamp_delta=delta, offset_delta=offset, key=b"key %d" % at, value=b"value")
        for at, (delta, offset) in enumerate([(100, 1), (50, 0), (150, 9)])
    )
    records = [Record(at, TIMESTAMP + delta, b"key %d" % at, b"value") for at, delta in enumerate([100, 50, 150])]
    sent = enclosed(source, payload, record_count=3, max_timestamp=5, attributes=HORIZON)
    answer = stored(rebuilt_batch(*records, codec=target))
    config = compression(REBUILT if target == "none" else target)
    return produced(sent, answer, config=config, compare="exact" if target == "none" else "masked")


@case("RWR-05", "OFF-01")
def rebuilt_at_a_later_offset() -> Draft:
    """A batch rebuilt after another gets the next offset, its deltas from 0 again."""
    sent = enclosed("gzip", PLAIN, record_count=2, max_timestamp=TIMESTAMP + 1)
    first = rebuilt_batch(*some_records())
    second = put(first, "base_offset", 2)
    return scene(
        (Produce(data=sent), stored(first)),
        (Produce(data=sent), stored(second, base_offset=2)),
        fetches(first + second, 4),
        config=compression(REBUILT),
    )


@case("RWR-06", each={"compressed": ("none", "snappy"), "decompressed": ("snappy", "none")})
def producer_survives(codecs: tuple[Compression, Compression]) -> Draft:
    """A rebuild keeps producer id, epoch and sequence."""
    source, target = codecs
    sent = numbered_from(0, 2, source, epoch=3)
    answer = stored(rebuilt_batch(*some_records(), codec=target, producer_id=77, producer_epoch=3, base_sequence=0))
    config = compression(REBUILT if target == "none" else target)
    return produced(sent, answer, config=config, compare="exact" if target == "none" else "masked")


@case("RWR-06", "TXN-13", each={"commit": True, "abort": False})
def transaction_survives(commit: bool) -> Draft:
    """A rebuild keeps the transactional bit, so that the transaction can still be committed or aborted."""
    fields: dict[str, Any] = {"producer_id": producer_id(0), "producer_epoch": 0, "base_sequence": 0}
    written = Produce(data=data(0, 2, "gzip"), producer="a", transactional=True, api_version=11)
    end = commits(2) if commit else aborts(2)
    return scene(
        *begun(),
        (written, stored(rebuilt_batch(*some_records(), transactional=True, **fields))),
        end,
        config=compression(REBUILT),
    )


@case("RWR-06", each={"unknown": UNKNOWN_BITS, "horizon": HORIZON, "all": UNKNOWN_BITS | HORIZON})
def bits_dropped(attributes: int) -> Draft:
    """A rebuild drops the unknown bits and that of the delete horizon."""
    sent = enclosed("gzip", PLAIN, record_count=2, attributes=attributes)
    return produced(sent, stored(rebuilt_batch(*some_records())), config=compression(REBUILT))


@case("RWR-06", "RWR-01", each=PATHS)
def record_attributes(path: str) -> Draft:
    """Attributes of records are kept with the bytes, and written as 0 in a rebuild."""
    first = some_records(1)[0]._replace(key=None)
    payload = raw_record(attributes=0xFF, value=first.value)
    sent = enclosed("gzip", payload)
    return produced(sent, stored(kept_batch(sent) if path == KEPT else rebuilt_batch(first)), config=compression(path))


NULLS = {
    "key": raw_record(key_length=encode_varint(-5)),
    "value": raw_record(key=b"k", value=None, value_length=encode_varint(-(2**31))),
    "header": raw_record(header_count=b"\x02", headers=raw_header(b"h", None, value_length=encode_varint(-2))),
}
READ_AS = {
    "key": Record(0, TIMESTAMP, None, b"value"),
    "value": Record(0, TIMESTAMP, b"k", None),
    "header": Record(0, TIMESTAMP, None, b"value", (Header(b"h", None),)),
}


@case("RWR-07", "RWR-01", each=grid(path=PATHS, null={name: name for name in NULLS}))
def nulls(shape: dict[str, Any]) -> Draft:
    """A null of another negative length is kept with the bytes, and written as -1 in a rebuild."""
    sent = enclosed("gzip", NULLS[shape["null"]])
    answer = kept_batch(sent) if shape["path"] == KEPT else rebuilt_batch(READ_AS[shape["null"]])
    return produced(sent, stored(answer), config=compression(shape["path"]))


LENGTHS = {"one-more": 1, "one-less": -1, "much-more": 99}


@case("RWR-08", each=grid(difference=LENGTHS, codec={"gzip": "gzip", "lz4": "lz4"}))
def record_length_kept(shape: dict[str, Any]) -> Draft:
    """A wrong record length goes unnoticed where the bytes are kept."""
    record = raw_record()
    sent = enclosed(shape["codec"], encode_varint(len(record) - 1 + shape["difference"]) + record[1:])
    return produced(sent, stored(kept_batch(sent)))


@case("RWR-08", each=grid(difference=LENGTHS, codec={"gzip": "gzip", "lz4": "lz4"}))
def record_length_rebuilt(shape: dict[str, Any]) -> Draft:
    """A wrong record length is an invalid record where the batch is rebuilt."""
    record = raw_record()
    sent = enclosed(shape["codec"], encode_varint(len(record) - 1 + shape["difference"]) + record[1:])
    return produced(sent, error_answer(INVALID_RECORD), config=compression(REBUILT))


LEVELS: dict[str, tuple[Compression, bytes, dict[str, str]]] = {
    "gzip": ("gzip", gzip_member(PLAIN, body=deflate_stored(PLAIN)), {}),
    "gzip-level-9": ("gzip", gzip_member(PLAIN, body=deflate_stored(PLAIN)), {"compression.gzip.level": "9"}),
    "snappy": ("snappy", snappy_block(PLAIN), {}),
    "lz4": ("lz4", lz4_frame(body=lz4_data(PLAIN, stored=True)), {}),
    "lz4-level-17": ("lz4", lz4_frame(body=lz4_data(PLAIN, stored=True)), {"compression.lz4.level": "17"}),
    "zstd": ("zstd", zstd_frame(zstd_block(PLAIN)), {}),
    "zstd-level-22": ("zstd", zstd_frame(zstd_block(PLAIN)), {"compression.zstd.level": "22"}),
}


@case("RWR-10", "RWR-01", each=LEVELS)
def another_level(level: tuple[Compression, bytes, dict[str, str]]) -> Draft:
    """A topic that names the codec of a batch keeps its bytes, however they were compressed."""
    codec, payload, config = level
    sent = raw_batch(payload, attributes=codec_id(codec), record_count=2, max_timestamp=TIMESTAMP + 1)
    # Levels are settings of topics since Kafka 3.8 (KIP-390).
    since = "3.8.0" if config else since_of(codec)
    return produced(sent, stored(kept_batch(sent)), config={**compression(codec), **config}, since=since)


@case("RWR-13", "TXN-13", each=CODECS)
def markers_stay_uncompressed(codec: Compression) -> Draft:
    """The markers of transactions are stored without compression whatever the topic's compression.type is."""
    # An ordinary batch of the same codec, so that only the markers could change.
    return scene(
        *begun(),
        writes(data(0, 2, codec), api_version=11),
        commits(2),
        config=compression(codec),
        since=since_of(codec),
    )


@case("RWR-14", each={"snappy": "snappy", "lz4": "lz4"})
def reproducible(codec: Compression) -> Draft:
    """The broker's output with snappy and lz4 is always the same, to the byte."""
    plain = payload_of(GOLDEN_RECORDS)
    # lz4 stores a block that does not get smaller; snappy has one literal of it.
    expected = lz4_frame(body=lz4_data(plain, stored=True)) if codec == "lz4" else pack("snappy", plain)
    batch = batch_of(*GOLDEN_RECORDS, compression=codec, partition_leader_epoch=0)
    sent = bytes_of(batch_of(*GOLDEN_RECORDS))
    return produced(sent, stored(bytes_of(batch, packed=expected)), config=compression(codec))


# snappy: a short literal and four copies.  lz4: one match that overlaps itself, and the last five bytes as literals.
RUNS: dict[str, tuple[Compression, bytes]] = {
    "snappy": (
        "snappy",
        XERIAL_HEADER + xerial_chunk(bytes.fromhex("d101209e030000000190032dfe0100fe0100fe01000d010000")),
    ),
    "lz4": ("lz4", lz4_frame(body=lz4_data(bytes.fromhex("9f9e030000000190032d0100b0502d2d2d2d00")))),
}


@case("RWR-14", each=RUNS)
def reproducible_run(compressed: tuple[Compression, bytes]) -> Draft:
    """A run of one byte becomes the same copies in all releases, byte for byte."""
    codec, expected = compressed
    record = Record(0, TIMESTAMP, None, b"-" * 200)
    batch = batch_of(record, compression=codec, partition_leader_epoch=0)
    answer = stored(bytes_of(batch, packed=expected))
    return produced(bytes_of(batch_of(record)), answer, config=compression(codec))
