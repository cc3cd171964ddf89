"""Zstandard frames made by hand, read as zstd-jni's stream reads them."""

import time

import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.decompressing import Stream

from kafka_records.compression import compress

MOST = 10_000_000
MAGIC = bytes.fromhex("28b52ffd")
SKIPPABLE = bytes.fromhex("502a4d18")


def block(kind: int, size: int, content: bytes, *, last: bool = True) -> bytes:
    """A block: kind 0 raw, 1 RLE, 2 compressed, 3 reserved."""
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + content


def raw(data: bytes, *, last: bool = True) -> bytes:
    """A raw block."""
    return block(0, len(data), data, last=last)


def frame(*blocks: bytes, size: int | None = None, window: int = 0x58, check: bytes = b"", flags: int = 0) -> bytes:
    """A frame; with *size* it says its content size in 8 bytes, *check* is the checksum at its end."""
    descriptor = flags | (0x04 if check else 0) | (0xC0 if size is not None else 0)
    content_size = b"" if size is None else size.to_bytes(8, "little")
    return MAGIC + bytes((descriptor, window)) + content_size + b"".join(blocks) + check


def skippable(data: bytes, nibble: int = 0) -> bytes:
    """A skippable frame."""
    return bytes((0x50 | nibble,)) + SKIPPABLE[1:] + len(data).to_bytes(4, "little") + data


def checksum(data: bytes) -> bytes:
    """The lower half of xxh64."""
    return (xxhash.xxh64_intdigest(data) & 0xFFFFFFFF).to_bytes(4, "little")


STREAM = Stream("zstd", MOST)
plain, kind_of, refusal = STREAM.plain, STREAM.kind_of, STREAM.refusal


def test_blocks_are_one_stream() -> None:
    """Raw, RLE and empty blocks follow one another."""
    blocks = (raw(b"one", last=False), raw(b"", last=False), block(1, 5, b"?", last=False), raw(b"two"))
    assert plain(frame(*blocks)) == b"one?????two"


def test_frames_are_one_stream() -> None:
    """Frames follow one another, empty ones too (ZST-02)."""
    assert plain(frame(raw(b"")) + frame(raw(b"one")) + frame(raw(b""), size=0) + frame(raw(b"two"))) == b"onetwo"


@pytest.mark.parametrize("nibble", range(16))
def test_skippable_frames_are_skipped(nibble: int) -> None:
    """Sixteen magics are skipped, before and after (ZST-03)."""
    skip = skippable(b"anything", nibble) + skippable(b"")
    assert plain(skip + frame(raw(b"one")) + skip + frame(raw(b"two")) + skip) == b"onetwo"


def test_nothing_but_skippable_frames() -> None:
    """A stream may hold nothing, and even be nothing (CMP-08)."""
    assert plain(skippable(b"x")) == plain(b"") == b""


@pytest.mark.parametrize("rest", [b"\0", b"?", MAGIC[:3], bytes(100), b"\x4f" + SKIPPABLE[1:] + bytes(4)])
def test_any_other_byte_after_a_frame_is_an_error(rest: bytes) -> None:
    """Bytes that are no frame are refused after one (ZST-04), and in front (CMP-06)."""
    data = frame(raw(b"one"))
    assert refusal(data + rest) == ("decompression", "ZST-04", len(data))
    assert refusal(rest + data) == ("decompression", "CMP-06", 0)


def test_the_checksum_is_verified() -> None:
    """A checksum that is there has to be right, in an empty frame too (ZST-05)."""
    for data in (b"one", b""):
        for size in (None, len(data)):
            assert plain(frame(raw(data), check=checksum(data), size=size)) == data
            assert refusal(frame(raw(data), check=b"\0\0\0\0", size=size)) == ("decompression", "ZST-05", 0)


@pytest.mark.parametrize("size", [0, 1, 2, 4, 131072])
def test_the_content_size_is_verified(size: int) -> None:
    """A content size that is there has to be right, 0 as well (ZST-06)."""
    assert refusal(frame(raw(b"one"), size=size))[0] == "decompression"
    assert refusal(frame(block(1, 3, b"?"), size=size))[0] == "decompression"
    assert plain(frame(raw(b"one"), size=3)) == plain(frame(raw(b"one"))) == b"one"


@pytest.mark.parametrize(
    ("code", "width", "size"), [(0, 1, 200), (1, 2, 256), (1, 2, 300), (2, 4, 70000), (3, 8, 70000)]
)
def test_content_sizes_of_every_width(code: int, width: int, size: int) -> None:
    """One, two, four or eight bytes; two count from 256 (RFC 8878, 3.1.1.1.4)."""
    field = (size - 256 * (width == 2)).to_bytes(width, "little")
    head = MAGIC + bytes((code << 6 | 0x20,)) + field
    assert plain(head + block(1, size, b"?")) == b"?" * size
    assert refusal(head + block(1, size - 1, b"?"))[0] == "decompression"


def test_every_cut_is_refused() -> None:
    """A frame that ends early is refused at any byte (ZST-07)."""
    data = b"some text, " * 20
    for whole in (
        frame(raw(b"one", last=False), raw(data), size=3 + len(data), check=checksum(b"one" + data)),
        zstandard.ZstdCompressor(write_checksum=True).compress(data),
        skippable(b"skipped"),
    ):
        for cut in range(1, len(whole)):
            kind, rule, offset = refusal(whole[:cut])
            assert (kind, rule) == ("decompression", "ZST-07" if cut > 3 else "CMP-06"), cut
            assert offset <= cut


