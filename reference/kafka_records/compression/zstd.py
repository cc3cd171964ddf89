"""Zstandard frames (RFC 8878) as zstd-jni's input stream reads them.

Frames and skippable frames follow one another as one stream (ZST-02, ZST-03);
any other byte after them is an error (ZST-04).  We read the frame and block
headers ourselves to bound the output before anything is allocated.
"""

from __future__ import annotations

from typing import NamedTuple

import zstandard

from kafka_records.compression.common import Output, over_limit, refused

MAGIC = bytes.fromhex("28b52ffd")  # 0xFD2FB528, little-endian
SKIPPABLE = bytes.fromhex("2a4d18")  # 0x184D2A5?, without its lowest byte
# ZST-08: ZSTD_WINDOWLOG_LIMIT_DEFAULT, and one byte as in ZSTD_MAXWINDOWSIZE_DEFAULT.
MAX_WINDOW_SIZE = (1 << 27) + 1
# ZSTD_WINDOWLOG_MAX: a header with a larger window is none.
MAX_WINDOW_LOG = 31
MAX_BLOCK_SIZE = 128 * 1024
CONTENT_SIZE_BYTES = (0, 2, 4, 8)
DICTIONARY_ID_BYTES = (0, 1, 2, 4)
LEVEL = 3  # ZST-10
# How the library says that the output did not fit; the frame itself is all there.
FULL = ("did not decompress full frame", "Destination buffer is too small")


class Frame(NamedTuple):
    """Fields of a frame header; *content_size* is None when it is absent, *block_size* is the most."""

    content_size: int | None
    checksum: bool
    block_size: int
    end: int


def decompress(data: bytes, most: int) -> bytes:
    """The output of all frames, one after the other."""
    output = Output(most)
    at = 0
    while at < len(data):
        if data[at + 1 : at + 4] == SKIPPABLE and data[at] & 0xF0 == 0x50:
            at = skippable_end(data, at)
        elif data.startswith(MAGIC, at):
            at = add_frame(data, at, output)
        else:
            raise refused("not a zstd frame", at, "ZST-04" if at else "CMP-06")
    return bytes(output.data)


def skippable_end(data: bytes, at: int) -> int:
    """Where a skippable frame ends (ZST-03)."""
    size = int.from_bytes(data[at + 4 : at + 8], "little")
    if at + 8 + size > len(data):
        raise refused("the zstd skippable frame is cut short", at, "ZST-07")
    return at + 8 + size


def add_frame(data: bytes, at: int, output: Output) -> int:
    """Add the output of the frame at *at*; return where the frame ends."""
    frame = read_frame_header(data, at)
    bound, end = blocks_end(data, frame.end, frame.block_size)
    end += 4 if frame.checksum else 0
    if end > len(data):
        raise refused("the zstd frame is cut short", len(data), "ZST-07")
    content_size = bound if frame.content_size is None else frame.content_size
    if content_size > bound:
        raise refused(f"the zstd frame claims {content_size} bytes, its blocks hold at most {bound}", at, "ZST-06")
    if frame.content_size is not None and content_size > output.room:
        raise over_limit(output.most, at)
    # One byte more than there is room for distinguishes "full" from "too much".
    cap = min(bound, output.room + 1)
    try:
        output.add(inflate_frame(data[at:end], cap), at)
    except zstandard.ZstdError as error:
        if cap < bound and any(sign in str(error) for sign in FULL):
            raise over_limit(output.most, at) from None
        raise refused(f"corrupt zstd frame: {error}", at, "ZST-05") from None
    return end


def read_frame_header(data: bytes, at: int, most_window: int = MAX_WINDOW_SIZE) -> Frame:
    """The frame header at *at* (ZST-06, ZST-08, ZST-09); no window may be larger than *most_window*."""
    descriptor = data[at + 4] if at + 4 < len(data) else 0
    single_segment = bool(descriptor & 0x20)
    window_at = at + 5
    dictionary_at = window_at + (not single_segment)
    size_at = dictionary_at + DICTIONARY_ID_BYTES[descriptor & 3]
    size_bytes = CONTENT_SIZE_BYTES[descriptor >> 6] or int(single_segment)
    end = size_at + size_bytes
    if end > len(data):
        raise refused("the zstd frame header is cut short", len(data), "ZST-07")
    if descriptor & 0x08:
        raise refused("a reserved bit of the zstd frame header is set", at + 4, "ZST-09")
    if any(data[dictionary_at:size_at]):
        raise refused("the zstd frame needs a dictionary", dictionary_at, "ZST-09")
    # RFC 8878, 3.1.1.1.4: a field of two bytes counts from 256.
    content_size = int.from_bytes(data[size_at:end], "little") + (256 if size_bytes == 2 else 0)
    window = content_size if single_segment else window_size(data[window_at])
    if window > most_window:
        raise refused(f"the zstd window of {window} bytes is too large", window_at, "ZST-08")
    # RFC 8878, 3.1.1.2.4: a block is not larger than the window.
    return Frame(content_size if size_bytes else None, bool(descriptor & 0x04), min(window, MAX_BLOCK_SIZE), end)


def window_size(descriptor: int) -> int:
    """Exponent in the upper five bits, eighths in the lower three."""
    base = 1 << (10 + (descriptor >> 3))
    return base + base // 8 * (descriptor & 7)


def blocks_end(data: bytes, at: int, block_size: int) -> tuple[int, int]:
    """The most output that the blocks from *at* can give, and where they end."""
    bound = 0
    while True:
        header = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if size > block_size:
            raise refused(f"a zstd block of {size} bytes, the most is {block_size}", at, "ZST-05")
        at += 3 + (1 if kind == 1 else size)  # RLE repeats one byte
        if at > len(data) or kind == 3:
            raise refused("a zstd block is cut short or of reserved type", min(at, len(data)), "ZST-07")
        bound += block_size if kind == 2 else size
        if last:
            return bound, at


def inflate_frame(frame: bytes, cap: int) -> bytes:
    """The output of one whole frame, at most *cap* bytes."""
    decompressor = zstandard.ZstdDecompressor()
    if cap == 0 or zstandard.frame_content_size(frame) == 0:
        # The one-shot call answers for such a frame without reading it.
        return decompressor.stream_reader(frame).read(1)
    return decompressor.decompress(frame, max_output_size=cap, allow_extra_data=False)


def compress(data: bytes) -> bytes:
    """One frame at level 3 that says neither its size nor a checksum (ZST-10)."""
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=False, write_checksum=False).compress(data)
