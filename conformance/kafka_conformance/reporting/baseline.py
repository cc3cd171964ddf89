"""What became better or worse from one run to another, case by case.

Only the outcome counts: whoever is wrong in another way is `changed`.  To skip
what was answered wrong is no improvement, and to skip what was right is worse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from kafka_conformance.judge import SEVERITIES, Outcome, rank
from kafka_conformance.results import Line, Results

Kind = Literal[
    "worse",  # it disagrees more gravely, or answers no more what was right
    "better",  # it disagrees less gravely, or not at all
    "changed",  # as wrong as before, in another way; or wrong before and now skipped
    "new",  # it disagrees in a case that was not asked before
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Change:
    """One case that is not as it was; *before* is None if it was not asked then."""

    kind: Kind
    before: Line | None
    now: Line

    @property
    def case(self) -> str:
        """The id of the case."""
        return self.now.case


def changes(old: Results, new: Results) -> tuple[Change, ...]:
    """The cases that differ, worse ones first."""
    before = {line.case: line for line in old.lines}
    found = [change for line in new.lines if (change := _change(before.get(line.case), line))]
    return tuple(sorted(found, key=lambda each: (KINDS.index(each.kind), rank(each.now.outcome), each.case)))


def _change(before: Line | None, now: Line) -> Change | None:
    if before is None:
        return Change("new", None, now) if now.outcome in SEVERITIES else None
    kind = _kind(before.outcome, now.outcome)
    if kind is None and now.outcome in SEVERITIES and shape(before) != shape(now):
        kind = "changed"
    return None if kind is None else Change(kind, before, now)


def _kind(before: Outcome, now: Outcome) -> Kind | None:
    if before == now:
        return None
    if before == "agree" or now == "agree":
        return "worse" if before == "agree" else "better"
    if now == "skipped":
        return "changed"
    # What is wrong now and was skipped before had not been looked at.
    return "worse" if before == "skipped" or rank(now) < rank(before) else "better"


def shape(line: Line) -> str:
    """Where a case is wrong, without the numbers of elements."""
    return re.sub(r"\[\d+\]", "[]", line.field)


def counts(found: Sequence[Change]) -> dict[Kind, int]:
    """How many changes there are of each kind."""
    counter = Counter(change.kind for change in found)
    return {kind: counter[kind] for kind in KINDS}


def matching(new: Sequence[Results], old: Sequence[Results]) -> list[Results | None]:
    """The one of *old* that is of the same testee, for each of *new*.

    Testees are the same if they are reached alike (`NAME@VERSION` as `NAME`), or
    if name and language fit and nobody else's do; one run and one other are
    compared whatever they are called.
    """
    if len(new) == len(old) == 1:
        return [old[0]]
    return [_partner(each, new, old) for each in new]


def _partner(one: Results, new: Sequence[Results], old: Sequence[Results]) -> Results | None:
    for key in (_connect, _name_and_language):
        mine = [each for each in new if key(each) == key(one)]
        fitting = [each for each in old if key(each) == key(one)]
        if len(mine) == len(fitting) == 1:
            return fitting[0]
    return None


def _connect(done: Results) -> str:
    connect = str(done.header.testee.get("connect"))
    return connect.partition("@")[0] if re.fullmatch(r"[a-z0-9_-]+@[^\s:/]+", connect) else connect


def _name_and_language(done: Results) -> tuple[str, str]:
    return str(done.header.testee.get("name")), str(done.header.testee.get("language"))
