"""Checks of one entry by itself: its header against its records, its segment, and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from kafka_corpus.audit.facts import DISORDER, NEWEST, OLDEST, OUTSIDE
from kafka_corpus.audit.findings import Found
from kafka_corpus.columnar.chunk import Chunk
from kafka_corpus.columnar.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    LAST_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
)
from kafka_corpus.columnar.jit import Numbers
from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.constants import INT32_MAX, NO_TIMESTAMP

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


def check(looked: Looked, found: Found, file: str, segment_base: int | None, now_ms: int) -> None:
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
        lambda at: f"offset {offsets[facts[DISORDER, at]]} behind {offsets[facts[DISORDER, at] - 1]}",
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
