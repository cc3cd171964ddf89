"""`broker certify` on Apache Kafka itself, and on two brokers that are something else; needs Java, Maven and Go."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_brokers import jvm
from kafka_brokers.releases import NEWEST
from kafka_brokers.scenarios.runner import producers_beside
from kafka_brokers.wire.transactions import init_producer_id
from kafka_conformance.runner.requests import select
from kafka_corpus.scenario import Scenario
from kafka_corpus.vectors import load_vectors

pytestmark = [pytest.mark.broker, pytest.mark.slow]

# As the README prints it.
COMMAND = "kafkaproof broker certify --bootstrap HOST:PORT"
BROKERS = Path(__file__).parents[2] / "conformance" / "brokers"


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """The address of a broker that serves until its standard input ends."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def certified(bootstrap: str, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report."""
    command = [sys.executable, "-m", "kafkaproof", "broker", "certify", "--bootstrap", bootstrap, "--json"]
    done = subprocess.run(
        [*command, "--report", str(folder), *more], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_apache_kafka(tmp_path: Path) -> None:
    """Apache Kafka agrees with its recorded answers, and no topic is left."""
    with jvm.start_jvm(NEWEST) as broker:
        code, report = certified(broker.bootstrap, tmp_path, "--name", "kafka")
        with broker.client() as client:
            assert not [each["name"] for each in client.metadata()["topics"] if "kafkaproof" in each["name"]]
    assert report["findings"] == []
    assert (code, report["certified"], report["counts"]["skipped"]) == (0, True, 0)
    assert (tmp_path / "kafka" / "report.json").exists()


@pytest.mark.parametrize("name", ["two_producers_in_one_request*", "plain_data_of_others_in_a_transaction"])
def test_the_next_producer_id_may_be_in_a_payload(name: str, tmp_path: Path) -> None:
    """Brokers count producer ids up: one that a scenario sends as that of another producer is passed over."""
    only = f"produce_transactions.{name}"
    (case, *_) = select(load_vectors(), [only])
    assert isinstance(case.input, Scenario)
    (other,) = producers_beside(case.input) - {-1}
    with jvm.start_jvm(NEWEST) as broker:
        with broker.client() as client:
            while init_producer_id(client).producer_id < other - 1:
                pass
        code, report = certified(broker.bootstrap, tmp_path, "--only", only)
    assert (code, report["findings"]) == (0, [])


def test_command_of_the_readme(tmp_path: Path) -> None:
    """The README's command works once a broker listens at the address."""
    environment = os.environ | {"PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))}
    with jvm.start_jvm(NEWEST) as broker:
        command = COMMAND.replace("HOST:PORT", broker.bootstrap)
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stdout + done.stderr
    assert "CERTIFIED" in done.stdout


def test_older_kafka(tmp_path: Path) -> None:
    """An older release is certified by its own answers, and not by those of the newest."""
    with jvm.start_jvm("3.9.2") as broker:
        assert certified(broker.bootstrap, tmp_path, "--against", "3.9.2")[0] == 0
        code, report = certified(broker.bootstrap, tmp_path)
    assert code == 1
    assert not report["certified"]


def test_kfake(tmp_path: Path) -> None:
    """franz-go's kfake answers all cases, and is judged with severities like a codec."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go here")
    program = tmp_path / "kfake"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=BROKERS / "kfake", check=True)
    with serving(str(program)) as bootstrap:
        code, report = certified(bootstrap, tmp_path / "report", "--name", "kfake")
    assert (code, report["certified"], report["complete"]) == (1, False, True)
    assert report["counts"]["agree"] > 100
    assert report["counts"]["accepts_invalid"] > 100
    assert report["counts"]["skipped"] < report["cases"] / 10


def test_librdkafkas_mock_cluster(tmp_path: Path) -> None:
    """librdkafka's mock cluster accepts payloads that Kafka refuses; a metadata request creates a topic."""
    pytest.importorskip("confluent_kafka")
    with serving(sys.executable, str(BROKERS / "librdkafka-mock" / "mock.py")) as bootstrap:
        code, report = certified(bootstrap, tmp_path, "--name", "mock")
    assert (code, report["certified"], report["complete"]) == (1, False, True)
    assert report["counts"]["accepts_invalid"] > 0


def test_no_broker_at_the_address(tmp_path: Path) -> None:
    """If no broker answers, the address is reported, and no case runs."""
    command = [sys.executable, "-m", "kafkaproof", "broker", "certify", "--bootstrap", "127.0.0.1:1"]
    done = subprocess.run([*command, "--report", str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "127.0.0.1:1" in done.stderr
    assert subprocess.run([*command[:-1], "nowhere"], capture_output=True, check=False).returncode == 2
