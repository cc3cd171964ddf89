"""Two runs in one directory: the second ends with one line, and writes nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafka_conformance.runner.keeping import reserved

# What is run, with DIR in place of the directory; below it, the directory that the run writes to.
COMMANDS = {
    "certify": (["certify", "reference", "--only", "v2_offsets", "--report", "DIR"], "reference"),
    "cross": (["cross", "reference", "kafka-python", "--broker", "none", "--report", "DIR"], ""),
    "broker certify": (["broker", "certify", "--bootstrap", "127.0.0.1:1", "--name", "it", "--report", "DIR"], "it"),
    "broker record": (["broker", "record", "4.4.0", "--only", "v2_offsets", "--dir", "DIR"], ""),
    "fuzz triage": (["fuzz", "triage", "--dir", "DIR"], ""),
    "fuzz report": (["fuzz", "report", "--dir", "DIR", "--out", "DIR/report"], ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_run_is_refused(name: str, tmp_path: Path) -> None:
    """While another run holds the directory, the command ends with exit code 3, and leaves it as it is."""
    command, below = COMMANDS[name]
    with reserved(tmp_path / below):
        before = sorted(tmp_path.rglob("*"))
        done = subprocess.run(
            [sys.executable, "-m", "kafkaproof", *(each.replace("DIR", str(tmp_path)) for each in command)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        after = sorted(tmp_path.rglob("*"))

    assert done.returncode == 3, done.stderr
    assert "another run writes there; " in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert after == before
