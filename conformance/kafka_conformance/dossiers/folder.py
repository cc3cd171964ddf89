"""The folder of dossiers: a page for each cause, JSON, an index, and disclosure states.

undisclosed         not reported yet; the default
    reported DATE       reported to the maintainers in private, on that day
    fixed in VERSION    a release fixes it
    public              they said that it may be spoken of, or the time is over (SECURITY.md)

The first two keep everything but a summary out of the folder.

README.md                     the index, of all testees in the folder
    disclosure.toml               the states; causes that are new are added as undisclosed
    TESTEE-VERSION/NNN-cause.md   a dossier
    TESTEE-VERSION/findings.json  its testee, and every case with its outcome, by dossier

Writing replaces what is there of the same testees and versions, and leaves all else.
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
from kafka_conformance.dossiers.causes import CauseGroup, ReleasedTestee, grouped
from kafka_conformance.reports.collection import cases_by_id, corpus_contents, files
from kafka_conformance.runner.keeping import WouldReplace
from kafka_conformance.runner.kept_results import read_any_results
from kafka_conformance.runner.results import Results, Unusable
from kafka_conformance.sanitize import indented_json
from kafka_corpus.known_issues import BadIssueList, FormerFields, KnownIssue, issue_list_text, load_issues

FILE: Final = "disclosure.toml"
UNDISCLOSED: Final = "undisclosed"
# Lists of earlier releases have one table of states by id.
FORMER: Final[FormerFields] = {"states": {}}
_STATE: Final = re.compile(r"undisclosed|reported \d{4}-\d{2}-\d{2}|fixed in \S+|public")


def load_states(folder: Path) -> dict[str, str]:
    """The states in *folder* by dossier id (`TESTEE/CAUSE`); those of this package where there is no file.

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


class Dossier(msgspec.Struct, frozen=True):
    """The entry of one cause in `findings.json`."""

    id: str
    file: str
    title: str
    outcome: str
    case: str
    reach: str
    sensitive: bool
    cases: dict[str, str]


class Findings(msgspec.Struct, frozen=True):
    """One `findings.json`."""

    testee: str
    version: str
    language: str
    corpus: str
    dossiers: list[Dossier]


def read_groups(paths: Iterable[Path]) -> list[tuple[Results, list[CauseGroup]]]:
    """The results in *paths* with their findings by cause.

    Raises:
        Unusable: one is no result, or that of a broker.
    """
    found = []
    for path in files(paths):
        done = read_any_results(path, corpus_contents)
        if done.header.testee.get("broker"):
            raise Unusable(f"{path}: it is of a broker, and dossiers are about codecs")
        found.append((done, grouped(done, cases_by_id())))
    return found


def build_pages(found: Sequence[tuple[Results, list[CauseGroup]]], folder: Path, *, full: bool) -> dict[Path, bytes]:
    """Every file that is to be in *folder*, by its path in it.

    Raises:
        BadIssueList: the states of disclosure cannot be used.
    """
    states = load_states(folder)
    written: dict[Path, bytes] = {}
    for done, groups in found:
        for group in groups:
            whole = full or not group.sensitive or is_state_open(states, group.id)
            state = states.get(group.id, UNDISCLOSED)
            written[Path(group.testee.folder, group.file)] = pages.dossier_page(group, state, whole=whole).encode()
        if groups:
            written[Path(groups[0].testee.folder, FINDINGS)] = indented_json(findings_of(done, groups), spaces=1)
    every = [*_elsewhere(folder, written), *(data for path, data in written.items() if path.name == FINDINGS)]
    known = sorted(
        (msgspec.json.decode(data, type=Findings) for data in every), key=lambda one: (one.testee, one.version)
    )
    written[Path(FILE)] = _states(states, known)
    written[Path(INDEX)] = _index(known, states)
    return written


def check_covers_dossiers(found: Iterable[tuple[Results, list[CauseGroup]]], folder: Path) -> None:
    """Raise `WouldReplace` if *folder* holds more about a testee than a partial result can show."""
    for done, groups in found:
        path = folder / groups[0].testee.folder / FINDINGS if groups else None
        if path is None or not path.is_file() or (done.complete and not done.header.only):
            continue
        there = msgspec.json.decode(path.read_bytes(), type=Findings)
        lost = {case for each in there.dossiers for case in each.cases} - {line.case for line in done.lines}
        if lost:
            raise WouldReplace(
                f"{path} has findings in {len(lost):,} cases that the result of {there.testee} lacks; "
                "--out names another directory"
            )


