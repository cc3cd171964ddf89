"""Causes of findings, and the findings grouped by them.

Crashes are grouped by message and innermost function, as
far as standard error shows them; what is refused and fits nothing, by the error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES, Outcome, outcome_rank
from kafka_conformance.reports.collection import folder_name, said
from kafka_conformance.runner.results import ResultLine, Results
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vector_format import input_of, matches
from kafka_corpus.wire import to_wire
from kafka_records import Batch

# Findings of these classes stop a consumer: their maintainers hear of them before all others.
SENSITIVE: Final = ("crash", "hang", "memory")

CRASHES: Final = 1
# Causes that are made here have numbers from there on, by severity.
MADE: Final = 900
_LONGEST_SLUG: Final = 60


@dataclass(frozen=True, slots=True)
class Cause:
    """Why findings are alike.

    Attributes:
        number: what file names start with; the same in every run.
        slug: its name; with the testee's, the stable id of a dossier.
        title: that of an issue.
        about: what goes wrong, in a few sentences.
    """

    number: int
    slug: str
    title: str
    about: str


class CauseEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the catalogue: a cause, and what fits it; *field* and *why* are regular expressions."""

    number: int
    slug: str
    title: str = ""
    about: str = ""
    outcomes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    field: str = ""
    why: str = ""

    @property
    def cause(self) -> Cause:
        """The cause of what fits."""
        return Cause(self.number, self.slug, self.title, self.about)

    def fits(self, line: ResultLine) -> bool:
        """Whether *line* belongs to it."""
        named = self.rules or self.cases
        return (
            (not self.outcomes or line.outcome in self.outcomes)
            and (not self.ops or line.op in self.ops)
            and (not named or self._names(line))
            and re.search(self.field, line.field) is not None
            and re.search(self.why, line.why) is not None
        )

    def _names(self, line: ResultLine) -> bool:
        first = line.rules[0] if line.rules else ""
        return any(first == rule or first.partition("-")[0] == rule for rule in self.rules) or any(
            matches(pattern, line.case) for pattern in self.cases
        )


class _Catalogue(msgspec.Struct):
    cause: list[CauseEntry]


@cache
def catalogue() -> tuple[CauseEntry, ...]:
    """The entries of `causes.toml`, in their order; title and about are in the first entry of a cause."""
    entries = msgspec.toml.decode(files(__package__).joinpath("causes.toml").read_bytes(), type=_Catalogue).cause
    words = {each.slug: {"title": each.title, "about": each.about} for each in reversed(entries) if each.title}
    return tuple(msgspec.structs.replace(each, **words[each.slug]) for each in entries)


def cause_of(line: ResultLine) -> Cause:
    """The cause of a finding."""
    if line.outcome == "crash":
        return _crash(line)
    return next((entry.cause for entry in catalogue() if entry.fits(line)), None) or _made(line)


_FATAL: Final = (
    "Input alone ends the process. A consumer that meets such bytes ends at each restart again, "
    "until somebody moves its position by hand."
)
_PANIC: Final = re.compile(r"(?:panic|fatal error): ([^|]+)")
_THROWN: Final = re.compile(r"\b[A-Z]?\w*Error: ([^|]+)")
_RUST: Final = re.compile(r"panicked at ([^|]+)")
# A function in a stack of Node's.
_AT: Final = re.compile(r"\bat ((?:new )?[\w.]+) \(")
# A function of a library in a Go stack: host/owner/library/package.(*Type).Method(
_FRAME: Final = re.compile(r"\b[\w.-]+\.\w+/[\w./-]*?([\w-]+)\.\(?\*?(?:(\w+)\)?\.)?(\w+)\(")


def _crash(line: ResultLine) -> Cause:
    """Its message, and the first function of a library below it."""
    frame = _FRAME.search(line.why) or _AT.search(line.why)
    quoted = _PANIC.search(line.why) or _RUST.search(line.why) or _THROWN.search(line.why)
    signal = re.search(r"signal (\d+)", line.why)
    message = steady(quoted[1].strip() if quoted else f"signal {signal[1]}" if signal else "the process ends")
    where = ".".join(part for part in frame.groups() if part) if frame else ""
    # Without a stack, the format says most about where it happened.
    slug = slugged(f"crash {where or message + ' ' + line.area}")
    place = f" in {where}" if where else f" on {line.area.replace('_', ' ')} input"
    return Cause(
        CRASHES, slug, f"The process ends{place}: {message}",
        _FATAL,
    )  # fmt: skip


def _made(line: ResultLine) -> Cause:
    """For what fits nothing: one for each severity."""
    number = MADE + SEVERITIES.index(line.outcome) if line.outcome in SEVERITIES else MADE
    return Cause(
        number, slugged(f"other {line.outcome}"), _WORDS[line.outcome],
        "The cases below have their severity in common, and perhaps not one cause.",
    )  # fmt: skip


