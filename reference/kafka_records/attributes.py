"""The attribute bits of messages and batches.

    bit    7  6  5  4  3  2 1 0
           -  H  C  X  T  codec      H delete horizon, C control, X transactional, T timestamp type

v0 knows the codec only (LEG-13, LEG-17), v1 the codec and T (LEG-18), v2 all of
them (ATT-01 to ATT-06).  The other bits, and the high byte of v2, are ignored on
reading (ATT-07, ATT-08, LEG-20) and written as zero (ATT-13).
"""

from __future__ import annotations

from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V0, Compression, TimestampType
from kafka_records.errors import RecordFormatError
from kafka_records.model import Batch

# ATT-01, LEG-13
COMPRESSION_CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
# ATT-04
TRANSACTIONAL_FLAG_MASK = 0x10
CONTROL_FLAG_MASK = 0x20
DELETE_HORIZON_FLAG_MASK = 0x40


def compression_of(attributes: int, *, at: int, rule: str) -> Compression:
    """The codec that bits 0 to 2 name; *at* and *rule* are cited for the ids 5 to 7."""
    codec = attributes & COMPRESSION_CODEC_MASK
    if codec >= len(COMPRESSIONS):
        raise RecordFormatError(
            "unsupported_compression", f"unknown compression type id {codec}", path="attributes", offset=at, rule=rule
        )
    return COMPRESSIONS[codec]


def timestamp_type_of(attributes: int, magic: int) -> TimestampType:
    """CreateTime or LogAppendTime from bit 3 (ATT-03, LEG-18); v0 has neither (LEG-17)."""
    if magic == MAGIC_VALUE_V0:
        return "none"
    return "append" if attributes & TIMESTAMP_TYPE_MASK else "create"


def attributes_of(batch: Batch) -> int:
    """The attributes that a writer gives *batch*, known bits only (ATT-13).

    Readers ignore the others (ATT-07, LEG-20).
    """
    attributes = COMPRESSIONS.index(batch.compression)
    if batch.timestamp_type == "append" and batch.magic > MAGIC_VALUE_V0:
        # LegacyRecord#computeAttributes: v0 has no such bit (LEG-17)
        attributes |= TIMESTAMP_TYPE_MASK
    if batch.transactional:
        attributes |= TRANSACTIONAL_FLAG_MASK
    if batch.control:
        attributes |= CONTROL_FLAG_MASK
    if batch.delete_horizon is not None:
        attributes |= DELETE_HORIZON_FLAG_MASK
    return attributes
