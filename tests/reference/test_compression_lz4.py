"""LZ4 frames made by hand, read as Kafka's Lz4BlockInputStream reads them."""

import time

import lz4.block
import lz4.frame
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.decompressing import Stream

from kafka_records.compression import compress

MOST = 10_000_000
MAGIC = bytes.fromhex("04224d18")
END_MARK = bytes(4)


def header(flg: int = 0x60, bd: int = 0x40, *, between: bytes = b"", covered: bytes = b"") -> bytes:
    """A frame header; its checksum covers *covered* as well, in front."""
    descriptor = bytes((flg, bd)) + between
    return MAGIC + descriptor + bytes((xxhash.xxh32_intdigest(covered + descriptor) >> 8 & 0xFF,))


def stored(data: bytes, checksum: bytes = b"") -> bytes:
    """A stored block."""
    return (len(data) | 0x80000000).to_bytes(4, "little") + data + checksum


def packed(data: bytes) -> bytes:
    """A compressed block."""
    block: bytes = lz4.block.compress(data, store_size=False)
    return len(block).to_bytes(4, "little") + block


STREAM = Stream("lz4", MOST)
plain, kind_of, refusal = STREAM.plain, STREAM.kind_of, STREAM.refusal


def test_blocks_are_one_stream() -> None:
    """Stored and compressed blocks follow one another (LZ4-11)."""
    assert plain(header() + stored(b"one") + packed(bytes(60000)) + stored(b"two") + END_MARK) == (
        b"one" + bytes(60000) + b"two"
    )


@pytest.mark.parametrize("start", ["02214c18", "184d2204", "502a4d18", "00000000"])
def test_other_magics_are_refused(start: str) -> None:
    """Legacy frames, skippable frames and a magic the wrong way round are refused (LZ4-01, CMP-06)."""
    data = bytes.fromhex(start) + header()[4:] + stored(b"one") + END_MARK
    assert refusal(data) == ("decompression", "LZ4-01", 0)


@pytest.mark.parametrize("flg", [0x20, 0xA0, 0xE0, 0x61, 0x62])
def test_version_and_reserved_bits(flg: int) -> None:
    """Only version 1, no reserved bit, and no dictionary (LZ4-02)."""
    assert refusal(header(flg) + END_MARK) == ("decompression", "LZ4-02", 4)


def test_linked_blocks_are_refused() -> None:
    """Blocks have to be independent; the library's own default is refused (LZ4-03)."""
    assert refusal(header(0x40) + END_MARK) == ("decompression", "LZ4-03", 4)
    assert refusal(lz4.frame.compress(bytes(200_000)))[1] == "LZ4-03"
    assert plain(lz4.frame.compress(bytes(200_000), block_linked=False)) == bytes(200_000)


@pytest.mark.parametrize("bd", [0x00, 0x30, 0x41, 0x48, 0x80, 0xC0])
def test_block_size_codes(bd: int) -> None:
    """Codes below 4 and reserved bits are refused (LZ4-04)."""
    assert refusal(header(bd=bd) + END_MARK) == ("decompression", "LZ4-04", 5)


@pytest.mark.parametrize(("bd", "size"), [(0x40, 1 << 16), (0x50, 1 << 18), (0x60, 1 << 20), (0x70, 1 << 22)])
def test_a_block_may_be_as_large_as_the_header_says(bd: int, size: int) -> None:
    """Blocks of that size are taken, larger ones refused, stored and compressed (LZ4-11)."""
    for block in (stored, packed):
        assert plain(header(bd=bd) + block(bytes(size)) + END_MARK) == bytes(size)
        assert refusal(header(bd=bd) + block(bytes(size + 1)) + END_MARK)[:2] == ("decompression", "LZ4-11")


def test_the_header_checksum() -> None:
    """It is verified in v1 and v2, and covers all of the descriptor (LZ4-05)."""
    good = header(0x68, between=bytes(8)) + stored(b"one") + END_MARK
    wrong = good[:14] + bytes((good[14] ^ 1,)) + good[15:]
    for magic in (1, 2):
        assert plain(good, magic=magic) == b"one"
        assert refusal(wrong, magic=magic) == ("decompression", "LZ4-05", 14)
    assert plain(wrong, magic=0) == b"one"


def test_the_checksum_of_v0() -> None:
    """In v0 it covers the magic as well; readers take any there, and v1 and v2 refuse it (LZ4-06, LZ4-07)."""
    broken = header(covered=MAGIC)
    assert (header()[-1], broken[-1]) == (0x82, 0x1A)
    assert plain(broken + stored(b"one") + END_MARK, magic=0) == b"one"
    for magic in (1, 2):
        assert refusal(broken + stored(b"one") + END_MARK, magic=magic) == ("decompression", "LZ4-05", 6)


@pytest.mark.parametrize("claimed", [0, 3, 2**64 - 1])
def test_the_content_size_is_skipped(claimed: int) -> None:
    """Eight bytes that are ignored (LZ4-08)."""
    assert plain(header(0x68, between=claimed.to_bytes(8, "little")) + stored(b"one") + END_MARK) == b"one"


