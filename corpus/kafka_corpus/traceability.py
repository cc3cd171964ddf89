"""Traces: sentences of the seeds, rules, errata and cases, tied both ways with reference code and recorded answers.

`kafka_records/rules/seed_NNN.tsv` has a row for each sentence of a seed, in our own words, with the rules and errata
that state it.  Any line of a seed without a sentence has a reason there.  Everything else is read from its own place:
rules and errata from the catalogue, cases from the vectors, functions from rule ids in the code of `kafka_records`,
answers from the evidence.  `kafka_corpus.trace_check` finds what is not tied.

The page of errata has the text of each seed, the facts, and outcomes on brokers of each release.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from kafka_corpus.case import Case
from kafka_corpus.scenario import release_number
from kafka_corpus.vectors import package_root
from kafka_records.broker import errors
from kafka_records.rules import GROUPS, Erratum, Rule, Seed, all_rules, errata, seeds

RowKind = Literal[
    "normative",  # something that must, should or may be done, or that is so
    "definition",  # a layout, a value, a term
    "outside",  # states something that is no matter of the formats; the reason says what
    "none",  # states nothing; the reason says what it is
    "blank",
]
SENTENCES: Final[tuple[RowKind, ...]] = ("normative", "definition", "outside")
HEAD: Final = "lines\tdigest\tkind\tties or reason\tin our words"
# Ids that are named where there is none.
NEAR: Final = 3
PLACE: Final = re.compile(r"(\d+)(?:\.(\d+)|-(\d+))?")
RULE_IDS: Final = re.compile(rf"\b({'|'.join(GROUPS)})-(\d\d)\b(?: to (?:\1)-(\d\d)\b)?(?<!CRC-32)")
SEED_LINES: Final = re.compile(r"seed (\d{3})(?::(\d{1,9})(?:-(\d{1,9}))?)?", re.IGNORECASE)


class BadRowError(ValueError):
    """A table of sentences or exceptions that cannot be read, with the file and line."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row of the table of a seed.

    Attributes:
        seed: the number of the document, as 002.
        place: a line (97), a sentence of it (224.2), lines (66-68), or several of them for blank lines.
        digest: the first 12 digits of the SHA-256 of the sentence, its white space made single; `-` if it is none.
        kind: see `RowKind`.
        ties: ids of rules and errata.
        reason: why there are no ties.
        text: the sentence in our own words.
    """

    seed: str
    place: str
    digest: str
    kind: RowKind
    ties: tuple[str, ...] = ()
    reason: str = ""
    text: str = ""

    @property
    def source(self) -> str:
        """As in the sources of rules: seed 002:97."""
        return f"seed {self.seed}:{self.place}"

    @property
    def lines(self) -> frozenset[int]:
        """The numbers of its lines."""
        parts = [PLACE.fullmatch(part) for part in self.place.split(",")]
        return frozenset(n for part in parts if part for n in range(int(part[1]), int(part[3] or part[1]) + 1))

    @property
    def is_sentence(self) -> bool:
        """Whether the document states something there."""
        return self.kind in SENTENCES


@dataclass(frozen=True, slots=True, order=True)
class CodePlace:
    """Code of the reference that names a rule: a file, and the function, class or constant in it."""

    path: str
    name: str
    line: int

    @property
    def obeys(self) -> bool:
        """Whether the code does as the rule says: the text of a module is too far away, and `explain` only shows it."""
        return bool(self.name) and "/explain/" not in self.path

    def __str__(self) -> str:
        return f"{self.path}: {self.name}" if self.name else self.path


@dataclass(frozen=True, slots=True)
class Answerers:
    """Recorded answers to a case, or to several: names of clients with versions, and releases of brokers."""

    clients: frozenset[str] = frozenset()
    brokers: frozenset[str] = frozenset()

    def __or__(self, other: Answerers) -> Answerers:
        return Answerers(self.clients | other.clients, self.brokers | other.brokers)

    def __bool__(self) -> bool:
        return bool(self.clients or self.brokers)

    def __str__(self) -> str:
        """As `brokers 0.11.0.3 to 4.4.0 (12); java 4.4.0`."""
        said = []
        if releases := sorted_releases(self.brokers):
            span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]} ({len(releases)})"
            said.append(f"brokers {span}")
        return "; ".join([*said, *sorted(self.clients)])


class TracedCase(msgspec.Struct, frozen=True):
    """As much of a line of a vector file as a trace needs; the rest is not read."""

    id: str
    title: str
    rules: tuple[str, ...]
    refs: tuple[str, ...] = ()
    retired: str = ""


@dataclass(frozen=True)
class Trace:
    """Everything that is tied together.

    Attributes:
        seeds: the documents.
        rows: the table of each document, by its number.
        rules: the catalogue.
        errata: the points on which documents disagree.
        cases: the corpus, or as much of it as is needed.
        places: code of the reference by rule id; ids that are in no catalogue, too.
        cited: lines of seeds that the code names, with the place.
        answers: recorded answers by case id.
        without_case: reasons why a rule has no case, by rule id.
        without_code: reasons why a rule has no code in the reference.
    """

    seeds: tuple[Seed, ...]
    rows: Mapping[str, tuple[TraceRow, ...]]
    rules: tuple[Rule, ...]
    errata: tuple[Erratum, ...]
    cases: Sequence[TracedCase]
    places: Mapping[str, tuple[CodePlace, ...]]
    cited: tuple[tuple[str, CodePlace], ...] = ()
    answers: Mapping[str, Answerers] = field(default_factory=dict)
    without_case: Mapping[str, str] = field(default_factory=dict)
    without_code: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def sentences(self) -> tuple[TraceRow, ...]:
        """All rows that are sentences, document by document."""
        return tuple(row for seed in self.seeds for row in self.rows.get(seed.number, ()) if row.is_sentence)

    @cached_property
    def sentences_of(self) -> Mapping[str, list[TraceRow]]:
        """The sentences that state a rule, or that an erratum corrects, by id."""
        found: dict[str, list[TraceRow]] = defaultdict(list)
        for row in self.sentences:
            for id_ in row.ties:
                found[id_].append(row)
        return found

    @cached_property
    def cases_of(self) -> Mapping[str, list[TracedCase]]:
        """The cases that cite a rule or an erratum, by id."""
        found: dict[str, list[TracedCase]] = defaultdict(list)
        for case in self.cases:
            for id_ in (*case.rules, *case.refs):
                found[id_].append(case)
        return found

    @cached_property
    def errata_of(self) -> Mapping[str, list[Erratum]]:
        """The errata whose verdict a rule states, by its id."""
        found: dict[str, list[Erratum]] = defaultdict(list)
        for erratum in self.errata:
            for id_ in erratum.rules:
                found[id_].append(erratum)
        return found

    def answers_to(self, cases: Iterable[TracedCase]) -> Answerers:
        """Everyone that has a recorded answer to one of *cases*."""
        found = Answerers()
        for case in cases:
            found |= self.answers.get(case.id, Answerers())
        return found

    def rows_at(self, source: str) -> list[TraceRow] | None:
        """The sentences at *source*, as `seed 002:94-109`; None if that is no line of a seed."""
        match = SEED_LINES.fullmatch(source)
        if match is None or match[1] not in self.rows:
            return None
        rows = [row for row in self.rows[match[1]] if row.is_sentence]
        if match[2] is None:
            return rows
        low, high = int(match[2]), int(match[3] or match[2])
        length = next((seed.lines for seed in self.seeds if seed.number == match[1]), 0)
        if not 1 <= low <= high <= length:
            return None
        return [row for row in rows if not row.lines.isdisjoint(range(low, high + 1))]


# ---- reading ----


def load_trace() -> Trace:
    """The trace of the installed packages.

    Raises:
        BadRowError: a table cannot be read.
    """
    places, cited = code_places(files("kafka_records"))
    exceptions = read_exceptions(_rules_file("exceptions.toml"))
    return Trace(
        seeds=seeds(),
        rows={seed.number: read_rows(seed.number, _rules_file(f"seed_{seed.number}.tsv")) for seed in seeds()},
        rules=all_rules(),
        errata=errata(),
        cases=traced_cases(package_root()),
        places=places,
        cited=cited,
        answers=recorded_answers(package_root()),
        without_case=exceptions["without_case"],
        without_code=exceptions["without_code"],
    )


def _rules_file(name: str) -> str:
    return files("kafka_records.rules").joinpath(name).read_text(encoding="utf-8")


def read_rows(seed: str, text: str) -> tuple[TraceRow, ...]:
    """The table of a seed."""
    head, *lines = text.split("\n")
    if head != HEAD or lines[-1:] != [""]:
        raise BadRowError(f"seed_{seed}.tsv: line 1: the head is {head!r}, or the last line has no end")
    return tuple(_row(seed, number, line) for number, line in enumerate(lines[:-1], 2))


def _row(seed: str, number: int, line: str) -> TraceRow:
    cells = line.split("\t")
    where = f"seed_{seed}.tsv: line {number}"
    if len(cells) != HEAD.count("\t") + 1:
        raise BadRowError(f"{where}: {len(cells)} cells, there are {HEAD.count(chr(9)) + 1} in the head")
    place, digest, kind, ties, text = cells
    if kind not in get_args(RowKind):
        raise BadRowError(f"{where}: kind is {kind!r}, not one of {', '.join(get_args(RowKind))}")
    if not all(PLACE.fullmatch(part) for part in place.split(",")):
        raise BadRowError(f"{where}: {place!r} is no line, sentence or range of lines")
    sentence = kind in SENTENCES
    if not re.fullmatch("[0-9a-f]{12}" if sentence else "-", digest):
        raise BadRowError(f"{where}: the digest is {digest!r}")
    if sentence != bool(text):
        raise BadRowError(f"{where}: a sentence has a text in our own words, and nothing else has one")
    tied = tuple(ties.split()) if kind in ("normative", "definition") else ()
    return TraceRow(seed, place, digest, kind, tied, "" if tied else ties, text)  # type: ignore[arg-type]


def read_exceptions(text: str) -> Mapping[str, Mapping[str, str]]:
    """The reasons by table and rule id."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRowError(f"exceptions.toml: {error}") from error
    if set(found) != {"without_case", "without_code"}:
        raise BadRowError(f"exceptions.toml: tables are {', '.join(found)}, not without_case and without_code")
    return found


