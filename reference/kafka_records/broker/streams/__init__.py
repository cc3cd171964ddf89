"""Decompressed bytes as a broker's code sees them: one call after the other, errors where they surface.

A broker decompresses while it reads records, so whether a broken record or a
broken stream is noticed first decides its answer (CMP-04, CMP-05).  These
classes stand for Java's `InputStream`s, call by call.
"""

from __future__ import annotations

from kafka_records.broker.errors import Thrown
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.streams.base import Chunked, Direct, Source, Stream
from kafka_records.broker.streams.gzip import LARGE_BUFFER, SMALL_BUFFER, GzipSource
from kafka_records.broker.streams.lz4 import Lz4Source
from kafka_records.broker.streams.snappy import SnappySource
from kafka_records.broker.streams.zstd import ZstdSource
from kafka_records.constants import MAGIC_VALUE_V0, Compression
from kafka_records.errors import RecordFormatError

__all__ = ["Stream", "open_stream"]

# Compression#decompressionOutputSize: bytes that are decompressed at a time.
LARGE_CHUNK, SMALL_CHUNK = 16 * 1024, 2 * 1024


def open_stream(compression: Compression, data: bytes, magic: int, does: Behaviour) -> Stream:
    """The stream of `wrapForInput`; its constructors read headers, and wrap every error in KafkaException (CMP-06)."""
    try:
        source = _source(compression, data, magic, does)
    except RecordFormatError as error:
        raise Thrown("KafkaException", error.rule) from None
    if does.skips_by == "stream":
        large = compression in ("gzip", "zstd")
        return Chunked(source, LARGE_CHUNK if large else SMALL_CHUNK, skips=compression == "lz4")
    # Java's own BufferedInputStream in front of some, nothing in front of the others.
    buffered = compression == "zstd" or (compression == "gzip" and does.buffers_gzip)
    return Chunked(source, LARGE_CHUNK) if buffered else Direct(source)


def _source(compression: Compression, data: bytes, magic: int, does: Behaviour) -> Source:
    match compression:
        case "gzip":
            return GzipSource(
                data, LARGE_BUFFER if does.buffers_gzip else SMALL_BUFFER, sees_available=does.sees_available
            )
        case "snappy":
            return SnappySource(data)
        case "lz4":
            return Lz4Source(data, check_header=magic > MAGIC_VALUE_V0)
        case _:
            return ZstdSource(data, checks_prefix=does.checks_prefix, skips_any_size=does.skips_any_size)
