"""What decoding gives: chunks of records, of their batches, and of what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafka_corpus.columnar import headers
from kafka_corpus.columnar.buffers import Columns, Counts
from kafka_corpus.columnar.entries import Source
from kafka_corpus.columnar.fields import VIEW
from kafka_corpus.columnar.jit import Numbers
from kafka_records import Kind

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


class Broken(NamedTuple):
    """A row of the errors table: an entry that cannot be read, and why (`kafka_records.RecordFormatError`).

    *position* is where the entry starts, and *offset* where the rule broke, both
    in the file; *size* is None where it cannot be told, and nothing behind is read.
    """

    position: int
    size: int | None
    kind: Kind
    path: str
    offset: int
    inner_offset: int | None
    rule: str
    message: str


@dataclass(frozen=True)
class Chunk:
    """Some entries of a log in a row, as three tables whose rows share `position`: where an entry starts.

    The views of keys, values and headers point into the memory that was read, and keep it.
    """

    columns: Columns
    counts: Counts
    source: Source
    memory: tuple[pa.Buffer, ...]
    broken: tuple[Broken, ...]

    @cached_property
    def records(self) -> pa.RecordBatch:
        """One row for each record; the schema is `RECORDS`."""
        columns, rows = self.columns, self.counts.rows
        arrays = [
            *(plain(columns.buffer(name), rows) for name in ("position", "offset", "timestamp")),
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


def plain(buffer: pa.Buffer, rows: int) -> pa.Array:
    """A column of int64 without nulls."""
    return pa.Array.from_buffers(pa.int64(), rows, [None, buffer])


def view_of(data: bytes, buffer: int, offset: int) -> bytes:
    """The Arrow view of *data*, which lies in the data buffer number *buffer*, at *offset*."""
    size = len(data).to_bytes(4, "little")
    if len(data) <= VIEW - 4:
        return size + data.ljust(VIEW - 4, b"\0")
    return size + data[:4] + buffer.to_bytes(4, "little") + offset.to_bytes(4, "little")
