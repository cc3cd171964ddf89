"""Prepare and run reproducers, and compare their output with the result line that they show."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from kafka_conformance.dossiers.grouping import CauseGroup
from kafka_conformance.dossiers.reproduce import Reproducer, reproducer
from kafka_conformance.process.cpu_time import Watch
from kafka_conformance.process.time_limits import HEAVY_MOST
from kafka_conformance.runner.results import ResultLine

SETUP_LIMIT: Final = 600  # seconds
# Seconds of a program that is not to end, from its first line on, without those in which it waited for a CPU.
HANG_LIMIT: Final = 20
BETWEEN_LOOKS: Final = 0.1  # seconds
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
    """Output and exit code of a program; no exit code if it did not end in time.

    `seconds` is what it worked or slept from its start; if it was not to end, from the line `expected` on, which is 0
    if it ended before that line was seen.
    """

    output: str
    errors: str
    exit_code: int | None
    seconds: float = 0.0


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


def run(made: Reproducer, folder: Path, limit: float = 120, *, hangs: bool = False) -> Ran:
    """Run the program in *folder*, for *limit* seconds at most, without those in which it waited for a CPU.

    Args:
        made: the program, whose files are there.
        folder: where it is.
        limit: seconds from the start; if it *hangs*, from the line `expected` on, its first.
        hangs: whether it is not to end.
    """
    own = folder / ENVIRONMENT / "bin" / "python"
    command = re.sub(r"^python ", f"{own if own.exists() else sys.executable} ", made.run)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command, cwd=folder, shell=True, stdout=output, stderr=errors, start_new_session=True
        ) as program:
            exit_code, seconds = _end_of(program, output, limit, hangs=hangs)
        return Ran(_text_in(output), _text_in(errors), exit_code, seconds)


def _end_of(
    program: subprocess.Popen[bytes], output: BinaryIO, limit: float, *, hangs: bool
) -> tuple[int | None, float]:
    """The exit code of *program*, None if it had to be killed, and its own seconds."""
    watch, waits = Watch(program.pid), hangs
    while True:
        try:
            return program.wait(timeout=BETWEEN_LOOKS), 0.0 if waits else watch.own_seconds()
        except subprocess.TimeoutExpired:
            watch.look()
        if waits and _EXPECTED.search(_text_in(output)):
            watch, waits = Watch(program.pid), False
        if watch.own_seconds() > (SETUP_LIMIT if waits else limit):
            # Killing only the shell would leave its child running, for example a program that hangs.
            os.killpg(program.pid, signal.SIGKILL)
            return None, watch.own_seconds()


def _text_in(file: BinaryIO) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


def shows(line: ResultLine, ran: Ran) -> bool:
    """Whether the lines `actual` of *ran* show the observation that *line* records, beside a line `expected`."""
    if not _EXPECTED.search(ran.output):
        return False
    actual = "\n".join(each for each in ran.output.splitlines() if each.startswith("actual: "))
    wrote, refused = "actual: written: " in actual, bool(_ERROR.search(actual)) and not _RIGHT.search(actual)
    if stays := _STAYS.search(line.why):
        return refused or f"next offset {stays[1]}\n" in ran.output
    if line.outcome in ("crash", "hang", "memory"):
        # The runner stops a heavy input after eight seconds of work; a later answer shows the same.
        late = line.outcome == "hang" and line.heavy and bool(_RIGHT.search(actual)) and ran.seconds >= HEAVY_MOST
        return ran.exit_code != 0 or refused or late
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


@dataclass(frozen=True, slots=True)
class _Program:
    """The reproducer of *group*, which is in *folder*, with the command that runs it there."""

    group: CauseGroup
    made: Reproducer
    folder: Path

    @property
    def line(self) -> ResultLine:
        """The recorded observation."""
        return self.group.findings[0].finding.line

    @property
    def hangs(self) -> bool:
        """Whether it is not to end."""
        return self.line.outcome == "hang"

    def difference(self, limit: float) -> str:
        """Its output if that does not show the recorded observation, else nothing."""
        ran = run(self.made, self.folder, HANG_LIMIT if self.hangs else limit, hangs=self.hangs)
        if shows(self.line, ran):
            return ""
        return f"{self.group.id} ({self.group.case.id}): recorded {self.line.why!r}, got {ran}"


def differences(
    groups: Iterable[CauseGroup], folder: Path, *, alone: bool = False, limit: float = 120
) -> Iterator[str]:
    """Build and run the reproducers of *groups*; yield what those print that do not show the recorded observation.

    Programs of one row and operation share a folder, its packages and one build.  The first runs by the command
    that its page has, in a folder that holds nothing else.  Those that hang run at the same time: most of them wait.
    """
    places: dict[Path, list[tuple[CauseGroup, Reproducer]]] = defaultdict(list)
    for group in groups:
        if (made := reproducer(group)) is not None:
            places[folder / f"{group.row.name}-{group.case.op}"].append((group, made))
    hanging = []
    for place, members in places.items():
        members.sort(key=lambda each: each[0].findings[0].finding.line.outcome == "hang")
        prepare(members[0][1], place, alone=alone)
        first, *others = (_Program(group, made, place) for group, made in members)
        yield first.difference(limit)
        for each in _built_together(others, place):
            if each.hangs:
                hanging.append(each)
            else:
                yield each.difference(limit)
    with ThreadPoolExecutor(max_workers=len(hanging) or 1) as pool:
        yield from pool.map(lambda each: each.difference(limit), hanging)


def _built_together(programs: Sequence[_Program], place: Path) -> Iterator[_Program]:
    """*programs* beside the one that is in *place*, each with a file name of its own, and compiled by one command."""
    found = []
    for number, each in enumerate(programs):
        main, text = next(iter(each.made.files.items()))
        name, stem = f"{place.name}-{number}", Path(main)
        if each.made.language == "Rust":
            target = os.environ.get("CARGO_TARGET_DIR", "target")
            path, command = Path("src", "bin", f"{name}.rs"), f"{target}/release/{name}"
        elif each.made.language == "Go":
            path, command = Path(name, main), f"programs/{name}"
        else:
            path = stem.with_name(f"{stem.stem}_{number}{stem.suffix}")
            command = each.made.run.replace(main, path.name)
        write_reproducer(replace(each.made, files={str(path): text}), place)
        found.append(replace(each, made=replace(each.made, run=command)))
    builds = {"Rust": "cargo build --release --quiet --bins", "Go": "mkdir programs && go build -o programs ./..."}
    if found and (build := builds.get(found[0].made.language)):
        subprocess.run(build, cwd=place, shell=True, check=True, capture_output=True)
    return iter(found)
