"""A finding as people and programs read it: title, bytes explained, draft case.

Finds stay apart where their keys differ.  What is done with invalid bytes goes
under the causes by which findings of the corpus are reported, identified by the rule
that the bytes break; what has none of them, under what the testee said or did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import kafka_records
from kafka_conformance.dossiers import causes
from kafka_conformance.dossiers.pages import plain_text
from kafka_conformance.reports.explain import explanation_lines as explained_lines
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Expectation
from kafka_fuzz.encode.testees import WRITING
from kafka_fuzz.findings import write_atomically
from kafka_fuzz.targets.codecs import LIMITS
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass, severity
from kafka_fuzz.triage.deduplicate import FOLDER, TriagedFinding, by_cause
from kafka_records import RecordFormatError, explain
from kafka_records.rules import all_rules

# Of these, the rule that the bytes break says why.
BY_RULE: Final[frozenset[OutcomeClass]] = frozenset({"accepts_invalid", "hang", "memory", "amplification"})


def drafted_cause(outcome: Outcome, right: str) -> str:
    """One line; *right* is the reference's verdict on the bytes, `ok` or kind and rule."""
    rule = right.partition(" ")[2]
    if outcome.kind in BY_RULE and rule and not outcome.detail.startswith(WRITING):
        found = causes.cause_of(_line(outcome, rule))
        if found.number < causes.MADE:
            return found.title
    what = outcome.kind.replace("_", " ")
    where = outcome.function.rpartition("/")[2] if _says_function(outcome) else rule.partition("-")[0]
    said = "" if outcome.detail == "error" else outcome.detail
    return ": ".join(filter(None, (what, said, where)))


def _says_function(outcome: Outcome) -> bool:
    """Whether `function` holds one, and not the rule or format of a key."""
    return "." in outcome.function


def _line(outcome: Outcome, rule: str) -> ResultLine:
    return ResultLine(
        case="fuzz",
        outcome=severity(outcome.kind),
        area="fuzz",
        op="decode",
        expected="invalid",
        rules=(rule,),
        field="error" if outcome.kind == "accepts_invalid" else outcome.detail,
        why=outcome.why,
    )


WIDTH: Final = 120
# Bytes of which each is explained; larger inputs are floods, whose first fields say as much.
MOST_EXPLAINED: Final = 4096
HEX_A_LINE: Final = 96
# Where no rule is broken, the one that says how far a log is read.
VALID_RULE: Final = {0: "LEG-01", 1: "LEG-02", 2: "HDR-01"}


class NoCase(ValueError):
    """The find cannot be a case."""


def found_by_text(find: TriagedFinding) -> tuple[str, ...]:
    """The targets that failed, their versions, and the outcomes."""
    return f"fuzz: {find.outcome.target} {find.version}".strip(), *find.keys


def title(find: TriagedFinding) -> str:
    """One line on what happened."""
    outcome = find.outcome
    # That it is about being refused or not, the class says already.
    detail = "" if outcome.detail == "error" and not outcome.function else outcome.detail
    what = " ".join(filter(None, (outcome.kind.replace("_", " "), detail)))
    where = f" in {outcome.function}" if outcome.function else ""
    right = f" ({find.right})" if outcome.kind == "accepts_invalid" else ""
    return printable(f"{outcome.target}: {what}{where}{right}")


def slug(find: TriagedFinding) -> str:
    """A name for a case: what happened where, and a few digits that distinguish it from similar ones."""
    outcome = find.outcome
    function = outcome.function.rpartition(".")[2]
    text = "_".join(filter(None, (outcome.target, outcome.kind, outcome.detail, function))).lower()
    name = re.sub(r"[^a-z0-9]+", "_", text).strip("_")[:60].rstrip("_")
    return f"{name}_{find.name[:6]}"


def expectation(data: bytes) -> Expectation:
    """The right answer to *data*, by the reference."""
    try:
        return Expectation(verdict="valid", batches=kafka_records.decode(data, limits=LIMITS))
    except RecordFormatError as error:
        kinds = (error.kind,) if error.kind == "limit" else tuple(dict.fromkeys((error.kind, "malformed", "truncated")))
        return Expectation(verdict="invalid", kinds=kinds, batches=error.batches)


def rule_of(data: bytes) -> str:
    """The rule that *data* breaks, or the one by which its first entry is read."""
    known = {rule.id for rule in all_rules()}
    try:
        batches = kafka_records.decode(data, limits=LIMITS)
    except RecordFormatError as error:
        return error.rule if error.rule in known else "FRM-01"
    return VALID_RULE[batches[0].magic] if batches else "FRM-07"


def draft_page(find: TriagedFinding) -> str:
    """The draft, as Markdown."""
    return "\n".join(_lines(find)) + "\n"


