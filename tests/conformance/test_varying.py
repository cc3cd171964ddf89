"""Cases whose outcome is known to vary: `flaky`, and recorded with the numbers that were measured."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from benchmarks.same_verdicts import (
    LoadPlan,
    RunsUnderLoad,
    record_runs,
    recorded_with,
    run_under_load,
    table_text,
    varying_cases,
    with_known_variation,
)
from tests.conformance.misbehaving import Script

from kafka_conformance.judge.varying import VaryingTable, VaryingTestee, varying_testees
from kafka_conformance.judge.verdict import Outcome
from kafka_conformance.runner.results import Unusable
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.known import known_testees
from kafka_corpus.case import Case
from kafka_corpus.vector_format import matches
from kafka_corpus.vectors import load_vectors

ACCEPTS = "reply(id=id, batches=[])"
WHY = {"v2_record.*": "it remembers", "lz4.*": "it forgets"}


# Several runs want both tables at once, as the first of their process; again and again with types that are new.
FIRST = """
import importlib, sys, threading
from kafka_conformance.judge import memory, varying

def want():
    together.wait()
    assert varying.varying_testees() and memory.client_memory()

sys.setswitchinterval(1e-6)
for _ in range(40):
    importlib.reload(varying), importlib.reload(memory)
    together = threading.Barrier(8)
    threads = [threading.Thread(target=want) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def chosen() -> list[Case]:
    """Small invalid cases, of which the testee here takes each."""
    cases = [case for case in load_vectors() if case.op == "decode" and isinstance(case.input, bytes)]
    return [case for case in cases if case.area == "v2_record" and case.expect.verdict == "invalid"][:4]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_measurement_goes_on_in_its_folder(tmp_path: Path) -> None:
    """Runs that are complete in the folder are read; an incomplete one goes on; what is recorded counts once."""
    cases = [case for case in load_vectors() if case.area == "varint"][:12]
    two, three = (LoadPlan(cases=cases, folder=tmp_path, times=times, jobs=1, others=0) for times in (2, 3))
    first = run_under_load(["reference", "kafka-python"], two)
    (earned, torn) = (two.result_file("reference", number) for number in (0, 1))
    before = earned.read_bytes()
    torn.write_bytes(b"".join(torn.read_bytes().splitlines(keepends=True)[:4]))
    again = run_under_load(["reference", "kafka-python"], three)

    assert earned.read_bytes() == before
    assert [len(runs.outcomes) for runs in (*first.values(), *again.values())] == [2, 2, 3, 3]
    assert again["reference"].outcomes[:2] == first["reference"].outcomes
    assert all(set(runs) == {case.id for case in cases} for runs in again["reference"].outcomes)
    other = LoadPlan(cases=cases[:3], folder=tmp_path, only=["varint.*"], times=1, jobs=1, others=0)
    with pytest.raises(Unusable, match="another selection of cases"):
        run_under_load(["reference"], other)


@pytest.mark.slow
def test_a_recorded_run_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording puts the result files aside, so that no run is added twice."""
    cases = [case for case in load_vectors() if case.area == "varint"][:3]
    plan = LoadPlan(cases=cases, folder=tmp_path / "runs", times=1, jobs=1, others=0)
    monkeypatch.setattr("benchmarks.same_verdicts.TABLE", tmp_path / "varying.toml")
    record_runs(run_under_load(["reference"], plan), plan)

    assert not plan.result_file("reference", 0).exists()
    assert (tmp_path / "runs" / "reference" / "0.recorded").exists()
    table = msgspec.toml.decode((tmp_path / "varying.toml").read_bytes(), type=VaryingTable)
    assert list(table.testee) == list(varying_testees().values())


def test_known_variation_is_no_difference() -> None:
    """An outcome that is recorded to vary is `flaky` in the comparison; any other stays what it is."""
    known = next(each for each in varying_testees().values() if each.cases)
    (id_, counts) = next(iter(known.cases.items()))
    seen: list[dict[str, Outcome]] = [{id_: outcome, "other": "agree"} for outcome in counts]
    found = with_known_variation(known.name, RunsUnderLoad(known.version, seen))
    newer = with_known_variation(known.name, RunsUnderLoad("another", seen))

    assert varying_cases(seen)
    assert varying_cases(found.outcomes) == {}
    assert found.outcomes[0] == {id_: "flaky", "other": "agree"}
    assert newer.outcomes == seen


@pytest.mark.slow
def test_runs_at_the_same_time_read_the_tables() -> None:
    """msgspec crashed the process where two threads met the type of a table for the first time."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
