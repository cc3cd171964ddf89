"""Results by library: its rows in the matrix, and the causes that they share; pure.

A library has a row for its client, which is what its users run, and may have
rows for its codecs.  The client's row is the library's row; the others are
details below it.  A cause is one defect of the library, whichever rows show it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final

from kafka_conformance.causes import CauseKey, ReviewedCause, reviewed_causes
from kafka_conformance.judge.grade import GRADES, PROFILES, Effect, Grade, Reach, grade_rank
from kafka_conformance.judge.reach import order
from kafka_conformance.reports.collection import Collection, CollectionEntry, folder_name
from kafka_conformance.reports.profiles import (
    BROKER,
    CaseProfile,
    CompressionResult,
    GradedFinding,
    ProfileGrade,
    ProfileResult,
    profile_text,
    row_name,
)
from kafka_records.constants import COMPRESSIONS

# Testees of this project; their rows come last.
OWN: Final = ("reference", "columnar")
# Endings of the names of rows that are whole clients.
CLIENTS: Final = ("-client", "-consumer", "-producer")
_GROUPS: Final = re.compile(r"\s*\((?:groups? [^)]*|seed [^)]*|catalogue [^)]*|TXN)\)")


@dataclass(frozen=True, slots=True)
class ProfileCell:
    """One profile of one row, or one compression of a profile.

    Attributes:
        grade: `pass`, `fail` or `incomplete`; empty if the row does not have the profile.
        percent: of the required cases, those that pass, rounded down.
        causes: the number of causes that fail it.
        words: all of it in words.
    """

    grade: ProfileGrade | str = ""
    percent: int = 0
    causes: int = 0
    words: str = ""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One testee: a cell for each profile, and below it for each compression."""

    number: int
    entry: CollectionEntry
    client: bool
    cells: Mapping[CaseProfile, ProfileCell]
    compressions: Mapping[tuple[CaseProfile, str], ProfileCell]


