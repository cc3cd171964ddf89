"""How testees come to be: a server that forks them, and what it does when they end."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafka_conformance.process import spawn_server
from kafka_conformance.process.cpu_time import usage
from kafka_conformance.process.memory import ADDRESS_SPACE
from kafka_conformance.process.starting import (
    FEW,
    SPARES,
    CommandProcess,
    Process,
    ServerProcess,
    SpawnedProcess,
    Starter,
)
from kafka_conformance.testees import protocol
from kafka_conformance.testees.connection import MIB, ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_records import Batch, Record, encode

CONNECTION = connect("planted:crashes-on-a-tenth")


@pytest.fixture
def starter() -> Iterator[Starter]:
    """A starter that one sandbox uses."""
    made = Starter(CONNECTION)
    made.join()
    yield made
    made.leave()


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A server with the testee loaded."""
    made = ServerProcess(CONNECTION)
    yield made
    made.close()


@pytest.fixture
def commands() -> Iterator[ServerProcess]:
    """A server that starts a command, which says what it got."""
    program = "import os, sys; print(os.getpid(), os.getsid(0), sorted(os.listdir('/proc/self/fd')), flush=True)"
    made = ServerProcess(
        ConnectionSpec(name="says", argv=(sys.executable, "-S", "-c", f"{program}; sys.exit(len(input()))"))
    )
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


def says(process: SpawnedProcess, line: bytes) -> bytes:
    """Its reply to one line."""
    os.write(process.stdin.fileno(), line)
    return os.read(process.stdout.fileno(), 1 << 16)


def spawned(server: ServerProcess) -> SpawnedProcess:
    """A child that has come so far as to answer, and leads its group."""
    child = server.spawn()
    child.settle()
    assert b'"protocol"' in says(child, protocol.request_line(protocol.HelloRequest()))
    return child


@pytest.mark.slow
def test_spawned_children_serve(server: ServerProcess) -> None:
    """Each child is a process of its own in a group of its own, and speaks the protocol over its own pipes."""
    first, second = server.spawn(), server.spawn()
    for child in (first, second):
        child.settle()
    hello = protocol.request_line(protocol.HelloRequest())
    replies = [protocol.parse_hello(says(child, hello).strip()) for child in (first, second)]

    assert [getattr(reply, "protocol", None) for reply in replies] == [protocol.PROTOCOL] * 2
    assert first.pid != second.pid
    assert [os.getpgid(child.pid) for child in (first, second)] == [first.pid, second.pid]
    assert [end(child) for child in (first, second)] == [0, 0]


def test_the_exit_code_of_a_spawned_child_is_known(server: ServerProcess) -> None:
    """A signal is a negative exit code; the id of an ended child stays in use until the child is reaped."""
    child = spawned(server)
    assert not child.ended()
    os.killpg(child.pid, signal.SIGSEGV)
    while not child.ended():
        os.sched_yield()
    os.killpg(child.pid, 0)

    assert end(child) == -signal.SIGSEGV
    assert child.ended()


def test_one_child_outlives_another(server: ServerProcess) -> None:
    """The end of one child, and its reaping, are nothing to the others."""
    first, second = spawned(server), spawned(server)
    end(first, signal.SIGKILL)

    assert not second.ended()
    assert b'"protocol"' in says(second, protocol.request_line(protocol.HelloRequest()))
    assert end(second) == 0


def test_a_spawn_server_starts_commands(commands: ServerProcess) -> None:
    """A command is started in a session of its own with three pipes and nothing else, as often as it takes."""
    for length in (1, 2):
        child = commands.spawn()
        child.settle()
        said = child.stdout.readline().decode()
        assert said == f"{child.pid} {child.pid} ['0', '1', '2', '3']\n"  # the fourth lists the folder
        os.write(child.stdin.fileno(), b"x" * length + b"\n")
        assert end(child) == length


def test_a_missing_command_is_not_spawned() -> None:
    """A command that cannot be started raises an error at the start."""
    server = ServerProcess(ConnectionSpec(name="none", argv=("/no/such/program",)))
    child = server.spawn()

    with pytest.raises(OSError, match="is gone, or does not answer"):
        child.settle()
    server.close()


def test_limits_hold_for_spawned_processes() -> None:
    """A command that a server starts has a limit on address space, far above that on memory."""
    show = "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0], flush=True); input()"
    server = ServerProcess(ConnectionSpec(name="limits", argv=(sys.executable, "-S", "-c", show), memory=200 * MIB))
    child = server.spawn()
    child.settle()

    assert int(child.stdout.readline()) == ADDRESS_SPACE * 200 * MIB
    assert end(child, signal.SIGKILL) == -signal.SIGKILL
    server.close()


@pytest.mark.slow
def test_the_first_start_forks_nothing(starter: Starter) -> None:
    """A testee that never falls is started once, as a command; from the second start on it is forked."""
    first, second = starter.start("1"), starter.start("2")
    assert isinstance(first, SpawnedProcess)
    assert isinstance(second, SpawnedProcess)
    assert [process.known for process in (first, second)] == [False, True]
    assert [end(process) for process in (first, second)] == [0, 0]


