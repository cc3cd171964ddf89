"""Properties of brokers in containers only; those that local brokers share are in test_started.py."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from kafka_brokers import container
from kafka_brokers.external import ExternalBroker
from kafka_brokers.interface import NoBroker
from kafka_brokers.releases import NEWEST, find_release

pytestmark = [pytest.mark.broker, pytest.mark.container, pytest.mark.slow]

IMAGE = container.tag(find_release(NEWEST))
# Starts a container, prints its name, and is killed before it can stop the container.
PARENT = """
import sys, time
from pathlib import Path
from kafka_brokers.container import Contained
folder = Path(sys.argv[1])
running = Contained(sys.argv[2], ["sh", "-c", "echo running; sleep 1000"], folder=folder, log=folder / "log")
while "running" not in running.tail():
    time.sleep(0.05)
print(running.name, flush=True)
time.sleep(1000)
"""


def names() -> set[str]:
    """All containers that there are, ended ones too."""
    with closing(container.engine()) as client:
        return {each.name for each in client.containers.list(all=True, ignore_removed=True)}


def until(true: object, seconds: float = 20) -> bool:
    """Whether a condition comes true within *seconds*."""
    assert callable(true)
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.1)
    return bool(true())


def test_exit_code_and_output(tmp_path: Path) -> None:
    """A command that ends by itself leaves its exit code and output, and no container."""
    argv = ["sh", "-c", "pwd; echo to standard error >&2; exit 7"]
    running = container.Contained(IMAGE, argv, folder=tmp_path, log=tmp_path / "log")
    assert running.wait(20)
    assert running.kill() == 7
    assert running.tail().splitlines() == [str(tmp_path), "to standard error"]
    assert running.name not in names()


def test_terminated(tmp_path: Path) -> None:
    """A command that handles SIGTERM ends in its own way."""
    script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    running = container.Contained(IMAGE, ["sh", "-c", script], folder=tmp_path, log=tmp_path / "log")
    assert until(lambda: "ready" in running.tail())
    assert running.terminate(20)
    assert (running.kill(), running.tail().splitlines()) == (3, ["ready", "bye"])


def test_killed_by_us(tmp_path: Path) -> None:
    """After `kill` the container is gone, the folder stays, and a second time does no harm."""
    running = container.Contained(IMAGE, ["sleep", "1000"], folder=tmp_path, log=tmp_path / "log")
    assert running.name in names()
    assert not running.has_ended()
    assert running.kill() == -signal.SIGKILL
    assert running.kill() == -signal.SIGKILL
    assert running.name not in names()
    assert tmp_path.exists()


def test_killed_with_us(tmp_path: Path) -> None:
    """When its starter is killed with SIGKILL, the container goes, and so does the folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, str(folder), IMAGE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as parent:
        assert parent.stdout is not None
        name = parent.stdout.readline().strip()
        assert name in names()
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: name not in names())
    assert until(lambda: not folder.exists())


def test_a_broker_killed_with_us() -> None:
    """After `kill -9` of the process that started it, no broker, no container and no folder is left."""
    before = names()
    command = [sys.executable, "-m", "kafkaproof", "broker", "start", NEWEST, "--container"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as parent:
        assert parent.stdout is not None
        said = re.match(r"Kafka \S+ at (\S+), logs in (\S+);", parent.stdout.readline())
        assert said
        bootstrap, folder = said[1], Path(said[2]).parent
        ExternalBroker(bootstrap).stop()
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: not folder.exists())
    assert until(lambda: names() <= before)
    with pytest.raises(NoBroker, match="no broker answers"):
        ExternalBroker(bootstrap)


def test_a_broker_that_fails_shows_its_log() -> None:
    """When a broker does not come up, the message has the end of its log, and no container is left."""
    before = names()
    with pytest.raises(NoBroker, match=r"num\.io\.threads") as caught:
        container.start_container(NEWEST, config={"num.io.threads": "none"})
    assert "ConfigException" in caught.value.log
    assert names() <= before


def test_no_image() -> None:
    """Where there is no image, one line says how to build it."""
    with pytest.raises(NoBroker, match=r"there is no image .*kafkaproof broker build 0\.9\.0\.1") as caught:
        container.start_container("0.9.0.1")
    assert "\n" not in str(caught.value)


def test_no_base() -> None:
    """An image cannot be built on one that is not there."""
    with pytest.raises(NoBroker, match="could not be built on kafkaproof-test:missing"):
        container.build_image("0.8.2.2", "kafkaproof-test:missing")


def test_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no engine runs, one line says so."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(NoBroker, match="no container engine is running") as caught:
        container.start_container(NEWEST)
    assert "\n" not in str(caught.value)
