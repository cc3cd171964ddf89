"""A dossier as Markdown: an issue that could be sent to the maintainers as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from kafka_conformance.dossiers.causes import CauseGroup, steady
from kafka_conformance.dossiers.reproduce import reproducer
from kafka_conformance.judge import reach
from kafka_conformance.judge.verdict import OUTCOMES
from kafka_conformance.reports.collection import cases_by_id
from kafka_conformance.reports.details import answer_text
from kafka_conformance.reports.explain import explanation_lines
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vector_format import input_of
from kafka_corpus.wire import to_wire
from kafka_records import Batch, encode, explain
from kafka_records.rules import rule

WIDTH: Final = 118
MOST_BYTES: Final = 4096  # of an input that is shown; `kafkaproof explain --case` has all of it
MOST_EXPLAINED: Final = 64 * 1024
MOST_ROWS: Final = 100
MOST_CASES: Final = 30

SEVERITY: Final = {
    "wrong_data": "other data than the bytes hold, without an error",
    "crash": "the process ends",
    "hang": "no answer within the time limit",
    "memory": "more memory than the limit",
    "accepts_invalid": "what must be refused is accepted",
    "rejects_valid": "what must be accepted is refused",
    "wrong_error": "refused for another reason",
    "lossy": "less than the bytes hold",
}
_WHO: Final = {
    "producers": "**any producer can store this**",
    "brokers": "**brokers write this themselves** (LogAppendTime, transaction markers, cleaned or converted logs)",
    "hostile": "**only a hostile broker**, or damage after it: no release stores it so from a producer",
    "writers": "**every application that writes with this library**",
    "unknown": "not measured",
}
# Only what is said loudly.
_BRIEFLY: Final = {who: "**".join(text.split("**")[:2]) + "**" * ("**" in text) for who, text in _WHO.items()}


def dossier_page(group: CauseGroup, state: str, *, whole: bool) -> str:
    """The Markdown page of *group*; without *whole*, only what may be published before the maintainers know."""
    parts = _whole(group) if whole else _withheld(group)
    return "\n".join([*_head(group, state), *parts]).rstrip() + "\n"


def _head(group: CauseGroup, state: str) -> Iterator[str]:
    testee = group.testee
    counts = Counter(line.outcome for line in group.lines)
    severities = ", ".join(f"{counts[each]} × `{each}` ({SEVERITY[each]})" for each in OUTCOMES if counts[each])
    yield f"# {testee.name}: {plain_text(group.cause.title)}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| Library | {plain_text(testee.name)} {plain_text(testee.version)} ({plain_text(testee.language)}) |"
    yield f"| Severity | {severities} |"
    yield f"| Smallest case | `{group.case.id}` |"
    yield f"| Reach | {_summary(group)} |"
    if group.sensitive:
        yield f"| Disclosure | {state} |"
    yield f"| Dossier | `{group.id}` |"
    yield ""


def _withheld(group: CauseGroup) -> Iterator[str]:
    yield "Findings of this class stop a consumer, so they are reported to the maintainers first"
    yield "([SECURITY.md](../../SECURITY.md)). Until then there is this summary. Those who need the rest make it:"
    yield ""
    yield "```sh"
    yield f"kafkaproof certify {group.testee.name} --only '{group.case.id}' --report found"
    yield f"kafkaproof dossier found --full --out private   # {group.id}"
    yield "```"


def _whole(group: CauseGroup) -> Iterator[str]:
    yield plain_text(group.cause.about)
    yield ""
    yield from _rules(group)
    yield from _bytes(group.case)
    yield from _answers(group)
    yield from _program(group)
    yield from _kafka(group)
    yield from _others(group)


def _rules(group: CauseGroup) -> Iterator[str]:
    yield "## Rules"
    yield ""
    counted = Counter(line.rules[0] for line in group.lines if line.rules)
    first = list(group.case.rules[:1])
    for id_ in [
        *first,
        *sorted((other for other in counted if other not in first), key=lambda one: (-counted[one], one)),
    ][:6]:
        known = rule(id_)
        sources = ", ".join(known.sources)
        yield (
            f"- **{id_}** {plain_text(known.statement)} {plain_text(known.outcome)}".rstrip()
            + f" ({plain_text(sources)})"
        )
    yield ""


def _bytes(case: Case) -> Iterator[str]:
    yield "## The smallest case"
    yield ""
    yield f"`{case.id}`: {plain_text(case.title)}"
    yield ""
    given = input_of(case)
    if isinstance(given, Batch):
        yield "The batch to write:"
        yield ""
        yield from _fenced(_batch(given))
        right = _written(case, given)
        if right is not None:
            yield "As Kafka writes it:"
            yield ""
            yield from _fenced(_explained(right))
        return
    if isinstance(case.input, Recipe):
        arguments = ", ".join(f"{name}={value!r}" for name, value in case.input.args.items())
        yield f"{len(given):,} bytes, made by `{case.input.name}({arguments})` of `kafka_corpus.recipes`; their start:"
    elif len(given) > MOST_BYTES:
        yield f"{len(given):,} bytes; their start:"
    else:
        yield f"{len(given):,} bytes:"
        yield ""
        yield from _fenced(given.hex()[at : at + 96] for at in range(0, 2 * len(given), 96))
    yield ""
    yield from _fenced(_explained(given[:MOST_EXPLAINED]))


def _written(case: Case, batch: Batch) -> bytes | None:
    if case.expect.data is not None:
        return case.expect.data
    try:
        return encode(batch)
    except ValueError:  # that it cannot be written is the case
        return None


def _batch(batch: Batch) -> Iterator[str]:
    wire = to_wire(batch)
    fields = {name: getattr(wire, name) for name in wire.__struct_fields__ if name != "records"}
    yield ", ".join(f"{name} {value}" for name, value in fields.items())
    for record in batch.records[:MOST_CASES]:
        values = f"timestamp {record.timestamp}, key {_data(record.key)}, value {_data(record.value)}"
        headers = ", ".join(f"{_data(header.key)}: {_data(header.value)}" for header in record.headers)
        yield f"  offset {record.offset}, {values}" + (f", headers {headers}" if headers else "")


def _data(value: bytes | None) -> str:
    if value is None:
        return "null"
    short = value[:40]
    text = f'"{short.decode()}"' if short.isascii() and short.decode().isprintable() else f"0x{short.hex()}"
    return text if len(value) <= len(short) else f"{text}… ({len(value):,} bytes)"


def _explained(data: bytes) -> Iterator[str]:
    rows = [line.plain.rstrip() for line in explanation_lines(explain(data), WIDTH)]
    rows = rows[1:] if not rows[0] else rows
    yield from rows[:MOST_ROWS]
    if len(rows) > MOST_ROWS:
        yield f"… {len(rows) - MOST_ROWS:,} more lines (`kafkaproof explain --case` has them)"


def _fenced(rows: Iterable[str], language: str = "text") -> Iterator[str]:
    yield from (f"```{language}", *rows, "```", "")


def _answers(group: CauseGroup) -> Iterator[str]:
    case, line = group.case, group.lines[0]
    expect = case.expect
    yield "## Expected and actual"
    yield ""
    kinds = f", for a reason like {' or '.join(expect.kinds)}" if expect.kinds else ""
    if expect.verdict == "invalid":
        yield f"Expected: an error{kinds}."
    elif case.op == "decode":
        yield f"Expected: {'these records' if expect.verdict == 'valid' else 'these records, or an error'}:"
        yield ""
        yield from _fenced(row for batch in expect.batches[:5] for row in _batch(batch))
    else:
        yield "Expected: the bytes above (compressed ones may differ, what they hold may not)."
    if case.aborted is not None:
        listed = ", ".join(f"producer {producer} from offset {first}" for producer, first in case.aborted) or "none"
        seen = ", ".join(map(str, expect.committed)) or "none"
        yield ""
        offsets = f"Under read_committed an application sees these offsets: {seen}."
        yield f"The response names as aborted: {listed}. {offsets}"
    if expect.why:
        yield ""
        yield plain_text(expect.why)
    yield ""
    yield f"Actual: `{line.outcome}`: {observation_text(line)}"
    yield ""


def observation_text(line: ResultLine) -> str:
    """The testee's behaviour as Markdown code, escaped."""
    text = printable(steady(line.why), 400).replace("`", "'")
    return f"`{text}`"


