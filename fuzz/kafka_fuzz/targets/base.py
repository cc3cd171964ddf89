"""What a target in process is, and how whatever comes out of one becomes an outcome."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, NamedTuple

from kafka_fuzz.amplification import beyond, memory_told, time_told
from kafka_fuzz.guard import Hopeless, TooLong, guard
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.outcome import Outcome, OutcomeClass

# CPU-seconds that one input may take; they are small, and decoding one takes a tenth of a millisecond.
LIMIT: Final = 0.4
# Who takes less has not filled so much memory: twenty times what a decode takes, a tenth of what filling it does.
NOTHING: Final = 0.001
# What a machine that stands still for a moment makes of any input.
SLOW: Final = ("hang", "amplification")


class Told(NamedTuple):
    """What a target says of an input that it survived: the class, the field or type, and a line for people."""

    kind: OutcomeClass
    detail: str = ""
    why: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A function that takes any bytes, in this process.

    Attributes:
        name: as in `TARGETS`.
        version: of what is under test.
        packages: what to instrument, and whose functions tell finds apart.
        ask: what it says of a mutant; may raise anything.
        limit: CPU-seconds after which it hangs.
        hopeless: tells loops that are known not to end, so that they are not waited for.
        measured: whether what an input takes is looked at; not where all has to come out the same again.
        slow: finds of this process that took too long twice.
        peak: of this process' memory in KiB, when somebody last looked; looking takes as long as many a decode.
    """

    peak: ClassVar[int] = 0
    slow: ClassVar[set[str]] = set()

    name: str
    version: str
    packages: tuple[str, ...]
    ask: Callable[[Mutant], Told]
    limit: float = LIMIT
    hopeless: Hopeless | None = None
    measured: bool = True

    def run(self, mutant: Mutant) -> Outcome:
        """What it does with *mutant*, whatever that is.

        What took too long is asked once more before it is a find: the machine itself may have stood still.
        """
        outcome = self._once(mutant)
        if outcome.kind in SLOW and outcome.key not in Target.slow:
            outcome = self._once(mutant)
            if outcome.kind in SLOW:
                Target.slow.add(outcome.key)
        return outcome

    def _once(self, mutant: Mutant) -> Outcome:
        lie = mutant.labels[0] if mutant.expected is not None and mutant.labels else ""
        told = self._guarded(mutant)
        return Outcome(self.name, told.kind, told.detail, told.function, lie, told.why)

    def _guarded(self, mutant: Mutant) -> Told:
        began = time.process_time()
        told = self._survived(mutant)
        seconds = time.process_time() - began
        if seconds < NOTHING or not self.measured or told.kind not in ("ok", "refused"):
            return told
        size = len(mutant.data)
        slow, grown = beyond(size, seconds, (_peak() - Target.peak) * 1024)
        # Who takes memory takes time as well, and how much of it is the machine's affair: memory is looked at first.
        if grown and (grown := beyond(size, 0.0, self._growth(mutant) * 1024)[1]):
            return Told("amplification", "memory", memory_told(size, grown))
        return Told("amplification", "time", time_told(size, slow)) if slow else told

    def _growth(self, mutant: Mutant) -> int:
        """What *mutant* adds to the peak of memory, in KiB, when it is run once more: who was it?"""
        forget_peak()
        before = _peak()
        self._survived(mutant)
        grown = _peak() - before
        forget_peak()
        return grown

    def _survived(self, mutant: Mutant) -> Told:
        try:
            return guard(self.limit, self.hopeless).call(self.ask, mutant)
        except TooLong as error:
            return Told("hang", function=innermost(error.__traceback__, self.packages))
        except MemoryError as error:
            return Told("memory", function=innermost(error.__traceback__, self.packages))
        except Exception as error:
            return leak(error, self.packages)


def leak(error: BaseException, packages: tuple[str, ...], kind: OutcomeClass = "leaked_exception") -> Told:
    """An exception that nobody is told of."""
    return Told(kind, type(error).__name__, str(error)[:200], innermost(error.__traceback__, packages))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """Count the peak of memory from now on, so that one large input does not hide those behind it; Linux only."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    Target.peak = _peak()


def innermost(traceback: TracebackType | None, packages: tuple[str, ...]) -> str:
    """The innermost function of *packages* on the way to an exception, as `module.function`; empty if none is."""
    module, at = innermost_step(traceback, packages)
    return f"{module}.{at.tb_frame.f_code.co_qualname}" if at else ""


def innermost_step(traceback: TracebackType | None, packages: tuple[str, ...]) -> tuple[str, TracebackType | None]:
    """The last step of a traceback that is in *packages*, and its module; none if no step is."""
    found: tuple[str, TracebackType | None] = ("", None)
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module.startswith(packages):
            found = (module, traceback)
        traceback = traceback.tb_next
    return found
