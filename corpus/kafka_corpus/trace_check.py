"""Gaps in the traces: what is not tied, or is tied to what does not exist.

Each gap names its kind, the place and what is missing.  `kafkaproof corpus trace --check` prints them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from kafka_corpus.traceability import PLACE, SENTENCES, Trace, TraceRow
from kafka_records.rules import Seed

# A source that any reader can look up: a KIP, an issue, Kafka's documentation, a class or method (or constant), a
# message schema, a setting or a function.
PUBLIC_SOURCE: Final = re.compile(
    r"KIP-\d+|KAFKA-\d+|kafka\.apache\.org/documentation/#[\w.]+"
    r"|[A-Z]\w+(\.[A-Z]\w+)?#\w+|[A-Z]\w+\.(java|scala)(:\d+)?( at [\d.]+)?|[A-Z]\w+\.json"
    r"|[A-Z]\w+\.[A-Z]\w+|(java|org)(\.\w+)+|[a-z]+(\.[a-z]+)+|ZSTD_\w+"
)
# Where a sentence ends: before a capital, or after a Chinese stop that closes no bracket.
SENTENCE_ENDS: Final = re.compile('(?<=[.!?][”"]) (?=[A-Z])|(?<=[.!?]) (?=[A-Z])|(?<=[。；！])(?=[^）)」”])')
ERRATUM_ID: Final = re.compile(r"A\d\d")
DIGITS: Final = 12
# A larger file is no document.
MOST_BYTES: Final = 16 << 20


class TraceGap(NamedTuple):
    """Something that is not tied: the kind of gap, the place, and what is missing."""

    kind: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.what}"


# ---- sentences ----


def row_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Sentences without a tie or a reason, and ties to nothing."""
    known = {rule.id for rule in trace.rules} | {erratum.id for erratum in trace.errata}
    for seed in trace.seeds:
        for row in trace.rows.get(seed.number, ()):
            if row.kind in ("normative", "definition") and not any(id_ in known for id_ in row.ties):
                yield TraceGap("sentence", row.source, "has no rule and no erratum; name one, or say why it is outside")
            if row.kind in ("outside", "none") and not row.reason:
                yield TraceGap("sentence", row.source, f"is {row.kind} without a reason")
            for id_ in row.ties:
                if id_ not in known:
                    yield TraceGap("sentence", row.source, f"names {id_}, which is in no catalogue")


def line_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Lines of a document without a row, and rows beyond its end or out of sequence."""
    for seed in trace.seeds:
        rows = trace.rows.get(seed.number, ())
        covered = {line for row in rows for line in row.lines}
        for line in sorted(set(range(1, seed.lines + 1)) - covered):
            yield TraceGap("line", f"seed {seed.number}:{line}", "is in no row; add its sentences, or a reason")
        for row in rows:
            if row.lines and not 1 <= min(row.lines) <= max(row.lines) <= seed.lines:
                yield TraceGap("line", row.source, f"does not exist: the document has {seed.lines} lines")
        yield from _sequence_gaps(seed.number, rows)


def _sequence_gaps(number: str, rows: Iterable[TraceRow]) -> Iterator[TraceGap]:
    """Sentences of a line that are not 1, 2, 3 and so on."""
    parts: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        match = PLACE.fullmatch(row.place)
        if match and match[2]:
            parts[match[1]].append(int(match[2]))
    for line, found in parts.items():
        if found != list(range(1, len(found) + 1)):
            yield TraceGap("line", f"seed {number}:{line}", f"has the sentences {', '.join(map(str, found))}")


def citation_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Cited lines that do not exist or state nothing, and lines whose sentences do not name what cites them."""
    cited = [(rule.id, source, rule.id) for rule in trace.rules for source in rule.sources]
    cited += [(erratum.id, saying.source, erratum.id) for erratum in trace.errata for saying in erratum.says]
    cited += [(case.id, ref, "") for case in trace.cases for ref in case.refs]
    cited += [(str(place), source, "") for source, place in trace.cited]
    for where, source, id_ in cited:
        if not source.startswith("seed "):
            continue
        rows = trace.rows_at(source)
        if rows is None:
            yield TraceGap("citation", where, f"cites {source}, which does not exist")
        elif not rows:
            yield TraceGap("citation", where, f"cites {source}, where the table has no sentence")
        elif id_ and ":" in source and not any(id_ in row.ties for row in rows):
            yield TraceGap("citation", where, f"cites {source}, and no sentence there names it")