def test_a_command_has_spares_after_a_few_starts() -> None:
    """After a few starts of one command, spare processes are started in advance and have their hello request."""
    starter = Starter(ConnectionSpec(name="echo", argv=("/bin/cat",)))
    starter.join()
    started = [starter.start(str(number)) for number in range(FEW)]
    assert not starter._spares
    started += [starter.start(str(number)) for number in range(2)]
    spares = list(starter._spares)
    hello = protocol.request_line(protocol.HelloRequest())

    assert all(isinstance(process, SpawnedProcess) for process in started)
    assert all(os.read(process.stdout.fileno(), 99) == hello for process in started)
    assert [end(process) for process in started] == [0] * (FEW + 2)
    assert len(spares) == SPARES
    starter.leave()
    assert not starter._spares
    assert all(spare.stdout.closed for spare in spares)


@pytest.mark.slow
def test_a_dead_server_is_replaced_by_another(starter: Starter) -> None:
    """A testee can kill its server; the next one is no child of the runner for that."""
    processes = [starter.start("1"), starter.start("2")]
    assert starter._server is not None
    starter._server._popen.kill()
    starter._server._popen.wait()
    processes.append(starter.start("3"))

    assert isinstance(processes[-1], SpawnedProcess)
    assert [end(process, signal.SIGKILL) for process in processes] == [-signal.SIGKILL] * 3


@pytest.mark.slow
def test_the_server_ends_with_its_last_user(starter: Starter) -> None:
    """A server is kept while one sandbox uses it, and ended after the last."""
    for number in ("1", "2"):
        end(starter.start(number))
    server = starter._server
    assert server is not None
    starter.join()
    starter.leave()
    assert server._popen.poll() is None
    starter.leave()

    assert server._popen.poll() is not None
    starter.join()


def test_rust_backtraces_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rust prints no stack even if the runner's environment enables it, since a stack would displace the message."""
    monkeypatch.setenv("RUST_BACKTRACE", "full")
    show = "import os; print(os.environ['RUST_BACKTRACE'], os.environ['OWN'], flush=True); input()"
    connection = ConnectionSpec(name="shows", argv=(sys.executable, "-S", "-c", show), environment=(("OWN", "1"),))
    server = ServerProcess(connection)
    child = server.spawn()
    child.settle()
    for process in (CommandProcess(connection, "1"), child):
        assert process.stdout.readline() == b"0 1\n"
        end(process, signal.SIGKILL)
    server.close()


# What a testee takes of the processor only if it does nothing else.
SPUN_SECONDS = 0.1
GONE_MS = 10_000
# Has a testee started so often, says its process id, and waits to be killed.
RUNNER = """
import os, sys
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_conformance.process.starting import Starter
kind, starts = sys.argv[1:]
spins = ConnectionSpec(name="spins", argv=(sys.executable, "-S", "-c", "while True: pass"))
starter = Starter(spins if kind == "command" else connect("planted:hangs-on-lz4"))
starter.join()
for number in range(int(starts)):
    process = starter.start(str(number))
os.write(process.stdin.fileno(), sys.stdin.buffer.readline())
print(process.pid, flush=True)
sys.stdin.read()
"""


def spinning() -> bytes:
    """A request that puts the testee with the planted bug into an endless loop."""
    record = Record(0, 1_700_000_000_000, b"key", b"value")
    batch = Batch(magic=2, base_offset=0, last_offset=0, compression="lz4", max_timestamp=0, records=(record,))
    return protocol.request_line(protocol.DecodeRequest(id="1", data=encode(batch)))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "starts"), [("command", 1), ("command", FEW + 2), ("planted", 2)])
def test_a_testee_ends_with_a_runner_that_is_killed(kind: str, starts: int) -> None:
    """When the runner is killed by a signal that cannot be caught, a testee in an endless loop is killed at once."""
    popen = subprocess.Popen(
        [sys.executable, "-c", RUNNER, kind, str(starts)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with popen as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        runner.stdin.write(spinning())
        runner.stdin.flush()
        pid = int(runner.stdout.readline())
        testee = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(testee, select.POLLIN)
        while (used := usage(pid)) is not None and used.seconds < SPUN_SECONDS:
            assert not poll.poll(10)
        runner.kill()
        ended = poll.poll(GONE_MS)
        os.close(testee)

    assert used is not None
    assert ended


def test_the_server_holds_no_pipe_of_a_child_that_it_reports() -> None:
    """The end of a child shows on its output even when its server is held up while it reports the child."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-E", "-S", spawn_server.__file__, str(theirs.fileno()), "true"]
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as server:
        (given, given_end), (output, out), (errors, err), (status, full) = (os.pipe() for _ in range(4))
        os.set_blocking(full, False)
        try:
            while os.write(full, b"\n" * 4096):
                pass
        except BlockingIOError:
            os.set_blocking(full, True)
        socket.send_fds(ours, [spawn_server.SPAWN], [given, out, err, full])
        for pipe in (given, out, err, full):
            os.close(pipe)

        ended, _, _ = select.select([output], [], [], 60)
        assert ended == [output]
        assert os.read(output, 1) == b""
        assert os.read(errors, 1) == b""
        assert server.poll() is None
        while not os.read(status, 1 << 16).strip():  # its process id, after what was in the way
            pass
        theirs.close()
        ours.close()
        for pipe in (given_end, output, errors, status):
            os.close(pipe)
