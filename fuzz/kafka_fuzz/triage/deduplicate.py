"""Findings deduplicated: across campaigns and shards by key, then by their cause.

    DIR/triage/finds.ndjson      one `TriagedFinding` a line, the worst first
    DIR/triage/rounds.json       the number of rounds in the log when the list was written
    DIR/previous                 the list of the night before
    DIR/triage/NAME.md, .bin     a page for each finding, and its input

Keys have no line numbers.  They have the fault of the input; findings of several faults
with one cause become one finding.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from kafka_conformance.judge.verdict import Severity, outcome_rank
from kafka_corpus.case import Expectation
from kafka_fuzz.campaign.plan import read_log
from kafka_fuzz.findings import (
    FuzzFinding,
    TargetMode,
    finding_input,
    finding_name,
    inputs_of_other_kinds,
    read_findings,
    with_current_fields,
    write_atomically,
)
from kafka_fuzz.shrink.tree import shape_of
from kafka_fuzz.targets.outcome import Outcome, normalized_message, severity

FOLDER: Final = "triage"
FILE: Final = "finds.ndjson"
PREVIOUS: Final = "previous"
# Shrunk findings as they are done: a killed triage loses only the finding in progress.
UNDER_WAY: Final = "under-way.ndjson"
ROUNDS: Final = "rounds.json"
KNOWN: Final = "it is known"
SMALLER: Final = "a smaller finding of its cause is shrunk in its place"
LATE: Final = "the time for shrinking was over; the next triage shrinks it"
# new: not there last night.  known: there last night, or in a list.  gone: known, and its input no longer shows it.
State = Literal["new", "known", "gone"]


class TriagedFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding after triage.

    Attributes:
        name: of its files.
        key: one of its keys, which names it.
        inputs: its keys, each with the SHA-256 of the input that showed it.
        state: compared with last night.
        outcome: of the shrunk input, or of the original one if its replay failed.
        data: the shrunk input.
        found: size in bytes of the smallest input that was found.
        right: the reference's verdict on *data*: `ok`, or kind and rule.
        count: how often it was seen.
        version: the last version of the target that showed it.
        seconds, profile, labels: as in `FuzzFinding`.
        also: other targets with the same class of finding for the same bytes.
        why_not: why *data* is not shrunk.
        known_by: the list or the case by which it is already known.
        cause: its heading, which it shares with others of its library.
        library: whose code it is about; empty in lists of earlier versions.
        reviewed: the id of its reviewed cause; empty for none.
        mode: as in `FuzzFinding`.
        verdicts: of co-testees on *data*, equal to those on the input that was found.
        left_out: the co-testees whose verdict was allowed to change, and why.
        names, outcomes, expected: as in `FuzzFinding`.
    """

    name: str
    key: str
    inputs: dict[str, str]
    state: State
    outcome: Outcome
    data: bytes
    found: int
    right: str
    count: int
    version: str = ""
    seconds: float = 0.0
    profile: str = ""
    labels: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    why_not: str = ""
    known_by: str = ""
    cause: str = ""
    library: str = ""
    reviewed: str = ""
    mode: TargetMode = ""
    verdicts: dict[str, str] = {}
    left_out: dict[str, str] = {}
    names: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    expected: Expectation | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """All its keys, as campaigns have them."""
        return tuple(dict.fromkeys(map(plain_key, self.inputs)))

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return severity(self.outcome.kind)

    @property
    def open(self) -> bool:
        """Whether it is still there."""
        return self.state != "gone"


class Smallest(msgspec.Struct, frozen=True):
    """A finding with the smallest input that any campaign has for its key."""

    finding: FuzzFinding
    data: bytes

    def beside(self, other: Smallest) -> Smallest:
        """The smaller of the two, with the sum of both counts."""
        smaller = other if len(other.data) < len(self.data) else self
        finding = msgspec.structs.replace(smaller.finding, count=self.finding.count + other.finding.count)
        return Smallest(finding, smaller.data)


