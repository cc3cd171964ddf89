"""A broker from Maven's jars, on loopback, with data in a temporary folder."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Protocol, Self

from kafka_brokers import jars, java, settings
from kafka_brokers.interface import NoBroker
from kafka_brokers.process import Guarded, Running
from kafka_brokers.releases import Release, find_release
from kafka_brokers.wire.client import Client, answers

# Seconds; the slowest takes six on a quiet machine.
START_LIMIT: Final = 90.0
SHUTDOWN_LIMIT: Final = 30.0
TOOL_LIMIT: Final = 120.0
MEMORY: Final = Path("/dev/shm")
ENOUGH_MEMORY: Final = 4 << 30  # bytes
# Somebody else may take a free port before the broker does.
ATTEMPTS: Final = 3
_PROBE_SECONDS: Final = 2.0
_PAUSE: Final = 0.05
_TAKEN: Final = "Address already in use"


class BrokerPlace(Protocol):
    """Where Java runs: here, or in a container."""

    def java(self, arguments: Sequence[str], folder: Path, log: Path) -> Running:
        """A running `java` with the release's jars as its classpath, in *folder*, with its output in *log*.

        Neither it nor *folder* outlives us.  Raises `NoBroker`.
        """


class JvmBroker:
    """One broker and, where it needs one, its ZooKeeper; started by the constructor."""

    def __init__(
        self,
        release: Release,
        place: Callable[[Release], BrokerPlace],
        *,
        config: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
        start_limit: float = START_LIMIT,
    ) -> None:
        """Start *release* with settings that override ours, and more *flags* for Java; wait until it answers.

        *place* is called for each process that is started, with the release whose jars it needs.

        Raises:
            NoBroker: it cannot be started; the end of its log is in the message.
        """
        self._release = release
        self._place = place
        self._config = dict(config or {})
        self._flags = tuple(flags)
        self._start_limit = start_limit
        self._zookeeper: Running | None = None
        self._kafka: Running | None = None
        self._port = self._inner_port = 0
        self._folder = Path(tempfile.mkdtemp(prefix=f"kafkaproof-{release.name}-", dir=_scratch()))
        with ExitStack() as undo:
            undo.callback(self.stop)
            atexit.register(self.stop)
            self._lay_out()
            self._start_somewhere()
            undo.pop_all()

    @property
    def bootstrap(self) -> str:
        """`host:port`."""
        return f"{settings.HOST}:{self._port}"

    @property
    def release(self) -> str:
        """The name of its release."""
        return self._release.name

    @property
    def data_directory(self) -> Path:
        """The folder of its logs, folders `TOPIC-PARTITION`."""
        return self._folder / "data"

    @property
    def log(self) -> Path:
        """The broker's log output, over all its starts."""
        return self._folder / "kafka.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _lay_out(self) -> None:
        for name in ("data", "zookeeper", "tmp"):
            (self._folder / name).mkdir()
        (self._folder / "log4j.properties").write_text(settings.LOG4J, encoding="utf-8")

    def _start_somewhere(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self._port, self._inner_port = _free_ports()
            self._configure()
            try:
                self._prepare(first=attempt == 1)
                self._start_kafka(time.monotonic() + self._start_limit)
                return
            except NoBroker as error:
                self._end_all()
                if _TAKEN not in error.log or attempt == ATTEMPTS:
                    raise

    def _configure(self) -> None:
        text = settings.server(self._release, self.data_directory, self._port, self._inner_port, self._config)
        (self._folder / "server.properties").write_text(text, encoding="utf-8")
        text = settings.zookeeper(self._folder / "zookeeper", self._inner_port)
        (self._folder / "zookeeper.properties").write_text(text, encoding="utf-8")

    def _prepare(self, *, first: bool) -> None:
        """Prepare the broker: format its storage, or start ZooKeeper."""
        if self._release.mode == "zookeeper":
            # The broker waits for it, so both may start at once.
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._zookeeper = self._running(main, "zookeeper.properties", log=self._folder / "zookeeper.log")
        elif first:
            self._format()

    def _format(self) -> None:
        """KRaft wants formatted storage; that is the same every time, and takes seconds, so it is kept."""
        kept = jars.cache_directory() / f"{self.release}.storage"
        if not kept.is_dir():
            format_it = ("format", "-t", settings.CLUSTER_ID, "-c", "server.properties")
            code, said = self.tool("kafka.tools.StorageTool", *format_it)
            if code:
                raise NoBroker(f"the storage of Kafka {self.release} could not be formatted", log=said)
            _keep(self.data_directory, kept)
        shutil.copytree(kept, self.data_directory, dirs_exist_ok=True)

    def _start_kafka(self, end: float) -> None:
        """Start it and wait until it answers."""
        if self._zookeeper is not None and self._kafka is not None:
            self._await_end_of_session(end)
        self._kafka = self._running("kafka.Kafka", "server.properties", log=self.log)
        while not answers(self.bootstrap, _PROBE_SECONDS, named=self._release.names_itself):
            ended = self._kafka.has_ended()
            if ended or time.monotonic() > end:
                raise NoBroker(
                    f"Kafka {self.release} {'ended' if ended else 'did not answer in time'}", log=self._tails()
                )
            time.sleep(_PAUSE)

    def _await_end_of_session(self, end: float) -> None:
        """After a crash ZooKeeper holds the broker's session for a while.

        A broker that is started meanwhile gives up, waits, or (0.8.2) takes the old session's controller for
        itself, and no partition ever has a leader.
        """
        while settings.SESSION in _said_by_zookeeper(self._inner_port):
            if time.monotonic() > end:
                raise NoBroker(f"ZooKeeper does not end the old session of Kafka {self.release}", log=self._tails())
            time.sleep(_PAUSE)

    def _tails(self) -> str:
        """The last lines of the broker's log, and of ZooKeeper's if it is the cause."""
        guilty = (
            [self._kafka]
            if self._zookeeper is None or not self._zookeeper.has_ended()
            else [self._zookeeper, self._kafka]
        )
        return "\n".join(each.tail() for each in guilty if each is not None)

    def has_ended(self) -> bool:
        """Whether the broker is gone."""
        return self._kafka is None or self._kafka.has_ended()

    def tail(self) -> str:
        """The last lines of its log."""
        return self._tails()

    def _running(self, main: str, *arguments: str, log: Path, release: Release | None = None) -> Running:
        place = self._place(release or self._release)
        flags = (
            f"-Dlog4j.configuration=file:{self._folder / 'log4j.properties'}",
            # Native codecs are unpacked there, and removed with the rest.
            f"-Djava.io.tmpdir={self._folder / 'tmp'}",
        )
        return place.java([*settings.JVM_FLAGS, *flags, *self._flags, main, *arguments], self._folder, log)

    def tool(self, main: str, *arguments: str, release: Release | None = None) -> tuple[int, str]:
        """Run another main class of this release, or of *release*: its exit code, and what it wrote.

        Raises:
            NoBroker: it does not end.
        """
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="tool-") as output:
            running = self._running(main, *arguments, log=Path(output.name), release=release)
            ended = running.wait(TOOL_LIMIT)
            code = running.kill()
            text = Path(output.name).read_text(encoding="utf-8", errors="replace")
        if not ended:
            raise NoBroker(f"{main} of Kafka {self.release} did not end within {TOOL_LIMIT:g} s", log=text)
        return code, text

    def dump_log_segments(self, *arguments: str) -> str:
        """Output of this release's DumpLogSegments; the caller gives `--files` and other arguments.

        Raises:
            NoBroker: the tool does not end, or fails.
        """
        by = find_release(self._release.dumped_by or self.release)
        code, said = self.tool(by.dump_log_segments, *arguments, release=by)
        if code:
            raise NoBroker(f"DumpLogSegments of Kafka {self.release} failed", log=said)
        return said

    def client(self) -> Client:
        """A new connection to it, for the caller to close.  Raises `Unreachable`."""
        return Client(self.bootstrap, ranges=self._release.versions)

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Create *topics* (name: number of partitions), and wait until they can be used.

        Before 0.10.1 that takes a Java process for each topic, a second or so.

        Raises:
            BrokerError: the broker refused.
            NoBroker: the tool that creates topics failed.
        """
        with self.client() as client:
            if self._release.creates_topics:
                client.create_topics(topics, config)
                return
            for name, count in topics.items():
                self._create_by_tool(name, count, config or {})
            client.await_leaders(topics)

    def _create_by_tool(self, name: str, count: int, config: Mapping[str, str]) -> None:
        settings_ = [part for item in config.items() for part in ("--config", "=".join(item))]
        where = ("--zookeeper", f"{settings.HOST}:{self._inner_port}")
        what = ("--create", "--topic", name, "--partitions", str(count), "--replication-factor", "1")
        code, said = self.tool("kafka.admin.TopicCommand", *where, *what, *settings_)
        # Releases before 0.9 end with 0 after an error, too.
        if code or "Error while executing" in said:
            raise NoBroker(f"Kafka {self.release} did not create the topic {name}", log=said)

    def kill(self) -> None:
        """End the broker at once, as a crash would; its data stay."""
        if self._kafka is not None:
            self._kafka.kill()

    def restart(self, *, clean: bool = False) -> None:
        """Start it again on its data and its port, after killing it, or (*clean*) after it has shut down by itself.

        Raises:
            NoBroker: it does not come up again, or not down.
        """
        if self._kafka is not None and clean and not self._kafka.terminate(SHUTDOWN_LIMIT):
            raise NoBroker(f"Kafka {self.release} did not shut down in {SHUTDOWN_LIMIT:g} s", log=self._tails())
        self.kill()
        self._start_kafka(time.monotonic() + self._start_limit)

    def _end_all(self) -> None:
        for each in (self._kafka, self._zookeeper):
            if each is not None:
                each.kill()

    def stop(self) -> None:
        """End it, and remove its folder; more than once does no harm."""
        self._end_all()
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.stop)


def _said_by_zookeeper(port: int) -> str:
    """Its answer to `dump`: sessions, and what lives as long as they do.  Empty if it does not answer."""
    try:
        with socket.create_connection((settings.HOST, port), timeout=_PROBE_SECONDS) as connection:
            connection.sendall(b"dump")
            with connection.makefile("rb") as answer:
                return answer.read().decode(errors="replace")
    except OSError:
        return ""


def _scratch() -> Path | None:
    """A folder in memory if there is enough and `TMPDIR` is not set; None for the system's choice.

    A broker maps two index files for each partition.  On a disk, the first entry
    in each takes milliseconds, and with hundreds of partitions all come at once.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return None
    there = os.statvfs(MEMORY)
    # Native codecs are unpacked and loaded from there.
    usable = not there.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)
    return MEMORY if usable and there.f_bavail * there.f_frsize >= ENOUGH_MEMORY else None


