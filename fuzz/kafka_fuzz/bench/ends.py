"""Unexpected ends, counted as who fuzzes without a reference counts them.

An exception that a codec's users are not told of, by its type and the line that
raised it; a loop without end and memory without bound, by the function.  What is
read that should not be, or read wrongly, is none of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, cast

from kafka_conformance.testee import CodecError
from kafka_fuzz.targets.base import innermost_step
from kafka_fuzz.targets.codecs import Codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_conformance.testee import Testee
    from kafka_corpus.wire import WireBatch
    from kafka_fuzz.outcome import Outcome
    from kafka_fuzz.targets import Target

# By the function: where a loop is when its time is over is chance.
BY_FUNCTION = frozenset({"hang", "memory"})


@dataclass(slots=True)
class Ends:
    """The unexpected ends of a target's codec.

    Attributes:
        watched: the target, as it has to be run to be counted.
        firsts: when each was first seen, in CPU-seconds.
        last: of the input under way.
    """

    codec: Codec
    watched: Target = field(init=False)
    firsts: dict[str, float] = field(default_factory=dict)
    last: str = ""

    @classmethod
    def of(cls, target: Target) -> Ends:
        """Of *target*, which has to be a codec; TypeError for the reference's promises."""
        codec = getattr(target.ask, "__self__", None)
        if not isinstance(codec, Codec):
            raise TypeError(f"{target.name} is no codec: nobody else's fuzzing could be compared")
        found = cls(codec)
        found.watched = replace(target, ask=replace(codec, testee=cast("Testee", found)).ask)
        return found

    def decode(self, data: bytes) -> Sequence[WireBatch]:
        """What the testee does, its exceptions looked at on the way out."""
        self.last = ""
        try:
            return self.codec.testee.decode(data)
        except CodecError as error:
            cause = error.__cause__
            if cause is not None and not self.codec.is_documented(cause):
                self.last = f"{type(cause).__name__} at {line_of(cause.__traceback__, self.codec.packages)}"
            raise

    def saw(self, outcome: Outcome, seconds: float) -> None:
        """Count what the input that was just run ended with."""
        end = f"{outcome.kind} in {outcome.function}" if outcome.kind in BY_FUNCTION else self.last
        if end:
            self.firsts.setdefault(end, round(seconds, 3))


def line_of(traceback: TracebackType | None, packages: tuple[str, ...]) -> str:
    """The innermost line of *packages* on the way to an exception, as `module:line`."""
    module, at = innermost_step(traceback, packages)
    return f"{module}:{at.tb_lineno}" if at else ""
