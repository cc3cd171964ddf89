"""A broker that somebody else runs: `host:port` of anything that speaks Kafka's protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

from kafka_brokers.interface import NoBroker
from kafka_brokers.wire import tables
from kafka_brokers.wire.client import Client
from kafka_brokers.wire.errors import WireError

# Later versions of Metadata say whether they want topics created; ours do not.
LAST_THAT_CREATES: Final = 3


class ExternalBroker:
    """It is neither started nor stopped by us, and its files cannot be seen."""

    def __init__(self, bootstrap: str, release: str = "") -> None:
        """Ask once whether it is there.

        Raises:
            NoBroker: no broker answers.
            ValueError: *bootstrap* is not `host:port`.
        """
        self.bootstrap = bootstrap
        self.release = release
        self._ranges: Mapping[int, tuple[int, int]] | None = None
        try:
            with self.client() as client:
                self._ranges = _usable(client.ranges())
            with self.client() as client:
                client.metadata()
        except WireError as error:
            raise NoBroker(f"no broker answers at {bootstrap}: {error}", hint="is it running?") from error

    @property
    def data_directory(self) -> Path | None:
        """Never to be seen."""
        return None

    @property
    def creates_topics(self) -> bool:
        """Whether topics are created by a request for that, with settings."""
        return self._ranges is None or tables.CREATE_TOPICS.key in self._ranges

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self) -> Client:
        """A new connection to it, for the caller to close.  Raises `Unreachable`."""
        return Client(self.bootstrap, ranges=self._ranges)

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Create *topics* (name: number of partitions), and wait until they can be used.

        If the broker has no such request, a metadata request may create the topic.

        Raises:
            BrokerError: the broker refused.
            UnsupportedVersion: it has no such request, and settings were given.
        """
        with self.client() as client:
            if self.creates_topics or config:
                client.create_topics(topics, config)
            else:
                client.await_leaders(topics)

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Remove *topics*, as far as the broker can; what it does not remove stays."""
        try:
            with self.client() as client:
                if tables.DELETE_TOPICS.key in client.ranges():
                    client.demand(tables.DELETE_TOPICS, {"topic_names": list(topics)})
        except WireError:
            pass  # somebody else's broker: what it will not do now, its owner has to

    def is_there(self) -> bool:
        """Whether it takes a connection and answers."""
        try:
            with self.client() as client:
                client.metadata([])
        except WireError:
            return False
        return True

    def kill(self) -> None:
        """Raises `NoBroker`: it is not ours to end."""
        raise NoBroker(f"{self.bootstrap} was not started here, so it cannot be killed here")

    def restart(self, *, clean: bool = False) -> None:  # noqa: ARG002 - as in the interface
        """Raises `NoBroker`: it is not ours to start."""
        raise NoBroker(f"{self.bootstrap} was not started here, so it cannot be restarted here")

    def dump_log_segments(self, *arguments: str) -> str:  # noqa: ARG002 - as in the interface
        """Raises `NoBroker`: its files cannot be seen."""
        raise NoBroker(f"the files of {self.bootstrap} cannot be seen")

    def stop(self) -> None:
        """Nothing: it goes on running."""


def _usable(ranges: Mapping[int, tuple[int, int]]) -> Mapping[int, tuple[int, int]]:
    """*ranges* as we use them: without CreateTopics, a topic comes about by a Metadata request of an old version."""
    if tables.CREATE_TOPICS.key in ranges:
        return ranges
    # Such a version gives no topic ids, so no request can name a topic by id.
    last = {
        tables.METADATA.key: LAST_THAT_CREATES,
        tables.FETCH.key: tables.LAST_BY_NAME,
        tables.PRODUCE.key: tables.LAST_BY_NAME,
    }
    return {key: (oldest, min(newest, last.get(key, newest))) for key, (oldest, newest) in ranges.items()}
