"""The process that runs a target while its findings are shrunk.

python -m kafka_fuzz.shrink.worker kafka-python [OTHER…]

Says the target's version first.  Reads a `Task` a line from standard input and answers each with a `Done`.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, Final, NoReturn

import msgspec

from kafka_fuzz.shrink.search import SHORT_SECONDS, Budget, NotShown, Run, one_by_one, runner, shrink_input, verdicts
from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.named import make_target
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass

# Of address space, as in a campaign.
MOST_MEMORY: Final = 2 << 30
# CPU-seconds for what no guard in the process ends, and wall-clock seconds for what waits.
HARD_SECONDS: Final = 2.5
WAIT: Final = 30.0
# How Rust and C++ say that there is no memory before they abort.
NO_MEMORY: Final = ("memory allocation of", "std::bad_alloc", "out of memory", "Cannot allocate memory")


def run_in_child(name: str, run: Run, hard: float = HARD_SECONDS) -> Run:
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


# What a process may not survive, now or the next time.
DEADLY: Final[frozenset[OutcomeClass]] = frozenset({"crash", "hang", "memory"})


class ShrinkTask(msgspec.Struct, frozen=True):
    """An input, and what reducing it may take; *careful* where a candidate killed the process before."""

    data: bytes
    runs: int
    seconds: float
    careful: bool = False


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a task: the outcome of the smaller *data*, or the reason why there is none.

    *verdicts* are those of others that stayed the same, *left_out* says why those of some others need not.
    """

    data: bytes = b""
    outcome: Outcome | None = None
    runs: int = 0
    seconds: float = 0.0
    complete: bool = True
    error: str = ""
    verdicts: dict[str, str] = {}
    left_out: dict[str, str] = {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer tasks until there are no more."""
    name, *others = sys.argv[1:] if arguments is None else arguments
    targets = [make_target(each) for each in (name, *others)]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    _say(targets[0].version)
    for line in sys.stdin.buffer:
        _say(worked(targets, msgspec.json.decode(line, type=ShrinkTask)))
    return 0


def _say(what: str | Done) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def worked(targets: Sequence[Target], task: ShrinkTask) -> Done:
    """Reduce one input, each candidate in a process of its own where the input itself may kill."""
    outcome = run_in_child(targets[0].name, runner(targets[0]))(task.data)
    if not outcome.is_finding:
        return Done(task.data, outcome, 1)
    runs = [run_of(target, "crash" if task.careful and outcome.kind != "hang" else outcome.kind) for target in targets]
    wanted = verdicts(runs[0], task.data, runs[1:])
    try:
        done = shrink_input(
            task.data,
            one_by_one(lambda data: verdicts(runs[0], data, runs[1:]) == wanted),
            budget=Budget(task.runs, task.seconds),
            batch=1,
        )
    except NotShown:
        return Done(task.data, outcome, error="it shows that one time, and another the next")
    return Done(done.data, runs[0](done.data), done.runs, done.seconds, done.complete)


def run_of(target: Target, kind: OutcomeClass) -> Run:
    """*target* with the limits for candidates of an input that showed *kind*."""
    if kind != "hang":
        return run_in_child(target.name, runner(target)) if kind in DEADLY else with_limits(runner(target))
    # Small inputs take a tenth of a millisecond: a hang shows after a short time.
    return run_in_child(target.name, runner(replace(target, limit=SHORT_SECONDS)), 4 * SHORT_SECONDS)


def with_limits(run: Run, hard: float = HARD_SECONDS) -> Run:
    """*run* in this process, which ends where *hard* CPU-seconds are over: no guard stops a loop in compiled code."""

    def asked(data: bytes) -> Outcome:
        signal.setitimer(signal.ITIMER_PROF, hard)
        try:
            return run(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    return asked


if __name__ == "__main__":
    sys.exit(main())
