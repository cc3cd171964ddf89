"""A process that cannot outlive us, with its output in a file.

A shell stands between: it holds the read end of a pipe whose other end is ours.
When we are gone, however we went, the pipe closes; the shell kills what it
started and removes the working folder.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

# $1 is the folder to remove, the rest is the command.  The shell gives background
# commands no standard input, so they get a copy of it; no process reads a line
# there, only the end.  Only the first shell kills by number, while it waits for
# that very process: a number that is free again is never killed.  A signal may
# arrive before the number is known; it is passed on as soon as the number is.
SCRIPT: Final = """
folder="$1"; shift; child= term=
exec 3<&0
trap 'term=yes; [ -z "$child" ] || kill -TERM $child' TERM
trap 'orphaned=yes; kill -KILL $child' USR1
"$@" <&3 3<&- & child=$!
{ read -r _ <&3; kill -USR1 $$; } >/dev/null 2>&1 & watcher=$!
exec 3<&-
[ -z "$term" ] || kill -TERM $child
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
# A wait that SIGTERM interrupts returns 143, even if the command had ended by then.
[ -z "$term" ] || { wait $child; again=$?; [ $again = 127 ] || code=$again; }
# A process that is just ending may still write there.
[ -z "$orphaned" ] || { for _ in 1 2 3 4 5; do rm -rf "$folder" && break; sleep 1; done; kill -KILL 0; }
kill -KILL $watcher
exit $code
"""
TAIL_LINES: Final = 25
_TAIL_BYTES: Final = 16 * 1024
_GRACE: Final = 5.0


class Running(Protocol):
    """A command that was started, here or elsewhere."""

    def has_ended(self) -> bool:
        """Whether it is gone."""

    def wait(self, seconds: float) -> bool:
        """Whether it ended by itself within *seconds*."""

    def terminate(self, seconds: float) -> bool:
        """Ask it to end by itself; whether it did within *seconds*."""

    def kill(self) -> int:
        """End it, now, and wait until its files and ports are free: its exit code, or minus the signal's number."""

    def tail(self) -> str:
        """The last lines of what it wrote."""


class Guarded:
    """A running command; its standard output and error go to *log*."""

    def __init__(self, argv: Sequence[str], *, folder: Path, log: Path) -> None:
        """Start it in *folder*, which is removed should we die."""
        self.log = log
        # Inherited by all that is started, used by none: it reads as ended once all of them are gone.
        self._alive, inherited = os.pipe()
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", SCRIPT, "sh", str(folder), *argv],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    start_new_session=True,
                    pass_fds=(inherited,),
                )
        except OSError:
            os.close(self._alive)
            raise
        finally:
            os.close(inherited)

    @property
    def pid(self) -> int:
        """Of the shell, and of the group that it leads."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether the command is gone."""
        if self._process.returncode is not None:
            return True
        # Without reaping it: its id must stay taken until its group is killed.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, seconds: float) -> bool:
        """Whether the command ended by itself within *seconds*."""
        end = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < end:
            time.sleep(0.02)
        return self.has_ended()

    def terminate(self, seconds: float) -> bool:
        """Ask it to end by itself; whether it did within *seconds*."""
        # To the shell alone, which passes it on: no process gets it twice.
        if not self.has_ended():
            os.kill(self.pid, signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> int:
        """End the whole group, now, and wait until its files and ports are free; more than once does no harm.

        Gives the exit code: the command's own if it had ended, or minus the signal's number.
        """
        if self._process.returncode is not None:
            return self._process.returncode
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # all processes have ended
        code = self._process.wait()
        select.select([self._alive], [], [], _GRACE)
        os.close(self._alive)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def tail(self) -> str:
        """The last lines of what it wrote."""
        return tail_of(self.log)


def tail_of(log: Path) -> str:
    """The last lines of a file that may hold any bytes."""
    data = log.read_bytes()[-_TAIL_BYTES:]
    return "\n".join(data.decode(errors="replace").splitlines()[-TAIL_LINES:])
