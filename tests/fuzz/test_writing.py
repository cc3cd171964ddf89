"""Encoders under fuzzing: encode requests, their right answers, and rounds against real testees."""

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest
from click.testing import CliRunner, Result

import kafka_records
from kafka_conformance.judge.observation import Crashed, Encoded, Refused
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.cases import found as found_cases
from kafka_corpus.wire import WireBatch, from_wire
from kafka_fuzz.campaign.encoding import run_encode_round
from kafka_fuzz.campaign.known_findings import KNOWN_FILE, read_known_findings
from kafka_fuzz.campaign.plan import RoundPlan
from kafka_fuzz.campaign.replay import replay_known_findings
from kafka_fuzz.encode import (
    VALUES,
    Writing,
    cells,
    data_of,
    draw,
    encode_outcome,
    finding_batch,
    mutant_of,
    simpler,
    writing,
)
from kafka_fuzz.executors import open_executor
from kafka_fuzz.findings import FindingStore, finding_input, finding_name, read_findings
from kafka_fuzz.shrink import NotShown
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.accept import accepted_entry, known_list_file
from kafka_fuzz.triage.causes import heading_sentence
from kafka_fuzz.triage.deduplicate import TriagedFinding, read_triage
from kafka_fuzz.triage.promote import as_found
from kafka_records import Batch, Header, Record
from kafkaproof.commands.fuzz import fuzz

BATCH = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, None, b"v"),))


def drawn(count: int) -> list[Writing]:
    """The first *count* of a seed."""
    rng = Random(3)
    return [draw(rng) for _ in range(count)]


@pytest.mark.slow
def test_every_value_is_drawn() -> None:
    """Within a few thousand batches every variant of every value comes, some to be written and some to be refused."""
    made = drawn(6000)
    assert {(each.value, each.variant) for each in made} >= {(value.name, variant) for value, variant in cells()}
    assert {each.value for each in made if each.rule} & {value.name for value in VALUES}
    assert any(each.value == "truth" and not each.rule for each in made)


def test_reference_has_no_findings() -> None:
    """The reference's bytes or refusals are right by its own judgement, for every batch."""
    for each in drawn(600):
        data = each.case.expect.data
        seen = Refused(Refusal("malformed", "no")) if data is None else Encoded(data)
        assert not encode_outcome("reference", each, seen).is_finding


def test_other_bytes_are_wrong_data() -> None:
    """A lost header is a finding, with its field, the format's age, and the odd value."""
    request = writing(
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
    outcome = encode_outcome("mine", request, Encoded(kafka_records.encode(BATCH)))
    assert (outcome.kind, outcome.detail, outcome.function, outcome.fault) == (
        "wrong_data",
        "writing batches.records.headers.length none",
        "v2",
        "headers",
    )


def test_what_must_be_refused() -> None:
    """A batch that no writer may write is a find where it is written, by the rule; refusing it is none."""
    request = writing(
        Batch(magic=2, base_offset=0, last_offset=0, transactional=True, records=BATCH.records), "flags", ""
    )
    written = encode_outcome("mine", request, Encoded(kafka_records.encode(BATCH)))
    assert (written.kind, written.function) == ("accepts_invalid", request.rule)
    assert request.rule
    heading = heading_sentence(written, f"malformed {request.rule}")
    assert heading.startswith("Writes what Kafka refuses to write")  # no cause of readers
    assert not encode_outcome("mine", request, Refused(Refusal("other", "never"))).is_finding


def test_a_refusal_and_an_end() -> None:
    """A refused valid batch has the message in its key, a crash its cause; both keys differ from those of decoding."""
    request = writing(BATCH, "truth", "")
    refused = encode_outcome("mine", request, Refused(Refusal("malformed", "offset 17 is odd")))
    assert refused.key == "mine|rejects_valid|writing offset # is odd|v2"
    ended = encode_outcome("mine", request, Crashed(signal=11))
    assert ended.key == "mine|crash|writing signal 11|lie truth"


def test_an_input_is_the_batch() -> None:
    """A finding keeps the batch of the encode request, and reads back as the same batch."""
    for each in drawn(50):
        assert from_wire(msgspec.json.decode(mutant_of(each).data, type=WireBatch)) == each.batch


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [0.5])
def test_a_round(tmp_path: Path, cpu: float) -> None:
    """kafka-python writes batches that it should refuse; its findings are on disk, and the reference has none."""
    report = run_encode_round(RoundPlan("encode:reference,kafka-python", tmp_path, cpu_seconds=cpu), lambda _: None)
    found = list(read_findings(tmp_path))
    assert report.executions > 100
    assert {find.key for find in found} == set(report.new_findings)
    assert {find.outcome.target for find in found} == {"kafka-python"}
    assert {find.mode for find in found} == {"encode"}
    assert all(msgspec.json.decode(finding_input(tmp_path, find), type=WireBatch) for find in found)


