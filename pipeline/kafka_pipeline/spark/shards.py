"""Shards: pure functions over Arrow batches into Parquet files, as Spark tasks.

A file is written beside its place and moved there when it is complete, so that
a worker that is killed leaves nothing half done, and two that write the same
write the same bytes.  Each shard has a receipt beside its files: what they
hold, and their hashes.  A shard with a receipt that its files match is earned.

A task writes its own files (`shards.work`), so that data never passes through
the JVM: what comes back is a line a shard.  Spark tries a task again when its
executor or its Python worker dies; what was wrong with files or data comes back
as a receipt with a problem, and is reported once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_pipeline.spark import BadShard, PipelineError
from kafka_pipeline.spark.manifest import RECEIPTS, FileReceipt, file_sha256, is_sound, receipt_of, write_durably
from kafka_pipeline.spark.session import first_line, spark_errors

# Rows that are written together; a reader can skip the others.
ROW_GROUP: Final = 32 * 1024
# Columns of files that earlier releases wrote, and their names now.
OLD_COLUMNS: Final = {"lie": "fault", "told": "fault_label", "asked": "mode"}

Pure = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What a job does with record batches; it knows nothing of files, processes or Spark."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one shard.

    Attributes:
        shard: its number.
        files: what was written.
        counts: whatever the job counts.
        problem: why it was not done; then there are no files.
    """

    shard: int
    files: list[FileReceipt] = []
    counts: dict[str, int] = {}
    problem: str = ""


def required_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of columns without nulls."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


def unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The default function of a job: its rows are complete once they are read."""
    return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work of each shard.

    Attributes:
        name: of its files and receipts.
        read: the record batches of a shard, by its number.
        function: what is done with each.
        schema: of what comes out.
        out: the top of the output, which every executor can reach.
        folder: where below it the files go.
        place: the part of a file's path that says what is in it, for each row; None for one file a shard.
        count: more counts, from a batch that came out.
        alike: columns whose values repeat; others are not worth a dictionary.
        codec: zstd for what is kept; lz4 takes a third of the time, for what is soon read again.
    """

    name: str
    read: Callable[[int], Iterable[pa.RecordBatch]]
    function: Pure = unchanged
    schema: pa.Schema
    out: Path
    folder: str
    place: Callable[[pa.RecordBatch], Iterator[tuple[str, pa.RecordBatch]]] | None = None
    count: Callable[[pa.RecordBatch], dict[str, int]] = lambda batch: {"rows": batch.num_rows}
    alike: tuple[str, ...] = ()
    codec: str = "zstd"

    def receipt_path(self, shard: int) -> Path:
        """Path of the receipt of *shard*."""
        return self.out / RECEIPTS / self.name / f"{shard:06}.json"


def work(job: Job, shard: int) -> Receipt:
    """Do one shard; what goes wrong with files, or is wrong in the data, is in the receipt."""
    writer = ShardWriter(job, shard)
    try:
        for batch in job.read(shard):
            writer.write(job.function(batch))
        return writer.finish()
    except (OSError, BadShard, pa.ArrowException) as error:
        return Receipt(shard=shard, problem=_words(error))
    finally:
        writer.drop()


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


@dataclass(slots=True)
class _File:
    """One file that is being written."""

    path: Path
    writer: pq.ParquetWriter
    held: list[pa.RecordBatch] = field(default_factory=list)
    holding: int = 0
    rows: int = 0


class ShardWriter:
    """The files of one shard while they are written."""

    def __init__(self, job: Job, shard: int) -> None:
        self._job = job
        self._shard = shard
        self._mark = f".{uuid4().hex}.tmp"
        self._files: dict[str, _File] = {}
        self._counts: dict[str, int] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the rows of *batch*."""
        for name, number in self._job.count(batch).items():
            self._counts[name] = self._counts.get(name, 0) + number
        for place, part in self._job.place(batch) if self._job.place else [("", batch)]:
            if part.num_rows:
                self._hold(self._file(place), part)

    def finish(self) -> Receipt:
        """Put the files in their places, then the receipt."""
        files = [self._closed(file) for _, file in sorted(self._files.items())]
        receipt = Receipt(shard=self._shard, files=files, counts=dict(sorted(self._counts.items())))
        self._files.clear()
        write_durably(self._job.receipt_path(self._shard), msgspec.json.encode(receipt))
        return receipt

    def drop(self) -> None:
        """Leave nothing of what is not finished."""
        for file in self._files.values():
            # The disk may be full, and closing writes a footer.
            with suppress(OSError, pa.ArrowException):
                file.writer.close()
            self._beside(file.path).unlink(missing_ok=True)
        self._files.clear()

    def _file(self, place: str) -> _File:
        if place not in self._files:
            path = self._job.out / self._job.folder / place / f"part-{self._shard:06}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[place] = _File(path, self._writer(self._beside(path)))
        return self._files[place]

    def _writer(self, beside: Path) -> pq.ParquetWriter:
        try:
            return pq.ParquetWriter(
                beside,
                self._job.schema,
                compression=self._job.codec,
                use_dictionary=list(self._job.alike) or False,
            )
        except (OSError, pa.ArrowException):
            # It writes a magic number at once; on a full disk the file is there, and empty.
            beside.unlink(missing_ok=True)
            raise

    def _hold(self, file: _File, part: pa.RecordBatch) -> None:
        file.held.append(part)
        file.holding += part.num_rows
        if file.holding >= ROW_GROUP:
            self._flush(file)

    def _flush(self, file: _File) -> None:
        table = pa.Table.from_batches(file.held, self._job.schema)
        file.writer.write_table(table, row_group_size=max(1, table.num_rows))
        file.rows += table.num_rows
        file.held, file.holding = [], 0

    def _closed(self, file: _File) -> FileReceipt:
        if file.held:
            self._flush(file)
        file.writer.close()
        beside = self._beside(file.path)
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        size, digest = beside.stat().st_size, file_sha256(beside)
        beside.replace(file.path)
        return FileReceipt(file.path.relative_to(self._job.out).as_posix(), file.rows, size, digest)

    def _beside(self, path: Path) -> Path:
        # Spark passes over names that begin with a dot: one that a killed worker left is never read.
        return path.with_name(f".{path.name}{self._mark}")


def put_table(out: Path, name: str, table: pa.Table) -> FileReceipt:
    """Write a table that the driver made as the file *name* below *out*, all or nothing."""
    path = out / name
    beside = path.with_name(f"{path.name}.tmp")
    pq.write_table(table.replace_schema_metadata(None), beside, compression="zstd")
    beside.replace(path)
    return receipt_of(out, name, table.num_rows)


def earned(job: Job, shards: Iterable[int]) -> Iterator[Receipt]:
    """The receipts of those of *shards* that are done, every file looked at."""
    for shard in shards:
        receipt = read_receipt(job.receipt_path(shard))
        if receipt is not None and all(is_sound(job.out, file) for file in receipt.files):
            yield receipt


def read_receipt(path: Path) -> Receipt | None:
    """A receipt; None where there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Receipt)
    except (OSError, msgspec.MsgspecError):
        return None


