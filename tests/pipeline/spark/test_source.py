"""`kafka-segments`, the data source: views, columns, filters, streams, and Hadoop's file systems."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba")

from kafka_corpus.authoring.logs import keyed, on_disk
from kafka_pipeline.columnar import scan

pytestmark = pytest.mark.spark

Opener = Callable[[], AbstractContextManager[Any]]
BATCHES = 300


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition of two segments, four records a batch; one batch of the second is damaged."""
    folder = tmp_path_factory.mktemp("logs") / "orders-0"
    folder.mkdir()
    entries = [on_disk(*(keyed(4 * at + more, b"key") for more in range(4))) for at in range(BATCHES)]
    entries[250] = entries[250][:-1] + b"?"
    (folder / f"{0:020}.log").write_bytes(b"".join(entries[:200]))
    (folder / f"{800:020}.log").write_bytes(b"".join(entries[200:]))
    return folder


@pytest.fixture(scope="module")
def spark(opened: Opener) -> Any:
    """The session, with the source registered."""
    from kafka_pipeline.spark.source import register

    with opened() as session:
        register(session)
        return session


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """The rows in the order of their places."""
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: (row["file"], str(row)))


@pytest.mark.parametrize("view", ["records", "batches", "errors"])
def test_a_view_is_what_the_segments_hold(view: str, spark: Any, log: Path) -> None:
    """Every row of both segments, however many tasks read them."""
    frame = spark.read.format("kafka-segments").options(view=view, split="12000").load(str(log))
    assert frame.rdd.getNumPartitions() > 2
    read = rows_of(frame)
    there = [
        {"file": path.as_posix(), **row}
        for path in sorted(log.glob("*.log"))
        for chunk in scan(path)
        for row in getattr(chunk, view).to_pylist()
    ]
    assert len(read) == {"records": 4 * BATCHES - 4, "batches": BATCHES - 1, "errors": 1}[view]
    assert read == sorted(there, key=lambda row: (row["file"], str(row)))


@pytest.mark.parametrize("view", ["records", "batches", "errors"])
def test_the_quicker_way_gives_the_same_rows(view: Any, spark: Any, log: Path) -> None:
    """A frame of `segments` has the columns and rows of the source."""
    from kafka_pipeline.spark.source import segments

    loaded = spark.read.format("kafka-segments").options(view=view).load(str(log))
    frame = segments(spark, str(log), view=view, split=12000)
    assert frame.schema.simpleString() == loaded.schema.simpleString()
    assert frame.rdd.getNumPartitions() > 2
    assert rows_of(frame) == rows_of(loaded)


def test_the_quicker_way_passes_over_batches(spark: Any, log: Path) -> None:
    """Bounds leave whole batches out, and only the requested columns are read."""
    from kafka_pipeline.reading import Bounds
    from kafka_pipeline.spark.source import segments

    frame = segments(spark, str(log), columns=["value", "offset"], bounds=Bounds(402, 405))
    assert frame.columns == ["value", "offset"]
    assert sorted(row.offset for row in frame.collect()) == list(range(400, 408))
    with pytest.raises(ValueError, match="no column 'other'"):
        segments(spark, str(log), columns=["other"])


def test_columns_are_chosen(spark: Any, log: Path) -> None:
    """By an option or by a schema, in the order that is given."""
    reading = spark.read.format("kafka-segments")
    assert reading.option("columns", "value, offset").load(str(log)).columns == ["value", "offset"]
    own = spark.read.format("kafka-segments").schema("offset BIGINT, key BINARY").load(log.as_uri())
    assert own.where("key = X'6b6579'").count() == 4 * BATCHES - 4


def test_filters_pass_over_batches(spark: Any, log: Path) -> None:
    """The rows are those that the filter wants, wherever their batches begin and end."""
    frame = spark.read.format("kafka-segments").options(columns="offset,timestamp").load(str(log))
    wanted = frame.where("offset > 401 AND offset <= 405")
    assert sorted(row.offset for row in wanted.collect()) == [402, 403, 404, 405]
    newest = keyed(1198, None).timestamp
    assert sorted(row.offset for row in frame.where(f"timestamp >= {newest}").collect()) == [1198, 1199]


