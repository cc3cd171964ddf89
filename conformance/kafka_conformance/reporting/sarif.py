"""Findings as SARIF 2.1.0, for code scanning: one run for each testee.

A finding is located at its line of the result file, which is the one text that
there is, and at its case as a logical place.  Its fingerprint is made of
testee, case, severity and field, and so outlives versions, times and messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, Literal

from kafka_conformance.cli import installed_version
from kafka_conformance.deviations import Deviation
from kafka_conformance.hostile import printable
from kafka_conformance.indented import indented
from kafka_conformance.judge import Outcome
from kafka_conformance.report import Finding
from kafka_conformance.reporting.baseline import shape
from kafka_conformance.reporting.collection import Collection, Entry
from kafka_conformance.results import FILE, Line
from kafka_records.rules import all_rules

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
    return indented(document)


def _run(entry: Entry, collection: Collection) -> dict[str, Any]:
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
    finding: Finding, entry: Entry, collection: Collection, rules: list[str], numbers: Mapping[str, int]
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


def fingerprint(entry: Entry, line: Line) -> str:
    """What the same finding has in common from run to run."""
    name = entry.said("name") + "\0" + entry.said("language")
    return sha256("\0".join((name, line.case, line.outcome, shape(line))).encode()).hexdigest()


def _main_rule(line: Line) -> str:
    return printable(line.rules[0]) if line.rules else UNLISTED


def _location(line: Line, entry: Entry, number: int) -> dict[str, Any]:
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


def _state(entry: Entry, line: Line) -> str:
    change = entry.changed.get(line.case)
    if change is None:
        return "unchanged"
    newly = change.before is None or change.before.outcome in ("agree", "skipped")
    return "new" if newly else "updated"


def _suppression(deviation: Deviation) -> dict[str, Any]:
    issue = f" ({deviation.issue})" if deviation.issue else ""
    return {"kind": "external", "status": "accepted", "justification": f"{deviation.reason}{issue}"}
