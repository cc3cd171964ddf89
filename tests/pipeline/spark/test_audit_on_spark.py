"""`pipeline audit` on Spark: what a log's audit says in one process, whatever happens in between."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

pytest.importorskip("numba")

from tests.pipeline.spark.commands import finished, kafkaproof

from kafka_pipeline.audit.job import Audit, audit, audit_here
from kafka_pipeline.audit.joining import join_summaries
from kafka_pipeline.audit.local import tasks_of
from kafka_pipeline.audit.stretch import judge_stretch
from kafka_pipeline.segments.listing import find_segments

pytestmark = pytest.mark.spark

MIB = 1 << 20
Opener = Callable[[], AbstractContextManager[Any]]
Tree = Callable[[Path], dict[str, bytes]]


def test_it_says_what_one_process_says(audited: Audit, logs: Path, closed: Opener) -> None:
    """The report of each log is that of its stretches judged here; the tables hold the same rows."""
    report = msgspec.json.decode((audited.out / "report.json").read_bytes())
    tasks = [task for shard in tasks_of(find_segments([str(logs)]), MIB) for task in shard]
    assert len(tasks) > 8
    found = []
    for log, name in zip(report["logs"], ("large-0", "orders-0"), strict=True):
        mine = [task for task in tasks if f"/{name}/" in task.stretch.path]
        summaries = [judge_stretch(task.stretch, task.size, last=task.last, now_ms=audited.now_ms) for task in mine]
        assert log == msgspec.to_builtins(join_summaries(str(logs / name), summaries, audited.now_ms))
        found += [[str(logs / name), *finding] for finding in log["listed"]]
    assert {"unreadable", "overlap", "duplicate", "aborted_missing"} <= {row[1] for row in found}
    rows = pq.read_table(audited.out / "findings.parquet").to_pylist()
    assert [list(row.values()) for row in rows] == found
    segments = pq.read_table(audited.out / "segments.parquet").to_pylist()
    assert sum(row["error"] for row in segments) <= report["severities"]["error"]
    assert [row["records"] for row in segments] == [
        segment["counts"]["numbers"]["records"] for log in report["logs"] for segment in log["segments"]
    ]
    again = audit(closed, audited)
    assert again.severities == report["severities"]
    assert again.severities["error"] > 0


def test_processes_write_what_spark_writes(audited: Audit, tmp_path: Path, tree: Tree) -> None:
    """Every file of the output is the same to the byte, also where the work is divided otherwise."""
    for processes in (1, 2):
        out = tmp_path / str(processes)
        audit_here(replace(audited, out=out), processes)
        assert tree(out) == tree(audited.out)


def test_audit_runs_on_spark(audited: Audit, logs: Path, tmp_path: Path, tree: Tree) -> None:
    """`audit --spark` and `audit --master` hand the same work to Spark."""
    out = tmp_path / "out"
    command = ["audit", str(logs), "--now", str(audited.now_ms), "--split", "1", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "kafkaproof", *command, "--spark", "--master", "local[1]"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
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
    stopped(("audit", str(logs), "--now", str(audited.now_ms), "--split", "1"), out)
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
    empty = tmp_path / "empty"
    empty.mkdir()
    for place, code in ((str(empty), 3), ("s3://bucket/logs", 2)):
        with kafkaproof("audit", place, "--out", str(tmp_path / "out")) as running:
            said = finished(running)[1]
        assert running.returncode == code, said
        assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
