"""Chunks as tables in types that every engine has: no views, no dictionaries, no unsigned numbers.

    records   a row for each record
    batches   a row for each entry: a batch of v2, a message or wrapper of v0 and v1
    errors    a row for each entry that cannot be read, and why

In each, `file` is the segment, and `position` the byte at which the entry starts in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

import pyarrow as pa

from kafka_pipeline.columnar import BATCHES, ERRORS, Chunk

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
