"""How much memory records take once they are written, for kernels."""

from __future__ import annotations

from typing import Final

from kafka_corpus.columnar.fields import VIEW
from kafka_corpus.columnar.jit import inlined, kernel, part
from kafka_corpus.columnar.memory import raw_u32
from kafka_corpus.columnar.output import NULL, Strings, Table, size_of, width_of
from kafka_records.layout import BATCH_V2

# Bytes of a record beyond its keys and values, at most: the varints of length, timestamp and offset, the
# attributes, three more varints; or a message's header and two sizes.
RECORD_EXTRA: Final = 48
BATCH_EXTRA: Final = BATCH_V2.size
HEADER_EXTRA: Final = 10
# Of more rows than that only samples are looked at: so many stretches of so many rows.
MANY: Final = 4096
SAMPLES: Final = 32
STRETCH: Final = 64
# A guess above it is not acted on: one enormous value may be in a sample.
INCREDIBLE: Final = 1 << 30


@part
def all_bytes(strings: Strings, first: int, end: int) -> int:
    """Bytes in these rows of a column."""
    total = 0
    if strings.bits:
        for row in range(first, end):
            total += max(size_of(strings, row), 0)
        return total
    for row in range(first, end):
        total += raw_u32(strings.views + VIEW * row)
    return total


@part
def most_of_rows(table: Table, first: int, end: int) -> int:
    """The most bytes that these rows take."""
    total = (end - first) * RECORD_EXTRA + all_bytes(table.key, first, end) + all_bytes(table.value, first, end)
    if table.header_end and end > first:
        for header in range(raw_u32(table.header_end + 4 * first), raw_u32(table.header_end + 4 * end)):
            total += HEADER_EXTRA + size_of(table.header_key, header) + max(size_of(table.header_value, header), 0)
    return total


@kernel
def most_bytes(table: Table, first: int, end: int, batches: int) -> int:
    """The most bytes that entries with these rows take."""
    return batches * BATCH_EXTRA + most_of_rows(table, first, end)


@kernel
def likely_bytes(table: Table, rows: int, batches: int) -> int:
    """About the bytes that entries with all rows take, rather more: counting all costs as much as a copy."""
    if rows <= MANY:
        return batches * BATCH_EXTRA + most_of_rows(table, 0, rows)
    sampled = 0
    for sample in range(SAMPLES):
        first = (rows - STRETCH) // (SAMPLES - 1) * sample
        sampled += most_of_rows(table, first, first + STRETCH)
    guess = batches * BATCH_EXTRA + (sampled // (SAMPLES * STRETCH) + 1) * rows // 16 * 17
    return guess if guess < INCREDIBLE else batches * BATCH_EXTRA + most_of_rows(table, 0, rows)


@inlined
def width_of_string(size: int) -> int:
    """Bytes of a string's length and of itself."""
    return 1 if size == NULL else width_of(size << 1) + size


@part
def width_of_headers(table: Table, first: int, end: int) -> int:
    """Bytes of headers."""
    total = 0
    for header in range(first, end):
        total += width_of_string(size_of(table.header_key, header))
        total += width_of_string(size_of(table.header_value, header))
    return total
