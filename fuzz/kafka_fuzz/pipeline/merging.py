"""Corpora merged between rounds, by SQL: for everything that some input was the first to do, the smallest that does it.

What an input does: it has content, a cell, an outcome (or a vector of them),
lines that nobody covered before.  Each of these is kept by the smallest input
that claims it, ties broken by all else that a row has, so that the same rows
give the same corpus however they were divided.  Nothing that was covered is lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafka_corpus.pipeline import tables
from kafka_fuzz.mutate import Cell
from kafka_fuzz.pipeline.seen import SCHEMA

_CELL: Final = ", ".join(Cell._fields)
# What tells rows of inputs apart; the order decides which of two is taken.
_OWN: Final = f"size, sha256, key, {_CELL}, profile, labels, version, lines"
CORPUS: Final = f"""
    WITH inputs AS (SELECT target, data, struct({_OWN}) AS own, {_OWN} FROM seen WHERE what = 'inputs'),
    claims AS (
        SELECT target, own, explode(concat(
            array(concat('does ', key), concat('cell ', to_json(struct({_CELL})))),
            transform(lines, line -> concat('line ', line))
        )) AS claim FROM inputs
    ),
    chosen AS (SELECT DISTINCT target, own FROM (SELECT target, min(own) AS own FROM claims GROUP BY target, claim)),
    contents AS (SELECT sha256, first(data) AS data FROM inputs GROUP BY sha256)
    SELECT 'inputs' AS what, target, own.*, data
    FROM chosen JOIN contents ON own.sha256 = contents.sha256
    ORDER BY target, own
"""
FALLEN: Final = "SELECT DISTINCT 'fallen' AS what, target, key FROM seen WHERE what = 'fallen' ORDER BY target, key"
# Each key once, with its smallest input, and where it was seen first.
_BEST: Final = (
    f"size, sha256, {_CELL}, profile, labels, version, kind, detail, function, told, why, asked, target, data"
)
FINDS: Final = f"""
    SELECT key, sum(count) AS count, min(struct({_BEST})) AS best, min(struct(round, shard)) AS first
    FROM rounds WHERE what = 'finds' GROUP BY key ORDER BY key
"""
CELLS: Final = f"""
    SELECT target, {_CELL}, count_if(what = 'inputs') AS inputs, count_if(what = 'finds') AS finds, min(round) AS first
    FROM rounds WHERE what != 'fallen' GROUP BY ALL ORDER BY target, {_CELL}
"""
CELLS_SCHEMA: Final = pa.schema([
    *[SCHEMA.field(name) for name in ("target", *Cell._fields)],
    *[pa.field(name, pa.int64(), nullable=False) for name in ("inputs", "finds", "first")],
])  # fmt: skip


def merged(spark: Any, new: Path, before: Path) -> pa.Table:
    """What the next round begins with: the rows of the round in the folder *new*, and of the file *before*.

    Raises:
        CannotRun: Spark gave up.
    """
    names = ", ".join(name for name in SCHEMA.names if name != "shard")
    parts = []
    if any(new.glob("*/*.parquet")):
        tables.view(spark, "new", new)
        parts.append(f"SELECT {names} FROM new")
    if before.exists():
        tables.view(spark, "before", before.parent)
        parts.append(f"SELECT {names} FROM before")
    if not parts:
        return SCHEMA.empty_table()
    with tables.asking():
        spark.sql(" UNION ALL ".join(parts)).createOrReplaceTempView("seen")
    return pa.concat_tables([_filled(tables.ask(spark, query)) for query in (CORPUS, FALLEN)])


def _filled(table: pa.Table) -> pa.Table:
    """*table* with the columns that it lacks, empty."""
    arrays = [
        table.column(each.name).cast(each.type) if each.name in table.column_names else _empty(each, table.num_rows)
        for each in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _empty(column: pa.Field, rows: int) -> pa.Array:
    value: Any = [] if pa.types.is_list(column.type) else 0 if pa.types.is_integer(column.type) else ""
    return pa.array([value] * rows, column.type)
