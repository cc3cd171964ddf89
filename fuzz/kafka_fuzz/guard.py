"""A limit on the processor time of one input, inside the process: for loops in Python only.

A loop in compiled code does not come back to the interpreter; targets that are
compiled run in processes of their own, which can be killed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["Hopeless", "TooLong", "guard"]

# Whether it is known of a frame that the loop it is in does not end.
Hopeless = Callable[[FrameType | None], bool]
# How long such a loop is waited for: fifty times what a small input takes.
PATIENCE: Final = 0.01
# Functions that the interpreter calls by itself: what is raised in them goes nowhere.
SWALLOWING: Final = frozenset({"__del__", "gc_callback"})


class TooLong(BaseException):
    """The input took longer than it may; no `except Exception` of a target catches it."""


@contextmanager
def guard(seconds: float, hopeless: Hopeless | None = None) -> Iterator[None]:
    """Raise `TooLong` in the block after *seconds* of processor time; the main thread only.

    With *hopeless* it looks every hundredth of a second whether the block is in
    a loop that is known not to end, and raises at once if it is: a campaign
    that meets one hang a hundred times would else do nothing but wait.

    The clock is ITIMER_VIRTUAL, because fuzzing engines take SIGALRM for themselves.
    """
    step = seconds if hopeless is None else min(PATIENCE, seconds)
    left = seconds

    def ring(_signal: int, frame: FrameType | None) -> None:
        nonlocal left
        left -= step
        if frame is not None and frame.f_code.co_name in SWALLOWING:
            signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE, step)  # again, as soon as it is over
        elif left <= step / 2 or (hopeless is not None and hopeless(frame)):
            raise TooLong

    signal.signal(signal.SIGVTALRM, ring)
    # Again and again: a target may swallow the first, in a `finally` or a `__del__`.
    signal.setitimer(signal.ITIMER_VIRTUAL, step, step)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
