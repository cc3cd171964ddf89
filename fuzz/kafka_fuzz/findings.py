"""Findings on disk: one folder each, named after its key, with the smallest input that shows it.

    DIR/finds/<first half of the key's SHA-256>/find.json, input.bin, other-N.bin

A key may hide a second cause: inputs of a few other kinds that show it are kept, too.
A finding is complete on disk when `add` returns, so a killed campaign loses none.
Former names of files and fields are still read (`with_current_fields`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
# Findings of the reference keep the right answer; those of all other targets are judged by the reference.
REFERENCE: Final = "reference"
# A name may stand for a target in process, a testee that decodes, and one that encodes.
TargetMode = Literal["", "differential", "encode"]


class OtherInput(msgspec.Struct, frozen=True):
    """A further input of a finding, of another kind than the smallest.

    Attributes:
        kind: its fault or edit, magic, codec and nesting.
        sha256, size, labels: as in `FuzzFinding`.
    """

    kind: str
    sha256: str
    size: int
    labels: tuple[str, ...] = ()


class FuzzFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding as `find.json` stores it.

    Attributes:
        key: `Outcome.key`.
        outcome: the outcome of the smallest input.
        sha256: the digest of that input.
        size: its bytes.
        profile, labels, cell: the mutator that made the input, and its changes.
        version: the version of the target.
        seconds: CPU-seconds of the target's process when the finding was first seen.
        count: how often it was seen, by all processes.
        mode: `differential` for a testee in its own process that decodes, `encode` for one that encodes the batch
            that the input is as JSON; empty for a target in process.
        names: the testees of the session, the target among them, as `connect` takes them.
        outcomes: the class of each of *names*, or `-`; empty if an answer was late.
        expected: the right answer by the fault in the input; only for findings of the reference itself.
        others: further inputs, the first of each kind, in the files `other-0.bin` and following.
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
    others: tuple[OtherInput, ...] = ()


def finding_name(key: str) -> str:
    """The name of the folder of the finding *key*."""
    return sha256(key.encode()).hexdigest()[:16]


@dataclass(slots=True)
class FindingStore:
    """The findings below one folder, or those of one *target*; several processes may write.

    *mode* and *names* are stored with each new finding.
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
        """Add a finding, and return whether its key is new.  OSError if it cannot be written.

        A finding that another *version* shows, too, gets that version.
        """
        old = self.findings.get(outcome.key)
        if old is not None and old.size <= len(mutant.data):
            self._unwritten[old.key] = self._unwritten.get(old.key, 0) + 1
            old = self.findings[old.key] = add_other_input(self.root, old, mutant)
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
        """Store the outcomes of all testees with the findings that were added for *data*."""
        for key in self._without_outcomes.pop(data, ()):
            if self.findings[key].sha256 == sha256(data).hexdigest():
                self.findings[key] = update_finding(self.root, self.findings[key], outcomes=outcomes)

    def flush(self) -> None:
        """Write the counts of repeated findings."""
        for key, count in self._unwritten.items():
            with folder_lock(finding_folder(self.root, key)):
                finding = read_finding(finding_folder(self.root, key) / FINDING_FILE) or self.findings[key]
                finding = msgspec.structs.replace(finding, count=finding.count + count)
                write_atomically(finding_folder(self.root, key) / FINDING_FILE, msgspec.json.encode(finding))
            self.findings[key] = finding
        self._unwritten.clear()


def finding_folder(root: Path, key: str) -> Path:
    """The folder of the finding *key*."""
    return root / FINDINGS_FOLDER / finding_name(key)


def write_finding(root: Path, finding: FuzzFinding, data: bytes) -> FuzzFinding:
    """Write *finding*, its input first, and return the finding that is stored now.

    A finding that another process has written is counted, too, and stays if its input is smaller.
    """
    folder = finding_folder(root, finding.key)
    with folder_lock(finding_folder(root, finding.key)):
        old = read_finding(folder / FINDING_FILE)
        if old is not None:
            finding = msgspec.structs.replace(finding, count=old.count + finding.count, seconds=old.seconds)
            finding = msgspec.structs.replace(finding, others=old.others)
            if old.size <= finding.size:
                finding = msgspec.structs.replace(old, count=finding.count, version=finding.version or old.version)
        # A smaller input of a known finding is not synced: syncing each takes half of a campaign's first minute.
        durable = old is None
        if old is None or finding.sha256 != old.sha256:
            write_atomically(folder / INPUT_FILE, data, durable=durable)
        write_atomically(folder / FINDING_FILE, msgspec.json.encode(finding), durable=durable)
    return finding


