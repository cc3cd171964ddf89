"""The share of corpus findings, by key, that a campaign rediscovers.

Keys overstate it, since one cause has many; `triage.causes` counts causes.

A campaign that starts blind, without the cases of the corpus, is an estimate for
campaigns that search for findings without a case: they find about the same share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from kafka_conformance.testees.known import connect
from kafka_corpus.vectors import corpus_hash, load_vectors
from kafka_fuzz.campaign.known_findings import CorpusResult
from kafka_fuzz.campaign.plan import RoundReport, read_log
from kafka_fuzz.campaign.worker import unchanged_mutant
from kafka_fuzz.differential.compare import Differential
from kafka_fuzz.findings import FuzzFinding
from kafka_fuzz.mutate.entries import DECODE, LONGEST


def cases() -> dict[bytes, str]:
    """The inputs of decode cases, each with the id of the first case that has it."""
    found: dict[bytes, str] = {}
    for case in load_vectors(ops=DECODE):
        if isinstance(case.input, bytes) and 0 < len(case.input) <= LONGEST:
            found.setdefault(case.input, case.id)
    return found


@dataclass(frozen=True, slots=True)
class ShownByCase:
    """The version of a testee, and the keys of findings that each case shows; a case that shows none is left out."""

    version: str
    keys: dict[str, set[str]] = field(default_factory=dict)


def first_cases(keys: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Each key with the first case that shows it; *keys* has the keys by case."""
    found: dict[str, str] = {}
    for case in sorted(keys):
        for key in keys[case]:
            found.setdefault(key, case)
    return dict(sorted(found.items()))


def run_corpus(names: Sequence[str], report: Callable[[str], None]) -> dict[str, CorpusResult]:
    """Run the decode cases on the testees in *names*; *report* names those that did not run.

    Raises:
        BadConnect, CannotRun: one of the names is none, or no testee starts.
    """
    shown, digest = run_cases(names, cases(), report), corpus_hash()
    return {name: CorpusResult(each.version, digest, first_cases(each.keys)) for name, each in sorted(shown.items())}


def run_cases(
    names: Sequence[str], inputs: Mapping[bytes, str], report: Callable[[str], None]
) -> dict[str, ShownByCase]:
    """The keys that *inputs*, each with its case, show of the testees called *names*; raises as `run_corpus`."""
    with Differential([connect(name) for name in names], patient=True) as session:
        found: dict[str, dict[str, set[str]]] = {testee.judge.name: {} for testee in session.testees}
        for judgement in session.run(map(unchanged_mutant, inputs), lambda: True):
            for outcome in judgement.outcomes:
                found[outcome.target].setdefault(inputs[judgement.mutant.data], set()).add(outcome.key)
        versions = {testee.judge.name: testee.hello.version for testee in session.testees}
    for name, why in session.cannot_run.items():
        report(f"{name} did not run: {why}")
    # The keys of a testee that could not run to the end are not complete.
    return {name: ShownByCase(versions[name], keys) for name, keys in found.items() if name not in session.cannot_run}


# Last parts of keys without a rule: a valid format, or the fault of the input.
PLACES: Final = ("valid ", "lie ")


class Recall(msgspec.Struct, frozen=True):
    """One testee.

    Attributes:
        testee, version: the codec.
        shown: number of findings that cases of the corpus show, without cases that accept any answer.
        missed: those that the campaign lacks, each with its case.
        beyond: number of findings of the campaign that no case shows.
    """

    testee: str
    version: str
    shown: int
    missed: dict[str, str]
    beyond: int

    @property
    def found(self) -> int:
        """The number of corpus findings that the campaign has."""
        return self.shown - len(self.missed)


def lenient() -> frozenset[str]:
    """Ids of decode cases that let testees do as they like: what these show is no defect."""
    return frozenset(case.id for case in load_vectors(ops=DECODE) if case.expect.verdict == "acceptable")


def campaign_testees(directory: Path, shown: Mapping[str, CorpusResult]) -> frozenset[str]:
    """The testees in *shown* that the campaign ran on inputs, in that version, with or without findings."""
    reports = (report for report in read_log(directory) if report.executions and is_reading(report))
    versions = {part for report in reports for part in report.version.split(", ")}
    return frozenset(testee for testee, each in shown.items() if f"{testee} {each.version}" in versions)


def is_reading(report: RoundReport) -> bool:
    """Whether testees decoded in the round; findings of targets in process have other keys."""
    return report.target.partition(":")[0] == "differential"


def measure_recall(
    findings: Collection[FuzzFinding],
    shown: Mapping[str, CorpusResult],
    passed_over: Collection[str] = (),
    tested: Collection[str] = (),
) -> list[Recall]:
    """Recall of every testee that ran both the corpus and the campaign in the same version.

    Cases in *passed_over* do not count; testees in *tested* count even without findings.
    """
    found: list[Recall] = []
    for testee, each in sorted(shown.items()):
        ours = (finding for finding in findings if finding.outcome.target == testee and finding.version == each.version)
        mine = {finding.key for finding in ours if finding.mode == "differential"}
        if not mine and testee not in tested:
            continue
        places = {placeless(key) for key in mine}
        counted = {key: case for key, case in each.keys.items() if case not in passed_over}
        missed = {key: case for key, case in counted.items() if key not in mine and placeless(key) not in places}
        found.append(Recall(testee, each.version, len(counted), missed, len(mine - each.keys.keys())))
    return found


def placeless(key: str) -> str:
    """*key* without its last part if that is no rule, but a valid format or a fault.

    >>> placeless("sarama|hang||valid v2") == placeless("sarama|hang||lie size_leads_nowhere")
    True
    """
    before, _, last = key.rpartition("|")
    return f"{before}|" if last.startswith(PLACES) else key
