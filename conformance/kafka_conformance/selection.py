"""Which cases: `--only` takes ids, functions, areas, rules, and patterns of them."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_corpus.case import Case
from kafka_corpus.vectors import matches


def select(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """The cases that one of *only* names, by id or by rule; all of them if there is none."""
    if not only:
        return list(cases)
    return [case for case in cases if any(_named(case, pattern) for pattern in only)]


def _named(case: Case, pattern: str) -> bool:
    return matches(pattern, case.id) or any(matches(pattern, rule) for rule in case.rules)