def gathered(roots: Iterable[Path]) -> dict[str, Smallest]:
    """The findings of all campaigns by key, counts added up."""
    found: dict[str, Smallest] = {}
    for root in roots:
        for finding in read_findings(root):
            try:
                data = finding_input(root, finding)
            except OSError:
                continue  # a campaign was killed between two writes
            new, old = Smallest(finding, data), found.get(finding.key)
            found[finding.key] = new if old is None else old.beside(new)
            for each in further_inputs(root, finding):
                found.setdefault(each.finding.key, each)
    return found


def further_inputs(root: Path, finding: FuzzFinding) -> Iterator[Smallest]:
    """Other kinds of inputs that show *finding*, under keys with their numbers; their causes may differ."""
    for number, (other, data) in enumerate(inputs_of_other_kinds(root, finding), 2):
        named = msgspec.structs.replace(
            finding, key=f"{finding.key}|input {number}", sha256=other.sha256, size=other.size, count=0,
            labels=other.labels, outcomes=(), others=(),
        )  # fmt: skip
        yield Smallest(named, data)


def deduplicate(findings: Iterable[TriagedFinding], went_by: Collection[str] = ()) -> list[TriagedFinding]:
    """Findings of one target with the same cause become one; the worst first.

    A finding is named by the first of its keys; a key that named one before (*went_by*) takes precedence.
    """
    groups: dict[tuple[str, ...], list[TriagedFinding]] = {}
    for each in findings:
        groups.setdefault(sameness(each), []).append(each)
    return sorted((_one(group, went_by) for group in groups.values()), key=finding_order)


# What ends the key of a further input of a finding, in triage alone.
_FURTHER: Final = re.compile(r"\|input \d+$")


def plain_key(key: str) -> str:
    """The key of a finding without the number of one of its further inputs.

    >>> plain_key("mine|crash|signal 11|f|input 2")
    'mine|crash|signal 11|f'
    """
    return _FURTHER.sub("", key)


def sameness(each: TriagedFinding) -> tuple[str, ...]:
    """The fields that are equal for findings of one cause.

    The function if there is one; else the error text, the reference's verdict, and
    the formats in the shrunk input.
    """
    outcome = each.outcome
    if each.why_not not in ("", KNOWN, SMALLER, LATE):
        return (each.key,)
    if outcome.function:
        return outcome.target, outcome.kind, outcome.detail, outcome.function, each.cause
    formats = " ".join(f"v{entry.magic} {entry.codec}" for entry in shape_of(each.data).entries)
    why = normalized_message(outcome.why)
    return outcome.target, outcome.kind, outcome.detail, why, each.right, formats, each.cause


def finding_order(each: TriagedFinding) -> tuple[int, str, int, str]:
    """The worst first, then the smallest."""
    return outcome_rank(each.severity), each.outcome.target, len(each.data), each.key


def by_cause(findings: Iterable[TriagedFinding]) -> dict[tuple[str, str], list[TriagedFinding]]:
    """Findings by library and heading, in the order of the first one of each."""
    groups: dict[tuple[str, str], list[TriagedFinding]] = {}
    for each in findings:
        groups.setdefault((each.library or each.outcome.target, each.cause), []).append(each)
    return groups


def smallest(findings: Iterable[TriagedFinding]) -> TriagedFinding:
    """The finding that shows a cause best: new before known, shrunk before not, then by size."""
    states = ("new", "known", "gone")
    return min(findings, key=lambda each: (states.index(each.state), bool(each.why_not), len(each.data), each.key))


def _one(group: list[TriagedFinding], went_by: Collection[str]) -> TriagedFinding:
    first = min(group, key=lambda each: (each.state == "new", bool(each.why_not), each.found, each.key))
    # Another input, or a smaller one, does not change the name.
    key = min((each.key for each in group), key=lambda key: (key not in went_by, key))
    states: list[State] = [each.state for each in group]
    return msgspec.structs.replace(
        first,
        name=finding_name(key),
        key=key,
        inputs=dict(sorted(pair for each in group for pair in each.inputs.items())),
        count=sum(each.count for each in group),
        state="known" if "known" in states else "new" if "new" in states else "gone",
    )


