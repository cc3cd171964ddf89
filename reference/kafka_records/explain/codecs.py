"""Compressed bytes in words: the framing of each codec, and the content.

The framing is explained with the codecs' own constants and functions; when one of
these refuses, the rest is left unread.  Positions count from the first
compressed byte, as in `kafka_records.compression`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafka_records.compression import decompress, gzip, lz4, snappy, zstd
from kafka_records.compression.common import Output, refused
from kafka_records.constants import MAGIC_VALUE_V2, Compression
from kafka_records.errors import RecordFormatError
from kafka_records.explain.pen import Ink, Pen
from kafka_records.explain.words import Words, joined, size
from kafka_records.varint import decode_unsigned

# The decompressed bytes, the copies of them in fields, and the codec's own memory.
OPENED_COST = 4


class Content(NamedTuple):
    """The place of compressed bytes, and how their content is written."""

    compression: Compression
    magic: int
    write: Callable[[Pen], None]


def write_packed(pen: Pen, name: str, content: Content) -> None:
    """Write all that is left of the part in hand as compressed bytes, and open them."""
    data, path = pen.data[pen.at : pen.end], pen.draft.path
    with pen.part(name, f"{content.compression} · {size(len(data))}", len(data)) as draft:
        try:
            plain = unpack(pen.ink, data, content)
        except RecordFormatError as error:
            draft.title += f" · not opened: {error.message}"
        else:
            title = f"{content.compression} opened: {size(len(plain))} from {size(len(data))}"
            draft.opened = Pen(plain, pen.ink, path).section(title, draft.offset, content.write)
        write_framing(Packed(pen, data, pen.at), content)


def unpack(ink: Ink, data: bytes, content: Content) -> bytes:
    """The decompressed bytes, paid for from the memory budget."""
    compression, magic, _ = content
    if compression == "zstd" and magic < MAGIC_VALUE_V2:
        raise refused("v0 and v1 know no zstd", 0, "LEG-15")
    plain = decompress(compression, data, magic=magic, most=ink.room // OPENED_COST)
    ink.pay(OPENED_COST * len(plain))
    return plain


def write_framing(packed: Packed, content: Content) -> None:
    """Write the codec's own fields."""
    match content.compression:
        case "gzip":
            write_gzip(packed)
        case "snappy":
            write_snappy(packed)
        case "lz4":
            write_lz4(packed, check_header=content.magic > 0)
        case _:
            write_zstd(packed)


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


FLAGS = (
    (lz4.BLOCK_INDEPENDENCE, "independent blocks"),
    (lz4.BLOCK_CHECKSUM, "block checksums"),
    (lz4.CONTENT_SIZE, "content size"),
    (lz4.CONTENT_CHECKSUM, "content checksum"),
)


def write_lz4(packed: Packed, *, check_header: bool) -> None:
    """Write the one frame; what follows it is never looked at (LZ4-14)."""
    if packed.data.startswith(lz4.MAGIC):
        write_lz4_header(packed, check_header=check_header)
    flags, block_size, _ = lz4.read_lz4_header(packed.data, check_header=check_header)
    while write_lz4_block(packed, flags, block_size):
        pass
    packed.pen.rest("ignored: after the end of the frame", rule="LZ4-14")


def write_lz4_header(packed: Packed, *, check_header: bool) -> None:
    """Write magic, FLG, BD, content size and header checksum, as many as there are."""
    packed.say("magic", 4, "0x184d2204", "an LZ4 frame, little-endian", "LZ4-01")
    flags, descriptor = (*packed.data[4:6], 0, 0)[:2]
    version = f"version {flags >> 6}"
    meaning = ", ".join((version, *(name for flag, name in FLAGS if flags & flag)))
    packed.say("FLG", 1, f"0x{flags:02x}", meaning, "LZ4-02")
    packed.say("BD", 1, f"0x{descriptor:02x}", f"blocks of at most {block_size_of(descriptor)}", "LZ4-04")
    if flags & lz4.CONTENT_SIZE:
        packed.number("content_size", 8, "not looked at", "LZ4-08")
    packed.say("HC", 1, packed.data[packed.at : packed.at + 1].hex(), say_checksum(packed, check_header), "LZ4-05")


def block_size_of(descriptor: int) -> str:
    """The largest block that BD allows; Kafka knows the codes 4 to 7."""
    code = descriptor >> 4 & 7
    return f"{1 << (2 * code - 2):,} KiB" if code >= 4 else "no known size"


