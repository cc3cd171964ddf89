"""Record batches as Arrow columns and back, at the speed of the machine: `read`, `scan` for files, `write`.

The reference (`kafka_records`) says what is right; this package says it fast.
Kernels read what is plainly right.  Whatever is not, the reference reads,
so errors are the reference's own, and only "fine" has to be known here.

    jit, memory, buffers         how kernels are made, and the memory that they work on
    checksum                     CRC-32 and CRC-32C
    records, entries             the formats, from the inside out
    inflate                      the codecs: gzip_frames, snappy_blocks, lz4_frames, zstd_frames
    headers, chunk               results, as Arrow
    decoder                      the order of calls
    scan                         files, window by window
    writer, encoder              columns to bytes
    testee                       the same as a testee

It needs the extra `columnar`.
"""

from importlib.util import find_spec

_NEEDED = ("numba", "numpy", "pyarrow", "isal", "zlib_ng")
if _missing := [name for name in _NEEDED if find_spec(name) is None]:
    raise ImportError(f"{', '.join(_missing)} not installed: pip install 'kafkaproof[columnar]'")

from kafka_pipeline.columnar.chunk import (  # noqa: E402
    BATCHES,
    ERRORS,
    RECORDS,
    Chunk,
    batch_tables,
    batches_of,
)
from kafka_pipeline.columnar.decoder import read_chunks  # noqa: E402
from kafka_pipeline.columnar.encoder import in_batches, pack_records, write_rows  # noqa: E402
from kafka_pipeline.columnar.scan import scan  # noqa: E402
from kafka_pipeline.reading import Broken, read_by_reference  # noqa: E402

__all__ = [
    "BATCHES",
    "ERRORS",
    "RECORDS",
    "Broken",
    "Chunk",
    "batch_tables",
    "batches_of",
    "in_batches",
    "pack_records",
    "read_by_reference",
    "read_chunks",
    "scan",
    "write_rows",
]
