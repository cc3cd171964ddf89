"""The bytes of segment files and of their offset index.

A path, or `file:`, is this machine's (or a mount that all share).
Any other address (`hdfs://`, `viewfs://`, `s3://`, `gs://`, `abfs://`)
is read by Arrow's file systems; `hdfs` and `viewfs` through Hadoop's own
library, with the configuration that it finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafka_pipeline.reading import ByteSource, read_file, window_bytes
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