def read_batches(paths: Iterable[Path], columns: list[str] | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
    """The record batches of some Parquet files, one row group at a time.

    Raises:
        BadShard: a file is no Parquet file, or has gone bad.
    """
    for path in paths:
        try:
            with pq.ParquetFile(path, **options) as file:
                current = {name: OLD_COLUMNS.get(name, name) for name in file.schema_arrow.names}
                names = [name for name in current if columns is None or current[name] in columns]
                for group in range(file.num_row_groups):
                    for batch in file.read_row_group(group, columns=names).to_batches():
                        yield batch.rename_columns([current[name] for name in batch.schema.names])
        except (pa.ArrowException, OSError) as error:
            raise BadShard(f"{path.name} cannot be read: {_words(error)}") from None


# Between looks at how far the tasks are, in seconds.
LOOK: Final = 0.5

OnProgress = Callable[[int, int], None]
"""Called with the shards done and all shards."""
ProgressFactory = Callable[[str], OnProgress]
"""Returns the progress callback for the name of a step."""


class ShardsFailed(Exception):
    """Some shards have a problem; what the others earned is kept.

    Attributes:
        problems: what is wrong, by shard.
    """

    def __init__(self, problems: dict[int, str]) -> None:
        shard, problem = min(problems.items())
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        super().__init__(f"shard {shard}: {problem}{more}")
        self.problems = problems


def run(spark: Any, job: Job, shards: Sequence[int], on_progress: OnProgress = lambda *_: None) -> list[Receipt]:
    """Do those of *shards* that are not earned; the receipts of all, in their order.

    Raises:
        ShardsFailed: shards have problems of their own: a full disk, wrong data.
        PipelineError: Spark gave up.
    """
    have = {receipt.shard: receipt for receipt in earned(job, shards)}
    todo = [shard for shard in shards if shard not in have]
    on_progress(len(have), len(shards))
    if todo:
        with _watched(spark, lambda done: on_progress(len(have) + done, len(shards))):
            made = _collected(spark, job, todo)
        problems = {receipt.shard: receipt.problem for receipt in made if receipt.problem}
        if problems:
            raise ShardsFailed(problems)
        have |= {receipt.shard: receipt for receipt in made}
        on_progress(len(shards), len(shards))
    return [have[shard] for shard in shards]


def _collected(spark: Any, job: Job, todo: Sequence[int]) -> list[Receipt]:
    # Not a table: planning and compiling a query takes longer than many a job.
    tasks = spark.sparkContext.parallelize(todo, len(todo))
    try:
        receipts = tasks.mapPartitions(partial(do, job)).collect()
    except spark_errors() as error:
        raise PipelineError(f"Spark gave up: {first_line(error)}") from None
    return [msgspec.json.decode(receipt, type=Receipt) for receipt in receipts]


def do(job: Job, shards: Iterable[int]) -> Iterator[bytes]:
    """Run the shards of a task on a worker; yields a receipt for each."""
    for shard in shards:
        yield msgspec.json.encode(work(job, shard))


class _watched:
    """Reports how many tasks are done while Spark runs them."""

    def __init__(self, spark: Any, on_progress: Callable[[int], None]) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._on_progress = on_progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(2.0)

    def _watch(self) -> None:
        last = 0
        while not self._over.wait(LOOK):
            try:
                active_stages = [self._tracker.getStageInfo(active) for active in self._tracker.getActiveStageIds()]
            except Exception:  # the session ends: nothing more to report
                return
            done = sum(active.numCompletedTasks for active in active_stages if active is not None)
            if done > last:
                last = done
                self._on_progress(done)


# As tables of Spark


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
