"""A source of Spark's whose rows another decoder makes, one tuple at a time: what `kafka-segments` is compared with.

The option `reader` names a function, as `package.module:name`, that gives
tuples of offset, timestamp, key and value for the paths of some segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka_corpus.segments.listing import find


class Peer(DataSource):  # type: ignore[misc]
    """The source."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "kafka-segments-peer"

    def schema(self) -> str:
        """The columns."""
        return "offset BIGINT, timestamp BIGINT, key BINARY, value BINARY"

    def reader(self, schema: Any) -> PeerReader:  # noqa: ARG002 - Spark's
        """For `spark.read`."""
        return PeerReader(self.options["path"], self.options["reader"])


class PeerReader(DataSourceReader):  # type: ignore[misc]
    """A task for each segment."""

    def __init__(self, path: str, reader: str) -> None:
        self.path, self.by = path, reader

    def partitions(self) -> list[InputPartition]:
        """The segments."""
        return [InputPartition(segment.path) for segment in find([self.path])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The rows of one."""
        module, _, name = self.by.partition(":")
        rows: Iterator[tuple[Any, ...]] = getattr(import_module(module), name)([partition.value])
        return rows
