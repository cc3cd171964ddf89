"""What a broker costs: processor time of the processes that we started, those that still run too."""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")
# Of what follows a process's name in /proc/PID/stat.
PARENT, USER, SYSTEM = 1, 11, 12


def cpu_seconds() -> float:
    """Of this process, of those below it, and of those below it that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + running()


def running() -> float:
    """Of all living processes below this one; Linux only, elsewhere 0."""
    spent, below = {}, defaultdict(list)
    for path in PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(path.parent.name)
        spent[pid] = (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
        below[int(fields[PARENT])].append(pid)
    total, todo = 0.0, list(below[os.getpid()])
    while todo:
        pid = todo.pop()
        total += spent[pid]
        todo += below[pid]
    return total
