"""Java's InputStreams: what decompresses, and what buffers in front of it."""

from __future__ import annotations

import re
from typing import Final, Protocol

from kafka_records.broker.errors import Thrown

END: Final = -1


class Source(Protocol):
    """A decompressor: `InputStream#read(byte[], int, int)`."""

    def read(self, size: int) -> bytes | None:
        """At most *size* bytes; None at the end; none at all only where Kafka's LZ4 stream gives none."""
        ...


class Stream(Protocol):
    """A stream that records are read from."""

    def read_byte(self) -> int:
        """The next byte, or `END`."""
        ...

    def read(self, size: int) -> bytes | None:
        """Some bytes, at most *size*; None at the end."""
        ...


class Direct:
    """A source with nothing in front."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read_byte(self) -> int:
        """One byte by way of the source."""
        block = self._source.read(1)
        if block is None:
            return END
        if not block:
            # LZ4-15: `decompressedBuffer.get()` of a block without output
            raise Thrown("BufferUnderflowException", "LZ4-15")
        return block[0]

    def read(self, size: int) -> bytes | None:
        """As the source does."""
        return self._source.read(size)


class Chunked:
    """Kafka's ChunkedBytesStream, or Java's BufferedInputStream, which reads alike.

    Attributes:
        skips: whether bytes are skipped in the source (`delegateSkipToSourceStream`).
    """

    def __init__(self, source: Source, size: int, *, skips: bool = False) -> None:
        self._source = source
        self._size = size
        self._skips = skips
        self._chunk = b""
        self._at = 0

    def read_byte(self) -> int:
        """One byte of the chunk; LZ4-15: a chunk without any counts as the end."""
        if not self._has_more():
            return END
        self._at += 1
        return self._chunk[self._at - 1]

    def read(self, size: int) -> bytes | None:
        """The bytes that are left of the chunk; more than a chunk comes from the source at once."""
        if self._at == len(self._chunk) and size >= self._size:
            return self._source.read(size)
        return self._take(size) if self._has_more() else None

    def pass_over(self, pattern: re.Pattern[bytes], most: int) -> int:
        """How many bytes of the chunk, *most* at the most, match *pattern*; they are taken."""
        run = pattern.match(self._chunk, self._at, self._at + most)
        return len(self._take(len(run[0]))) if run else 0

    def skip(self, size: int) -> int:
        """How many bytes were skipped: first those of the chunk, then of the source or more chunks."""
        left = size - len(self._take(size))
        while left:
            skipped = self._skip_in_source(left) if self._skips else self._skip_in_chunk(left)
            if not skipped:
                break
            left -= skipped
        return size - left

    def _skip_in_source(self, size: int) -> int:
        # A chunk that is read here is left as it is: Kafka continues after it.
        return len(self._source.read(size) or b"") or int(self.read_byte() != END)

    def _skip_in_chunk(self, size: int) -> int:
        return len(self._take(size)) if self._has_more() else 0

    def _take(self, size: int) -> bytes:
        block = self._chunk[self._at : self._at + size]
        self._at += len(block)
        return block

    def _has_more(self) -> bool:
        if self._at == len(self._chunk):
            self._chunk, self._at = self._source.read(self._size) or b"", 0
        return self._at < len(self._chunk)
