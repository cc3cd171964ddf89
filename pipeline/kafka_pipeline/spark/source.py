"""`kafka-segments`: a Spark data source for log directories and segment files.

The slow way, and the one that reaches everything Spark does: `binaryFile` hands
each file over in one piece (so it has to be below 2 GiB, and a task holds it
twice), and a worker reads it.  Nothing is split, skipped, or left out on the way.

register(spark)
    spark.read.format("kafka-segments").option("view", "batches").load("/var/kafka-logs/orders-0")

| option    | is                                                                              |
|-----------|---------------------------------------------------------------------------------|
| `path`    | a segment file, or a directory with segments below it; several by commas        |
| `view`    | `records` (the default), `batches` or `errors`                                   |
| `columns` | the columns to read, by commas; all by default.  A schema of the user's does the same |
| `split`   | bytes in one task, 256 MiB by default; cuts are made between batches              |

Spark passes filters to a Python source, but not which columns are
looked at: what is not needed has to be left out by `columns`, or it is read.
Filters on `offset` and `timestamp` pass over batches by their headers; Spark
applies them to the rows as well.

What a Python source gives, Spark copies into rows twice, and what a function
over Arrow gives, once.  So `segments` gives the same rows in less time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from kafka_pipeline.columnar import chunk as tables
from kafka_pipeline.columnar import read_chunks
from kafka_pipeline.columnar.scan import scan_stretch
from kafka_pipeline.reading import ALL, Bounds
from kafka_pipeline.segments import files, listing
from kafka_pipeline.segments.files import Stretch


def through_hadoop(spark: Any, path: str, *, view: tables.View = "records", columns: Sequence[str] = ()) -> Any:
    """A view of the segments at *path*, which Spark reads: any address that its Hadoop file systems know.

    Raises:
        ValueError: the view has no such column.
    """
    schema = tables.select_columns(view, columns)
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "*.log"}
    files = spark.read.format("binaryFile").options(**options).load(path).select("path", "content")
    return files.mapInArrow(partial(_rows, view, schema), from_arrow_schema(schema))


def _rows(view: tables.View, schema: pa.Schema, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in given:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            for chunk in read_chunks(content.as_buffer()):
                yield tables.chunk_table(chunk, view, schema, path.as_py())


NAME: Final = "kafka-segments"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
OPTIONS: Final = ("path", "view", "columns", "split")


def register(spark: Any) -> None:
    """Make the source known to a session, and have filters passed on to it."""
    spark.dataSource.register(KafkaSegments)
    spark.conf.set(PUSHDOWN, "true")


def segments(
    spark: Any,
    *places: str,
    view: tables.View = "records",
    columns: Sequence[str] = (),
    split: int = files.SPLIT,
    bounds: Bounds = ALL,
) -> Any:
    """The rows that `load` gives for *places*, with one copy less; *bounds* replace pushed filters.

    Entries outside of *bounds* are passed over by their headers; of an entry that is read, all records are there.
    What is there now is read, also if the frame is looked at later.

    Raises:
        ValueError: there is no such view or column.
        CannotRead: there are no segments.
    """
    given = {"path": ",".join(places), "view": view, "columns": ",".join(columns), "split": str(split)}
    options = ReadOptions(given)
    schema = from_arrow_schema(options.schema)
    reader = SegmentReader(options, schema)
    reader.bounds = bounds
    parts = reader.partitions()
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(partial(_partition_rows, reader, parts), schema)


def _partition_rows(
    reader: SegmentReader, parts: Sequence[SegmentPartition], tasks: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in tasks:
        for number in batch.column(0).to_pylist():
            yield from reader.read(parts[number])


class SegmentPartition(InputPartition):  # type: ignore[misc]
    """Stretches that one task reads."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        super().__init__([(each.path, each.start, each.end) for each in stretches])

    @property
    def stretches(self) -> list[Stretch]:
        """The same again."""
        return [Stretch(*each) for each in self.value]


