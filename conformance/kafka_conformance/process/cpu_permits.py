"""Processors, lent to the workers of a run: a worker that only waits for a hang does without.

Most of what a run waits for is testees that sleep and will never answer.  Such
a wait needs no processor, so the worker gives its place to another, which may
be of another testee.  There are never more testees at work than places.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

Rank = tuple[int, ...]
# Bytes.  A testee with this much memory or more gives its place away only while all such testees that wait hold no
# more than a part of the machine's memory, so that they do not fill it.
SMALL: Final = 256 * 1024 * 1024
PART: Final = 1 / 4


@dataclass(order=True, slots=True)
class _Waiter:
    rank: Rank
    number: int
    stop: threading.Event = field(compare=False)
    places: int = field(default=1, compare=False)
    called: threading.Event = field(default_factory=threading.Event, compare=False)
    granted: bool = field(default=False, compare=False)


class CpuPermits:
    """A fixed number of places; a place that becomes free goes to the waiting worker of the lowest rank.

    All testees that have `SMALL` bytes or more and wait without a place hold at most *memory* bytes in total. The
    default is a fixed part of the machine's memory.
    """

    def __init__(self, count: int, memory: int | None = None) -> None:
        self.count = self._free = count
        self._room = int(PART * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) if memory is None else memory
        self._line: list[_Waiter] = []
        self._lock = threading.Lock()
        self._number = 0

    def take(self, rank: Rank, stop: threading.Event, *, give: bool = False, places: int = 1) -> bool:
        """Wait for so many *places*; False if there will be none, because *stop* was called.

        With *give*, leave as many in the same moment: the lowest rank keeps them.
        """
        with self._lock:
            self._free += give * places
            if stop.is_set():
                self._call()
                return False
            self._number += 1
            waiter = _Waiter(rank, self._number, stop, places)
            heappush(self._line, waiter)
            self._call()
        waiter.called.wait()
        return waiter.granted

    def give(self, places: int = 1) -> None:
        """Leave *places* to the next."""
        with self._lock:
            self._free += places
            self._call()

    def hold(self, memory: int) -> bool:
        """Count the *memory* of a testee that waits; False if there is no room for it."""
        with self._lock:
            fits = memory <= self._room
            self._room -= memory * fits
        return fits

    def release(self, memory: int) -> None:
        """Count it no longer."""
        with self._lock:
            self._room += memory

    def stop(self, stop: threading.Event) -> None:
        """Set *stop*, and send away who waits under it."""
        with self._lock:
            stop.set()
            for waiter in self._line:
                if waiter.stop is stop:
                    waiter.called.set()

    def _call(self) -> None:
        while self._line:
            waiter = self._line[0]
            # One that wants more places than are free waits, and so do those of higher rank.
            if not waiter.stop.is_set() and waiter.places > self._free:
                return
            heappop(self._line)
            if not waiter.stop.is_set():
                self._free -= waiter.places
                waiter.granted = True
                waiter.called.set()


class CpuPermit:
    """One worker's place, or its wait for one; not for more than one thread.

    Attributes:
        waited: seconds for which it has waited to have its place again.

    A worker that is *alone* takes all places: no other works then.
    """

    def __init__(self, slots: CpuPermits, rank: Rank, stop: threading.Event, *, alone: bool = False) -> None:
        self._slots, self._rank, self._stop = slots, rank, stop
        self._places = slots.count if alone else 1
        self._held = False
        self._held_memory = 0
        self.waited = 0.0

    def take(self) -> bool:
        """Have a place; False if the run was stopped."""
        began = time.monotonic()
        self._held = self._held or self._slots.take(self._rank, self._stop, places=self._places)
        self.waited += time.monotonic() - began
        self._release()
        return self._held

    def give(self) -> None:
        """Do without it, until `take`."""
        self._release()
        if self._held:
            self._held = False
            self._slots.give(self._places)

    def lend(self, memory: int) -> None:
        """Do without it while a testee of *memory* bytes waits, until `take`; keep it if too much memory waits."""
        if not self._held:
            return
        large = memory if memory >= SMALL else 0
        if not large or self._slots.hold(large):
            self.give()
            self._held_memory = large

    def _release(self) -> None:
        if self._held_memory:
            self._slots.release(self._held_memory)
            self._held_memory = 0

    def pass_on(self) -> bool:
        """Let those go first who have a lower rank."""
        self._held = self._slots.take(self._rank, self._stop, give=self._held, places=self._places)
        return self._held
