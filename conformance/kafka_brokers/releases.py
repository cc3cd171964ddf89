"""The broker releases, as data: where their jars are, how they differ to start, and which count as supported.

A release is added by one line here and one run of `kafkaproof broker lock`.

The reach of findings depends on the supported releases: bytes that a supported
broker stores and serves reach every consumer, and bytes that only older releases
stored reach those that read logs from that time.  `certify --supported 2.8..4.4`
replaces the range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from kafka_brokers.interface import NoBroker
from kafka_corpus.scenario import release_number

Mode = Literal["zookeeper", "kraft"]

# The binding that lets a broker write its log to standard error without a file of
# settings.  Kafka declares slf4j 1.7 itself, up to the newest release.
SLF4J_SIMPLE: Final = "org.slf4j:slf4j-simple:1.7.36"
# From 1.0 to 3.9 the classes that a broker registers at its start name log4j 1.x,
# but the artifact no longer depends on it.
LOG4J: Final = "log4j:log4j:1.2.17"
# What Java 8 had and Java 11 has not.
JAXB: Final = "javax.xml.bind:jaxb-api:2.3.1"
# In place of 3.4.13, whose client takes addresses apart that Java 14 and later write
# differently (ZOOKEEPER-3779).
ZOOKEEPER: Final = "org.apache.zookeeper:zookeeper:3.4.10"
# The class of DumpLogSegments from 4.2 on.
TOOLS: Final = "org.apache.kafka:kafka-tools:4.3.1"
DUMP_IN_TOOLS: Final = "org.apache.kafka.tools.DumpLogSegments"
# Bindings that come along, in releases where we put our own in their place.
BINDINGS: Final = ("org.slf4j:slf4j-log4j12", "org.slf4j:slf4j-reload4j")


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One release of Apache Kafka's broker.

    Attributes:
        name: its version on Maven Central.
        scala: the Scala version in the artifact's name.
        mode: what keeps its metadata; we use KRaft wherever it is ready for production (3.3 on).
        magics: the message formats that it stores, oldest first.
        extra: coordinates (`group:artifact:version`) of jars that it needs beside its own dependencies; they come
            without theirs.
        without: dependencies (`group:artifact`) left out.
        java: the oldest Java that runs it, and the newest that we know to, if there is one.
        creates_topics: whether it has the CreateTopics request (KIP-4, 0.10.1).
        names_itself: whether it names itself in Metadata from its start, and not only once there is a topic.
        versions: oldest and newest version of its requests by their key, where the broker does not report them (before
            ApiVersions, KIP-35, 0.10.0); None where it can.
        dump_log_segments: the main class of the tool that reads segment files.
        dumped_by: the release with whose jars that tool runs; empty if it is this one.
        config: settings beside those that all releases share.
    """

    name: str
    scala: str
    mode: Mode
    magics: tuple[int, ...]
    extra: tuple[str, ...] = (SLF4J_SIMPLE, LOG4J)
    without: tuple[str, ...] = BINDINGS
    java: tuple[int, int | None] = (8, 23)
    creates_topics: bool = True
    names_itself: bool = True
    versions: Mapping[int, tuple[int, int]] | None = None
    dump_log_segments: str = "kafka.tools.DumpLogSegments"
    dumped_by: str = ""
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def artifact(self) -> str:
        """The broker's own coordinates, without a version."""
        return f"org.apache.kafka:kafka_{self.scala}"


PRODUCE, FETCH, LIST_OFFSETS, METADATA = range(4)
V0: Final = (0,)
V1: Final = (0, 1)
V2: Final = (0, 1, 2)
# KIP-724: from 4.0 on every batch is stored as v2, and logs of older magic are read only.
V2_ONLY: Final = (2,)
# Java 24 took the security manager away, and with it a method that releases before 4.0 call.
MODERN_JAVA: Final = (17, None)

