"""Runs a Python program up to where it first reads its input, and forks there for every start; by itself, a command.

    python [OPTIONS] fork_server.py FD SCRIPT ARGUMENTS…
    python [OPTIONS] fork_server.py FD -m MODULE ARGUMENTS…

Loading what a codec needs takes a Python program half a second; one that falls
in one case of ten is started hundreds of times.  Up to its first question it
does the same each time, so a fork there is as fresh as a start (`spawn_server.py` says
when).  A program with threads or open files by then is none to be forked: this
process ends, and the other side starts the program the long way.

It runs in the program's own interpreter and imports only `spawn_server` of this project.
"""

import gc
import importlib.util
import io
import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

STANDARD = 3  # descriptors that every process has
HERE = Path(__file__).resolve().parent


class InChild(BaseException):
    """We are the child."""


class ForkOnRead(io.RawIOBase):
    """Standard input, which forks before anybody reads it."""

    name = "<stdin>"

    def __init__(self, line: socket.socket, spawning: Any) -> None:
        super().__init__()
        self._line: socket.socket | None = line
        self._spawning = spawning

    def readable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """Fork first: a caller that needs the descriptor is about to read."""
        self._fork()
        return 0

    def readinto(self, buffer: Any) -> int:
        """Read from where the child's questions come."""
        self._fork()
        return os.readv(0, [buffer])

    def _fork(self) -> None:
        if self._line is None:
            return
        line, self._line = self._line, None
        if not is_forkable(line.fileno()):
            os._exit(1)
        gc.freeze()
        # Kept, so that what the child has closed is not closed again when something else has its number.
        self._kept = self._spawning.SpawnServer(line, self._spawning.fork_child(enter_child))
        try:
            self._kept.serve()
        except InChild:
            return
        os._exit(0)


def enter_child() -> None:
    """Leave the loop of the process that forks."""
    raise InChild


def is_forkable(line: int) -> bool:
    """Whether this process has one thread, and no descriptors but the standard ones and *line*."""
    threads = list(Path("/proc/self/task").iterdir())
    others = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()} - {*range(STANDARD), line}
    # Listing them takes one more, which is gone by now.
    return len(threads) == 1 and not [number for number in others if is_open_descriptor(number)]


def is_open_descriptor(number: int) -> bool:
    """Whether a descriptor is there."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def sibling_module(name: str) -> Any:
    """The module *name* from this file's folder, which is not on the path."""
    spec = importlib.util.spec_from_file_location(f"kafkaproof_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Be the program."""
    line, arguments = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    line.set_inheritable(False)
    is_module = arguments[0] == "-m"
    if sys.path and Path(sys.path[0]).resolve() == HERE:  # an isolated Python has none
        sys.path[0] = str(Path.cwd() if is_module else Path(arguments[0]).resolve().parent)
    stdin = io.TextIOWrapper(
        io.BufferedReader(ForkOnRead(line, sibling_module("spawn_server"))),
        encoding=sys.stdin.encoding,
        errors=sys.stdin.errors,
    )
    sys.stdin = sys.__stdin__ = stdin  # type: ignore[misc]
    sys.argv = arguments[is_module:]
    if is_module:
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
