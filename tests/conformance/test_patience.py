"""How long a testee may take, by what it does meanwhile."""

import os

import pytest

from kafka_conformance import patience
from kafka_conformance.process_group import Watch

MIB = 1 << 20
MEMORY = 1024 * MIB


def seen(*, idle: bool = False, memory: int = 50 * MIB, more: int = 0, early: int = 50 * MIB) -> Watch:
    """A watch that has looked, and saw that."""
    watch = Watch(os.getpid())
    watch.idle, watch.memory, watch.more, watch.early = idle, memory, more, early
    return watch


ASLEEP, SPINS, GROWS = seen(idle=True), seen(), seen(more=100 * MIB)
MUCH = seen(memory=600 * MIB, more=500 * MIB)
FAST = seen(memory=600 * MIB, more=500 * MIB, early=520 * MIB)


@pytest.mark.parametrize(
    ("watch", "seconds", "known", "heavy"),
    [
        (ASLEEP, 0.5, 0.5, 6.0),
        (SPINS, 0.75, 0.5, 16.0),
        (GROWS, 1.5, 1.5, 16.0),
        (MUCH, 1.5, 1.5, 6.0),
        (FAST, 1.5, 1.5, 2.0),
    ],
)
def test_seconds_by_what_it_does(watch: Watch, seconds: float, known: float, heavy: float) -> None:
    """Who sleeps has the least time, who takes memory more than who spins; who took very much at once has enough."""
    assert patience.plain(0.5, MEMORY).of(watch) == seconds
    assert patience.plain(0.5, MEMORY, known=True).of(watch) == known
    assert patience.heavy(0.5, MEMORY).of(watch) == heavy


def test_a_slow_testee_has_more_time() -> None:
    """All limits of a question as stored grow with what trivial ones take; a heavy one has no less than that."""
    assert patience.plain(2.0, MEMORY).of(SPINS) == 3.0
    assert patience.heavy(20.0, MEMORY).of(ASLEEP) == 20.0
    assert patience.Limit(3.0).of(GROWS) == 3.0
