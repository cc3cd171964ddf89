"""Entry points for OSS-Fuzz and everybody else who runs libFuzzer: one target, stopping at the first find.

The program of a target is `fuzz_<target>.py`, which `kafkaproof fuzz export`
writes, with its seeds and its dictionary:

    ./fuzz_kafka_python.py -max_total_time=60 corpus/

It prints `DEDUP_TOKEN: <key>` before it raises, so that libFuzzer's own
minimiser stays with the same find.  What is in the list of known finds is
stepped over, or nothing else would ever be found.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kafka_fuzz.campaign.engine import fuzz, instrument
from kafka_fuzz.campaign.in_process import make_target
from kafka_fuzz.campaign.known import Stepping, read_known
from kafka_fuzz.campaign.loop import as_it_is
from kafka_fuzz.mutate import custom_mutator
from kafka_fuzz.targets import Target


class Found(Exception):
    """The target did what it must not; the text says what."""


class Once:
    """A target as libFuzzer wants it: it raises at the first find that is not known."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.known = read_known(Path())
        self.stepping = Stepping(target.name, self.known)

    def run(self, data: bytes) -> None:
        """One input."""
        mutant = as_it_is(bytes(data))
        if self.stepping.over(mutant):
            return
        outcome = self.target.run(mutant)
        if outcome.is_find and not any(rule.explains(outcome.key) for rule in self.known):
            sys.stderr.write(f"DEDUP_TOKEN: {outcome.bucket}\n")
            raise Found(f"{outcome.bucket} {outcome.why}")


def main(name: str, arguments: Sequence[str] | None = None) -> None:
    """Hand the process over to libFuzzer, which ends it."""
    target = make_target(name)
    instrument(target.packages)
    fuzz(list(arguments or sys.argv), Once(target).run, custom_mutator)
