"""A broker of any make: one that somebody else runs, and one that a command line starts."""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from kafka_brokers.interface import NoBroker
from kafka_brokers.process import Guarded
from kafka_brokers.wire import tables
from kafka_brokers.wire.client import Client
from kafka_brokers.wire.connection import TIME_LIMIT
from kafka_brokers.wire.errors import WireError

# Later versions of Metadata say whether they want topics created; ours do not.
LAST_THAT_CREATES: Final = 3
# Places in a command line that starts a broker: its port, and an empty folder of its own.
PORT, DATA = "{port}", "{data}"
# Seconds that a broker may take to answer its first request.
START_LIMIT: Final = 30.0
# Seconds that a broker on this machine may take to answer any other.
ANSWER_LIMIT: Final = 8.0
PAUSE: Final = 0.05
# A broker that chooses its port prints where it listens as its first line.
_ADDRESS: Final = re.compile(rb"([\w.:\[\]-]+:\d{1,5})\r?\n")


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
        self.time_limit = TIME_LIMIT
        self._ranges: Mapping[int, tuple[int, int]] | None = None
        self._meet()

    def _meet(self) -> None:
        """Learn its versions, and see that it answers.  Raises `NoBroker`."""
        bootstrap, self._ranges = self.bootstrap, None
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
    def can_restart(self) -> bool:
        """Whether it is ours to start again."""
        return False

    def versions(self, key: int) -> tuple[int, int]:
        """Oldest and newest version that it announces of the request with that key; `(0, -1)` without any."""
        return (self._ranges or {}).get(key, (0, -1))

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
        return Client(self.bootstrap, time_limit=self.time_limit, ranges=self._ranges)

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

    def has_ended(self) -> bool:
        """Whether its process has ended, as far as that can be seen."""
        return False

    def kill(self) -> None:
        """Raises `NoBroker`: it is not ours to end."""
        raise NoBroker(f"{self.bootstrap} was not started here, so it cannot be killed here")

    def shut_down(self) -> None:
        """Raises `NoBroker`: it is not ours to end."""
        self.kill()

    def restart(self, *, clean: bool = False) -> None:  # noqa: ARG002 - as in the interface
        """Raises `NoBroker`: it is not ours to start."""
        raise NoBroker(f"{self.bootstrap} was not started here, so it cannot be restarted here")

    def dump_log_segments(self, *arguments: str) -> str:  # noqa: ARG002 - as in the interface
        """Raises `NoBroker`: its files cannot be seen."""
        raise NoBroker(f"the files of {self.bootstrap} cannot be seen")

    def stop(self) -> None:
        """Nothing: it goes on running."""


class StartedBroker(ExternalBroker):
    """A broker that a command line starts here; it is ended with us, and started again when it is gone.

    `{port}` in the command line is a free port of 127.0.0.1; without it, the first line that the broker prints is its
    address.  `{data}` is an empty folder, removed at the end.
    """

    def __init__(self, command: Sequence[str], *, limit: float = START_LIMIT) -> None:
        """Start it, and wait until it answers.

        Raises:
            NoBroker: it cannot be started, ends, or does not answer within *limit* seconds.
        """
        self._command = tuple(command)
        self._limit = limit
        self.time_limit = ANSWER_LIMIT
        self._folder = Path(tempfile.mkdtemp(prefix="kafkaproof-broker-"))
        self._process: Guarded | None = None
        self.starts = 0
        self.bootstrap = self.release = ""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self.starts += 1
        log, data = self._folder / f"{self.starts}.log", self._folder / f"data-{self.starts}"
        data.mkdir()
        port = free_port()
        argv = [word.replace(PORT, str(port)).replace(DATA, str(data)) for word in self._command]
        if shutil.which(argv[0]) is None:
            raise NoBroker(f"{argv[0]} is not there or not on the path")
        self._process = Guarded(argv, folder=self._folder, log=log)
        given = any(PORT in word for word in self._command)
        end = time.monotonic() + self._limit
        while True:
            try:
                self.bootstrap = f"127.0.0.1:{port}" if given else _printed(log)
                return self._meet()
            except NoBroker:
                if self._process.has_ended():
                    raise NoBroker(f"{argv[0]} ended before it answered", log=self._process.tail()) from None
                if time.monotonic() > end:
                    why = f"{argv[0]} did not answer within {self._limit:g} s"
                    raise NoBroker(why, log=self._process.tail()) from None
                time.sleep(PAUSE)

    @property
    def can_restart(self) -> bool:
        """It is ours."""
        return True

    def is_there(self) -> bool:
        """Whether the process runs and answers."""
        return not self.has_ended() and super().is_there()

    def has_ended(self) -> bool:
        """Whether its process has ended, also if it did so after an answer."""
        return self._process is None or self._process.has_ended()

    def said(self) -> str:
        """The last lines that it wrote."""
        return self._process.tail() if self._process is not None else ""

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()

    def restart(self, *, clean: bool = False) -> None:  # noqa: ARG002 - as in the interface
        """End it if it runs, and start it again, on another port and without its data.  Raises `NoBroker`."""
        self.kill()
        self._start()

    def stop(self) -> None:
        """End it, and remove its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _printed(log: Path) -> str:
    """The address in the first line of *log*.  Raises `NoBroker` as long as there is none."""
    match = _ADDRESS.match(log.read_bytes()[:200])
    if match is None:
        raise NoBroker("no address is printed")
    return match[1].decode()


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
