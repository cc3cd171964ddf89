"""The reach of a finding: the parties that can make a consumer read its bytes, release by release.

The smallest input of a finding is produced to a real broker, whole and as it is,
and again entry by entry, each with a base offset of 0, as a client would have
to.  If the broker takes it, and what a fetch gives back still shows the finding,
any producer can store it; if no release does, it takes a hostile broker.

`reach.json` in the finding's folder holds the answers; what was measured stays with
the input that it was measured with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from kafka_brokers.scenarios.recorder import RecordedAnswer, ScenarioRequest
from kafka_conformance.judge import reach as dossier
from kafka_conformance.judge.reach import replay_cases
from kafka_conformance.testees.connection import CannotRun
from kafka_corpus.case import Case
from kafka_corpus.scenario import FIRST_PRODUCE_OF_V2, LAST_OF_V1, Scenario, StepAnswer
from kafka_fuzz.executors import NoTarget, TesteeExecutor
from kafka_fuzz.findings import (
    FuzzFinding,
    finding_folder,
    finding_input,
    finding_name,
    with_current_fields,
    write_atomically,
)
from kafka_fuzz.mutate.mutant import first_entry_spans
from kafka_fuzz.shrink.search import as_mutant
from kafka_fuzz.targets import TARGETS
from kafka_fuzz.targets.codecs import right_answer

FILE: Final = "reach.json"
STATE: Final = "state/reach"
# One of each age: what stores v2 only, what still converts, what honours message.format.version, and the first v2s.
RELEASES: Final = ("4.4.0", "3.9.2", "2.8.2", "1.1.1")
Way = Literal["whole", "entry by entry"]
NO_OFFSET: Final = bytes(8)
Who = Literal["any producer", "a hostile broker", "not measured", "does not apply"]


class Tried(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one release for the input.

    Attributes:
        result: its answer, and how much of the input a fetch returns.
        way: how it was produced; the one that shows the finding, if any does.
        shows: whether the fetched bytes show the finding.
    """

    result: dossier.ReachResult
    way: Way = "whole"
    shows: bool = False

    def __str__(self) -> str:
        """The result as text."""
        if self.shows and self.result.kept == "rewritten":
            return "writes the records again, and they still show it"
        return str(self.result)


class FindingReach(msgspec.Struct, frozen=True, omit_defaults=True):
    """`reach.json`: the input that was produced, and answers by release.

    *sent* if sending it is all that it takes; *written* if it is about writing, so that there is nothing to send.
    """

    sha256: str
    releases: dict[str, Tried] = {}
    sent: bool = False
    written: bool = False

    @property
    def shown(self) -> list[str]:
        """The releases from which a consumer gets it, oldest first."""
        return dossier.order(name for name, tried in self.releases.items() if tried.shows)

    @property
    def who(self) -> Who:
        """The least privileged party that can cause it."""
        if self.written:
            return "does not apply"
        if self.sent or self.shown:
            return "any producer"
        return "a hostile broker" if self.releases else "not measured"

    def __str__(self) -> str:
        """One line for reports."""
        if self.written:
            return "does not apply: the finding is about a batch that is written wrongly"
        if self.sent:
            return "any producer can send this"
        if self.shown:
            return f"any producer can store this: {', '.join(self.shown)}"
        return "only a hostile broker" if self.releases else "not measured"


class ReachQuery(NamedTuple):
    """An input produced in one of the ways."""

    finding: FuzzFinding
    data: bytes
    way: Way

    @property
    def id(self) -> str:
        """In the file of answers."""
        return f"{finding_name(self.finding.key)} {self.way}"

    def request(self) -> ScenarioRequest:
        """The scenario that a broker runs."""
        scenario = dossier.scenario_for(self.case()) if self.way == "whole" else by_entries(self.data)
        return ScenarioRequest(self.id, sha256(self.data).hexdigest(), scenario)

    def case(self) -> Case:
        """The input as a case."""
        return reach_case(self.id, self.data)


def reach_case(id_: str, data: bytes) -> Case:
    """*data* as a case, with what the reference reads as the right answer."""
    expect, _ = right_answer(as_mutant(data))
    return Case(id=id_, title="", rules=(expect.why,), area="fuzz", op="decode", input=data, expect=expect)


def by_entries(data: bytes) -> Scenario:
    """Every entry of *data* by itself, at offset 0, and the bytes after the last entry."""
    spans = first_entry_spans(data)
    end = spans[-1][1] if spans else 0
    pieces = [data[start:stop] for start, stop in spans] + ([data[end:]] if data[end:] else [])
    cases = [reach_case("", NO_OFFSET + piece[len(NO_OFFSET) :]) for piece in pieces]
    steps = tuple(step for case in cases for step in dossier.scenario_for(case).produces())
    # Releases that take v2 only have no request for other formats.
    is_old = any(step.api_version < FIRST_PRODUCE_OF_V2 for step in steps)
    return Scenario(steps=steps, until=LAST_OF_V1 if is_old else "").bounded()


