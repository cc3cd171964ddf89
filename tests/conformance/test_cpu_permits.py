"""Places at work: who goes first, and who is sent away."""

import threading
import time
from collections.abc import Callable

import pytest

from kafka_conformance.judge.observation import Decoded
from kafka_conformance.process.cpu_permits import SMALL, CpuPermit, CpuPermits
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import ConnectionSpec

Script = Callable[..., ConnectionSpec]
Make = Callable[..., Sandbox]


def test_the_lowest_rank_goes_first() -> None:
    """A place that becomes free goes to the lowest rank, and who gives its own up for others keeps it if it is that."""
    slots, stop, order = CpuPermits(1), threading.Event(), []
    first = CpuPermit(slots, (0, 0), stop)
    assert first.take()
    waiting = [CpuPermit(slots, (rank, 0), stop) for rank in (3, 2)]

    def wait(turn: CpuPermit, rank: int) -> None:
        turn.take()
        order.append(rank)
        turn.give()

    threads = [threading.Thread(target=wait, args=each) for each in zip(waiting, (3, 2), strict=True)]
    for thread in threads:
        thread.start()
    while len(slots._line) < 2:
        threading.Event().wait(0.001)

    assert first.pass_on()
    assert order == []
    first.give()
    for thread in threads:
        thread.join()
    assert order == [2, 3]


def test_who_waits_is_sent_away() -> None:
    """Those who wait under a stop get no place once it is called; the place is for the others."""
    slots, stop = CpuPermits(1), threading.Event()
    held = CpuPermit(slots, (0,), threading.Event())
    assert held.take()
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(CpuPermit(slots, (1,), stop).take()))
    thread.start()
    while not slots._line:
        threading.Event().wait(0.001)
    slots.stop(stop)
    thread.join()
    held.give()

    assert got == [False]
    assert CpuPermit(slots, (2,), threading.Event()).take()


@pytest.mark.slow
def test_standing_in_line_for_a_place_is_no_time_of_the_testee(script: Script, sandbox: Make) -> None:
    """The reported time excludes the time in which a worker waits for a permit."""
    slots, stop = CpuPermits(1), threading.Event()
    turn = CpuPermit(slots, (1,), stop)
    made = sandbox(script("time.sleep(0.3)\n" + "reply(id=id, batches=[])")).another(turn)
    turn.take()
    made.hello()
    held: list[float] = []

    def other() -> None:
        began = time.monotonic()
        slots.take((0,), stop)  # which it gets while the testee sleeps
        time.sleep(1)
        held.append(time.monotonic() - began)
        slots.give()

    thread = threading.Thread(target=other)
    thread.start()
    made.seconds = 5
    began = time.monotonic()
    answer = next(made.ask([CaseRequest(b"fine")]))
    thread.join()
    made.close()

    assert answer.observation == Decoded(())
    assert answer.seconds < (time.monotonic() - began) - 0.5
    assert held


def test_large_testees_that_wait_fill_no_more_than_their_part() -> None:
    """A worker keeps its permit if the memory of those that wait would be too much; small testees are not counted."""
    slots, stop = CpuPermits(3, memory=2 * SMALL), threading.Event()
    turns = [CpuPermit(slots, (rank,), stop) for rank in range(3)]
    assert all(turn.take() for turn in turns)

    turns[0].lend(SMALL + 1)
    turns[1].lend(SMALL)  # there is room for less than that
    turns[2].lend(SMALL - 1)
    assert [turn._held for turn in turns] == [False, True, False]

    assert turns[0].take()  # it waits no longer
    turns[1].lend(SMALL)
    assert [turn._held for turn in turns] == [True, False, False]
