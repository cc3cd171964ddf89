"""Several result files together: names, cases, and changes since an older run.

Only the outcome counts: another wrong outcome is `changed`.  To skip
what was answered wrong is no improvement, and to skip what was right is worse.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import msgspec

from kafka_conformance.judge.grade import grade_rank
from kafka_conformance.judge.verdict import OPEN, OUTCOMES, SEVERITIES, Outcome, outcome_rank
from kafka_conformance.reports.profiles import DEFAULT_CRITERIA, CaseProfile, FoundCause, PassCriteria, ProfileResult
from kafka_conformance.reports.summary import Report, make
from kafka_conformance.runner import kept_results, results
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.results import ResultHeader, ResultLine, Results
from kafka_conformance.sanitize import printable
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash, load_vectors

MAX_FOLDER_NAME: Final = 80
# A codec in the process of a test can only be run by that test.
IN_PROCESS: Final = "in-process"
# Characters of a command line that is shown.
MAX_COMMAND: Final = 2000


def folder_name(testee: str) -> str:
    """A directory name for *testee*; long names are cut and made unique by a hash."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", testee).strip("._") or "testee"
    if len(name) <= MAX_FOLDER_NAME and name == testee:
        return name
    return f"{name[:MAX_FOLDER_NAME]}-{hashlib.sha256(testee.encode()).hexdigest()[:8]}"


def certify_command(header: ResultHeader) -> str:
    """The command that runs the testee of *header* again, before `--only`; empty if there is none."""
    name = shlex.quote(printable(str(header.testee.get("connect") or "TESTEE"), MAX_COMMAND))
    if header.testee.get("broker"):
        against = header.settings.get("against")
        release = f" --against {shlex.quote(printable(str(against), MAX_FOLDER_NAME))}" if against else ""
        # The address of a broker that the run started is no longer there.
        start = shlex.quote(printable(str(header.settings.get("start") or ""), MAX_COMMAND))
        where = f"--start {start}" if header.settings.get("start") else f"--bootstrap {name}"
        return f"kafkaproof broker certify {where}{release}"
    return "" if name == IN_PROCESS else f"kafkaproof certify {name}"


