"""Spawn server: a small process that starts a testee for each message on a socket.

    python -E -S spawn_server.py FD PROGRAM ARGUMENTS…

Each message on the socket FD brings three pipes, which become standard input,
output and error of a new child.  A fourth pipe takes the child's process id
and, later, how it ended and how many processes it left.  The child's id stays
taken until the other side sends it back, so that killing its group cannot hit
another process.  When the socket is closed, the runner has ended, for whatever
reason: then those that are left are ended, with all that they started.

Each child is a subreaper (`prctl(2)`): a process that it starts and that loses its
parent becomes the child's own, in whatever session it is, so that it is found below
the child.  When the child ends, it becomes a child of this process, which is
a subreaper too, and ends every child that it did not start.

Limits are inherited, so the process that starts this one sets them, once.  Starting a command
from here costs a third of what it costs from a large process through a shell.
It imports nothing of ours, and runs from its file: it has to be there at once.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

# A child's standard input, output and error, and the pipe that reports how it ends.
PIPES: Final = 4
SPAWN: Final = b"spawn"
LONGEST: Final = 64
# prctl(2).
PR_SET_CHILD_SUBREAPER: Final = 36
# Seconds between two looks for children that were not started here: one that is no subreaper any more leaves them.
BETWEEN_SWEEPS: Final = 0.5
# Seconds for which processes that start others faster than they are ended are pursued.
MOST_SWEEPING: Final = 5.0

MakeChild = Callable[[list[int], list[int]], int]
"""Makes a child of three pipes, and of those that it must not have; gives its process id."""


class SpawnServer:
    """Starts children for messages on a socket, and reports how each ends."""

    def __init__(self, line: socket.socket, birth: MakeChild) -> None:
        self._line, self._birth = line, birth
        line.set_inheritable(False)
        become_subreaper()
        # Of a program that is forked here: they belong to it.
        self._earlier = set(_children())
        self._status_pipes: dict[int, int] = {}
        self._ended: set[int] = set()
        self._left = 0  # processes that children left, and that were not reported yet
        self._ears, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._mouth)

    def serve(self) -> None:
        """Make a child for every message until the socket is closed; then end all that are left."""
        while True:
            wait = BETWEEN_SWEEPS if self._status_pipes else None
            ready, _, _ = select.select([self._line.fileno(), self._ears], [], [], wait)
            if self._ears in ready:
                os.read(self._ears, LONGEST)
            self._sweep()
            for pid in list(self._status_pipes):
                self._report_end(pid)
            if self._line.fileno() in ready and not self._heed():
                self._end_all()
                return

    def _heed(self) -> bool:
        """Do what one message says; False when there will be no more."""
        message, pipes, _, _ = socket.recv_fds(self._line, LONGEST, PIPES)
        if message == SPAWN and len(pipes) == PIPES:
            self._spawn(pipes[:3], pipes[3])
        elif message.isdigit() and int(message) in self._ended:
            self._ended.remove(int(message))
            os.waitpid(int(message), 0)
        return bool(message)

    def _spawn(self, pipes: list[int], status: int) -> None:
        for pipe in (*pipes, status):
            os.set_inheritable(pipe, False)
        try:
            ours = [self._line.fileno(), self._ears, self._mouth]
            pid = self._birth(pipes, [*ours, status, *self._status_pipes.values()])
        except OSError:
            pid = 0
        # A copy that is still open when the child ends would hide that end.
        for pipe in pipes:
            os.close(pipe)
        if pid:
            self._status_pipes[pid] = status
            _write(status, pid)
        else:
            os.close(status)  # that is how the other side sees it

    def _end_all(self) -> None:
        # The ids of those that have ended meanwhile are taken yet.
        for pid in self._status_pipes:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self._status_pipes.clear()
        self._ended.clear()
        self._sweep()

    def _sweep(self) -> None:
        """End all children that were not started here; count those that left their group."""
        end = time.monotonic() + MOST_SWEEPING
        ours = self._earlier | self._status_pipes.keys() | self._ended
        seen: set[int] = set()
        while strays := set(_children()) - ours:
            for pid in strays - seen:
                self._left += _has_left(pid, ours)
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            seen |= strays
            for pid in strays:
                with suppress(ChildProcessError):
                    if os.waitpid(pid, os.WNOHANG)[0]:
                        seen.discard(pid)  # another may get its number
            if time.monotonic() > end:
                break

    def _report_end(self, pid: int) -> None:
        # Without reaping it: see above.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return
        # What it left became ours before its end could be seen.
        self._sweep()
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        _write(self._status_pipes[pid], code, *([self._left] if self._left else []))
        os.close(self._status_pipes.pop(pid))
        self._ended.add(pid)
        self._left = 0


def become_subreaper() -> bool:
    """Become the parent of all descendants that lose theirs; False where the system cannot do that."""
    try:
        import ctypes  # its own import takes longer than the rest, and a system may lack it

        return not ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return False


def _children() -> list[int]:
    """Process ids of this process's children; none where that is not known."""
    try:
        # This file imports nothing that takes time to load, such as `pathlib`.
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _has_left(pid: int, leaders: set[int]) -> bool:
    """Whether *pid* works, in a group that none of *leaders* leads."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            state = file.read().rpartition(b") ")[2][:1]
        return state not in b"ZX" and os.getpgid(pid) not in leaders
    except OSError:
        return False


def _write(pipe: int, *numbers: int) -> None:
    with suppress(OSError):  # it was given up
        os.write(pipe, b" ".join(b"%d" % number for number in numbers) + b"\n")


def spawn_command(argv: list[str]) -> MakeChild:
    """Starts *argv*, which leads a session of its own and is a subreaper."""

    def start(pipes: list[int], _others: list[int]) -> int:
        heard, said = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.setsid()
                for number, pipe in enumerate(pipes):
                    os.dup2(pipe, number)
                become_subreaper()
                # Python ignores these, and what it starts would too.
                for name in ("SIGPIPE", "SIGXFSZ"):
                    signal.signal(getattr(signal, name), signal.SIG_DFL)
                os.execvp(argv[0], argv)
            except OSError:
                os.write(said, b"x")
            finally:
                os._exit(1)
        os.close(said)
        failed = os.read(heard, 1)  # its end closes when the command runs
        os.close(heard)
        if failed:
            os.waitpid(pid, 0)
            raise OSError(f"{argv[0]} cannot be started")
        return pid

    return start


def fork_child(child: Callable[[], None]) -> MakeChild:
    """Forks this process; *child* is what the new one does, with its pipes in their places, in a group of its own."""

    def birth(pipes: list[int], others: list[int]) -> int:
        pid = os.fork()
        if not pid:
            try:
                _be_another(pipes, others)
            except BaseException as error:
                with suppress(OSError):
                    os.write(2, f"the fork of a testee did not get its pipes: {error}\n".encode())
                os._exit(1)
            child()
        with suppress(OSError):  # in the parent too: the runner may kill the group before the child has made it
            os.setpgid(pid, pid)
        return pid

    return birth


def _be_another(pipes: list[int], others: list[int]) -> None:
    signal.set_wakeup_fd(-1)
    for other in others:
        os.close(other)
    os.setpgid(0, 0)
    become_subreaper()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)


if __name__ == "__main__":
    SpawnServer(socket.socket(fileno=int(sys.argv[1])), spawn_command(sys.argv[2:])).serve()
