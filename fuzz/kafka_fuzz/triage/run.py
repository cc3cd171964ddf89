"""Triage: each finding is replayed and shrunk, and compared with the previous triage.

An input that was shrunk before stays so while the target has the same version; in
another version every input is replayed at least once, so that a finding which is fixed
is gone, and one which is not is known.

Findings get their heading before they are shrunk, and the smallest of each heading is
shrunk for all of them.  Wrong data in a log of several entries are first tested with
the last entry alone: the fault is there, and the entries before it only hide it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec

from kafka_fuzz.campaign.known_findings import AlreadyKnown, already_known
from kafka_fuzz.executors import Executor, NoTarget, open_executor
from kafka_fuzz.findings import TargetMode, finding_name
from kafka_fuzz.mutate.mutant import first_entry_spans
from kafka_fuzz.shrink import Budget, NotShown
from kafka_fuzz.shrink.search import NOT_REPRODUCED, reference_verdict
from kafka_fuzz.shrink.worker import Done
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.causes import (
    STOPS,
    CauseIndex,
    Heading,
    error_text,
    heading_of,
    kept_index,
    stops_at_fault,
)
from kafka_fuzz.triage.deduplicate import (
    FOLDER,
    KNOWN,
    LATE,
    SMALLER,
    UNDER_WAY,
    Last,
    Smallest,
    TriagedFinding,
    deduplicate,
    gathered,
    last_keys,
    plain_key,
    read_triage,
    related,
    write_triage,
)
from kafka_fuzz.triage.draft import write_pages

# For testing whether an input still shows its finding.
ONCE: Final = Budget(runs=1)
# Fields of a finding that triage does not change.
KEPT_FIELDS: Final = ("count", "seconds", "profile", "labels", "mode", "names", "outcomes", "expected")


def triaged(
    roots: Sequence[Path],
    against: Path | None,
    *,
    budget: Budget,
    every: bool = True,
    jobs: int = 1,
    results: Path | None = None,
    total: float | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> list[TriagedFinding]:
    """All findings of the campaigns in *roots*, shrunk and deduplicated, the worst first.

    Args:
        roots: folders of campaigns; the first one keeps the results.
        against: the folder of an older campaign, or the list of its triage.
        budget: of shrinking one finding.
        every: whether to shrink known findings, too, and all findings instead of the smallest one of each heading,
            and to keep the outcomes of co-testees equal.  A finding that was shrunk before is shrunk again only for
            another version of its target.
        jobs: targets that run at a time.
        results: the folder of kept results, whose reviewed causes findings are compared with.
        total: seconds for shrinking all findings, which are shared equally; at most those of *budget* for each.  What
            is not shrunk when they are over stays as it was found.
        report: takes a line of text for each step.
    """
    findings = with_stops(gathered(roots))
    if against is not None and against.is_dir():
        # Findings of the previous triage are replayed, even if this campaign did not find them.
        findings = gathered([against]) | findings
    before = {key: each for each in (*read_triage(roots[0]), *_under_way(roots[0])) for key in each.inputs}
    last = last_keys(against) if against is not None else Last()
    known = already_known(roots[0])
    index = kept_index(results) if results is not None else CauseIndex()
    headings = {key: finding_heading(index, each) for key, each in findings.items()}
    titles = cases_of_titles(headings, findings)
    headings = {
        key: with_case_of_title(heading, findings[key].finding.outcome, titles) for key, heading in headings.items()
    }
    groups = {key: _group(headings[key], each) for key, each in findings.items()}
    chosen = frozenset(findings) if every else frozenset(_leaders(findings, headings, groups, known))
    if total is not None and chosen:
        budget = budget._replace(seconds=min(budget.seconds, total * jobs / len(chosen)))
    work = _Work(roots[0], before, known, budget, every, report, index, headings, chosen, titles, total)
    by_target: dict[tuple[str, TargetMode], list[Smallest]] = {}
    for each in findings.values():
        by_target.setdefault((each.finding.outcome.target, each.finding.mode), []).append(each)
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda target: work.of_target(target, by_target[target]), sorted(by_target)))
    went_by = {each.key for each in before.values()}
    made = under_their_leaders([each for part in parts for each in part], groups)
    return related(deduplicate((_stated(each, last, known) for each in made), went_by))


def with_stops(findings: dict[str, Smallest]) -> dict[str, Smallest]:
    """*findings*, of which further inputs have what was seen of the smallest one: that the testee stops at the fault.

    What the testee gave for a further input was not kept.
    """
    for key, each in findings.items():
        first = findings.get(plain_key(key))
        if first is None or first is each or each.finding.outcome.kind != "accepts_invalid":
            continue
        stops = STOPS if stops_at_fault(first.finding.outcome.why, first.data) else ""
        outcome = msgspec.structs.replace(each.finding.outcome, why="", relation=stops)
        findings[key] = Smallest(msgspec.structs.replace(each.finding, outcome=outcome), each.data)
    return findings


# Cases by library, title and error text: several errors stand under one title.
_Titles = dict[tuple[str, str, str], str]


def cases_of_titles(headings: Mapping[str, Heading], findings: Mapping[str, Smallest]) -> _Titles:
    """A case for each title and error of a library that the corpus shows, without a reviewed cause."""
    known = ((headings[key], error_text(each.finding.outcome)) for key, each in findings.items())
    return {
        (heading.library, heading.title, text): heading.case
        for heading, text in known
        if text and heading.case and not heading.cause
    }


def with_case_of_title(heading: Heading, outcome: Outcome, titles: _Titles) -> Heading:
    """*heading*, with the case of *titles* if it is about an error that a case of the library shows for other bytes."""
    if heading.case or heading.cause:
        return heading
    return heading._replace(case=titles.get((heading.library, heading.title, error_text(outcome)), ""))


def finding_heading(index: CauseIndex, each: Smallest, *, coarse: bool = True) -> Heading:
    """The heading of a finding as it was found; *coarse* as in `heading_of`."""
    outcome = each.finding.outcome
    return heading_of(index, outcome, _right(each.finding.mode, each.data, outcome), each.data, coarse=coarse)


# Findings of which one is shrunk for all: library and title of their heading, and the function.
_Group = tuple[str, str, str]


def _group(heading: Heading, each: Smallest) -> _Group:
    """The group of a finding; the function counts for targets in process."""
    return heading.library, heading.title, "" if each.finding.mode else each.finding.outcome.function


def _leaders(
    findings: Mapping[str, Smallest], headings: Mapping[str, Heading], groups: Mapping[str, _Group], known: AlreadyKnown
) -> Iterator[str]:
    """The key of the smallest unknown finding of each group."""
    seen: set[_Group] = set()
    for key, each in sorted(findings.items(), key=lambda item: (len(item[1].data), item[0])):
        heading, group = headings[key], groups[key]
        if group in seen or heading.cause or heading.case or known.reason(plain_key(key), each.finding.version):
            continue
        seen.add(group)
        yield key


def under_their_leaders(made: Sequence[TriagedFinding], groups: Mapping[str, _Group]) -> list[TriagedFinding]:
    """Findings that were not shrunk get the heading that the shrunk one of their group has now.

    Those with its outcome are the same finding, and get its input.

    Args:
        made: findings of one key each.
        groups: library, title and function of each finding as it was found, by its key.
    """
    now = {groups[each.key]: each for each in made if not each.why_not}
    return [
        _under(leader, each) if each.why_not == SMALLER and (leader := now.get(groups[each.key])) is not None else each
        for each in made
    ]


def _under(leader: TriagedFinding, each: TriagedFinding) -> TriagedFinding:
    moved = msgspec.structs.replace(each, cause=leader.cause, library=leader.library, reviewed=leader.reviewed)
    if (_identity(leader), leader.mode) != (_identity(each), each.mode):
        return moved
    return msgspec.structs.replace(moved, data=leader.data, outcome=leader.outcome, right=leader.right)


def _identity(each: TriagedFinding) -> tuple[str, ...]:
    outcome = each.outcome
    return outcome.target, outcome.kind, outcome.detail, "" if each.mode else outcome.function


def triage_and_write(
    roots: Sequence[Path], against: Path | None, report: Callable[[str], None], **settings: Any
) -> list[TriagedFinding]:
    """Findings after `triaged` with *settings*; the list and the pages are in the first of *roots*."""
    findings = triaged(roots, against, report=report, **settings)
    write_triage(roots[0], findings)
    write_pages(roots[0], findings)
    return findings


@dataclass(frozen=True, slots=True)
class _Work:
    """The work for each target."""

    root: Path
    before: dict[str, TriagedFinding]
    known: AlreadyKnown
    budget: Budget
    every: bool
    report: Callable[[str], None]
    index: CauseIndex
    headings: dict[str, Heading]
    chosen: frozenset[str]
    titles: _Titles
    total: float | None
    began: float = field(default_factory=time.monotonic)
    lock: Lock = field(default_factory=Lock)

    def of_target(self, target_and_mode: tuple[str, TargetMode], some: Iterable[Smallest]) -> list[TriagedFinding]:
        """The shrunk findings of one target."""
        target, mode = target_and_mode
        todo = sorted(some, key=lambda one: one.finding.key)
        if self._needs_no_run(todo):
            self.report(f"{target}: {len(todo)} keys, none to shrink")
            return [self._made(each, why_not=self._why_not(each, each.finding.version)) for each in todo]
        done: list[TriagedFinding] = []
        try:
            with open_executor(target, mode=mode) as executor:
                done.extend(self._each(target, executor, todo))
        except NoTarget as error:
            left = [each for each in todo if each.finding.key not in {made.key for made in done}]
            self.report(f"{target}: {len(left)} keys cannot be replayed: {error}")
            done += [self._as_before(each) or self._made(each, why_not=str(error)) for each in left]
        return done

    def _needs_no_run(self, some: Sequence[Smallest]) -> bool:
        """Whether none of *some* is shrunk, or was seen by an earlier triage: the target is not started."""
        keys = {each.finding.key for each in some}
        return not (self.every or keys & self.chosen or keys & self.before.keys())

    def _why_not(self, each: Smallest, version: str) -> str:
        """Why *each* is not shrunk; empty if it is."""
        if self.every:
            return ""
        if self._is_known(each, version):
            return KNOWN
        return "" if each.finding.key in self.chosen else SMALLER

    def _is_late(self) -> bool:
        return self.total is not None and time.monotonic() - self.began > self.total

    def _each(self, target: str, executor: Executor, some: Sequence[Smallest]) -> Iterator[TriagedFinding]:
        """Each of *some*, the cheapest first."""
        kept = {each.finding.key: made for each in some if (made := self._still(executor, each))}
        todo = [each for each in some if each.finding.key not in kept]
        whys = {each.finding.key: why for each in todo if (why := self._why_not(each, executor.version))}
        self.report(f"{target}: {len(some)} keys, {len(todo) - len(whys)} to shrink")
        yield from kept.values()
        for each in sorted(todo, key=lambda one: one.finding.key not in whys):
            why = whys.get(each.finding.key) or (LATE if self._is_late() else "")
            yield self._left(executor, each, why) if why else self._shrunk(executor, each)

    def _as_before(self, each: Smallest) -> TriagedFinding | None:
        """The last triage's result for the same input, if it was shrunk."""
        old = self.before.get(each.finding.key)
        if old is None or old.inputs[each.finding.key] != each.finding.sha256 or old.why_not:
            return None
        done = Done(old.data, old.outcome, verdicts=old.verdicts, left_out=old.left_out)
        return self._made(each, done, version=old.version)

    def _still(self, executor: Executor, each: Smallest) -> TriagedFinding | None:
        """The last triage's result; None if another version of the target shows something else for its input."""
        old = self._as_before(each)
        if old is None or executor.version in ("", old.version):
            return old
        with suppress(NotShown):
            again = executor.shrink(old.data, budget=ONCE)
            if again.outcome is not None and again.outcome.bucket == old.outcome.bucket:
                return msgspec.structs.replace(old, version=executor.version)
        return None

    def _is_known(self, each: Smallest, version: str) -> bool:
        key, heading = plain_key(each.finding.key), self.headings[each.finding.key]
        if heading.cause or heading.case:
            return True
        return bool(self.known.reason(key, each.finding.version) or self.known.reason(key, version))

    def _left(self, executor: Executor, each: Smallest, why: str) -> TriagedFinding:
        """*each* as it was found, for the reason *why*; replayed once if this version of the target is new."""
        old = self.before.get(each.finding.key)
        is_same = old is not None and old.inputs[each.finding.key] == each.finding.sha256
        version = old.version if old is not None and is_same else each.finding.version
        if executor.version in ("", version):
            return self._made(each, why_not=why, version=version)
        try:
            executor.shrink(each.data, budget=ONCE)
        except NotShown as error:
            return self._made(each, why_not=str(error))
        return self._made(each, why_not=why, version=executor.version)

    def _shrunk(self, executor: Executor, each: Smallest) -> TriagedFinding:
        # Starting all co-testees for each target takes far longer than shrinking.
        others = [name for name in each.finding.names if name != each.finding.outcome.target] if self.every else []
        data = self._last_alone(executor, each)
        try:
            smaller = executor.shrink(data, budget=self.budget, co_testees=others if data is each.data else ())
        except NotShown as error:
            made = self._made(each, why_not=str(error))
        else:
            made = self._made(each, smaller, version=executor.version)
            self._keep(made)
        self.report(f"  {made.found:,} to {len(made.data):,} bytes  {each.finding.key}{_without(made)}")
        return made

    def _last_alone(self, executor: Executor, each: Smallest) -> bytes:
        """The last entry of the input if the target gives wrong data for all, and something else for it alone."""
        spans = first_entry_spans(each.data) if each.finding.mode != "encode" else []
        if each.finding.outcome.kind != "wrong_data" or len(spans) < 2:
            return each.data
        alone = each.data[spans[-1][0] :]
        with suppress(NotShown):
            again = executor.shrink(alone, budget=ONCE)
            if again.outcome is not None and again.outcome.kind != "wrong_data":
                return alone
        return each.data

    def _made(
        self, each: Smallest, done: Done | None = None, *, why_not: str = "", version: str = ""
    ) -> TriagedFinding:
        """*each* as shrunk to *done*, or as it was found; *why_not* says why it is not shrunk."""
        finding = each.finding
        data, outcome = (done.data, done.outcome or finding.outcome) if done else (each.data, finding.outcome)
        right = _right(finding.mode, data, outcome)
        heading = self.headings[finding.key]
        if done:
            heading = with_case_of_title(heading_of(self.index, outcome, right, data), outcome, self.titles)
        return TriagedFinding(
            name=finding_name(finding.key),
            key=finding.key,
            inputs={finding.key: finding.sha256},
            state="new",
            outcome=outcome,
            data=data,
            found=len(each.data),
            right=right,
            version=version or finding.version,
            why_not=why_not,
            cause=heading.title,
            library=heading.library,
            reviewed=heading.cause,
            known_by=_shown_by(heading),
            verdicts=done.verdicts if done else {},
            left_out=done.left_out if done else {},
            **{name: getattr(finding, name) for name in KEPT_FIELDS},
        )

    def _keep(self, each: TriagedFinding) -> None:
        folder = self.root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with self.lock, (folder / UNDER_WAY).open("ab") as file:
            file.write(msgspec.json.encode(each) + b"\n")


