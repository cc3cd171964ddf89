"""Which bytes a checksum covers, and with which polynomial.

v0/v1: CRC-32 (IEEE) from the magic byte to the end of the sized message
(LEG-04, LEG-05).  v2: CRC-32C (Castagnoli) from the attributes to the end of
the batch (CRC-01), compressed bytes as they are (CRC-03).  Base offset, size,
leader epoch, magic and the CRC itself are outside, because brokers change them
without touching it (CRC-02, CRC-11).
"""

from __future__ import annotations

from zlib import crc32

from crc32c import crc32c

from kafka_records.layout import CRC_START_LEGACY, CRC_START_V2


def checksum_v2(batch: bytes) -> int:
    """CRC-32C (CRC-04) of a whole v2 batch, its 12-byte prefix included, as an unsigned number.

    It covers the bytes as they are, compressed or not (CRC-03), and none before the attributes (CRC-02).
    """
    return crc32c(memoryview(batch)[CRC_START_V2:])


def checksum_legacy(message: bytes) -> int:
    """CRC-32 of a whole v0/v1 entry, its 12-byte prefix included and left out (LEG-06), as an unsigned number."""
    return crc32(memoryview(message)[CRC_START_LEGACY:])
