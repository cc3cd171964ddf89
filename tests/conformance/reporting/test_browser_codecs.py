"""Decompression and checksums in pure Python against the libraries in whose place they stand."""

from collections.abc import Callable

import crc32c
import lz4.block
import pytest
import snappy
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_conformance.reports import browser_codecs
from kafka_conformance.reports.browser_codecs import LZ4BlockError, UncompressError

# Bytes that compress: words of few letters, repeated.
texts = st.builds(
    lambda parts, times: b"".join(parts) * times, st.lists(st.binary(max_size=9), max_size=40), st.integers(0, 4)
)
changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)
LZ4_MOST = 65536


def damaged(data: bytes, changed: list[tuple[int, int]], cut: int) -> bytes:
    """The data with some bytes changed, and without its end."""
    made = bytearray(data)
    for at, value in changed:
        if made:
            made[at % len(made)] = value
    return bytes(made[: len(made) - cut] if cut else made)


def outcome(call: Callable[[], bytes], *refusals: type[Exception]) -> bytes | None:
    """The output, or None if it is refused."""
    try:
        return call()
    except refusals:
        return None


@given(texts)
@example(b"")
@example(b"123456789")
def test_checksums(data: bytes) -> None:
    """crc32c and xxh32 are those of the libraries."""
    assert browser_codecs.castagnoli_crc(data) == crc32c.crc32c(data)
    assert browser_codecs.xxh32_digest(data) == xxhash.xxh32_intdigest(data)


def test_known_checksums() -> None:
    """The published check values."""
    assert browser_codecs.castagnoli_crc(b"123456789") == 0xE3069283
    assert browser_codecs.xxh32_digest(b"") == 0x02CC5D05


@given(texts)
def test_whole_blocks(data: bytes) -> None:
    """Blocks of the libraries' writers give their data."""
    assert browser_codecs.raw_lz4_block(lz4.block.compress(data, store_size=False), LZ4_MOST) == data
    assert browser_codecs.raw_snappy_block(snappy.compress(data)) == data


@given(texts, changes, st.integers(0, 3))
def test_damaged_snappy(data: bytes, changed: list[tuple[int, int]], cut: int) -> None:
    """A damaged snappy block has the outcome that the library gives."""
    block = damaged(snappy.compress(data), changed, cut)
    if len(block) > 4 and block[4] & 0x80 and block[0] & 0x80:
        return  # a size beyond any memory
    expected = outcome(lambda: bytes(snappy.uncompress(block)), snappy.UncompressError)
    assert outcome(lambda: browser_codecs.raw_snappy_block(block), UncompressError) == expected


@given(texts, changes, st.integers(0, 3))
def test_damaged_lz4(data: bytes, changed: list[tuple[int, int]], cut: int) -> None:
    """A damaged lz4 block has the outcome of the library, which alone takes a match at offset 0."""
    block = damaged(lz4.block.compress(data, store_size=False), changed, cut)
    try:
        found: bytes | None = browser_codecs.raw_lz4_block(block, LZ4_MOST)
    except LZ4BlockError as error:
        if "offset 0" in str(error):
            return
        found = None
    expected = outcome(lambda: bytes(lz4.block.decompress(block, uncompressed_size=LZ4_MOST)), lz4.block.LZ4BlockError)
    assert found == expected


@pytest.mark.parametrize("block", [b"", b"\xff" * 6, b"\x05\x00", b"\x01\x04", b"\x0a\x01\x00"])
def test_broken_snappy(block: bytes) -> None:
    """No broken block gives anything but the library's error."""
    with pytest.raises(UncompressError):
        browser_codecs.raw_snappy_block(block)
