"""Commands of the pipeline as processes that are never waited for without an end."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest

# Seconds: a command of these tests takes a minute on a loaded machine.
LONG = 420.0
GRACE = 10.0


def kafkaproof(*arguments: str) -> subprocess.Popen[str]:
    """A command of the pipeline, in a group of its own; SIGABRT has it say where it stands."""
    argv = [sys.executable, "-X", "faulthandler", "-m", "kafkaproof", "pipeline", *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finished(running: subprocess.Popen[str], seconds: float = LONG) -> tuple[str, str]:
    """The output of a command; after *seconds* it prints its stacks, its group is killed, and the test fails."""
    try:
        stdout, stderr = running.communicate(timeout=seconds)
        return stdout, stderr
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            running.wait(GRACE)
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        left: Any = ("", "a process that it started holds its output")
        with suppress(subprocess.TimeoutExpired):
            left = running.communicate(timeout=GRACE)
        pytest.fail(f"{running.args!r} did not end in {seconds:.0f} seconds:\n{left[1]}")
