"""Brokers with logs of our choice: segment files written while the broker is down, found when it comes up."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import TopicPartition


def plant(
    broker: JvmBroker, topic: str, logs: Mapping[str, bytes], config: Mapping[str, str] | None = None
) -> dict[str, TopicPartition]:
    """Make *topic* with a partition for each of *logs*, and have the broker recover them; where each is, by name."""
    broker.create_topics({topic: len(logs)}, config)
    broker.kill()
    where = {name: TopicPartition(topic, index) for index, name in enumerate(logs)}
    for name, data in logs.items():
        folder = broker.data_directory / f"{topic}-{where[name].partition}"
        (folder / f"{0:020}.log").write_bytes(data)
        # They describe an empty segment, and the flushed part of the log.
        for stale in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
            stale.unlink()
    broker.restart()
    with broker.client() as client:
        client.await_leaders({topic: len(logs)})
    return where
