"""Testees asked in turn: the same inputs give the same finds, however crowded the machine is.

`Differential` lets nobody wait for anybody: who is slow is not asked every
batch, and what a testee is spared depends on when its answers came.  Here each
batch goes to one testee after the other, and nothing is measured, so that a
round can be done again somewhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafka_conformance.asked import Question
from kafka_conformance.connect import CannotRun, Connection
from kafka_fuzz.differential import Batch, Differential, Judgement, Testee, batch_of
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.vector import NOT_ASKED


class InTurn(Differential):
    """A session in which everybody is asked everything that it is not spared."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        super().__init__(connections)
        self.posts = False

    def __enter__(self) -> InTurn:
        """Start the testees.  Raises `CannotRun` where one does not start: a vector with a gap is another one."""
        super().__enter__()
        if self.cannot_run:
            self.__exit__()
            raise CannotRun("; ".join(self.cannot_run.values()))
        return self

    def run(self, mutants: Iterator[Mutant], go_on: Callable[[], bool]) -> Iterator[Judgement]:
        """See `Differential`; the vector of each input comes behind the finds of its batch."""
        while go_on() and (batch := batch_of(mutants)):
            self.inputs += len(batch)
            classes: list[dict[str, str]] = [{} for _ in batch]
            for testee in self.testees:
                yield from self._asked(testee, batch, classes)
            for prepared, each in zip(batch, classes, strict=True):
                vector = self.vectors.vector(each)
                yield Judgement(prepared.mutant, vector, new=self.novelty(prepared.mutant, vector))

    def _asked(self, testee: Testee, batch: Batch, classes: list[dict[str, str]]) -> Iterator[Judgement]:
        """What one testee makes of a batch: finds, and the class of each answer."""
        asked = [index for index, prepared in enumerate(batch) if testee.wants(prepared)]
        answers = testee.feed.ask([Question(batch[index].mutant.data) for index in asked])
        testee.feed.executions += len(asked)
        for index, answered in zip(asked, answers, strict=True):
            prepared = batch[index]
            told = testee.judge.told(prepared, answered.observation)
            testee.learn(prepared, told)
            if told.detail == NOT_ASKED:
                continue
            classes[index][testee.judge.name] = told.kind
            outcome = testee.judge.outcome(prepared, told)
            if outcome.is_find:
                yield Judgement(prepared.mutant, outcomes=(outcome,))
