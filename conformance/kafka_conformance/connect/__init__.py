"""Four ways to reach a testee, and one string that says which.

    direct:MODULE           a Python module (or an object in one), in a child process of ours
    process:COMMAND LINE    any program that speaks the protocol
    container:IMAGE         the same in a container
    fetch:COMMAND LINE      any client that can consume from an address, on a fake broker of ours
    NAME                    a known testee (`known.py`)

What comes out is a `Connection`: a command line and what it needs.  Nothing is
started here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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


SCHEMES: Final = ("direct", "process", "container", "fetch")


def check(text: str) -> None:
    """Raise `BadConnect` if *text* is no connect string; starts, builds and looks for nothing."""
    from kafka_conformance.connect.known import find
    from kafka_conformance.connect.process import split

    scheme, colon, rest = text.partition(":")
    if not (colon and scheme in SCHEMES):
        find(text)
    elif not rest.strip():
        raise BadConnect(f"{text!r} names nothing after the colon")
    elif scheme in ("process", "fetch"):
        split(rest)


def connect(text: str, *, memory: int | None = None) -> Connection:
    """The connection that *text* names; *memory* in bytes overrides its default.

    Raises:
        BadConnect: neither a known name nor a connect string.
        CannotRun: what it takes is not on this machine.
    """
    from kafka_conformance.connect.container import container
    from kafka_conformance.connect.direct import direct
    from kafka_conformance.connect.fetch import fetch
    from kafka_conformance.connect.known import by_name
    from kafka_conformance.connect.process import process

    check(text)
    ways: dict[str, Callable[[str], Connection]] = {
        "direct": direct,
        "process": process,
        "container": container,
        "fetch": fetch,
    }
    scheme, _, rest = text.partition(":")
    found = replace(ways[scheme](rest), name=text) if scheme in SCHEMES else by_name(text)
    return found if memory is None else replace(found, memory=memory)
