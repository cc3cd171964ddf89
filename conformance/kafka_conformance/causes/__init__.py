"""Reviewed causes: read `<library>.toml`, and find the cause of a finding.

An entry is one defect of a library: its title, where it is in the source, and
the findings that show it.  The first entry that fits a finding wins.  A finding
that no entry fits is unreviewed; such findings are grouped by rule and effect.

The library's maintainers may reply to an entry.  The reply is shown beside the
cause as plain text, and decides nothing:

    [cause.reply]
    text = "Batches like these are refused from 3.1 on."
    by = "Ada Lovelace, maintainer"
    date = 2026-11-25
    link = "https://example.org/issues/12"
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from kafka_conformance.judge.grade import GRADES, UNSAFE, Effect, Profile, Reach
from kafka_conformance.judge.grading import JudgedLine
from kafka_corpus.vector_format import matches

SUFFIX: Final = ".toml"
MAX_ID: Final = 40
MAX_TITLE: Final = 72
MAX_WORDS: Final = 90
# Characters of a reply, of the name below it, and of its link.
MAX_REPLY: Final = 1000
MAX_REPLY_NAME: Final = 100
MAX_LINK: Final = 300
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LINK: Final = re.compile(r"https://[A-Za-z0-9][\w.~:/?#@!$&'()*+,;=%-]*", re.ASCII)


class BadCausesError(ValueError):
    """A file of causes is not as it should be."""


class FindingMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions on a finding, all of which have to hold; an empty one always holds.

    Attributes:
        cases: patterns of case ids, any of them.
        outcome: outcomes, any of them.
        field: a regular expression that is found in the field that differs.
        why: the same for the text of the verdict.
        observation: the same for the JSON text of the observation.
    """

    cases: list[str] = []
    outcome: list[str] = []
    field: str = ""
    why: str = ""
    observation: str = ""

    def fits(self, case: str, line: JudgedLine) -> bool:
        """Whether the finding on *case* fits."""
        return (
            (not self.outcome or line.outcome in self.outcome)
            and (not self.cases or any(matches(pattern, case) for pattern in self.cases))
            and re.search(self.field, line.field) is not None
            and re.search(self.why, line.why) is not None
            and (not self.observation or re.search(self.observation, json.dumps(line.observation)) is not None)
        )


class CauseReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The answer of a library's maintainers to a cause.

    Attributes:
        text: plain text; line breaks count as spaces.
        by: a person or project, and their part in the library.
        date: the day of the reply.
        link: where it was given; an https address, or empty.
    """

    text: str
    by: str
    date: date
    link: str = ""

    @property
    def plain(self) -> str:
        """The text on one line."""
        return " ".join(self.text.split())

    def document(self) -> dict[str, str]:
        """The reply as JSON has it."""
        return {"text": self.plain, "by": self.by, "date": self.date.isoformat(), "link": self.link}


class ReviewedCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One defect of a library.

    Attributes:
        id: kebab-case, unique in the file, never changed or used again.
        title: the defect.
        grade: that of the gravest finding.
        effect: the worst effect on users.
        reach: the widest reach.
        profiles: the profiles that it fails.
        testees: the rows of the matrix that show it.
        rules: the rules that the code breaks.
        version: the release whose source was read.
        source: path in the release, lines and function.
        explanation: what the code does, what Kafka's does, what a user loses.
        smallest: a case that shows it.
        match: the findings that it explains.
        upstream: an issue or pull request; empty if none is known.
        first_bad: the oldest release that has it, if known.
        last_bad: the newest, once it is fixed.
        lowered: the reviewer's reason why no finding has more than `grade`, whatever the table gives; else empty.
        reply: the answer of the library's maintainers, if they gave one.
        formerly: ids of entries that were found to be this defect; links and deviations with them stay right.
    """

    id: str
    title: str
    grade: str
    effect: Effect
    reach: Reach
    profiles: list[Profile]
    testees: list[str]
    rules: list[str]
    version: str
    source: str
    explanation: str
    smallest: str
    match: list[FindingMatch]
    upstream: str = ""
    first_bad: str = ""
    last_bad: str = ""
    lowered: str = ""
    reply: CauseReply | None = None
    formerly: list[str] = []

    def fits(self, testee: str, case: str, line: JudgedLine) -> bool:
        """Whether the finding of *testee* on *case* belongs to this cause."""
        return testee in self.testees and any(each.fits(case, line) for each in self.match)


class _CausesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cause: list[ReviewedCause] = []


def parse_causes(text: str, name: str) -> tuple[ReviewedCause, ...]:
    """The causes in the TOML *text* of the file *name*.

    Raises:
        BadCausesError: it has an unknown key, a wrong value, or an id twice.
    """
    try:
        given: Any = tomllib.loads(text)
        found = tuple(msgspec.convert(given, _CausesFile).cause)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadCausesError(f"{name}: {error}") from error
    if defects := list(_defects(found)):
        raise BadCausesError(f"{name}: {'; '.join(defects)}")
    return found


