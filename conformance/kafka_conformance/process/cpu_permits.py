"""Processors, lent to the workers of a run: a worker that only waits for a hang does without.

Most of what a run waits for is testees that sleep and will never answer.  Such
a wait needs no processor, so the worker gives its place to another, which may
be of another testee.  There are never more testees at work than places.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

Rank = tuple[int, ...]
# Bytes.  A testee with more memory keeps its permit, so that waiting testees do not fill the machine.
SMALL: Final = 256 * 1024 * 1024


@dataclass(order=True, slots=True)
class _Waiter:
    rank: Rank
    number: int
    stop: threading.Event = field(compare=False)
    called: threading.Event = field(default_factory=threading.Event, compare=False)
    granted: bool = field(default=False, compare=False)


class CpuPermits:
    """So many places at work; who has the lowest rank gets the next that is free."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: list[_Waiter] = []
        self._lock = threading.Lock()
        self._number = 0

    def take(self, rank: Rank, stop: threading.Event, *, give: bool = False) -> bool:
        """Wait for a place; False if there will be none, because *stop* was called.

        With *give*, leave one in the same moment: who has the lowest rank keeps it.
        """
        with self._lock:
            self._free += give
            if stop.is_set():
                self._call()
                return False
            self._number += 1
            waiter = _Waiter(rank, self._number, stop)
            heappush(self._line, waiter)
            self._call()
        waiter.called.wait()
        return waiter.granted

    def give(self) -> None:
        """Leave a place to the next."""
        with self._lock:
            self._free += 1
            self._call()

    def stop(self, stop: threading.Event) -> None:
        """Set *stop*, and send away who waits under it."""
        with self._lock:
            stop.set()
            for waiter in self._line:
                if waiter.stop is stop:
                    waiter.called.set()

    def _call(self) -> None:
        while self._free and self._line:
            waiter = heappop(self._line)
            if not waiter.stop.is_set():
                self._free -= 1
                waiter.granted = True
                waiter.called.set()


class CpuPermit:
    """One worker's place, or its wait for one; not for more than one thread.

    Attributes:
        waited: seconds for which it has waited to have its place again.
    """

    def __init__(self, slots: CpuPermits, rank: Rank, stop: threading.Event) -> None:
        self._slots, self._rank, self._stop = slots, rank, stop
        self._held = False
        self.waited = 0.0

    def take(self) -> bool:
        """Have a place; False if the run was stopped."""
        began = time.monotonic()
        self._held = self._held or self._slots.take(self._rank, self._stop)
        self.waited += time.monotonic() - began
        return self._held

    def give(self) -> None:
        """Do without it, until `take`."""
        if self._held:
            self._held = False
            self._slots.give()

    def pass_on(self) -> bool:
        """Let those go first who have a lower rank."""
        self._held = self._slots.take(self._rank, self._stop, give=self._held)
        return self._held
