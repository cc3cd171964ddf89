"""Decompression and checksums in pure Python, for the reference in a browser.

The reference takes these from compiled libraries, which a browser does not have.  Here is the part of each that
reading needs, under the same names; `install` puts it in the libraries' place.  zstd comes from Python 3.14's own
`compression.zstd`.  Nothing here compresses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

WORD: Final = 0xFFFFFFFF
# crc32c's polynomial, the lowest bit first.
CASTAGNOLI: Final = 0x82F63B78
PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


class UncompressError(Exception):
    """The snappy block is corrupt."""


class LZ4BlockError(RuntimeError):
    """The lz4 block is corrupt."""


class ZstdError(Exception):
    """The zstd frame is corrupt, or does not fit."""


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (CASTAGNOLI if value & 1 else 0)  # noqa: PLW2901  the register of a shift
        table.append(value)
    return tuple(table)


def castagnoli_crc(data: bytes | memoryview, value: int = 0) -> int:
    """The crc32c of *data*, continued from *value*."""
    table, crc = _crc_table(), value ^ WORD
    for byte in bytes(data):
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ WORD


def xxh32_digest(data: bytes) -> int:
    """The xxh32 of *data* with the seed 0."""
    at, end = 0, len(data)
    if end >= 16:
        lanes = [PRIME_1 + PRIME_2 & WORD, PRIME_2, 0, -PRIME_1 & WORD]
        while at + 16 <= end:
            for lane in range(4):
                lanes[lane] = _xxh32_round(lanes[lane], int.from_bytes(data[at : at + 4], "little"))
                at += 4
        digest = sum(_rotated(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & WORD
    else:
        digest = PRIME_5
    digest = digest + end & WORD
    while at + 4 <= end:
        word = int.from_bytes(data[at : at + 4], "little")
        digest = _rotated(digest + word * PRIME_3 & WORD, 17) * PRIME_4 & WORD
        at += 4
    for byte in data[at:]:
        digest = _rotated(digest + byte * PRIME_5 & WORD, 11) * PRIME_1 & WORD
    digest = (digest ^ digest >> 15) * PRIME_2 & WORD
    digest = (digest ^ digest >> 13) * PRIME_3 & WORD
    return digest ^ digest >> 16


def _xxh32_round(lane: int, word: int) -> int:
    return _rotated(lane + word * PRIME_2 & WORD, 13) * PRIME_1 & WORD


def _rotated(value: int, turn: int) -> int:
    return (value << turn | value >> 32 - turn) & WORD


def raw_lz4_block(block: bytes, uncompressed_size: int) -> bytes:
    """The output of one lz4 block, at most *uncompressed_size* bytes; it refuses what liblz4 refuses."""
    out, at, end = bytearray(), 0, len(block)
    while at < end:
        token, at = block[at], at + 1
        # liblz4 does not look at the rules of the end where a few literals are far from it.
        far = token >> 4 < 15 and at <= end - 17 and len(out) <= uncompressed_size - 32
        literals, at = _lz4_length(block, at, token >> 4, end - 16)
        after = at + literals
        if after > end or len(out) + literals > uncompressed_size:
            raise LZ4BlockError("literals do not fit")
        out += block[at:after]
        at = after
        if at == end:
            return bytes(out)
        # liblz4: matches start 12 bytes before the end of the output at the latest, and 5 literals follow the last.
        if not far and (at > end - 8 or len(out) > uncompressed_size - 12):
            raise LZ4BlockError("a match stands where the last literals have to be")
        offset, at = int.from_bytes(block[at : at + 2], "little"), at + 2
        length, at = _lz4_length(block, at, token & 15, end - 5)
        length += 4
        if not offset:
            raise LZ4BlockError("a match at offset 0")
        if offset > len(out) or len(out) + length > uncompressed_size - 5:
            raise LZ4BlockError("a match does not fit")
        _copy(out, offset, length)
    raise LZ4BlockError("the block ends without its last literals")


def _lz4_length(block: bytes, at: int, length: int, last: int) -> tuple[int, int]:
    """A length that may go on in further bytes, the last of which is at *last* at the latest."""
    if length < 15:
        return length, at
    while at <= last:
        byte, at = block[at], at + 1
        length += byte
        if byte != 255:
            return length, at
    raise LZ4BlockError("a length is cut short")


def _copy(out: bytearray, offset: int, length: int) -> None:
    """Repeat *length* bytes from *offset* before the end, which may overlap with what is written."""
    start = len(out) - offset
    chunk = bytes(out[start : start + length])
    out += (chunk * (length // len(chunk) + 1))[:length]


def raw_snappy_block(block: bytes) -> bytes:
    """The output of one raw snappy block."""
    size, at = _snappy_size(block)
    out = bytearray()
    for literal, offset, length in _snappy_elements(block, at):
        if len(out) + length > size:
            raise UncompressError("Error while decompressing: invalid data")
        if offset is None:
            out += literal
        elif 0 < offset <= len(out):
            _copy(out, offset, length)
        else:
            raise UncompressError("Error while decompressing: invalid data")
    if len(out) != size:
        raise UncompressError("Error while decompressing: invalid data")
    return bytes(out)


def _snappy_size(block: bytes) -> tuple[int, int]:
    size = 0
    for at, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80 and size <= WORD:
            return size, at + 1
    raise UncompressError("Error while decompressing: invalid data")


def _snappy_elements(block: bytes, at: int) -> Iterator[tuple[bytes, int | None, int]]:
    """Literals as (bytes, None, length), and copies as (b"", offset, length)."""
    while at < len(block):
        tag, at = block[at], at + 1
        kind, more = tag & 3, tag >> 2
        if kind == 0:
            width = max(0, more - 59)
            length = 1 + (int.from_bytes(_taken(block, at, width), "little") if width else more)
            at += width
            yield _taken(block, at, length), None, length
            at += length
        elif kind == 1:
            yield b"", tag >> 5 << 8 | _taken(block, at, 1)[0], 4 + (more & 7)
            at += 1
        else:
            width = 2 if kind == 2 else 4
            yield b"", int.from_bytes(_taken(block, at, width), "little"), more + 1
            at += width


def _taken(block: bytes, at: int, length: int) -> bytes:
    if at + length > len(block):
        raise UncompressError("Error while decompressing: invalid data")
    return block[at : at + length]


class ZstdDecompressor:
    """The part of `zstandard.ZstdDecompressor` that the reference uses, over `compression.zstd`."""

    def __init__(self) -> None:
        self._zstd: Any = import_module("compression.zstd")

    def decompress(self, frame: bytes, max_output_size: int = 0, allow_extra_data: bool = True) -> bytes:
        """The output of one frame of at most *max_output_size* bytes."""
        del allow_extra_data
        opened = self._zstd.ZstdDecompressor()
        try:
            # One byte more shows whether it fits.
            output: bytes = opened.decompress(frame, max_length=max_output_size + 1)
        except self._zstd.ZstdError as error:
            raise ZstdError(str(error)) from None
        if len(output) > max_output_size or not opened.eof:
            raise ZstdError("decompression error: did not decompress full frame")
        return output

    def stream_reader(self, frame: bytes) -> _OpenedFrame:
        """A reader of the frame."""
        return _OpenedFrame(self, frame)


class _OpenedFrame:
    def __init__(self, decompressor: ZstdDecompressor, frame: bytes) -> None:
        self._decompressor, self._frame = decompressor, frame

    def read(self, size: int) -> bytes:
        """The first *size* bytes of output."""
        return self._decompressor.decompress(self._frame, max_output_size=MOST_OF_EMPTY)[:size]


# A frame that claims to be empty may hold a few bytes, which makes it corrupt.
MOST_OF_EMPTY: Final = 128 * 1024


def _content_size(frame: bytes) -> int:
    """The content size in the header of a frame; -1 if it has none."""
    size: int | None = import_module("compression.zstd").get_frame_info(frame).decompressed_size
    return -1 if size is None else size


def install() -> None:
    """Put these functions in the place of the libraries; only where the libraries are not installed."""
    lz4, block = ModuleType("lz4"), ModuleType("lz4.block")
    block.__dict__.update(LZ4BlockError=LZ4BlockError, decompress=raw_lz4_block)
    lz4.__dict__.update(block=block)
    modules = {"lz4": lz4, "lz4.block": block}
    libraries: dict[str, dict[str, Any]] = {
        "snappy": {"UncompressError": UncompressError, "uncompress": raw_snappy_block},
        "xxhash": {"xxh32_intdigest": xxh32_digest},
        "crc32c": {"crc32c": castagnoli_crc},
        "zstandard": {
            "ZstdError": ZstdError,
            "ZstdDecompressor": ZstdDecompressor,
            "frame_content_size": _content_size,
        },
    }
    for name, contents in libraries.items():
        modules[name] = ModuleType(name)
        vars(modules[name]).update(contents)
    sys.modules.update(modules)
