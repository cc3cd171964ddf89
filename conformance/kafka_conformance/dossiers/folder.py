"""The folder of dossiers: a page for each reviewed cause, JSON, an index, and disclosure states.

undisclosed         not reported yet; the default
    reported DATE       reported to the maintainers in private, on that day
    fixed in VERSION    a release fixes it
    public              they said that it may be spoken of, or the time is over (SECURITY.md)

The first two keep everything but a summary out of the folder.

README.md                     the index, of all testees in the folder
    disclosure.toml               the states; causes that are new are added as undisclosed
    LIBRARY-VERSION/CAUSE.md      the page of a cause
    LIBRARY-VERSION/findings.json its rows, and every case with its outcome, by cause and row

Writing replaces what is there of the same libraries and versions, and leaves all else.
A folder without `disclosure.toml` starts with the states that this package holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from kafka_conformance.dossiers import pages
from kafka_conformance.dossiers.grouping import PUBLISHED, CauseGroup, LibraryDossier, library_dossiers
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


def load_states(folder: Path) -> dict[str, str]:
    """The states in *folder* by dossier id (`LIBRARY/CAUSE`); those of this package where there is no file.

    Raises:
        BadIssueList: it is no list of known issues, or a state is none of those above.
    """
    path = folder / FILE
    if not path.exists():
        path = Path(str(resources.files(__package__).joinpath(FILE)))
    states = {issue.id: issue.state for issue in load_issues(path, KnownIssue, FORMER)}
    for id_, state in states.items():
        if not _STATE.fullmatch(state):
            raise BadIssueList(f"{path}: {id_} is {state!r}, which is no state")
    return states


def is_state_open(states: Mapping[str, str], id_: str) -> bool:
    """Whether everything may be said about a dossier that is sensitive."""
    return states.get(id_, UNDISCLOSED).startswith(("public", "fixed in "))


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
    states = load_states(folder)
    written: dict[Path, bytes] = {}
    for library in found:
        for group in library.groups:
            whole = full or not group.sensitive or is_state_open(states, group.id)
            state = states.get(group.id, UNDISCLOSED)
            written[Path(library.folder, group.file)] = pages.dossier_page(group, state, whole=whole).encode()
        if library.groups or any(library.unreviewed.values()):
            written[Path(library.folder, FINDINGS)] = indented_json(findings_of(library), spaces=1)
    every = [
        load_written_findings(path)
        for path in sorted(folder.glob(f"*/{FINDINGS}"))
        if path.relative_to(folder) not in written
    ]
    every += [msgspec.json.decode(data, type=Findings) for path, data in written.items() if path.name == FINDINGS]
    known = sorted(every, key=lambda one: (one.library, one.version))
    written[Path(FILE)] = _states(states, known)
    written[Path(INDEX)] = _index(known, states)
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
"""


def _states(states: Mapping[str, str], known: Sequence[Findings]) -> bytes:
    sensitive = {each.id for one in known for each in one.dossiers if each.sensitive}
    kept = {id_: state for id_, state in states.items() if id_ in sensitive or state != UNDISCLOSED}
    every = {**dict.fromkeys(sensitive, UNDISCLOSED), **kept}
    return issue_list_text(_STATES_HEAD, (KnownIssue(id=id_, state=every[id_]) for id_ in sorted(every))).encode()


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
