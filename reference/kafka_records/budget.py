"""How decoding stays within its memory bound.

A decoder starts with a budget of 8 bytes for every byte of input, the caller's
output limit and a little to start with, and pays for each object before it is
made.  The prices are what CPython takes, rounded up; a count or length that the
input merely claims is never paid for with memory.
"""

from __future__ import annotations

from kafka_records.errors import RecordFormatError
from kafka_records.model import Limits

START = 16 * 1024 * 1024
PER_INPUT_BYTE = 8

# Object headers, two boxed integers, two byte strings, a slot in a list and in a tuple.
RECORD_COST = 320
# An inner message, which is kept until all of its set are known, and the record that it becomes.
MESSAGE_COST = 480
HEADER_COST = 192
BATCH_COST = 1024
# Decompressed bytes are held once as they are and once as keys and values.
PAYLOAD_COST = 2


def budget(data: bytes, limits: Limits) -> int:
    """Bytes of memory that decoding *data* may take."""
    return START + PER_INPUT_BYTE * len(data) + limits.max_output_bytes


def pay(room: int, price: int, *, offset: int, path: str = "") -> int:
    """The rest of *room* after *price*; kind `limit` if that is less than nothing."""
    if price > room:
        raise out_of_room(offset, path)
    return room - price


def out_of_room(offset: int, path: str = "") -> RecordFormatError:
    """The budget is used up (CMP-10: Kafka itself has none)."""
    message = "decoding needs more memory than the limit allows"
    return RecordFormatError("limit", message, path=path, offset=offset, rule="CMP-10")
