"""Finds folded: across campaigns and shards by key, then by what they come down to.

    DIR/triage/finds.ndjson      one `Folded` a line, the worst first
    DIR/triage/NAME.md, .bin     each for people, and its bytes

Keys have no lines in them.  They have the lie that was told, and several lies may
come down to one cause: then they are one find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Literal

import msgspec

from kafka_conformance.judge import rank
from kafka_conformance.severity import Severity
from kafka_fuzz.asking import NoTarget, asking
from kafka_fuzz.campaign.known import News, news_of
from kafka_fuzz.finds import Asked, Find, input_of, name_of, put, read_all
from kafka_fuzz.outcome import Outcome, severity
from kafka_fuzz.reduce import Budget, NotShown
from kafka_fuzz.reduce.predicates import reference_verdict
from kafka_fuzz.reduce.shapes import shape_of
from kafka_fuzz.signature import normal
from kafka_fuzz.triage.causes import cause_of

FOLDER: Final = "triage"
FILE: Final = "finds.ndjson"
PREVIOUS: Final = "previous"
# What is reduced, as it is: who kills triage loses the find that was at work.
UNDER_WAY: Final = "under-way.ndjson"
KNOWN: Final = "it is known"
SMALLER: Final = "a smaller find of its cause is reduced in its place"
# new: not there last night.  known: it was, or somebody listed it.  gone: it was, and its input shows it no more.
State = Literal["new", "known", "gone"]


class Folded(msgspec.Struct, frozen=True, omit_defaults=True):
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
        version, seconds, profile, labels: of the find.
        also: other targets with the same class of find, and the same bytes.
        why_not: why *data* is not reduced.
        known_by: what says that it is no news: a list, or a case of the corpus.
        cause: what it goes under, with others of its target.
        asked: as in `Find`.
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
    asked: Asked = ""

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
    """A find with the smallest input that any campaign has for its key."""

    find: Find
    data: bytes

    def beside(self, other: Smallest) -> Smallest:
        """The smaller of the two, with the count of both."""
        smaller = other if len(other.data) < len(self.data) else self
        find = msgspec.structs.replace(smaller.find, count=self.find.count + other.find.count)
        return Smallest(find, smaller.data)


def gathered(roots: Iterable[Path]) -> dict[str, Smallest]:
    """The finds of all campaigns by key, counts added up."""
    found: dict[str, Smallest] = {}
    for root in roots:
        for find in read_all(root):
            try:
                data = input_of(root, find)
            except OSError:
                continue  # a campaign was killed between two writes
            new, old = Smallest(find, data), found.get(find.key)
            found[find.key] = new if old is None else old.beside(new)
    return found


def triaged(
    roots: Sequence[Path],
    against: Path | None,
    *,
    budget: Budget,
    every: bool = True,
    jobs: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Folded]:
    """Everything that the campaigns in *roots* found, reduced and folded, the worst first.

    *against* is the folder of an older campaign or the list of its triage.  What
    was reduced before, in the first of *roots*, is not reduced again; without
    *every*, neither is what a list or the corpus knows, and of a testee's finds the
    smallest of each cause is.  *jobs* targets are asked at a time.
    """
    finds = gathered(roots)
    if against is not None and against.is_dir():
        # What was found last night is asked again, though nobody came upon it tonight.
        finds = gathered([against]) | finds
    before = {key: each for each in (*read(roots[0]), *_under_way(roots[0])) for key in each.keys}
    old = old_keys(against) if against is not None else frozenset()
    news = news_of(roots[0])
    work = _Work(roots[0], before, news, budget, every, tell)
    by_target: dict[tuple[str, Asked], list[Smallest]] = {}
    for each in finds.values():
        by_target.setdefault((each.find.outcome.target, each.find.asked), []).append(each)
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda who: work.of_target(who, by_target[who]), sorted(by_target)))
    return _related(folded(_stated(each, old, news) for part in parts for each in part))


@dataclass(frozen=True, slots=True)
class _Work:
    """What there is to do for each target."""

    root: Path
    before: dict[str, Folded]
    news: News
    budget: Budget
    every: bool
    tell: Callable[[str], None]
    lock: Lock = field(default_factory=Lock)

    def of_target(self, who: tuple[str, Asked], some: Iterable[Smallest]) -> list[Folded]:
        """The finds of one, as small as they get."""
        done, todo = [], []
        for each in sorted(some, key=lambda one: one.find.key):
            kept = self.before.get(each.find.key)
            if kept is not None and kept.inputs[each.find.key] == each.find.sha256 and not kept.why_not:
                done.append(_made(each, kept.data, kept.outcome))
            elif not self.every and self.news.why_not(each.find.key, each.find.version):
                done.append(_made(each, each.data, each.find.outcome, KNOWN))
            else:
                todo.append(each)
        if who[1] and not self.every:
            todo, others = _smallest_of_causes(todo)
            done += [_made(each, each.data, each.find.outcome, SMALLER) for each in others]
        self.tell(f"{who[0]}: {len(done) + len(todo)} keys, {len(todo)} to reduce")
        return done + (self._reduced(*who, todo) if todo else [])

    def _reduced(self, target: str, asked: Asked, todo: Sequence[Smallest]) -> list[Folded]:
        done: list[Folded] = []
        try:
            with asking(target, asked=asked) as who:
                for each in todo:
                    try:
                        smaller = who.reduced(each.data, budget=self.budget)
                        done.append(_made(each, smaller.data, smaller.outcome or each.find.outcome))
                        self._keep(done[-1])
                    except NotShown as error:
                        done.append(_made(each, each.data, each.find.outcome, str(error)))
                    self.tell(f"  {done[-1].found:,} to {len(done[-1].data):,} bytes  {each.find.key}")
        except NoTarget as error:
            done += [_made(each, each.data, each.find.outcome, str(error)) for each in todo[len(done) :]]
        return done

    def _keep(self, each: Folded) -> None:
        folder = self.root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with self.lock, (folder / UNDER_WAY).open("ab") as file:
            file.write(msgspec.json.encode(each) + b"\n")


def _under_way(root: Path) -> Iterator[Folded]:
    """What a triage has reduced that did not come to its end."""
    path = root / FOLDER / UNDER_WAY
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.MsgspecError):  # it was killed while it wrote
            yield msgspec.json.decode(line, type=Folded)


def _smallest_of_causes(some: Iterable[Smallest]) -> tuple[list[Smallest], list[Smallest]]:
    """The smallest of each cause, and the others."""
    first: dict[str, Smallest] = {}
    others = []
    for each in sorted(some, key=lambda one: (len(one.data), one.find.key)):
        cause = cause_of(each.find.outcome, _right(each.find.asked, each.data, each.find.outcome))
        if first.setdefault(cause, each) is not each:
            others.append(each)
    return list(first.values()), others


def _made(each: Smallest, data: bytes, outcome: Outcome, why_not: str = "") -> Folded:
    find = each.find
    right = _right(find.asked, data, outcome)
    return Folded(
        name=name_of(find.key),
        key=find.key,
        inputs={find.key: find.sha256},
        state="new",
        outcome=outcome,
        data=data,
        found=len(each.data),
        right=right,
        count=find.count,
        version=find.version,
        seconds=find.seconds,
        profile=find.profile,
        labels=find.labels,
        why_not=why_not,
        cause=cause_of(outcome, right),
        asked=find.asked,
    )


def _right(asked: Asked, data: bytes, outcome: Outcome) -> str:
    """The reference's verdict on *data*; on a batch that was to be written, as that on bytes is told."""
    if asked != "encode":
        return reference_verdict(data, exact=True)
    return f"malformed {outcome.function}" if outcome.kind == "accepts_invalid" else "ok"


