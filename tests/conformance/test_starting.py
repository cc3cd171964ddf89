"""How testees come to be: a nest that forks them, and what it does when they end."""

import os
import signal
from collections.abc import Iterator

import pytest

from kafka_conformance import protocol
from kafka_conformance.connect import Connection, connect
from kafka_conformance.starting import Hatched, Nest, Process, Started, Starter

CONNECTION = connect("miniature:crashes-on-a-tenth")


@pytest.fixture
def starter() -> Iterator[Starter]:
    """A starter that one sandbox uses."""
    made = Starter(CONNECTION)
    made.join()
    yield made
    made.leave()


@pytest.fixture(scope="module")
def nest() -> Iterator[Nest]:
    """A nest with the testee loaded."""
    module = CONNECTION.argv[-1]
    argv = (CONNECTION.argv[0], "-m", "kafka_conformance.nest", module)
    made = Nest(Connection(name=module, argv=argv, environment=CONNECTION.environment))
    yield made
    made.close()


def end(process: Process, number: int = 0) -> int:
    """Its exit code, after a signal or the end of its input; its pipes are closed."""
    if number:
        os.killpg(process.pid, number)
    process.stdin.close()
    code = process.reap()
    process.stdout.close()
    process.stderr.close()
    return code


def says(process: Hatched, line: bytes) -> bytes:
    """Its reply to one line."""
    os.write(process.stdin.fileno(), line)
    return os.read(process.stdout.fileno(), 1 << 16)


def hatched(nest: Nest) -> Hatched:
    """A child that has come so far as to answer, and leads its group."""
    child = nest.hatch()
    assert b'"protocol"' in says(child, protocol.request_line(protocol.HelloRequest()))
    return child


def test_hatched_children_serve(nest: Nest) -> None:
    """Each child is a process of its own in a group of its own, and speaks the protocol over its own pipes."""
    first, second = nest.hatch(), nest.hatch()
    hello = protocol.request_line(protocol.HelloRequest())
    replies = [protocol.parse_hello(says(child, hello).strip()) for child in (first, second)]

    assert [getattr(reply, "protocol", None) for reply in replies] == [protocol.PROTOCOL] * 2
    assert first.pid != second.pid
    assert [os.getpgid(child.pid) for child in (first, second)] == [first.pid, second.pid]
    assert [end(child) for child in (first, second)] == [0, 0]


def test_how_a_hatched_child_ended_is_known(nest: Nest) -> None:
    """A signal is told below 0; the id of an ended child stays taken until it is reaped."""
    child = hatched(nest)
    assert not child.ended()
    os.killpg(child.pid, signal.SIGSEGV)
    while not child.ended():
        os.sched_yield()
    os.killpg(child.pid, 0)

    assert end(child) == -signal.SIGSEGV
    assert child.ended()


def test_one_child_outlives_another(nest: Nest) -> None:
    """The end of one child, and its reaping, are nothing to the others."""
    first, second = hatched(nest), hatched(nest)
    end(first, signal.SIGKILL)

    assert not second.ended()
    assert b'"protocol"' in says(second, protocol.request_line(protocol.HelloRequest()))
    assert end(second) == 0


def test_the_first_start_forks_nothing(starter: Starter) -> None:
    """A testee that never falls is started once, as a command; from the second start on it is forked."""
    first, second = starter.start("1"), starter.start("2")
    assert isinstance(first, Started)
    assert isinstance(second, Hatched)
    assert [end(process) for process in (first, second)] == [0, 0]


def test_a_nest_that_is_gone_is_done_without(starter: Starter) -> None:
    """Where nothing can be forked any more, testees are started as commands."""
    processes = [starter.start("1"), starter.start("2")]
    assert starter._nest is not None
    starter._nest._popen.kill()
    starter._nest._popen.wait()
    processes.append(starter.start("3"))

    assert isinstance(processes[-1], Started)
    assert [end(process, signal.SIGKILL) for process in processes] == [-signal.SIGKILL] * 3


def test_the_nest_ends_with_its_last_user(starter: Starter) -> None:
    """A nest is kept while one sandbox uses it, and ended after the last."""
    for number in ("1", "2"):
        end(starter.start(number))
    nest = starter._nest
    assert nest is not None
    starter.join()
    starter.leave()
    assert nest._popen.poll() is None
    starter.leave()

    assert nest._popen.poll() is not None
    starter.join()