def _program(group: CauseGroup) -> Iterator[str]:
    yield "## Reproducer"
    yield ""
    made = reproducer(group)
    if made is None:
        yield f"`kafkaproof certify {group.testee.name} --only '{group.case.id}'` shows it again."
        yield ""
        return
    names = " and ".join(f"`{name}`" for name in made.files)
    testee = f"{plain_text(group.testee.name)} {plain_text(group.testee.version)}"
    yield f"{made.language}; {testee}. In an empty folder with {names}:"
    yield ""
    yield from _fenced([*made.setup, made.run], "sh")
    if group.outcome == "memory" and group.testee.memory:
        yield f"The suite gave it {group.testee.memory >> 20:,} MiB; `/usr/bin/time -v` shows how much it takes here."
        yield ""
    for name, text in made.files.items():
        yield f"`{name}`:"
        yield ""
        yield from _fenced(text.rstrip().split("\n"), _LANGUAGES.get(name.rpartition(".")[2], ""))


_LANGUAGES: Final = {
    "go": "go", "rs": "rust", "py": "python", "js": "js", "mjs": "js", "java": "java", "toml": "toml", "xml": "xml",
}  # fmt: skip


def _kafka(group: CauseGroup) -> Iterator[str]:
    case = group.case
    yield "## Apache Kafka's behaviour"
    yield ""
    for release, answer in _java(case).items():
        yield f"- Java client {release}: {plain_text(answer_text(answer))}"
    found = reach.reach_of(case)
    predicted = " (predicted by the specification, not measured)" if found.predicted else ""
    if found.answers:
        yield f"- Brokers that are sent these bytes by a producer{predicted}:"
        yield ""
        yield "| releases | answer |"
        yield "|---|---|"
        for text, releases in _runs(found):
            yield f"| {releases} | {plain_text(text)} |"
    yield ""
    yield f"Reach: {_WHO[reach.input_origin(case, found)]}."
    wider = _wider(group, found)
    if wider:
        yield wider
    yield ""


