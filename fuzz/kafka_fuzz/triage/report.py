"""Report files of a campaign: JSON lines, HTML, Markdown, JUnit, SARIF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec
from markupsafe import Markup

from kafka_conformance import installed_version
from kafka_conformance.reports import asset, page_environment, policy_hash
from kafka_conformance.reports.byte_rows import explained
from kafka_conformance.reports.formats import SCHEMA, Level, code
from kafka_conformance.reports.html import words
from kafka_conformance.sanitize import indented_json, printable
from kafka_fuzz.findings import write_atomically
from kafka_fuzz.targets.outcome import CLASSES, GOOD
from kafka_fuzz.triage.deduplicate import FILE, FOLDER, TriagedFinding, by_cause, smallest
from kafka_fuzz.triage.draft import facts, title
from kafka_fuzz.triage.night import FIRST_MISSING, GROWING, Night, Point, night_lines
from kafka_fuzz.triage.reach import FindingReach

WIDTH: Final = 640
HEIGHT: Final = 240
LEFT, RIGHT, TOP, BOTTOM = 78, 14, 14, 40
# Colours in the page's style; with more targets they repeat.
COLOURS: Final = 8
TICKS: Final = 4
# Axes that end before this have a decimal.
FINE: Final = 20
# Levels of SARIF; all other severities are errors.
SEVERITY_LEVELS: Final[Mapping[str, Level]] = {"wrong_error": "warning", "lossy": "note"}


def chart(curves: Mapping[str, Sequence[Point]], title: str) -> str:
    """The picture; *curves* by target, each from its beginning."""
    most_x = max((points[-1].seconds for points in curves.values()), default=0.0) or 1.0
    most_y = nice(max((points[-1].value for points in curves.values()), default=0) or 1)
    rows = [
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)} over CPU-seconds">',
        *_axes(most_x, most_y),
    ]
    for number, points in enumerate(curves.values()):
        placed = " ".join(f"{_x(point.seconds, most_x):.1f},{_y(point.value, most_y):.1f}" for point in points)
        rows.append(f'<polyline class="line c{number % COLOURS}" points="{placed}"/>')
        rows += [
            f'<circle class="dot c{number % COLOURS}" cx="{_x(each.seconds, most_x):.1f}" '
            f'cy="{_y(each.value, most_y):.1f}" r="2.5"/>'
            for each in points[-1:]
        ]
    return "\n".join((*rows, "</svg>"))


def nice(value: int) -> int:
    """The next number that divides well into four.

    >>> nice(27), nice(1319)
    (40, 1600)
    """
    step = 4
    while step * 10 <= value:
        step *= 10
    return next(step * times for times in (1, 2, 3, 4, 5, 10) if step * times >= value)


def _x(seconds: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / most


def _y(value: float, most: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most


def _axes(most_x: float, most_y: int) -> Iterator[str]:
    for tick in range(TICKS + 1):
        value = most_y * tick // TICKS
        at = _y(value, most_y)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:,}</text>'
        seconds = most_x * tick / TICKS
        anchor = "end" if tick == TICKS else "middle"
        yield (
            f'<text class="tick" x="{_x(seconds, most_x):.1f}" y="{HEIGHT - 12}" text-anchor="{anchor}">'
            f"{seconds:,.{0 if most_x >= FINE else 1}f} s</text>"
        )


FINGERPRINT: Final = "kafkaproof-fuzz/v1"
# The most findings and faults on a page.
MOST_EXPLAINED: Final = 200
MOST_MARKDOWN: Final = 60
MOST_FAULT_ROWS: Final = 30
MOST_FIELDS: Final = 10


def write_reports(night: Night, out: Path) -> list[Path]:
    """Write the report into *out*; the paths."""
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "index.html": campaign_page(night).encode(),
        "summary.md": campaign_summary(night).encode(),
        "report.ndjson": b"".join(msgspec.json.encode(line) + b"\n" for line in night.lines()),
        "junit.xml": triage_junit(night),
        "report.sarif": indented_json(triage_sarif(night)),
    }
    for name, content in files.items():
        write_atomically(out / name, content)
    return [out / name for name in files]


def campaign_page(night: Night) -> str:
    """The report as one page without scripts and other files."""
    style = asset("page.css") + _own("fuzz.css")
    targets = night.targets()
    charts = {
        about: Markup(chart({target: night.curve(target, what) for target in targets}, about))  # ours
        for what, about in GROWING.items()
        if any(getattr(each, what) for each in night.rounds)
    }
    totals = next(night.lines())
    return (
        page_environment("kafka_fuzz.triage")
        .get_template("fuzz.html")
        .render(
            night=night,
            totals=totals,
            targets=[_target(night, target, number % COLOURS) for number, target in enumerate(targets)],
            charts=charts,
            groups=_groups(night),
            reaches=night.reaches(),
            faults=night.by_fault(),
            most_faults=MOST_FAULT_ROWS,
            words=words,
            printable=printable,
            style=Markup(style),  # our own file
            style_hash=policy_hash(style),
        )
    )


def _own(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


def _target(night: Night, target: str, colour: int) -> dict[str, Any]:
    rounds = night.of(target)
    last, seconds = rounds[-1], sum(each.cpu_seconds for each in rounds)
    executions = sum(each.executions for each in rounds)
    open_ = night.found_in(target)
    return {
        "name": printable(target, 100),
        "version": printable(last.version, 60),
        "colour": colour,
        "executions": executions,
        "seconds": seconds,
        "speed": executions / seconds if seconds else 0.0,
        "last": last,
        "restarts": sum(each.restarts for each in rounds),
        "skipped": sum(each.skipped for each in rounds),
        "findings": len(open_),
        "failure": printable(next((each.failure for each in rounds if each.failure), ""), 300),
    }


def _groups(night: Night) -> list[dict[str, Any]]:
    """Findings by cause: causes with new findings first, then the worst."""
    numbers = {finding.name: number for number, finding in enumerate(night.findings)}
    groups = [
        {
            "target": printable(target, 100),
            "cause": printable(cause, 200),
            "best": _find(night, smallest(some), numbers[smallest(some).name]),
            "new": sum(finding.state == "new" for finding in some),
            "findings": [_find(night, finding, numbers[finding.name]) for finding in some],
        }
        for (target, cause), some in by_cause(night.findings).items()
    ]
    return sorted(groups, key=lambda group: not group["new"])


def _find(night: Night, finding: TriagedFinding, number: int) -> dict[str, Any]:
    reach = night.reach_of(finding)
    shown = explained("", finding.data) if number < MOST_EXPLAINED else None
    return {
        "name": finding.name,
        "title": printable(title(finding), 200),
        "state": finding.state,
        "severity": finding.severity,
        "size": len(finding.data),
        "facts": [*facts(finding), *_reach_facts(reach)],
        "reach": reach.who if reach is not None else "",
        "hex": finding.data.hex(),
        "rows": [] if shown is None else shown["rows"],
        "summary": "" if shown is None else shown["summary"],
    }


def _reach_facts(reach: FindingReach | None) -> Iterator[tuple[str, str]]:
    yield "reach", str(reach) if reach is not None else "not measured; see kafkaproof fuzz reach"
    for release, tried in reach.releases.items() if reach is not None else ():
        yield f"Apache Kafka {release}", printable(str(tried), 200)


def campaign_summary(night: Night) -> str:
    """A summary in Markdown."""
    totals = next(night.lines())
    states = ", ".join(f"{count:,} {state}" for state, count in night.states().items())
    last = f" in the last of {night.campaigns} campaigns of each target" if night.campaigns > 1 else ""
    did = f"{totals['executions']:,} executions, {totals['cpu_seconds']:,.0f} CPU-s{last}."
    rows = ["## Fuzzing", "", f"{states}. {did}", "", *_target_rows(night), "", *_growth_rows(night)]
    rows += ["", f"Format cells: {totals['cells']:,} of {totals['cells_reachable']:,}.", *_missing_rows(night), ""]
    rows += [f"Failure of the harness: {code(each.target)} {code(each.failure)}" for each in night.failures()]
    rows += _replay_rows(night)
    return "\n".join([*rows, *_cause_rows(night)]) + "\n"


def _target_rows(night: Night) -> Iterator[str]:
    yield "| target | executions | a CPU-second | lines | cells | outcomes | open findings |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for number, target in enumerate(night.targets()):
        one = _target(night, target, number)
        last = one["last"]
        counts = f"{last.lines:,} | {last.cells:,} | {last.buckets:,} | {one['findings']:,}"
        name = code(f"{one['name']} {one['version']}".strip())
        yield f"| {name} | {one['executions']:,} | {one['speed']:,.0f} | {counts} |"


def _growth_rows(night: Night) -> Iterator[str]:
    """Growth after each quarter of a target's CPU-seconds; targets with one round are left out."""
    where = f"all {night.campaigns} campaigns" if night.campaigns > 1 else "this campaign"
    yield f"| growth by CPU-second, {where} | | ¼ | ½ | ¾ | all |"
    yield "|---|---|--:|--:|--:|--:|"
    for target in night.targets():
        for what, about in GROWING.items():
            points = night.grown(target, what)
            if points[-2].value:
                grown = " | ".join(f"{point.value:,} at {point.seconds:,.0f} s" for point in points)
                yield f"| {code(printable(target, 100))} | {about} | {grown} |"


