"""Files of JSON lines: one file for each area, one line for each id, sorted by id.

Reading gives the number of a line that is wrong; files are written only where they differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

SUFFIX: Final = ".ndjson"


class HasId(Protocol):
    """A line about one case."""

    @property
    def id(self) -> str:
        """The id of the case."""


T = TypeVar("T")
LineT = TypeVar("LineT", bound=HasId)

_encoder = msgspec.json.Encoder()


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


@dataclass(frozen=True, slots=True)
class AreaFolder(Generic[LineT]):
    """A folder with one file for each area, `<name>/<area>.ndjson`.

    Attributes:
        name: the folder's name below a root.
        decoder: reads one line.
        max_line: bytes of the longest line that may be written.
    """

    name: str
    decoder: msgspec.json.Decoder[LineT]
    max_line: int = sys.maxsize

    def path(self, area: str) -> str:
        """The file of *area*, below a root."""
        return f"{self.name}/{area}{SUFFIX}"

    def areas(self, root: Path) -> list[str]:
        """The areas that have a file below *root*."""
        return sorted(file.stem for file in (root / self.name).glob(f"*{SUFFIX}"))

    def read(self, root: Path, areas: Iterable[str] | None = None) -> list[LineT]:
        """The lines of the files of *areas* that exist, or of all; raises as `read_lines`."""
        files = (root / self.path(area) for area in (self.areas(root) if areas is None else areas))
        return [line for file in files if file.exists() for line in read_lines(self.decoder, file)]

    def text(self, lines: Iterable[LineT]) -> bytes:
        """The content of a file.

        Raises:
            ValueError: a line is longer than `max_line`.
        """
        encoded = {line.id: _encoder.encode(line) + b"\n" for line in lines}
        if too_long := [id_ for id_, line in encoded.items() if len(line) > self.max_line]:
            raise ValueError(f"{too_long[0]}: a line of more than {self.max_line} bytes")
        return b"".join(encoded[id_] for id_ in sorted(encoded))

    def texts(self, lines: Iterable[LineT]) -> dict[str, bytes]:
        """The content of each file, by its path below a root; raises as `text`."""
        areas = groupby(sorted(lines, key=area_of), key=area_of)
        return {self.path(area): self.text(group) for area, group in areas}


def area_of(line: HasId) -> str:
    """The area of the case: the id up to the first dot."""
    return line.id.partition(".")[0]


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
