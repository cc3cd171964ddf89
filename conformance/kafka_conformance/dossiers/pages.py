"""A page of a dossier as Markdown: an issue that could be sent to the maintainers as it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, groupby, islice
from typing import Any, Final

from kafka_conformance.causes import CauseReply
from kafka_conformance.dossiers.grouping import CauseGroup, RowFinding
from kafka_conformance.dossiers.reproduce import reproducer
from kafka_conformance.judge import reach
from kafka_conformance.judge.grade import Effect, Grade, Reach
from kafka_conformance.reports.details import answer_text
from kafka_conformance.reports.explain import explanation_lines
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Case, Recipe, once_per_case
from kafka_corpus.vector_format import input_of
from kafka_corpus.wire import to_wire
from kafka_records import Batch, encode, explain
from kafka_records.rules import rule

WIDTH: Final = 118
MOST_BYTES: Final = 4096  # of an input that is shown; `kafkaproof explain --case` has all of it
MOST_EXPLAINED: Final = 64 * 1024
MOST_ROWS: Final = 100
CUT: Final = "… and more lines"
CUT_INPUT: Final = f"{CUT} (`kafkaproof explain --case` has them)"
MOST_CASES: Final = 30
# Words from the title to the bytes.
MOST_WORDS: Final = 400
# Characters of a rule's statement that are quoted; `kafkaproof explain RULE` has all of it.
MOST_RULE: Final = 300
MOST_RULES: Final = 3
BYTES_TITLE: Final = "## The smallest case"
REPRODUCER_TITLE: Final = "## Reproducer"

EFFECTS: Final[Mapping[Effect, str]] = {
    "wrong_data": "a record, a written batch, or the position that a consumer continues from differs from Kafka's",
    "lost_data": "records are left out without an error",
    "stuck": "no answer, or no progress",
    "crash": "the process ends",
    "memory": "more memory than Kafka's client takes for the same bytes",
    "accepts_invalid": "data for bytes that Kafka refuses",
    "rejects_valid": "an error for bytes that Kafka accepts",
    "wrong_error": "a refusal with another kind of error, or at another record",
    "equivalent": "no record and no position differs",
}
REACH_TEXTS: Final[Mapping[Reach, str]] = {
    "any_producer": "any producer: a supported broker stores the bytes and serves them",
    "broker_itself": "brokers themselves write such bytes (markers, compaction, conversion, LogAppendTime)",
    "old_logs": "logs that an older release wrote, and that a supported broker still serves",
    "retired": "no supported release serves such bytes",
    "rot": "damage on a disk or on the wire",
    "hostile": "a broken or malicious peer only",
    "as_writer": "every application that writes with this library",
}
GRADES: Final[Mapping[Grade, str]] = {
    "FAIL": "a defect that reaches users of supported releases",
    "HOSTILE": "a broken or malicious peer can stop or deceive the library",
}


def dossier_page(group: CauseGroup, state: str, *, whole: bool) -> str:
    """The Markdown page of *group*; without *whole*, only what may be published before the maintainers know."""
    parts = _whole(group) if whole else _withheld(group)
    reply = () if group.cause.reply is None else reply_lines(group.cause.reply)
    return "\n".join([*_head(group, state, whole=whole), *reply, *parts]).rstrip() + "\n"


def reply_lines(reply: CauseReply) -> Iterator[str]:
    """The reply of the library's maintainers as a quotation, without markup of its own."""
    yield f"> {plain_text(reply.plain)}"
    yield ">"
    link = f", <{reply.link}>" if reply.link else ""
    yield f"> — reply by {plain_text(reply.by)}, {reply.date}{link}"
    yield ""


def _head(group: CauseGroup, state: str, *, whole: bool) -> Iterator[str]:
    cause = group.cause
    yield f"# {group.library}: {plain_text(cause.title)}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    library = f"{plain_text(group.library)} {plain_text(group.row.version)}"
    yield f"| Library | {library} ({plain_text(group.row.language)}) |"
    if [row.name for row in group.rows] != [group.library]:
        yield f"| Rows | {rows_text(group)} |"
    yield f"| Grade | {group.grade}: {GRADES[group.grade]} |"
    yield f"| Effect | `{cause.effect}`: {EFFECTS[cause.effect]} |"
    yield f"| Reach | `{cause.reach}`: {REACH_TEXTS[cause.reach]} |"
    yield f"| Profiles | {', '.join(cause.profiles)} |"
    if whole:
        yield f"| Source | {plain_text(cause.source)}, in {plain_text(cause.version)} |"
        yield f"| Upstream | {plain_text(cause.upstream) or 'no issue is known'} |"
        if cause.first_bad or cause.last_bad:
            yield f"| Releases | {_releases(cause.first_bad, cause.last_bad)} |"
    if group.sensitive:
        yield f"| Disclosure | {state} |"
    yield f"| Dossier | `{group.id}` |"
    yield ""


