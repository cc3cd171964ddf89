"""How long a real child process may work, and how much memory it may take."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.misbehaving import ANSWERED, BAD, FINE, REPLY, SHORT, Make, Script, misbehaving

from kafka_conformance.judge.observation import Crashed, Exceeded, Hung
from kafka_conformance.process import cpu_time
from kafka_conformance.process.cpu_time import LEAST_SHARE
from kafka_conformance.process.memory import MemoryMeter
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import FACTOR, MAX_SECONDS
from kafka_conformance.testees.connection import MIB, MIN_SECONDS
from kafka_conformance.testees.known import connect


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many others that want the processors too."""
    others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 4 * (os.cpu_count() or 1)])
@pytest.mark.parametrize(
    ("work", "sleeps", "works"),
    [
        ("", 0.0, 0.0),
        ("time.sleep(0.02)\n", 0.02, 0.0),
        ("end = time.process_time() + 0.006\nwhile time.process_time() < end: pass\n", 0.0, 0.006),
    ],
)
def test_limit_is_calibrated(
    work: str, sleeps: float, works: float, others: int, script: Script, sandbox: Make
) -> None:
    """The limit is a hundred times what a testee takes, by the kernel's own count, however busy the machine is."""
    made = sandbox(script(work + REPLY))
    made.hello()
    assert made._child is not None
    pid = made._child.pid
    with busy(others):
        waited, before, began = cpu_time.waited_for_processor(), cpu_time.usage(pid), time.monotonic()
        limit = made.calibrate([b"a", b"b", b"c"])
        passed, after = time.monotonic() - began, cpu_time.usage(pid)
        waited = cpu_time.waited_for_processor() - waited
    assert before is not None
    assert after is not None
    queued, worked = after.queued - before.queued, after.seconds - before.seconds

    # The first answer may be late, and the faster of the other two counts: at most half of the time in which
    # the testee was not in the run queue, or worked.
    most = (passed - queued + worked + LEAST_SHARE * passed) / 2
    least = max(sleeps - queued - waited, works)
    assert min(max(FACTOR * least * 0.99, MIN_SECONDS), MAX_SECONDS) <= limit
    assert limit <= max(FACTOR * most, MIN_SECONDS)


def test_waiting_for_a_processor_is_counted() -> None:
    """A thread that shares its processor with another process waits for it, which the kernel counts."""
    processors = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(processors)})
        with busy(1):
            before = cpu_time.waited_for_processor()
            while cpu_time.waited_for_processor() == before:
                pass
    finally:
        os.sched_setaffinity(0, processors)


TOUCHED = "held = bytearray({mib} << 20)"
UNTOUCHED = "import mmap; held = mmap.mmap(-1, {mib} << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"
BY_AND_BY = "held = []\n    while True: held.append(bytearray(1 << 20))"


