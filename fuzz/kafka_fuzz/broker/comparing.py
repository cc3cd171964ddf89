"""A broker's answer to a payload held against the reference's: where they part, in words that make a key.

Error code, records at fault, base offset, the broker's time, and the bytes in
the log.  Bytes are compared as they are; only where the broker compressed them
itself, above compression, since each library packs in its own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import error as StructError

from kafka_brokers.wire import Produced
from kafka_brokers.wire.errors import error_name
from kafka_corpus.masking import masked
from kafka_records import AppendResult, RecordFormatError
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1, Layout
from kafka_records.log import split_entries

# What answers say from these versions of the request on.
FIRST_WITH_TIME = 2
FIRST_WITH_RECORD_ERRORS = 8
# These differ if anything else does.
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
    """The parts of *produced* that are compared, and what a fetch gave back."""
    failed = produced.error_code != 0
    return ProduceAnswer(
        produced.error_code,
        -1 if failed else produced.base_offset,
        produced.log_append_time,
        tuple(index for index, _ in produced.record_errors),
        stored,
    )


def answer_difference(given: ProduceAnswer, wanted: AppendResult, version: int) -> str:
    """The first thing in which *given* is not as predicted for a request of *version*; empty if there is none."""
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
    """The first field in which stored bytes are not as predicted."""
    if given == wanted.stored or (wanted.path != "in place" and is_same_above_compression(given, wanted.stored)):
        return ""
    theirs, ours = cut(given), cut(wanted.stored)
    if len(theirs) != len(ours):
        return "stored entries"
    pairs = ((one, other) for one, other in zip(theirs, ours, strict=True) if one != other)
    one, other = next(pairs, (given, wanted.stored))
    return f"stored {entry_difference(one, other)}"


def is_same_above_compression(one: bytes, other: bytes) -> bool:
    """Whether two logs hold the same but for how it is packed."""
    try:
        return masked(one) == masked(other)
    except RecordFormatError:
        return False


def cut(data: bytes) -> list[bytes]:
    """The whole entries of *data*, as far as they go."""
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
    layout = entry_layout(other[MAGIC_OFFSET])
    try:
        theirs, ours = layout.values(one), layout.values(other)
    except StructError:
        return "bytes"
    names = (name for name in ours if name not in LAST and theirs[name] != ours[name])
    return next(names, "records")


def entry_layout(magic: int) -> Layout:
    """The layout of an entry's fixed fields."""
    if magic >= MAGIC_VALUE_V2:
        return BATCH_V2
    return MESSAGE_V1 if magic else MESSAGE_V0
