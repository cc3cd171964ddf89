"""`pipeline audit` on Spark: what a log's audit says in one process, whatever happens in between."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

pytest.importorskip("numba")

from kafka_conformance.audit.job import Audit, audit, tasks_of
from kafka_corpus.audit.joining import joined
from kafka_corpus.audit.stretch import judge
from kafka_corpus.pipeline.manifest import OtherRun
from kafka_corpus.segments.files import find

pytestmark = pytest.mark.spark

RECORDED = Path(__file__).parent.parent / "corpus" / "recorded_log.tar.gz"
NOW = 1795276100000
MIB = 1 << 20
LONG = 900.0
Opener = Callable[[], AbstractContextManager[Any]]
Tree = Callable[[Path], dict[str, bytes]]
Dying = Callable[[Path], AbstractContextManager[list[int]]]


def closed() -> AbstractContextManager[Any]:
    """What must not be opened."""
    raise AssertionError("there is nothing to do, and a session was opened")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions: a large one of many tasks that is clean but for its offsets, and a recorded one with damage."""
    folder = tmp_path_factory.mktemp("logs")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder, filter="data")
    segment = folder / "orders-0" / f"{1269:020}.log"
    data = bytearray(segment.read_bytes())
    data[5000] ^= 1
    segment.write_bytes(data)
    whole = b"".join(path.read_bytes() for path in sorted((folder / "orders-0").glob("*.log")))
    large = folder / "large-0"
    large.mkdir()
    (large / f"{0:020}.log").write_bytes(whole * 130)
    return folder


@pytest.fixture(scope="module")
def audited(opened: Opener, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """An audit that nothing happened to."""
    asked = Audit(path=str(logs), out=tmp_path_factory.mktemp("audited") / "out", now_ms=NOW, split=MIB)
    audit(opened, asked)
    return asked


def test_it_says_what_one_process_says(audited: Audit, logs: Path) -> None:
    """The report of each log is that of its stretches judged here; the tables hold the same rows."""
    report = msgspec.json.decode((audited.out / "report.json").read_bytes())
    tasks = [task for shard in tasks_of(find([str(logs)]), MIB) for task in shard]
    assert len(tasks) > 8
    found = []
    for log, name in zip(report["logs"], ("large-0", "orders-0"), strict=True):
        mine = [task for task in tasks if f"/{name}/" in task.stretch.path]
        summaries = [judge(task.stretch, task.size, last=task.last, now_ms=NOW) for task in mine]
        assert log == msgspec.to_builtins(joined(str(logs / name), summaries, NOW))
        found += [[str(logs / name), *finding] for finding in log["listed"]]
    assert {"unreadable", "overlap", "duplicate", "aborted_missing"} <= {row[1] for row in found}
    rows = pq.read_table(audited.out / "findings.parquet").to_pylist()
    assert [list(row.values()) for row in rows] == found
    segments = pq.read_table(audited.out / "segments.parquet").to_pylist()
    assert sum(row["error"] for row in segments) <= report["severities"]["error"]
    assert [row["records"] for row in segments] == [
        segment["counts"]["numbers"]["records"] for log in report["logs"] for segment in log["segments"]
    ]


def test_a_whole_audit_is_left_alone_and_another_refused(audited: Audit, tree: Tree) -> None:
    """The same again opens no session; another question in the same folder is refused; neither changes anything."""
    before = tree(audited.out)
    report = audit(closed, audited)
    with pytest.raises(OtherRun, match="differs in contiguous"):
        audit(closed, replace(audited, contiguous=True))
    assert report.severities["error"] > 0
    assert tree(audited.out) == before


def test_workers_die(opened: Opener, audited: Audit, tmp_path: Path, tree: Tree, workers_die: Dying) -> None:
    """Python workers that are killed in the middle cost nothing but time."""
    out = tmp_path / "out"
    with workers_die(out) as killed:
        audit(opened, replace(audited, out=out))
    assert killed
    assert tree(out) == tree(audited.out)


def test_a_bad_report_is_made_again(opened: Opener, audited: Audit, tmp_path: Path, tree: Tree) -> None:
    """A file that has gone bad is not believed."""
    out = tmp_path / "out"
    shutil.copytree(audited.out, out)
    (out / "segments.parquet").write_bytes(b"PAR1")
    audit(opened, replace(audited, out=out))
    assert tree(out) == tree(audited.out)


def test_interrupted_and_run_again(
    opened: Opener, audited: Audit, logs: Path, tmp_path: Path, tree: Tree, stopped: Callable[..., None]
) -> None:
    """It ends with 130; the same command goes on, past a bad shard, and reads no more of a log that has grown."""
    out = tmp_path / "out"
    stopped(("audit", str(logs), "--now", str(NOW), "--split", "1"), out)
    assert not (out / "manifest.json").exists()
    done = sorted((out / "audited").glob("*.parquet"))
    done[0].write_bytes(done[0].read_bytes()[:-9])
    segment = logs / "orders-0" / f"{1951:020}.log"
    before = segment.read_bytes()
    segment.write_bytes(before + b"more")
    try:
        audit(opened, replace(audited, out=out))
    finally:
        os.truncate(segment, len(before))
    assert tree(out) == tree(audited.out)


def test_what_cannot_be_audited_is_one_line(tmp_path: Path) -> None:
    """A path without segments ends with 3 before Spark is started, an address elsewhere with 2."""
    for place, code in ((str(tmp_path), 3), ("s3://bucket/logs", 2)):
        argv = [sys.executable, "-m", "kafka_conformance", "pipeline", "audit", place, "--out", str(tmp_path / "out")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