def related(findings: list[TriagedFinding]) -> list[TriagedFinding]:
    """Each with the other targets that show the same class of finding for the same bytes."""
    targets: dict[tuple[bytes, str], set[str]] = {}
    for each in findings:
        targets.setdefault((each.data, each.outcome.kind), set()).add(each.outcome.target)
    return [
        msgspec.structs.replace(each, also=tuple(sorted(targets[each.data, each.outcome.kind] - {each.outcome.target})))
        for each in findings
    ]


class Last(NamedTuple):
    """The keys of the previous triage: of open findings, and of findings that were gone."""

    open: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def last_keys(against: Path) -> Last:
    """All keys of an older campaign or of the list of its triage; ValueError if *against* is neither."""
    if not against.is_file() and not against.is_dir():
        raise ValueError(f"{against} is neither a campaign nor a list of findings")
    listed = read_finding_list(against) if against.is_file() else read_triage(against)
    gone = frozenset(key for each in listed if not each.open for key in each.keys)
    found = frozenset(finding.key for finding in read_findings(against))
    return Last(frozenset(key for each in listed if each.open for key in each.keys) | (found - gone), gone)


def last_night(root: Path) -> Path | None:
    """The default baseline of `triage`, the folder `previous`; None if there is no earlier triage.

    That is the list of the last triage, if rounds were logged since then, or a campaign that the user put there.
    """
    listed, previous = root / FOLDER / FILE, root / PREVIOUS
    if listed.is_file() and not previous.is_dir() and is_stale(root):
        write_atomically(previous, listed.read_bytes())
    return previous if previous.exists() else None


def is_stale(root: Path) -> bool:
    """Whether the campaign at *root* went on since triage, or had none."""
    return not (root / FOLDER / FILE).is_file() or _rounds_at(root) != _rounds(root)


def _rounds(root: Path) -> int:
    return sum(1 for _ in read_log(root))


def _rounds_at(root: Path) -> int:
    """The number of rounds in the log when the list was written; 0 if the file is missing."""
    try:
        return msgspec.json.decode((root / FOLDER / ROUNDS).read_bytes(), type=int)
    except (FileNotFoundError, msgspec.MsgspecError):
        return 0


def read_triage(root: Path) -> list[TriagedFinding]:
    """The findings that triage wrote in the campaign at *root*; empty if it never ran."""
    path = root / FOLDER / FILE
    return read_finding_list(path) if path.is_file() else []


def finding_named(name: str, findings: Iterable[TriagedFinding]) -> TriagedFinding:
    """The one of *findings* whose name begins with *name*; ValueError if there is none, or more than one."""
    some = [finding for finding in findings if finding.name.startswith(name)]
    if len(some) != 1:
        raise ValueError(f"{len(some) or 'no'} findings begin with {name!r}; is triage done?")
    return some[0]


def read_finding_list(path: Path) -> list[TriagedFinding]:
    """A list that triage wrote; ValueError if it is malformed."""
    try:
        return msgspec.json.Decoder(TriagedFinding).decode_lines(with_current_fields(path.read_bytes()))
    except (msgspec.MsgspecError, OSError) as error:
        raise ValueError(f"{path} is no list of findings: {error}") from error


def write_triage(root: Path, findings: Sequence[TriagedFinding]) -> None:
    """Write the list with the number of rounds that it is about; with more rounds, `last_night` keeps it."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, b"".join(msgspec.json.encode(each) + b"\n" for each in findings))
    for each in findings:
        write_atomically(folder / f"{each.name}.bin", each.data)
    write_atomically(folder / ROUNDS, msgspec.json.encode(_rounds(root)))
    (folder / UNDER_WAY).unlink(missing_ok=True)
