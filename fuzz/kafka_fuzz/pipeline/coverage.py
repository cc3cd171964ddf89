"""What the kept cases cover: a row for each cell of the format, those that nothing lies in too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from kafka_fuzz.cells import Cell

COUNTS: Final = ("cases", "shapes", "valid", "invalid", "acceptable")
SCHEMA: Final = pa.schema([
    pa.field("mutator", pa.string(), nullable=False),
    pa.field("magic", pa.int8(), nullable=False),
    *[pa.field(name, pa.string(), nullable=False) for name in Cell._fields[1:]],
    *[pa.field(name, pa.int64(), nullable=False) for name in COUNTS],
])  # fmt: skip
KEY: Final = ("mutator", *Cell._fields)
QUERY: Final = f"""
    SELECT {", ".join(KEY)}, count(*) AS cases, count(DISTINCT shape) AS shapes,
           count_if(verdict = 'valid') AS valid, count_if(verdict = 'invalid') AS invalid,
           count_if(verdict = 'acceptable') AS acceptable
    FROM cases GROUP BY {", ".join(KEY)}
"""
SHAPES: Final = "SELECT count(DISTINCT shape) AS shapes FROM cases"


def table(counted: pa.Table, grid: Iterable[Cell]) -> pa.Table:
    """The coverage table: what was *counted*, and zeros for cells of *grid* that were not, sorted by cell."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {
        ("model", *cell): dict(zip(KEY, ("model", *cell), strict=True)) | dict.fromkeys(COUNTS, 0) for cell in grid
    }
    rows |= {tuple(row[name] for name in KEY): row for row in counted.to_pylist()}
    return pa.Table.from_pylist([rows[key] for key in sorted(rows)], schema=SCHEMA)


def summary(coverage: pa.Table) -> dict[str, int]:
    """The table in a few numbers."""
    rows = coverage.to_pylist()
    counts = {name: sum(row[name] for row in rows) for name in COUNTS if name != "shapes"}
    return {"cells": len(rows), "cells_reached": sum(row["cases"] > 0 for row in rows), **counts}
