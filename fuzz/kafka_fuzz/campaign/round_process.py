"""The process that runs one round, whatever the target: asked by arguments, answers in lines of JSON.

    python -m kafka_fuzz.campaign.round_process kafka-python --dir DIR --seed 1 --round 0 --cpu 20

A line of standard output is `{"progress": {...}}`, now and then, or, as the last
one, `{"report": {...}}`.  It stops, in good order, on SIGTERM.
"""

from __future__ import annotations

import sys
import time
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_fuzz.campaign.plan import Progress, RoundPlan, RoundReport, round_runner

SECONDS_BETWEEN_LINES: Final = 0.5


class ProgressWriter:
    """Writes progress, but not more often than somebody can read it."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, progress: Progress) -> None:
        """See `Tell`."""
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            write_round_line("progress", progress)


def write_round_line(name: str, what: Any) -> None:
    """Write one line."""
    sys.stdout.buffer.write(msgspec.json.encode({name: what}) + b"\n")
    sys.stdout.buffer.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the round; 0 unless the harness failed."""
    given = parsed(arguments)
    plan = RoundPlan(
        target=given.target,
        directory=given.dir,
        seed=given.seed,
        number=given.round,
        cpu_seconds=given.cpu,
        profile=given.profile,
        engine=given.engine,
        blind=given.blind,
        executions=given.executions,
    )
    try:
        report = round_runner(plan.target)(plan, ProgressWriter())
    except Exception as error:
        traceback.print_exc()
        last = f"{type(error).__name__}: {error}"
        report = RoundReport(target=plan.target, number=plan.number, seed=plan.seed, profile=plan.profile, failure=last)
    write_round_line("report", report)
    return int(bool(report.failure))


def parsed(arguments: Sequence[str] | None) -> Namespace:
    """The arguments, with their types."""
    parser = ArgumentParser(prog="python -m kafka_fuzz.campaign.round_process")
    parser.add_argument("target")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--round", type=int, default=0)
    parser.add_argument("--cpu", type=float, default=20.0)
    parser.add_argument("--profile", default="mixed")
    parser.add_argument("--engine", default="own", choices=["own", "atheris"])
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--executions", type=int, default=0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
