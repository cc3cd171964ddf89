"""The place of every fixed field of a record format, as data.

Decoders, encoders, `explain` and mutators read these tables, so a width is
written down once.  Fields that follow a variable part (keys, values, v2
records) have no fixed place; `RECORD_V2` and `HEADER_V2` name them in order.

>>> BATCH_V2.field("crc").offset, BATCH_V2.size
(17, 61)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from struct import Struct
from typing import Final

# FRM-01, HDR-02: all fixed fields are big-endian; struct's letters say width and sign.
WIDTHS: Final = {"i8": ("b", 1), "i16": ("h", 2), "i32": ("i", 4), "u32": ("I", 4), "i64": ("q", 8)}


@dataclass(frozen=True, slots=True)
class FixedField:
    """A fixed field: name, offset and width in bytes, type as `i32`."""

    name: str
    offset: int
    width: int
    type: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Fixed fields end to end."""

    fields: tuple[FixedField, ...]
    struct: Struct

    @property
    def size(self) -> int:
        """Bytes from the first field to the end of the last."""
        return self.struct.size

    def field(self, name: str) -> FixedField:
        """The field called *name*; KeyError if there is none."""
        return {field.name: field for field in self.fields}[name]

    def values(self, data: bytes, at: int = 0) -> dict[str, int]:
        """The number in every field, the first of them at *at*; struct.error where *data* is too short."""
        return dict(zip((field.name for field in self.fields), self.struct.unpack_from(data, at), strict=True))


def layout(**types: str) -> Layout:
    """Lay fields of these *types* end to end, in the order given."""
    widths = [WIDTHS[type_][1] for type_ in types.values()]
    offsets = accumulate(widths, initial=0)
    fields = tuple(map(FixedField, types, offsets, widths, types.values()))
    return Layout(fields, Struct(">" + "".join(WIDTHS[type_][0] for type_ in types.values())))


# FRM-01: what comes before every entry.
ENTRY: Final = layout(offset="i64", size="i32")

# FRM-03: magic sits at byte 16 in every version.  In v0 and v1 the CRC comes
# before it; in v2 after, so a reader has to look at the magic first.
# LEG-01, seed 004:55-61.  key_length, key, value_length, value follow.
MESSAGE_V0: Final = layout(offset="i64", message_size="i32", crc="u32", magic="i8", attributes="i8")
# LEG-02, KIP-32: the timestamp comes after the attributes.
MESSAGE_V1: Final = layout(offset="i64", message_size="i32", crc="u32", magic="i8", attributes="i8", timestamp="i64")
# HDR-01, HDR-04, seed 002:94-109 (seeds 000, 001 and 003 leave out record_count).
BATCH_V2: Final = layout(
    base_offset="i64",
    batch_length="i32",
    partition_leader_epoch="i32",
    magic="i8",
    crc="u32",
    attributes="i16",
    last_offset_delta="i32",
    base_timestamp="i64",
    max_timestamp="i64",
    producer_id="i64",
    producer_epoch="i16",
    base_sequence="i32",
    record_count="i32",
)

# LEG-01: the variable part of a message, each length an i32.
MESSAGE_BODY: Final = (("key_length", "i32"), ("key", "bytes"), ("value_length", "i32"), ("value", "bytes"))
# REC-01, VAR-03: the fields of a v2 record, all lengths and counts signed zig-zag.
RECORD_V2: Final = (
    ("length", "varint"),
    ("attributes", "i8"),
    ("timestamp_delta", "varlong"),
    ("offset_delta", "varint"),
    ("key_length", "varint"),
    ("key", "bytes"),
    ("value_length", "varint"),
    ("value", "bytes"),
    ("header_count", "varint"),
)
HEADER_V2: Final = (
    ("key_length", "varint"),
    ("key", "bytes"),
    ("value_length", "varint"),
    ("value", "bytes"),
)

# Where a reader has to look before it can read the rest.
MAGIC_OFFSET: Final = BATCH_V2.field("magic").offset
CRC_OFFSET_V2: Final = BATCH_V2.field("crc").offset
ATTRIBUTES_OFFSET_V2: Final = BATCH_V2.field("attributes").offset
RECORD_COUNT_OFFSET_V2: Final = BATCH_V2.field("record_count").offset
CRC_OFFSET_LEGACY: Final = MESSAGE_V0.field("crc").offset
ATTRIBUTES_OFFSET_LEGACY: Final = MESSAGE_V0.field("attributes").offset

# CRC-01, LEG-04: where the checksummed bytes start.
CRC_START_V2: Final = ATTRIBUTES_OFFSET_V2
CRC_START_LEGACY: Final = MAGIC_OFFSET
