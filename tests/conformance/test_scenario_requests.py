"""A broker's answers judged: one row for each outcome."""

import pytest

from kafka_conformance.judge.observation import Appended, ScenarioAnswers, observation_summary, observe
from kafka_conformance.judge.verdict import Verdict, judge
from kafka_conformance.runner.requests import append_request, is_heavy, is_relevant, request_for
from kafka_conformance.testees.protocol import CodecAnswer
from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import put
from kafka_corpus.case import Case
from kafka_corpus.registry import Draft, error_answer, produced, scene, stored
from kafka_corpus.scenario import NOW, Fetch, Made, Produce, Scenario, StepAnswer

BATCH = bytes_of(batch_of(*some_records(2)))
STORED = put(BATCH, "partition_leader_epoch", 0)
TAKEN = StepAnswer(base_offset=0, data=STORED)


def case_of(draft: Draft) -> Case:
    """A case."""
    return Case(id="a.b", title="", rules=("X",), area="a", op=draft.op, input=draft.input, expect=draft.expect)


TAKES = case_of(produced(BATCH, TAKEN))
REFUSES = case_of(produced(BATCH, error_answer(87, record_errors=(0,))))


@pytest.mark.parametrize(
    ("case", "answer", "outcome"),
    [
        (TAKES, TAKEN, "agree"),
        (TAKES, StepAnswer(error_code=2), "rejects_valid"),
        (TAKES, StepAnswer(closed=True), "crash"),
        (TAKES, StepAnswer(ended=True), "crash"),
        (TAKES, StepAnswer(base_offset=1, data=STORED), "wrong_data"),
        (TAKES, StepAnswer(base_offset=0, data=STORED[:-1]), "wrong_data"),
        (TAKES, StepAnswer(base_offset=0, data=put(STORED, "partition_leader_epoch", 4)), "lossy"),
        (TAKES, StepAnswer(base_offset=0, data=b"\x00" * 61), "wrong_data"),
        (REFUSES, TAKEN, "accepts_invalid"),
        (REFUSES, StepAnswer(error_code=2), "wrong_error"),
        (REFUSES, StepAnswer(error_code=87), "lossy"),
    ],
)
def test_outcomes(case: Case, answer: StepAnswer, outcome: str) -> None:
    """Each way of being wrong has its severity."""
    assert judge(case, ScenarioAnswers((answer,))).outcome == outcome


def test_which_step() -> None:
    """The first step that differs is named, with the field."""
    case = case_of(scene((Produce(data=BATCH), TAKEN), (Fetch(), StepAnswer(data=STORED, high_watermark=2))))
    given = (TAKEN, StepAnswer(data=STORED, high_watermark=3))
    assert judge(case, ScenarioAnswers(given)) == Verdict(
        "wrong_data", "answers[1].high_watermark", "high_watermark is 3, expected 2"
    )
    assert judge(case, ScenarioAnswers((TAKEN,))).outcome == "crash"
    assert judge(case, ScenarioAnswers((StepAnswer(ended=True),))).why == "the broker ended at step 1"


def test_append_of_a_testee() -> None:
    """A testee that says what a broker answers is judged by code, offset and bytes."""
    assert judge(TAKES, Appended(0, 0, STORED)).outcome == "agree"
    assert judge(TAKES, Appended(0, 0, BATCH)).outcome == "lossy"
    assert judge(REFUSES, Appended(87, -1, b"")).outcome == "agree"
    assert judge(REFUSES, Appended(0, 0, STORED)).outcome == "accepts_invalid"


def test_reply() -> None:
    """A reply with an error code is an append; without the offset and bytes it is a refusal."""
    assert observe(CodecAnswer(error_code=0, base_offset=0, stored=b"x")) == Appended(0, 0, b"x")
    assert observe(CodecAnswer(error_code=87)) == Appended(87, -1, b"")
    assert observation_summary(Appended(0, 3, b"xy")) == {
        "kind": "appended",
        "error_code": 0,
        "base_offset": 3,
        "bytes": 2,
    }
    assert observation_summary(ScenarioAnswers((TAKEN,))) == {"kind": "played", "error_codes": [0]}


def test_request() -> None:
    """A single payload becomes a request to the newest release that the case concerns."""
    case = case_of(produced(BATCH, TAKEN, api_version=9, config={"a": "b"}, until="2.8.2"))
    assert isinstance(case.input, Scenario)
    request = append_request(case.input)
    fields = (request.data, request.release, request.api_version, request.config, request.now_ms)
    assert fields == (BATCH, "2.8.2", 9, {"a": "b"}, NOW)
    assert request_for(case).subject == request


def test_for_whom() -> None:
    """Only a testee that announces `append` gets payloads, and only those that stand alone."""
    two = case_of(scene((Produce(data=BATCH), TAKEN), (Produce(data=BATCH), TAKEN)))
    assert [is_relevant(case, append=True) for case in (TAKES, two)] == [True, False]
    assert not is_relevant(TAKES, append=False)


def test_heavy() -> None:
    """A payload that is made at request time is heavy."""
    made = case_of(scene((Produce(recipe=Made("x", {})), error_answer(10))))
    assert is_heavy(made)
    assert not is_heavy(TAKES)


def test_stored() -> None:
    """`stored` is the answer to a payload that is taken at offset 0."""
    assert stored(STORED) == TAKEN
