"""v2 records and v0/v1 messages into columns, for kernels.

Whatever is not plainly right is only refused here, and the reference reads it
what it is.  So this has to refuse all that `kafka_records.record` refuses.

As in `records.py`, what is not plainly right is refused, and the reference reads it.
"""

from __future__ import annotations

from typing import Final

from kafka_pipeline.columnar.buffers import Out
from kafka_pipeline.columnar.checksum import WIDTH, crc32, four_right_crc32
from kafka_pipeline.columnar.jit import inlined, part
from kafka_pipeline.columnar.memory import (
    AHEAD,
    FAR,
    VIEW,
    fetch_ahead,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    make_valid,
    raw_i64,
    raw_i64_of,
    read_raw,
    read_varint,
    read_varlong,
    store_32,
    store_32_of,
    store_64,
    store_64_of,
    store_null,
    store_view,
)
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

# What becomes of an entry.
FINE: Final = 0
REFUSED: Final = 1  # or at least not plainly right
NO_ROOM: Final = 2
NO_HEADERS: Final = 7  # no room for its headers


@inlined
def read_nullable(at: int, stop: int, to: int, bits: int, row: int, buffer: int, base: int) -> tuple[int, bool]:
    """A varint length and its bytes as the view in *row*: where they end, and whether they are right (REC-10)."""
    raw, at = read_raw(at)
    if raw & 1:
        store_null(to + VIEW * row, bits, row)
        return at, True
    size = raw >> 1
    if size > stop - at:
        return at, False
    store_view(to + VIEW * row, at, size, buffer, base)
    return at + size, True


@inlined
def read_record_headers(
    at: int, stop: int, count: int, buffer: int, base: int, out: Out, header: int
) -> tuple[int, bool]:
    """*count* headers: where they end, and whether they are all right (REC-18, REC-20)."""
    for number in range(header, header + count):
        raw, at = read_raw(at)
        size = raw >> 1
        if raw & 1 or size > stop - at:
            return at, False
        store_view(out.header_key + VIEW * number, at, size, buffer, base)
        at, good = read_nullable(at + size, stop, out.header_value, out.header_bits, number, buffer, base)
        if not good:
            return at, False
    return at, True


@inlined
def read_body(at: int, stop: int, buffer: int, base: int, out: Out, row: int, header: int) -> tuple[int, int]:
    """Key, value and headers, which have to end at *stop*: what became of them, and how many headers there are now."""
    at, good = read_nullable(at, stop, out.key, out.key_bits, row, buffer, base)
    if not good:
        return REFUSED, header
    at, good = read_nullable(at, stop, out.value, out.value_bits, row, buffer, base)
    if not good:
        return REFUSED, header
    raw, at = read_raw(at)
    if raw:
        count = raw >> 1
        if raw & 1 or count > stop - at:
            return REFUSED, header  # REC-14, REC-15
        if header + count > out.headers:
            return NO_HEADERS, header
        at, good = read_record_headers(at, stop, count, buffer, base, out, header)
        header += count
        if not good:
            return REFUSED, header
    return FINE if at == stop else REFUSED, header


@inlined
def read_records(
    at: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append: bool,
    append_time: int,
    position: int,
    buffer: int,
    base: int,
    out: Out,
    row: int,
    header: int,
) -> tuple[int, int, int]:
    """Exactly *count* records, which fill the bytes from *at* to *end*: what became of them, rows, headers."""
    ahead = max(end - at, AHEAD)
    for _ in range(count):
        raw, start = read_raw(at)
        stop = start + (raw >> 1)
        if raw & 1 or stop > end:
            return REFUSED, row, header
        if ahead <= FAR:
            fetch_ahead(at, stop, ahead)
        timestamp_delta, at, bad_timestamp = read_varlong(start + 1)  # ATT-15: the attributes are ignored
        if bad_timestamp:
            return REFUSED, row, header
        offset_delta, at, bad_offset = read_varint(at)
        if bad_offset:
            return REFUSED, row, header
        status, header = read_body(at, stop, buffer, base, out, row, header)
        if status != FINE:
            return status, row + 1, header
        store_64(out.offset + 8 * row, base_offset + offset_delta)  # HDR-26: sums wrap
        store_64(out.timestamp + 8 * row, append_time if append else base_timestamp + timestamp_delta)
        row += 1
        store_32(out.header_end + 4 * row, header)
        at = stop
    for to in range(out.position + 8 * (row - count), out.position + 8 * row, 8):
        store_64(to, position)
    return FINE if at == end else REFUSED, row, header


