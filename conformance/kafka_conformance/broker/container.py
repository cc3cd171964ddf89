"""A broker in a container: the same jars in an image that is built here, started and ended through testcontainers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_conformance.broker import jars
from kafka_conformance.broker.contained import Contained, engine
from kafka_conformance.broker.errors import JarsDiffer, NoBroker
from kafka_conformance.broker.jvm import START_LIMIT, JvmBroker
from kafka_conformance.broker.releases import Release, find_release

# A public one with Java 17, which runs every release in the table.
DEFAULT_BASE: Final = "eclipse-temurin:17-jre"
IMAGE_JARS: Final = "/opt/kafka"
LABEL: Final = "kafkaproof.jars"
BUILD_SECONDS: Final = 600
_TAIL_LINES: Final = 25


@dataclass(frozen=True, slots=True)
class Image:
    """Java in a new container of an image."""

    name: str

    def java(self, arguments: Sequence[str], folder: Path, log: Path) -> Contained:
        """A running `java` with the image's jars."""
        return Contained(self.name, ["java", "-cp", f"{IMAGE_JARS}/*", *arguments], folder=folder, log=log)


def tag(release: Release) -> str:
    """The name of the image of *release*."""
    return f"kafkaproof-broker:{release.name}"


def start(release: str, *, config: Mapping[str, str] | None = None, start_limit: float = START_LIMIT) -> JvmBroker:
    """Start *release* in a container with settings that override ours, and wait until it answers.

    Raises:
        NoBroker: no engine runs, there is no image, or the broker did not come up (with the end of its log).
        JarsDiffer: the image was built from other jars than those that are locked now.
    """

    def contained(needed: Release) -> Image:
        _check_image(needed)
        return Image(tag(needed))

    return JvmBroker(find_release(release), contained, config=config, start_limit=start_limit)


def engine_runs() -> bool:
    """Whether there is an engine, and its client."""
    try:
        engine().close()
    except NoBroker:
        return False
    return True


def has_image(release: Release) -> bool:
    """Whether the image of *release* is there, built from the jars that are locked now."""
    try:
        _check_image(release)
    except NoBroker:
        return False
    return True


def build(release: str, base: str = DEFAULT_BASE) -> str:
    """Build the image of *release* on *base*, which must have `java` on its path; the image's name.

    Where DumpLogSegments is run from the jars of another release, its image is built too.

    Raises:
        NoBroker: no engine runs, the jars cannot be had, or the engine could not build.
        JarsDiffer: the jars are not those that were locked.
    """
    found = find_release(release)
    engine().close()  # fetching takes longer than asking whether it is of use
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(jars.provide(found), Path(scratch) / "jars")
        text = f"FROM {base}\nLABEL {LABEL}={jars.lock_digest(found)}\nCOPY jars {IMAGE_JARS}\n"
        (Path(scratch) / "Dockerfile").write_text(text, encoding="utf-8")
        _build(Path(scratch), found, base)
    if found.dumped_by:
        build(found.dumped_by, base)
    return tag(found)


def _build(context: Path, release: Release, base: str) -> None:
    from docker.errors import DockerException
    from testcontainers.core.image import DockerImage

    image = DockerImage(context, docker_client_kw={"timeout": BUILD_SECONDS}, tag=tag(release), clean_up=False)
    try:
        image.build()
    except DockerException as error:
        said = "".join(str(line.get("stream", "")) for line in getattr(error, "build_log", ()))
        log = "\n".join(said.splitlines()[-_TAIL_LINES:])
        raise NoBroker(f"the image of Kafka {release.name} could not be built on {base}: {error}", log=log) from error
    finally:
        image.remove()  # of the client only


def _check_image(release: Release) -> None:
    """Raises `NoBroker` where there is no image of *release*, `JarsDiffer` where it holds other jars."""
    hint = f"kafkaproof broker build {release.name}"
    with closing(engine()) as client:
        from docker.errors import ImageNotFound

        try:
            labels = client.images.get(tag(release)).labels
        except ImageNotFound as error:
            raise NoBroker(f"there is no image {tag(release)}", hint=hint) from error
    if labels.get(LABEL) != jars.lock_digest(release):
        raise JarsDiffer(f"the image {tag(release)} was built from other jars than those that are locked", hint=hint)
