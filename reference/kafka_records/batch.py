"""v2 record batches (KIP-98): a header of 61 bytes, then records, perhaps compressed.

Decoding does what Kafka's consumer does with `check.crcs`: size, CRC, codec,
records.  Encoding does what MemoryRecordsBuilder does, and refuses what it
refuses.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_records import attributes as bits
from kafka_records.budget import BATCH_COST, HEADER_COST, PAYLOAD_COST, RECORD_COST, out_of_room, pay
from kafka_records.checksum import checksum_v2
from kafka_records.compression import compress, decompress
from kafka_records.constants import (
    INT32_MAX,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    Compression,
)
from kafka_records.errors import RecordFormatError
from kafka_records.layout import ATTRIBUTES_OFFSET_V2, BATCH_V2, CRC_OFFSET_V2, RECORD_COUNT_OFFSET_V2
from kafka_records.model import Batch, Record
from kafka_records.primitives import wrap_int64
from kafka_records.record import Base, decode_record, encode_record


class BatchHeader(NamedTuple):
    """The fixed fields of a batch, named and ordered as in `layout.BATCH_V2`."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


def decode_batch(data: bytes, room: int) -> tuple[Batch, int]:
    """Read one whole batch, no more and no less; give it and the rest of the budget."""
    header = decode_header(data)
    compression = bits.compression_of(header.attributes, at=ATTRIBUTES_OFFSET_V2, rule="ATT-02")
    room = pay(room, BATCH_COST, offset=0)
    records, room = decode_payload(data, header, compression, room)
    has_horizon = header.attributes & bits.DELETE_HORIZON_FLAG_MASK
    batch = Batch(
        magic=MAGIC_VALUE_V2,
        base_offset=header.base_offset,
        last_offset=wrap_int64(header.base_offset + header.last_offset_delta),  # HDR-09
        compression=compression,
        timestamp_type=bits.timestamp_type_of(header.attributes, MAGIC_VALUE_V2),
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=bool(header.attributes & bits.TRANSACTIONAL_FLAG_MASK),
        control=bool(header.attributes & bits.CONTROL_FLAG_MASK),
        partition_leader_epoch=header.partition_leader_epoch,
        delete_horizon=header.base_timestamp if has_horizon else None,  # ATT-06, TIM-18
        records=records,
        base_timestamp=header.base_timestamp,
    )
    return batch, room


def decode_header(data: bytes) -> BatchHeader:
    """Read and check the header: the batch has one (HDR-05) and its CRC is right (CRC-07, CRC-08)."""
    if len(data) < RECORD_BATCH_OVERHEAD:
        message = f"a batch of {len(data)} bytes, its header takes {RECORD_BATCH_OVERHEAD}"
        raise RecordFormatError("malformed", message, path="batch_length", offset=8, rule="HDR-05")
    header = BatchHeader._make(BATCH_V2.struct.unpack_from(data))
    computed = checksum_v2(data)
    if header.crc != computed:
        message = f"stored crc {header.crc}, computed crc {computed}"
        raise RecordFormatError("corrupt", message, path="crc", offset=CRC_OFFSET_V2, rule="CRC-07")
    return header


def decode_payload(
    data: bytes, header: BatchHeader, compression: Compression, room: int
) -> tuple[tuple[Record, ...], int]:
    """Read the records after the header, through the codec if there is one (CMP-01, CMP-03).

    Without codec bits the bytes are records, even if they look compressed (CMP-07), and what comes out of a codec
    is not compressed again (CMP-11).
    """
    if header.record_count == 0:
        return (), room  # HDR-16: the bytes after the header are never looked at
    if header.record_count < 0:
        # HDR-15: RecordIterator "Found invalid record count"
        message = f"record_count is {header.record_count}"
        at = RECORD_COUNT_OFFSET_V2
        raise RecordFormatError("malformed", message, path="record_count", offset=at, rule="HDR-15")
    if compression == "none":
        return decode_records(data, RECORD_BATCH_OVERHEAD, header, room)
    try:
        packed = data[RECORD_BATCH_OVERHEAD:]
        payload = decompress(compression, packed, magic=MAGIC_VALUE_V2, most=room // PAYLOAD_COST)
    except RecordFormatError as error:
        raise error.inside("records", moved=RECORD_BATCH_OVERHEAD) from None
    try:
        return decode_records(payload, 0, header, pay(room, PAYLOAD_COST * len(payload), offset=0))
    except RecordFormatError as error:
        raise error.decompressed_at(RECORD_BATCH_OVERHEAD) from None


def decode_records(payload: bytes, at: int, header: BatchHeader, room: int) -> tuple[tuple[Record, ...], int]:
    """Read exactly `record_count` records, which have to fill the payload."""
    append_time = header.max_timestamp if header.attributes & bits.TIMESTAMP_TYPE_MASK else None  # TIM-02, TIM-20
    base = Base(header.base_offset, header.base_timestamp, append_time)
    records: list[Record] = []
    # HDR-18: a count is a promise, so nothing is allocated by it.
    for index in range(header.record_count):
        try:
            if at == len(payload):
                # HDR-13, CMP-05: "Incorrect declared batch size, premature EOF reached"
                message = f"record_count is {header.record_count}, the data ends after {index}"
                raise RecordFormatError("truncated", message, offset=at, rule="HDR-13")
            record, at = decode_record(payload, at, base, room)
            room -= RECORD_COST + HEADER_COST * len(record.headers)
            if room < 0:
                raise out_of_room(at)
        except RecordFormatError as error:
            raise error.inside(f"records[{index}]") from None
        records.append(record)
    if at != len(payload):
        # HDR-14, REC-25: "Incorrect declared batch size, records still remaining in file"
        message = f"{len(payload) - at} bytes follow the last record"
        raise RecordFormatError("malformed", message, path="records", offset=at, rule="HDR-14")
    return tuple(records), room


def encode_batch(batch: Batch) -> bytes:
    """Write *batch* as Kafka's own writer would."""
    check_writable(batch)
    base_timestamp = base_timestamp_of(batch)
    records = b"".join(
        encode_at(index, record, batch.base_offset, base_timestamp) for index, record in enumerate(batch.records)
    )
    payload = compress(batch.compression, records, magic=MAGIC_VALUE_V2) if batch.records else b""
    header = BatchHeader(
        base_offset=batch.base_offset,
        batch_length=RECORD_BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),  # HDR-03
        partition_leader_epoch=batch.partition_leader_epoch,
        magic=MAGIC_VALUE_V2,
        crc=0,
        attributes=bits.attributes_of(batch),
        last_offset_delta=batch.last_offset - batch.base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=len(batch.records),
    )
    unsigned = BATCH_V2.struct.pack(*header) + payload
    # CRC-05
    return BATCH_V2.struct.pack(*header._replace(crc=checksum_v2(unsigned))) + payload


