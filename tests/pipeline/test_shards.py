"""Shards and manifests of the pipeline, without Spark: whole or not at all, and the same bytes again."""

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_pipeline.spark import BadShard, manifest, shards
from kafka_pipeline.spark.manifest import OtherRun, OutputManifest
from kafka_pipeline.spark.shards import Job

SCHEMA = pa.schema([("number", pa.int64()), ("data", pa.binary())])


def rows(start: int, count: int) -> pa.RecordBatch:
    """Rows that do not compress to nothing."""
    data = [number.to_bytes(8, "little") * 8 for number in range(start, start + count)]
    return pa.RecordBatch.from_pydict({"number": range(start, start + count), "data": data}, schema=SCHEMA)


def job(out: Path) -> Job:
    """A job of three batches a shard."""

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        for at in range(3):
            yield rows(shard * 3000 + at * 1000, 1000)

    return Job(name="numbers", read=read, function=lambda batch: batch, schema=SCHEMA, out=out, folder="numbers")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below *folder*."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_bytes_again(tmp_path: Path) -> None:
    """A shard that is written twice has the same bytes, and the same receipt."""
    one, other = tmp_path / "one", tmp_path / "other"

    assert [shards.work(job(one), 4), tree(one)] == [shards.work(job(other), 4), tree(other)]
    assert "numbers/part-000004.parquet" in tree(one)


def test_what_is_written_is_what_came_out(tmp_path: Path) -> None:
    """The file holds the rows of the function, in their order, and its receipt counts them."""
    receipt = shards.work(job(tmp_path), 1)

    (file,) = receipt.files
    read = pa.Table.from_batches(shards.read_batches([tmp_path / file.path]))
    assert read.column("number").to_pylist() == list(range(3000, 6000))
    assert (file.rows, receipt.counts, receipt.problem) == (3000, {"rows": 3000}, "")


def test_a_shard_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A shard that fails records the reason in its receipt, and leaves no file."""

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.column("number")[0].as_py() == 2000:
            raise BadShard("wrong\nmore")
        return batch

    receipt = shards.work(replace(job(tmp_path), function=function), 0)

    assert (receipt.problem, receipt.files, tree(tmp_path)) == ("wrong", [], {})


def test_what_is_half_written_is_hidden(tmp_path: Path) -> None:
    """While a shard is written, its files have names that begin with a dot, which Spark does not read."""
    seen: list[str] = []

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(path.name for path in (tmp_path / "numbers").glob("*"))
        return batch

    receipt = shards.work(replace(job(tmp_path), function=function), 0)

    assert seen
    assert all(name.startswith(".") for name in seen)
    assert [Path(file.path).name for file in receipt.files] == ["part-000000.parquet"]


@pytest.mark.parametrize("room", [0, 4, 4096])
def test_a_file_that_cannot_grow_is_a_problem(tmp_path: Path, room: int) -> None:
    """Where files have no room for their magic number, or for rows, the receipt says so, and nothing is left."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        receipt = shards.work(job(tmp_path), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert "too large" in receipt.problem
    assert tree(tmp_path) == {}


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """A table of the driver for which there is no room is an error, and no file."""
    table = pa.Table.from_batches([rows(0, 1000)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            shards.put_table(tmp_path, "table.parquet", table)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert tree(tmp_path) == {}


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "no receipt"])
def test_only_what_is_sound_is_earned(tmp_path: Path, damage: str) -> None:
    """A shard counts as done while its receipt and its files are as they were written."""
    numbers = job(tmp_path)
    (file,) = shards.work(numbers, 0).files
    assert [receipt.shard for receipt in shards.earned(numbers, [0, 1])] == [0]

    path = tmp_path / file.path
    data = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    elif damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "gone":
        path.unlink()
    else:
        numbers.receipt_path(0).write_bytes(b"{")

    assert list(shards.earned(numbers, [0, 1])) == []


def test_a_bad_file_is_refused(tmp_path: Path) -> None:
    """Reading a file that is no Parquet file names it."""
    (tmp_path / "part.parquet").write_bytes(b"PAR1 nothing PAR1")

    with pytest.raises(BadShard, match=r"part\.parquet cannot be read"):
        list(shards.read_batches([tmp_path / "part.parquet"]))


def test_columns_of_earlier_releases_are_read_under_their_names_now(tmp_path: Path) -> None:
    """A column that has been renamed since is read under its new name, also if columns are chosen."""
    old, new = zip(*shards.OLD_COLUMNS.items(), strict=True)
    pq.write_table(pa.table([[1], *[[name] for name in new]], names=["index", *old]), tmp_path / "old.parquet")

    (batch,) = shards.read_batches([tmp_path / "old.parquet"])
    (chosen,) = shards.read_batches([tmp_path / "old.parquet"], ["index", "fault"])

    assert batch.to_pylist() == [{"index": 1} | {name: name for name in new}]
    assert chosen.to_pylist() == [{"index": 1, "fault": "fault"}]


def test_another_plan_is_refused(tmp_path: Path) -> None:
    """A folder goes on with its own plan only, whole or not, and says what differs."""
    plan = {"job": "numbers", "seed": 1}
    assert manifest.take_up(tmp_path, plan) is None
    assert manifest.take_up(tmp_path, plan) is None
    with pytest.raises(OtherRun, match="differs in seed"):
        manifest.take_up(tmp_path, plan | {"seed": 2})

    made = manifest.complete(tmp_path, OutputManifest(format="numbers", plan=plan, counts={}, files=[]))

    assert manifest.take_up(tmp_path, plan) == made
    with pytest.raises(OtherRun, match="differs in seed"):
        manifest.take_up(tmp_path, plan | {"seed": 2})


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """While one run is at work in a folder, another is sent away."""
    with (
        manifest.exclusive_run(tmp_path),
        pytest.raises(OtherRun, match="another run"),
        manifest.exclusive_run(tmp_path),
    ):
        pass


def test_a_whole_output_holds_files_and_manifest(tmp_path: Path) -> None:
    """Temporary files are removed, and a file that is damaged later is reported."""
    receipts = [shards.work(job(tmp_path), shard) for shard in (1, 0)]
    files = [file for receipt in receipts for file in receipt.files]
    (tmp_path / "numbers" / ".part-000009.parquet.killed.tmp").write_bytes(b"half")

    made = manifest.complete(tmp_path, OutputManifest(format="numbers", plan={}, counts={}, files=files))

    assert sorted(tree(tmp_path)) == ["manifest.json", "numbers/part-000000.parquet", "numbers/part-000001.parquet"]
    assert [file.path for file in made.files] == sorted(file.path for file in files)
    assert manifest.unsound(tmp_path, made) == []
    (tmp_path / "numbers" / "part-000001.parquet").write_bytes(b"")
    assert manifest.unsound(tmp_path, made) == ["numbers/part-000001.parquet"]
