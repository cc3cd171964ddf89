"""Triage: each finding is replayed and shrunk, and compared with the previous triage.

An input that was shrunk before stays so while the target has the same version; in
another version every input is replayed at least once, so that a finding which is fixed
is gone, and one which is not is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from kafka_fuzz.campaign.known_findings import AlreadyKnown, already_known
from kafka_fuzz.executors import Executor as Who
from kafka_fuzz.executors import NoTarget, open_executor
from kafka_fuzz.findings import TargetMode, finding_name
from kafka_fuzz.shrink import Budget, NotShown
from kafka_fuzz.shrink.search import reference_verdict
from kafka_fuzz.shrink.worker import Done
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.deduplicate import (
    FOLDER,
    KNOWN,
    SMALLER,
    UNDER_WAY,
    Last,
    Smallest,
    TriagedFinding,
    deduplicate,
    gathered,
    last_keys,
    read_triage,
    related,
)
from kafka_fuzz.triage.draft import drafted_cause

# For testing whether an input still shows its finding.
ONCE: Final = Budget(runs=1)
NOTHING: Final = "it shows nothing"


def triaged(
    roots: Sequence[Path],
    against: Path | None,
    *,
    budget: Budget,
    every: bool = True,
    jobs: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> list[TriagedFinding]:
    """Everything that the campaigns in *roots* found, reduced and folded, the worst first.

    *against* is the folder of an older campaign or the list of its triage.  What
    was reduced before, in the first of *roots*, is not reduced again in the same
    version of its target; without *every*, neither is what a list or the corpus
    knows, and of a testee's finds the smallest of each cause is.  *jobs* targets
    are asked at a time.
    """
    finds = gathered(roots)
    if against is not None and against.is_dir():
        # Findings of the previous triage are replayed, even if this campaign did not find them.
        finds = gathered([against]) | finds
    before = {key: each for each in (*read_triage(roots[0]), *_under_way(roots[0])) for key in each.keys}
    last = last_keys(against) if against is not None else Last()
    news = already_known(roots[0])
    work = _Work(roots[0], before, news, budget, every, tell)
    by_target: dict[tuple[str, TargetMode], list[Smallest]] = {}
    for each in finds.values():
        by_target.setdefault((each.find.outcome.target, each.find.mode), []).append(each)
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda who: work.of_target(who, by_target[who]), sorted(by_target)))
    went_by = {each.key for each in before.values()}
    return related(deduplicate((_stated(each, last, news) for part in parts for each in part), went_by))


@dataclass(frozen=True, slots=True)
class _Work:
    """The work for each target."""

    root: Path
    before: dict[str, TriagedFinding]
    news: AlreadyKnown
    budget: Budget
    every: bool
    tell: Callable[[str], None]
    lock: Lock = field(default_factory=Lock)

    def of_target(self, who: tuple[str, TargetMode], some: Iterable[Smallest]) -> list[TriagedFinding]:
        """The shrunk findings of one target."""
        target, asked = who
        todo = sorted(some, key=lambda one: one.find.key)
        done: list[TriagedFinding] = []
        try:
            with open_executor(target, mode=asked) as there:
                done.extend(self._each(target, asked, there, todo))
        except NoTarget as error:
            left = [each for each in todo if each.find.key not in {made.key for made in done}]
            self.tell(f"{target}: {len(left)} keys cannot be replayed: {error}")
            done += [self._as_before(each) or _made(each, why_not=str(error)) for each in left]
        return done

    def _each(self, target: str, asked: TargetMode, there: Who, some: Sequence[Smallest]) -> Iterator[TriagedFinding]:
        """Each of *some*, the cheapest first."""
        kept = {each.find.key: made for each in some if (made := self._still(there, each))}
        todo = [each for each in some if each.find.key not in kept]
        whys = {each.find.key: KNOWN for each in todo if not self.every and self._is_known(each, there.version)}
        if asked and not self.every:
            others = _others_of_causes(each for each in todo if each.find.key not in whys)
            whys |= dict.fromkeys(others, SMALLER)
        self.tell(f"{target}: {len(some)} keys, {len(todo) - len(whys)} to reduce")
        yield from kept.values()
        for each in sorted(todo, key=lambda one: one.find.key not in whys):
            why = whys.get(each.find.key)
            yield self._left(there, each, why) if why else self._reduced(there, each)

    def _as_before(self, each: Smallest) -> TriagedFinding | None:
        """The last triage's result for the same input, if it was shrunk."""
        old = self.before.get(each.find.key)
        if old is None or old.inputs[each.find.key] != each.find.sha256 or old.why_not:
            return None
        done = Done(old.data, old.outcome, verdicts=old.verdicts, left_out=old.left_out)
        return _made(each, done, version=old.version)

    def _still(self, there: Who, each: Smallest) -> TriagedFinding | None:
        """The same, unless the target has another version now, in which its smallest input shows something else."""
        old = self._as_before(each)
        if old is None or there.version in ("", old.version):
            return old
        with suppress(NotShown):
            again = there.shrink(old.data, budget=ONCE)
            if again.outcome is not None and again.outcome.bucket == old.outcome.bucket:
                return msgspec.structs.replace(old, version=there.version)
        return None

    def _is_known(self, each: Smallest, version: str) -> bool:
        key = each.find.key
        return bool(self.news.reason(key, each.find.version) or self.news.reason(key, version))

    def _left(self, there: Who, each: Smallest, why: str) -> TriagedFinding:
        """*each* as it was found, for the reason *why*; asked once, if nobody knows whether this version shows it."""
        old = self.before.get(each.find.key)
        is_same = old is not None and old.inputs[each.find.key] == each.find.sha256
        version = old.version if old is not None and is_same else each.find.version
        if there.version in ("", version):
            return _made(each, why_not=why, version=version)
        try:
            there.shrink(each.data, budget=ONCE)
        except NotShown as error:
            return _made(each, why_not=str(error))
        return _made(each, why_not=why, version=there.version)

    def _reduced(self, there: Who, each: Smallest) -> TriagedFinding:
        company = [name for name in each.find.names if name != each.find.outcome.target]
        try:
            smaller = there.shrink(each.data, budget=self.budget, co_testees=company)
        except NotShown as error:
            made = _made(each, why_not=str(error))
        else:
            made = _made(each, smaller, version=there.version)
            self._keep(made)
        self.tell(f"  {made.found:,} to {len(made.data):,} bytes  {each.find.key}{_without(made)}")
        return made

    def _keep(self, each: TriagedFinding) -> None:
        folder = self.root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with self.lock, (folder / UNDER_WAY).open("ab") as file:
            file.write(msgspec.json.encode(each) + b"\n")


