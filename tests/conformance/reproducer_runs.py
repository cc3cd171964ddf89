"""Prepare and run reproducers, and compare their output with the result line that they show."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_conformance.dossiers.grouping import CauseGroup
from kafka_conformance.dossiers.reproduce import Reproducer, reproducer
from kafka_conformance.runner.results import ResultLine

SETUP_LIMIT: Final = 600  # seconds
HANG_LIMIT: Final = 20  # seconds of a program that is not to end
ENVIRONMENT: Final = "environment"  # of a Python program, in its folder
_RIGHT: Final = re.compile(r"^actual: error: (?:none|<nil>|null)?\s*$", re.MULTILINE)
_ERROR: Final = re.compile(r"^actual: error: ", re.MULTILINE)
_EXPECTED: Final = re.compile(r"^expected: \S", re.MULTILINE)
_TO_WRITE: Final = re.compile(r"^expected: written: ([0-9a-f]+)$", re.MULTILINE)
_WRITTEN: Final = re.compile(r"^actual: written: ([0-9a-f]+)$", re.MULTILINE)
_STAYS: Final = re.compile(r"fetches offset (-?\d+) again and again")
_GOT: Final = re.compile(r"got (-?\d+)$")


@dataclass(frozen=True, slots=True)
class Ran:
    """Output and exit code of a program; no exit code if it did not end in time."""

    output: str
    errors: str
    exit_code: int | None


def prepare(made: Reproducer, folder: Path, *, alone: bool = False) -> None:
    """Write the files into *folder* and run the commands for once.

    Args:
        made: the program.
        folder: where it is to be; made if it is not there.
        alone: whether a Python program gets an environment of its own; else its packages are those that are here.

    Raises:
        subprocess.CalledProcessError: a command failed.
    """
    write_reproducer(made, folder)
    if alone and made.language == "Python":
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], cwd=folder, check=True, capture_output=True)
    for command in made.setup:
        program, _, arguments = command.partition(" ")
        if program == "pip" and not alone:
            continue
        words = f"{ENVIRONMENT}/bin/pip {arguments}" if program == "pip" else command
        subprocess.run(words, cwd=folder, shell=True, check=True, capture_output=True, timeout=SETUP_LIMIT)
    if made.language == "Rust":
        # Compiled here, it takes none of the time that a program has.
        subprocess.run("cargo build --release --quiet", cwd=folder, shell=True, check=True, capture_output=True)


def write_reproducer(made: Reproducer, folder: Path) -> None:
    """Write the files alone."""
    for name, text in made.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run(made: Reproducer, folder: Path, limit: float = 120) -> Ran:
    """Run the program in *folder*, for *limit* seconds at most."""
    own = folder / ENVIRONMENT / "bin" / "python"
    command = re.sub(r"^python ", f"{own if own.exists() else sys.executable} ", made.run)
    with subprocess.Popen(
        command,
        cwd=folder,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as program:
        try:
            output, errors = program.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            # Killing only the shell would leave its child running, for example a program that hangs.
            os.killpg(program.pid, signal.SIGKILL)
            output, errors = program.communicate()
            return Ran(output, errors, None)
    return Ran(output, errors, program.returncode)


def shows(line: ResultLine, ran: Ran) -> bool:
    """Whether the lines `actual` of *ran* show the observation that *line* records, beside a line `expected`."""
    if not _EXPECTED.search(ran.output):
        return False
    actual = "\n".join(each for each in ran.output.splitlines() if each.startswith("actual: "))
    wrote, refused = "actual: written: " in actual, bool(_ERROR.search(actual)) and not _RIGHT.search(actual)
    if stays := _STAYS.search(line.why):
        return refused or f"next offset {stays[1]}\n" in ran.output
    if line.outcome in ("crash", "hang", "memory"):
        return ran.exit_code != 0 or refused
    if ran.exit_code != 0:
        return False
    if line.outcome in ("rejects_valid", "wrong_error"):
        return refused
    if line.op == "encode":
        recorded = line.observation.get("written")
        return wrote and (not isinstance(recorded, str) or recorded in actual or _differ_by_now(line, recorded, ran))
    got = _GOT.search(line.why)
    # A field that records do not have cannot be seen in them.
    of_records = "records[" in line.field and line.field.endswith((".offset", ".timestamp"))
    return bool(_RIGHT.search(actual)) and (not got or not of_records or got[1] in actual)


def _differ_by_now(line: ResultLine, recorded: str, ran: Ran) -> bool:
    """Whether a writer put the time of the run in place of a timestamp: as many bytes, and not those expected."""
    expected, actual = (found[1] if (found := each.search(ran.output)) else "" for each in (_TO_WRITE, _WRITTEN))
    return line.field.endswith("timestamp") and len(actual) == len(recorded) and actual not in ("", expected)


def difference(group: CauseGroup, folder: Path, *, alone: bool = False, limit: float = 120) -> str:
    """Run the reproducer of *group*; what it prints if that does not show the recorded observation, else nothing.

    Programs of one row and operation share a folder, which is prepared once.
    """
    made = reproducer(group)
    if made is None:
        return ""
    place = folder / f"{group.row.name}-{group.case.op}"
    if place.exists():
        write_reproducer(made, place)
    else:
        prepare(made, place, alone=alone)
    line = group.findings[0].finding.line
    ran = run(made, place, HANG_LIMIT if line.outcome == "hang" else limit)
    return "" if shows(line, ran) else f"{group.id} ({group.case.id}): recorded {line.why!r}, got {ran}"
