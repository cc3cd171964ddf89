"""Who is asked while an input is reduced: a target in this process, or testees in theirs.

with asking("kafka-python", ["sarama"]) as who:
    small = who.reduced(data).data
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kafka_fuzz.outcome import Outcome
from kafka_fuzz.reduce.predicates import as_mutant, same_verdicts
from kafka_fuzz.reduce.search import DEFAULT, Budget, NotShown, Reduced, one_by_one, reduced
from kafka_fuzz.targets import TARGETS
from kafka_fuzz.targets.base import Target


class NoTarget(ValueError):
    """There is no such target, or it cannot be run here."""


class Asked(Protocol):
    """Somebody who can be asked about inputs."""

    def outcome(self, data: bytes) -> Outcome:
        """What the target makes of *data*, the reference saying what is right."""

    def reduced(self, data: bytes, *, budget: Budget = DEFAULT) -> Reduced:
        """*data* as small as it gets; NotShown where it shows nothing."""


class InProcess:
    """Targets in this process."""

    def __init__(self, target: Target, others: Sequence[Target]) -> None:
        self.target = target
        self.others = others

    def outcome(self, data: bytes) -> Outcome:
        """What the target makes of *data*."""
        return self.target.run(as_mutant(data))

    def reduced(self, data: bytes, *, budget: Budget = DEFAULT) -> Reduced:
        """*data* as small as it gets."""
        outcome, same = same_verdicts(self.target, data, self.others)
        if not outcome.is_find:
            raise NotShown(f"nothing is wrong with what it makes of that input ({outcome.kind})")
        return reduced(data, one_by_one(same), budget=budget, batch=1)


@contextmanager
def asking(name: str, others: Sequence[str] = ()) -> Iterator[Asked]:
    """The target called *name*, and *others* whose verdicts have to stay; NoTarget where one cannot be had."""
    yield InProcess(in_process(name), [in_process(other) for other in others])


def in_process(name: str) -> Target:
    """The target of that *name*; NoTarget."""
    try:
        return TARGETS[name]()
    except KeyError:
        raise NoTarget(f"there is no target of that name; there are {', '.join(TARGETS)}") from None
    except ImportError as error:
        raise NoTarget(str(error)) from error
