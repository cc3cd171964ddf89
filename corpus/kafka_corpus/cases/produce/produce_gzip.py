"""gzip streams on brokers, where they are kept and where the records are rewritten (group GZP)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import LEGACY, PLAIN, payload_of, plain_of, some_records, split
from kafka_corpus.authoring.build import flip
from kafka_corpus.authoring.frames import deflate, deflate_stored, gzip_header, gzip_member, gzip_trailer
from kafka_corpus.authoring.steps import KEPT, PATHS, converted, keeping, not_converted, not_taken, taken, ways
from kafka_corpus.case import Recipe
from kafka_corpus.cases.decode.gzip import FHCRC, JUNK, OPTIONAL, UNFINISHED, with_flags
from kafka_corpus.golden import DEFLATE
from kafka_corpus.recipes import build_recipe
from kafka_corpus.registry import Draft, case, error_answer, produced
from kafka_records.broker.errors import INVALID_RECORD, UNKNOWN_SERVER_ERROR

NO_GZIP = {
    "method": flip(gzip_member(PLAIN), 2),
    "zlib": b"\x78\x9c" + deflate(PLAIN),
    "raw-deflate": deflate(PLAIN),
    "bad-stored-length": gzip_member(PLAIN, body=b"\x01\x04\x00\x00\x00data"),
}


@case("GZP-01", "CMP-04", each=ways(packed=NO_GZIP))
def no_gzip(shape: dict[str, Any]) -> Draft:
    """A stream that GZIPInputStream cannot read is an unknown error, kept or rebuilt."""
    return not_taken("gzip", shape["packed"], shape["path"])


@case("GZP-01")
def no_gzip_in_a_wrapper() -> Draft:
    """A zlib stream or a bare deflate stream in a wrapper is an unknown error."""
    return not_converted("gzip", b"\x78\x9c" + deflate(plain_of(1)), 1)


@case("GZP-01", each=PATHS)
def dynamic_huffman_code(path: str) -> Draft:
    """A block in a Huffman code of its own is taken, and kept to the byte where the topic keeps batches."""
    records = some_records(40)
    return taken("gzip", gzip_member(payload_of(records), body=DEFLATE), path, *records)


MEMBERS = {
    "one-for-each-byte": tuple(range(1, len(PLAIN))),
    "empty-in-the-middle": (30, 30),
    "empty-last": (len(PLAIN),),
}


@case("GZP-02", each=ways(at=MEMBERS))
def several_members(shape: dict[str, Any]) -> Draft:
    """Members end to end are taken as one stream, empty ones too."""
    return taken("gzip", b"".join(map(gzip_member, split(PLAIN, *shape["at"]))), shape["path"])


@case("GZP-02")
def several_members_in_a_wrapper() -> Draft:
    """Members end to end are taken in a wrapper, which is rewritten as one batch."""
    return converted("gzip", b"".join(map(gzip_member, split(plain_of(1), 10, 30))), 1)


@case("GZP-02", "CMP-05", each=PATHS)
def more_in_a_second_member(path: str) -> Draft:
    """Bytes of a second member after the last record are bytes too many."""
    return not_taken("gzip", gzip_member(PLAIN) + gzip_member(b"more"), path, code=INVALID_RECORD)


@case("GZP-02")
def members_that_fill_a_buffer() -> Draft:
    """Four hundred empty members before the data are taken, though a gzip buffer ends among them."""
    data = build_recipe(Recipe("many_frames", {"codec": "gzip", "count": 408}))
    return taken("gzip", data[61:], KEPT)


# A member's deflate data that leave so many bytes in the buffer of a release: 512 bytes up to 1.0, 8 KiB since 1.1.
LEFT_IN_THE_BUFFER = {f"{left} of {size}": size - left for size in (512, 8192) for left in (26, 27)}


@case("GZP-02", "GZP-03", each=LEFT_IN_THE_BUFFER)
def member_that_begins_at_the_end_of_the_buffer(size: int) -> Draft:
    """A second member is taken wherever the buffer ends; before 3.6 it was not if 26 bytes or fewer were left in it."""
    record = some_records(1)[0]._replace(value=b"v" * 9000)
    plain = payload_of([record])
    first, second = split(plain, size - len(deflate_stored(b"")))
    body = deflate_stored(first)
    assert len(body) == size
    return taken("gzip", gzip_member(first, body=body) + gzip_member(second), KEPT, record)


@case("GZP-03", each=ways(junk={name: JUNK[name] for name in ("one-zero", "text", "half-a-magic")}))
def bytes_behind_the_last_member(shape: dict[str, Any]) -> Draft:
    """Bytes after the last member that are no gzip header are ignored; where the batch is kept, they are stored."""
    return taken("gzip", gzip_member(PLAIN) + shape["junk"], shape["path"])


@case("GZP-03", each=LEGACY)
def bytes_behind_the_last_member_of_a_wrapper(magic: int) -> Draft:
    """Bytes after the last member in a wrapper are ignored, and lost when it is rewritten."""
    return converted("gzip", gzip_member(plain_of(magic)) + JUNK["text"], magic)


@case("GZP-04", each=ways(at={"crc": -5, "size": -4}))
def trailer_wrong(shape: dict[str, Any]) -> Draft:
    """The trailer's CRC-32 and size are verified even where the broker keeps the bytes."""
    packed = gzip_member(PLAIN)
    return not_taken("gzip", flip(packed, len(packed) + shape["at"]), shape["path"])