def _java(case: Case) -> Mapping[str, Any]:
    given = case.evidence.get("java", {})
    return given if isinstance(given, dict) else {}


def _runs(found: reach.BrokerReach) -> list[tuple[str, str]]:
    """Answers with their releases, neighbours with one answer together."""
    runs = groupby(found.answers.items(), key=lambda pair: str(pair[1]))
    return [(text, release_span([release for release, _ in run])) for text, run in runs]


def release_span(releases: Sequence[str]) -> str:
    """Releases in a row, in short."""
    return ", ".join(releases) if len(releases) < 3 else f"{releases[0]} to {releases[-1]} ({len(releases)} releases)"


def stretches(releases: Sequence[str], among: Iterable[str]) -> str:
    """Some releases *among* others, in short: stretches without a gap."""
    runs = groupby(among, key=lambda release: release in releases)
    return ", ".join(release_span(list(run)) for chosen, run in runs if chosen)


def _summary(group: CauseGroup) -> str:
    found, who = reach.reach_of(group.case), widest(group)
    if who == "some":
        return "**any producer can store some of the cases**, but not the smallest"
    releases = found.stored()
    return f"{_WHO[who]}: {stretches(releases, found.answers)}" if releases else _BRIEFLY[who]


def _wider(group: CauseGroup, found: reach.BrokerReach) -> str:
    """How far the other cases of the group reach."""
    if group.case.op != "decode" or len(group.lines) == 1:
        return ""
    return _count_of(group) if not found.stored() else ""


def _count_of(group: CauseGroup) -> str:
    storable = [(line, stored) for line, stored in stored_of(group) if stored]
    if not storable:
        return f"None of the {len(group.lines)} cases of this cause is stored from a producer."
    line, releases = storable[0]
    among = reach.reach_of(_cases(group)[line.case]).answers
    some = f"Of the {len(group.lines)} cases of this cause {len(storable)}"
    return f"{some} are stored from any producer, `{line.case}` by {stretches(releases, among)}."


def widest(group: CauseGroup) -> str:
    """The origin of the smallest case; `some` if producers can cause other cases, but not this one."""
    who = reach.input_origin(group.case, reach.reach_of(group.case))
    return "some" if who == "hostile" and any(stored for _, stored in stored_of(group)) else who


def stored_of(group: CauseGroup) -> list[tuple[ResultLine, list[str]]]:
    """The group's decode cases, each with the releases that store it."""
    cases = _cases(group)
    return [(line, reach.reach_of(cases[line.case]).stored()) for line in group.lines if line.op == "decode"]


def _cases(group: CauseGroup) -> Mapping[str, Case]:
    return cases_by_id() if len(group.lines) > 1 else {group.case.id: group.case}


def _others(group: CauseGroup) -> Iterator[str]:
    yield f"## The {len(group.lines)} cases of this cause" if len(group.lines) > 1 else "## The case"
    yield ""
    yield "| case | rule | severity | what happened |"
    yield "|---|---|---|---|"
    for line in group.lines[:MOST_CASES]:
        shown = table_cell(observation_text(line)[:160].rstrip("`"))
        yield f"| `{table_cell(line.case)}` | {line.rules[0] if line.rules else ''} | {line.outcome} | {shown}` |"
    if len(group.lines) > MOST_CASES:
        yield ""
        yield f"And {len(group.lines) - MOST_CASES} more: see `findings.json` beside this page."
    yield ""
    yield f"Found by [Kafkaproof](../../README.md): `kafkaproof certify {group.testee.name} --only '{group.case.id}'`"


def table_cell(text: str) -> str:
    """*text* in a cell of a table."""
    return text.replace("|", "\\|")


def plain_text(text: str) -> str:
    """*text* as Markdown that says the same: no markup of its own, one line."""
    shown = printable(text, 2000)
    return "".join(f"\\{char}" if char in "\\`*_<>[]|" else char for char in shown)
