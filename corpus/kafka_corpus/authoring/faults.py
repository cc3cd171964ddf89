"""Single faults for a valid entry; `strategies.nearly_valid` draws from them.

A fault takes the bytes of one valid entry and a number to choose by, and gives
bytes that every reader must refuse.  Unless the fault concerns one of them,
lengths and checksums agree with the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafka_corpus.authoring.build import flip, overlong_varint, put, reseal, reseal_message
from kafka_records import Kind
from kafka_records.constants import LOG_OVERHEAD
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, BATCH_V2, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1, Layout
from kafka_records.varint import decode_varint, encode_varint

UNKNOWN_CODECS: Final = (5, 6, 7)
CODEC_BITS: Final = 0x07
CRC_V2: Final = BATCH_V2.field("crc").offset
ATTRIBUTES_V2: Final = BATCH_V2.field("attributes").offset + 1  # the byte that has the codec


@dataclass(frozen=True, slots=True)
class EntryFault:
    """One fault.

    Attributes:
        apply: makes the bytes, from those of a valid entry and a number.
        kinds: the error kinds that fit.
        magics: the formats that it applies to.
        plain: only without compression.
    """

    apply: Callable[[bytes, int], bytes]
    kinds: tuple[Kind, ...]
    magics: tuple[int, ...]
    plain: bool = False


def with_right_checksum(data: bytes) -> bytes:
    """*data* with the checksum of its bytes, in any magic."""
    return reseal(data) if data[MAGIC_OFFSET] == 2 else reseal_message(data)


def resized(data: bytes) -> bytes:
    """*data* with its length field and its checksum recomputed."""
    return with_right_checksum(put(data, "message_size", len(data) - LOG_OVERHEAD, layout=MESSAGE_V0))


def a_bit_of_the_body(data: bytes, choice: int) -> bytes:
    """A bit is flipped after the checksum was computed; a CRC detects every single-bit error."""
    first = CRC_V2 if data[MAGIC_OFFSET] == 2 else ATTRIBUTES_OFFSET_LEGACY
    return flip(data, first + choice % (len(data) - first), 1 << choice % 8)


def a_size_that_none_has(data: bytes, choice: int) -> bytes:
    """A size below the smallest of any format."""
    return put(data, "message_size", (choice % 15) - 1, layout=MESSAGE_V0)


def an_unknown_magic(data: bytes, choice: int) -> bytes:
    """A magic of 3 or more, or a negative one."""
    # Readers refuse an unknown format before they look at the checksum.
    return put(data, "magic", (3, 4, 127, -1, -128)[choice % 5], layout=MESSAGE_V0)


def an_unknown_codec(data: bytes, choice: int) -> bytes:
    """One of the three unused codec ids."""
    at = ATTRIBUTES_V2 if data[MAGIC_OFFSET] == 2 else ATTRIBUTES_OFFSET_LEGACY
    attributes = data[at] & ~CODEC_BITS | UNKNOWN_CODECS[choice % 3]
    return with_right_checksum(data[:at] + bytes((attributes,)) + data[at + 1 :])


def more_records(data: bytes, choice: int) -> bytes:
    """The record count is higher than the number of records."""
    at = BATCH_V2.field("record_count")
    count = int.from_bytes(data[at.offset : at.offset + at.width], "big")
    return resized(put(data, "record_count", count + 1 + choice))


def fewer_records(data: bytes, choice: int) -> bytes:
    """The record count is lower than the number of records; it is never 0, which HDR-16 allows."""
    return resized(data + tail_record(data) * (1 + choice % 3))


def tail_record(data: bytes) -> bytes:
    """A copy of the first record, to be appended without being counted in the header."""
    length, start = decode_varint(data, BATCH_V2.size, "length")
    return data[BATCH_V2.size : start + length]


def a_negative_count(data: bytes, choice: int) -> bytes:
    """A record count below zero."""
    return resized(put(data, "record_count", -1 - choice))


def a_byte_too_many(data: bytes, choice: int) -> bytes:
    """Something follows the last record."""
    return resized(data + bytes((choice % 256,)))


def a_byte_too_few(data: bytes, choice: int) -> bytes:
    """The last record lacks its end; the batch length agrees with the bytes that are left."""
    return resized(data[: -1 - choice % (len(data) - BATCH_V2.size)])


def a_short_record(data: bytes, choice: int) -> bytes:
    """The first record's length leaves out a part of it."""
    length, start = decode_varint(data, BATCH_V2.size, "length")
    shorter = choice % length
    return resized(data[: BATCH_V2.size] + encode_varint(shorter) + data[start:])


def a_negative_record(data: bytes, choice: int) -> bytes:
    """The first record's length is below zero."""
    _, start = decode_varint(data, BATCH_V2.size, "length")
    return resized(data[: BATCH_V2.size] + encode_varint(-1 - choice) + data[start:])


def an_endless_varint(data: bytes, choice: int) -> bytes:
    """The first record's length takes six bytes or more."""
    length, start = decode_varint(data, BATCH_V2.size, "length")
    return resized(data[: BATCH_V2.size] + overlong_varint(length, 6 + choice % 4) + data[start:])


def a_long_key(data: bytes, choice: int) -> bytes:
    """The key claims more bytes than the message has."""
    layout = legacy_layout(data)
    left = len(data) - layout.size
    claimed = (left + choice).to_bytes(4, "big")
    return with_right_checksum(data[: layout.size] + claimed + data[layout.size + 4 :])


def legacy_layout(data: bytes) -> Layout:
    """The layout of a v0 or v1 message."""
    return MESSAGE_V0 if data[MAGIC_OFFSET] == 0 else MESSAGE_V1


STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated")
FAULTS: Final[dict[str, EntryFault]] = {
    "flipped_bit": EntryFault(a_bit_of_the_body, ("corrupt",), (0, 1, 2)),
    "size_too_small": EntryFault(a_size_that_none_has, STRUCTURE, (0, 1, 2)),
    "unknown_magic": EntryFault(an_unknown_magic, ("unsupported_magic",), (0, 1, 2)),
    "unknown_compression": EntryFault(an_unknown_codec, ("unsupported_compression",), (0, 1, 2)),
    "record_count_too_high": EntryFault(more_records, ("truncated", "malformed"), (2,)),
    "record_count_too_low": EntryFault(fewer_records, STRUCTURE, (2,), plain=True),
    "record_count_negative": EntryFault(a_negative_count, STRUCTURE, (2,)),
    "trailing_byte": EntryFault(a_byte_too_many, STRUCTURE, (2,), plain=True),
    "records_cut_short": EntryFault(a_byte_too_few, ("truncated", "malformed"), (2,), plain=True),
    "record_length_too_small": EntryFault(a_short_record, STRUCTURE, (2,), plain=True),
    "record_length_negative": EntryFault(a_negative_record, STRUCTURE, (2,), plain=True),
    "varint_too_long": EntryFault(an_endless_varint, STRUCTURE, (2,), plain=True),
    "key_longer_than_message": EntryFault(a_long_key, ("truncated", "malformed"), (0, 1), plain=True),
}
