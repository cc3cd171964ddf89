"""In-process targets: functions, a CPU-time guard, and how their results become outcomes.

A loop in compiled code does not return to the interpreter, so compiled targets run
in processes of their own, which can be killed.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import ClassVar, Final, NamedTuple, TypeVar, TypeVarTuple

from kafka_conformance.judge.compare import Difference
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import known_fault
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass, excess_cost, memory_message, time_message, value_relation

# Whether a frame is in a loop that is known to be endless.
Hopeless = Callable[[FrameType | None], bool]
# Seconds between checks for such a loop: fifty times the time of a small input.
ENDLESS_STEP: Final = 0.01
# Functions that the interpreter calls; exceptions in them are not propagated.
SWALLOWING: Final = frozenset({"__del__", "gc_callback"})

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


class TooLong(BaseException):
    """The input exceeded its time limit; no `except Exception` of a target catches this."""


class guard:
    """Call a function, and raise `TooLong` in it after *seconds* of processor time; the main thread only.

    With *hopeless*, the guard checks every hundredth of a second whether the function is in
    a loop that is known not to end, and raises at once if it is: a campaign
    that meets one hang a hundred times would otherwise only wait.

    The clock is ITIMER_VIRTUAL, because fuzzing engines take SIGALRM for themselves;
    from the first call on its signal belongs to this module.
    """

    __slots__ = ("hopeless", "left", "step")
    # The guard whose function runs now, and whether the signal handler is installed, which is expensive to query.
    current: ClassVar[guard | None] = None
    installed: ClassVar[bool] = False

    def __init__(self, seconds: float, hopeless: Hopeless | None = None) -> None:
        self.left = seconds
        self.step = seconds if hopeless is None or seconds < ENDLESS_STEP else ENDLESS_STEP
        self.hopeless = hopeless

    def call(self, function: Callable[[*Given], Result], *given: *Given) -> Result:
        """Return *function* of *given*; the clock is off when this returns or raises, whatever it raises.

        This is no context manager: Python handles signals at the start of a function, so that a tick or Ctrl-C at the
        start of `__exit__` would leave the clock running (https://github.com/python/cpython/issues/74174).  Between
        the end of the `try` block and the first statement of `finally`, Python handles none.

        Raises:
            TooLong: the function exceeded the time limit.
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
            signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_STEP, self.step)  # again, as soon as it is over
        elif self.left <= self.step / 2 or (self.hopeless is not None and self.hopeless(frame)):
            raise TooLong


def _ring(_number: int, frame: FrameType | None) -> None:
    if guard.current is not None:
        guard.current.ring(frame)


# The CPU-seconds limit of one input; decoding a small one takes a tenth of a millisecond.
LIMIT: Final = 0.4
# CPU-seconds below which no input can have filled much memory: twenty times a decode.
NOTHING: Final = 0.001
# Outcomes that a short stall of the machine can cause.
SLOW: Final = ("hang", "amplification")


class TargetResult(NamedTuple):
    """The result of one input that a target survived.

    Attributes:
        kind: the class of the outcome.
        detail: the field that differs, or the type of an exception.
        why: one line for people.
        function: the innermost function of the target's package.
        difference: the first field that differs, where data are wrong.
    """

    kind: OutcomeClass
    detail: str = ""
    why: str = ""
    function: str = ""
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A function that takes any bytes, in this process.

    Attributes:
        name: as in `TARGETS`.
        version: of what is under test.
        packages: the packages to instrument, whose functions identify findings.
        check: the function; it may raise any exception.
        limit: CPU-seconds after which an input counts as a hang.
        is_endless: recognizes loops that are known to be endless, so that a hang is found early.
        measured: whether the cost of inputs is measured; not in rounds that have to be repeatable.
        slow: keys of this process that exceeded the time limit twice.
        peak: the peak memory of this process in KiB at the last reading, which takes as long as many decodes.
    """

    peak: ClassVar[int] = 0
    slow: ClassVar[set[str]] = set()

    name: str
    version: str
    packages: tuple[str, ...]
    check: Callable[[Mutant], TargetResult]
    limit: float = LIMIT
    is_endless: Hopeless | None = None
    measured: bool = True

    def run(self, mutant: Mutant) -> Outcome:
        """Run *mutant*, and return its outcome.

        An input that took too long runs a second time, because the machine may have stalled.
        """
        outcome = self._once(mutant)
        if outcome.kind in SLOW and outcome.key not in Target.slow:
            outcome = self._once(mutant)
            if outcome.kind in SLOW:
                Target.slow.add(outcome.key)
        return outcome

    def _once(self, mutant: Mutant) -> Outcome:
        result = self._guarded(mutant)
        fault, function = known_fault(mutant), result.function
        if result.kind == "accepts_invalid":  # by the broken rule, if no fault is known
            fault, function = fault or function, ""
        relation = value_relation(result.difference) if result.difference else ""
        return Outcome(self.name, result.kind, result.detail, function, fault, result.why, relation)

    def _guarded(self, mutant: Mutant) -> TargetResult:
        began = time.process_time()
        result = self._survived(mutant)
        seconds = time.process_time() - began
        if seconds < NOTHING or not self.measured or result.kind not in ("ok", "refused"):
            return result
        size = len(mutant.data)
        slow, grown = excess_cost(size, seconds, (_peak() - Target.peak) * 1024)
        # Memory is checked first: filling it takes time as well, and how much depends on the machine.
        if grown and (grown := excess_cost(size, 0.0, self._growth(mutant) * 1024)[1]):
            return TargetResult("amplification", "memory", memory_message(size, grown))
        return TargetResult("amplification", "time", time_message(size, slow)) if slow else result

    def _growth(self, mutant: Mutant) -> int:
        """The growth of peak memory in KiB when *mutant* runs again."""
        reset_peak()
        before = _peak()
        self._survived(mutant)
        grown = _peak() - before
        reset_peak()
        return grown

    def _survived(self, mutant: Mutant) -> TargetResult:
        try:
            return guard(self.limit, self.is_endless).call(self.check, mutant)
        except TooLong as error:
            return TargetResult("hang", function=innermost(error.__traceback__, self.packages))
        except MemoryError as error:
            return TargetResult("memory", function=innermost(error.__traceback__, self.packages))
        except Exception as error:
            return leak(error, self.packages)


def leak(error: BaseException, packages: tuple[str, ...], kind: OutcomeClass = "leaked_exception") -> TargetResult:
    """The result for an undocumented exception."""
    return TargetResult(kind, type(error).__name__, str(error)[:200], innermost(error.__traceback__, packages))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reset_peak() -> None:
    """Reset the peak of memory, so that one large input does not hide later ones; Linux only."""
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
