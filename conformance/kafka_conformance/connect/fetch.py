"""`fetch:COMMAND LINE`: any client that can consume from an address, on a fake broker of ours."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final

from kafka_conformance.connect.direct import import_path
from kafka_conformance.connect.process import memory_of, split
from kafka_conformance.connection import CannotRun, Connection
from kafka_conformance.fetching.clients import CLIENT_PYTHONPATH

# Clients wait a moment before they fetch again, and longer each time, before they give up and say so.
LEAST_SECONDS: Final = 2.0


def fetch(command: str) -> Connection:
    """The connection to a process of ours that runs *command*, once for each case or once for all."""
    argv = split(command)
    program = shutil.which(argv[0])
    if program is None:
        raise CannotRun(f"fetch:{command}: there is no program {argv[0]}", "is it built, and is the path right?")
    # The limit is handed down to the client.
    memory = memory_of(argv[0])
    own = (import_path(), (CLIENT_PYTHONPATH, os.environ.get("PYTHONPATH", "")))
    ours = (sys.executable, "-m", "kafka_conformance.fetching")
    return Connection(
        name=command, argv=(*ours, program, *argv[1:]), environment=own, memory=memory, seconds=LEAST_SECONDS
    )
