"""Which segments there are, by path or address; imports neither decoder nor Arrow, so it is quick.

A path, or `file:`, is this machine's (or a mount that all share).  Any other
address (`hdfs://`, `viewfs://`, `s3://`, `gs://`, `abfs://`) is read through Arrow's
file systems.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

SUFFIX: Final = ".log"
# SEG-01: a segment is named after its base offset.
NAME: Final = re.compile(r"(?P<base>\d{20})\.log")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class CannotRead(Exception):
    """There is nothing to read at a path, or it cannot be reached: one line."""


class SegmentFile(msgspec.Struct, frozen=True, order=True):
    """A segment file.

    Attributes:
        path: where it is: a path of this machine, or an address.
        size: bytes, when it was looked at.
    """

    path: str
    size: int

    @property
    def log(self) -> str:
        """The directory that it is in."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Its name in that directory."""
        return self.path.rpartition("/")[2]

    @property
    def base_offset(self) -> int | None:
        """The offset that it is named after; None where the name is no segment's."""
        named = NAME.fullmatch(self.name)
        return int(named["base"]) if named else None


def local_path(place: str) -> Path | None:
    """Where *place* is on this machine; None if it is an address elsewhere.

    >>> str(local_path("file:///var/log%201")), str(local_path("logs/a:b")), local_path("hdfs://host/logs")
    ('/var/log 1', 'logs/a:b', None)
    """
    if not _SCHEME.match(place):
        return Path(place)
    parts = urlsplit(place)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def find_segments(places: Iterable[str], on_unlisted: Callable[[str], None] | None = None) -> list[SegmentFile]:
    """The segments at *places*: files of any name, and the `.log` files below directories, each once, in order.

    With *on_unlisted*, a directory below a place that cannot be listed, or whose name is not UTF-8, is a line for it,
    and the segments of the others are returned.

    Raises:
        CannotRead: a place is not there, cannot be read, or has no segments.
    """
    found: set[SegmentFile] = set()
    for place in places:
        path = local_path(place)
        unlisted: list[str] = []
        try:
            listed = list(_local(path, unlisted.append) if path is not None else _remote(place))
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else place
            raise CannotRead(f"{where}: {error.strerror or str(error).splitlines()[0]}") from None
        segments = [segment for segment in listed if _is_text(segment.path)]
        odd = {segment.log for segment in listed if not _is_text(segment.path)}
        unlisted = sorted([*unlisted, *(f"{log}: its name is not UTF-8" for log in odd)])
        if unlisted and (on_unlisted is None or not segments):
            raise CannotRead(unlisted[0])
        if not segments:
            raise CannotRead(f"{place}: no segment files (*{SUFFIX})")
        for line in unlisted:
            assert on_unlisted is not None
            on_unlisted(line)
        found.update(segments)
    return sorted(found, key=_order)


def _is_text(path: str) -> bool:
    """Whether *path* can be in a report; names of Kafka's topics always can."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _order(segment: SegmentFile) -> tuple[str, int, str]:
    base = segment.base_offset
    return segment.log, -1 if base is None else base, segment.path


def _local(path: Path, on_unlisted: Callable[[str], None]) -> Iterator[SegmentFile]:
    path = path.absolute()
    if path.is_file():
        yield SegmentFile(path.as_posix(), path.stat().st_size)
        return
    if not path.is_dir():
        raise FileNotFoundError(2, "no such file or directory")

    def pass_over(error: OSError) -> None:
        # A directory that is removed meanwhile has no segments any more.
        if not isinstance(error, FileNotFoundError):
            on_unlisted(f"{error.filename}: {error.strerror}")

    for folder, below, names in os.walk(path, onerror=pass_over):
        # A mounted file system has it, and only root can read it.
        below[:] = [name for name in below if name != "lost+found"]
        for name in names:
            if NAME.fullmatch(name):
                file = Path(folder, name)
                yield SegmentFile(file.as_posix(), _size(file))


def _size(file: Path) -> int:
    """The size of a regular file; 0 for a dangling link, a pipe or a file that is gone: reading it fails."""
    try:
        found = file.stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _remote(place: str) -> Iterator[SegmentFile]:
    import pyarrow as pa
    import pyarrow.fs as pafs

    try:
        system, inner = pafs.FileSystem.from_uri(place)
        info = system.get_file_info(inner)
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(2, "no such file or directory")
        infos = [info] if info.is_file else system.get_file_info(pafs.FileSelector(inner, recursive=True))
    except pa.ArrowException as error:
        raise OSError(str(error)) from None
    top = place.removesuffix(inner) if place.endswith(inner) else ""
    for each in infos:
        if each.is_file and (info.is_file or NAME.fullmatch(PurePosixPath(each.path).name)):
            yield SegmentFile(f"{top}{each.path}", each.size)
