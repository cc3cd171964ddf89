"""Generated cases as Arrow: which are kept, and the format cells that they cover.

All of it is decided by numbers alone, so the same cases stay however the work
was divided.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_fuzz.mutate.mutant import MutantCell
from kafka_pipeline.jobs.space import Rows
from kafka_pipeline.spark.shards import read_batches, required_schema

INDEX: Final = required_schema({"index": pa.int64()})
# Of the files; `magic` and `codec` are parts of their paths.
SCHEMA: Final = required_schema(
    {
        "index": pa.int64(),
        "mutator": pa.string(),
        "magic": pa.int8(),
        "codec": pa.string(),
        "field": pa.string(),
        "boundary": pa.string(),
        "fault": pa.string(),
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
    }
)
ALIKE: Final = ("mutator", "codec", "field", "boundary", "fault", "nesting", "position", "labels", "verdict")
# Numbers in a batch.
TOGETHER: Final = 4096


def index_batches(start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """The numbers from *start* up to *stop*, as the batches that `Cases` takes."""
    for at in range(start, stop, TOGETHER):
        yield pa.RecordBatch.from_arrays([pa.array(range(at, min(at + TOGETHER, stop)), pa.int64())], schema=INDEX)


class Cases(Rows):
    """Makes record batches of cases; the same whatever it made before."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A row for each number.

        Raises:
            Wrong: the reference contradicts a fault's expected answer.
        """
        with uncollected():
            rows = [self.row(index) for index in batch.column(0).to_pylist()]
        columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the garbage collector off: cases have almost no cycles, and it would scan the whole cache."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


DROPPED: Final = required_schema({"index": pa.int64(), "reason": pa.string(), "first": pa.int64()})
PARTITION: Final = ("magic", "codec")
KEPT: Final = pa.schema([each for each in SCHEMA if each.name not in PARTITION])

# `again` counts equal contents, `alike` equal shapes among those that are the first of their content.
QUERY: Final = """
    WITH contents AS (
        SELECT index, shape,
               row_number() OVER (PARTITION BY content ORDER BY index) AS again,
               min(index) OVER (PARTITION BY content) AS first
        FROM staged
    ), shapes AS (
        SELECT index, again, first,
               row_number() OVER (PARTITION BY shape, again = 1 ORDER BY index) AS alike,
               min(index) OVER (PARTITION BY shape, again = 1) AS first_alike
        FROM contents
    )
    SELECT index,
           CASE WHEN again > 1 THEN 'content' ELSE 'shape' END AS reason,
           CASE WHEN again > 1 THEN first ELSE first_alike END AS first,
           index DIV {shard_rows} AS shard
    FROM shapes
    WHERE again > 1 OR ({per_shape} > 0 AND alike > {per_shape})
"""


def query(shard_rows: int, per_shape: int) -> str:
    """The rows that go, from the view `staged`; *per_shape* of 0 keeps all shapes."""
    return QUERY.format(shard_rows=shard_rows, per_shape=per_shape)


def without(batch: pa.RecordBatch, dropped: pa.Array) -> pa.RecordBatch:
    """*batch* without the rows whose index is among *dropped*."""
    return batch.filter(pc.invert(pc.is_in(batch.column("index"), value_set=dropped)))


def by_place(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each magic and codec, and their folder, whose name replaces both columns."""
    # A stable sort and slices: rows are copied once, and not looked at again for each place.
    rows = batch.take(pc.sort_indices(batch, [("magic", "ascending"), ("codec", "ascending")]))
    rest, at = rows.select(KEPT.names), 0
    pairs = zip(rows.column("magic").to_pylist(), rows.column("codec").to_pylist(), strict=True)
    for (magic, codec), alike in groupby(pairs):
        count = sum(1 for _ in alike)
        yield f"magic={magic}/codec={codec or 'unknown'}", rest.slice(at, count)
        at += count


def dropped_rows(paths: list[Path]) -> pa.RecordBatch:
    """The rows that go from one shard, in their order, from whatever Spark wrote of them."""
    tables = [pa.Table.from_batches([batch]) for batch in read_batches(paths, DROPPED.names)]
    rows: Any = pa.concat_tables(tables).cast(DROPPED).sort_by("index") if tables else DROPPED.empty_table()
    return rows.combine_chunks().to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], schema=DROPPED)


COUNTS: Final = ("cases", "shapes", "valid", "invalid", "acceptable")
COVERAGE_SCHEMA: Final = required_schema(
    {
        "mutator": pa.string(),
        "magic": pa.int8(),
        **dict.fromkeys(MutantCell._fields[1:], pa.string()),
        **dict.fromkeys(COUNTS, pa.int64()),
    }
)
KEY: Final = ("mutator", *MutantCell._fields)
COVERAGE_QUERY: Final = f"""
    SELECT {", ".join(KEY)}, count(*) AS cases, count(DISTINCT shape) AS shapes,
           count_if(verdict = 'valid') AS valid, count_if(verdict = 'invalid') AS invalid,
           count_if(verdict = 'acceptable') AS acceptable
    FROM cases GROUP BY {", ".join(KEY)}
"""
SHAPES: Final = "SELECT count(DISTINCT shape) AS shapes FROM cases"


def coverage_table(counted: pa.Table, grid: Iterable[MutantCell]) -> pa.Table:
    """The coverage table: what was *counted*, and zeros for cells of *grid* that were not, sorted by cell."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {
        ("model", *cell): dict(zip(KEY, ("model", *cell), strict=True)) | dict.fromkeys(COUNTS, 0) for cell in grid
    }
    rows |= {tuple(row[name] for name in KEY): row for row in counted.to_pylist()}
    return pa.Table.from_pylist([rows[key] for key in sorted(rows)], schema=COVERAGE_SCHEMA)


def coverage_summary(coverage: pa.Table) -> dict[str, int]:
    """The table in a few numbers."""
    rows = coverage.to_pylist()
    counts = {name: sum(row[name] for row in rows) for name in COUNTS if name != "shapes"}
    return {"cells": len(rows), "cells_reached": sum(row["cases"] > 0 for row in rows), **counts}
