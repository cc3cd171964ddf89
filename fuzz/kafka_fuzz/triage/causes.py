"""The cause of a finding, and its heading: a reviewed cause of the library if one fits, else a sentence.

A finding has no case, and reviewed causes name the cases that show them.  The kept
results of the corpus connect the two: a finding has the cause that most cases
with the same traits have.  Traits are the outcome, the error or the field that
differs, the rule that the bytes break, and the format.

A finding that no kept case resembles is grouped by what happened: by function,
assertion or error text where the testee gave one, else by the kind of fault in its
shrunk input.  Four kinds say little of the fault, so that it does not divide them: a
codec that raises no error for a broken entry and gives those before it, a client that fetches
one offset again and again, and an error of decompression that refuses valid bytes, or is
undocumented.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

import kafka_records
from kafka_conformance.causes import ReviewedCause, causes_of, library_of, reviewed_cause
from kafka_conformance.judge.compare import Difference
from kafka_conformance.judge.grading import plain_path
from kafka_conformance.judge.observation import Crashed, Exceeded, Hung
from kafka_conformance.judge.verdict import OPEN
from kafka_conformance.reports.profiles import row_name
from kafka_conformance.runner.kept_results import KeptResult, kept_files, read_kept
from kafka_conformance.testees.protocol import LEAKED
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.campaign.plan import OF_TESTEES, read_log
from kafka_fuzz.differential.outcome_tuples import SAYS_CODEC, first_place
from kafka_fuzz.encode import WRITING
from kafka_fuzz.findings import FuzzFinding
from kafka_fuzz.mutate.entries import LONGEST
from kafka_fuzz.mutate.mutant import first_entry_spans
from kafka_fuzz.targets.codecs import LIMITS, open_kinds
from kafka_fuzz.targets.outcome import (
    SANITIZER,
    VALID_BYTES,
    Outcome,
    ending_cause,
    fault_class,
    fault_phrase,
    normalized_message,
    value_relation,
)
from kafka_fuzz.targets.sanitized import SANITIZED
from kafka_records import Batch, RecordFormatError
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2
from kafka_records.layout import MAGIC_OFFSET
from kafka_records.log import split_entries

# Codecs of compression by the group of a rule.
_CODECS: Final = {"GZP": "gzip", "SNP": "snappy", "LZ4": "lz4", "ZST": "zstd", "CMP": "compressed"}
# Fields, as subjects of a sentence about records that were read or written.
_FIELDS: Final = {
    "batches": "the batches", "records": "the records of a batch", "records.key": "the key of a record",
    "records.value": "the value of a record", "records.headers": "the headers of a record",
    "records.timestamp": "the timestamp of a record", "records.offset": "the offset of a record",
    "next_offset": "the offset to continue from", "batches.length": "the number of batches",
    "records.length": "the number of records", "headers.key": "the key of a header",
    "headers.value": "the value of a header", "headers.length": "the number of headers", "data": "the bytes",
}  # fmt: skip
_RELATIONS: Final = {
    "": "another value", "other": "another value", "wraps": "a value that wraps at 32 bits",
    "rounded": "a value cut to seconds", "beyond 64 bits": "a value beyond 64 bits", "fewer": "fewer",
    "more": "more", "none": "none", "some for none": "some where there are none",
    "a number for none": "a number where there is none", "none for a number": "none where there is a number",
}  # fmt: skip
# Names of Unix signals by number, as ends of processes have them.
_SIGNALS: Final = {"4": "SIGILL", "6": "SIGABRT", "7": "SIGBUS", "8": "SIGFPE", "9": "SIGKILL", "11": "SIGSEGV"}
_TYPE: Final = re.compile(r"^(?P<type>[\w.$]*(?:Error|Exception|error)|[\w.]*BadGzipFile)(?::|$) ?(?P<text>.*)")
# Words of generic errors that every library of a language shares.
_OUTER: Final = re.compile(
    r"^(?:Request error|Invalid response|Read error|Cannot read (?:versioned )?data|Malformed data): "
)
_PATH: Final = re.compile(r"^(?:batches|records|headers|next_offset|stalled|data|error)[\w.]*$")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_NUMBER: Final = re.compile(r"-?\d+")
_VALUES: Final = re.compile(r": expected (\S+|\".*\"), got (\S+|\".*\")$")
# Kinds whose cause is the broken rule, whatever the testee said.
_BY_RULE: Final = ("accepts_invalid", "hang", "memory", "amplification")
# Outcomes of a campaign for those of a certificate.
_OUTCOMES: Final = {"wrong_error": "leaked_exception"}
# Of invalid bytes that were accepted: the entries before the broken one were given, and no others.
STOPS: Final = "stops"
# Of a client that does not go on.
STALLS: Final = "next_offset"
# Outcomes that may come from a format that is taken for another one.
_OF_FORMATS: Final = ("wrong_data", "rejects_valid", "leaked_exception", "accepts_invalid")
# So many cases of some formats, and such a share of those with a reviewed cause, have the cause that the formats stand
# for: of several formats, and of a single one.
MIXED_VOTES: Final = (4, 0.7)
SINGLE_VOTES: Final = (100, 0.95)
_GIVEN: Final = re.compile(r"\bgot (\d+) (batch|record)")
# Effects of reviewed causes for the outcomes that a broken rule explains.
_EFFECTS: Final = {
    "accepts_invalid": ("accepts_invalid",), "hang": ("stuck",), "memory": ("memory", "crash", "stuck"),
    "amplification": ("memory", "stuck"), "crash": ("crash",), "wrong_data": ("wrong_data", "lost_data"),
}  # fmt: skip
# Errors of decompression that do not name their codec: zlib's, and those of frames.
_DECOMPRESSION: Final = re.compile(
    r"(?i)incorrect (?:header|data|length) check|unknown (?:header flags|compression method|frame)|decompress"
    r"|invalid (?:block type|literal|distance|bit length|stored block|code lengths|window size|magic number)"
    r"|unexpected end of file|end-of-stream marker|corrupt input|(?:frame|stream|block|content) (?:descriptor|checksum)"
    r"|\bunexpected EOF|: EOF$|^EOF|incomplete frame|\bunreachable\b|corruption detected|match offset|\brle symbol"
    r"|sequence decoder|frame header|magic number mismatch|compression code|decompressed size|unexpected block size"
    r"|end-of-block"
)
# Findings of campaigns that took these bytes for valid; the corpus accepts either answer.
OPEN_TITLE: Final = "Refuses a batch without records that names a codec or has bytes left"
OPEN_CASES: Final = (
    "v2_batch.count_of_zero_hides_the_payload[a record]",
    "v2_batch.empty_batch_with_a_codec[gzip]",
)
_BROKEN: Final = "broken bytes"
# What ends the detail of a crash that its input did not cause alone.
_NOT_ALONE: Final = ", not alone"
MAX_HEADING: Final = 110
# Characters of an error text within a heading that names a function, too.
MAX_ERROR: Final = 60


class FindingTraits(NamedTuple):
    """The traits by which a finding and a case are compared.

    Attributes:
        kind: the outcome; `hang`, `memory` and `amplification` of an encoder begin with `writing`.
        detail: the error text without its varying parts, the assertion, or the field and how it differs.
        rule: the rule that the bytes break; empty for valid ones.
        place: magic and codec of the first entry.
        formats: which formats the entries have, in their order; empty for what is written.
    """

    kind: str
    detail: str
    rule: str
    place: str = ""
    formats: str = ""

    @property
    def levels(self) -> Iterator[tuple[str, ...]]:
        """The traits that have to be equal, from exact to coarse."""
        yield "exact", self.kind, self.detail, self.rule, self.place
        yield "rule", self.kind, self.detail, self.rule
        if self.kind.removeprefix(f"{WRITING} ") in _BY_RULE:
            yield "kind", self.kind, *((STOPS,) if self.detail == STOPS else ()), self.rule
        elif self.detail:
            yield "text", self.kind, self.detail

    @property
    def coarse_levels(self) -> Iterator[tuple[str, ...]]:
        """Traits that fold more findings: of reviewed causes alone, and not for measuring recall."""
        if self.detail in (STOPS, STALLS):
            yield self.detail, self.kind
        elif self.kind.removeprefix(f"{WRITING} ") in _BY_RULE and self.rule:
            yield "class", self.kind, fault_class(self.rule)


def as_of_testee(outcome: Outcome) -> Outcome:
    """An outcome of a target in process in the form of a testee's: the error's type and text are its detail.

    >>> inside = Outcome("mine", "wrong_data", "BadGzipFile", "mine.codec.gzip_decode", why="CRC check failed 1 != 2")
    >>> as_of_testee(inside).kind, as_of_testee(inside).detail
    ('leaked_exception', 'BadGzipFile: CRC check failed # != #')
    """
    if outcome.kind not in ("wrong_data", "rejects_valid", "leaked_exception"):
        return outcome
    if outcome.kind == "rejects_valid" and outcome.detail == "error" and "." not in outcome.function:
        said = outcome.why.partition(": ")[2] or outcome.why
        return msgspec.structs.replace(outcome, detail=normalized_message(said))
    if not (_NAME.fullmatch(outcome.detail) and "." in outcome.function):
        return outcome
    kind = "leaked_exception" if outcome.kind == "wrong_data" else outcome.kind
    text = normalized_message(f"{outcome.detail}: {outcome.why}")
    return msgspec.structs.replace(outcome, kind=kind, detail=text)


def finding_traits(outcome: Outcome, right: str, data: bytes) -> FindingTraits:
    """The traits of a finding: of its outcome, the reference's verdict *right*, and its bytes."""
    outcome = as_of_testee(outcome)
    _, _, rule = right.partition(" ")
    writes = outcome.detail.startswith(WRITING)
    detail = outcome.detail.removeprefix(WRITING).strip()
    kind = f"{WRITING} {outcome.kind}" if writes else outcome.kind
    if outcome.kind == "wrong_data":
        path, _, relation = detail.partition(" ")
        detail = f"{plain_path(path)} {relation or outcome.relation}".strip()
    elif outcome.kind == "accepts_invalid":
        detail = STOPS if not writes and (outcome.relation == STOPS or stops_at_fault(outcome.why, data)) else ""
    elif outcome.kind == "amplification":
        detail = ""
    elif outcome.kind == "crash":
        detail = f"{detail} {_own_function(outcome)}".strip()
    if writes:
        return FindingTraits(kind, detail, rule)
    return FindingTraits(kind, detail, rule, first_place(data), formats_in_order(data))


