"""com.github.luben.zstd.ZstdInputStreamNoFinalizer."""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from kafka_records.broker.errors import Thrown
from kafka_records.compression.zstd import MAGIC, SKIPPABLE, read_header, skippable_end
from kafka_records.errors import RecordFormatError

BLOCK_HEADER = 3
CHECKSUM = 4
RAW, RLE, COMPRESSED, RESERVED = range(4)


class ZstdSource:
    """Frames one after the other, block by block.

    A call gives what the blocks hold until it is full or a frame ends; an error
    in a later block loses what it had gathered.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._frame: Iterator[bytes] | None = None
        self._block = b""
        self._truncated = False

    def read(self, size: int) -> bytes | None:
        """ZstdInputStreamNoFinalizer#read; a frame without output is passed over (ZST-02)."""
        while self._frame is not None or self._block or self._at < len(self._data):
            if block := self._read(size):
                return block
        return None

    def _read(self, size: int) -> bytes:
        """#readInternal: until *size* is reached, or the frame's end, or that of the data."""
        gathered = bytearray()
        if self._frame is None:
            self._frame = self._blocks()
        while len(gathered) < size and self._has_more(gathered):
            left = size - len(gathered)
            gathered += self._block[:left]
            self._block = self._block[left:]
        return bytes(gathered)

    def _has_more(self, gathered: bytes) -> bool:
        """Whether the frame goes on; where its data end, it does if nothing is *gathered*, and fails."""
        if self._block:
            return True
        if self._truncated and not gathered:
            raise Thrown("IOException", "ZST-07")
        if self._truncated or self._frame is None:
            return False
        self._next_block(self._frame)
        return self._has_more(gathered) if self._truncated else self._frame is not None

    def _next_block(self, frame: Iterator[bytes]) -> None:
        try:
            self._block = next(frame)
        except StopIteration:
            self._frame = None
        except EOFError:
            self._truncated = True
        except RecordFormatError as error:
            raise Thrown("IOException", error.rule) from None
        except zstandard.ZstdError:
            raise Thrown("IOException", "ZST-05") from None

    def _blocks(self) -> Iterator[bytes]:
        """The output of the frame at hand, and past it."""
        data, start = self._data, self._at
        if data[start + 1 : start + 4] == SKIPPABLE and data[start] & 0xF0 == 0x50:
            self._at = skippable_end(data, start)
            return
        if not data.startswith(MAGIC, start):
            raise Thrown("IOException", "ZST-04")
        frame = read_header(data, start)
        inflater = zstandard.ZstdDecompressor().decompressobj()
        yield inflater.decompress(data[start : frame.end])
        self._at, last = frame.end, False
        while not last:
            end, last = self._block_end(frame.block_size)
            block, self._at = data[self._at : end], end
            yield inflater.decompress(block)
        if frame.checksum:
            yield inflater.decompress(self._piece(CHECKSUM))
            self._at += CHECKSUM

    def _block_end(self, block_size: int) -> tuple[int, bool]:
        """Where the block at hand ends, and whether it is the frame's last."""
        header = int.from_bytes(self._piece(BLOCK_HEADER), "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == RESERVED or size > block_size:
            raise Thrown("IOException", "ZST-05")
        whole = BLOCK_HEADER + (1 if kind == RLE else size)
        self._piece(whole)
        return self._at + whole, bool(last)

    def _piece(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) < size:
            raise EOFError
        return piece
