"""How much of what the corpus shows of the known testees a campaign found by itself.

A campaign that starts blind, with no case of the corpus, is a fair stand-in for
one that hunts what no case asks for: the share that it finds again is what may
be expected of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from kafka_corpus.vectors import load_vectors
from kafka_fuzz.campaign.corpus_known import Shown
from kafka_fuzz.campaign.plan import read_log
from kafka_fuzz.campaign.rounds import RoundReport
from kafka_fuzz.finds import Find
from kafka_fuzz.mutate.seeds import DECODE

# A lie stands for its place where the input holds no lie that is known.
PLACES: Final = ("valid ", "lie ")


class Recall(msgspec.Struct, frozen=True):
    """One testee.

    Attributes:
        testee, version: who.
        shown: finds that cases of the corpus show, but for those whose case takes any answer.
        missed: those of them that the campaign has not, each with its case.
        beyond: finds of the campaign that no case shows.
    """

    testee: str
    version: str
    shown: int
    missed: dict[str, str]
    beyond: int

    @property
    def found(self) -> int:
        """How many of those that are shown the campaign has."""
        return self.shown - len(self.missed)


def lenient() -> frozenset[str]:
    """Ids of decode cases that let testees do as they like: what these show is no defect."""
    return frozenset(case.id for case in load_vectors(ops=DECODE) if case.expect.verdict == "acceptable")


def asked_in(directory: Path, shown: Mapping[str, Shown]) -> frozenset[str]:
    """Which of the testees in *shown* the campaign asked to read something, in that version, found or not."""
    reports = (report for report in read_log(directory) if report.executions and is_reading(report))
    told = {part for report in reports for part in report.version.split(", ")}
    return frozenset(testee for testee, each in shown.items() if f"{testee} {each.version}" in told)


def is_reading(report: RoundReport) -> bool:
    """Whether testees were asked to read, as they are asked the corpus; targets in process tell finds by other keys."""
    return report.target.partition(":")[0] == "differential"


def recalled(
    finds: Collection[Find],
    shown: Mapping[str, Shown],
    passed_over: Collection[str] = (),
    asked: Collection[str] = (),
) -> list[Recall]:
    """Every testee that both the corpus and the campaign have asked, in that version; not what is *passed_over*.

    Who is in *asked* counts though it has no find.
    """
    found: list[Recall] = []
    for testee, each in sorted(shown.items()):
        ours = (find for find in finds if find.outcome.target == testee and find.version == each.version)
        mine = {find.key for find in ours if find.asked == "differential"}
        if not mine and testee not in asked:
            continue
        places = {placeless(key) for key in mine}
        counted = {key: case for key, case in each.keys.items() if case not in passed_over}
        missed = {key: case for key, case in counted.items() if key not in mine and placeless(key) not in places}
        found.append(Recall(testee, each.version, len(counted), missed, len(mine - each.keys.keys())))
    return found


def placeless(key: str) -> str:
    """*key* without what stands for a cause where there is no rule: the format's age, or the lie.

    >>> placeless("sarama|hang||valid v2") == placeless("sarama|hang||lie size_leads_nowhere")
    True
    """
    before, _, last = key.rpartition("|")
    return f"{before}|" if last.startswith(PLACES) else key
