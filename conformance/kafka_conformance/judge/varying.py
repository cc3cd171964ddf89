"""Outcomes of known testees that vary from run to run, as measured on a busy machine.

A repeat shows most of them at once (`runner/workers.py`).  Some need many runs: whether a runtime with a garbage
collector fills a forged length with zeros depends on whether it has given back the memory of the claim before.
Where a run has one of the outcomes that were seen, the case is `flaky`, with the numbers that were measured.

`varying.toml` has them for each testee, with its version; `python -m benchmarks.same_verdicts --write` measures them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from kafka_conformance.judge import read_table
from kafka_conformance.judge.verdict import Outcome
from kafka_corpus.vector_format import matches

FILE: Final = "varying.toml"

# An outcome that differed between two repeats of one run.
WORDS: Final = {"flaky": "repeats that differed"}

Counts = Mapping[Outcome, int]
"""In how many runs a case had each outcome."""


class VaryingTestee(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of one testee whose outcomes varied, and how often each had which outcome.

    `reasons` says by a pattern of case ids why they vary, as far as that is known.
    """

    name: str
    version: str
    date: str
    cases: Mapping[str, Counts]
    reasons: Mapping[str, str] = {}

    def text(self, case: str, outcome: Outcome) -> str:
        """How often *case* had each outcome, and why, if *outcome* is one of those that vary; empty if it is not."""
        counts = self.cases.get(case, {})
        if outcome not in counts:
            return ""
        often = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        words = ", ".join(f"{WORDS.get(each, each.replace('_', ' '))} in {count}" for each, count in often)
        reasons = [reason for pattern, reason in self.reasons.items() if matches(pattern, case)]
        return "; ".join([f"of {sum(counts.values())} runs on a busy machine: {words}", *reasons])


class VaryingTable(msgspec.Struct, frozen=True):
    """The content of `varying.toml`."""

    testee: Sequence[VaryingTestee] = ()


@cache
def varying_testees() -> Mapping[tuple[str, str], VaryingTestee]:
    """The recorded testees, by name and version."""
    return {(each.name, each.version): each for each in read_table(FILE, VaryingTable).testee}


def variation_text(name: str, version: str, case: str, outcome: Outcome) -> str:
    """How often each outcome of *case* was seen if *outcome* is known to vary for the testee *name*, else nothing."""
    known = varying_testees().get((name, version))
    return known.text(case, outcome) if known else ""
