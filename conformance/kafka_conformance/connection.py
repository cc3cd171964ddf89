"""How a testee is started, and what says that it cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024
DEFAULT_MEMORY: Final = 1024 * MIB
MIN_SECONDS: Final = 0.5
# A virtual machine reserves address space that it never uses, and Node less than a JVM.
VIRTUAL_MACHINE_MEMORY: Final = 4096 * MIB
NODE_MEMORY: Final = 2048 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to start a testee.

    Attributes:
        name: what the user called it; also the name of its results.
        argv: the command line.
        environment: variables set on top of ours.
        memory: address space that each process may take, in bytes.
        local: whether the codec runs in the process that we start (a
            container's does not, so our limits on that process are not its).
        cleanup: a command that ends what killing the process leaves behind.
        nest: whether it is a Python module, the last word of *argv*, that can be loaded once and forked.
        seconds: what a case may take at least.
    """

    name: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    memory: int = DEFAULT_MEMORY
    local: bool = True
    cleanup: tuple[str, ...] = ()
    nest: bool = False
    seconds: float = MIN_SECONDS


class CannotRun(Exception):
    """The testee, or the harness, could not be run at all: exit code 3, and a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BadConnect(ValueError):
    """The connect string is none of ours: exit code 2."""
