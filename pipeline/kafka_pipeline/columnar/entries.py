"""Entries one after the other, for kernels: what is plainly right goes into the columns.

`read_entries` stops where somebody else has to do something, and says what:
inflate compressed bytes, ask the reference, make room.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_pipeline.columnar.buffers import Out
from kafka_pipeline.columnar.checksum import crc32c
from kafka_pipeline.columnar.jit import Numbers, inlined, kernel, part
from kafka_pipeline.columnar.memory import SLACK, load_i16, load_i32, load_i64, load_u8, load_u32, store_64
from kafka_pipeline.columnar.records import (
    FINE,
    NO_ROOM,
    REFUSED,
    SIZE_AT,
    is_intact,
    message_value,
    read_message,
    read_records,
    read_run,
    read_set,
    take_back,
)
from kafka_records.attributes import COMPRESSION_CODEC_MASK, TIMESTAMP_TYPE_MASK
from kafka_records.budget import BATCH_COST, HEADER_COST, MESSAGE_COST, PAYLOAD_COST, PER_INPUT_BYTE, RECORD_COST, START
from kafka_records.constants import (
    COMPRESSIONS,
    HEADER_SIZE_UP_TO_MAGIC,
    INT32_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V1,
    MAGIC_VALUE_V2,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
)
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    CRC_OFFSET_V2,
    CRC_START_V2,
    MAGIC_OFFSET,
    RECORD_COUNT_OFFSET_V2,
)

BASE_TIMESTAMP_AT = BATCH_V2.field("base_timestamp").offset
MAX_TIMESTAMP_AT = BATCH_V2.field("max_timestamp").offset
CODECS = len(COMPRESSIONS)
ZSTD = COMPRESSIONS.index("zstd")
# A record takes 7 bytes at least: six varints and its attributes.
SMALLEST_RECORD = 7
SMALLEST_MESSAGE = LOG_OVERHEAD + RECORD_OVERHEAD_V0
# More than any object costs while its bytes are still held in another form.
PAYLOAD_TWICE = PAYLOAD_COST + 1

# Why `read_entries` stopped, besides REFUSED and NO_ROOM: the reference has to read the entry, the chunk is full.
END: Final = 3  # no whole entry is left
EDGE: Final = 4  # too close to the end of the memory to be read there
BROKEN: Final = 5  # size or magic cannot be
PACKED: Final = 6  # compressed bytes that are not inflated yet


class EntrySource(NamedTuple):
    """The bytes to read: addresses, the position in the file of the first, and what decoding may take besides.

    All below *readable* may be looked at, but only what is below *end* counts.
    """

    start: int
    end: int
    readable: int
    position: int
    most_output: int


# A row of `ready`: the address of an entry, and of its inflated bytes; their size, which is negative if the
# reference has to decode the entry; the data buffer that holds them, and where that starts.
READY_FIELDS: Final = 5


@inlined
def entry_end(at: int, end: int) -> int:
    """Where the entry at *at* ends; 0 if it is not whole, -1 if its size or magic cannot be (`log.next_entry`)."""
    left = end - at
    if left < LOG_OVERHEAD:
        return 0
    size = load_i32(at + SIZE_AT)
    if size < RECORD_OVERHEAD_V0:
        return -1
    if left < HEADER_SIZE_UP_TO_MAGIC:
        return 0
    if load_u8(at + MAGIC_OFFSET) > MAGIC_VALUE_V2 or size > INT32_MAX - LOG_OVERHEAD:
        return -1
    return 0 if left < LOG_OVERHEAD + size else at + LOG_OVERHEAD + size


@inlined
def room_of(source: EntrySource, at: int, end: int) -> int:
    """Bytes of memory that decoding the entry may take, as the reference counts (`budget.py`)."""
    return START + PER_INPUT_BYTE * (end - at) + source.most_output


@inlined
def is_intact_batch(at: int, end: int, floor: int) -> bool:
    """Whether a v2 batch has its header, and its CRC is right (HDR-05, CRC-07)."""
    if end - at < RECORD_BATCH_OVERHEAD:
        return False
    return load_u32(at + CRC_OFFSET_V2) == crc32c(at + CRC_START_V2, end - at - CRC_START_V2, floor)


@inlined
def read_batch(
    source: EntrySource,
    at: int,
    end: int,
    payload: int,
    size: int,
    buffer: int,
    base: int,
    out: Out,
    row: int,
    header: int,
) -> tuple[int, int, int]:
    """The records of the v2 batch at *at*, plain at *payload*; its CRC is known to be right."""
    count = load_i32(at + RECORD_COUNT_OFFSET_V2)
    if count == 0:
        return FINE, row, header  # HDR-16
    if count < 0 or count > size // SMALLEST_RECORD:
        return REFUSED, row, header
    if row + count > out.rows:
        return NO_ROOM, row, header
    append = load_i16(at + ATTRIBUTES_OFFSET_V2) & TIMESTAMP_TYPE_MASK != 0
    status, end_row, end_header = read_records(
        payload,
        payload + size,
        count,
        load_i64(at),
        load_i64(at + BASE_TIMESTAMP_AT),
        append,
        load_i64(at + MAX_TIMESTAMP_AT),
        at - source.start + source.position,
        buffer,
        base,
        out,
        row,
        header,
    )
    cost = BATCH_COST + PAYLOAD_TWICE * size + RECORD_COST * count + HEADER_COST * (end_header - header)
    if status == FINE and cost > room_of(source, at, end):
        return REFUSED, end_row, end_header
    return status, end_row, end_header


@part
def read_inner_messages(
    source: EntrySource,
    at: int,
    end: int,
    payload: int,
    size: int,
    buffer: int,
    base: int,
    out: Out,
    row: int,
    header: int,
) -> tuple[int, int]:
    """The inner messages of the wrapper at *at*, plain at *payload*; its own CRC is known to be right."""
    if row + size // SMALLEST_MESSAGE > out.rows:
        return NO_ROOM, row
    magic = load_u8(at + MAGIC_OFFSET)
    append = magic == MAGIC_VALUE_V1 and load_u8(at + ATTRIBUTES_OFFSET_LEGACY) & TIMESTAMP_TYPE_MASK != 0
    position = at - source.start + source.position
    status, end_row = read_set(payload, payload + size, at, append, position, buffer, base, out, row, header)
    cost = BATCH_COST + RECORD_COST + PAYLOAD_TWICE * size + MESSAGE_COST * (end_row - row)
    if status == FINE and cost > room_of(source, at, end):
        return REFUSED, end_row
    return status, end_row


@inlined
def read_plain(source: EntrySource, at: int, end: int, out: Out, row: int, header: int) -> tuple[int, int, int]:
    """The entry at *at*, which is not compressed."""
    if load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V2:
        if not is_intact_batch(at, end, source.start):
            return REFUSED, row, header
        payload = at + RECORD_BATCH_OVERHEAD
        return read_batch(source, at, end, payload, end - payload, 0, source.start, out, row, header)
    if row == out.rows:
        return NO_ROOM, row, header
    if not is_intact(at, end, source.start):
        return REFUSED, row, header
    position = at - source.start + source.position
    status = read_message(at, end, position, 0, source.start, out, row, header)
    return status, row + 1, header


@inlined
def entry_codec(at: int) -> int:
    """The codec of an entry, by its number; those that its format does not have are -1."""
    if load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V2:
        codec = load_i16(at + ATTRIBUTES_OFFSET_V2) & COMPRESSION_CODEC_MASK
        return codec if codec < CODECS else -1
    codec = load_u8(at + ATTRIBUTES_OFFSET_LEGACY) & COMPRESSION_CODEC_MASK
    return codec if codec < ZSTD else -1


@part
def read_packed(
    source: EntrySource, at: int, end: int, out: Out, row: int, header: int, ready: Numbers, cursor: int
) -> tuple[int, int, int]:
    """The entry at *at*, which is compressed."""
    if cursor == len(ready) or ready[cursor, 0] != at:
        return PACKED, row, header
    payload, size, buffer, base = ready[cursor, 1], ready[cursor, 2], ready[cursor, 3], ready[cursor, 4]
    if size < 0:
        return REFUSED, row, header
    if load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V2:
        return read_batch(source, at, end, payload, size, buffer, base, out, row, header)
    status, end_row = read_inner_messages(source, at, end, payload, size, buffer, base, out, row, header)
    return status, end_row, header


@part
def read_plain_messages(
    source: EntrySource, at: int, out: Out, row: int, header: int, batch: int
) -> tuple[int, int, int]:
    """Plain v0 or v1 messages, as far as they are right; where that ends, rows and batches."""
    limit = min(source.end, source.readable - SLACK)
    moved = source.position - source.start
    if load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V0:
        return read_run(at, limit, source.start, moved, out, row, header, batch, MAGIC_VALUE_V0)
    return read_run(at, limit, source.start, moved, out, row, header, batch, MAGIC_VALUE_V1)


@kernel
def read_entries(
    source: EntrySource, at: int, out: Out, row: int, header: int, batch: int, ready: Numbers, cursor: int
) -> tuple[int, int, int, int, int, int]:
    """Entries from *at* on, as far as it goes.

    Gives why it stopped and where; how many rows, headers and batches there
    are now; and how many of the *ready* payloads are used up.
    """
    while True:
        end = entry_end(at, source.end)
        if end <= 0:
            return END if end == 0 else BROKEN, at, row, header, batch, cursor
        if end + SLACK > source.readable:
            return EDGE, at, row, header, batch, cursor
        if batch == out.batches:
            return NO_ROOM, at, row, header, batch, cursor
        codec = entry_codec(at)
        if codec == 0 and load_u8(at + MAGIC_OFFSET) != MAGIC_VALUE_V2:
            first = at
            at, row, batch = read_plain_messages(source, at, out, row, header, batch)
            if at != first:
                continue
        status, end_row, end_header = REFUSED, row, header
        if codec == 0:
            status, end_row, end_header = read_plain(source, at, end, out, row, header)
        elif codec > 0:
            status, end_row, end_header = read_packed(source, at, end, out, row, header, ready, cursor)
        if status != FINE:
            take_back(out, row, min(end_row, out.rows), header, min(end_header, out.headers))
            return status, at, row, header, batch, cursor
        store_64(out.batch_position + 8 * batch, at - source.start + source.position)
        store_64(out.batch_row + 8 * batch, row)
        batch += 1
        row, header, at = end_row, end_header, end
        cursor += codec != 0


# A row of `find_packed`: the address of an entry, the address of its compressed bytes, their size, and the codec.
# A size of -1: the reference has to read it.
PACKED_FIELDS: Final = 4


@kernel
def find_packed(source: EntrySource, at: int, until: int, found: Numbers) -> int:
    """Compressed entries from *at* to *until*, as many as there is room for: how many, in *found*, CRCs verified."""
    count = 0
    while count < len(found) and at < until:
        end = entry_end(at, source.end)
        if end <= 0 or end + SLACK > source.readable:
            break
        codec = entry_codec(at)
        if codec > 0:
            found[count, 0], found[count, 1], found[count, 2], found[count, 3] = at, 0, -1, codec
            if load_u8(at + MAGIC_OFFSET) != MAGIC_VALUE_V2:
                if is_intact(at, end, source.start):
                    value, size = message_value(at, end)
                    found[count, 1], found[count, 2] = value, size if value else -1
            elif is_intact_batch(at, end, source.start):
                payload = at + RECORD_BATCH_OVERHEAD
                found[count, 1] = payload
                # HDR-16: a batch that claims no records is not read further.
                found[count, 2] = end - payload
                if load_i32(at + RECORD_COUNT_OFFSET_V2) == 0:
                    found[count, 3] = 0
            count += 1
        at = end
    return count
