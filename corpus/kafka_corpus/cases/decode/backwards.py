"""Sizes and lengths that lead a careless reader back to bytes that it has read (groups FRM, NST, LEG, REC and HDR).

A reader that skips by a size or length, and does not look at its
sign, comes to the same bytes again and never ends.  The numbers here are those
that lead back exactly to the start of an entry, a message, a record or a header.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    expected,
    grid,
    put,
    raw_batch,
    raw_header,
    raw_message,
    raw_record,
    record,
    sealed,
)
from kafka_corpus.authoring.frames import codec_id
from kafka_corpus.authoring.messages import message_bytes, numbered, record_of, single_batch, wrap
from kafka_corpus.registry import Draft, case, invalid, valid
from kafka_records import Batch, Kind
from kafka_records.constants import LOG_OVERHEAD, Compression
from kafka_records.layout import MESSAGE_V0, MESSAGE_V1
from kafka_records.varint import encode_varint

ALL: dict[str, Compression] = {"none": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
OLD: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
MAGICS = {"v0": 0, "v1": 1}
BAD_SIZE: Final[tuple[Kind, ...]] = ("malformed", "corrupt", "truncated")
STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated", "limit")


def empty_batch(codec: Compression, **fields: int) -> bytes:
    """A batch without records and without payload."""
    return raw_batch(b"", record_count=0, last_offset_delta=0, attributes=codec_id(codec), **fields)


@case("FRM-05", each=ALL)
def batch_at_itself(codec: Compression) -> Draft:
    """A batch length of -12 leads back to the batch itself."""
    return invalid(empty_batch(codec, batch_length=-LOG_OVERHEAD), *BAD_SIZE)


@case("FRM-05", each=ALL)
def batch_at_the_one_before(codec: Compression) -> Draft:
    """A batch length that leads back to the batch before it, which is read."""
    first = expected(record())
    back = empty_batch(codec, batch_length=-LOG_OVERHEAD - len(sealed(first)))
    return invalid(sealed(first) + back, *BAD_SIZE, before=(first,))


@case("FRM-05", each=MAGICS)
def message_at_itself(magic: int) -> Draft:
    """A message size of -12 leads back to the message itself."""
    return invalid(put(message_bytes(record_of(magic), magic), "message_size", -12, layout=MESSAGE_V0), *BAD_SIZE)


@case("FRM-05", each=MAGICS)
def message_at_the_one_before(magic: int) -> Draft:
    """A message size that leads back to the message before it, which is read."""
    first, second = numbered(magic, 0, 1)
    start = message_bytes(first, magic)
    back = put(message_bytes(second, magic), "message_size", -LOG_OVERHEAD - len(start), layout=MESSAGE_V0)
    return invalid(start + back, *BAD_SIZE, before=(single_batch(first, magic),))


@case("NST-07", each=grid(magic=MAGICS, codec=OLD))
def inner_message_at_itself(shape: dict[str, Any]) -> Draft:
    """An inner size of -12 leads back to the inner message itself."""
    return invalid(inner_back(shape["magic"], shape["codec"], -LOG_OVERHEAD), *BAD_SIZE)


@case("NST-07", each=grid(magic=MAGICS, codec=OLD))
def inner_message_at_the_one_before(shape: dict[str, Any]) -> Draft:
    """An inner size that leads back to the inner message before it."""
    magic = shape["magic"]
    before = len(message_bytes(numbered(magic, 0)[0], magic))
    return invalid(inner_back(magic, shape["codec"], -LOG_OVERHEAD - before), *BAD_SIZE)


def inner_back(magic: int, codec: Compression, size: int) -> bytes:
    """A wrapper around two messages, the second of which says that it has *size*."""
    first, second = numbered(magic, 0, 1)
    back = put(message_bytes(second, magic), "message_size", size, layout=MESSAGE_V0)
    return wrap(message_bytes(first, magic) + back, magic, codec, offset=1)


@case("LEG-09", each=MAGICS)
def value_at_the_start_of_its_message(magic: int) -> Draft:
    """A negative value length means null, also the one that leads back to the start of the message."""
    return valid(*message_back(magic, 0))


@case("LEG-09", each=MAGICS)
def value_at_the_message_before(magic: int) -> Draft:
    """A negative value length means null, also the one that leads back to the start of the message before."""
    first = message_bytes(record_of(magic, 0, b"key"), magic)
    data, batch = message_back(magic, len(first))
    return valid(first + data, single_batch(record_of(magic, 0, b"key"), magic), batch)


def message_back(magic: int, before: int) -> tuple[bytes, Batch]:
    """A message whose value length, added to where the value starts, leads *before* bytes in front of it."""
    size = (MESSAGE_V1 if magic else MESSAGE_V0).size + 4 + 4
    body = b"\xff\xff\xff\xff" + (-size - before).to_bytes(4, "big", signed=True)
    return raw_message(magic, offset=7, body=body), single_batch(record_of(magic, 7, None, None), magic)


@case("HDR-13", "REC-11")
def record_at_itself() -> Draft:
    """A value length that leads to the byte before its record is a null, and the record count is wrong.

    -7 leads to the last byte of the count, a zero that passes for the header count.
    """
    back = raw_record(value_length=encode_varint(-7), value=None)
    return invalid(raw_batch(back, record_count=0x7FFFFF00), *STRUCTURE)


@case("REC-15", "REC-20", each={"empty-key": b"", "key": b"key"})
def header_at_itself(key: bytes) -> Draft:
    """A header value length that leads back to the header itself is a null, and the count is wrong."""
    back = encode_varint(-len(encode_varint(0) + key) - 1)
    headers = raw_header(key, None, value_length=back)
    return invalid(raw_batch(raw_record(header_count=encode_varint(1_000_000_000), headers=headers)), *STRUCTURE)
