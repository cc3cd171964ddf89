"""A process group on Linux: how much processor time it took, and whether it waits for some.

Time limits are wall-clock time, which on a crowded machine says nothing about
the testee.  Where `/proc` exists we look there before we call one hung;
elsewhere these functions say that they do not know.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Processor seconds of a session's processes, and whether one of them wants more."""

    seconds: float
    runnable: bool


def usage(session: int) -> Usage | None:
    """What the processes of *session* used up to now; None where that is not known."""
    if not PROC.joinpath("self", "stat").exists():
        return None
    members = [fields for fields in map(_stat, _pids()) if fields and fields[3] == str(session)]
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in members)
    return Usage(ticks / TICKS, any(fields[0] in "RD" for fields in members))


def leader_seconds(pid: int) -> float:
    """Processor seconds of one process; 0.0 where that is not known."""
    fields = _stat(str(pid))
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def _pids() -> list[str]:
    return [entry.name for entry in PROC.iterdir() if entry.name.isdigit()]


def _stat(pid: str) -> list[str]:
    # proc_pid_stat(5): the second field is the name in parentheses, and may
    # hold anything; what follows the last one starts with the state.
    try:
        text = PROC.joinpath(pid, "stat").read_bytes()
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].decode().split()
