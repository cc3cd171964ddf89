"""Processes on Linux: what they took of the processor, and how long they waited for one.

Time limits are wall-clock time, which on a crowded machine says nothing about
the testee.  The kernel counts for each thread how long it ran and how long it
stood in line for a processor (`schedstat`), so we can leave the latter out
before we call anyone hung.  Where `/proc` has no such files these functions
say that they do not know.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
NANO: Final = 1e-9
TICKS: Final = os.sysconf("SC_CLK_TCK")
# In what follows a process's name in /proc/PID/stat: user and system.
USER, SYSTEM = 11, 12
# Of the time between two looks: who works less than that only waits.
IDLE_SHARE: Final = 0.02
# Seconds of its own: what it took by then, it took fast.
EARLY: Final = 1.0
# However crowded a machine is, so much of the time counts.
LEAST_SHARE: Final = 0.02
# Seconds between two looks that count; in more than that we did not get to look ourselves.
# A virtual machine that its host stops for half a minute is not a testee that does nothing.
MOST_BETWEEN: Final = 1.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources used by a process, its threads and its descendants.

    Attributes:
        seconds: of the processor.
        queued: seconds of standing in line for a processor, all threads added up.
        memory: bytes that are resident.
        runnable: whether one of the threads runs, or wants to, or waits for a disk.
        threads: what each thread took of the processor, in seconds.
    """

    seconds: float
    queued: float
    memory: int
    runnable: bool
    threads: Mapping[str, float]


def usage(leader: int) -> Usage | None:
    """Resources used by the process *leader* and its descendants; None where unknown."""
    queued = memory = 0
    runnable = False
    threads: dict[str, float] = {}
    for task in _tasks(leader):
        state, counted = _state(task), _numbers(task / "schedstat")
        if not counted or not state:
            continue
        threads[task.name] = counted[0] * NANO
        queued += counted[1]
        runnable = runnable or state in "RD"
        if task.name == task.parent.parent.name:  # the first thread stands for the process
            memory += (_numbers(task / "statm") or [0, 0])[1] * PAGE
    return Usage(sum(threads.values()), queued * NANO, memory, runnable, threads) if threads else None


def waited_for_processor() -> float:
    """Seconds for which this thread stood in line for a processor up to now; 0 where that is not known."""
    counted = _numbers(PROC / "thread-self" / "schedstat")
    return counted[1] * NANO if counted else 0.0


def threads(leader: int) -> int:
    """How many threads the process *leader* has; 0 where that is not known."""
    try:
        return sum(1 for _ in PROC.joinpath(str(leader), "task").iterdir())
    except OSError:
        return 0


def process_tree(leader: int) -> list[int]:
    """The process *leader* and all below it; none where that is not known."""
    return list(dict.fromkeys(int(task.parent.parent.name) for task in _tasks(leader)))


def is_zombie(pid: int) -> bool:
    """Whether the process *pid* has ended, with all its threads, and has not been waited for."""
    try:
        states = [_state(task) for task in PROC.joinpath(str(pid), "task").iterdir()]
    except OSError:
        return False
    return bool(states) and set(states) <= {"Z"}


def cpu_seconds() -> float:
    """Of this process, of all below it, and of those of them that were waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + running()


def running() -> float:
    """CPU-seconds of all living processes below this one; 0 where that is not known."""
    return sum(map(cpu_of, process_tree(os.getpid())[1:]))


def cpu_of(pid: int) -> float:
    """CPU-seconds of one process; 0 where that is not known."""
    stat = _read(PROC / str(pid) / "stat").rpartition(b")")[2].split()
    return (int(stat[USER]) + int(stat[SYSTEM])) / TICKS if stat else 0.0


class Watch:
    """Looks at a testee from time to time while nothing comes from it.

    Attributes:
        idle: whether it only waited between the last two looks.
        memory: bytes that it held at the last.
        more: bytes by which that is more than at first.
        early: the most that it held within its first second.
    """

    def __init__(self, leader: int, most_between: float = MOST_BETWEEN) -> None:
        """Begin; of the seconds between two looks no more than *most_between* count."""
        self._leader = leader
        self._most_between = most_between
        self._first = self._last = usage(leader)
        self._at = time.monotonic()
        self._passed = 0.0
        self.idle = False
        self.memory = self.more = self.early = 0

    def look(self) -> None:
        """See how it went since the last time."""
        before, now = self._last, usage(self._leader)
        at = time.monotonic()
        if before is not None and now is not None:
            self.idle = not now.runnable and now.seconds - before.seconds < IDLE_SHARE * (at - self._at)
            # One that is just ending holds nothing any more.
            self.memory = now.memory or self.memory
        self._passed += min(at - self._at, self._most_between)
        self._last, self._at = now, at
        if now is not None and self._first is not None:
            self.more = self.memory - self._first.memory
            if self.own_seconds() <= EARLY:
                self.early = max(self.early, now.memory)

    def holds(self, memory: int) -> bool:
        """Whether it held so many bytes when it was looked at; never for 0 bytes."""
        return 0 < memory <= self.memory

    def held_early(self, memory: int) -> bool:
        """Whether it held so many bytes within its first second; never for 0 bytes."""
        return 0 < memory <= self.early

    def own_seconds(self, *, together: bool = False, waits: float = 0.0) -> float:
        """Seconds since the watch began, without those in which it stood in line for a processor.

        Nor do *waits* count: seconds in which this thread waited for a CPU.
        What the busiest thread worked counts in any case; with *together*, what
        all of them did, added up, but never more than what went by.
        """
        wall = self._passed
        if self._first is None or self._last is None:
            return wall
        # Many threads may wait for a CPU at once; the sum is larger than the elapsed time.
        before = self._first.threads
        each = [seconds - before.get(thread, 0.0) for thread, seconds in self._last.threads.items()]
        worked = sum(each) if together else max(each)
        queued = self._last.queued - self._first.queued
        return min(wall, max(wall - max(queued, 0.0) - waits, worked, wall * LEAST_SHARE))


def _tasks(leader: int) -> Iterator[Path]:
    """The threads of *leader* and of all processes below it."""
    todo = [str(leader)]
    while todo:
        try:
            tasks = list(PROC.joinpath(todo.pop(), "task").iterdir())
        except OSError:
            continue
        for task in tasks:
            yield task
            todo += _read(task / "children").decode().split()


def _state(task: Path) -> str:
    # proc_pid_stat(5): the second field is the name in parentheses, and may
    # hold anything; what follows the last one starts with the state.
    return _read(task / "stat").rpartition(b") ")[2][:1].decode()


def _numbers(path: Path) -> list[int]:
    return [int(word) for word in _read(path).split()]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
