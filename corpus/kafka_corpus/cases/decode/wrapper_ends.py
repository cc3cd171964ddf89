"""Wrappers that end too early: streams cut short, last messages that say more than there is (groups NST, CMP).

What readers of v0 and v1 do at the end of a stream is code of its own, apart
from that for v2: where the one refuses, the other may crash, or give what
is not there.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, grid, put
from kafka_corpus.authoring.frames import pack
from kafka_corpus.authoring.messages import message_bytes, numbered, record_of, seal, set_of, wrap, wrapper_batch
from kafka_corpus.registry import Draft, acceptable, case, invalid
from kafka_records import Kind
from kafka_records.constants import Compression
from kafka_records.layout import MESSAGE_V0

MAGICS = {"v0": 0, "v1": 1}
CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
REFUSED: Final[tuple[Kind, ...]] = ("decompression", "corrupt", "malformed", "truncated")
# Bytes of the stream that are left; of a gzip member the header takes 10, of an lz4 frame 7, of a xerial stream 16.
LEFT = {"one-byte": 1, "seven": 7, "ten": 10, "twelve": 12, "half": -1}


@case("CMP-04", "NST-01", each=grid(magic=MAGICS, codec=CODECS, left=LEFT))
def stream_ends_early(shape: dict[str, Any]) -> Draft:
    """A stream in a wrapper that ends in its header, right after it, or in its data is refused."""
    magic, codec, left = shape["magic"], shape["codec"], shape["left"]
    packed = pack(codec, set_of(numbered(magic, 0, 1), magic), magic=magic)
    cut = packed[: len(packed) // 2 if left < 0 else left]
    return invalid(seal(cut, magic, codec, offset=1, timestamp=TIMESTAMP + 1), *REFUSED)


TOO_LARGE = {"by-1": 1, "by-1000": 1000}
PARTIAL_IS_THE_END = "DataLogInputStream takes the end of the data for the end of the set, a stricter reader need not"


@case("NST-06", each=grid(magic=MAGICS, codec=CODECS, size=TOO_LARGE))
def size_of_the_last_inner_message_too_large(shape: dict[str, Any]) -> Draft:
    """Kafka drops a last inner message whose size reaches beyond the set, and reads those before it."""
    magic, codec = shape["magic"], shape["codec"]
    first, second, third = numbered(magic, 0, 1, 2)
    last = message_bytes(third, magic)
    last = put(last, "message_size", len(last) - 12 + shape["size"], layout=MESSAGE_V0)
    data = wrap(set_of([first, second], magic) + last, magic, codec, offset=1, timestamp=TIMESTAMP + 1)
    batch = wrapper_batch([first, second], magic, codec, timestamp=TIMESTAMP + 1)
    return acceptable(data, batch, kinds=("truncated", "malformed"), why=PARTIAL_IS_THE_END)


@case("NST-06", "NST-08", each=grid(magic=MAGICS, codec=CODECS), since="1.1")
def offsets_before_a_partial_last_message(shape: dict[str, Any]) -> Draft:
    """Kafka gives the last whole inner message the wrapper's offset, and drops the partial one after it."""
    magic, codec = shape["magic"], shape["codec"]
    first, second, third = (record._replace(offset=record.offset + 4) for record in numbered(magic, 0, 1, 2))
    inner = set_of([first, second, third], magic, base=4 if magic else 0)[:-1]
    data = wrap(inner, magic, codec, offset=5, timestamp=TIMESTAMP + 1)
    batch = wrapper_batch([first, second], magic, codec, timestamp=TIMESTAMP + 1)
    return acceptable(data, batch, kinds=("truncated", "malformed"), why=PARTIAL_IS_THE_END)


@case("NST-06", each=MAGICS)
def size_of_the_last_inner_message_cut_short(magic: int) -> Draft:
    """Kafka drops eleven bytes after the last inner message, which end within a size.

    A reader that keeps its buffer finds the last byte of the size before there: together they say 4.
    """
    first = record_of(magic, 0, b"key", b"v" * (243 if magic == 0 else 235))
    whole = message_bytes(first, magic)
    assert len(whole) - 12 == 0x104
    data = wrap(whole + message_bytes(record_of(magic, 1), magic)[:11], magic, "gzip", offset=0, timestamp=TIMESTAMP)
    why = "DataLogInputStream takes fewer than 12 bytes for the end of the set"
    batch = wrapper_batch([first], magic, "gzip", timestamp=TIMESTAMP)
    return acceptable(data, batch, kinds=("truncated", "malformed"), why=why)


@case("NST-27", each=grid(magic=MAGICS, size=TOO_LARGE))
def size_of_the_only_inner_message_too_large(shape: dict[str, Any]) -> Draft:
    """An only inner message with a size that reaches beyond the set leaves a wrapper without messages."""
    magic = shape["magic"]
    (only,) = numbered(magic, 0)
    message = message_bytes(only, magic)
    bad = put(message, "message_size", len(message) - 12 + shape["size"], layout=MESSAGE_V0)
    return invalid(wrap(bad, magic, "gzip"), "malformed", "truncated", "corrupt")


# Java's largest array is 8 below the largest int32, and its default bound of an inner message.
HUGE = {"INT32_MAX - 8": 2**31 - 9, "INT32_MAX - 7": 2**31 - 8, "INT32_MAX": 2**31 - 1}


@case("NST-27", each=grid(magic=MAGICS, size=HUGE))
def size_of_the_only_inner_message_huge(shape: dict[str, Any]) -> Draft:
    """A wrapper whose only inner message claims a size of about 2 GiB is an error."""
    magic = shape["magic"]
    (only,) = numbered(magic, 0)
    bad = put(message_bytes(only, magic), "message_size", shape["size"], layout=MESSAGE_V0)
    return invalid(wrap(bad, magic, "gzip"), "malformed", "truncated", "corrupt", "limit")