def say_checksum(packed: Packed, check_header: bool) -> str:
    """Whether the header checksum is right, and for v0 which of the two it is (LZ4-06)."""
    found, descriptor = packed.data[packed.at : packed.at + 1], packed.data[4 : packed.at]
    right = bytes((lz4.header_checksum(descriptor),))
    if found == right:
        return "header checksum: matches"
    if check_header:
        return f"header checksum: stored {found.hex()}, computed {right.hex()}"
    broken = bytes((lz4.header_checksum(lz4.MAGIC + descriptor),))
    how = "with the magic in it, as v0 has it" if found == broken else f"wrong, {right.hex()} would be right"
    return f"header checksum, not looked at in v0: {how}"


def write_lz4_block(packed: Packed, flags: int, block_size: int) -> bool:
    """Write a block, or the end of the frame; return whether there is more."""
    at = packed.at
    word = int.from_bytes(packed.data[at : at + 4], "little")
    length, stored = word & ~lz4.STORED, bool(word & lz4.STORED)
    if length == 0 or packed.pen.left < 4:
        packed.say("EndMark", 4, "0", "the end of the frame", "LZ4-13" if stored else "LZ4-12")
        if flags & lz4.CONTENT_CHECKSUM:
            packed.number("content_checksum", 4, "has to be there, is not verified", "LZ4-09")
        return False
    packed.say("block_size", 4, str(length), "stored as it is" if stored else "compressed", "LZ4-11")
    packed.bulk("block", at + 4 + length, f"{'stored' if stored else 'compressed'} data", "LZ4-11")
    if flags & lz4.BLOCK_CHECKSUM:
        packed.number("block_checksum", 4, "xxHash-32 of the block as it is here", "LZ4-10")
    block, _ = lz4.read_block(packed.data, at, word, block_size, flags)
    return bool(block)


BLOCK_TYPES = ("raw", "one byte repeated", "compressed", "reserved type")


def write_zstd(packed: Packed) -> None:
    """Write frames and skippable frames, one after the other (ZST-02, ZST-03)."""
    while packed.pen.left:
        at = packed.at
        if packed.data[at + 1 : at + 4] == zstd.SKIPPABLE and packed.data[at] & 0xF0 == 0x50:
            write_skippable(packed)
        elif packed.data.startswith(zstd.MAGIC, at):
            write_frame(packed)
        else:
            raise refused("not a zstd frame", at, "ZST-04")


def write_skippable(packed: Packed) -> None:
    """Write a frame that holds no data."""
    packed.say("magic", 4, f"0x184d2a5{packed.data[packed.at] & 15:x}", "a skippable frame", "ZST-03")
    length = packed.number("skipped_size", 4, "little-endian", "ZST-03")
    packed.bulk("skipped", packed.at + length, "not looked at", "ZST-03")


def write_frame(packed: Packed) -> None:
    """Write a frame's header, its blocks and its checksum."""
    frame = zstd.read_frame_header(packed.data, packed.at)
    write_zstd_header(packed, frame)
    last = False
    while not last:
        last = write_zstd_block(packed)
    if frame.checksum:
        packed.number("content_checksum", 4, "low half of the output's xxHash-64", "ZST-05")


def write_zstd_header(packed: Packed, frame: zstd.Frame) -> None:
    """Write what comes before the blocks; it is all there and allowed."""
    descriptor = packed.data[packed.at + 4]
    single = bool(descriptor & 0x20)
    packed.say("magic", 4, "0xfd2fb528", "a zstd frame, little-endian", "ZST-02")
    meaning = joined(
        "one segment" if single else "",
        "content size" if frame.content_size is not None else "no content size",
        "content checksum" if frame.checksum else "no checksum",
    ).replace(";", ",")
    packed.say("descriptor", 1, f"0x{descriptor:02x}", meaning, "ZST-10")
    if not single:
        window = zstd.window_size(packed.data[packed.at])
        packed.say("window", 1, f"0x{packed.data[packed.at]:02x}", f"a window of {size(window)}", "ZST-08")
    packed.number("dictionary_id", zstd.DICTIONARY_ID_BYTES[descriptor & 3], "no dictionary", "ZST-09")
    if frame.content_size is not None:
        content = size(frame.content_size)
        packed.say("content_size", frame.end - packed.at, str(frame.content_size), f"{content} of output", "ZST-06")


def write_zstd_block(packed: Packed) -> bool:
    """Write a block; return whether it is the last."""
    at = packed.at
    header = int.from_bytes(packed.data[at : at + 3], "little")
    last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
    meaning = f"{BLOCK_TYPES[kind]}, {size(length)}{', the last block' if last else ''}"
    packed.say("block_header", 3, f"0x{header:06x}", meaning, "ZST-07")
    if (not packed.pen.left and not (last and length == 0)) or kind == 3:
        raise refused("a zstd block is cut short or of reserved type", at, "ZST-07")
    packed.bulk("block", packed.at + (1 if kind == 1 else length), "block data", "ZST-07")
    return last
