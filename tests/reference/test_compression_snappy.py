"""snappy blocks made by hand, in xerial framing and raw."""

import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.decompressing import Stream

from kafka_records.compression import compress
from kafka_records.varint import encode_unsigned

MOST = 1_000_000
MAGIC = b"\x82SNAPPY\0"


def literal(data: bytes, claimed: int | None = None) -> bytes:
    """A raw block that holds *data* as one literal of at most 60 bytes."""
    element = bytes(((len(data) - 1) << 2,)) + data if data else b""
    return encode_unsigned(len(data) if claimed is None else claimed) + element


def header(version: int = 1, compatible: int = 1) -> bytes:
    """A xerial stream header."""
    return MAGIC + version.to_bytes(4, "big", signed=True) + compatible.to_bytes(4, "big", signed=True)


def framed(*blocks: bytes) -> bytes:
    """Blocks with their lengths."""
    return b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


STREAM = Stream("snappy", MOST)
plain, kind_of, refusal = STREAM.plain, STREAM.kind_of, STREAM.refusal


def test_the_writer_is_javas() -> None:
    """A header of version 1 and blocks of 32 KiB each (SNP-01)."""
    data = bytes(range(256)) * 300
    written = compress("snappy", data, magic=2)
    assert written[:16] == header()
    blocks, at = [], 16
    while at < len(written):
        size = int.from_bytes(written[at : at + 4], "big")
        blocks.append(snappy.uncompress(written[at + 4 : at + 4 + size]))
        at += 4 + size
    assert [len(block) for block in blocks] == [32768, 32768, 76800 - 65536]
    assert b"".join(blocks) == plain(written) == data


@pytest.mark.parametrize("text", [b"", b"a", b"raw and longer than a header"])
def test_one_raw_block(text: bytes) -> None:
    """Without the magic the whole payload is one raw block (SNP-02)."""
    assert plain(literal(text)) == text


def test_a_short_payload_is_raw_whatever_it_starts_with() -> None:
    """Fewer than 16 bytes are never a xerial stream (SNP-02)."""
    assert refusal(header()[:15])[:2] == ("decompression", "SNP-02")


@pytest.mark.parametrize("versions", [(0, 0), (-1, -1), (999, 999), (1, 2)])
def test_the_first_versions_are_not_looked_at(versions: tuple[int, int]) -> None:
    """Only the magic of the first header counts (SNP-03)."""
    assert plain(header(*versions) + framed(literal(b"one"))) == b"one"


def test_a_header_may_come_again() -> None:
    """Streams can be put end to end (SNP-04)."""
    stream = header() + framed(literal(b"one"), literal(b"two"))
    assert plain(stream + stream) == b"onetwoonetwo"
    assert plain(stream + header(7, 0)) == b"onetwo"
    assert plain(header() + header() + stream) == b"onetwo"


@pytest.mark.parametrize("version", [0, -1])
def test_a_header_that_comes_again_has_a_version(version: int) -> None:
    """There the version has to be 1 at least (SNP-04)."""
    stream = header() + framed(literal(b"one"))
    assert refusal(stream + header(version)) == ("decompression", "SNP-04", len(stream))


def test_a_header_that_comes_again_is_whole() -> None:
    """A repeated header that is cut short is refused (SNP-04)."""
    stream = header() + framed(literal(b"one"))
    for cut in range(4, 16):
        assert refusal(stream + header()[:cut]) == ("decompression", "SNP-04", len(stream))


def test_half_a_header_is_passed_over() -> None:
    """16 bytes with half a magic end one read of Java's; a read that gives nothing ends the stream (SNP-04)."""
    one, two = framed(literal(b"one")), framed(literal(b"two"))
    half = MAGIC[:4] + bytes(12)
    assert plain(header() + one + half + two) == b"onetwo"
    assert plain(header() + one + half + two + half) == b"onetwo"
    assert plain(header() + one + half + header() + two) == b"onetwo"
    assert plain(header() + one + half + half + two) == b"one"
    assert plain(header() + one + half + framed(literal(b"")) + half + b"no snappy") == b"one"
    assert plain(header() + half + one) == b""


def test_lengths_are_big_endian() -> None:
    """A little-endian length is a block that is not there (SNP-05, SNP-08)."""
    block = literal(b"one")
    assert refusal(header() + len(block).to_bytes(4, "little") + block) == ("decompression", "SNP-08", 16)


