"""How a command of the pipeline ends: an error after an interrupt is reported as the interrupt."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, time
from kafkaproof.commands.pipeline import exits
from kafka_pipeline.spark import PipelineError
signal.signal(signal.SIGINT, signal.default_int_handler)
with exits():
    try:
        if sys.argv[1] == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    finally:
        raise PipelineError("Spark gave up")
"""


@pytest.mark.parametrize(
    ("what", "ended"),
    [("interrupted", (130, "interrupted; the same command goes on\n")), ("left alone", (3, "Spark gave up\n"))],
)
def test_an_error_after_an_interrupt(what: str, ended: tuple[int, str]) -> None:
    """It is an interrupt with its own exit code; without one it is what it says."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, what], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == ended