# Further inputs of one finding, and the bytes of one.
MOST_OTHERS: Final = 3
MOST_OTHER_BYTES: Final = 64 << 10


def mutant_kind(labels: Sequence[str], cell: MutantCell) -> str:
    """The kind of an input: its last fault or edit, and the format around it."""
    fault = cell.fault or (labels[-1] if labels else "")
    return f"{fault} v{cell.magic} {cell.codec} {cell.nesting}"


def add_other_input(root: Path, finding: FuzzFinding, mutant: Mutant) -> FuzzFinding:
    """Keep *mutant* beside the smallest input of *finding* if it is the first of its kind, up to `MOST_OTHERS`."""
    if len(finding.others) >= MOST_OTHERS or len(mutant.data) > MOST_OTHER_BYTES:
        return finding
    kind = mutant_kind(mutant.labels, mutant.cell)
    if kind in {mutant_kind(finding.labels, finding.cell), *(other.kind for other in finding.others)}:
        return finding
    folder = finding_folder(root, finding.key)
    with folder_lock(folder):
        there = read_finding(folder / FINDING_FILE) or finding
        if len(there.others) < MOST_OTHERS and kind not in {other.kind for other in there.others}:
            write_atomically(folder / other_name(len(there.others)), mutant.data, durable=False)
            other = OtherInput(kind, sha256(mutant.data).hexdigest(), len(mutant.data), mutant.labels)
            there = msgspec.structs.replace(there, others=(*there.others, other))
            write_atomically(folder / FINDING_FILE, msgspec.json.encode(there), durable=False)
    return msgspec.structs.replace(finding, others=there.others)


def other_name(number: int) -> str:
    """The file of a further input.

    >>> other_name(0)
    'other-0.bin'
    """
    return f"other-{number}.bin"


def inputs_of_other_kinds(root: Path, finding: FuzzFinding) -> Iterator[tuple[OtherInput, bytes]]:
    """The further inputs of *finding* that are on disk."""
    for number, other in enumerate(finding.others):
        with suppress(FileNotFoundError):
            yield other, (finding_folder(root, finding.key) / other_name(number)).read_bytes()


def update_finding(root: Path, finding: FuzzFinding, **fields: Any) -> FuzzFinding:
    """Write other *fields* of *finding* if its input is still the stored one; returns the stored finding."""
    path = finding_folder(root, finding.key) / FINDING_FILE
    with folder_lock(finding_folder(root, finding.key)):
        there = read_finding(path) or finding
        if there.sha256 == finding.sha256:
            there = msgspec.structs.replace(there, **fields)
            write_atomically(path, msgspec.json.encode(there), durable=False)
    return there


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock *folder*, the folder of one finding; the lock ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write *data* to *path*, all of it or none; *durable* data survives a failure of the machine."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)


def read_findings(root: Path) -> Iterator[FuzzFinding]:
    """The findings below *root*, in the order of their folders, without incomplete ones."""
    for path in sorted((root / FINDINGS_FOLDER).glob(f"*/{FINDING_FILE}")):
        finding = read_finding(path)
        if finding is not None:
            yield finding


def read_finding(path: Path) -> FuzzFinding | None:
    """The finding in the file *path*; None if there is none."""
    try:
        return msgspec.json.decode(with_current_fields(path.read_bytes()), type=FuzzFinding)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def finding_input(root: Path, finding: FuzzFinding) -> bytes:
    """The smallest input that shows *finding*."""
    return (finding_folder(root, finding.key) / INPUT_FILE).read_bytes()


# In these tables a name on the left is in files that older versions wrote, and the one on the right is today's.
# Fields of known.toml, by the former name of its table.
KNOWN_FINDINGS: Final = {
    "known": {"target": "testee", "about": "reason", "lies": "faults", "canary": "reproducer", "asked": "mode"}
}
# The file of replay results.
REPLAYS: Final = "canaries.json"
# Fields of findings, of the log, of the list of triage, and of the reach of findings.
FIELDS: Final = {
    "asked": "mode",
    "vector": "outcomes",
    "finds": "findings",
    "finds_new": "new_findings",
    "told": "result",
    "lie": "fault",
}


def with_current_fields(data: bytes) -> bytes:
    """Lines of compact JSON in which former names of fields are replaced.

    A string in JSON never holds an unescaped quote, so that only keys are replaced.

    >>> with_current_fields(b'{"asked":"encode","why":"\\\\"asked\\\\":"}')
    b'{"mode":"encode","why":"\\\\"asked\\\\":"}'
    """
    for former, name in FIELDS.items():
        data = data.replace(f'"{former}":'.encode(), f'"{name}":'.encode())
    return data
