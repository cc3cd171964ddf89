"""gzip framing as java.util.zip.GZIPInputStream takes it (group GZP).

Members follow one another as one stream, bytes after them that are no member are
ignored, and the trailer of each is verified.
"""

from __future__ import annotations

from typing import Any
from zlib import adler32, crc32

from kafka_corpus.authoring.batches import (
    EITHER,
    MAGICS,
    PLAIN,
    REFUSED,
    around,
    batch_of,
    bytes_of,
    compressed,
    payload_of,
    plain_of,
    some_records,
    split,
)
from kafka_corpus.authoring.build import TIMESTAMP, flip, grid
from kafka_corpus.authoring.frames import Bits, deflate, deflate_stored, gzip_header, gzip_member, gzip_trailer
from kafka_corpus.golden import DEFLATE, GOLDEN_RECORDS
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_write, valid

FNAME, FEXTRA, FCOMMENT, FHCRC, FTEXT = 0x08, 0x04, 0x10, 0x02, 0x01
JUNK = {
    "one-zero": bytes(1),
    "seven-zeros": bytes(7),
    "eight-zeros": bytes(8),
    "nineteen-zeros": bytes(19),
    "hundred-zeros": bytes(100),
    "text": b"this is no gzip member, and long enough to be taken for one",
    "half-a-magic": b"\x1f" + bytes(40),
}
SPLITS = {
    "record-boundary": (len(PLAIN) // 2,),
    "in-a-length": (1,),
    "in-a-value": (20,),
    "every-byte": tuple(range(1, len(PLAIN))),
}


def with_flags(flags: int, fields: bytes, *, hcrc: int | None = None) -> bytes:
    """A member with optional header fields; *hcrc* is added to the right header checksum."""
    header = gzip_header(flags=flags) + fields
    if hcrc is not None:
        header += ((crc32(header) + hcrc) & 0xFFFF).to_bytes(2, "little")
    return gzip_member(PLAIN, header=header)


@case("GZP-01", "CMP-03", each=MAGICS)
def member_of_kafkas_writer(magic: int) -> Draft:
    """A single member with an empty header is what Kafka's writer gives."""
    return valid(*around(gzip_member(plain_of(magic)), magic, "gzip"))


@case("GZP-01", "GZP-08")
def golden_from_jdk_17() -> Draft:
    """A batch that kafka-clients 3.9.0 compressed on JDK 17 is read."""
    data = bytes.fromhex(
        "000000000000000000000060ffffffff02a65af8110001000000010000018bcfe568000000018bcfe56805ffffffffffffffff"
        "ffffffffffff000000021f8b08000000000000ff9361606060cb4eade42a4bcc294d651063e06262646461ca6064600000db7e"
        "30521b000000"
    )
    return valid(data, batch_of(*GOLDEN_RECORDS, compression="gzip"))


@case("GZP-01", each={"unknown": 0xFF, "fat": 0, "unix": 3, "ntfs": 11})
def operating_system(os: int) -> Draft:
    """The operating system byte means nothing: Java writes ff or 00, others 03."""
    return valid(*compressed("gzip", gzip_member(PLAIN, header=gzip_header(os=os, mtime=1))))


@case("GZP-01", each={"fastest": 4, "best": 2, "other": 0x55})
def extra_flags(xfl: int) -> Draft:
    """The byte that hints at the level means nothing."""
    return valid(*compressed("gzip", gzip_member(PLAIN, header=gzip_header(xfl=xfl, mtime=1_700_000_000))))


@case("GZP-01", each=grid(magic=EITHER, form={"zlib": b"\x78\x9c", "raw": b""}))
def zlib_and_raw_deflate(shape: dict[str, Any]) -> Draft:
    """A zlib stream or a bare deflate stream is no gzip stream."""
    data, _ = around(shape["form"] + deflate(plain_of(shape["magic"])), shape["magic"], "gzip")
    return invalid(data, *REFUSED)


@case("GZP-01", each={"first": 0, "second": 1, "method": 2})
def header_byte_wrong(at: int) -> Draft:
    """Both magic bytes and the method have to be right."""
    return invalid(compressed("gzip", flip(gzip_member(PLAIN), at))[0], *REFUSED)


@case("GZP-01", each={"reserved-block-type": b"\x07", "bad-stored-length": b"\x01\x04\x00\x00\x00data"})
def corrupt_deflate(body: bytes) -> Draft:
    """Deflate data that cannot be are refused."""
    return invalid(compressed("gzip", gzip_member(PLAIN, body=body))[0], *REFUSED)


@case("GZP-01")
def distance_too_far_back() -> Draft:
    """A copy from before the start of the output is refused."""
    bits = Bits()
    bits.add(0b011, 3)
    bits.add_symbol(257)  # copy 3 bytes
    bits.add_code(29, 5)  # from 24,577 back
    bits.add(0, 13)
    bits.add_symbol(256)
    return invalid(compressed("gzip", gzip_member(PLAIN, body=bits.bytes()))[0], *REFUSED)


@case("GZP-01", "CMP-03")
def dynamic_huffman_code() -> Draft:
    """A block in a Huffman code of its own, as compressors choose for all but the shortest data."""
    records = some_records(40)
    return valid(*compressed("gzip", gzip_member(payload_of(records), body=DEFLATE), *records))


def even_lengths(symbols: list[int], *, more: int = 0) -> dict[int, int]:
    """Lengths of codes for *symbols* that fill a Huffman code; each *more* bits longer, so that they do not."""
    length = (len(symbols) - 1).bit_length()
    short = (1 << length) - len(symbols)
    return {symbol: length - (number < short) + more for number, symbol in enumerate(symbols)}


def own_code(
    literals: dict[int, int], distances: tuple[int, ...] = (0,), *, more: int = 0, count: int = 257, data: bytes = PLAIN
) -> bytes:
    """A deflate block of *data* without copies, in the code that these lengths of codes give.

    *more* makes the codes of the lengths themselves longer than they should be; *count* is that of literals.
    """
    lengths = [literals.get(symbol, 0) for symbol in range(count)] + list(distances)
    bits = Bits()
    bits.add(0b101, 3)
    bits.add(count - 257, 5)
    bits.add(len(distances) - 1, 5)
    bits.add(19 - 4, 4)
    # The 16 lengths of codes have a code of four bits each, which is their number; nothing is repeated.
    for number in range(19):
        bits.add(0 if number < 3 else 4 + more, 3)
    for length in lengths:
        bits.add_code(length, 4 + more)
    code, codes, before = 0, {}, 0
    for symbol in sorted(literals, key=lambda each: (literals[each], each)):
        code <<= literals[symbol] - before
        codes[symbol], before = code, literals[symbol]
        code += 1
    for symbol in [*data, 256]:
        if symbol in codes:
            bits.add_code(codes[symbol] & (1 << literals[symbol]) - 1, literals[symbol])
    return bits.bytes()


LITERALS = sorted({*PLAIN, 256})


@case(
    "GZP-01",
    "CMP-03",
    each={
        "no-distance": ((0,), 257),
        "one-distance": ((1,), 257),
        "all-literals": ((0,), 286),
        "thirty-distances": ((1, *(0,) * 28, 1), 257),
    },
)
def own_huffman_code(shape: tuple[tuple[int, ...], int]) -> Draft:
    """A code of its own may have no distance, or a single one of one bit, which fills half of the code."""
    distances, count = shape
    body = own_code(even_lengths(LITERALS), distances, count=count)
    return valid(*compressed("gzip", gzip_member(PLAIN, body=body)))


@case(
    "GZP-01",
    each={
        "literals-unfilled": own_code(even_lengths(LITERALS, more=1)),
        "literals-overfull": own_code(even_lengths(LITERALS, more=-1)),
        "distances-unfilled": own_code(even_lengths(LITERALS), (2, 2)),
        "distances-overfull": own_code(even_lengths(LITERALS), (1, 1, 1)),
        "one-distance-of-two-bits": own_code(even_lengths(LITERALS), (2,)),
        "lengths-unfilled": own_code(even_lengths(LITERALS), more=1),
        "lengths-overfull": own_code(even_lengths(LITERALS), more=-1),
        "no-end-of-block": own_code(even_lengths(LITERALS[:-1])),
        "287-literals": own_code(even_lengths(LITERALS), count=287),
        "31-distances": own_code(even_lengths(LITERALS), (1, *(0,) * 29, 1)),
    },
)
def impossible_huffman_code(body: bytes) -> Draft:
    """A code that its lengths do not fill, or overfill, without the end of a block, or of too many symbols is refused.

    Deflate has 286 literals and lengths, and 30 distances; a block can say 288 and 32.
    Some inflaters take a code that is not full, and read the block.
    """
    return invalid(compressed("gzip", gzip_member(PLAIN, body=body))[0], *REFUSED)


@case("GZP-02", each=SPLITS)
def several_members(at: tuple[int, ...]) -> Draft:
    """Members end to end are one stream; a record may reach from one into the next."""
    return valid(*compressed("gzip", b"".join(map(gzip_member, split(PLAIN, *at)))))


@case("GZP-02", each={"v0": 0, "v1": 1})
def several_members_in_a_wrapper(magic: int) -> Draft:
    """Members end to end are one stream in a wrapper too."""
    return valid(*around(b"".join(map(gzip_member, split(plain_of(magic), 10, 30))), magic, "gzip"))


@case("GZP-02", each={"first": (0, 0), "middle": (30, 30), "last": (len(PLAIN), len(PLAIN)), "twice": (30, 30, 30)})
def empty_member(at: tuple[int, ...]) -> Draft:
    """A member that holds no bytes, wherever it stands, adds nothing and ends nothing."""
    parts = split(PLAIN, *at)[1 if at[0] == 0 else 0 :]
    members = [b"", *parts] if at[0] == 0 else parts
    return valid(*compressed("gzip", b"".join(map(gzip_member, members))))


@case("GZP-02", "GZP-07")
def members_of_different_kinds() -> Draft:
    """A stored member may follow a compressed one, with another header."""
    first, second = split(PLAIN, 25)
    stored = gzip_member(second, header=gzip_header(flags=FNAME, os=3) + b"b.txt\0", body=deflate_stored(second))
    return valid(*compressed("gzip", gzip_member(first) + stored))


@case("GZP-02", "CMP-05")
def second_member_says_too_much() -> Draft:
    """Bytes of a second member after the last record are bytes too many."""
    return invalid(compressed("gzip", gzip_member(PLAIN) + gzip_member(b"more"))[0], "malformed", "decompression")


@case("GZP-03", each=grid(magic=EITHER, junk=JUNK))
def bytes_behind_the_last_member(shape: dict[str, Any]) -> Draft:
    """Bytes after the last member that are no gzip header are ignored."""
    magic = shape["magic"]
    why = "GZIPInputStream ignores what it cannot read after a trailer; other readers refuse it"
    return acceptable(*around(gzip_member(plain_of(magic)) + shape["junk"], magic, "gzip"), kinds=REFUSED, why=why)


@case("GZP-03", each={"ten-bytes": 10, "eighteen-bytes": 18})
def second_member_cut_very_short(size: int) -> Draft:
    """The start of a second member that could not be a whole one is ignored."""
    why = "GZIPInputStream looks for a member only where more than 18 bytes are left"
    data, batch = compressed("gzip", gzip_member(PLAIN) + gzip_member(b"")[:size])
    return acceptable(data, batch, kinds=REFUSED, why=why)


@case("GZP-04", each=grid(magic=EITHER, at={"crc-first": -8, "crc-last": -5, "size-first": -4, "size-last": -1}))
def trailer_wrong(shape: dict[str, Any]) -> Draft:
    """The trailer's CRC-32 and size are verified."""
    packed = gzip_member(plain_of(shape["magic"]))
    data, _ = around(flip(packed, len(packed) + shape["at"]), shape["magic"], "gzip")
    return invalid(data, *REFUSED)


@case("GZP-04", each={"first": 0, "last": 1})
def trailer_of_one_member_wrong(bad: int) -> Draft:
    """The trailer of every member is verified, not only that of the last."""
    parts = split(PLAIN, 25)
    members = [
        gzip_member(part, trailer=gzip_trailer(part + b"!") if n == bad else None) for n, part in enumerate(parts)
    ]
    return invalid(compressed("gzip", b"".join(members))[0], *REFUSED)


@case("GZP-04")
def trailers_count_their_own_member() -> Draft:
    """The trailer of the last member speaks of that member, not of the whole stream."""
    first, second = split(PLAIN, 25)
    members = gzip_member(first) + gzip_member(second, trailer=gzip_trailer(PLAIN))
    return invalid(compressed("gzip", members)[0], *REFUSED)


@case("GZP-05", each=grid(magic=EITHER, size={"none": 0, "one": 1, "crc-only": 4, "seven": 7}))
def trailer_cut_short(shape: dict[str, Any]) -> Draft:
    """A trailer that is missing or cut short is an error, although all the data is there."""
    plain = plain_of(shape["magic"])
    packed = gzip_member(plain, trailer=gzip_trailer(plain)[: shape["size"]])
    return invalid(around(packed, shape["magic"], "gzip")[0], *REFUSED)


@case("GZP-05", each={"in-the-magic": 1, "in-the-header": 9, "after-the-header": 10, "in-the-data": 40})
def member_cut_short(size: int) -> Draft:
    """A member that ends in its header or its data is an error."""
    return invalid(compressed("gzip", gzip_member(PLAIN)[:size])[0], *REFUSED)


@case("GZP-05")
def second_member_cut_short() -> Draft:
    """A second member without its trailer is an error."""
    first, second = split(PLAIN, 25)
    return invalid(compressed("gzip", gzip_member(first) + gzip_member(second, trailer=b""))[0], *REFUSED)


OPTIONAL = {
    "text": (FTEXT, b""),
    "name": (FNAME, b"records.bin\0"),
    "empty-name": (FNAME, b"\0"),
    "comment": (FCOMMENT, b"a comment\0"),
    "extra": (FEXTRA, b"\x08\x00KP\x04\x00data"),
    "empty-extra": (FEXTRA, b"\x00\x00"),
    "long-extra": (FEXTRA, b"\x2c\x01" + b"x" * 300),
    "all": (FTEXT | FEXTRA | FNAME | FCOMMENT, b"\x01\x00xname\0comment\0"),
}


@case("GZP-06", each=OPTIONAL)
def optional_header_fields(fields: tuple[int, bytes]) -> Draft:
    """FTEXT, FEXTRA, FNAME and FCOMMENT are skipped."""
    return valid(*compressed("gzip", with_flags(*fields)))


@case("GZP-06", each=OPTIONAL)
def header_checksum_right(fields: tuple[int, bytes]) -> Draft:
    """A right header checksum is taken, whatever other fields there are."""
    flags, content = fields
    return valid(*compressed("gzip", with_flags(flags | FHCRC, content, hcrc=0)))


@case("GZP-06", each=OPTIONAL)
def header_checksum_wrong(fields: tuple[int, bytes]) -> Draft:
    """A wrong header checksum is refused, whatever other fields there are."""
    flags, content = fields
    return invalid(compressed("gzip", with_flags(flags | FHCRC, content, hcrc=1))[0], *REFUSED)


@case("GZP-06", each={"bit-5": 0x20, "bit-6": 0x40, "bit-7": 0x80, "all": 0xE0})
def reserved_flags(flags: int) -> Draft:
    """Reserved flag bits are ignored."""
    why = "GZIPInputStream does not look at them; RFC 1952 wants them refused, and zlib does"
    return acceptable(*compressed("gzip", with_flags(flags, b"")), kinds=REFUSED, why=why)


UNFINISHED = {
    "name-without-end": (FNAME, b""),
    "comment-without-end": (FCOMMENT, b""),
    "extra-beyond-the-end": (FEXTRA, b"\xff\xff"),
    "no-extra-length": (FEXTRA, b""),
}


@case("GZP-06", "GZP-05", each=UNFINISHED)
def optional_field_cut_short(fields: tuple[int, bytes]) -> Draft:
    """An optional field that is missing or incomplete is an error."""
    flags, content = fields
    return invalid(compressed("gzip", gzip_header(flags=flags) + content)[0], *REFUSED)


STORED = {"one-block": (), "many-blocks": (1, 2, 20), "empty-blocks": (0, 25, 25), "every-byte": tuple(range(1, 50))}


@case("GZP-07", each=STORED)
def stored_blocks(at: tuple[int, ...]) -> Draft:
    """Stored deflate blocks, as level 0 gives them, are taken."""
    return valid(*compressed("gzip", gzip_member(PLAIN, body=deflate_stored(*split(PLAIN, *at)))))


@case("GZP-07", each={"v0": 0, "v1": 1})
def stored_blocks_in_a_wrapper(magic: int) -> Draft:
    """Stored deflate blocks are taken in a wrapper too."""
    plain = plain_of(magic)
    return valid(*around(gzip_member(plain, body=deflate_stored(*split(plain, 17, 18))), magic, "gzip"))


@case("GZP-07")
def stored_block_longer_than_the_stream() -> Draft:
    """A stored block that claims more bytes than there are is an error."""
    body = deflate_stored(PLAIN)[: -len(PLAIN)]
    return invalid(compressed("gzip", gzip_member(PLAIN, body=body, trailer=b""))[0], *REFUSED)


@case("GZP-08", "CMP-01")
def write() -> Draft:
    """A gzip batch is written with a clear header and its records in one member."""
    batch = batch_of(*some_records(3), compression="gzip")
    return must_write(batch, bytes_of(batch), compare="masked")


@case("GZP-09")
def write_at_any_level() -> Draft:
    """Any level will do when writing: stored blocks are as right as the best compression."""
    batch = batch_of(*some_records(4), compression="gzip")
    plain = payload_of(batch.records)
    return must_write(batch, bytes_of(batch, packed=gzip_member(plain, body=deflate_stored(plain))), compare="masked")


@case("GZP-08", "TIM-06")
def write_large() -> Draft:
    """A payload larger than a deflate window is written whole."""
    record = some_records(1)[0]._replace(timestamp=TIMESTAMP, value=b"gzip window " * 3000)
    batch = batch_of(record, compression="gzip")
    return must_write(batch, bytes_of(batch), compare="masked")


@case("GZP-01", each=EITHER, since="1.1")
def whole_zlib_stream(magic: int) -> Draft:
    """A zlib stream with its checksum is no gzip stream, though zlib can read both."""
    plain = plain_of(magic)
    stream = b"\x78\x9c" + deflate(plain) + adler32(plain).to_bytes(4, "big")
    return invalid(around(stream, magic, "gzip")[0], *REFUSED)
