"""The audit report as one HTML page without scripts, with SVG charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from kafka_conformance.reports import asset, page_environment, policy_hash
from kafka_conformance.sanitize import printable
from kafka_pipeline.audit.findings import KINDS, SEVERITIES, AuditFinding
from kafka_pipeline.audit.joining import AuditReport, LogReport
from kafka_pipeline.audit.stretch import NO_HOUR
from kafka_records.rules import rule

WIDTH: Final = 640
MOST_BARS: Final = 48
# Segments in a strip, and marks in one segment; beyond that they would not be seen.
MOST_SEGMENTS, MOST_MARKS = 200, 400


class Bar(NamedTuple):
    """A bar: the text below it, its tooltip, and its height."""

    label: str
    words: str
    value: int


def short(number: float) -> str:
    """A number in four characters or so.

    >>> short(950), short(12_400), short(3_000_000), short(0.5)
    ('950', '12.4k', '3M', '0.5')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}".rstrip("0").rstrip(".") + letter
    return f"{number:.1f}".rstrip("0").rstrip(".") or "0"


def over_time(hours: Mapping[str, int]) -> list[Bar]:
    """Records by time: hours, or as many together as it takes."""
    known = sorted((int(hour), number) for hour, number in hours.items() if hour != NO_HOUR)
    if not known:
        return []
    first, last = known[0][0], known[-1][0]
    width = -(-(last - first + 1) // MOST_BARS)
    totals = [0] * ((last - first) // width + 1)
    for hour, number in known:
        totals[(hour - first) // width] += number
    form = "%H:%M" if last - first < 48 else "%m-%d" if last - first < 24 * 300 else "%Y-%m"
    made = []
    for at, total in enumerate(totals):
        start = datetime.fromtimestamp((first + at * width) * 3600, UTC)
        hours_said = f"{width} hour{'s' if width > 1 else ''}"
        made.append(Bar(f"{start:{form}}", f"{start:%Y-%m-%d %H:%M} UTC, {hours_said}: {total:,} records", total))
    return made


def by_power(numbers: Mapping[str, int], what: str) -> list[Bar]:
    """Entries by the power of two that something of theirs is below."""
    known = {int(power): number for power, number in numbers.items()}
    if not known:
        return []
    return [
        Bar(
            short(2 ** max(power - 1, 0) if power else 0), _range(power, what, known.get(power, 0)), known.get(power, 0)
        )
        for power in range(min(known), max(known) + 1)
    ]


def _range(power: int, what: str, number: int) -> str:
    least, most = (2 ** (power - 1), 2**power - 1) if power else (0, 0)
    return (
        f"{least:,} to {most:,} {what}: {number:,} entries" if most > least else f"{least:,} {what}: {number:,} entries"
    )


def strip(log: LogReport) -> dict[str, Any]:
    """The log from end to end: a box for each segment, and a mark at each finding, in units of the picture."""
    shown = log.segments[:MOST_SEGMENTS]
    total = sum(segment.bytes for segment in shown) or 1
    gap = 2.0 if len(shown) > 1 else 0.0
    room = WIDTH - gap * (len(shown) - 1)
    x, boxes, places = 0.0, [], {}
    for segment in shown:
        width = room * segment.bytes / total
        boxes.append({"x": x, "width": width, "read": width * segment.read / (segment.bytes or 1)})
        places[segment.path] = (x, width / (segment.bytes or 1))
        x += width + gap
    marks = {}
    for finding in sorted(log.listed, key=lambda each: each.severity, reverse=True):
        if finding.position >= 0 and finding.file in places:
            start, scale = places[finding.file]
            marks[f"{start + finding.position * scale:.1f}"] = finding.severity
    return {"segments": len(log.segments), "boxes": boxes, "marks": list(marks.items())[-MOST_MARKS:]}


# On a page that is for reading: the rest is in report.json.
MOST_LOGS: Final = 100
MOST_OF_A_KIND: Final = 25
MOST_SEGMENTS_LISTED: Final = 60
FOUND_BY_DECODER: Final = "an entry that cannot be read"


def audit_page(report: AuditReport) -> str:
    """The page."""
    style = asset("page.css") + files("kafka_pipeline.audit").joinpath("assets", "audit.css").read_text("utf-8")
    worst = sorted(report.logs, key=lambda log: (SEVERITIES.index(log.worst()) if log.worst() else 9, log.path))
    return (
        page_environment("kafka_pipeline.audit")
        .get_template("audit.html")
        .render(
            path=printable(report.path, 300),
            now=_time(report.now_ms),
            severities=report.severities,
            totals=_totals(report),
            logs=[_log(log, number) for number, log in enumerate(worst[:MOST_LOGS])],
            more=len(worst) - MOST_LOGS,
            short=short,
            width=WIDTH,
            style=Markup(style),  # our own files
            style_hash=policy_hash(style),
        )
    )


def _totals(report: AuditReport) -> dict[str, int]:
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
        "strip": strip(log),
        "kinds": _kinds(log),
        "formats": [(name, *numbers) for name, numbers in sorted(counts.formats.items())],
        "charts": {title: given for title, given in charts.items() if given},
        "segments": [_segment(segment) for segment in log.segments[:MOST_SEGMENTS_LISTED]],
        "more_segments": len(log.segments) - MOST_SEGMENTS_LISTED,
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
    yield "offsets", f"{log.first_offset:,} to {log.last_offset:,}; {log.missing:,} missing, in {log.gaps:,} gaps"
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
    yield "other files", ", ".join(beside) or "no index"


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


def _finding(finding: AuditFinding) -> dict[str, str]:
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
