"""Brokers where documents about v0 and v1 contradict one another (catalogue of errata, A01 to A45)."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.build import grid, put, raw_message, reseal_message
from kafka_corpus.authoring.messages import APPEND_BIT, numbered, record_of, set_of, wrap
from kafka_corpus.registry import Draft, case, error_answer, produced, stored
from kafka_records import Record
from kafka_records.broker.errors import CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR
from kafka_records.constants import Compression
from kafka_records.layout import MESSAGE_V0

OLD = 2  # the last produce version that takes v0 and v1
CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
MAGICS = {"v0": 0, "v1": 1}


def as_v2(*records: Record, codec: Compression = "none") -> bytes:
    """Kafka 3.9 stores *records* as a v2 batch (CNV-01)."""
    return bytes_of(batch_of(*records, compression=codec, partition_leader_epoch=0))


@case("LEG-14", "LZ4-06", each={"one": 1, "nine": 9}, refs=["A10", "A11"])
def lz4_in_v0(count: int) -> Draft:
    """v0 has lz4, with the header checksum of its own, since 0.8.2.0."""
    records = numbered(0, *range(count))
    data = wrap(set_of(records, 0), 0, "lz4", offset=count - 1, key=b"lz4")
    return produced(data, stored(as_v2(*records, codec="lz4")), api_version=OLD, since="0.8.2.2", compare="masked")


@case("LEG-15", each=MAGICS, refs=["A04", "A43"])
def zstd_below_v2(magic: int) -> Draft:
    """Codec 4 is refused in v0 and v1."""
    data = wrap(set_of(numbered(magic, 0, 1, 2, 3), magic), magic, "zstd", offset=3)
    return produced(data, error_answer(INVALID_RECORD), api_version=OLD)


def with_crc(magic: int, *, high: bool) -> bytes:
    """The value of a message whose CRC has its highest bit set or not."""
    values = (b"crc %d" % at for at in range(100))
    return next(value for value in values if raw_message(magic, None, value)[12] >> 7 == high)


@case("LEG-07", "CRC-01", each=grid(magic=MAGICS, high={"from 2^31 on": True, "below 2^31": False}), refs=["A08"])
def crc_is_unsigned(shape: dict[str, Any]) -> Draft:
    """The CRC of a message is unsigned as well."""
    magic = shape["magic"]
    value = with_crc(magic, high=shape["high"])
    answer = stored(as_v2(record_of(magic, 0, None, value)))
    return produced(raw_message(magic, None, value), answer, api_version=OLD)


@case("LEG-20", each=grid(magic=MAGICS, bits={"70": 0x70, "80": 0x80, "f0": 0xF0}), refs=["A31"])
def high_attribute_bits(shape: dict[str, Any]) -> Draft:
    """Bits 4 to 7 of a message are not looked at, and are lost when it becomes v2."""
    magic = shape["magic"]
    bits = shape["bits"] - 0x100 if shape["bits"] > 0x7F else shape["bits"]
    answer = stored(as_v2(record_of(magic, 0, b"high", b"bits")))
    return produced(raw_message(magic, b"high", b"bits", attributes=bits), answer, api_version=OLD)


@case("NST-21", each={"inner append": (APPEND_BIT, 0), "inner create": (0, 0)}, refs=["A33"])
def type_of_inner_messages_is_ignored(bits: tuple[int, int]) -> Draft:
    """Of inner messages that say LogAppendTime in a wrapper that does not, the broker keeps the times."""
    inner, outer = bits
    records = numbered(1, 0, 1, 2, 3)
    data = wrap(set_of(records, 1, attributes=inner), 1, "gzip", offset=3, attributes=outer)
    return produced(data, stored(as_v2(*records, codec="gzip")), api_version=OLD, compare="masked")


def short_v1(size: int) -> bytes:
    """A v1 message of *size* bytes after its size field, the CRC right."""
    message = raw_message(0, None, b"s" * (size - 14))
    return reseal_message(put(message, "magic", 1, layout=MESSAGE_V0))


@case("LEG-03", "FRM-05", "PRD-14", each={"14": 14, "18": 18, "21": 21}, refs=["A38"])
def v1_below_its_minimum(size: int) -> Draft:
    """A v1 message of 14 to 21 bytes passes the test of its size, and cannot be read."""
    return produced(short_v1(size), error_answer(UNKNOWN_SERVER_ERROR), api_version=OLD)


@case("FRM-05", each={"0": 0, "13": 13}, refs=["A38"])
def v1_below_the_common_minimum(size: int) -> Draft:
    """A v1 message that says it has fewer than 14 bytes is corrupt."""
    data = put(raw_message(1, b"short"), "message_size", size, layout=MESSAGE_V0)
    return produced(data, error_answer(CORRUPT_MESSAGE), api_version=OLD)


def of_0_7(magic: int, payload: bytes) -> bytes:
    """A message as Kafka 0.7 had it: size, magic, attributes from magic 1 on, CRC, payload; no offset and no key."""
    body = bytes((magic,)) + bytes(magic) + crc32(payload).to_bytes(4, "big") + payload
    return len(body).to_bytes(4, "big") + body


@case("LEG-01", "FRM-08", each=MAGICS, refs=["A40"])
def message_of_0_7(magic: int) -> Draft:
    """Magic 0 and 1 stood for another layout in Kafka 0.7, which no later broker takes."""
    return produced(of_0_7(magic, b"a message of 0.7"), error_answer(CORRUPT_MESSAGE), api_version=OLD)


@case("NST-08", "NST-09", "NST-10", each=grid(offset={"0": 0, "last": 4, "beyond": 1000}, codec=CODECS), refs=["A42"])
def offset_of_a_wrapper(shape: dict[str, Any]) -> Draft:
    """A v1 wrapper may have its last message's offset, any above it, or 0; the broker makes the same of them."""
    offset, codec = shape["offset"], shape["codec"]
    records = numbered(1, 0, 1, 2, 3, 4)
    data = wrap(set_of(records, 1), 1, codec, offset=offset)
    return produced(data, stored(as_v2(*records, codec=codec)), api_version=OLD, compare="masked")
