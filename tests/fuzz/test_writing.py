"""Encoders under fuzzing: what is asked for, what is right about it, and rounds against real testees."""

import sys
from pathlib import Path
from random import Random

import msgspec
import pytest

import kafka_records
from kafka_conformance.observation import Crashed, Encoded, Refused
from kafka_conformance.protocol import Refusal
from kafka_corpus.wire import WireBatch, from_wire
from kafka_fuzz.campaign.encoding import run_round
from kafka_fuzz.campaign.rounds import Round
from kafka_fuzz.finds import input_of, read_all
from kafka_fuzz.triage.causes import cause_of
from kafka_fuzz.writing.judging import mutant_of, outcome_of
from kafka_fuzz.writing.values import VALUES, Writing, cells, draw, writing
from kafka_records import Batch, Header, Record

BATCH = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, None, b"v"),))


def drawn(count: int) -> list[Writing]:
    """The first *count* of a seed."""
    rng = Random(3)
    return [draw(rng) for _ in range(count)]


def test_every_value_is_drawn() -> None:
    """Within a few thousand batches every variant of every value comes, some to be written and some to be refused."""
    made = drawn(6000)
    assert {(each.value, each.variant) for each in made} >= {(value.name, variant) for value, variant in cells()}
    assert {each.value for each in made if each.rule} & {value.name for value in VALUES}
    assert any(each.value == "truth" and not each.rule for each in made)


def test_the_reference_has_no_finds() -> None:
    """What the reference writes or refuses is right by its own judgement, for every batch."""
    for each in drawn(600):
        data = each.case.expect.data
        seen = Refused(Refusal("malformed", "no")) if data is None else Encoded(data)
        assert not outcome_of("reference", each, seen).is_find


def test_other_bytes_are_wrong_data() -> None:
    """A header that gets lost is a find: its field, the age of the format, and the value that was odd."""
    asked = writing(
        Batch(
            magic=2,
            base_offset=0,
            last_offset=0,
            max_timestamp=5,
            records=(Record(0, 5, None, b"v", (Header(b"h", None),)),),
        ),
        "headers",
        "null value",
    )
    outcome = outcome_of("mine", asked, Encoded(kafka_records.encode(BATCH)))
    assert (outcome.kind, outcome.detail, outcome.function, outcome.lie) == (
        "wrong_data",
        "writing batches.records.headers.length none",
        "v2",
        "headers",
    )


def test_what_must_be_refused() -> None:
    """A batch that no writer may write is a find where it is written, by the rule; refusing it is none."""
    asked = writing(
        Batch(magic=2, base_offset=0, last_offset=0, transactional=True, records=BATCH.records), "flags", ""
    )
    written = outcome_of("mine", asked, Encoded(kafka_records.encode(BATCH)))
    assert (written.kind, written.function) == ("accepts_invalid", asked.rule)
    assert asked.rule
    assert cause_of(written, f"malformed {asked.rule}").startswith("accepts invalid: writing")  # no cause of readers
    assert not outcome_of("mine", asked, Refused(Refusal("other", "never"))).is_find


def test_a_refusal_and_an_end() -> None:
    """A valid batch that is refused is told by the message, an end by its words; neither key is one of reading."""
    asked = writing(BATCH, "truth", "")
    refused = outcome_of("mine", asked, Refused(Refusal("malformed", "offset 17 is odd")))
    assert refused.key == "mine|rejects_valid|writing offset # is odd|v2"
    ended = outcome_of("mine", asked, Crashed(signal=11))
    assert ended.key == "mine|crash|writing signal 11|lie truth"


def test_an_input_is_the_batch() -> None:
    """What a find keeps is the batch as testees are asked for it, and reads back as the same."""
    for each in drawn(50):
        assert from_wire(msgspec.json.decode(mutant_of(each).data, type=WireBatch)) == each.batch


@pytest.mark.parametrize("cpu", [0.5])
def test_a_round(tmp_path: Path, cpu: float) -> None:
    """kafka-python writes what it should refuse; the finds are on the disk, the reference has none."""
    report = run_round(Round("encode:reference,kafka-python", tmp_path, cpu_seconds=cpu), lambda _: None)
    found = list(read_all(tmp_path))
    assert report.executions > 100
    assert {find.key for find in found} == set(report.finds_new)
    assert {find.outcome.target for find in found} == {"kafka-python"}
    assert {find.asked for find in found} == {"encode"}
    assert all(msgspec.json.decode(input_of(tmp_path, find), type=WireBatch) for find in found)


FORGETFUL = """
import sys

import kafka_records
from kafka_conformance.protocol import Capability
from kafka_conformance.serve import serve
from kafka_corpus.wire import from_wire
from kafka_records import Batch, Record


class Forgetful:
    NAME, VERSION = "forgetful", "1"
    DECODES = ENCODES = Capability(magics=[2], compressions=["none"])
    count = 0
    other = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, None, b"v"),))

    def decode(self, data):
        return []

    def encode(self, batch):
        self.count += 1
        return kafka_records.encode(self.other if self.count in WRONG else from_wire(batch))


serve(Forgetful(), sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.mark.parametrize(("wrong", "kinds"), [("{3}", set()), ("range(3, 1 << 60)", {"wrong_data"})])
def test_what_does_not_show_again_is_no_find(tmp_path: Path, wrong: str, kinds: set[str]) -> None:
    """Bytes of another request, once, are no find: the same is asked alone; written again and again they are."""
    script = tmp_path / "forgetful.py"
    script.write_text(FORGETFUL.replace("WRONG", wrong))
    report = run_round(Round(f"encode:process:{sys.executable} {script}", tmp_path, cpu_seconds=0.3), lambda _: None)
    assert report.executions > 3
    assert {find.outcome.kind for find in read_all(tmp_path)} & {"wrong_data"} == kinds
