"""Compressed payloads on brokers, whatever the codec (group CMP).

The frames that one codec alone has are in `produce_gzip` and its neighbours.
"""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import PLAIN, batch_of, bytes_of, compressed, payload_of, some_records
from kafka_corpus.authoring.build import grid, raw_batch, raw_record
from kafka_corpus.authoring.frames import codec_id, pack
from kafka_corpus.authoring.steps import KEPT, PATHS, REBUILT, compression, kept_batch, not_taken, since_of
from kafka_corpus.cases.decode.compression import CODECS
from kafka_corpus.registry import Draft, case, error_answer, produced, stored
from kafka_records.broker.errors import INVALID_RECORD, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR
from kafka_records.constants import Compression

ALL: dict[str, Compression] = {"none": "none", **CODECS}


@case("CMP-02", each=ALL)
def all_codecs(codec: Compression) -> Draft:
    """A broker takes all five codecs."""
    data = bytes_of(batch_of(*some_records(), compression=codec))
    return produced(data, stored(kept_batch(data)), since=since_of(codec))


@case("CMP-02", "ATT-02", each={"5": 5, "7": 7})
def codec_that_nobody_knows(id_: int) -> Draft:
    """A codec id that no release knows is an unknown error."""
    return produced(raw_batch(PLAIN, attributes=id_, record_count=2), error_answer(UNKNOWN_SERVER_ERROR))


@case("CMP-04", each=grid(path=PATHS, codec=CODECS))
def codec_refuses(shape: dict[str, Any]) -> Draft:
    """Bytes that a codec refuses are an unknown error and no corrupt message: the CRC is right."""
    return not_taken(shape["codec"], b"\xde\xad\xbe\xef" * 10, shape["path"])


@case("CMP-05", each=grid(path=PATHS, codec=CODECS))
def too_few_bytes(shape: dict[str, Any]) -> Draft:
    """A sound frame that holds a byte less than the records need is an invalid record."""
    codec = shape["codec"]
    return not_taken(codec, pack(codec, PLAIN[:-1]), shape["path"], code=INVALID_RECORD)


@case("CMP-05", "HDR-14", each=grid(path=PATHS, codec=CODECS))
def too_many_bytes(shape: dict[str, Any]) -> Draft:
    """A sound frame that holds a byte more than the records take is an invalid record."""
    return not_taken(shape["codec"], pack(shape["codec"], PLAIN + b"\x00"), shape["path"], code=INVALID_RECORD)


@case("CMP-06", each=CODECS)
def not_compressed(codec: Compression) -> Draft:
    """Codec bits over records that are not compressed are an unknown error."""
    return not_taken(codec, PLAIN, KEPT)


RING: dict[str, tuple[Compression, Compression]] = {
    "gzip-bits-snappy-bytes": ("gzip", "snappy"),
    "snappy-bits-lz4-bytes": ("snappy", "lz4"),
    "lz4-bits-zstd-bytes": ("lz4", "zstd"),
    "zstd-bits-gzip-bytes": ("zstd", "gzip"),
}


@case("CMP-06", each=RING)
def another_codec(pair: tuple[Compression, Compression]) -> Draft:
    """The bits name the codec; the broker does not guess it from the bytes."""
    named, real = pair
    return not_taken(named, pack(real, PLAIN), KEPT)


@case("CMP-07", each=CODECS)
def compressed_without_codec_bits(codec: Compression) -> Draft:
    """Without codec bits compressed bytes are read as records, and are invalid ones."""
    return produced(raw_batch(pack(codec, PLAIN), record_count=2), error_answer(INVALID_RECORD))


@case("CMP-08", each=CODECS)
def no_payload(codec: Compression) -> Draft:
    """A compressed batch of no bytes fails in the codec; only zstd has a stream of no bytes, which lacks records."""
    code = INVALID_RECORD if codec == "zstd" else UNKNOWN_SERVER_ERROR
    return not_taken(codec, b"", KEPT, code=code)


LAST_RECORDS = {
    "header-count": raw_record(offset_delta=1, header_count=b"\x01"),
    "key-length": raw_record(offset_delta=1, key=b"k", key_length=b"\x7e"),
}


@case("CMP-09", "RWR-01", each=grid(codec=CODECS, record=LAST_RECORDS))
def last_record_wrong(shape: dict[str, Any]) -> Draft:
    """A broker that keeps the bytes reads them up to the last record, and finds that it is wrong."""
    codec = shape["codec"]
    return not_taken(codec, pack(codec, raw_record() + shape["record"]), KEPT, code=INVALID_RECORD)


@case("CMP-09", "PRD-17", each=CODECS)
def last_key_missing(codec: Compression) -> Draft:
    """A broker that keeps the bytes of a compacted topic looks for the key of every record."""
    records = (*some_records(2), some_records(3)[2]._replace(key=None))
    data, _ = compressed(codec, pack(codec, payload_of(records)), *records)
    answer = error_answer(INVALID_RECORD, record_errors=(2,))
    return produced(data, answer, config={"cleanup.policy": "compact"}, since=since_of(codec))


# More than ten times the limit, and for each codec within it once compressed.
LIMIT = "1000"
INFLATED: dict[str, tuple[Compression, int]] = {
    "gzip": ("gzip", 90_000),
    "snappy": ("snappy", 15_000),
    "lz4": ("lz4", 60_000),
    "zstd": ("zstd", 100_000),
}


@case("CMP-10", "SIZ-03", each=INFLATED)
def decompressed_size_is_not_measured(claim: tuple[Compression, int]) -> Draft:
    """The limit on messages is for compressed bytes: a record of many times the limit is stored."""
    codec, size = claim
    data = bytes_of(batch_of(some_records(1)[0]._replace(value=b"-" * size), compression=codec))
    assert len(data) <= int(LIMIT)
    return produced(data, stored(kept_batch(data)), config={"max.message.bytes": LIMIT}, since=since_of(codec))


@case("CMP-10", "SIZ-04", each=INFLATED)
def decompressed_size_is_measured_when_stored(claim: tuple[Compression, int]) -> Draft:
    """Where the topic stores without compression, the decompressed records are measured again."""
    codec, size = claim
    data = bytes_of(batch_of(some_records(1)[0]._replace(value=b"-" * size), compression=codec))
    config = {"max.message.bytes": LIMIT, **compression(REBUILT)}
    return produced(data, error_answer(MESSAGE_TOO_LARGE), config=config, since=since_of(codec))


@case("CMP-09", "HDR-12", each=CODECS)
def fewer_records_than_counted(codec: Compression) -> Draft:
    """The count in the header is compared with the records in the frame, even where the bytes are kept."""
    data = raw_batch(pack(codec, PLAIN), attributes=codec_id(codec), record_count=3)
    return produced(data, error_answer(INVALID_RECORD), since=since_of(codec))
