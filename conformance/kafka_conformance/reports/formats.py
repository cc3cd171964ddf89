"""Reports for other programs: badge, JUnit XML, Markdown and SARIF.

What testees say stands in `<code>` with every sign of Markdown and HTML as a
character reference, so that it forms no link, no mention and no table cell.

A finding is located at its line of the result file, which is the one text that
there is, and at its case as a logical place.  Its fingerprint is made of
testee, case, severity and field, and so outlives versions, times and messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kafka_conformance.judge.verdict import SEVERITIES, Outcome
from kafka_conformance.reports.collection import Collection, CollectionChange, CollectionEntry, counts, shape
from kafka_conformance.reports.html import page_environment, words
from kafka_conformance.reports.summary import Finding, Report
from kafka_conformance.reports.terminal import alike_findings
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.results import FILE, ResultLine
from kafka_conformance.sanitize import indented_json, printable
from kafka_conformance.version import installed_version
from kafka_records.rules import all_rules

LABEL: Final = "Kafka records"
# Dark enough for white letters: contrast is above 4.5.
GREEN, AMBER, RED, GREY = "#1a7a3c", "#8a5a00", "#b3001b", "#56606e"
NAMES: Final = {GREEN: "brightgreen", AMBER: "orange", RED: "red", GREY: "lightgrey"}
LETTER: Final = 6.6
MARGIN: Final = 12
MIDDLING: Final = 0.5


def message(entry: CollectionEntry) -> str:
    """The message of the finding."""
    if not entry.results.complete or entry.results.header.only:
        return "only a part was run"
    certificate = entry.report.certificate
    return f"{'certified' if certificate.certified else 'not certified'} · {certificate.score:.3f}"


def colour(entry: CollectionEntry) -> str:
    """Green is certified, amber is not, red is not by far; grey is unknown."""
    if not entry.results.complete or entry.results.header.only:
        return GREY
    if entry.report.certificate.certified:
        return GREEN
    return AMBER if entry.report.certificate.score >= MIDDLING else RED


def badge_endpoint(entry: CollectionEntry) -> bytes:
    """The JSON of an endpoint badge."""
    badge: dict[str, Any] = {
        "schemaVersion": 1,
        "label": LABEL,
        "message": message(entry),
        "color": NAMES[colour(entry)],
        "isError": not entry.report.certificate.certified,
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
    """One suite for each area, one test case for each case."""
    root = Element("testsuites", name=_text(str(report.results.header.testee.get("name", "testee"))))
    known = report.applied.known
    for area in report.by_area():
        lines = sorted((line for line in report.results.lines if line.area == area), key=lambda line: line.case)
        failed = sum(line.outcome in SEVERITIES and line.case not in known for line in lines)
        skipped = sum(line.outcome == "skipped" or line.case in known for line in lines)
        counts = {"tests": len(lines), "failures": failed, "skipped": skipped}
        suite = SubElement(root, "testsuite", {"name": area} | {name: str(count) for name, count in counts.items()})
        for line in lines:
            _case(suite, line, line.case in known)
    _stale(root, report)
    indent(root)
    text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(suite: Element, line: ResultLine, known: bool) -> None:
    case = SubElement(suite, "testcase", classname=line.area, name=line.case, time=f"{line.ms / 1000:.6f}")
    if line.outcome == "skipped":
        SubElement(case, "skipped", message=_text(line.why))
    elif known:
        SubElement(case, "skipped", message=f"known deviation: {line.outcome}")
    elif line.outcome in SEVERITIES:
        failure = SubElement(case, "failure", type=line.outcome, message=_text(line.why))
        failure.text = f"{', '.join(line.rules)} {_text(line.field)}"


def _stale(root: Element, report: Report) -> None:
    stale = report.applied.stale
    if stale:
        count = str(len(stale))
        suite = SubElement(root, "testsuite", name="known deviations", tests=count, failures=count, skipped="0")
        for entry in stale:
            case = SubElement(suite, "testcase", classname="deviations", name=entry.case)
            SubElement(case, "failure", type="stale", message=f"{entry.severity} no longer happens")


def _text(text: str) -> str:
    # XML 1.0 has no way to write most control characters; ours are escaped already.
    return "".join(char if char.isprintable() else "?" for char in text)


MOST_FINDINGS: Final = 15
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
            lines += ["", *_findings(entry)]
    lines += ["", f"Corpus {code(collection.corpus[:12])}. One case: `kafkaproof explain --case ID`."]
    return "\n".join(lines) + "\n"


def code(text: str, limit: int = MOST_WHY) -> str:
    """*text* as it is, whatever is in it."""
    return f"<code>{re.sub(r'[^A-Za-z0-9 ,]', lambda sign: f'&#{ord(sign[0])};', printable(text, limit))}</code>"


def _table(collection: Collection) -> Iterator[str]:
    yield "| codec | | score | answered | skipped | findings |"
    yield "|---|---|--:|--:|--:|---|"
    for entry in collection.entries:
        certificate, counted = entry.report.certificate, entry.results.counts()
        found = ", ".join(f"{counted[each]:,} {words(each)}" for each in SEVERITIES if counted[each]) or "none"
        mark = "✅ certified" if certificate.certified else "❌ not certified"
        unfinished = "" if entry.results.complete else " (incomplete)"
        scores = f"{certificate.score:.3f} | {certificate.answered_score:.3f} | {counted['skipped']:,}"
        yield f"| {code(entry.label)} {code(entry.version)} | {mark}{unfinished} | {scores} | {found} |"


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


def _findings(entry: CollectionEntry) -> Iterator[str]:
    groups = alike_findings(entry.report.findings)
    yield f"<details><summary>{code(entry.label)}: {len(entry.report.findings):,} findings, worst first</summary>"
    yield ""
    yield "| severity | case | rule | what it did |"
    yield "|---|---|---|---|"
    for first, others in groups[:MOST_FINDINGS]:
        line = first.line
        more = f" and {len(others):,} alike" if others else ""
        rule = code(line.rules[0]) if line.rules else ""
        yield f"| {words(line.outcome)} | {code(line.case)} | {rule} | {code(line.why)}{more} |"
    left = sum(1 + len(others) for _, others in groups[MOST_FINDINGS:])
    yield ""
    if left:
        yield f"and {left:,} more in the report\n"
    yield "</details>"


SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT: Final = "kafkaproof/v1"
# A result file begins with its header.
FIRST_LINE: Final = 2
UNLISTED: Final = "unlisted"

Level = Literal["error", "warning", "note"]
LEVELS: Final[Mapping[Outcome, Level]] = {"wrong_error": "warning", "lossy": "note"}


def sarif(collection: Collection) -> bytes:
    """The document."""
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [_run(entry, collection) for entry in collection.entries],
    }
    return indented_json(document)


def _run(entry: CollectionEntry, collection: Collection) -> dict[str, Any]:
    found = [each.line for each in entry.report.findings]
    rules = sorted({_main_rule(line) for line in found})
    numbers = {line.case: number for number, line in enumerate(entry.results.lines, FIRST_LINE)}
    return {
        "tool": {"driver": _driver(rules)},
        "automationDetails": {"id": f"kafkaproof/{entry.folder}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"RESULT": {"description": {"text": "the directory of the result file"}}},
        "invocations": [{"executionSuccessful": entry.results.complete}],
        "results": [_result(each, entry, collection, rules, numbers) for each in entry.report.findings],
        "properties": {
            "testee": entry.label,
            "version": entry.version,
            "corpus": printable(entry.results.header.corpus),
            "certified": entry.report.certificate.certified,
            "score": round(entry.report.certificate.score, 6),
        },
    }


def _driver(used: Iterable[str]) -> dict[str, Any]:
    catalogue = {rule.id: rule for rule in all_rules()}
    rules: list[dict[str, Any]] = []
    for id_ in used:
        known = catalogue.get(id_)
        text = f"rule {id_}" if known is None else known.statement
        sources = [] if known is None else list(known.sources)
        more = {"help": {"text": f"sources: {', '.join(sources)}"}} if sources else {}
        rules.append({"id": id_, "shortDescription": {"text": text}} | more)
    return {"name": "kafkaproof", "version": installed_version(), "rules": rules}


def _result(
    finding: Finding, entry: CollectionEntry, collection: Collection, rules: list[str], numbers: Mapping[str, int]
) -> dict[str, Any]:
    line = finding.line
    case = collection.cases.get(line.case)
    title = f"{case.title}: " if case else ""
    result = {
        "ruleId": _main_rule(line),
        "ruleIndex": rules.index(_main_rule(line)),
        "level": LEVELS.get(line.outcome, "error"),
        "message": {"text": f"{title}{line.outcome}: {printable(line.why)}"},
        "locations": [_location(line, entry, numbers[line.case])],
        "partialFingerprints": {FINGERPRINT: fingerprint(entry, line)},
        "properties": {"severity": line.outcome, "expected": printable(line.expected), "field": printable(line.field)},
    }
    if entry.changes is not None:
        result["baselineState"] = _state(entry, line)
    if finding.known:
        result["suppressions"] = [_suppression(each) for each in entry.report.declared if each.covers(line)]
    return result


def fingerprint(entry: CollectionEntry, line: ResultLine) -> str:
    """A fingerprint that the same finding has in every run."""
    name = entry.said("name") + "\0" + entry.said("language")
    return sha256("\0".join((name, line.case, line.outcome, shape(line))).encode()).hexdigest()


def _main_rule(line: ResultLine) -> str:
    return printable(line.rules[0]) if line.rules else UNLISTED


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
    newly = change.before is None or change.before.outcome in ("agree", "skipped")
    return "new" if newly else "updated"


def _suppression(deviation: Deviation) -> dict[str, Any]:
    issue = f" ({deviation.issue})" if deviation.issue else ""
    return {"kind": "external", "status": "accepted", "justification": f"{deviation.reason}{issue}"}
