"""Chunks of decoded records: their columns, their batches, and tables in types that every engine has.

A table has no views, no dictionaries and no unsigned numbers:

    records   a row for each record
    batches   a row for each entry: a batch of v2, a message or wrapper of v0 and v1
    errors    a row for each entry that cannot be read, and why

In each, `file` is the segment, and `position` the byte at which the entry starts in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa

from kafka_pipeline.columnar import headers
from kafka_pipeline.columnar.buffers import ChunkColumns, FillCounts
from kafka_pipeline.columnar.entries import EntrySource
from kafka_pipeline.columnar.jit import Numbers
from kafka_pipeline.columnar.memory import VIEW
from kafka_pipeline.reading import Broken
from kafka_records import Batch, Header, Record

BINARY: Final = pa.binary_view()
HEADER: Final = pa.struct([pa.field("key", BINARY, nullable=False), pa.field("value", BINARY)])
HEADERS: Final = pa.list_(pa.field("header", HEADER, nullable=False))
RECORDS: Final = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", BINARY),
        pa.field("value", BINARY),
        pa.field("headers", HEADERS, nullable=False),
    ]
)
NO_PAIRS: Final = pa.array([], HEADER)
BATCHES: Final = headers.SCHEMA
ERRORS: Final = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("inner_offset", pa.int64()),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Chunk:
    """Some entries of a log in a row, as three tables whose rows share `position`: where an entry starts.

    The views of keys, values and headers point into the memory that was read, and keep it.
    """

    columns: ChunkColumns
    counts: FillCounts
    source: EntrySource
    memory: tuple[pa.Buffer, ...]
    broken: tuple[Broken, ...]

    @cached_property
    def records(self) -> pa.RecordBatch:
        """One row for each record; the schema is `RECORDS`."""
        columns, rows = self.columns, self.counts.rows
        arrays = [
            *(int64_column(columns.buffer(name), rows) for name in ("position", "offset", "timestamp")),
            self.views("key", "key_bits", rows),
            self.views("value", "value_bits", rows),
            self.headers(),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)

    @cached_property
    def fields(self) -> Numbers:
        """The header fields of each entry that was read, as plain numbers: a row for each of `headers.FIELDS`."""
        columns, count = self.columns, self.counts.batches
        fields = np.empty((headers.FIELDS, count), np.int64)
        positions, offsets = columns.numbers("batch_position")[:count], columns.numbers("offset")
        headers.read_headers(self.source.start, self.source.position, positions, self.rows, offsets, fields)
        return fields

    @property
    def rows(self) -> Numbers:
        """Where the records of each entry start in the records, and where the last one's end."""
        return np.append(self.columns.numbers("batch_row")[: self.counts.batches], self.counts.rows)

    @cached_property
    def batches(self) -> pa.RecordBatch:
        """One row for each entry that was read; the schema is `BATCHES`."""
        return headers.to_arrow(self.fields)

    @cached_property
    def errors(self) -> pa.RecordBatch:
        """One row for each entry that could not be read; the schema is `ERRORS`."""
        return pa.RecordBatch.from_pylist([broken._asdict() for broken in self.broken], schema=ERRORS)

    def views(self, name: str, bits: str, count: int) -> pa.Array:
        """Byte strings, some of them null."""
        valid = self.columns.bitmap(bits, count)
        return pa.Array.from_buffers(BINARY, count, [valid, self.columns.buffer(name), *self.memory])

    def headers(self) -> pa.Array:
        """The headers of all records."""
        columns, count = self.columns, self.counts.headers
        pairs = self.pairs(count) if count else NO_PAIRS
        return pa.Array.from_buffers(HEADERS, self.counts.rows, [None, columns.buffer("header_end")], children=[pairs])

    def pairs(self, count: int) -> pa.Array:
        """Keys and values of headers."""
        columns = self.columns
        key = pa.Array.from_buffers(BINARY, count, [None, columns.buffer("header_key"), *self.memory])
        value = self.views("header_value", "header_bits", count)
        return pa.Array.from_buffers(HEADER, count, [None], children=[key, value])


def int64_column(buffer: pa.Buffer, rows: int) -> pa.Array:
    """A column of int64 without nulls."""
    return pa.Array.from_buffers(pa.int64(), rows, [None, buffer])


def view_of(data: bytes, buffer: int, offset: int) -> bytes:
    """The Arrow view of *data*, which is in the data buffer number *buffer*, at *offset*."""
    size = len(data).to_bytes(4, "little")
    if len(data) <= VIEW - 4:
        return size + data.ljust(VIEW - 4, b"\0")
    return size + data[:4] + buffer.to_bytes(4, "little") + offset.to_bytes(4, "little")


# What a row of the batches table says of a batch itself.
BATCH_FIELDS: Final = [field.name for field in fields(Batch) if field.name != "records"]


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


def batch_tables(batches: Sequence[Batch]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
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


View = Literal["records", "batches", "errors"]
VIEWS: Final[tuple[View, ...]] = get_args(View)
FILE: Final = pa.field("file", pa.string(), nullable=False)
_HEADER: Final = pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])
_PLAIN: Final = {pa.uint32(): pa.int64(), BATCHES.field("compression").type: pa.string()}


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([FILE, *(field.with_type(_PLAIN.get(field.type, field.type)) for field in schema)])


SCHEMAS: Final[dict[View, pa.Schema]] = {
    "records": pa.schema(
        [
            FILE,
            pa.field("position", pa.int64(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.int64(), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)), nullable=False),
        ]
    ),
    "batches": _plain(BATCHES),
    "errors": _plain(ERRORS),
}


def chunk_table(chunk: Chunk, view: View, schema: pa.Schema, file: str) -> pa.RecordBatch:
    """The columns of *chunk* that *schema* names, in its order and types."""
    given: pa.RecordBatch = getattr(chunk, view)
    arrays = [
        pa.repeat(file, given.num_rows) if field.name == FILE.name else given.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def select_columns(view: View, names: Sequence[str]) -> pa.Schema:
    """The schema of a view with these columns only, in this order; all without names.

    Raises:
        ValueError: there is no such column.
    """
    schema = SCHEMAS[view]
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise ValueError(f"the view {view} has no column {unknown[0]!r}; it has {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names]) if names else schema
