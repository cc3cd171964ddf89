"""One input, one process: for targets that may die of it."""

from __future__ import annotations

import os
import resource
import select
import signal
import tempfile
import time
from collections.abc import Callable
from typing import IO, Final, NoReturn

import msgspec

from kafka_fuzz.outcome import Outcome, OutcomeClass
from kafka_fuzz.reduce.predicates import Run

# Of address space, as in a campaign.
MOST_MEMORY: Final = 2 << 30
# CPU-seconds for what no guard in the process ends, and wall-clock seconds for what waits.
HARD_SECONDS: Final = 2.5
WAIT: Final = 30.0
# How Rust and C++ say that there is no memory before they abort.
NO_MEMORY: Final = ("memory allocation of", "std::bad_alloc", "out of memory", "Cannot allocate memory")


def forked(name: str, run: Run, hard: float = HARD_SECONDS) -> Run:
    """*run* in a process of its own for each input; what kills it is an outcome of the target called *name*."""

    def asked(data: bytes) -> Outcome:
        with tempfile.TemporaryFile() as errors:
            told, status = _run(lambda: run(data), errors, hard)
            if told:
                return msgspec.json.decode(told, type=Outcome)
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        kind, detail = _ending(status, said)
        return Outcome(name, kind, detail, why=said[-200:])

    return asked


def _run(work: Callable[[], Outcome], errors: IO[bytes], hard: float) -> tuple[bytes, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _child(work, writing, errors, hard)
    os.close(writing)
    told, ends = b"", time.monotonic() + WAIT
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, ends - time.monotonic()))[0]:
            chunk = pipe.read(65536)
            if not chunk:
                break
            told += chunk
        else:
            os.kill(pid, signal.SIGKILL)
    return told, os.waitpid(pid, 0)[1]


def _child(work: Callable[[], Outcome], writing: int, errors: IO[bytes], hard: float) -> NoReturn:
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        os.dup2(errors.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        signal.setitimer(signal.ITIMER_PROF, hard)
        os.write(writing, msgspec.json.encode(work()))
    finally:
        os._exit(0)


def _ending(status: int, said: str) -> tuple[OutcomeClass, str]:
    if not os.WIFSIGNALED(status):
        return "crash", f"exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    if number in (signal.SIGPROF, signal.SIGKILL):
        return "hang", ""
    if number == signal.SIGABRT and any(words in said for words in NO_MEMORY):
        return "memory", "abort"
    return "crash", signal.Signals(number).name
