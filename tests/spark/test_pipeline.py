"""`pipeline generate` on Spark: whatever happens in between, the bytes of an undisturbed run."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from kafka_fuzz.cells import Cell
from kafka_fuzz.pipeline.rows import COLUMNS, Rows
from kafka_fuzz.pipeline.space import Space, grid

pytestmark = pytest.mark.spark

CASES, SHARD, SEED = 16_000, 2_000, 5
ASKED = ("generate", "--cases", str(CASES), "--shard", str(SHARD), "--seed", str(SEED), "--per-shape", "1")
LONG = 600.0


def argv(*arguments: str, master: str = "local[2]") -> list[str]:
    """A command of the pipeline."""
    return [sys.executable, "-m", "kafka_conformance", "pipeline", *arguments, "--master", master]


def run(*arguments: str, master: str = "local[2]") -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(argv(*arguments, master=master), capture_output=True, text=True, check=False, timeout=LONG)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below *folder*."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run gives that nothing happens to."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    done = run(*ASKED, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout)["counts"]["made"] == CASES
    return out


def children(pid: int) -> Iterator[tuple[int, str]]:
    """The processes below *pid*, and their command lines."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [(int(line.split()[0]), int(line.split()[1]), line) for line in listed.splitlines()]
    below = {pid}
    while more := {child for child, parent, _ in rows if parent in below} - below:
        below |= more
    return ((child, line) for child, _, line in rows if child in below)


