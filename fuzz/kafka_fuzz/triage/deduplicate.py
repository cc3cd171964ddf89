"""Finds folded: across campaigns and shards by key, then by what they come down to.

    DIR/triage/finds.ndjson      one `Folded` a line, the worst first
    DIR/triage/rounds.json       how many rounds had been when it was written
    DIR/previous                 the list of the night before
    DIR/triage/NAME.md, .bin     each for people, and its bytes

Keys have no lines in them.  They have the fault of the input, and several faults may
have one cause: then they are one finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from kafka_conformance.judge.verdict import Severity, outcome_rank
from kafka_corpus.case import Expectation
from kafka_fuzz.campaign.plan import read_log
from kafka_fuzz.findings import FuzzFinding, TargetMode, finding_input, finding_name, read_findings, write_atomically
from kafka_fuzz.shrink.tree import shape_of
from kafka_fuzz.targets.outcome import Outcome, normal, severity

FOLDER: Final = "triage"
FILE: Final = "finds.ndjson"
PREVIOUS: Final = "previous"
# Shrunk findings as they are done: a killed triage loses only the finding in progress.
UNDER_WAY: Final = "under-way.ndjson"
ROUNDS: Final = "rounds.json"
KNOWN: Final = "it is known"
SMALLER: Final = "a smaller find of its cause is reduced in its place"
# new: not there last night.  known: it was, or somebody listed it.  gone: it was, and its input shows it no more.
State = Literal["new", "known", "gone"]


class TriagedFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A find after triage.

    Attributes:
        name: of its files.
        key: the one that it goes by, of those that are folded into it.
        inputs: all of them, each with the SHA-256 of the input that showed it.
        state: beside last night.
        outcome: of the reduced input, or of the first one where that was not shown again.
        data: the reduced input.
        found: size of the smallest input that was found.
        right: the reference's verdict on *data*: `ok`, or kind and rule.
        count: how often it was seen.
        version: of the target, in which it was shown last.
        seconds, profile, labels: of the finding.
        also: other targets with the same class of finding, and the same bytes.
        why_not: why *data* is not reduced.
        known_by: the list or the case by which it is already known.
        cause: what it goes under, with others of its target.
        asked: as in `Finding`.
        verdicts: what others make of *data*, as they did of the input that was found.
        left_out: the co-testees whose verdict was allowed to change, and why.
        names, vector, expected: as in `Find`.
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
    asked: TargetMode = ""
    verdicts: dict[str, str] = {}
    left_out: dict[str, str] = {}
    names: tuple[str, ...] = ()
    vector: tuple[str, ...] = ()
    expected: Expectation | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that are folded into it."""
        return tuple(self.inputs)

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

    find: FuzzFinding
    data: bytes

    def beside(self, other: Smallest) -> Smallest:
        """The smaller of the two, with the count of both."""
        smaller = other if len(other.data) < len(self.data) else self
        find = msgspec.structs.replace(smaller.find, count=self.find.count + other.find.count)
        return Smallest(find, smaller.data)


def gathered(roots: Iterable[Path]) -> dict[str, Smallest]:
    """The findings of all campaigns by key, counts added up."""
    found: dict[str, Smallest] = {}
    for root in roots:
        for find in read_findings(root):
            try:
                data = finding_input(root, find)
            except OSError:
                continue  # a campaign was killed between two writes
            new, old = Smallest(find, data), found.get(find.key)
            found[find.key] = new if old is None else old.beside(new)
    return found


def deduplicate(finds: Iterable[TriagedFinding], went_by: Collection[str] = ()) -> list[TriagedFinding]:
    """Those of one target that come to the same, as one; the worst first.

    One goes by the first of its keys, or by one of those that finds *went_by* before.
    """
    groups: dict[tuple[str, ...], list[TriagedFinding]] = {}
    for each in finds:
        groups.setdefault(sameness(each), []).append(each)
    return sorted((_one(group, went_by) for group in groups.values()), key=finding_order)


def sameness(each: TriagedFinding) -> tuple[str, ...]:
    """The fields that are equal for findings of one cause.

    The function where there is one; else what was said, the reference's verdict, and
    which formats are left in the input.
    """
    outcome = each.outcome
    if each.why_not not in ("", KNOWN, SMALLER):
        return (each.key,)
    if outcome.function:
        return outcome.target, outcome.kind, outcome.detail, outcome.function
    formats = " ".join(f"v{entry.magic} {entry.codec}" for entry in shape_of(each.data).entries)
    return outcome.target, outcome.kind, outcome.detail, normal(outcome.why), each.right, formats