@pytest.mark.parametrize("size", [-1, -(2**31), 512 * 2**20 + 1, 2**31 - 1])
def test_lengths_that_cannot_be(size: int) -> None:
    """Negative lengths and those above 512 MiB are refused by name (SNP-06)."""
    data = header() + size.to_bytes(4, "big", signed=True) + bytes(20)
    assert refusal(data) == ("decompression", "SNP-06", 16)


def test_a_block_of_no_bytes() -> None:
    """A zero length is no block, but a block may hold zero bytes (SNP-07)."""
    assert refusal(header() + framed(b"", literal(b"one"))) == ("decompression", "SNP-07", 20)
    assert plain(header() + framed(literal(b""), literal(b"one"))) == b"one"


def test_a_short_last_block() -> None:
    """A block of fewer bytes than its length is refused (SNP-08)."""
    data = header() + framed(literal(b"one"), literal(b"two"))
    for cut in range(1, 6):
        assert refusal(data[:-cut]) == ("decompression", "SNP-08", 25)


@pytest.mark.parametrize("stray", [b"\0", b"?!", bytes(3)])
def test_stray_bytes_at_the_end(stray: bytes) -> None:
    """One to three bytes after the last block are ignored, four zero bytes are a block (SNP-09)."""
    data = header() + framed(literal(b"one"))
    assert plain(data + stray) == b"one"
    assert refusal(data + bytes(4))[:2] == ("decompression", "SNP-07")


def test_snappys_own_framing_is_refused() -> None:
    """The framing format of snappy's specification is not Kafka's (SNP-10)."""
    compressor = snappy.StreamCompressor()
    assert refusal(compressor.compress(b"text" * 10))[:2] == ("decompression", "SNP-02")


def test_blocks_may_be_large_and_split_anywhere() -> None:
    """Readers do not ask for 32 KiB (SNP-11)."""
    large = bytes(100_000)
    assert plain(header() + framed(snappy.compress(large), literal(b"one"))) == large + b"one"


def test_a_header_only() -> None:
    """A stream of no blocks holds nothing (SNP-12); a payload of no bytes is no stream (CMP-08)."""
    assert plain(header()) == b""
    assert refusal(b"") == ("decompression", "CMP-08", 0)


@pytest.mark.parametrize(
    "block",
    [b"\x80", b"\x80" * 6, literal(b"one", 4), literal(b"one", 2), b"\x04\x01\x00", b"\x03\x08on", b"\x05\xf0"],
    ids=["no-length", "endless-length", "too-little", "too-much", "copy-before-start", "cut-literal", "no-literal"],
)
def test_blocks_that_contradict_themselves(block: bytes) -> None:
    """A broken block is refused, raw or framed (SNP-13 names what cannot be seen)."""
    assert refusal(block) == ("decompression", "SNP-02", 0)
    assert refusal(header() + framed(block)) == ("decompression", "SNP-07", 20)


@pytest.mark.parametrize("claimed", [2**20, 2**31, 2**32 - 1, 2**35 - 1])
def test_a_claimed_size_is_not_believed(claimed: int) -> None:
    """A few bytes that claim to hold more than snappy can pack are refused before anything is allocated."""
    assert refusal(literal(b"one", claimed), 2**40)[:2] == ("decompression", "SNP-02")


def test_the_densest_block_is_believed() -> None:
    """Zeros are packed as tightly as snappy can, and still taken."""
    assert plain(snappy.compress(bytes(500_000))) == bytes(500_000)
    # Three bytes of a copy with a two-byte offset give 64.
    densest = encode_unsigned(1 + 64 * 1000) + b"\x00?" + b"\xfe\x01\x00" * 1000
    assert plain(densest) == b"?" * (1 + 64 * 1000)


def test_output_is_bounded() -> None:
    """Exactly as much as is allowed comes out, and not a byte more (CMP-10)."""
    block = snappy.compress(bytes(1000))
    assert plain(header() + framed(block, block), 2000) == bytes(2000)
    for most in (1999, 1000, 999, 0):
        assert refusal(header() + framed(block, block), most)[:2] == ("limit", "CMP-10")
    assert refusal(block, 999)[:2] == ("limit", "CMP-10")


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_taken(data: bytes) -> None:
    """Any bytes, raw or after a header, give output or our own error, and no other exception."""
    for start in (b"", header(), header() + len(data).to_bytes(4, "big"), encode_unsigned(40)):
        assert kind_of(start + data) in {"", "decompression", "limit"}
