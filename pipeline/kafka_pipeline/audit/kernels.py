"""Entries of a stretch for the checks, as compiled kernels read them; needs the extra `columnar`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from kafka_pipeline.audit.entries import NOWHERE, Looked, RecordTotals
from kafka_pipeline.columnar import headers
from kafka_pipeline.columnar.chunk import Chunk
from kafka_pipeline.columnar.headers import BASE_OFFSET, FIELDS, LAST_OFFSET
from kafka_pipeline.columnar.jit import Numbers, kernel
from kafka_pipeline.columnar.scan import scan_stretch
from kafka_pipeline.reading import READ_WINDOW, ByteSource
from kafka_records.constants import INT64_MAX, INT64_MIN

# A row for each fact, a column for each entry.
DISORDER, OUTSIDE, NEWEST, OLDEST, FACTS = range(5)
# Fields of `Looked` by the numbers of the columns that have them.
COLUMNS: Final = {
    "position": headers.POSITION,
    "size": headers.SIZE,
    "magic": headers.MAGIC,
    "attributes": headers.ATTRIBUTES,
    "base": headers.BASE_OFFSET,
    "last": headers.LAST_OFFSET,
    "newest": headers.MAX_TIMESTAMP,
    "producer": headers.PRODUCER_ID,
    "epoch": headers.PRODUCER_EPOCH,
    "sequence": headers.BASE_SEQUENCE,
    "leader_epoch": headers.LEADER_EPOCH,
    "records": headers.RECORDS,
}
assert len(COLUMNS) == FIELDS - 2  # without the CRC and the base timestamp


@kernel
def entry_facts(rows: Numbers, offsets: Numbers, times: Numbers, fields: Numbers, facts: Numbers) -> None:
    """For each entry: the first record whose offset does not grow, the first outside of the entry's, the times."""
    for batch in range(len(rows) - 1):
        base, last = fields[BASE_OFFSET, batch], fields[LAST_OFFSET, batch]
        newest, oldest = INT64_MIN, INT64_MAX
        disorder = outside = NOWHERE
        before = INT64_MIN
        for row in range(rows[batch], rows[batch + 1]):
            offset, time = offsets[row], times[row]
            if offset <= before and disorder < 0:
                disorder = row
            if (offset < base or offset > last) and outside < 0:
                outside = row
            before = offset
            newest, oldest = max(newest, time), min(oldest, time)
        facts[DISORDER, batch], facts[OUTSIDE, batch] = disorder, outside
        facts[NEWEST, batch], facts[OLDEST, batch] = newest, oldest


def read_looked(source: ByteSource, start: int, end: int) -> Generator[Looked, None, tuple[int, bool]]:
    """The entries from *start* to *end*; returns where reading ended, and whether no entry can be there."""
    reading = scan_stretch(source, start, end, window=READ_WINDOW)
    while True:
        try:
            chunk = next(reading)
        except StopIteration as over:
            read, broken = over.value
            return int(read), bool(broken)
        yield looked_of(chunk)


def looked_of(chunk: Chunk) -> Looked:
    """The columns of a chunk that checks use."""
    rows = chunk.rows
    facts = np.empty((FACTS, chunk.counts.batches), np.int64)
    columns = chunk.columns
    entry_facts(rows, columns.numbers("offset"), columns.numbers("timestamp"), chunk.fields, facts)

    def key_and_value(row: int) -> tuple[bytes | None, bytes | None]:
        key, value = (chunk.records.column(name)[row].as_py() for name in ("key", "value"))
        return key, value

    return Looked(
        **{name: chunk.fields[number] for name, number in COLUMNS.items()},
        starts=rows[:-1],
        offsets=columns.numbers("offset"),
        disorder=facts[DISORDER],
        outside=facts[OUTSIDE],
        latest=facts[NEWEST],
        earliest=facts[OLDEST],
        totals=_totals(chunk),
        broken=chunk.broken,
        key_and_value=key_and_value,
    )


def _totals(chunk: Chunk) -> RecordTotals:
    columns, rows, count = chunk.columns, chunk.counts.rows, chunk.counts.headers

    def lengths(name: str, number: int) -> int:
        return int(columns.array(name).view(np.int32)[::4][:number].sum(dtype=np.int64))

    def nulls(name: str) -> int:
        bits = columns.array(name)[: (rows + 7) // 8]
        return 8 * len(bits) - int(np.bitwise_count(bits).sum(dtype=np.int64))

    return RecordTotals(
        records=rows,
        headers=count,
        key_bytes=lengths("key", rows),
        value_bytes=lengths("value", rows),
        header_bytes=lengths("header_key", count) + lengths("header_value", count),
        without_key=nulls("key_bits"),
        without_value=nulls("value_bits"),
    )
