"""Loops of targets that run in a child's own process: which are known not to end, and in which one an input is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from types import FrameType
from typing import Final

import msgspec

from kafka_fuzz.outcome import Outcome
from kafka_fuzz.targets import Target


class Loops:
    """Functions of a target whose loops were seen not to end."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages
        self.functions: set[str] = set()

    def learn(self, outcome: Outcome) -> None:
        """Take note of a hang."""
        if outcome.kind == "hang" and outcome.function:
            self.functions.add(outcome.function)

    def hopeless(self, frame: FrameType | None) -> bool:
        """Whether *frame* is in one of them."""
        while frame is not None:
            module = module_of(frame)
            if module.startswith(self.packages):
                return f"{module}.{frame.f_code.co_qualname}" in self.functions
            frame = frame.f_back
        return False


class Loop:
    """The function that an input loops in: what stayed on the stack whenever one looked, so that it is always the same.

    It waits for no loop less than for another.
    """

    # The first looks may see what comes before the loop.
    BEFORE: Final = 8

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages
        self.looks = 0
        # Frames, because another one may have the number of one that is gone.
        self.stayed: list[FrameType] = []

    def forget(self) -> None:
        """Another input."""
        self.looks = 0
        self.stayed = []

    def look(self, frame: FrameType | None) -> bool:
        """What `Target.hopeless` is: see what is on the stack, and say that there is hope."""
        self.looks += 1
        stack = list(self._stack(frame))[::-1]
        if self.looks <= self.BEFORE:
            self.stayed = stack
        else:
            same = (one is other for one, other in zip(self.stayed, stack, strict=False))
            self.stayed = stack[: sum(takewhile(bool, same))]
        return False

    def _stack(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The functions of the target's packages, the innermost first."""
        while frame is not None:
            if module_of(frame).startswith(self.packages):
                yield frame
            frame = frame.f_back

    def told(self, outcome: Outcome) -> Outcome:
        """*outcome*, which says the loop if it is a hang."""
        if outcome.kind != "hang" or not self.stayed:
            return outcome
        at = self.stayed[-1]
        return msgspec.structs.replace(outcome, function=f"{module_of(at)}.{at.f_code.co_qualname}")


def module_of(frame: FrameType) -> str:
    """The name of the module that a frame's function is in."""
    return frame.f_globals.get("__name__") or ""


def watched(target: Target, loops: Loops) -> Target:
    """*target*, which does not wait for *loops*."""
    return replace(target, hopeless=loops.hopeless)


def unhurried(target: Target, loop: Loop) -> Target:
    """*target*, which does the same however crowded the machine is."""
    return replace(target, hopeless=loop.look, measured=False)
