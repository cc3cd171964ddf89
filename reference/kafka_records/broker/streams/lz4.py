"""Kafka's Lz4BlockInputStream."""

from __future__ import annotations

import xxhash

from kafka_records.broker.errors import Thrown
from kafka_records.compression.lz4 import BLOCK_CHECKSUM, CONTENT_CHECKSUM, STORED, inflate_lz4_block, read_lz4_header
from kafka_records.errors import RecordFormatError

INT32_SIZE = 4


class Lz4Source:
    """The first frame, block by block."""

    def __init__(self, data: bytes, *, check_header: bool) -> None:
        """Read the frame header.  Raises `RecordFormatError`."""
        self._flags, self._block_size, self._at = read_lz4_header(data, check_header=check_header)
        self._data = data
        self._block = memoryview(b"")  # read piece by piece without being copied each time
        self._finished = False

    def read(self, size: int) -> bytes | None:
        """The bytes that are left of a block; none from a block without output (LZ4-15)."""
        if not self._finished and not self._block:
            self._read_block()
        if self._finished:
            return None
        block, self._block = bytes(self._block[:size]), self._block[size:]
        return block

    def _read_block(self) -> None:
        if self._at + INT32_SIZE > len(self._data):
            raise Thrown("IOException", "LZ4-12")
        word = self._number()
        size = word & ~STORED
        if size == 0:
            # LZ4-09: the content checksum has to be there, and is not verified.
            self._finished = True
            if self._flags & CONTENT_CHECKSUM:
                self._number()
            return
        if size > self._block_size:
            raise Thrown("IOException", "LZ4-11")
        if self._at + size > len(self._data):
            raise Thrown("IOException", "LZ4-12")
        packed = self._data[self._at : self._at + size]
        self._block = memoryview(packed if word & STORED else self._inflate(packed))
        self._at += size
        if self._flags & BLOCK_CHECKSUM and self._number() != xxhash.xxh32_intdigest(packed):
            raise Thrown("IOException", "LZ4-10")

    def _number(self) -> int:
        """The next four bytes; with fewer left, `ByteBuffer#getInt` throws an unchecked exception."""
        word = self._data[self._at : self._at + INT32_SIZE]
        if len(word) < INT32_SIZE:
            raise Thrown("BufferUnderflowException", "LZ4-09")
        self._at += INT32_SIZE
        return int.from_bytes(word, "little")

    def _inflate(self, packed: bytes) -> bytes:
        try:
            return inflate_lz4_block(packed, self._at, self._block_size)
        except RecordFormatError as error:
            raise Thrown("IOException", error.rule) from None