def encode_at(index: int, record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """One record's bytes, its index in the path of an error."""
    try:
        return encode_record(record, base_offset, base_timestamp)
    except RecordFormatError as error:
        raise error.inside(f"records[{index}]") from None


def base_timestamp_of(batch: Batch) -> int:
    """The base timestamp that a writer puts into the header.

    The delete horizon if there is one (TIM-18, A07), which is later than most records (TIM-19), else the first
    record's timestamp (TIM-06), or -1 in an empty batch (TIM-21).
    """
    if batch.delete_horizon is not None:
        return batch.delete_horizon
    if batch.base_timestamp is not None:
        return batch.base_timestamp
    return batch.records[0].timestamp if batch.records else NO_TIMESTAMP


def check_writable(batch: Batch) -> None:
    """Refuse what MemoryRecordsBuilder and DefaultRecordBatch#writeHeader refuse."""
    if batch.timestamp_type == "none":
        raise unwritable("ATT-14", "timestamp_type", "v2 has no batches without a timestamp type")
    if not batch.records and batch.compression != "none":
        raise unwritable("CLN-15", "compression", "an empty batch is never compressed")
    if not -INT32_MAX - 1 <= batch.last_offset - batch.base_offset <= INT32_MAX:
        raise unwritable("OFF-08", "last_offset", "the last offset delta exceeds int32")
    check_records(batch)
    if batch.records:
        # DefaultRecordBatch#writeEmptyHeader keeps any producer state of the batch (CLN-15).
        check_producer_state(batch)
    if base_timestamp_of(batch) < NO_TIMESTAMP:
        raise unwritable("TIM-22", "base_timestamp", f"base_timestamp is {base_timestamp_of(batch)}")


def check_producer_state(batch: Batch) -> None:
    """MemoryRecordsBuilder#validateProducerState (PID-04, TXN-16)."""
    if batch.transactional and batch.producer_id == NO_PRODUCER_ID:
        raise unwritable("PID-04", "producer_id", "a transactional batch needs a producer id")
    if batch.producer_id == NO_PRODUCER_ID:
        return
    if batch.producer_epoch == NO_PRODUCER_EPOCH:
        raise unwritable("PID-04", "producer_epoch", "a producer id needs an epoch")
    if batch.base_sequence < 0 and not batch.control:
        raise unwritable("PID-04", "base_sequence", f"a producer id needs a sequence, not {batch.base_sequence}")


def check_records(batch: Batch) -> None:
    """MemoryRecordsBuilder#appendWithOffset (OFF-07, TIM-04), and DefaultRecord#writeTo for header keys (REC-18)."""
    previous: int | None = None
    for index, record in enumerate(batch.records):
        path = f"records[{index}]"
        if previous is not None and record.offset <= previous:
            message = f"offset {record.offset} follows {previous}"
            raise unwritable("OFF-07", f"{path}.offset", message)
        if not NO_TIMESTAMP <= record.timestamp <= INT64_MAX:
            raise unwritable("TIM-04", f"{path}.timestamp", f"timestamp is {record.timestamp}")
        for number, header in enumerate(record.headers):
            if header.key is None:
                raise unwritable("REC-18", f"{path}.headers[{number}].key", "a header key is null")
        previous = record.offset


def unwritable(rule: str, path: str, message: str) -> RecordFormatError:
    """A value that Kafka's writer refuses; there are no bytes to point at."""
    return RecordFormatError("malformed", message, path=path, rule=rule)
