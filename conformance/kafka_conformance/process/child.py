"""A testee's process: started under limits, talked to by lines, ended with all its children.

Reading and writing go on at the same time: a testee that prints without reading
cannot block us, nor we it.  How the process comes to be is `starting.py`'s.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from fcntl import fcntl
from itertools import count
from typing import IO, Final

from kafka_conformance.judge.observation import Crashed, Exceeded, Hung, how_it_ended
from kafka_conformance.process.cpu_time import Usage, Watch, is_zombie, threads, usage, waited_for_processor
from kafka_conformance.process.descendants import end_processes, outside_group
from kafka_conformance.process.memory import GUARD, MemoryMeter
from kafka_conformance.process.starting import CommandProcess, Process, Starter
from kafka_conformance.process.time_limits import GROWN, TimeLimit
from kafka_conformance.sanitize import tail
from kafka_conformance.testees.connection import MIB, ConnectionSpec
from kafka_conformance.testees.protocol import MAX_LINE, HelloRefusal, HelloReply, Stray, parse_hello

STDERR_TAIL: Final = 16 * 1024
# How long an ended or dismissed process may take to be gone.
GRACE: Final = 1.0
SLICE_MS: Final = 100
READ: Final = 1 << 18
# Seconds.  Nearly all answers come sooner, and then the testee is not watched.
SOON: Final = 0.02
# Left for each further line of a hello, however late it is.
LEAST_LEFT: Final = 0.05
# Until the first look after that: many clients wait 0.1 s or 0.2 s for a timer of theirs, and need no CPU meanwhile.
FIRST_LOOK: Final = 0.02
BETWEEN_LOOKS: Final = 0.15
# Seconds that count between two looks: after more than that the machine stood still, or this process did.
MOST_BETWEEN_LOOKS: Final = 2 * BETWEEN_LOOKS
# What Linux lets anybody set, 16 times its default; Python knows the name of the command there only.
PIPE_SIZE: Final = 1 << 20
F_SETPIPE_SZ: Final = 1031

OUT_OF_MEMORY: Final = re.compile(
    rb"MemoryError|OutOfMemory|out of memory|bad_alloc|memory allocation of \d+ bytes failed|Cannot allocate memory"
    # Node, of an ArrayBuffer.
    rb"|buffer allocation failed"
    # librdkafka asserts that an allocation succeeded.
    rb"|rd_(?:m|c|re)alloc: Assertion",
    re.IGNORECASE,
)
# Go's runtime ends a program of which nothing can ever go on: a hang that is known at once.
_DEADLOCK: Final = b"fatal error: all goroutines are asleep - deadlock!"
_starts = count(1)

OnIdle = Callable[[int], None]
"""Called with the memory, in bytes, of a testee that is idle."""


class ReadFailure(Enum):
    """Why there is no line."""

    ENDED = "ended"
    LATE = "late"
    GREW = "grew"
    TOO_LONG = "too long"


class Child:
    """One running testee; not for more than one thread."""

    def __init__(self, connection: ConnectionSpec, starter: Starter | None = None) -> None:
        """Start it.  Raises `OSError` if that cannot be done."""
        self.requests = 0
        number = str(next(_starts))
        self._cleanup = [part.replace("{start}", number) for part in connection.cleanup]
        self._local = connection.local
        self._process: Process = starter.start(number) if starter else CommandProcess(connection, number)
        self._code: int | None = None
        self._stdin, self._stdout = _unblocked(self._process.stdin), _unblocked(self._process.stdout)
        self._unsent = memoryview(b"")
        self._received = bytearray()
        self._searched = 0
        self._errors: int | None = _unblocked(self._process.stderr)
        self._stderr = bytearray()
        self._full = False
        # Processes of a container are the engine's: it has their limit.
        self._meter: MemoryMeter | None = None
        if self._local:
            self._meter = GUARD.watch(self.pid, connection.memory, self.end_group)
        # Processes outside of its group that may stay while it runs.
        self._helpers: set[int] = set()
        # Seconds for which this thread, to which an answer had come, waited for a processor; None: not counted.
        self.waits: float | None = None

    @property
    def known(self) -> bool:
        """Whether its hello is known without being said."""
        return self._process.known

    def is_single(self) -> bool:
        """Whether it has one thread, as far as that is known."""
        return self._local and threads(self.pid) == 1

    @property
    def taken(self) -> int:
        """Resident bytes that it took since the wait for the last line began; 0 where unknown."""
        return self._meter.taken if self._meter else 0

    def passed_memory_limit(self) -> bool:
        """Whether it ever held more memory than it may; False where unknown."""
        return self._meter is not None and self._meter.passed_limit()

    def too_much(self, stderr: str = "") -> Exceeded:
        """The observation of one that held more memory than it may."""
        limit = self._meter.limit if self._meter else 0
        return Exceeded(f"it took more than {limit // MIB:,} MiB of memory", stderr, self.taken)

    def watch(self, most_between: float = MOST_BETWEEN_LOOKS) -> Watch | None:
        """A watch over its CPU time, from now on; None where that is not known."""
        return Watch(self.pid, most_between) if self._local else None

    def usage(self) -> Usage | None:
        """Resources used by the process and its descendants so far; None where unknown."""
        return usage(self.pid) if self._local else None

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group and session."""
        return self._process.pid

    def send(self, lines: bytes) -> None:
        """Queue *lines*; they go out while `read_line` waits."""
        self._unsent = memoryview(bytes(self._unsent) + lines)

    def widen(self) -> None:
        """Let the pipes hold as much as the kernel allows, for those who send more than they wait for."""
        with suppress(OSError):  # not on Linux, or the user's pipes hold too much already
            for pipe in (self._stdin, self._stdout):
                fcntl(pipe, F_SETPIPE_SZ, PIPE_SIZE)

    def flush(self) -> None:
        """Write as much of the queue as fits, so that the testee can begin before `read_line`."""
        if self._unsent:
            self._write_some()

    def has_begun(self) -> bool:
        """Whether a part of a line has come."""
        return bool(self._received)

    def read_line(self, limit: TimeLimit, lull: OnIdle = lambda _: None) -> bytes | ReadFailure:
        """The next line of its standard output, or why there is none within *limit*.

        Time in which it stood in line for a processor does not count.  *lull*
        is called from time to time while the testee is idle.
        """
        if self._meter:
            self._meter.mark()
        began = time.monotonic()
        line = self._read_until(began + min(limit.seconds, SOON))
        if line is not ReadFailure.LATE:
            return line
        watch, interval = self.watch(), FIRST_LOOK
        while line is ReadFailure.LATE and (left := _left(watch, limit, began)) > 0:
            line = self._read_until(time.monotonic() + min(left, interval))
            interval = BETWEEN_LOOKS
            if watch and line is ReadFailure.LATE:
                watch.look()
                if watch.idle:
                    lull(watch.memory)
        if line is ReadFailure.LATE:  # output that came before this read is in time
            line = self._read_until(time.monotonic())
        self._full = watch is not None and watch.holds(limit.much)
        return ReadFailure.GREW if line is ReadFailure.LATE and self._full else line

    def _read_until(self, end: float) -> bytes | ReadFailure:
        """The next line, or why there is none at *end*; what is in the pipe by then is read."""
        left = 1.0
        while True:
            at = self._received.find(b"\n", self._searched)
            if at >= 0:
                line = bytes(self._received[:at])
                del self._received[: at + 1]
                self._searched = 0
                return line
            self._searched = len(self._received)
            if self._searched > MAX_LINE:
                return ReadFailure.TOO_LONG
            if left <= 0:
                return ReadFailure.LATE
            left = end - time.monotonic()
            if trouble := self._pump(max(left, 0.0)):
                return trouble

    def _pump(self, seconds: float) -> ReadFailure | None:
        """Move bytes in either direction, for which it waits *seconds* at most; None when some may have come."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if self._errors is not None:
            poll.register(self._errors, select.POLLIN)
        if self._unsent:
            poll.register(self._stdin, select.POLLOUT)
        before = 0.0 if self.waits is None else waited_for_processor()
        events = dict(poll.poll(min(seconds * 1000 + 1, SLICE_MS) if seconds else 0))
        if self.waits is not None:
            self.waits += waited_for_processor() - before
        if self._stdin in events:
            self._write_some()
        if self._errors in events:
            self._hear()
        if self._stdout in events:
            return self._read_some()
        # A grandchild may hold the pipe open after the testee is gone.
        return self._read_the_rest() if self._has_ended() else None

    def _read_the_rest(self) -> ReadFailure | None:
        """Read the output written just before the process ended."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        return self._read_some() if poll.poll(0) else ReadFailure.ENDED

    def _write_some(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin, self._unsent[:READ]) :]
        except BlockingIOError:
            return
        except OSError:
            # It closed its standard input, or has ended: the next read shows which.
            self._unsent = memoryview(b"")

    def _read_some(self) -> ReadFailure | None:
        try:
            data = os.read(self._stdout, READ)
        except BlockingIOError:
            return None
        self._received += data
        return None if data else ReadFailure.ENDED

    def _has_ended(self) -> bool:
        # A process that made this one may be late to say so.
        return self._code is not None or self._process.ended() or is_zombie(self.pid)

    def _hear(self) -> None:
        """Take what is there of its standard error, more than a pipe holds, and keep the end."""
        if self._errors is None:
            return
        try:
            chunk = os.read(self._errors, READ)
        except BlockingIOError:
            return
        self._stderr += chunk
        del self._stderr[:-STDERR_TAIL]
        if not chunk:
            self._errors = None

    def ending(self) -> Crashed | Exceeded | Hung:
        """How it ended; ends what is left of it."""
        self._wait(GRACE)
        exited = self._has_ended()
        self.kill()
        code, stderr = self._code or 0, tail(bytes(self._stderr))
        if self._meter and self._meter.exceeded:
            return self.too_much(stderr)
        if not exited:
            return Crashed(stderr=f"it closed its standard output and went on running; {stderr}".rstrip("; "))
        if OUT_OF_MEMORY.search(self._stderr) and self._holds_much():
            return Exceeded("it ran out of memory", stderr, self.taken)
        if _DEADLOCK in self._stderr:
            return Hung(0.0, stderr)
        # Node's engine may fall without a word where memory ends.
        if self._full and _signal(code) and not stderr:
            return Exceeded("it ran out of memory", stderr, self.taken)
        return Crashed(signal=_signal(code), exit_code=code if code >= 0 else None, stderr=stderr)

    def _holds_much(self) -> bool:
        """Whether it held much of its memory; of one in a container that is unknown, and its last words count."""
        return self._meter is None or self._meter.peak >= self._meter.limit * GROWN

    def stderr_tail(self) -> str:
        """The end of what it wrote to standard error, fit to print."""
        self._hear()
        return tail(bytes(self._stderr))

    def dismiss(self) -> Crashed | Exceeded | Hung | None:
        """Close its standard input, as a sign to end, and kill what does not; how it ended if that was not well."""
        self._unsent = memoryview(b"")
        _close(self._process.stdin)
        self._wait(GRACE)
        if not self._has_ended():
            self.kill()
            return None
        ending = self.ending()
        well = isinstance(ending, Crashed) and ending.exit_code == 0
        return None if well or self._code is None else ending

    def _wait(self, seconds: float) -> None:
        """Until it has ended, but not longer; it may have much to say on standard error before."""
        end = time.monotonic() + seconds
        while not self._has_ended() and (left := end - time.monotonic()) > 0:
            poll = select.poll()
            for number in (self._process.end, self._errors):
                if number is not None:
                    poll.register(number, select.POLLIN)
            poll.poll(left * 1000 if self._process.end is not None else 1)
            self._hear()

    def keep_helpers(self) -> None:
        """Let the processes stay that are outside of its group by now."""
        self._helpers = self._outside()

    def end_detached(self) -> int:
        """End the other processes outside of its group; how many there were."""
        return end_processes(self._outside() - self._helpers)

    def _outside(self) -> set[int]:
        return outside_group(self.pid) if self._local else set()

    @property
    def left(self) -> int:
        """How many processes outside of its group were ended after it."""
        return max(self._process.left, 0)

    def end_group(self) -> None:
        """Send the signal that ends the whole group; any thread may do that."""
        try:
            if self._code is None:
                os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # the group has ended

    def kill(self) -> None:
        """End the whole group, now, and let go of it."""
        self.end_group()
        if self._meter:
            self._meter.close()  # before another process can have the id
        if self._code is None:
            self._code = self._process.reap()
            self._hear()
        self._errors = None
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            _close(pipe)
        if self._cleanup:
            subprocess.run(self._cleanup, capture_output=True, timeout=30, check=False)