def _without(made: TriagedFinding) -> str:
    return f"; verdicts that may differ: {', '.join(made.left_out)}" if made.left_out else ""


def _under_way(root: Path) -> Iterator[TriagedFinding]:
    """The findings that an interrupted triage has shrunk."""
    path = root / FOLDER / UNDER_WAY
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.MsgspecError):  # it was killed while it wrote
            yield msgspec.json.decode(line, type=TriagedFinding)


def _shown_by(heading: Heading) -> str:
    """Why findings with *heading* are known; empty if they are not."""
    if heading.cause:
        return f"reviewed cause: {heading.cause}"
    return f"the corpus shows the like: {heading.case}" if heading.case else ""


def _right(mode: TargetMode, data: bytes, outcome: Outcome) -> str:
    """The reference's verdict on *data*; on a batch to be encoded, in the form of a verdict on bytes."""
    if mode != "encode":
        return reference_verdict(data, exact=True)
    return f"malformed {outcome.function}" if outcome.kind == "accepts_invalid" else "ok"


def _stated(each: TriagedFinding, last: Last, known: AlreadyKnown) -> TriagedFinding:
    reasons = (known.reason(key, each.version) for key in (*each.keys, each.outcome.key))
    known_by = next(filter(None, reasons), "") or each.known_by
    was = bool(known_by) or any(key in last.open for key in each.keys)
    # A replay without a finding counts only if the input was replayed and showed the finding before.
    if each.why_not.startswith(NOT_REPRODUCED):
        gone = was or any(key in last.gone for key in each.keys)
        return msgspec.structs.replace(each, state="gone" if gone else "new", known_by=known_by)
    return msgspec.structs.replace(each, state="known" if was else "new", known_by=known_by)
