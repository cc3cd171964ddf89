"""The matrix of profiles as a picture (SVG), for a page that shows no HTML of ours.

It is drawn from a small document of counts, which can be kept where the results
are too large to keep: the same document gives the same picture.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kafka_conformance.judge.grade import PROFILES, Profile
from kafka_conformance.reports import page_environment
from kafka_conformance.reports.collection import Collection
from kafka_conformance.reports.libraries import Library, MatrixRow, libraries, percent
from kafka_conformance.reports.profiles import ProfileGrade

ROW: Final = 22
COLUMN: Final = 96
HEAD: Final = 44
LEFT: Final = 196
LEGEND: Final = 40
# The share below which a profile is far from passing, in percent.
LOW: Final = 90


class PictureCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One profile of a testee: of the required cases those that pass, and the causes that fail it."""

    grade: ProfileGrade
    passed: int
    required: int
    causes: int

    @property
    def percent(self) -> int:
        """The share of the required cases that pass, rounded down."""
        return percent(self.passed, self.required)

    @property
    def shade(self) -> str:
        """The class of its colour."""
        return "low" if self.grade == "fail" and self.percent < LOW else self.grade

    @property
    def mark(self) -> str:
        """The number of causes, or a mark."""
        return str(self.causes) if self.causes else "✓" if self.grade == "pass" else "…"


class PictureRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One testee; *detail* if it is not the first row of its library."""

    testee: str
    version: str
    library: str
    detail: bool
    profiles: dict[Profile, PictureCell]

    @property
    def name(self) -> str:
        """The library's name, or that of a detail."""
        return self.testee if self.detail else self.library


class Counts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts that the picture shows."""

    corpus: str
    testees: list[PictureRow]


def counted(collection: Collection) -> Counts:
    """The counts of all runs, by library."""
    rows = [_row(library, row, at > 0) for library in libraries(collection) for at, row in enumerate(library.rows)]
    return Counts(collection.corpus, rows)


def _row(library: Library, row: MatrixRow, detail: bool) -> PictureRow:
    results = {result.profile: result for result in row.entry.report.profiled.profiles}
    cells = {
        profile: PictureCell(result.grade, result.passed, result.required, result.fail_causes)
        for profile in PROFILES
        if (result := results.get(profile)) is not None
    }
    return PictureRow(row.entry.label, row.entry.version.partition(" ")[0], library.id, detail, cells)


def encode_counts(counts: Counts) -> bytes:
    """The document, a line for each testee."""
    corpus, testees = msgspec.json.encode(counts.corpus), map(msgspec.json.encode, counts.testees)
    return b'{"corpus":%b,"testees":[\n%b\n]}\n' % (corpus, b",\n".join(testees))


def decoded(document: bytes) -> Counts:
    """Read it again.  Raises `msgspec.DecodeError`."""
    return msgspec.json.decode(document, type=Counts)


def matrix_svg(counts: Counts) -> str:
    """Testees by profile, light or dark as the viewer prefers; it loads nothing and runs nothing."""
    shown = [profile for profile in PROFILES if any(profile in row.profiles for row in counts.testees)]
    return page_environment().get_template("matrix.svg").render(
        rows=counts.testees,
        profiles=shown,
        row=ROW,
        column=COLUMN,
        head=HEAD,
        left=LEFT,
        width=max(LEFT + COLUMN * len(shown) + 8, 664),
        height=HEAD + ROW * len(counts.testees) + LEGEND,
    )  # fmt: skip
