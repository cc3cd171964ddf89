"""End all processes that a testee started, in any session and with any parent.

Three things find a process that left its testee, each where the one before cannot:

1. A testee is a subreaper: what loses its parent becomes the testee's own, so
   it is below it, and its memory counts.  After the testee's end, the server
   process that made it ends what is left (`spawn_server.py`).
2. A control group (version 2 of Linux' cgroups) around each server process, where this
   process may make one: nothing leaves it, and the kernel ends all of it at once.
3. This process is a subreaper too, and a variable marks each testee's
   environment: where a testee killed its server, and there is no control group, what bears the
   mark is ended.

Without `/proc`, as on macOS, only the testee's process group is ended.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from kafka_conformance.process.cpu_time import PROC, is_zombie, process_tree

CONTROL_GROUPS: Final = "kafkaproof-"
MARK: Final = "KAFKAPROOF_TESTEE"
# Seconds in which processes that are killed have to be gone.
GONE_SECONDS: Final = 5.0
_numbers = count(1)


class Enclosure:
    """A mark, and a control group if there may be one, for all processes that come from one server process.

    Attributes:
        mark: the variable, and its value, that marks them.
        group: the directory of the control group; None if this process may not make one.
    """

    def __init__(self) -> None:
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        self.group = _new_group()

    def enter(self) -> str:
        """A shell command that moves the shell into the control group; one that does nothing without a group."""
        return f"echo $$ > {shlex.quote(f'{self.group}/cgroup.procs')}" if self.group else ":"

    def end(self) -> int:
        """End all processes in it; how many there were.  Its server has ended."""
        found: set[int] = set()
        end = time.monotonic() + GONE_SECONDS
        while (left := self._processes()) and time.monotonic() < end:
            found |= left
            if self.group:
                with suppress(OSError):  # Linux before 5.14 ends them one by one
                    (self.group / "cgroup.kill").write_text("1")
            end_processes(left)
            time.sleep(0.001)
        # Those that this process adopted have no other process that waits for them.
        while found.intersection(children()) and time.monotonic() < end:
            for pid in found.intersection(children()):
                with suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)
        if self.group:
            with suppress(OSError):
                self.group.rmdir()
        return len(found)

    def _processes(self) -> set[int]:
        """Processes in the control group, and children of this process that bear the mark, unless they have ended."""
        found = set(_members(self.group)) if self.group else set()
        mark = self.mark.encode()
        found |= {pid for pid in children() if mark in _environment(pid)}
        return {pid for pid in found if not is_zombie(pid)}


def children() -> Iterator[int]:
    """Process ids of the children of this process; none where that is not known."""
    for task in PROC.joinpath("self", "task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, task.read_text().split())


def outside_group(leader: int) -> set[int]:
    """Processes below *leader* that are in no process group of its own, and have not ended."""
    found = set()
    for pid in process_tree(leader)[1:]:
        with suppress(OSError):
            if os.getpgid(pid) != leader and not is_zombie(pid):
                found.add(pid)
    return found


def end_processes(pids: set[int]) -> int:
    """Kill *pids*; how many there were."""
    ended = 0
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            ended += 1
    return ended


def _new_group() -> Path | None:
    """The directory of a new control group below that of this process; None if there cannot be one."""
    parent = own_control_group()
    if parent is None:
        return None
    group = parent / f"{CONTROL_GROUPS}{os.getpid()}-{next(_numbers)}"
    try:
        _remove_old(parent)
        group.mkdir()
    except OSError:
        return None
    return group


def _remove_old(parent: Path) -> None:
    """Remove the empty groups of processes that were killed."""
    for group in parent.glob(f"{CONTROL_GROUPS}*"):
        pid = group.name.removeprefix(CONTROL_GROUPS).partition("-")[0]
        if not (PROC / pid).exists():
            with suppress(OSError):  # it is not empty
                group.rmdir()


def own_control_group() -> Path | None:
    """The directory of the control group of version 2 in which this process is; None if there is none."""
    try:
        mounts = [line.split() for line in PROC.joinpath("self", "mounts").read_text().splitlines()]
        lines = PROC.joinpath("self", "cgroup").read_text().splitlines()
    except OSError:
        return None
    roots = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
    paths = [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    found = Path(roots[0], paths[0]) if roots and paths else None
    return found if found and (found / "cgroup.procs").exists() else None


def _members(group: Path) -> list[int]:
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _environment(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""
