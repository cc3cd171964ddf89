"""CRC-32C and CRC-32 for kernels: by carry-less multiplication where the processor has it, else by tables.

`(address, size, floor) -> crc`.  Bytes in front of the data are read as well
(`folding.py`), but none below the address *floor*.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafka_pipeline.columnar.folding import CRC32, CRC32C, FIELD, crc_intrinsic, four_right, reflected
from kafka_pipeline.columnar.jit import Numbers, cpu_features, inlined_kernel, kernel, part
from kafka_pipeline.columnar.memory import load_u8, load_u32, raw_u32

_FEATURES: Final = cpu_features()
NARROW: Final = "pclmul" in _FEATURES
WIDE: Final = NARROW and {"vpclmulqdq", "avx512f", "avx512bw"} <= _FEATURES
LANES: Final = 4 if WIDE else 1
NARROWEST: Final = 16
WIDTH: Final = NARROWEST * LANES
LEAST: Final = 4  # bytes that the initial value takes


def crc_tables(polynomial: int) -> Numbers:
    """Eight tables of 256, for eight bytes at a time ("slicing by 8")."""
    divisor = reflected(polynomial, 32)
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (divisor if value & 1 else 0)
        tables[0, byte] = value
    for step in range(1, 8):
        before = tables[step - 1]
        tables[step] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_TABLES_32C: Final = crc_tables(CRC32C)
_TABLES_32: Final = crc_tables(CRC32)


@part
def by_tables(tables: Numbers, address: int, size: int) -> int:
    """The CRC whose tables these are; any processor can do this."""
    crc = 0xFFFFFFFF
    end = address + size
    while address + 8 <= end:
        low = crc ^ raw_u32(address)
        high = raw_u32(address + 4)
        crc = (
            tables[7, low & 0xFF]
            ^ tables[6, low >> 8 & 0xFF]
            ^ tables[5, low >> 16 & 0xFF]
            ^ tables[4, low >> 24]
            ^ tables[3, high & 0xFF]
            ^ tables[2, high >> 8 & 0xFF]
            ^ tables[1, high >> 16 & 0xFF]
            ^ tables[0, high >> 24]
        )
        address += 8
    while address < end:
        crc = crc >> 8 ^ tables[0, (crc ^ load_u8(address)) & 0xFF]
        address += 1
    return crc ^ 0xFFFFFFFF


@kernel
def plain_crc32c(address: int, size: int, floor: int) -> int:
    """CRC-32C without special instructions."""
    return by_tables(_TABLES_32C, address, size)


@kernel
def plain_crc32(address: int, size: int, floor: int) -> int:
    """CRC-32 without special instructions."""
    return by_tables(_TABLES_32, address, size)


if NARROW:
    _INSTRUCTION: Final = "sse4.2" in _FEATURES
    _narrow_32c = crc_intrinsic(CRC32C, 1, instruction=_INSTRUCTION)
    _wide_32c = crc_intrinsic(CRC32C, LANES, instruction=_INSTRUCTION)
    _narrow_32, _wide_32 = crc_intrinsic(CRC32, 1), crc_intrinsic(CRC32, LANES)

    @part
    def short_crc32c(address: int, size: int, floor: int) -> int:
        """CRC-32C of what little can be read in front of."""
        if size >= LEAST and address - floor >= NARROWEST:
            return _narrow_32c(address, size)
        return by_tables(_TABLES_32C, address, size)

    @part
    def short_crc32(address: int, size: int, floor: int) -> int:
        """CRC-32 of what little can be read in front of."""
        if size >= LEAST and address - floor >= NARROWEST:
            return _narrow_32(address, size)
        return by_tables(_TABLES_32, address, size)

    @inlined_kernel
    def crc32c(address: int, size: int, floor: int) -> int:
        """CRC-32C (CRC-01)."""
        if size >= LEAST and address - floor >= WIDTH:
            return _wide_32c(address, size)
        return short_crc32c(address, size, floor)

    @inlined_kernel
    def crc32(address: int, size: int, floor: int) -> int:
        """CRC-32 (LEG-04)."""
        if size >= LEAST and address - floor >= WIDTH:
            return _wide_32(address, size)
        return short_crc32(address, size, floor)

else:
    crc32c, crc32 = plain_crc32c, plain_crc32


if WIDE:
    # `(address, size, address, size, …)`, four times; each as far from the start of its memory as `WIDTH`.
    four_right_crc32 = four_right(CRC32)

else:

    @part
    def four_right_crc32(
        one: int, one_size: int, two: int, two_size: int, three: int, three_size: int, four: int, four_size: int
    ) -> bool:
        """Whether the CRC-32s in front of four pieces are right, each as far from its memory's start as `WIDTH`."""
        return (
            crc32(one, one_size, one - WIDTH) == load_u32(one - FIELD)
            and crc32(two, two_size, two - WIDTH) == load_u32(two - FIELD)
            and crc32(three, three_size, three - WIDTH) == load_u32(three - FIELD)
            and crc32(four, four_size, four - WIDTH) == load_u32(four - FIELD)
        )
