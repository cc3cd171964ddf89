"""The pages of the static site: each is a path, its bytes, and what the search finds it by.

Paths are made of ids alone, so that a link stays the same in every build:
`library/LIBRARY/`, `library/LIBRARY/CAUSE/`, `case/AREA/CASE.html`, `rule/ID/`, `erratum/ID/`, `spec/SEED.html`.
A page has in its HTML whatever it states; the explained bytes and recorded answers of cases are compressed data
beside the pages, which a script of the page unpacks.  Scripts load nothing, and what a testee said becomes text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment
from markupsafe import Markup

from kafka_conformance.causes import ReviewedCause, library_of
from kafka_conformance.judge.grade import GRADES, Grade, grade_rank
from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.museum import Exhibit, exhibits
from kafka_conformance.reports import asset, html, page_environment
from kafka_conformance.reports.collection import Collection, certify_command, folder_name
from kafka_conformance.reports.details import detail
from kafka_conformance.reports.edges import MARKS, EdgeTable
from kafka_conformance.reports.libraries import (
    Library,
    LibraryCause,
    MatrixRow,
    ProfileCell,
    area_sentence,
    cause_counts,
    libraries,
    matrix_columns,
    percent,
)
from kafka_conformance.reports.profiles import profile_line
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner.history import history
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Case
from kafka_corpus.traceability import Trace, load_trace, outcomes, showing
from kafka_records.rules import Erratum, Rule, errata, groups, seeds

# Cases of one data file.
SHARD: Final = 40
# Cases that a page lists.
MOST_CASES: Final = 5
MOST_WHY: Final = 75
# Rows of explained bytes that a page shows of one input, and the error beyond them.
MOST_ROWS: Final = 9
# Height and width of a trend, in the units of its picture.
TREND_WIDTH, TREND_HEIGHT = 640, 150
# Names in the head of each page, with where they lead; a further part of the site is one line here and one in SOURCES.
SECTIONS: Final = (
    ("Libraries", "index.html"),
    ("Causes", "cause/index.html"),
    ("Cases", "case/index.html"),
    ("Rules", "rule/index.html"),
    ("Errata", "erratum/index.html"),
    ("Explain bytes", "explain/index.html"),
    ("Docs", "docs/index.html"),
)
# No page loads or sends anything but its own files, and no text becomes a script.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
VERDICTS: Final = {
    "valid": "has to be accepted, and to give the right answer",
    "invalid": "has to be refused",
    "acceptable": "may be refused; a codec that accepts it has to give the right answer",
}


@dataclass(frozen=True, slots=True)
class SitePage:
    """One file of the site; *title* and *words* are for the search, which leaves out pages without a *kind*."""

    path: str
    content: bytes
    kind: str = ""
    title: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """How good the results of one testee are.

    Attributes:
        date: the day of its newest answers; empty if the result does not say.
        trouble: why a newer run gave no result; empty if there was none.
        unsent: newer cases that it was not sent yet.
        older: reports on its earlier releases, oldest first, with their versions and dates.
    """

    date: str = ""
    trouble: str = ""
    unsent: int = 0
    older: tuple[tuple[str, str, Report], ...] = ()


@dataclass(frozen=True)
class SiteContents:
    """Everything that the pages show.

    Attributes:
        collection: the last good result of each testee, and the cases.
        runs: how good they are, by the number of the entry.
        programs: gives the reproducers of findings.
        withheld: whether a cause stays a summary until its maintainers were informed.
        docs: pages of documentation, as `docs/NAME/` by their HTML, with their titles.
        files: further files by path, as pictures of the documentation and what explains bytes in the browser.
        runtime: the scripts that the page `explain` loads; empty if bytes cannot be explained in the browser.
        edges: the tables of what clients, proxies and brokers do beside the codec.
    """

    collection: Collection
    runs: Mapping[int, RunRecord]
    programs: html.Programs | None = None
    withheld: Callable[[str, ReviewedCause], bool] = lambda _library, _cause: False
    docs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    runtime: tuple[str, ...] = ()
    edges: Sequence[EdgeTable] = ()

    def __post_init__(self) -> None:
        """Work out what several pages need."""
        made = libraries(self.collection)
        object.__setattr__(self, "libraries", made)
        causes: dict[tuple[int, str], tuple[Library, LibraryCause]] = {}
        for library in made:
            for cause in library.causes:
                for number, findings in cause.findings.items():
                    causes.update({(number, each.case.id): (library, cause) for each in findings})
        object.__setattr__(self, "cause_of", causes)
        object.__setattr__(self, "shards", dict(_shard_names(self.collection.cases.values())))

    libraries: tuple[Library, ...] = field(init=False)
    cause_of: Mapping[tuple[int, str], tuple[Library, LibraryCause]] = field(init=False)
    shards: Mapping[str, str] = field(init=False)


def site_pages(contents: SiteContents) -> Iterator[SitePage]:
    """Every file of the site; the index of the search is the last."""
    found: list[list[str]] = []
    for source in SOURCES:
        for page in source(contents):
            if page.kind:
                found.append([page.kind, page.title, page.path, page.words])
            yield page
    yield SitePage("data/search.js", _data(found))


# ---- links ----


def case_path(case: Case) -> str:
    """The page of a case."""
    return f"case/{folder_name(case.area)}/{folder_name(case.id.removeprefix(f'{case.area}.'))}.html"


def library_path(library: str) -> str:
    """The page of a library."""
    return f"library/{folder_name(library)}/index.html"


def cause_path(library: str, cause: str) -> str:
    """The page of a cause."""
    return f"library/{folder_name(library)}/{folder_name(cause)}/index.html"


def rule_path(rule: str) -> str:
    """The page of a rule."""
    return f"rule/{folder_name(rule)}/index.html"


def erratum_path(erratum: str) -> str:
    """The page of an erratum."""
    return f"erratum/{folder_name(erratum)}/index.html"


def _shard_names(cases: Iterable[Case]) -> Iterator[tuple[str, str]]:
    """The data file of each case."""
    by_area: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        by_area[case.area].append(case.id)
    for area, ids in by_area.items():
        for at, id_ in enumerate(sorted(ids)):
            yield id_, f"{folder_name(area)}-{at // SHARD}"


def _data(value: Any) -> bytes:
    return b'kafkaproofData("%b");\n' % html.packed_json(value).encode()


@cache
def _environment() -> Environment:
    made = page_environment()
    made.globals.update(
        case_path=case_path,
        library_path=library_path,
        cause_path=cause_path,
        rule_path=rule_path,
        erratum_path=erratum_path,
        words=html.words,
        reaches=html.REACH_WORDS,
        sections=SECTIONS,
        policy=Markup(POLICY),  # its quotes need no escape, and it stands in thousands of pages
        known_rules=_known_rules(),
    )
    made.filters["codes"] = _codes
    return made


@cache
def _known_rules() -> Mapping[str, Rule]:
    return {rule.id: rule for group in groups() for rule in group.rules}


def _codes(text: str) -> Markup:
    """Text with `code` in it."""
    parts = [Markup("<code>{}</code>").format(part) if at % 2 else Markup("{}").format(part)
             for at, part in enumerate(text.split("`"))]  # fmt: skip
    return Markup("").join(parts)


def _page(path: str, template: str, *, kind: str = "", title: str, words: str = "", **values: Any) -> SitePage:
    text = (
        _environment()
        .get_template(f"site/{template}.html")
        .render(root="../" * path.count("/"), title=title, path=path, **{"shards": (), "section": ""} | values)
    )
    return SitePage(path, text.encode(), kind, title, words)


# ---- the home page ----


def home_pages(contents: SiteContents) -> Iterator[SitePage]:
    """The matrix of profiles."""
    rows = [row for library in contents.libraries for row in library.rows]
    columns: dict[str, list[str]] = {profile: [] for profile in matrix_columns(contents.libraries)}
    counted: dict[Grade, int] = dict.fromkeys(GRADES, 0)
    for library in contents.libraries:
        reviewed = [cause for cause in library.causes if cause.reviewed]
        for grade in GRADES:
            counted[grade] += sum(cause.grade == grade for cause in reviewed)
    yield _page(
        "index.html",
        "home",
        title="Kafkaproof: which libraries read and write Kafka's record formats correctly",
        section="index.html",
        collection=contents.collection,
        libraries=contents.libraries,
        clients=[library for library in contents.libraries if not library.own],
        rows=rows,
        columns=columns,
        no_cell=ProfileCell(),
        complete={row.number: _is_whole(contents, row) for row in rows},
        counted=counted,
        rules=len(_known_rules()),
        nulls=html.null_shares(),
        troubles=[(row.entry, run) for row in rows if (run := contents.runs[row.number]).trouble],
        dates=sorted({run.date for run in contents.runs.values() if run.date}),
        unsent=max((run.unsent for run in contents.runs.values()), default=0),
        runtime=bool(contents.runtime),
        exhibits=len(exhibits()),
        edges=contents.edges,
    )


def _is_whole(contents: SiteContents, row: MatrixRow) -> bool:
    """Whether the result is of all cases that there were when it was made."""
    results = row.entry.results
    return not results.header.only and (results.complete or contents.runs[row.number].unsent > 0)


# ---- libraries and causes ----


def library_pages(contents: SiteContents) -> Iterator[SitePage]:
    """A page for each library, and one for each of its causes."""
    compressions = {name for names in matrix_columns(contents.libraries).values() for name in names}
    ordered = [name for name in ("none", "gzip", "snappy", "lz4", "zstd") if name in compressions]
    for library in contents.libraries:
        yield _page(
            library_path(library.id),
            "library",
            kind="library",
            title=library.id,
            words=" ".join(f"{row.entry.label} {row.entry.said('language')}" for row in library.rows),
            section="index.html",
            library=library,
            rows=[_row_facts(contents, row) for row in library.rows],
            compressions=ordered,
            no_cell=ProfileCell(),
            counts={grade: number for grade, number in _reviewed_counts(library).items() if number},
            reviewed=[cause for cause in library.causes if cause.reviewed],
            unreviewed=[cause for cause in library.causes if not cause.reviewed],
            exhibits=_exhibits_of(library),
        )
        for at, cause in enumerate(library.causes):
            page = _cause_page(contents, library, at, cause)
            yield page
            former = cause.reviewed.formerly if cause.reviewed else []
            yield from (SitePage(cause_path(library.id, id_), page.content) for id_ in former)


def _exhibits_of(library: Library) -> list[Exhibit]:
    """The exhibits of the products that *library* stands for: its own, and those whose run is of one of its testees."""
    products = {each.product for each in exhibits() if each.run and library_of(each.run.testee) == library.id}
    return [each for each in exhibits() if each.product in products | {library.id}]


def _reviewed_counts(library: Library) -> dict[Grade, int]:
    reviewed = Library(library.id, library.rows, tuple(each for each in library.causes if each.reviewed), library.info)
    return cause_counts(reviewed)


@dataclass(frozen=True, slots=True)
class ReleasePoint:
    """One release of a testee: the share of the required cases that pass, and findings by grade."""

    version: str
    date: str
    passed: int
    required: int
    grades: Mapping[Grade, int]

    @property
    def percent(self) -> int:
        """The share in whole percent, rounded down."""
        return percent(self.passed, self.required)


def release_point(version: str, date: str, report: Report) -> ReleasePoint:
    """The point of one report."""
    profiles = report.profiled.profiles
    grades = [finding.graded.grade for finding in report.profiled.by_case.values()]
    return ReleasePoint(
        version, date, sum(each.passed for each in profiles), sum(each.required for each in profiles),
        {grade: grades.count(grade) for grade in GRADES},
    )  # fmt: skip


def _row_facts(contents: SiteContents, row: MatrixRow) -> dict[str, Any]:
    entry, run = row.entry, contents.runs[row.number]
    now = entry.version.partition(" ")[0]
    points = [release_point(version, date, report) for version, date, report in run.older]
    points.append(release_point(now, run.date, entry.report))
    spans: list[tuple[str, list[str]]] = []
    if run.older:
        runs = [(version, report.results) for version, _, report in run.older]
        made = history(entry.label, [*runs, (now, entry.results)], {})
        spans = [(name, [each.case for each in found]) for name, found in made.spans()]
    return {
        "row": row,
        "entry": entry,
        "run": run,
        "line": profile_line(entry.report.profiled.profiles),
        "points": points,
        "trend": trend_shape(points) if len(points) > 1 else None,
        "spans": [(name, _existing(contents, ids), len(ids)) for name, ids in spans],
        "again": certify_command(entry.results.header),
    }


def trend_shape(points: Sequence[ReleasePoint]) -> dict[str, Any]:
    """The places of *points*, oldest first, in a picture of the share that passes."""
    low = min(point.percent for point in points) // 10 * 10
    low = min(low, 90)
    step = (TREND_WIDTH - 120) / (len(points) - 1)
    places = [
        (round(60 + step * at, 1), round(20 + (100 - point.percent) * (TREND_HEIGHT - 60) / (100 - low), 1), point)
        for at, point in enumerate(points)
    ]
    return {
        "width": TREND_WIDTH,
        "height": TREND_HEIGHT,
        "low": low,
        "places": places,
        "line": " ".join(f"{x},{y}" for x, y, _ in places),
        "words": ", ".join(f"{point.version}: {point.percent} %" for point in points),
    }


def _existing(contents: SiteContents, ids: Iterable[str]) -> list[Case]:
    """The cases of the corpus with these ids, the first ones of many."""
    found = [contents.collection.cases[id_] for id_ in ids if id_ in contents.collection.cases]
    return found[:MOST_CASES]


def _cause_page(contents: SiteContents, library: Library, at: int, cause: LibraryCause) -> SitePage:
    reviewed, smallest = cause.reviewed, contents.collection.cases.get(cause.gravest.case.id)
    withheld = reviewed is not None and contents.withheld(library.id, reviewed)
    number = next(number for number, row in cause.findings.items() if cause.gravest in row)
    program = None
    if contents.programs and reviewed and not withheld:
        program = contents.programs(contents.collection.entries[number].results, cause.gravest)
    explanation = " ".join(reviewed.explanation.split()) if reviewed else ""
    return _page(
        cause_path(library.id, cause.key.id),
        "cause",
        kind="cause",
        title=printable(cause.key.title),
        words=f"{library.id} {cause.key.id} {cause.grade}",
        section="cause/index.html",
        library=library,
        cause=cause,
        before=library.causes[at - 1] if at else None,
        after=library.causes[at + 1] if at + 1 < len(library.causes) else None,
        explanation=explanation,
        withheld=withheld,
        program=program,
        rules=list(reviewed.rules if reviewed else cause.gravest.case.rules[:1]),
        counts=[
            (contents.collection.entries[each].label, html.grade_counts(found))
            for each, found in cause.findings.items()
        ],
        answers=_cause_answers(contents, cause),
        smallest=smallest,
        again=certify_command(contents.collection.entries[number].results.header),
        cases=_existing(contents, cause.cases),
        total=len(cause.cases),
        shards=() if smallest is None or withheld else (contents.shards[smallest.id],),
    )


def _cause_answers(contents: SiteContents, cause: LibraryCause) -> list[tuple[str, str]]:
    """The answers of all rows that show the cause in its smallest case."""
    found = []
    for number, findings in cause.findings.items():
        for finding in findings:
            if finding.case.id == cause.gravest.case.id:
                why = printable(finding.line.why, MOST_WHY) or html.words(finding.line.outcome)
                found.append((contents.collection.entries[number].label, why))
    return found


def cause_pages(contents: SiteContents) -> Iterator[SitePage]:
    """The list of all causes, the gravest first, unreviewed ones apart."""
    every = [(library, cause) for library in contents.libraries for cause in library.causes]
    every.sort(key=lambda pair: (grade_rank(pair[1].grade), -len(pair[1].cases), pair[0].id, pair[1].key.id))
    yield _page(
        "cause/index.html",
        "causes",
        title="Causes",
        section="cause/index.html",
        reviewed=[pair for pair in every if pair[1].reviewed],
        unreviewed=[pair for pair in every if not pair[1].reviewed],
    )


# ---- cases ----


def case_pages(contents: SiteContents) -> Iterator[SitePage]:
    """The matrix of areas, a page for each area and case, and their data."""
    collection = contents.collection
    rows = [row for library in contents.libraries for row in library.rows]
    by_area: dict[str, list[Case]] = defaultdict(list)
    for case in collection.cases.values():
        by_area[case.area].append(case)
    cells = {
        area: [html.area_cell(row.entry, area) for row in rows]
        for area in sorted(by_area)
    }  # fmt: skip
    yield _page(
        "case/index.html",
        "areas",
        title="Cases by area",
        section="case/index.html",
        rows=rows,
        areas=[(area, area_sentence(area), made) for area, made in cells.items()],
        total=len(collection.cases),
    )
    for area, cases in sorted(by_area.items()):
        yield from _area_pages(contents, area, sorted(cases, key=lambda case: case.id))


def _area_pages(contents: SiteContents, area: str, cases: Sequence[Case]) -> Iterator[SitePage]:
    marked = [(case, _grades_of(contents, case)) for case in cases]
    yield _page(
        f"case/{folder_name(area)}/index.html",
        "area",
        kind="area",
        title=area,
        words=area_sentence(area),
        section="case/index.html",
        sentence=area_sentence(area),
        cases=marked,
    )
    for start in range(0, len(cases), SHARD):
        details = {case.id: _case_data(contents, case) for case in cases[start : start + SHARD]}
        yield SitePage(f"data/{contents.shards[cases[start].id]}.js", _data(details))
    for case in cases:
        yield _case_page(contents, case)


def _grades_of(contents: SiteContents, case: Case) -> dict[Grade, int]:
    """How many testees have a finding of each grade."""
    found = [entry.report.profiled.by_case.get(case.id) for entry in contents.collection.entries]
    grades = [each.graded.grade for each in found if each]
    return {grade: grades.count(grade) for grade in GRADES if grade in grades and grade != "INFO"}


def _case_data(contents: SiteContents, case: Case) -> dict[str, Any]:
    """The findings, the explained bytes, the right answer and all answers of a case."""
    made = detail(contents.collection, case.id)
    said = []
    for each in made["said"]:
        if each["outcome"] in SEVERITIES and not _is_withheld(contents, each["testee"], case.id):
            kept = {name: value for name, value in each.items() if name in ("outcome", "answer", "also", "written")}
            if "written" in kept:
                kept["written"] = _shortened(kept["written"])
            said.append({"label": contents.collection.entries[each["testee"]].label} | kept)
    known = {name: made[name] for name in ("question", "expected", "evidence", "kinds", "why")}
    known["question"] = [_shortened(part) for part in known["question"]]
    rules = [[id_, rule_path(id_), _known_rules()[id_].statement] for id_ in case.rules if id_ in _known_rules()]
    return known | _findings_of(contents, case) | {"said": said, "rules": rules}


def _shortened(part: dict[str, Any]) -> dict[str, Any]:
    """Explained bytes with their first rows; text as it is."""
    rows = part.get("rows", [])
    if len(rows) <= MOST_ROWS:
        return part
    left = rows[MOST_ROWS:]
    number = sum(row[1] if row[0] == "more" else 1 for row in left)
    errors = [row for row in left if row[0] in ("error", "end")]
    return part | {"rows": [*rows[:MOST_ROWS], *errors, ["more", number]]}


def _findings_of(contents: SiteContents, case: Case) -> dict[str, Any]:
    """The testees with a finding, the gravest first, and the others by outcome."""
    found: list[tuple[int, dict[str, Any]]] = []
    others: dict[str, list[str]] = defaultdict(list)
    for number, entry in enumerate(contents.collection.entries):
        line = entry.lines.get(case.id)
        if line is None:
            continue
        if line.outcome not in SEVERITIES:
            others[line.outcome].append(entry.label)
            continue
        finding = entry.report.profiled.by_case.get(case.id)
        grade = finding.graded.grade if finding else "INFO"
        shown = {"label": entry.label, "grade": grade, "outcome": line.outcome}
        library, cause = contents.cause_of.get((number, case.id), (None, None))
        if library and cause:
            shown |= {"cause": printable(cause.key.title), "path": cause_path(library.id, cause.key.id)}
        if not _is_withheld(contents, number, case.id):
            shown["why"] = printable(line.why, MOST_WHY)
        found.append((grade_rank(grade), shown))
    found.sort(key=lambda pair: pair[0])
    return {"findings": [shown for _, shown in found], "others": others}


def _is_withheld(contents: SiteContents, number: int, case: str) -> bool:
    library, cause = contents.cause_of.get((number, case), (None, None))
    return bool(library and cause and cause.reviewed and contents.withheld(library.id, cause.reviewed))


def _case_page(contents: SiteContents, case: Case) -> SitePage:
    """The page of a case, which is short, as there are thousands: the rest is in the data."""
    return _page(
        case_path(case),
        "case",
        kind="case",
        title=case.title or case.id,
        words=f"{case.id} {' '.join(case.rules)}",
        case=case,
        verdict=VERDICTS.get(case.expect.verdict, case.expect.verdict),
        rules=[_known_rules()[rule] for rule in case.rules if rule in _known_rules()],
        refs=[ref for ref in case.refs if re.fullmatch(r"A\d\d", ref)],
        shards=(contents.shards[case.id],),
    )


# ---- rules and errata ----


def rule_pages(contents: SiteContents) -> Iterator[SitePage]:
    """The catalogue of rules, and a page for each with its cases and the causes that break it."""
    cases: dict[str, list[Case]] = defaultdict(list)
    for case in contents.collection.cases.values():
        for rule in case.rules:
            cases[rule].append(case)
    broken: dict[str, list[tuple[Library, LibraryCause]]] = defaultdict(list)
    for library in contents.libraries:
        for cause in library.causes:
            for rule in cause.reviewed.rules if cause.reviewed else ():
                broken[rule].append((library, cause))
    disputed: dict[str, list[Erratum]] = defaultdict(list)
    for erratum in errata():
        for rule in erratum.rules:
            disputed[rule].append(erratum)
    yield _page(
        "rule/index.html", "rules", title="Rules", section="rule/index.html", groups=groups(), cases=cases,
        broken=broken, total=len(_known_rules()),
    )  # fmt: skip
    for each in _known_rules().values():
        yield _page(
            rule_path(each.id),
            "rule",
            kind="rule",
            title=f"{each.id}: {each.statement}",
            section="rule/index.html",
            rule=each,
            cases=cases[each.id],
            broken=broken[each.id],
            disputed=disputed[each.id],
            sentences=_trace().sentences_of.get(each.id, ()),
            answers=str(_trace().answers_to(_trace().cases_of.get(each.id, ()))),
            code=_code_of(each.id),
        )


@cache
def _trace() -> Trace:
    return load_trace()


def _code_of(rule: str) -> list[str]:
    """The code of the reference that obeys a rule, or why there is none."""
    found = [str(place) for place in _trace().places.get(rule, ()) if place.obeys]
    return found or [f"none, {_trace().without_code[rule]}"]


def spec_pages(_contents: SiteContents) -> Iterator[SitePage]:
    """The documents that the rules come from, and each one's sentences in our words."""
    rows = {seed: [row for row in _trace().rows[seed.number] if row.is_sentence] for seed in seeds()}
    documents = [(seed, len(found)) for seed, found in rows.items()]
    yield _page("spec/index.html", "spec", title="Specification", section="rule/index.html", documents=documents)
    corrected = {erratum.id for erratum in errata()}
    for seed, found in rows.items():
        title = f"{seed.number} {seed.title}"
        path = f"spec/{seed.number}.html"
        yield _page(path, "seed", title=title, section="rule/index.html", seed=seed, rows=found, errata=corrected)


