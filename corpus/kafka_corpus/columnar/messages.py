"""v0 and v1 messages into columns, for kernels: plain ones, and the inner ones of wrappers.

As in `records.py`, what is not plainly right is refused, and the reference is asked.
"""

from __future__ import annotations

from kafka_corpus.columnar.buffers import Out
from kafka_corpus.columnar.checksum import crc32
from kafka_corpus.columnar.fields import VIEW, fetch_ahead, store_null, store_view
from kafka_corpus.columnar.jit import inlined, part
from kafka_corpus.columnar.memory import load_i32, load_i64, load_u8, load_u32, raw_i64, store_32, store_64
from kafka_corpus.columnar.records import FINE, REFUSED
from kafka_records.attributes import COMPRESSION_CODEC_MASK
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V0, MAGIC_VALUE_V1, NO_TIMESTAMP, RECORD_OVERHEAD_V0
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    CRC_OFFSET_LEGACY,
    CRC_START_LEGACY,
    MAGIC_OFFSET,
    MESSAGE_V0,
    MESSAGE_V1,
)

SIZE_AT = 8
TIMESTAMP_AT = MESSAGE_V1.field("timestamp").offset
SIZE_V0, SIZE_V1 = MESSAGE_V0.size, MESSAGE_V1.size


@inlined
def is_intact(at: int, end: int, floor: int) -> bool:
    """Whether the CRC of the message from *at* to *end* is right (LEG-04)."""
    return load_u32(at + CRC_OFFSET_LEGACY) == crc32(at + CRC_START_LEGACY, end - at - CRC_START_LEGACY, floor)


@inlined
def value_of(at: int, end: int) -> tuple[int, int]:
    """Where the value of a message lies, and its size, which is negative for null; (0, 0) if it is not whole."""
    at += SIZE_V0 if load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V0 else SIZE_V1
    if at + 4 > end:
        return 0, 0
    at += 4 + max(load_i32(at), 0)
    if at + 4 > end:
        return 0, 0
    size = load_i32(at)
    return (0, 0) if size > end - at - 4 else (at + 4, size)


@inlined
def read_message(at: int, end: int, position: int, buffer: int, base: int, out: Out, row: int, header: int) -> int:
    """The message from *at* to *end* as a row, its own offset and timestamp in it."""
    fetch_ahead(at, end)
    value, value_size = value_of(at, end)
    if value == 0:
        return REFUSED
    legacy = load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V0
    key = at + (SIZE_V0 if legacy else SIZE_V1)
    key_size = load_i32(key)
    if key_size < 0:
        store_null(out.key + VIEW * row, out.key_bits, row)
    else:
        store_view(out.key + VIEW * row, key + 4, key_size, buffer, base)
    if value_size < 0:
        store_null(out.value + VIEW * row, out.value_bits, row)
    else:
        store_view(out.value + VIEW * row, value, value_size, buffer, base)
    store_64(out.position + 8 * row, position)
    store_64(out.offset + 8 * row, load_i64(at))
    store_64(out.timestamp + 8 * row, NO_TIMESTAMP if legacy else load_i64(at + TIMESTAMP_AT))
    store_32(out.header_end + 4 * (row + 1), header)
    return FINE


@inlined
def read_run(
    at: int, limit: int, floor: int, moved: int, out: Out, row: int, header: int, batch: int, magic: int
) -> tuple[int, int, int]:
    """Plain messages of one magic from *at* on, an entry each, until one is not plainly right.

    None reaches beyond *limit*; *moved* makes an address a position in the
    file.  Gives where it ended, and how many rows and batches there are now.
    """
    fixed = SIZE_V0 if magic == MAGIC_VALUE_V0 else SIZE_V1
    most = min(out.rows - row, out.batches - batch)
    for _ in range(most):
        if at + fixed + 8 > limit:
            break
        end = at + LOG_OVERHEAD + load_i32(at + SIZE_AT)
        if end < at + fixed + 8 or end > limit or load_u8(at + MAGIC_OFFSET) != magic:
            break
        key_size = load_i32(at + fixed)
        value = at + fixed + 8 + max(key_size, 0)
        if value > end or load_u8(at + ATTRIBUTES_OFFSET_LEGACY) & COMPRESSION_CODEC_MASK:
            break
        value_size = load_i32(value - 4)
        if value_size > end - value or not is_intact(at, end, floor):
            break
        fetch_ahead(at, end)
        if key_size < 0:
            store_null(out.key + VIEW * row, out.key_bits, row)
        else:
            store_view(out.key + VIEW * row, at + fixed + 4, key_size, 0, floor)
        if value_size < 0:
            store_null(out.value + VIEW * row, out.value_bits, row)
        else:
            store_view(out.value + VIEW * row, value, value_size, 0, floor)
        store_64(out.position + 8 * row, at + moved)
        store_64(out.batch_position + 8 * batch, at + moved)
        store_64(out.batch_row + 8 * batch, row)
        store_64(out.offset + 8 * row, load_i64(at))
        store_64(out.timestamp + 8 * row, NO_TIMESTAMP if magic == MAGIC_VALUE_V0 else load_i64(at + TIMESTAMP_AT))
        row, batch, at = row + 1, batch + 1, end
        store_32(out.header_end + 4 * row, header)
    return at, row, batch


@part
def read_set(
    at: int,
    end: int,
    wrapper: int,
    append: bool,
    position: int,
    buffer: int,
    base: int,
    out: Out,
    row: int,
    header: int,
) -> tuple[int, int]:
    """The inner messages from *at* to *end* of the wrapper at *wrapper*: what became of them, rows."""
    first = row
    last = 0
    while at + LOG_OVERHEAD <= end:
        size = load_i32(at + SIZE_AT)
        stop = at + LOG_OVERHEAD + size
        if size < RECORD_OVERHEAD_V0:
            return REFUSED, row
        if stop > end:
            break  # NST-06: a tail that is cut short is dropped
        if not is_intact(at, stop, base) or load_u8(at + ATTRIBUTES_OFFSET_LEGACY) & COMPRESSION_CODEC_MASK:
            return REFUSED, row
        if read_message(at, stop, position, buffer, base, out, row, header) != FINE:
            return REFUSED, row + 1
        if append and load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V1:
            store_64(out.timestamp + 8 * row, load_i64(wrapper + TIMESTAMP_AT))  # NST-20, NST-21
        last = load_i64(at)
        row += 1
        at = stop
    if row == first:
        return REFUSED, row
    return move_offsets(wrapper, last, out, first, row), row


@part
def move_offsets(wrapper: int, last: int, out: Out, first: int, row: int) -> int:
    """Make inner offsets absolute (NST-08 to NST-10, NST-14)."""
    offset = load_i64(wrapper)
    if load_u8(wrapper + MAGIC_OFFSET) == MAGIC_VALUE_V0 or offset == 0:
        return FINE
    if offset < last:
        return REFUSED
    for at in range(out.offset + 8 * first, out.offset + 8 * row, 8):
        store_64(at, raw_i64(at) + offset - last)
    return FINE
