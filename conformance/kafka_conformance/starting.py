"""How a testee's process comes to be: as a command of its own, or forked from one that has loaded it.

Either way it leads a group of its own, so that its whole group can be killed,
under limits that `/bin/sh` sets before anything of the testee runs.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from typing import IO, Final, Protocol

from kafka_conformance.connect import Connection
from kafka_conformance.nest import HATCH, LONGEST

# Processor seconds until the kernel ends an orphan: when the runner itself is
# killed, a testee that hangs would otherwise spin for ever.
ORPHAN_SECONDS: Final = 600
# How long a nest may take to load the testee, and to fork.
HATCH_SECONDS: Final = 30.0


class Process(Protocol):
    """What a child needs of its process."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def ended(self) -> bool:
        """Whether it is gone; its id stays taken until `reap`."""
        ...

    def reap(self) -> int:
        """Wait for its end and let go of its id: the exit code, or the signal below 0."""
        ...


class Started:
    """A command of its own."""

    def __init__(self, connection: Connection, number: str) -> None:
        """Start it.  Raises `OSError` if that cannot be done."""
        self._popen = subprocess.Popen(
            limited(connection, number),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | dict(connection.environment),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.stdin, self.stdout = _there(self._popen.stdin), _there(self._popen.stdout)
        self.stderr = _there(self._popen.stderr)

    def ended(self) -> bool:
        """Whether it is gone."""
        if self._popen.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def reap(self) -> int:
        """Its exit code."""
        return self._popen.wait()


class Nest:
    """One process that has loaded a Python testee, and forks; for any number of threads."""

    def __init__(self, connection: Connection) -> None:
        """Start it.  Raises `OSError` if that cannot be done."""
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._closed = False
        with theirs:
            self._popen = subprocess.Popen(
                [*limited(connection, ""), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | dict(connection.environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def hatch(self) -> Hatched:
        """A new child.  Raises `OSError` if there is none to be had."""
        return Hatched(self)

    def send(self, message: bytes, pipes: tuple[int, ...] = ()) -> None:
        """Say something to it.  Raises `OSError` when it is gone."""
        with self._lock:
            if self._closed:
                raise BrokenPipeError("the nest is closed")
            socket.send_fds(self._line, [message], pipes)

    def close(self) -> None:
        """End it; its children live on."""
        with self._lock:
            self._closed = True
            self._line.close()
        self._popen.kill()
        self._popen.wait()


class Hatched:
    """A process that a nest forked."""

    def __init__(self, nest: Nest) -> None:
        self._nest = nest
        ours, theirs = zip(*(_pipe(reads) for reads in (False, True, True, True)), strict=True)
        stdin, stdout, stderr, status = ours
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb", buffering=0)
        self.stderr: IO[bytes] = os.fdopen(stderr, "rb", buffering=0)
        self._status = os.fdopen(status, "rb", buffering=0)
        self._code: int | None = None
        try:
            nest.send(HATCH, theirs)
        except OSError:
            self._let_go()
            raise
        finally:
            for pipe in theirs:
                os.close(pipe)
        said = self._read(HATCH_SECONDS)
        if not said:
            self._let_go()
            raise OSError("the process that forks it is gone, or does not answer")
        self.pid = int(said)

    def ended(self) -> bool:
        """Whether it is gone."""
        return self._code is not None or bool(self._readable(0))

    def reap(self) -> int:
        """Its exit code; as if killed where the nest was gone before it."""
        if self._code is None:
            self._code = int(self._read(None) or -9)
            self._status.close()
            try:
                self._nest.send(b"%d" % self.pid)
            except OSError:
                pass  # who has reaped all
        return self._code

    def _readable(self, seconds: float | None) -> list[int]:
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        return [number for number, _ in poll.poll(None if seconds is None else seconds * 1000)]

    def _read(self, seconds: float | None) -> bytes:
        # One line is one write to a pipe, and comes whole.
        return self._status.readline(LONGEST) if self._readable(seconds) else b""

    def _let_go(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr, self._status):
            pipe.close()


class Starter:
    """Starts one testee as often as it takes; shared by its sandboxes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._starts = self._users = 0
        self._nest: Nest | None = None
        self._hatches = connection.nest and sys.platform == "linux"

    def start(self, number: str) -> Process:
        """A new process of the testee.  Raises `OSError` if that cannot be done."""
        if nest := self._nest_to_use():
            try:
                return nest.hatch()
            except OSError:
                self._hatches = False
        return Started(self._connection, number)

    def _nest_to_use(self) -> Nest | None:
        with self._lock:
            self._starts += 1
            # The first is a process of its own: most are never started again.
            if self._hatches and self._nest is None and self._starts > 1:
                module = self._connection.argv[-1]
                argv = (sys.executable, "-m", "kafka_conformance.nest", module)
                self._nest = Nest(replace(self._connection, argv=argv))
            return self._nest if self._hatches else None

    def join(self) -> None:
        """Say that one more sandbox uses it."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Say that one does no more; after the last, what is kept for further starts is ended."""
        with self._lock:
            self._users -= 1
            if not self._users and self._nest is not None:
                self._nest.close()
                self._nest = None


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _pipe(reads: bool) -> tuple[int, int]:
    """Our end and theirs."""
    read, write = os.pipe()
    return (read, write) if reads else (write, read)


def limited(connection: Connection, number: str) -> list[str]:
    """The command line of *connection* under its limits; *number* tells starts apart."""
    argv = [part.replace("{start}", number) for part in connection.argv]
    if not connection.local:
        return argv
    # ulimit: kilobytes of address space, processor seconds, no core files.
    limits = f"ulimit -c 0; ulimit -t {ORPHAN_SECONDS}; ulimit -v {connection.memory // 1024}"
    return ["/bin/sh", "-c", f'{{ {limits}; }} 2>/dev/null; exec "$@"', "sh", *argv]
