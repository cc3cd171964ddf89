"""com.github.luben.zstd.ZstdInputStreamNoFinalizer.

It reads 131,075 compressed bytes at a time, and where the data end in the
middle of a frame it complains only if no frame has ended since it last read: a
second frame that is cut short is an end like any other (ZST-04, ZST-07).

A frame that says its size, and is there whole, is decompressed in one pass where
the caller has room for it (the shortcut of ZSTD_decompressStream).  That pass
looks at neither the window (ZST-08) nor the sizes of raw blocks, and it always
looks at the size; block by block, an empty last block hides a wrong one (ZST-06).
"""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from kafka_records.broker.errors import Thrown
from kafka_records.compression.zstd import (
    MAGIC,
    MAX_WINDOW_LOG,
    SKIPPABLE,
    Frame,
    inflate_frame,
    read_frame_header,
    skippable_end,
    window_size,
)
from kafka_records.errors import RecordFormatError

# ZSTD_DStreamInSize
BUFFER_SIZE = 128 * 1024 + 3
# ZSTD_startingInputLength
STARTING_INPUT = 5
SKIPPABLE_HEADER = 8
# ZSTD_error_maxCode: before 4.4 zstd-jni narrowed the number of missing bytes to an int, and took those above its
# negative for errors.
MOST_ERRORS = 120
UINT32_RANGE = 2**32
BLOCK_HEADER = 3
CHECKSUM = 4
RAW, RLE, _COMPRESSED, RESERVED = range(4)
LARGEST_WINDOW = window_size(MAX_WINDOW_LOG - 10 << 3 | 7)


