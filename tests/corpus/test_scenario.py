"""Scenarios: what is done to a broker, how it is written down, and what the reference says to it."""

import gzip
from hashlib import sha256

import msgspec
import pytest

from kafka_corpus import prediction
from kafka_corpus.answer_diff import difference, masked, scenario_of
from kafka_corpus.answers import described_kept, described_releases, kept_alone
from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.batches import payload_of as records_of
from kafka_corpus.authoring.build import put, raw_message, reseal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.prediction import predict, reasoned, silence, step_payload, version_of
from kafka_corpus.registry import error_answer, produced, scene, stored
from kafka_corpus.scenario import (
    NOW,
    AddPartitions,
    Clean,
    Dump,
    Edit,
    EndTransaction,
    Fetch,
    FindOffset,
    InitProducerId,
    Made,
    Produce,
    ReadSegments,
    Restart,
    Scenario,
    Step,
    StepAnswer,
    op_of,
    producer_id,
)
from kafka_corpus.vector_format import input_of, line_of, parse_line
from kafka_corpus.vectors import load_vectors
from kafka_records import Record, RecordFormatError

BATCH = bytes_of(batch_of(*some_records(3)))
STORED = put(BATCH, "partition_leader_epoch", 0)
MESSAGE = raw_message(1, b"key")


def answers(*steps: Step, release: str = "4.4.0", **config: str) -> tuple[StepAnswer, ...]:
    """The reference's predictions."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    found = predict(Scenario(steps=steps, config=settings), release)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("steps", "op"),
    [
        ((Produce(data=BATCH),), "append"),
        ((Produce(data=BATCH), Fetch()), "fetch"),
        ((Produce(data=BATCH), FindOffset(-1)), "fetch"),
        ((InitProducerId("a"), EndTransaction("a", True)), "fetch"),
        ((Produce(data=BATCH), Fetch(api_version=3)), "convert"),
        ((Produce(data=BATCH), ReadSegments()), "segment"),
        ((Produce(data=BATCH), Restart(), Fetch()), "segment"),
        ((Produce(data=BATCH), Edit(at=0)), "segment"),
        ((Produce(data=BATCH), Dump()), "segment"),
        ((Produce(data=BATCH), Clean(), ReadSegments()), "compact"),
    ],
)
def test_operation(steps: tuple[Step, ...], op: str) -> None:
    """The operation of a scenario is the furthest from the request that it looks."""
    assert op_of(steps) == op


def test_releases() -> None:
    """Payloads in v2 are for releases since 0.11, those before for releases that still take them."""
    new = produced(BATCH, error_answer(87)).input
    old = produced(MESSAGE, error_answer(2), api_version=2).input
    assert isinstance(new, Scenario)
    assert isinstance(old, Scenario)
    assert [new.concerns(release) for release in ("0.10.2.2", "0.11.0.3", "4.4.0")] == [False, True, True]
    assert [old.concerns(release) for release in ("0.8.2.2", "3.9.2", "4.0.2")] == [True, True, False]


def test_verdict() -> None:
    """A scenario is invalid if the broker refuses something in it."""
    assert produced(BATCH, error_answer(87)).expect.verdict == "invalid"
    assert produced(BATCH, stored(STORED)).expect.verdict == "valid"


def test_vector() -> None:
    """Every step and answer comes back from the line that it was written to."""
    steps = (
        Produce(data=BATCH, api_version=9, acks=0, producer="a", epochs_back=1, transactional=True, beside=b"x"),
        Produce(recipe=Made("zeros", {"size": 3})),
        InitProducerId("a", False),
        AddPartitions("a"),
        EndTransaction("a", False),
        Fetch(offset=3, api_version=4, isolation="read_committed", max_bytes=10),
        FindOffset(-2, "read_committed"),
        Clean(),
        Restart(True),
        Restart(files={"a": b"\x00", "b": None}),
        Edit(at=5, data=b"x", cut=True),
        ReadSegments(),
        Dump(),
    )
    draft = scene(*((step, StepAnswer(data=b"\x01", beside=3)) for step in steps), config={"a": "b"}, since="1.1.1")
    case = Case(
        id="area.case", title="", rules=("X",), area="area", op=draft.op, input=draft.input, expect=draft.expect
    )
    again = parse_line(line_of(case))
    assert (again.input, again.expect) == (case.input, case.expect)
    with pytest.raises(TypeError, match="runs on a broker"):
        input_of(again)


def test_payload() -> None:
    """A payload is given, or made by a recipe."""
    assert step_payload(Produce(data=b"x")) == b"x"
    with pytest.raises(ValueError, match="data or as a recipe"):
        step_payload(Produce())


def test_version() -> None:
    """A release gets the newest version that it has, if that is not above the step's."""
    assert [version_of(Produce(data=b"", api_version=9), release) for release in ("1.1.1", "4.4.0")] == [5, 9]


