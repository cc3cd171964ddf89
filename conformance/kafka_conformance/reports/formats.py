"""Reports for other programs: badge, JUnit XML, Markdown and SARIF.

What testees say stands in `<code>` with every sign of Markdown and HTML as a
character reference, so that it forms no link, no mention and no table cell.

Findings stand below their causes: a rule of SARIF is a cause.  A finding is
located at its line of the result file, which is the one text that there is, and
at its case as a logical place.  Its fingerprint is made of testee, case, severity
and field, and so outlives versions, times, messages and reviews of causes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kafka_conformance import installed_version
from kafka_conformance.causes import ReviewedCause
from kafka_conformance.judge.grade import GRADES, PROFILES, Grade, grade_rank
from kafka_conformance.judge.verdict import OPEN, SEVERITIES
from kafka_conformance.reports import page_environment
from kafka_conformance.reports.collection import (
    CauseChange,
    Collection,
    CollectionChange,
    CollectionEntry,
    cause_changes,
    counts,
    field_of_testee,
    profile_changes,
    shape,
)
from kafka_conformance.reports.html import words
from kafka_conformance.reports.profiles import (
    BROKER,
    CaseProfile,
    Certification,
    FoundCause,
    GradedFinding,
    ProfileResult,
    profile_text,
)
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.results import FILE, ResultLine
from kafka_conformance.sanitize import indented_json, printable

LABEL: Final = "Kafka records"
# Dark enough for white letters: contrast is above 4.5.
GREEN, AMBER, RED, GREY = "#1a7a3c", "#8a5a00", "#b3001b", "#56606e"
NAMES: Final = {GREEN: "brightgreen", AMBER: "orange", RED: "red", GREY: "lightgrey"}
LETTER: Final = 6.6
MARGIN: Final = 12


def message(entry: CollectionEntry) -> str:
    """The profiles that it is certified for."""
    if not entry.results.complete or entry.results.header.only:
        return "only a part was run"
    return ", ".join(entry.report.certificate.certified_for) or "no profile passes"


def colour(entry: CollectionEntry) -> str:
    """Green is certified for all profiles that it announces, amber for some, red for none; grey is unknown."""
    if not entry.results.complete or entry.results.header.only:
        return GREY
    if entry.report.certificate.certified:
        return GREEN
    return AMBER if entry.report.certificate.certified_for else RED


def badge_endpoint(entry: CollectionEntry) -> bytes:
    """The JSON of an endpoint badge."""
    badge: dict[str, Any] = {
        "schemaVersion": 1,
        "label": LABEL,
        "message": message(entry),
        "color": NAMES[colour(entry)],
        "isError": not entry.report.certificate.certified_for,
    }
    return indented_json(badge)


def badge_picture(entry: CollectionEntry) -> str:
    """The SVG; it loads nothing."""
    text = message(entry)
    return page_environment().get_template("badge.svg").render(
        label=LABEL, message=text, left=_width(LABEL), right=_width(text), colour=colour(entry)
    )  # fmt: skip


def _width(text: str) -> int:
    return round(len(text) * LETTER) + MARGIN


def junit(report: Report) -> bytes:
    """One suite for each area, one test case for each case; failures are the findings that fail a deciding profile."""
    root = Element("testsuites", name=_text(str(report.results.header.testee.get("name", "testee"))))
    for area in report.by_area():
        lines = sorted((line for line in report.results.lines if line.area == area), key=lambda line: line.case)
        suite = SubElement(root, "testsuite", {"name": area, "tests": str(len(lines))})
        for line in lines:
            _case(suite, line, report)
        for name, tag in (("failures", "failure"), ("skipped", "skipped")):
            suite.set(name, str(sum(case.find(tag) is not None for case in suite)))
    _stale(root, report)
    indent(root)
    text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(suite: Element, line: ResultLine, report: Report) -> None:
    case = SubElement(suite, "testcase", classname=line.area, name=line.case, time=f"{line.ms / 1000:.6f}")
    finding = report.profiled.by_case.get(line.case)
    if line.outcome in OPEN:
        what = "" if line.outcome == "skipped" else f"{words(line.outcome)}: "
        SubElement(case, "skipped", message=_text(f"{what}{line.why}"))
    if line.outcome not in SEVERITIES:
        return
    if finding is None:
        SubElement(case, "skipped", message=f"{line.outcome}, not graded: the corpus does not have the case")
        return
    properties = SubElement(case, "properties")
    for name, value in ({"severity": line.outcome} | finding.document()).items():
        SubElement(properties, "property", name=name, value=_text(value))
    if finding.known:
        SubElement(case, "skipped", message=f"known deviation: {line.outcome}")
    elif is_failure(finding, report):
        title = f"{finding.cause.title}: {_text(line.why)}"
        failure = SubElement(case, "failure", type=finding.graded.grade, message=title)
        failure.text = f"{', '.join(line.rules)} {_text(line.field)}"


def is_failure(finding: GradedFinding, report: Report) -> bool:
    """Whether *finding* makes the exit code of `certify` 1."""
    criteria = report.criteria
    if finding.profile not in {each.profile for each in report.profiled.deciding(criteria.profiles)}:
        return False
    return finding.fails or (criteria.strict and not finding.known and finding.graded.grade != "INFO")


def _stale(root: Element, report: Report) -> None:
    stale = report.applied.stale
    if stale:
        count = str(len(stale))
        suite = SubElement(root, "testsuite", name="known deviations", tests=count, failures=count, skipped="0")
        for entry in stale:
            case = SubElement(suite, "testcase", classname="deviations", name=entry.name)
            SubElement(case, "failure", type="stale", message=_text(entry.staleness))


def _text(text: str) -> str:
    # XML 1.0 has no way to write most control characters; ours are escaped already.
    return "".join(char if char.isprintable() else "?" for char in text)


MOST_CAUSES: Final = 30
MOST_CHANGES: Final = 30
MOST_WHY: Final = 160


def collection_summary(collection: Collection) -> str:
    """The text."""
    lines = ["## Kafkaproof", "", *_table(collection)]
    if collection.not_run:
        lines += [
            "",
            f"Not run: {', '.join(f'{code(name)} ({code(why)})' for name, why in collection.not_run.items())}.",
        ]
    for entry in collection.entries:
        if entry.changes is not None:
            lines += ["", *_changes(entry, entry.changes)]
        if entry.report.findings:
            lines += ["", *_causes(entry)]
    lines += ["", f"Corpus {code(collection.corpus[:12])}. One case: `kafkaproof explain --case ID`."]
    return "\n".join(lines) + "\n"


def code(text: str, limit: int = MOST_WHY) -> str:
    """*text* as it is, whatever is in it."""
    return f"<code>{_escaped(text, limit)}</code>"


def _escaped(text: str, limit: int = MOST_WHY) -> str:
    return re.sub(r"[^A-Za-z0-9 ,]", lambda sign: f"&#{ord(sign[0])};", printable(text, limit))


def _table(collection: Collection) -> Iterator[str]:
    results: list[dict[CaseProfile, ProfileResult]] = [
        {each.profile: each for each in entry.report.profiled.profiles} for entry in collection.entries
    ]
    every: tuple[CaseProfile, ...] = (*PROFILES, BROKER)
    names = [name for name in every if any(name in each for each in results)]
    yield f"| codec | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for entry, found in zip(collection.entries, results, strict=True):
        unfinished = "" if entry.results.complete else " (incomplete run)"
        cells = " | ".join(_profile_cell(found.get(name)) for name in names)
        yield f"| {code(entry.label)} {code(entry.version)}{unfinished} | {cells} |"


def _profile_cell(result: ProfileResult | None) -> str:
    if result is None:
        return ""
    if result.grade == "pass":
        return "✅ pass"
    return f"{'❌' if result.grade == 'fail' else '➖'} {profile_text(result)}"


def _changes(entry: CollectionEntry, found: tuple[CollectionChange, ...]) -> Iterator[str]:
    summary = ", ".join(f"{number:,} {kind}" for kind, number in counts(found).items() if number) or "nothing changed"
    yield f"### {code(entry.label)} since the baseline: {summary}"
    if not found:
        return
    yield ""
    yield "| change | case | was | is | |"
    yield "|---|---|---|---|---|"
    for change in found[:MOST_CHANGES]:
        before = "not sent" if change.before is None else words(change.before.outcome)
        why = code(change.now.why) if change.now.why else ""
        yield f"| {change.kind} | {code(change.case)} | {before} | {words(change.now.outcome)} | {why} |"
    if len(found) > MOST_CHANGES:
        yield f"\nand {len(found) - MOST_CHANGES:,} more"


def _causes(entry: CollectionEntry) -> Iterator[str]:
    profiled = entry.report.profiled
    counted = Counter(cause.grade for cause in profiled.causes)
    grades = ", ".join(f"{counted[grade]} {grade}" for grade in GRADES if counted[grade]) or "none"
    yield f"<details><summary>{code(entry.label)}: causes, by grade: {_escaped(grades)}</summary>"
    yield ""
    yield "| grade | cause | effect | reach | profile | cases |"
    yield "|---|---|---|---|---|--:|"
    for cause in profiled.causes[:MOST_CAUSES]:
        unreviewed = "" if cause.reviewed else " (unreviewed)"
        title = f"{_escaped(cause.title)} {code(cause.id)}{unreviewed}"
        words_of_it = " | ".join(words(each) for each in (cause.effect, cause.reach))
        yield f"| {words(cause.grade)} | {title} | {words_of_it} | {cause.profile} | {len(cause.cases):,} |"
    yield ""
    if len(profiled.causes) > MOST_CAUSES:
        yield f"and {len(profiled.causes) - MOST_CAUSES:,} more in the report\n"
    info = sum(finding.graded.grade == "INFO" for finding in profiled.findings)
    if info:
        yield f"{info:,} findings of grade INFO are not listed.\n"
    yield "</details>"


# A comment on GitHub has 65,536 characters at most; what is longer is left out, the least important first.
MAX_CHANGES_PAGE: Final = 60_000
SIGNS: Final = {"new": "🔴 new", "graver": "🔴 graver", "more": "🟠 more cases", "fewer": "🟢 fewer cases",
                "milder": "🟢 milder", "gone": "🟢 gone", "open": "➖ no answer now"}  # fmt: skip


def changes_page(collection: Collection) -> str:
    """Differences of each run from its baseline, as a comment on a pull request: profiles, causes, then cases."""
    compared = [entry for entry in collection.entries if entry.changes is not None]
    page = "## Kafkaproof: what changed\n"
    tables = ["\n".join(("", *_differences(entry), "")) for entry in compared]
    details = ["\n".join(("", *_changed_cases(entry), "")) for entry in compared if entry.changes]
    end = f"\nCorpus {code(collection.corpus[:12])}. One case: `kafkaproof explain --case ID`.\n"
    left_out = 0
    for part in (*tables, *details):
        if len(page) + len(part) + len(end) > MAX_CHANGES_PAGE:
            left_out += 1
        else:
            page += part
    return page + (f"\nThis page is cut: {left_out:,} tables are in the report only.\n" if left_out else "") + end


def _differences(entry: CollectionEntry) -> Iterator[str]:
    assert entry.baseline is not None
    before, now = entry.baseline, entry.report
    profiles, causes = profile_changes(before, now), cause_changes(before, now)
    version = field_of_testee(before.results, "version")
    than = f" (before: {code(version)})" if version != entry.version else ""
    counted = Counter(SIGNS[each.kind].partition(" ")[2] for each in causes)
    words_of_it = ", ".join(f"{number:,} {name}" for name, number in counted.items())
    changed = f"causes: {words_of_it}" if causes else "same causes"
    yield f"### {code(entry.label)} {code(entry.version)}{than}: {changed}"
    yield from _doubts(entry)
    if profiles:
        yield "\n| profile | before | now |\n|---|---|---|"
    for change in profiles:
        cells = " | ".join(_profile_cell(each) or "not announced" for each in (change.before, change.now))
        yield f"| {change.profile} | {cells} |"
    if causes:
        yield "\n| change | grade | cause | profile | cases | smallest |\n|---|---|---|---|--:|---|"
    yield from map(_cause_row, causes[:MOST_CAUSES])
    if len(causes) > MOST_CAUSES:
        yield f"\nand {len(causes) - MOST_CAUSES:,} more in the report"
    if not profiles and not causes:
        yield f"\nNo profile and no cause changed: {len(now.profiled.causes):,} causes, as before."


def _doubts(entry: CollectionEntry) -> Iterator[str]:
    """Reasons why a difference may be none of the codec's."""
    assert entry.baseline is not None
    before, now = entry.baseline.results, entry.results
    for done, which in ((before, "The baseline"), (now, "This run")):
        if not done.complete:
            yield f"\n{which} is incomplete."
    if before.header.only != now.header.only:
        yield "\nThe two runs selected different cases."
    elif before.header.corpus != now.header.corpus:
        yield "\nThe baseline was run on another corpus: a new case can be a new cause."


