"""The framings of gzip and snappy in words, and what all framings are written with."""

from __future__ import annotations

from typing import NamedTuple

from kafka_records.compression import gzip, snappy
from kafka_records.compression.common import Output, refused
from kafka_records.errors import RecordFormatError
from kafka_records.explain.pen import Pen
from kafka_records.explain.words import Words, joined, size
from kafka_records.varint import decode_unsigned

OPTIONAL = {
    gzip.FEXTRA: "extra field",
    gzip.FNAME: "file name",
    gzip.FCOMMENT: "comment",
    gzip.FHCRC: "header checksum",
}


class Packed(NamedTuple):
    """Compressed bytes in a pen's hand: all of them, and where they start in the section."""

    pen: Pen
    data: bytes
    start: int

    @property
    def at(self) -> int:
        """The next byte, from the first compressed one."""
        return self.pen.at - self.start

    def say(self, name: str, length: int, shown: str, meaning: str = "", rule: str | None = None) -> None:
        """Write a field of the framing; one of which less is left is cut short."""
        cut = f"cut short: {self.pen.left} of {size(length)}" if self.pen.left < length else ""
        self.pen.field(name, length, Words(shown, joined(meaning, cut), rule=rule), "codec")

    def number(self, name: str, length: int, meaning: str = "", rule: str | None = None) -> int:
        """Write a little-endian number and give it."""
        value = int.from_bytes(self.data[self.at : self.at + length], "little")
        cut = f"cut short: {self.pen.left} of {size(length)}" if self.pen.left < length else ""
        self.pen.field(name, length, Words(str(value), joined(meaning, cut), rule=rule), "codec", value=value)
        return value

    def bulk(self, name: str, upto: int, meaning: str, rule: str | None = None) -> None:
        """Write compressed bytes up to position *upto*, or as many as there are."""
        length = min(upto - self.at, self.pen.left)
        self.pen.field(name, length, Words(size(length), meaning, rule=rule), "packed")


def write_gzip(packed: Packed) -> None:
    """Write members until what follows is none (GZP-02, GZP-03)."""
    write_member(packed)
    while packed.pen.left > gzip.SMALLEST_REST - gzip.TRAILER.size:
        try:
            gzip.header_end(packed.data, packed.at)
        except RecordFormatError:
            break
        write_member(packed)
    packed.pen.rest("ignored: not another gzip member", rule="GZP-03")


def write_member(packed: Packed) -> None:
    """Write a member's header, its deflate data and its trailer."""
    at = packed.at
    if packed.data.startswith(gzip.MAGIC, at):
        write_member_header(packed)
    packed.bulk("optional", gzip.header_end(packed.data, at), options(packed.data[at + 3]), "GZP-06")
    start = packed.at
    try:
        end = gzip.inflate_member(packed.data, start, Output(packed.pen.ink.room))
    except RecordFormatError as error:
        # GZP-04: the data is fine, the trailer is not.
        packed.bulk("deflate", error.offset if error.offset > start else len(packed.data), "compressed data")
        packed.say("trailer", packed.pen.left, "", error.message, error.rule)
        raise
    packed.bulk("deflate", end, "compressed data (RFC 1951)", "GZP-01")
    packed.number("crc32", 4, "CRC-32 of the output: matches", "GZP-04")
    packed.number("isize", 4, "size of the output: matches", "GZP-04")


def write_member_header(packed: Packed) -> None:
    """Write the ten bytes that every member starts with."""
    packed.say("id", 2, "gzip", "RFC 1952", "GZP-01")
    packed.number("method", 1, "8 is deflate", "GZP-01")
    flags = packed.data[packed.at] if packed.pen.left else 0
    packed.say("flags", 1, f"0x{flags:02x}", options(flags) or "no optional fields", "GZP-06")
    packed.number("mtime", 4, "modification time; not looked at")
    packed.number("xfl", 1, "extra flags; not looked at")
    packed.number("os", 1, "not looked at; Java: 255, once 0", "GZP-08")


def options(flags: int) -> str:
    """The optional header fields that *flags* announce."""
    return ", ".join(name for flag, name in OPTIONAL.items() if flags & flag)


def write_snappy(packed: Packed) -> None:
    """Write xerial blocks, or the one raw block (SNP-01, SNP-02)."""
    if len(packed.data) < snappy.HEADER.size or not packed.data.startswith(snappy.MAGIC):
        write_raw(packed, len(packed.data), "SNP-02")
        return
    write_xerial_header(packed)
    given = False  # whether there was output since the last half of a header
    while packed.pen.left >= snappy.INT32.size:
        at = packed.at
        if not packed.data.startswith(snappy.MAGIC[: snappy.INT32.size], at):
            given = write_snappy_block(packed) > 0 or given
            continue
        end = snappy.repeated_header_end(packed.data, at)  # SNP-04: or it refuses
        if not snappy.is_half_a_header(packed.data, at):
            write_xerial_header(packed)
        elif given:
            packed.bulk("half_a_header", end, "passed over: half a xerial header", "SNP-04")
            given = False
        else:
            packed.pen.rest("ignored: half a xerial header, and no data before it", rule="SNP-04")
    packed.pen.rest("ignored: too short to be a length", rule="SNP-09")


def write_xerial_header(packed: Packed) -> None:
    """Write the 16 bytes before the blocks, which are big-endian unlike all else in codecs."""
    _, version, compatible = snappy.HEADER.unpack_from(packed.data, packed.at)
    packed.say("xerial_magic", 8, r"\x82SNAPPY\x00", "snappy-java's block framing", "SNP-01")
    packed.say("xerial_version", 4, str(version), "", "SNP-03")
    packed.say("xerial_compatible", 4, str(compatible), "lowest version to read it", "SNP-03")


def write_snappy_block(packed: Packed) -> int:
    """Write a length and the raw block after it; give the length of its output."""
    (length,) = snappy.INT32.unpack_from(packed.data, packed.at)
    packed.say("block_length", 4, str(length), "big-endian", "SNP-05")
    if not 0 <= length <= packed.pen.left:
        raise refused(f"a snappy block of {length} bytes, {packed.pen.left} are left", packed.at, "SNP-08")
    return write_raw(packed, packed.at + length, "SNP-07")


def write_raw(packed: Packed, end: int, rule: str) -> int:
    """Write a raw block: the length of its output, which it gives, then literals and copies."""
    block = packed.data[packed.at : end]
    try:
        claimed, used = decode_unsigned(block, 0, 5, "uncompressed_length")
    except RecordFormatError:
        packed.bulk("block", end, "not a raw snappy block", rule)
        return 0
    packed.say("uncompressed_length", used, str(claimed), f"{size(claimed)} when decompressed", rule)
    packed.bulk("block", end, "literals and copies", rule)
    return claimed
