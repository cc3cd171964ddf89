"""Testees that write, asked while a batch that one stumbles over is made small."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Final

import msgspec

from kafka_conformance.connect import BadConnect, CannotRun
from kafka_corpus.wire import WireBatch, from_wire, to_wire
from kafka_fuzz.outcome import Outcome
from kafka_fuzz.reduce.predicates import Verdicts
from kafka_fuzz.reduce.search import DEFAULT, Budget, NotShown
from kafka_fuzz.reduce.worker import Done
from kafka_fuzz.writing.judging import outcome_of
from kafka_fuzz.writing.simpler import simpler
from kafka_fuzz.writing.values import Writing, writing
from kafka_fuzz.writing.writer import Writer, started
from kafka_records import Batch, RecordFormatError

# Candidates that a testee is asked to write at once.
MANY: Final = 16


def batch_of(data: bytes) -> Batch:
    """The batch in *data*, as finds of writers keep it; ValueError where there is none."""
    try:
        return from_wire(msgspec.json.decode(data, type=WireBatch))
    except (msgspec.MsgspecError, RecordFormatError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no batch to be written: {error}") from None


def data_of(batch: Batch) -> bytes:
    """*batch* as finds keep it."""
    return msgspec.json.encode(to_wire(batch))


class Writers:
    """The testee whose find it is, and others whose verdict has to stay."""

    def __init__(self, specs: Sequence[str]) -> None:
        """Start them.  Raises `BadConnect`, `CannotRun`."""
        self._stack = ExitStack()
        try:
            self.writers = [started(spec, self._stack) for spec in specs]
        except (BadConnect, CannotRun):
            self.close()
            raise
        self.version = self.writers[0].hello.version

    def verdicts(self, many: Sequence[Batch]) -> list[tuple[Outcome, Verdicts]]:
        """What everybody makes of each; what a testee cannot be asked is no find of it."""
        asked = [writing(batch, "", "") for batch in many]
        first, *others = ([*_outcomes(writer, asked)] for writer in self.writers)
        return [
            (outcome, Verdicts(each.rule, outcome.bucket, tuple(rest[at].kind for rest in others)))
            for at, (outcome, each) in enumerate(zip(first, asked, strict=True))
        ]

    def reduced(self, data: bytes, *, budget: Budget = DEFAULT, company: Sequence[str] = ()) -> Done:
        """*data*, a batch, as small and plain as it gets; finds of writers have no company.

        Raises:
            NotShown: it is none, or nothing is wrong with what is made of it.
        """
        del company
        try:
            best = batch_of(data)
        except ValueError as error:
            raise NotShown(str(error)) from None
        ((outcome, wanted),) = self.verdicts([best])
        if not outcome.is_find:
            raise NotShown("it shows nothing any more")
        began, runs, tried, complete = time.monotonic(), 1, {best}, True
        candidates = simpler(best)
        while some := list(islice((each for each in candidates if each not in tried), MANY)):
            if runs >= budget.runs or time.monotonic() - began > budget.seconds:
                complete = False
                break
            runs += len(some)
            tried.update(some)
            shown = [each for each, (_, told) in zip(some, self.verdicts(some), strict=True) if told == wanted]
            if shown:
                best, candidates = shown[0], simpler(shown[0])
                tried.difference_update(shown[1:])
        ((outcome, _),) = self.verdicts([best])
        return Done(data_of(best), outcome, runs, time.monotonic() - began, complete)

    def close(self) -> None:
        """End them."""
        self._stack.close()


def _outcomes(writer: Writer, asked: Sequence[Writing]) -> Iterator[Outcome]:
    seen = {id(each): observed for each, observed in writer.asked(asked)}
    for each in asked:
        yield outcome_of(writer.name, each, seen[id(each)]) if id(each) in seen else Outcome(writer.name, "ok")
