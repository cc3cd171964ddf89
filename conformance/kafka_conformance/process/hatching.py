"""Processes that another process makes for us (`brood.py`, `nest.py`): our side of it."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final

from kafka_conformance.connection import Connection
from kafka_conformance.process import brood, forking
from kafka_conformance.process.brood import HATCH, LONGEST
from kafka_conformance.process.limited import environment, limited

# How long a nest may take to load the testee, and to fork.
HATCH_SECONDS: Final = 30.0
# How long one that nobody wants any more may take to be there.
GONE_SECONDS: Final = 1.0
_PYTHON: Final = re.compile(r"python(\d(\.\d+)?)?")
# Those that have no value of their own behind them.
_OPTION: Final = re.compile(r"-[BEIOPSsu]+|-[XW].+")


class Nest:
    """One process that has loaded a Python testee, and forks, or that starts a command; for any number of threads."""

    def __init__(self, connection: Connection, program: int = 0) -> None:
        """Start it; a Python *program*, at that word of the command, is forked where it first reads.

        Raises:
            OSError: that cannot be done.
        """
        self.knows_hello = connection.nest
        self.program = program
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._closed = False
        with theirs:
            self._popen = subprocess.Popen(
                limited(connection, _command(connection, program, str(theirs.fileno()))),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(connection),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def hatch(self) -> Hatched:
        """A new child, which may not be there yet.  Raises `OSError` if there is none to be had."""
        return Hatched(self)

    def send(self, message: bytes, pipes: tuple[int, ...] = ()) -> None:
        """Say something to it.  Raises `OSError` when it is gone."""
        with self._lock:
            if self._closed:
                raise BrokenPipeError("the nest is closed")
            socket.send_fds(self._line, [message], pipes)

    def close(self) -> None:
        """End it, and its children with it."""
        with self._lock:
            self._closed = True
            self._line.close()
        self._popen.kill()
        self._popen.wait()


def _command(connection: Connection, program: int, line: str) -> Sequence[str]:
    argv = connection.argv
    if program:
        return *argv[:program], forking.__file__, line, *argv[program:]
    if connection.nest:
        return sys.executable, "-m", "kafka_conformance.process.nest", argv[-1], line
    # It is to start at once, and has to find nothing but Python's own modules.
    return sys.executable, "-E", "-S", brood.__file__, line, *argv


def program_in(argv: Sequence[str]) -> int:
    """Where in the command of a Python interpreter its program is, as a script or behind `-m`; 0 if that is not plain.

    >>> program_in(["python3", "-u", "testee.py"]), program_in(["/venv/bin/python", "-m", "codec"])
    (2, 1)
    >>> program_in(["node", "testee.js"]), program_in(["python", "-c", "print()"])
    (0, 0)
    """
    if not _PYTHON.fullmatch(argv[0].rpartition("/")[2]):
        return 0
    for at, word in enumerate(argv[1:], 1):
        if word == "-m" or not word.startswith("-"):
            return at
        if not _OPTION.fullmatch(word):
            return 0
    return 0


class Hatched:
    """A process that a nest made."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.known = nest.knows_hello
        ours, theirs = zip(*(_pipe(reads) for reads in (False, True, True, True)), strict=True)
        stdin, stdout, stderr, status = ours
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb", buffering=0)
        self.stderr: IO[bytes] = os.fdopen(stderr, "rb", buffering=0)
        self._status = os.fdopen(status, "rb", buffering=0)
        self.end: int | None = status
        self.pid = 0
        self._code: int | None = None
        try:
            nest.send(HATCH, theirs)
        except OSError:
            self._let_go()
            raise
        finally:
            for pipe in theirs:
                os.close(pipe)

    def settle(self) -> None:
        """Wait until it is there.  Raises `OSError` if it will not be."""
        said = b"" if self.pid else self._read(HATCH_SECONDS)
        if said:
            self.pid = int(said)
        elif not self.pid:
            self._let_go()
            raise OSError("the process that makes it is gone, or does not answer")

    def abandon(self) -> None:
        """End it; nobody has used it."""
        said = b"" if self.pid else self._read(GONE_SECONDS)
        pid = int(said or self.pid)
        if pid and not self.ended():
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self._let_go()

    def ended(self) -> bool:
        """Whether it is gone."""
        return self._code is not None or bool(self._readable(0))

    def reap(self) -> int:
        """Its exit code; as if killed where the nest was gone before it."""
        if self._code is None:
            self._code = int(self._read(None) or -9)
            self._status.close()
            self.end = None
            try:
                self.nest.send(b"%d" % self.pid)
            except OSError:
                pass  # who has reaped all
        return self._code

    def _readable(self, seconds: float | None) -> list[int]:
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        return [number for number, _ in poll.poll(None if seconds is None else seconds * 1000)]

    def _read(self, seconds: float | None) -> bytes:
        # A line is one write to a pipe, and comes whole; two may have come by now.
        if not self._readable(seconds):
            return b""
        line = bytearray()
        while (byte := self._status.read(1)) not in (b"", b"\n"):
            line += byte or b""
        return bytes(line[:LONGEST])

    def _let_go(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr, self._status):
            pipe.close()


def _pipe(reads: bool) -> tuple[int, int]:
    """Our end and theirs."""
    read, write = os.pipe()
    return (read, write) if reads else (write, read)
