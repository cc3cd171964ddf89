"""`pipeline sweep` on Spark: testees on executors, compared by SQL, whatever happens in between."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from kafka_pipeline.jobs.generate import Generate
from kafka_pipeline.jobs.sweep import Sweep, clusters_of, folder_of_testee, sweep_testees
from kafka_pipeline.spark.manifest import OtherRun, complete, read_manifest, receipt_of
from kafka_pipeline.spark.shards import OLD_COLUMNS, ShardsFailed

pytestmark = pytest.mark.spark

Opener = Callable[[], AbstractContextManager[Any]]
Tree = Callable[[Path], dict[str, bytes]]
OLD_NAMES = {name: old for old, name in OLD_COLUMNS.items()}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows of the files below *folder*, without what their paths say."""
    return [row for path in sorted(folder.rglob("*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


def outcomes_of(swept: Sweep) -> dict[str, dict[int, str]]:
    """The outcome of each case, by testee."""
    folders = {
        folder_of_testee(testee): swept.out / f"observations/testee={folder_of_testee(testee)}"
        for testee in swept.testees
    }
    return {name: {row["index"]: row["outcome"] for row in rows_of(folder)} for name, folder in folders.items()}


def test_every_case_is_observed_by_every_testee(few: Generate, swept: Sweep) -> None:
    """Each testee has one row for each case, and one that crashes has done so in every shard."""
    indexes = sorted(row["index"] for row in rows_of(few.out / "cases"))

    assert len(outcomes_of(swept)) == 3
    for folder in (swept.out / "observations").iterdir():
        assert sorted(row["index"] for row in rows_of(folder)) == indexes
    crashing = sorted((swept.out / "observations").glob("*crashes*/*.parquet"))
    assert len(crashing) == 4
    assert all("crash" in pq.ParquetFile(path).read()["outcome"].to_pylist() for path in crashing)


def test_what_sql_says_is_what_the_files_hold(swept: Sweep) -> None:
    """Outcomes, agreement and clusters are those that counting the rows gives."""
    counts = msgspec.json.decode((swept.out / "manifest.json").read_bytes())["counts"]
    outcomes = outcomes_of(swept)

    assert counts["outcomes"] == {name: dict(Counter(each.values())) for name, each in outcomes.items()}
    assert counts["outcomes"]["reference"] == {"agree": len(outcomes["reference"])}
    for one, row in counts["agreement"].items():
        for other, share in row.items():
            same = [outcomes[one][index] == outcomes[other][index] for index in outcomes[one]]
            assert share == pytest.approx(sum(same) / len(same), abs=1e-6)
    clusters = pq.read_table(swept.out / "clusters.parquet").to_pylist()
    wrong = [outcome for each in outcomes.values() for outcome in each.values() if outcome != "agree"]
    assert sum(row["cases"] for row in clusters) == len(wrong) > 0


def test_bad_observations_are_made_again(opened: Opener, swept: Sweep, tree: Tree) -> None:
    """Observations that have gone bad are made again, to the same bytes."""
    before = tree(swept.out)
    bad = min((swept.out / "observations").rglob("part-000001.parquet"))
    bad.write_bytes(bad.read_bytes()[:-9])

    sweep_testees(opened, swept)

    assert tree(swept.out) == before


def test_a_testee_that_does_not_start_ends_the_sweep(opened: Opener, few: Generate, tmp_path: Path) -> None:
    """It is a problem of the shards, and is named."""
    with pytest.raises(ShardsFailed, match="process:true did not say hello"):
        sweep_testees(opened, Sweep(cases=few.out, out=tmp_path / "out", testees=("process:true",)))


def test_cases_of_an_earlier_release_are_swept(opened: Opener, few: Generate, swept: Sweep, tmp_path: Path) -> None:
    """A column that has been renamed since is read, and the clusters are the same."""
    old, (testee, *_) = tmp_path / "old", sorted(swept.testees)
    for path in (few.out / "cases").rglob("*.parquet"):
        table = pq.ParquetFile(path).read()
        place = old / path.relative_to(few.out)
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.rename_columns([OLD_NAMES.get(name, name) for name in table.column_names]), place)
    manifest = read_manifest(few.out)
    assert manifest is not None
    files = [receipt_of(old, file.path, file.rows) for file in manifest.files if file.path.startswith("cases/")]
    complete(old, msgspec.structs.replace(manifest, files=files))

    sweep_testees(opened, Sweep(cases=old, out=tmp_path / "out", testees=(testee,)))

    expected = [row for row in clusters_of(swept.out) if row["testee"] == folder_of_testee(testee)]
    assert clusters_of(tmp_path / "out") == expected != []


def test_bad_cases_are_refused_before_any_request(opened: Opener, few: Generate, tmp_path: Path) -> None:
    """Damaged cases are refused before any testee gets a request."""
    (tmp_path / "cases").mkdir()
    (tmp_path / "manifest.json").write_bytes((few.out / "manifest.json").read_bytes())

    with pytest.raises(OtherRun, match="has gone bad"):
        sweep_testees(opened, Sweep(cases=tmp_path, out=tmp_path / "out", testees=("reference",)))
