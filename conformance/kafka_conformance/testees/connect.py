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
from dataclasses import replace
from typing import Final

from kafka_conformance.testees.connection import (
    DEFAULT_MEMORY,
    MIB,
    MIN_SECONDS,
    NODE_MEMORY,
    VIRTUAL_MACHINE_MEMORY,
    BadConnect,
    CannotRun,
    ConnectionSpec,
)

__all__ = [
    "DEFAULT_MEMORY",
    "MIB",
    "MIN_SECONDS",
    "NODE_MEMORY",
    "SCHEMES",
    "VIRTUAL_MACHINE_MEMORY",
    "BadConnect",
    "CannotRun",
    "ConnectionSpec",
    "check_connect",
    "connect",
]


SCHEMES: Final = ("direct", "process", "container", "fetch")


def check_connect(text: str) -> None:
    """Raise `BadConnect` if *text* is no connect string; starts, builds and looks for nothing."""
    from kafka_conformance.testees.connection import split_command
    from kafka_conformance.testees.known import find_testee

    scheme, colon, rest = text.partition(":")
    if not (colon and scheme in SCHEMES):
        find_testee(text)
    elif not rest.strip():
        raise BadConnect(f"{text!r} names nothing after the colon")
    elif scheme in ("process", "fetch"):
        split_command(rest)


def connect(text: str, *, memory: int | None = None) -> ConnectionSpec:
    """The connection that *text* names; *memory* in bytes overrides its default.

    Raises:
        BadConnect: neither a known name nor a connect string.
        CannotRun: what it takes is not on this machine.
    """
    from kafka_conformance.testees.connection import container, direct, fetch, process
    from kafka_conformance.testees.known import by_name

    check_connect(text)
    ways: dict[str, Callable[[str], ConnectionSpec]] = {
        "direct": direct,
        "process": process,
        "container": container,
        "fetch": fetch,
    }
    scheme, _, rest = text.partition(":")
    found = replace(ways[scheme](rest), name=text) if scheme in SCHEMES else by_name(text)
    return found if memory is None else replace(found, memory=memory)
