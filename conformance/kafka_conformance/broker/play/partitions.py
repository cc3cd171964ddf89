"""Partitions on which nothing lies yet, by the settings of their topics."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

from kafka_conformance.broker.interface import Broker
from kafka_conformance.broker.wire import TopicPartition

# At a time; one more topic is a request of some ten milliseconds, or a Java process on old releases.
AT_ONCE: Final = 64
# Enough for small records, and a broker has thousands of partitions here.
SMALL: Final = {"segment.index.bytes": "16384"}


class Fresh:
    """Hands out each partition once, and takes back those that stayed empty."""

    def __init__(
        self,
        broker: Broker,
        *,
        prefix: str,
        at_once: int = AT_ONCE,
        settings: Mapping[str, str] = SMALL,
        names: list[str] | None = None,
    ) -> None:
        """Topics are called *prefix* and a number, which *names* gets, and have *at_once* partitions and *settings*."""
        self._topics = [] if names is None else names
        self._broker = broker
        self._prefix = prefix
        self._at_once = at_once
        self._settings = settings
        self._names = count()
        self._left: dict[tuple[tuple[str, str], ...], list[TopicPartition]] = {}

    def take(self, config: Mapping[str, str], number: int = 1) -> list[TopicPartition]:
        """Partitions of topics with that *config*.

        Raises:
            BrokerError: the broker does not take the settings.
        """
        left = self._left.setdefault(tuple(sorted(config.items())), [])
        while len(left) < number:
            topic = f"{self._prefix}-{next(self._names)}"
            self._topics.append(topic)
            self._broker.create_topics({topic: self._at_once}, {**self._settings, **config})
            left[:0] = [TopicPartition(topic, index) for index in reversed(range(self._at_once))]
        return [left.pop() for _ in range(number)]

    def give_back(self, config: Mapping[str, str], partition: TopicPartition) -> None:
        """*partition* is still empty."""
        self._left[tuple(sorted(config.items()))].append(partition)