def when_at_work(
    out: Path, act: Callable[[subprocess.Popen[str]], object], master: str = "local[2]"
) -> tuple[int, str]:
    """Run, and *act* as soon as the first shard is staged; the exit code and what was said."""
    with subprocess.Popen(
        argv(*ASKED, "--out", str(out), master=master), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        end = time.monotonic() + LONG
        while running.poll() is None and not list((out / "receipts").rglob("*.json")) and time.monotonic() < end:
            time.sleep(0.05)
        act(running)
        try:
            said = running.communicate(timeout=LONG)[1]
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
        return running.returncode, said


def finished(out: Path, undisturbed: Path) -> None:
    """The same command again ends well, with the bytes of an undisturbed run."""
    done = run(*ASKED, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert tree(out) == tree(undisturbed)


def test_rows_are_the_cases_of_their_numbers(undisturbed: Path) -> None:
    """Every kept row, made again alone from seed and number, is what the files hold; what is not there is listed."""
    rows = Rows(Space.of(SEED, {"model": 1}))
    seen = []
    for path in sorted((undisturbed / "cases").rglob("*.parquet")):
        for row in pq.ParquetFile(path).read().to_pylist():
            seen.append(row["index"])
            if row["index"] % 50 == 0:
                again = dict(zip(COLUMNS, rows.row(row["index"]), strict=True))
                folder = f"magic={again['magic']}/codec={again['codec']}"
                assert path.parent.relative_to(undisturbed / "cases").as_posix() == folder
                assert row["data"] == again["data"]
                assert row["batches"].encode() == again["batches"]
                assert (row["verdict"], row["shape"]) == (again["verdict"], again["shape"])
    gone = pq.read_table(undisturbed / "dropped").to_pylist()
    assert sorted(seen + [row["index"] for row in gone]) == list(range(CASES))
    assert {"content", "shape"} == {row["reason"] for row in gone}


def test_what_stays_is_the_first_of_its_kind(undisturbed: Path) -> None:
    """No content stays twice, no shape more often than asked, and what goes names the first of its kind."""
    kept = [
        row for path in (undisturbed / "cases").rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()
    ]
    shapes: dict[int, list[int]] = {}
    for row in kept:
        shapes.setdefault(row["shape"], []).append(row["index"])
    rows = Rows(Space.of(SEED, {"model": 1}), verify=0)

    assert len({row["content"] for row in kept}) == len(kept)
    assert max(map(len, shapes.values())) == 1
    for row in pq.read_table(undisturbed / "dropped").to_pylist()[::50]:
        one, first = (dict(zip(COLUMNS, rows.row(row[name]), strict=True)) for name in ("index", "first"))
        assert row["first"] < row["index"]
        assert one[row["reason"]] == first[row["reason"]]


def test_coverage_counts_the_kept_cases(undisturbed: Path) -> None:
    """The table has as many cases as there are, and a cell of the grid has none only where others hold the same."""
    table = pq.read_table(undisturbed / "coverage.parquet")
    gone = set(pq.read_table(undisturbed / "dropped")["index"].to_pylist())
    covered = {tuple(row[name] for name in Cell._fields): row["cases"] for row in table.to_pylist()}
    manifest = msgspec.json.decode((undisturbed / "manifest.json").read_bytes())
    kept = sum(pq.read_metadata(path).num_rows for path in (undisturbed / "cases").rglob("*.parquet"))

    assert sum(table["cases"].to_pylist()) == kept == manifest["counts"]["cases"]
    assert set(covered) == set(grid())
    for number, cell in enumerate(grid()):
        assert covered[cell] == sum(index not in gone for index in range(number, CASES, len(grid())))
    assert sum(file["rows"] for file in manifest["files"] if file["path"].startswith("cases/")) == kept


def test_a_whole_output_is_left_alone_and_another_run_refused(undisturbed: Path) -> None:
    """The same command again does nothing; with another seed it is a usage error."""
    before = tree(undisturbed)

    assert run(*ASKED, "--out", str(undisturbed)).returncode == 0
    other = run(*ASKED, "--out", str(undisturbed), "--seed", "6")

    assert (other.returncode, "differs in seed" in other.stderr) == (2, True)
    assert tree(undisturbed) == before


def test_killed_and_run_again(undisturbed: Path, tmp_path: Path) -> None:
    """A run that is killed, JVM and workers and all, goes on where it was."""
    out = tmp_path / "out"
    code, _ = when_at_work(out, lambda running: os.killpg(running.pid, signal.SIGKILL))
    assert code == -signal.SIGKILL
    assert not (out / "manifest.json").exists()

    finished(out, undisturbed)


def test_interrupted_and_run_again(undisturbed: Path, tmp_path: Path) -> None:
    """Ctrl-C ends a run with 130 and one line, and the same command goes on."""
    out = tmp_path / "out"
    code, said = when_at_work(out, lambda running: running.send_signal(signal.SIGINT))
    assert code == 130
    assert said.rstrip().splitlines()[-1] == "interrupted; the same command goes on"

    finished(out, undisturbed)


def test_a_worker_dies(undisturbed: Path, tmp_path: Path) -> None:
    """Python workers that are killed in the middle cost nothing but time."""

    def kill(running: subprocess.Popen[str]) -> None:
        workers = [pid for pid, line in children(running.pid) if "pyspark.daemon" in line or "pyspark/daemon" in line]
        assert workers
        for pid in workers:
            os.kill(pid, signal.SIGKILL)

    code, said = when_at_work(tmp_path / "out", kill)

    assert (code, tree(tmp_path / "out") == tree(undisturbed)) == (0, True), said


def test_bad_shards_are_told_and_made_again(undisturbed: Path, tmp_path: Path) -> None:
    """`--check` names a shard that has gone bad and ends with 1; the same command without it mends it."""
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    bad = sorted((out / "cases").rglob("part-000002.parquet"))[3]
    data = bytearray(bad.read_bytes())
    data[len(data) // 2] ^= 1
    bad.write_bytes(data)

    checked = run(*ASKED, "--out", str(out), "--check", "--json")
    assert checked.returncode == 1, checked.stderr
    assert msgspec.json.decode(checked.stdout) == {"wrong": [str(bad.relative_to(out))]}

    finished(out, undisturbed)
    assert run(*ASKED, "--out", str(out), "--check").returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a part of the output."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk(undisturbed: Path, small_disk: Path) -> None:
    """A disk that is full ends a run with 3 and one line; with more room, the same command goes on."""
    out = small_disk / "out"
    full = run(*ASKED, "--out", str(out))
    assert full.returncode == 3
    assert "No space left on device" in full.stderr.rstrip().splitlines()[-1]
    assert not list(out.rglob("*.tmp"))

    subprocess.run(["mount", "-o", "remount,size=256m", str(small_disk)], check=True)
    finished(out, undisturbed)


def test_spark_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    """A master that is none ends with 3 and says so."""
    done = run(*ASKED, "--out", str(tmp_path / "out"), master="nowhere")

    assert done.returncode == 3
    assert "Spark does not start on nowhere" in done.stderr.rstrip().splitlines()[-1]
