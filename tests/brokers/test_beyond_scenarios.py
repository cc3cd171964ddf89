"""Broker rules that no scenario of the corpus can show; needs Java and Maven."""

import time

import pytest

from kafka_brokers import cleaning, jvm
from kafka_brokers.wire import TopicPartition
from kafka_corpus.check import BEYOND_SCENARIOS
from kafka_corpus.evidence import brokers
from kafka_records import Batch, CleanerConfig, Record, compact, encode

pytestmark = [pytest.mark.broker, pytest.mark.slow]

WHERE = TopicPartition("topic", 0)


def test_zstd_for_an_older_cluster() -> None:
    """PRD-21: while brokers of 2.0 may be there, zstd is refused."""
    assert "PRD-21" in BEYOND_SCENARIOS
    batch = Batch(magic=2, base_offset=0, last_offset=0, compression="zstd", records=(Record(0, -1, None, b"value"),))
    with jvm.start_jvm("2.8.2", config={"inter.broker.protocol.version": "2.0"}) as broker:
        broker.create_topics({WHERE.topic: 1})
        with broker.client() as client:
            answer = client.produce({WHERE: encode(batch)}, 7)
    assert isinstance(answer, dict)
    assert answer[WHERE].error_code == 76


@pytest.mark.parametrize("release", brokers.PREDICTED[-1:])
def test_cleaned_batch_above_the_limit(release: str) -> None:
    """SIZ-14: a batch of tombstones grows beyond max.message.bytes when it gets a delete horizon, and is kept."""
    assert "SIZ-14" in BEYOND_SCENARIOS
    now = time.time_ns() // 1_000_000
    records = tuple(Record(at, now, b"%06d" % at, None) for at in range(60_000))
    batch = Batch(magic=2, base_offset=0, last_offset=len(records) - 1, max_timestamp=now, records=records)
    sent = encode(batch)
    limit = len(sent)
    with jvm.start_jvm(release, config=dict(cleaning.EAGER)) as broker:
        broker.create_topics({WHERE.topic: 1}, {**cleaning.compacted(release), "max.message.bytes": "1048588"})
        with broker.client() as client:
            answer = client.produce({WHERE: sent})
            assert isinstance(answer, dict)
            assert answer[WHERE].error_code == 0
            stored = cleaning.read_segments(broker, WHERE)
            cleaning.force_clean(broker, client, WHERE)
            cleaned = cleaning.without_fillers(cleaning.read_segments(broker, WHERE))
    assert limit < 1_048_588 < len(cleaned)
    assert len(compact(stored, CleanerConfig(), release=release, now_ms=now).data) == len(cleaned)