LARGE = Batch(
    magic=2,
    base_offset=40,
    last_offset=42,
    compression="gzip",
    max_timestamp=9,
    producer_id=7,
    producer_epoch=1,
    base_sequence=3,
    transactional=True,
    records=tuple(
        Record(40 + at, 5 + 2 * at, b"key", b"value" * 9, (Header(b"a", b"1"), Header(b"h", None))) for at in range(3)
    ),
)


def test_simpler_batches_lead_to_an_end() -> None:
    """Step by step nothing is left of a batch, whichever step is taken; offsets and times stay those of the records."""
    for pick in (0, -1):
        batch, steps = LARGE, 0
        while some := list(simpler(batch)):
            batch, steps = some[pick], steps + 1
            if batch.records:
                assert batch.last_offset == batch.records[-1].offset
                assert batch.max_timestamp == max(record.timestamp for record in batch.records)
        assert (batch.records, batch.producer_id, batch.compression) == ((), -1, "none")
        assert steps < 500


# Loses a header whose value is null, if its record has a key.
LOSER = """
import sys
from dataclasses import replace

import kafka_records
from kafka_conformance.testees.protocol import Capability
from kafka_conformance.testees.serve import serve
from kafka_corpus.wire import from_wire


class Loser:
    NAME, VERSION = "loser", "1"
    DECODES = ENCODES = Capability(magics=[2], compressions=["none", "gzip"])

    def decode(self, data):
        return []

    def encode(self, batch):
        batch = from_wire(batch)
        kept = [
            record._replace(headers=tuple(each for each in record.headers if record.key is None or each.value))
            for record in batch.records
        ]
        return kafka_records.encode(replace(batch, records=tuple(kept)))


serve(Loser(), sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with one finding, of a testee that loses headers, after triage."""
    root = tmp_path_factory.mktemp("written")
    script = root / "loser.py"
    script.write_text(LOSER)
    testee = f"process:{sys.executable} {script}"
    request = writing(LARGE, "headers", "null value")
    lost = kafka_records.encode(
        replace(LARGE, records=tuple(each._replace(headers=each.headers[:1]) for each in LARGE.records))
    )
    outcome = encode_outcome(testee, request, Encoded(lost))
    FindingStore(root, mode="encode").add(outcome, mutant_of(request), version="1")
    return root


@pytest.mark.slow
def test_a_batch_is_made_small(written: Path) -> None:
    """One record remains, with the header that gets lost and one that does not; the outcome is the same."""
    (find,) = read_findings(written)
    with open_executor(find.outcome.target, mode="encode") as who:
        done = who.shrink(finding_input(written, find))
        assert done.outcome is not None
        assert done.outcome.bucket == find.outcome.bucket
        (record,) = finding_batch(done.data).records
        assert record == Record(record.offset, 0, b"", None, (Header(b"", b"1"), Header(b"", None)))
        assert (finding_batch(done.data).compression, finding_batch(done.data).producer_id) == ("none", -1)
        with pytest.raises(NotShown):
            who.shrink(data_of(BATCH))
        with pytest.raises(NotShown):
            who.shrink(b"no batch")


