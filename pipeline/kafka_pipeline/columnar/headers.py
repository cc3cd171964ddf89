"""Header fields of batches as columns, and of entries that are to be written, for kernels."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_pipeline.columnar.jit import Numbers, inlined, kernel, part
from kafka_pipeline.columnar.memory import load_i16, load_i32, load_i64, load_u8, load_u32, shift_right
from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.constants import (
    COMPRESSIONS,
    INT32_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V1,
    MAGIC_VALUE_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    CRC_OFFSET_LEGACY,
    CRC_OFFSET_V2,
    MAGIC_OFFSET,
    MESSAGE_V1,
)

SIZE_AT = 8
(
    POSITION,
    SIZE,
    MAGIC,
    CRC,
    ATTRIBUTES,
    BASE_OFFSET,
    LAST_OFFSET,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    LEADER_EPOCH,
    RECORDS,
    FIELDS,
) = range(15)
EPOCH_AT = BATCH_V2.field("partition_leader_epoch").offset
LAST_OFFSET_DELTA_AT = BATCH_V2.field("last_offset_delta").offset
BASE_TIMESTAMP_AT = BATCH_V2.field("base_timestamp").offset
MAX_TIMESTAMP_AT = BATCH_V2.field("max_timestamp").offset
PRODUCER_ID_AT = BATCH_V2.field("producer_id").offset
PRODUCER_EPOCH_AT = BATCH_V2.field("producer_epoch").offset
BASE_SEQUENCE_AT = BATCH_V2.field("base_sequence").offset
TIMESTAMP_AT = MESSAGE_V1.field("timestamp").offset
NONE = -1

TIMESTAMP_TYPES: Final = ("create", "append", "none")
NAMES: Final = pa.dictionary(pa.int8(), pa.string())


@part
def read_entry_header(at: int, first_offset: int, fields: Numbers, batch: int) -> None:
    """The fields of the entry at *at*; *first_offset* is that of its first record, for v0 and v1 (NST-26)."""
    magic = load_u8(at + MAGIC_OFFSET)
    fields[SIZE, batch] = load_i32(at + SIZE_AT) + LOG_OVERHEAD
    fields[MAGIC, batch] = magic
    offset = load_i64(at)
    if magic == MAGIC_VALUE_V2:
        fields[CRC, batch] = load_u32(at + CRC_OFFSET_V2)
        fields[ATTRIBUTES, batch] = load_i16(at + ATTRIBUTES_OFFSET_V2)
        fields[BASE_OFFSET, batch] = offset
        fields[LAST_OFFSET, batch] = shift_right(offset + load_i32(at + LAST_OFFSET_DELTA_AT), 0)  # HDR-09, wraps
        fields[BASE_TIMESTAMP, batch] = load_i64(at + BASE_TIMESTAMP_AT)
        fields[MAX_TIMESTAMP, batch] = load_i64(at + MAX_TIMESTAMP_AT)
        fields[PRODUCER_ID, batch] = load_i64(at + PRODUCER_ID_AT)
        fields[PRODUCER_EPOCH, batch] = load_i16(at + PRODUCER_EPOCH_AT)
        fields[BASE_SEQUENCE, batch] = load_i32(at + BASE_SEQUENCE_AT)
        fields[LEADER_EPOCH, batch] = load_i32(at + EPOCH_AT)
        return
    fields[CRC, batch] = load_u32(at + CRC_OFFSET_LEGACY)
    fields[ATTRIBUTES, batch] = load_u8(at + ATTRIBUTES_OFFSET_LEGACY)
    fields[BASE_OFFSET, batch] = first_offset
    fields[LAST_OFFSET, batch] = offset
    fields[MAX_TIMESTAMP, batch] = NO_TIMESTAMP if magic == MAGIC_VALUE_V0 else load_i64(at + TIMESTAMP_AT)
    for field in (BASE_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, LEADER_EPOCH):
        fields[field, batch] = NONE


@kernel
def read_headers(
    start: int, position: int, positions: Numbers, rows: Numbers, offsets: Numbers, fields: Numbers
) -> None:
    """The fields of entries at *positions*; *rows* says where their records start in *offsets*, and where they end."""
    for batch in range(len(positions)):
        row, end = rows[batch], rows[batch + 1]
        fields[POSITION, batch] = positions[batch]
        fields[RECORDS, batch] = end - row
        first = offsets[row] if end > row else 0
        read_entry_header(start + positions[batch] - position, first, fields, batch)


SCHEMA: Final = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("size", pa.int32(), nullable=False),
        pa.field("magic", pa.int8(), nullable=False),
        pa.field("crc", pa.uint32(), nullable=False),
        pa.field("attributes", pa.int16(), nullable=False),
        pa.field("compression", NAMES, nullable=False),
        pa.field("timestamp_type", NAMES, nullable=False),
        pa.field("transactional", pa.bool_(), nullable=False),
        pa.field("control", pa.bool_(), nullable=False),
        pa.field("base_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("base_timestamp", pa.int64()),
        pa.field("max_timestamp", pa.int64(), nullable=False),
        pa.field("delete_horizon", pa.int64()),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
        pa.field("base_sequence", pa.int32(), nullable=False),
        pa.field("partition_leader_epoch", pa.int32(), nullable=False),
        pa.field("record_count", pa.int32(), nullable=False),
    ]
)
NUMBERS: Final = {
    "position": POSITION,
    "size": SIZE,
    "magic": MAGIC,
    "crc": CRC,
    "attributes": ATTRIBUTES,
    "base_offset": BASE_OFFSET,
    "last_offset": LAST_OFFSET,
    "max_timestamp": MAX_TIMESTAMP,
    "producer_id": PRODUCER_ID,
    "producer_epoch": PRODUCER_EPOCH,
    "base_sequence": BASE_SEQUENCE,
    "partition_leader_epoch": LEADER_EPOCH,
    "record_count": RECORDS,
}


def to_arrow(fields: Numbers) -> pa.RecordBatch:
    """The columns of *fields*, and what the attributes mean."""
    magic, attributes = fields[MAGIC], fields[ATTRIBUTES]
    modern = magic == MAGIC_VALUE_V2
    appended = (attributes & TIMESTAMP_TYPE_MASK != 0).astype(np.int8)
    horizon = modern & (attributes & DELETE_HORIZON_FLAG_MASK != 0)
    made: dict[str, pa.Array] = {
        "compression": names_at((attributes & COMPRESSION_CODEC_MASK).astype(np.int8), COMPRESSIONS),
        "timestamp_type": names_at(np.where(magic == MAGIC_VALUE_V0, np.int8(2), appended), TIMESTAMP_TYPES),
        "transactional": pa.array(modern & (attributes & TRANSACTIONAL_FLAG_MASK != 0)),
        "control": pa.array(modern & (attributes & CONTROL_FLAG_MASK != 0)),
        "base_timestamp": pa.array(fields[BASE_TIMESTAMP], mask=~modern),
        "delete_horizon": pa.array(fields[BASE_TIMESTAMP], mask=~horizon),
    }
    for name, number in NUMBERS.items():
        made[name] = pa.array(fields[number].astype(SCHEMA.field(name).type.to_pandas_dtype()))
    return pa.RecordBatch.from_arrays([made[name] for name in SCHEMA.names], schema=SCHEMA)


def names_at(numbers: Numbers, names: tuple[str, ...]) -> pa.Array:
    """Numbers as the names that stand at them."""
    return pa.DictionaryArray.from_arrays(pa.array(numbers), dictionary_of(names))


@cache
def dictionary_of(names: tuple[str, ...]) -> pa.Array:
    """Names as Arrow has them."""
    return pa.array(list(names))


Flags = npt.NDArray[np.bool_]
ZSTD: Final = COMPRESSIONS.index("zstd")
MODERN_FLAGS: Final = TRANSACTIONAL_FLAG_MASK | CONTROL_FLAG_MASK | DELETE_HORIZON_FLAG_MASK
# Offsets farther from 0 are left to the reference: differences of two might not fit.
FAR: Final = 1 << 62


@part
def latest_of(timestamps: Numbers) -> int:
    """The highest of some timestamps, at least one."""
    latest = int(timestamps[0])
    for timestamp in timestamps:
        latest = max(latest, int(timestamp))
    return latest


@kernel
def fill_fields(offsets: Numbers, timestamps: Numbers, count: int, alike: Numbers, fields: Numbers) -> None:
    """The fields of batches of *count* records each; *alike* has what all of them have in common."""
    for batch in range(len(fields)):
        start, end = batch * count, min(batch * count + count, len(offsets))
        fields[batch] = alike
        fields[batch, RECORDS] = end - start
        fields[batch, BASE_OFFSET], fields[batch, LAST_OFFSET] = offsets[start], offsets[end - 1]
        fields[batch, BASE_TIMESTAMP] = timestamps[start]
        if alike[MAGIC] > MAGIC_VALUE_V0:
            fields[batch, MAX_TIMESTAMP] = latest_of(timestamps[start:end])


@inlined
def is_modern(fields: Numbers) -> bool:
    """Whether the fields of a v2 batch are plainly right."""
    base, delta = fields[BASE_OFFSET], fields[LAST_OFFSET] - fields[BASE_OFFSET]
    if not (-FAR < base < FAR and -INT32_MAX <= delta <= INT32_MAX and fields[BASE_TIMESTAMP] >= NO_TIMESTAMP):
        return False
    # PID-04, TXN-16
    if fields[PRODUCER_ID] == NO_PRODUCER_ID:
        return bool(fields[ATTRIBUTES] & TRANSACTIONAL_FLAG_MASK == 0)
    return bool(fields[PRODUCER_EPOCH] != NO_PRODUCER_EPOCH and fields[BASE_SEQUENCE] >= 0)


@inlined
def is_legacy(fields: Numbers, typed: bool, last: int) -> bool:
    """Whether the fields of a v0 or v1 entry, whose last record has the offset *last*, are plainly right."""
    codec = fields[ATTRIBUTES] & COMPRESSION_CODEC_MASK
    if fields[ATTRIBUTES] & MODERN_FLAGS or fields[PRODUCER_ID] != NO_PRODUCER_ID or codec >= ZSTD:
        return False
    if fields[MAGIC] != MAGIC_VALUE_V1:
        return bool(fields[MAGIC] == MAGIC_VALUE_V0)
    # NST-09, NST-10
    found = fields[BASE_OFFSET] >= 0 and fields[LAST_OFFSET] == last and last > 0
    return bool(typed and (codec == 0 or found))


@kernel
def find_plain_entries(fields: Numbers, typed: Flags, offsets: Numbers, plain: Numbers) -> None:
    """Ones for entries whose fields are plainly right; of the others the reference says what they are."""
    end = 0
    for batch in range(len(plain)):
        one = fields[batch]
        end += one[RECORDS]
        if one[RECORDS] == 0:
            plain[batch] = 0
        elif one[MAGIC] == MAGIC_VALUE_V2:
            plain[batch] = typed[batch] and is_modern(one)
        else:
            plain[batch] = is_legacy(one, typed[batch], offsets[end - 1])
