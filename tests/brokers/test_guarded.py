"""Processes that cannot outlive us."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafka_brokers import process
from kafka_brokers.process import Guarded

# Starts a guarded process, says its own pid's group, and waits to be killed.
PARENT = """
import sys, time
from pathlib import Path
from kafka_brokers.process import Guarded
folder = Path(sys.argv[1])
running = Guarded(["sh", "-c", "echo $$ > pid; sleep 100"], folder=folder, log=folder / "log")
while not (folder / "pid").exists() or not (folder / "pid").read_text():
    time.sleep(0.01)
print((folder / "pid").read_text(), flush=True)
time.sleep(100)
"""


def gone(pid: int, seconds: float = 5) -> bool:
    """Whether the process ends within *seconds*; one that only waits to be reaped has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_killed_with_us(tmp_path: Path) -> None:
    """When its parent is killed with SIGKILL, the process ends and its folder is removed."""
    folder = tmp_path / "work"
    folder.mkdir()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, env=env) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.send_signal(signal.SIGKILL)
        assert gone(pid)
    end = time.monotonic() + 5
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not folder.exists()


def test_killed_by_us(tmp_path: Path) -> None:
    """After `kill` no process of the group is left, and the folder stays."""
    running = Guarded(["sh", "-c", "sleep 100 & echo $! > pid; wait"], folder=tmp_path, log=tmp_path / "log")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text(encoding="utf-8"):
        time.sleep(0.01)
    assert not running.has_ended()
    running.kill()
    running.kill()
    assert running.has_ended()
    assert gone(int((tmp_path / "pid").read_text(encoding="utf-8")))
    assert tmp_path.exists()


def test_terminated(tmp_path: Path) -> None:
    """A process that handles SIGTERM ends in its own way."""
    script = "trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.02; done"
    running = Guarded(["sh", "-c", script], folder=tmp_path, log=tmp_path / "log")
    while "ready" not in running.tail():
        time.sleep(0.01)
    try:
        assert running.terminate(60)
        assert running.tail().splitlines() == ["ready", "bye"]
    finally:
        running.kill()


def test_terminated_while_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is up before the shell knows its number hears of it all the same."""
    # A shell that is slow to continue after it has started its command.
    slow = process.SCRIPT.replace("3<&- & child=$!", "3<&- & sleep 0.2; child=$!")
    assert slow != process.SCRIPT
    monkeypatch.setattr(process, "SCRIPT", slow)
    script = "trap 'echo bye; exit' TERM; kill -TERM $PPID; while :; do sleep 0.02; done"
    running = Guarded(["sh", "-c", script], folder=tmp_path, log=tmp_path / "log")
    try:
        assert running.wait(60)
        assert running.tail() == "bye"
    finally:
        running.kill()


def test_tail(tmp_path: Path) -> None:
    """The tail is the end of what was written, errors too, in whatever encoding."""
    running = Guarded(["sh", "-c", "seq 100; printf '\\377' >&2"], folder=tmp_path, log=tmp_path / "log")
    while not running.has_ended():
        time.sleep(0.01)
    lines = running.tail().splitlines()
    running.kill()
    assert (lines[-2:], len(lines)) == (["100", "�"], 25)