_WORDS: Final = {
    "wrong_data": "Other data than the bytes hold are given",
    "hang": "There is no answer",
    "memory": "Memory is taken without limit",
    "accepts_invalid": "Invalid data of other kinds are accepted",
    "rejects_valid": "Valid data of other kinds are refused",
    "wrong_error": "Errors are of another kind",
    "lossy": "Less is given than the bytes hold",
}


def slugged(text: str) -> str:
    """*text* as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_SLUG].strip("-")


_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]+\??")
_ARGUMENTS: Final = re.compile(r"\((?:[^()]*0x…[^()]*)\)")
_TEMPORARY: Final = re.compile(r"(?<![\w.])/(?:tmp|home|root|var|usr)/[^\s|:)]*/")
# Milliseconds of our days: a writer that puts the time of the call into its records.
_CLOCK: Final = re.compile(r"(?<!\d)1(?!795000000\d{3}|700\d{9})[789]\d{11}(?!\d)")
_GOROUTINE: Final = re.compile(r"goroutine \d+")
_RANGE: Final = re.compile(r"out of range \[[^]]*\]")
_IDS: Final = re.compile(r" \+0x…|\(<unknown>\)")


def steady(text: str) -> str:
    """*text* without what differs from run to run: addresses, folders, the clock, the index of a panic."""
    text = _ADDRESS.sub("0x…", text)
    text = _IDS.sub("", _GOROUTINE.sub("goroutine", _ARGUMENTS.sub("(…)", text)))
    text = _CLOCK.sub("(the time of the run)", _TEMPORARY.sub("…/", text))
    return _RANGE.sub("out of range […]", text)


@dataclass(frozen=True, slots=True)
class ReleasedTestee:
    """Whose findings they are.

    Attributes:
        name: as `certify` knows it.
        version: the release of its codec.
        language: as it says.
        memory: bytes that it could take; 0 if that is not known.
    """

    name: str
    version: str
    language: str
    memory: int = 0

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return folder_name(f"{self.name}-{self.version}")


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Findings of one testee that have one cause; *lines* worst and smallest first, *case* is that of the first."""

    testee: ReleasedTestee
    cause: Cause
    lines: tuple[ResultLine, ...]
    case: Case

    @property
    def id(self) -> str:
        """The same in every run: disclosure states and links hold on to it."""
        return f"{self.testee.name}/{self.cause.slug}"

    @property
    def file(self) -> str:
        """The name of its page."""
        return f"{self.cause.number:03d}-{self.cause.slug}.md"

    @property
    def outcome(self) -> Outcome:
        """The worst that it does."""
        return self.lines[0].outcome

    @property
    def sensitive(self) -> bool:
        """Whether it belongs to a class that is reported to the maintainers first."""
        return any(line.outcome in SENSITIVE for line in self.lines)


def testee_of(done: Results) -> ReleasedTestee:
    """The testee of a run; one that has a name is called by it."""
    connect = str(done.header.testee.get("connect") or "")
    plain = connect.partition("@")[0]
    name = plain if plain and ":" not in plain else said(done, "name", "testee")
    memory = done.header.settings.get("memory")
    limit = memory if isinstance(memory, int) else 0
    return ReleasedTestee(name, said(done, "version", "unknown"), said(done, "language"), limit)


def grouped(done: Results, cases: Mapping[str, Case]) -> list[CauseGroup]:
    """The findings of a run by cause, those of the worst severity first; cases that are not in *cases* are left out."""
    by_cause: dict[Cause, list[ResultLine]] = defaultdict(list)
    for line in done.lines:
        if line.outcome in SEVERITIES and line.case in cases:
            by_cause[cause_of(line)].append(line)
    testee = testee_of(done)
    found = [_group(testee, cause, lines, cases) for cause, lines in _merged(by_cause).items()]
    return sorted(
        found, key=lambda group: (outcome_rank(group.outcome), -len(group.lines), group.cause.number, group.id)
    )


def _merged(by_cause: Mapping[Cause, list[ResultLine]]) -> dict[Cause, list[ResultLine]]:
    """Causes of one slug together: crashes in one function may say it in several ways."""
    first: dict[str, Cause] = {}
    merged: dict[Cause, list[ResultLine]] = {}
    for cause in sorted(by_cause, key=lambda each: (each.number, each.slug, each.title)):
        merged.setdefault(first.setdefault(cause.slug, cause), []).extend(by_cause[cause])
    return merged


def _group(testee: ReleasedTestee, cause: Cause, lines: list[ResultLine], cases: Mapping[str, Case]) -> CauseGroup:
    ordered = sorted(lines, key=lambda line: (outcome_rank(line.outcome), case_size(cases[line.case]), line.case))
    return CauseGroup(testee, cause, tuple(ordered), cases[ordered[0].case])


def case_size(case: Case) -> int:
    """How much there is to look at: bytes to decode, or JSON of a batch to write."""
    given: Any = case.input
    if isinstance(given, Recipe):
        given = input_of(case)
    return len(repr(to_wire(given))) if isinstance(given, Batch) else len(given) if isinstance(given, bytes) else 0
