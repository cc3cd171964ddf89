"""Records of columns into entries, for kernels: v2 batches, v0 and v1 messages, none of them compressed.

What a writer of Kafka refuses is only refused here; the reference says why.
"""

from __future__ import annotations

from typing import Final

from kafka_corpus.columnar.checksum import crc32, crc32c
from kafka_corpus.columnar.fields import VIEW
from kafka_corpus.columnar.headers import (
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
from kafka_corpus.columnar.headers import BASE_SEQUENCE_AT as SEQUENCE_AT
from kafka_corpus.columnar.jit import Numbers, inlined, kernel, part
from kafka_corpus.columnar.memory import raw_i64, raw_u32, store_8, store_i16, store_i32, store_i64
from kafka_corpus.columnar.output import NULL, Strings, Table, size_of, width_of, write_bytes, write_raw, zigzag
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

SIZE_V0, SIZE_V1, SIZE_V2 = MESSAGE_V0.size, MESSAGE_V1.size, BATCH_V2.size
# Bytes of a record beyond its keys and values, at most: the varints of length, timestamp and offset, the
# attributes, three more varints; or a message's header and two sizes.
RECORD_EXTRA: Final = 48
HEADER_EXTRA: Final = 10
# Bytes of a body besides key and value, where there are no headers: attributes, four varints, and a count of 0.
LEAST_BODY: Final = 6
MOST_BODY: Final = 1 + 10 + 5 + 5 + 5 + 1
# The most that a varint of one byte says, and of two.
ONE_BYTE: Final = 0x3F
TWO_BYTES: Final = 0x1FFF
REFUSED: Final = -1
# Why `write_entries` stopped.
DONE: Final = 0
ASK: Final = 1  # the reference has to be asked
PACK: Final = 2  # this one is to be compressed


@kernel
def find_latest(timestamps: Numbers, starts: Numbers, ends: Numbers, latest: Numbers) -> None:
    """The highest of the timestamps in each stretch of rows, none of them empty."""
    for batch in range(len(starts)):
        latest[batch] = timestamps[starts[batch] : ends[batch]].max()


@part
def all_bytes(strings: Strings, rows: int) -> int:
    """Bytes in all rows of a column."""
    total = 0
    if strings.bits:
        for row in range(rows):
            total += max(size_of(strings, row), 0)
        return total
    for row in range(rows):
        total += raw_u32(strings.views + VIEW * row)
    return total


@kernel
def most_bytes(table: Table, rows: int, batches: int) -> int:
    """The most bytes that entries with these records take."""
    total = batches * SIZE_V2 + rows * RECORD_EXTRA
    total += all_bytes(table.key, rows) + all_bytes(table.value, rows)
    if table.header_end and rows:
        for header in range(raw_u32(table.header_end), raw_u32(table.header_end + 4 * rows)):
            total += HEADER_EXTRA + size_of(table.header_key, header) + max(size_of(table.header_value, header), 0)
    return total


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


@part
def write_headers(table: Table, first: int, end: int, to: int) -> int:
    """Headers; where they end."""
    for header in range(first, end):
        size = size_of(table.header_key, header)
        to = write_bytes(write_raw(to, size << 1), table.header_key, header, size)
        size = size_of(table.header_value, header)
        to = write_raw(to, zigzag(size))
        if size != NULL:
            to = write_bytes(to, table.header_value, header, size)
    return to


@inlined
def is_writable(offset: int, previous: int, base_offset: int, timestamp: int) -> bool:
    """Whether offsets rise (OFF-07), none is too far from the base (OFF-08), and the timestamp may be (TIM-04)."""
    return previous < offset and -INT32_MAX <= offset - base_offset <= INT32_MAX and timestamp >= NO_TIMESTAMP


@inlined
def exact_width(table: Table, row: int, timestamp_delta: int, offset_delta: int, first: int, end: int) -> int:
    """Bytes of a record's body, its headers from *first* to *end* among them."""
    width = 1 + width_of(zigzag(timestamp_delta)) + width_of(zigzag(offset_delta)) + width_of((end - first) << 1)
    width += width_of_string(size_of(table.key, row)) + width_of_string(size_of(table.value, row))
    return width + width_of_headers(table, first, end)


@inlined
def write_record(table: Table, row: int, timestamp_delta: int, offset_delta: int, to: int) -> int:
    """The v2 record in *row*; where it ends, or `REFUSED`."""
    key_size, value_size = size_of(table.key, row), size_of(table.value, row)
    first = end = 0
    if table.header_end:
        first, end = raw_u32(table.header_end + 4 * row), raw_u32(table.header_end + 4 * row + 4)
    total = max(key_size, 0) + max(value_size, 0)
    # The body takes `LEAST_BODY` to `MOST_BODY` bytes more, so where its length ends is mostly known before.
    if first == end and total <= ONE_BYTE - MOST_BODY:
        body = to + 1
    elif first == end and ONE_BYTE - LEAST_BODY < total <= TWO_BYTES - MOST_BODY:
        body = to + 2
    else:
        width = exact_width(table, row, timestamp_delta, offset_delta, first, end)
        if width > INT32_MAX:
            return REFUSED
        body = to + width_of(width << 1)
    store_8(body, 0)  # ATT-15
    at = write_raw(write_raw(body + 1, zigzag(timestamp_delta)), zigzag(offset_delta))
    at = write_raw(at, zigzag(key_size))
    if key_size != NULL:
        at = write_bytes(at, table.key, row, key_size)
    at = write_raw(at, zigzag(value_size))
    if value_size != NULL:
        at = write_bytes(at, table.value, row, value_size)
    at = write_raw(at, (end - first) << 1)
    if end != first:
        at = write_headers(table, first, end, at)
    write_raw(to, (at - body) << 1)
    return at


@inlined
def write_records(table: Table, fields: int, row: int, to: int) -> int:
    """The records of a v2 batch, which start in *row*; where they end, or `REFUSED`."""
    base_offset, base_timestamp = raw_i64(fields + 8 * BASE_OFFSET), raw_i64(fields + 8 * BASE_TIMESTAMP)
    previous = -(1 << 63)
    for at in range(row, row + raw_i64(fields + 8 * RECORDS)):
        offset, timestamp = raw_i64(table.offset + 8 * at), raw_i64(table.timestamp + 8 * at)
        if not is_writable(offset, previous, base_offset, timestamp):
            return REFUSED
        to = write_record(table, at, timestamp - base_timestamp, offset - base_offset, to)
        if to == REFUSED:
            return REFUSED
        previous = offset
    return to


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
def write_nullable(table: Table, is_key: bool, row: int, to: int) -> int:
    """Key or value of a message, an int32 size first; where it ends."""
    strings = table.key if is_key else table.value
    size = size_of(strings, row)
    store_i32(to, size)
    return to + 4 if size == NULL else write_bytes(to + 4, strings, row, size)


@inlined
def write_messages(table: Table, fields: int, row: int, to: int, floor: int, inner: bool) -> int:
    """The records of a v0 or v1 entry as messages; *inner* ones count from the base in v1 (NST-08)."""
    magic, attributes = raw_i64(fields + 8 * MAGIC), raw_i64(fields + 8 * ATTRIBUTES)
    append, previous = attributes & TIMESTAMP_TYPE_MASK != 0, -(1 << 63)
    base = raw_i64(fields + 8 * BASE_OFFSET) if inner and magic == MAGIC_VALUE_V1 else 0
    for at in range(row, row + raw_i64(fields + 8 * RECORDS)):
        offset, timestamp = raw_i64(table.offset + 8 * at), raw_i64(table.timestamp + 8 * at)
        if not is_writable(offset, previous, raw_i64(fields + 8 * BASE_OFFSET), timestamp):
            return REFUSED
        if table.header_end and raw_u32(table.header_end + 4 * at) != raw_u32(table.header_end + 4 * at + 4):
            return REFUSED  # LEG-22
        store_i64(to, offset - base)
        store_8(to + MAGIC_OFFSET, magic)
        store_8(to + ATTRIBUTES_OFFSET_LEGACY, attributes & TIMESTAMP_TYPE_MASK)
        end = to + SIZE_V0
        if magic == MAGIC_VALUE_V1:
            store_i64(to + TIMESTAMP_AT, raw_i64(fields + 8 * MAX_TIMESTAMP) if append else timestamp)  # NST-22
            end = to + SIZE_V1
        end = write_nullable(table, True, at, end)
        end = write_nullable(table, False, at, end)
        if end - to > INT32_MAX:
            return REFUSED
        store_i32(to + SIZE_AT, end - to - LOG_OVERHEAD)
        store_i32(to + CRC_OFFSET_LEGACY, crc32(to + CRC_START_LEGACY, end - to - CRC_START_LEGACY, floor))
        to, previous = end, offset
    return to


@kernel
def write_payload(table: Table, fields: int, row: int, to: int, floor: int) -> int:
    """What is to be compressed of an entry; where it ends, or `REFUSED`."""
    if raw_i64(fields + 8 * MAGIC) == MAGIC_VALUE_V2:
        return write_records(table, fields, row, to)
    return write_messages(table, fields, row, to, floor, True)


@kernel
def write_entries(
    table: Table, first: int, plain: Numbers, batch: int, row: int, to: int, floor: int
) -> tuple[int, int, int, int]:
    """Entries from *batch* on, for which there is room; why it stopped, at which batch, row and address.

    At *first* lie the fields of the first of all batches, int64 each.
    """
    while batch < len(plain):
        fields = first + 8 * FIELDS * batch
        if not plain[batch]:
            return ASK, batch, row, to
        if raw_i64(fields + 8 * ATTRIBUTES) & COMPRESSION_CODEC_MASK:
            return PACK, batch, row, to
        if raw_i64(fields + 8 * MAGIC) == MAGIC_VALUE_V2:
            end = write_records(table, fields, row, to + SIZE_V2)
            if end == REFUSED or end - to > INT32_MAX:
                return ASK, batch, row, to
            write_batch_header(fields, to, end, floor)
        else:
            end = write_messages(table, fields, row, to, floor, False)
            if end == REFUSED:
                return ASK, batch, row, to
        row += raw_i64(fields + 8 * RECORDS)
        batch, to = batch + 1, end
    return DONE, batch, row, to
