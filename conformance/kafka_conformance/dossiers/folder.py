"""The folder of dossiers: a page for each reviewed cause, JSON, an index, and disclosure states.

undisclosed         not reported yet; the default
    reported DATE       reported to the maintainers in private, on that day
    fixed in VERSION    a release fixes it
    public              they said that it may be spoken of, or the time is over (SECURITY.md)

The first two keep everything but a summary out of the folder.  Beside a state there may be days, as "YYYY-MM-DD":
`reported`, `embargo_until` (90 days after the report if left out, 120 at most), and `published`.

README.md                     the index, of all testees in the folder
    disclosure.toml               the states; causes that are new are added as undisclosed
    LIBRARY-VERSION/CAUSE.md      the page of a cause
    LIBRARY-VERSION/findings.json its rows, and every case with its outcome, by cause and row

Writing replaces what is there of the same libraries and versions, and leaves all else.
A folder without `disclosure.toml` starts with the states that this package holds.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from gzip import decompress
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from kafka_conformance.causes import ReviewedCause, reviewed_causes
from kafka_conformance.dossiers import pages
from kafka_conformance.dossiers.grouping import PUBLISHED, CauseGroup, LibraryDossier, is_sensitive, library_dossiers
from kafka_conformance.dossiers.reproduce import has_program
from kafka_conformance.judge.grade import Effect, Grade, Profile, Reach
from kafka_conformance.reports.collection import cases_by_id, corpus_contents, files, folder_name
from kafka_conformance.runner.keeping import WouldReplace
from kafka_conformance.runner.kept_results import read_any_results
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import indented_json
from kafka_corpus.known_issues import BadIssueList, FormerFields, KnownIssue, issue_list_text, load_issues

FILE: Final = "disclosure.toml"
UNDISCLOSED: Final = "undisclosed"
# Lists of earlier releases have one table of states by id.
FORMER: Final[FormerFields] = {"states": {}}
_STATE: Final = re.compile(r"undisclosed|reported \d{4}-\d{2}-\d{2}|fixed in \S+|public")
_REPORTED: Final = "reported "
# SECURITY.md, "How long".
EMBARGO_DAYS: Final = 90
LONGEST_EMBARGO_DAYS: Final = 120


class Disclosure(KnownIssue, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The state of disclosure of one cause.

    Attributes:
        reported: the day of the report; the state `reported DATE` has it, too.
        embargo_until: the day on which everything may be published, if it was agreed.
        published: the day on which it was.
    """

    reported: date | None = None
    embargo_until: date | None = None
    published: date | None = None

    @property
    def is_open(self) -> bool:
        """Whether everything may be said about the cause."""
        return self.state.startswith(("public", "fixed in "))

    @property
    def report_day(self) -> date | None:
        """The day of the report; None if there was none."""
        text = self.state.removeprefix(_REPORTED)
        return date.fromisoformat(text) if text != self.state else self.reported

    @property
    def embargo_end(self) -> date | None:
        """The day on which everything may be published: the agreed one, or 90 days after the report."""
        if self.embargo_until is not None or self.report_day is None:
            return self.embargo_until
        return self.report_day + timedelta(days=EMBARGO_DAYS)

    def dates(self) -> dict[str, str]:
        """The days that are known, by name."""
        found = {"reported": self.report_day, "embargo until": self.embargo_end, "published": self.published}
        return {name: day.isoformat() for name, day in found.items() if day is not None}

    def summary(self) -> str:
        """State and days on one line."""
        days = [f"{name} {day}" for name, day in self.dates().items() if f"{name} {day}" != self.state]
        return "; ".join([self.state, *days])

    def problem(self) -> str:
        """Why state and days do not fit each other, or the policy; empty if they do."""
        if not _STATE.fullmatch(self.state):
            return f"is {self.state!r}, which is no state"
        try:
            day = self.report_day
            end = self.embargo_end
        except (ValueError, OverflowError):
            return f"is {self.state!r}, and there is no such day"
        if self.reported not in (None, day):
            return f"was reported on {day} by its state, and on {self.reported} besides"
        if end is not None and (day is None or not day <= end <= day + timedelta(days=LONGEST_EMBARGO_DAYS)):
            return f"has an embargo until {end}; it ends at most {LONGEST_EMBARGO_DAYS} days after the report"
        if self.published is not None and not self.is_open:
            return f"was published on {self.published}, and its state is {self.state!r}"
        return ""


