"""The museum: historical defects of clients and brokers, and the cases of the corpus that show them.

`exhibits/<product>.toml` holds the exhibits of a product, written by hand.  An exhibit has links to where the defect
was reported, the releases that have it, the rules that it breaks, and patterns of cases that show it.  Many have a
run: a testee, a release with the defect and one without it, and the finding that the first one has to give.

    product = "kafka-python"
    language = "python"

    [[exhibit]]
    id = "kafka-python-xerial-little-endian"
    title = "Snappy blocks with a little-endian xerial version are taken for one raw block"
    links = ["https://github.com/dpkp/kafka-python/issues/2414"]
    last_bad = "2.0.3"
    fixed = "2.0.4"
    symptom = "Records of such batches cannot be read."
    rules = ["SNP-03"]
    cases = ["history.xerial_header_of_redpanda"]

    [exhibit.run]
    testee = "kafka-python"
    bad = "2.0.2"
    good = "2.0.6"
    outcome = ["rejects_valid"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.testees.recipe import numbers
from kafka_corpus.case import Case
from kafka_corpus.vector_format import matches

SUFFIX: Final = ".toml"
FOLDER: Final = "exhibits"
MAX_ID: Final = 60
MAX_TITLE: Final = 110
MAX_SYMPTOM: Final = 60  # words
# As a testee: the brokers of `kafka_brokers.releases`, which run the cases as scenarios.
BROKER: Final = "apache-kafka"
# Likeness from which an id is suggested for an unknown one.
NEAR: Final = 0.6
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSION: Final = re.compile(r"\d+(?:\.\d+)*")
_LINK: Final = re.compile(r"https://[A-Za-z0-9][\w.~:/?#@!$&'()*+,;=%-]*", re.ASCII)
_SEEN: Final = re.compile(r"20\d\d(?:-\d\d)?")

State = Literal["fixed", "not fixed", "fixed, release not stated"]


class BadExhibitsError(ValueError):
    """A file of exhibits is not as it should be."""


class UnknownExhibit(ValueError):
    """There is no exhibit of that id."""


class ExhibitRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the defect is shown on real releases.

    Attributes:
        testee: a name of `kafkaproof testees`, or `apache-kafka` for a broker.
        bad: a release that has the defect.
        good: one that has it no more; empty while no release fixes it.
        outcome: each case has one of these on the bad release.
        why: a regular expression that is found in the verdict's text on the bad release.
        after: outcomes that the good release may have in place of agreement: another defect, or an equivalent form.
        cases: those of the exhibit that the testee can show; empty for all.
    """

    testee: str
    bad: str
    good: str = ""
    outcome: list[str]
    why: str = ""
    after: list[str] = []
    cases: list[str] = []


