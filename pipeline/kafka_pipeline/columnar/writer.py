"""Records of columns into entries, for kernels.

What a writer of Kafka refuses is only refused here; the reference says why.
"""

from __future__ import annotations

from typing import Final

from kafka_pipeline.columnar.checksum import crc32, crc32c
from kafka_pipeline.columnar.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BASE_TIMESTAMP_AT,
    EPOCH_AT,
    FIELDS,
    LAST_OFFSET,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID,
    PRODUCER_ID_AT,
    RECORDS,
    SIZE_AT,
    TIMESTAMP_AT,
)
from kafka_pipeline.columnar.headers import BASE_SEQUENCE_AT as SEQUENCE_AT
from kafka_pipeline.columnar.jit import Numbers, inlined, kernel, part
from kafka_pipeline.columnar.memory import (
    NULL,
    ONE_BYTE,
    TWO_BYTES,
    VIEW,
    Strings,
    Table,
    raw_i64,
    raw_i64_of,
    raw_u32,
    short_varint,
    size_of,
    store_8,
    store_16,
    store_64,
    store_i16,
    store_i32,
    store_i64,
    width_of,
    write_bytes,
    write_raw_varint,
    write_view,
    zigzag_bits,
)
from kafka_records.attributes import COMPRESSION_CODEC_MASK, TIMESTAMP_TYPE_MASK
from kafka_records.constants import INT32_MAX, LOG_OVERHEAD, MAGIC_VALUE_V1, MAGIC_VALUE_V2, NO_TIMESTAMP
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    CRC_OFFSET_LEGACY,
    CRC_OFFSET_V2,
    CRC_START_LEGACY,
    CRC_START_V2,
    MAGIC_OFFSET,
    MESSAGE_V0,
    MESSAGE_V1,
    RECORD_COUNT_OFFSET_V2,
)

# Bytes of a record beyond its keys and values, at most: the varints of length, timestamp and offset, the
# attributes, three more varints; or a message's header and two sizes.
RECORD_EXTRA: Final = 48
BATCH_EXTRA: Final = BATCH_V2.size
HEADER_EXTRA: Final = 10
# Of more rows than that only samples are looked at: so many stretches of so many rows.
MANY: Final = 4096
SAMPLES: Final = 32
STRETCH: Final = 64
# A guess above it is not acted on: one enormous value may be in a sample.
INCREDIBLE: Final = 1 << 30


@part
def all_bytes(strings: Strings, first: int, end: int) -> int:
    """Bytes in these rows of a column."""
    total = 0
    if strings.bits:
        for row in range(first, end):
            total += max(size_of(strings, row), 0)
        return total
    for row in range(first, end):
        total += raw_u32(strings.views + VIEW * row)
    return total


@part
def most_of_rows(table: Table, first: int, end: int) -> int:
    """The most bytes that these rows take."""
    total = (end - first) * RECORD_EXTRA + all_bytes(table.key, first, end) + all_bytes(table.value, first, end)
    if table.header_end and end > first:
        for header in range(raw_u32(table.header_end + 4 * first), raw_u32(table.header_end + 4 * end)):
            total += HEADER_EXTRA + size_of(table.header_key, header) + max(size_of(table.header_value, header), 0)
    return total


@kernel
def most_bytes(table: Table, first: int, end: int, batches: int) -> int:
    """The most bytes that entries with these rows take."""
    return batches * BATCH_EXTRA + most_of_rows(table, first, end)


