"""`compact` and `recover` against real brokers: the bytes of cleaned segments, and of segments after a crash."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.brokers.compaction_play import Play, batch, describe, record

from kafka_brokers import jvm
from kafka_brokers.cleaning import EAGER, cleaned_up_to, force_clean, read_segments
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import Client
from kafka_brokers.wire.transactions import init_producer_id
from kafka_records import Header
from kafka_records.constants import COMPRESSIONS, Compression

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.sweep]

RELEASES = ("4.4.0", "3.9.2", "2.8.2")
AT_ONCE = {"delete.retention.ms": "0"}


@pytest.fixture(scope="module", params=RELEASES)
def running(request: pytest.FixtureRequest) -> Iterator[tuple[JvmBroker, Client]]:
    """A broker that cleans at once, and a client."""
    with jvm.start_jvm(request.param, config=EAGER) as broker, broker.client() as client:
        yield broker, client


@pytest.fixture
def play(running: tuple[JvmBroker, Client]) -> Play:
    """A partition whose tombstones stay for a day."""
    return Play(*running)


@pytest.fixture
def hasty(running: tuple[JvmBroker, Client]) -> Play:
    """A partition whose tombstones may go at once."""
    return Play(*running, settings=AT_ONCE)


def test_duplicates_go(play: Play) -> None:
    """Inside a batch and across batches, only the last record of a key stays; a whole batch is copied."""
    play.produce(batch(record(0, b"a"), record(1, b"b"), record(2, b"a"), record(3, b"c")))
    play.produce(batch(record(0, b"whole", headers=(Header(b"h", b"1"), Header(b"h", None)))))
    play.produce(batch(record(0, b"b", b"last")))
    result = play.cleans_as_predicted()
    assert [fate.outcome for fate in result.fates] == ["rewritten", "copied", "copied", "not cleaned"]


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_codecs(play: Play, codec: Compression) -> None:
    """A batch is rewritten with its own codec; gaps at the start, in the middle and at the end stay."""
    headers = (Header(b"key", b"value"), Header("κλειδί".encode(), b""), Header(b"\xff", None))
    records = [record(at, b"%d" % (at % 7), b"%d" % at * 30, headers=headers) for at in range(20)]
    play.produce(batch(*records, compression=codec))
    play.produce(batch(record(0, b"6", b"newer"), compression=codec))
    result = play.cleans_as_predicted()
    assert (result.kept, result.dropped) == (7, 14)


def test_append_time(play: Play) -> None:
    """With LogAppendTime the producer's times are lost where a batch is rewritten."""
    timed = Play(play.broker, play.client, settings={"message.timestamp.type": "LogAppendTime"})
    timed.produce(batch(record(0, b"a"), record(1, b"b"), record(2, b"c", None)))
    timed.produce(batch(record(0, b"a")))
    timed.cleans_as_predicted()


def test_tombstones_get_a_horizon(play: Play) -> None:
    """A tombstone stays for the time being; from 3.1 on its batch gets a horizon, once."""
    play.produce(batch(record(0, b"a"), record(1, b"gone", None)), batch(record(0, b"b")))
    first = play.cleans_as_predicted()
    play.produce(batch(record(0, b"c"), record(1, b"d", None)))
    second = play.cleans_as_predicted()
    assert first.fates[0].kept == second.fates[0].kept == 2
    assert second.fates[0].outcome == "copied"


def test_tombstones_go(hasty: Play) -> None:
    """Once the horizon is reached, tombstones go; an empty batch leaves a gap."""
    hasty.produce(batch(record(0, b"a"), record(1, b"gone", None)), batch(record(0, b"other", None)))
    assert hasty.cleans_as_predicted().dropped == 0
    hasty.produce(batch(record(0, b"b")))
    result = hasty.filler_cleans_as_predicted()
    assert [fate.outcome for fate in result.fates[:2]] == ["rewritten", "dropped"]
    hasty.cleans_as_predicted()


def test_idempotent_producers(play: Play) -> None:
    """The last batch of a producer stays, if need be without records; earlier ones go."""
    producer = init_producer_id(play.client)._asdict()
    play.produce(batch(record(0, b"a"), record(1, b"b"), base_sequence=0, **producer))
    play.produce(batch(record(0, b"a"), record(1, b"c"), base_sequence=2, compression="gzip", **producer))
    play.produce(batch(record(0, b"a"), record(1, b"b"), record(2, b"c")))
    result = play.cleans_as_predicted()
    assert [fate.outcome for fate in result.fates[:3]] == ["dropped", "emptied", "copied"]
    play.produce(batch(record(0, b"d")))
    assert play.cleans_as_predicted().fates[0].outcome == "emptied"


def test_rounds_end_anywhere(play: Play) -> None:
    """Rounds that end after a marker, or in a batch of which few records stay, give the result of `compact`."""
    play.produce(batch(record(0, b"a")))
    transaction = batch(record(0, b"a", b"aborted"))
    play.transaction("t", transaction, commit=False)
    play.produce(batch(record(0, b"x"), record(1, b"x")))
    play.cleans_as_predicted()
    play.produce(batch(record(0, b"x")))
    play.cleans_as_predicted()


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_transactions(hasty: Play, commit: bool) -> None:
    """Aborted data goes at once; markers stay while there is data, and go in their time."""
    hasty.transaction("t", batch(record(0, b"a"), record(1, b"b")), batch(record(0, b"a")), commit=commit)
    hasty.produce(batch(record(0, b"c")))
    for value in (b"1", b"2", b"3", b"4"):
        hasty.cleans_as_predicted()
        hasty.produce(batch(record(0, b"a", value), record(1, b"b", value)))
        hasty.filler_cleans_as_predicted()
    hasty.cleans_as_predicted()


def test_transactions_between_others(play: Play) -> None:
    """Transactions of several producers, one after the other and across rounds, leave what `compact` says."""
    for at in range(4):
        data = batch(record(0, b"%d" % at), record(1, b"shared", b"%d" % at))
        play.transaction(f"t{at % 2}", data, commit=at % 3 == 0)
        play.produce(batch(record(0, b"plain", b"%d" % at)))
    play.cleans_as_predicted()
    play.transaction("t0", batch(record(0, b"0")), commit=True)
    play.transaction("t2", batch(record(0, b"0", b"aborted")), commit=False)
    play.cleans_as_predicted()
    play.produce(batch(record(0, b"0"), record(1, b"shared")))
    play.cleans_as_predicted()


def test_keys_like_those_of_markers(play: Play) -> None:
    """A record whose key is that of a COMMIT marker does not take the marker away, but it did before 3.0."""
    play.transaction("t", batch(record(0, b"a")), commit=True)
    play.produce(batch(record(0, b"\0\0\0\1")), batch(record(0, b"b")))
    result = play.cleans_as_predicted()
    assert (result.fates[1].outcome == "dropped") == (play.release == "2.8.2")


def test_open_transactions_keep_the_cleaner_away(play: Play) -> None:
    """Nothing is cleaned from the segment on that holds the last stable offset."""
    play.produce(batch(record(0, b"a")), batch(record(0, b"a")))
    play.transaction("t", batch(record(0, b"b")), commit=True, ends=False)
    with pytest.raises(NoBroker, match="has not been over"):
        force_clean(play.broker, play.client, play.partition, limit=1)
    assert len(describe(read_segments(play.broker, play.partition))) == 3
    assert cleaned_up_to(play.broker, play.partition) == 0
