"""Properties of containers that can be checked without an engine."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_brokers import container
from kafka_brokers.interface import NoBroker
from kafka_brokers.releases import NEWEST


def test_without_testcontainers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package testcontainers one line says what to install."""
    monkeypatch.setitem(sys.modules, "testcontainers", None)
    monkeypatch.setitem(sys.modules, "testcontainers.core.config", None)
    with pytest.raises(NoBroker, match=r"pip install 'kafkaproof\[containers\]'") as caught:
        container.start_container(NEWEST)
    assert "\n" not in str(caught.value)
    assert not container.engine_runs()


@contextmanager
def entry(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A container's entry script, run locally in its own process group, because its guard kills the whole group."""
    files = [str(folder / name) for name in ("log", "held", "code", "tmp")]
    argv = ["/bin/sh", "-c", container.ENTRY, "sh", *files, *command]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as running:
        yield running


def test_entry(tmp_path: Path) -> None:
    """The command starts once somebody holds it; its output is in the log, its exit code in a file."""
    with entry(tmp_path, "sh", "-c", "echo out; echo error >&2; exit 5") as running:
        (tmp_path / "held").touch()
        assert running.wait(20) == 5
    assert (tmp_path / "log").read_text(encoding="utf-8").split() == ["out", "error"]
    assert (tmp_path / "code").read_text(encoding="ascii").strip() == "5"


def test_entry_whose_holder_goes(tmp_path: Path) -> None:
    """When standard input ends, the command is killed and the folder that is named removed."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "held").touch()
    with entry(tmp_path, "sleep", "1000") as running:
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(20) < 0
    assert not (tmp_path / "tmp").exists()
