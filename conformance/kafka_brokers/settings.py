"""The files and flags with which a broker of ours runs, as text.

Settings that decide what is stored or answered are left at each release's
defaults; what is set here makes a broker small, local and quick to start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_brokers.releases import Release

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
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
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


def server(release: Release, data: Path, port: int, inner_port: int, config: Mapping[str, str]) -> str:
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


def zookeeper(data: Path, port: int) -> str:
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
