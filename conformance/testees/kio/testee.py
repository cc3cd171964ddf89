"""Serves the record codec of kio by the testee protocol, version 1.

kio reads and writes one batch at a time and says how long it was, so that a
caller goes from batch to batch up to the end of the bytes.  It has no way to
say that the last one is not whole: kio's error is the answer then.
"""

from __future__ import annotations

import json
import platform
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "packages"))

from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record, RecordBatch, RecordHeader
from kio.records.writers import write_batch
from kio.serial.errors import BufferUnderflow, SerialError
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

EPOCH = datetime.fromtimestamp(0, UTC)
MILLISECOND = timedelta(milliseconds=1)
# By what kio says, as it has one class for nearly all: ValueError.
KINDS = {"Checksum mismatch": "corrupt", "Expected record batch magic": "unsupported_magic"}
OURS = ("Invalid length", "Record", "Varint is too long", "Varlong is too long")
ABLE = {"magics": [2], "compressions": ["none"]}
HELLO = {
    "protocol": 1,
    "name": "kio",
    "version": version("kio"),
    "language": "python",
    "runtime": f"{platform.python_implementation()} {platform.python_version()}",
    "decode": ABLE,
    "encode": ABLE,
    "append": False,
    "many": True,
}


class Skipped(Exception):
    """kio does not offer it."""


def main() -> None:
    """Answer every line."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request."""
    match request:
        case {"op": "hello"}:
            return HELLO
        case {"op": "decode", "id": id_, "many": [*many]}:
            return {"id": id_, "many": [decode(b64decode(data)) for data in many]}
        case {"op": "decode", "id": id_, "data": data}:
            return {"id": id_, **decode(b64decode(data))}
        case {"op": "encode", "id": id_, "batch": batch}:
            return {"id": id_, **encode(batch)}
    return {"id": request.get("id", ""), "skipped": f"kio has no operation {request.get('op')}"}


# --- decode -------------------------------------------------------------------------------------


def decode(data: bytes) -> dict[str, Any]:
    """Every batch of *data* that is whole, and the error that ended it."""
    batches: list[dict[str, Any]] = []
    try:
        batches.extend(read(data))
    except Exception as error:
        return {"batches": batches, "error": {"kind": kind(error), "message": f"{type(error).__name__}: {error}"}}
    return {"batches": batches}


def read(data: bytes) -> Iterator[dict[str, Any]]:
    """Batch by batch."""
    offset = 0
    while offset < len(data):
        batch, size = read_batch(data, offset)
        yield shown(batch)
        offset += size


def shown(batch: RecordBatch) -> dict[str, Any]:
    """A batch as the protocol has it; of the attributes kio gives the number only."""
    return {
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "last_offset": batch.base_offset + batch.last_offset_delta,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "records": [shown_record(record) for record in batch.records],
    }


def shown_record(record: Record) -> dict[str, Any]:
    """A record as the protocol has it."""
    return {
        "offset": record.offset,
        "timestamp": (record.timestamp - EPOCH) // MILLISECOND,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[text(header.key), text(header.value)] for header in record.headers],
    }


def kind(error: Exception) -> str:
    """By class, and for a ValueError of kio's own by what it says; all else is an accident."""
    if isinstance(error, BufferUnderflow):
        return "truncated"
    if isinstance(error, SerialError):
        return "malformed"
    if type(error) is not ValueError:
        return "other"
    said = str(error)
    named = next((name for start, name in KINDS.items() if said.startswith(start)), None)
    return named or ("malformed" if said.startswith(OURS) else "other")


# --- encode -------------------------------------------------------------------------------------


def encode(batch: dict[str, Any]) -> dict[str, Any]:
    """The bytes that kio writes for *batch*."""
    try:
        with BytesIO() as buffer:
            write_batch(buffer, wanted(batch))
            return {"data": text(buffer.getvalue())}
    except Skipped as reason:
        return {"skipped": str(reason)}
    except Exception as error:
        return {"error": {"kind": "malformed", "message": f"{type(error).__name__}: {error}"}}


def wanted(batch: dict[str, Any]) -> NewRecordBatch:
    """The batch as kio takes it."""
    if batch["magic"] != RecordBatch.magic:
        raise ValueError("kio writes magic 2 only")
    records = batch.get("records", [])
    if not records:
        raise Skipped("kio writes no batch without records")
    if batch.get("delete_horizon") is not None:
        raise Skipped("kio takes the first record's timestamp as the base, so it writes no delete horizon")
    if (batch["base_offset"], batch["last_offset"]) != (records[0]["offset"], max(each["offset"] for each in records)):
        raise Skipped("kio takes the first and the last offset from the records")
    if batch.get("timestamp_type") == "append" or batch.get("max_timestamp") != max(r["timestamp"] for r in records):
        raise Skipped("kio takes the largest timestamp from the records, as CreateTime")
    bits = 0x10 * bool(batch.get("transactional")) | 0x20 * bool(batch.get("control"))
    return NewRecordBatch(
        producer_id=i64.parse(batch["producer_id"]),
        producer_epoch=i16.parse(batch["producer_epoch"]),
        partition_leader_epoch=i32.parse(batch["partition_leader_epoch"]),
        base_sequence=i32.parse(batch["base_sequence"]),
        attributes=i16(bits),
        records=tuple(map(record, records)),
    )


def record(given: dict[str, Any]) -> Record:
    """A record as kio takes it."""
    return Record(
        attributes=i8(0),
        timestamp=TZAwareMicros.parse(point_in_time(given["timestamp"])),
        offset=i64.parse(given["offset"]),
        key=octets(given["key"]),
        value=octets(given["value"]),
        headers=tuple(RecordHeader(key=octets(key), value=octets(value)) for key, value in given.get("headers", ())),
    )


def point_in_time(timestamp: int) -> datetime:
    """A timestamp as kio takes it, which is a datetime: years 1 to 9999."""
    try:
        return EPOCH + timestamp * MILLISECOND
    except OverflowError:
        raise Skipped("kio takes timestamps as datetimes, which end with the year 9999") from None


def text(data: bytes | None) -> str | None:
    """Bytes as base64."""
    return None if data is None else b64encode(data).decode()


def octets(data: str | None) -> bytes | None:
    """Bytes out of base64."""
    return None if data is None else b64decode(data)


main()
