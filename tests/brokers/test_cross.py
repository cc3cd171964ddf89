"""The cross matrix with a real broker in between; needs Java and Maven."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_brokers import jvm
from kafka_brokers.interface import Broker
from kafka_brokers.releases import NEWEST
from kafka_conformance.cross import results
from kafka_conformance.cross.results import BROKER, WROTE, cross_matrix
from kafka_conformance.cross.run import CrossRunPlan, encode_requests, run
from kafka_conformance.testees.known import connect
from kafka_corpus.vectors import corpus_hash

pytestmark = [pytest.mark.broker, pytest.mark.slow]

# Batches that a client may send, one that needs a transaction, and one that no client may send.
SOME = (
    "writers.timestamps_out_of_order",
    "writers.producer_fields",
    "v2_encode.end_marker",
    "legacy_encode.several_messages",
)
TESTEES = ("kafka-python", "reference", "planted:writes_seconds", "planted:writes_no_crc")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Kafka in its newest release."""
    with jvm.start_jvm(NEWEST) as running:
        yield running


def crossed(broker: Broker, folder: Path, read: str) -> results.CrossResults:
    """A run with the broker in between."""
    plan = CrossRunPlan(
        connections={name: connect(name) for name in TESTEES},
        cases=encode_requests(SOME),
        corpus=corpus_hash(),
        path=folder / results.FILE,
        broker=broker,
        read=read,
        jobs=2,
    )
    return run(plan)


@pytest.fixture(scope="module")
def written(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> results.CrossResults:
    """A run in which consumers read what was written."""
    return crossed(broker, tmp_path_factory.mktemp("written"), "written")


def test_it_takes_what_is_right(written: results.CrossResults) -> None:
    """The reference's batches are stored as intended, transactions too; a marker is refused from any producer."""
    cell = cross_matrix(written).cells["reference", BROKER]
    skipped = {
        each.batch.partition("[")[0]: each.judged.why for each in cell.batches if not each.failed and each.judged.why
    }

    assert cell.failures == []
    assert cell.counts["agree"] == len(encode_requests(SOME[:2]))
    assert "refused from every writer" in skipped["v2_encode.end_marker"]
    assert "takes no magic so old" in skipped["legacy_encode.several_messages"]


def test_it_refuses_what_is_broken(written: results.CrossResults) -> None:
    """A batch without its checksum is refused, by Kafka's name for that, and its producer is to blame."""
    failures = cross_matrix(written).cells["planted:writes_no_crc", BROKER].failures

    assert len(failures) == len(encode_requests(SOME[:2]))
    assert {each.judged.outcome for each in failures} == {"rejects_valid"}
    # A transactional one is sent without a transaction, since unreadable bytes cannot be given a producer id.
    assert all("2 CORRUPT_MESSAGE" in each.judged.why for each in failures if "transactional" not in each.batch)
    assert {each.judged.blame for each in failures} == {"producer"}


def test_it_stores_what_is_wrong(written: results.CrossResults) -> None:
    """Timestamps that a producer cut are stored as they came."""
    cell = cross_matrix(written).cells["planted:writes_seconds", BROKER]

    assert {each.judged.outcome for each in cell.failures} == {"wrong_data"}


def test_consumers_read_what_it_stored(broker: Broker, tmp_path: Path) -> None:
    """With `stored`, consumers get what the broker made of it, and nothing that it refused."""
    made = cross_matrix(crossed(broker, tmp_path, "stored"))
    refused = made.cells["planted:writes_no_crc", "reference"]

    assert made.cells["planted:writes_no_crc", WROTE].failures
    assert refused.counts.get("agree", 0) == 0
    assert made.cells["reference", "kafka-python"].failures == []
    assert made.cells["reference", "kafka-python"].counts["agree"] == len(encode_requests(SOME[:2]))
