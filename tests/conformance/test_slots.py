"""Places at work: who goes first, and who is sent away."""

import threading

from kafka_conformance.slots import Slots, Turn


def test_the_lowest_rank_goes_first() -> None:
    """A place that becomes free goes to the lowest rank, and who gives its own up for others keeps it if it is that."""
    slots, stop, order = Slots(1), threading.Event(), []
    first = Turn(slots, (0, 0), stop)
    assert first.take()
    waiting = [Turn(slots, (rank, 0), stop) for rank in (3, 2)]

    def wait(turn: Turn, rank: int) -> None:
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
    slots, stop = Slots(1), threading.Event()
    held = Turn(slots, (0,), threading.Event())
    assert held.take()
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(Turn(slots, (1,), stop).take()))
    thread.start()
    while not slots._line:
        threading.Event().wait(0.001)
    slots.stop(stop)
    thread.join()
    held.give()

    assert got == [False]
    assert Turn(slots, (2,), threading.Event()).take()