@pytest.mark.slow
@pytest.mark.parametrize("takes", [TOUCHED.format(mib=2048), BY_AND_BY])
def test_memory_is_limited(takes: str, script: Script, sandbox: Make) -> None:
    """A process that takes more than its limit is killed, and the finding says so; the next case is answered."""
    made = sandbox(connect(script(misbehaving(takes)).name, memory=256 * MIB))
    exceeded, after = (next(made.ask([question])).observation for question in (BAD, FINE))

    assert isinstance(exceeded, Exceeded)
    assert exceeded.what == "it took more than 256 MiB of memory"
    # What it held before, its interpreter, is not taken for the request.
    assert exceeded.taken > 224 * MIB
    assert exceeded.read == len(b"bad")
    assert after == ANSWERED


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "fresh", "exceeds"), [(0, True, True), (0, False, False), (96, True, False)])
def test_memory_that_was_given_back_counts(
    kept: int, fresh: bool, exceeds: bool, script: Script, sandbox: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that the runner was too slow to see counts if a fresh process took it for this request."""
    monkeypatch.setattr(MemoryMeter, "look", lambda self: None)
    took = f"held = bytearray({256 - kept} << 20); del held"
    made = sandbox(connect(script(misbehaving(took)).name, memory=192 * MIB))
    observed = next(made.ask([replace(BAD, fresh=fresh)])).observation

    assert isinstance(observed, Exceeded) == exceeds
    if isinstance(observed, Exceeded):
        assert observed.what == "it took more than 192 MiB of memory"
        assert observed.taken > 224 * MIB
        assert observed.read == len(b"bad")
        assert next(made.ask([FINE])).observation == ANSWERED
    else:
        assert observed == ANSWERED


def test_address_space_is_no_memory(script: Script, sandbox: Make) -> None:
    """Memory that is reserved and never touched is no finding, even if it is 32 times the limit."""
    made = sandbox(connect(script(misbehaving(UNTOUCHED.format(mib=4096))).name, memory=128 * MIB))
    assert next(made.ask([BAD])).observation == ANSWERED


def test_an_allocation_that_fails_takes_no_memory(script: Script, sandbox: Make) -> None:
    """A process that ends because a forged length cannot be had has crashed: it took nothing."""
    made = sandbox(script(misbehaving("bytearray(1 << 60)")))
    crashed = next(made.ask([BAD])).observation

    assert isinstance(crashed, Crashed)
    assert "MemoryError" in crashed.stderr


@pytest.mark.slow
def test_the_memory_limit_is_the_connection_s(script: Script, sandbox: Make, tmp_path: Path) -> None:
    """The memory limit of the connection applies."""
    connection = script(misbehaving(TOUCHED.format(mib=256)))
    tight = connect(connection.name, memory=128 * MIB)

    assert next(sandbox(connection).ask([BAD])).observation == ANSWERED
    assert isinstance(next(sandbox(tight).ask([BAD])).observation, Exceeded)


@pytest.mark.slow
def test_memory_of_children_counts(script: Script, sandbox: Make) -> None:
    """The memory of a testee is that of its whole process tree."""
    child = "import time; held = bytearray(256 << 20); time.sleep(60)"
    made = sandbox(
        connect(script(misbehaving(f"subprocess.run([sys.executable, '-c', {child!r}])")).name, memory=200 * MIB)
    )

    assert isinstance(next(made.ask([BAD])).observation, Exceeded)


def test_taken_memory_begins_with_the_request() -> None:
    """Memory held before a request is not taken for it; a closed meter measures nothing."""
    grow = "import sys\nheld = []\nfor line in sys.stdin: held.append(bytearray(64 << 20)); print(flush=True)"
    command = [sys.executable, "-S", "-c", grow]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        meter = MemoryMeter(process.pid, 1024 * MIB, process.kill)
        taken = []
        for _ in range(3):
            meter.mark()
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()
            meter.look()
            taken.append(meter.taken)
        assert all(64 * MIB <= each < 96 * MIB for each in taken)
        assert meter.peak > 192 * MIB
        meter.close()
        peak = meter.peak
        meter.look()
        assert meter.peak == peak
        process.stdin.close()
    assert not meter.exceeded


def test_usage_of_a_process() -> None:
    """The CPU time of a process is measured, and grows with work."""
    before = cpu_time.usage(os.getpid())
    assert before is not None
    watch = cpu_time.Watch(os.getpid())
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    watch.look()
    after = cpu_time.usage(os.getpid())

    assert after is not None
    assert after.seconds > before.seconds
    assert after.memory > 1 << 20
    assert not watch.idle
    assert cpu_time.usage(2**22 + 1) is None


def test_a_testee_that_stands_in_line_is_not_idle(script: Script, sandbox: Make) -> None:
    """One that sleeps is idle; the time that others kept it from the processor is not counted."""
    made = sandbox(script("time.sleep(60)"))
    made.hello()
    child = made._child
    assert child is not None
    watch = cpu_time.Watch(child.pid)
    while not watch.idle:  # which a machine may be too busy for at first
        time.sleep(0.1)
        watch.look()

    assert watch._first is not None
    assert watch._last is not None
    assert watch.own_seconds() + watch._last.queued - watch._first.queued >= 0.1


@pytest.mark.slow
def test_a_hang_is_known_to_all_sandboxes_of_a_testee(script: Script, sandbox: Make) -> None:
    """A hang in a case marks the other cases of its timeout group, and no others."""
    made = sandbox(script(misbehaving("time.sleep(60)")), SHORT)
    known, other = CaseRequest(BAD.subject, timeout_group="one"), CaseRequest(BAD.subject, timeout_group="other")
    learnt = made.another()._learnt
    assert not learnt.hangs_over(known)
    assert isinstance(next(made.ask([known])).observation, Hung)

    assert learnt.hangs_over(known)
    assert not learnt.hangs_over(other)
    assert learnt.hangs_over(replace(known, heavy=True))
    assert not learnt.hangs_over(BAD)


@pytest.mark.slow
def test_who_grows_runs_out_of_memory(script: Script, sandbox: Make) -> None:
    """A testee that holds half of its memory when its time is over is Exceeded, not Hung, however fast it grows."""
    grow = "\n    kept = bytearray(150 << 20)\n    while True: pass"
    made = sandbox(connect(script(misbehaving(grow)).name, memory=256 * MIB), SHORT)

    assert isinstance(next(made.ask([BAD])).observation, Exceeded)


@pytest.mark.slow
@pytest.mark.parametrize(("mib", "kind"), [(600, Exceeded), (1, Crashed)])
def test_who_falls_silently_with_much_memory_ran_out_of_it(
    mib: int, kind: type[object], script: Script, sandbox: Make
) -> None:
    """A signal without a word is the end of memory for a process that holds half of it, else a crash."""
    work = "end = time.process_time() + 0.25\n    while time.process_time() < end: pass"
    fall = f"\n    kept = b'1' * ({mib} << 20)\n    {work}\n    os.kill(os.getpid(), signal.SIGSEGV)"
    made = sandbox(script(misbehaving(fall)))

    assert isinstance(next(made.ask([BAD])).observation, kind)


@pytest.mark.slow
@pytest.mark.parametrize(("grows", "allowed"), [(False, 0.6), (True, 1.2)])
def test_who_takes_memory_has_more_time(grows: bool, allowed: float, script: Script, sandbox: Make) -> None:
    """A loop that takes no memory is a hang sooner than work that does."""
    loop = "kept = []\n    while True: " + ("kept.append(bytearray(1 << 16)); sum(range(20_000))" if grows else "pass")
    made = sandbox(script(misbehaving(loop)), SHORT)
    hung = next(made.ask([BAD]))

    assert isinstance(hung.observation, Hung)
    # A lower bound only: the load of the machine is unknown.
    assert hung.seconds > allowed * 0.9
