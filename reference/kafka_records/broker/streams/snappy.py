"""org.xerial.snappy.SnappyInputStream."""

from __future__ import annotations

from kafka_records.broker.errors import Thrown
from kafka_records.compression.common import Output, refused
from kafka_records.compression.snappy import (
    HEADER,
    INT32,
    MAGIC,
    MAX_CHUNK_SIZE,
    inflate_raw_block,
    is_half_a_header,
    repeated_header_end,
)
from kafka_records.errors import RecordFormatError
from kafka_records.model import DEFAULT

# `hasNextChunk` calls itself for a repeated header; this many fill the stack, give or take.
MOST_HEADERS = 10_000
MOST_EMPTY_BLOCKS = 40_000


class SnappySource:
    """Xerial blocks, or one raw block, which the constructor inflates."""

    def __init__(self, data: bytes) -> None:
        """Read the header.  Raises `RecordFormatError`."""
        if not data:
            raise refused("an empty snappy stream", 0, "CMP-08")
        self._data = data
        self._block = memoryview(b"")  # read piece by piece without being copied each time
        if len(data) < HEADER.size or not data.startswith(MAGIC):
            self._block = memoryview(_inflate(data, "SNP-02"))
            self._at = len(data)
        else:
            self._at = HEADER.size

    def read(self, size: int) -> bytes | None:
        """Output of as many blocks as it takes; an error in one loses what those before gave in this call."""
        gathered = bytearray()
        while len(gathered) < size and (self._block or self._next_block(recurses=size == 1)):
            left = size - len(gathered)
            gathered += self._block[:left]
            self._block = self._block[left:]
        return bytes(gathered) or None

    def _next_block(self, *, recurses: bool) -> bool:
        """SnappyInputStream#hasNextChunk: whether there is a block with output (SNP-07).

        #read() calls itself for one without, #read(byte[], int, int) does not.
        """
        headers = empty = 0
        while len(self._data) - self._at >= INT32.size:
            try:
                if self._data.startswith(MAGIC[: INT32.size], self._at):
                    headers += 1
                    if headers > MOST_HEADERS:
                        raise Thrown("StackOverflowError", "SNP-04")
                    half = is_half_a_header(self._data, self._at)
                    self._at = repeated_header_end(self._data, self._at)
                    if half:
                        # That ends this call only; the next continues after the bytes that were no header.
                        return False
                    continue
                self._block = memoryview(self._read_block())
            except RecordFormatError as error:
                raise Thrown("IOException", error.rule) from None
            if self._block:
                return True
            headers = 0
            empty += 1
            if recurses and empty > MOST_EMPTY_BLOCKS:
                raise Thrown("StackOverflowError", "SNP-07")
        self._at = len(self._data)
        return False

    def _read_block(self) -> bytes:
        size: int = INT32.unpack_from(self._data, self._at)[0]
        start = self._at + INT32.size
        if not 0 <= size <= MAX_CHUNK_SIZE:
            raise refused(f"a snappy block of {size} bytes", self._at, "SNP-06")
        if start + size > len(self._data):
            raise refused(f"a snappy block of {size} bytes", self._at, "SNP-08")
        self._at = start + size
        return _inflate(self._data[start : self._at], "SNP-07")


def _inflate(block: bytes, rule: str) -> bytes:
    return inflate_raw_block(block, 0, Output(DEFAULT.max_output_bytes), rule)
