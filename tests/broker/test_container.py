"""The same brokers in containers: needs an engine, and the image that `kafkaproof broker build` made."""

import pytest

from kafka_conformance.broker import container
from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.releases import NEWEST, find_release
from kafka_conformance.broker.wire import TopicPartition
from kafka_records import Batch, Record, decode, encode

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_what_is_produced_is_fetched() -> None:
    """A record comes back from a broker in a container, after a crash and after a clean restart too."""
    if not container.engine_runs():
        pytest.skip("no container engine runs here")
    if not container.has_image(find_release(NEWEST)):
        pytest.skip(f"there is no image: kafkaproof broker build {NEWEST}")
    where = TopicPartition("topic", 0)
    batch = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=1, records=(Record(0, 1, b"k", b"v"),))
    with container.start(NEWEST) as broker:
        broker.create_topics({where.topic: 1})
        with broker.client() as client:
            answer = client.produce({where: encode(batch)})
            assert isinstance(answer, dict)
            assert answer[where].error_code == 0
        for clean in (False, True):
            broker.restart(clean=clean)
            with broker.client() as client:
                client.await_leaders({where.topic: 1})
                found = client.fetch({where: 0})
                assert isinstance(found, dict)
                assert [each.records[0].value for each in decode(found[where].records)] == [b"v"]
        folder = broker.data_directory
    assert not folder.exists()


def test_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no engine runs, one line says so."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(NoBroker, match=r"engine is not running|no docker here") as caught:
        container.start(NEWEST)
    assert "\n" not in str(caught.value)
