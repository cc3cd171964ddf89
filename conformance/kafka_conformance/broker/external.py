"""A broker that somebody else runs: `host:port` of anything that speaks Kafka's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.wire.client import Client
from kafka_conformance.broker.wire.errors import WireError


class ExternalBroker:
    """It is neither started nor stopped by us, and its files cannot be seen."""

    def __init__(self, bootstrap: str, release: str = "") -> None:
        """Ask once whether it is there.

        Raises:
            NoBroker: nobody answers.
            ValueError: *bootstrap* is not `host:port`.
        """
        self.bootstrap = bootstrap
        self.release = release
        try:
            with self.client() as client:
                client.metadata()
        except WireError as error:
            raise NoBroker(f"no broker answers at {bootstrap}: {error}", hint="is it running?") from error

    @property
    def data_directory(self) -> Path | None:
        """Never to be seen."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self) -> Client:
        """A new connection to it, for the caller to close.  Raises `Unreachable`."""
        return Client(self.bootstrap)

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Create *topics* (name: number of partitions), and wait until they can be used.

        Raises:
            BrokerError: the broker refused.
            UnsupportedVersion: it has no such request.
        """
        with self.client() as client:
            client.create_topics(topics, config)

    def kill(self) -> None:
        """Raises `NoBroker`: it is not ours to end."""
        raise NoBroker(f"{self.bootstrap} was not started here, so it cannot be killed here")

    def restart(self, *, clean: bool = False) -> None:  # noqa: ARG002 - as in the interface
        """Raises `NoBroker`: it is not ours to start."""
        raise NoBroker(f"{self.bootstrap} was not started here, so it cannot be restarted here")

    def stop(self) -> None:
        """Nothing: it goes on running."""
