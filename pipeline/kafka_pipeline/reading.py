"""Segment files and their entries as the reference reads them; imports neither Numba nor Arrow.

`kafka_pipeline.columnar` reads the same with compiled kernels.  Importing these takes longer than the reference takes
for a small log, and they are not installed everywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from kafka_records.constants import HEADER_SIZE_UP_TO_MAGIC, INT64_MAX, INT64_MIN, LOG_OVERHEAD
from kafka_records.errors import Kind, RecordFormatError
from kafka_records.layout import ENTRY
from kafka_records.log import decode, next_entry
from kafka_records.model import DEFAULT, Batch, Limits

# Bytes that are read at a time: they stay in a processor's cache until they are decoded.
READ_WINDOW: Final = 8 * 1024 * 1024


class Bounds(NamedTuple):
    """Bounds for records, applied by batch headers: a range of offsets, and a minimum timestamp.

    A header says which offsets its batch ends with, and v2 where it begins; the
    largest timestamp, and never the least.  An entry whose header says nothing is wanted.
    """

    first_offset: int = INT64_MIN
    last_offset: int = INT64_MAX
    first_timestamp: int = INT64_MIN


ALL: Final = Bounds()


class Broken(NamedTuple):
    """A row of the errors table: an entry that cannot be read, and why (`kafka_records.RecordFormatError`).

    *position* is where the entry starts, and *offset* where the rule broke, both
    in the file; *size* is None if it is unknown; then nothing after the entry is read.
    """

    position: int
    size: int | None
    kind: Kind
    path: str
    offset: int
    inner_offset: int | None
    rule: str
    message: str


class ByteSource(Protocol):
    """Bytes that are looked at in windows."""

    size: int

    def window(self, start: int, end: int) -> object:
        """The bytes from *start* to *end*, as something with a buffer.  Raises `OSError`."""


class ReadFile:
    """A file that is read, and not mapped: one that is truncated meanwhile is an `OSError`, and ends no process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def window(self, start: int, end: int) -> bytes:
        """A copy of the bytes."""
        data = os.pread(self.descriptor, end - start, start)
        while len(data) < end - start:
            more = os.pread(self.descriptor, end - start - len(data), start + len(data))
            if not more:
                raise OSError(f"it ends at byte {start + len(data):,}, and was longer")
            data += more
        return data


def regular_file(path: Path) -> BinaryIO:
    """The file at *path*, open.  Raises `OSError` if it cannot be read, or is no regular file."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


@contextmanager
def read_file(path: Path) -> Iterator[ReadFile]:
    """The file at *path*.  Raises `OSError`, also for what is no regular file: a pipe would wait."""
    with regular_file(path) as file:
        yield ReadFile(file.fileno())


class ReadEntry(NamedTuple):
    """An entry that can be read: where it starts, its bytes, and the batch in them."""

    position: int
    data: bytes
    batch: Batch


def entries_by_reference(
    source: ByteSource, start: int, end: int, limits: Limits = DEFAULT
) -> Generator[ReadEntry | Broken, None, tuple[int, bool]]:
    """The complete entries from *start*, where one begins, to *end*; entries after a broken one are read if possible.

    Returns where reading ended, and whether size or magic there cannot be, so that no later entry can be found.

    Raises:
        OSError: the source cannot be read.
    """
    at, first, window = start, start, b""
    while True:
        try:
            stop = next_entry(window, at - first)
        except RecordFormatError as error:
            broken = _broken_frame(error, window[at - first : at - first + LOG_OVERHEAD], at, end)
            yield broken
            if broken.size is None:
                return at, True
            at += broken.size
            continue
        if stop is None:
            if first + len(window) >= end:
                return at, False
            # A window may end before *at*, where an entry was passed over by its size.
            claimed = _claimed_size(window[at - first : at - first + LOG_OVERHEAD])
            if at + claimed > end and first + len(window) - at >= HEADER_SIZE_UP_TO_MAGIC:
                return at, False
            stop = min(at + max(READ_WINDOW, claimed), end)
            first, window = at, window_bytes(source.window(at, stop)) if at < stop else b""
            continue
        data = window[at - first : stop]
        yield _read_entry(data, at, limits)
        at += len(data)


def _read_entry(data: bytes, at: int, limits: Limits) -> ReadEntry | Broken:
    try:
        (batch,) = decode(data, limits=limits)
    except RecordFormatError as error:
        offset = at + error.offset
        return Broken(at, len(data), error.kind, error.path, offset, error.inner_offset, error.rule, error.message)
    return ReadEntry(at, data, batch)


def _broken_frame(error: RecordFormatError, data: bytes, at: int, end: int) -> Broken:
    """The defect of size or magic; an entry of an unknown magic has a size, if it is whole."""
    size = _claimed_size(data)
    whole = error.rule == "FRM-08" and at + size <= end
    path, offset = f"batch.{error.path}", at + error.offset
    return Broken(at, size if whole else None, error.kind, path, offset, error.inner_offset, error.rule, error.message)


def _claimed_size(data: bytes) -> int:
    """The size that an entry claims, with its offset and size fields; 0 if that is not there."""
    return LOG_OVERHEAD + max(int(ENTRY.struct.unpack_from(data)[1]), 0) if len(data) >= LOG_OVERHEAD else 0


def window_bytes(window: object) -> bytes:
    """A window as bytes, which it mostly is."""
    return window if isinstance(window, bytes) else bytes(memoryview(window))  # type: ignore[arg-type]  # a buffer


Reading = tuple[list[tuple[int, Batch]], list[Broken]]
"""Each entry of some bytes with its position, and those that cannot be read."""


def read_by_reference(data: bytes, *, limits: Limits = DEFAULT) -> Reading:
    """The reference's reading of each entry of *data*; it continues after broken entries as `read_chunks` does."""
    batches: list[tuple[int, Batch]] = []
    broken: list[Broken] = []
    for each in entries_by_reference(_Bytes(data), 0, len(data), limits):
        if isinstance(each, Broken):
            broken.append(each)
        else:
            batches.append((each.position, each.batch))
    return batches, broken


class _Bytes:
    """Bytes in memory as a source."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def window(self, start: int, end: int) -> object:
        """A part of them."""
        return self.data[start:end]