@part
def take_back(out: Out, row: int, end_row: int, header: int, end_header: int) -> None:
    """Rows that are not to be there: only their nulls have left a trace."""
    make_valid(out.key_bits, row, end_row)
    make_valid(out.value_bits, row, end_row)
    make_valid(out.header_bits, header, end_header)


SIZE_AT = 8
TIMESTAMP_AT = MESSAGE_V1.field("timestamp").offset
SIZE_V0, SIZE_V1 = MESSAGE_V0.size, MESSAGE_V1.size
STRETCH = 512  # messages that are read before they are listed as entries, still in the first cache
MAGIC_AND_CODEC = 0xFF00 | COMPRESSION_CODEC_MASK  # of the two bytes from the magic on


@inlined
def is_intact(at: int, end: int, floor: int) -> bool:
    """Whether the CRC of the message from *at* to *end* is right (LEG-04)."""
    return load_u32(at + CRC_OFFSET_LEGACY) == crc32(at + CRC_START_LEGACY, end - at - CRC_START_LEGACY, floor)


@inlined
def next_of(at: int, limit: int, least: int) -> int:
    """Where the message at *at* ends; 0 if there is none of *least* bytes that ends before *limit*."""
    size = load_i32(at + SIZE_AT) + LOG_OVERHEAD
    return 0 if size < least or size > limit - at else at + size


@inlined
def next_four(at: int, limit: int, least: int) -> tuple[int, int, int, int]:
    """Where the four messages from *at* on end; the last is 0 if there are not so many before *limit*."""
    one = next_of(at, limit, least)
    two = next_of(one, limit, least) if one else 0
    three = next_of(two, limit, least) if two else 0
    return one, two, three, next_of(three, limit, least) if three else 0


@inlined
def are_intact(at: int, one: int, two: int, three: int, end: int) -> bool:
    """Whether the CRCs of four messages are right, which start at *at* and end at the other addresses."""
    skipped = CRC_START_LEGACY
    return four_right_crc32(
        at + skipped,
        one - at - skipped,
        one + skipped,
        two - one - skipped,
        two + skipped,
        three - two - skipped,
        three + skipped,
        end - three - skipped,
    )


@inlined
def message_value(at: int, end: int) -> tuple[int, int]:
    """Address of a message's value, and its size, which is negative for null; (0, 0) if it is not whole."""
    at += SIZE_V0 if load_u8(at + MAGIC_OFFSET) == MAGIC_VALUE_V0 else SIZE_V1
    if at + 4 > end:
        return 0, 0
    at += 4 + max(load_i32(at), 0)
    if at + 4 > end:
        return 0, 0
    size = load_i32(at)
    return (0, 0) if size > end - at - 4 else (at + 4, size)


@inlined
def store_nullable(to: int, bits: int, row: int, at: int, size: int, floor: int) -> None:
    """The view of *size* bytes at *at*, or of null, in *row*."""
    if size < 0:
        store_null(to + VIEW * row, bits, row)
    else:
        store_view(to + VIEW * row, at, size, 0, floor)