def _without(made: TriagedFinding) -> str:
    return f", whatever is made of it by {', '.join(made.left_out)}" if made.left_out else ""


def _under_way(root: Path) -> Iterator[TriagedFinding]:
    """The findings that an interrupted triage has shrunk."""
    path = root / FOLDER / UNDER_WAY
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.MsgspecError):  # it was killed while it wrote
            yield msgspec.json.decode(line, type=TriagedFinding)


def _others_of_causes(some: Iterable[Smallest]) -> list[str]:
    """The keys of those that are not the smallest of their cause."""
    first: dict[str, Smallest] = {}
    others = []
    for each in sorted(some, key=lambda one: (len(one.data), one.find.key)):
        cause = drafted_cause(each.find.outcome, _right(each.find.mode, each.data, each.find.outcome))
        if first.setdefault(cause, each) is not each:
            others.append(each.find.key)
    return others


def _made(each: Smallest, done: Done | None = None, *, why_not: str = "", version: str = "") -> TriagedFinding:
    """*each* as *done* made it, or as it was found, which *why_not* explains."""
    find = each.find
    data, outcome = (done.data, done.outcome or find.outcome) if done else (each.data, find.outcome)
    right = _right(find.mode, data, outcome)
    return TriagedFinding(
        name=finding_name(find.key),
        key=find.key,
        inputs={find.key: find.sha256},
        state="new",
        outcome=outcome,
        data=data,
        found=len(each.data),
        right=right,
        count=find.count,
        version=version or find.version,
        seconds=find.seconds,
        profile=find.profile,
        labels=find.labels,
        why_not=why_not,
        cause=drafted_cause(outcome, right),
        asked=find.mode,
        verdicts=done.verdicts if done else {},
        left_out=done.left_out if done else {},
        names=find.names,
        vector=find.outcomes,
        expected=find.expected,
    )


def _right(asked: TargetMode, data: bytes, outcome: Outcome) -> str:
    """The reference's verdict on *data*; on a batch to be encoded, in the form of a verdict on bytes."""
    if asked != "encode":
        return reference_verdict(data, exact=True)
    return f"malformed {outcome.function}" if outcome.kind == "accepts_invalid" else "ok"


def _stated(each: TriagedFinding, last: Last, news: AlreadyKnown) -> TriagedFinding:
    reasons = (news.reason(key, each.version) for key in (*each.keys, each.outcome.key))
    known_by = next(filter(None, reasons), "")
    was = bool(known_by) or any(key in last.open for key in each.keys)
    # A replay without a finding counts only if the input was replayed and showed the finding before.
    if each.why_not.startswith(NOTHING):
        gone = was or any(key in last.gone for key in each.keys)
        return msgspec.structs.replace(each, state="gone" if gone else "new", known_by=known_by)
    return msgspec.structs.replace(each, state="known" if was else "new", known_by=known_by)
