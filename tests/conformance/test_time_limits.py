"""How long a testee may take, by what it does meanwhile."""

import os
import select
from collections.abc import Callable

import pytest
from tests.conformance.misbehaving import REPLY

from kafka_conformance.process import time_limits
from kafka_conformance.process.cpu_time import MOST_BETWEEN, Usage, Watch
from kafka_conformance.runner.requests import CaseRequest, request_for
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_corpus.vectors import load_vectors

Script = Callable[..., ConnectionSpec]
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
CLOSE = seen(memory=640 * MIB, more=590 * MIB)
FAST = seen(memory=600 * MIB, more=500 * MIB, early=520 * MIB)


@pytest.mark.parametrize(
    ("watch", "seconds", "known", "heavy"),
    [
        (ASLEEP, 0.5, 0.5, 6.0),
        (SPINS, 0.75, 0.2, 8.0),
        (GROWS, 1.5, 0.3, 8.0),
        (MUCH, 1.5, 0.3, 6.0),
        (CLOSE, 1.5, 0.3, 4.0),
        (FAST, 1.5, 0.3, 2.0),
    ],
)
def test_seconds_by_what_it_does(watch: Watch, seconds: float, known: float, heavy: float) -> None:
    """A sleeping testee has the shortest limit, one that takes memory the longest; much memory shortens it."""
    assert time_limits.plain_limit(0.5, MEMORY).of(watch) == seconds
    assert time_limits.plain_limit(0.5, MEMORY, known=True).of(watch) == known
    assert time_limits.heavy_limit(0.5, MEMORY).of(watch) == heavy


def test_a_known_hang_over_a_heavy_question_has_less_time() -> None:
    """Whatever it does, three seconds; who holds very much has two."""
    limits = [
        time_limits.heavy_limit(0.5, MEMORY, known=True).of(watch)
        for watch in (ASLEEP, SPINS, GROWS, MUCH, CLOSE, FAST)
    ]

    assert limits == [3.0] * 5 + [2.0]


def test_what_keeps_kafkas_own_client_at_work_has_twice_the_time() -> None:
    """All limits of the cases in `LARGE` are twice those of other heavy cases, whether or not memory is taken."""
    cases = {case.id: case for case in load_vectors() if case.id.startswith("resources.flood_of_")}
    large = [cases[name] for name in time_limits.LARGE]
    others = [case for case in cases.values() if case.id not in time_limits.LARGE]
    assert large
    assert others

    for watch in (ASLEEP, SPINS, GROWS, MUCH, CLOSE, FAST):
        longer = time_limits.heavy_limit(0.5, MEMORY, factor=time_limits.LARGE_FACTOR).of(watch)
        assert longer == 2 * time_limits.heavy_limit(0.5, MEMORY).of(watch)
    assert {(request_for(case).heavy, request_for(case).time_factor) for case in large} == {(True, 2.0)}
    assert {request_for(case).time_factor for case in others} == {1.0}


def test_a_large_question_is_waited_for(sandbox: Make, script: Script) -> None:
    """The factor multiplies the limits of a heavy request, and of no other."""
    made = sandbox(script(REPLY))
    made.hello()
    limits = [made._limit(CaseRequest(b"", heavy=heavy, time_factor=2.0)).seconds for heavy in (True, False)]

    assert limits == [12.0, made.seconds]


def test_a_slow_testee_has_more_time() -> None:
    """All limits of a question as stored grow with what trivial ones take; a heavy one has no less than that."""
    assert time_limits.plain_limit(2.0, MEMORY).of(SPINS) == 3.0
    assert time_limits.heavy_limit(20.0, MEMORY).of(ASLEEP) == 20.0
    assert time_limits.heavy_limit(20.0, MEMORY, known=True).of(ASLEEP) == 20.0
    assert time_limits.TimeLimit(3.0).of(GROWS) == 3.0