def load_disclosures(folder: Path | None = None) -> dict[str, Disclosure]:
    """The entries in *folder* by dossier id (`LIBRARY/CAUSE`); those of this package where there is no file.

    Raises:
        BadIssueList: it is no list of known issues, or the state or the days of an entry cannot be.
    """
    path = Path(str(resources.files(__package__).joinpath(FILE)))
    if folder is not None and (folder / FILE).exists():
        path = folder / FILE
    found = {entry.id: entry for entry in load_issues(path, Disclosure, FORMER)}
    for id_, entry in found.items():
        if problem := entry.problem():
            raise BadIssueList(f"{path}: {id_} {problem}")
    return found


def load_states(folder: Path) -> dict[str, str]:
    """The states in *folder* by dossier id.  Raises `BadIssueList` as `load_disclosures` does."""
    return {id_: entry.state for id_, entry in load_disclosures(folder).items()}


def is_state_open(states: Mapping[str, str], id_: str) -> bool:
    """Whether everything may be said about a dossier that is sensitive."""
    return Disclosure(state=states.get(id_, UNDISCLOSED)).is_open


def is_embargoed(disclosures: Mapping[str, Disclosure], library: str, cause: ReviewedCause) -> bool:
    """Whether no more than a summary of *cause* may be published."""
    entry = disclosures.get(f"{library}/{cause.id}")
    return is_sensitive(cause) and not (entry is not None and entry.is_open)


# In a page of `kafkaproof report`: its reproducers by LIBRARY/CAUSE, as `reports.html.packed_json` writes them.
_PROGRAMS: Final = re.compile(r"<script[^>]*\bid=\"programs\"[^>]*>\s*([A-Za-z0-9+/=\s]*)</script>")
_DOSSIER_ID: Final = re.compile(r"^\| Dossier \| `([^`]+)` \|$", re.MULTILINE)


def embargoed_pages(folder: Path, disclosures: Mapping[str, Disclosure]) -> tuple[list[tuple[Path, str]], int]:
    """Pages below *folder* that publish an embargoed cause whole, each with the dossier's id; and the pages looked at.

    These are pages of `dossier` with bytes or a reproducer, and pages of `report` with a reproducer.
    """
    embargoed = {
        f"{library}/{cause.id}"
        for library, causes in reviewed_causes().items()
        for cause in causes
        if is_embargoed(disclosures, library, cause)
    }
    found, looked_at = [], 0
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".md", ".html") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if not (_DOSSIER_ID if path.suffix == ".md" else _PROGRAMS).search(text):
                continue
            looked_at += 1
            shown = _whole_dossiers(text) if path.suffix == ".md" else _reproducers(text)
            found += [(path, id_) for id_ in sorted(embargoed & shown)]
    return found, looked_at


def _whole_dossiers(text: str) -> set[str]:
    is_whole = pages.BYTES_TITLE in text or pages.REPRODUCER_TITLE in text
    return set(_DOSSIER_ID.findall(text)) if is_whole else set()


def _reproducers(text: str) -> set[str]:
    match = _PROGRAMS.search(text)
    if match is None:
        return set()
    try:
        return set(msgspec.json.decode(decompress(b64decode(match[1])), type=dict[str, msgspec.Raw]))
    except (ValueError, OSError, EOFError):
        return set()  # no page of ours


FINDINGS: Final = "findings.json"
INDEX: Final = "README.md"


class DossierEntry(msgspec.Struct, frozen=True):
    """The entry of one cause in `findings.json`; *cases* are outcomes by row and case, *row* is that of *case*."""

    id: str
    file: str
    title: str
    grade: Grade
    effect: Effect
    reach: Reach
    profiles: list[Profile]
    row: str
    case: str
    sensitive: bool
    cases: dict[str, dict[str, str]]


class RowEntry(msgspec.Struct, frozen=True):
    """One row of the matrix in `findings.json`."""

    name: str
    version: str
    language: str
    corpus: str