def _cause_row(change: CauseChange) -> str:
    cause, (was, is_) = change.cause, change.cases
    grade = words(cause.grade)
    if change.kind in ("graver", "milder") and change.before is not None:
        grade = f"{words(change.before.grade)} → {grade}"
    cells = (SIGNS[change.kind], grade, f"{_escaped(cause.title)} {code(cause.id)}", cause.profile)
    return f"| {' | '.join(cells)} | {was:,} → {is_:,} | {code(cause.smallest)} |"


def _changed_cases(entry: CollectionEntry) -> Iterator[str]:
    found = entry.changes or ()
    counted = ", ".join(f"{number:,} {kind}" for kind, number in counts(found).items() if number)
    yield f"<details><summary>{code(entry.label)}: cases that changed: {counted}</summary>\n"
    _, *table = _changes(entry, found)
    yield from table
    yield "\n</details>"


SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT: Final = "kafkaproof/v1"
# A result file begins with its header.
FIRST_LINE: Final = 2

Level = Literal["error", "warning", "note"]
LEVELS: Final[Mapping[Grade, Level]] = {"FAIL": "error", "HOSTILE": "warning", "NON_STRICT": "note"}


def unlinked(text: str) -> str:
    """*text* without links: SARIF, section 3.11.6, reads `[text](address)` in a message as one, and escapes as here.

    >>> print(unlinked("[click](https://a.example)"))
    \\[click\\](https://a.example)
    """
    return re.sub(r"[\\\[\]]", r"\\\g<0>", text)