def rows_text(group: CauseGroup) -> str:
    """The rows of the matrix that show the cause, each with its number of cases."""
    counts = Counter(each.row.name for each in group.findings)
    return ", ".join(f"{name} ({counts[name]:,} cases)" for name in sorted(counts))


def _releases(first: str, last: str) -> str:
    since = f"since {plain_text(first)}" if first else ""
    return " ".join(filter(None, (since, f"up to {plain_text(last)}" if last else "")))


def _withheld(group: CauseGroup) -> Iterator[str]:
    yield f"Smallest case: `{group.case.id}`"
    yield ""
    yield "A cause of this class stops a consumer, so it is reported to the maintainers first"
    yield "([SECURITY.md](../../SECURITY.md)). Until then there is this summary. These commands make the whole page:"
    yield ""
    yield "```sh"
    yield f"kafkaproof certify {group.row.name} --only '{group.case.id}' --report found"
    yield f"kafkaproof dossier found --full --out private   # {group.id}"
    yield "```"


def _whole(group: CauseGroup) -> Iterator[str]:
    yield plain_text(" ".join(group.cause.explanation.split()))
    yield ""
    yield from _rules(group)
    yield from _bytes(group.case)
    yield from _answers(group)
    yield from _program(group)
    yield from _kafka(group.case)
    yield from _cases(group)


def _rules(group: CauseGroup) -> Iterator[str]:
    for id_ in (group.cause.rules or group.case.rules)[:MOST_RULES]:
        known = rule(id_)
        statement = plain_text(cut_text(f"{known.statement} {known.outcome}".strip(), MOST_RULE))
        public = [source for source in known.sources if not source.startswith("seed ")]
        yield f"- **{id_}** {statement} ({plain_text(', '.join(public or known.sources))})"
    yield ""


def cut_text(text: str, most: int) -> str:
    """*text*, cut after a word if it has more than *most* characters."""
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0].rstrip(",;:") + " …"


@once_per_case
def _bytes(case: Case) -> tuple[str, ...]:
    return tuple(_byte_rows(case))


def _byte_rows(case: Case) -> Iterator[str]:
    yield BYTES_TITLE
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
        yield ""
    elif len(given) > MOST_BYTES:
        yield f"{len(given):,} bytes; their start:"
        yield ""
    else:
        yield f"{len(given):,} bytes:"
        yield ""
        yield from _fenced(given.hex()[at : at + 96] for at in range(0, 2 * len(given), 96))
    yield from _fenced(_explained(given[:MOST_EXPLAINED], CUT_INPUT))


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


def _explained(data: bytes, more: str = CUT) -> Iterator[str]:
    lines = (line.plain.rstrip() for line in explanation_lines(explain(data), WIDTH))
    shown = dropwhile(lambda line: not line, lines)
    yield from islice(shown, MOST_ROWS)
    # They are not counted: a batch of many small records has so many that its page took half a minute.
    if next(shown, None) is not None:
        yield more


def _fenced(rows: Iterable[str], language: str = "text") -> Iterator[str]:
    yield from (f"```{language}", *rows, "```", "")


def _answers(group: CauseGroup) -> Iterator[str]:
    case, line = group.case, group.findings[0].finding.line
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
        yield "Expected: the bytes above. Compressed bytes may differ if they hold the same."
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
    yield f"Actual: {observation_text(line)}"
    yield ""
    if written := _written_by_library(line):
        yield "The bytes that the library wrote:"
        yield ""
        yield from _fenced(_explained(written))


def _written_by_library(line: ResultLine) -> bytes:
    """The bytes of the batch that was written, as far as the result holds them."""
    given = line.observation.get("written")
    try:
        return bytes.fromhex(given) if isinstance(given, str) else b""
    except ValueError:
        return b""


_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]+\??")
_ARGUMENTS: Final = re.compile(r"\((?:[^()]*0x…[^()]*)\)")
_FOLDER: Final = re.compile(r"(?<![\w.])/(?:tmp|home|root|var|usr)/[^\s|:)]*/")
_GOROUTINE: Final = re.compile(r"goroutine \d+")


