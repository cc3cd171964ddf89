"""Which testees a target asks: those that it names, or all that can run here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_conformance.connect.known import everyone
from kafka_conformance.testees.built import is_built


def testees_of(target: str) -> tuple[str, ...]:
    """The connect strings in *target*, in their order.

    >>> testees_of("differential:sarama,process:./mine --fast")
    ('sarama', 'process:./mine --fast')
    """
    named = target.partition(":")[2]
    return tuple(filter(None, named.split(","))) if named else tuple(ready())


def not_asked(target: str, cannot_run: Mapping[str, str], executions: Mapping[str, int]) -> str:
    """Why testees that *target* names were asked nothing at all, by what is known of them; empty where none is named.

    >>> not_asked("differential:a,b,c", {"a": "it died", "b": "no jar"}, {"a": 9, "c": 9})
    'b did not run: no jar'
    """
    if not target.partition(":")[2]:
        return ""
    return "; ".join(f"{name} did not run: {why}" for name, why in cannot_run.items() if not executions.get(name))


def ready() -> Iterator[str]:
    """The known testees that can run here as they are, but for the reference."""
    for known in everyone():
        if known.name != "reference" and not known.missing() and (known.recipe is None or is_built(known.recipe)):
            yield known.name
