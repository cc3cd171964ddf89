"""Rounds against a real broker: its answers are those of the reference, and a difference becomes a finding."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from kafka_brokers import jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.releases import NEWEST
from kafka_brokers.wire import TopicPartition
from kafka_corpus.authoring.build import TIMESTAMP, raw_batch, raw_record, signed
from kafka_fuzz.broker import lanes
from kafka_fuzz.broker import lanes as ending
from kafka_fuzz.broker.confirming import (
    CONTEXT,
    Context,
    Sent,
    confirm_difference,
    earlier_payloads,
    open_broker_replayer,
    sent_as,
)
from kafka_fuzz.broker.lanes import Lane, LaneRequest, ProduceAnswer, Taken, release_of
from kafka_fuzz.broker.oracle import BrokerLost, JudgedPayload, Oracle, is_transactional
from kafka_fuzz.broker.payloads import Payloads
from kafka_fuzz.broker_target import BrokerRound, run_broker_round
from kafka_fuzz.campaign.known_findings import (
    KNOWN_FILE,
    InputSkips,
    KnownFinding,
    ReplayInput,
    ReplayResult,
    read_known_findings,
)
from kafka_fuzz.campaign.plan import Progress, RoundPlan
from kafka_fuzz.campaign.replay import replay_known_findings, replay_rule
from kafka_fuzz.campaign.store import Corpus
from kafka_fuzz.findings import FindingStore, read_findings
from kafka_fuzz.mutate import Mutant, MutantCell, own_seeds
from kafka_fuzz.triage.accept import known_list_file
from kafka_records import TopicConfig
from kafka_records.layout import BATCH_V2

RELEASE = "4.4.0"
RECORD = raw_record(value=b"value")
SOUND = raw_batch(RECORD, record_count=1)
HOURS = 2**40  # milliseconds
LATE = raw_batch(raw_record(timestamp_delta=HOURS), record_count=1, max_timestamp=TIMESTAMP + HOURS)
CELL = MutantCell(2, "none", "", "", "", "entry", "only")


def mutant(data: bytes) -> Mutant:
    """Bytes of which nothing is known."""
    return Mutant(data, "bytes", (), None, CELL)


def producing(producer_id: int, sequence: int, *, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    header = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return raw_batch(RECORD, record_count=1, **header)


def test_a_target_names_a_release() -> None:
    """`broker:` alone is the newest; what the reference does not know is refused."""
    assert release_of("broker:2.8.2") == "2.8.2"
    assert release_of("broker:") == NEWEST
    with pytest.raises(ValueError, match=r"9\.9\.9"):
        release_of("broker:9.9.9")


@pytest.fixture(scope="module")
def broker() -> Iterator[JvmBroker]:
    """A running broker."""
    with jvm.start_jvm(RELEASE) as running:
        yield running


@pytest.mark.broker
def test_a_broker_that_does_otherwise_is_found(broker: JvmBroker) -> None:
    """Held against the prediction for another release it differs, differs again, and all of that is kept."""
    oracle = Oracle(broker, [], Random(1), prefix="otherwise", release="2.8.2")
    judged = oracle.again({}, [], mutant(LATE), 9)
    assert judged.different == "error INVALID_TIMESTAMP, predicted NONE"
    found = confirm_difference(oracle, "broker:test", judged)
    assert found is not None
    assert found.outcome.detail == "error INVALID_TIMESTAMP, predicted NONE by RWR-01, v2 none"
    assert found.context.answered == (32, -1, b"")
    assert found.context.predicted[2] != b""
    assert confirm_difference(oracle, "broker:test", oracle.again({}, [], mutant(SOUND), 9)) is None
    oracle.close()


@pytest.mark.broker
def test_an_unknown_producer_is_found(broker: JvmBroker) -> None:
    """A broker since KIP-360 takes its batches, which one before it is predicted to refuse."""
    oracle = Oracle(broker, [], Random(1), prefix="unknown", release="2.4.1")
    judged = oracle.again({}, [Taken(producing(8, 0), 8)], mutant(producing(7, 5)), 8)
    assert judged.different == "error NONE, predicted UNKNOWN_PRODUCER_ID"
    found = confirm_difference(oracle, "broker:test", judged)
    assert found is not None
    assert found.context.before == ()  # it shows without the other producer's batch
    oracle.close()


def test_what_a_partition_took_before_is_tried_too() -> None:
    """First nothing, then what the same producer sent, then everything."""
    lane = Lane(RELEASE, TopicPartition("topic", 0), {}, TopicConfig())
    lane.taken = [Taken(producing(id_, 0), 9) for id_ in (7, 8)]
    payload = producing(7, 1)
    request = LaneRequest(lane, mutant(payload), 9, lane.predict(payload, 9, TIMESTAMP))
    assert list(earlier_payloads(request)) == [(), (lane.taken[0],), tuple(lane.taken)]
    assert list(earlier_payloads(request._replace(mutant=mutant(SOUND)))) == [(), tuple(lane.taken)]


@pytest.mark.broker
def test_transactional_lanes(broker: JvmBroker) -> None:
    """Payloads of a transactional producer, in and out of transactions, and markers are answered as predicted."""
    oracle = Oracle(broker, [], Random(1), prefix="transactional", transactional=lanes.transactional_settings(RELEASE))
    payloads = Payloads(Random(2), [SOUND], magics=(2,), profile="fixup")
    judged = [each for _ in range(40) for each in oracle.turn(payloads.draw)]
    assert [(each.different, each.request.mutant.labels) for each in judged if each.different] == []
    markers = [each for each in judged if "marker" in each.request.mutant.labels]
    assert markers
    assert all(len(each.given.stored) == 78 for each in markers)
    sent = [each for each in judged if each not in markers]
    assert {each.wanted.error_code for each in sent} >= {0, 47, 48}
    assert any(each.given.stored and is_transactional(each.given.stored) for each in sent)
    oracle.close()


@pytest.mark.broker
def test_a_transaction_is_had_again(broker: JvmBroker) -> None:
    """A difference of a transactional producer is looked at again by another one, with its own id; a marker is not."""
    oracle = Oracle(broker, [], Random(1), prefix="again", transactional=({},))
    lane = oracle._busy[0]  # the only way to say what is sent next
    assert lane.sender is not None
    lane.sender.is_lost = True
    id_, epoch = lane.sender.producer
    gap = signed(raw_batch(RECORD, record_count=1, base_sequence=5, attributes=0x10), id_, epoch)
    expected = LaneRequest(lane, mutant(gap), 11, lane.predict(gap, 11, 0))
    judged = JudgedPayload(expected, "made up", ProduceAnswer(), expected.predicted)
    again = oracle.again_in_transaction(judged, ())
    assert BATCH_V2.values(again.request.mutant.data)["producer_id"] != id_
    assert (again.given.error_code, again.different) == (120, "")
    assert confirm_difference(oracle, "broker:test", judged) is None
    marker = JudgedPayload(
        expected._replace(mutant=ending.marker_mutant(SOUND)), "made up", ProduceAnswer(), expected.predicted
    )
    found = confirm_difference(oracle, "broker:test", marker)
    assert found is not None
    assert (found.context.transactional, found.mutant.data) == ("not open", SOUND)
    oracle.close()


@pytest.mark.broker
def test_a_broker_that_ends_is_noticed() -> None:
    """Requests without an answer are suspects."""
    with jvm.start_jvm(RELEASE) as ending:
        oracle = Oracle(ending, [{}], Random(1))
        payloads = Payloads(Random(1), own_seeds(), magics=(2,))
        assert not any(each.different for each in oracle.turn(payloads.draw))
        ending.kill()
        with pytest.raises(BrokerLost) as lost:
            oracle.turn(payloads.draw)
        assert lost.value.suspects
        oracle.close()


@pytest.mark.broker
def test_a_round_goes_on_with_another_broker(tmp_path: Path) -> None:
    """The end of a broker is recorded as a crash, and the round goes on with a new broker; the cause stays unknown."""
    target = f"broker:{RELEASE}"
    turns = BrokerRound(
        RoundPlan(target, tmp_path, cpu_seconds=60),
        RELEASE,
        jvm.start_jvm(RELEASE),
        FindingStore(tmp_path),
        Corpus(tmp_path, target),
        InputSkips(target, []),
    )

    def stop_after_progress(progress: Progress) -> None:
        if not turns.restarts:
            turns.broker.kill()
        turns.stopped = turns.restarts > 0 and progress.executions > before[-1]
        before.append(progress.executions)

    before = [0]
    turns.run(stop_after_progress)
    turns.broker.stop()
    assert turns.restarts == 1
    assert [find.outcome.kind for find in read_findings(tmp_path)] == ["crash"]
    assert [find.outcome.detail for find in read_findings(tmp_path)] == ["with others"]
    assert before[-1] > before[1] > 0


@pytest.mark.broker
def test_a_round_compares_payloads(tmp_path: Path) -> None:
    """A short round executes a thousand payloads, says so as it goes, and keeps what it takes to see a find again."""
    reports: list[Progress] = []
    report = run_broker_round(RoundPlan(f"broker:{RELEASE}", tmp_path, cpu_seconds=8), reports.append)
    assert report.failure == ""
    assert report.executions >= 1000
    assert [each.executions for each in reports] == sorted(each.executions for each in reports)
    assert report.cpu_seconds > 8
    for path in tmp_path.glob(f"finds/*/{CONTEXT}"):
        assert msgspec.json.decode(path.read_bytes(), type=Context).release == RELEASE


def test_how_a_payload_was_sent() -> None:
    """The context of a finding is enough to send the payload again; in a transaction it is not."""
    context = Context(RELEASE, {}, 8, ((b"\x01", 9),), (0, 0, b""), (59, -1, b""), "PID-09")
    assert sent_as(msgspec.json.encode(context)) == Sent(8, {}, (("01", 9),))
    assert sent_as(msgspec.json.encode(msgspec.structs.replace(context, transactional="open"))) is None
    assert sent_as(b"{}") is None


@pytest.mark.broker
def test_known_findings_of_brokers_are_replayed() -> None:
    """A difference from the prediction is still there, an equal answer is gone; the end of the broker is a crash."""
    target, known = f"broker:{RELEASE}", ("broker:*|difference|error NONE, predicted UNKNOWN_PRODUCER_ID by *|lie *",)
    sent = Sent(8, {"compression.type": "gzip"}, ((producing(8, 0).hex(), 8),))
    rules = [
        KnownFinding(id=name, testee=target, keys=known, reproducer=ReplayInput(hex=data.hex(), sent=how))
        for name, data, how in (("there", producing(7, 5), sent), ("gone", SOUND, sent), ("untold", SOUND, None))
    ]
    with open_broker_replayer(target, predicted="2.4.1") as singer:

        def said(rule: KnownFinding) -> ReplayResult:
            return replay_rule(rule, lambda case: singer.outcome(case.mutant(), case.sent))

        assert [said(rule).state for rule in rules] == ["still there", "gone", "not replayed"]
        assert "does not state how" in said(rules[2]).why
        singer.broker.kill()
        assert [said(rules[0]).key, said(rules[0]).state] == [f"{target}|crash||lie ", "still there"]


@pytest.mark.broker
def test_campaign_replays_a_known_finding_on_a_broker(tmp_path: Path) -> None:
    """The replay process starts a broker for its known findings; if the answer is as predicted, the finding is gone."""
    known = KnownFinding(
        id="r",
        testee=f"broker:{RELEASE}",
        keys=(f"broker:{RELEASE}|*",),
        reproducer=ReplayInput(hex=SOUND.hex(), sent=Sent(9)),
    )
    (tmp_path / KNOWN_FILE).write_text(known_list_file([known]))
    (replayed,) = replay_known_findings(tmp_path, read_known_findings(tmp_path), [f"broker:{RELEASE}"])
    assert (replayed.state, replayed.why) == ("gone", "")