@inlined
def read_message(at: int, end: int, position: int, buffer: int, base: int, out: Out, row: int, header: int) -> int:
    """The message from *at* to *end* as a row, its own offset and timestamp in it."""
    fetch_ahead(at, end, AHEAD)
    value, value_size = message_value(at, end)
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
def put_plain(at: int, end: int, floor: int, moved: int, out: Out, row: int, magic: int) -> bool:
    """A message from *at* to *end*, no shorter than any, as a row, less what `put_entries` puts; whether it is good."""
    if load_i16(at + MAGIC_OFFSET) & MAGIC_AND_CODEC != magic << 8:
        return False
    key = at + (SIZE_V0 if magic == MAGIC_VALUE_V0 else SIZE_V1) + 4
    key_size = load_i32(key - 4)
    value = key + max(key_size, 0) + 4
    if value > end:
        return False
    value_size = load_i32(value - 4)
    if value_size > end - value:
        return False
    store_nullable(out.key, out.key_bits, row, key, key_size, floor)
    store_nullable(out.value, out.value_bits, row, value, value_size, floor)
    store_64(out.position + 8 * row, at + moved)
    store_64(out.offset + 8 * row, load_i64(at))
    if magic == MAGIC_VALUE_V1:
        store_64(out.timestamp + 8 * row, load_i64(at + TIMESTAMP_AT))
    return True


@part
def read_plain_message(at: int, limit: int, floor: int, moved: int, out: Out, row: int, magic: int) -> int:
    """The plain message at *at*: where it ends, or 0 if it is not plainly right."""
    end = next_of(at, limit, (SIZE_V0 if magic == MAGIC_VALUE_V0 else SIZE_V1) + 8)
    if end == 0 or not is_intact(at, end, floor):
        return 0
    return end if put_plain(at, end, floor, moved, out, row, magic) else 0


@inlined
def read_fours(
    at: int, limit: int, floor: int, moved: int, out: Out, row: int, most: int, magic: int
) -> tuple[int, int]:
    """Four plain messages at a time, until *most* are read, or one is not plainly right: where that is, how many."""
    least = (SIZE_V0 if magic == MAGIC_VALUE_V0 else SIZE_V1) + 8
    read = 0
    while read + 4 <= most:
        one, two, three, end = next_four(at, limit, least)
        if end == 0 or not are_intact(at, one, two, three, end):
            break
        fetch_ahead(at, end, AHEAD)
        if not put_plain(at, one, floor, moved, out, row + read, magic):
            break
        if not put_plain(one, two, floor, moved, out, row + read + 1, magic):
            return one, read + 1
        if not put_plain(two, three, floor, moved, out, row + read + 2, magic):
            return two, read + 2
        if not put_plain(three, end, floor, moved, out, row + read + 3, magic):
            return three, read + 3
        at = end
        read += 4
    return at, read


@part
def put_entries(out: Out, row: int, batch: int, count: int, header: int, magic: int) -> None:
    """For *count* rows from *row* on the fields that do not depend on their messages: by vector instructions.

    That is an entry for each, that they have no headers, and in v0 that they have no timestamp.
    """
    for number in range(count):
        store_64_of(out.batch_position, batch + number, raw_i64_of(out.position, row + number))
    for number in range(count):
        store_64_of(out.batch_row, batch + number, row + number)
    for number in range(count):
        store_32_of(out.header_end, row + number + 1, header)
    if magic == MAGIC_VALUE_V0:
        for number in range(count):
            store_64_of(out.timestamp, row + number, NO_TIMESTAMP)


@inlined
def read_run(
    at: int, limit: int, floor: int, moved: int, out: Out, row: int, header: int, batch: int, magic: int
) -> tuple[int, int, int]:
    """Plain messages of one magic from *at* on, an entry each, until one is not plainly right.

    None reaches beyond *limit*; *moved* makes an address a position in the
    file.  Gives where it ended, and how many rows and batches there are now.
    Four at a time where that is possible: so their CRCs take less.
    """
    last = row + min(out.rows - row, out.batches - batch)
    going = True
    while row < last and going:
        most = min(last - row, STRETCH)
        at, read = read_fours(at, limit, floor, moved, out, row, most if at - floor >= WIDTH else 0, magic)
        if read < most:
            end = read_plain_message(at, limit, floor, moved, out, row + read, magic)
            going = end != 0
            at, read = (end, read + 1) if going else (at, read)
        put_entries(out, row, batch, read, header, magic)
        row, batch = row + read, batch + read
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
