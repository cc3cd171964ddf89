"""A testee that is asked to write batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from kafka_conformance.asked import Question
from kafka_conformance.connect import connect
from kafka_conformance.observation import Observation
from kafka_conformance.protocol import HelloReply
from kafka_conformance.questions import beyond
from kafka_conformance.runner import tamed, trivial_decodes
from kafka_conformance.sandbox import Sandbox
from kafka_corpus.wire import to_wire
from kafka_fuzz.writing.values import Writing

# How often one value may end a testee's process, or keep it until its time is over.
ENOUGH: Final = 2


@dataclass(slots=True)
class Writer:
    """A testee that writes, and what it fell over."""

    name: str
    sandbox: Sandbox
    hello: HelloReply
    fallen: Counter[str] = field(default_factory=Counter)
    executions: int = 0
    skipped: int = 0

    @property
    def writes(self) -> bool:
        """Whether it says that it does."""
        return bool(self.hello.encode.magics)

    def asked(self, turn: Sequence[Writing]) -> list[tuple[Writing, Observation]]:
        """What became of those of *turn* that it can be asked."""
        wanted = [each for each in turn if beyond(each.case, self.hello) is None]
        spared = [each for each in wanted if self.fallen[each.value] < ENOUGH]
        self.skipped += len(wanted) - len(spared)
        self.executions += len(spared)
        answers = self.sandbox.ask([Question(to_wire(each.batch), family=each.value) for each in spared])
        return [(each, answered.observation) for each, answered in zip(spared, answers, strict=True)]


def started(name: str, stack: ExitStack) -> Writer:
    """The testee called *name*, until *stack* is closed.  Raises `BadConnect`, `CannotRun`."""
    sandbox = Sandbox(connect(name))
    stack.callback(sandbox.close)
    writer = Writer(name, sandbox, tamed(sandbox.hello()))
    if writer.writes:
        sandbox.calibrate(trivial_decodes())
    return writer