def _lines(find: TriagedFinding) -> Iterator[str]:
    yield f"# {plain_text(title(find))}"
    yield ""
    for name, value in facts(find):
        yield f"- {name}: {plain_text(value)}"
    yield ""
    if find.asked == "encode":
        yield "## The batch that was to be written"
        yield ""
        yield from fenced([find.data.decode(errors="replace")], "json")
        yield f"`kafkaproof fuzz promote {find.name}` makes it an encode case."
        return
    yield f"## {len(find.data):,} bytes"
    yield ""
    yield from fenced([find.data.hex()[at : at + HEX_A_LINE] for at in range(0, 2 * len(find.data), HEX_A_LINE)])
    yield from fenced([line.plain.rstrip() for line in explained_lines(explain(find.data[:MOST_EXPLAINED]), WIDTH)])
    yield "## As a case"
    yield ""
    yield f"`kafkaproof fuzz promote {find.name}` keeps it for good; by hand it would be:"
    yield ""
    yield from fenced(case_function(find).splitlines(), "python")


def facts(find: TriagedFinding) -> Iterator[tuple[str, str]]:
    """The facts that take one line each."""
    outcome = find.outcome
    yield "severity", f"{find.severity}, {find.state}"
    yield "cause", printable(find.cause)
    if find.known_by:
        yield "known", printable(find.known_by)
    yield "target", printable(f"{outcome.target} {find.version}".strip())
    if outcome.why:
        yield "it said", printable(outcome.why)
    does = "writes" if find.asked == "encode" else "reads"
    yield "the reference", f"{does} it" if find.right == "ok" else f"refuses it: {find.right}"
    yield "size", f"{find.found:,} bytes when found, {len(find.data):,} now"
    if find.why_not:
        yield "not reduced", printable(find.why_not)
    if find.verdicts:
        yield "what others make of it", printable(_verdict_list(find.verdicts.items()))
    if find.vector:
        yield (
            "what they made of the input that was found",
            printable(_verdict_list(zip(find.names, find.vector, strict=False))),
        )
    for name, why in find.left_out.items():
        yield "its verdict did not have to stay", printable(f"{name}: {why}")
    if find.labels:
        yield "made by", printable(f"{find.profile}: {', '.join(find.labels)}")
    times = "once" if find.count == 1 else f"{find.count:,} times"
    yield "seen", f"{times}, first after {find.seconds:.1f} CPU-seconds"
    if find.also:
        yield "also in", printable(", ".join(find.also))
    for key in find.keys:
        yield "key", printable(key)


def _verdict_list(verdicts: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind.replace('_', ' ')}" for name, kind in verdicts)


def fenced(rows: list[str], language: str = "text") -> Iterator[str]:
    """A block of code."""
    yield f"```{language}"
    yield from rows
    yield "```"
    yield ""


def case_function(find: TriagedFinding) -> str:
    """A case function in the style of the corpus."""
    expect = expectation(find.data)
    rows = [find.data.hex()[at : at + HEX_A_LINE] for at in range(0, 2 * len(find.data), HEX_A_LINE)] or [""]
    answer = ", ".join(["data", *map(repr, expect.kinds or expect.batches)])
    before = f", before=({', '.join(map(repr, expect.batches))},)" if expect.kinds and expect.batches else ""
    text = [
        f'@case("{rule_of(find.data)}")',
        f"def {slug(find)}() -> Draft:",
        f'    """{sentence(find)}"""',
        "    data = bytes.fromhex(",
        *(f'        "{row}"' for row in rows),
        "    )",
        f"    return {expect.verdict}({answer}{before})",
    ]
    return "\n".join(text)


def sentence(find: TriagedFinding) -> str:
    """The sentence of the case, in ASCII and without quotes."""
    right = "is read" if find.right == "ok" else f"is refused ({find.right})"
    text = f"An input of {len(find.data)} bytes that fuzzing found {right}; {title(find)}"
    return re.sub(r'["\\.]', lambda sign: {".": "/"}.get(sign[0], ""), printable(text, 300)) + "."


def write_pages(root: Path, finds: list[TriagedFinding]) -> None:
    """Write a page for each finding, and an index."""
    folder = root / FOLDER
    for find in finds:
        write_atomically(folder / f"{find.name}.md", draft_page(find).encode())
    write_atomically(folder / "README.md", "\n".join(_contents(finds)).encode())


def _contents(finds: list[TriagedFinding]) -> Iterator[str]:
    yield "# Finds by target and cause"
    yield ""
    target = ""
    for (name, cause), some in sorted(by_cause(finds).items(), key=lambda item: item[0][0]):
        if name != target:
            target = name
            yield f"## {plain_text(printable(name))}"
            yield ""
        yield f"### {plain_text(printable(cause))}"
        yield ""
        yield "| state | severity | bytes | what |"
        yield "|---|---|--:|---|"
        for find in some:
            said = plain_text(title(find))
            yield f"| {find.state} | {find.severity} | {len(find.data):,} | [{said}]({find.name}.md) |"
        yield ""


def draft_document(find: TriagedFinding) -> dict[str, Any]:
    """A find for programs."""
    return {
        "name": find.name,
        "key": find.key,
        "keys": find.keys,
        "state": find.state,
        "known_by": find.known_by,
        "cause": find.cause,
        "severity": find.severity,
        "target": find.outcome.target,
        "version": find.version,
        "title": title(find),
        "found": find.found,
        "size": len(find.data),
        "hex": find.data.hex(),
        "right": find.right,
        "count": find.count,
        "also": find.also,
        "why_not": find.why_not,
        "verdicts": find.verdicts,
        "left_out": find.left_out,
    }
