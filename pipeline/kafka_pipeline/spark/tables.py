"""Parquet files as Spark tables, queried in SQL; results come back as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_pipeline.spark.needs import PipelineError
from kafka_pipeline.spark.session import first_line, spark_errors
from kafka_pipeline.spark.shards import OLD_COLUMNS


def view(spark: Any, name: str, folder: Path) -> None:
    """Call the Parquet files below *folder* *name*; parts of their path are columns.

    Raises:
        PipelineError: a file cannot be read.
    """
    with spark_failures():
        files = spark.read.option("basePath", str(folder)).option("recursiveFileLookup", "false").parquet(str(folder))
        files.withColumnsRenamed(OLD_COLUMNS).createOrReplaceTempView(name)


def query_table(spark: Any, query: str, views: Mapping[str, Path] | None = None) -> pa.Table:
    """The result of *query* as a table, which must fit into the driver's memory.

    Raises:
        PipelineError: Spark gave up.
    """
    for name, folder in (views or {}).items():
        view(spark, name, folder)
    with spark_failures():
        return spark.sql(query).toArrow()


@contextmanager
def spark_failures() -> Iterator[None]:
    """Turn what Spark raises into `PipelineError`, with one line of it."""
    try:
        yield
    except spark_errors() as error:
        raise PipelineError(f"Spark gave up: {first_line(error)}") from None
