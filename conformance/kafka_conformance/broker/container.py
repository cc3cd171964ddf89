"""A broker in a container: the same jars in an image, built here; the engine is asked through its command line.

Containers use the host's network and see the broker's folder under its own path,
so ports and files are as they are for a local broker.  Their standard input is a
pipe of ours: when it closes, whatever happened to us, the container ends itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from kafka_conformance.broker import jars
from kafka_conformance.broker.errors import JarsDiffer, NoBroker
from kafka_conformance.broker.guarded import SCRIPT
from kafka_conformance.broker.jvm import START_LIMIT, JvmBroker
from kafka_conformance.broker.releases import Release, find_release

ENGINE: Final = "docker"
# A public one with Java 17, which runs every release in the table.
DEFAULT_BASE: Final = "eclipse-temurin:17-jre"
IMAGE_JARS: Final = "/opt/kafka"
LABEL: Final = "kafkaproof.jars"
ENGINE_SECONDS: Final = 30
BUILD_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Container:
    """Java in a new container of an image."""

    program: str
    image: str
    name: str = field(default_factory=lambda: f"kafkaproof-broker-{uuid4().hex[:12]}")

    def java(self, folder: Path) -> list[str]:
        """Run the image, guarded inside as local brokers are outside."""
        where = ("--network=host", f"--volume={folder}:{folder}", f"--workdir={folder}")
        who = (f"--user={os.getuid()}:{os.getgid()}", f"--name={self.name}")
        shell = (self.image, "/bin/sh", "-c", SCRIPT, "sh", str(folder / "tmp"))
        options = ("--rm", "--interactive", "--init", "--entrypoint=")
        return [self.program, "run", *options, *where, *who, *shell, "java", "-cp", f"{IMAGE_JARS}/*"]

    def crash(self) -> None:
        """Kill the container; its engine removes it."""
        _engine(self.program, "rm", "--force", self.name)


def tag(release: Release) -> str:
    """The name of the image of *release*."""
    return f"kafkaproof-broker:{release.name}"


def start(release: str, *, config: Mapping[str, str] | None = None, start_limit: float = START_LIMIT) -> JvmBroker:
    """Start *release* in a container with settings that override ours, and wait until it answers.

    Raises:
        NoBroker: no engine runs, there is no image, or the broker did not come up (with the end of its log).
        JarsDiffer: the image was built from other jars than those that are locked now.
    """
    found = find_release(release)
    program = _running_engine()

    def contained(needed: Release) -> Container:
        _check_image(program, needed)
        return Container(program, tag(needed))

    return JvmBroker(found, contained, config=config, start_limit=start_limit)


def engine_runs() -> bool:
    """Whether there is an engine, and its client."""
    try:
        _running_engine()
    except NoBroker:
        return False
    return True


def has_image(release: Release) -> bool:
    """Whether the image of *release* is there, built from the jars that are locked now."""
    try:
        _check_image(_running_engine(), release)
    except NoBroker:
        return False
    return True


def build(release: str, base: str = DEFAULT_BASE) -> str:
    """Build the image of *release* on *base*, which must have `java` on its path; the image's name.

    Raises:
        NoBroker: no engine runs, the jars cannot be had, or the engine could not build.
        JarsDiffer: the jars are not those that were locked.
    """
    found = find_release(release)
    program = _running_engine()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(jars.provide(found), Path(scratch) / "jars")
        text = f"FROM {base}\nLABEL {LABEL}={jars.lock_digest(found)}\nCOPY jars {IMAGE_JARS}\n"
        (Path(scratch) / "Dockerfile").write_text(text, encoding="utf-8")
        done = _engine(program, "build", "--tag", tag(found), scratch, seconds=BUILD_SECONDS)
    if done.returncode:
        raise NoBroker(f"the image of Kafka {release} could not be built on {base}", log=done.stdout[-2000:])
    return tag(found)


def _check_image(program: str, release: Release) -> None:
    wanted = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    done = _engine(program, "image", "inspect", "--format", wanted, tag(release))
    hint = f"kafkaproof broker build {release.name}"
    if done.returncode:
        raise NoBroker(f"there is no image {tag(release)}", hint=hint)
    if done.stdout.strip() != jars.lock_digest(release):
        raise JarsDiffer(f"the image {tag(release)} was built from other jars than those that are locked", hint=hint)


def _running_engine() -> str:
    """The path of the engine's client.  Raises `NoBroker` where that, or the engine, is missing."""
    program = shutil.which(ENGINE)
    if program is None:
        raise NoBroker(f"there is no {ENGINE} here", hint="start the broker locally instead")
    if _engine(program, "version", "--format", "{{.Server.Version}}").returncode:
        raise NoBroker(f"{ENGINE} is here, but its engine is not running", hint="start the engine")
    return program


def _engine(program: str, *arguments: str, seconds: float = ENGINE_SECONDS) -> subprocess.CompletedProcess[str]:
    """Ask the engine; output and errors in `stdout`."""
    try:
        return subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoBroker(f"{ENGINE} {arguments[0]} did not end within {seconds:g} s") from error