def _defects(causes: Sequence[ReviewedCause]) -> Iterable[str]:
    ids = [id_ for cause in causes for id_ in (cause.id, *cause.formerly)]
    yield from (f"{id_} is there twice" for id_ in sorted({id_ for id_ in ids if ids.count(id_) > 1}))
    for cause in causes:
        if not _ID.fullmatch(cause.id) or len(cause.id) > MAX_ID:
            yield f"{cause.id}: an id is kebab-case, of at most {MAX_ID} characters"
        if len(cause.title) > MAX_TITLE:
            yield f"{cause.id}: the title has {len(cause.title)} characters, at most {MAX_TITLE} are shown"
        if cause.grade not in GRADES:
            yield f"{cause.id}: {cause.grade} is no grade of a cause"
        if cause.lowered and (cause.grade == "FAIL" or cause.effect in UNSAFE):
            yield f"{cause.id}: a cause of grade FAIL, or of effect {', '.join(UNSAFE)}, is not lowered"
        if len(cause.explanation.split()) > MAX_WORDS:
            yield f"{cause.id}: the explanation has more than {MAX_WORDS} words"
        if cause.reply is not None:
            yield from (f"{cause.id}: {problem}" for problem in _reply_defects(cause.reply))
        if not cause.match:
            yield f"{cause.id}: no finding fits it"


def _reply_defects(reply: CauseReply) -> Iterable[str]:
    if not reply.plain or len(reply.plain) > MAX_REPLY:
        yield f"the reply has {len(reply.plain)} characters; 1 to {MAX_REPLY} are shown"
    if not reply.plain.isprintable() or not reply.by.isprintable():
        yield "the reply has characters that cannot be printed"
    if not reply.by.strip() or len(reply.by) > MAX_REPLY_NAME:
        yield f"the reply is by a person or project, of at most {MAX_REPLY_NAME} characters"
    if reply.link and (len(reply.link) > MAX_LINK or not _LINK.fullmatch(reply.link)):
        yield f"the link of the reply is no https address of at most {MAX_LINK} characters"


@cache
def reviewed_causes() -> dict[str, tuple[ReviewedCause, ...]]:
    """All causes by library."""
    folder = files(__package__)
    found = (entry for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    return {
        entry.name.removesuffix(SUFFIX): parse_causes(entry.read_text(encoding="utf-8"), entry.name)
        for entry in sorted(found, key=lambda entry: entry.name)
    }


def causes_of(testee: str) -> tuple[ReviewedCause, ...]:
    """The causes of the library that *testee* is a row of; a library's variants share its file."""
    return tuple(cause for causes in reviewed_causes().values() for cause in causes if testee in cause.testees)


def library_of(testee: str) -> str:
    """The library that *testee* is a row of; its own name if no cause names it."""
    named = (name for name, causes in reviewed_causes().items() if any(testee in cause.testees for cause in causes))
    return next(named, testee)


def reviewed_cause(causes: Iterable[ReviewedCause], testee: str, case: str, line: JudgedLine) -> ReviewedCause | None:
    """The first of *causes* that fits the finding of *testee* on *case*."""
    return next((cause for cause in causes if cause.fits(testee, case, line)), None)


@dataclass(frozen=True, slots=True)
class CauseKey:
    """The key by which findings are grouped: a reviewed cause, or rule and effect."""

    id: str
    title: str
    reviewed: ReviewedCause | None = field(default=None, compare=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """Its id, and the earlier ones."""
        return (self.id, *(self.reviewed.formerly if self.reviewed else ()))


def cause_key(
    causes: Iterable[ReviewedCause], testee: str, case: str, line: JudgedLine, rules: Collection[str], effect: Effect
) -> CauseKey:
    """The cause of a finding; an unreviewed one has the first of *rules* and the *effect* as its name."""
    found = reviewed_cause(causes, testee, case, line)
    if found is not None:
        return CauseKey(found.id, found.title, found)
    rule = next(iter(rules), "")
    slug = f"unreviewed-{effect}-{rule}".lower().replace("_", "-")
    return CauseKey(slug, f"{EFFECT_TITLES[effect]} ({rule})")


EFFECT_TITLES: Final[dict[Effect, str]] = {
    "wrong_data": "Other data than Kafka's",
    "lost_data": "Records are left out",
    "stuck": "No answer, or no progress",
    "crash": "The process ends",
    "memory": "More memory than Kafka's client takes",
    "accepts_invalid": "Broken bytes are accepted",
    "rejects_valid": "Valid bytes are refused",
    "wrong_error": "Another kind of error, or at another record",
    "equivalent": "An equivalent form",
}
