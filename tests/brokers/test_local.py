"""Brokers that do not come up, or whose starter goes: needs Java and Maven (the jars are fetched once)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafka_brokers import jars, jvm
from kafka_brokers.external import ExternalBroker
from kafka_brokers.interface import JarsDiffer, NoBroker
from kafka_brokers.releases import NEWEST, find_release
from kafka_brokers.wire import Client

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_a_broker_that_fails_shows_its_log() -> None:
    """When a broker does not come up, the message has the end of its log, and its folder is gone."""
    with pytest.raises(NoBroker, match=r"num\.io\.threads") as caught:
        jvm.start_jvm(NEWEST, config={"num.io.threads": "none"})
    assert "ConfigException" in caught.value.log


def test_killed_with_us() -> None:
    """After `kill -9` of the process that started it, no broker and no folder is left."""
    command = [sys.executable, "-m", "kafkaproof", "broker", "start", NEWEST]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as parent:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        bootstrap, folder = line.split()[3].rstrip(","), Path(line.split()[6].rstrip(";")).parent
        assert folder.is_dir()
        with Client(bootstrap) as client:
            assert client.metadata()["brokers"]
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not folder.exists()
    with pytest.raises(NoBroker, match="no broker answers"):
        ExternalBroker(bootstrap)


def test_tampered_jars_are_not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A jar in the cache with one byte more keeps the broker from being started."""
    release = find_release("0.10.2.2")
    real = jars.provide(release)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copy = jars.jar_folder(release)
    copy.mkdir(parents=True)
    for jar in real.glob("*.jar"):
        (copy / jar.name).write_bytes(jar.read_bytes() + (b"\0" if jar.name.startswith("lz4") else b""))
    with pytest.raises(JarsDiffer, match="other bytes: lz4"):
        jvm.start_jvm(release.name)
