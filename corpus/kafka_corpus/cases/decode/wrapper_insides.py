"""Inner messages of wrappers that are not like their wrapper, or have more in them than they need (groups NST, LEG).

Kafka finds an inner message by its size, and checks of its magic only whether it
has a timestamp.  A reader that walks from field to field, or that ends at a
magic it does not know as at the end of a fetch, gives something else.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, grid, put, raw_message, reseal_message
from kafka_corpus.authoring.messages import message_bytes, numbered, set_of, wrap, wrapper_batch
from kafka_corpus.registry import Draft, acceptable, case, invalid
from kafka_records import Kind, Record
from kafka_records.constants import INT64_MAX, NO_TIMESTAMP, Compression
from kafka_records.layout import MESSAGE_V0
from kafka_records.primitives import encode_nullable_int32

MAGICS = {"v0": 0, "v1": 1}
CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
SHRUNK: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy"}
UNKNOWN = {"2": 2, "3": 3, "127": 127, "minus-1": -1}
PLACES = {"first": 0, "in-the-middle": 1, "last": 2}
OFFSET = 10
REFUSED: Final[tuple[Kind, ...]] = ("unsupported_magic", "malformed", "corrupt", "truncated", "unsupported_compression")


def moved(records: list[Record]) -> list[Record]:
    """*records* with the offsets that a wrapper at `OFFSET` gives them."""
    return [record._replace(offset=record.offset + OFFSET) for record in records]


@case("NST-15", refs=("sarama 1.61.1: MessageSet.decode",), each=grid(magic=UNKNOWN, place=PLACES))
def unknown_magic(shape: dict[str, Any]) -> Draft:
    """An inner message with a magic other than 0 and 1 is read as v1, or refused; the wrapper goes on after it.

    sarama ends the set there without an error; kafkajs drops the whole wrapper,
    and librdkafka the later messages.
    """
    records = numbered(1, 0, 1, 2)
    messages = [message_bytes(record, 1) for record in records]
    there = shape["place"]
    messages[there] = reseal_message(put(messages[there], "magic", shape["magic"], layout=MESSAGE_V0))
    data = wrap(b"".join(messages), 1, "gzip", offset=OFFSET + 2, timestamp=TIMESTAMP + 2)
    why = "brokers refuse another magic than the wrapper's; Java's reader only checks whether it is above 0"
    batch = wrapper_batch(moved(records), 1, "gzip", timestamp=TIMESTAMP + 2)
    return acceptable(data, batch, kinds=REFUSED, why=why)


TAILS = {"a-byte": b"\x00", "a-word": b"slack!", "a-message": raw_message(1, b"inside")}


@case("LEG-12", "LEG-05", "NST-01", each=grid(magic=MAGICS, codec=SHRUNK, tail=TAILS))
def slack_after_value(shape: dict[str, Any]) -> Draft:
    """The next inner message starts where the size says, and not where the value before it ends."""
    magic, codec = shape["magic"], shape["codec"]
    first, *others = records = numbered(magic, 0, 1, 2)
    longer = raw_message(magic, first.key, first.value, timestamp=first.timestamp, tail=shape["tail"])
    inner = longer + set_of(others, magic)
    data = wrap(inner, magic, codec, offset=2, timestamp=TIMESTAMP + 2)
    why = "Kafka reads no further than the value; the layout has nothing that could follow it"
    batch = wrapper_batch(records, magic, codec, timestamp=TIMESTAMP + 2)
    return acceptable(data, batch, kinds=("malformed",), why=why)


@case("NST-08", each=grid(codec=CODECS, last={"2^53": 2**53, "2^53-plus-1": 2**53 + 1, "largest": INT64_MAX}))
def offsets_beyond_a_double(shape: dict[str, Any]) -> Draft:
    """Inner offsets near 2^53 and above are counted from the wrapper's offset as 64-bit integers.

    kafkajs takes the difference of two of them as a double.
    """
    codec, last = shape["codec"], shape["last"]
    records = [record._replace(offset=record.offset + last - 2) for record in numbered(1, 0, 1, 2)]
    inner = set_of(records, 1, base=records[0].offset)
    why = "no partition has come that far; Java's reader only adds"
    batch = wrapper_batch(records, 1, codec, timestamp=TIMESTAMP + 2)
    return acceptable(wrap(inner, 1, codec, offset=last, timestamp=TIMESTAMP + 2), batch, kinds=("malformed",), why=why)


@case(
    "LEG-11", "LEG-10", "NST-01", each=grid(magic=MAGICS, codec=SHRUNK, reach={"by-8": 8, "to-the-end": 0}), since="1.1"
)
def value_reaches_into_the_next(shape: dict[str, Any]) -> Draft:
    """A value that is longer than its message, and not longer than the set, is refused."""
    magic = shape["magic"]
    first, second = numbered(magic, 0, 1)
    last = message_bytes(second, magic)
    value = first.value or b""
    longer = (len(value) + (shape["reach"] or len(last))).to_bytes(4, "big") + value
    inner = raw_message(magic, body=encode_nullable_int32(first.key) + longer, timestamp=first.timestamp) + last
    data = wrap(inner, magic, shape["codec"], offset=1, timestamp=TIMESTAMP + 1)
    return invalid(data, "malformed", "truncated", "corrupt")


@case("LEG-16", "NST-01", each=grid(magic=MAGICS, codec=CODECS), since="1.1")
def unknown_codec_over_a_set(shape: dict[str, Any]) -> Draft:
    """Codecs 5, 6 and 7 do not exist; bit 2 counts, though the others name the codec of the value."""
    data = wrap(set_of(numbered(shape["magic"], 0, 1), shape["magic"]), shape["magic"], shape["codec"], offset=1)
    return invalid(reseal_message(put(data, "attributes", data[17] | 4, layout=MESSAGE_V0)), "unsupported_compression")


@case("NST-16", each=grid(magic=MAGICS, codec=SHRUNK), since="1.1")
def large_message_in_two_wrappers(shape: dict[str, Any]) -> Draft:
    """A wrapper in a wrapper is refused, also if its message is so large that it gets memory of its own."""
    magic, codec = shape["magic"], shape["codec"]
    record = Record(0, TIMESTAMP if magic else NO_TIMESTAMP, b"key", b"v" * 200_000)
    inside = wrap(set_of([record], magic), magic, codec)
    return invalid(wrap(inside, magic, codec), "malformed", "unsupported_compression")