def test_inputs_of_codecs_as_payloads() -> None:
    """The bytes of a decode case are a payload too: below v2 in the last version that takes them."""

    def versions(data: bytes) -> list[int]:
        case = Case(
            id="a.b", title="", rules=("X",), area="a", op="decode", input=data, expect=Expectation(verdict="valid")
        )
        scenario = scenario_of(case)
        assert scenario is not None
        return [step.api_version for step in scenario.produces()]

    assert versions(MESSAGE) == [2]
    assert versions(BATCH)[0] > 2


def test_append() -> None:
    """Offsets go on from payload to payload."""
    assert answers(Produce(data=BATCH), Produce(data=BATCH)) == (
        StepAnswer(base_offset=0, data=STORED),
        StepAnswer(base_offset=3, data=put(STORED, "base_offset", 3)),
    )


def test_append_in_old_versions() -> None:
    """There is no time in answers before version 2, and no list of records before version 8."""
    late = bytes_of(batch_of(Record(0, 2 * NOW, None, b"")))
    refusals = [answers(Produce(data=late, api_version=version))[0].record_errors for version in (7, 8)]
    assert refusals == [(), (0,)]
    times = [
        answers(Produce(data=MESSAGE, api_version=version), release="2.8.2", message_timestamp_type="LogAppendTime")
        for version in (1, 2)
    ]
    assert [answer.log_append_time for (answer,) in times] == [-1, NOW]


def test_append_without_an_answer() -> None:
    """With acks=0 there is no error code: the broker closes the connection."""
    wrong = put(BATCH, "base_offset", 1)
    assert answers(Produce(data=wrong, acks=0), Produce(data=BATCH, acks=0)) == (
        StepAnswer(closed=True),
        StepAnswer(data=STORED),
    )


def test_request_that_is_gone() -> None:
    """A version that the release no longer has makes it close the connection."""
    assert answers(Produce(data=MESSAGE, api_version=2)) == (StepAnswer(closed=True),)


def test_transaction() -> None:
    """A transaction's batches get the producer's id, and its end a marker with the next epoch since 4.0."""
    data = bytes_of(batch_of(*some_records(1), producer_id=0, producer_epoch=0, base_sequence=0, transactional=True))
    steps = (
        InitProducerId("a"),
        AddPartitions("a"),
        Produce(data=data, producer="a", transactional=True, api_version=11),
        Fetch(isolation="read_committed"),
        EndTransaction("a", commit=False),
        Fetch(isolation="read_committed"),
        FindOffset(-1),
        FindOffset(-2),
    )
    _, _, sent, open_, marker, closed, latest, earliest = answers(*steps)
    signed = reseal(put(put(data, "producer_id", producer_id(0)), "partition_leader_epoch", 0))
    assert sent == StepAnswer(base_offset=0, data=signed)
    assert (open_.data, open_.high_watermark, open_.last_stable_offset) == (b"", 1, 0)
    assert (closed.data, closed.last_stable_offset) == (signed + marker.data, 2)
    assert [(each.producer_id, each.first_offset) for each in closed.aborted] == [(producer_id(0), 0)]
    assert [latest.base_offset, earliest.base_offset] == [2, 0]
    old = answers(*steps, release="2.8.2")[4].data
    assert (old[43:51], old[51:53], marker.data[51:53]) == (marker.data[43:51], b"\x00\x00", b"\x00\x01")


def test_transaction_of_somebody_else() -> None:
    """A producer that the coordinator does not know has no transaction."""
    data = bytes_of(batch_of(*some_records(1), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True))
    (answer,) = answers(Produce(data=data, transactional=True, api_version=9))
    assert answer.error_code == 49


