"""The bytes of segment files and of their offset index, and stretches of segments.

A path, or `file:`, is this machine's (or a mount that all share).
Any other address (`hdfs://`, `viewfs://`, `s3://`, `gs://`, `abfs://`)
is read by Arrow's file systems; `hdfs` and `viewfs` through Hadoop's own
library, with the configuration that it finds.

A stretch of a segment begins and ends between entries, so that each can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from kafka_pipeline.reading import ALL, Bounds, ByteSource, read_file, window_bytes
from kafka_pipeline.segments.listing import SUFFIX, SegmentFile, local_path
from kafka_records.constants import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_VALUE_V2, RECORD_OVERHEAD_V0
from kafka_records.layout import ENTRY, MAGIC_OFFSET


class RemoteFile:
    """A file on another machine: a window of it is read on demand."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.size: int = file.size()

    def window(self, start: int, end: int) -> object:
        """The bytes from *start* to *end*."""
        self.file.seek(start)
        data = self.file.read_buffer(end - start)
        if data.size < end - start:
            raise OSError(f"it ends at byte {start + data.size}, and was longer")
        return data


@contextmanager
def open_segment(path: str, *, map_it: bool = False) -> Iterator[ByteSource]:
    """The bytes of a segment; with *map_it*, one of this machine is mapped, and must not shrink.  Raises `OSError`."""
    here = local_path(path)
    if here is not None and map_it:
        from kafka_pipeline.columnar.scan import mapped

        with mapped(here) as source:
            yield source
        return
    if here is not None:
        with read_file(here) as source:
            yield source
        return
    import pyarrow.fs as pafs

    system, inner = pafs.FileSystem.from_uri(path)
    with system.open_input_file(inner) as file:
        yield RemoteFile(file)


def stretch_source(source: ByteSource, size: int) -> ByteSource:
    """*source*, which still has *size* bytes.  Raises `OSError` if it has become shorter."""
    if source.size < size:
        raise OSError(f"it has {source.size:,} bytes, and had {size:,}")
    return source


OFFSETS: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
# segment.index.bytes is 10 MiB, unless somebody wants it larger.
LARGEST: Final = 256 * 1024 * 1024
Table = npt.NDArray[np.void]


