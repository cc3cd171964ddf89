"""What the records of each entry amount to, by a kernel that looks at every record once."""

from __future__ import annotations

import numpy as np

from kafka_corpus.columnar.chunk import Chunk
from kafka_corpus.columnar.headers import BASE_OFFSET, LAST_OFFSET
from kafka_corpus.columnar.jit import Numbers, kernel
from kafka_records.constants import INT64_MAX, INT64_MIN

# A row for each fact, a column for each entry.
DISORDER, OUTSIDE, NEWEST, OLDEST, FACTS = range(5)
NOWHERE = -1


@kernel
def look(rows: Numbers, offsets: Numbers, times: Numbers, fields: Numbers, facts: Numbers) -> None:
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


def facts_of(chunk: Chunk) -> Numbers:
    """The facts of a chunk."""
    facts = np.empty((FACTS, chunk.counts.batches), np.int64)
    columns = chunk.columns
    look(chunk.rows, columns.numbers("offset"), columns.numbers("timestamp"), chunk.fields, facts)
    return facts
