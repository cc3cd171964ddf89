"""A limit on the processor time of one input, inside the process: for loops in Python only.

A loop in compiled code does not come back to the interpreter; targets that are
compiled run in processes of their own, which can be killed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import ClassVar, Final, TypeVar, TypeVarTuple

__all__ = ["Hopeless", "TooLong", "guard"]

# Whether it is known of a frame that the loop it is in does not end.
Hopeless = Callable[[FrameType | None], bool]
# How long such a loop is waited for: fifty times what a small input takes.
PATIENCE: Final = 0.01
# Functions that the interpreter calls by itself: what is raised in them goes nowhere.
SWALLOWING: Final = frozenset({"__del__", "gc_callback"})

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


class TooLong(BaseException):
    """The input took longer than it may; no `except Exception` of a target catches it."""


class guard:
    """Call a function, and raise `TooLong` in it after *seconds* of processor time; the main thread only.

    With *hopeless*, the guard checks every hundredth of a second whether the function is in
    a loop that is known not to end, and raises at once if it is: a campaign
    that meets one hang a hundred times would otherwise only wait.

    The clock is ITIMER_VIRTUAL, because fuzzing engines take SIGALRM for themselves;
    from the first call on its signal belongs to this module.
    """

    __slots__ = ("hopeless", "left", "step")
    # The guard whose function runs now, and whether the signal is ours; asking for that costs as much as all the rest.
    current: ClassVar[guard | None] = None
    installed: ClassVar[bool] = False

    def __init__(self, seconds: float, hopeless: Hopeless | None = None) -> None:
        self.left = seconds
        self.step = seconds if hopeless is None or seconds < PATIENCE else PATIENCE
        self.hopeless = hopeless

    def call(self, function: Callable[[*Given], Result], *given: *Given) -> Result:
        """Return *function* of *given*; the clock is off when this returns or raises, whatever it raises.

        This is no context manager: Python handles signals at the start of a function, so that a tick or Ctrl-C at the
        start of `__exit__` would leave the clock running (https://github.com/python/cpython/issues/74174).  Between
        the end of the `try` block and the first statement of `finally`, Python handles none.

        Raises:
            TooLong: the function took longer than it may.
        """
        if not guard.installed:
            signal.signal(signal.SIGVTALRM, _ring)
            guard.installed = True
        try:
            guard.current = self
            # Again and again: a target may swallow the first, in a `finally` or a `__del__`.
            signal.setitimer(signal.ITIMER_VIRTUAL, self.step, self.step)
            return function(*given)
        finally:
            guard.current = None  # first: from here on, ticks are ignored
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def ring(self, frame: FrameType | None) -> None:
        """Another step is over."""
        self.left -= self.step
        if frame is not None and frame.f_code.co_name in SWALLOWING:
            signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE, self.step)  # again, as soon as it is over
        elif self.left <= self.step / 2 or (self.hopeless is not None and self.hopeless(frame)):
            raise TooLong


def _ring(_number: int, frame: FrameType | None) -> None:
    if guard.current is not None:
        guard.current.ring(frame)