def without_zeros(data: bytes, kind: np.dtype[np.void]) -> Table:
    """The entries of an index file, without the zeros that it ends in while it is preallocated."""
    table = np.frombuffer(data, kind, len(data) // kind.itemsize)
    used = np.flatnonzero(np.frombuffer(data, np.uint8))
    return table[: -(-(int(used[-1]) + 1) // kind.itemsize)] if len(used) else table[:0]


def indexed(source: ByteSource, segment: SegmentFile, most: int) -> Iterator[int]:
    """Where to cut a segment after about *most* bytes, by what its index says; nowhere if there is none.

    A cut that no entry begins at would be worse than none, so each is looked at:
    17 bytes of the segment.

    Raises:
        OSError: the segment cannot be read.
    """
    cut = 0
    for offset, position in offsets_beside(segment):
        if position - cut < most or position >= segment.size:
            continue
        if not begins(source, segment, offset, position):
            return
        cut = position
        yield cut


def offsets_beside(segment: SegmentFile) -> list[tuple[int, int]]:
    """Entries of the offset index of *segment*: an offset and its file position."""
    base = segment.base_offset
    if base is None:
        return []
    try:
        with open_segment(f"{segment.path.removesuffix(SUFFIX)}.index") as index:
            data = bytes_at(index, 0, min(index.size, LARGEST))
    except OSError:
        return []
    table = without_zeros(data, OFFSETS)
    offsets = table["offset"].astype(np.int64) + base
    return list(zip(offsets.tolist(), table["position"].tolist(), strict=True))


def begins(source: ByteSource, segment: SegmentFile, offset: int, position: int) -> bool:
    """Whether an entry begins at *position* whose own offset an index may have with *offset*."""
    if segment.size - position < HEADER_SIZE_UP_TO_MAGIC:
        return False
    head = bytes_at(source, position, position + HEADER_SIZE_UP_TO_MAGIC)
    base, size = ENTRY.struct.unpack_from(head)
    whole = RECORD_OVERHEAD_V0 <= size <= segment.size - position - LOG_OVERHEAD
    return whole and head[MAGIC_OFFSET] <= MAGIC_VALUE_V2 and (segment.base_offset or 0) <= base <= offset


def bytes_at(source: ByteSource, start: int, end: int) -> bytes:
    """Bytes of a file; a range outside of the file is not requested."""
    return window_bytes(source.window(start, end)) if start < end else b""


SPLIT: Final = 256 * 1024 * 1024
"""Bytes in one task: a task of Spark's costs a tenth of a second however little it does."""


# Bytes in which entries are looked for when a segment is cut: so many stay in a processor's cache.
CUT_WINDOW: Final = 1024 * 1024
# A segment is cut no further where an entry is larger.
LARGEST_SKIPPED: Final = 64 * CUT_WINDOW


class Stretch(msgspec.Struct, frozen=True, order=True):
    """Bytes of a segment from one entry's start to another's, or to the end."""

    path: str
    start: int
    end: int


def split_segment(segment: SegmentFile, most: int = SPLIT) -> list[Stretch]:
    """The whole segment in stretches of about *most* bytes, found by the headers of its entries.

    The last one reaches to the end, whatever is there, and so does the first
    where headers cannot be followed.  On another machine that would mean reading
    all of it: there the segment's index says where entries begin, and without an
    index it is left whole.

    Raises:
        OSError: it cannot be read.
    """
    if segment.size <= most:
        return [Stretch(segment.path, 0, segment.size)]
    with open_segment(segment.path) as source:
        is_here = local_path(segment.path) is not None
        cuts = list(boundaries(source, 0, segment.size, most) if is_here else indexed(source, segment, most))
    starts = [0, *cuts]
    return [Stretch(segment.path, start, end) for start, end in zip(starts, [*cuts, segment.size], strict=True)]


def boundaries(source: ByteSource, start: int, end: int, most: int) -> Iterator[int]:
    """Where to cut from *start* to *end*: after about *most* bytes, between entries, with some on both sides."""
    from kafka_pipeline.columnar.scan import runs_in

    at, cut, window = start, start, CUT_WINDOW
    while at < end:
        runs = runs_in(source.window(at, min(at + window, end)), most=1)
        if runs.broken or (not runs.done and (window >= LARGEST_SKIPPED or at + window >= end)):
            return
        window = CUT_WINDOW if runs.done else 8 * window
        for _, stop in runs.places:
            if at + stop - cut >= most and at + stop < end:
                cut = at + stop
                yield cut
        at += runs.done


def whole_entries(source: ByteSource, start: int, end: int) -> int:
    """Where the last entry from *start* on that is whole by *end* ends; *end* if what is there cannot be followed."""
    from kafka_pipeline.columnar.scan import WINDOW, runs_in

    at = start
    window = WINDOW
    while at < end:
        stop = min(at + window, end)
        runs = runs_in(source.window(at, stop))
        if runs.broken:
            return end
        if not runs.done and stop == end:
            return at
        at, window = at + runs.done, WINDOW if runs.done else 2 * window
    return at


def pack_stretches(stretches: Iterable[Stretch], most: int = SPLIT) -> list[list[Stretch]]:
    """The same stretches in tasks of about *most* bytes, in order."""
    tasks: list[list[Stretch]] = []
    room = 0
    for stretch in stretches:
        size = stretch.end - stretch.start
        if not tasks or size > room:
            tasks.append([])
            room = most
        tasks[-1].append(stretch)
        room -= size
    return tasks


def among(segments: Sequence[SegmentFile], bounds: Bounds = ALL) -> list[SegmentFile]:
    """Those of *segments* that may hold offsets within *bounds*, by their names (SEG-01)."""
    kept = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        base = segment.base_offset
        ends = following.base_offset if following is not None and following.log == segment.log else None
        if base is not None and base > bounds.last_offset:
            continue
        if base is not None and ends is not None and ends <= bounds.first_offset:
            continue
        kept.append(segment)
    return kept
