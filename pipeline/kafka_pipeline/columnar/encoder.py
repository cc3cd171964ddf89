"""Columns to record batches, as Kafka's own writer gives them: the inverse of `read`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafka_pipeline.columnar.buffers import POOL, Bytes, Numbers
from kafka_pipeline.columnar.chunk import BATCHES, BINARY, batch_in
from kafka_pipeline.columnar.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CRC,
    FIELDS,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    NUMBERS,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
    SIZE,
    TIMESTAMP_TYPES,
    Flags,
    fill_fields,
    find_plain_entries,
    to_arrow,
)
from kafka_pipeline.columnar.memory import SLACK, VIEW, Strings, Table
from kafka_pipeline.columnar.writer import (
    ASK,
    DONE,
    FULL,
    NO_ROOM,
    RECORD_EXTRA,
    SIZE_V2,
    likely_bytes,
    most_bytes,
    write_entries,
    write_entry_payload,
)
from kafka_records import encode
from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.batch import BatchHeader
from kafka_records.checksum import checksum_v2
from kafka_records.compression import compress
from kafka_records.constants import (
    COMPRESSIONS,
    INT32_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V2,
    NO_TIMESTAMP,
    Compression,
)
from kafka_records.layout import BATCH_V2
from kafka_records.message import Message, encode_message

# In front of what is written, for what checksums read there.
FRONT: Final = 64
# Memory is taken in such steps, so that it fits the next time.
STEP: Final = 1024 * 1024
APPEND, NO_TYPE = TIMESTAMP_TYPES.index("append"), TIMESTAMP_TYPES.index("none")


def write_rows(records: pa.RecordBatch, batches: pa.RecordBatch) -> pa.Buffer:
    """The entries that the rows of *batches* describe; each takes the next `record_count` rows of *records*.

    The tables are as `read` gives them; positions, sizes, CRCs and attributes
    are not looked at, and a `base_timestamp` of null is the first record's.

    Raises:
        RecordFormatError: Kafka's writer would refuse that.
        ValueError: the tables are not of one another.
    """
    batches = batches if batches.schema == BATCHES else batches.cast(BATCHES)
    counts = numbers_of(batches["record_count"])
    if (counts < 0).any() or counts.sum() != records.num_rows:
        raise ValueError(f"batches of {counts.sum()} records, and {records.num_rows} records")
    fields = fields_of(batches, numbers_of(records["timestamp"]), counts)
    typed = name_indexes(batches["timestamp_type"], TIMESTAMP_TYPES) != NO_TYPE
    return RowWriter(records, fields, typed, batches).write()


def pack_records(
    records: pa.RecordBatch, count: int, *, magic: int = MAGIC_VALUE_V2, compression: Compression = "none"
) -> pa.Buffer:
    """All of *records* in batches of *count*: what `write` gives for `in_batches`, at less cost.

    Raises:
        RecordFormatError: Kafka's writer would refuse that.
        ValueError: *count* is not above 0.
    """
    fields = fields_of_producer(records, count, magic, compression)
    return RowWriter(records, fields, np.full(len(fields), magic > MAGIC_VALUE_V0)).write()


def in_batches(
    records: pa.RecordBatch, count: int, *, magic: int = MAGIC_VALUE_V2, compression: Compression = "none"
) -> pa.RecordBatch:
    """A batches table for *records*, *count* a batch, as a producer without an id would have made them."""
    return to_arrow(fields_of_producer(records, count, magic, compression).T)


def fields_of_producer(records: pa.RecordBatch, count: int, magic: int, compression: Compression) -> Numbers:
    """Header fields of such batches, one row each."""
    if count < 1:
        raise ValueError(f"batches of {count} records")
    alike = np.full(FIELDS, -1, np.int64)
    alike[[POSITION, SIZE, CRC]] = 0
    alike[MAGIC], alike[ATTRIBUTES] = magic, COMPRESSIONS.index(compression)
    fields = rows_of_fields(-(-records.num_rows // count))
    fill_fields(numbers_of(records["offset"]), numbers_of(records["timestamp"]), count, alike, fields)
    return fields


def rows_of_fields(entries: int) -> Numbers:
    """Memory for the fields of so many entries, with whatever is in it."""
    size = 8 * FIELDS * entries
    return POOL.take(size + -size % STEP)[:size].view(np.int64).reshape(entries, FIELDS)


class RowWriter:
    """Records on their way to bytes; *fields* say of what batches, *typed* which of these have a timestamp type."""

    def __init__(
        self, records: pa.RecordBatch, fields: Numbers, typed: Flags, batches: pa.RecordBatch | None = None
    ) -> None:
        self.records, self.batches = records, batches
        self.held: list[pa.Array | Numbers] = []
        self.table = self.table_of(records)
        self.fields = fields
        self.plain = np.empty(len(fields), np.int64)
        find_plain_entries(fields, typed, numbers_of(records["offset"]), self.plain)
        self.take(likely_bytes(self.table, records.num_rows, len(self.plain)))

    def take(self, size: int) -> None:
        """Memory for entries of so many bytes."""
        size += FRONT + SLACK
        self.memory: Bytes = POOL.take(size + -size % STEP)
        self.base = int(self.memory.ctypes.data)
        self.at = self.base + FRONT
        self.room = self.base + self.memory.size - SLACK - RECORD_EXTRA

    def take_more(self, batch: int, row: int) -> None:
        """Memory for all that is left, where it was less than was thought."""
        self.take(most_bytes(self.table, row, self.records.num_rows, len(self.plain) - batch))

    def table_of(self, records: pa.RecordBatch) -> Table:
        """The addresses of the columns."""
        offset, timestamp = (self.address(records[name], 8) for name in ("offset", "timestamp"))
        key, value = (self.strings(records[name]) for name in ("key", "value"))
        headers = records["headers"]
        pairs = headers.values
        header_key, header_value = (self.strings(pairs.field(number)) for number in (0, 1))
        if header_key.bits:
            raise ValueError("a header without a key")
        header_end = self.address(headers, 4) if len(pairs) and len(headers) else 0
        return Table(offset, timestamp, key, value, header_end, header_key, header_value)

    def address(self, array: pa.Array, width: int) -> int:
        """Address of the first number of a column."""
        self.held.append(array)
        buffer = array.buffers()[1]
        return int(buffer.address) + width * int(array.offset) if buffer else 0

    def strings(self, array: pa.Array) -> Strings:
        """A column of byte strings, as views."""
        array = array if array.type == BINARY else array.cast(pa.binary()).cast(BINARY)
        valid, _, *data = array.buffers()
        buffers = np.array([(buffer.address, buffer.address + buffer.size) for buffer in data], np.int64)
        self.held.append(buffers)
        bits = valid.address if valid and array.null_count else 0
        return Strings(self.address(array, VIEW), bits, array.offset, int(buffers.ctypes.data))

    def write(self) -> pa.Buffer:
        """All of it."""
        batch = row = 0
        parts: list[Any] = []
        while True:
            why, batch, row, part = self.write_on(batch, row)
            if part.size:
                parts.append(part)
            if why == DONE:
                return pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))
            if why == FULL:
                self.take_more(batch, row)
                continue
            made = None if why == ASK else self.packed(batch, row)
            parts.append(self.by_reference(batch, row) if made is None else made)
            row, batch = row + int(self.fields[batch, RECORDS]), batch + 1

    def write_on(self, batch: int, row: int) -> tuple[int, int, int, Bytes]:
        """Entries that the kernel writes from here on: why it stopped, where, and the bytes."""
        begin, first = self.at, self.address_of(0)
        why, batch, row, self.at = write_entries(self.table, first, self.plain, batch, row, begin, self.base, self.room)
        return why, batch, row, self.memory[begin - self.base : self.at - self.base]

    def address_of(self, batch: int) -> int:
        """Address of the fields of a batch."""
        return int(self.fields.ctypes.data) + 8 * FIELDS * batch

    def packed(self, batch: int, row: int) -> bytes | None:
        """A compressed entry; None if the reference has to write it."""
        end = self.payload_end(batch, row)
        if end == NO_ROOM:
            self.take_more(batch, row)
            end = self.payload_end(batch, row)
        if end < 0:
            return None
        fields: list[int] = self.fields[batch].tolist()
        codec = COMPRESSIONS[fields[ATTRIBUTES] & COMPRESSION_CODEC_MASK]
        payload = compress(codec, self.memory[self.at - self.base : end - self.base].tobytes(), magic=fields[MAGIC])
        if fields[MAGIC] == MAGIC_VALUE_V2:
            return None if len(payload) > INT32_MAX - SIZE_V2 else v2_batch(fields, payload)
        return encode_message(
            Message(fields[LAST_OFFSET], fields[MAGIC], fields[ATTRIBUTES], fields[MAX_TIMESTAMP], None, payload)
        )

    def payload_end(self, batch: int, row: int) -> int:
        """Where what is to be compressed ends, which starts where other entries ended; or why it was not written."""
        return int(write_entry_payload(self.table, self.address_of(batch), row, self.at, self.base, self.room))

    def by_reference(self, batch: int, row: int) -> bytes:
        """The bytes that the reference writes; raises its error if it refuses."""
        count = int(self.fields[batch, RECORDS])
        batches = to_arrow(self.fields.T) if self.batches is None else self.batches
        return encode(batch_in(batches, batch, self.records.slice(row, count)))


def v2_batch(fields: list[int], payload: bytes) -> bytes:
    """A v2 batch with this payload."""
    header = BatchHeader(
        base_offset=fields[BASE_OFFSET],
        batch_length=SIZE_V2 - LOG_OVERHEAD + len(payload),
        partition_leader_epoch=fields[LEADER_EPOCH],
        magic=MAGIC_VALUE_V2,
        crc=0,
        attributes=fields[ATTRIBUTES],
        last_offset_delta=fields[LAST_OFFSET] - fields[BASE_OFFSET],
        base_timestamp=fields[BASE_TIMESTAMP],
        max_timestamp=fields[MAX_TIMESTAMP],
        producer_id=fields[PRODUCER_ID],
        producer_epoch=fields[PRODUCER_EPOCH],
        base_sequence=fields[BASE_SEQUENCE],
        record_count=fields[RECORDS],
    )
    unsigned = BATCH_V2.struct.pack(*header) + payload
    return BATCH_V2.struct.pack(*header._replace(crc=checksum_v2(unsigned))) + payload


def numbers_of(array: pa.Array) -> Numbers:
    """A column of numbers or flags; nulls are 0."""
    if array.null_count:
        array = array.fill_null(0)
    made: Numbers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return made


def numbers_at(numbers: Numbers, places: Numbers) -> Numbers:
    """The numbers at these places; any number for places after the last."""
    return numbers[np.minimum(places, len(numbers) - 1)] if len(numbers) else np.zeros_like(places)


def name_indexes(array: pa.Array, names: tuple[str, ...]) -> Numbers:
    """A column of names as the places that they have among *names*."""
    places = np.array([names.index(name) for name in array.dictionary.to_pylist()] or [0], np.int64)
    return places[numbers_of(array.indices)]


def fields_of(batches: pa.RecordBatch, timestamps: Numbers, counts: Numbers) -> Numbers:
    """Header fields to write, one row for each entry."""
    fields = np.zeros((FIELDS, len(counts)), np.int64)
    for name, number in NUMBERS.items():
        fields[number] = numbers_of(batches[name])
    append = name_indexes(batches["timestamp_type"], TIMESTAMP_TYPES) == APPEND
    horizon = batches["delete_horizon"]
    attributes = name_indexes(batches["compression"], COMPRESSIONS)
    attributes |= (append & (fields[MAGIC] > MAGIC_VALUE_V0)) * TIMESTAMP_TYPE_MASK
    attributes |= numbers_of(batches["transactional"]) * TRANSACTIONAL_FLAG_MASK
    attributes |= numbers_of(batches["control"]) * CONTROL_FLAG_MASK
    attributes |= numbers_of(horizon.is_valid()) * DELETE_HORIZON_FLAG_MASK
    fields[ATTRIBUTES] = attributes
    # TIM-06, TIM-18, TIM-21.
    starts = np.cumsum(counts) - counts
    base = np.where(counts > 0, numbers_at(timestamps, starts), NO_TIMESTAMP)
    for name in ("base_timestamp", "delete_horizon"):
        given = batches[name]
        base = np.where(numbers_of(given.is_valid()) != 0, numbers_of(given), base)
    fields[BASE_TIMESTAMP] = base
    return np.ascontiguousarray(fields.T)