def erratum_pages(contents: SiteContents) -> Iterator[SitePage]:
    """Where the documents contradict one another or the code: a list, and a page for each."""
    yield _page(
        "erratum/index.html", "errata", title="Errata", section="erratum/index.html", errata=errata(), seeds=seeds()
    )
    for erratum in errata():
        shown = showing(erratum, contents.collection.cases.values())
        yield _page(
            erratum_path(erratum.id),
            "erratum",
            kind="erratum",
            title=f"{erratum.id}: {erratum.topic}",
            words=erratum.verdict,
            section="erratum/index.html",
            erratum=erratum,
            sentences=_trace().sentences_of.get(erratum.id, ()),
            seeds={seed.number: seed for seed in seeds()},
            cases=[(case, "; ".join(outcomes(case))) for case in shown[:MOST_CASES]],
            total=len(shown),
        )


# ---- the museum ----


def museum_pages(_contents: SiteContents) -> Iterator[SitePage]:
    """One page with all exhibits; each has its id as an anchor, and so has the first of each product."""
    by_product: dict[str, list[Exhibit]] = defaultdict(list)
    for exhibit in exhibits():
        by_product[exhibit.product].append(exhibit)
    yield _page(
        "museum/index.html",
        "museum",
        kind="tool",
        title="Museum of historical defects",
        words=f"bugs history exhibits {' '.join(by_product)}",
        products=by_product,
        total=len(exhibits()),
        runs=sum(each.run is not None for each in exhibits()),
    )


