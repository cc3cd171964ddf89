"""The decoders that are compared, as functions over a log that give what they read.

What they read is a number of records and a checksum: the sum of all offsets,
timestamps, and sizes, with -1 for null.  So each has to look at every field.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

MASK: Final = 2**63 - 1
LEAST_SECONDS: Final = 0.05


class DecodedCounts(NamedTuple):
    """Counts of the data that a decoder read."""

    records: int
    checksum: int


def columnar(data: bytes) -> DecodedCounts:
    """Ours: all columns are filled; what is added up is their own."""
    from kafka_pipeline.columnar import read_chunks

    records = 0
    for chunk in read_chunks(data):
        assert not chunk.broken
        records += chunk.records.num_rows
    return DecodedCounts(records, 0)


def columnar_checksum(data: bytes) -> DecodedCounts:
    """The same with the checksum, which is taken from the columns and not timed."""
    import numpy as np

    from kafka_pipeline.columnar import read_chunks

    records = checksum = 0
    for chunk in read_chunks(data):
        rows = chunk.counts.rows
        records += rows
        columns = chunk.columns
        with np.errstate(over="ignore"):
            for name in ("offset", "timestamp"):
                checksum += int(columns.numbers(name)[:rows].sum())
        for name, count in (("key", rows), ("value", rows), ("header_key", chunk.counts.headers)):
            checksum += int(columns.array(name).view(np.int32)[::4][:count].sum(dtype=np.int64))
        checksum += int(columns.array("header_value").view(np.int32)[::4][: chunk.counts.headers].sum(dtype=np.int64))
    return DecodedCounts(records, checksum & MASK)


def kafka_python(data: bytes) -> DecodedCounts:
    """kafka.record.MemoryRecords, as its consumer drives it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record import MemoryRecords

    reader: Any = MemoryRecords(data)
    return by_batches(iter(reader.next_batch, None))


def aiokafka(data: bytes) -> DecodedCounts:
    """aiokafka.record.memory_records, Cython classes."""
    from aiokafka.record.memory_records import MemoryRecords

    reader: Any = MemoryRecords(data)
    return by_batches(iter(reader.next_batch, None))


def by_batches(batches: Any) -> DecodedCounts:
    """Records of objects, which both call by the same names."""
    records = checksum = 0
    for batch in batches:
        assert batch.validate_crc()
        for record in batch:
            key, value = record.key, record.value
            records += 1
            checksum += record.offset + (-1 if record.timestamp is None else record.timestamp)
            checksum += (0 if key is None else len(key)) + (0 if value is None else len(value))
            for name, content in record.headers:
                checksum += len(name) + (0 if content is None else len(content))
    return DecodedCounts(records, checksum & MASK)


def encoding(data: bytes, records: int) -> tuple[DecodedCounts, Callable[[], int]]:
    """Counts of the encoder's output for *data*, and a function that encodes its records and returns their number.

    The checksum is the sum of all CRCs and sizes of what was written.
    """
    from kafka_pipeline.columnar import pack_records, read_chunks

    tables = [chunk.records for chunk in read_chunks(data)]
    rows = sum(table.num_rows for table in tables)
    checksum = 0
    for table in tables:
        for chunk in read_chunks(pack_records(table, records)):
            checksum += sum(chunk.batches["crc"].to_pylist()) + sum(chunk.batches["size"].to_pylist())

    def write() -> int:
        return rows if all(pack_records(table, records).size for table in tables) else 0

    return DecodedCounts(rows, checksum), write


PEERS: Final[dict[str, Callable[[bytes], DecodedCounts]]] = {
    "columnar": columnar,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}


def serve(name: str, path: str, records: int) -> None:
    """Answer each line on standard input with records, checksum, and nanoseconds of processor time for a pass.

    Encodes if *records* are to make a batch, else decodes.
    """
    data = Path(path).read_bytes()
    if records:
        whole, work = encoding(data, records)
    else:
        decode = PEERS[name]
        whole = columnar_checksum(data) if decode is columnar else decode(data)

        def work() -> int:
            return decode(data).records

    work()
    for _ in sys.stdin:
        passes, start = 0, time.process_time_ns()
        while (spent := time.process_time_ns() - start) < LEAST_SECONDS * 1e9:
            assert work() == whole.records
            passes += 1
        sys.stdout.write(f"{whole.records} {whole.checksum} {spent // passes}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