def without_machine_details(text: str) -> str:
    """*text* without addresses, folders of the machine, and numbers of goroutines."""
    text = _ARGUMENTS.sub("(…)", _ADDRESS.sub("0x…", text).replace(" +0x…", ""))
    return _FOLDER.sub("…/", _GOROUTINE.sub("goroutine", text))


def observation_text(line: ResultLine) -> str:
    """The testee's behaviour as Markdown code, escaped."""
    text = printable(without_machine_details(line.why), 400).replace("`", "'")
    return f"`{text}`"


def _program(group: CauseGroup) -> Iterator[str]:
    yield REPRODUCER_TITLE
    yield ""
    made = reproducer(group)
    if made is None:
        yield "No program shows this outside of Kafkaproof: it needs a consumer and its broker. This command shows it:"
        yield ""
        yield from _fenced([f"kafkaproof certify {group.row.name} --only '{group.case.id}'"], "sh")
        return
    names = " and ".join(f"`{name}`" for name in made.files)
    testee = f"{plain_text(group.row.name)} {plain_text(group.row.version)}"
    yield f"{made.language}; {testee}. In an empty folder with {names}:"
    yield ""
    yield from _fenced([*made.setup, made.run], "sh")
    outcome = group.findings[0].finding.line.outcome
    if outcome in ENDS:
        yield f"It prints the line `expected`. {ENDS[outcome]}"
    else:
        yield "It prints the line `expected`, and lines `actual` with what the library does."
    yield ""
    if outcome == "memory" and group.row.memory:
        yield f"The suite's limit was {group.row.memory >> 20:,} MiB; `/usr/bin/time -v` shows what the program takes."
        yield ""
    for name, text in made.files.items():
        yield f"`{name}`:"
        yield ""
        yield from _fenced(text.rstrip().split("\n"), _LANGUAGES.get(name.rpartition(".")[2], ""))


# What a program does instead of the last line `actual`, by outcome.
ENDS: Final[Mapping[str, str]] = {
    "crash": "The process ends before the last line `actual`.",
    "hang": "There is no last line `actual`: the library does not return, or fetches the same offset again.",
    "memory": "The library takes the memory before the last line `actual`.",
}
_LANGUAGES: Final = {
    "go": "go", "rs": "rust", "py": "python", "js": "js", "mjs": "js", "java": "java", "toml": "toml", "xml": "xml",
}  # fmt: skip


def _kafka(case: Case) -> Iterator[str]:
    java, found = _java(case), reach.reach_of(case)
    if not java and not found.answers:
        return
    yield "## Apache Kafka's behaviour"
    yield ""
    for release, answer in java.items():
        yield f"- Java client {release}: {plain_text(answer_text(answer))}"
    predicted = " (predicted by the specification, not measured)" if found.predicted else ""
    if found.answers:
        yield f"- Brokers that are sent these bytes by a producer{predicted}:"
        yield ""
        yield "| releases | answer |"
        yield "|---|---|"
        for text, releases in _runs(found):
            yield f"| {releases} | {plain_text(text)} |"
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


def _cases(group: CauseGroup) -> Iterator[str]:
    by_case: dict[str, list[RowFinding]] = {}
    for each in group.findings:
        by_case.setdefault(each.finding.case.id, []).append(each)
    variants = len({each.row.name for each in group.findings}) > 1
    yield f"## The {len(by_case)} cases of this cause" if len(by_case) > 1 else "## The case"
    yield ""
    yield f"| case | grade | reach |{' rows |' if variants else ''} actual |"
    yield f"|---|---|---|{'---|' if variants else ''}---|"
    for id_, found in list(by_case.items())[:MOST_CASES]:
        graded = found[0].finding.graded
        rows = f" {', '.join(sorted({each.row.name for each in found}))} |" if variants else ""
        shown = table_cell(observation_text(found[0].finding.line)[:160].rstrip("`"))
        yield f"| `{table_cell(id_)}` | {graded.grade} | {graded.reach} |{rows} {shown}` |"
    if len(by_case) > MOST_CASES:
        yield ""
        yield f"And {len(by_case) - MOST_CASES} more: see `findings.json` beside this page."
    yield ""
    yield f"Found by [Kafkaproof](../../README.md): `kafkaproof certify {group.row.name} --only '{group.case.id}'`"


def table_cell(text: str) -> str:
    """*text* in a cell of a table."""
    return text.replace("|", "\\|")


def plain_text(text: str) -> str:
    """*text* as Markdown that says the same: no markup of its own, one line."""
    shown = printable(text, 2000)
    return "".join(f"\\{char}" if char in "\\`*_<>[]|" else char for char in shown)
