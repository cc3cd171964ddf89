"""The folder of a job's output: one run at a time, one plan, and a manifest when it is whole.

    OUT/manifest.json       the settings, counts, every file with rows and hash
    OUT/…/part-000000.parquet
    OUT/receipts, OUT/plan.json, …     only until it is whole

Nothing in it depends on when, where or in how many pieces it was made.  This imports no Arrow.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

MANIFEST: Final = "manifest.json"
PLAN: Final = "plan.json"
RECEIPTS: Final = "receipts"
SCHEMA_VERSION: Final = 1
BLOCK: Final = 1 << 20


class FileReceipt(msgspec.Struct, frozen=True):
    """One file, its path from the top of the output."""

    path: str
    rows: int
    bytes: int
    sha256: str


class OutputManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a complete output.

    Attributes:
        format: of the rows, `kafkaproof cases` for instance.
        schema_version: of the columns.
        plan: the settings of the job.
        counts: whatever the job counts.
        files: every file, sorted by path.
        sha256: of the lines `<sha256>  <path>`, one a file: what `sha256sum` would print.
    """

    format: str
    schema_version: int = SCHEMA_VERSION
    plan: dict[str, Any]
    counts: dict[str, Any]
    files: list[FileReceipt]
    sha256: str = ""


class OtherRun(Exception):
    """The folder has the output of other settings: a usage error."""


@contextmanager
def exclusive_run(out: Path) -> Iterator[None]:
    """Keep other runs out of *out*.  Raises `OtherRun` if one is there."""
    out.mkdir(parents=True, exist_ok=True)
    # The folder itself is locked, so that no lock file is left in it.
    folder = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OtherRun(f"another run is at work in {out}") from None
        yield
    finally:
        os.close(folder)


def take_up(out: Path, plan: dict[str, Any]) -> OutputManifest | None:
    """Begin, or go on: the manifest of what is there and whole, None while there is none.

    Raises:
        OtherRun: what is there was made by another plan.
    """
    manifest = read_manifest(out)
    earlier = manifest.plan if manifest else read_plan(out)
    if earlier is not None and earlier != plan:
        different = sorted(name for name in {*earlier, *plan} if earlier.get(name) != plan.get(name))
        raise OtherRun(f"{out} holds another run, which differs in {', '.join(different)}; choose another folder")
    if manifest is None:
        write_durably(out / PLAN, msgspec.json.encode(plan))
    return manifest


def complete(out: Path, manifest: OutputManifest, scratch: Sequence[str] = ()) -> OutputManifest:
    """Write the manifest of what is whole now, and clear away what it took to get there."""
    files = sorted(manifest.files, key=lambda file: file.path)
    manifest = msgspec.structs.replace(manifest, files=files, sha256=hash_of_files(files))
    write_durably(out / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    for name in (RECEIPTS, *scratch):
        shutil.rmtree(out / name, ignore_errors=True)
    (out / PLAN).unlink(missing_ok=True)
    for left in out.rglob("*.tmp"):
        left.unlink(missing_ok=True)
    return manifest


def read_manifest(out: Path) -> OutputManifest | None:
    """The manifest; None where there is none, or what there is cannot be read."""
    try:
        return msgspec.json.decode((out / MANIFEST).read_bytes(), type=OutputManifest)
    except (OSError, msgspec.MsgspecError):
        return None


def unsound(out: Path, manifest: OutputManifest) -> list[str]:
    """The files that are gone, or are not what the manifest says."""
    return [file.path for file in manifest.files if not is_sound(out, file)]


def hash_of_files(files: Iterable[FileReceipt]) -> str:
    """One hash for all of them."""
    return sha256("".join(f"{file.sha256}  {file.path}\n" for file in files).encode()).hexdigest()


def read_plan(out: Path) -> dict[str, Any] | None:
    """The plan of a run that is under way; None where there is none."""
    try:
        return msgspec.json.decode((out / PLAN).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return None


def write_durably(path: Path, data: bytes) -> None:
    """Write a small file, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def receipt_of(out: Path, name: str, rows: int) -> FileReceipt:
    """The receipt of the file *name* below *out*.  Raises `OSError`."""
    return FileReceipt(name, rows, (out / name).stat().st_size, file_sha256(out / name))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file.  Raises `OSError`."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def is_sound(out: Path, file: FileReceipt) -> bool:
    """Whether a file is there, and as its receipt says."""
    path = out / file.path
    try:
        return path.stat().st_size == file.bytes and file_sha256(path) == file.sha256
    except OSError:
        return False
