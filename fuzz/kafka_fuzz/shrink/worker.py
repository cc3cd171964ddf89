"""The process that runs a target while its findings are shrunk.

python -m kafka_fuzz.shrink.worker kafka-python [OTHER…]

Writes the target's version first.  Reads one `ShrinkTask` in each line of standard input, and answers with a `Done`.
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
from kafka_fuzz.targets import make_target
from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass, sanitizer_report
from kafka_fuzz.targets.sanitized import limit_memory

# The limit of address space, as in a campaign.
MOST_MEMORY: Final = 2 << 30
# CPU-seconds for loops in compiled code, and wall-clock seconds for a target that waits.
HARD_SECONDS: Final = 2.5
WAIT: Final = 30.0
# Messages of Rust, C and C++ runtimes that abort without memory.
NO_MEMORY: Final = ("memory allocation of", "std::bad_alloc", "out of memory", "Cannot allocate memory")


def run_in_child(name: str, run: Run, hard: float = HARD_SECONDS) -> Run:
    """*run* in a process of its own for each input; the end of the process is an outcome of the target *name*."""

    def run_input(data: bytes) -> Outcome:
        with tempfile.TemporaryFile() as errors:
            written, status = _run(lambda: run(data), errors, hard)
            if written:
                return msgspec.json.decode(written, type=Outcome)
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        if reported := sanitizer_report(said):
            return Outcome(name, "crash", *reported[:2], why=reported.sentence)
        kind, detail = _ending(status, said)
        return Outcome(name, kind, detail, why=said[-200:])

    return run_input


def _run(work: Callable[[], Outcome], errors: IO[bytes], hard: float) -> tuple[bytes, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _child(work, writing, errors, hard)
    os.close(writing)
    written, ends = b"", time.monotonic() + WAIT
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, ends - time.monotonic()))[0]:
            chunk = pipe.read(65536)
            if not chunk:
                break
            written += chunk
        else:
            os.kill(pid, signal.SIGKILL)
    return written, os.waitpid(pid, 0)[1]


def _child(work: Callable[[], Outcome], writing: int, errors: IO[bytes], hard: float) -> NoReturn:
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        os.dup2(errors.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit_memory(MOST_MEMORY)
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


# Outcomes that may end the process.
DEADLY: Final[frozenset[OutcomeClass]] = frozenset({"crash", "hang", "memory"})


class ShrinkTask(msgspec.Struct, frozen=True):
    """An input and the budget for shrinking it; *careful* if a candidate ended the process before."""

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
    limit_memory(MOST_MEMORY)
    _say(targets[0].version)
    for line in sys.stdin.buffer:
        _say(worked(targets, msgspec.json.decode(line, type=ShrinkTask)))
    return 0


def _say(what: str | Done) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def worked(targets: Sequence[Target], task: ShrinkTask) -> Done:
    """Shrink one input; candidates run in processes of their own if the input may end the process."""
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
        return Done(task.data, outcome, error="its outcome differs from run to run")
    return Done(done.data, runs[0](done.data), done.runs, done.seconds, done.complete)


def run_of(target: Target, kind: OutcomeClass) -> Run:
    """*target* with the limits for candidates of an input that showed *kind*."""
    if kind != "hang":
        return run_in_child(target.name, runner(target)) if kind in DEADLY else with_limits(runner(target))
    # Small inputs take a tenth of a millisecond: a hang shows after a short time.
    return run_in_child(target.name, runner(replace(target, limit=SHORT_SECONDS)), 4 * SHORT_SECONDS)


def with_limits(run: Run, hard: float = HARD_SECONDS) -> Run:
    """*run* in this process, which ends after *hard* CPU-seconds, because no guard stops a loop in compiled code."""

    def run_input(data: bytes) -> Outcome:
        signal.setitimer(signal.ITIMER_PROF, hard)
        try:
            return run(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    return run_input


if __name__ == "__main__":
    sys.exit(main())
