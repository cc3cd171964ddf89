"""Shrink an input while its outcome tuple stays equal.

Deterministic: the same input, predicate and budget give the same bytes.

The fault that made an input does not survive the first cut, so what is right about
a candidate is what the reference says of it, and its answer is part of the
verdict: an input does not drift from one broken rule to another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import msgspec

import kafka_records
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell
from kafka_fuzz.shrink.tree import Log, flat, moves, render, shape_of, sites
from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.codecs import LIMITS
from kafka_fuzz.targets.outcome import Outcome
from kafka_records import RecordFormatError

Same: TypeAlias = Callable[[bytes], bool]
SameMany: TypeAlias = Callable[[Sequence[bytes]], Sequence[bool]]
# Where a search continues: the size of the cuts and the first position, or the index of a move.
Cursor: TypeAlias = tuple[int, int]
START: Final[Cursor] = (0, 0)
# Candidates that a predicate for many is given at once.
BATCH: Final = 64
# The limit of rounds over the whole tree; two or three are usual.
MOST_ROUNDS: Final = 12


# Why an input is not shrunk if the target no longer shows its finding; triage then calls it gone.
NOT_REPRODUCED: Final = "the finding is not reproduced"


class NotShown(ValueError):
    """The predicate does not hold for the input itself."""


class Budget(NamedTuple):
    """The limits of shrinking one input: candidates tested, and wall-clock seconds."""

    runs: int = 20_000
    seconds: float = 60.0


DEFAULT: Final = Budget()


class ShrinkResult(NamedTuple):
    """The result of shrinking; *complete* unless the budget ran out."""

    data: bytes
    runs: int
    seconds: float
    complete: bool


class _Spent(Exception):
    """The budget is used up."""


def shrink(data: bytes, same: Same, *, budget: Budget = DEFAULT) -> bytes:
    """The smallest bytes that were found for which *same* holds as for *data*.

    Raises:
        NotShown: *same* does not hold for *data* itself.
    """
    return shrink_input(data, one_by_one(same), budget=budget, batch=1).data


def one_by_one(same: Same) -> SameMany:
    """A predicate over one candidate, for many; to be called with batches of one."""
    return lambda many: [same(each) for each in many]


def shrink_input(data: bytes, same: SameMany, *, budget: Budget = DEFAULT, batch: int = BATCH) -> ShrinkResult:
    """The same for a predicate over many candidates at once, which may be another process; and what it took."""
    search = _Search(same, budget, batch, shape_of(data), data)
    if not search.ask([data])[0]:
        raise NotShown("its outcome differs from run to run")
    try:
        search.run()
        complete = True
    except _Spent:
        complete = False
    best = search.data if len(search.data) <= len(data) else data
    return ShrinkResult(best, search.runs, time.monotonic() - search.started, complete)


@dataclass(slots=True)
class _Search:
    same: SameMany
    budget: Budget
    batch: int
    log: Log
    data: bytes
    runs: int = 0
    tried: set[bytes] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Cut and simplify until neither makes the input smaller or plainer."""
        self.cut_site(0)
        for _ in range(MOST_ROUNDS):
            before = self.data
            self.simplify()
            self.cut()
            if self.data == before:
                break
        self.log = flat(self.log)
        self.cut()
        self.truncate()

    def cut(self) -> None:
        """Every site in turn; the list grows shorter below while it is gone through."""
        number = 0
        while self.cut_site(number):
            number += 1

    def cut_site(self, number: int) -> bool:
        """Cut one site as far as possible; returns whether the site exists."""
        if next(islice(sites(self.log), number, None), None) is None:
            return False
        cursor: Cursor | None = START
        while cursor is not None:
            cursor = self.first(self._cuts(number, cursor))
        return True

    def _cuts(self, number: int, cursor: Cursor) -> Iterator[tuple[Cursor, Log]]:
        site = next(islice(sites(self.log), number, None))
        size, at = cursor
        # The size shrinks with what is left, and never grows again.
        size = min(size, site.length) or site.length
        while size:
            while at < site.length:
                yield (size, at), site.cut(at, min(at + size, site.length))
                at += size
            size, at = (0 if size == 1 else (size + 1) // 2), 0

    def simplify(self) -> None:
        """Every move in turn, until none is left."""
        cursor: Cursor | None = START
        while cursor is not None:
            cursor = self.first(self._moves(cursor))

    def _moves(self, cursor: Cursor) -> Iterator[tuple[Cursor, Log]]:
        for number, log in enumerate(moves(self.log)):
            if number >= cursor[1]:
                yield (0, number), log

    def truncate(self) -> None:
        """Cut bytes from the end, without a fix-up."""
        size = len(self.data) // 2
        while size:
            cut = Log((), self.data[: len(self.data) - size])
            if self.first(iter([(START, cut)])) is None:
                size //= 2
            size = min(size, len(self.data) // 2)

    def first(self, candidates: Iterator[tuple[Cursor, Log]]) -> Cursor | None:
        """Accept the first candidate for which the predicate holds; returns its cursor, or None."""
        unseen = self._unseen(candidates)
        while some := list(islice(unseen, self.batch)):
            verdicts = self.ask([data for _, _, data in some])
            # A candidate that holds too, but comes too late, may be tested again.
            self.tried.update(data for (_, _, data), shows in zip(some, verdicts, strict=True) if not shows)
            for (cursor, log, data), shows in zip(some, verdicts, strict=True):
                if shows:
                    self.log, self.data = log, data
                    return cursor
        return None

    def _unseen(self, candidates: Iterator[tuple[Cursor, Log]]) -> Iterator[tuple[Cursor, Log, bytes]]:
        for cursor, log in candidates:
            data = render(log)
            # The same bytes may have another tree: unpacked, or with fewer kept fields.
            if log != self.log if data == self.data else data not in self.tried:
                yield cursor, log, data

    def ask(self, many: Sequence[bytes]) -> Sequence[bool]:
        """The predicate's answers."""
        left = self.budget.runs - self.runs
        if left <= 0 or time.monotonic() - self.started > self.budget.seconds:
            raise _Spent
        self.runs += len(many)
        return self.same(many)


# A target as a function of bytes.
Run: TypeAlias = Callable[[bytes], Outcome]
NO_CELL: Final = MutantCell(-1, "", "", "", NO_FAULT, "entry", "only")
# CPU-seconds after which a candidate counts as a hang; small inputs take a tenth of a millisecond.
SHORT_SECONDS: Final = 0.05


class Verdicts(NamedTuple):
    """An outcome tuple: the reference's verdict, the target's bucket, the outcome classes of the others."""

    reference: str
    bucket: str
    others: tuple[str, ...] = ()


def as_mutant(data: bytes) -> Mutant:
    """*data* as a mutant without a known fault."""
    return Mutant(data, "bytes", (), None, NO_CELL)


def reference_verdict(data: bytes, *, exact: bool) -> str:
    """`ok`, or that the reference refuses *data*; *exact* distinguishes refusals by kind and rule."""
    try:
        kafka_records.decode(data, limits=LIMITS)
    except RecordFormatError as error:
        return f"{error.kind} {error.rule}" if exact else "refused"
    return "ok"


def verdicts(run: Run, data: bytes, others: Sequence[Run] = ()) -> Verdicts:
    """The outcomes of a target, the reference and *others* on *data*."""
    return with_reference(run(data), data, tuple(other(data).kind for other in others))


def with_reference(outcome: Outcome, data: bytes, others: tuple[str, ...] = ()) -> Verdicts:
    """A target's outcome and those of *others* as one outcome tuple with the reference's."""
    # Accepted invalid input has no function to identify it by: the broken rule stands for it.
    exact = outcome.kind == "accepts_invalid"
    # A loop over several functions is stopped in any of them; for testees the broken rule identifies it.
    anywhere = outcome.kind == "hang" and "." in outcome.function
    bucket = msgspec.structs.replace(outcome, function="").bucket if anywhere else outcome.bucket
    return Verdicts(reference_verdict(data, exact=exact), bucket, others)


def runner(target: Target) -> Run:
    """*target* in this process, as a function of bytes."""
    return lambda data: target.run(as_mutant(data))


def same_verdicts(target: Target, data: bytes, others: Sequence[Target] = ()) -> tuple[Outcome, Same]:
    """The outcome of *target* on *data* in this process, and a predicate: the bytes have the same verdicts.

    The time limit of a hang is much shorter than in a campaign, because shrinking would take minutes.
    """
    outcome = target.run(as_mutant(data))
    if outcome.kind == "hang":
        target = replace(target, limit=SHORT_SECONDS)
    run, rest = runner(target), [runner(other) for other in others]
    wanted = verdicts(run, data, rest)
    return outcome, lambda candidate: verdicts(run, candidate, rest) == wanted