def sarif(collection: Collection) -> bytes:
    """The document: a rule for each cause, a result for each finding; those of grade INFO are left out."""
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [_run(entry) for entry in collection.entries],
    }
    return indented_json(document)


def _run(entry: CollectionEntry) -> dict[str, Any]:
    profiled = entry.report.profiled
    found = sorted(
        (finding for finding in profiled.findings if finding.graded.grade in LEVELS),
        key=lambda finding: (finding.known, grade_rank(finding.graded.grade), finding.case.id),
    )
    rules = list(dict.fromkeys(cause.id for cause in profiled.causes))
    numbers = {line.case: number for number, line in enumerate(entry.results.lines, FIRST_LINE)}
    return {
        "tool": {"driver": _driver(profiled)},
        "automationDetails": {"id": f"kafkaproof/{entry.folder}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"RESULT": {"description": {"text": "the directory of the result file"}}},
        "invocations": [{"executionSuccessful": entry.results.complete}],
        "results": [_result(each, entry, rules, numbers) for each in found],
        "properties": {
            "testee": entry.label,
            "version": entry.version,
            "corpus": printable(entry.results.header.corpus),
            "passes": entry.report.passes,
            "profiles": {each.profile: profile_text(each) for each in profiled.profiles},
            "info": sum(finding.graded.grade == "INFO" for finding in profiled.findings),
            "ungraded": sum(each.line.case not in profiled.by_case for each in entry.report.findings),
        },
    }


def _driver(profiled: Certification) -> dict[str, Any]:
    reviewed = {finding.cause.id: finding.cause.reviewed for finding in profiled.findings}
    rules: dict[str, dict[str, Any]] = {}
    for cause in profiled.causes:
        # The gravest comes first: a cause may have findings of several grades.
        rules.setdefault(cause.id, _rule(cause, reviewed[cause.id]))
    return {"name": "kafkaproof", "version": installed_version(), "rules": list(rules.values())}


def _rule(cause: FoundCause, reviewed: ReviewedCause | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": cause.id,
        "shortDescription": {"text": cause.title},
        "defaultConfiguration": {"level": LEVELS[cause.grade]},
        "properties": {
            "grade": cause.grade,
            "effect": cause.effect,
            "reach": cause.reach,
            "profile": cause.profile,
            "reviewed": cause.reviewed,
            "tags": [cause.grade, cause.effect, cause.reach, cause.profile],
        },
    }
    if reviewed is not None:
        made["fullDescription"] = {"text": " ".join(reviewed.explanation.split())}
        made["help"] = {"text": f"source: {reviewed.source} ({reviewed.version}); rules: {', '.join(reviewed.rules)}"}
    if cause.upstream.startswith("https://"):
        made["helpUri"] = cause.upstream
    return made


def _result(
    finding: GradedFinding, entry: CollectionEntry, rules: list[str], numbers: Mapping[str, int]
) -> dict[str, Any]:
    line, graded = finding.line, finding.graded
    result = {
        "ruleId": finding.cause.id,
        "ruleIndex": rules.index(finding.cause.id),
        "level": LEVELS[graded.grade],
        "message": {"text": f"{finding.cause.title}. {finding.case.title}: {unlinked(printable(line.why))}"},
        "locations": [_location(line, entry, numbers[line.case])],
        "partialFingerprints": {FINGERPRINT: fingerprint(entry, line)},
        "properties": {
            "grade": graded.grade,
            "effect": graded.effect,
            "reach": graded.reach,
            "profile": finding.profile,
            "severity": line.outcome,
            "expected": printable(line.expected),
            "field": printable(line.field),
            "rules": [printable(rule) for rule in line.rules],
        },
    }
    if entry.changes is not None:
        result["baselineState"] = _state(entry, line)
    if finding.known:
        declared = [each for each in entry.report.declared if each.covers(line, finding.cause.ids)]
        result["suppressions"] = [_suppression(each) for each in declared]
    return result


def fingerprint(entry: CollectionEntry, line: ResultLine) -> str:
    """A fingerprint that the same finding has in every run."""
    name = entry.said("name") + "\0" + entry.said("language")
    return sha256("\0".join((name, line.case, line.outcome, shape(line))).encode()).hexdigest()


def _location(line: ResultLine, entry: CollectionEntry, number: int) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": f"{entry.folder}/{FILE}", "uriBaseId": "RESULT"},
        "region": {"startLine": number},
    }
    logical = {
        "name": printable(line.case),
        "fullyQualifiedName": printable(f"{entry.label}: {line.case}"),
        "kind": "member",
    }
    return {"physicalLocation": place, "logicalLocations": [logical]}


def _state(entry: CollectionEntry, line: ResultLine) -> str:
    change = entry.changed.get(line.case)
    if change is None:
        return "unchanged"
    newly = change.before is None or change.before.outcome in ("agree", *OPEN)
    return "new" if newly else "updated"


def _suppression(deviation: Deviation) -> dict[str, Any]:
    issue = f" ({deviation.issue})" if deviation.issue else ""
    return {"kind": "external", "status": "accepted", "justification": f"{deviation.reason}{issue}"}
