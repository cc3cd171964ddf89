"""A mutant: its bytes, its fault, and its format cell.

magic x codec x field x boundary class x fault x nesting x position

A mutant carries the cell that was changed.  `mutate.model.reachable` gives all cells
that the faults can reach, so a report can list those that a campaign has not tried.
"""

from __future__ import annotations

import sys
from typing import Final, Literal, NamedTuple, get_args

from kafka_corpus.case import Expectation as Expected
from kafka_records import RecordFormatError
from kafka_records.log import split_entries

# The place of the changed bytes: in an entry itself, in its records or inner
# messages as they stand, in what a codec packed, or in the codec's own framing.
Nesting = Literal["entry", "record", "packed", "stream"]
# Which of the entries of the input was changed.
Position = Literal["only", "first", "middle", "last"]
POSITIONS: Final[tuple[Position, ...]] = get_args(Position)

NO_FAULT: Final = "truth"
# A batch with a great many entries says little that its first ones do not.
MOST_ENTRIES: Final = 8


class MutantCell(NamedTuple):
    """One cell; *magic* is -1 and *codec* empty where there is none to be seen."""

    magic: int
    codec: str
    field: str
    boundary: str
    fault: str
    nesting: str
    position: str


def entry_position(index: int, count: int) -> Position:
    """The position of entry *index* among *count*."""
    if count <= 1:
        return "only"
    if index == 0:
        return "first"
    return "last" if index == count - 1 else "middle"


def first_entry_spans(data: bytes) -> list[tuple[int, int]]:
    """The spans of the first entries of *data*."""
    spans: list[tuple[int, int]] = []
    try:
        for span in split_entries(data):
            spans.append(span)
            if len(spans) == MOST_ENTRIES:
                break
    except RecordFormatError:
        pass  # the entries before it count
    return spans


__all__ = ["PROFILES", "Expected", "Mutant", "MutantCell", "Profile"]

# bytes: edits bytes and knows no structure, the baseline.  fixup: mutates fields and fixes
# up sizes and checksums.  model: a valid log with exactly one fault.
Profile = Literal["bytes", "fixup", "model"]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
# The former name of `fixup`: in saved campaigns, and accepted with a warning for one release.
OLD_FIXUP: Final = "repair"


def current_profile(name: str) -> str:
    """*name*, or `fixup` for its former name; prints a warning to standard error for the former name."""
    if name != OLD_FIXUP:
        return name
    sys.stderr.write(f"warning: the profile {OLD_FIXUP} is now called fixup; the old name goes with the next release\n")
    return "fixup"


class Mutant(NamedTuple):
    """One input for a decoder.

    Attributes:
        data: wire bytes, always.
        profile: the mutator that made them; `repair` in campaigns of earlier versions.
        labels: the edits in order; for `model` the fault and its variant.
        expected: `model` only: the right answer, which needs no second implementation.
        cell: the cell of the format's space that was changed.
    """

    data: bytes
    profile: str
    labels: tuple[str, ...]
    expected: Expected | None
    cell: MutantCell


def known_fault(mutant: Mutant) -> str:
    """The fault of *mutant*; empty if none is known.

    The labels of a compound input begin with what comes before its fault, which is valid; its cell has the fault.
    """
    if mutant.expected is None or not mutant.labels:
        return ""
    return mutant.cell.fault if mutant.cell.fault in mutant.labels else mutant.labels[0]
