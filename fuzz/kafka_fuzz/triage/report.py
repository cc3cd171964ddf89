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

from kafka_conformance.reports.details import explained
from kafka_conformance.reports.formats import LEVELS, SCHEMA, code
from kafka_conformance.reports.html import asset, page_environment, policy_hash, words
from kafka_conformance.sanitize import indented_json, printable
from kafka_conformance.version import installed_version
from kafka_fuzz.findings import write_atomically
from kafka_fuzz.targets.outcome import CLASSES, GOOD
from kafka_fuzz.triage.deduplicate import FILE, FOLDER, TriagedFinding, by_cause, smallest
from kafka_fuzz.triage.draft import facts, title
from kafka_fuzz.triage.night import FIRST_MISSING, GROWING, Night, Point, night_lines
from kafka_fuzz.triage.reach import FindingReach

WIDTH: Final = 640
HEIGHT: Final = 240
LEFT, RIGHT, TOP, BOTTOM = 78, 14, 14, 40
# Colours that the page's style has; more targets begin again.
COLOURS: Final = 8
TICKS: Final = 4
# Axes that end before this have a decimal.
FINE: Final = 20


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
    """One page that needs nothing else, and has no script."""
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
            lies=night.by_fault(),
            most_lies=MOST_FAULT_ROWS,
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
        "finds": len(open_),
        "failure": printable(next((each.failure for each in rounds if each.failure), ""), 300),
    }


def _groups(night: Night) -> list[dict[str, Any]]:
    """Finds under their causes: those with new ones first, then the worst."""
    numbers = {find.name: number for number, find in enumerate(night.finds)}
    groups = [
        {
            "target": printable(target, 100),
            "cause": printable(cause, 200),
            "best": _find(night, smallest(some), numbers[smallest(some).name]),
            "new": sum(find.state == "new" for find in some),
            "finds": [_find(night, find, numbers[find.name]) for find in some],
        }
        for (target, cause), some in by_cause(night.finds).items()
    ]
    return sorted(groups, key=lambda group: not group["new"])


def _find(night: Night, find: TriagedFinding, number: int) -> dict[str, Any]:
    reach = night.reach_of(find)
    shown = explained("", find.data) if number < MOST_EXPLAINED else None
    return {
        "name": find.name,
        "title": printable(title(find), 200),
        "state": find.state,
        "severity": find.severity,
        "size": len(find.data),
        "facts": [*facts(find), *_reach_facts(reach)],
        "reach": reach.who if reach is not None else "",
        "hex": find.data.hex(),
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
    yield "| target | executions | a CPU-second | lines | cells | outcomes | open finds |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for number, target in enumerate(night.targets()):
        one = _target(night, target, number)
        last = one["last"]
        counts = f"{last.lines:,} | {last.cells:,} | {last.buckets:,} | {one['finds']:,}"
        name = code(f"{one['name']} {one['version']}".strip())
        yield f"| {name} | {one['executions']:,} | {one['speed']:,.0f} | {counts} |"


def _growth_rows(night: Night) -> Iterator[str]:
    """How everything grew, after each quarter of the CPU-seconds that a target has had; of one round nobody knows."""
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
    """The fields of which most cells are missing, each with the first of these."""
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
    if night.canaries:
        results = ", ".join(f"{count:,} {state}" for state, count in night.replay_results().items())
        yield f"Replays of known findings: {results}."
        for each in night.canaries:
            if each.state != "still there":
                yield f"- {each.state}: {code(printable(each.id, 200))} {code(printable(each.why or each.key, 200))}"
        yield ""


def _cause_rows(night: Night) -> Iterator[str]:
    yield "| state | severity | reach | bytes | target and cause | finds | smallest | hex |"
    yield "|---|---|---|--:|---|--:|---|---|"
    causes = sorted(by_cause(night.finds).items(), key=lambda item: smallest(item[1]).state != "new")
    for (target, cause), some in causes[:MOST_MARKDOWN]:
        best = smallest(some)
        reach = night.reach_of(best)
        told = f"{best.state} | {words(best.severity)} | {reach or 'not measured'} | {len(best.data):,}"
        about = f"{code(f'{target}: {cause}')} | {len(some):,} | {code(title(best))} | {code(best.data.hex(), 120)}"
        yield f"| {told} | {about} |"
    if len(causes) > MOST_MARKDOWN:
        yield f"\nand {len(causes) - MOST_MARKDOWN:,} causes more in the report"


def triage_junit(night: Night) -> bytes:
    """A test case for each open key, a failure where it is new; one for each failure of the harness."""
    root = Element("testsuites", name="kafkaproof fuzz")
    for target in dict.fromkeys([*night.targets(), *(find.outcome.target for find in night.finds)]):
        finds = [find for find in night.open() if find.outcome.target == target]
        broken = [each for each in night.of(target) if each.failure]
        keys = [(key, find) for find in finds for key in find.keys]
        new = sum(find.state == "new" for _, find in keys)
        counts = {"tests": len(keys) + len(broken), "failures": new, "errors": len(broken), "skipped": len(keys) - new}
        suite = SubElement(
            root, "testsuite", {"name": printable(target)} | {name: str(count) for name, count in counts.items()}
        )
        for key, find in keys:
            one = SubElement(suite, "testcase", classname=printable(target), name=printable(key))
            kind, message = ("failure", title(find)) if find.state == "new" else ("skipped", "known")
            told = SubElement(
                one, kind, {"message": printable(message)} | ({"type": find.severity} if kind == "failure" else {})
            )
            told.text = find.data.hex() if len(find.data) <= 4096 else f"{find.name}.bin"
        for each in broken:
            one = SubElement(suite, "testcase", classname=printable(target), name=f"round {each.number}")
            SubElement(one, "error", type="harness", message=printable(each.failure))
    indent(root)
    text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def triage_sarif(night: Night) -> dict[str, Any]:
    """A SARIF document: a rule for each class of outcome, fingerprints made of keys."""
    rules = [kind for kind in CLASSES if kind not in GOOD]
    results = [_result(night, find, number, rules) for number, find in enumerate(night.finds, 1)]
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


def _result(night: Night, find: TriagedFinding, line: int, rules: list[Any]) -> dict[str, Any]:
    outcome = find.outcome
    place = {
        "artifactLocation": {"uri": f"{FOLDER}/{FILE}", "uriBaseId": "CAMPAIGN"},
        "region": {"startLine": line},
    }
    logical = {"name": printable(outcome.function or outcome.target), "kind": "function"}
    states = {"new": "new", "known": "unchanged", "gone": "absent"}
    return {
        "ruleId": outcome.kind,
        "ruleIndex": rules.index(outcome.kind),
        "level": LEVELS.get(find.severity, "error"),
        "message": {"text": f"{printable(title(find))}. {printable(outcome.why)}".strip()},
        "locations": [{"physicalLocation": place, "logicalLocations": [logical]}],
        "partialFingerprints": {FINGERPRINT: sha256(find.key.encode()).hexdigest()},
        "baselineState": states[find.state],
        "properties": {
            "key": printable(find.key),
            "cause": printable(find.cause),
            "known_by": printable(find.known_by),
            "severity": find.severity,
            "reach": night_lines(night.reach_of(find)),
            "hex": find.data.hex()[:8192],
        },
    }
