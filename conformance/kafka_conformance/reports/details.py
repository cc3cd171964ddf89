"""All facts about one case: input, expectation, answers, and the bytes explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from kafka_conformance.reports.byte_rows import explained
from kafka_conformance.reports.collection import Collection, CollectionEntry
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Case, Recipe
from kafka_corpus.prediction import step_payload
from kafka_corpus.scenario import Produce, Scenario
from kafka_corpus.wire import to_wire
from kafka_records import Batch, encode

# Of JSON that is shown, characters: a batch with a few records, not a flood.
MOST_TEXT: Final = 4000
MOST_MESSAGE: Final = 400


def detail(collection: Collection, case_id: str) -> dict[str, Any]:
    """The data of a case's page; a case that this corpus does not have has no request."""
    case = collection.cases.get(case_id)
    known = {} if case is None else _of_case(case)
    return {"id": case_id, "said": list(_said(collection, case_id))} | known


def _of_case(case: Case) -> dict[str, Any]:
    expect = case.expect
    return {
        "title": case.title,
        "refs": list(case.refs),
        "since": case.since,
        "question": list(request_details(case)),
        "verdict": expect.verdict,
        "kinds": list(expect.kinds),
        "compare": expect.compare,
        "why": expect.why,
        "expected": list(_expected(case)),
        "evidence": list(recorded_details(case.evidence)),
    }


def request_details(case: Case) -> Iterator[dict[str, Any]]:
    """The request, part by part: text, or bytes with the meaning of each."""
    match case.input:
        case bytes():
            yield explained("The bytes to decode", case.input)
        case Batch():
            yield {"title": "The batch to write", "text": details_json(to_wire(case.input))}
            yield from _written(case, case.input)
        case Recipe(name, args):
            arguments = ", ".join(f"{key}={value!r}" for key, value in args.items())
            yield {"title": "Bytes that are built when they are sent", "text": f"{name}({arguments})"}
        case Scenario():
            yield from _scenario_details(case.input)


def _written(case: Case, batch: Batch) -> Iterator[dict[str, Any]]:
    if case.expect.data is not None:
        yield explained("The bytes that are right", case.expect.data)
        return
    try:
        yield explained("As the specification writes it", encode(batch))
    except ValueError:
        return  # that it cannot be written is the case


def _scenario_details(scenario: Scenario) -> Iterator[dict[str, Any]]:
    config = "".join(f"\n{name}={value}" for name, value in scenario.config.items())
    releases = f"brokers from {scenario.since or 'the first'} to {scenario.until or 'the newest'}"
    yield {"title": "Played to brokers", "text": releases + config}
    for number, step in enumerate(scenario.steps, 1):
        if isinstance(step, Produce) and not step.is_null():
            yield explained(f"Step {number}: this is produced", step_payload(step))
        else:
            yield {"title": f"Step {number}", "text": details_json(step)}


def _expected(case: Case) -> Iterator[str]:
    for batch in case.expect.batches:
        yield details_json(to_wire(batch))
    for answer in case.expect.answers:
        yield details_json(answer)


def details_json(value: Any) -> str:
    """*value* as indented JSON, cut where it becomes too long to be read."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} characters more"


def _said(collection: Collection, case_id: str) -> Iterator[dict[str, Any]]:
    for number, entry in enumerate(collection.entries):
        line = entry.lines.get(case_id)
        if line is not None:
            yield (
                {"testee": number, "outcome": line.outcome, "why": printable(line.why)}
                | _graded(entry, line)
                | _more(entry, line)
            )


def _graded(entry: CollectionEntry, line: ResultLine) -> dict[str, Any]:
    """The grade of a finding, and its cause."""
    finding = entry.report.profiled.by_case.get(line.case)
    return {} if finding is None else finding.document()


def _more(entry: CollectionEntry, line: ResultLine) -> dict[str, Any]:
    change = entry.changed.get(line.case)
    before = None if change is None else change.before
    facts = {
        "field": printable(line.field),
        "also": [printable(name) for name in line.also[:20]],
        "left_out": [printable(name) for name in line.left_out[:20]],
        "answer": observed({name: value for name, value in line.observation.items() if name != "written"}),
        "written": _written_by_testee(line.observation),
        "known": next((printable(each.reason) for each in entry.report.declared if each.covers(line)), ""),
        "before": "" if before is None else f"{before.outcome}: {printable(before.why)}".removesuffix(": "),
        "deaths": line.deaths,
    }
    return {name: value for name, value in facts.items() if value} | {"ms": line.ms}


def _written_by_testee(observation: Mapping[str, Any]) -> dict[str, Any]:
    """The bytes of a batch as the testee wrote it, explained; empty if the line has none."""
    try:
        data = bytes.fromhex(observation.get("written", ""))
    except (TypeError, ValueError):
        return {}
    if not data:
        return {}
    size = observation.get("bytes")
    is_cut = isinstance(size, int) and size > len(data)
    title = f"The first {len(data):,} of {size:,} bytes that it wrote" if is_cut else "The bytes that it wrote"
    return explained(title, data)


def observed(observation: Mapping[str, Any]) -> str:
    """The observation, as `field: value` pairs on one line."""
    return printable("; ".join(_pairs(observation)), MOST_MESSAGE)


def _pairs(observation: Mapping[str, Any]) -> Iterator[str]:
    for name, value in observation.items():
        if isinstance(value, Mapping):
            yield f"{name}: {' · '.join(str(part) for part in value.values())}"
        elif name == "kind":
            yield str(value)
        elif value not in (None, "", []):
            yield f"{name.replace('_', ' ')}: {value}"


def recorded_details(evidence: Mapping[str, Any]) -> Iterator[list[str]]:
    """Recorded answers: who, which releases, what; releases in a row with one answer stand together."""
    for name, given in evidence.items():
        if name == "reference":
            yield ["the specification", "", answer_text(given)]
            continue
        for text, run in groupby(given.items(), key=lambda pair: answer_text(pair[1])):
            yield [name, _range([release for release, _ in run]), text]


def _range(releases: Sequence[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]} ({len(releases)} releases)"


def answer_text(answer: Any) -> str:
    """A recorded answer in words."""
    given: dict[str, Any] = answer if isinstance(answer, dict) else msgspec.to_builtins(answer)
    if "verdict" not in given:
        return "as expected" if given.get("as_expected") else f"otherwise: {_steps(given.get('steps', ()))}"
    if given["verdict"] == "error":
        why = given.get("message") or given.get("path") or ""
        return printable(f"refuses: {given.get('kind', '')} {why}".rstrip(), MOST_MESSAGE)
    if given["verdict"] != "ok":
        return printable(f"{given['verdict']} {given.get('message', '')}".rstrip(), MOST_MESSAGE)
    if "batches" in given:
        return f"answers otherwise: {len(given['batches'])} batches"
    return "answers otherwise" if "data" in given else "answers what is expected"


def _steps(steps: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(_step(step) for step in steps) or "no answer"


def _step(step: Mapping[str, Any]) -> str:
    if step.get("closed"):
        return "connection closed"
    code = step.get("error_code", 0)
    return f"error {code}" if code else f"taken at offset {step.get('base_offset', -1)}"