def test_a_pause_of_the_whole_machine_is_no_time_of_the_testee(script: Script, sandbox: Make) -> None:
    """A gap of 30 s between two samples, in which the whole machine stood still, counts as one short interval."""
    made = sandbox(script("time.sleep(60)"))
    made.hello()
    assert made._child is not None
    watch = Watch(made._child.pid)
    watch._at -= 30
    watch.look()

    assert watch._first is not None
    assert watch._last is not None
    # A crowded machine lets the testee wait for a CPU, which is no time of its own either.
    queued = watch._last.queued - watch._first.queued
    assert MOST_BETWEEN - queued <= watch.own_seconds() < 2 * MOST_BETWEEN


@pytest.mark.parametrize(("passed", "together", "own"), [(12.0, True, 5.0), (4.0, True, 4.0), (10.0, False, 2.0)])
def test_what_threads_work(passed: float, together: bool, own: float) -> None:
    """The CPU time of all threads is summed, up to the elapsed time; or the busiest thread counts."""
    watch = Watch(os.getpid())
    watch._passed = passed
    watch._first = Usage(seconds=1.0, queued=0.0, memory=0, runnable=True, threads={"1": 1.0, "2": 0.0})
    watch._last = Usage(seconds=6.0, queued=9.0, memory=0, runnable=True, threads={"1": 3.0, "2": 1.5, "3": 1.5})

    assert watch.own_seconds(together=together) == own


@pytest.mark.parametrize(("queued", "waits", "own"), [(0.0, 0.0, 1.0), (0.5, 0.25, 0.25), (0.5, 0.5, 0.125)])
def test_waiting_for_a_processor_is_no_time_of_its_own(queued: float, waits: float, own: float) -> None:
    """Neither what the testee waited nor what we did counts; what it worked always does."""
    watch = Watch(os.getpid())
    watch._passed = 1.0
    watch._first = Usage(seconds=0.0, queued=0.0, memory=0, runnable=True, threads={"1": 0.0})
    watch._last = Usage(seconds=0.125, queued=queued, memory=0, runnable=True, threads={"1": 0.125})

    assert watch.own_seconds(waits=waits) == own


def test_an_unread_answer_is_in_time(script: Script, sandbox: Make) -> None:
    """Output that is in the pipe at the time limit is read."""
    child = sandbox(script(REPLY))._running()
    child.send(b'{"op": "decode", "id": "1", "data": ""}\n')
    child.flush()
    select.select([child._stdout], [], [])

    assert child.read_line(time_limits.TimeLimit(0.0)) == b'{"id": "1", "batches": []}'


def test_an_idle_testee_is_seen_soon(script: Script, sandbox: Make) -> None:
    """A testee that waits 0.15 s for a timer counts as idle before it answers, at the latest in one of twenty times."""
    child = sandbox(script(f"time.sleep(0.15)\n{REPLY}"))._running()
    idle: list[int] = []
    for _ in range(20):
        child.send(b'{"op": "decode", "id": "1", "data": ""}\n')
        assert child.read_line(time_limits.TimeLimit(30.0), idle.append) == b'{"id": "1", "batches": []}'
        if idle:
            return
    raise AssertionError("it was never seen idle")


def test_whose_work_counts() -> None:
    """All threads work with heavy inputs and in known hangs."""
    assert time_limits.heavy_limit(0.5, MEMORY).together
    assert time_limits.plain_limit(0.5, MEMORY, known=True).together
    assert not time_limits.plain_limit(0.5, MEMORY).together


@pytest.mark.parametrize(("more", "spent"), [(0, 2.0), (time_limits.MORE, 5.0)])
def test_who_takes_memory_pays_for_all_threads(more: int, spent: float) -> None:
    """With an input as stored the busiest thread counts, until memory is taken."""
    watch = Watch(os.getpid())
    watch._passed, watch.more = 10.0, more
    watch._first = Usage(seconds=0.0, queued=9.0, memory=0, runnable=True, threads={})
    watch._last = Usage(seconds=5.0, queued=18.0, memory=0, runnable=True, threads={"1": 2.0, "2": 1.5, "3": 1.5})

    assert time_limits.plain_limit(0.5, MEMORY).spent(watch) == spent
