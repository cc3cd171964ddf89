"""The effect of a finding: what users of the codec get; pure.

It follows from the outcome and from the fields that differ.  Fields of a batch
around its records have an effect only if a consumer's records or position
depend on them, or if a broker refuses what a writer made of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from kafka_conformance.judge.grade import Effect
from kafka_conformance.judge.verdict import Outcome
from kafka_corpus.case import Case

_BY_OUTCOME: Final[Mapping[Outcome, Effect]] = {
    "crash": "crash",
    "hang": "stuck",
    "memory": "memory",
    "accepts_invalid": "accepts_invalid",
    "rejects_valid": "rejects_valid",
    "wrong_error": "wrong_error",
    "lossy": "equivalent",
}
# Decoded fields of a batch on which records or the position depend: where a consumer continues, and which records a
# read_committed consumer leaves out.
DECODED: Final = frozenset({"last_offset", "producer_id", "transactional", "control"})
# Written fields of a batch that no reader depends on: brokers compute or replace them (TIM-08, HDR-07, NST-23), any
# base will do (TIM-01), and other compressed bytes hold the same records (CMP-03).
HARMLESS_WRITTEN: Final = frozenset(
    {"max_timestamp", "base_timestamp", "partition_leader_epoch", "attributes", "compression", "decompressed"}
)
UNREADABLE: Final = "bytes that can be read"

_INDEX: Final = re.compile(r"\[\d+\]")
_COUNTS: Final = re.compile(r": expected (\d+), got (\d+)")


class JudgedLine(Protocol):
    """What `effect_of` reads of a result line, kept or not."""

    @property
    def outcome(self) -> Outcome:
        """The verdict's outcome."""

    @property
    def field(self) -> str:
        """The first field that differs."""

    @property
    def why(self) -> str:
        """How it differs."""

    @property
    def also(self) -> tuple[str, ...]:
        """Further fields that differ, without indexes."""

    @property
    def observation(self) -> dict[str, Any]:
        """The observation in short."""


def effect_of(case: Case, line: JudgedLine) -> Effect | None:
    """The effect of a judged case; None if it is no finding."""
    if line.outcome in ("agree", "skipped"):
        return None
    if line.outcome != "wrong_data":
        return _BY_OUTCOME[line.outcome]
    if case.expect.answers:
        return "wrong_data"
    paths = {plain_path(line.field), *line.also}
    if case.op == "encode":
        return _effect_of_written(paths, line.why)
    return _effect_of_decoded(case, paths, line)


def plain_path(path: str) -> str:
    """A field without indexes and without its list of batches.

    >>> plain_path("batches[0].records[3].timestamp"), plain_path("batches.last_offset")
    ('records.timestamp', 'last_offset')
    """
    plain = _INDEX.sub("", path)
    return plain if plain == "batches.length" else plain.removeprefix("batches.")


def _effect_of_written(paths: Collection[str], why: str) -> Effect:
    if UNREADABLE in why:
        return "wrong_data"
    harmless = all(plain_path(path).partition(".")[0] in HARMLESS_WRITTEN or path == "data" for path in paths)
    return "equivalent" if harmless else "wrong_data"


def _effect_of_decoded(case: Case, paths: Collection[str], line: JudgedLine) -> Effect:
    found = {plain_path(path) for path in paths}
    if found == {"batches.length"} and _only_empty_batches_lack(case, line.why):
        return "equivalent"
    if _counts_are_fewer(line):
        return "lost_data"
    depends = {path for path in found if path.startswith(("records", "next_offset", "batches")) or path in DECODED}
    return "wrong_data" if depends else "equivalent"


def _counts_are_fewer(line: JudgedLine) -> bool:
    counts = _COUNTS.search(line.why) if line.field.endswith(".length") and "headers" not in line.field else None
    return counts is not None and int(counts[2]) < int(counts[1])


def _only_empty_batches_lack(case: Case, why: str) -> bool:
    """Whether the batches that are missing have no records: only the next position shows them."""
    counts = _COUNTS.search(why)
    return counts is not None and not any(batch.records for batch in case.expect.batches[int(counts[2]) :])
