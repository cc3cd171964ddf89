"""Sizes that a topic allows, and a broker's memory.

Kafka bounds neither the length of a record nor the number of records that a
compressed batch unpacks to (CMP-10, HDR-18, REC-08); its heap does.  `Room` is
what keeps `append` itself within bounds, at the prices of `budget`: 320 MiB, or
2**20 records of nothing.  A broker's heap of half a GiB was seen to hold six
times as many of those, so a batch of millions may be taken that is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.releases import Behaviour

HEAP: Final = 5 * 2**26
# The largest array that such a heap was seen to give, more or less: 240 MiB.
LARGEST_ARRAY: Final = 15 * 2**24


class Room:
    """Heap that is left while a partition's records are gathered.

    Attributes:
        left: bytes.
    """

    def __init__(self, left: int = HEAP) -> None:
        self.left = left

    def take(self, size: int, rule: str) -> None:
        """Make room for *size* bytes.

        Raises:
            Thrown: there is none; *rule* is the rule that needs it.
        """
        if size > min(self.left, LARGEST_ARRAY):
            raise Thrown("OutOfMemoryError", rule)
        self.left -= size


def check_sizes(batches: Sequence[Entry], config: TopicConfig, does: Behaviour, rule: str) -> None:
    """SIZ-01, SIZ-04: each batch against max.message.bytes."""
    if any(len(batch.data) > config.largest_batch(does) for batch in batches):
        raise Thrown("RecordTooLargeException", rule)


def check_segment(data: bytes, config: TopicConfig) -> None:
    """SIZ-06: the appended bytes against segment.bytes."""
    if len(data) > config.segment_bytes:
        raise Thrown("RecordBatchTooLargeException", "SIZ-06")
