"""The process in which a target is asked while its finds are reduced: it is alone there, and may die.

    python -m kafka_fuzz.reduce.worker kafka-python [OTHER…]

Says the target's version first.  Reads a `Task` a line from standard input and answers each with a `Done`.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from kafka_fuzz.outcome import Outcome, OutcomeClass
from kafka_fuzz.reduce.forked import HARD_SECONDS, MOST_MEMORY, forked
from kafka_fuzz.reduce.predicates import IMPATIENT, Run, runner, verdicts
from kafka_fuzz.reduce.search import Budget, NotShown, one_by_one, reduced
from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.named import make_target

# What a process may not survive, now or the next time.
DEADLY: Final[frozenset[OutcomeClass]] = frozenset({"crash", "hang", "memory"})


class Task(msgspec.Struct, frozen=True):
    """An input, and what reducing it may take; *careful* where a candidate killed the process before."""

    data: bytes
    runs: int
    seconds: float
    careful: bool = False


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a task: the outcome of *data*, which is smaller than it was; or why nothing did.

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
        _say(worked(targets, msgspec.json.decode(line, type=Task)))
    return 0


def _say(what: str | Done) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def worked(targets: Sequence[Target], task: Task) -> Done:
    """Reduce one input, each candidate in a process of its own where the input itself may kill."""
    outcome = forked(targets[0].name, runner(targets[0]))(task.data)
    if not outcome.is_find:
        return Done(task.data, outcome, 1)
    runs = [run_of(target, "crash" if task.careful and outcome.kind != "hang" else outcome.kind) for target in targets]
    wanted = verdicts(runs[0], task.data, runs[1:])
    try:
        done = reduced(
            task.data,
            one_by_one(lambda data: verdicts(runs[0], data, runs[1:]) == wanted),
            budget=Budget(task.runs, task.seconds),
            batch=1,
        )
    except NotShown:
        return Done(task.data, outcome, error="it shows that one time, and another the next")
    return Done(done.data, runs[0](done.data), done.runs, done.seconds, done.complete)


def run_of(target: Target, kind: OutcomeClass) -> Run:
    """*target* as it is asked about candidates, where the input itself showed *kind*."""
    if kind != "hang":
        return forked(target.name, runner(target)) if kind in DEADLY else limited(runner(target))
    # Small inputs take a tenth of a millisecond: nobody waits long to see that one hangs.
    return forked(target.name, runner(replace(target, limit=IMPATIENT)), 4 * IMPATIENT)


def limited(run: Run, hard: float = HARD_SECONDS) -> Run:
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
