"""Recorded answers of brokers: kept, shown with their cases, compared with expectations and predictions."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_corpus import compiler, evidence
from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import put, raw_message
from kafka_corpus.case import Case
from kafka_corpus.check import check, directions, waiting
from kafka_corpus.evidence import Answers, CaseEvidence, broker_answer, brokers
from kafka_corpus.registry import Draft, error_answer, produced, scene, stored
from kafka_corpus.scenario import FindOffset, StepAnswer
from kafka_corpus.vector_format import BriefStep, BrokerAnswer, content_hash, to_vector
from kafka_corpus.vectors import load_vectors

BATCH = bytes_of(batch_of(*some_records(2)))
TAKEN = StepAnswer(base_offset=0, data=put(BATCH, "partition_leader_epoch", 0))
REFUSED = StepAnswer(error_code=87)


def case_of(name: str, draft: Draft) -> Case:
    """A case in the area `sample`."""
    return Case(
        id=f"sample.{name}",
        title=name,
        rules=("HDR-06",),
        area="sample",
        op=draft.op,
        input=draft.input,
        expect=draft.expect,
    )


CASES = [
    case_of("refused", produced(put(BATCH, "base_offset", 1), error_answer(87))),
    case_of("taken", produced(BATCH, stored(TAKEN.data))),
]
CONTENT = {case.id: content_hash(case) for case in CASES}
RIGHT: dict[str, Answers] = {"sample.refused": (REFUSED,), "sample.taken": (TAKEN,)}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for the two cases, without recorded answers."""
    (tmp_path / "evidence").mkdir()
    return tmp_path


def found(root: Path, answers: dict[str, dict[str, Answers]]) -> list[str]:
    """The report of `check` about brokers, after these *answers* by release."""
    recorded: evidence.Evidence = {}
    for release, given in answers.items():
        recorded = brokers.with_release(recorded, release, CONTENT, given)
    evidence.write_evidence(recorded, root)
    compiler.write_compiled(compiler.compile_corpus(CASES, root), root)
    return [f"{drift.where}: {drift.what}" for drift in check(CASES, root) if drift.check == "brokers"]


def test_right_answers(place: Path) -> None:
    """Answers as expected and as predicted are no drift, and stand in the vectors by release."""
    assert found(place, {"2.8.2": RIGHT, "4.4.0": RIGHT}) == []
    (first, second) = load_vectors(root=place)
    as_expected = {"as_expected": True}
    assert first.evidence["brokers"] == second.evidence["brokers"] == {"2.8.2": as_expected, "4.4.0": as_expected}


def test_newest_broker_is_right(place: Path) -> None:
    """A case that the newest broker contradicts fails; one without its answer waits."""
    wrong = RIGHT | {"sample.refused": (StepAnswer(error_code=2),)}
    assert "sample.refused: the broker 4.4.0 answers something else: [0].error_code is 2, expected 87" in found(
        place, {"4.4.0": wrong}
    )
    (place / "evidence" / "sample.ndjson").unlink()
    assert found(place, {"4.4.0": {"sample.taken": (TAKEN,)}}) == []
    assert waiting(place).brokers == {"4.4.0": ["sample.refused"]}


def test_older_brokers_may_differ(place: Path) -> None:
    """A different answer of an older release is kept in full."""
    old = RIGHT | {"sample.refused": (StepAnswer(error_code=2),)}
    assert found(place, {"2.0.1": old, "4.4.0": RIGHT}) == []
    shown = load_vectors(root=place)[0].evidence["brokers"]
    assert shown == {"2.0.1": {"steps": [{"error_code": 2}]}, "4.4.0": {"as_expected": True}}


def test_predictions(place: Path) -> None:
    """A strict release that answers what the reference does not predict has to be in the list, with a rule."""
    odd = RIGHT | {"sample.taken": (replace_offset(TAKEN),)}
    said = found(place, {"2.8.2": odd, "4.4.0": RIGHT})
    assert said == [
        "sample.taken: the reference predicts for 2.8.2 what the broker does not answer: "
        "[0].base_offset is 7, expected 0"
    ]
    former = '[[reviewed]]\nids = ["sample.taken"]\nreleases = ["2.8.2"]\nrule = "OFF-01"\nwhy = "a test"\n'
    entry = '[[issue]]\ncases = ["sample.taken"]\nversions = ["2.8.2"]\nrule = "OFF-01"\nreason = "a test"\n'
    for text in (former, entry):
        (place / "evidence" / "brokers.toml").write_text(text)
        assert found(place, {"2.8.2": odd, "4.4.0": RIGHT}) == []
    assert found(place, {"2.8.2": RIGHT, "4.4.0": RIGHT}) == [
        "sample.taken: brokers.toml covers nothing any more on 2.8.2: remove it"
    ]