def _elsewhere(folder: Path, written: Mapping[Path, bytes]) -> Iterator[bytes]:
    for path in sorted(folder.glob(f"*/{FINDINGS}")):
        if path.relative_to(folder) not in written:
            yield path.read_bytes()


def findings_of(done: Results, groups: Sequence[CauseGroup]) -> Findings:
    """The findings of a result by cause, as `findings.json` holds them; *groups* are not empty."""
    testee = groups[0].testee
    dossiers = [_dossier(group) for group in groups]
    return Findings(testee.name, testee.version, testee.language, done.header.corpus, dossiers)


def _dossier(group: CauseGroup) -> Dossier:
    cases = {line.case: line.outcome for line in sorted(group.lines, key=lambda line: line.case)}
    who = pages.widest(group)
    return Dossier(
        group.id, group.file, group.cause.title, group.outcome, group.case.id, who, group.sensitive, dict(cases)
    )


_STATES_HEAD: Final = """\
# Whether findings that stop a consumer were reported; SECURITY.md describes the process.
# States: undisclosed, reported YYYY-MM-DD, fixed in VERSION, public.
"""


def _states(states: Mapping[str, str], known: Sequence[Findings]) -> bytes:
    sensitive = {each.id for one in known for each in one.dossiers if each.sensitive}
    kept = {id_: state for id_, state in states.items() if id_ in sensitive or state != UNDISCLOSED}
    every = {**dict.fromkeys(sensitive, UNDISCLOSED), **kept}
    return issue_list_text(_STATES_HEAD, (KnownIssue(id=id_, state=every[id_]) for id_ in sorted(every))).encode()


_HEAD: Final = """\
# Bug dossiers

Findings of `kafkaproof certify` in released codecs, by cause. Each page is an issue for the maintainers, with the
smallest bytes, Kafka's answer to them, the peers that can send them, and a reproducer. A test runs the cases again,
so a page stays true for its version. A finding that stops a consumer (crash, hang, memory) is a summary until it was
reported ([SECURITY.md](../SECURITY.md)); `kafkaproof dossier RESULTS --full --out DIR` writes the whole page.

All of this is written by `kafkaproof dossier RESULTS --out DIR`; the states in `disclosure.toml` are set by hand.
"""

_REACH: Final = {
    "producers": "any producer",
    "some": "any producer, in part",
    "brokers": "brokers themselves",
    "hostile": "hostile broker",
    "writers": "as a writer",
    "unknown": "not measured",
}


def _index(known: Sequence[Findings], states: Mapping[str, str]) -> bytes:
    rows = [_HEAD]
    for one in known:
        total = sum(len(each.cases) for each in one.dossiers)
        rows.append(f"## {pages.plain_text(one.testee)} {pages.plain_text(one.version)}\n")
        rows.append(f"{len(one.dossiers)} causes, {total:,} cases.\n")
        rows.append("| dossier | severity | cases | reach | |\n|---|---|---|---|---|")
        for each in one.dossiers:
            state = states.get(each.id, UNDISCLOSED) if each.sensitive else ""
            link = f"[{pages.plain_text(each.title)}]({dossier_folder(one)}/{each.file})"
            rows.append(f"| {link} | {each.outcome} | {len(each.cases)} | {_REACH[each.reach]} | {state} |")
        rows.append("")
    return ("\n".join(rows).rstrip() + "\n").encode()


def dossier_folder(one: Findings) -> str:
    """The folder of a testee and version."""
    return ReleasedTestee(one.testee, one.version, one.language).folder


def differing_pages(written: Mapping[Path, bytes], folder: Path) -> list[Path]:
    """Files in *folder* that are not as *written*, missing, or left from another run of the same testee."""
    other = [path for path, data in written.items() if _content(folder / path) != data]
    return sorted([*other, *_stale(written, folder)])


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _stale(written: Mapping[Path, bytes], folder: Path) -> Iterator[Path]:
    for name in {path.parent for path in written if path.parent != Path()}:
        for path in (folder / name).glob("[0-9][0-9][0-9]-*.md"):
            if path.relative_to(folder) not in written:
                yield path.relative_to(folder)


def write_dossier_pages(written: Mapping[Path, bytes], folder: Path) -> None:
    """Make *folder* hold *written*, and nothing else of the same testees and versions."""
    for path in _stale(written, folder):
        (folder / path).unlink()
    for path, data in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
