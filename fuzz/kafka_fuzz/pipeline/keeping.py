"""Which cases stay: of equal contents the first, and of equal shapes the first few; the rest is listed, not lost.

All of it is decided by numbers alone, so the same cases stay however the work
was divided.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_corpus.pipeline.shards import read_batches
from kafka_fuzz.pipeline.cases import SCHEMA

DROPPED: Final = pa.schema([
    pa.field("index", pa.int64(), nullable=False),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("first", pa.int64(), nullable=False),
])  # fmt: skip
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
    """The rows of each magic and codec, and the folder that they go to; both are told by it from then on."""
    # A stable sort and slices: rows are copied once, and not looked at again for each place.
    rows = batch.take(pc.sort_indices(batch, [("magic", "ascending"), ("codec", "ascending")]))
    rest, at = rows.select(KEPT.names), 0
    pairs = zip(rows.column("magic").to_pylist(), rows.column("codec").to_pylist(), strict=True)
    for (magic, codec), alike in groupby(pairs):
        count = sum(1 for _ in alike)
        yield f"magic={magic}/codec={codec or 'unknown'}", rest.slice(at, count)
        at += count


def listed(paths: list[Path]) -> pa.RecordBatch:
    """The rows that go from one shard, in their order, from whatever Spark wrote of them."""
    tables = [pa.Table.from_batches([batch]) for batch in read_batches(paths, DROPPED.names)]
    rows: Any = pa.concat_tables(tables).cast(DROPPED).sort_by("index") if tables else DROPPED.empty_table()
    return rows.combine_chunks().to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], schema=DROPPED)