def test_releases_with_few_answers(place: Path) -> None:
    """An answer that dates a change is held against the prediction, no case waits for it, and none is the newest."""
    right: dict[str, Answers] = {"sample.taken": (TAKEN,)}
    assert found(place, {"2.5.1": right, "4.4.0": RIGHT}) == []
    assert waiting(place).brokers == {"4.4.0": []}
    assert found(place, {"2.5.1": {"sample.taken": (replace_offset(TAKEN),)}, "4.4.0": RIGHT}) == [
        "sample.taken: the reference predicts for 2.5.1 what the broker does not answer: "
        "[0].base_offset is 7, expected 0"
    ]


def replace_offset(answer: StepAnswer) -> StepAnswer:
    """The answer with another offset."""
    return StepAnswer(base_offset=7, data=answer.data)


def test_changed_case(place: Path) -> None:
    """Answers to a case that has changed do not count."""
    found(place, {"4.4.0": RIGHT})
    changed = [CASES[0], replace(CASES[1], expect=replace(CASES[1].expect, answers=(REFUSED,)))]
    said = [drift.what for drift in check(changed, place) if drift.check == "brokers"]
    assert said == ["has answers of brokers to another content (`broker record` records new ones)"]


def test_evidence_file(place: Path) -> None:
    """Releases that answered alike share an entry, oldest first, and the file comes back as it was."""
    recorded = brokers.with_release({}, "4.4.0", CONTENT, RIGHT)
    recorded = brokers.with_release(recorded, "0.11.0.3", CONTENT, RIGHT)
    recorded = brokers.with_release(recorded, "2.8.2", CONTENT, {"sample.taken": (REFUSED,)})
    evidence.write_evidence(recorded, place)
    assert evidence.load_evidence(place) == recorded
    line = recorded["sample.taken"]
    assert [given.releases for given in line.brokers] == [["0.11.0.3", "4.4.0"], ["2.8.2"]]
    assert list(line.by_release()) == ["0.11.0.3", "2.8.2", "4.4.0"]
    assert evidence.load_evidence(place / "nowhere") == {}


def test_release_that_cannot_run_a_case(place: Path) -> None:
    """The reason is recorded; the release is not waited for, and has no answer."""
    recorded = brokers.with_release({}, "4.4.0", CONTENT, RIGHT)
    recorded = brokers.with_release(recorded, "2.8.2", CONTENT, {"sample.taken": (TAKEN,)})
    compiler.write_compiled(compiler.compile_corpus(CASES, place), place)
    evidence.write_evidence(recorded, place)
    assert waiting(place).brokers["2.8.2"] == ["sample.refused"]
    recorded = brokers.with_release(recorded, "2.8.2", CONTENT, {}, cannot={"sample.refused": "no such setting"})
    assert evidence.write_evidence(recorded, place) == ["evidence/sample.ndjson"]
    assert evidence.load_evidence(place) == recorded
    assert waiting(place).brokers["2.8.2"] == []
    assert list(recorded["sample.refused"].by_release()) == ["4.4.0"]
    assert [drift for drift in check(CASES, place) if drift.check == "brokers"] == []
    again = brokers.with_release(recorded, "2.8.2", CONTENT, {"sample.refused": (REFUSED,)})
    assert list(again["sample.refused"].by_release()) == ["2.8.2", "4.4.0"]


def test_brief_evidence_of_codec_cases() -> None:
    """Broker answers to the bytes of a decode case are stored with a hash in place of bytes."""
    case = replace(CASES[1], op="decode", input=BATCH, expect=replace(CASES[1].expect, answers=()))
    line = brokers.with_brokers(CaseEvidence(case.id, content_hash(case)), {"4.4.0": ((REFUSED,), None, "")})
    assert broker_answer(to_vector(case).expect, line.by_release()["4.4.0"]) == BrokerAnswer(
        steps=[BriefStep(error_code=87)]
    )


def test_ways_of_checking() -> None:
    """A payload that is stored is fetched back, so it shows rules of both kinds; one that is refused does not."""
    assert [list(directions(case)) for case in CASES] == [["produce"], ["produce", "fetch"]]
    old = case_of("old", produced(raw_message(1), error_answer(2), api_version=2))
    assert list(directions(old)) == ["produce"]


def test_silences() -> None:
    """Answers that the reference does not predict are counted by reason; predicted ones are not counted."""
    unpredicted = case_of("time", scene((FindOffset(timestamp=5), StepAnswer())))
    assert brokers.silences([*CASES, unpredicted]) == {"a time": len(brokers.PREDICTED)}
