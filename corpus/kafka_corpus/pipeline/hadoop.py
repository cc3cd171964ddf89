"""Segments that only Spark's own Hadoop file systems reach: whole files through the JVM.

The slow way, and the one that reaches everything Spark does: `binaryFile` hands
each file over in one piece (so it has to be below 2 GiB, and a task holds it
twice), and a worker reads it.  Nothing is split, skipped, or left out on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_corpus.columnar import read
from kafka_corpus.segments import tables


def through_hadoop(spark: Any, path: str, *, view: tables.View = "records", columns: Sequence[str] = ()) -> Any:
    """A view of the segments at *path*, which Spark reads: any address that its Hadoop file systems know.

    Raises:
        ValueError: the view has no such column.
    """
    schema = tables.chosen(view, columns)
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "*.log"}
    files = spark.read.format("binaryFile").options(**options).load(path).select("path", "content")
    return files.mapInArrow(partial(_rows, view, schema), from_arrow_schema(schema))


def _rows(view: tables.View, schema: pa.Schema, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in given:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            for chunk in read(content.as_buffer()):
                yield tables.table(chunk, view, schema, path.as_py())
