"""Processes that leave their testee end with it, count in its memory, and are named; no testee has our descriptors."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_conformance.judge.observation import Exceeded
from kafka_conformance.process import descendants
from kafka_conformance.process.child import Child
from kafka_conformance.process.starting import FEW, Process, Starter
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import MIB, ConnectionSpec
from kafka_conformance.testees.known import connect

Script = Callable[..., ConnectionSpec]
ANSWER = "reply(id=id, batches=[])"
# Forks twice, in a session of its own; the process that is left appends its id to a file, and does *work*.
DETACH = """
def detach(path, work=lambda: None):
    if not os.fork():
        os.setsid()
        if not os.fork():
            with open(path, "a") as file:
                file.write(f"{{os.getpid()}}\\n")
            work()
            time.sleep(300)
        os._exit(0)
    os.wait()
    while not os.path.exists(path) or not open(path).read().endswith("\\n"):
        time.sleep(0.001)
"""
HOLD = "lambda: globals().update(held=b'x' * (300 << 20))"


@pytest.fixture(params=["control group", "no control group"])
def enclosed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a control group, as far as this machine lets us make one."""
    if request.param == "no control group":
        monkeypatch.setattr(descendants, "own_control_group", lambda: None)
    elif descendants.own_control_group() is None:
        pytest.skip("there is no control group of version 2")


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Path]:
    """A file of process ids; those that live at the end are ended."""
    path = tmp_path / "left"
    yield path
    for pid in pids(path):
        descendants.end_processes({pid})


def pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def question(number: int) -> CaseRequest:
    return CaseRequest(bytes([number]))


@pytest.mark.slow
@pytest.mark.usefixtures("enclosed")
@pytest.mark.parametrize("end", ["close", "crash", "kill the server", "no subreaper"])
def test_a_detached_process_ends_with_its_testee(
    script: Script, left: Path, gone: Callable[[int], bool], end: str
) -> None:
    """Whether the testee is dismissed, crashes, kills the process that made it, or gives its descendants away."""
    last = {
        "close": "",
        "crash": "os._exit(3)",
        "kill the server": "os.kill(os.getppid(), 9); os._exit(3)",
        "no subreaper": "import ctypes; ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)",
    }[end]
    first = last if end == "no subreaper" else ""
    body = f"{first or 'pass'}\ndetach({str(left)!r})\n{last or 'pass'}\n{ANSWER}"
    sandbox = Sandbox(script(body, setup=DETACH.format()))

    list(sandbox.ask([question(0)]))
    sandbox.close()

    assert pids(left)
    assert all(map(gone, pids(left)))


@pytest.mark.slow
@pytest.mark.usefixtures("enclosed")
def test_a_detached_process_ends_after_its_group_of_cases(
    script: Script, left: Path, gone: Callable[[int], bool]
) -> None:
    """The testee goes on, and the run counts what it had to end."""
    body = f"if data == bytes([0]): detach({str(left)!r})\n{ANSWER}"
    sandbox = Sandbox(script(body, setup=DETACH.format()))
    try:
        list(sandbox.ask([question(0)]))
        sandbox.tidy()

        assert gone(pids(left)[0])
        assert sandbox.tally.detached == 1
        list(sandbox.ask([question(1)]))
        assert sandbox.tally.starts == 1
    finally:
        sandbox.close()


def test_a_helper_that_is_there_before_hello_stays(script: Script, left: Path) -> None:
    """A testee may work through a daemon that it starts before its hello."""
    sandbox = Sandbox(script(ANSWER, setup=DETACH.format() + f"detach({str(left)!r})"))
    try:
        list(sandbox.ask([question(0)]))
        sandbox.tidy()

        os.kill(pids(left)[0], 0)
        assert not sandbox.tally.detached
    finally:
        sandbox.close()


@pytest.mark.slow
@pytest.mark.usefixtures("enclosed")
def test_what_a_crashed_testee_leaves_is_counted(script: Script, left: Path, gone: Callable[[int], bool]) -> None:
    """The process that made the testee reports how many it ended."""
    sandbox = Sandbox(script(f"detach({str(left)!r})\nos._exit(3)", setup=DETACH.format()))
    list(sandbox.ask([question(0)]))
    counted = sandbox.tally.detached
    sandbox.close()

    assert counted == len(pids(left)) > 0
    assert all(map(gone, pids(left)))


