"""Reports as HTML pages that need no other file.

The matrix and the scores are in the page as it is.  Cases are in it as
compressed JSON, `CHUNK` of them together, and are unpacked when one is looked
at, so that a thousand cases with their bytes take a few megabytes.  The script
makes text nodes only, and a content security policy allows no script or style
but the two of the page, by hash, and nothing from outside.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafka_conformance.judge.verdict import OUTCOMES, SEVERITIES, SHORT, Outcome, outcome_rank
from kafka_conformance.reports.collection import KINDS, Collection, CollectionEntry, certify_command, counts
from kafka_conformance.reports.details import detail
from kafka_conformance.runner.history import History
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_records.rules import all_rules

CHUNK: Final = 40
MOST_WHY: Final = 160


@dataclass(frozen=True, slots=True)
class PageCell:
    """One area of one testee.

    Attributes:
        worst: the worst outcome, or None if it was not sent.
        text: two letters and how many findings, or a mark.
        words: the same for those who do not see it.
    """

    worst: Outcome | None
    text: str
    words: str


def result_page(collection: Collection, beside: Sequence[str] = ()) -> str:
    """The page; *beside* are the names of cross matrices in the same directory."""
    found = collection.found()
    script, style = asset("shared.js") + asset("page.js"), asset("page.css")
    return page_environment().get_template("page.html").render(
        entries=collection.entries,
        beside=beside,
        corpus=collection.corpus,
        not_run=collection.not_run,
        areas=collection.areas(),
        rows=[(area, [page_cell(entry, area) for entry in collection.entries]) for area in collection.areas()],
        totals=[page_cell(entry, None) for entry in collection.entries],
        found=_disagreeing(collection),
        severities=SEVERITIES,
        outcomes=OUTCOMES,
        short=SHORT,
        words=words,
        compared=[(number, entry) for number, entry in enumerate(collection.entries) if entry.changes is not None],
        counts=counts,
        kinds=KINDS,
        index=packed_json(index_page(collection, found)),
        chunks=list(_chunks(collection, found)),
        script=Markup(script),
        style=Markup(style),
        script_hash=policy_hash(script),
        style_hash=policy_hash(style),
    )  # fmt: skip


def page_environment(package: str = "kafka_conformance.reports") -> Environment:
    """Where the templates of *package* and the shared ones are; everything that they are given is escaped."""
    loader = ChoiceLoader([PackageLoader(each, "assets") for each in (package, "kafka_conformance.reports")])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def asset(name: str) -> str:
    """A file of the page, exactly as it is put in."""
    return files("kafka_conformance.reports").joinpath("assets", name).read_text(encoding="utf-8")


def policy_hash(text: str) -> str:
    """How a content security policy names a script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def packed_json(value: Any) -> str:
    """JSON, compressed and in base64, which is the same for the same value."""
    return b64encode(gzip.compress(msgspec.json.encode(value), 9, mtime=0)).decode()


def words(outcome: str) -> str:
    """An outcome as it is read aloud."""
    return outcome.replace("_", " ")


def page_cell(entry: CollectionEntry, area: str | None) -> PageCell:
    """The cell of one testee for an area, or for all areas."""
    found = Counter(line.outcome for line in entry.results.lines if area in (None, line.area))
    score = entry.report.certificate.score if area is None else entry.report.certificate.areas.get(area, 0.0)
    return amount(entry.label, area or "all areas", found, score)


def amount(label: str, area: str, counts: Counter[Outcome], score: float) -> PageCell:
    """The cell for these counts of outcomes."""
    if not counts:
        return PageCell(None, "", f"{label}: not sent")
    worst = min(counts, key=outcome_rank)
    counted = ", ".join(f"{counts[each]:,} {words(each)}" for each in OUTCOMES if counts[each])
    spoken = f"{label}, {area}: {counted}; score {score:.3f}"
    findings = sum(counts[each] for each in SEVERITIES)
    return PageCell(worst, f"{SHORT[worst]} {findings:,}" if findings else SHORT[worst], spoken)


def index_page(collection: Collection, found: Sequence[str]) -> dict[str, Any]:
    """The data of the list of findings; cases are in the order of the chunks."""
    cases = [_listed(collection, case) for case in found]
    cited = {rule for case in cases for rule in case["rules"]}
    return {
        "chunk": CHUNK,
        "found": _disagreeing(collection),
        "outcomes": OUTCOMES,
        "testees": [
            {"label": entry.label, "again": certify_command(entry.results.header)} for entry in collection.entries
        ],
        "rules": {rule.id: [rule.statement, rule.outcome, rule.sources] for rule in all_rules() if rule.id in cited},
        "cases": cases,
    }


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
    }


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
