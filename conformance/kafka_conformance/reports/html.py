"""Reports as HTML pages that need no other file.

The matrix of profiles is in the page as it is.  Causes, the list of findings and
the cases are in it as compressed JSON, and are unpacked when one is looked at,
so that a thousand cases with their bytes take a few megabytes.  The script
makes text nodes only, and a content security policy allows no script or style
but the two of the page, by hash, and nothing from outside.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec
from markupsafe import Markup

from kafka_conformance.judge.grade import GRADES, PROFILES, REACHES, Grade, Reach, grade_rank
from kafka_conformance.judge.reach import order
from kafka_conformance.judge.verdict import OPEN, OUTCOMES, SEVERITIES, outcome_rank
from kafka_conformance.reports import asset, page_environment, policy_hash
from kafka_conformance.reports.collection import (
    KINDS,
    Collection,
    CollectionEntry,
    cases_by_id,
    certify_command,
    counts,
)
from kafka_conformance.reports.details import detail
from kafka_conformance.reports.libraries import (
    Library,
    LibraryCause,
    MatrixRow,
    ProfileCell,
    area_sentence,
    libraries,
    matrix_columns,
    percent,
)
from kafka_conformance.reports.profiles import GradedFinding, certify_profiles, profile_line
from kafka_conformance.reports.summary import NULLS, null_line
from kafka_conformance.runner.history import History
from kafka_conformance.runner.results import ResultHeader, ResultLine, Results
from kafka_conformance.sanitize import printable
from kafka_corpus.vector_format import CODEC_OPS
from kafka_records.constants import COMPRESSIONS
from kafka_records.rules import all_rules

CHUNK: Final = 40
MOST_WHY: Final = 160
# Grades that an area counts as wrong.
GRAVE: Final[tuple[Grade, ...]] = ("FAIL", "HOSTILE")


@dataclass(frozen=True, slots=True)
class AreaCell:
    """One area of one testee.

    Attributes:
        shade: `pass` if no case has a finding of FAIL or HOSTILE, else `fail`; empty if no case was answered.
        percent: the share of the answered cases without such a finding, rounded down.
        words: all of it in words.
    """

    shade: str
    percent: int
    words: str


class Program(Protocol):
    """A program that reproduces a finding: its texts by file name, and the commands that run it."""

    @property
    def language(self) -> str:
        """Its language."""

    @property
    def files(self) -> Mapping[str, str]:
        """Texts by file name; the program is the first."""

    @property
    def setup(self) -> Sequence[str]:
        """Commands for once, in the folder of the files."""

    @property
    def run(self) -> str:
        """The command."""


# The program for a finding of a run, if there is one.
Programs = Callable[[Results, GradedFinding], Program | None]


# What is said of the disclosure of a cause, by LIBRARY/CAUSE.
Disclosures = Mapping[str, str]


def result_page(
    collection: Collection,
    beside: Sequence[str] = (),
    programs: Programs | None = None,
    disclosures: Disclosures = MappingProxyType({}),
) -> str:
    """The page.

    Args:
        collection: the runs.
        beside: the names of cross matrices in the same directory.
        programs: gives reproducers.
        disclosures: state and days of the disclosure of causes, by LIBRARY/CAUSE.
    """
    found, made = _found(collection), libraries(collection)
    script, style = asset("shared.js") + asset("page.js"), asset("page.css")
    rows = [row for library in made for row in library.rows]
    return page_environment().get_template("page.html").render(
        collection=collection,
        beside=beside,
        libraries=made,
        rows=rows,
        columns=matrix_columns(made),
        no_cell=ProfileCell(),
        nulls=null_shares(),
        complete={row.number: row.entry.results.complete and not row.entry.results.header.only for row in rows},
        profile_line=profile_line,
        areas=_areas(collection, rows),
        found=_disagreeing(collection),
        grades=GRADES,
        reaches=[(reach, REACH_WORDS[reach]) for reach in REACHES],
        profiles=PROFILES,
        releases=order({release for library in made for cause in library.causes for release in cause.releases}),
        severities=SEVERITIES,
        words=words,
        compared=[(number, entry) for number, entry in enumerate(collection.entries) if entry.changes is not None],
        counts=counts,
        kinds=KINDS,
        index=packed_json(index_page(collection, made, disclosures)),
        cases=packed_json(finding_index(collection, found)),
        programs=packed_json({} if programs is None else _programs(collection, made, programs)),
        chunks=list(_chunks(collection, found)),
        script=Markup(script),
        style=Markup(style),
        script_hash=policy_hash(script),
        style_hash=policy_hash(style),
    )  # fmt: skip


REACH_WORDS: Final[Mapping[Reach, str]] = {
    "any_producer": "any producer",
    "broker_itself": "the broker itself",
    "old_logs": "old logs",
    "retired": "retired formats",
    "rot": "damaged bytes",
    "hostile": "a hostile peer",
    "as_writer": "its own output",
}


def packed_json(value: Any) -> str:
    """JSON, compressed and in base64, which is the same for the same value."""
    return b64encode(gzip.compress(msgspec.json.encode(value), 9, mtime=0)).decode()


def words(outcome: str) -> str:
    """An outcome as it is read aloud."""
    return outcome.replace("_", " ")


def _areas(collection: Collection, rows: Sequence[MatrixRow]) -> list[tuple[str, str, list[AreaCell]]]:
    """Areas that compare testees, each with its sentence: not those that only one of several answers."""
    cells = {area: [area_cell(row.entry, area) for row in rows] for area in collection.areas()}
    least = min(len(rows), 2)
    return [
        (area, area_sentence(area), made)
        for area, made in cells.items()
        if sum(bool(cell.shade) for cell in made) >= least
    ]


def area_cell(entry: CollectionEntry, area: str) -> AreaCell:
    """The cell of one testee for an area."""
    lines = [line for line in entry.results.lines if line.area == area and line.outcome not in OPEN]
    if not lines:
        return AreaCell("", 0, f"{entry.label}, {area}: no case was answered")
    findings = entry.report.profiled.by_case
    grave = sum(findings[line.case].graded.grade in GRAVE for line in lines if line.case in findings)
    text = f"{entry.label}, {area}: {grave:,} of {len(lines):,} answered cases have a finding of FAIL or HOSTILE"
    return AreaCell("fail" if grave else "pass", percent(len(lines) - grave, len(lines)), text)


def index_page(
    collection: Collection, made: Sequence[Library], disclosures: Disclosures = MappingProxyType({})
) -> dict[str, Any]:
    """The data of the pages of libraries and causes."""
    library_of = {row.number: library.id for library in made for row in library.rows}
    testees = [
        {
            "label": entry.label,
            "version": entry.version,
            "language": entry.said("language"),
            "library": library_of[number],
            "again": certify_command(entry.results.header),
            "line": profile_line(entry.report.profiled.profiles),
        }
        for number, entry in enumerate(collection.entries)
    ]
    return {
        "chunk": CHUNK,
        "found": _disagreeing(collection),
        "outcomes": OUTCOMES,
        "severities": len(SEVERITIES),
        "grades": GRADES,
        "reaches": REACH_WORDS,
        "testees": testees,
        "libraries": [_listed_library(library, disclosures) for library in made],
    }


def _listed_library(library: Library, disclosures: Disclosures) -> dict[str, Any]:
    rows = [{"testee": row.number, "client": row.client} for row in library.rows]
    causes = [_listed_cause(cause, disclosures.get(f"{library.id}/{cause.key.id}", "")) for cause in library.causes]
    return {"id": library.id, "own": library.own, "rows": rows, "info": library.info, "causes": causes}


def _listed_cause(cause: LibraryCause, disclosure: str) -> dict[str, Any]:
    gravest, reviewed = cause.gravest, cause.reviewed
    listed = {
        "id": cause.key.id,
        "title": printable(cause.key.title),
        "grade": cause.grade,
        "reason": gravest.graded.reason,
        "effect": cause.effect,
        "reach": cause.reach,
        "profiles": cause.profiles,
        "releases": cause.releases,
        "reviewed": reviewed is not None,
        "known": all(finding.known for finding in cause.every),
        "rules": list(reviewed.rules if reviewed else gravest.case.rules[:1]),
        "counts": {str(number): grade_counts(found) for number, found in cause.findings.items()},
        "cases": cause.cases,
    }
    if reviewed is not None:
        names = ("version", "source", "upstream", "first_bad", "last_bad", "formerly")
        listed |= {name: value for name in names if (value := getattr(reviewed, name))}
        listed["explanation"] = " ".join(reviewed.explanation.split())
        if disclosure:
            listed["disclosure"] = printable(disclosure)
        if reviewed.reply is not None:
            listed["reply"] = reviewed.reply.document()
    return listed


def grade_counts(findings: Sequence[GradedFinding]) -> dict[str, int]:
    """How many findings there are of each grade."""
    counter = Counter(finding.graded.grade for finding in findings)
    return {grade: counter[grade] for grade in GRADES if counter[grade]}


def _programs(collection: Collection, made: Sequence[Library], programs: Programs) -> dict[str, Any]:
    """The reproducers of reviewed causes, by the cause's link."""
    found: dict[str, Any] = {}
    for library in made:
        for cause in library.causes:
            number = next(number for number, row in cause.findings.items() if cause.gravest in row)
            program = programs(collection.entries[number].results, cause.gravest) if cause.reviewed else None
            if program is not None:
                commands = [*program.setup, program.run]
                files = {name: text.rstrip() for name, text in program.files.items()}
                found[f"{library.id}/{cause.key.id}"] = {
                    "language": program.language,
                    "commands": commands,
                    "files": files,
                }
    return found


