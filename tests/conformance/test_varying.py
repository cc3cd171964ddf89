"""Cases whose outcome is known to vary: `flaky`, and recorded with the numbers that were measured."""

from pathlib import Path

import msgspec
import pytest
from benchmarks.same_verdicts import RunsUnderLoad, recorded_with, table_text
from tests.conformance.misbehaving import Script

from kafka_conformance.judge.varying import VaryingTable, VaryingTestee, varying_testees
from kafka_conformance.judge.verdict import Outcome
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.known import known_testees
from kafka_corpus.case import Case
from kafka_corpus.vector_format import matches
from kafka_corpus.vectors import load_vectors

ACCEPTS = "reply(id=id, batches=[])"
WHY = {"v2_record.*": "it remembers", "lz4.*": "it forgets"}


def chosen() -> list[Case]:
    """Small invalid cases, of which the testee here takes each."""
    cases = [case for case in load_vectors() if case.op == "decode" and isinstance(case.input, bytes)]
    return [case for case in cases if case.area == "v2_record" and case.expect.verdict == "invalid"][:4]


@pytest.mark.parametrize(
    ("version", "seen", "known_variation", "expected"),
    [
        ("1", {"accepts_invalid": 3, "wrong_error": 1}, True, "flaky"),
        # What was never seen to come and go counts.
        ("1", {"memory": 3, "wrong_error": 1}, True, "accepts_invalid"),
        ("2", {"accepts_invalid": 3, "wrong_error": 1}, True, "accepts_invalid"),
        ("1", {"accepts_invalid": 3, "wrong_error": 1}, False, "accepts_invalid"),
    ],
)
def test_an_outcome_that_is_known_to_vary_is_flaky(
    version: str,
    seen: dict[Outcome, int],
    known_variation: bool,
    expected: str,
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The case that is recorded for this testee and version is flaky, with the numbers; the others are as before."""
    connection, cases = script(ACCEPTS), chosen()
    known = VaryingTestee(
        name=connection.name, version=version, date="2026-11-28", cases={cases[1].id: seen}, reasons=WHY
    )
    monkeypatch.setattr("kafka_conformance.judge.varying.varying_testees", lambda: {(connection.name, version): known})
    done = run(
        RunPlan(
            connection=connection,
            cases=cases,
            corpus="small",
            path=tmp_path / "r.ndjson",
            known_variation=known_variation,
        )
    )

    assert [line.outcome for line in done.lines if line.case != cases[1].id] == ["accepts_invalid"] * 3
    (line,) = (line for line in done.lines if line.case == cases[1].id)
    assert line.outcome == expected
    if expected == "flaky":
        assert line.why == "of 4 runs on a busy machine: accepts invalid in 3, wrong error in 1; it remembers"
        assert line.field == ""


def test_the_variant_of_a_case_that_varies_is_not_compared(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variant of a recorded case is as flaky as its case, so no testee seems to have learned the corpus."""
    connection, cases = script(ACCEPTS), chosen()
    recorded: dict[str, dict[Outcome, int]] = {case.id: {"accepts_invalid": 3, "agree": 1} for case in cases}
    known = VaryingTestee(name=connection.name, version="1", date="2026-11-28", cases=recorded)
    monkeypatch.setattr("kafka_conformance.judge.varying.varying_testees", lambda: {(connection.name, "1"): known})
    plan = RunPlan(
        connection=connection, cases=cases, corpus="small", path=tmp_path / "r.ndjson", seed="one", variants=len(cases)
    )
    done = run(plan)

    assert done.counts()["flaky"] == len(cases)
    assert done.footer is not None
    assert done.footer.variants is not None
    assert done.footer.variants.sent > 0
    assert done.footer.variants.unlike == {}


def test_what_is_recorded_varies() -> None:
    """Each record is of a testee that we know and of a case, and has more than one outcome."""
    ids, names = {case.id for case in load_vectors()}, {known.name for known in known_testees()}

    for (name, version), testee in varying_testees().items():
        assert (name, version) == (testee.name, testee.version)
        assert name in names
        assert set(testee.cases) <= ids
        assert all(len(counts) > 1 and min(counts.values()) > 0 for counts in testee.cases.values())
        assert not {"skipped", "not_asked"} & {outcome for counts in testee.cases.values() for outcome in counts}
        assert all(any(matches(pattern, case) for case in testee.cases) for pattern in testee.reasons)


def test_runs_are_recorded() -> None:
    """Runs are added to those before, an older version goes, and the text can be read back."""
    runs = RunsUnderLoad("2", [{'a["1"]': "memory", "b": "agree"}, {'a["1"]': "hang", "b": "agree"}])
    before = [
        VaryingTestee(name="one", version="2", date="2026-01-01", cases={"c": {"hang": 1, "agree": 1}}, reasons=WHY),
        VaryingTestee(name="two", version="1", date="2026-01-01", cases={"c": {"hang": 1, "agree": 1}}),
    ]
    added = recorded_with(before, "one", runs, "2026-02-02")
    again = recorded_with(added, "one", RunsUnderLoad("2", [{'a["1"]': "hang", "b": "hang"}]), "2026-02-02")
    newer = recorded_with(before, "two", runs, "2026-02-02")
    steady = recorded_with(before, "two", RunsUnderLoad("2", [{"b": "agree"}]), "2026-02-02")

    assert added[0].cases == {'a["1"]': {"hang": 1, "memory": 1}, "c": {"agree": 1, "hang": 1}}
    assert again[0].cases == {'a["1"]': {"hang": 2, "memory": 1}, "c": {"agree": 1, "hang": 1}}
    assert [(each.name, each.version, list(each.cases)) for each in newer] == [
        ("one", "2", ["c"]),
        ("two", "2", ['a["1"]']),
    ]
    assert [each.name for each in steady] == ["one"]
    assert msgspec.toml.decode(table_text(added), type=VaryingTable).testee == added
