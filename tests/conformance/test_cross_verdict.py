"""Blame is derived from the requested batch, the written bytes and the consumer's answer."""

from dataclasses import replace

import pytest

from kafka_conformance.cross.verdict import of_broker, of_reader, of_writer
from kafka_conformance.judge.observation import Crashed, Decoded, Encoded, Observation, Refused, Skipped
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.scenario import StepAnswer
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Record, encode

RECORDS = (Record(0, 1000, b"key", b"value"), Record(1, 1001, None, b"value"))
WANTED = Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=1001, records=RECORDS)
LATE = replace(WANTED, records=(RECORDS[0], RECORDS[1]._replace(timestamp=1007)), max_timestamp=1007)
OTHER = replace(WANTED, records=(RECORDS[0]._replace(value=b"other"), RECORDS[1]))


def gives(batch: Batch) -> Decoded:
    """A consumer's answer with *batch*."""
    return Decoded((to_wire(batch),))


@pytest.mark.parametrize(
    ("held", "given", "outcome", "blame"),
    [
        (WANTED, WANTED, "agree", ""),
        (LATE, LATE, "wrong_data", "producer"),
        (WANTED, OTHER, "wrong_data", "consumer"),
        (LATE, OTHER, "wrong_data", "both"),
        (LATE, WANTED, "agree", "both"),
    ],
    ids=["right", "written wrong", "read wrong", "both wrong", "undone"],
)
def test_blame(held: Batch, given: Batch, outcome: str, blame: str) -> None:
    """The producer is to blame if the bytes hold something else, the consumer if it gives something else than they."""
    judged = of_reader((WANTED,), encode(held), gives(given))

    assert (judged.outcome, judged.blame) == (outcome, blame)


@pytest.mark.parametrize(
    ("observation", "outcome"),
    [(Refused(Refusal("malformed", "no")), "rejects_valid"), (Crashed(exit_code=1), "crash")],
)
def test_a_consumer_that_fails_over_right_bytes(observation: Observation, outcome: str) -> None:
    """Refusing or dying over bytes that are right is the consumer's fault."""
    judged = of_reader((WANTED,), encode(WANTED), observation)

    assert (judged.outcome, judged.blame) == (outcome, "consumer")


def test_unreadable_bytes() -> None:
    """A batch without a checksum is the producer's fault; a consumer that takes it all the same undoes it."""
    data = encode(WANTED)
    broken = data[:17] + bytes(4) + data[21:]
    refused = of_reader((WANTED,), broken, Refused(Refusal("corrupt", "crc")))
    taken = of_reader((WANTED,), broken, gives(WANTED))
    invented = of_reader((WANTED,), broken, gives(OTHER))

    assert (refused.outcome, refused.blame) == ("rejects_valid", "producer")
    assert (taken.outcome, taken.blame) == ("agree", "both")
    assert (invented.outcome, invented.blame) == ("accepts_invalid", "both")


def test_an_equivalence_is_nobodys_fault() -> None:
    """A consumer that returns the written leader epoch instead of the requested one is right."""
    epoch = replace(WANTED, partition_leader_epoch=0)

    assert of_reader((WANTED,), encode(epoch), gives(epoch)).outcome == "agree"
    assert of_reader((WANTED,), encode(WANTED), gives(epoch)).blame == "consumer"


def test_what_is_not_exposed_is_not_compared() -> None:
    """A max timestamp that is written wrong does not reach a consumer that shows none."""
    wrong = replace(WANTED, max_timestamp=5)
    wire = to_wire(WANTED)
    del wire.max_timestamp

    assert of_reader((WANTED,), encode(wrong), gives(wrong)).blame == "producer"


def test_skipped_stays_skipped() -> None:
    """A skip of a consumer is no failure."""
    judged = of_reader((WANTED,), encode(WANTED), Skipped("no zstd"))

    assert (judged.outcome, judged.blame, judged.why) == ("skipped", "", "no zstd")


def test_a_writer_is_judged_as_in_a_certificate() -> None:
    """The producer's own column holds the verdict on an encode case."""
    expect = Expectation(verdict="valid", data=encode(WANTED))
    case = Case(id="a.b", title="", rules=("X",), area="a", op="encode", input=WANTED, expect=expect)

    assert of_writer(case, Encoded(encode(WANTED))).outcome == "agree"
    assert of_writer(case, Encoded(encode(LATE))).blame == "producer"
    assert of_writer(case, Refused(Refusal("malformed"))).outcome == "rejects_valid"


TAKEN = StepAnswer(base_offset=0, data=encode(WANTED))
REFUSED = StepAnswer(error_code=87)


@pytest.mark.parametrize(
    ("right", "given", "outcome", "blame"),
    [
        (TAKEN, TAKEN, "agree", ""),
        (TAKEN, REFUSED, "rejects_valid", "producer"),
        (REFUSED, REFUSED, "skipped", ""),
        (REFUSED, TAKEN, "accepts_invalid", "producer"),
        (TAKEN, StepAnswer(base_offset=0, data=encode(LATE)), "wrong_data", "producer"),
        (TAKEN, StepAnswer(base_offset=0, data=encode(replace(WANTED, base_timestamp=900))), "agree", ""),
        (TAKEN, StepAnswer(base_offset=0, data=encode(WANTED)[:-1] + b"!"), "wrong_data", "producer"),
        (TAKEN, StepAnswer(closed=True), "rejects_valid", "producer"),
        (TAKEN, StepAnswer(ended=True), "rejects_valid", "producer"),
    ],
)
def test_the_broker_is_right(right: StepAnswer, given: StepAnswer, outcome: str, blame: str) -> None:
    """A consumer that reads the right bytes correctly is not to blame for the producer's bytes."""
    judged = of_broker(right, given, "Kafka 4.4.0")

    assert (judged.outcome, judged.blame) == (outcome, blame)
    assert "INVALID_RECORD" in judged.why or given is not REFUSED
