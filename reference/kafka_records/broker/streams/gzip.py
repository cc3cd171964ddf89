"""java.util.zip.GZIPInputStream, and the buffer for compressed bytes that it is given."""

from __future__ import annotations

import zlib

from kafka_records.broker.errors import Thrown
from kafka_records.compression.gzip import SMALLEST_REST, TRAILER, header_end
from kafka_records.errors import RecordFormatError

LARGE_BUFFER, SMALL_BUFFER = 8 * 1024, 512
INT32_SIZE = 4
# `read` calls itself for a member without output; this many fill the stack, give or take.
MOST_EMPTY_MEMBERS = 9_000


class GzipSource:
    """Members one after the other."""

    def __init__(self, data: bytes, buffer_size: int, *, sees_available: bool) -> None:
        """Read the first header.  Raises `RecordFormatError`."""
        self._data = data
        self._buffer_size = buffer_size
        self._sees_available = sees_available
        self._ended = False
        self._begin(header_end(data, 0), b"")

    def _begin(self, at: int, buffered: bytes) -> None:
        """Start a member: *buffered* of it has been read, the rest is at *at*."""
        self._at = at
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        self._input = buffered
        self._crc = self._size = 0

    def read(self, size: int) -> bytes | None:
        """Output of one call of the inflater."""
        empty = 0
        while not self._ended:
            if empty > MOST_EMPTY_MEMBERS:
                raise Thrown("StackOverflowError", "GZP-02")
            if block := self._inflate(size):
                self._crc = zlib.crc32(block, self._crc)
                self._size += len(block)
                return block
            self._ended = self._ends_here()
            empty += 1
        return None

    def _inflate(self, size: int) -> bytes:
        """InflaterInputStream#read; nothing where the member's data end."""
        while not self._inflater.eof:
            try:
                block = self._inflater.decompress(self._input, size)
            except zlib.error:
                # What the same call had given before is lost.
                raise Thrown("IOException", "GZP-01") from None
            self._input = self._inflater.unconsumed_tail
            if block:
                return block
            if not self._input and not self._inflater.eof:
                self._fill()
        return b""

    def _fill(self) -> None:
        self._input = self._data[self._at : self._at + self._buffer_size]
        if not self._input:
            raise Thrown("EOFException", "GZP-05")
        self._at += len(self._input)

    def _ends_here(self) -> bool:
        """GZIPInputStream#readTrailer: verify, and look whether there is another member (GZP-02, GZP-03)."""
        buffered = len(self._inflater.unused_data)
        at = self._at - buffered
        # A wrong CRC is noticed before the size is found missing.
        for place, wanted in ((at, self._crc), (at + INT32_SIZE, self._size & 0xFFFFFFFF)):
            stored = self._data[place : place + INT32_SIZE]
            if len(stored) < INT32_SIZE:
                raise Thrown("EOFException", "GZP-05")
            if int.from_bytes(stored, "little") != wanted:
                raise Thrown("IOException", "GZP-04")
        available = self._sees_available and self._at < len(self._data)
        if buffered <= SMALLEST_REST and not available:
            return True
        try:
            start = header_end(self._data, at + TRAILER.size)
        except RecordFormatError:
            return True
        self._begin(max(self._at, start), self._data[start : self._at])
        return False
