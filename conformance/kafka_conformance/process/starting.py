"""How a testee's process comes to be: made by a process that is kept for that, or as a command of its own.

Either way it leads a group of its own, so that its whole group can be killed,
under limits that are set before anything of the testee runs.  Who makes it
outlives us for a moment, and ends it when we are killed (`brood.py`).  For a
testee that falls again and again the next process is started while the one
before it works.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import IO, Final, Protocol

from kafka_conformance import protocol
from kafka_conformance.connection import Connection
from kafka_conformance.process.hatching import Hatched, Nest, program_in
from kafka_conformance.process.limited import environment, limited

# Starts before there are spares: most testees are never started again.
FEW: Final = 3
# Processes that are there before they are wanted.
SPARES: Final = 2


class Process(Protocol):
    """What a child needs of its process.

    Attributes:
        end: a descriptor that can be read from once it has ended; None if there is no such.
        known: whether its hello is that of the process that it is forked from.
    """

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    end: int | None
    known: bool

    def ended(self) -> bool:
        """Whether it is gone; its id stays taken until `reap`."""
        ...

    def reap(self) -> int:
        """Wait for its end and let go of its id: the exit code, or the signal below 0."""
        ...


class Started:
    """A command of its own."""

    known = False

    def __init__(self, connection: Connection, number: str) -> None:
        """Start it; *number* tells starts apart.  Raises `OSError` if that cannot be done."""
        self._popen = subprocess.Popen(
            limited(connection, [part.replace("{start}", number) for part in connection.argv]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(connection),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.stdin, self.stdout = _there(self._popen.stdin), _there(self._popen.stdout)
        self.stderr = _there(self._popen.stderr)
        self.end = _end_of(self.pid)

    def ended(self) -> bool:
        """Whether it is gone."""
        if self._popen.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def reap(self) -> int:
        """Its exit code."""
        if self.end is not None:
            os.close(self.end)
            self.end = None
        return self._popen.wait()


def _end_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on Linux, or an old one
        return None


class Starter:
    """Starts one testee as often as it takes, and asks for its hello; shared by its sandboxes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._starts = self._users = 0
        self._nest: Nest | None = None
        self._nests: list[Nest] = []
        self._spares: deque[Hatched] = deque()
        # Until it turns out that it cannot be forked.
        self._program = 0 if connection.nest else program_in(connection.argv)
        # What runs in a container is not ours to end by its process.
        self._hatches = sys.platform == "linux" and connection.local

    def start(self, number: str) -> Process:
        """A new process of the testee; *number* tells starts apart.  Raises `OSError` if none can be started."""
        while self._hatches:
            hatched = None
            try:
                hatched = self._hatched()
                hatched.settle()
                return hatched
            except OSError:
                self._do_without(hatched)
        started = Started(self._connection, number)
        _ask_hello(started)
        return started

    def _hatched(self) -> Hatched:
        with self._lock:
            self._starts += 1
            if self._starts == 1 and self._connection.nest:
                # Most are never started again: what forks would load the testee once more.
                return _greeted(self._new_nest(replace(self._connection, nest=False)).hatch())
            if self._nest is None or (self._starts > FEW and self._nest.program != self._program):
                self._nest = self._new_nest(self._connection, self._program if self._starts > FEW else 0)
            wanted = 1 + (SPARES if self._starts > FEW else 0)
            while len(self._spares) < wanted:
                self._spares.append(_greeted(self._nest.hatch()))
            return self._spares.popleft()

    def _new_nest(self, connection: Connection, program: int = 0) -> Nest:
        """One more; those before it are kept, since their children end with them."""
        self._nests.append(Nest(connection, program))
        return self._nests[-1]

    def _do_without(self, hatched: Hatched | None) -> None:
        """Start otherwise what could not be had: a program that cannot be forked as a command, that by itself."""
        with self._lock:
            failed = hatched.nest if hatched else self._nest
            if failed is None or not failed.program:
                self._hatches = False
            elif failed is self._nest:
                self._program, self._nest = 0, None
                self._abandon_spares()

    def _abandon_spares(self) -> None:
        while self._spares:
            self._spares.popleft().abandon()

    def join(self) -> None:
        """Say that one more sandbox uses it."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Say that one does no more; after the last, what is kept for further starts is ended."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            self._abandon_spares()
            for nest in self._nests:
                nest.close()
            self._nests.clear()
            self._nest = None


def _greeted(hatched: Hatched) -> Hatched:
    """With the question who it is on its way, unless that is known."""
    if not hatched.known:
        _ask_hello(hatched)
    return hatched


def _ask_hello(process: Process) -> None:
    with suppress(OSError):  # it is gone already, as its end will tell
        os.write(process.stdin.fileno(), protocol.request_line(protocol.HelloRequest()))


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
