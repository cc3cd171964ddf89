"""A broker process in a container; it ends when its parent process ends.

The container uses the host's network and sees the working folder under its own
path, so ports and files are as they are for a process here.  Its standard input
is a connection of ours to the engine: when we are gone, however we went, that
closes, the container ends itself, and the engine removes it.  That is what
testcontainers' Ryuk is for, which is an image more to be had; it stays out.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from kafka_brokers import jars
from kafka_brokers.interface import JarsDiffer, NoBroker
from kafka_brokers.jvm import START_LIMIT, JvmBroker
from kafka_brokers.process import SCRIPT, Guarded, tail_of
from kafka_brokers.releases import Release, find_release

# $1 is the log, $2 a file that is there once somebody holds our standard input,
# $3 one for the exit code; what follows is for the guard.  Its own folder is
# removed from outside: here it is a mount.
ENTRY: Final = f"""
log="$1" held="$2" code_file="$3"; shift 3
exec >>"$log" 2>&1
tries=0
until [ -e "$held" ]; do
    tries=$((tries + 1)); [ $tries -lt 1200 ] || exit 70; sleep 0.05
done
trap 'echo $? >"$code_file"' EXIT
{SCRIPT}"""
# Seconds that the engine may take to answer, and to remove a container.
ENGINE_SECONDS: Final = 60
_LOOK: Final = 0.05


def engine() -> Any:
    """The engine's client (a `docker.DockerClient`), for the caller to close.

    Raises:
        NoBroker: testcontainers is not installed, or no engine runs.
    """
    try:
        from docker.errors import DockerException
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.docker_client import DockerClient
    except ImportError as error:
        hint = "pip install 'kafkaproof[containers]', or start the broker locally instead"
        raise NoBroker("containers need the package testcontainers", hint=hint) from error
    testcontainers_config.ryuk_disabled = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return DockerClient(timeout=ENGINE_SECONDS).client
        except DockerException as error:
            reason = str(error).partition("\n")[0]
        # docker-py loses a socket that it could not connect, unclosed and in a cycle: that is not to be
        # complained about later, where the cause is unknown.
        gc.collect()
    raise NoBroker(f"no container engine is running: {reason}", hint="start one, or name it in DOCKER_HOST")


class Contained:
    """A running command in a new container of an image; its standard output and error go to *log*."""

    def __init__(self, image: str, argv: Sequence[str], *, folder: Path, log: Path) -> None:
        """Start it in *folder*, which is removed should we die.

        Raises:
            NoBroker: no engine runs, or it did not start the container.
        """
        self.log = log
        self.name = f"kafkaproof-{uuid4().hex[:12]}"
        self._code = folder / f"{self.name}.code"
        self._ended = False
        self._left: int | None = None
        engine().close()  # says what is wrong, if something is
        # It has nothing to do but to remove the folder, should we die.
        self._keeper = Guarded(["sleep", "infinity"], folder=folder, log=log)
        try:
            self._container, self._stdin = self._started(image, argv, folder)
        except Exception as error:
            self._keeper.kill()
            raise NoBroker(f"the engine did not start a container of {image}: {error}") from error

    def _started(self, image: str, argv: Sequence[str], folder: Path) -> tuple[Any, Any]:
        from testcontainers.core.container import DockerContainer

        held = folder / f"{self.name}.held"
        files = (str(self.log), str(held), str(self._code))
        container = DockerContainer(image, docker_client_kw={"timeout": ENGINE_SECONDS}, name=self.name)
        container.with_command(["/bin/sh", "-c", ENTRY, "sh", *files, str(folder / "tmp"), *argv])
        container.with_volume_mapping(folder, str(folder), "rw")
        container.with_kwargs(
            network="host",
            user=f"{os.getuid()}:{os.getgid()}",
            working_dir=str(folder),
            entrypoint=[],
            init=True,
            stdin_open=True,
            auto_remove=True,
        )
        try:
            container.start()
            stdin = container.get_wrapped_container().attach_socket(params={"stdin": 1, "stream": 1})
        except Exception:
            with suppress(Exception):  # the first error says more
                container.stop()
            raise
        held.touch()
        return container, stdin

    def has_ended(self) -> bool:
        """Whether the command is gone, and its container with it.  Raises `NoBroker` if the engine is gone instead."""
        from docker.errors import NotFound

        if not self._ended:
            try:
                self._container.reload()
            except NotFound:
                self._ended = True
            except OSError as error:  # of requests
                raise NoBroker(f"the engine that runs {self.name} does not answer") from error
        return self._ended

    def wait(self, seconds: float) -> bool:
        """Whether the command ended by itself within *seconds*."""
        end = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < end:
            time.sleep(_LOOK)
        return self.has_ended()

    def terminate(self, seconds: float) -> bool:
        """Ask it to end by itself; whether it did within *seconds*."""
        self._signal("SIGTERM")
        return self.wait(seconds)

    def _signal(self, name: str) -> None:
        from docker.errors import APIError

        if not self.has_ended():
            with suppress(APIError):  # it has ended since, or is being removed
                self._container.get_wrapped_container().kill(name)

    def kill(self) -> int:
        """End the container, now, and wait until it is removed; more than once does no harm.

        Gives the exit code: the command's own if it had ended, or minus the signal's number.
        """
        if self._left is None:
            # The keeper comes last: until then somebody removes the folder should we die.
            try:
                self._signal("SIGKILL")
                if not self.wait(ENGINE_SECONDS):
                    raise NoBroker(f"the engine did not end the container {self.name}")
            finally:
                self._let_go()
            self._left = int(self._code.read_text(encoding="ascii")) if self._code.exists() else -signal.SIGKILL
        return self._left

    def _let_go(self) -> None:
        self._keeper.kill()
        with closing(self._container.get_docker_client().client), closing(self._stdin):
            # docker-py's socket keeps the response that it came with, which keeps it open.
            if (response := getattr(self._stdin, "_response", None)) is not None:
                response.close()

    def tail(self) -> str:
        """The last lines of what it wrote."""
        return tail_of(self.log)


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


def start_container(
    release: str, *, config: Mapping[str, str] | None = None, start_limit: float = START_LIMIT
) -> JvmBroker:
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


def build_image(release: str, base: str = DEFAULT_BASE) -> str:
    """Build the image of *release* on *base*, which must have `java` on its path; the image's name.

    Where DumpLogSegments is run from the jars of another release, its image is built too.

    Raises:
        NoBroker: no engine runs, the jars cannot be had, or the engine could not build.
        JarsDiffer: the jars are not those that were locked.
    """
    found = find_release(release)
    engine().close()  # a fetch takes longer than this check
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(jars.provide(found), Path(scratch) / "jars")
        text = f"FROM {base}\nLABEL {LABEL}={jars.lock_digest(found)}\nCOPY jars {IMAGE_JARS}\n"
        (Path(scratch) / "Dockerfile").write_text(text, encoding="utf-8")
        _build(Path(scratch), found, base)
    if found.dumped_by:
        build_image(found.dumped_by, base)
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
