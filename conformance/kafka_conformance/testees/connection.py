"""How a testee is started: `direct:`, `process:`, `container:` and `fetch:`.

The result is a `ConnectionSpec`; nothing is started here.  A container gets its memory
limit from the engine, and has no network.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final
from uuid import uuid4

# The PYTHONPATH of a client, which differs from that of the program that serves it.
CLIENT_PYTHONPATH: Final = "KAFKAPROOF_CLIENT_PYTHONPATH"

MIB: Final = 1024 * 1024
DEFAULT_MEMORY: Final = 1024 * MIB
MIN_SECONDS: Final = 0.5
# Seconds of silence that count: those in which the testee had the CPU that it wanted.
HELLO_SECONDS: Final = 5.0
# A client reads a first case before the process that serves it says hello.
CLIENT_HELLO_SECONDS: Final = 15.0
# An engine has to load the image, and its CPU time is unknown.
CONTAINER_HELLO_SECONDS: Final = 30.0
# A virtual machine collects garbage late: its heap grows first.
VIRTUAL_MACHINE_MEMORY: Final = 4096 * MIB
NODE_MEMORY: Final = 2048 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSpec:
    """How to start a testee.

    Attributes:
        name: what the user called it; also the name of its results.
        argv: the command line.
        environment: variables set on top of ours.
        memory: bytes of resident memory that the testee and all processes below it may take.
        local: whether the codec runs in the process that we start (a
            container's does not, so our limits on that process are not its).
        cleanup: a command that ends whatever survives the process.
        preloads: whether it is a Python module, the last word of *argv*, that can be loaded once and forked.
        seconds: what a case may take at least.
        hello_seconds: silence after which a testee that has not said hello is given up.
    """

    name: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    memory: int = DEFAULT_MEMORY
    local: bool = True
    cleanup: tuple[str, ...] = ()
    preloads: bool = False
    seconds: float = MIN_SECONDS
    hello_seconds: float = HELLO_SECONDS


class CannotRun(Exception):
    """The testee, or the harness, could not be run at all: exit code 3, and a hint."""

    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NoHello(CannotRun):
    """The program does not speak the protocol, so the command line names no testee: exit code 2."""

    exit_code = 2


class HelloRefused(CannotRun):
    """The testee says itself that it cannot be run so."""


class BadConnect(ValueError):
    """The connect string is none of ours: exit code 2."""


def import_path() -> tuple[str, str]:
    """The variable with which a child imports what we import, installed or not."""
    return "PYTHONPATH", ":".join(entry for entry in sys.path if entry)


def direct(module: str, environment: tuple[tuple[str, str], ...] = ()) -> ConnectionSpec:
    """The connection to *module*, served by this interpreter."""
    argv = (sys.executable, "-m", "kafka_conformance.testees.serve", module.strip())
    return ConnectionSpec(name=module, argv=argv, environment=(import_path(), *environment), preloads=True)


_MEMORY: Final = {
    **dict.fromkeys(("java", "bun", "deno", "dotnet"), VIRTUAL_MACHINE_MEMORY),
    **dict.fromkeys(("node", "nodejs"), NODE_MEMORY),
}


def memory_of(program: str) -> int:
    """The bytes of memory that *program*, a name or a path, may take."""
    return _MEMORY.get(PurePath(program).name, DEFAULT_MEMORY)


def split_command(command: str) -> tuple[str, ...]:
    """The words of *command*.  Raises `BadConnect` where a shell would ask for more."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise BadConnect(f"{command}: {error}") from error


def process(command: str) -> ConnectionSpec:
    """The connection to *command*, split as a shell would but run without one."""
    argv = split_command(command)
    program = shutil.which(argv[0])
    if program is None:
        raise CannotRun(f"process:{command}: there is no program {argv[0]}", "is it built, and is the path right?")
    return ConnectionSpec(name=command, argv=(program, *argv[1:]), memory=memory_of(argv[0]))


ENGINE: Final = "docker"
ENGINE_SECONDS: Final = 20


def container(image: str) -> ConnectionSpec:
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
    return ConnectionSpec(
        name=image,
        argv=(program, "run", *options, image),
        memory=memory,
        local=False,
        hello_seconds=CONTAINER_HELLO_SECONDS,
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


# Clients wait a moment before they fetch again, and longer each time, before they give up and say so.
LEAST_SECONDS: Final = 2.0


def fetch(command: str) -> ConnectionSpec:
    """The connection to a process of ours that runs *command*, once for each case or once for all."""
    argv = split_command(command)
    program = shutil.which(argv[0])
    if program is None:
        raise CannotRun(f"fetch:{command}: there is no program {argv[0]}", "is it built, and is the path right?")
    return replace(_with_broker("fetch_client", (program, *argv[1:])), name=command)


def client(argv: Sequence[str], environment: tuple[tuple[str, str], ...] = ()) -> ConnectionSpec:
    """The connection to a process of ours that runs *argv*, a client that reads and writes, beside a fake broker."""
    return _with_broker("client_testee", argv, environment)


def _with_broker(module: str, argv: Sequence[str], environment: tuple[tuple[str, str], ...] = ()) -> ConnectionSpec:
    own = (import_path(), (CLIENT_PYTHONPATH, os.environ.get("PYTHONPATH", "")))
    return ConnectionSpec(
        name=" ".join(argv),
        argv=(sys.executable, "-m", f"kafka_conformance.process.{module}", *argv),
        environment=(*own, *environment),
        # That of the client: it is below the process that we start.
        memory=memory_of(argv[0]),
        seconds=LEAST_SECONDS,
        hello_seconds=CLIENT_HELLO_SECONDS,
    )
