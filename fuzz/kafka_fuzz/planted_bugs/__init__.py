"""Planted bugs: the reference with one thing wrong, to test the judge and the fuzzer.

`PLANTED_BUGS` has all of them by name.  The judge's tests check that the corpus
reports each one as `caught_as`; the fuzzer's tests check that each one with a
`budget` is found within that many executions.
"""

from __future__ import annotations

from typing import Final

from kafka_fuzz.planted_bugs.bug import (
    DecoderAnswer,
    Detection,
    InputSeries,
    PlantedBug,
    read_patches,
    search_difference,
)
from kafka_fuzz.planted_bugs.testees import NULL_TESTEES, TESTEE_BUGS

__all__ = [
    "NULL_TESTEES",
    "PLANTED_BUGS",
    "DecoderAnswer",
    "Detection",
    "InputSeries",
    "PlantedBug",
    "search_difference",
]

PLANTED_BUGS: Final[dict[str, PlantedBug]] = TESTEE_BUGS | read_patches()