def _missing_rows(night: Night) -> Iterator[str]:
    """The fields with most missing cells, each with the first of them."""
    missing = night.missing()
    if not missing:
        return
    yield from ("", "| field | missing | the first |", "|---|--:|---|")
    for field, cells in list(missing.items())[:MOST_FIELDS]:
        first = ", ".join(code(" ".join(map(str, cell))) for cell in cells[:FIRST_MISSING])
        yield f"| {code(field)} | {len(cells):,} | {first} |"
    if len(missing) > MOST_FIELDS:
        yield f"\nand {len(missing) - MOST_FIELDS:,} fields more in the report"


def _replay_rows(night: Night) -> Iterator[str]:
    """The number of known findings that are still there, gone, or not replayable."""
    if night.replays:
        results = ", ".join(f"{count:,} {state}" for state, count in night.replay_results().items())
        yield f"Replays of known findings: {results}."
        for each in night.replays:
            if each.state != "still there":
                yield f"- {each.state}: {code(printable(each.id, 200))} {code(printable(each.why or each.key, 200))}"
        yield ""


def _cause_rows(night: Night) -> Iterator[str]:
    yield "| state | severity | reach | bytes | target and cause | findings | smallest | hex |"
    yield "|---|---|---|--:|---|--:|---|---|"
    causes = sorted(by_cause(night.findings).items(), key=lambda item: smallest(item[1]).state != "new")
    for (target, cause), some in causes[:MOST_MARKDOWN]:
        best = smallest(some)
        reach = night.reach_of(best)
        shown = f"{best.state} | {words(best.severity)} | {reach or 'not measured'} | {len(best.data):,}"
        about = f"{code(f'{target}: {cause}')} | {len(some):,} | {code(title(best))} | {code(best.data.hex(), 120)}"
        yield f"| {shown} | {about} |"
    if len(causes) > MOST_MARKDOWN:
        yield f"\nand {len(causes) - MOST_MARKDOWN:,} causes more in the report"


