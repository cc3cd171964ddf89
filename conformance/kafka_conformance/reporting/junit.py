"""A report as JUnit XML, for the continuous integration that reads nothing else."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kafka_conformance.judge import SEVERITIES
from kafka_conformance.report import Report
from kafka_conformance.results import Line


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


def _case(suite: Element, line: Line, known: bool) -> None:
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
