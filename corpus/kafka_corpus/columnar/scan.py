"""A segment file of any size, window by window: `scan`."""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from kafka_corpus.columnar.chunk import Chunk
from kafka_corpus.columnar.decoder import read
from kafka_corpus.columnar.fields import SLACK
from kafka_records import DEFAULT, Limits
from kafka_records.constants import LOG_OVERHEAD
from kafka_records.layout import ENTRY

WINDOW: Final = 64 * 1024 * 1024
# A view counts its bytes from the start of a window in 31 bits, and an entry may reach beyond it.
LARGEST_WINDOW: Final = 1024 * 1024 * 1024


def scan(path: Path, *, window: int = WINDOW, limits: Limits = DEFAULT) -> Iterator[Chunk]:
    """Chunks of all complete entries in a file, which must not shrink meanwhile.

    The file is mapped *window* bytes at a time, more only for an entry that is
    larger; a mapping is gone with the last chunk that has views of it.

    Raises:
        OSError: the file cannot be read.
        ValueError: *window* is too large, or not above 0.
    """
    if not 0 < window <= LARGEST_WINDOW:
        raise ValueError(f"a window of {window} bytes, the most is {LARGEST_WINDOW}")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        at, needed = 0, window
        while at < size:
            end = min(at + needed, size)
            done, broken = yield from _read_window(file.fileno(), at, end, size, limits)
            if broken or end == size:
                return
            at += done
            needed = window if done else _needed(file.fileno(), at, size)


def _read_window(
    descriptor: int, at: int, end: int, size: int, limits: Limits
) -> Generator[Chunk, None, tuple[int, bool]]:
    skipped = at % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(descriptor, end - at + skipped, offset=at - skipped, access=mmap.ACCESS_READ)
    return (yield from read(memoryview(mapped)[skipped:], position=at, limits=limits, final=end == size))


def _needed(descriptor: int, at: int, size: int) -> int:
    """How many bytes a window takes that the entry at *at* did not fit; all the rest where the file ends before it."""
    head = os.pread(descriptor, LOG_OVERHEAD, at)
    if len(head) < LOG_OVERHEAD:
        return size - at
    whole = LOG_OVERHEAD + int(ENTRY.struct.unpack(head)[1])
    return whole + SLACK if whole <= size - at else size - at
