"""Texts of a finding: its title, its bytes explained, and a draft case.

`triage.causes` has the headings under which findings stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import kafka_records
from kafka_conformance.dossiers.pages import plain_text
from kafka_conformance.reports.explain import explanation_lines
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Expectation
from kafka_fuzz.findings import write_atomically
from kafka_fuzz.targets.codecs import LIMITS
from kafka_fuzz.triage.deduplicate import FOLDER, TriagedFinding, by_cause, smallest
from kafka_records import RecordFormatError, explain
from kafka_records.rules import all_rules

WIDTH: Final = 120
# Bytes that are explained; larger inputs repeat the same fields.
MOST_EXPLAINED: Final = 4096
HEX_A_LINE: Final = 96
# By magic: the rule that a valid input is about.
VALID_RULE: Final = {0: "LEG-01", 1: "LEG-02", 2: "HDR-01"}


# Fields of a finding in its JSON document.
DOCUMENT: Final = (
    *("name", "key", "keys", "state", "known_by", "cause", "library", "reviewed", "severity"),
    *("version", "found", "right", "count", "also"),
    *("why_not", "verdicts", "left_out"),
)


class NoCase(ValueError):
    """The finding cannot be a case; the text has the reason."""


def found_by_text(finding: TriagedFinding) -> tuple[str, ...]:
    """The targets that failed, their versions, and the outcomes."""
    return f"fuzz: {finding.outcome.target} {finding.version}".strip(), *finding.keys


def title(finding: TriagedFinding) -> str:
    """One line on what happened."""
    outcome = finding.outcome
    # The class already says that it is about an error.
    detail = "" if outcome.detail == "error" and not outcome.function else outcome.detail
    what = " ".join(filter(None, (outcome.kind.replace("_", " "), detail)))
    where = f" in {outcome.function}" if outcome.function else ""
    right = f" ({finding.right})" if outcome.kind == "accepts_invalid" else ""
    return printable(f"{outcome.target}: {what}{where}{right}")


def slug(finding: TriagedFinding) -> str:
    """A name for a case: what happened where, and a few digits that distinguish it from similar ones."""
    outcome = finding.outcome
    function = outcome.function.rpartition(".")[2]
    text = "_".join(filter(None, (outcome.target, outcome.kind, outcome.detail, function))).lower()
    name = re.sub(r"[^a-z0-9]+", "_", text).strip("_")[:60].rstrip("_")
    return f"{name}_{finding.name[:6]}"


def expectation(data: bytes) -> Expectation:
    """The right answer to *data*, by the reference."""
    try:
        return Expectation(verdict="valid", batches=kafka_records.decode(data, limits=LIMITS))
    except RecordFormatError as error:
        kinds = (error.kind,) if error.kind == "limit" else tuple(dict.fromkeys((error.kind, "malformed", "truncated")))
        return Expectation(verdict="invalid", kinds=kinds, batches=error.batches)


def rule_of(data: bytes) -> str:
    """The rule that *data* breaks; for valid data a rule about its format."""
    known = {rule.id for rule in all_rules()}
    try:
        batches = kafka_records.decode(data, limits=LIMITS)
    except RecordFormatError as error:
        return error.rule if error.rule in known else "FRM-01"
    return VALID_RULE[batches[0].magic] if batches else "FRM-07"


def draft_page(finding: TriagedFinding) -> str:
    """The draft, as Markdown."""
    return "\n".join(_lines(finding)) + "\n"


def _lines(finding: TriagedFinding) -> Iterator[str]:
    yield f"# {plain_text(title(finding))}"
    yield ""
    for name, value in facts(finding):
        yield f"- {name}: {plain_text(value)}"
    yield ""
    if finding.mode == "encode":
        yield "## The requested batch"
        yield ""
        yield from fenced([finding.data.decode(errors="replace")], "json")
        yield f"`kafkaproof fuzz promote {finding.name}` makes it an encode case."
        return
    yield f"## {len(finding.data):,} bytes"
    yield ""
    yield from fenced([finding.data.hex()[at : at + HEX_A_LINE] for at in range(0, 2 * len(finding.data), HEX_A_LINE)])
    yield from fenced(
        [line.plain.rstrip() for line in explanation_lines(explain(finding.data[:MOST_EXPLAINED]), WIDTH)]
    )
    yield "## As a case"
    yield ""
    yield f"`kafkaproof fuzz promote {finding.name}` makes it a case of the corpus. The same case written by hand:"
    yield ""
    yield from fenced(case_function(finding).splitlines(), "python")


def facts(finding: TriagedFinding) -> Iterator[tuple[str, str]]:
    """The facts that take one line each."""
    outcome = finding.outcome
    yield "severity", f"{finding.severity}, {finding.state}"
    yield "cause", printable(finding.cause + (f" ({finding.library}, {finding.reviewed})" if finding.reviewed else ""))
    if finding.known_by:
        yield "known", printable(finding.known_by)
    yield "target", printable(f"{outcome.target} {finding.version}".strip())
    if outcome.why:
        yield "error text", printable(outcome.why)
    does = "writes" if finding.mode == "encode" else "reads"
    yield "the reference", f"{does} it" if finding.right == "ok" else f"refuses it: {finding.right}"
    yield "size", f"{finding.found:,} bytes when found, {len(finding.data):,} now"
    if finding.why_not:
        yield "not shrunk", printable(finding.why_not)
    if finding.verdicts:
        yield "verdicts of other testees", printable(_verdict_list(finding.verdicts.items()))
    if finding.outcomes:
        yield (
            "outcomes of the input that was found",
            printable(_verdict_list(zip(finding.names, finding.outcomes, strict=False))),
        )
    for name, why in finding.left_out.items():
        yield "verdict allowed to change", printable(f"{name}: {why}")
    if finding.labels:
        yield "made by", printable(f"{finding.profile}: {', '.join(finding.labels)}")
    times = "once" if finding.count == 1 else f"{finding.count:,} times"
    yield "seen", f"{times}, first after {finding.seconds:.1f} CPU-seconds"
    if finding.also:
        yield "also in", printable(", ".join(finding.also))
    for key in finding.keys:
        yield "key", printable(key)


def _verdict_list(verdicts: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind.replace('_', ' ')}" for name, kind in verdicts)


def fenced(rows: list[str], language: str = "text") -> Iterator[str]:
    """A block of code."""
    yield f"```{language}"
    yield from rows
    yield "```"
    yield ""


def case_function(finding: TriagedFinding) -> str:
    """A case function in the style of the corpus."""
    expect = expectation(finding.data)
    rows = [finding.data.hex()[at : at + HEX_A_LINE] for at in range(0, 2 * len(finding.data), HEX_A_LINE)] or [""]
    answer = ", ".join(["data", *map(repr, expect.kinds or expect.batches)])
    before = f", before=({', '.join(map(repr, expect.batches))},)" if expect.kinds and expect.batches else ""
    text = [
        f'@case("{rule_of(finding.data)}")',
        f"def {slug(finding)}() -> Draft:",
        f'    """{sentence(finding)}"""',
        "    data = bytes.fromhex(",
        *(f'        "{row}"' for row in rows),
        "    )",
        f"    return {expect.verdict}({answer}{before})",
    ]
    return "\n".join(text)


def sentence(finding: TriagedFinding) -> str:
    """The sentence of the case, in ASCII and without quotes."""
    right = "is read" if finding.right == "ok" else f"is refused ({finding.right})"
    text = f"An input of {len(finding.data)} bytes that fuzzing found {right}; {title(finding)}"
    return re.sub(r'["\\.]', lambda sign: {".": "/"}.get(sign[0], ""), printable(text, 300)) + "."


def write_pages(root: Path, findings: list[TriagedFinding]) -> None:
    """Write a page for each finding, and an index."""
    folder = root / FOLDER
    for finding in findings:
        write_atomically(folder / f"{finding.name}.md", draft_page(finding).encode())
    write_atomically(folder / "README.md", "\n".join(_contents(findings)).encode())


def _contents(findings: list[TriagedFinding]) -> Iterator[str]:
    """Causes with new findings, a section each; all other causes, a line each."""
    causes = sorted(by_cause(findings).items(), key=lambda item: item[0][0])
    new = [(names, some) for names, some in causes if any(finding.state == "new" for finding in some)]
    yield "# Findings by library and cause"
    yield ""
    library = ""
    for (name, cause), some in new:
        if name != library:
            library = name
            yield f"## {plain_text(printable(name))}"
            yield ""
        yield f"### {plain_text(printable(cause))}"
        yield ""
        yield "| state | severity | bytes | what |"
        yield "|---|---|--:|---|"
        for finding in some:
            link = f"[{plain_text(title(finding))}]({finding.name}.md)"
            yield f"| {finding.state} | {finding.severity} | {len(finding.data):,} | {link} |"
        yield ""
    if len(new) < len(causes):
        yield "## Known causes"
        yield ""
        yield "| library | cause | findings | smallest |"
        yield "|---|---|--:|---|"
    for (name, cause), some in causes:
        if all(finding.state != "new" for finding in some):
            best = smallest(some)
            link = f"[{len(best.data):,} bytes]({best.name}.md)"
            yield f"| {plain_text(printable(name))} | {plain_text(printable(cause))} | {len(some)} | {link} |"


def draft_document(finding: TriagedFinding) -> dict[str, Any]:
    """A finding as a JSON document."""
    return {name: getattr(finding, name) for name in DOCUMENT} | {
        "target": finding.outcome.target,
        "title": title(finding),
        "size": len(finding.data),
        "hex": finding.data.hex(),
    }
