"""The four codecs as Kafka frames them, with output that is always bounded.

Libraries do the compression itself; the framing is ours wherever Kafka departs
from the library.  Positions in errors count from the first compressed byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_records.compression import gzip, lz4, snappy, zstd
from kafka_records.constants import MAGIC_VALUE_V0

if TYPE_CHECKING:
    from kafka_records.constants import Compression


def decompress(compression: Compression, data: bytes, *, magic: int, most: int) -> bytes:
    """The plain bytes of *data*, at most *most* of them.

    Raises:
        RecordFormatError: kind `decompression`, or `limit` when there is more.
    """
    match compression:
        case "gzip":
            return gzip.decompress(data, most)
        case "snappy":
            return snappy.decompress(data, most)
        case "lz4":
            # LEG-14, LZ4-07: v0 has lz4 too, with a header checksum of its own, which v1 and v2 refuse.
            return lz4.decompress(data, most, check_header=magic > MAGIC_VALUE_V0)
        case "zstd":
            return zstd.decompress(data, most)
        case _:
            return data


def compress(compression: Compression, data: bytes, *, magic: int) -> bytes:
    """*data* in the framing that Kafka's own writer uses (GZP-08, SNP-01, LZ4-16, ZST-10).

    With lz4 these are Java's own bytes; with gzip, zstd and most snappy data, other libraries give others (RWR-14).
    """
    match compression:
        case "gzip":
            return gzip.compress(data)
        case "snappy":
            return snappy.compress(data)
        case "lz4":
            return lz4.compress(data, broken_header=magic == MAGIC_VALUE_V0)
        case "zstd":
            return zstd.compress(data)
        case _:
            return data
