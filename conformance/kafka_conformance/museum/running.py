"""Run exhibits: their cases on a release that has the defect, and on one that has it no more.

A run is *red* if each case that the bad release was sent has a finding as the exhibit describes, and *green* if the
good release agrees on the same cases, or has one of the other outcomes that the exhibit names.  What a testee cannot
do, or leaves out, is neither.  Each exhibit has its result files below `runs/ID`; its outcome is one line of
`museum.ndjson`, on disk before the next exhibit runs.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from kafka_brokers.interface import NoBroker
from kafka_brokers.scenarios.recorder import scenario_requests
from kafka_conformance.judge.observation import ScenarioAnswers
from kafka_conformance.judge.reach import replay_cases
from kafka_conformance.judge.verdict import OPEN, Outcome, judge
from kafka_conformance.museum import BROKER, Exhibit, ExhibitRun, exhibit_cases
from kafka_conformance.runner import results, run
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import connect, testee_at
from kafka_corpus.case import Case
from kafka_corpus.vector_format import content_hash
from kafka_corpus.vectors import corpus_hash

FILE: Final = "museum.ndjson"
RUNS: Final = "runs"
MOST_WHY: Final = 200

Status = Literal["red and green", "red", "not red", "not green", "skipped"]
# As the exhibit describes it; `red` is all there is to see of a defect that no release fixes.
DESCRIBED: Final[tuple[Status, ...]] = ("red and green", "red")


class CaseAnswer(msgspec.Struct, frozen=True):
    """The outcome of one case on one release, and the text of the verdict."""

    case: str
    outcome: Outcome
    why: str = ""

    def shown(self) -> str:
        """The start of the text, escaped."""
        return printable(self.why, MOST_WHY)


class ReleaseAnswers(msgspec.Struct, frozen=True):
    """A release, and its outcomes by case."""

    release: str
    answers: tuple[CaseAnswer, ...]

    def sent(self) -> list[CaseAnswer]:
        """Those with a verdict."""
        return [each for each in self.answers if each.outcome not in OPEN]

    def stored(self) -> ReleaseAnswers:
        """The answers with short texts, as a result keeps them."""
        return ReleaseAnswers(
            self.release, tuple(msgspec.structs.replace(each, why=each.shown()) for each in self.answers)
        )

    def words(self) -> str:
        """The outcomes that were given, the most frequent first."""
        given = [each.outcome for each in self.sent()]
        if not given:
            return "no case was sent"
        counts = sorted(((given.count(name), name) for name in set(given)), reverse=True)
        return ", ".join(f"{number} {name}" for number, name in counts)


class ExhibitResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one exhibit's run.

    Attributes:
        exhibit: its id.
        digest: of the run and the contents of its cases: another one means that the result is out of date.
        testee: as in the exhibit.
        status: whether it went as the exhibit describes.
        bad: the release with the defect; None if it could not be run.
        good: the one without; None if there is none, or if it could not be run.
        reason: why it was skipped, or how it differs from the description.
    """

    exhibit: str
    digest: str
    testee: str
    status: Status
    bad: ReleaseAnswers | None = None
    good: ReleaseAnswers | None = None
    reason: str = ""

    @property
    def is_described(self) -> bool:
        """Whether the run showed what the exhibit says."""
        return self.status in DESCRIBED


def run_digest(exhibit: Exhibit, cases: Sequence[Case]) -> str:
    """Twelve characters that stand for the run of *exhibit* and the contents of its *cases*."""
    facts = (msgspec.to_builtins(exhibit.run), exhibit.is_open, sorted((case.id, content_hash(case)) for case in cases))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def earlier_exhibit_results(path: Path) -> dict[str, ExhibitResult]:
    """The last result of each exhibit in the file *path*; a line that a killed process left torn is none."""
    found: dict[str, ExhibitResult] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            result = msgspec.json.decode(line, type=ExhibitResult)
        except msgspec.DecodeError:
            continue
        found[result.exhibit] = result
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MuseumPlan:
    """Exhibits to run.

    Attributes:
        exhibits: those to run; each has a run.
        cases: the corpus.
        folder: the place of results.
        jobs: how many processes of a testee work at once.
        again: run also what has a result.
    """

    exhibits: Sequence[Exhibit]
    cases: Sequence[Case]
    folder: Path
    jobs: int = 1
    again: bool = False