def test_a_reserved_block_is_refused() -> None:
    """There is no fourth kind of block (ZST-07)."""
    assert refusal(frame(block(3, 3, b"one")))[:2] == ("decompression", "ZST-07")


@pytest.mark.parametrize("window", [0x00, 0x07, 0x58, 0x87, 0x88])
def test_windows_up_to_128_mib(window: int) -> None:
    """Window logs up to 27 are taken (ZST-08)."""
    assert plain(frame(raw(b"one"), window=window)) == b"one"


@pytest.mark.parametrize("window", [0x89, 0x90, 0xF8, 0xFF])
def test_windows_above_128_mib(window: int) -> None:
    """Anything above a window log of 27 is refused, however little there is in it (ZST-08)."""
    assert refusal(frame(raw(b"one"), window=window)) == ("decompression", "ZST-08", 5)


def test_a_single_segment_is_its_own_window() -> None:
    """A frame in one segment that claims more than 128 MiB is refused (ZST-08)."""
    for size in (2**27 + 2, 2**63):
        data = MAGIC + b"\xe0" + size.to_bytes(8, "little") + raw(b"one")
        assert refusal(data) == ("decompression", "ZST-08", 5)


@pytest.mark.parametrize(("code", "width"), [(1, 1), (2, 2), (3, 4)])
def test_dictionaries_are_refused(code: int, width: int) -> None:
    """A frame that names a dictionary is refused, id 0 names none (ZST-09)."""
    head = MAGIC + bytes((code, 0x58))
    assert plain(head + bytes(width) + raw(b"one")) == b"one"
    assert refusal(head + b"\x07" + bytes(width - 1) + raw(b"one")) == ("decompression", "ZST-09", 6)


def test_magicless_frames_are_refused() -> None:
    """A frame starts with its magic (ZST-09)."""
    assert refusal(frame(raw(b"one"))[4:]) == ("decompression", "CMP-06", 0)


def test_the_reserved_bit_is_refused() -> None:
    """A bit kept for later means a later version (ZST-09)."""
    assert refusal(frame(raw(b"one"), flags=0x08)) == ("decompression", "ZST-09", 4)
    assert plain(frame(raw(b"one"), flags=0x10)) == b"one"


def test_a_compressed_block_of_no_bytes_is_empty() -> None:
    """Streams, ours and zstd-jni's, skip it (ZSTD_decompressContinue)."""
    assert plain(frame(raw(b"one", last=False), block(2, 0, b""))) == b"one"


@pytest.mark.parametrize("content", [b"\0", b"\xff" * 20])
def test_blocks_that_contradict_themselves(content: bytes) -> None:
    """A broken compressed block is refused by the library."""
    assert refusal(frame(block(2, len(content), content)))[:2] == ("decompression", "ZST-05")


@given(st.binary(max_size=200) | st.integers(0, 300_000).map(bytes))
def test_the_writer_says_neither_size_nor_checksum(data: bytes) -> None:
    """Any zstd reads it, and the header's flags are those of the Java client (ZST-10)."""
    written = compress("zstd", data, magic=2)
    assert (written[:4], written[4] & 0xC4) == (MAGIC, 0)
    assert zstandard.ZstdDecompressor().decompressobj().decompress(written) == plain(written) == data


def test_output_is_bounded() -> None:
    """Exactly as much as is allowed comes out, and not a byte more (CMP-10)."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1000))
    for one in (packed, frame(block(1, 1000, b"\0")), frame(block(1, 1000, b"\0"), size=1000), frame(raw(bytes(1000)))):
        assert plain(one + one, 2000) == bytes(2000)
        for most in (1999, 1000, 999, 1, 0):
            assert refusal(one + one, most)[:2] == ("limit", "CMP-10"), most
    assert plain(frame(raw(b"")), 0) == b""


def test_a_claimed_size_is_not_believed() -> None:
    """A content size that the blocks cannot hold is refused before anything is allocated (ZST-06)."""
    assert refusal(frame(raw(b"one"), size=2**62), 2**62)[:2] == ("decompression", "ZST-06")
    # A block gives 128 KiB at most, so two of them cannot give more than twice that.
    blocks = block(1, 131072, b"?", last=False) + block(1, 131072, b"?")
    assert plain(frame(blocks, size=262144)) == b"?" * 262144
    assert refusal(frame(blocks, size=262145))[:2] == ("decompression", "ZST-06")


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_taken(data: bytes) -> None:
    """Any bytes after a right header give output or our own error, and no other exception."""
    for start in (b"", MAGIC, MAGIC + b"\x00\x58", MAGIC + b"\xe4", frame(block(2, len(data), b""))):
        assert kind_of(start + data) in {"", "decompression", "limit"}


def test_many_frames_take_time_in_proportion() -> None:
    """Fifty thousand frames of one byte each are read in a moment."""
    start = time.process_time()
    assert plain(frame(raw(b"a")) * 50_000) == b"a" * 50_000
    assert time.process_time() - start < 4