def formats_in_order(data: bytes) -> str:
    """The formats of the entries of *data* in their order, each named once where it begins.

    >>> formats_in_order(bytes(16) + b"\2" + bytes(50))
    'batches'
    """
    magics = [data[MAGIC_OFFSET]] if len(data) > MAGIC_OFFSET else []
    try:
        magics = [data[start + MAGIC_OFFSET] for start, _ in split_entries(data)] or magics
    except (RecordFormatError, IndexError):
        pass  # the first entry is known
    return " ".join(
        name for name, _ in groupby("batches" if magic == MAGIC_VALUE_V2 else "messages" for magic in magics)
    )


def stops_at_fault(why: str, data: bytes) -> bool:
    """Whether an answer to broken bytes, of which *why* counts batches or records, is the entries before the fault."""
    given = _GIVEN.search(why)
    return given is not None and int(given[1]) == sound_counts(data)[given[2] == "record"]


@cache
def sound_counts(data: bytes) -> tuple[int, int]:
    """How many batches and records of *data* the reference reads before it refuses the rest."""
    try:
        batches = kafka_records.decode(data, limits=LIMITS)
    except RecordFormatError as error:
        batches = error.batches
    return len(batches), sum(len(batch.records) for batch in batches)


def _own_function(outcome: Outcome) -> str:
    """The function in which it ended, without the fields that keys put in its place."""
    named = "." in outcome.function or "_" in outcome.function or "/" in outcome.function
    return outcome.function.rpartition("/")[2] if named else ""