def finding_order(each: TriagedFinding) -> tuple[int, str, int, str]:
    """The worst first, then the smallest."""
    return outcome_rank(each.severity), each.outcome.target, len(each.data), each.key


def by_cause(finds: Iterable[TriagedFinding]) -> dict[tuple[str, str], list[TriagedFinding]]:
    """Finds by target and cause, in the order in which the first of each comes."""
    groups: dict[tuple[str, str], list[TriagedFinding]] = {}
    for each in finds:
        groups.setdefault((each.outcome.target, each.cause), []).append(each)
    return groups


def smallest(finds: Iterable[TriagedFinding]) -> TriagedFinding:
    """The one that shows a cause best: new before known, reduced before not, then by size."""
    states = ("new", "known", "gone")
    return min(finds, key=lambda each: (states.index(each.state), bool(each.why_not), len(each.data), each.key))


def _one(group: list[TriagedFinding], went_by: Collection[str]) -> TriagedFinding:
    first = min(group, key=lambda each: (each.state == "new", each.found, each.key))
    # A smaller input, or another one that is reduced, changes nothing about its name.
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


def related(finds: list[TriagedFinding]) -> list[TriagedFinding]:
    """Each with the other targets that the same bytes show the same class of finding in."""
    targets: dict[tuple[bytes, str], set[str]] = {}
    for each in finds:
        targets.setdefault((each.data, each.outcome.kind), set()).add(each.outcome.target)
    return [
        msgspec.structs.replace(each, also=tuple(sorted(targets[each.data, each.outcome.kind] - {each.outcome.target})))
        for each in finds
    ]


class Last(NamedTuple):
    """The keys of the previous triage: of open findings, and of findings that were gone."""

    open: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def last_keys(against: Path) -> Last:
    """All keys of an older campaign, or of the list of its triage; ValueError where there is neither."""
    if not against.is_file() and not against.is_dir():
        raise ValueError(f"{against} is neither a campaign nor a list of finds")
    listed = read_finding_list(against) if against.is_file() else read_triage(against)
    gone = frozenset(key for each in listed if not each.open for key in each.keys)
    found = frozenset(find.key for find in read_findings(against))
    return Last(frozenset(key for each in listed if each.open for key in each.keys) | (found - gone), gone)


def last_night(root: Path) -> Path | None:
    """The default baseline of `triage`, the folder `previous`; None if there is no earlier triage.

    It is the list of the last triage, if rounds were logged since it was written; or a campaign that the user
    put there.
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
    """How many rounds the log had when the list was written; before lists had that beside them, none."""
    try:
        return msgspec.json.decode((root / FOLDER / ROUNDS).read_bytes(), type=int)
    except (FileNotFoundError, msgspec.MsgspecError):
        return 0


def read_triage(root: Path) -> list[TriagedFinding]:
    """The findings that triage wrote in the campaign at *root*; empty if it never ran."""
    path = root / FOLDER / FILE
    return read_finding_list(path) if path.is_file() else []


def finding_named(name: str, finds: Iterable[TriagedFinding]) -> TriagedFinding:
    """The one of *finds* whose name begins with *name*; ValueError where there is none, or more."""
    some = [find for find in finds if find.name.startswith(name)]
    if len(some) != 1:
        raise ValueError(f"{len(some) or 'no'} finds begin with {name!r}; is triage done?")
    return some[0]


def read_finding_list(path: Path) -> list[TriagedFinding]:
    """A list that triage wrote; ValueError where it is none."""
    try:
        return msgspec.json.Decoder(TriagedFinding).decode_lines(path.read_bytes())
    except (msgspec.MsgspecError, OSError) as error:
        raise ValueError(f"{path} is no list of findings: {error}") from error


def write_triage(root: Path, finds: Sequence[TriagedFinding]) -> Path:
    """Write the list, and how many rounds it is about: `last_night` keeps it when there are more."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, b"".join(msgspec.json.encode(each) + b"\n" for each in finds))
    for each in finds:
        write_atomically(folder / f"{each.name}.bin", each.data)
    write_atomically(folder / ROUNDS, msgspec.json.encode(_rounds(root)))
    (folder / UNDER_WAY).unlink(missing_ok=True)
    return folder / FILE