@pytest.mark.slow
@pytest.mark.usefixtures("enclosed")
def test_memory_of_a_detached_process_counts(script: Script, left: Path, gone: Callable[[int], bool]) -> None:
    """A double fork in another session hides no memory."""
    from dataclasses import replace

    body = f"detach({str(left)!r}, {HOLD})\ntime.sleep(300)\n{ANSWER}"
    sandbox = Sandbox(replace(script(body, setup=DETACH.format()), memory=200 * MIB))
    try:
        (answer,) = sandbox.ask([question(0)])

        assert isinstance(answer.observation, Exceeded)
    finally:
        sandbox.close()
    assert all(map(gone, pids(left)))


def test_no_control_group_is_left(script: Script) -> None:
    """Each is removed when its testee is closed."""
    parent = descendants.own_control_group()
    if parent is None:
        pytest.skip("there is no control group of version 2")
    before = set(parent.glob(f"{descendants.CONTROL_GROUPS}{os.getpid()}-*"))
    sandbox = Sandbox(script(ANSWER))
    list(sandbox.ask([question(0)]))
    during = set(parent.glob(f"{descendants.CONTROL_GROUPS}{os.getpid()}-*"))
    sandbox.close()

    assert len(during - before) <= 1
    assert set(parent.glob(f"{descendants.CONTROL_GROUPS}{os.getpid()}-*")) <= before


SHOW = """
import os, sys, time
def show():
    with open({path!r}, "a") as file:
        found = [f"{{name}} {{os.readlink('/proc/self/fd/' + name)}}" for name in os.listdir("/proc/self/fd")
                 if int(name) > 2 and int(name) != file.fileno() and os.path.exists("/proc/self/fd/" + name)]
        file.write(repr(found) + "\\n")
"""


def starts(connection: ConnectionSpec, count: int) -> list[type[Process]]:
    """Start the testee *count* times, and end it each time when it has said hello."""
    starter, kinds = Starter(connection), list[type[Process]]()
    starter.join()
    for number in range(count):
        process = starter.start(str(number))
        kinds.append(type(process))
        process.stdout.readline()
        process.stdin.close()
        process.reap()
        process.stdout.close()
        process.stderr.close()
    starter.leave()
    return kinds


@pytest.mark.slow
def test_a_testee_has_no_descriptor_of_ours(script: Script, tmp_path: Path) -> None:
    """Neither one that a server started, nor one that is forked where it first reads."""
    path = tmp_path / "descriptors"
    starts(script(ANSWER, setup=SHOW.format(path=str(path)), hello="a=show()"), FEW + 3)

    shown = path.read_text().splitlines()
    assert len(shown) >= FEW + 3
    assert set(shown) == {"[]"}


def test_a_command_has_no_descriptor_of_ours(tmp_path: Path) -> None:
    """Nor one that is started without a server."""
    path = tmp_path / "descriptors"
    code = f"{SHOW.format(path=str(path))}\nshow()"
    child = Child(ConnectionSpec(name="shows", argv=(sys.executable, "-S", "-c", code)))
    end = time.monotonic() + 30
    while not (path.exists() and path.read_text().endswith("\n")) and time.monotonic() < end:
        time.sleep(0.01)
    child.kill()

    assert path.read_text() == "[]\n"


def test_smoke_leaves_nothing(tmp_path: Path, left: Path, gone: Callable[[int], bool]) -> None:
    """The smoke test ends detached processes too."""
    from kafka_conformance.runner.smoke import smoke

    path = tmp_path / "testee.py"
    path.write_text(f"import os, time\n{DETACH.format()}\ndetach({str(left)!r})\n", encoding="utf-8")
    list(smoke(connect(f"process:{sys.executable} -S -E {path}")))

    assert pids(left)
    assert all(map(gone, pids(left)))
