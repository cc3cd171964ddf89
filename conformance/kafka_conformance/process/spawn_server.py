"""Spawn server: a small process that starts a testee for each message on a socket.

    python -E -S spawn_server.py FD PROGRAM ARGUMENTS…

Each message on the socket FD brings three pipes, which become standard input,
output and error of a new child.  A fourth pipe takes the child's process id
and, later, how it ended.  The child's id stays taken until the other side sends
it back, so that killing its group cannot hit another process.  When the socket is
closed, the runner has ended, for whatever reason: then
those that are left are ended, with their groups.

Limits are inherited, so the process that starts this one sets them, once.  Starting a command
from here costs a third of what it costs from a large process through a shell.
It imports nothing of ours, and runs from its file: it has to be there at once.
"""

import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

# A child's standard input, output and error, and the pipe that reports how it ends.
PIPES: Final = 4
SPAWN: Final = b"spawn"
LONGEST: Final = 64

MakeChild = Callable[[list[int], list[int]], int]
"""Makes a child of three pipes, and of those that it must not have; gives its process id."""


class SpawnServer:
    """Starts children for messages on a socket, and reports how each ends."""

    def __init__(self, line: socket.socket, birth: MakeChild) -> None:
        self._line, self._birth = line, birth
        line.set_inheritable(False)
        self._status_pipes: dict[int, int] = {}
        self._ears, mouth = os.pipe()
        os.set_blocking(mouth, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(mouth)

    def serve(self) -> None:
        """Make a child for every message until the socket is closed; then end all that are left."""
        while True:
            ready, _, _ = select.select([self._line.fileno(), self._ears], [], [])
            if self._ears in ready:
                os.read(self._ears, LONGEST)
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
        elif message.isdigit():
            with suppress(ChildProcessError):
                os.waitpid(int(message), 0)
        return bool(message)

    def _spawn(self, pipes: list[int], status: int) -> None:
        for pipe in (*pipes, status):
            os.set_inheritable(pipe, False)
        try:
            pid = self._birth(pipes, [self._line.fileno(), status, *self._status_pipes.values()])
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

    def _report_end(self, pid: int) -> None:
        # Without reaping it: see above.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            _write(self._status_pipes[pid], ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
            os.close(self._status_pipes.pop(pid))


def _write(pipe: int, number: int) -> None:
    with suppress(BrokenPipeError):  # it was given up
        os.write(pipe, b"%d\n" % number)


def spawn_command(argv: list[str]) -> MakeChild:
    """Starts *argv*, which leads a session of its own."""

    def start(pipes: list[int], _others: list[int]) -> int:
        moves = [(os.POSIX_SPAWN_DUP2, pipe, number) for number, pipe in enumerate(pipes)]
        # Python ignores this signal, and what it starts would too.
        return os.posix_spawnp(argv[0], argv, os.environ, file_actions=moves, setsid=True, setsigdef=[signal.SIGPIPE])

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
    for other in others:
        os.close(other)
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)


if __name__ == "__main__":
    SpawnServer(socket.socket(fileno=int(sys.argv[1])), spawn_command(sys.argv[2:])).serve()