def finding_index(collection: Collection, found: Sequence[str]) -> dict[str, Any]:
    """The data of the list of findings; cases are in the order of the chunks."""
    cases = [_listed(collection, case) for case in found]
    cited = {rule for case in cases for rule in case["rules"]}
    rules = {rule.id: [rule.statement, rule.outcome, rule.sources] for rule in all_rules() if rule.id in cited}
    return {"cases": cases, "rules": rules}


def _found(collection: Collection) -> list[str]:
    """Ids of the cases with findings, the gravest grade first."""
    grades: dict[str, int] = {}
    for entry in collection.entries:
        for case, finding in entry.report.profiled.by_case.items():
            grades[case] = min(grades.get(case, len(GRADES)), grade_rank(finding.graded.grade))
    return sorted(collection.found(), key=lambda case: grades.get(case, len(GRADES)))


def _chunks(collection: Collection, found: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(found), CHUNK):
        yield packed_json([detail(collection, case) for case in found[start : start + CHUNK]])


def _disagreeing(collection: Collection) -> int:
    return len({finding.line.case for entry in collection.entries for finding in entry.report.findings})


def _listed(collection: Collection, case_id: str) -> dict[str, Any]:
    lines = [entry.lines.get(case_id) for entry in collection.entries]
    first = min(filter(None, lines), key=lambda line: outcome_rank(line.outcome))
    case = collection.cases.get(case_id)
    return {
        "id": case_id,
        "title": "" if case is None else case.title,
        "area": printable(first.area),
        "op": printable(first.op),
        "rules": [printable(rule) for rule in first.rules[:20]],
        "expected": printable(first.expected),
        "outcomes": [None if line is None else OUTCOMES.index(line.outcome) for line in lines],
        "known": [number for number, entry in enumerate(collection.entries) if case_id in entry.report.applied.known],
        "changes": list(_changes(collection, case_id)),
        "why": list(_reasons(lines)),
    } | _graded(collection, case_id)