class Findings(msgspec.Struct, frozen=True):
    """One `findings.json`: *unreviewed* counts findings without a page, by grade."""

    library: str
    version: str
    rows: list[RowEntry]
    unreviewed: dict[Grade, int]
    dossiers: list[DossierEntry]


def read_dossiers(paths: Iterable[Path]) -> list[LibraryDossier]:
    """The results in *paths*, by library and reviewed cause.

    Raises:
        Unusable: one is no result, or that of a broker.
    """
    results = []
    for path in files(paths):
        done = read_any_results(path, corpus_contents)
        if done.header.testee.get("broker"):
            raise Unusable(f"{path}: it is of a broker, and dossiers are about codecs")
        results.append(done)
    return library_dossiers(results, cases_by_id(), has_program)


def build_pages(found: Sequence[LibraryDossier], folder: Path, *, full: bool) -> dict[Path, bytes]:
    """Every file that is to be in *folder*, by its path in it.

    Raises:
        BadIssueList: the states of disclosure cannot be used.
        Unusable: a `findings.json` in *folder* is of another release of this command.
    """
    disclosures = load_disclosures(folder)
    written: dict[Path, bytes] = {}
    for library in found:
        for group in library.groups:
            entry = disclosures.get(group.id, Disclosure(state=UNDISCLOSED))
            whole = full or not group.sensitive or entry.is_open
            written[Path(library.folder, group.file)] = pages.dossier_page(group, entry.summary(), whole=whole).encode()
        if library.groups or any(library.unreviewed.values()):
            written[Path(library.folder, FINDINGS)] = indented_json(findings_of(library), spaces=1)
    every = [
        load_written_findings(path)
        for path in sorted(folder.glob(f"*/{FINDINGS}"))
        if path.relative_to(folder) not in written
    ]
    every += [msgspec.json.decode(data, type=Findings) for path, data in written.items() if path.name == FINDINGS]
    known = sorted(every, key=lambda one: (one.library, one.version))
    written[Path(FILE)] = _states(disclosures, known)
    written[Path(INDEX)] = _index(known, {id_: entry.summary() for id_, entry in disclosures.items()})
    return written


def load_written_findings(path: Path) -> Findings:
    """A `findings.json`.

    Raises:
        Unusable: it has another layout, as earlier releases of this command wrote it.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Findings)
    except msgspec.MsgspecError as error:
        raise Unusable(f"{path} was written by another release of `kafkaproof dossier`; delete its folder") from error


def check_covers_dossiers(found: Iterable[LibraryDossier], folder: Path) -> None:
    """Raise `WouldReplace` if *folder* holds more about a library than these results can show."""
    for library in found:
        path = folder / library.folder / FINDINGS
        if not path.is_file():
            continue
        there = load_written_findings(path)
        cases = {(row, case) for each in there.dossiers for row, some in each.cases.items() for case in some}
        lost = {(row, case) for row, case in cases if not _covers(library, row, case)}
        if lost:
            rows = ", ".join(sorted({row for row, _ in lost}))
            raise WouldReplace(
                f"{path} has findings in {len(lost):,} cases that the results lack ({rows}); "
                "--out names another directory"
            )


def _covers(library: LibraryDossier, row: str, case: str) -> bool:
    if row not in library.cases:
        return False
    some = library.cases[row]
    return some is None or case in some


def findings_of(library: LibraryDossier) -> Findings:
    """The findings of a library by cause, as `findings.json` holds them."""
    return Findings(
        library=library.name,
        version=library.release,
        rows=[RowEntry(row.name, row.version, row.language, row.corpus) for row in library.rows],
        unreviewed=dict(library.unreviewed),
        dossiers=[dossier_entry(group) for group in library.groups],
    )


def dossier_entry(group: CauseGroup) -> DossierEntry:
    """The entry of a cause in `findings.json`."""
    cases: dict[str, dict[str, str]] = {row.name: {} for row in group.rows}
    for each in sorted(group.findings, key=lambda each: each.finding.case.id):
        cases[each.row.name][each.finding.case.id] = each.finding.line.outcome
    return DossierEntry(
        id=group.id,
        file=group.file,
        title=group.cause.title,
        grade=group.grade,
        effect=group.cause.effect,
        reach=group.reach,
        profiles=list(group.cause.profiles),
        row=group.row.name,
        case=group.case.id,
        sensitive=group.sensitive,
        cases=cases,
    )


_STATES_HEAD: Final = """\
# Whether causes that stop a consumer were reported; SECURITY.md describes the process.
# States: undisclosed, reported YYYY-MM-DD, fixed in VERSION, public.
# Days, as "YYYY-MM-DD": reported, embargo_until (90 days after the report if left out), published.
"""


def _states(disclosures: Mapping[str, Disclosure], known: Sequence[Findings]) -> bytes:
    sensitive = {each.id for one in known for each in one.dossiers if each.sensitive}
    kept = {id_: entry for id_, entry in disclosures.items() if id_ in sensitive or entry.state != UNDISCLOSED}
    every = {**{id_: Disclosure(id=id_, state=UNDISCLOSED) for id_ in sensitive}, **kept}
    return issue_list_text(_STATES_HEAD, (every[id_] for id_ in sorted(every))).encode()


_HEAD: Final = """\
# Bug dossiers

