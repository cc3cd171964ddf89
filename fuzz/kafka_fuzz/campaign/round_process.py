"""The process that runs one round of any target.  Its arguments are the plan, its output is lines of JSON.

    python -m kafka_fuzz.campaign.round_process target=kafka-python directory=DIR seed=1 number=0 cpu_seconds=20

Lines of standard output are `{"progress": {...}}`, and at the end `{"report": {...}}`.  SIGTERM stops the round.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kafka_fuzz.campaign.plan import Progress, parsed_plan, round_report, round_runner

SECONDS_BETWEEN_LINES: Final = 0.5


class ProgressWriter:
    """Writes progress, at most once in SECONDS_BETWEEN_LINES."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, progress: Progress) -> None:
        """See `OnProgress`."""
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
    plan = parsed_plan(sys.argv[1:] if arguments is None else arguments)
    try:
        report = round_runner(plan.target)(plan, ProgressWriter())
    except Exception as error:
        traceback.print_exc()
        report = round_report(plan, Progress(), failure=f"{type(error).__name__}: {error}")
    write_round_line("report", report)
    return int(bool(report.failure))


if __name__ == "__main__":
    sys.exit(main())