def run_exhibits(plan: MuseumPlan, on_start: Callable[[Exhibit], None] = lambda _: None) -> Iterator[ExhibitResult]:
    """Run each exhibit, and yield its result when it is on disk; one with a result of the same digest is not run again.

    *on_start* is called before an exhibit is run.
    """
    path = plan.folder / FILE
    earlier = {} if plan.again else earlier_exhibit_results(path)
    plan.folder.mkdir(parents=True, exist_ok=True)
    for exhibit in plan.exhibits:
        cases = exhibit_cases(exhibit.run_cases, plan.cases)
        known = earlier.get(exhibit.id)
        if known and known.status != "skipped" and known.digest == run_digest(exhibit, cases):
            yield known
            continue
        on_start(exhibit)
        result = _run_exhibit(exhibit, cases, plan)
        results.append_line(path, msgspec.json.encode(result))
        yield result


def _run_exhibit(exhibit: Exhibit, cases: Sequence[Case], plan: MuseumPlan) -> ExhibitResult:
    run_of = exhibit.run
    assert run_of is not None
    folder = plan.folder / RUNS / exhibit.id
    result = ExhibitResult(
        exhibit=exhibit.id, digest=run_digest(exhibit, cases), testee=run_of.testee, status="skipped"
    )
    if plan.again:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        bad = _answers(run_of, run_of.bad, cases, folder, plan)
        good = _answers(run_of, run_of.good, cases, folder, plan) if run_of.good else None
    except (CannotRun, NoBroker, OSError) as error:
        return msgspec.structs.replace(result, reason=printable(str(error), MOST_WHY))
    status, reason = compared(run_of, bad, good)
    return msgspec.structs.replace(
        result, bad=bad.stored(), good=good.stored() if good else None, status=status, reason=reason
    )


def compared(run_of: ExhibitRun, bad: ReleaseAnswers, good: ReleaseAnswers | None) -> tuple[Status, str]:
    """Whether the answers, with their whole texts, are as *run_of* describes, and how they differ."""
    sent = bad.sent()
    other = [each for each in sent if each.outcome not in run_of.outcome or not re.search(run_of.why, each.why)]
    if not sent or other:
        return "not red", f"{run_of.bad}: {_described(other[0]) if other else bad.words()}"
    if good is None:
        return "red", ""
    right = {each.case for each in good.answers if each.outcome in ("agree", *run_of.after)}
    wanted = {each.case for each in sent}
    if wrong := [each for each in good.answers if each.case in wanted - right]:
        return "not green", f"{run_of.good}: {_described(wrong[0])}"
    if not wanted <= right:
        return "not green", f"{run_of.good}: {good.words()}"
    return "red and green", ""


def _described(answer: CaseAnswer) -> str:
    return f"{answer.case} is {answer.outcome}" + (f", {answer.shown()}" if answer.why else "")


def _answers(run_of: ExhibitRun, release: str, cases: Sequence[Case], folder: Path, plan: MuseumPlan) -> ReleaseAnswers:
    """The answers of *release*; raises `CannotRun` or `NoBroker`."""
    if run_of.testee == BROKER:
        return ReleaseAnswers(release, tuple(_of_broker(release, cases, folder / release)))
    return ReleaseAnswers(release, tuple(_of_testee(run_of.testee, release, cases, folder / release, plan)))


def _of_testee(
    testee: str, release: str, cases: Sequence[Case], folder: Path, plan: MuseumPlan
) -> Iterator[CaseAnswer]:
    try:
        connection = connect(testee_at(testee, release))
    except BadConnect as error:
        raise CannotRun(str(error)) from error
    folder.mkdir(parents=True, exist_ok=True)
    planned = run.RunPlan(
        connection=connection,
        cases=cases,
        corpus=corpus_hash(),
        path=folder / results.FILE,
        only=[case.id for case in cases],
        jobs=plan.jobs,
        resume=True,
    )
    try:
        done = run.run(planned)
    except results.Unusable:  # what is there is of other cases
        done = run.run(replace(planned, resume=False))
    for line in done.lines:
        yield CaseAnswer(line.case, line.outcome, line.why)


def _of_broker(release: str, cases: Sequence[Case], folder: Path) -> Iterator[CaseAnswer]:
    """The scenarios on a broker of *release*, judged by the right answers of the corpus."""
    by_id: Mapping[str, Case] = {case.id: case for case in cases}
    lines = replay_cases(release, list(scenario_requests(cases, release)), folder)
    for id_, line in lines.items():
        if line.skipped:
            yield CaseAnswer(id_, "skipped", line.skipped)
            continue
        verdict = judge(by_id[id_], ScenarioAnswers(line.steps))
        yield CaseAnswer(id_, verdict.outcome, verdict.why)