def test_the_content_checksum_is_not_verified() -> None:
    """Four bytes have to be there, whatever they say (LZ4-09)."""
    data = header(0x64) + stored(b"one") + END_MARK
    assert plain(data + b"any!") == b"one"
    for cut in range(4):
        assert refusal(data + b"any"[:cut]) == ("decompression", "LZ4-09", len(data))


def test_block_checksums_are_verified() -> None:
    """They cover the bytes of the block as stored (LZ4-10)."""
    check = xxhash.xxh32_intdigest(b"one").to_bytes(4, "little")
    assert plain(header(0x70) + stored(b"one", check) + END_MARK) == b"one"
    assert refusal(header(0x70) + stored(b"two", check) + END_MARK) == ("decompression", "LZ4-10", 14)
    assert refusal(header(0x70) + stored(b"one", check[:3]))[:2] == ("decompression", "LZ4-10")
    block = packed(bytes(1000))
    check = xxhash.xxh32_intdigest(block[4:]).to_bytes(4, "little")
    assert plain(header(0x70) + block + check + END_MARK) == bytes(1000)


def test_the_end_mark_has_to_be_there() -> None:
    """A stream that ends early is refused, at any byte (LZ4-12, LZ4-18, CMP-08)."""
    data = header() + stored(b"one") + packed(bytes(1000)) + END_MARK
    for cut in range(len(data)):
        kind, rule, offset = refusal(data[:cut])
        assert (kind, rule) == ("decompression", "LZ4-18" if cut < 7 else "LZ4-12")
        assert offset <= cut


@pytest.mark.parametrize("cut", range(15))
def test_a_header_with_a_content_size_is_cut(cut: int) -> None:
    """The longer header has to be whole, in v0 too (LZ4-18)."""
    for magic in (0, 2):
        assert refusal(header(0x68, between=bytes(8))[:cut], magic=magic)[:2] == ("decompression", "LZ4-18")


def test_a_stored_block_of_no_bytes_is_an_end_mark() -> None:
    """Bytes after 0x80000000 are not looked at (LZ4-13)."""
    assert plain(header() + stored(b"one") + stored(b"") + stored(b"two") + END_MARK) == b"one"


@pytest.mark.parametrize(
    "rest", [b"?", bytes(100), header() + stored(b"two") + END_MARK], ids=["byte", "zeros", "frame"]
)
def test_what_follows_the_end_is_ignored(rest: bytes) -> None:
    """Garbage is tolerated, and a second frame is not read (LZ4-14)."""
    assert plain(header() + stored(b"one") + END_MARK + rest) == b"one"


def test_a_block_without_output_is_the_end_of_the_data() -> None:
    """A compressed block that gives nothing ends what consumers see (LZ4-15)."""
    empty = (1).to_bytes(4, "little") + b"\0"
    assert plain(header() + stored(b"one") + empty + stored(b"two") + END_MARK) == b"one"


@pytest.mark.parametrize(
    "block",
    [b"\x10", b"\xf0", b"\x00\x00\x00", b"\x10a\x05\x00", b"\xff" * 30],
    ids=["no-literal", "no-length", "no-offset", "offset-before-start", "endless"],
)
def test_blocks_that_contradict_themselves(block: bytes) -> None:
    """A broken block is refused where it starts."""
    data = header() + len(block).to_bytes(4, "little") + block + END_MARK
    assert refusal(data) == ("decompression", "LZ4-11", 11)


def test_the_writer_is_javas() -> None:
    """Blocks of 64 KiB, independent, no checksums, stored when they would not shrink (LZ4-16, LZ4-06)."""
    noise = bytes(xxhash.xxh32_intdigest(b"%d" % at) & 0xFF for at in range(1000))
    data = bytes(65536) + noise
    for magic, check in ((0, "1a"), (1, "82"), (2, "82")):
        written = compress("lz4", data, magic=magic)
        assert written[:7].hex() == "04224d186040" + check
        size = int.from_bytes(written[7:11], "little")
        assert lz4.block.decompress(written[11 : 11 + size], uncompressed_size=65536) == bytes(65536)
        assert written[11 + size :] == stored(noise) + END_MARK
        assert plain(written, magic=magic) == data
    assert compress("lz4", b"", magic=2) == header() + END_MARK


def test_output_is_bounded() -> None:
    """Exactly as much as is allowed comes out, and not a byte more (CMP-10)."""
    data = header() + packed(bytes(1000)) + stored(bytes(1000)) + END_MARK
    assert plain(data, 2000) == bytes(2000)
    for most in (1999, 1000, 999, 0):
        assert refusal(data, most)[:2] == ("limit", "CMP-10")


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_taken(data: bytes) -> None:
    """Any bytes after a right header give output or our own error, and no other exception."""
    for start in (b"", MAGIC, header(), header(0x78, between=bytes(8)), header() + len(data).to_bytes(4, "little")):
        assert kind_of(start + data) in {"", "decompression"}


def test_many_blocks_take_time_in_proportion() -> None:
    """A hundred thousand blocks of one byte each are read in a moment."""
    block = (2).to_bytes(4, "little") + b"\x10a"
    start = time.process_time()
    assert plain(header(bd=0x70) + block * 100_000 + END_MARK) == b"a" * 100_000
    assert time.process_time() - start < 4
