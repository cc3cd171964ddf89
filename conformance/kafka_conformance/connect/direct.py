"""`direct:MODULE`: a Python testee in a child process of ours."""

from __future__ import annotations

import sys

from kafka_conformance.connection import Connection


def import_path() -> tuple[str, str]:
    """The variable with which a child imports what we import, installed or not."""
    return "PYTHONPATH", ":".join(entry for entry in sys.path if entry)


def direct(module: str, environment: tuple[tuple[str, str], ...] = ()) -> Connection:
    """The connection to *module*, served by this interpreter."""
    argv = (sys.executable, "-m", "kafka_conformance.serve", module.strip())
    return Connection(name=module, argv=argv, environment=(import_path(), *environment), nest=True)
