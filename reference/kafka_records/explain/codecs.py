"""Compressed bytes in words: each codec's framing, and the content.

The framing is explained with the codecs' own constants and functions; when one of
these refuses, the rest is left unread.  Positions count from the first
compressed byte, as in `kafka_records.compression`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafka_records.compression import decompress
from kafka_records.compression.common import refused
from kafka_records.constants import MAGIC_VALUE_V2, Compression
from kafka_records.errors import RecordFormatError
from kafka_records.explain.frames import Packed, write_gzip, write_lz4, write_snappy, write_zstd
from kafka_records.explain.pen import Ink, Pen
from kafka_records.explain.words import size

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
