"""Finds on disk: one folder each, named by its key, the smallest input seen in it.

    DIR/finds/<first half of the key's SHA-256>/find.json, input.bin

Whatever is written is on the disk, whole, when `add` returns: a campaign that is
killed loses nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from kafka_corpus.case import Expectation
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import MutantCell
from kafka_fuzz.targets.outcome import Outcome

FINDINGS_FOLDER: Final = "finds"
FINDING_FILE: Final = "find.json"
INPUT_FILE: Final = "input.bin"
LOCK: Final = ".lock"
# Its finds keep what is right beside them: everybody else's are judged by it.
REFERENCE: Final = "reference"
# One name may be a target in process and a testee, too, which reads and writes.
TargetMode = Literal["", "differential", "encode"]


class FuzzFinding(msgspec.Struct, frozen=True, omit_defaults=True, rename={"mode": "asked", "outcomes": "vector"}):
    """A find as `find.json` keeps it.

    Attributes:
        key: `Outcome.key`.
        outcome: of the smallest input.
        sha256: of that input.
        size: its bytes.
        profile, labels, cell: who made that input, and what was done to it.
        version: of the target.
        seconds: CPU-seconds of the target's process when it was first seen.
        count: how often it was seen, by this process or those before it.
        asked: `differential` where the target was a testee in a process of its own; `encode` where that was to write
            a batch, which the input is as JSON.
        names: who was asked about the input side by side, the target among them; as `connect` takes them.
        vector: what each of *names* made of it, a class or `-`; empty where somebody's answer came late.
        expected: what the lie in the input asks for, where the reference itself is to blame and cannot say.
    """

    key: str
    outcome: Outcome
    sha256: str
    size: int
    profile: str
    labels: tuple[str, ...]
    cell: MutantCell
    version: str = ""
    seconds: float = 0.0
    count: int = 1
    mode: TargetMode = ""
    names: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    expected: Expectation | None = None


def finding_name(key: str) -> str:
    """The folder of the find with that *key*."""
    return sha256(key.encode()).hexdigest()[:16]


@dataclass(slots=True)
class FindingStore:
    """The finds below one folder, or those of one *target*; several processes may write.

    *asked* and *names* are those of the finds that are added.
    """

    root: Path
    target: str = ""
    mode: TargetMode = ""
    names: tuple[str, ...] = ()
    findings: dict[str, FuzzFinding] = field(default_factory=dict)
    _unwritten: dict[str, int] = field(default_factory=dict)
    _without_outcomes: dict[bytes, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what is there."""
        self.findings = {
            finding.key: finding for finding in read_findings(self.root) if self.target in ("", finding.outcome.target)
        }

    def add(self, outcome: Outcome, mutant: Mutant, *, version: str = "", seconds: float = 0.0) -> bool:
        """Take note of a find; whether there was none with its key.  OSError where the disk does not take it.

        A find that another *version* shows as well has that version from then on.
        """
        old = self.findings.get(outcome.key)
        if old is not None and old.size <= len(mutant.data):
            self._unwritten[old.key] = self._unwritten.get(old.key, 0) + 1
            if version not in ("", old.version):
                self.findings[old.key] = update_finding(self.root, old, version=version)
            return False
        finding = FuzzFinding(
            key=outcome.key,
            outcome=outcome,
            sha256=sha256(mutant.data).hexdigest(),
            size=len(mutant.data),
            profile=mutant.profile,
            labels=mutant.labels,
            cell=mutant.cell,
            version=version,
            seconds=old.seconds if old else seconds,
            count=1,
            mode=self.mode,
            names=self.names,
            expected=mutant.expected if outcome.target == REFERENCE else None,
        )
        self.findings[finding.key] = write_finding(self.root, finding, mutant.data)
        if self.names:
            self._without_outcomes.setdefault(mutant.data, []).append(finding.key)
        return old is None

    def add_outcomes(self, data: bytes, outcomes: tuple[str, ...]) -> None:
        """Keep what all of `names` made of *data* with the finds that it was added for."""
        for key in self._without_outcomes.pop(data, ()):
            if self.findings[key].sha256 == sha256(data).hexdigest():
                self.findings[key] = update_finding(self.root, self.findings[key], outcomes=outcomes)

    def flush(self) -> None:
        """Write the counts, which `add` leaves to this."""
        for key, count in self._unwritten.items():
            with folder_lock(finding_folder(self.root, key)):
                finding = read_finding(finding_folder(self.root, key) / FINDING_FILE) or self.findings[key]
                finding = msgspec.structs.replace(finding, count=finding.count + count)
                write_atomically(finding_folder(self.root, key) / FINDING_FILE, msgspec.json.encode(finding))
            self.findings[key] = finding
        self._unwritten.clear()


def finding_folder(root: Path, key: str) -> Path:
    """Where the find with that *key* lies."""
    return root / FINDINGS_FOLDER / finding_name(key)


def write_finding(root: Path, finding: FuzzFinding, data: bytes) -> FuzzFinding:
    """Write *finding*, the input first, so that it is never without one; give what is there now.

    What another process wrote meanwhile is counted too, and stays if it is smaller.
    """
    folder = finding_folder(root, finding.key)
    with folder_lock(finding_folder(root, finding.key)):
        old = read_finding(folder / FINDING_FILE)
        if old is not None:
            finding = msgspec.structs.replace(finding, count=old.count + finding.count, seconds=old.seconds)
            if old.size <= finding.size:
                finding = msgspec.structs.replace(old, count=finding.count, version=finding.version or old.version)
        # A smaller input of a known find need not outlive the machine; syncing each takes half of a first minute.
        durable = old is None
        if old is None or finding.sha256 != old.sha256:
            write_atomically(folder / INPUT_FILE, data, durable=durable)
        write_atomically(folder / FINDING_FILE, msgspec.json.encode(finding), durable=durable)
    return finding


def update_finding(root: Path, finding: FuzzFinding, **fields: Any) -> FuzzFinding:
    """Write other *fields* of *finding*, if its input is still the one that is there; give what is there now."""
    path = finding_folder(root, finding.key) / FINDING_FILE
    with folder_lock(finding_folder(root, finding.key)):
        there = read_finding(path) or finding
        if there.sha256 == finding.sha256:
            there = msgspec.structs.replace(there, **fields)
            write_atomically(path, msgspec.json.encode(there), durable=False)
    return there


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keep other processes away from *folder*, as of one find; a process that dies keeps nobody away."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """*data* in the file at *path*, all of it or none; *durable*: even if the machine falls the moment after."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)


def read_findings(root: Path) -> Iterator[FuzzFinding]:
    """The finds below *root*, in the order of their folders; what a crash left half written is left out."""
    for path in sorted((root / FINDINGS_FOLDER).glob(f"*/{FINDING_FILE}")):
        finding = read_finding(path)
        if finding is not None:
            yield finding


def read_finding(path: Path) -> FuzzFinding | None:
    """The find in that file; None where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FuzzFinding)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def finding_input(root: Path, finding: FuzzFinding) -> bytes:
    """The smallest input that shows *finding*."""
    return (finding_folder(root, finding.key) / INPUT_FILE).read_bytes()
