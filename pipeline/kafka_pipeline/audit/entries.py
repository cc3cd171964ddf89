"""Checks of entries: header against records, offsets and epochs against the entry before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from kafka_pipeline.audit.findings import AuditFindings
from kafka_pipeline.columnar.chunk import Chunk
from kafka_pipeline.columnar.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
)
from kafka_pipeline.columnar.jit import Numbers, kernel
from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN, NO_TIMESTAMP

# A row for each fact, a column for each entry.
DISORDER, OUTSIDE, NEWEST, OLDEST, FACTS = range(5)
NOWHERE = -1


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


def facts_of(chunk: Chunk) -> Numbers:
    """The facts of a chunk."""
    facts = np.empty((FACTS, chunk.counts.batches), np.int64)
    columns = chunk.columns
    entry_facts(chunk.rows, columns.numbers("offset"), columns.numbers("timestamp"), chunk.fields, facts)
    return facts


HOUR_MS: Final = 3_600_000
KNOWN_BITS: Final = (
    COMPRESSION_CODEC_MASK
    | TIMESTAMP_TYPE_MASK
    | TRANSACTIONAL_FLAG_MASK
    | CONTROL_FLAG_MASK
    | DELETE_HORIZON_FLAG_MASK
)
Check = tuple[str, npt.NDArray[np.bool_], Callable[[int], str]]


class Looked:
    """The entries of a chunk, as columns that checks are written in."""

    def __init__(self, chunk: Chunk, facts: Numbers) -> None:
        fields = chunk.fields
        self.chunk, self.facts, self.fields = chunk, facts, fields
        self.position, self.base, self.last = fields[POSITION], fields[BASE_OFFSET], fields[LAST_OFFSET]
        self.modern = fields[MAGIC] == 2
        self.attributes = fields[ATTRIBUTES]
        self.newest = fields[MAX_TIMESTAMP]
        self.producer = fields[PRODUCER_ID]
        self.records = fields[RECORDS]
        self.control = self.modern & (self.attributes & CONTROL_FLAG_MASK != 0)
        self.transactional = self.modern & (self.attributes & TRANSACTIONAL_FLAG_MASK != 0)
        self.marker = self.control & (self.producer >= 0)
        self.create = (self.attributes & TIMESTAMP_TYPE_MASK == 0) & (fields[MAGIC] > 0)


def check_entries(looked: Looked, found: AuditFindings, file: str, segment_base: int | None, now_ms: int) -> None:
    """Everything that can be said of entries one by one."""
    for kind, which, say in (*_offsets(looked, segment_base), *_times(looked, now_ms), *_producers(looked)):
        places = np.flatnonzero(which)
        for at in places[: found.most].tolist():
            found.add(kind, file, int(looked.position[at]), int(looked.base[at]), say(at))
        found.more(kind, len(places) - found.most)


def _offsets(looked: Looked, segment_base: int | None) -> Iterator[Check]:
    base, last, facts = looked.base, looked.last, looked.facts
    offsets = looked.chunk.columns.numbers("offset")

    def range_of(at: int) -> str:
        return f"offsets {base[at]} to {last[at]}"

    yield "negative_range", looked.modern & (last < base), range_of
    yield (
        "offset_outside",
        (facts[OUTSIDE] >= 0) & (last >= base),
        lambda at: f"offset {offsets[facts[OUTSIDE, at]]} in a batch of {range_of(at)}",
    )
    yield (
        "offsets_disorder",
        facts[DISORDER] >= 0,
        lambda at: f"offset {offsets[facts[DISORDER, at]]} follows {offsets[facts[DISORDER, at] - 1]}",
    )
    if segment_base is not None:
        yield "below_segment", base < segment_base, lambda at: f"{range_of(at)} in the segment {segment_base}"
        beyond = (last >= base) & (last - segment_base > INT32_MAX)
        yield "beyond_segment", beyond, lambda at: f"{range_of(at)} in the segment {segment_base}"


def _times(looked: Looked, now_ms: int) -> Iterator[Check]:
    newest, facts = looked.newest, looked.facts
    largest = np.maximum(facts[NEWEST], NO_TIMESTAMP)
    wrong = looked.create & (looked.records > 0) & (newest != largest)

    def against(at: int) -> str:
        return f"it says {newest[at]}, the largest is {largest[at]}"

    yield "max_timestamp", wrong & looked.modern, against
    yield "wrapper_timestamp", wrong & ~looked.modern, against
    ahead = np.maximum(newest, np.where(looked.records > 0, facts[NEWEST], NO_TIMESTAMP))
    yield (
        "future",
        ahead > now_ms + HOUR_MS,
        lambda at: f"{ahead[at]} is {(int(ahead[at]) - now_ms) / HOUR_MS:,.1f} hours ahead",
    )
    before = (looked.records > 0) & (facts[OLDEST] < NO_TIMESTAMP)
    yield "negative_timestamp", before, lambda at: f"{facts[OLDEST, at]}"


def _producers(looked: Looked) -> Iterator[Check]:
    fields, producer = looked.fields, looked.producer
    sequence, epoch = fields[BASE_SEQUENCE], fields[PRODUCER_EPOCH]

    def who(at: int) -> str:
        return f"producer {producer[at]}, epoch {epoch[at]}, base sequence {sequence[at]}"

    unknown = looked.modern & (looked.attributes & ~KNOWN_BITS != 0)
    yield "unknown_attributes", unknown, lambda at: f"attributes {int(looked.attributes[at]) & 0xFFFF:#06x}"
    yield "not_idempotent", looked.modern & (producer < 0) & ((epoch != -1) | (sequence != -1)), who
    yield "no_sequence", (producer >= 0) & ~looked.control & (sequence < 0), who
    yield "transaction_without_producer", looked.transactional & (producer < 0), who
    yield "marker_records", looked.marker & (looked.records > 1), lambda at: f"{looked.records[at]} records"
    packed = looked.attributes & COMPRESSION_CODEC_MASK != 0
    yield "marker_compressed", looked.marker & packed & (looked.records > 0), who


NO_EPOCH = -1


class LogPosition(msgspec.Struct, array_like=True):
    """How far a log has come: -1 and False before its first entry.

    Attributes:
        last: the last offset.
        epoch: the last leader epoch that there was; -1 if there was none.
        missing: offsets that were not there so far.
        gaps: how often some were not there.
        begun: whether there was an entry.
    """

    last: int = -1
    epoch: int = NO_EPOCH
    missing: int = 0
    gaps: int = 0
    begun: bool = False


class First(msgspec.Struct, array_like=True):
    """The first entry of a stretch, for what comes before it."""

    position: int
    base: int
    epoch: int


class Order:
    """Follows a log entry by entry."""

    def __init__(self, found: AuditFindings, gap: str = "gap") -> None:
        self.found, self.gap = found, gap
        self.reached = LogPosition()
        self.first: First | None = None

    def follow(self, looked: Looked, file: str) -> Numbers:
        """Go over a chunk; how many offsets had been missing at each entry, since the beginning."""
        count = len(looked.base)
        epochs = np.where(looked.modern, looked.fields[LEADER_EPOCH], NO_EPOCH)
        if not count:
            return np.zeros(0, np.int64)
        if self.first is None:
            self.first = First(*(int(column[0]) for column in (looked.position, looked.base, epochs)))
        reached = self.reached
        before = np.concatenate(([reached.last if reached.begun else looked.base[0] - 1], looked.last[:-1]))
        # Numbers at the end of the range would overflow, and are findings by themselves.
        step = looked.base.astype(np.float64) - before
        missing = np.where((step > 1) & (step < 2**62), looked.base - before - 1, 0)
        self._add_findings(looked, file, before, step, missing)
        self._epochs(looked, file, epochs)
        total = reached.missing + np.cumsum(missing)
        known = epochs[epochs >= 0]
        self.reached = LogPosition(
            last=int(looked.last[-1]),
            epoch=int(known[-1]) if len(known) else reached.epoch,
            missing=int(total[-1]),
            gaps=reached.gaps + int((missing > 0).sum()),
            begun=True,
        )
        return total

    def join(self, first: First, file: str) -> int:
        """Begin the next stretch of the log; the number of missing offsets in between."""
        reached = self.reached
        if not reached.begun:
            return 0
        if 0 <= first.epoch < reached.epoch:
            self._epoch_back(file, first.position, first.base, first.epoch, reached.epoch)
        if first.base <= reached.last:
            self._overlap(file, first.position, first.base, reached.last)
        missing = max(first.base - reached.last - 1, 0)
        if missing:
            self._gap(file, first.position, first.base, missing)
        return missing

    def _add_findings(self, looked: Looked, file: str, before: Numbers, step: Numbers, missing: Numbers) -> None:
        for at in np.flatnonzero(step < 1).tolist():
            self._overlap(file, int(looked.position[at]), int(looked.base[at]), int(before[at]))
        for at in np.flatnonzero(missing > 0).tolist():
            self._gap(file, int(looked.position[at]), int(looked.base[at]), int(missing[at]))

    def _epochs(self, looked: Looked, file: str, epochs: Numbers) -> None:
        known = np.flatnonzero(epochs >= 0)
        before = np.concatenate(([self.reached.epoch], epochs[known]))[:-1]
        back = epochs[known] < before
        for at, earlier in zip(known[back].tolist(), before[back].tolist(), strict=True):
            self._epoch_back(file, int(looked.position[at]), int(looked.base[at]), int(epochs[at]), earlier)

    def _overlap(self, file: str, position: int, base: int, last: int) -> None:
        self.found.add("overlap", file, position, base, f"offset {base} follows {last}")

    def _gap(self, file: str, position: int, base: int, missing: int) -> None:
        said = f"{missing:,} offsets before {base} are not there"
        self.found.add(self.gap, file, position, base, said)

    def _epoch_back(self, file: str, position: int, base: int, epoch: int, earlier: int) -> None:
        self.found.add("leader_epoch_back", file, position, base, f"leader epoch {epoch} follows {earlier}")