@dataclass(slots=True)
class CauseIndex:
    """The causes of the cases of the kept results, by testee and traits.

    Attributes:
        votes: the causes of cases, by testee or library and a level of traits; empty for unreviewed ones.
        shown: a case for each of them.
        causes: the reviewed causes that cases show, each with one of them, by testee and operation.
    """

    votes: defaultdict[tuple[str, ...], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    shown: dict[tuple[str, ...], str] = field(default_factory=dict)
    causes: defaultdict[tuple[str, str], dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, testee: str, traits: FindingTraits, cause: str, case: str) -> None:
        """Add a case with the *cause*, an id of the library of *testee*, or empty."""
        for name in dict.fromkeys((testee, f"{library_of(testee)}/")):
            for level in (*traits.levels, *(traits.coarse_levels if cause else ())):
                self.votes[name, *level][cause] += 1
                self.shown.setdefault((name, *level), case)
            if cause and traits.kind in _OF_FORMATS:
                self.votes[name, "formats", traits.formats][cause] += 1
                self.shown.setdefault((name, "formats", traits.formats, cause), case)

    def lookup(self, testee: str, traits: FindingTraits, *, coarse: bool = False) -> tuple[str, str]:
        """The cause that most cases with such *traits* have, and a case; empty where there is none.

        Cases of *testee* count before those of other rows of its library, and equal traits before similar ones.
        With *coarse*, those with the same class of fault count, too, and then those of the same formats, if nearly all
        of them have one cause: a library that reads each old message as a batch fails in a hundred ways.
        """
        for level in (*traits.levels, *(traits.coarse_levels if coarse else ())):
            for name in (testee, f"{library_of(testee)}/"):
                found = self.votes.get((name, *level))
                if found:
                    return found.most_common(1)[0][0], self.shown[name, *level]
        return self._cause_of_formats(testee, traits) if coarse and traits.kind in _OF_FORMATS else ("", "")

    def _cause_of_formats(self, testee: str, traits: FindingTraits) -> tuple[str, str]:
        """The cause that formats stand for; a cause that single formats have as well stands for no mixed ones."""
        mixed = " " in traits.formats
        least, share = MIXED_VOTES if mixed else SINGLE_VOTES
        for name in (testee, f"{library_of(testee)}/"):
            votes = self.votes.get((name, "formats", traits.formats))
            if not votes:
                continue
            ((cause, count),) = votes.most_common(1)
            alone = sum(self.votes[name, "formats", each][cause] for each in ("batches", "messages"))
            if count >= max(least, share * votes.total()) and not (mixed and alone > count):
                return cause, self.shown[name, "formats", traits.formats, cause]
        return "", ""


def kept_index(folder: Path) -> CauseIndex:
    """The index of the kept results in *folder*; empty without the folder."""
    index = CauseIndex()
    cases = {case.id: case for case in load_vectors()} if folder.is_dir() else {}
    for file in kept_files(folder) if folder.is_dir() else ():
        _add_kept(index, read_kept(file), cases)
    return index


def _add_kept(index: CauseIndex, kept: KeptResult, cases: dict[str, Case]) -> None:
    testee = row_name(kept.header.testee)
    causes = causes_of(testee)
    for line in kept.lines.values():
        case = cases.get(line.case)
        if case is None or line.outcome == "agree" or line.outcome in OPEN:
            continue
        found = reviewed_cause(causes, testee, case.id, line)
        traits = _case_traits(case, line)
        if traits is None:
            continue
        index.add(testee, traits, found.id if found else "", case.id)
        # What cases leave open is no defect, and campaigns send no lists of aborted transactions.
        if found and case.expect.verdict != "acceptable" and case.aborted is None:
            index.causes[testee, case.op].setdefault(found.id, case.id)


def _case_traits(case: Case, line: Any) -> FindingTraits | None:
    """The traits of a judged case; None where a campaign reports no finding."""
    writes = case.op == "encode"
    if not writes and not (isinstance(case.input, bytes) and 0 < len(case.input) <= LONGEST):
        return None
    seen = line.observation
    message = str((seen.get("error") or {}).get("message", ""))
    kind, detail = line.outcome, ""
    if kind in ("wrong_error", "lossy"):
        if (seen.get("error") or {}).get("kind") != LEAKED:
            return None
        kind, detail = "leaked_exception", normalized_message(message)
    elif kind == "rejects_valid":
        detail = normalized_message(message)
    elif kind in ("crash", "memory"):
        ending = (Crashed if kind == "crash" else _exceeded)(**_ending_fields(seen, kind))
        detail = " ".join(filter(None, ending_cause(ending)))
    elif kind == "hang":
        detail = ending_cause(Hung(0.0, seen.get("stderr", "")))[0] or (plain_path(line.field) if line.field else "")
    elif kind == "wrong_data":
        detail = _wrong_data(line)
        if detail.startswith("batches.length") and case.expect.verdict == "invalid":
            kind, detail = "accepts_invalid", ""
    if writes:
        return FindingTraits(f"{WRITING} {kind}", detail, "")
    assert isinstance(case.input, bytes)
    return _decode_traits(kind, detail, line.why, case.input)


def _decode_traits(kind: str, detail: str, why: str, data: bytes) -> FindingTraits:
    if kind == "accepts_invalid" and stops_at_fault(why, data):
        detail = STOPS
    return FindingTraits(kind, detail, broken_rule(data), first_place(data), formats_in_order(data))


def _exceeded(stderr: str) -> Exceeded:
    return Exceeded("", stderr)


def _ending_fields(seen: dict[str, Any], kind: str) -> dict[str, Any]:
    fields = ("signal", "exit_code", "stderr") if kind == "crash" else ("stderr",)
    return {name: seen[name] for name in fields if seen.get(name) is not None} or {"stderr": ""}


def _wrong_data(line: Any) -> str:
    """The field that differs, and how: the text has numbers, null, quoted text or names."""
    found = _VALUES.search(line.why)
    relation = value_relation(Difference(line.field, _value(found[1]), _value(found[2]))) if found else ""
    return f"{plain_path(line.field)} {relation}".strip()


def _value(text: str) -> int | bytes | None:
    if text == "null":
        return None
    return int(text) if _NUMBER.fullmatch(text) else text.strip('"').encode()


@cache
def broken_rule(data: bytes) -> str:
    """The rule by which the reference refuses *data*, or the kind of its error; empty for valid bytes."""
    try:
        kafka_records.decode(data, limits=LIMITS)
    except RecordFormatError as error:
        return error.rule or error.kind
    return ""


class Heading(NamedTuple):
    """The heading of findings with one cause.

    Attributes:
        library: whose code it is about.
        title: a sentence.
        cause: the id of the reviewed cause; empty for an unreviewed one.
        case: a case of the corpus that shows the same; empty if none is known.
    """

    library: str
    title: str
    cause: str = ""
    case: str = ""


def row_of_target(target: str) -> str:
    """The row of kept results with the code of *target*: that of a build under a sanitizer is the plain one's.

    >>> row_of_target("aiokafka-asan"), row_of_target("sarama@1.41.0")
    ('aiokafka', 'sarama')
    """
    plain = target.partition("@")[0]
    return SANITIZED.get(plain, plain)


def heading_of(index: CauseIndex, outcome: Outcome, right: str, data: bytes, *, coarse: bool = True) -> Heading:
    """The heading of a finding: the title of its reviewed cause, else a sentence on what happened.

    With *coarse*, it has a reviewed cause whose class of fault is the same, or that names the broken rule.  Recall
    does not count these.
    """
    target = row_of_target(outcome.target)
    traits = finding_traits(outcome, right, data)
    cause, case = index.lookup(target, traits, coarse=coarse)
    causes = causes_of(target)
    reviewed = next((each for each in causes if each.id == cause), None) or _by_text(causes, outcome, traits)
    if reviewed is None and coarse and not case:
        reviewed = _by_rule(causes, traits)
    if reviewed is not None:
        return Heading(library_of(target), reviewed.title, reviewed.id, case)
    title = _sentence(outcome, right, data, traits)
    may_refuse = traits.kind == "rejects_valid" and not case and not broken_rule(data)
    if may_refuse and (kinds := open_kinds(_read_batches(data), data)):
        title, case = OPEN_TITLE, OPEN_CASES["decompression" in kinds]
    return Heading(library_of(target), title, "", case)


def _read_batches(data: bytes) -> tuple[Batch, ...]:
    return kafka_records.decode(data, limits=LIMITS)


def _by_rule(causes: Sequence[ReviewedCause], traits: FindingTraits) -> ReviewedCause | None:
    """The first cause with the effect of the outcome that names the broken rule."""
    effects = _EFFECTS.get(traits.kind, ())
    return next((each for each in causes if traits.rule in each.rules and each.effect in effects), None)


def _sentence(outcome: Outcome, right: str, data: bytes, traits: FindingTraits) -> str:
    """The sentence of `heading_sentence`, or one about all of the bytes where the outcome says little of the fault."""
    if traits.kind == "accepts_invalid" and traits.detail == STOPS:
        return "Raises no error at a broken entry, and gives the entries before it"
    if traits.kind == "hang" and traits.detail == STALLS:
        return "Fetches one offset again and again, and reports no error"
    if traits.kind == "rejects_valid":
        text = f"{as_of_testee(outcome).detail} {outcome.why}"
        says = SAYS_CODEC.search(f"{text} {outcome.function}") or _DECOMPRESSION.search(text)
        if says and not broken_rule(data):
            return _refused_compression(data, f"{text} {outcome.function}")
    if traits.kind == "leaked_exception" and _is_of_decompression(traits.detail, traits.rule, data):
        return "Lets errors of its decompression libraries escape"
    return heading_sentence(outcome, right)


def _refused_compression(data: bytes, text: str) -> str:
    """Valid bytes that an error *text* about decompression refuses, whether a complete entry is compressed or none."""
    if codec := refused_codec(data, text):
        return f"Refuses valid {codec} data"
    if has_compressed_entry(data):
        return "Decompresses an incomplete entry at the end"
    return "Decompresses an entry that names no codec"


def _is_of_decompression(text: str, rule: str, data: bytes) -> bool:
    """Whether the *text* of an undocumented exception is about decompression: by the broken *rule*, else by both.

    An unexpected end alone is no sign of it: headers and records end early, too.
    """
    if rule.partition("-")[0] in _CODECS:
        return True
    return bool((SAYS_CODEC.search(text) or _DECOMPRESSION.search(text)) and has_compressed_entry(data))


def has_compressed_entry(data: bytes) -> bool:
    """Whether one of the first entries of *data*, or the broken one after them, names a codec."""
    spans = first_entry_spans(data)
    starts = [0, *(end for _, end in spans)]
    return any(first_place(data[start:]).partition(" ")[2] in COMPRESSIONS[1:] for start in starts)


def refused_codec(data: bytes, text: str) -> str:
    """The codec that the *text* of an error names, or the last one of valid *data*; empty if its entries name none."""
    codecs = [batch.compression for batch in _read_batches(data) if batch.compression != "none"]
    if not codecs:
        return ""
    named = SAYS_CODEC.search(text)
    return _codec_name(named[0]) if named else codecs[-1]


def _codec_name(word: str) -> str:
    name = word.lower()
    return {"flate": "gzip", "zlib": "gzip", "s2": "snappy", "xerial": "snappy"}.get(name, name)


def _by_text(causes: Sequence[ReviewedCause], outcome: Outcome, traits: FindingTraits) -> ReviewedCause | None:
    """The first cause that is about an error text, whatever the case."""
    text = f"{outcome.detail} {outcome.why}"
    for cause in causes:
        for match in cause.match:
            pattern = match.why or match.observation
            if (
                match.cases
                or not pattern
                or traits.kind not in (_OUTCOMES.get(each, each) for each in match.outcome or [traits.kind])
            ):
                continue
            if (
                re.search(pattern, text)
                and re.search(match.observation, text)
                and re.search(match.field, traits.detail)
            ):
                return cause
    return None


def heading_sentence(outcome: Outcome, right: str) -> str:
    """A sentence on what happened, which findings with one cause share.

    >>> heading_sentence(Outcome("mine", "accepts_invalid", "error", "HDR-05"), "malformed HDR-05")
    'Accepts a message shorter than its header'
    >>> heading_sentence(Outcome("mine", "wrong_data", "batches.records.timestamp rounded", "v2"), "ok")
    'Reads the timestamp of a record wrongly: a value cut to seconds'
    """
    outcome = as_of_testee(outcome)
    writes = outcome.detail.startswith(WRITING)
    _, _, rule = right.partition(" ")
    on = fault_phrase(rule)
    text = _written(outcome, rule) if writes else _read(outcome, rule, on)
    return text if len(text) <= MAX_HEADING else f"{text[: MAX_HEADING - 1].rstrip()}…"


def _read(outcome: Outcome, rule: str, on: str) -> str:
    detail = outcome.detail
    match outcome.kind:
        case "accepts_invalid":
            return f"Accepts {on}"
        case "hang" | "memory" | "amplification" | "crash":
            return _ending_sentence(outcome, rule)
        case "leaked_exception":
            return _leak_sentence(detail)
        case "rejects_valid":
            return _refusal_sentence(detail, outcome.function)
        case "wrong_data":
            return f"Reads {_difference_words(detail, outcome.relation)}"
    return f"Answers otherwise than predicted: {_plain_words(detail)}"


def _ending_sentence(outcome: Outcome, rule: str) -> str:
    """A hang, a crash, or too much memory: by function, if that is known."""
    detail, function = outcome.detail.removesuffix(_NOT_ALONE), _own_function(outcome)
    on = _BROKEN if rule else VALID_BYTES
    match outcome.kind:
        case "hang":
            return f"Loops for ever in {function}" if function else f"Gives no answer to {on}"
        case "memory":
            return f"Runs out of memory in {function}" if function else f"Runs out of memory on {on}"
        case "amplification":
            return f"Takes far too much {'time' if detail == 'time' else 'memory'} for {on}"
    if detail.startswith(SANITIZER):
        return _sanitizer_sentence(detail, function, on)
    how = _crash_words(detail)
    return f"Ends with {how} in {function}" if function else f"Ends with {how} on {on}"


def _written(outcome: Outcome, rule: str) -> str:
    detail, function = outcome.detail.removeprefix(WRITING).strip(), _own_function(outcome)
    match outcome.kind:
        case "accepts_invalid":
            return "Writes what Kafka refuses to write" + (f": {fault_phrase(rule)}" if rule else "")
        case "rejects_valid":
            return f"Refuses to write a valid batch: {_without_type(detail)}"
        case "wrong_data":
            return f"Writes {_difference_words(detail, outcome.relation)}"
        case "crash":
            return f"Ends with {_crash_words(detail)} when it writes" + (f" in {function}" if function else "")
        case "hang":
            return "Gives no answer to a batch to write"
    return f"Fails to write a batch: {_without_type(detail) or outcome.kind.replace('_', ' ')}"


def _sanitizer_sentence(detail: str, function: str, on: str) -> str:
    """A read or write outside of an object."""
    what, _, access = detail.removeprefix(SANITIZER).strip().partition(" ")
    verb = {"READ": "Reads", "WRITE": "Writes"}.get(access, "Uses memory wrongly, or reads")
    return f"{verb} outside of its memory{f' in {function}' if function else f' on {on}'}: {what}"


def _crash_words(detail: str) -> str:
    """How a process ended, as in `SIGSEGV` or `the error "index out of range"`."""
    signal = re.match(r"signal (\d+)(.*)", detail)
    if signal:
        return _SIGNALS.get(signal[1], f"signal {signal[1]}") + signal[2]
    if detail.startswith(("SIG", "exit code")):
        return detail
    return f"the error “{_plain_words(detail)[:MAX_ERROR]}”" if detail else "an unreadable answer"


def _leak_sentence(detail: str) -> str:
    """An undocumented exception: by its type, else by its text."""
    found = _TYPE.match(detail)
    if found:
        return f"Lets {found['type'].rpartition('.')[2] or 'error'} escape on broken bytes"
    return f"Lets an error escape: {_without_type(detail)}"


def _refusal_sentence(detail: str, where: str) -> str:
    """Valid bytes that are refused: by codec for errors of compression, else by what the error says."""
    codec = where if where in _CODECS.values() else SAYS_CODEC.search(detail)
    if codec:
        name = codec if isinstance(codec, str) else _codec_name(codec[0])
        return f"Refuses valid {name} data: {_without_type(detail)}"
    return f"Refuses valid bytes: {_without_type(detail)}"


def error_text(outcome: Outcome) -> str:
    """The text of a refusal without its varying parts and class names; empty for another outcome, or without a text.

    That of an undocumented exception is its kind: its type is in the title, and the text depends on the bytes.
    """
    outcome = as_of_testee(outcome)
    if outcome.kind == "leaked_exception":
        return outcome.kind
    return _without_type(outcome.detail) if outcome.kind == "rejects_valid" and outcome.detail else ""


def _without_type(detail: str) -> str:
    """The text of an error without the names of its classes."""
    text = detail
    while (found := _TYPE.match(text)) and found["text"]:
        text = re.sub(r"^\[\w+ #\] ?", "", found["text"])
    while outer := _OUTER.match(text):
        text = text[outer.end() :]
    return _plain_words(text)


def _plain_words(text: str) -> str:
    """*text* as it may stand in a sentence: without underscores and numbers' placeholders."""
    plain = " ".join(text.replace("_", " ").replace("#", "N").split()).rstrip(" .,:;(")
    return plain or "without a text"


def _difference_words(detail: str, relation: str) -> str:
    """A field, and how it differs; a field of batches that is not in the table is named as it is."""
    path, _, how = detail.partition(" ")
    if not _PATH.match(path):
        return f"a batch wrongly: {_plain_words(detail)}"
    plain = plain_path(path)
    plain = plain.removeprefix("records.") if plain.startswith("records.headers.") else plain
    words = _FIELDS.get(plain) or f"the {plain.rpartition('.')[2].replace('_', ' ')} of a batch"
    how = how or relation
    if how == "rounded" and "timestamp" not in path:  # seconds are no unit of it
        how = "other"
    return f"{words} wrongly: {_RELATIONS.get(how, how.replace('_', ' '))}"


class CauseRecall(msgspec.Struct, frozen=True):
    """One library.

    Attributes:
        library: whose reviewed causes are counted.
        testees: its rows that the campaign ran.
        known: number of causes that cases show for these rows.
        missed: ids of those that the campaign lacks, each with a case that shows it.
        beyond: headings of findings without a reviewed cause.
    """

    library: str
    testees: tuple[str, ...]
    known: int
    missed: dict[str, str]
    beyond: int

    @property
    def found(self) -> int:
        """The number of known causes that the campaign has."""
        return self.known - len(self.missed)


def measure_cause_recall(
    headings: Collection[Heading], index: CauseIndex, tested: Mapping[str, Collection[str]]
) -> list[CauseRecall]:
    """Recall of every library by cause.

    Args:
        headings: of the campaign's findings.
        index: of the kept results.
        tested: testees that the campaign ran, by operation.
    """
    known: dict[str, dict[str, str]] = {}
    rows: dict[str, set[str]] = {}
    for (testee, op), causes in sorted(index.causes.items()):
        if testee in tested.get(op, ()):
            library = library_of(testee)
            rows.setdefault(library, set()).add(testee)
            known[library] = causes | known.get(library, {})
    found = {(heading.library, heading.cause) for heading in headings}
    titles = {(heading.library, heading.title) for heading in headings if not heading.cause}
    return [
        CauseRecall(
            library,
            tuple(sorted(rows[library])),
            len(causes),
            {id_: case for id_, case in sorted(causes.items()) if (library, id_) not in found},
            sum(name == library for name, _ in titles),
        )
        for library, causes in sorted(known.items())
    ]


def rows_that_ran(directory: Path, findings: Collection[FuzzFinding] = ()) -> dict[str, set[str]]:
    """The testees that the campaign in *directory* ran, by operation; those with *findings* did, log or not."""
    tested: dict[str, set[str]] = {"decode": set(), "encode": set()}
    for finding in findings:
        tested["encode" if finding.mode == "encode" else "decode"].add(row_of_target(finding.outcome.target))
    for report in read_log(directory):
        kind = report.target.partition(":")[0]
        if not report.executions:
            continue
        if kind not in OF_TESTEES:
            tested["decode"].add(row_of_target(report.target))
            continue
        op = "encode" if kind == "encode" else "decode"
        ran = (part.strip() for part in report.version.split(", ") if " did not run" not in part)
        tested[op] |= {part.rpartition(" ")[0] for part in ran}
    return tested