def test_disk() -> None:
    """A segment holds what was stored; an edit that breaks a checksum ends the log there."""
    produce = Produce(data=BATCH)
    second = put(STORED, "base_offset", 3)
    steps = (produce, produce, ReadSegments(), Edit(at=len(STORED) + 70, data=b"?"), ReadSegments(), FindOffset(-1))
    _, _, before, edited, after, end = answers(*steps)
    assert before.data == STORED + second
    assert (edited.data, after.data, end.base_offset) == (STORED, STORED, 3)


def test_cleaner() -> None:
    """The cleaner leaves the last record of each key, and the filler takes an offset."""
    payload = bytes_of(batch_of(Record(0, NOW, b"k", b"old"), Record(1, NOW, b"k", b"new")))
    _, cleaned, end = answers(Produce(data=payload), Clean(), FindOffset(-1), cleanup_policy="compact")
    assert cleaned.data[61:].count(b"new") == 1
    assert b"old" not in cleaned.data
    assert end.base_offset == 3


def test_cleaner_again() -> None:
    """A batch produced after a cleaning follows the filler, and is cleaned by the next round."""
    old, new = (bytes_of(batch_of(Record(0, NOW, b"k", value))) for value in (b"old", b"new"))
    steps = (Produce(data=old), Clean(), Produce(data=new), Clean(), FindOffset(-1))
    _, first, second, cleaned, end = answers(*steps, cleanup_policy="compact")
    assert b"old" in first.data
    assert (cleaned.data, second.base_offset, end.base_offset) == (second.data, 2, 4)


def test_cleaner_keeps_away() -> None:
    """An open transaction keeps the cleaner away, and so does a batch that cannot be decoded."""
    data = bytes_of(batch_of(Record(0, NOW, b"k", b"v"), base_sequence=0, transactional=True))
    write = Produce(data=data, producer="a", transactional=True)
    *_, stored, cleaned = answers(InitProducerId("a"), AddPartitions("a"), write, Clean(), cleanup_policy="compact")
    assert (cleaned.data, cleaned.silent) == (stored.data, True)
    unreadable = reseal(put(STORED, "record_count", 9))
    edited, cleaned = answers(Edit(at=0, data=unreadable), Clean(), cleanup_policy="compact")
    assert (edited.data, cleaned.data, cleaned.silent) == (unreadable, unreadable, True)


@pytest.mark.parametrize(
    "steps",
    [
        (Produce(data=BATCH, acks=2),),
        (Produce(data=BATCH, beside=BATCH),),
        (Produce(data=BATCH, producer="unknown"),),
        (Restart(), Produce(data=BATCH)),
        (InitProducerId("a"), EndTransaction("a", True)),
        (InitProducerId("a"), AddPartitions("a"), InitProducerId("a")),
        (FindOffset(5),),
        (Dump(),),
    ],
)
def test_unpredicted(steps: tuple[Step, ...]) -> None:
    """A step that the reference does not know has no prediction."""
    assert predict(Scenario(steps=steps), "4.4.0") is None


def test_unpredicted_releases() -> None:
    """Nor do releases that it does not describe."""
    assert predict(Scenario(steps=(Produce(data=MESSAGE),)), "0.8.2.2") is None


def test_difference() -> None:
    """The first step and field that differ are named, and where bytes part."""
    right = (StepAnswer(), StepAnswer(base_offset=2, data=STORED))
    assert difference(right, right) == ""
    assert difference(right, right[:1]) == "1 answers, expected 2"
    assert difference(right, (StepAnswer(), StepAnswer(base_offset=3))) == "[1].base_offset is 3, expected 2"
    wrong = (StepAnswer(), StepAnswer(base_offset=2, data=STORED[:20]))
    assert difference(right, wrong).startswith("[1].data is 20 bytes in place of")
    assert difference([StepAnswer(text="a")], [StepAnswer(text="b")]) == ""


