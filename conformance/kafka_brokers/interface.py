"""The operations of a broker that this project started, and the error for one that cannot be had."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from kafka_brokers.wire.client import Client


class NoBroker(RuntimeError):
    """A broker cannot be started or reached here.

    Attributes:
        hint: what to do about it; empty if nothing is known.
        log: the end of what the broker wrote before it gave up.
    """

    def __init__(self, message: str, *, hint: str = "", log: str = "") -> None:
        parts = [message + (f" ({hint})" if hint else ""), *([f"its log ends:\n{log}"] if log else [])]
        super().__init__("; ".join(parts))
        self.hint = hint
        self.log = log


class EndedAtStart(NoBroker):
    """The broker ended by itself before it answered; one that is only slow is no such error."""


class JarsDiffer(NoBroker):
    """The jars in the cache, or those that Maven fetched, are not those that were locked."""


class Broker(Protocol):
    """A running broker; a context manager that stops it at the end."""

    @property
    def bootstrap(self) -> str:
        """`host:port`."""

    @property
    def release(self) -> str:
        """The name of its release; empty if that is not known."""

    @property
    def data_directory(self) -> Path | None:
        """The folder of its logs (`TOPIC-PARTITION` folders); None if it is not on this machine."""

    def client(self) -> Client:
        """A new connection to it, for the caller to close.  Raises `Unreachable`."""

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Create *topics* (name: number of partitions) with these settings, and wait until they can be used."""

    def kill(self) -> None:
        """End it at once, as a crash would; its data stay."""

    def shut_down(self) -> None:
        """Have it end by itself; its data stay.  Raises `NoBroker`."""

    def restart(self, *, clean: bool = False) -> None:
        """Start it again on its data, after killing it, or (*clean*) after it has shut down by itself."""

    def dump_log_segments(self, *arguments: str) -> str:
        """Output of the release's DumpLogSegments; *arguments* are the tool's own.  Raises `NoBroker`."""

    def stop(self) -> None:
        """End it and remove what it left; more than once does no harm."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
