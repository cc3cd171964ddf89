"""Builders of cases: what they promise beside right bytes."""

from zlib import crc32

import pytest
from crc32c import crc32c

from kafka_corpus.authoring.build import forced


@pytest.mark.parametrize("checksum", [crc32, crc32c])
@pytest.mark.parametrize("wanted", [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_four_bytes_force_a_checksum(wanted: int, checksum: object) -> None:
    """Four bytes anywhere in the data give it any CRC, of either polynomial."""
    assert callable(checksum)

    def crc_of(chosen: bytes) -> int:
        return int(checksum(b"before" + chosen + b"after"))

    assert crc_of(forced(wanted, crc_of)) == wanted
