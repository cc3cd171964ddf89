"""Executors of their own with a packed environment: nothing of the driver's checkout reaches them, and they may die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("numba")

from tests.spark.commands import LONG, finished, kafkaproof

from kafka_conformance.audit.job import Audit, audit
from kafka_corpus.build import TIMESTAMP
from kafka_corpus.logs import keyed, lies
from kafka_fuzz.pipeline.campaign import Campaign

pytestmark = pytest.mark.spark

MASTER = "local-cluster[2,1,1024]"
OURS = ("kafka_records", "kafka_corpus", "kafka_conformance", "kafka_fuzz")
ASKED = ("generate", "--cases", "16000", "--shard", "1000", "--seed", "8")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This environment, packed."""
    packed = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    with kafkaproof("pack", str(packed)) as packing:
        said = finished(packing)[1]
    assert packing.returncode == 0, said
    return packed


def test_nothing_leaks_from_the_drivers_checkout(environment: Path) -> None:
    """Executors import all four packages, and look for all modules, in what was unpacked beside them."""
    with kafkaproof("doctor", "--tasks", "8", "--master", MASTER, "--environment", str(environment), "--json") as asked:
        said, errors = finished(asked)
    assert asked.returncode == 0, errors
    places = msgspec.json.decode(said)["places"]

    assert len({place["folder"] for place in places}) == 2
    for place in places:
        unpacked = f"{place['folder']}/environment/"
        assert set(place["packages"]) == set(OURS)
        assert all(origin.startswith(unpacked) for origin in place["packages"].values()), place
        driver = {str(Path(entry).resolve()) for entry in sys.path if entry and Path(entry).name != "lib-dynload"}
        ours = {entry for entry in driver if any((Path(entry) / name).exists() for name in OURS)}
        assert ours
        assert not ours & {str(Path(entry).resolve()) for entry in place["path"]}


def executors(driver: int) -> list[int]:
    """The executor processes below *driver*: what its Java has started that is Java, too."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [
        (int(pid), int(parent), name) for pid, parent, name in (line.split(None, 2) for line in listed.splitlines())
    ]
    below = {driver}
    while more := {child for child, parent, _ in rows if parent in below} - below:
        below |= more
    java = {pid for pid, _, name in rows if pid in below and name.strip() == "java"}
    return [pid for pid, parent, _ in rows if pid in java and parent in java]


def made(out: Path, *options: str, asked: Sequence[str] = ASKED, kill: bool = False, ends: int = 0) -> dict[str, bytes]:
    """What a run on the cluster gives, perhaps with an executor killed as soon as a shard is done."""
    with kafkaproof(*asked, "--out", str(out), "--master", MASTER, *options) as running:
        end, died = time.monotonic() + LONG, False
        while kill and running.poll() is None and time.monotonic() < end:
            if list((out / "receipts").rglob("*.json")) and (found := executors(running.pid)):
                os.kill(found[0], signal.SIGKILL)
                died = True
                break
            time.sleep(0.05)
        errors = finished(running)[1]
    assert running.returncode == ends, errors
    assert died == kill
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_an_executor_dies(environment: Path, tmp_path: Path) -> None:
    """A cluster that loses an executor in the middle gives the bytes of one that does not."""
    options = ("--environment", str(environment))

    killed = made(tmp_path / "killed", *options, kill=True)

    assert killed == made(tmp_path / "whole", *options)
    assert "manifest.json" in killed


def test_an_executor_dies_under_a_campaign(
    environment: Path, fuzzed: Campaign, tmp_path: Path, same: Callable[[Path], dict[str, bytes]]
) -> None:
    """Fuzzing on a cluster that loses an executor gives the bytes that this machine gives with nothing lost."""
    asked = ["campaign", "--targets", "+".join(fuzzed.targets), "--rounds", "2", "--shards", "2", "--no-triage"]
    asked += ["--executions", "200", "--seed", "9"]

    made(tmp_path / "out", "--environment", str(environment), asked=asked, kill=True, ends=1)

    assert same(tmp_path / "out") == same(fuzzed.out)


def test_an_executor_dies_in_an_audit(
    environment: Path,
    opened: Callable[[], AbstractContextManager[Any]],
    tmp_path: Path,
    tree: Callable[[Path], dict[str, bytes]],
) -> None:
    """What a cluster that loses an executor says of a damaged log is what this machine says."""
    batch = lies(*(keyed(at, b"key", b"v" * 1000) for at in range(60)))
    log = tmp_path / "orders-0"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes((batch * 17 + batch[:-1] + b"?") * 17)
    asked = ("audit", str(log), "--now", str(TIMESTAMP), "--split", "1")

    killed = made(tmp_path / "killed", "--environment", str(environment), asked=asked, kill=True, ends=1)

    whole = Audit(path=str(log), out=tmp_path / "whole", now_ms=TIMESTAMP, split=1 << 20)
    assert audit(opened, whole).severities["error"] > 17
    assert killed == tree(whole.out)
