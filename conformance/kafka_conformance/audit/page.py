"""The report as one HTML page that needs nothing else, and has no script.  Paths and messages are hostile text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup

from kafka_conformance.audit.charts import bars, by_power, over_time, strip
from kafka_conformance.audit.report import Report
from kafka_conformance.hostile import printable
from kafka_conformance.reporting.html import asset, environment, policy_hash
from kafka_corpus.audit.findings import KINDS, SEVERITIES, Finding
from kafka_corpus.audit.joining import LogReport
from kafka_records.rules import rule

# On a page that is for reading: the rest is in report.json.
MOST_LOGS: Final = 100
MOST_OF_A_KIND: Final = 25
MOST_SEGMENTS: Final = 60
FOUND_BY_DECODER: Final = "an entry that cannot be read"


def page(report: Report) -> str:
    """The page."""
    style = asset("page.css") + files("kafka_conformance.audit").joinpath("assets", "audit.css").read_text("utf-8")
    worst = sorted(report.logs, key=lambda log: (SEVERITIES.index(log.worst()) if log.worst() else 9, log.path))
    return (
        environment("kafka_conformance.audit")
        .get_template("audit.html")
        .render(
            path=printable(report.path, 300),
            now=_time(report.now_ms),
            severities=report.severities,
            totals=_totals(report),
            logs=[_log(log, number) for number, log in enumerate(worst[:MOST_LOGS])],
            more=len(worst) - MOST_LOGS,
            style=Markup(style),  # our own files
            style_hash=policy_hash(style),
        )
    )


def _totals(report: Report) -> dict[str, int]:
    numbers = [log.counts.numbers for log in report.logs]
    return {
        "logs": len(report.logs),
        "segments": sum(len(log.segments) for log in report.logs),
        "bytes": sum(segment.bytes for log in report.logs for segment in log.segments),
        "records": sum(each.get("records", 0) for each in numbers),
    }


def _log(log: LogReport, number: int) -> dict[str, Any]:
    counts = log.counts
    sizes, records = by_power(counts.sizes, "bytes"), by_power(counts.records, "records")
    charts = {
        "Records by their batches' largest timestamp": over_time(counts.hours),
        "Entries by size in bytes": sizes,
        "Entries by number of records": records,
    }
    return {
        "id": f"log-{number}",
        "path": printable(log.path, 300),
        "worst": log.worst(),
        "findings": sum(log.found.values()),
        "facts": list(_facts(log)),
        "strip": Markup(strip(log)),  # ours: numbers, and classes of our own
        "kinds": _kinds(log),
        "formats": [(name, *numbers) for name, numbers in sorted(counts.formats.items())],
        "charts": {title: Markup(bars(given, title)) for title, given in charts.items() if given},  # ours, escaped
        "segments": [_segment(segment) for segment in log.segments[:MOST_SEGMENTS]],
        "more_segments": len(log.segments) - MOST_SEGMENTS,
    }


def _facts(log: LogReport) -> Iterator[tuple[str, str]]:
    numbers = log.counts.numbers
    records = numbers.get("records", 0)
    size = sum(segment.bytes for segment in log.segments)
    unread = size - sum(segment.read for segment in log.segments)
    yield (
        "segments",
        f"{len(log.segments):,}, {size:,} bytes" + (f", of which {unread:,} were not read" if unread else ""),
    )
    yield "offsets", f"{log.first_offset:,} to {log.last_offset:,}; {log.missing:,} not there, in {log.gaps:,} places"
    yield (
        "entries",
        f"{numbers.get('entries', 0):,}, of which {numbers.get('control', 0):,} control batches, "
        + (f"{numbers.get('empty', 0):,} without records"),
    )
    yield (
        "records",
        f"{records:,}; {numbers.get('without_key', 0):,} without a key, "
        + (f"{numbers.get('without_value', 0):,} without a value"),
    )
    inner = sum(numbers.get(name, 0) for name in ("key_bytes", "value_bytes", "header_bytes"))
    yield (
        "content",
        f"{inner:,} bytes of keys, values and headers" + (f", {inner / size:.2f} times the log" if size else ""),
    )
    if records:
        headers = numbers.get("headers", 0)
        yield "headers", f"{headers:,}, {headers / records:.2f} a record, {numbers.get('header_bytes', 0):,} bytes"
    producers = f"{log.producers:,} with an id, {numbers.get('idempotent', 0):,} batches of theirs"
    transactions = f"{log.open:,} transaction{'' if log.open == 1 else 's'} open"
    yield "producers", f"{producers}, {numbers.get('transactional', 0):,} transactional; {transactions}"
    if log.counts.newest >= 0:
        yield "times", f"{_time(log.counts.oldest)} to {_time(log.counts.newest)}"
    beside = sorted({name for segment in log.segments for name in segment.beside})
    yield "beside it", ", ".join(beside) or "no index"


def _time(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds:,} ms"


def _kinds(log: LogReport) -> list[dict[str, Any]]:
    """Findings by kind and rule, worst first."""
    kinds = []
    for name, number in log.found.items():
        kind, of_rule, severity = name.split(" ")
        listed = [each for each in log.listed if (each.kind, each.rule, each.severity) == (kind, of_rule, severity)]
        kinds.append(
            {
                "title": KINDS[kind].title if kind in KINDS else FOUND_BY_DECODER,
                "rule": of_rule,
                "statement": rule(of_rule).statement,
                "severity": severity,
                "count": number,
                "rows": [_finding(each) for each in listed[:MOST_OF_A_KIND]],
                "more": number - len(listed[:MOST_OF_A_KIND]),
            }
        )
    return sorted(kinds, key=lambda each: (SEVERITIES.index(each["severity"]), -each["count"], each["title"]))


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "file": printable(finding.file.rpartition("/")[2], 100),
        "position": f"{finding.position:,}" if finding.position >= 0 else "",
        "offset": str(finding.offset) if finding.offset != -1 else "",
        "message": printable(finding.message, 300),
    }


def _segment(segment: Any) -> dict[str, Any]:
    numbers = segment.counts.numbers
    return {
        "file": printable(segment.path.rpartition("/")[2], 100),
        "bytes": segment.bytes,
        "read": segment.read,
        "first": segment.first_offset,
        "last": segment.last_offset,
        "entries": numbers.get("entries", 0),
        "records": numbers.get("records", 0),
        "findings": [(severity, segment.findings[severity]) for severity in SEVERITIES if severity in segment.findings],
    }