@kernel
def likely_bytes(table: Table, rows: int, batches: int) -> int:
    """About the bytes that entries with all rows take, rather more: counting all costs as much as a copy."""
    if rows <= MANY:
        return batches * BATCH_EXTRA + most_of_rows(table, 0, rows)
    sampled = 0
    for sample in range(SAMPLES):
        first = (rows - STRETCH) // (SAMPLES - 1) * sample
        sampled += most_of_rows(table, first, first + STRETCH)
    guess = batches * BATCH_EXTRA + (sampled // (SAMPLES * STRETCH) + 1) * rows // 16 * 17
    return guess if guess < INCREDIBLE else batches * BATCH_EXTRA + most_of_rows(table, 0, rows)


@inlined
def width_of_string(size: int) -> int:
    """Bytes of a string's length and of itself."""
    return 1 if size == NULL else width_of(size << 1) + size


@part
def width_of_headers(table: Table, first: int, end: int) -> int:
    """Bytes of headers."""
    total = 0
    for header in range(first, end):
        total += width_of_string(size_of(table.header_key, header))
        total += width_of_string(size_of(table.header_value, header))
    return total


SIZE_V0, SIZE_V1, SIZE_V2 = MESSAGE_V0.size, MESSAGE_V1.size, BATCH_V2.size
# Bytes of a body besides key, value and headers: attributes, four varints, and a number of headers.
LEAST_BODY: Final = 6
MOST_BODY: Final = 1 + 10 + 5 + 5 + 5 + 5
# So that the length of a short record is a varint of two bytes at most.
SHORT_VALUE: Final = TWO_BYTES - ONE_BYTE - MOST_BODY
SHORT_RECORD: Final = TWO_BYTES + 2
# What stands where an end is expected: no writer takes that; there is no room for it.
REFUSED: Final = -1
NO_ROOM: Final = -2
# Why `write_entries` stopped.
DONE: Final = 0
ASK: Final = 1  # the reference has to write the entry
PACK: Final = 2  # this one is to be compressed
FULL: Final = 3  # there was no room for this one


@part
def write_record_headers(table: Table, first: int, end: int, to: int) -> int:
    """Headers; where they end."""
    for header in range(first, end):
        size = size_of(table.header_key, header)
        to = write_bytes(write_raw_varint(to, size << 1), table.header_key, header, size)
        size = size_of(table.header_value, header)
        to = write_raw_varint(to, zigzag_bits(size))
        if size != NULL:
            to = write_bytes(to, table.header_value, header, size)
    return to


@inlined
def are_writable(table: Table, fields: int, row: int) -> bool:
    """Whether offsets rise (OFF-07), none is too far from the base (OFF-08), and the timestamps may be (TIM-04)."""
    offsets, timestamps = table.offset + 8 * row, table.timestamp + 8 * row
    base, last = raw_i64(fields + 8 * BASE_OFFSET), raw_i64(fields + 8 * RECORDS) - 1
    bad = raw_i64(offsets) - base < -INT32_MAX or raw_i64(offsets + 8 * last) - base > INT32_MAX
    # No way out of these loops, so that they become vector instructions.
    for number in range(last):
        bad |= raw_i64_of(offsets, number) >= raw_i64_of(offsets + 8, number)
    for number in range(last + 1):
        bad |= raw_i64_of(timestamps, number) < NO_TIMESTAMP
    return not bad


@inlined
def width_of_numbers(key_size: int, value_size: int, times: int, offsets: int, headers: int) -> int:
    """Bytes of a record's body, but for its strings and headers."""
    width = 1 + width_of(times) + width_of(offsets) + width_of(headers << 1)
    return width + width_of(zigzag_bits(key_size)) + width_of(zigzag_bits(value_size))


@part
def write_shorts(table: Table, fields: int, row: int, end: int, to: int) -> tuple[int, int]:
    """V2 records from *row* on, as long as they are short: the row that is not, and where the records end.

    Short is what has no nulls and no headers, no delta below 0, and varints of
    up to two bytes, the size of its key one; so `SHORT_RECORD` bytes are enough.
    """
    base_offset, base_timestamp = raw_i64(fields + 8 * BASE_OFFSET), raw_i64(fields + 8 * BASE_TIMESTAMP)
    while row < end:
        times, offsets = raw_i64_of(table.timestamp, row) - base_timestamp, raw_i64_of(table.offset, row) - base_offset
        key, value = table.key.views + VIEW * row, table.value.views + VIEW * row
        key_size, value_size = raw_u32(key), raw_u32(value)
        if not (0 <= times | offsets <= TWO_BYTES and key_size <= ONE_BYTE and value_size <= SHORT_VALUE):
            break
        time, time_bits = short_varint(times)
        offset, offset_bits = short_varint(offsets)
        size, size_bits = short_varint(value_size)
        bits = time_bits + offset_bits
        # The attributes, the size of the key, and the number of headers take a byte each; ATT-15.
        length, length_bits = short_varint(3 + key_size + value_size + (bits + size_bits >> 3))
        store_64(to, length | (time | (offset | key_size << 1 << offset_bits) << time_bits) << length_bits + 8)
        to = write_view(to + 2 + (length_bits + bits >> 3), key, table.key.buffers, key_size)
        store_16(to, size)
        to = write_view(to + (size_bits >> 3), value, table.value.buffers, value_size)
        store_8(to, 0)
        to, row = to + 1, row + 1
    return row, to


@inlined
def write_any(table: Table, row: int, times: int, offsets: int, to: int, room: int) -> int:
    """Any v2 record, its deltas zig-zag numbers; where it ends, `NO_ROOM` or `REFUSED`."""
    first, end = headers_of(table, row)
    key_size, value_size = size_of(table.key, row), size_of(table.value, row)
    total = max(key_size, 0) + max(value_size, 0)
    if first != end:
        total += width_of_headers(table, first, end)
    if total > room - to:
        return NO_ROOM
    # The body takes `LEAST_BODY` to `MOST_BODY` bytes more, so where its length ends is mostly known before.
    if total <= ONE_BYTE - MOST_BODY:
        body = to + 1
    elif ONE_BYTE - LEAST_BODY < total <= TWO_BYTES - MOST_BODY:
        body = to + 2
    else:
        width = total + width_of_numbers(key_size, value_size, times, offsets, end - first)
        if width > INT32_MAX:
            return REFUSED
        body = to + width_of(width << 1)
    store_8(body, 0)  # ATT-15
    at = write_raw_varint(write_raw_varint(body + 1, times), offsets)
    at = write_raw_varint(at, zigzag_bits(key_size))
    if key_size != NULL:
        at = write_bytes(at, table.key, row, key_size)
    at = write_raw_varint(at, zigzag_bits(value_size))
    if value_size != NULL:
        at = write_bytes(at, table.value, row, value_size)
    at = write_raw_varint(at, (end - first) << 1)
    if end != first:
        at = write_record_headers(table, first, end, at)
    write_raw_varint(to, (at - body) << 1)
    return at


@inlined
def headers_of(table: Table, row: int) -> tuple[int, int]:
    """The first header of a record, and where they end."""
    if table.header_end:
        return raw_u32(table.header_end + 4 * row), raw_u32(table.header_end + 4 * row + 4)
    return 0, 0


@inlined
def write_v2_records(table: Table, fields: int, row: int, to: int, room: int) -> int:
    """The records of a v2 batch, which start in *row*; where they end, `NO_ROOM` or `REFUSED`.

    *room*: where no record may start, but for the bytes of its strings.
    """
    if not are_writable(table, fields, row):
        return REFUSED
    base_offset, base_timestamp = raw_i64(fields + 8 * BASE_OFFSET), raw_i64(fields + 8 * BASE_TIMESTAMP)
    simple = not (table.key.bits or table.value.bits or table.header_end)
    end = row + raw_i64(fields + 8 * RECORDS)
    while True:
        if simple:
            row, to = write_shorts(table, fields, row, min(end, row + (room - to) // SHORT_RECORD), to)
        if row == end:
            return to
        times = zigzag_bits(raw_i64(table.timestamp + 8 * row) - base_timestamp)
        to = write_any(table, row, times, zigzag_bits(raw_i64(table.offset + 8 * row) - base_offset), to, room)
        if to < 0:
            return to
        row += 1


@inlined
def write_batch_header(fields: int, at: int, end: int, floor: int) -> None:
    """The header of the v2 batch from *at* to *end*, whose payload is there already."""
    store_i64(at, raw_i64(fields + 8 * BASE_OFFSET))
    store_i32(at + SIZE_AT, end - at - LOG_OVERHEAD)
    store_i32(at + EPOCH_AT, raw_i64(fields + 8 * LEADER_EPOCH))
    store_8(at + MAGIC_OFFSET, MAGIC_VALUE_V2)
    store_i16(at + ATTRIBUTES_OFFSET_V2, raw_i64(fields + 8 * ATTRIBUTES))
    store_i32(at + LAST_OFFSET_DELTA_AT, raw_i64(fields + 8 * LAST_OFFSET) - raw_i64(fields + 8 * BASE_OFFSET))
    store_i64(at + BASE_TIMESTAMP_AT, raw_i64(fields + 8 * BASE_TIMESTAMP))
    store_i64(at + MAX_TIMESTAMP_AT, raw_i64(fields + 8 * MAX_TIMESTAMP))
    store_i64(at + PRODUCER_ID_AT, raw_i64(fields + 8 * PRODUCER_ID))
    store_i16(at + PRODUCER_EPOCH_AT, raw_i64(fields + 8 * PRODUCER_EPOCH))
    store_i32(at + SEQUENCE_AT, raw_i64(fields + 8 * BASE_SEQUENCE))
    store_i32(at + RECORD_COUNT_OFFSET_V2, raw_i64(fields + 8 * RECORDS))
    store_i32(at + CRC_OFFSET_V2, crc32c(at + CRC_START_V2, end - at - CRC_START_V2, floor))


@inlined
def write_message_field(table: Table, is_key: bool, row: int, to: int) -> int:
    """Key or value of a message, an int32 size first; where it ends."""
    strings = table.key if is_key else table.value
    size = size_of(strings, row)
    store_i32(to, size)
    return to + 4 if size == NULL else write_bytes(to + 4, strings, row, size)


@inlined
def write_messages(table: Table, fields: int, row: int, to: int, floor: int, room: int, inner: bool) -> int:
    """The records of a v0 or v1 entry as messages; *inner* ones count from the base in v1 (NST-08)."""
    if not are_writable(table, fields, row):
        return REFUSED
    magic, attributes = raw_i64(fields + 8 * MAGIC), raw_i64(fields + 8 * ATTRIBUTES)
    append = attributes & TIMESTAMP_TYPE_MASK != 0
    base = raw_i64(fields + 8 * BASE_OFFSET) if inner and magic == MAGIC_VALUE_V1 else 0
    for at in range(row, row + raw_i64(fields + 8 * RECORDS)):
        if max(size_of(table.key, at), 0) + max(size_of(table.value, at), 0) > room - to:
            return NO_ROOM
        if table.header_end and raw_u32(table.header_end + 4 * at) != raw_u32(table.header_end + 4 * at + 4):
            return REFUSED  # LEG-22
        store_i64(to, raw_i64(table.offset + 8 * at) - base)
        store_8(to + MAGIC_OFFSET, magic)
        store_8(to + ATTRIBUTES_OFFSET_LEGACY, attributes & TIMESTAMP_TYPE_MASK)
        end = to + SIZE_V0
        if magic == MAGIC_VALUE_V1:
            timestamp = raw_i64(fields + 8 * MAX_TIMESTAMP) if append else raw_i64(table.timestamp + 8 * at)  # NST-22
            store_i64(to + TIMESTAMP_AT, timestamp)
            end = to + SIZE_V1
        end = write_message_field(table, True, at, end)
        end = write_message_field(table, False, at, end)
        if end - to > INT32_MAX:
            return REFUSED
        store_i32(to + SIZE_AT, end - to - LOG_OVERHEAD)
        store_i32(to + CRC_OFFSET_LEGACY, crc32(to + CRC_START_LEGACY, end - to - CRC_START_LEGACY, floor))
        to = end
    return to


@kernel
def write_entry_payload(table: Table, fields: int, row: int, to: int, floor: int, room: int) -> int:
    """Write the payload of an entry before compression; its end address, `NO_ROOM` or `REFUSED`."""
    if raw_i64(fields + 8 * MAGIC) == MAGIC_VALUE_V2:
        return write_v2_records(table, fields, row, to, room)
    return write_messages(table, fields, row, to, floor, room, True)


@inlined
def write_plain_entry(table: Table, fields: int, row: int, to: int, floor: int, room: int) -> int:
    """An entry that is not compressed; where it ends, `NO_ROOM` or `REFUSED`."""
    if raw_i64(fields + 8 * MAGIC) != MAGIC_VALUE_V2:
        return write_messages(table, fields, row, to, floor, room, False)
    end = write_v2_records(table, fields, row, to + SIZE_V2, room)
    if end < 0:
        return end
    if end - to > INT32_MAX:
        return REFUSED
    write_batch_header(fields, to, end, floor)
    return end


@kernel
def write_entries(
    table: Table, first: int, plain: Numbers, batch: int, row: int, to: int, floor: int, room: int
) -> tuple[int, int, int, int]:
    """Entries from *batch* on, up to *room*; why it stopped, at which batch, row and address.

    *first* is the address of the first batch's fields, int64 each.
    """
    while batch < len(plain):
        fields = first + 8 * FIELDS * batch
        if not plain[batch]:
            return ASK, batch, row, to
        if raw_i64(fields + 8 * ATTRIBUTES) & COMPRESSION_CODEC_MASK:
            return PACK, batch, row, to
        end = write_plain_entry(table, fields, row, to, floor, room)
        if end < 0:
            return FULL if end == NO_ROOM else ASK, batch, row, to
        row += raw_i64(fields + 8 * RECORDS)
        batch, to = batch + 1, end
    return DONE, batch, row, to