@pytest.mark.slow
def test_minimise_triage_and_promote(written: Path, tmp_path: Path) -> None:
    """An encoder's finding is shrunk, drafted, and promoted to a case that requests the same batch."""
    (find,) = read_findings(written)
    out = tmp_path / "minimal.json"
    done = run("minimise", finding_name(find.key), "--dir", written, "--out", out)
    assert done.exit_code == 0, done.output
    assert len(finding_batch(out.read_bytes()).records) == 1
    assert run("minimise", out, "--target", find.outcome.target, "--out", tmp_path / "again.json").exit_code == 0
    assert run("triage", "--dir", written).exit_code == 1
    (triaged,) = read_triage(written)
    assert triaged.data == out.read_bytes()
    assert run("promote", triaged.name, "--dir", written, "--cases", tmp_path / "cases", "--no-compile").exit_code == 0
    (entry,) = found_cases.stored(tmp_path / "cases").values()
    draft = entry.draft()
    assert (draft.op, draft.input) == ("encode", finding_batch(triaged.data))
    assert draft.expect.data == kafka_records.encode(finding_batch(triaged.data))
    assert run("promote", triaged.name, "--dir", written, "--cases", tmp_path / "cases", "--no-compile").exit_code == 2


@pytest.mark.slow
def test_replay_of_an_encode_finding_is_a_batch(written: Path, tmp_path: Path) -> None:
    """An accepted encoder finding is replayed as a batch: it is there for a wrong writer, and gone for a right one."""
    (find,) = read_findings(written)
    key, name = find.key, find.outcome.target
    triaged = TriagedFinding(
        "0" * 16, key, {key: ""}, "new", find.outcome, finding_input(written, find), 1, "ok", 1, mode="encode"
    )
    rule = accepted_entry(triaged, "seen", tmp_path)
    fixed = msgspec.structs.replace(rule, id="fixed", testee="reference", keys=("reference|*",))
    (tmp_path / KNOWN_FILE).write_text(known_list_file([rule, fixed]))
    replayed = {
        each.id: each.state
        for each in replay_known_findings(tmp_path, read_known_findings(tmp_path), [f"encode:{name},reference"])
    }
    assert replayed == {rule.id: "still there", "fixed": "gone"}


@pytest.mark.slow
def test_a_writer_that_does_not_run(tmp_path: Path) -> None:
    """A named testee that got no encode request is a failure of the round; the other testees run."""
    broken = f"process:{sys.executable} -c pass"
    replayed = run_encode_round(RoundPlan(f"encode:reference,{broken}", tmp_path, cpu_seconds=0.01), lambda _: None)
    assert replayed.executions > 0
    assert replayed.failure.startswith(f"{broken} did not run: ")


def test_what_must_be_refused_becomes_such_a_case() -> None:
    """A batch that a writer has to refuse is a case that says so, by the rule; a compressed one is compared masked."""
    batch = Batch(magic=2, base_offset=0, last_offset=0, transactional=True, records=BATCH.records)
    outcome = Outcome("mine", "accepts_invalid", "writing", "PID-04", "flags")
    find = triaged_of(outcome, data_of(batch))
    entry = as_found(find)
    assert entry.draft().expect.verdict == "invalid"
    assert entry.draft().expect.kinds
    assert entry.rules[0] in entry.title
    outcome = Outcome("mine", "rejects_valid", "writing", "v2", "codec")
    packed = as_found(triaged_of(outcome, data_of(replace(BATCH, compression="gzip"))))
    assert packed.draft().expect.compare == "masked"


def triaged_of(outcome: Outcome, data: bytes) -> TriagedFinding:
    """An encoder's finding as triage leaves it."""
    right = f"malformed {outcome.function}"
    return TriagedFinding(
        "0" * 16, outcome.key, {outcome.key: ""}, "new", outcome, data, len(data), right, 1, mode="encode"
    )


def run(*arguments: str | Path) -> Result:
    """`kafkaproof fuzz` with these."""
    return CliRunner().invoke(fuzz, [str(each) for each in arguments])


FORGETFUL = """
import sys

import kafka_records
from kafka_conformance.testees.protocol import Capability
from kafka_conformance.testees.serve import serve
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


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "kinds"), [("{3}", set()), ("range(3, 1 << 60)", {"wrong_data"})])
def test_outcome_that_is_not_reproduced_is_no_finding(tmp_path: Path, wrong: str, kinds: set[str]) -> None:
    """Bytes of another request are no finding if a repeated request, alone, is right; if they recur, they are."""
    script = tmp_path / "forgetful.py"
    script.write_text(FORGETFUL.replace("WRONG", wrong))
    report = run_encode_round(
        RoundPlan(f"encode:process:{sys.executable} {script}", tmp_path, cpu_seconds=0.3), lambda _: None
    )
    assert report.executions > 3
    assert {find.outcome.kind for find in read_findings(tmp_path)} & {"wrong_data"} == kinds