def _stated(each: Folded, old: frozenset[str], news: News) -> Folded:
    reasons = (news.why_not(key, each.version) for key in (*each.keys, each.outcome.key))
    known_by = next(filter(None, reasons), "")
    was = bool(known_by) or any(key in old for key in each.keys)
    # That an input shows nothing says something only where it was asked, and showed it before.
    gone = was and each.why_not.startswith("it shows nothing")
    return msgspec.structs.replace(each, state="gone" if gone else "known" if was else "new", known_by=known_by)


def folded(finds: Iterable[Folded]) -> list[Folded]:
    """Those of one target that come to the same, as one; the worst first."""
    groups: dict[tuple[str, ...], list[Folded]] = {}
    for each in finds:
        groups.setdefault(sameness(each), []).append(each)
    return sorted(map(_one, groups.values()), key=order)


def sameness(each: Folded) -> tuple[str, ...]:
    """What finds have in common that are one.

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


def order(each: Folded) -> tuple[int, str, int, str]:
    """The worst first, then the smallest."""
    return rank(each.severity), each.outcome.target, len(each.data), each.key


def by_cause(finds: Iterable[Folded]) -> dict[tuple[str, str], list[Folded]]:
    """Finds by target and cause, in the order in which the first of each comes."""
    groups: dict[tuple[str, str], list[Folded]] = {}
    for each in finds:
        groups.setdefault((each.outcome.target, each.cause), []).append(each)
    return groups


def smallest(finds: Iterable[Folded]) -> Folded:
    """The one that shows a cause best: new before known, reduced before not, then by size."""
    states = ("new", "known", "gone")
    return min(finds, key=lambda each: (states.index(each.state), bool(each.why_not), len(each.data), each.key))


def _one(group: list[Folded]) -> Folded:
    first = min(group, key=lambda each: (each.state == "new", each.found, each.key))
    states: list[State] = [each.state for each in group]
    return msgspec.structs.replace(
        first,
        inputs=dict(sorted(pair for each in group for pair in each.inputs.items())),
        count=sum(each.count for each in group),
        state="known" if "known" in states else "new" if "new" in states else "gone",
    )


def _related(finds: list[Folded]) -> list[Folded]:
    """Each with the other targets that the same bytes show the same class of find in."""
    targets: dict[tuple[bytes, str], set[str]] = {}
    for each in finds:
        targets.setdefault((each.data, each.outcome.kind), set()).add(each.outcome.target)
    return [
        msgspec.structs.replace(each, also=tuple(sorted(targets[each.data, each.outcome.kind] - {each.outcome.target})))
        for each in finds
    ]


def old_keys(against: Path) -> frozenset[str]:
    """All keys of an older campaign, or of the list of its triage; ValueError where there is neither."""
    if against.is_file():
        return frozenset(key for each in read_list(against) for key in each.keys)
    if not against.is_dir():
        raise ValueError(f"{against} is neither a campaign nor a list of finds")
    listed = {key for each in read(against) if each.open for key in each.keys}
    return frozenset(listed | {find.key for find in read_all(against)})


def read(root: Path) -> list[Folded]:
    """What triage wrote in the campaign at *root*; nothing if it never did."""
    path = root / FOLDER / FILE
    return read_list(path) if path.is_file() else []


def named(name: str, finds: Iterable[Folded]) -> Folded:
    """The one of *finds* whose name begins with *name*; ValueError where there is none, or more."""
    some = [find for find in finds if find.name.startswith(name)]
    if len(some) != 1:
        raise ValueError(f"{len(some) or 'no'} finds begin with {name!r}; is triage done?")
    return some[0]


def read_list(path: Path) -> list[Folded]:
    """A list that triage wrote; ValueError where it is none."""
    try:
        return msgspec.json.Decoder(Folded).decode_lines(path.read_bytes())
    except (msgspec.MsgspecError, OSError) as error:
        raise ValueError(f"{path} is no list of finds: {error}") from error


def write(root: Path, finds: Sequence[Folded]) -> Path:
    """Write the list; the older one stays beside it as `previous`."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    put(folder / FILE, b"".join(msgspec.json.encode(each) + b"\n" for each in finds))
    for each in finds:
        put(folder / f"{each.name}.bin", each.data)
    (folder / UNDER_WAY).unlink(missing_ok=True)
    return folder / FILE
