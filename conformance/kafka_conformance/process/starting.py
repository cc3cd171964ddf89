"""Start a testee's process under its limits: through a spawn server, or as a command.

`/bin/sh` sets the limits before anything of the testee runs.

Either way it leads a group of its own, so that its whole group can be killed,
under limits that are set before anything of the testee runs.  Who makes it
outlives this process for a moment, and ends it when the runner is killed (`spawn_server.py`).  For a
testee that falls again and again the next process is started while the one
before it works.
"""

from __future__ import annotations

import atexit
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, Protocol

from kafka_brokers.fake_broker import FETCH_VERSION, PRODUCE_VERSION
from kafka_conformance.process import fork_server, spawn_server
from kafka_conformance.process.descendants import Enclosure
from kafka_conformance.process.memory import ADDRESS_SPACE
from kafka_conformance.process.spawn_server import LONGEST, MOST_SWEEPING, SPAWN, become_subreaper
from kafka_conformance.testees import protocol
from kafka_conformance.testees.connection import ConnectionSpec

# CPU seconds until the kernel ends a testee.  One that
# is left over when the runner and the process that made it (`spawn_server.py`) are both
# killed would otherwise spin for ever.
ORPHAN_SECONDS: Final = 600

# A stack that Rust prints costs thirty times what the fall does, and is so long
# that what was said before it is cut off.
_BRIEF: Final = {"RUST_BACKTRACE": "0"}


def testee_environment(connection: ConnectionSpec) -> dict[str, str]:
    """Our own variables, and those of *connection*: no user's setting of last words or versions counts."""
    return os.environ | _BRIEF | {FETCH_VERSION: "", PRODUCE_VERSION: ""} | dict(connection.environment)


def limited_command(connection: ConnectionSpec, argv: Sequence[str], enter: str = ":") -> list[str]:
    """*argv* under the limits of *connection*, which what it starts inherits; the shell runs *enter* before."""
    if not connection.local:
        return list(argv)
    # ulimit: no core files, processor seconds, kilobytes of address space.  Memory is limited by `memory.py`.
    space = connection.memory * ADDRESS_SPACE // 1024
    limits = f"ulimit -c 0; ulimit -t {ORPHAN_SECONDS}; ulimit -v {space}"
    return ["/bin/sh", "-c", f'{{ {enter}; {limits}; }} 2>/dev/null; exec "$@"', "sh", *argv]


# Folders of the files that a virtual machine unpacks native libraries to, by the process that started it.
_NATIVE: Final = "kafkaproof-native-"
_folders: dict[int, Path] = {}


def with_own_folder(argv: Sequence[str]) -> list[str]:
    """*argv*, whose temporary files are in a folder of this process, if it is Java's command.

    Java's lz4, snappy and zstd unpack a library at each start, and delete it at a regular end.  Most testees are
    killed.  The folder is removed when this process ends, or by a later one if this one is killed, too.
    """
    if not argv or Path(argv[0]).name != "java":
        return list(argv)
    return [argv[0], f"-Djava.io.tmpdir={native_folder()}", *argv[1:]]


def native_folder() -> Path:
    """The folder of this process; removes those of processes that have ended."""
    pid = os.getpid()
    if pid not in _folders:
        remove_stale_folders(Path(tempfile.gettempdir()))
        _folders[pid] = Path(tempfile.mkdtemp(prefix=f"{_NATIVE}{pid}-"))
        atexit.register(shutil.rmtree, _folders[pid], ignore_errors=True)
    return _folders[pid]


def remove_stale_folders(parent: Path) -> None:
    """Remove the folders in *parent* of processes that have ended."""
    for folder in parent.glob(f"{_NATIVE}*-*"):
        pid = folder.name.removeprefix(_NATIVE).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)


# Seconds that a server may take to load the testee and to start a child.
SPAWN_SECONDS: Final = 30.0
# Seconds that a spare process may take to appear before it is given up.
GONE_SECONDS: Final = 1.0
_PYTHON: Final = re.compile(r"python(\d(\.\d+)?)?")
# Options of Python without a separate value.
_OPTION: Final = re.compile(r"-[BEIOPSsu]+|-[XW].+")