def code_places(package: Traversable) -> tuple[dict[str, tuple[CodePlace, ...]], tuple[tuple[str, CodePlace], ...]]:
    """Code that names a rule, by rule id, and lines of seeds that code names."""
    places: dict[str, dict[tuple[str, str], CodePlace]] = defaultdict(dict)
    cited: list[tuple[str, CodePlace]] = []
    for path, text in _modules(package, package.name):
        if not RULE_IDS.search(text) and not SEED_LINES.search(text):
            continue
        names = _names_by_line(text)
        for number, line in enumerate(text.splitlines(), 1):
            place = CodePlace(path, names.get(number, ""), number)
            for id_ in ids_in(line):
                places[id_].setdefault((path, place.name), place)
            cited += [(match[0].lower(), place) for match in SEED_LINES.finditer(line) if match[2]]
    return {id_: tuple(found.values()) for id_, found in sorted(places.items())}, tuple(cited)


def _modules(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    """Path and text of each module, in order; the catalogue itself aside."""
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        below = f"{path}/{each.name}"
        if each.is_dir() and each.name != "rules":
            yield from _modules(each, below)
        elif each.name.endswith(".py"):
            yield below, each.read_text(encoding="utf-8")


def ids_in(text: str) -> Iterator[str]:
    """Rule ids in *text*; `LEG-04 to LEG-07` are four."""
    for group, first, last in RULE_IDS.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{group}-{number:02}"


def _names_by_line(text: str) -> dict[int, str]:
    """The innermost function or class of each line, or the constant; comments belong to what is below them."""
    lines = text.splitlines()
    found: dict[int, str] = {}
    for name, first, last in _spans(ast.parse(text).body, ""):
        start = first
        while start > 1 and lines[start - 2].lstrip().startswith("#"):
            start -= 1
        found |= dict.fromkeys(range(start, last + 1), name)
    return found


def _spans(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of definitions, outer ones first."""
    for node in body:
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield f"{prefix}{node.name}", first, last
            yield from _spans(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not prefix:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield ", ".join(ast.unparse(target) for target in targets), node.lineno, last


class _Client(msgspec.Struct):
    name: str
    versions: list[str]


class _Brokers(msgspec.Struct):
    releases: list[str]
    cannot: str = ""


class _Answered(msgspec.Struct):
    """A line of evidence without the answers themselves, which takes a tenth of the time."""

    id: str
    clients: list[_Client] = []
    brokers: list[_Brokers] = []


def traced_cases(root: Path) -> tuple[TracedCase, ...]:
    """The cases of the vectors below *root*, sorted by id."""
    decoder = msgspec.json.Decoder(TracedCase)
    paths = sorted((root / "vectors").glob("*.ndjson"))
    found = [case for path in paths for case in decoder.decode_lines(path.read_bytes()) if not case.retired]
    return tuple(sorted(found, key=lambda case: case.id))


def recorded_answers(root: Path) -> dict[str, Answerers]:
    """Everyone that answered a case, by case id."""
    decoder = msgspec.json.Decoder(_Answered)
    lines = [
        line
        for path in sorted((root / "evidence").glob("*.ndjson"))
        for line in decoder.decode_lines(path.read_bytes())
    ]
    return {line.id: _answerers(line) for line in lines}


def _answerers(line: _Answered) -> Answerers:
    clients = {f"{each.name} {version}" for each in line.clients for version in each.versions}
    brokers = {release for each in line.brokers if not each.cannot for release in each.releases}
    return Answerers(frozenset(clients), frozenset(brokers))


# ---- views ----


def trace_counts(trace: Trace) -> dict[str, int]:
    """How many sentences, rules, errata and cases there are."""
    return {
        "sentences": len(trace.sentences),
        "rules": len(trace.rules),
        "errata": len(trace.errata),
        "cases": len(trace.cases),
    }


def counts_line(trace: Trace) -> str:
    """The counts in words."""
    return ", ".join(f"{number:,} {name}" for name, number in trace_counts(trace).items())


def trace_summary(trace: Trace) -> Iterator[str]:
    """Each document with its sentences by kind, then the counts of everything."""
    for seed in trace.seeds:
        summary = document_summary(trace, seed)
        kinds = ", ".join(f"{number} {kind}" for kind, number in summary["sentences"].items())
        yield f"seed {seed.number}  {kinds}  {seed.title}"
    coded = sum(any(place.obeys for place in trace.places.get(rule.id, ())) for rule in trace.rules)
    tested = sum(bool(trace.cases_of[rule.id]) for rule in trace.rules)
    stated = sum(bool(trace.sentences_of[rule.id]) for rule in trace.rules)
    yield f"rules  {stated} stated by a sentence, {coded} in the reference's code, {tested} tested by cases"
    yield counts_line(trace)


def trace_document(trace: Trace) -> dict[str, Any]:
    """Every sentence, rule and erratum with its ties, as plain JSON."""
    return {
        "documents": [document_summary(trace, seed) for seed in trace.seeds],
        "sentences": [sentence_document(row) for row in trace.sentences],
        "rules": [rule_document(trace, rule) for rule in trace.rules],
        "errata": [erratum_document(trace, erratum) for erratum in trace.errata],
        "cases": len(trace.cases),
    }


def document_summary(trace: Trace, seed: Seed) -> dict[str, Any]:
    """A document and how many sentences of each kind it has."""
    rows = trace.rows.get(seed.number, ())
    counts = {kind: sum(row.kind == kind for row in rows) for kind in SENTENCES}
    return {"number": seed.number, "title": seed.title, "lines": seed.lines, "sentences": counts}


def sentence_document(row: TraceRow) -> dict[str, Any]:
    """A sentence in a line's worth of fields."""
    made: dict[str, Any] = {"source": row.source, "digest": row.digest, "kind": row.kind, "text": row.text}
    return made | ({"ties": list(row.ties)} if row.ties else {"reason": row.reason})


def rule_document(trace: Trace, rule: Rule) -> dict[str, Any]:
    """A rule with everything that it is tied to."""
    cases = trace.cases_of[rule.id]
    answers = trace.answers_to(cases)
    made = {
        "id": rule.id,
        "statement": rule.statement,
        "sentences": [row.source for row in trace.sentences_of[rule.id]],
        "sources": [source for source in rule.sources if not source.startswith("seed ")],
        "errata": [erratum.id for erratum in trace.errata_of[rule.id]],
        "functions": [str(place) for place in trace.places.get(rule.id, ())],
        "cases": [case.id for case in cases],
        "evidence": {"clients": sorted(answers.clients), "brokers": sorted_releases(answers.brokers)},
    }
    reasons = {"without_case": trace.without_case.get(rule.id), "without_code": trace.without_code.get(rule.id)}
    return made | {name: reason for name, reason in reasons.items() if reason}


def erratum_document(trace: Trace, erratum: Erratum) -> dict[str, Any]:
    """An erratum with everything that it is tied to."""
    cases = trace.cases_of[erratum.id]
    answers = trace.answers_to(cases)
    return {
        "id": erratum.id,
        "topic": erratum.topic,
        "verdict": erratum.verdict,
        "sentences": [row.source for row in trace.sentences_of[erratum.id]],
        "sources": [saying.source for saying in erratum.says if not saying.source.startswith("seed ")],
        "rules": list(erratum.rules),
        "cases": [case.id for case in cases],
        "evidence": {"clients": sorted(answers.clients), "brokers": sorted_releases(answers.brokers)},
    }


def case_document(trace: Trace, case: TracedCase) -> dict[str, Any]:
    """A case with the sentences and the code of its rules."""
    rows = [row for id_ in (*case.rules, *case.refs) for row in trace.sentences_of[id_]]
    answers = trace.answers.get(case.id, Answerers())
    return {
        "id": case.id,
        "title": case.title,
        "rules": list(case.rules),
        "errata": [ref for ref in case.refs if any(ref == erratum.id for erratum in trace.errata)],
        "sentences": list(dict.fromkeys(row.source for row in rows)),
        "functions": list(dict.fromkeys(str(place) for id_ in case.rules for place in trace.places.get(id_, ()))),
        "evidence": {"clients": sorted(answers.clients), "brokers": sorted_releases(answers.brokers)},
    }


def find_traced(trace: Trace, id_: str) -> dict[str, Any] | None:
    """The document of a rule, an erratum, a case, or of the lines of a seed; None if there is no such id."""
    for rule in trace.rules:
        if rule.id == id_.upper():
            return rule_document(trace, rule)
    for erratum in trace.errata:
        if erratum.id == id_.upper():
            return erratum_document(trace, erratum)
    source = id_ if id_.startswith("seed ") else f"seed {id_}"
    if rows := trace.rows_at(re.sub(r"\.\d+$", "", source)):
        exact = [row for row in rows if row.source == source] or rows
        return {"id": source, "sentences": [sentence_document(row) for row in exact]}
    return next((case_document(trace, case) for case in trace.cases if case.id == id_), None)


def near_traced(trace: Trace, id_: str) -> list[str]:
    """Ids of rules, errata and cases that look like *id_*, at most three; first the cases of a function."""
    of_function = [case.id for case in trace.cases if case.id.partition("[")[0] == id_][:NEAR]
    rules = [*(rule.id for rule in trace.rules), *(erratum.id for erratum in trace.errata)]
    return (
        of_function
        or get_close_matches(id_.upper(), rules, NEAR)
        or get_close_matches(id_, [case.id for case in trace.cases], NEAR)
    )


def traced_lines(document: Mapping[str, Any], most: int = 12) -> Iterator[str]:
    """A document of `find_traced` as lines: a name, two spaces, a value; at most *most* values of a name."""
    for name, value in document.items():
        if name == "evidence":
            answers = Answerers(frozenset(value["clients"]), frozenset(value["brokers"]))
            yield f"{name}  {answers or 'no answer recorded'}"
        elif isinstance(value, list):
            for each in value[:most]:
                yield f"{name}  {_sentence_line(each) if isinstance(each, dict) else each}"
            if len(value) > most:
                yield f"{name}  and {len(value) - most} more"
        else:
            yield f"{name}  {value}"


def _sentence_line(sentence: Mapping[str, Any]) -> str:
    tied = " ".join(sentence["ties"]) if "ties" in sentence else f"outside: {sentence['reason']}"
    return f"{sentence['source']}  {sentence['kind']}  {sentence['text']}  ({tied})"


# Most cases that are listed of a group that all brokers answer alike.
MOST_CASES: Final = 6
INTRODUCTION: Final = """\
# Errata: the seeds against one another, and against brokers

The formats were described in five documents, the seeds, which contradict one another on {count} points. For each point
this page has what each of them says, what holds, and the cases that show it, with what real brokers answered to them.
It is written by `kafkaproof corpus errata` from the rule catalogue and the recorded answers of brokers.

{seeds}
"""
CODES: Final = {
    value: name for name, value in vars(errors).items() if name.isupper() and isinstance(value, int) and value
}


def errata_page(cases: Sequence[Case]) -> str:
    """The page, in Markdown; *cases* have their evidence."""
    listed = "\n".join(f"- seed {seed.number}: {seed.title}" for seed in seeds())
    parts = [INTRODUCTION.format(count=len(errata()), seeds=listed)]
    parts += [_section(erratum, showing(erratum, cases)) for erratum in errata()]
    return "\n".join(parts)


def showing(erratum: Erratum, cases: Iterable[Case]) -> list[Case]:
    """The cases that show which text is right: those that refer to it."""
    return [case for case in cases if erratum.id in case.refs]


def unshown(cases: Sequence[Case]) -> list[str]:
    """The errata without a case."""
    return [erratum.id for erratum in errata() if not showing(erratum, cases)]


def _section(erratum: Erratum, cases: Sequence[Case]) -> str:
    lines = [f"## {erratum.id}: {erratum.topic}", "", "| source | says |", "|---|---|"]
    lines += [f"| {saying.source} | {_cell(saying.text)} |" for saying in erratum.says]
    rules = ", ".join(f"`{rule}`" for rule in erratum.rules)
    lines += ["", f"**What holds:** {erratum.verdict} ({rules})", "", "| case | tests | brokers |", "|---|---|---|"]
    lines += [_case_row(case) for case in cases[:MOST_CASES]]
    if len(cases) > MOST_CASES:
        lines.append(f"| and {len(cases) - MOST_CASES} more like these | | |")
    return "\n".join([*lines, ""])


def _case_row(case: Case) -> str:
    return f"| `{_cell(case.id)}` | {_cell(case.title)} | {'; '.join(outcomes(case)) or 'no answer recorded'} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def outcomes(case: Case) -> Iterator[str]:
    """Outcomes on brokers, as `0.11.0.3 to 4.4.0: INVALID_RECORD`, releases with the same outcome together."""
    answers: Mapping[str, Any] = case.evidence.get("brokers", {})
    said = [(release, _outcome(case, msgspec.to_builtins(answers[release]))) for release in sorted_releases(answers)]
    for outcome, group in groupby(said, key=lambda pair: pair[1]):
        releases = [release for release, _ in group]
        span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
        yield f"{span}: {outcome}"


def sorted_releases(names: Iterable[str]) -> list[str]:
    """Release names, oldest first."""
    return sorted(names, key=release_number)


def _outcome(case: Case, answer: Mapping[str, Any]) -> str:
    """The outcome of the last step."""
    expected = answer.get("as_expected", False)
    last = msgspec.to_builtins(case.expect.answers[-1]) if expected else answer["steps"][-1]
    if last.get("ended"):
        return "the broker ended"
    if last.get("closed"):
        return "connection closed"
    code = last.get("error_code", 0)
    if code:
        return CODES.get(code, f"error {code}")
    return "taken as the case says" if expected else "taken"