@dataclass(frozen=True, slots=True)
class LibraryCause:
    """One cause of a library, with its findings in all rows.

    Attributes:
        key: its id and title.
        grade: the gravest grade of its findings.
        findings: those of each row, by the row's number; the smallest case first.
    """

    key: CauseKey
    grade: Grade
    findings: Mapping[int, tuple[GradedFinding, ...]] = field(repr=False)

    @property
    def reviewed(self) -> ReviewedCause | None:
        """The entry that a person wrote; None for findings that are grouped by rule and effect."""
        return self.key.reviewed

    @property
    def every(self) -> Iterator[GradedFinding]:
        """All findings."""
        return (finding for row in self.findings.values() for finding in row)

    @property
    def gravest(self) -> GradedFinding:
        """The finding that stands for the cause: that of the case that shows it best."""
        found = [finding for finding in self.every if finding.graded.grade == self.grade]
        wanted = self.reviewed.smallest if self.reviewed else ""
        return next((finding for finding in found if finding.case.id == wanted), found[0])

    @property
    def effect(self) -> Effect:
        """The effect of the gravest finding."""
        return self.gravest.graded.effect

    @property
    def reach(self) -> Reach:
        """The reach of the gravest finding."""
        return self.gravest.graded.reach

    @property
    def releases(self) -> list[str]:
        """The broker releases that store or wrote the bytes of its findings, those of INFO aside; oldest first."""
        grave = (finding.graded for finding in self.every if finding.graded.grade != "INFO")
        return order({release for graded in grave for release in graded.releases})

    @property
    def profiles(self) -> list[CaseProfile]:
        """The profiles of its findings, those of INFO aside, in order."""
        found = {finding.profile for finding in self.every if finding.graded.grade != "INFO"}
        return [profile for profile in (*PROFILES, BROKER) if profile in found]

    @property
    def cases(self) -> list[str]:
        """The ids of its cases, each once; the smallest of the gravest grade comes first."""
        ordered = sorted(self.every, key=lambda finding: grade_rank(finding.graded.grade))
        return list(dict.fromkeys([self.gravest.case.id, *(finding.case.id for finding in ordered)]))


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Attributes:
        id: its name in links, which does not depend on the other results of a report.
        rows: the client's first.
        causes: reviewed ones first, then by grade and number of cases; without those of INFO alone.
        info: the number of findings of grade INFO.
    """

    id: str
    rows: tuple[MatrixRow, ...]
    causes: tuple[LibraryCause, ...]
    info: int

    @property
    def own(self) -> bool:
        """Whether it is a testee of this project."""
        return self.id in OWN


def libraries(collection: Collection) -> tuple[Library, ...]:
    """The libraries of *collection* by name, those of this project last."""
    grouped: dict[str, list[MatrixRow]] = defaultdict(list)
    for number, entry in enumerate(collection.entries):
        grouped[library_id(entry)].append(_row(number, entry))
    made = [_library(id_, rows) for id_, rows in grouped.items()]
    return tuple(sorted(made, key=lambda each: (each.own, each.id.lower())))


def library_id(entry: CollectionEntry) -> str:
    """The name of the library that *entry* is a row of: variants and clients have the library's name as a prefix.

    The names are those of the reviewed causes, which the variants of a library share.
    """
    row = row_name(entry.results.header.testee)
    names = [name for name in reviewed_causes() if row == name or row.startswith(f"{name}-")]
    connect = str(entry.results.header.testee.get("connect", ""))
    known = bool(connect) and ":" not in connect
    return max(names, key=len) if names and known else folder_name(row)


def _library(id_: str, rows: Sequence[MatrixRow]) -> Library:
    ordered = sorted(
        rows, key=lambda row: (not row.client, row_name(row.entry.results.header.testee) != id_, row.number)
    )
    grouped: dict[str, dict[int, list[GradedFinding]]] = defaultdict(lambda: defaultdict(list))
    keys: dict[str, CauseKey] = {}
    info = 0
    for row in ordered:
        profiled = row.entry.report.profiled
        shown = {cause.id: cause.cases for cause in reversed(profiled.causes)}
        for finding in profiled.findings:
            info += finding.graded.grade == "INFO"
            if finding.cause.id in shown:
                keys[finding.cause.id] = finding.cause
                grouped[finding.cause.id][row.number].append(finding)
        for id_of_cause, cases in shown.items():
            places = {case: at for at, case in enumerate(cases)}
            grouped[id_of_cause][row.number].sort(key=lambda each: places.get(each.case.id, len(places)))
    causes = [_cause(keys[cause], findings) for cause, findings in grouped.items()]
    causes.sort(key=lambda each: (each.reviewed is None, grade_rank(each.grade), -len(each.cases), each.key.id))
    return Library(id_, tuple(ordered), tuple(causes), info)


def _cause(key: CauseKey, findings: Mapping[int, Sequence[GradedFinding]]) -> LibraryCause:
    grades = {finding.graded.grade for row in findings.values() for finding in row}
    worst = min(grades, key=grade_rank)
    return LibraryCause(key, worst, {number: tuple(row) for number, row in findings.items()})


def _row(number: int, entry: CollectionEntry) -> MatrixRow:
    testee = entry.results.header.testee
    client = bool(testee.get("consumer")) or row_name(testee).endswith(CLIENTS)
    cells: dict[CaseProfile, ProfileCell] = {}
    columns: dict[tuple[CaseProfile, str], ProfileCell] = {}
    for result in entry.report.profiled.profiles:
        cells[result.profile] = profile_cell(entry.label, result)
        for column in result.compressions:
            columns[result.profile, column.compression] = compression_cell(entry.label, result, column)
    return MatrixRow(number, entry, client, cells, columns)


def profile_cell(label: str, result: ProfileResult) -> ProfileCell:
    """The cell of a profile."""
    lacking = sum(result.missing.values())
    unanswered = f", {lacking:,} not answered" if lacking else ""
    counted = f"{result.passed:,} of {result.required:,} required cases pass{unanswered}"
    text = f"{label}, {result.profile}: {profile_text(result)}; {counted}"
    return ProfileCell(result.grade, percent(result.passed, result.required), result.fail_causes, text)


def compression_cell(label: str, result: ProfileResult, column: CompressionResult) -> ProfileCell:
    """The cell of one compression; empty if no case of the profile requires it."""
    if not column.required:
        return ProfileCell()
    counted = f"{column.passed:,} of {column.required:,} required cases pass, {column.fail_causes:,} causes"
    text = f"{label}, {result.profile}, {column.compression}: {counted}"
    return ProfileCell(column.grade, percent(column.passed, column.required), column.fail_causes, text)


def percent(part: int, whole: int) -> int:
    """A share in whole percent: 100 only if it is all."""
    return 100 * part // whole if whole else 0


def matrix_columns(made: Sequence[Library]) -> dict[CaseProfile, list[str]]:
    """The profiles that some row has, and the compressions of each."""
    rows = [row for library in made for row in library.rows]
    names: tuple[CaseProfile, ...] = (*PROFILES, BROKER)
    return {
        profile: [name for name in COMPRESSIONS if any((profile, name) in row.compressions for row in rows)]
        for profile in names
        if any(profile in row.cells for row in rows)
    }


def cause_counts(library: Library) -> dict[Grade, int]:
    """How many reviewed causes there are of each grade, and unreviewed ones too."""
    return {grade: sum(cause.grade == grade for cause in library.causes) for grade in GRADES}


@cache
def area_sentence(area: str) -> str:
    """The area of the corpus in one sentence: the docstring of its module; empty for an area of others' cases."""
    folder = files("kafka_corpus.cases")
    for operation in sorted(folder.iterdir(), key=lambda each: each.name):
        module = operation.joinpath(f"{area}.py")
        if re.fullmatch(r"\w+", area) and operation.is_dir() and module.is_file():
            text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
            return _GROUPS.sub("", " ".join(text.split("\n\n")[0].split())).strip()
    return ""