def test_difference_above_compression() -> None:
    """Other compressed bytes for the same records are no difference, where compression does not count."""
    records = some_records(9)
    batch = batch_of(*records, compression="gzip")
    small, other = bytes_of(batch), bytes_of(batch, packed=gzip.compress(records_of(records), 0))
    assert small != other
    assert difference([StepAnswer(data=small)], [StepAnswer(data=other)], "masked") == ""
    assert difference([StepAnswer(data=small)], [StepAnswer(data=other)]) != ""
    assert difference([StepAnswer(data=small)], [StepAnswer(data=b"?" * 20)], "masked") != ""


def test_reasons_of_a_prediction() -> None:
    """Each answer comes with what decided it: the rule of an append, and the fate of each entry that was cleaned."""
    broken = reseal(put(BATCH, "record_count", 9))
    steps = (Produce(data=broken), Produce(data=BATCH), Clean())
    found = reasoned(Scenario(steps=steps, config={"cleanup.policy": "compact"}), "4.4.0")
    assert found is not None
    refused, taken, (_, _, fates) = found[1]
    assert (refused[0], taken[0], [each.outcome for each in fates]) == ("HDR-12", "RWR-01", ["copied"])


def test_cleaner_before_batches() -> None:
    """A release whose cleaner is not described is a silence of predictions, and no error."""
    scenario = Scenario(steps=(Produce(data=MESSAGE, api_version=2), Clean()), config={"cleanup.policy": "compact"})
    assert "not described" in silence(scenario, "0.10.2.2")


def test_errors_of_the_cleaner_are_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the reference about the log that it cleans is an error of the prediction, too."""

    def fails(*_: object, **__: object) -> None:
        raise RecordFormatError("malformed", "wrong", path="batches[0]", rule="HDR-12")

    monkeypatch.setattr(prediction, "compact", fails)
    with pytest.raises(RecordFormatError, match="wrong"):
        silence(Scenario(steps=(Produce(data=BATCH), Clean()), config={"cleanup.policy": "compact"}), "4.4.0")


def test_closed_segment_that_is_cut_short() -> None:
    """The reference predicts nothing for a closed segment that ends within an entry."""
    config = {"cleanup.policy": "compact"}
    steps = (Produce(data=BATCH), Clean(), Restart(clean=True))
    whole, cut = (Scenario(steps=(*steps, Edit(at=8, data=data)), config=config) for data in (b"", b"\1"))
    assert not silence(whole, "4.4.0")
    assert silence(cut, "4.4.0") == "a closed segment that ends within an entry"
    (longer,) = load_vectors("log_cleaner.end_of_a_segment_that_is_missing[5 bytes]")
    scenario = scenario_of(longer)
    assert scenario is not None
    assert silence(scenario, "4.4.0") == "a closed segment that ends within an entry"


def test_files_that_change_in_a_restart() -> None:
    """The reference predicts nothing for a restart in which files of the partition change."""
    some = Scenario(steps=(Produce(data=BATCH), Restart(files={"a": None})))
    assert not silence(Scenario(steps=(Produce(data=BATCH), Restart())), "4.4.0")
    assert silence(some, "4.4.0") == "files that change while the broker is down"


def test_unknown_codec_is_masked() -> None:
    """A stored batch of an unknown codec is compared with its payload as it is."""
    assert masked(put(BATCH, "attributes", 7)).endswith(BATCH[61:])


@pytest.mark.parametrize(
    ("id_", "releases"),
    [
        ("log_tombstones.last_batch_of_a_round[none]", ["3.9.2", "4.0.2", "4.1.2", "4.2.0", "4.3.1"]),
        ("fetch_conversion.stored_as_v2[v1-none]", ["3.2.3", "3.9.2"]),
        ("v2_encode.append_time[codec zstd, 1 records]", []),
    ],
)
def test_releases_that_are_described(id_: str, releases: list[str]) -> None:
    """A cleaned log is described for each release in its range; another scenario for the newest, and a drawn one."""
    (case,) = load_vectors(id_)
    assert described_releases(case) == releases


def test_answers_to_markers_are_the_kept_ones() -> None:
    """A leader's answers to markers are those whose digests `explained.ndjson` has."""
    kept = [(line, data) for line, data in kept_alone({}) if b'"markers"' in line]
    assert len(kept) == 3
    digests = [msgspec.json.decode(line)["sha256"] for line, _ in kept]
    assert [sha256(described_kept(*each)).hexdigest() for each in kept] == digests
