"""Numbers into cases as Arrow: the pure function of `pipeline generate`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from kafka_fuzz.pipeline.rows import Rows

INDEX: Final = pa.schema([pa.field("index", pa.int64(), nullable=False)])
# Of the files; `magic` and `codec` are parts of their paths.
SCHEMA: Final = pa.schema([
    pa.field(name, kind, nullable=False)
    for name, kind in {
        "index": pa.int64(),
        "mutator": pa.string(),
        "magic": pa.int8(),
        "codec": pa.string(),
        "field": pa.string(),
        "boundary": pa.string(),
        "lie": pa.string(),
        "nesting": pa.string(),
        "position": pa.string(),
        "labels": pa.string(),
        "data": pa.binary(),
        "verdict": pa.string(),
        "kinds": pa.list_(pa.string()),
        "rules": pa.list_(pa.string()),
        "batches": pa.string(),
        "content": pa.binary(16),
        "shape": pa.int64(),
    }.items()
])  # fmt: skip
ALIKE: Final = ("mutator", "codec", "field", "boundary", "lie", "nesting", "position", "labels", "verdict")
# Numbers in a batch.
TOGETHER: Final = 4096


def numbers(start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """The numbers from *start* up to *stop*, as the batches that `Cases` takes."""
    for at in range(start, stop, TOGETHER):
        yield pa.RecordBatch.from_arrays([pa.array(range(at, min(at + TOGETHER, stop)), pa.int64())], schema=INDEX)


class Cases(Rows):
    """Makes record batches of cases; the same whatever it was asked before."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A row for each number.

        Raises:
            Wrong: the reference contradicts a lie.
        """
        with uncollected():
            rows = [self.row(index) for index in batch.column(0).to_pylist()]
        columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@contextmanager
def uncollected() -> Iterator[None]:
    """Has nobody look for cycles meanwhile: cases make next to none, and all that is remembered would be looked at."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
