"""`process:COMMAND LINE`: any program that speaks the protocol."""

from __future__ import annotations

import shlex
import shutil
from pathlib import PurePath
from typing import Final

from kafka_conformance.connection import (
    DEFAULT_MEMORY,
    NODE_MEMORY,
    VIRTUAL_MACHINE_MEMORY,
    BadConnect,
    CannotRun,
    Connection,
)

_MEMORY: Final = {
    **dict.fromkeys(("java", "bun", "deno", "dotnet"), VIRTUAL_MACHINE_MEMORY),
    **dict.fromkeys(("node", "nodejs"), NODE_MEMORY),
}


def memory_of(program: str) -> int:
    """The bytes of address space that *program*, a name or a path, is given."""
    return _MEMORY.get(PurePath(program).name, DEFAULT_MEMORY)


def split(command: str) -> tuple[str, ...]:
    """The words of *command*.  Raises `BadConnect` where a shell would ask for more."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise BadConnect(f"{command}: {error}") from error


def process(command: str) -> Connection:
    """The connection to *command*, split as a shell would but run without one."""
    argv = split(command)
    program = shutil.which(argv[0])
    if program is None:
        raise CannotRun(f"process:{command}: there is no program {argv[0]}", "is it built, and is the path right?")
    return Connection(name=command, argv=(program, *argv[1:]), memory=memory_of(argv[0]))