Reviewed causes of findings of `kafkaproof certify` in released libraries: those of grade FAIL first, by reach, then
those of grade HOSTILE. Each page is an issue for the maintainers, with the source location, the smallest bytes, Kafka's
answer to them, and a reproducer. A cause that stops a consumer (crash, stuck, memory) is a summary until it was
reported ([SECURITY.md](../SECURITY.md)). Findings without a reviewed cause have no page.

All of this is written by `kafkaproof dossier RESULTS --out DIR`; the states in `disclosure.toml` are set by hand.
"""


def _index(known: Sequence[Findings], states: Mapping[str, str]) -> bytes:
    rows = [_HEAD]
    for one in known:
        rows.append(f"## {pages.plain_text(one.library)} {pages.plain_text(one.version)}\n")
        rows.append(_summary(one) + "\n")
        if one.dossiers:
            rows.append("| cause | grade | effect | reach | cases | |\n|---|---|---|---|---|---|")
        for each in one.dossiers:
            state = states.get(each.id, UNDISCLOSED) if each.sensitive else ""
            link = f"[{pages.plain_text(each.title)}]({dossier_folder(one)}/{each.file})"
            cases = len({case for some in each.cases.values() for case in some})
            rows.append(f"| {link} | {each.grade} | {each.effect} | {each.reach} | {cases} | {state} |")
        if one.dossiers:
            rows.append("")
    return ("\n".join(rows).rstrip() + "\n").encode()


def _summary(one: Findings) -> str:
    """The rows and the counts of a library, as `Rows: a, b. 5 causes FAIL, 2 HOSTILE; unreviewed: 3 findings FAIL.`."""
    counts = ", ".join(f"{sum(each.grade == grade for each in one.dossiers)} {grade}" for grade in PUBLISHED)
    left = [f"{count:,} {grade}" for grade, count in one.unreviewed.items() if count]
    unreviewed = f" Unreviewed findings, without a page: {', '.join(left)}." if left else ""
    return f"Rows: {', '.join(pages.plain_text(row.name) for row in one.rows)}. Causes: {counts}.{unreviewed}"


def dossier_folder(one: Findings) -> str:
    """The folder of a library and version."""
    return folder_name(f"{one.library}-{one.version}")


def differing_pages(written: Mapping[Path, bytes], folder: Path) -> list[Path]:
    """Files in *folder* that are not as *written*, missing, or left from another run of the same library."""
    other = [path for path, data in written.items() if _content(folder / path) != data]
    return sorted([*other, *_stale(written, folder)])


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _stale(written: Mapping[Path, bytes], folder: Path) -> Iterator[Path]:
    for name in {path.parent for path in written if path.parent != Path()}:
        for path in (folder / name).glob("*.md"):
            if path.relative_to(folder) not in written:
                yield path.relative_to(folder)


def write_dossier_pages(written: Mapping[Path, bytes], folder: Path) -> None:
    """Make *folder* hold *written*, and no other page of the same libraries and versions."""
    for path in _stale(written, folder):
        (folder / path).unlink()
    for path, data in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
