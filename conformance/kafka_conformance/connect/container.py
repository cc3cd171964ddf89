"""`container:IMAGE`: a program that speaks the protocol, in a container.

The engine applies the memory limit, and the container has no network.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Final
from uuid import uuid4

from kafka_conformance.connection import MIB, VIRTUAL_MACHINE_MEMORY, CannotRun, Connection

ENGINE: Final = "docker"
ENGINE_SECONDS: Final = 20


def container(image: str) -> Connection:
    """The connection to *image*; its entry point has to serve the protocol."""
    program = shutil.which(ENGINE)
    if program is None:
        raise CannotRun(f"container:{image}: there is no {ENGINE} here", "use process: or direct: instead")
    _check_engine(program, image)
    memory = VIRTUAL_MACHINE_MEMORY
    # Killing the command line client leaves the container running, so it gets
    # a name by which it can be ended; each start makes its own from this stem.
    name = f"kafkaproof-{uuid4().hex[:12]}-{{start}}"
    options = ("--interactive", "--rm", "--init", "--network=none", f"--memory={memory // MIB}m", f"--name={name}")
    return Connection(
        name=image,
        argv=(program, "run", *options, image),
        memory=memory,
        local=False,
        cleanup=(program, "kill", name),
    )


def _check_engine(program: str, image: str) -> None:
    if not _says_yes(image, program, "version", "--format", "{{.Server.Version}}"):
        raise CannotRun(f"container:{image}: {ENGINE} is here, but its engine is not running", "start the engine")
    if not _says_yes(image, program, "image", "inspect", "--format", "{{.Id}}", image):
        raise CannotRun(f"container:{image}: there is no such image", f"{ENGINE} pull {image}, or build it")


def _says_yes(image: str, *command: str) -> bool:
    try:
        answer = subprocess.run(command, capture_output=True, timeout=ENGINE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"container:{image}: {ENGINE} does not answer: {error}") from error
    return answer.returncode == 0