Kind = Literal[
    "worse",  # it disagrees more gravely, or answers no more what was right
    "better",  # it disagrees less gravely, or not at all
    "changed",  # as wrong as before, in another way; or wrong before and now skipped
    "new",  # it disagrees in a case that was not sent before
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class CollectionChange:
    """One case that is not as it was; *before* is None if it was not sent then."""

    kind: Kind
    before: ResultLine | None
    now: ResultLine

    @property
    def case(self) -> str:
        """The id of the case."""
        return self.now.case


def collection_changes(old: Results, new: Results) -> tuple[CollectionChange, ...]:
    """The cases that differ, worse ones first."""
    before = {line.case: line for line in old.lines}
    found = [change for line in new.lines if (change := _change(before.get(line.case), line))]
    return tuple(sorted(found, key=lambda each: (KINDS.index(each.kind), outcome_rank(each.now.outcome), each.case)))


def _change(before: ResultLine | None, now: ResultLine) -> CollectionChange | None:
    if before is None:
        return CollectionChange("new", None, now) if now.outcome in SEVERITIES else None
    kind = _kind(before.outcome, now.outcome)
    if kind is None and now.outcome in SEVERITIES and shape(before) != shape(now):
        kind = "changed"
    return None if kind is None else CollectionChange(kind, before, now)


def _kind(before: Outcome, now: Outcome) -> Kind | None:
    if before == now:
        return None
    if before == "agree" or now == "agree":
        return "worse" if before == "agree" else "better"
    if now in OPEN:
        return "changed"
    # What is wrong now and was skipped before had not been looked at.
    return "worse" if before in OPEN or outcome_rank(now) < outcome_rank(before) else "better"


def shape(line: ResultLine) -> str:
    """Where a case is wrong, without the numbers of elements."""
    return re.sub(r"\[\d+\]", "[]", line.field)


def counts(found: Sequence[CollectionChange]) -> dict[Kind, int]:
    """How many changes there are of each kind."""
    counter = Counter(change.kind for change in found)
    return {kind: counter[kind] for kind in KINDS}


CauseChangeKind = Literal[
    "new",  # a cause that no finding had before
    "graver",  # its gravest finding has a graver grade
    "more",  # it has more cases
    "fewer",
    "milder",
    "gone",
    "open",  # it has no finding, and none of its cases is answered: no sign that it is fixed
]
CAUSE_CHANGE_KINDS: Final[tuple[CauseChangeKind, ...]] = get_args(CauseChangeKind)


@dataclass(frozen=True, slots=True)
class CauseChange:
    """A cause that is not as it was; `before` and `now` are its gravest form, None if it has no finding.

    `cases` are the numbers of its cases before and now, of all grades but INFO.
    """

    kind: CauseChangeKind
    before: FoundCause | None
    now: FoundCause | None
    cases: tuple[int, int]

    @property
    def cause(self) -> FoundCause:
        """The cause as it is now, or as it was."""
        found = self.now or self.before
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """A profile whose result is not as it was; None if it is not announced."""

    profile: CaseProfile
    before: ProfileResult | None
    now: ProfileResult | None


def cause_changes(old: Report, new: Report) -> tuple[CauseChange, ...]:
    """The causes that differ, worse ones first."""
    before, now = _causes_by_id(old), _causes_by_id(new)
    answered = {line.case for line in new.results.lines if line.outcome not in OPEN}
    found = []
    for name in before.keys() | now.keys():
        was, is_ = before.get(name, ()), now.get(name, ())
        kind = _cause_change_kind(was, is_, answered)
        if kind is not None:
            sizes = (len(_cases_of(was)), len(_cases_of(is_)))
            found.append(CauseChange(kind, next(iter(was), None), next(iter(is_), None), sizes))
    order = CAUSE_CHANGE_KINDS.index
    return tuple(sorted(found, key=lambda each: (order(each.kind), grade_rank(each.cause.grade), each.cause.id)))


def _causes_by_id(report: Report) -> dict[str, tuple[FoundCause, ...]]:
    """The forms of each cause, one for each grade, the gravest first."""
    found: dict[str, tuple[FoundCause, ...]] = {}
    for cause in report.profiled.causes:
        found[cause.id] = (*found.get(cause.id, ()), cause)
    return found


def _cases_of(forms: Iterable[FoundCause]) -> set[str]:
    return {case for form in forms for case in form.cases}


def _cause_change_kind(
    was: Sequence[FoundCause], is_: Sequence[FoundCause], answered: set[str]
) -> CauseChangeKind | None:
    if not is_:
        return "gone" if _cases_of(was) & answered else "open"
    if not was:
        return "new"
    by = grade_rank(is_[0].grade) - grade_rank(was[0].grade)
    if by:
        return "graver" if by < 0 else "milder"
    more = len(_cases_of(is_)) - len(_cases_of(was))
    return None if not more else "more" if more > 0 else "fewer"


def profile_changes(old: Report, new: Report) -> tuple[ProfileChange, ...]:
    """The profiles whose grade or number of failing cases differs, in their order."""
    before = {each.profile: each for each in old.profiled.profiles}
    now = {each.profile: each for each in new.profiled.profiles}
    names = dict.fromkeys((*before, *now))
    pairs = [ProfileChange(name, before.get(name), now.get(name)) for name in names]
    return tuple(each for each in pairs if _weight(each.before) != _weight(each.now))


def _weight(result: ProfileResult | None) -> tuple[str, int, int] | None:
    return None if result is None else (result.grade, result.fail_causes, result.required - result.passed)


def matching(new: Sequence[Results], old: Sequence[Results]) -> list[Results | None]:
    """The one of *old* that is of the same testee, for each of *new*.

    Testees are the same if their targets are the same (`NAME@VERSION` as `NAME`),
    or if name and language are equal and no other testee's are; one run and one
    other are compared regardless of their names.
    """
    if len(new) == len(old) == 1:
        return [old[0]]
    return [_partner(each, new, old) for each in new]


def _partner(one: Results, new: Sequence[Results], old: Sequence[Results]) -> Results | None:
    for key in (_connect, _name_and_language):
        mine = [each for each in new if key(each) == key(one)]
        fitting = [each for each in old if key(each) == key(one)]
        if len(mine) == len(fitting) == 1:
            return fitting[0]
    return None


def _connect(done: Results) -> str:
    connect = str(done.header.testee.get("connect"))
    return connect.partition("@")[0] if re.fullmatch(r"[a-z0-9_-]+@[^\s:/]+", connect) else connect


def _name_and_language(done: Results) -> tuple[str, str]:
    return str(done.header.testee.get("name")), str(done.header.testee.get("language"))


MAX_NAME: Final = 60
MOST_IN_A_FOLDER: Final = 500
# Beside the directories of those that were run: who was not, and why.
NOT_RUN: Final = "not-run.json"


@dataclass(frozen=True, slots=True)
class CollectionEntry:
    """One run in a report.

    Attributes:
        report: the run.
        label: its short name, unlike every other entry's.
        folder: a directory name, unlike every other entry's.
        lines: its cases by id.
        changes: what it does otherwise than a run before; None if it is compared with none.
        changed: the same by case.
        baseline: the run before; None if it is compared with none.
    """

    report: Report
    label: str
    folder: str
    lines: Mapping[str, ResultLine]
    changes: tuple[CollectionChange, ...] | None
    changed: Mapping[str, CollectionChange]
    baseline: Report | None = None

    @property
    def results(self) -> Results:
        """The result file."""
        return self.report.results

    def said(self, field: str, default: str = "") -> str:
        """The testee's description of itself, sanitized."""
        return field_of_testee(self.results, field, default)

    @property
    def version(self) -> str:
        """The version that the testee reports."""
        return self.said("version")


@dataclass(frozen=True, slots=True)
class Collection:
    """Some runs, the cases of the corpus by id, and why further testees were not run."""

    entries: tuple[CollectionEntry, ...]
    cases: Mapping[str, Case]
    corpus: str
    not_run: Mapping[str, str] = field(default_factory=dict)

    def found(self) -> list[str]:
        """Ids of the cases in which somebody disagrees, or did in the baseline, worst first."""
        worst: dict[str, int] = {}
        for entry in self.entries:
            for line in entry.results.lines:
                if line.outcome in SEVERITIES or line.case in entry.changed:
                    worst[line.case] = min(worst.get(line.case, len(OUTCOMES)), outcome_rank(line.outcome))
        return sorted(worst, key=lambda case: (worst[case], case))

    def areas(self) -> list[str]:
        """All areas of all runs."""
        return sorted({line.area for entry in self.entries for line in entry.results.lines})


def field_of_testee(done: Results, field: str, default: str = "") -> str:
    """A field of what the testee of *done* says of itself."""
    value = done.header.testee.get(field)
    return default if value is None else printable(str(value), MAX_NAME)


def files(paths: Iterable[Path]) -> list[Path]:
    """The result files among *paths*; of a directory, those in it and one level below, and kept results in it.

    Raises:
        Unusable: there are none in a directory.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = [path / results.FILE, *sorted(path.glob(f"*/{results.FILE}"))[:MOST_IN_A_FOLDER]]
        inside = [each for each in inside if each.is_file()] + kept_results.kept_files(path)
        if not inside:
            raise results.Unusable(f"{path}: there is no {results.FILE} in it")
        found += inside
    return list(dict.fromkeys(found))


def read_collection(paths: Iterable[Path], deviations: Sequence[Deviation] = ()) -> list[Report]:
    """A report on each result file.

    Raises:
        Unusable: one of them is no result.
    """
    cases = cases_by_id()
    done = [(path, kept_results.read_any_results(path, corpus_contents)) for path in files(paths)]
    return [remade(each, cases, deviations, path) for path, each in done]


@cache
def cases_by_id() -> Mapping[str, Case]:
    """The corpus of this installation, read once."""
    return MappingProxyType({case.id: case for case in load_vectors()})


@cache
def corpus_contents() -> kept_results.CorpusContents:
    """The corpus of this installation, read once."""
    return kept_results.CorpusContents.of(list(cases_by_id().values()))


def remade(
    done: Results,
    cases: Mapping[str, Case],
    deviations: Sequence[Deviation],
    path: Path,
    criteria: PassCriteria = DEFAULT_CRITERIA,
) -> Report:
    """The report on a result that was read from a file."""
    own = [cases[line.case] for line in done.lines if line.case in cases]
    return make(done, own, deviations, path, criteria)


def absent(paths: Iterable[Path]) -> dict[str, str]:
    """Testees that were not run, with the reason, from the directories among *paths*."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            found |= msgspec.json.decode((path / NOT_RUN).read_bytes(), type=dict[str, str])
        except (OSError, ValueError):
            continue  # there need not be one
    return {printable(name, MAX_NAME): printable(why) for name, why in found.items()}


def collect(
    made: Sequence[Report],
    old: Sequence[Results] = (),
    cases: Mapping[str, Case] | None = None,
    not_run: Mapping[str, str] = MappingProxyType({}),
) -> Collection:
    """The runs *made*, each compared with the one of *old* that is of the same testee."""
    labels, folders = _labels([each.results for each in made]), _folders(made)
    partners = matching([each.results for each in made], old)
    known = cases_by_id() if cases is None else cases
    entries = [
        _entry(each, label, folder, None if partner is None else _as_now(partner, each, known))
        for each, label, folder, partner in zip(made, labels, folders, partners, strict=True)
    ]
    return Collection(tuple(entries), known, corpus_hash(), not_run)


def _as_now(partner: Results, made: Report, cases: Mapping[str, Case]) -> Report:
    """The report on the run before, graded as *made* is, with the same deviations."""
    return remade(partner, cases, made.declared, made.path, made.criteria)


def _entry(made: Report, label: str, folder: str, baseline: Report | None) -> CollectionEntry:
    found = None if baseline is None else collection_changes(baseline.results, made.results)
    lines = {line.case: line for line in made.results.lines}
    return CollectionEntry(made, label, folder, lines, found, {each.case: each for each in found or ()}, baseline)


def _labels(done: Sequence[Results]) -> list[str]:
    """The shortest of name, name and language, … that is different for all of them."""
    ways: tuple[tuple[str, ...], ...] = (
        ("name",), ("name", "version"), ("name", "language"), ("name", "version", "language"), ("connect",),
    )  # fmt: skip
    for fields in ways:
        labels = [_label(each, fields) for each in done]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{_label(each, ('name', 'version'))} #{number}" for number, each in enumerate(done, 1)]


def _label(done: Results, fields: Sequence[str]) -> str:
    return " ".join(filter(None, (field_of_testee(done, field) for field in fields))) or "testee"


def _folders(made: Sequence[Report]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for each in made:
        testee: dict[str, Any] = each.results.header.testee
        name = folder_name(str(testee.get("connect") or testee.get("name") or "testee"))
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names