def _graded(collection: Collection, case_id: str) -> dict[str, Any]:
    """Reach, and the grade, profile and cause of each testee's finding."""
    found = [entry.report.profiled.by_case.get(case_id) for entry in collection.entries]
    return {
        "reach": next((each.graded.reach for each in found if each), ""),
        "grades": [GRADES.index(each.graded.grade) if each else None for each in found],
        "profiles": list(dict.fromkeys(each.profile for each in found if each)),
    }


@cache
def null_shares() -> Mapping[str, int]:
    """Of the required cases of all profiles, those that each null testee passes, in percent."""
    cases = {case.id: case for case in cases_by_id().values() if case.op in CODEC_OPS}
    formats = {"magics": [0, 1, 2], "compressions": list(COMPRESSIONS)}
    testee = {"name": "null", "decode": formats, "encode": formats}
    header = ResultHeader(testee=testee, corpus="", cases=len(cases), only=[], settings={})
    shares = {}
    for name in NULLS:
        lines = tuple(null_line(case, name) for case in cases.values())
        profiles = certify_profiles(Results(header, lines, None), cases).profiles
        assert not any(each.grade == "pass" for each in profiles)
        shares[name] = percent(sum(each.passed for each in profiles), sum(each.required for each in profiles))
    return shares


def _reasons(lines: Sequence[ResultLine | None]) -> Iterator[str]:
    """The reasons of findings, each once."""
    wrong = [line for line in lines if line is not None and line.outcome in SEVERITIES]
    yield from dict.fromkeys(
        printable(line.why, MOST_WHY) for line in sorted(wrong, key=lambda one: outcome_rank(one.outcome))
    )


def _changes(collection: Collection, case_id: str) -> Iterator[list[Any]]:
    for number, entry in enumerate(collection.entries):
        if case_id in entry.changed:
            yield [number, entry.changed[case_id].kind]


def history_page(made: History) -> str:
    """The page; everything that a testee or a registry said is escaped."""
    style = asset("page.css")
    return page_environment().get_template("history.html").render(
        history=made, severities=SEVERITIES, words=words, style=Markup(style), style_hash=policy_hash(style)
    )  # fmt: skip
