"""`kafka-segments` beside aiokafka and Parquet in Spark.

python -m benchmarks.segments_source [--mib N] [--rounds N] [--json]

The same rows (offset, timestamp, key, value) in one session, each into Spark's `noop` sink, in turns: rows a second on
the clock, and a CPU-second of the driver with all below it.  Ratios are of each round, and their median counts.

- kafka-segments: the data source; segments: the same by a function over Arrow (`source.segments`);
- parquet: uncompressed, values as they are: the log repeats forty batches, so a dictionary would hold nearly all of
  it, as it does not with a log whose values differ; "parquet, dictionary" is what Spark makes of the repetition.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.audit import MIB, print_figures, write_partition
from benchmarks.decode import SHAPES
from kafka_conformance.process.cpu_time import cpu_seconds
from kafka_pipeline.segments.listing import find_segments
from kafka_pipeline.spark.session import Settings, session
from kafka_pipeline.spark.source import NAME, register, segments


class Peer(DataSource):  # type: ignore[misc]
    """aiokafka as a data source."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "kafka-segments-peer"

    def schema(self) -> str:
        """The columns."""
        return "offset BIGINT, timestamp BIGINT, key BINARY, value BINARY"

    def reader(self, schema: Any) -> PeerReader:  # noqa: ARG002 - Spark's
        """For `spark.read`."""
        return PeerReader(self.options["path"])


class PeerReader(DataSourceReader):  # type: ignore[misc]
    """A task for each segment."""

    def __init__(self, path: str) -> None:
        self.path = path

    def partitions(self) -> list[InputPartition]:
        """The segments."""
        return [InputPartition(segment.path) for segment in find_segments([self.path])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
        """The records of one segment, with their CRCs verified."""
        from aiokafka.record.memory_records import MemoryRecords

        reader = MemoryRecords(Path(partition.value).read_bytes())
        while (batch := reader.next_batch()) is not None:
            assert batch.validate_crc()
            for record in batch:
                yield record.offset, record.timestamp, record.key, record.value


COLUMNS: Final = ("offset", "timestamp", "key", "value")
OURS: Final = ("kafka-segments", "segments")
PARTITIONS: Final = 4


def measure_source(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    """The figures: medians."""
    log = folder / "bench-0"
    write_partition(log, SHAPES["100-bytes"], size)
    with session(Settings(master=f"local[{min(2, os.cpu_count() or 1)}]")) as spark:
        register(spark)
        spark.dataSource.register(Peer)
        peer = spark.read.format(Peer.name()).load(str(log))
        split = -(-size // PARTITIONS)
        ours = spark.read.format(NAME).options(columns=",".join(COLUMNS), split=split).load(str(log))
        frames = {
            "kafka-segments": ours,
            "segments": segments(spark, str(log), columns=COLUMNS, split=split),
            "aiokafka": peer,
        }
        for name, dictionary in (("parquet", "false"), ("parquet, dictionary", "true")):
            written = ours.write.option("compression", "uncompressed").option("parquet.enable.dictionary", dictionary)
            written.parquet(str(folder / name))
            frames[name] = spark.read.parquet(str(folder / name))
        rows = {name: frame.count() for name, frame in frames.items()}
        assert len(set(rows.values())) == 1, rows
        seconds: dict[str, list[float]] = {name: [] for name in frames}
        cpu: dict[str, list[float]] = {name: [] for name in frames}
        for number in range(rounds + 1):
            for name, frame in frames.items():
                start, before = time.monotonic(), cpu_seconds()
                frame.write.format("noop").mode("overwrite").save()
                if number:
                    seconds[name].append(time.monotonic() - start)
                    cpu[name].append(cpu_seconds() - before)
    count = rows["kafka-segments"]
    figures: dict[str, Any] = {"rows": count}
    for name in frames:
        figures[f"{name} M rows/s"] = round(count / statistics.median(seconds[name]) / 1e6, 2)
        figures[f"{name} M rows/CPU-s"] = round(count / statistics.median(cpu[name]) / 1e6, 2)
    for own, name in product(OURS, [name for name in frames if name not in OURS]):
        for what, spent in (("", seconds), (", CPU", cpu)):
            ratios = (its / mine for its, mine in zip(spent[name], spent[own], strict=True))
            figures[f"{own} x {name}{what}"] = round(statistics.median(ratios), 2)
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.segments_source", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the log goes for a while")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(dir=options.folder) as folder:
        figures = measure_source(Path(folder), options.mib * MIB, options.rounds)
    print_figures(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
