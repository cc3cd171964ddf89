"""Sizes that a topic allows, and what a broker's memory holds.

Kafka bounds neither the length of a record nor the number of records that a
compressed batch unpacks to (CMP-10, HDR-18, REC-08); its heap does.  The numbers
here are about what a heap of half a GiB to one GiB can hold, and they keep
`append` itself within bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.releases import Behaviour

MOST_BODY_BYTES: Final = 5 * 2**26
MOST_RECORDS: Final = 2**20
# Of a record of which only the outline is kept, and of its headers, which are only skipped.
MOST_OUTLINES: Final = 2**22
MOST_HEADERS: Final = 2**21


def check_room(count: int, most: int) -> None:
    """HDR-18: so many are too many for the heap."""
    if count > most:
        raise Thrown("OutOfMemoryError", "HDR-18")


def check_sizes(batches: Sequence[Entry], config: TopicConfig, does: Behaviour, rule: str) -> None:
    """SIZ-01, SIZ-04: each batch against max.message.bytes."""
    if any(len(batch.data) > config.largest_batch(does) for batch in batches):
        raise Thrown("RecordTooLargeException", rule)


def check_segment(data: bytes, config: TopicConfig) -> None:
    """SIZ-06: what is appended against segment.bytes."""
    if len(data) > config.segment_bytes:
        raise Thrown("RecordBatchTooLargeException", "SIZ-06")