# Times the seconds in which a testee that sleeps has to say hello: loading code works, and takes memory.
LOADS: Final = 3.0


def hello_limit(seconds: float) -> TimeLimit:
    """The limit for hello: *seconds* of silence, and more for a testee that is loading code."""
    return TimeLimit(seconds, seconds, seconds * LOADS)


def await_hello(
    child: Child, limit: TimeLimit, stray: Callable[[str], None]
) -> HelloReply | HelloRefusal | ReadFailure:
    """The hello reply of *child*, or why there is none; *stray* gets each other line before it.

    Other lines do not extend the limit.
    """
    watch, began = child.watch(limit.seconds), time.monotonic()
    left = limit
    while True:
        line = child.read_line(left)
        if isinstance(line, ReadFailure):
            return line
        hello = parse_hello(line)
        if not isinstance(hello, Stray):
            return hello
        stray(hello.text)
        if watch:
            watch.look()
        spent = limit.spent(watch) if watch else time.monotonic() - began
        if spent >= limit.seconds:
            return ReadFailure.LATE
        left = replace(
            limit, **{name: max(getattr(limit, name) - spent, LEAST_LEFT) for name in ("seconds", "spins", "grows")}
        )


def no_hello(child: Child, trouble: ReadFailure, limit: TimeLimit, first_line: str = "") -> str:
    """Why *child* did not say hello, with the *first_line* that came instead; ends it."""
    instead = f"; its first line was {first_line!r}" if first_line else ""
    if trouble is ReadFailure.ENDED:
        return f"{how_it_ended(child.ending())}{instead}"
    errors = child.stderr_tail()
    child.kill()
    late = f"no reply to hello within {limit.seconds:.0f} s"
    why = "its first line is too long" if trouble is ReadFailure.TOO_LONG else late
    return f"{why}{instead}" + (f"; on standard error: {errors}" if errors else "")


def _left(watch: Watch | None, limit: TimeLimit, began: float) -> float:
    """Seconds left of the limit since *began*; the watch began a little later."""
    passed = time.monotonic() - began
    if watch is None:
        return limit.seconds - passed
    return limit.of(watch) - min(limit.spent(watch) + SOON, passed)


def _unblocked(pipe: IO[bytes]) -> int:
    os.set_blocking(pipe.fileno(), False)
    return pipe.fileno()


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except OSError:
        pass


def _signal(code: int) -> int | None:
    """The signal that ended it; a shell or an engine in between reports 128 and the number."""
    if code < 0:
        return -code
    return code - 128 if 128 < code < 128 + signal.NSIG else None