def questions(finding: FuzzFinding, data: bytes) -> Iterator[ReachQuery]:
    """The ways in which *data* can be produced; one, if they are the same."""
    yield ReachQuery(finding, data, "whole")
    lone = (
        len(first_entry_spans(data)) == 1 and first_entry_spans(data)[0][1] == len(data) and data.startswith(NO_OFFSET)
    )
    if not lone:
        yield ReachQuery(finding, data, "entry by entry")


def tried(question: ReachQuery, line: RecordedAnswer, shown: FetchCheck) -> Tried:
    """The result of the answers in *line*."""
    answer = merged_reach(line.steps)
    result = dossier.reach_result(question.case(), question.data, answer)
    return Tried(result, question.way, is_shown(question, result, answer.data, shown))


def merged_reach(answers: Sequence[StepAnswer]) -> StepAnswer:
    """The answers to all requests as one: the first that is an error, or all that was stored."""
    for each in answers:
        if each.error_code or each.closed or each.ended or each.silent:
            return each
    return StepAnswer(data=b"".join(each.data for each in answers))


def is_shown(question: ReachQuery, result: dossier.ReachResult, fetched: bytes, shown: FetchCheck) -> bool:
    """Whether the fetched bytes show the finding; its target or testee decodes them, if it can run here."""
    if result.error_code or result.closed or result.ended or not fetched:
        return False
    if result.kept == "as it is":
        return True
    shows = shown.by(question.finding, question.data, fetched)
    return result.reaches if shows is None else shows


class FetchCheck(ExitStack):
    """Runs targets and testees to decide whether bytes show a finding; a context manager ends the testees."""

    def __init__(self) -> None:
        super().__init__()
        self._testees: dict[str, TesteeExecutor | None] = {}

    def by(self, finding: FuzzFinding, data: bytes, fetched: bytes) -> bool | None:
        """Whether *fetched* shows the finding that *data* shows; None if no target here can decide it."""
        if finding.mode:
            return self._by_testee(finding.outcome.target, data, fetched)
        target = TARGETS.get(finding.outcome.target)
        return None if target is None else target().run(as_mutant(fetched)).bucket == finding.outcome.bucket

    def _by_testee(self, name: str, data: bytes, fetched: bytes) -> bool | None:
        testees = self._started(name)
        if testees is None:
            return None
        try:
            (outcome, was), (_, now) = testees.verdicts([data, fetched])
        except CannotRun:
            return None
        return was.bucket == now.bucket if outcome.is_finding else None

    def _started(self, name: str) -> TesteeExecutor | None:
        if name not in self._testees:
            self._testees[name] = None
            with suppress(NoTarget):
                testees = self._testees[name] = TesteeExecutor((name,))
                self.callback(testees.close)
        return self._testees[name]


def measure_reach(root: Path, findings: Iterable[FuzzFinding], release: str) -> dict[str, FindingReach]:
    """Measure the reach of *findings* on a broker of *release*, by key; it is on disk when this returns.

    Raises:
        NoBroker: it cannot be started.
    """
    found = {finding.key: finding for finding in findings}
    todo = [
        each
        for finding in found.values()
        if not (is_sent(finding) or is_written(finding))
        for each in questions(finding, finding_input(root, finding))
    ]
    requests = {each.id: each.request() for each in todo}
    able = [each for each in requests.values() if each.scenario.concerns(release)]
    lines = replay_cases(release, able, root / STATE) if able else {}
    reached: dict[str, Tried] = {}
    with FetchCheck() as shown:
        for each in todo:
            line = lines.get(each.id)
            key = each.finding.key
            # Entries as a client would send them take precedence, unless the whole input shows the finding.
            if line is not None and line.steps and (key not in reached or not reached[key].shows):
                reached[key] = tried(each, line, shown)
    return {key: keep(root, finding, release, reached.get(key)) for key, finding in found.items()}


def is_sent(finding: FuzzFinding) -> bool:
    """Whether it is about a broker and a payload: any producer can cause it."""
    return finding.outcome.target.startswith("broker:")


def is_written(finding: FuzzFinding) -> bool:
    """Whether it is about encoding, so that no input from outside is needed."""
    return finding.mode == "encode"


def keep(root: Path, finding: FuzzFinding, release: str, answer: Tried | None) -> FindingReach:
    """Write one more answer to the finding's `reach.json`; those about another input are dropped."""
    old = read_reach(root, finding)
    releases = {} if old is None else dict(old.releases)
    if answer is not None:
        releases[release] = answer
    made = FindingReach(
        finding.sha256,
        {name: releases[name] for name in dossier.order(releases)},
        is_sent(finding),
        is_written(finding),
    )
    write_atomically(finding_folder(root, finding.key) / FILE, msgspec.json.encode(made))
    return made


def read_reach(root: Path, finding: FuzzFinding) -> FindingReach | None:
    """The reach of *finding*, if it was measured with the input that it has now."""
    try:
        found = msgspec.json.decode(
            with_current_fields((finding_folder(root, finding.key) / FILE).read_bytes()), type=FindingReach
        )
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    return found if found.sha256 == finding.sha256 else None
