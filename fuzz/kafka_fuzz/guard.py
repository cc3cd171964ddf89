"""A limit on the processor time of one input, inside the process: for loops in Python only.

A loop in compiled code does not come back to the interpreter; targets that are
compiled run in processes of their own, which can be killed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TooLong", "guard"]


class TooLong(BaseException):
    """The input took longer than it may; no `except Exception` of a target catches it."""


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong


@contextmanager
def guard(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the block after *seconds* of processor time; the main thread only.

    The clock is ITIMER_VIRTUAL, because fuzzing engines take SIGALRM for themselves.
    """
    signal.signal(signal.SIGVTALRM, _ring)
    # Again and again: a target may swallow the first, in a `finally` or a `__del__`.
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
