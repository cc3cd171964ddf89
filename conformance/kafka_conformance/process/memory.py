"""Resident memory of testees: measured while they work, and limited.

Only resident pages count (RSS), of a process and of all processes below it.  Address
space that a codec reserves and never touches takes nothing from anybody, so a forged
length alone is no finding.

One thread of the runner samples all testees.  The more a testee holds, the sooner it
looks again: no process fills pages faster than `FASTEST`.  A testee that passes its
limit is killed with its group.  The kernel's high-water mark shows what came and went
between two looks.  Where `/proc` does not exist, nothing is measured.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kafka_conformance.process.cpu_time import PAGE, PROC, process_tree
from kafka_conformance.testees.connection import MIB

# Bytes a second; zeroing pages is slower on any machine that we know.
FASTEST: Final = 8 * 1024 * MIB
# Seconds between two looks at one testee.
LEAST: Final = 0.002
MOST: Final = 0.05
# Seconds between two looks for processes that a testee has started.
BETWEEN_TREES: Final = 0.1
_HIGH_WATER_MARK: Final = re.compile(rb"^VmHWM:\s*(\d+) kB", re.MULTILINE)
# A soft limit on address space, in multiples of the limit on memory.  It ends a process that allocates while the
# runner is stopped.  With the default limit of 1 GiB several arrays of 2^31 - 1 pointers fit, 16 GiB each and never
# touched: they are no finding.
ADDRESS_SPACE: Final = 64


class MemoryMeter:
    """The resident memory of one testee; the thread that samples and the testee's own worker use it.

    Attributes:
        limit: bytes that it may hold.
        now: bytes that it held at the last look.
        peak: the most that it held at any look.
        exceeded: whether it passed its limit, and was killed for it.
    """

    def __init__(self, leader: int, limit: int, kill: Callable[[], None]) -> None:
        self.limit = limit
        self.now = self.peak = 0
        self.exceeded = False
        self.due = 0.0
        self._leader = leader
        self._kill = kill
        self._base = self._highest = 0
        self._files: dict[int, int] = {}
        self._trees_at = 0.0
        self._lock = threading.Lock()
        self._closed = False

    @property
    def taken(self) -> int:
        """The most bytes that it held since `mark`, less those that it held then."""
        return max(self._highest - self._base, 0)

    def mark(self) -> None:
        """Begin to count `taken`: a request goes out."""
        with self._lock:
            if not self._files:
                self._find_processes()
            self._base = self._highest = self._resident()

    def passed_limit(self) -> bool:
        """Whether the kernel saw it hold more than its limit since it started.

        A look comes too late for memory that is filled and given back within milliseconds.  Of several processes
        the highest peak of one counts, beside what the others hold now: two peaks may be at different times.
        """
        with self._lock:
            if not self._closed:
                self._find_processes()
                now = {pid: _resident_of(file) for pid, file in self._files.items()}
                above = (max(_most_resident(pid) - held, 0) for pid, held in now.items())
                self._highest = max(self._highest, sum(now.values()) + max(above, default=0))
            return self._highest > self.limit

    def look(self) -> None:
        """Measure it, and kill it if it holds more than its limit."""
        with self._lock:
            if self._closed:
                return
            at = time.monotonic()
            if at >= self._trees_at:
                self._trees_at = at + BETWEEN_TREES
                self._find_processes()
            now = self._resident()
            # A process that is ending holds nothing any more.
            self.now = now or self.now
            self.peak, self._highest = max(self.peak, now), max(self._highest, now)
            if now > self.limit and not self.exceeded:
                self.exceeded = True
                self._kill()
            self.due = time.monotonic() + min(max((self.limit - now) / FASTEST, LEAST), MOST)

    def close(self) -> None:
        """Measure it no more; its process id may be taken by another process afterwards."""
        GUARD.discard(self)
        with self._lock:
            self._closed = True
            for file in self._files.values():
                os.close(file)
            self._files.clear()

    def _find_processes(self) -> None:
        alive = set(process_tree(self._leader))
        for pid in self._files.keys() - alive:
            os.close(self._files.pop(pid))
        for pid in alive - self._files.keys():
            with suppress(OSError):
                self._files[pid] = os.open(PROC / str(pid) / "statm", os.O_RDONLY | os.O_CLOEXEC)

    def _resident(self) -> int:
        return sum(map(_resident_of, self._files.values()))


def _resident_of(file: int) -> int:
    """Resident bytes by an open `/proc/PID/statm`; 0 for a process that has ended."""
    try:
        fields = os.pread(file, 256, 0).split()
    except OSError:
        return 0
    return int(fields[1]) * PAGE if len(fields) > 1 else 0


def _most_resident(pid: int) -> int:
    """The most resident bytes that a process held since it started; 0 if it has ended."""
    try:
        found = _HIGH_WATER_MARK.search((PROC / str(pid) / "status").read_bytes())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


class MemoryGuard:
    """Samples all meters in a thread that runs while there are any."""

    def __init__(self) -> None:
        self._meters: set[MemoryMeter] = set()
        self._lock = threading.Lock()
        self._thread: tuple[int, threading.Thread] | None = None

    def watch(self, leader: int, limit: int, kill: Callable[[], None]) -> MemoryMeter | None:
        """Limit the process *leader* and all below it to *limit* resident bytes; None where that is unknown.

        *kill* is called, from the thread that samples, when they hold more.
        """
        if not PROC.joinpath("self", "statm").exists():
            return None
        meter = MemoryMeter(leader, limit, kill)
        with self._lock:
            self._meters.add(meter)
            # A thread does not live on in a process that was forked.
            if self._thread is None or self._thread[0] != os.getpid() or not self._thread[1].is_alive():
                self._thread = os.getpid(), threading.Thread(target=self._run, name="memory", daemon=True)
                self._thread[1].start()
        return meter

    def discard(self, meter: MemoryMeter) -> None:
        """Sample *meter* no more."""
        with self._lock:
            self._meters.discard(meter)

    def _run(self) -> None:
        while True:
            with self._lock:
                meters = list(self._meters)
                if not meters:
                    self._thread = None
                    return
            at = time.monotonic()
            for meter in meters:
                if meter.due <= at:
                    meter.look()
            wait = min(meter.due for meter in meters) - time.monotonic()
            time.sleep(min(max(wait, LEAST), MOST))


GUARD: Final = MemoryGuard()
