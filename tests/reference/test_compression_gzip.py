"""gzip members made by hand, read as Java's GZIPInputStream reads them."""

import gzip
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.decompressing import Stream

from kafka_records.compression import compress

MOST = 1_000_000


def member(data: bytes, *, flags: int = 0, extra: bytes = b"", method: int = 8, level: int = -1) -> bytes:
    """One member with *extra* between its ten-byte header and its deflate data."""
    deflater = zlib.compressobj(level, wbits=-15)
    body = deflater.compress(data) + deflater.flush()
    return bytes((0x1F, 0x8B, method, flags, 0, 0, 0, 0, 0, 3)) + extra + body + trailer(data)


def trailer(data: bytes) -> bytes:
    """CRC-32 and size."""
    return zlib.crc32(data).to_bytes(4, "little") + (len(data) % 2**32).to_bytes(4, "little")


STREAM = Stream("gzip", MOST)
plain, kind_of, refusal = STREAM.plain, STREAM.kind_of, STREAM.refusal


def test_members_are_one_stream() -> None:
    """Members follow one another, empty ones too (GZP-02)."""
    data = member(b"") + member(b"one") + member(b"") + member(b"two") + member(b"")
    assert plain(data) == b"onetwo"


@pytest.mark.parametrize("junk", [b"?", bytes(8), b"?" * 40, b"\x1f\x8b", b"\x1f\x8b\x07" + bytes(40), bytes(1000)])
def test_what_is_no_header_is_ignored(junk: bytes) -> None:
    """Bytes after the last member that are not a header are left alone (GZP-03)."""
    assert plain(member(b"one") + junk) == b"one"


def test_a_second_member_has_to_be_whole() -> None:
    """Bytes that start like a member are one: cut short, it is an error (GZP-02, GZP-05)."""
    second = member(b"second, which is long enough", level=0)
    first = member(b"one")
    assert refusal(first + second[:-1])[:2] == ("decompression", "GZP-05")
    # Too short to be looked at: GZIPInputStream#readTrailer.
    assert plain(first + second[:18]) == b"one"
    assert refusal(first + second[:19])[:2] == ("decompression", "GZP-05")


@pytest.mark.parametrize("wbits", [15, -15])
def test_zlib_and_raw_deflate_are_refused(wbits: int) -> None:
    """Only gzip will do (GZP-01)."""
    deflater = zlib.compressobj(wbits=wbits)
    assert refusal(deflater.compress(bytes(100)) + deflater.flush()) == ("decompression", "GZP-01", 0)


@pytest.mark.parametrize("method", [0, 7, 9])
def test_the_method_is_deflate(method: int) -> None:
    """No other method is known (GZP-01)."""
    assert refusal(member(b"one", method=method)) == ("decompression", "GZP-01", 0)


@pytest.mark.parametrize("back", range(1, 9))
def test_the_trailer_is_verified(back: int) -> None:
    """Each byte of CRC and size counts (GZP-04)."""
    data = bytearray(member(b"one"))
    data[-back] ^= 1
    assert refusal(bytes(data)) == ("decompression", "GZP-04", len(data) - 8)


def test_every_cut_is_refused() -> None:
    """A member that ends early is refused at any byte, in the trailer too (GZP-05, CMP-08)."""
    data = member(b"some text, and more", flags=0x1E, extra=options(0x1E))
    for cut in range(len(data)):
        kind, rule, offset = refusal(data[:cut])
        assert (kind, rule in {"GZP-01", "GZP-05", "GZP-06"}, offset <= cut) == ("decompression", True, True), cut


def options(flags: int, check: int | None = None) -> bytes:
    """The optional header fields in their order; *check* replaces the right checksum."""
    extra = b""
    extra += b"\x03\x00abc" if flags & 4 else b""
    extra += b"name\0" if flags & 8 else b""
    extra += b"\0" if flags & 16 else b""
    if flags & 2:
        head = bytes((0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, 3)) + extra
        extra += ((zlib.crc32(head) if check is None else check) & 0xFFFF).to_bytes(2, "little")
    return extra


@pytest.mark.parametrize("flags", range(0, 256, 2))
def test_all_header_fields_are_stepped_over(flags: int) -> None:
    """Extra, name, comment and header checksum may be there; the other bits mean nothing (GZP-06)."""
    assert plain(member(b"one", flags=flags, extra=options(flags))) == b"one"
    assert plain(member(b"one", flags=flags | 1, extra=options(flags | 1))) == b"one"


def test_a_header_checksum_is_verified() -> None:
    """The header's own CRC has to be right (GZP-06)."""
    data = member(b"one", flags=0x0A, extra=options(0x0A, check=0))
    assert refusal(data) == ("decompression", "GZP-06", 15)


def test_header_fields_that_never_end() -> None:
    """A name without an end, and an extra field longer than the data, are refused (GZP-06)."""
    head = bytes((0x1F, 0x8B, 8))
    for flags, rest in ((4, b"\xff\xff" + b"a" * 50), (8, b"a" * 50), (16, b"a" * 50), (4, b""), (4, b"\x01")):
        assert refusal(head + bytes((flags,)) + bytes(6) + rest) == ("decompression", "GZP-06", 0)


def test_stored_blocks_are_taken() -> None:
    """Level 0 is as good as any (GZP-07)."""
    assert plain(member(bytes(70_000), level=0)) == bytes(70_000)


def test_deflate_data_is_checked() -> None:
    """A block of reserved type is refused (GZP-01)."""
    assert refusal(bytes((0x1F, 0x8B, 8)) + bytes(7) + b"\x07" + bytes(20)) == ("decompression", "GZP-01", 10)


def test_output_is_bounded() -> None:
    """Exactly as much as is allowed comes out, and not a byte more (CMP-10)."""
    data = member(bytes(1000)) + member(bytes(1000))
    assert plain(data, 2000) == bytes(2000)
    for most in (1999, 1000, 999, 0):
        assert refusal(data, most)[:2] == ("limit", "CMP-10")
    assert plain(member(b""), 0) == b""


@given(st.binary(max_size=200))
def test_the_writer_is_javas(data: bytes) -> None:
    """Nothing in the header but the name of no system, and any gzip reads the rest (GZP-08)."""
    written = compress("gzip", data, magic=2)
    assert written[:10].hex() == "1f8b08000000000000ff"
    assert gzip.decompress(written) == plain(written) == data


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_taken(data: bytes) -> None:
    """Any bytes after a right header give output or our own error, and no other exception."""
    for start in (b"", bytes((0x1F, 0x8B, 8)), bytes((0x1F, 0x8B, 8)) + bytes(7)):
        assert kind_of(start + data) in {"", "decompression"}


@pytest.mark.parametrize("first", [b"", b"x"])
def test_many_members_take_time_in_proportion(first: bytes) -> None:
    """A payload of a million bytes of empty members is read in a moment, not in the square of its size."""
    data = member(first) * (1_000_000 // len(member(first)))
    start = time.process_time()
    assert len(plain(data)) == len(first) * (1_000_000 // len(member(first)))
    assert time.process_time() - start < 2
