"""The bytes of segment files.

A path, or `file:`, is this machine's (or a mount that all share), and is
mapped.  Any other address (`hdfs://`, `viewfs://`, `s3://`, `gs://`, `abfs://`)
is read by Arrow's file systems; `hdfs` and `viewfs` through Hadoop's own
library, with the configuration that it finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.fs as pafs

from kafka_corpus.columnar.scan import Source, mapped
from kafka_corpus.segments.listing import local_path


class Reached:
    """A file on another machine: a window of it is read when it is asked for."""

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
def opened(path: str) -> Iterator[Source]:
    """The bytes of a segment.  Raises `OSError`."""
    here = local_path(path)
    if here is not None:
        with mapped(here) as source:
            yield source
        return
    system, inner = pafs.FileSystem.from_uri(path)
    with system.open_input_file(inner) as file:
        yield Reached(file)


def stretch_source(source: Source, size: int) -> Source:
    """*source*, which still has *size* bytes.  Raises `OSError` if it has become shorter."""
    if source.size < size:
        raise OSError(f"it has {source.size:,} bytes, and had {size:,}")
    return source
