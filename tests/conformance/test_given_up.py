"""A testee that says hello and then nothing: cases that were not sent are neither skipped nor wrong."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.conformance.misbehaving import REPLY, Script

from kafka_conformance.judge.verdict import OPEN
from kafka_conformance.reports import summary
from kafka_conformance.reports.formats import junit
from kafka_conformance.reports.html import words
from kafka_conformance.reports.terminal import OUTCOME_OF_NOT_SENT, write_summary
from kafka_conformance.runner.requests import MAX_UNANSWERED
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.runner.sandbox import NOT_SENT
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors

V2 = "decode=dict(magics=[2], compressions=['none'])"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Plain cases to decode, of one area."""
    return [case for case in load_vectors() if case.area == "v2_record" and case.op == "decode"][:60]


@pytest.mark.slow
def test_cases_of_a_dead_testee_are_not_sent(cases: list[Case], script: Script, tmp_path: Path) -> None:
    """After a few cases without an answer the others are `not_asked`: in lines, counts, profiles and reports."""
    connection = replace(script("time.sleep(60)", hello=V2), seconds=0.1)
    path = tmp_path / "result.ndjson"
    done = run(RunPlan(connection=connection, cases=cases, corpus="small", path=path, only=["v2_record.*"], jobs=2))
    counts = done.counts()

    assert counts["not_asked"] > len(cases) / 4
    # Both workers may wait for an answer when the testee is given up.
    assert MAX_UNANSWERED <= counts["hang"] <= MAX_UNANSWERED + 2
    assert {line.why for line in done.lines if line.outcome == "not_asked"} == {NOT_SENT}

    made = summary.make(done, cases, (), path)
    assert not made.passes
    assert summary.report_document(made)["counts"]["not_asked"] == counts["not_asked"]
    missing: Counter[str] = Counter()
    for profile in made.profiled.profiles:
        missing.update(profile.missing)
    assert missing[NOT_SENT]
    skips = ElementTree.fromstring(junit(made)).iter("skipped")
    assert any(each.get("message") == f"{words(OUTCOME_OF_NOT_SENT)}: {NOT_SENT}" for each in skips)
    write_summary(made, tmp_path / "summary.txt")
    assert f"{counts['not_asked']} cases {words(OUTCOME_OF_NOT_SENT)}: {NOT_SENT}" in (
        tmp_path / "summary.txt"
    ).read_text("utf-8")


def test_an_answer_keeps_a_testee_from_being_given_up(cases: list[Case], script: Script, tmp_path: Path) -> None:
    """A testee that answered trivial batches gets all cases."""
    body = f"if len(data) == 1: time.sleep(60)\n{REPLY}"
    path = tmp_path / "result.ndjson"
    done = run(RunPlan(connection=script(body, hello=V2), cases=cases, corpus="small", path=path))

    assert done.counts()["not_asked"] == 0
    assert sum(done.counts()[name] for name in OPEN if name != "skipped") == 0
