"""Directory names for testees, and the commands that ask them."""

from __future__ import annotations

import hashlib
import re
import shlex
from typing import Final

from kafka_conformance.hostile import printable
from kafka_conformance.results import Header

MAX_NAME: Final = 80
# What runs in the process of a test is asked by that test alone.
IN_PROCESS: Final = "in-process"
# Characters of a command line that is shown.
MAX_COMMAND: Final = 2000


def folder_name(testee: str) -> str:
    """A directory name for *testee*; long ones are cut and told apart by a hash."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", testee).strip("._") or "testee"
    if len(name) <= MAX_NAME and name == testee:
        return name
    return f"{name[:MAX_NAME]}-{hashlib.sha256(testee.encode()).hexdigest()[:8]}"


def command(header: Header) -> str:
    """The command that asks the testee of *header* again, to which `--only` is added; empty if there is none."""
    name = shlex.quote(printable(str(header.testee.get("connect") or "TESTEE"), MAX_COMMAND))
    if header.testee.get("broker"):
        against = header.settings.get("against")
        release = f" --against {shlex.quote(printable(str(against), MAX_NAME))}" if against else ""
        return f"kafkaproof broker certify --bootstrap {name}{release}"
    return "" if name == IN_PROCESS else f"kafkaproof certify {name}"
