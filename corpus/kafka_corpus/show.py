"""Cases for people: as a table, or one of them in full."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kafka_corpus.case import Case, Recipe
from kafka_corpus.prediction import step_payload
from kafka_corpus.scenario import Produce, Scenario
from kafka_corpus.vector_format import input_of
from kafka_corpus.wire import to_wire
from kafka_records import Batch
from kafka_records.rules import rule

STYLES: Final = {"valid": "green", "invalid": "red", "acceptable": "yellow"}
BYTES_A_LINE: Final = 16
# A page of bytes; `--raw` has them all.
MOST_BYTES: Final = 512


def print_list(cases: list[Case]) -> None:
    """A table of cases, and how many they are."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("case", "op", "verdict", "rules", "title"):
        table.add_column(title, overflow="fold", no_wrap=title in ("op", "verdict"))
    for case in cases:
        verdict = Text(case.expect.verdict, STYLES[case.expect.verdict])
        table.add_row(Text(case.id, "bold"), case.op, verdict, Text(" ".join(case.rules), "cyan"), Text(case.title))
    console = Console()
    console.print(table)
    console.print(f"{len(cases)} cases", style="dim", highlight=False)


def print_case(case: Case) -> None:
    """One case in colour."""
    console = Console(highlight=False)
    for line in lines(case):
        if line.startswith(("  {", '  "')):
            console.print(Syntax(line, "json", background_color="default", word_wrap=True))
        else:
            name, separator, rest = line.partition("  ")
            console.print(Text.assemble((name, "bold"), separator, rest), soft_wrap=True)


def lines(case: Case) -> Iterator[str]:
    """One case as plain lines: a name, two spaces, a value."""
    yield f"case  {case.id}"
    yield f"title  {case.title}"
    for id_ in case.rules:
        yield f"rule  {id_}: {rule(id_).statement}"
    yield from (f"ref  {ref}" for ref in case.refs)
    yield f"op  {case.op}"
    yield from question(case)
    yield from answer(case)
    for name, given in evidence_of(case):
        yield f"answer of {name}  {json.dumps(given)}"
    if case.op != "encode":
        yield f"see  kafkaproof explain --case '{case.id}'"


def question(case: Case) -> Iterator[str]:
    """The input."""
    match case.input:
        case Scenario():
            yield from scenario_lines(case.input)
        case Batch():
            yield "input  a batch"
            yield f"  {as_json(to_wire(case.input))}"
        case Recipe(name, args):
            yield f"input  made by {name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"
        case bytes():
            yield f"input  {len(case.input)} bytes"
            yield from hex_lines(case.input)
            if case.aborted is not None:
                yield f"  aborted: {as_json(case.aborted)}; committed: {as_json(case.expect.committed)}"


def scenario_lines(scenario: Scenario) -> Iterator[str]:
    """A scenario: the releases that it concerns, and its steps."""
    config = "".join(f", {name}={value}" for name, value in scenario.config.items())
    yield f"input  runs on brokers from {scenario.since or 'the first'} to {scenario.until or 'the newest'}{config}"
    for step in scenario.steps:
        yield f"  {as_json(step)}"
        if isinstance(step, Produce) and step.data is not UNSET:
            yield from hex_lines(step.data)


def answer(case: Case) -> Iterator[str]:
    """The right answer."""
    expect = case.expect
    kinds = f" ({' or '.join(expect.kinds)})" if expect.kinds else ""
    yield f"right  {expect.verdict}{kinds}, compared: {expect.compare}"
    if expect.why:
        yield f"why  {expect.why}"
    for batch in expect.batches:
        yield f"  {as_json(to_wire(batch))}"
    for step in expect.answers:
        yield f"  {as_json(step)}"
        yield from hex_lines(step.data)
    if expect.data is not None:
        yield f"bytes  {len(expect.data)}"
        yield from hex_lines(expect.data)


def evidence_of(case: Case) -> Iterator[tuple[str, Any]]:
    """Recorded answers by name, releases one by one."""
    for name, given in case.evidence.items():
        if name == "reference":
            yield "the reference", given
        else:
            yield from ((f"{name} {release}", one) for release, one in given.items())


def hex_lines(data: bytes) -> Iterator[str]:
    """Offset and hex, sixteen bytes a line."""
    for at in range(0, min(len(data), MOST_BYTES), BYTES_A_LINE):
        yield f"  {at:04x}  {data[at : at + BYTES_A_LINE].hex(' ')}"
    if len(data) > MOST_BYTES:
        yield f"  …  {len(data) - MOST_BYTES} more bytes (--raw has them)"


def as_json(value: Any) -> str:
    """*value* on one line of JSON."""
    return msgspec.json.encode(value).decode()


def raw_bytes(case: Case) -> bytes:
    """The bytes to decode, or to produce; of an encode case those that are right, if there are any."""
    if isinstance(case.input, Scenario):
        return b"".join(step_payload(step) for step in case.input.produces() if not step.is_null())
    given = input_of(case)
    return given if isinstance(given, bytes) else case.expect.data or b""
