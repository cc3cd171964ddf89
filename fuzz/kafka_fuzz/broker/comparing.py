"""Compare a broker's answer to a payload with the reference's; the difference becomes part of a key.

Compared are the error code, the invalid records, the base offset, the broker's
time, and the stored bytes.  Bytes that the broker compressed itself are compared
after decompression, because libraries compress differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import error as StructError

from kafka_brokers.wire import Produced
from kafka_brokers.wire.errors import error_name
from kafka_corpus.answer_diff import masked
from kafka_fuzz.mutate.entries import layout_of_magic
from kafka_records import AppendResult, RecordFormatError
from kafka_records.layout import MAGIC_OFFSET
from kafka_records.log import split_entries

# The first versions of the request whose answers have these fields.
FIRST_WITH_TIME = 2
FIRST_WITH_RECORD_ERRORS = 8
# Fields that differ whenever another field does.
LAST = ("crc", "batch_length", "message_size", "size")


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """A broker's answer and the bytes that it stored; *closed* if it closed the connection instead."""

    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    record_errors: tuple[int, ...] = ()
    stored: bytes = b""
    closed: bool = False


def produce_answer(produced: Produced, stored: bytes) -> ProduceAnswer:
    """The compared parts of *produced*, with the bytes that a fetch returned."""
    failed = produced.error_code != 0
    return ProduceAnswer(
        produced.error_code,
        -1 if failed else produced.base_offset,
        produced.log_append_time,
        tuple(index for index, _ in produced.record_errors),
        stored,
    )


def answer_difference(given: ProduceAnswer, wanted: AppendResult, version: int) -> str:
    """The first field in which *given* differs from the prediction for a request of *version*; empty if none does."""
    if given.closed:
        return f"the connection is closed, predicted {error_name(wanted.error_code)}"
    if given.error_code != wanted.error_code:
        return f"error {error_name(given.error_code)}, predicted {error_name(wanted.error_code)}"
    if version >= FIRST_WITH_RECORD_ERRORS and given.record_errors != wanted.record_errors:
        return "record_errors"
    if given.base_offset != wanted.base_offset:
        return "base_offset"
    if version >= FIRST_WITH_TIME and given.log_append_time != wanted.log_append_time:
        return "log_append_time"
    return stored_difference(given.stored, wanted)


def stored_difference(given: bytes, wanted: AppendResult) -> str:
    """The first field in which the stored bytes differ from the predicted ones."""
    if given == wanted.stored or (wanted.path != "in place" and is_same_above_compression(given, wanted.stored)):
        return ""
    theirs, ours = cut(given), cut(wanted.stored)
    if len(theirs) != len(ours):
        return "stored entries"
    pairs = ((one, other) for one, other in zip(theirs, ours, strict=True) if one != other)
    one, other = next(pairs, (given, wanted.stored))
    return f"stored {entry_difference(one, other)}"


def is_same_above_compression(one: bytes, other: bytes) -> bool:
    """Whether two logs are equal after decompression."""
    try:
        return masked(one) == masked(other)
    except RecordFormatError:
        return False


def cut(data: bytes) -> list[bytes]:
    """The whole entries of *data* before the first error."""
    found: list[bytes] = []
    try:
        found.extend(data[start:end] for start, end in split_entries(data))
    except RecordFormatError:
        pass
    return found


def entry_difference(one: bytes, other: bytes) -> str:
    """The field in which two entries differ; `records` if it is none of the fixed ones."""
    if one[MAGIC_OFFSET] != other[MAGIC_OFFSET]:
        return "magic"
    layout = layout_of_magic(other[MAGIC_OFFSET])
    try:
        theirs, ours = layout.values(one), layout.values(other)
    except StructError:
        return "bytes"
    names = (name for name in ours if name not in LAST and theirs[name] != ours[name])
    return next(names, "records")
