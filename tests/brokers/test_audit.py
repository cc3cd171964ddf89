"""A log that the newest broker writes is clean in an audit, and damage to it is found: needs Java and Maven."""

import time
from pathlib import Path

import pytest

pytest.importorskip("numba")

from kafka import KafkaProducer

from kafka_brokers import jvm
from kafka_brokers.releases import NEWEST
from kafka_pipeline.audit.joining import LogReport, join_summaries
from kafka_pipeline.audit.stretch import judge_stretch
from kafka_pipeline.columnar.scan import runs_in
from kafka_pipeline.segments.files import Stretch
from kafka_pipeline.segments.listing import find_segments

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC = "audited"
FLIPPED = 200


def produced(bootstrap: str) -> None:
    """All codecs, and transactions, some of them aborted."""
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=True)
        for number in range(200):
            producer.send(TOPIC, key=b"key %d" % number, value=b"value %d " % number * 9, headers=[("name", b"x")])
        producer.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="audit")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        for sent in [producer.send(TOPIC, value=b"in transaction %d" % number) for _ in range(30)]:
            sent.get(30)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()


def audited(folder: Path) -> LogReport:
    """The audit's report of a partition."""
    segments, now = find_segments([str(folder)]), int(time.time() * 1000)
    summaries = [
        judge_stretch(Stretch(each.path, 0, each.size), each.size, last=each is segments[-1], now_ms=now)
        for each in segments
    ]
    return join_summaries(str(folder), summaries, now)


def test_what_a_broker_wrote() -> None:
    """Nothing is found, neither while the broker runs nor in what it notes at its end; then one flipped bit is."""
    with jvm.start_jvm(NEWEST) as broker:
        broker.create_topics({TOPIC: 1})
        produced(broker.bootstrap)
        assert broker.data_directory is not None
        folder = broker.data_directory / f"{TOPIC}-0"
        end = time.monotonic() + 200
        # The broker writes markers after the producer's call has returned; it sends a lost one again after 30 s.
        while (report := audited(folder)).counts.numbers["control"] < 4 and time.monotonic() < end:
            time.sleep(0.1)
        assert report.listed == []
        assert report.counts.numbers["records"] == 5 * 200 + 4 * 31
        assert (report.counts.numbers["control"], report.missing) == (4, 0)
        assert set(report.segments[0].beside) >= {".index", ".timeindex", ".txnindex"}

        broker.restart(clean=True)
        assert [int(each.stem) for each in folder.glob("*.snapshot")] == [report.last_offset + 1]
        assert audited(folder).listed == []

        path = Path(report.segments[0].path)
        data = bytearray(path.read_bytes())
        start = runs_in(bytes(data), most=1).places[3][0]
        data[start + FLIPPED] ^= 1
        path.write_bytes(data)
        assert ("unreadable", "CRC-07", start) in [
            (each.kind, each.rule, each.position) for each in audited(folder).listed
        ]
