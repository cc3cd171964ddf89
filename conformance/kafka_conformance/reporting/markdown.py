"""A summary in Markdown, for a pull request or a job's page.

What testees say stands in `<code>` with every sign of Markdown and HTML as a
character reference, so that it forms no link, no mention and no table cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kafka_conformance.hostile import printable
from kafka_conformance.judge import SEVERITIES
from kafka_conformance.reporting.baseline import Change, counts
from kafka_conformance.reporting.collection import Collection, Entry
from kafka_conformance.reporting.terminal import alike

MOST_FINDINGS: Final = 15
MOST_CHANGES: Final = 30
MOST_WHY: Final = 160


def summary(collection: Collection) -> str:
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
        found = ", ".join(f"{counted[each]:,} {_words(each)}" for each in SEVERITIES if counted[each]) or "none"
        mark = "✅ certified" if certificate.certified else "❌ not certified"
        unfinished = "" if entry.results.complete else " (incomplete)"
        scores = f"{certificate.score:.3f} | {certificate.answered_score:.3f} | {counted['skipped']:,}"
        yield f"| {code(entry.label)} {code(entry.version)} | {mark}{unfinished} | {scores} | {found} |"


def _changes(entry: Entry, found: tuple[Change, ...]) -> Iterator[str]:
    told = ", ".join(f"{number:,} {kind}" for kind, number in counts(found).items() if number) or "nothing changed"
    yield f"### {code(entry.label)} since the baseline: {told}"
    if not found:
        return
    yield ""
    yield "| change | case | was | is | |"
    yield "|---|---|---|---|---|"
    for change in found[:MOST_CHANGES]:
        before = "not asked" if change.before is None else _words(change.before.outcome)
        why = code(change.now.why) if change.now.why else ""
        yield f"| {change.kind} | {code(change.case)} | {before} | {_words(change.now.outcome)} | {why} |"
    if len(found) > MOST_CHANGES:
        yield f"\nand {len(found) - MOST_CHANGES:,} more"


def _findings(entry: Entry) -> Iterator[str]:
    groups = alike(entry.report.findings)
    yield f"<details><summary>{code(entry.label)}: {len(entry.report.findings):,} findings, worst first</summary>"
    yield ""
    yield "| severity | case | rule | what it did |"
    yield "|---|---|---|---|"
    for first, others in groups[:MOST_FINDINGS]:
        line = first.line
        more = f" and {len(others):,} alike" if others else ""
        rule = code(line.rules[0]) if line.rules else ""
        yield f"| {_words(line.outcome)} | {code(line.case)} | {rule} | {code(line.why)}{more} |"
    left = sum(1 + len(others) for _, others in groups[MOST_FINDINGS:])
    yield ""
    if left:
        yield f"and {left:,} more in the report\n"
    yield "</details>"


def _words(outcome: str) -> str:
    return outcome.replace("_", " ")
