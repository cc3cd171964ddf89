"""Lines of the target's packages that an input covers for the first time.

On Python 3.12 and later `sys.monitoring` reports each line once and is then switched
off for it, so every input is watched.  Before that `sys.settrace` triples the time of an
input, so callers watch a sample; functions whose lines are all covered are not watched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final, Protocol

__all__ = ["LineCounter", "line_counter"]

LocalTrace = Callable[[FrameType, str, Any], Any]
UNSEEN: Final[Any] = object()


class LineCounter(Protocol):
    """Counts lines.

    Attributes:
        seen: all lines up to now, as `module:line`.
        always: whether watching costs so little that every input may be watched.
    """

    seen: set[str]
    always: bool

    def watch(self) -> Any:
        """A context manager in which lines are counted; it gives the list of those that are new."""


def line_counter(packages: tuple[str, ...], seen: set[str]) -> LineCounter:
    """A line counter for *packages* on this Python; lines in *seen* do not count."""
    return Monitored(packages, seen) if sys.version_info >= (3, 12) else TracingCounter(packages, seen)


def of_code(code: CodeType) -> set[int]:
    """The line numbers of one function."""
    return {line for _, _, line in code.co_lines() if line}


class TracingCounter:
    """By `sys.settrace`."""

    always = False

    def __init__(self, packages: tuple[str, ...], seen: set[str]) -> None:
        self.packages = packages
        self.seen = seen
        self.new: list[str] = []
        self._locals: dict[CodeType, LocalTrace | None] = {}

    @contextmanager
    def watch(self) -> Iterator[list[str]]:
        """See `Lines`."""
        new: list[str] = []
        self.new = new
        sys.settrace(self._called)
        try:
            yield new
        finally:
            sys.settrace(None)
            self.seen.update(new)

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> LocalTrace | None:
        local: LocalTrace | None = self._locals.get(frame.f_code, UNSEEN)
        if local is UNSEEN:
            local = self._locals[frame.f_code] = self._for(frame)
        return local

    def _for(self, frame: FrameType) -> LocalTrace | None:
        module, code = frame.f_globals.get("__name__") or "", frame.f_code
        if not module.startswith(self.packages):
            return None
        missing = {line for line in of_code(code) if f"{module}:{line}" not in self.seen}

        def local(frame: FrameType, event: str, _arg: Any) -> LocalTrace:
            if event == "line" and frame.f_lineno in missing:
                missing.discard(frame.f_lineno)
                self.new.append(f"{module}:{frame.f_lineno}")
                if not missing:
                    self._locals[code] = None
            return local

        return local if missing else None


if sys.version_info >= (3, 12):
    TOOL: Final = 4  # one that no debugger, coverage tool or profiler has for its own

    class Monitored:
        """By `sys.monitoring`."""

        always = True

        def __init__(self, packages: tuple[str, ...], seen: set[str]) -> None:
            self.packages = packages
            self.seen = seen
            self.new: list[str] = []
            self._modules: dict[str, str] = {}
            monitoring, events = sys.monitoring, sys.monitoring.events
            if monitoring.get_tool(TOOL) is not None:
                monitoring.free_tool_id(TOOL)
            monitoring.use_tool_id(TOOL, "kafka_fuzz")
            monitoring.register_callback(TOOL, events.PY_START, self._started)
            monitoring.register_callback(TOOL, events.LINE, self._line)
            monitoring.set_events(TOOL, events.PY_START)

        @contextmanager
        def watch(self) -> Iterator[list[str]]:
            """See `Lines`."""
            self.new.clear()
            yield self.new
            self.seen.update(self.new)

        def _started(self, code: CodeType, _offset: int) -> Any:
            module = sys._getframe(1).f_globals.get("__name__") or ""
            if module.startswith(self.packages):
                self._modules[code.co_filename] = module
                sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.LINE)
            return sys.monitoring.DISABLE

        def _line(self, code: CodeType, line: int) -> Any:
            name = f"{self._modules[code.co_filename]}:{line}"
            if name not in self.seen:
                self.new.append(name)
            return sys.monitoring.DISABLE

else:

    class Monitored(TracingCounter):
        """Not on this Python."""
