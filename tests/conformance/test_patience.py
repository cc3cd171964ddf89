"""How long a testee may take, by what it does meanwhile."""

import os
from collections.abc import Callable

import pytest

from kafka_conformance import patience
from kafka_conformance.connect import Connection
from kafka_conformance.process_group import MOST_BETWEEN, Watch
from kafka_conformance.sandbox import Sandbox

Script = Callable[..., Connection]
Make = Callable[..., Sandbox]

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
        (SPINS, 0.75, 0.25, 16.0),
        (GROWS, 1.5, 0.75, 16.0),
        (MUCH, 1.5, 0.75, 6.0),
        (FAST, 1.5, 0.75, 2.0),
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


def test_a_pause_of_the_whole_machine_is_no_time_of_the_testee(script: Script, sandbox: Make) -> None:
    """Half a minute in which nobody looked, because nobody ran, counts no more than a moment."""
    made = sandbox(script("time.sleep(60)"))
    made.hello()
    assert made._child is not None
    watch = Watch(made._child.pid)
    watch._at -= 30
    watch.look()

    assert MOST_BETWEEN <= watch.own_seconds() < 2 * MOST_BETWEEN
