"""How long a testee may take, by what it does meanwhile."""

from dataclasses import dataclass

import pytest

from kafka_conformance import patience
from kafka_conformance.process_group import Watch

MIB = 1 << 20
MEMORY = 1024 * MIB


@dataclass
class Seen:
    """What a watch saw."""

    idle: bool = False
    memory: int = 50 * MIB
    more: int = 0
    _early: int = 50 * MIB
    holds = Watch.holds
    held_early = Watch.held_early


ASLEEP, SPINS = Seen(idle=True), Seen()
GROWS = Seen(more=100 * MIB)
MUCH, FAST = Seen(memory=600 * MIB, more=500 * MIB), Seen(memory=600 * MIB, more=500 * MIB, _early=520 * MIB)


@pytest.mark.parametrize(
    ("seen", "seconds", "known", "heavy"),
    [
        (ASLEEP, 0.5, 0.5, 6.0),
        (SPINS, 0.75, 0.5, 16.0),
        (GROWS, 1.5, 1.5, 16.0),
        (MUCH, 1.5, 1.5, 6.0),
        (FAST, 1.5, 1.5, 2.0),
    ],
)
def test_seconds_by_what_it_does(seen: Watch, seconds: float, known: float, heavy: float) -> None:
    """Who sleeps has the least time, who takes memory more than who spins; who took very much at once has enough."""
    assert patience.plain(0.5, MEMORY).of(seen) == seconds
    assert patience.plain(0.5, MEMORY, known=True).of(seen) == known
    assert patience.heavy(0.5, MEMORY).of(seen) == heavy


def test_a_slow_testee_has_more_time() -> None:
    """All limits of a question as stored grow with what trivial ones take; a heavy one has no less than that."""
    assert patience.plain(2.0, MEMORY).of(SPINS) == 3.0
    assert patience.heavy(20.0, MEMORY).of(ASLEEP) == 20.0
    assert patience.Limit(3.0).of(GROWS) == 3.0
