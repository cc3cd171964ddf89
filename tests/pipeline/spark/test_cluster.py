"""Executors of their own with a packed environment: nothing of the driver's checkout reaches them, and they may die."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("numba")
pytest.importorskip("pyspark")

from tests.pipeline.spark.clusters import LOCAL_CLUSTER, an_executor_dies, made, standalone
from tests.pipeline.spark.commands import finished, kafkaproof

from kafka_corpus.authoring.build import TIMESTAMP
from kafka_corpus.authoring.logs import keyed, on_disk
from kafka_pipeline.audit.job import Audit, audit
from kafka_pipeline.jobs.campaign import CampaignSettings

pytestmark = pytest.mark.spark

OURS = ("kafka_records", "kafka_corpus", "kafka_brokers", "kafka_conformance", "kafka_fuzz", "kafka_pipeline")


def test_nothing_leaks_from_the_drivers_checkout(environment: Path) -> None:
    """Executors import all four packages, and look for all modules, in what was unpacked beside them."""
    with kafkaproof(
        "doctor", "--tasks", "8", "--master", LOCAL_CLUSTER, "--environment", str(environment), "--json"
    ) as running:
        said, errors = finished(running)
    assert running.returncode == 0, errors
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run without a cluster."""
    return made(tmp_path_factory.mktemp("whole") / "out", master="local[2]")


def test_an_executor_dies(environment: Path, tmp_path: Path, whole: dict[str, bytes]) -> None:
    """A cluster that loses an executor in the middle gives the bytes that this machine gives."""
    killed = made(tmp_path / "killed", "--environment", str(environment), kill=an_executor_dies)

    assert killed == whole
    assert "manifest.json" in killed


def test_a_machine_is_lost(environment: Path, tmp_path: Path, whole: dict[str, bytes]) -> None:
    """A standalone cluster of two machines that loses one in the middle gives the bytes that this machine gives."""
    (tmp_path / "cluster").mkdir()
    with standalone(tmp_path / "cluster", machines=2) as cluster:
        options = ("--environment", str(environment))
        lost = made(tmp_path / "lost", *options, master=cluster.address, kill=cluster.a_machine_is_lost)

    assert lost == whole
    assert all((tmp_path / "cluster" / f"machine-{number}").exists() for number in range(2))


def test_an_executor_dies_under_a_campaign(
    environment: Path, fuzzed: CampaignSettings, tmp_path: Path, same: Callable[[Path], dict[str, bytes]]
) -> None:
    """Fuzzing on a cluster that loses an executor gives the bytes that this machine gives with nothing lost."""
    arguments = ["campaign", "--targets", "+".join(fuzzed.targets), "--rounds", "2", "--shards", "2", "--no-triage"]
    arguments += ["--executions", "200", "--seed", "9"]

    made(tmp_path / "out", "--environment", str(environment), arguments=arguments, kill=an_executor_dies, ends=1)

    assert same(tmp_path / "out") == same(fuzzed.out)


def test_an_executor_dies_in_an_audit(
    environment: Path,
    opened: Callable[[], AbstractContextManager[Any]],
    tmp_path: Path,
    tree: Callable[[Path], dict[str, bytes]],
) -> None:
    """A cluster that loses an executor reports the same of a damaged log as a local run."""
    batch = on_disk(*(keyed(at, b"key", b"v" * 1000) for at in range(60)))
    log = tmp_path / "orders-0"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes((batch * 17 + batch[:-1] + b"?") * 17)
    arguments = ("audit", str(log), "--now", str(TIMESTAMP), "--split", "1")

    killed = made(
        tmp_path / "killed", "--environment", str(environment), arguments=arguments, kill=an_executor_dies, ends=1
    )

    whole = Audit(path=str(log), out=tmp_path / "whole", now_ms=TIMESTAMP, split=1 << 20)
    assert audit(opened, whole).severities["error"] > 17
    assert killed == tree(whole.out)
