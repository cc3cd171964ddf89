"""What a codec may take while it runs in our own process: seconds, and address space.

A testee in a process of its own can be killed; a function can only be
interrupted.  So these limits are weaker: a loop in C runs on until it comes
back to Python, and an extension that ends the process when it gets no memory
ends the tests.  Where the system has no such limit, there is none.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NoReturn

# Seconds until an alarm of others that was due while ours was set.
SOON: Final = 0.001
STATM: Final = Path("/proc/self/statm")


class Late(BaseException):
    """The time is up; not an `Exception`, so that a codec does not take it for its own."""


@contextmanager
def limited(seconds: float | None, memory: int | None) -> Iterator[None]:
    """Run the block under limits: *seconds*, and bytes of *memory* on top of what is taken now; None is no limit."""
    with ExitStack() as stack:
        if memory is not None and sys.platform == "linux":
            stack.enter_context(_memory(memory))
        if seconds is not None and _has_alarm(seconds):
            stack.enter_context(_alarm(seconds))
        yield


def _has_alarm(seconds: float) -> bool:
    """Whether there is an alarm to set: on this system, in this thread, and no other (pytest-timeout) is sooner."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    other = signal.getitimer(signal.ITIMER_REAL)[0]
    return other == 0 or other > seconds


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def late(*_: object) -> NoReturn:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    began = time.monotonic()
    # Again and again: whoever swallows the first is interrupted by the next.
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # an alarm of others goes on
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), SOON), interval)


@contextmanager
def _memory(most: int) -> Iterator[None]:
    import resource

    taken = int(STATM.read_bytes().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = [limit for limit in (taken + most, soft, hard) if limit != resource.RLIM_INFINITY]
    try:
        resource.setrlimit(resource.RLIMIT_AS, (min(allowed), hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