class ZstdSource:
    """Frames one after the other, block by block.

    A call gives what the blocks hold until it is full or a frame ends; an error
    in a later block loses what it had gathered.
    """

    def __init__(self, data: bytes, *, checks_prefix: bool, skips_any_size: bool) -> None:
        self._data = data
        self._checks_prefix = checks_prefix
        self._skips_any_size = skips_any_size
        self._at = 0
        self._frame_end = 0
        self._frame: Iterator[bytes] | None = None
        self._block = b""
        self._truncated = False

    def read(self, size: int) -> bytes | None:
        """ZstdInputStreamNoFinalizer#read; a frame without output is passed over (ZST-02)."""
        while not self._is_over():
            if block := self._read(size):
                return block
        return None

    def _is_over(self) -> bool:
        if self._block:
            return False
        if self._truncated:
            last_buffer = (len(self._data) - 1) // BUFFER_SIZE * BUFFER_SIZE
            return self._frame_end > last_buffer
        return self._frame is None and self._at == len(self._data)

    def _read(self, size: int) -> bytes:
        """#readInternal: until *size* is reached, or the frame's end, or that of the data."""
        gathered = bytearray()
        if self._frame is None and (whole := self._in_one_pass(size)) is not None:
            return whole
        frame = self._frame = self._frame or self._blocks()
        while len(gathered) < size and self._has_more(frame, gathered):
            left = size - len(gathered)
            gathered += self._block[:left]
            self._block = self._block[left:]
        return bytes(gathered)

    def _in_one_pass(self, size: int) -> bytes | None:
        """The output of the frame at hand, if it says that it has no more than *size* and all of it was read."""
        data, start = self._data, self._at
        if not data.startswith(MAGIC, start):
            return None
        try:
            frame = read_frame_header(data, start, LARGEST_WINDOW)
            end = self._whole_end(frame)
        except (EOFError, RecordFormatError):
            return None
        if frame.content_size is None or frame.content_size > size or end > self._buffered():
            return None
        try:
            content = inflate_frame(data[start:end], frame.content_size)
        except zstandard.ZstdError:
            raise Thrown("IOException", "ZST-05") from None
        self._at = self._frame_end = end
        return content

    def _whole_end(self, frame: Frame) -> int:
        """Where *frame*, whose header is at hand, ends, whatever its blocks hold; EOFError where the data end first."""
        at, last = frame.end, False
        while not last:
            header = int.from_bytes(self._data[at : at + BLOCK_HEADER], "little")
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            at += BLOCK_HEADER + (1 if kind == RLE else size)
            if kind == RESERVED or at > len(self._data):
                raise EOFError
        return at + (CHECKSUM if frame.checksum else 0)

    def _buffered(self) -> int:
        """Where the compressed bytes end that were read together with those at hand."""
        return min(len(self._data), (self._at // BUFFER_SIZE + 1) * BUFFER_SIZE)

    def _has_more(self, frame: Iterator[bytes], gathered: bytearray) -> bool:
        """Whether *frame* goes on; where its data end, it does if nothing is *gathered*, and fails."""
        if self._block:
            return True
        if self._truncated:
            if gathered or self._is_over():
                return False
            raise Thrown("IOException", "ZST-07")
        return self._next_block(frame)

    def _next_block(self, frame: Iterator[bytes]) -> bool:
        """Whether there is more to look at: a block, or the place where the data end."""
        try:
            self._block = next(frame)
        except StopIteration:
            self._frame, self._frame_end = None, self._at
            return False
        except EOFError:
            self._truncated = True
        except RecordFormatError as error:
            if error.rule != "ZST-07":
                raise Thrown("IOException", error.rule) from None
            self._truncated = True
        except zstandard.ZstdError:
            raise Thrown("IOException", "ZST-05") from None
        return True

    def _blocks(self) -> Iterator[bytes]:
        """The output of the frame at hand, and past it."""
        data, start = self._data, self._at
        if data[start + 1 : start + 4] == SKIPPABLE and data[start] & 0xF0 == 0x50:
            self._skip_frame(start)
            return
        if not data.startswith(MAGIC, start):
            raise EOFError if self._may_begin(data[start:]) else Thrown("IOException", "ZST-04")
        frame = read_frame_header(data, start)
        inflater = zstandard.ZstdDecompressor().decompressobj()
        yield inflater.decompress(data[start : frame.end])
        self._at, last = frame.end, False
        while not last:
            end, last = self._block_end(frame.block_size)
            block, self._at = data[self._at : end], end
            yield inflater.decompress(block)
            if end > len(data):
                raise EOFError
        if frame.checksum:
            yield inflater.decompress(self._piece(CHECKSUM))
            self._at += CHECKSUM

    def _skip_frame(self, start: int) -> None:
        """ZST-03; where nearly 4 GiB are missing, their number was taken for an error once."""
        size = int.from_bytes(self._data[start + 4 : start + SKIPPABLE_HEADER], "little")
        missing = size - (self._buffered() - start - SKIPPABLE_HEADER)
        if not self._skips_any_size and missing > UINT32_RANGE - MOST_ERRORS:
            raise Thrown("IOException", "ZST-07")
        self._at = skippable_end(self._data, start)

    def _may_begin(self, data: bytes) -> bool:
        """Whether a frame may still begin here, once there is more; old versions look at five bytes or none."""
        if not self._checks_prefix:
            return len(data) < STARTING_INPUT
        if len(data) >= len(MAGIC):
            return False
        return MAGIC.startswith(data) or (data[0] & 0xF0 == 0x50 and SKIPPABLE.startswith(data[1:]))

    def _block_end(self, block_size: int) -> tuple[int, bool]:
        """Where the block at hand ends, and whether it is the frame's last."""
        header = int.from_bytes(self._piece(BLOCK_HEADER), "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == RESERVED or size > block_size:
            raise Thrown("IOException", "ZST-05")
        whole = BLOCK_HEADER + (1 if kind == RLE else size)
        if kind != RAW:
            self._piece(whole)  # of a raw block, the bytes that are there are given
        return self._at + whole, bool(last)

    def _piece(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) < size:
            raise EOFError
        return piece