class ReadOptions:
    """The options of one read.  Raises `ValueError` for what is none."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(given) - set(OPTIONS))
        if unknown:
            raise ValueError(f"{NAME} has no option {unknown[0]!r}; it has {', '.join(OPTIONS)}")
        self.places = [place for place in given.get("path", "").split(",") if place]
        if not self.places:
            raise ValueError(f"{NAME} needs a path: a segment file, or a directory with segments below it")
        view = given.get("view", "records")
        if view not in tables.VIEWS:
            raise ValueError(f"{NAME} has no view {view!r}; it has {', '.join(tables.VIEWS)}")
        self.view: tables.View = view
        names = [name.strip() for name in given.get("columns", "").split(",")]
        self.schema = tables.select_columns(self.view, [name for name in names if name])
        self.split = _bytes(given.get("split", str(files.SPLIT)))

    def narrowed(self, schema: Any) -> pa.Schema:
        """The same columns as a user's own schema has them, which may allow more nulls.

        Raises:
            ValueError: a column is none of ours, or of another type.
        """
        ours = from_arrow_schema(tables.select_columns(self.view, schema.fieldNames()))
        for field, own in zip(schema.fields, ours.fields, strict=True):
            if field.dataType.simpleString() != own.dataType.simpleString():
                raise ValueError(f"the column {own.name} is {own.dataType.simpleString()}")
        return to_arrow_schema(schema)

    def read(self, stretches: Iterable[Stretch], schema: pa.Schema, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        """The rows of *stretches*.  Raises `OSError`."""
        bounds = ALL if self.view == "errors" else bounds
        for stretch in stretches:
            with files.open_segment(stretch.path, map_it=True) as opened:
                source = files.stretch_source(opened, stretch.end)
                for chunk in scan_stretch(source, stretch.start, stretch.end, bounds=bounds):
                    rows = tables.chunk_table(chunk, self.view, schema, stretch.path)
                    if rows.num_rows:
                        yield rows


def _bytes(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"split takes a number of bytes, not {text!r}")
    return int(text)


class KafkaSegments(DataSource):  # type: ignore[misc]
    """The source; Spark makes one for each read."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> Any:
        """The view's columns, or those that were chosen."""
        return from_arrow_schema(ReadOptions(self.options).schema)

    def reader(self, schema: StructType) -> SegmentReader:
        """For `spark.read`."""
        return SegmentReader(ReadOptions(self.options), schema)

    def streamReader(self, schema: StructType) -> SegmentStreamReader:
        """For `spark.readStream`."""
        return SegmentStreamReader(ReadOptions(self.options), schema)


class SegmentReader(DataSourceReader):  # type: ignore[misc]
    """Everything that is there when a query starts."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.given = options.narrowed(schema)
        self.bounds = ALL

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note the bounds that headers can decide.  Spark applies all filters again: a batch has other records too."""
        for each in filters:
            self.bounds = narrower(self.bounds, each, self.options.view)
        return filters

    def partitions(self) -> list[SegmentPartition]:
        """Segments that may hold what is wanted, cut between batches."""
        segments = listing.find_segments(self.options.places)
        if self.options.view != "errors":
            segments = files.among(segments, self.bounds)
        stretches = (each for segment in segments for each in files.split_segment(segment, self.options.split))
        return [SegmentPartition(some) for some in files.pack_stretches(stretches, self.options.split)] or [
            SegmentPartition([])
        ]

    def read(self, partition: SegmentPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return self.options.read(partition.stretches, self.given, self.bounds)


def narrower(bounds: Bounds, wanted: Filter, view: tables.View) -> Bounds:
    """*bounds* with what a filter wants; unchanged where headers say nothing about that.

    A batch whose header has wrong offsets or its largest timestamp is
    passed over as a broker's own search would pass over it.
    """
    name = ".".join(getattr(wanted, "attribute", ()))
    value = getattr(wanted, "value", None)
    first, last = ("last_offset", "base_offset") if view == "batches" else ("offset", "offset")
    newest = "max_timestamp" if view == "batches" else "timestamp"
    if not isinstance(value, int) or isinstance(value, bool):
        return bounds
    if isinstance(wanted, GreaterThan | GreaterThanOrEqual | EqualTo):
        least = value + isinstance(wanted, GreaterThan)
        if name == first:
            bounds = bounds._replace(first_offset=min(max(bounds.first_offset, least), 2**63 - 1))
        if name == newest:
            bounds = bounds._replace(first_timestamp=min(max(bounds.first_timestamp, least), 2**63 - 1))
    if isinstance(wanted, LessThan | LessThanOrEqual | EqualTo) and name == last:
        most = value - isinstance(wanted, LessThan)
        bounds = bounds._replace(last_offset=max(min(bounds.last_offset, most), -(2**63)))
    return bounds


class SegmentStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads data appended while a query runs.  A stream offset is a number of bytes for each segment."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.given = options.narrowed(schema)
        self.seen: dict[str, int] = {}

    def initialOffset(self) -> dict[str, int]:
        """The beginning of all segments."""
        return {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: ARG002 - Spark's
        """The ends of the last whole entries.  Segments that retention took away are forgotten."""
        found = {}
        for segment in listing.find_segments(self.options.places):
            begin = max(self.seen.get(segment.path, 0), (start or {}).get(segment.path, 0))
            found[segment.path] = self._end(segment, begin)
        self.seen = found
        return found

    def _end(self, segment: listing.SegmentFile, begin: int) -> int:
        """Where the stream goes on to in a segment; never back, even if the broker has cut it off."""
        if begin >= segment.size:
            return begin
        with files.open_segment(segment.path, map_it=True) as source:
            return files.whole_entries(source, begin, segment.size)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[SegmentPartition]:
        """Partitions between two offsets of the stream."""
        stretches = []
        for path, stop in sorted(end.items()):
            begin = start.get(path, 0)
            if begin < stop:
                with files.open_segment(path, map_it=True) as source:
                    cuts = list(files.boundaries(source, begin, stop, self.options.split))
                stretches += [
                    Stretch(path, one, other) for one, other in zip([begin, *cuts], [*cuts, stop], strict=True)
                ]
        return [SegmentPartition(some) for some in files.pack_stretches(stretches, self.options.split)]

    def read(self, partition: SegmentPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return self.options.read(partition.stretches, self.given, ALL)