# ---- rules ----


def rule_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Rules without a source, a case, code or evidence."""
    for rule in trace.rules:
        cases = trace.cases_of[rule.id]
        if not trace.sentences_of[rule.id] and not any(map(PUBLIC_SOURCE.fullmatch, rule.sources)):
            yield TraceGap("rule", rule.id, "has no sentence and no other public source")
        if not cases and rule.id not in trace.without_case:
            yield TraceGap("rule", rule.id, "has no case, and exceptions.toml does not say why")
        if not _code(trace, rule.id) and rule.id not in trace.without_code:
            yield TraceGap(
                "rule", rule.id, "is named by no function of the reference, and exceptions.toml says not why"
            )
        answers = trace.answers_to(cases)
        if cases and rule.evidence == "broker" and not answers.brokers:
            yield TraceGap("rule", rule.id, "was seen on brokers, and no case of it has a recorded answer of one")
        if cases and rule.evidence == "client" and not answers:
            yield TraceGap("rule", rule.id, "was seen in the client, and no case of it has a recorded answer")


def _code(trace: Trace, id_: str) -> bool:
    """Whether a function, class or constant names the rule, and not only where bytes are explained."""
    return any(place.obeys for place in trace.places.get(id_, ()))


def exception_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Reasons that are empty, not needed any more, or given for no rule."""
    known = {rule.id for rule in trace.rules}
    has: tuple[tuple[str, Mapping[str, str], Callable[[str], bool]], ...] = (
        ("case", trace.without_case, lambda id_: bool(trace.cases_of[id_])),
        ("code", trace.without_code, lambda id_: _code(trace, id_)),
    )
    for name, reasons, found in has:
        for id_, reason in reasons.items():
            if id_ not in known:
                yield TraceGap("exception", id_, f"is no rule, and has a reason for no {name}")
            elif not reason.strip():
                yield TraceGap("exception", id_, f"has no {name} for an empty reason")
            elif found(id_):
                yield TraceGap("exception", id_, f"has a reason for no {name}, and has {name}; remove the reason")


def code_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Code of the reference that names a rule that is none."""
    known = {rule.id for rule in trace.rules}
    for id_, places in trace.places.items():
        if id_ not in known:
            yield from (
                TraceGap("code", str(place), f"line {place.line} names {id_}, which is no rule") for place in places
            )


# ---- cases and errata ----


def case_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Cases that cite no rule, or a rule or an erratum that is none."""
    rules = {rule.id for rule in trace.rules}
    corrected = {erratum.id for erratum in trace.errata}
    for case in trace.cases:
        if not case.rules:
            yield TraceGap("case", case.id, "cites no rule")
        for id_ in case.rules:
            if id_ not in rules:
                yield TraceGap("case", case.id, f"cites {id_}, which is no rule")
        for ref in case.refs:
            if ERRATUM_ID.fullmatch(ref) and ref not in corrected:
                yield TraceGap("case", case.id, f"refers to {ref}, which is no erratum")


