"""The ledger of brokers' answers: kept, merged into the vectors, held against cases and predictions."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_corpus import compiler
from kafka_corpus.batches import batch_of, bytes_of, some_records
from kafka_corpus.build import put, raw_message
from kafka_corpus.case import Case
from kafka_corpus.check import check, directions
from kafka_corpus.evidence import brokers
from kafka_corpus.registry import Draft, produced, refused, scene, stored
from kafka_corpus.scenario import FindOffset, StepAnswer
from kafka_corpus.vectors import BriefStep, BrokerAnswer, content_hash

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
    case_of("refused", produced(put(BATCH, "base_offset", 1), refused(87))),
    case_of("taken", produced(BATCH, stored(TAKEN.data))),
]
CONTENT = {case.id: content_hash(case) for case in CASES}
RIGHT: dict[str, brokers.Answers] = {"sample.refused": (REFUSED,), "sample.taken": (TAKEN,)}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the two cases compiled, and an empty ledger."""
    (tmp_path / "evidence").mkdir()
    return tmp_path


def found(root: Path, answers: dict[str, dict[str, brokers.Answers]]) -> list[str]:
    """What `check` says about brokers, after these *answers* by release."""
    ledger: brokers.Ledger = {}
    for release, given in answers.items():
        ledger = brokers.with_answers(ledger, release, CONTENT, given)
    brokers.write(root, ledger)
    compiler.write(compiler.compile_corpus(CASES, root), root)
    return [f"{drift.where}: {drift.what}" for drift in check(CASES, root) if drift.check == "brokers"]


def test_right_answers(place: Path) -> None:
    """Answers as expected and as predicted are no drift, and stand in the vectors by release."""
    assert found(place, {"2.8.2": RIGHT, "4.4.0": RIGHT}) == []
    (first, second) = compiler.stored_cases(place)
    as_expected = {"as_expected": True}
    assert first.evidence["brokers"] == second.evidence["brokers"] == {"2.8.2": as_expected, "4.4.0": as_expected}


def test_newest_broker_is_right(place: Path) -> None:
    """A case that the newest broker contradicts fails, and so does one that it was not asked."""
    wrong = RIGHT | {"sample.refused": (StepAnswer(error_code=2),)}
    assert "sample.refused: the broker 4.4.0 answers something else: [0].error_code is 2, expected 87" in found(
        place, {"4.4.0": wrong}
    )
    assert found(place, {"4.4.0": {"sample.taken": (TAKEN,)}}) == [
        "sample.refused: no broker 4.4.0 was asked (`kafkaproof broker record` does)"
    ]


def test_older_brokers_may_differ(place: Path) -> None:
    """What an older release answers is kept in full where it is another thing."""
    old = RIGHT | {"sample.refused": (StepAnswer(error_code=2),)}
    assert found(place, {"2.0.1": old, "4.4.0": RIGHT}) == []
    evidence = compiler.stored_cases(place)[0].evidence["brokers"]
    assert evidence == {"2.0.1": {"steps": [{"error_code": 2}]}, "4.4.0": {"as_expected": True}}


def test_predictions(place: Path) -> None:
    """A strict release that answers what the reference does not predict has to be in the list, with a rule."""
    odd = RIGHT | {"sample.taken": (replace_offset(TAKEN),)}
    said = found(place, {"2.8.2": odd, "4.4.0": RIGHT})
    assert said == [
        "sample.taken: the reference predicts for 2.8.2 what the broker does not answer: "
        "[0].base_offset is 7, expected 0"
    ]
    entry = '[[reviewed]]\nids = ["sample.taken"]\nreleases = ["2.8.2"]\nrule = "OFF-01"\nwhy = "a test"\n'
    (place / "evidence" / "brokers.toml").write_text(entry)
    assert found(place, {"2.8.2": odd, "4.4.0": RIGHT}) == []
    assert found(place, {"2.8.2": RIGHT, "4.4.0": RIGHT}) == [
        "sample.taken: brokers.toml covers nothing any more on 2.8.2: remove it"
    ]


def replace_offset(answer: StepAnswer) -> StepAnswer:
    """The answer with another offset."""
    return StepAnswer(base_offset=7, data=answer.data)


def test_changed_case(place: Path) -> None:
    """Answers to a case that has changed do not count."""
    found(place, {"4.4.0": RIGHT})
    changed = [CASES[0], replace(CASES[1], expect=replace(CASES[1].expect, answers=(REFUSED,)))]
    said = [drift.what for drift in check(changed, place) if drift.check == "brokers"]
    assert said == [
        "brokers were asked before the case changed (`broker record` asks again)",
        "no broker 4.4.0 was asked (`kafkaproof broker record` does)",
    ]


def test_ledger_file(place: Path) -> None:
    """Releases that answered alike share an entry, oldest first, and the file comes back as it was."""
    ledger = brokers.with_answers({}, "4.4.0", CONTENT, RIGHT)
    ledger = brokers.with_answers(ledger, "0.11.0.3", CONTENT, RIGHT)
    ledger = brokers.with_answers(ledger, "2.8.2", CONTENT, {"sample.taken": (REFUSED,)})
    brokers.write(place, ledger)
    assert brokers.load(place) == ledger
    line = ledger["sample.taken"]
    assert [given.releases for given in line.answers] == [["0.11.0.3", "4.4.0"], ["2.8.2"]]
    assert list(line.by_release()) == ["0.11.0.3", "2.8.2", "4.4.0"]
    assert brokers.load(place / "nowhere") == {}


def test_brief_evidence_of_codec_cases() -> None:
    """What brokers answered to the bytes of a decode case stands there with a hash in place of bytes."""
    case = replace(CASES[1], op="decode", input=BATCH, expect=replace(CASES[1].expect, answers=()))
    line = brokers.line_of(case.id, content_hash(case), {"4.4.0": ((REFUSED,), None)})
    assert brokers.as_evidence(line, case) == {"4.4.0": BrokerAnswer(steps=[BriefStep(error_code=87)])}


def test_ways_of_checking() -> None:
    """A payload that is stored is fetched back, so it shows rules of both kinds; one that is refused does not."""
    assert [list(directions(case)) for case in CASES] == [["produce"], ["produce", "fetch"]]
    old = case_of("old", produced(raw_message(1), refused(2), api_version=2))
    assert list(directions(old)) == ["produce"]


def test_silences() -> None:
    """What the reference predicts nothing about is counted by reason; what it does predict is not."""
    asked = case_of("time", scene((FindOffset(timestamp=5), StepAnswer())))
    assert brokers.silences([*CASES, asked]) == {"a time": len(brokers.PREDICTED)}