@case("GZP-04", each=PATHS)
def trailer_of_the_first_member_wrong(path: str) -> Draft:
    """The trailer of a member in the middle of the stream is verified too."""
    first, second = split(PLAIN, 25)
    return not_taken("gzip", gzip_member(first, trailer=gzip_trailer(first + b"!")) + gzip_member(second), path)


@case("GZP-04")
def trailer_wrong_in_a_wrapper() -> Draft:
    """The trailer is verified in a wrapper."""
    return not_converted("gzip", flip(gzip_member(plain_of(1)), len(gzip_member(plain_of(1))) - 5), 1)


@case("GZP-05", each=ways(size={"none": 0, "crc-only": 4}))
def trailer_cut_short(shape: dict[str, Any]) -> Draft:
    """A trailer that is missing or cut short is an error, although all records have been read."""
    return not_taken("gzip", gzip_member(PLAIN, trailer=gzip_trailer(PLAIN)[: shape["size"]]), shape["path"])


@case("GZP-05", each=ways(size={"in-the-header": 9, "after-the-header": 10, "in-the-data": 40}))
def member_cut_short(shape: dict[str, Any]) -> Draft:
    """A member that ends in its header or its data is an unknown error."""
    return not_taken("gzip", gzip_member(PLAIN)[: shape["size"]], shape["path"])


@case("GZP-06", each=ways(fields={name: OPTIONAL[name] for name in ("name", "extra", "all")}))
def optional_header_fields(shape: dict[str, Any]) -> Draft:
    """FTEXT, FEXTRA, FNAME and FCOMMENT are skipped, and stored where the batch is kept."""
    return taken("gzip", with_flags(*shape["fields"]), shape["path"])


@case("GZP-06", each=PATHS)
def header_checksum_right(path: str) -> Draft:
    """A right header checksum is taken."""
    flags, content = OPTIONAL["all"]
    return taken("gzip", with_flags(flags | FHCRC, content, hcrc=0), path)


@case("GZP-06", each=PATHS)
def header_checksum_wrong(path: str) -> Draft:
    """A wrong header checksum is an unknown error."""
    flags, content = OPTIONAL["all"]
    return not_taken("gzip", with_flags(flags | FHCRC, content, hcrc=1), path)


@case("GZP-06", each=keeping(flags={"bit-5": 0x20, "all": 0xE0}))
def reserved_flags(shape: dict[str, Any]) -> Draft:
    """Reserved flag bits are ignored."""
    return taken("gzip", with_flags(shape["flags"], b""), shape["path"])


@case("GZP-06", "GZP-05", each={name: UNFINISHED[name] for name in ("name-without-end", "extra-beyond-the-end")})
def optional_field_cut_short(fields: tuple[int, bytes]) -> Draft:
    """An optional field that never ends is an unknown error."""
    flags, content = fields
    return not_taken("gzip", gzip_header(flags=flags) + content, KEPT)


STORED = {"one-block": (), "empty-blocks": (0, 25, 25)}


@case("GZP-07", each=ways(at=STORED))
def stored_blocks(shape: dict[str, Any]) -> Draft:
    """Stored deflate blocks, as level 0 gives them, are taken."""
    return taken("gzip", gzip_member(PLAIN, body=deflate_stored(*split(PLAIN, *shape["at"]))), shape["path"])


@case("GZP-07", each=PATHS)
def stored_block_longer_than_the_stream(path: str) -> Draft:
    """A stored block that claims more bytes than there are is an unknown error."""
    return not_taken("gzip", gzip_member(PLAIN, body=deflate_stored(PLAIN)[:-20], trailer=b""), path)


@case("GZP-02")
def stack_of_empty_members() -> Draft:
    """Forty thousand empty members exhaust the stack of the broker's thread, which lives on."""
    return produced(Recipe("many_frames", {"codec": "gzip", "count": 40_000}), error_answer(UNKNOWN_SERVER_ERROR))