# ---- edges ----


def edge_pages(contents: SiteContents) -> Iterator[SitePage]:
    """The list of the tables of edges, and a page for each; none if no table has a result."""
    if not contents.edges:
        return
    tables = contents.edges
    yield _page("edges/index.html", "edges", kind="tool", title="Beside the codec", tables=tables)
    for table in tables:
        labels = " ".join(column.label for column in table.columns)
        yield _page(
            f"edges/{table.kind.id}/index.html", "edge", kind="tool", title=table.kind.title,
            words=f"{table.kind.id} {labels}", table=table, marks=MARKS,
        )  # fmt: skip


# ---- docs, explain, search and assets ----


def doc_pages(contents: SiteContents) -> Iterator[SitePage]:
    """The pages of the documentation."""
    listed = [(path, title) for path, (title, _) in contents.docs.items()]
    yield _page("docs/index.html", "docs", title="Documentation", section="docs/index.html", docs=listed)
    for path, (title, body) in contents.docs.items():
        yield _page(
            path, "doc", kind="docs", title=title, words=path, section="docs/index.html", body=Markup(body), docs=listed
        )


def tool_pages(contents: SiteContents) -> Iterator[SitePage]:
    """The pages that explain bytes and search."""
    runtime = msgspec.json.encode([f"../{path}" for path in contents.runtime]).decode()
    yield _page(
        "explain/index.html",
        "explain",
        kind="tool",
        title="Explain bytes",
        words="hex dump annotate decode segment batch",
        section="explain/index.html",
        runtime=runtime if contents.runtime else "",
    )
    yield _page("search/index.html", "search", title="Search")


def asset_files(contents: SiteContents) -> Iterator[SitePage]:
    """Styles, scripts, and files that came from outside."""
    yield SitePage("assets/site.css", (asset("page.css") + asset("site/site.css")).encode())
    sections = f"const SECTIONS = {msgspec.json.encode(SECTIONS).decode()};\n"
    yield SitePage("assets/site.js", (asset("shared.js") + sections + asset("site/site.js")).encode())
    yield SitePage("assets/icon.svg", asset("site/icon.svg").encode())
    yield SitePage("assets/explain.js", asset("site/explain.js").encode())
    for path, content in contents.files.items():
        yield SitePage(path, content)


SOURCES: Final[tuple[Callable[[SiteContents], Iterator[SitePage]], ...]] = (
    home_pages,
    library_pages,
    cause_pages,
    case_pages,
    rule_pages,
    spec_pages,
    erratum_pages,
    museum_pages,
    edge_pages,
    doc_pages,
    tool_pages,
    asset_files,
)


def read_documentation(root: Path) -> dict[str, str]:
    """The text of each page below *root*, by its path: `docs`, and what stands beside it."""
    names = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    found = [path for name in names if (path := root / name).is_file()] + sorted((root / "docs").rglob("*.md"))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in found}