def test_headers_bound_what_is_read(log: Path) -> None:
    """Filters on offsets and times become bounds; others, and those of the errors, do not."""
    from pyspark.sql.datasource import EqualTo, GreaterThan, LessThan, Not

    from kafka_pipeline.reading import ALL
    from kafka_pipeline.spark.source import KafkaSegments, ReadOptions, SegmentReader

    def bounds(view: str, *filters: Any) -> tuple[int, ...]:
        source = KafkaSegments({"path": str(log), "view": view})
        reader = SegmentReader(ReadOptions(source.options), source.schema())
        assert list(reader.pushFilters(list(filters))) == list(filters)
        return tuple(reader.bounds)

    least, most = -(2**63), 2**63 - 1
    assert bounds("records", GreaterThan(("offset",), 7), LessThan(("offset",), 9)) == (8, 8, least)
    assert bounds("records", EqualTo(("offset",), 7), GreaterThan(("timestamp",), most)) == (7, 7, most)
    assert bounds("batches", GreaterThan(("last_offset",), 7), LessThan(("base_offset",), 3)) == (8, 2, least)
    assert bounds("batches", GreaterThan(("base_offset",), 7), LessThan(("last_offset",), 3)) == tuple(ALL)
    assert bounds("records", Not(EqualTo(("offset",), 7)), EqualTo(("key",), b"x")) == tuple(ALL)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"view": "other"}, "no view 'other'"),
        ({"columns": "other"}, "no column 'other'"),
        ({"split": "0"}, "split takes a number of bytes"),
        ({"other": "1"}, "no option 'other'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], said: str, log: Path) -> None:
    """Whatever is wrong is said before anything is read."""
    from kafka_pipeline.spark.source import ReadOptions

    with pytest.raises(ValueError, match=said):
        ReadOptions({"path": str(log), **options})


def test_what_is_not_there_is_named(spark: Any, log: Path) -> None:
    """A path without segments, and a column of another type, raise errors whose text reaches Spark's caller."""
    with pytest.raises(Exception, match="no such file or directory"):
        spark.read.format("kafka-segments").load(str(log / "nowhere")).collect()
    with pytest.raises(Exception, match="the column offset is bigint"):
        spark.read.format("kafka-segments").schema("offset STRING").load(str(log)).collect()


def test_a_stream_follows_the_log(spark: Any, log: Path, tmp_path: Path) -> None:
    """Whole batches come as they are written, once each; a part of one waits, and a new segment is found."""
    there = tmp_path / "orders-1"
    there.mkdir()
    data = (log / f"{0:020}.log").read_bytes()
    size = len(data) // 200
    segment = there / f"{0:020}.log"
    segment.write_bytes(b"")
    frame = spark.readStream.format("kafka-segments").options(columns="offset").load(str(there))
    checkpoint = str(tmp_path / "checkpoint")
    query = frame.writeStream.format("memory").queryName("followed").option("checkpointLocation", checkpoint).start()
    try:
        read = []
        following = (log / f"{800:020}.log").read_bytes()
        second, middle = there / f"{800:020}.log", 10 * size + 5
        for path, written in ((segment, data[:middle]), (segment, data[middle:]), (second, following)):
            with path.open("ab") as file:
                file.write(written)
            query.processAllAvailable()
            read.append(sorted(row.offset for row in spark.table("followed").collect()))
    finally:
        query.stop()
    damaged = set(range(1000, 1004))
    assert read == [list(range(40)), list(range(800)), [at for at in range(4 * BATCHES) if at not in damaged]]


def test_a_stream_never_goes_back(log: Path, tmp_path: Path) -> None:
    """A segment that the broker has cut off is not read again from its beginning."""
    from kafka_pipeline.spark.source import KafkaSegments, ReadOptions, SegmentStreamReader

    source = KafkaSegments({"path": str(tmp_path)})
    reader = SegmentStreamReader(ReadOptions(source.options), source.schema())
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes((log / segment.name).read_bytes())
    reached = reader.latestOffset()
    assert reached == {segment.as_posix(): segment.stat().st_size}
    segment.write_bytes(b"")
    assert reader.latestOffset(reached) == reached
    assert reader.partitions(reached, reached) == []


def test_through_hadoop(spark: Any, log: Path) -> None:
    """Segments read through Spark's own file systems give the same rows as mapped ones."""
    from kafka_pipeline.spark.source import through_hadoop

    mapped = spark.read.format("kafka-segments").options(columns="position,offset,value").load(str(log))
    handed = through_hadoop(spark, log.as_uri(), columns=["position", "offset", "value"])
    assert sorted(map(tuple, handed.collect())) == sorted(map(tuple, mapped.collect()))
    assert through_hadoop(spark, log.as_uri(), view="errors").count() == 1
