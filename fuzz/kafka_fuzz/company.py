"""Testees beside the one that a find is about: what they make of its input stays while that is made small.

They are asked as seldom as can be: about candidates only that show the find
itself.  Who cannot be had on this machine, or answers otherwise each time, is
left out, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from kafka_conformance.connect import CannotRun, connect
from kafka_fuzz.differential import worth
from kafka_fuzz.feed import Feed
from kafka_fuzz.outcome import Outcome
from kafka_fuzz.prepared import Prepared
from kafka_fuzz.reduce.predicates import as_mutant
from kafka_fuzz.vector import Judge

UNSTEADY: Final = "it answers otherwise each time"


class Company:
    """The verdicts of some testees on one input.

    Attributes:
        kinds: the class of each, which has to stay.
        left_out: those whose verdict need not, and why.
    """

    def __init__(self, feeds: Mapping[str, Feed], data: bytes) -> None:
        """Ask each of *feeds* twice about *data*."""
        self._feeds = dict(feeds)
        self.left_out: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        (first,), (again,) = self._told([data]), self._told([data])
        unsteady = [name for name in first if first[name] != again.get(name, first[name])]
        for name in unsteady:
            self._leave_out(name, UNSTEADY)
        self.kinds = {name: kind for name, kind in first.items() if name in self._feeds}

    def stays(self, many: Sequence[bytes], shows: Sequence[bool]) -> list[bool]:
        """Of *many*, those that show the find, and of which all make what they made of the first input."""
        told = iter(self._told([data for data, shown in zip(many, shows, strict=True) if shown]))
        return [shown and self._is_same(next(told)) for shown in shows]

    def _is_same(self, told: Mapping[str, str]) -> bool:
        return all(self.kinds[name] == kind for name, kind in told.items())

    def _told(self, many: Sequence[bytes]) -> list[dict[str, str]]:
        """The class of everybody's answer to each; who ends for good is left out from then on."""
        told: list[dict[str, str]] = [{} for _ in many]
        prepared = [Prepared(as_mutant(data)) for data in many]
        for name in [*self._feeds] if many else ():
            with self._or_left_out(name):
                self._feeds[name].post(list(many))
        for name in [*self._feeds] if many else ():
            with self._or_left_out(name):
                for each, outcome in zip(told, collected(self._feeds[name], prepared), strict=True):
                    each[name] = outcome.kind
        return told

    @contextmanager
    def _or_left_out(self, name: str) -> Iterator[None]:
        try:
            yield
        except CannotRun as error:
            self._leave_out(name, str(error))

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out[name] = why
        self.kinds.pop(name, None)
        del self._feeds[name]


def started(name: str) -> Feed | str:
    """The testee called *name*, or why it cannot be had here."""
    feed = None
    try:
        feed = Feed(connect(name))
        feed.open()
    except (CannotRun, ValueError) as error:
        if feed is not None:
            feed.close()
        return str(error)
    return feed


def outcomes_of(feeds: Sequence[Feed], many: Sequence[bytes]) -> list[list[Outcome]]:
    """What each of *feeds* makes of each input, which all are given before anybody is waited for.

    Raises:
        CannotRun: one of them does not run any more.
    """
    prepared = [Prepared(as_mutant(data)) for data in many]
    for feed in feeds:
        feed.post(list(many))
    return [collected(feed, prepared) for feed in feeds]


def collected(feed: Feed, prepared: Sequence[Prepared]) -> list[Outcome]:
    """What *feed* made of the inputs that it was given; `CannotRun` where it does not run any more."""
    judge = Judge(feed.connection.name)
    return [judge.outcome(each, worth(judge, each, seen)) for each, seen in zip(prepared, feed.collect(), strict=True)]
