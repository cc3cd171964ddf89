"""Entry points for OSS-Fuzz and everybody else who runs libFuzzer: one target, stopping at the first find.

The program of a target is `fuzz_<target>.py`, which `kafkaproof fuzz export`
writes, with its seeds and its dictionary:

    ./fuzz_kafka_python.py -max_total_time=60 corpus/

It prints `DEDUP_TOKEN: <key>` before it raises, so that libFuzzer's own
minimiser stays with the same find.  What is in the list of known finds is
stepped over, and what its own seeds show raises nothing, or nothing else would
ever be found.  A file that is given is run alone, and raises whatever it shows.

Where atheris is not installed, it replays the files that it is given, as
libFuzzer does, and fuzzes nothing:

    ./fuzz_kafka_python.py crash-1 corpus/
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path

from kafka_fuzz.campaign.engine import fuzz, instrument
from kafka_fuzz.campaign.export import seeds_of
from kafka_fuzz.campaign.known import Stepping, read_known
from kafka_fuzz.campaign.loop import as_it_is
from kafka_fuzz.mutate import custom_mutator
from kafka_fuzz.targets import Target
from kafka_fuzz.targets.named import make_target


class Found(Exception):
    """The target did what it must not; the text says what."""


class Once:
    """A target as libFuzzer wants it: it raises at the first find that is not known."""

    def __init__(self, target: Target, shown: Collection[str] = ()) -> None:
        """Run *target*, and raise nothing for the buckets in *shown*; ValueError if the list of known finds is none."""
        self.target = target
        self.shown = shown
        self.known = read_known(Path())
        self.stepping = Stepping(target.name, self.known)

    def run(self, data: bytes) -> None:
        """One input."""
        mutant = as_it_is(bytes(data))
        if self.stepping.over(mutant):
            return
        outcome = self.target.run(mutant)
        known = outcome.bucket in self.shown or any(rule.explains(outcome.key) for rule in self.known)
        if outcome.is_find and not known:
            sys.stderr.write(f"DEDUP_TOKEN: {outcome.bucket}\n")
            raise Found(f"{outcome.bucket} {outcome.why}")


def shown_by_seeds(target: Target) -> frozenset[str]:
    """The buckets of the finds that the seeds of *target* show: libFuzzer would stop at the first of them."""
    stepping = Stepping(target.name, read_known(Path()))
    mutants = (as_it_is(data) for data in seeds_of(target.name))
    outcomes = (target.run(mutant) for mutant in mutants if not stepping.over(mutant))
    return frozenset(outcome.bucket for outcome in outcomes if outcome.is_find)


def main(name: str, arguments: Sequence[str] | None = None) -> None:
    """Hand the process over to libFuzzer, which ends it; without it, replay files, or say what is missing."""
    target = make_target(name)
    given = list(arguments or sys.argv)
    if find_spec("atheris") is None:
        sys.exit(replay(Once(target), given[1:]))
    is_replay = any(Path(argument).is_file() for argument in given[1:] if not argument.startswith("-"))
    once = Once(target, () if is_replay else shown_by_seeds(target))
    instrument(target.packages)
    fuzz(given, once.run, custom_mutator)


def replay(once: Once, arguments: Sequence[str]) -> str | None:
    """Run the files among *arguments*, and those in the folders among them; what is wrong, or None."""
    paths = [Path(argument) for argument in arguments if not argument.startswith("-")]
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    inputs = [file for file in files if file.is_file()]
    if not inputs:
        return "atheris is not installed: pip install 'kafkaproof[fuzz]'. Without it, give files to replay."
    for file in inputs:
        once.run(file.read_bytes())
    sys.stderr.write(f"Replayed {len(inputs)} inputs; nothing is fuzzed without atheris\n")
    return None
