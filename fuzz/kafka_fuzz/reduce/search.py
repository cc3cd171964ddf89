"""The reducer: an input made as small and as plain as it gets while it still shows the same.

Deterministic: the same input, predicate and budget give the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from kafka_fuzz.reduce.moves import flat, moves
from kafka_fuzz.reduce.shapes import Log, render, shape_of
from kafka_fuzz.reduce.sites import sites

Same: TypeAlias = Callable[[bytes], bool]
SameMany: TypeAlias = Callable[[Sequence[bytes]], Sequence[bool]]
# Where a search goes on: the size of the cuts and the first place, or the number of a move.
Cursor: TypeAlias = tuple[int, int]
START: Final[Cursor] = (0, 0)
# Candidates that a predicate for many is given at once.
BATCH: Final = 64
# Rounds over the whole tree; two or three do.
MOST_ROUNDS: Final = 12


class NotShown(ValueError):
    """The input does not show what it is said to show."""


class Budget(NamedTuple):
    """What reducing one input may take: candidates asked about, and wall-clock seconds."""

    runs: int = 20_000
    seconds: float = 60.0


DEFAULT: Final = Budget()


class Reduced(NamedTuple):
    """What came of it; *complete* unless the budget ran out."""

    data: bytes
    runs: int
    seconds: float
    complete: bool


class _Spent(Exception):
    """No more candidates."""


def reduce(data: bytes, same: Same, *, budget: Budget = DEFAULT) -> bytes:
    """The smallest bytes that were found for which *same* holds as for *data*.

    Raises:
        NotShown: *same* does not hold for *data* itself.
    """
    return reduced(data, one_by_one(same), budget=budget, batch=1).data


def one_by_one(same: Same) -> SameMany:
    """A predicate over one candidate, for many; to be asked with batches of one."""
    return lambda many: [same(each) for each in many]


def reduced(data: bytes, same: SameMany, *, budget: Budget = DEFAULT, batch: int = BATCH) -> Reduced:
    """The same for a predicate over many candidates at once, which may be another process; and what it took."""
    search = _Search(same, budget, batch, shape_of(data), data)
    if not search.ask([data])[0]:
        raise NotShown("the input does not show it")
    try:
        search.run()
        complete = True
    except _Spent:
        complete = False
    best = search.data if len(search.data) <= len(data) else data
    return Reduced(best, search.runs, time.monotonic() - search.started, complete)


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
        """Cut and simplify until neither finds anything."""
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
        """Take away what one site can spare; whether there is such a site."""
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
        """Take bytes from the end, and mend nothing."""
        size = len(self.data) // 2
        while size:
            cut = Log((), self.data[: len(self.data) - size])
            if self.first(iter([(START, cut)])) is None:
                size //= 2
            size = min(size, len(self.data) // 2)

    def first(self, candidates: Iterator[tuple[Cursor, Log]]) -> Cursor | None:
        """Go on with the first candidate that shows the same; where to go on, or None if there was none."""
        unseen = self._unseen(candidates)
        while some := list(islice(unseen, self.batch)):
            verdicts = self.ask([data for _, _, data in some])
            # One that shows it too, but comes too late, may be asked about again.
            self.tried.update(data for (_, _, data), shows in zip(some, verdicts, strict=True) if not shows)
            for (cursor, log, data), shows in zip(some, verdicts, strict=True):
                if shows:
                    self.log, self.data = log, data
                    return cursor
        return None

    def _unseen(self, candidates: Iterator[tuple[Cursor, Log]]) -> Iterator[tuple[Cursor, Log, bytes]]:
        for cursor, log in candidates:
            data = render(log)
            # The same bytes may be seen otherwise: unpacked, or with less that is kept as it was.
            if log != self.log if data == self.data else data not in self.tried:
                yield cursor, log, data

    def ask(self, many: Sequence[bytes]) -> Sequence[bool]:
        """The predicate's answers."""
        left = self.budget.runs - self.runs
        if left <= 0 or time.monotonic() - self.started > self.budget.seconds:
            raise _Spent
        self.runs += len(many)
        return self.same(many)
