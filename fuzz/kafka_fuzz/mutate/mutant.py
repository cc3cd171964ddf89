"""A mutant: its bytes, its fault, and its format cell.

magic x codec x field x boundary class x fault x nesting x position

A mutant carries the cell of what was done to it.  `observed` gives the cells of
bytes that come from elsewhere, `mutate.model.reachable` those that the faults can
reach, so that a report can say what a campaign has not tried.
"""

from __future__ import annotations

import sys
from typing import Final, Literal, NamedTuple, get_args

from kafka_corpus.case import Expectation as Expected
from kafka_records import RecordFormatError
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1, Layout
from kafka_records.log import split_entries

# The place of the changed bytes: in an entry itself, in its records or inner
# messages as they stand, in what a codec packed, or in the codec's own framing.
Nesting = Literal["entry", "record", "packed", "stream"]
NESTINGS: Final[tuple[Nesting, ...]] = get_args(Nesting)
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


def boundary_of(value: int, width: int) -> str:
    """The class of a signed *value* in a field of *width* bytes.

    >>> boundary_of(-1, 4), boundary_of(2**31 - 1, 4), boundary_of(5, 8)
    ('minus one', 'largest', 'small')
    """
    most = (1 << 8 * width - 1) - 1
    if value in NAMED:
        return NAMED[value]
    if value >= most - 12:
        return "largest" if value == most else "near largest"
    if value < 0:
        return "smallest" if value == -most - 1 else "negative"
    return "small" if value < 128 else "large"


NAMED: Final = {-1: "minus one", 0: "zero", 1: "one"}


def observed_cell(data: bytes) -> set[MutantCell]:
    """The cells of the fixed fields of *data*, as far as its framing can be followed."""
    spans = first_entry_spans(data)
    return {cell for index, (start, _) in enumerate(spans) for cell in entry_cells(data, start, index, len(spans))}


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


def entry_cells(data: bytes, start: int, index: int, count: int) -> set[MutantCell]:
    """A cell for each fixed field of one entry."""
    layout = fixed_fields_layout(data[start + MAGIC_OFFSET])
    if start + layout.size > len(data):
        return set()
    values = layout.values(data, start)
    number = values["attributes"] & 0x07
    codec = COMPRESSIONS[number] if number < len(COMPRESSIONS) else "unknown"
    position = entry_position(index, count)
    return {
        MutantCell(
            values["magic"], codec, field.name, boundary_of(values[field.name], field.width), "", "entry", position
        )
        for field in layout.fields
        if field.name != "crc"
    }


def fixed_fields_layout(magic: int) -> Layout:
    """The layout of the fixed fields of an entry of *magic*."""
    if magic == MAGIC_VALUE_V2:
        return BATCH_V2
    return MESSAGE_V1 if magic == 1 else MESSAGE_V0


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
