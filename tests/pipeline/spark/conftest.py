"""One Spark session for all tests of the pipeline, and outputs that nothing happened to."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.pipeline.spark.commands import LONG, finished, kafkaproof
from tests.unpacking import unpack

from kafka_fuzz.campaign.plan import LOG
from kafka_pipeline.jobs.campaign import CampaignSettings, campaign_on_spark
from kafka_pipeline.jobs.generate import Generate, generate_cases
from kafka_pipeline.jobs.space import model_grid
from kafka_pipeline.jobs.sweep import Sweep, sweep_testees
from kafka_pipeline.spark.session import Settings, session

TESTEES = (
    "direct:kafka_fuzz.planted_bugs.testees.crashes_on_a_tenth",
    "direct:kafka_fuzz.planted_bugs.testees.swaps_key_and_value",
    "reference",
)
# A short job is over before the second compiler has paid off.
QUICK = (("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),)
RECORDED = Path(__file__).parent.parent / "recorded_log.tar.gz"
# The time that the recorded log is held against.
AUDITED_MS = 1795276100000
Opener = Callable[[], AbstractContextManager[Any]]


@pytest.fixture(scope="session")
def opened() -> Iterator[Opener]:
    """Gives the one session to every test that opens one."""
    with session(Settings(master="local[2]", conf=QUICK)) as spark:
        yield lambda: nullcontext(spark)


@pytest.fixture(scope="session")
def closed() -> Opener:
    """An opener that fails if it is used."""

    def refuse() -> AbstractContextManager[Any]:
        raise AssertionError("there is nothing to do, and a session was opened")

    return refuse


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This environment, packed."""
    packed = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    with kafkaproof("pack", str(packed)) as packing:
        said = finished(packing)[1]
    assert packing.returncode == 0, said
    return packed


@pytest.fixture(scope="session")
def tree() -> Callable[[Path], dict[str, bytes]]:
    """Reads every file below a folder."""

    def read(folder: Path) -> dict[str, bytes]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    return read


@pytest.fixture(scope="session")
def same(tree: Callable[[Path], dict[str, bytes]]) -> Callable[[Path], dict[str, bytes]]:
    """Reads what of a campaign has to be the same: not the log, which says what it took, nor what triage made of it."""

    def read(folder: Path) -> dict[str, bytes]:
        return {path: data for path, data in tree(folder).items() if path != LOG and not path.startswith("triage/")}

    return read


@pytest.fixture(scope="session")
def generated(opened: Opener, tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """Generated cases: the settings, after a complete run."""
    out = tmp_path_factory.mktemp("generated") / "out"
    # More than one round through the grid, so that shapes come again.
    settings = Generate(out=out, cases=len(model_grid()) * 9 // 8, seed=5, shard_rows=2_000, per_shape=1)
    generate_cases(opened, settings)
    return settings


@pytest.fixture(scope="session")
def few(opened: Opener, tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """A few cases in four shards, for those who ask testees."""
    settings = Generate(out=tmp_path_factory.mktemp("few") / "out", cases=600, seed=6, shard_rows=150)
    generate_cases(opened, settings)
    return settings


@pytest.fixture(scope="session")
def swept(opened: Opener, few: Generate, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep over them, whole."""
    settings = Sweep(cases=few.out, out=tmp_path_factory.mktemp("swept") / "out", testees=TESTEES)
    sweep_testees(opened, settings)
    return settings


@pytest.fixture(scope="session")
def fuzzed(opened: Opener, tmp_path_factory: pytest.TempPathFactory) -> CampaignSettings:
    """A campaign, whole: a target in process, and testees of which one crashes in every shard."""
    settings = CampaignSettings(
        out=tmp_path_factory.mktemp("fuzzed") / "out",
        targets=("kafka-python", "differential:planted:crashes-on-a-tenth,reference"),
        rounds=2,
        shards=2,
        executions=200,
        seed=9,
    )
    campaign_on_spark(opened, settings)
    return settings


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions: a large one of many tasks that is clean but for its offsets, and a recorded one with damage."""
    folder = tmp_path_factory.mktemp("logs")
    unpack(RECORDED, folder)
    segment = folder / "orders-0" / f"{1269:020}.log"
    data = bytearray(segment.read_bytes())
    data[5000] ^= 1
    segment.write_bytes(data)
    whole = b"".join(path.read_bytes() for path in sorted((folder / "orders-0").glob("*.log")))
    large = folder / "large-0"
    large.mkdir()
    (large / f"{0:020}.log").write_bytes(whole * 130)
    return folder


@pytest.fixture(scope="session")
def audited(opened: Opener, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An audit that nothing happened to."""
    pytest.importorskip("numba")
    from kafka_pipeline.audit.job import Audit, audit

    settings = Audit(path=str(logs), out=tmp_path_factory.mktemp("audited") / "out", now_ms=AUDITED_MS, split=1 << 20)
    audit(opened, settings)
    return settings


@pytest.fixture(scope="session")
def below() -> Callable[[int, str], list[int]]:
    """Finds the processes below one whose command lines hold a text."""

    def find(pid: int, text: str) -> list[int]:
        found = []
        for each in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if text in " ".join(each.cmdline()):
                    found.append(each.pid)
        return found

    return find


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


@pytest.fixture(scope="session")
def stopped() -> Callable[..., None]:
    """Runs `kafkaproof pipeline …` as a command, and stops it as soon as a shard is done."""

    def stop(arguments: Sequence[str], out: Path, how: signal.Signals = signal.SIGINT) -> None:
        with kafkaproof(*arguments, "--master", "local[2]", "--out", str(out)) as running:
            end = time.monotonic() + LONG
            while running.poll() is None and not is_begun(out) and time.monotonic() < end:
                time.sleep(0.02)
            if how == signal.SIGKILL:
                os.killpg(running.pid, how)
            else:
                running.send_signal(how)
            said = finished(running)[1]
        if how == signal.SIGINT:
            assert (running.returncode, said.rstrip().splitlines()[-1]) == (
                130,
                "interrupted; the same command goes on",
            )

    return stop


def is_begun(out: Path) -> bool:
    """Whether a shard of a run is done."""
    return any(any(folder.rglob("*.json")) for folder in out.rglob("receipts"))


@pytest.fixture(scope="session")
def workers_die(below: Callable[[int, str], list[int]]) -> Callable[[Path], AbstractContextManager[list[int]]]:
    """Kills the session's Python workers as soon as the first shard of an output is done; gives whom it killed."""

    @contextmanager
    def killing(out: Path) -> Iterator[list[int]]:
        killed: list[int] = []

        def kill() -> None:
            end = time.monotonic() + LONG
            while not list((out / "receipts").rglob("*.json")) and time.monotonic() < end:
                time.sleep(0.02)
            for pid in sorted(set(below(os.getpid(), "pyspark")) - set(below(os.getpid(), "java"))):
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield killed
        finally:
            killer.join()

    return killing
