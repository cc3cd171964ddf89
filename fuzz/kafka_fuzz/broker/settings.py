"""Settings of brokers under fuzzing and of their topics, by release.

The topics have every setting that affects an append.
"""

from __future__ import annotations

from typing import Final

from kafka_brokers.releases import NEWEST
from kafka_records.broker.releases import MINORS, behaviour, minor_version

Settings = dict[str, str]
# The settings with which the answers in the corpus were recorded.  The last two prevent that a broker that waits for
# a CPU loses its session, which would elect a new leader.
CONFIG: Final = {
    "producer.id.expiration.check.interval.ms": "86400000",
    "broker.session.timeout.ms": "300000",
    "zookeeper.session.timeout.ms": "300000",
}
# Without the stack trace of every refused payload, and without the optimizing compiler, which does not pay off in a
# short run, a broker answers twice as many requests.
FLAGS: Final = ("-Dorg.slf4j.simpleLogger.log.kafka.server.ReplicaManager=off", "-XX:TieredStopAtLevel=1")
# Larger than every payload, so that only the topics with a small limit reach it.
ROOM: Final = "max.message.bytes"
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
HOUR: Final = "3600000"
PLAIN: Final[tuple[Settings, ...]] = (
    {},
    APPEND_TIME,
    {"compression.type": "uncompressed"},
    {"compression.type": "gzip"},
    {"compression.type": "snappy"},
    {"compression.type": "lz4", **APPEND_TIME},
    {"compression.type": "zstd"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "delete, compact", "compression.type": "gzip"},
    {"max.message.bytes": "300"},
    {"max.message.bytes": "500", "compression.type": "uncompressed"},
)
# Settings with the first release that has them and the first that has them no longer.
SINCE: Final[tuple[tuple[Settings, tuple[int, ...], tuple[int, ...]], ...]] = (
    ({"message.timestamp.before.max.ms": HOUR}, (3, 6), (99,)),
    ({"message.timestamp.after.max.ms": HOUR, "compression.type": "lz4"}, (3, 6), (99,)),
    ({"message.timestamp.difference.max.ms": HOUR}, (0, 10, 1), (4, 0)),
    ({"max.decompressed.message.bytes": "200"}, (4, 4), (99,)),
    ({"message.format.version": "0.10.0"}, (0, 11), (3, 0)),
    ({"message.format.version": "0.10.0", "compression.type": "lz4", **APPEND_TIME}, (0, 11), (3, 0)),
    ({"message.format.version": "0.9.0"}, (0, 11), (3, 0)),
    ({"message.format.version": "0.9.0", "compression.type": "uncompressed"}, (0, 11), (3, 0)),
)


def topic_settings(release: str) -> tuple[Settings, ...]:
    """The topics' settings for *release*."""
    minor, codecs = minor_version(release), ("gzip", "snappy", "lz4", "uncompressed", "zstd")
    known = codecs[: behaviour(release).codecs]
    later = tuple(each for each, since, until in SINCE if since <= minor < until)
    return tuple(each for each in PLAIN + later if each.get("compression.type", "gzip") in known)


def release_of(target: str) -> str:
    """The release in `broker:RELEASE`, by default the newest; ValueError for an unknown release."""
    release = target.partition(":")[2] or NEWEST
    if minor_version(release) not in MINORS:
        raise ValueError(f"no release {release!r} is known")
    return release
