"""Files of JSON lines: read with the number of a line that is wrong, written only where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class BadFileError(ValueError):
    """A file that cannot be read; `name` is its path below the root."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.name = f"{path.parent.name}/{path.name}"
        self.reason = reason


def read_lines(decoder: msgspec.json.Decoder[T], path: Path) -> list[T]:
    """The lines of the file.

    Raises:
        BadFileError: with the number of the first line that *decoder* refuses.
    """
    data = path.read_bytes()
    try:
        return decoder.decode_lines(data)
    except ValueError as error:
        raise BadFileError(path, _first_bad_line(decoder, data) or str(error)) from None


def _first_bad_line(decoder: msgspec.json.Decoder[T], data: bytes) -> str:
    for number, line in enumerate(data.splitlines(), 1):
        try:
            decoder.decode(line)
        except ValueError as error:
            return f"line {number}: {error}"
    return ""


def changed_files(files: Mapping[str, bytes], root: Path) -> dict[str, bytes]:
    """Those of *files*, by path below *root*, that are missing there or have another content."""
    return {name: data for name, data in files.items() if not _is(root / name, data)}


def _is(path: Path, data: bytes) -> bool:
    return path.exists() and path.read_bytes() == data


def write_files(files: Mapping[str, bytes], root: Path) -> None:
    """Write *files* below *root*, each as a whole or not at all."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(data)
        partial.replace(path)


def file_state(path: Path) -> tuple[int, int]:
    """When the file was last written, in nanoseconds, and its size: another state means other content."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size
