"""Several testees side by side: each ends in its own way, and all can be stopped."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_brokers import progress
from kafka_conformance.runner.results import Results
from kafka_conformance.runner.run import Interrupted, ParallelRuns, RunPlan
from kafka_conformance.testees.connection import CannotRun, ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_corpus.case import Case, Expectation

Script = Callable[..., ConnectionSpec]

REPLY = "reply(id=id, batches=[])"
AGREE = Expectation(verdict="valid")
CASES = [
    Case(id=f"many.c{at:02}", title="", rules=("X",), area="many", op="decode", input=b"%d" % at, expect=AGREE)
    for at in range(20)
]


def plan(connection: ConnectionSpec, path: Path) -> RunPlan:
    """A run over all cases."""
    return RunPlan(connection=connection, cases=CASES, corpus="c", path=path)


def test_each_ends_in_its_own_way(script: Script, tmp_path: Path) -> None:
    """A testee that cannot run has its own outcome; the other results are complete."""
    plans = [plan(script(REPLY), tmp_path / "a"), plan(connect("process:/bin/false"), tmp_path / "b")]
    plans.append(plan(script(REPLY), tmp_path / "c"))
    outcomes = dict(ParallelRuns(plans, 2).outcomes())

    assert isinstance(outcomes[1], CannotRun)
    for outcome in (outcomes[0], outcomes[2]):
        assert isinstance(outcome, Results)
        assert outcome.complete
        assert outcome.counts()["agree"] == len(CASES)


def test_the_slowest_goes_first(script: Script, tmp_path: Path) -> None:
    """Virtual machines have the first places, then what is loaded into Python; outcomes keep the places of the runs."""
    fast = script(REPLY)
    kinds = (fast, replace(fast, preloads=True), replace(fast, memory=4 * fast.memory), fast)
    together = ParallelRuns([plan(each, tmp_path / str(at)) for at, each in enumerate(kinds)], 2)

    assert [each.rank for each in together._plans] == [2, 1, 0, 3]
    assert [each.connection for each in together._plans] == list(kinds)


def test_all_are_stopped(script: Script, tmp_path: Path) -> None:
    """Once they are stopped, those that work and those that wait for a place end as interrupted, and leave nothing."""
    sent = tmp_path / "sent"
    # Calibration inputs are longer than the inputs of the cases.
    endless = f"if len(data) < 4:\n        open({str(sent)!r}, 'w').close()\n        time.sleep(600)\n    {REPLY}"
    together = ParallelRuns([plan(script(endless), tmp_path / str(at)) for at in range(3)], 1)
    ends = together.outcomes()
    together.stop()
    outcomes = dict(ends)

    assert sorted(outcomes) == [0, 1, 2]
    assert all(isinstance(outcome, Interrupted) for outcome in outcomes.values())


def test_progress_shows_the_sum(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress of several is that of all cases; those that have not begun count as much as one that has."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.progress_of(["a", "b"]) as report:
        report("a")(10, 100, 1)
        report("b")(5, 40, 2)
        report("a")(100, 100, 3)
    lines = capsys.readouterr().err.splitlines()

    assert lines == [
        "2 testees: 10 of 200 cases, 1 findings",
        "2 testees: 15 of 140 cases, 3 findings",
        "2 testees: 105 of 140 cases, 5 findings",
    ]