def _free_ports() -> tuple[int, int]:
    """Two ports that are free now."""
    with socket.socket() as one, socket.socket() as other:
        one.bind((settings.HOST, 0))
        other.bind((settings.HOST, 0))
        return one.getsockname()[1], other.getsockname()[1]


def _keep(made: Path, kept: Path) -> None:
    """Copy into the cache as a whole."""
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=f".{kept.name}-") as scratch:
        jars.move_into_place(shutil.copytree(made, Path(scratch) / kept.name), kept)


@dataclass(frozen=True, slots=True)
class Here:
    """Java on this machine."""

    program: str
    jars: Path

    def java(self, arguments: Sequence[str], folder: Path, log: Path) -> Guarded:
        """A running `java` with the cached jars."""
        return Guarded([self.program, "-cp", str(self.jars / "*"), *arguments], folder=folder, log=log)


def start_jvm(
    release: str,
    *,
    config: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    start_limit: float = START_LIMIT,
) -> JvmBroker:
    """Start *release* with settings that override ours, and more *flags* for Java; wait until it answers.

    Raises:
        NoBroker: it is unknown, Java or Maven is missing, or it did not come up (with the end of its log).
        JarsDiffer: the jars are not those that were locked.
    """

    @cache
    def here(needed: Release) -> Here:
        return Here(java.find_java(needed).program, jars.provide(needed))

    return JvmBroker(find_release(release), here, config=config, flags=flags, start_limit=start_limit)