class Exhibit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One historical defect.

    Attributes:
        id: kebab-case, unique in the museum, never changed.
        title: the defect, as a sentence.
        links: https addresses of issues, pull requests, commits or release notes; the first is the best.
        first_bad: the oldest release that is known to have it; empty if that is not known.
        last_bad: the newest one.
        fixed: the first release without it; empty if there is none, or if it is not known.
        seen: when it was reported, `YYYY` or `YYYY-MM`, where no release is known.
        is_open: whether the newest release has it, too.
        symptom: the loss of a user, in one or two sentences.
        rules: the rules of the specification that it breaks.
        cases: patterns of the cases that show it.
        run: how it is shown on real releases; None if no release that can be started has it.
        product: the library or broker, from the file.
        language: the language of its codec, from the file.
    """

    id: str
    title: str
    links: list[str]
    symptom: str
    rules: list[str]
    cases: list[str]
    first_bad: str = ""
    last_bad: str = ""
    fixed: str = ""
    seen: str = ""
    is_open: bool = False
    run: ExhibitRun | None = None
    product: str = ""
    language: str = ""

    @property
    def state(self) -> State:
        """Whether a release without the defect exists."""
        if self.is_open:
            return "not fixed"
        return "fixed" if self.fixed else "fixed, release not stated"

    @property
    def affected(self) -> str:
        """The affected releases, in words."""
        if self.first_bad and self.last_bad:
            return self.first_bad if self.first_bad == self.last_bad else f"{self.first_bad} to {self.last_bad}"
        if self.first_bad:
            return f"{self.first_bad} and later" if self.is_open else f"since {self.first_bad}"
        if self.last_bad:
            return f"up to {self.last_bad}"
        return f"before {self.fixed}" if self.fixed else f"seen {self.seen}"

    @property
    def run_cases(self) -> list[str]:
        """Patterns of the cases that a run sends."""
        return self.run.cases or self.cases if self.run else []


class _ExhibitFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    product: str
    language: str
    exhibit: list[Exhibit]


def parse_exhibits(text: str, name: str) -> tuple[Exhibit, ...]:
    """The exhibits in the TOML *text* of the file *name*; the file's product and language are those of each.

    Raises:
        BadExhibitsError: it has an unknown key, a wrong value, or an id twice.
    """
    try:
        given: Any = tomllib.loads(text)
        file = msgspec.convert(given, _ExhibitFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadExhibitsError(f"{name}: {error}") from error
    found = tuple(
        msgspec.structs.replace(each, product=each.product or file.product, language=each.language or file.language)
        for each in file.exhibit
    )
    if defects := list(_defects(found)):
        raise BadExhibitsError(f"{name}: {'; '.join(defects)}")
    return found


def _defects(exhibits: Iterable[Exhibit]) -> Iterator[str]:
    seen: set[str] = set()
    for exhibit in exhibits:
        if exhibit.id in seen:
            yield f"{exhibit.id} is there twice"
        seen.add(exhibit.id)
        yield from (f"{exhibit.id}: {problem}" for problem in (*_text_defects(exhibit), *_version_defects(exhibit)))


def _text_defects(exhibit: Exhibit) -> Iterator[str]:
    if not _ID.fullmatch(exhibit.id) or len(exhibit.id) > MAX_ID:
        yield f"an id is kebab-case, of at most {MAX_ID} characters"
    if not 0 < len(exhibit.title) <= MAX_TITLE:
        yield f"the title has {len(exhibit.title)} characters; 1 to {MAX_TITLE} are shown"
    if not 0 < len(exhibit.symptom.split()) <= MAX_SYMPTOM:
        yield f"the symptom has {len(exhibit.symptom.split())} words; 1 to {MAX_SYMPTOM} are shown"
    if not exhibit.links:
        yield "there is no link"
    yield from (f"{link!r} is no https address" for link in exhibit.links if not _LINK.fullmatch(link))
    for name, listed in (("rules", exhibit.rules), ("cases", exhibit.cases)):
        if not listed or len(set(listed)) != len(listed):
            yield f"{name} are missing or there twice"
    if exhibit.run:
        yield from _run_defects(exhibit.run)


def _run_defects(run: ExhibitRun) -> Iterator[str]:
    if not run.outcome or not {*run.outcome, *run.after} <= set(SEVERITIES):
        yield f"outcomes of a run are among {', '.join(SEVERITIES)}"
    if set(run.outcome) & set(run.after):
        yield "an outcome of the bad release is no outcome after it"
    try:
        re.compile(run.why)
    except re.error as error:
        yield f"why: {error}"


def _version_defects(exhibit: Exhibit) -> Iterator[str]:
    run = exhibit.run
    given = {"first_bad": exhibit.first_bad, "last_bad": exhibit.last_bad, "fixed": exhibit.fixed}
    if run:
        given |= {"bad": run.bad, "good": run.good}
    named = {name: version for name, version in given.items() if version}
    wrong = [version for version in named.values() if not _VERSION.fullmatch(version)]
    yield from (f"{version!r} is no version" for version in wrong)
    if exhibit.seen and not _SEEN.fullmatch(exhibit.seen):
        yield f"seen: {exhibit.seen!r} is neither YYYY nor YYYY-MM"
    if not (exhibit.first_bad or exhibit.last_bad or exhibit.fixed or exhibit.seen):
        yield "no release and no date says when it was there"
    if exhibit.is_open and (exhibit.fixed or (run and run.good)):
        yield "it is open, and a release without it is named"
    if run and not exhibit.is_open and not run.good:
        yield "the run names no release without it, and it is not open"
    if not wrong:
        yield from _order_defects(named)


# Of two versions that an exhibit names: the first is the lower one, or also the same one.
_ORDER: Final = (
    ("first_bad", "last_bad", True), ("first_bad", "bad", True), ("bad", "last_bad", True),
    ("first_bad", "fixed", False), ("last_bad", "fixed", False), ("bad", "fixed", False),
    ("fixed", "good", True), ("bad", "good", False), ("last_bad", "good", False),
)  # fmt: skip


def _order_defects(named: Mapping[str, str]) -> Iterator[str]:
    for low, high, same in _ORDER:
        if low in named and high in named:
            one, other = numbers(named[low]), numbers(named[high])
            if one > other or (one == other and not same):
                yield f"{low} is {named[low]}, and {high} is {named[high]}"


@cache
def exhibits() -> tuple[Exhibit, ...]:
    """All exhibits, by product.

    Raises:
        BadExhibitsError: a file has a defect, or two files have one id.
    """
    folder = files(__package__) / FOLDER
    found: list[Exhibit] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(SUFFIX):
            found += parse_exhibits(entry.read_text(encoding="utf-8"), entry.name)
    ids = [exhibit.id for exhibit in found]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise BadExhibitsError(f"{', '.join(twice)} is in two files")
    return tuple(found)


def find_exhibit(id_: str) -> Exhibit:
    """The exhibit *id_*.  Raises `UnknownExhibit`, with near ids."""
    for exhibit in exhibits():
        if exhibit.id == id_:
            return exhibit
    near = get_close_matches(id_.lower(), [exhibit.id for exhibit in exhibits()], cutoff=NEAR)
    raise UnknownExhibit(f"no exhibit {id_!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))


def corpus_defects(exhibit: Exhibit, cases: Sequence[Case], rules: Collection[str]) -> Iterator[str]:
    """Rules that do not exist, and patterns that match no case."""
    yield from (f"{exhibit.id}: there is no rule {rule}" for rule in exhibit.rules if rule not in rules)
    for pattern in dict.fromkeys((*exhibit.cases, *exhibit.run_cases)):
        if not exhibit_cases([pattern], cases):
            yield f"{exhibit.id}: no case matches {pattern}"


def exhibit_cases(patterns: Sequence[str], cases: Iterable[Case]) -> list[Case]:
    """The cases that one of *patterns* matches, in the order of the corpus."""
    # An id begins with what stands before the first star, which is quicker to compare.
    starts = [(re.split(r"[*?]", pattern, maxsplit=1)[0], pattern) for pattern in patterns]
    return [
        case
        for case in cases
        if any(case.id.startswith(start) and matches(pattern, case.id) for start, pattern in starts)
    ]


def exhibit_document(exhibit: Exhibit) -> dict[str, Any]:
    """The exhibit as JSON has it."""
    document: dict[str, Any] = msgspec.to_builtins(exhibit)
    document["symptom"] = " ".join(exhibit.symptom.split())
    del document["is_open"]
    return document | {"affected": exhibit.affected, "state": exhibit.state}
