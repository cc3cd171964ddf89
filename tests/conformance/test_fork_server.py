"""A Python program of somebody else's is loaded once and forked where it first reads, if it falls again and again."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.test_starting import end

from kafka_conformance.process.spawn_server import fork_child
from kafka_conformance.process.starting import FEW, Process, SpawnedProcess, Starter, program_in
from kafka_conformance.testees import protocol
from kafka_conformance.testees.connection import ConnectionSpec

HELLO = protocol.request_line(protocol.HelloRequest())
TURNS = FEW + 5
# The program records that it was loaded, and prints its arguments, path, name, process group and file.
PROGRAM = """
import atexit, os, sys
open({loaded!r}, "a").write("x")
{first}
facts = [sys.argv, sys.path[0], __name__, os.getpid() == os.getpgid(0), __file__, "os" in vars(sys.modules["__main__"])]
atexit.register(lambda: print("bye", flush=True))
{reading}
    print(repr([facts, line]), flush=True)
    if "fall" in line: os._exit(7)
sys.exit(3)
"""
LINES = "for line in sys.stdin:"

Made = Callable[..., Starter]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A starter of such a program, which is noted in `loaded` whenever it is loaded."""

    def make(first: str = "", reading: str = LINES, *, argv: tuple[str, ...] = ()) -> Starter:
        script = tmp_path / "program.py"
        script.write_text(PROGRAM.format(loaded=str(tmp_path / "loaded"), first=first, reading=reading))
        command = argv or (str(script), "one", "-two")
        starter = Starter(ConnectionSpec(name="program", argv=(sys.executable, *command)))
        starter.join()
        return starter

    return make


def process_id_of(starter: Starter, turns: int = TURNS) -> tuple[list[object], list[int]]:
    """The answer of each of several starts to a line, and its ending."""
    said: list[object] = []
    codes = []
    for _ in range(turns):
        process = starter.start("1")
        os.write(process.stdin.fileno(), b"hear\n")
        heard = [line_of(process), line_of(process)]  # the hello that comes by itself, and ours
        assert b'"hello"' in heard[0]
        said.append(eval(heard[1]))
        codes.append(end(process))
    starter.leave()
    return said, codes


def check_alike(starter: Starter) -> None:
    """Every start says the same, and ends as the program ends."""
    said, codes = process_id_of(starter)
    assert said == [said[0]] * TURNS
    assert codes == [3] * TURNS


def line_of(process: Process) -> bytes:
    """A line of its output."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(process.stdout.fileno(), 1) or b"\n"
    return line


@pytest.mark.slow
@pytest.mark.parametrize(
    "reading",
    [
        LINES,
        "for line in map(bytes.decode, sys.stdin.buffer):",
        "while line := sys.stdin.readline():",
        "for line in open(sys.stdin.fileno(), closefd=False):",
        "import io\nfor line in io.TextIOWrapper(io.FileIO(sys.stdin.fileno())):",
    ],
)
def test_a_fork_is_what_a_start_is(made: Made, tmp_path: Path, reading: str) -> None:
    """It has the arguments, the path, the name, the end and a group of its own; and it is loaded only a few times."""
    check_alike(made(reading=reading))

    assert len((tmp_path / "loaded").read_bytes()) == FEW + 1


@pytest.mark.slow
def test_a_module_is_forked_too(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m` looks in the folder where it is run."""
    monkeypatch.chdir(tmp_path)
    check_alike(made(argv=("-u", "-m", "program", "one")))

    assert len((tmp_path / "loaded").read_bytes()) == FEW + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "kept = open(os.devnull)",
        "import socket; pair = socket.socketpair()",
    ],
)
def test_what_cannot_be_forked_is_started(made: Made, tmp_path: Path, first: str) -> None:
    """Threads would be gone, and what is open would be shared."""
    check_alike(made(first=first))

    assert len((tmp_path / "loaded").read_bytes()) > TURNS


@pytest.mark.slow
def test_a_program_that_reads_otherwise_is_started(made: Made, tmp_path: Path) -> None:
    """A read that does not use `sys.stdin` is not noticed: the program reads an empty input and ends."""
    _, codes = process_id_of(made(reading="for line in os.fdopen(0, closefd=False):"))

    assert codes == [3] * TURNS
    assert len((tmp_path / "loaded").read_bytes()) > TURNS


def test_a_fall_is_its_own(made: Made) -> None:
    """The exit code of a crashed process is known, and the other processes go on."""
    starter = made()
    processes = [starter.start("1") for _ in range(TURNS)]
    for process in processes[::2]:
        os.write(process.stdin.fileno(), b"fall\n")

    assert [end(process) for process in processes] == [7 if at % 2 == 0 else 3 for at in range(TURNS)]
    assert isinstance(processes[-1], SpawnedProcess)
    starter.leave()


def test_a_fork_without_pipes_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    """A fork without pipes is no crash of the codec: its standard error names the cause."""
    pipe, other = os.pipe()
    os.close(pipe)
    os.close(other)
    pid = fork_child(lambda: os._exit(0))([pipe, pipe, pipe], [])

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert "did not get its pipes" in capfd.readouterr().err


def test_what_is_no_plain_python_program_is_left_alone() -> None:
    """Nothing is known of other interpreters, of programs on the command line, and of options with values."""
    assert program_in(["python3.11", "-X", "utf8", "testee.py"]) == 0
    assert program_in(["python", "-Xutf8", "-W", "error", "testee.py"]) == 0
    assert program_in(["python", "-Xutf8", "-Werror", "testee.py"]) == 3
    assert program_in(["pythonic", "testee.py"]) == 0
    assert program_in(["python"]) == 0
    assert json.loads(HELLO)["op"] == "hello"
