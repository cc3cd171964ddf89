"""A broker on this machine: a Java process from the jars in the user's cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kafka_conformance.broker import jars, java
from kafka_conformance.broker.guarded import Guarded
from kafka_conformance.broker.jvm import START_LIMIT, JvmBroker
from kafka_conformance.broker.releases import Release, find_release


@dataclass(frozen=True, slots=True)
class Here:
    """Java on this machine."""

    program: str
    jars: Path

    def java(self, arguments: Sequence[str], folder: Path, log: Path) -> Guarded:
        """A running `java` with the cached jars."""
        return Guarded([self.program, "-cp", str(self.jars / "*"), *arguments], folder=folder, log=log)


def start(
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
        return Here(java.find(needed).program, jars.provide(needed))

    return JvmBroker(find_release(release), here, config=config, flags=flags, start_limit=start_limit)
