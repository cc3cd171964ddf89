"""Columns as batches of the reference, and the reference's reading of the same bytes, to compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from kafka_corpus.columnar.chunk import BATCHES, RECORDS, Broken, Chunk
from kafka_records import DEFAULT, Batch, Header, Limits, Record, RecordFormatError, decode
from kafka_records.log import next_entry

# What a row of the batches table says of a batch itself.
BATCH_FIELDS: Final = [field.name for field in fields(Batch) if field.name != "records"]
# What a reading of a log gives: each entry with its position, and those that cannot be read.
Reading = tuple[list[tuple[int, Batch]], list[Broken]]


def batches_of(chunk: Chunk) -> list[tuple[int, Batch]]:
    """The entries of a chunk as the reference would give them, each with its position."""
    records = [_record(row) for row in chunk.records.to_pylist()]
    rows = chunk.batches.to_pylist()
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + row["record_count"])
    return [
        (row["position"], _batch(row, tuple(records[start:end])))
        for row, (start, end) in zip(rows, pairwise(starts), strict=True)
    ]


def read_by_reference(data: bytes, *, limits: Limits = DEFAULT) -> Reading:
    """What the reference says of each entry of *data* by itself; it goes on behind broken ones as `read` does."""
    batches: list[tuple[int, Batch]] = []
    broken: list[Broken] = []
    at = 0
    while True:
        size: int | None = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        try:
            end = next_entry(data, at)
            if end is None:
                return batches, broken
            batches += ((at, batch) for batch in decode(data[at:end], limits=limits))
            at = end
        except RecordFormatError as error:
            framing = not error.path.startswith("batch")
            offset = at + error.offset
            path = f"batch.{error.path}" if framing else error.path
            assert size is not None
            if framing and (error.rule != "FRM-08" or at + size > len(data)):
                size = None
            broken.append(Broken(at, size, error.kind, path, offset, error.inner_offset, error.rule, error.message))
            if size is None:
                return batches, broken
            at += size


def tables_of(batches: Sequence[Batch]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Batches of the reference as the two tables that `write` takes.

    Raises:
        OverflowError, pyarrow.ArrowException: a number does not fit its column.
    """
    records = [
        {**record._asdict(), "position": 0, "headers": [header._asdict() for header in record.headers]}
        for batch in batches
        for record in batch.records
    ]
    unknown = {"position": 0, "size": 0, "crc": 0, "attributes": 0}
    rows = [
        {**unknown, **{name: getattr(batch, name) for name in BATCH_FIELDS}, "record_count": len(batch.records)}
        for batch in batches
    ]
    return pa.RecordBatch.from_pylist(records, schema=RECORDS), pa.RecordBatch.from_pylist(rows, schema=BATCHES)


def batch_in(batches: pa.RecordBatch, row: int, records: pa.RecordBatch) -> Batch:
    """The batch that a row of the batches table describes, with these records."""
    (fields,) = batches.slice(row, 1).to_pylist()
    return _batch(fields, tuple(map(_record, records.to_pylist())))


def _record(row: dict[str, Any]) -> Record:
    headers = tuple(Header(header["key"], header["value"]) for header in row["headers"])
    return Record(row["offset"], row["timestamp"], row["key"], row["value"], headers)


def _batch(row: dict[str, Any], records: tuple[Record, ...]) -> Batch:
    return Batch(**{name: row[name] for name in BATCH_FIELDS}, records=records)