class ServerProcess:
    """One process that has loaded a Python testee, and forks, or that starts a command; for any number of threads."""

    def __init__(self, connection: ConnectionSpec, program: int = 0) -> None:
        """Start it; a Python *program*, at that word of the command, is forked where it first reads.

        Raises:
            OSError: that cannot be done.
        """
        self.knows_hello = connection.preloads
        self.has_worked = False
        self.program = program
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._closed = False
        become_subreaper()
        self._enclosure = Enclosure()
        name, _, value = self._enclosure.mark.partition("=")
        with theirs:
            self._popen = subprocess.Popen(
                limited_command(
                    connection, _command(connection, program, str(theirs.fileno())), self._enclosure.enter()
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=testee_environment(connection) | {name: value},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def spawn(self) -> SpawnedProcess:
        """A new child, which may not be there yet.  Raises `OSError` if there is none to be had."""
        return SpawnedProcess(self)

    def send(self, message: bytes, pipes: tuple[int, ...] = ()) -> None:
        """Say something to it.  Raises `OSError` when it is gone."""
        with self._lock:
            if self._closed:
                raise BrokenPipeError("the server process is closed")
            socket.send_fds(self._line, [message], pipes)

    def close(self) -> None:
        """End it, and with it its children and all that they started."""
        with self._lock:
            self._closed = True
            self._line.close()
        # It ends its children when the socket is closed.
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(MOST_SWEEPING + GONE_SECONDS)
        self._popen.kill()
        self._popen.wait()
        self._enclosure.end()


def _command(connection: ConnectionSpec, program: int, line: str) -> Sequence[str]:
    argv = connection.argv
    if program:
        return *argv[:program], fork_server.__file__, line, *argv[program:]
    if connection.preloads:
        return sys.executable, "-m", "kafka_conformance.process.preloaded", argv[-1], line
    # It is to start at once, and has to find nothing but Python's own modules.
    return sys.executable, "-E", "-S", spawn_server.__file__, line, *with_own_folder(argv)


def program_in(argv: Sequence[str]) -> int:
    """Where in the command of a Python interpreter its program is, as a script or after `-m`; 0 if that is not plain.

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


class SpawnedProcess:
    """A process that a server process made."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.known = server.knows_hello
        ours, theirs = zip(*(_pipe(reads) for reads in (False, True, True, True)), strict=True)
        stdin, stdout, stderr, status = ours
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb", buffering=0)
        self.stderr: IO[bytes] = os.fdopen(stderr, "rb", buffering=0)
        self._status = os.fdopen(status, "rb", buffering=0)
        self.end: int | None = status
        self.pid = 0
        self.left = 0
        self._code: int | None = None
        try:
            server.send(SPAWN, theirs)
        except OSError:
            self._let_go()
            raise
        finally:
            for pipe in theirs:
                os.close(pipe)

    def settle(self) -> None:
        """Wait until it is there.  Raises `OSError` if it will not be."""
        said = b"" if self.pid else self._read(SPAWN_SECONDS)
        if said:
            self.pid = reported_number(said, 0)
        if not self.pid:
            self._let_go()
            raise OSError("the process that makes it is gone, or does not answer")
        self.server.has_worked = True

    def abandon(self) -> None:
        """End a process that was never used."""
        said = b"" if self.pid else self._read(GONE_SECONDS)
        pid = reported_number(said, self.pid)
        if pid and not self.ended():
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self._let_go()

    def ended(self) -> bool:
        """Whether it is gone."""
        return self._code is not None or bool(self._readable(0))

    def reap(self) -> int:
        """Its exit code; that of a kill if the server ended first."""
        if self._code is None:
            code, _, left = self._read(None).partition(b" ")
            self._code, self.left = reported_number(code, -9), reported_number(left, 0)
            self._status.close()
            self.end = None
            try:
                self.server.send(b"%d" % self.pid)
            except OSError:
                pass  # the spawn server has ended, and it reaped its children
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


# Starts before there are spares: most testees are never started again.
FEW: Final = 3
# Processes that are there before they are wanted.
SPARES: Final = 2


class Process(Protocol):
    """The operations that `Child` needs of a process.

    Attributes:
        end: a descriptor that can be read from once it has ended; None if there is no such.
        known: whether its hello is that of the process that it is forked from.
        left: how many processes outside of its group were ended after it, once it is reaped.
    """

    pid: int
    left: int
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


class CommandProcess:
    """A command of its own."""

    known = False
    left = 0

    def __init__(self, connection: ConnectionSpec, number: str) -> None:
        """Start it; *number* is different for each start.  Raises `OSError` if that cannot be done."""
        self._popen = subprocess.Popen(
            limited_command(connection, with_own_folder([part.replace("{start}", number) for part in connection.argv])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=testee_environment(connection),
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
    """Starts one testee as often as needed and sends its hello request; shared by its sandboxes.

    One that does not greet starts it as a command, and sends nothing.
    """

    def __init__(self, connection: ConnectionSpec, *, greets: bool = True) -> None:
        self._connection = connection if greets else replace(connection, preloads=False)
        self._greets = greets
        self._lock = threading.Lock()
        self._starts = self._users = 0
        self._server: ServerProcess | None = None
        self._servers: list[ServerProcess] = []
        self._spares: deque[SpawnedProcess] = deque()
        # Until it turns out that it cannot be forked.
        self._program = 0 if connection.preloads else program_in(connection.argv)
        # What runs in a container is not ours to end by its process.
        self._uses_servers = sys.platform == "linux" and connection.local

    def start(self, number: str) -> Process:
        """A new process of the testee; *number* differs for each start.  Raises `OSError` if none can be started."""
        while self._uses_servers:
            spawned = None
            try:
                spawned = self._spawned()
                spawned.settle()
                return spawned
            except OSError:
                self._do_without(spawned)
        started = CommandProcess(self._connection, number)
        if self._greets:
            _ask_hello(started)
        return started

    def _spawned(self) -> SpawnedProcess:
        with self._lock:
            self._starts += 1
            if self._starts == 1 and self._connection.preloads:
                # Most are never started again: what forks would load the testee once more.
                return self._greeted(self._new_server(replace(self._connection, preloads=False)).spawn())
            if self._server is None or (self._starts > FEW and self._server.program != self._program):
                self._server = self._new_server(self._connection, self._program if self._starts > FEW else 0)
            wanted = 1 + (SPARES if self._starts > FEW else 0)
            while len(self._spares) < wanted:
                self._spares.append(self._greeted(self._server.spawn()))
            return self._spares.popleft()

    def _greeted(self, spawned: SpawnedProcess) -> SpawnedProcess:
        """With the question who it is on its way, unless that is known."""
        if self._greets and not spawned.known:
            _ask_hello(spawned)
        return spawned

    def _new_server(self, connection: ConnectionSpec, program: int = 0) -> ServerProcess:
        """One more; those before it are kept, since their children end with them."""
        self._servers.append(ServerProcess(connection, program))
        return self._servers[-1]

    def _do_without(self, spawned: SpawnedProcess | None) -> None:
        """Start otherwise what could not be had: a program that cannot be forked as a command, that by itself."""
        with self._lock:
            failed = spawned.server if spawned else self._server
            if failed is not None and failed.has_worked:
                # It was killed; as a command the testee would be a child of this process.
                if failed is self._server:
                    self._server = None
                self._abandon_spares()
            elif failed is None or not failed.program:
                self._uses_servers = False
            elif failed is self._server:
                self._program, self._server = 0, None
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
            for server in self._servers:
                server.close()
            self._servers.clear()
            self._server = None


def _ask_hello(process: Process) -> None:
    with suppress(OSError):  # it has ended already; reading shows that
        os.write(process.stdin.fileno(), protocol.request_line(protocol.HelloRequest()))


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def reported_number(line: bytes, default: int) -> int:
    """The number in a *line* of the spawn server; *default* if another process wrote into the pipe.

    >>> reported_number(b"-9", 0), reported_number(b"x", 1)
    (-9, 1)
    """
    try:
        return int(line)
    except ValueError:
        return default
