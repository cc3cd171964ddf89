"""A segment file of any size, window by window: `scan`, and `scan_stretch` for a part of any source."""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from kafka_corpus.columnar.buffers import bytes_of
from kafka_corpus.columnar.chunk import Chunk
from kafka_corpus.columnar.decoder import read
from kafka_corpus.columnar.fields import SLACK
from kafka_corpus.columnar.wanted import ALL, Bounds, as_buffer, runs_in
from kafka_records import DEFAULT, Limits
from kafka_records.constants import LOG_OVERHEAD
from kafka_records.layout import ENTRY

WINDOW: Final = 64 * 1024 * 1024
# A view counts its bytes from the start of a window in 31 bits, and an entry may reach beyond it.
LARGEST_WINDOW: Final = 1024 * 1024 * 1024

Reading = Generator[Chunk, None, tuple[int, bool]]
"""Gives chunks, then where it ended, and whether size or magic there cannot be."""


class Source(Protocol):
    """Bytes that are looked at in windows."""

    size: int

    def window(self, start: int, end: int) -> object:
        """The bytes from *start* to *end*, as something with a buffer.  Raises `OSError`."""


class Mapped:
    """A file that is mapped; it must not shrink meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def window(self, start: int, end: int) -> object:
        """A mapping, which is gone with the last view of it."""
        skipped = start % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self.descriptor, end - start + skipped, offset=start - skipped, access=mmap.ACCESS_READ)
        return memoryview(mapped)[skipped:]


@contextmanager
def mapped(path: Path) -> Iterator[Mapped]:
    """The file at *path*.  Raises `OSError`."""
    with path.open("rb") as file:
        yield Mapped(file.fileno())


def scan(path: Path, *, window: int = WINDOW, limits: Limits = DEFAULT) -> Iterator[Chunk]:
    """Chunks of all complete entries in a file, which must not shrink meanwhile.

    The file is mapped *window* bytes at a time, more only for an entry that is
    larger; a mapping is gone with the last chunk that has views of it.

    Raises:
        OSError: the file cannot be read.
        ValueError: *window* is too large, or not above 0.
    """
    with mapped(path) as source:
        yield from scan_stretch(source, window=window, limits=limits)


def scan_stretch(
    source: Source,
    start: int = 0,
    end: int | None = None,
    *,
    bounds: Bounds = ALL,
    window: int = WINDOW,
    limits: Limits = DEFAULT,
) -> Reading:
    """Chunks of the complete entries from *start*, where one begins, to *end*, or to that of the *source*.

    Entries outside of *bounds* are passed over by their headers, unread.

    Raises:
        OSError: the source cannot be read.
        ValueError: *window* is too large, or not above 0.
    """
    if not 0 < window <= LARGEST_WINDOW:
        raise ValueError(f"a window of {window} bytes, the most is {LARGEST_WINDOW}")
    end = source.size if end is None else end
    at, needed = start, window
    while at < end:
        stop = min(at + needed, end)
        data = source.window(at, stop)
        if bounds == ALL:
            done, broken = yield from read(data, position=at, limits=limits, final=stop == end)
        else:
            done, broken = yield from _read_wanted(data, at, bounds, limits, final=stop == end)
        at += done
        if broken or stop == end:
            return at, broken
        needed = window if done else _needed(source, at, end)
    return at, False


def _read_wanted(data: object, position: int, bounds: Bounds, limits: Limits, *, final: bool) -> Reading:
    view = bytes_of(as_buffer(data))
    runs = runs_in(data, bounds)
    for start, end in runs.places:
        yield from read(view[start:end], position=position + start, limits=limits)
    if not runs.broken:
        return runs.done, False
    # What cannot be is never skipped; behind an unknown magic it goes on.
    done, broken = yield from read(view[runs.done :], position=position + runs.done, limits=limits, final=final)
    return runs.done + done, broken


def _needed(source: Source, at: int, end: int) -> int:
    """How many bytes a window takes that the entry at *at* did not fit; all the rest where there are not so many."""
    if end - at < LOG_OVERHEAD:
        return end - at
    head = bytes(bytes_of(as_buffer(source.window(at, at + LOG_OVERHEAD))))
    whole = LOG_OVERHEAD + int(ENTRY.struct.unpack(head)[1])
    return whole + SLACK if whole <= end - at else end - at
