"""Pages of a dossier: the reviewed causes of FAIL and HOSTILE findings, by library.

Rows of the matrix that are variants of one library share its causes, so a cause
has one page, which names the rows.  Findings without a reviewed cause are counted
and have no page; those of grade NON_STRICT and INFO are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_conformance.causes import ReviewedCause, library_of, reviewed_causes
from kafka_conformance.judge.grade import REACHES, UNSAFE, Grade, Reach, grade_rank
from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.reports.collection import field_of_testee, folder_name
from kafka_conformance.reports.profiles import GradedFinding, certify_profiles, row_name, smallness
from kafka_conformance.runner.results import Results
from kafka_corpus.case import Case

# The grades of findings that are published.
PUBLISHED: Final[tuple[Grade, ...]] = ("FAIL", "HOSTILE")


def is_sensitive(cause: ReviewedCause) -> bool:
    """Whether *cause* is withheld: with its bytes a hostile peer, or any producer, stops a consumer."""
    sent = cause.grade == "HOSTILE" or cause.reach == "any_producer" or "hostile" in cause.profiles
    return cause.effect in UNSAFE and sent


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """One row of the matrix: a library, or a variant of it.

    Attributes:
        name: as `certify` knows it.
        version: the release that its result is of.
        language: as the testee says.
        corpus: the hash of the corpus that it was sent.
        memory: the limit in bytes; 0 if it is not known.
    """

    name: str
    version: str
    language: str
    corpus: str = ""
    memory: int = 0

    @property
    def release(self) -> str:
        """The version without those of its parts, which a testee may list after it."""
        return self.version.split()[0] if self.version.split() else "unknown"


@dataclass(frozen=True, slots=True)
class RowFinding:
    """A finding of one row."""

    row: LibraryRow
    finding: GradedFinding


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """The findings of one reviewed cause in all rows of a library; *findings* are not empty, the smallest is first."""

    library: str
    cause: ReviewedCause
    findings: tuple[RowFinding, ...]

    @property
    def id(self) -> str:
        """The same in every run: disclosure states and links refer to it."""
        return f"{self.library}/{self.cause.id}"

    @property
    def file(self) -> str:
        """The name of its page."""
        return f"{self.cause.id}.md"

    @property
    def case(self) -> Case:
        """The smallest case."""
        return self.findings[0].finding.case

    @property
    def row(self) -> LibraryRow:
        """The row that the smallest case is of."""
        return self.findings[0].row

    @property
    def rows(self) -> tuple[LibraryRow, ...]:
        """All rows that show the cause, by name."""
        return tuple(sorted({each.row for each in self.findings}, key=lambda row: row.name))

    @property
    def grade(self) -> Grade:
        """The grade of the entry."""
        return "FAIL" if self.cause.grade == "FAIL" else "HOSTILE"

    @property
    def reach(self) -> Reach:
        """The widest reach, as the entry says."""
        return self.cause.reach

    @property
    def sensitive(self) -> bool:
        """Whether a party that can send bytes stops a consumer: such a cause is reported to the maintainers first."""
        return is_sensitive(self.cause)


@dataclass(frozen=True, slots=True)
class LibraryDossier:
    """All that is published of one release of a library.

    Attributes:
        name: the library.
        release: its version.
        rows: the rows that there are results of.
        groups: the reviewed causes, FAIL first, by reach.
        unreviewed: findings of grade FAIL or HOSTILE without a reviewed cause, by grade.
        cases: the ids of all cases that each row has a line for, or None if its result is of the whole corpus.
    """

    name: str
    release: str
    rows: tuple[LibraryRow, ...]
    groups: tuple[CauseGroup, ...]
    unreviewed: Mapping[Grade, int]
    cases: Mapping[str, frozenset[str] | None]

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return folder_name(f"{self.name}-{self.release}")


def library_row(done: Results) -> LibraryRow:
    """The row that *done* is the result of."""
    memory = done.header.settings.get("memory")
    return LibraryRow(
        name=row_name(done.header.testee),
        version=field_of_testee(done, "version", "unknown"),
        language=field_of_testee(done, "language"),
        corpus=done.header.corpus,
        memory=memory if isinstance(memory, int) else 0,
    )


def library_dossiers(
    results: Iterable[Results], cases: Mapping[str, Case], runnable: Callable[[str, Case], bool]
) -> list[LibraryDossier]:
    """The dossiers of the libraries in *results*, by name and release.

    Args:
        results: one result for each row.
        cases: the corpus, by id; findings of other cases are left out.
        runnable: whether there is a reproducer for a row and a case; of equally wide cases, one with it goes first.
    """
    by_library: dict[tuple[str, str], list[Results]] = defaultdict(list)
    for done in results:
        row = library_row(done)
        by_library[library_of(row.name), row.release].append(done)
    return [_dossier(name, release, some, cases, runnable) for (name, release), some in sorted(by_library.items())]


def _dossier(
    name: str,
    release: str,
    results: Sequence[Results],
    cases: Mapping[str, Case],
    runnable: Callable[[str, Case], bool],
) -> LibraryDossier:
    # A row of plug-ins has causes of the library that they are plugged into, too: these are on that library's pages.
    own = {cause.id for cause in reviewed_causes().get(name, ())}
    found: dict[str, list[RowFinding]] = defaultdict(list)
    entries: dict[str, ReviewedCause] = {}
    unreviewed: dict[Grade, int] = dict.fromkeys(PUBLISHED, 0)
    for done in results:
        row = library_row(done)
        # Only findings are graded: the reach of all other cases takes most of the time.
        wrong = replace(done, lines=tuple(line for line in done.lines if line.outcome in SEVERITIES))
        for finding in certify_profiles(wrong, cases).findings:
            grade, entry = finding.graded.grade, finding.cause.reviewed
            if grade not in PUBLISHED:
                continue
            if entry is None:
                unreviewed[grade] += 1
            elif entry.id in own:
                entries[entry.id] = entry
                found[entry.id].append(RowFinding(row, finding))
    groups = [CauseGroup(name, entries[id_], _ordered(entries[id_], some, runnable)) for id_, some in found.items()]
    whole = {library_row(done).name: done.complete and not done.header.only for done in results}
    return LibraryDossier(
        name=name,
        release=release,
        rows=tuple(sorted((library_row(done) for done in results), key=lambda row: row.name)),
        groups=tuple(sorted(groups, key=_weight)),
        unreviewed=unreviewed,
        cases={
            library_row(done).name: None
            if whole[library_row(done).name]
            else frozenset(line.case for line in done.lines)
            for done in results
        },
    )


def _weight(group: CauseGroup) -> tuple[int, int, int, str]:
    return grade_rank(group.grade), REACHES.index(group.reach), -len(group.findings), group.cause.id


def _ordered(
    cause: ReviewedCause, found: Iterable[RowFinding], runnable: Callable[[str, Case], bool]
) -> tuple[RowFinding, ...]:
    """*found*, the smallest first: the entry's grade, reach, valid before invalid, the reviewer's case, size."""

    def order(each: RowFinding) -> tuple[bool, int, int, bool, bool, int, str, int]:
        finding = each.finding
        reach, expectation, size, id_ = smallness(finding)
        return (
            finding.graded.grade != cause.grade,
            reach,
            expectation,
            not runnable(each.row.name, finding.case),
            id_ != cause.smallest,
            size,
            id_,
            # The row that the entry names first is the plainest form of the library.
            cause.testees.index(each.row.name),
        )

    return tuple(sorted(found, key=order))
