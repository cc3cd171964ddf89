"""A log: entries of any magic, end to end, as a fetch or a segment file holds them.

There is no count in front (FRM-02).  A partial entry at the end is normal and
dropped (FRM-07), but what can be seen of it is still checked: its size as soon
as 12 bytes are there (FRM-05), its magic as soon as 17 are (FRM-08).
ByteBufferLogInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as StructError

from kafka_records.batch import decode_batch, encode_batch
from kafka_records.budget import budget
from kafka_records.constants import (
    HEADER_SIZE_UP_TO_MAGIC,
    INT32_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V2,
    RECORD_OVERHEAD_V0,
)
from kafka_records.errors import RecordFormatError
from kafka_records.layout import ENTRY, MAGIC_OFFSET
from kafka_records.message import is_too_small
from kafka_records.message_set import decode_entry, encode_entry
from kafka_records.model import DEFAULT, Batch, Limits


def decode(data: bytes, *, limits: Limits = DEFAULT) -> tuple[Batch, ...]:
    """All complete entries of *data*, in order, as a segment file has them (SEG-01), of any magic (SEG-06).

    Raises:
        RecordFormatError: at the first broken entry; its `batches` are those before.
    """
    data = bytes(data)
    batches: list[Batch] = []
    room = budget(data, limits)
    at = 0
    try:
        for start, end in split_entries(data):
            at = start
            read = decode_batch if data[start + MAGIC_OFFSET] == MAGIC_VALUE_V2 else decode_entry
            batch, room = read(data[start:end], room)
            batches.append(batch)
            at = end
    except RecordFormatError as error:
        error.batches = tuple(batches)
        raise error.inside("batch", moved=at) from None
    return tuple(batches)


def split_entries(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each complete entry starts and ends: one after the other, without a count (FRM-02).

    The second has its framing checked like the first (FRM-13), and no size is too large (FRM-10).

    Raises:
        RecordFormatError: size or magic cannot be; its offset counts from the
            start of the entry.
    """
    at = 0
    while (end := next_entry(data, at)) is not None:
        yield at, end
        at = end


def next_entry(data: bytes, at: int) -> int | None:
    """Where the entry at *at* ends, or None if the log ends before it does."""
    remaining = len(data) - at
    if remaining < LOG_OVERHEAD:
        return None  # FRM-04
    _, size = ENTRY.struct.unpack_from(data, at)
    if is_too_small(size):
        message = f"a size of {size}, the least is {RECORD_OVERHEAD_V0}"
        raise RecordFormatError("malformed", message, path="size", offset=8, rule="FRM-05")
    if remaining < HEADER_SIZE_UP_TO_MAGIC:
        return None  # FRM-06
    magic = data[at + MAGIC_OFFSET]
    if magic > MAGIC_VALUE_V2:
        # FRM-11: Kafka's byte is signed: 128 and above are negative magics, and no better.
        signed = magic - 256 if magic > 127 else magic
        raise RecordFormatError("unsupported_magic", f"magic is {signed}", path="magic", offset=16, rule="FRM-08")
    if size + LOG_OVERHEAD > INT32_MAX:
        # FRM-09: in Kafka the sum overflows and an undeclared exception escapes.
        message = f"a size of {size} overflows with its prefix"
        raise RecordFormatError("malformed", message, path="size", offset=8, rule="FRM-09")
    end = at + LOG_OVERHEAD + size
    return end if end <= len(data) else None  # FRM-07


def encode(batch: Batch) -> bytes:
    """The bytes that Kafka's own writer gives *batch*.

    Compressed bytes depend on the library; everything above compression is exact.

    Raises:
        RecordFormatError: Kafka's writer refuses this batch.
    """
    try:
        match batch.magic:
            case 2:
                return encode_batch(batch)
            case 0 | 1:
                return encode_entry(batch)
        raise RecordFormatError("unsupported_magic", f"magic is {batch.magic}", path="magic", rule="FRM-08")
    except RecordFormatError as error:
        raise error.inside("batch") from None
    except StructError as error:
        # HDR-02, SIZ-11: a field has a width, the record count too; Java's types say so, ours do not.
        message = f"a field does not fit its width: {error}"
        raise RecordFormatError("malformed", message, path="batch", rule="HDR-02") from None
