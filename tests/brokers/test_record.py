"""Recording what real brokers answer: resumed, restarted, never twice; needs Java and Maven."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kafka_brokers import jvm
from kafka_brokers.releases import NEWEST
from kafka_brokers.scenarios.disk import ON_DISK
from kafka_brokers.scenarios.recorder import (
    AnswerFile,
    Recorder,
    ScenarioRequest,
    differing,
    ends_of,
    record_answers,
    recorded_scenarios,
    scenario_requests,
)
from kafka_conformance.judge.reach import CONFIG
from kafka_corpus import evidence
from kafka_corpus.answer_diff import difference
from kafka_corpus.scenario import Edit, StepAnswer
from kafka_corpus.vectors import load_vectors, package_root

pytestmark = [pytest.mark.broker, pytest.mark.slow]

OLD = "0.10.2.2"


def some(release: str, only: str = "produce_*", every: int = 9) -> list[ScenarioRequest]:
    """A part of the requests for *release*, none of which restarts the broker."""
    requests = [each for each in scenario_requests(load_vectors(only), release) if not each.scenario.restarts()]
    return requests[::every]


@pytest.mark.parametrize("release", [OLD, NEWEST])
def test_recorded_again(release: str, tmp_path: Path) -> None:
    """A broker that is recorded again gives the recorded answers, clock and producer ids apart."""
    requests = some(release)
    assert len(requests) > 20
    recorded = evidence.load_evidence(package_root())
    with jvm.start_jvm(release, config=CONFIG) as broker:
        recorder = Recorder(broker)
        lines = record_answers(recorder, requests, AnswerFile(tmp_path / "answers.ndjson"), lambda *_: None)
        recorder.close()
    assert differing(recorded, release, requests, lines) == []
    assert recorder.restarts == 0


def test_scenarios_with_restarts_are_prepared_together() -> None:
    """Steps after the last restart are answered as recorded, though another scenario restarts the broker more often."""
    names = ("log_messages.wrong_checksum", "log_messages.old_tombstone_in_a_clean_segment[a day]")
    cases = [case for case in load_vectors() if case.id in names]
    recorded = list(recorded_scenarios(cases, evidence.load_evidence(package_root()), NEWEST))
    assert sorted(ends_of(each.request.scenario) for each in recorded) == [1, 2]
    with jvm.start_jvm(NEWEST, config=CONFIG) as broker:
        recorder = Recorder(broker)
        runners = recorder.prepared([each.request.scenario for each in recorded])
        given = [runner.play(ON_DISK) for runner in runners]
        recorder.close()
    assert [each.difference(answers) for each, answers in zip(recorded, given, strict=True)] == ["", ""]


def test_broker_killed_in_the_middle(tmp_path: Path) -> None:
    """A broker that is killed is started again; no answer is lost, none recorded twice, and all are right."""
    requests = some(NEWEST)
    recording = AnswerFile(tmp_path / "answers.ndjson")
    with jvm.start_jvm(NEWEST, config=CONFIG) as broker:
        recorder = Recorder(broker)
        lines = []
        for line in recorder.record(requests, recording):
            lines.append(line)
            if len(lines) == len(requests) // 2:
                broker.kill()
        recorder.close()
    assert recorder.restarts == 1
    answered = [line["id"] for line in map(json.loads, recording.path.read_text().splitlines()) if "steps" in line]
    assert sorted(answered) == sorted(each.id for each in requests)
    recorded = evidence.load_evidence(package_root())
    assert differing(recorded, NEWEST, requests, {line.id: line for line in lines}) == []


def test_resumed(tmp_path: Path) -> None:
    """A recording that was stopped in the middle of a line continues after the last whole one."""
    requests = some(NEWEST, "produce_offsets.*", 5)
    recording = AnswerFile(tmp_path / "answers.ndjson")
    with jvm.start_jvm(NEWEST, config=CONFIG) as broker:
        recorder = Recorder(broker)
        answers = recorder.record(requests, recording)
        first = [next(answers), next(answers)]
        answers.close()
        with recording.path.open("ab") as file:
            file.write(b'{"id":"torn')
        lines = list(recorder.record(requests, recording))
        recorder.close()
    assert lines[:2] == first
    assert {line.id for line in lines} == {each.id for each in requests} == recording.lines().keys()


def test_disk(tmp_path: Path) -> None:
    """For every stored payload the segment holds the fetched bytes, and DumpLogSegments reads them so."""
    requests = [each for each in some(NEWEST, every=3) if each.scenario.is_plain()]
    recording = AnswerFile(tmp_path / "answers.ndjson")
    with jvm.start_jvm(NEWEST, config=CONFIG) as broker:
        recorder = Recorder(broker)
        lines = record_answers(recorder, requests, recording, lambda *_: None)
        recorder.close()
    stored = [line for line in lines.values() if line.steps and line.steps[0].data]
    assert len(stored) > 50
    assert [line.id for line in stored if line.disk is None or line.disk.segment] == []
    assert all(recording.lines()[line.id].disk == line.disk for line in stored)


def kafkaproof(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "kafkaproof", "broker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


def test_commands(tmp_path: Path) -> None:
    """`record` fills evidence files, repeats no request, `--check` agrees with it, and `compare` lists the changes."""
    (tmp_path / "evidence").mkdir()
    where = ("--root", str(tmp_path), "--dir", str(tmp_path / "answers"), "--only", "HDR-06")
    for release in ("2.0.1", NEWEST):
        done = kafkaproof("record", release, *where)
        assert done.returncode == 0, done.stderr
    again = kafkaproof("record", NEWEST, "--json", *where)
    assert json.loads(again.stdout)["releases"][0]["sent"] == 0
    checked = kafkaproof("record", NEWEST, "--check", *where)
    assert checked.returncode == 0, checked.stdout
    compared = kafkaproof("compare", "2.0.1", NEWEST, "--json", "--root", str(tmp_path))
    recorded = evidence.load_evidence(tmp_path)
    assert compared.returncode == (1 if json.loads(compared.stdout)["changes"] else 0)
    both = [line.by_release() for line in recorded.values() if len(line.by_release()) == 2]
    changed = [answers for answers in both if difference(answers["2.0.1"], answers[NEWEST], "masked")]
    assert len(json.loads(compared.stdout)["changes"]) == len(changed) > 0
    assert kafkaproof("compare", "2.0.1", "9.9.9", "--root", str(tmp_path)).returncode == 2


def test_a_log_that_stops_the_broker_is_an_answer(tmp_path: Path) -> None:
    """A scenario after which the broker does not start gets the answer that it ended, and the rest its own broker."""
    stops = next(each for each in scenario_requests(load_vectors("log_recovery.offset_that_stops*"), NEWEST))
    (edit,) = stops.scenario.steps
    assert isinstance(edit, Edit)
    steps = (msgspec.structs.replace(edit, fatal=False),)
    requests = [ScenarioRequest("stops", "0", replace(stops.scenario, steps=steps)), *some(NEWEST)[:3]]
    with ExitStack() as started:

        def new() -> jvm.JvmBroker:
            return started.enter_context(jvm.start_jvm(NEWEST, config=CONFIG))

        recorder = Recorder(new(), new_broker=new)
        lines = record_answers(recorder, requests, AnswerFile(tmp_path / "answers.ndjson"), lambda *_: None)
        recorder.close()
    assert lines["stops"].steps == (StepAnswer(ended=True),)
    assert differing(evidence.load_evidence(package_root()), NEWEST, requests[1:], lines) == []