RELEASES: Final = (
    Release(
        "0.8.2.2",
        "2.11",
        "zookeeper",
        V0,
        java=(7, 23),
        creates_topics=False,
        names_itself=False,
        versions={PRODUCE: (0, 0), FETCH: (0, 0), LIST_OFFSETS: (0, 0), METADATA: (0, 0)},
        # It has no "for ever", and counts in an int32; 24 days will do.
        config={"log.retention.ms": str(2**31 - 1)},
    ),
    Release(
        "0.9.0.1",
        "2.11",
        "zookeeper",
        V0,
        java=(7, 23),
        creates_topics=False,
        versions={PRODUCE: (0, 1), FETCH: (0, 1), LIST_OFFSETS: (0, 0), METADATA: (0, 0)},
    ),
    Release("0.10.0.1", "2.11", "zookeeper", V1, java=(7, 23), creates_topics=False),
    Release("0.10.2.2", "2.12", "zookeeper", V1, extra=(SLF4J_SIMPLE, LOG4J, JAXB)),
    Release("0.11.0.3", "2.12", "zookeeper", V2, extra=(SLF4J_SIMPLE, LOG4J, JAXB)),
    Release("1.1.1", "2.12", "zookeeper", V2),
    Release("2.0.1", "2.12", "zookeeper", V2, extra=(SLF4J_SIMPLE, LOG4J, ZOOKEEPER)),
    Release("2.4.1", "2.13", "zookeeper", V2),
    Release("2.8.2", "2.13", "zookeeper", V2),
    Release("3.0.2", "2.13", "zookeeper", V2),
    Release("3.9.2", "2.13", "kraft", V2),
    Release("4.0.2", "2.13", "kraft", V2_ONLY, extra=(SLF4J_SIMPLE,), java=MODERN_JAVA),
    Release("4.1.2", "2.13", "kraft", V2_ONLY, extra=(SLF4J_SIMPLE,), java=MODERN_JAVA),
    Release(
        "4.3.1",
        "2.13",
        "kraft",
        V2_ONLY,
        extra=(SLF4J_SIMPLE, TOOLS),
        java=MODERN_JAVA,
        dump_log_segments=DUMP_IN_TOOLS,
    ),
    Release(
        "4.4.0",
        "2.13",
        "kraft",
        V2_ONLY,
        extra=(SLF4J_SIMPLE,),
        dump_log_segments=DUMP_IN_TOOLS,
        # kafka-tools 4.4.0 was not published, and that of 4.3.1 does not run on the classes of 4.4.0.
        dumped_by="4.3.1",
        # It is named in the published pom, and was not published.
        without=(*BINDINGS, "org.apache.kafka:kafka-tools-api"),
        java=MODERN_JAVA,
    ),
)
NEWEST: Final = RELEASES[-1].name
# Exact releases that exhibits of the museum run on.
EXHIBITED: Final = (Release("3.6.1", "2.13", "kraft", V2),)
# Releases next to a change of brokers that came between two of `RELEASES`.  Only answers that
# date a change are recorded: `kafka_corpus.evidence.brokers.SPARSE`.
DATING: Final = (
    Release("1.0.2", "2.12", "zookeeper", V2),
    Release("2.1.1", "2.12", "zookeeper", V2, extra=(SLF4J_SIMPLE, LOG4J, ZOOKEEPER)),
    Release("2.2.2", "2.12", "zookeeper", V2, extra=(SLF4J_SIMPLE, LOG4J, ZOOKEEPER)),
    Release("2.3.1", "2.12", "zookeeper", V2, extra=(SLF4J_SIMPLE, LOG4J, ZOOKEEPER)),
    Release("2.5.1", "2.13", "zookeeper", V2),
    Release("3.1.2", "2.13", "zookeeper", V2),
    Release("3.4.1", "2.13", "kraft", V2),
    Release("3.5.2", "2.13", "kraft", V2),
    Release("3.7.2", "2.13", "kraft", V2),
    Release("3.8.1", "2.13", "kraft", V2),
)


def find_release(name: str) -> Release:
    """The release of that name, also one of which few answers are recorded.  Raises `NoBroker`."""
    for each in (*RELEASES, *EXHIBITED, *DATING):
        if each.name == name:
            return each
    raise NoBroker(f"no release {name} is known", hint=", ".join(each.name for each in RELEASES))


# The day on which the supported releases were last reviewed.
SUPPORTED_AS_OF: Final = "2026-11-23"
# 3.9 is the last release with ZooKeeper, and the one from which clusters move to 4.x (KIP-833).
FIRST_SUPPORTED: Final = "3.9"
LAST_SUPPORTED: Final = "4.4"
# The oldest release whose logs of v2 batches, and of bytes that Kafka refuses, count as `old_logs` (KIP-98, in 2017).
# Older releases store any magic without a look at it, and messages of v0 and v1 without a look at their fields: a log
# has broken ones only if a broken producer wrote them before.
OLDEST_LOGS: Final = "0.11.0"

_RANGE: Final = re.compile(r"(?P<first>\d+(?:\.\d+){1,3})(?:(?P<dots>\.\.)(?P<last>\d+(?:\.\d+){1,3})?)?")


class BadRangeError(ValueError):
    """A text names no range of releases."""


@dataclass(frozen=True, slots=True)
class SupportedReleases:
    """A range of minor releases, both included."""

    first: str = FIRST_SUPPORTED
    last: str = LAST_SUPPORTED

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    def covers(self, release: str) -> bool:
        """Whether *release* is in the range; only as many numbers are compared as the bounds have.

        >>> SupportedReleases().covers("3.9.2"), SupportedReleases().covers("3.0.2")
        (True, False)
        """
        number, first, last = map(release_number, (release, self.first, self.last))
        return first <= number[: len(first)] and number[: len(last)] <= last


SUPPORTED: Final = SupportedReleases()


def parse_supported(text: str) -> SupportedReleases:
    """The range that *text* names: `2.8..4.4`, `3.9..` (up to the newest), or `4.4` alone.

    Raises:
        BadRangeError: it names none, or the first release is newer than the last.

    >>> str(parse_supported("2.8.."))
    '2.8..4.4'
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise BadRangeError(f"{text!r} is no range of releases; write for example {FIRST_SUPPORTED}..{LAST_SUPPORTED}")
    first = found["first"]
    last = found["last"] or (LAST_SUPPORTED if found["dots"] else first)
    if release_number(first) > release_number(last):
        raise BadRangeError(f"{text!r} starts at {first}, which is newer than its end {last}")
    return SupportedReleases(first, last)