def erratum_gaps(trace: Trace) -> Iterator[TraceGap]:
    """Errata without a sentence, a rule, a case or evidence."""
    rules = {rule.id for rule in trace.rules}
    for erratum in trace.errata:
        cases = trace.cases_of[erratum.id]
        silent = all(":" not in saying.source for saying in erratum.says)  # what no document says has no line
        if not trace.sentences_of[erratum.id] and not silent:
            yield TraceGap("erratum", erratum.id, "is tied to no sentence")
        if not erratum.rules or not set(erratum.rules) <= rules:
            yield TraceGap("erratum", erratum.id, "has no rule, or one that is in no catalogue")
        if not cases:
            yield TraceGap("erratum", erratum.id, "has no case")
        elif not trace.answers_to(cases):
            yield TraceGap("erratum", erratum.id, "has no evidence: no case of it has a recorded answer")


CHECKS: Final[Mapping[str, Callable[[Trace], Iterator[TraceGap]]]] = {
    "sentence": row_gaps,
    "line": line_gaps,
    "citation": citation_gaps,
    "rule": rule_gaps,
    "exception": exception_gaps,
    "code": code_gaps,
    "case": case_gaps,
    "erratum": erratum_gaps,
}


def trace_gaps(trace: Trace, kinds: Iterable[str] = tuple(CHECKS)) -> list[TraceGap]:
    """Every gap of *trace*, or those of some kinds."""
    return [gap for kind in kinds for gap in CHECKS[kind](trace)]


# ---- the documents themselves ----


def sentences_in(line: str) -> list[str]:
    """The sentences of a line of a document, white space made single."""
    return [part.strip() for part in SENTENCE_ENDS.split(" ".join(line.split())) if part.strip()]


def digest_of(sentence: str) -> str:
    """The digest of a sentence, as in the table."""
    return sha256(" ".join(sentence.split()).encode()).hexdigest()[:DIGITS]


def document_gaps(trace: Trace, folder: Path) -> Iterator[TraceGap]:
    """Differences of the table and the documents in *folder*, which are found by their SHA-256 or by number.

    A document is a file of at most `MOST_BYTES` whose name begins with the number of a seed, with no digit after it,
    or whose bytes have its hash.
    """
    small = (path for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_size <= MOST_BYTES)
    given = {path: sha256(path.read_bytes()).hexdigest() for path in small}
    for seed in trace.seeds:
        hashed = [path for path, hash_ in given.items() if hash_ == seed.sha256]
        named = [path for path in given if re.match(rf"{seed.number}(?!\d)", path.name)]
        if not hashed and not named:
            yield TraceGap("document", f"seed {seed.number}", f"no file of {folder} has its number or its SHA-256")
            continue
        if not hashed:
            yield TraceGap("document", f"seed {seed.number}", "has another SHA-256 than that of the table")
        text = (hashed or named)[0].read_bytes().decode("utf-8", errors="replace")
        yield from _text_gaps(seed, trace.rows.get(seed.number, ()), text.split("\n"))


def _text_gaps(seed: Seed, rows: Iterable[TraceRow], lines: list[str]) -> Iterator[TraceGap]:
    """Rows whose digest is another one, sentences without a row, and blank lines that are not."""
    whole: set[int] = set()
    single: set[tuple[int, int]] = set()
    for row in rows:
        match = PLACE.fullmatch(row.place)
        number = int(match[1]) if match else 0
        if match and match[2]:
            parts = sentences_in(lines[number - 1]) if number <= len(lines) else []
            text = parts[int(match[2]) - 1] if int(match[2]) <= len(parts) else ""
            single.add((number, int(match[2])))
        else:
            text = " ".join(lines[line - 1] for line in sorted(row.lines) if line <= len(lines))
            whole |= row.lines
        if row.kind in SENTENCES and digest_of(text) != row.digest:
            yield TraceGap("document", row.source, f"has the digest {digest_of(text)}, not {row.digest}")
        if row.kind == "blank" and text.strip():
            yield TraceGap("document", row.source, "is not blank")
    for number, line in enumerate(lines, 1):
        for at in range(1, len(sentences_in(line)) + 1):
            if number not in whole and (number, at) not in single:
                yield TraceGap("document", f"seed {seed.number}:{number}.{at}", "is a sentence without a row")