def triage_junit(night: Night) -> bytes:
    """A test case for each open key, a failure where it is new; one for each failure of the harness."""
    root = Element("testsuites", name="kafkaproof fuzz")
    for target in dict.fromkeys([*night.targets(), *(finding.outcome.target for finding in night.findings)]):
        findings = [finding for finding in night.open() if finding.outcome.target == target]
        broken = [each for each in night.of(target) if each.failure]
        keys = [(key, finding) for finding in findings for key in finding.keys]
        new = sum(finding.state == "new" for _, finding in keys)
        counts = {"tests": len(keys) + len(broken), "failures": new, "errors": len(broken), "skipped": len(keys) - new}
        suite = SubElement(
            root, "testsuite", {"name": printable(target)} | {name: str(count) for name, count in counts.items()}
        )
        for key, finding in keys:
            one = SubElement(suite, "testcase", classname=printable(target), name=printable(key))
            kind, message = ("failure", title(finding)) if finding.state == "new" else ("skipped", "known")
            result = SubElement(
                one, kind, {"message": printable(message)} | ({"type": finding.severity} if kind == "failure" else {})
            )
            result.text = finding.data.hex() if len(finding.data) <= 4096 else f"{finding.name}.bin"
        for each in broken:
            one = SubElement(suite, "testcase", classname=printable(target), name=f"round {each.number}")
            SubElement(one, "error", type="harness", message=printable(each.failure))
    indent(root)
    text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def triage_sarif(night: Night) -> dict[str, Any]:
    """A SARIF document: a rule for each class of outcome, fingerprints made of keys."""
    rules = [kind for kind in CLASSES if kind not in GOOD]
    results = [_result(night, finding, number, rules) for number, finding in enumerate(night.findings, 1)]
    driver = {
        "name": "kafkaproof fuzz",
        "version": installed_version(),
        "rules": [{"id": kind, "shortDescription": {"text": words(kind)}} for kind in rules],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "kafkaproof-fuzz/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"CAMPAIGN": {"description": {"text": "the directory of the campaign"}}},
        "invocations": [{"executionSuccessful": not night.failures()}],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(night: Night, finding: TriagedFinding, line: int, rules: list[Any]) -> dict[str, Any]:
    outcome = finding.outcome
    place = {
        "artifactLocation": {"uri": f"{FOLDER}/{FILE}", "uriBaseId": "CAMPAIGN"},
        "region": {"startLine": line},
    }
    logical = {"name": printable(outcome.function or outcome.target), "kind": "function"}
    states = {"new": "new", "known": "unchanged", "gone": "absent"}
    return {
        "ruleId": outcome.kind,
        "ruleIndex": rules.index(outcome.kind),
        "level": SEVERITY_LEVELS.get(finding.severity, "error"),
        "message": {"text": f"{printable(title(finding))}. {printable(outcome.why)}".strip()},
        "locations": [{"physicalLocation": place, "logicalLocations": [logical]}],
        "partialFingerprints": {FINGERPRINT: sha256(finding.key.encode()).hexdigest()},
        "baselineState": states[finding.state],
        "properties": {
            "key": printable(finding.key),
            "cause": printable(finding.cause),
            "known_by": printable(finding.known_by),
            "severity": finding.severity,
            "reach": night_lines(night.reach_of(finding)),
            "hex": finding.data.hex()[:8192],
        },
    }
