"""`pipeline generate` on Spark: whatever happens in between, the bytes of an undisturbed run."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_fuzz.mutate.mutant import MutantCell
from kafka_pipeline.jobs.cases import INDEX
from kafka_pipeline.jobs.generate import Generate, check_output, generate_cases
from kafka_pipeline.jobs.space import COLUMNS, Rows, Space, model_grid
from kafka_pipeline.spark import PipelineError
from kafka_pipeline.spark.session import Settings, session
from kafka_pipeline.spark.shards import Job, ShardsFailed, run

pytestmark = pytest.mark.spark

Opener = Callable[[], AbstractContextManager[Any]]
Tree = Callable[[Path], dict[str, bytes]]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows of the files below *folder*, without what their paths say."""
    return [row for path in sorted(folder.rglob("*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


def test_rows_are_the_cases_of_their_numbers(generated: Generate) -> None:
    """Rows made again alone from seed and number are what the files hold; what is not there is listed."""
    rows, seen = Rows(Space.of(generated.seed, generated.shares)), []
    for path in sorted((generated.out / "cases").rglob("*.parquet")):
        for row in pq.ParquetFile(path).read().to_pylist():
            seen.append(row["index"])
            if row["index"] % 50 == 0:
                again = dict(zip(COLUMNS, rows.row(row["index"]), strict=True))
                folder = f"magic={again['magic']}/codec={again['codec']}"
                assert path.parent.relative_to(generated.out / "cases").as_posix() == folder
                assert row["batches"].encode() == again["batches"]
                assert [row[name] for name in ("data", "verdict", "shape")] == [
                    again[name] for name in ("data", "verdict", "shape")
                ]
    gone = [row["index"] for row in rows_of(generated.out / "dropped")]
    assert sorted(seen + gone) == list(range(generated.cases))


def test_what_stays_is_the_first_of_its_kind(generated: Generate) -> None:
    """A content stays once, a shape at most as often as requested, and a dropped row names the first of its kind."""
    kept, gone = rows_of(generated.out / "cases"), rows_of(generated.out / "dropped")
    rows = Rows(Space.of(generated.seed, generated.shares), verify=0)

    assert len({row["content"] for row in kept}) == len({row["shape"] for row in kept}) == len(kept)
    assert {row["reason"] for row in gone} == {"content", "shape"}
    for row in gone[::20]:
        one, first = (dict(zip(COLUMNS, rows.row(row[name]), strict=True)) for name in ("index", "first"))
        assert row["first"] < row["index"]
        assert one[row["reason"]] == first[row["reason"]]


def test_coverage_counts_the_kept_cases(generated: Generate) -> None:
    """The table has as many cases as there are, and a cell of the grid has none only where others hold the same."""
    table = pq.read_table(generated.out / "coverage.parquet").to_pylist()
    covered = {tuple(row[name] for name in MutantCell._fields): row["cases"] for row in table}
    gone = {row["index"] for row in rows_of(generated.out / "dropped")}
    counts = msgspec.json.decode((generated.out / "manifest.json").read_bytes())["counts"]

    assert sum(covered.values()) == len(rows_of(generated.out / "cases")) == counts["cases"]
    assert set(covered) == set(model_grid())
    for number, cell in enumerate(model_grid()):
        assert covered[cell] == sum(index not in gone for index in range(number, generated.cases, len(model_grid())))


def test_bad_shards_are_listed_and_made_again(opened: Opener, generated: Generate, tmp_path: Path, tree: Tree) -> None:
    """`--check` names a damaged shard; the same run again restores it."""
    out = tmp_path / "out"
    shutil.copytree(generated.out, out)
    bad = sorted((out / "cases").rglob("part-000002.parquet"))[3]
    data = bytearray(bad.read_bytes())
    data[len(data) // 2] ^= 1
    bad.write_bytes(data)

    assert check_output(opened, replace(generated, out=out)) == [str(bad.relative_to(out))]

    generate_cases(opened, replace(generated, out=out))
    assert tree(out) == tree(generated.out)


def test_check_makes_every_case_again(opened: Opener, generated: Generate, tmp_path: Path) -> None:
    """`--check` reports a file that has the hash of the manifest, but not the generated content."""
    out = tmp_path / "out"
    shutil.copytree(generated.out, out)
    bad = min((out / "cases").rglob("part-000001.parquet"))
    pq.write_table(pq.ParquetFile(bad).read().slice(1), bad)
    manifest = (out / "manifest.json").read_text(encoding="utf-8")
    name, document = str(bad.relative_to(out)), msgspec.json.decode(manifest)
    old = next(file for file in document["files"] if file["path"] == name)
    digest = subprocess.run(["sha256sum", str(bad)], capture_output=True, text=True, check=True).stdout.split()[0]
    manifest = manifest.replace(old["sha256"], digest).replace(
        f'"bytes": {old["bytes"]}', f'"bytes": {bad.stat().st_size}'
    )
    (out / "manifest.json").write_text(manifest, encoding="utf-8")

    assert check_output(opened, replace(generated, out=out)) == [name]


def test_a_full_disk(opened: Opener, generated: Generate, small_disk: Path, tree: Tree) -> None:
    """A disk that is full ends a run with one line; with more room, the same run goes on."""
    out = small_disk / "out"
    with pytest.raises(ShardsFailed, match="No space left on device"):
        generate_cases(opened, replace(generated, out=out))
    assert not list(out.rglob("*.tmp"))

    subprocess.run(["mount", "-o", "remount,size=256m", str(small_disk)], check=True)
    generate_cases(opened, replace(generated, out=out))
    assert tree(out) == tree(generated.out)


def test_what_a_shard_raises_is_one_line(opened: Opener, tmp_path: Path) -> None:
    """An unexpected exception in a worker ends the run with the last line of its traceback."""

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        raise ValueError(f"shard {shard} is odd\nand more")

    job = Job(name="odd", read=read, function=lambda batch: batch, schema=INDEX, out=tmp_path, folder="odd")
    with opened() as spark, pytest.raises(PipelineError, match=r"^Spark gave up: and more$"):
        run(spark, job, [1])


def test_spark_that_does_not_start_is_one_line() -> None:
    """Another session than the one that is there, on a master that is none, is an error in one line."""
    program = "from kafka_pipeline.spark.session import *\nwith session(Settings(master='nowhere')): pass"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert PipelineError.__name__ in done.stderr
    assert "Spark does not start on nowhere" in done.stderr.rstrip().splitlines()[-1]
    assert Settings().master == "local[*]"
    assert callable(session)
